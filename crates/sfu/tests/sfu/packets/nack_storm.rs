//! A viewer that asks for everything, 180 times a second: in any 3 s it is sent at most 1.3 times its media.

use std::collections::BTreeMap;
use std::time::Duration;

use rtp::rtcp::Nack;
use rtp::rtx;

use crate::packets::common::{Got, World, part, rtx_ssrc, video_ssrc, written};

const WINDOW: Duration = Duration::from_secs(3);
const FRAME: Duration = Duration::from_millis(40);
/// Between two requests of the storm.
const STORM: Duration = Duration::from_micros(1_000_000 / 180);
/// Packets that each request names: the newest.
const NAMED: u16 = 136;
const PAYLOAD_MAX: usize = 1_160;

/// What is published: frames of 25 a second.
#[derive(Clone, Copy, Debug)]
struct Media {
    bits_per_second: usize,
    /// Frames from one key frame to the next.
    gop: usize,
    /// How much larger a key frame is than the others.
    key_frame: usize,
}

/// Bytes and when they were sent: media, and packets sent again with their original numbers.
#[derive(Default)]
struct Sent {
    media: Vec<(Duration, usize)>,
    resent: Vec<(Duration, usize)>,
    /// Original numbers of `resent`.
    numbers: Vec<u16>,
}

/// Publishes `media` for `duration` but in `pauses`, to a viewer that storms from when it joins,
/// `joins` after the start.
fn storm(media: Media, duration: Duration, joins: Duration, pauses: &[std::ops::Range<u64>]) -> Sent {
    let mut world = World::published();
    let start = world.now;
    let mut id = None;
    let mut sent = Sent::default();
    let (mut sequence_number, mut frames, mut next_frame, mut next_storm) = (0u16, 0, start, start);
    // A group is one large frame and `gop - 1` others, at this rate.
    let group = media.bits_per_second / 8 * media.gop / 25;
    let other = group / (media.gop - 1 + media.key_frame);
    while world.now < start + duration {
        let now = world.now;
        if id.is_none() && now >= start + joins {
            id = Some(world.join(1));
        }
        if next_frame <= now {
            next_frame += FRAME;
            let at = (now - start).as_secs();
            if !pauses.iter().any(|pause| pause.contains(&at)) {
                let is_key = frames % media.gop == 0;
                let mut left = if is_key { other * media.key_frame } else { other };
                let timestamp = ((now - start).as_millis() * 90) as u32;
                while left > 0 {
                    let len = left.min(PAYLOAD_MAX);
                    left -= len;
                    let mut packet = part(sequence_number, timestamp, is_key, left == 0);
                    packet.payload.resize(len.max(8), 3);
                    sequence_number = sequence_number.wrapping_add(1);
                    world.receive(&packet).expect("a packet of the publisher");
                }
                frames += 1;
            }
        }
        if let Some(id) = id.filter(|_| next_storm <= now) {
            next_storm = now + STORM;
            if let Some(newest) = world.video(1).last().map(Got::number) {
                let named: Vec<u16> = (0..NAMED).map(|back| newest.wrapping_sub(NAMED - 1 - back)).collect();
                let ssrc = video_ssrc(1);
                for resend in world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, ssrc, &named)) {
                    let bytes = written(&resend);
                    let packet = rtp::Packet::parse(&bytes).expect("RTP");
                    assert_eq!(packet.ssrc(), rtx_ssrc(1));
                    let (number, _) = rtx::unwrap(packet.payload()).expect("a retransmission");
                    sent.resent.push((now - start, bytes.len()));
                    sent.numbers.push(number);
                }
            }
        }
        let next = if id.is_some() { next_frame.min(next_storm) } else { next_frame };
        world.wait(next.saturating_duration_since(now).max(Duration::from_millis(1)));
    }
    sent.media = world.video(1).iter().map(|got| (got.at - start, got.bytes.len())).collect();
    sent
}

/// Bytes within 3 s from `from` on, of packets in order.
fn within(sent: &[(Duration, usize)], from: Duration) -> usize {
    let begin = sent.partition_point(|sent| sent.0 < from);
    sent[begin..].iter().take_while(|sent| sent.0 < from + WINDOW).map(|sent| sent.1).sum()
}

