//! Links that are slower than what they have to carry.

use media::{FrameRole, TrackId};
use node_link::{Event, FetchId, ServeId};

use crate::pair::{Pair, frame, ms};

/// 25 pictures a second, a key frame every two seconds, and audio.
struct Stream {
    fetched: FetchId,
    served: ServeId,
    bytes: usize,
    pictures: usize,
    key_frames: usize,
    audio: usize,
    missed: u32,
    /// How old the oldest frame was when it came.
    behind_ms: u64,
}

impl Stream {
    fn new(pair: &mut Pair, name: &str, bits_per_second: usize) -> Self {
        let (fetched, served) = pair.fetch(name);
        let bytes = bits_per_second / 8 / 25;
        Self { fetched, served, bytes, pictures: 0, key_frames: 0, audio: 0, missed: 0, behind_ms: 0 }
    }

    fn send(&self, pair: &mut Pair, number: u64) {
        let at = pair.now.as_millis() as i64;
        // A key frame has a tenth of its group's bytes, as a picture of little motion has.
        let (role, bytes) = match number % 50 {
            0 => (FrameRole::Key, self.bytes * 5),
            _ => (FrameRole::Inter, self.bytes * 45 / 49),
        };
        pair.listener.link.send(pair.now, self.served, frame(TrackId::VIDEO, role, at, bytes));
        pair.listener.link.send(pair.now, self.served, frame(TrackId::AUDIO, FrameRole::Audio, at, 200));
    }

    fn receive(&mut self, pair: &mut Pair) {
        for frame in pair.dialer.take_frames(self.fetched) {
            let behind = pair.now.as_millis() as u64 - frame.dts.millis().unsigned_abs();
            self.behind_ms = self.behind_ms.max(behind);
            match frame.role {
                FrameRole::Audio => self.audio += 1,
                role => {
                    self.pictures += 1;
                    self.key_frames += usize::from(role == FrameRole::Key);
                }
            }
        }
        pair.dialer.events.retain(|event| match event {
            Event::Gap(of, frames) if *of == self.fetched => {
                self.missed += frames;
                false
            }
            _ => true,
        });
    }
}

#[test]
fn a_link_of_half_the_rate_stays_near_live_and_disturbs_no_other_stream() {
    let mut pair = Pair::up();
    let mut large = Stream::new(&mut pair, "live/large", 2_500_000);
    let mut small = Stream::new(&mut pair, "live/small", 300_000);
    pair.rate = 1_250_000 / 8 + 400_000 / 8;
    for number in 0..25 * 60 {
        large.send(&mut pair, number);
        small.send(&mut pair, number);
        pair.run(ms(40));
        large.receive(&mut pair);
        small.receive(&mut pair);
    }
    assert!(large.behind_ms < 2_000, "{} ms behind", large.behind_ms);
    assert!(large.key_frames >= 28, "{} of 30 key frames", large.key_frames);
    assert!((500..1_000).contains(&large.pictures), "{} of 1500 pictures", large.pictures);
    assert!(large.audio >= 1_440, "{} of 1500 frames of audio", large.audio);
    assert!(large.missed > 0, "it says what it left out");
    assert_eq!((small.pictures, small.audio, small.missed), (1_500, 1_500, 0));
    assert!(small.behind_ms < 300, "{} ms behind", small.behind_ms);
}

#[test]
fn a_link_that_recovers_carries_everything_again() {
    let mut pair = Pair::up();
    let mut stream = Stream::new(&mut pair, "live/a", 2_500_000);
    pair.rate = 50_000;
    for number in 0..25 * 10 {
        stream.send(&mut pair, number);
        pair.run(ms(40));
        stream.receive(&mut pair);
    }
    pair.rate = 1_000_000;
    for number in 250..300 {
        stream.send(&mut pair, number);
        pair.run(ms(40));
        stream.receive(&mut pair);
    }
    let missed = stream.missed;
    (stream.pictures, stream.behind_ms) = (0, 0);
    for number in 300..600 {
        stream.send(&mut pair, number);
        pair.run(ms(40));
        stream.receive(&mut pair);
    }
    assert_eq!((stream.pictures, stream.missed), (300, missed));
    assert!(stream.behind_ms < 200, "{} ms behind", stream.behind_ms);
}

#[test]
fn a_slow_link_that_stalls_is_not_taken_for_a_dead_one() {
    let mut pair = Pair::up();
    let mut stream = Stream::new(&mut pair, "live/a", 600_000);
    for number in 0..25 * 20 {
        // Half the rate; one write takes a second and a half in the end.
        pair.rate = if number < 25 * 18 { 300_000 / 8 } else { 5_300 };
        stream.send(&mut pair, number);
        pair.run(ms(40));
        stream.receive(&mut pair);
    }
    assert!(stream.missed > 0);
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
}

#[test]
fn two_streams_of_one_rate_get_equal_shares() {
    let mut pair = Pair::up();
    let mut streams = ["live/a", "live/b", "live/c"].map(|name| Stream::new(&mut pair, name, 1_000_000));
    pair.rate = 1_500_000 / 8;
    for number in 0..25 * 40 {
        for stream in &mut streams {
            stream.send(&mut pair, number);
        }
        pair.run(ms(40));
        for stream in &mut streams {
            stream.receive(&mut pair);
        }
    }
    let pictures = streams.each_ref().map(|stream| stream.pictures);
    let (least, most) = (pictures.iter().min().unwrap(), pictures.iter().max().unwrap());
    assert!(least * 4 > most * 3, "{pictures:?}");
    assert!(streams.iter().all(|stream| stream.behind_ms < 2_000));
}

/// A node begins with a group of pictures but its last five, and then gets a group of live ones. Says how many
/// pictures came, and how many were left out.
fn join(bits_per_second: usize, group: i64, link_bits_per_second: u64) -> (i64, i64) {
    let mut pair = Pair::up();
    let (fetched, served) = pair.fetch("live/a");
    pair.rate = link_bits_per_second / 8;
    let picture = |number: i64| {
        let bytes = bits_per_second / 8 / 25;
        let (role, bytes) =
            if number % group == 0 { (FrameRole::Key, bytes * 5) } else { (FrameRole::Inter, bytes) };
        frame(TrackId::VIDEO, role, number * 40, bytes)
    };
    let (mut came, mut missed) = (0, 0);
    for number in 0..group - 5 {
        pair.listener.link.send(pair.now, served, picture(number));
    }
    for number in group - 5..group * 3 {
        pair.run(ms(40));
        pair.listener.link.send(pair.now, served, picture(number));
        came += pair.dialer.take_frames(fetched).len() as i64;
        for event in pair.dialer.events.drain(..) {
            missed += if let Event::Gap(_, frames) = event { i64::from(frames) } else { 0 };
        }
    }
    (came, missed)
}

#[test]
fn a_node_that_begins_misses_nothing_over_a_link_of_twice_the_rate() {
    // (bit/s, pictures in a group, bit/s of the link)
    for (rate, group, link) in [
        (2_500_000, 50, 5_500_000),
        (2_500_000, 250, 5_500_000),
        (2_500_000, 250, 20_000_000),
        (2_500_000, 250, 100_000_000),
    ] {
        let (came, missed) = join(rate, group, link);
        assert_eq!(missed, 0, "{link} bit/s, groups of {group}");
        assert!(came > group * 3 - 20, "{link} bit/s, groups of {group}: {came} came");
    }
    let (came, missed) = join(2_500_000, 250, 1_250_000);
    assert!(missed > 250 && came < 500, "half the rate: {came} came, {missed} missed");
}