impl Sent {
    /// The largest part of its media that was sent again in any 3 s which `counts`: by their
    /// beginning and their bytes of media. They begin where a packet was sent, and behind it.
    fn worst(&self, counts: impl Fn(Duration, usize) -> bool) -> (f64, Duration) {
        let end = self.media.last().expect("media").0;
        let starts = self.media.iter().map(|sent| sent.0).chain(self.resent.iter().map(|sent| sent.0));
        let starts = starts.flat_map(|at| [at, at + Duration::from_micros(1)]);
        let ratios = starts.filter(|at| *at + WINDOW <= end).filter_map(|from| {
            let media = within(&self.media, from);
            let resent = within(&self.resent, from);
            counts(from, media).then(|| (resent as f64 / media as f64, from))
        });
        ratios.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a window")
    }

    /// The same over all.
    fn total(&self) -> f64 {
        let media: usize = self.media.iter().map(|sent| sent.1).sum();
        let resent: usize = self.resent.iter().map(|sent| sent.1).sum();
        resent as f64 / media as f64
    }

    /// The shortest time between two retransmissions of one packet.
    fn repeats_after(&self) -> Duration {
        let mut last = BTreeMap::new();
        let resent = self.resent.iter().zip(&self.numbers);
        let times = resent.filter_map(|((at, _), number)| Some(*at - last.insert(*number, *at)?));
        times.min().unwrap_or(Duration::MAX)
    }
}

const RATES: [usize; 4] = [200_000, 600_000, 2_000_000, 6_000_000];

fn check(what: &str, media: Media, sent: &Sent, limit: f64, counts: impl Fn(Duration, usize) -> bool) {
    let (worst, at) = sent.worst(counts);
    println!("{what}, {media:?}: {worst:.3} of the media at {at:?}, {:.3} in all", sent.total());
    assert!(
        worst <= limit,
        "{what}, {media:?}: {worst:.3} of the media was sent again in 3 s from {at:?} on"
    );
    // 50 ms are assumed, and 7/8 of them kept.
    let repeats = sent.repeats_after();
    assert!(repeats >= Duration::from_millis(43), "{what}, {media:?}: the same packet {repeats:?} later");
}

#[test]
fn no_3_s_have_more_than_1_3_times_their_media() {
    for bits_per_second in RATES {
        for (gop, key_frame) in [(25, 1), (25, 8), (50, 20), (75, 10), (250, 40)] {
            let media = Media { bits_per_second, gop, key_frame };
            let sent = storm(media, Duration::from_secs(25), Duration::ZERO, &[]);
            check("from the start", media, &sent, 0.3, |_, _| true);
            assert!(sent.total() > 0.15, "{media:?}: no storm, {:.3}", sent.total());
        }
    }
}

#[test]
fn nor_when_the_viewer_joins_later() {
    for bits_per_second in RATES {
        for joins in [1_300, 7_700] {
            let media = Media { bits_per_second, gop: 100, key_frame: 15 };
            let sent = storm(media, Duration::from_secs(20), Duration::from_millis(joins), &[]);
            check("joined later", media, &sent, 0.3, |_, _| true);
        }
    }
}

#[test]
fn nor_around_pauses() {
    for bits_per_second in RATES {
        let media = Media { bits_per_second, gop: 50, key_frame: 10 };
        let pauses = [6..8, 12..20, 23..24];
        let sent = storm(media, Duration::from_secs(32), Duration::ZERO, &pauses);
        // What was sent again ahead of a pause may have been paid by a key frame that is not in the window.
        let holds_pause = |from: Duration| {
            let pause = |pause: &std::ops::Range<u64>| {
                from < Duration::from_secs(pause.end) && from + WINDOW > Duration::from_secs(pause.start)
            };
            pauses.iter().any(pause)
        };
        check("between pauses", media, &sent, 0.3, |from, _| !holds_pause(from));
        check("around pauses", media, &sent, 0.33, |_, bytes| bytes >= bits_per_second / 8);
    }
}
