//! Players by WHEP of a publisher by RTMP over an upgrade: pictures, numbers and times go on, whichever
//! process has them in the end.

use std::collections::HashMap;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtp::depacketize::Depacketizer;
use rtp::payload::Codec;

use crate::common::bridge::LivePublisher;
use crate::common::eventually;
use crate::common::flv::{is_frame, sample_tags};
use crate::common::rtc::{Client, OPUS, VP8};
use crate::common::server::Server;
use crate::upgrade::{StandIn, Successor, ask, assert_not_taken_over, serving, upgrade};
use rtmp::MediaKind;

/// A packet that a player has got.
struct Got {
    sequence_number: u16,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

/// A player, and all that it has got since it began.
struct Viewer {
    client: Client,
    video: Vec<Got>,
    audio: Vec<Got>,
}

impl Viewer {
    fn begin(server: &Server) -> Self {
        Self { client: Client::play_h264(server, "live/mill"), video: Vec::new(), audio: Vec::new() }
    }

    fn take(&mut self) {
        self.client.turn();
        for packet in self.client.media.drain(..) {
            let packet = rtp::Packet::parse(&packet).expect("RTP");
            let got = Got {
                sequence_number: packet.sequence_number(),
                timestamp: packet.timestamp(),
                marker: packet.marker(),
                payload: packet.payload().to_vec(),
            };
            match packet.payload_type() {
                VP8 => self.video.push(got),
                OPUS => self.audio.push(got),
                _ => {}
            }
        }
    }

    /// What it begins with, from the cache, does not keep to the times of the film.
    fn forget_beginning(&mut self) {
        let last = self.video.iter().rposition(|got| got.marker).expect("a picture");
        self.video.drain(..=last);
        self.audio.clear();
    }

    /// Pictures that it has got, by their places in the film.
    fn pictures(&self, film: &HashMap<Vec<u8>, usize>) -> Vec<usize> {
        let mut depacketizer = Depacketizer::new(Codec::H264);
        let mut pictures = Vec::new();
        for got in self.video.iter().filter(|got| !got.payload.is_empty()) {
            depacketizer.push(&got.payload).expect("H.264");
            if got.marker {
                let picture = depacketizer.finish().expect("a picture");
                pictures.push(film[&slices(&picture)]);
            }
        }
        pictures
    }
}

/// What is coded of a picture, behind lengths of four bytes.
fn slices(mut picture: &[u8]) -> Vec<u8> {
    let mut slices = Vec::new();
    while let Some((length, rest)) = picture.split_first_chunk() {
        let (unit, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        if matches!(unit[0] & 0x1f, 1 | 5) {
            slices.extend_from_slice(unit);
        }
        picture = rest;
    }
    slices
}

/// A publisher of the sample film, again and again, and players.
struct Show {
    _publisher: LivePublisher,
    film: HashMap<Vec<u8>, usize>,
    viewers: Vec<Viewer>,
}

impl Show {
    /// With so many players, who have sound and pictures.
    fn begin(server: &Server, viewers: usize) -> Self {
        let tags = sample_tags();
        let pictures = tags.iter().filter(|tag| is_frame(tag) && tag.kind == MediaKind::Video);
        let film: HashMap<_, _> =
            pictures.enumerate().map(|(at, tag)| (slices(&tag.body[5..]), at)).collect();
        assert_eq!(film.len(), 250, "each picture is another one");
        let publisher = LivePublisher::start(server.rtmp, "live/mill", tags);
        let viewers = (0..viewers).map(|_| Viewer::begin(server)).collect();
        let mut show = Self { _publisher: publisher, film, viewers };
        show.play_on(|| ());
        show.viewers.iter_mut().for_each(Viewer::forget_beginning);
        show
    }

    /// Plays while `meanwhile` runs, and then two seconds of the film more.
    fn play_on<T: Send>(&mut self, meanwhile: impl FnOnce() -> T + Send) -> T {
        let result = std::thread::scope(|scope| {
            let meanwhile = scope.spawn(meanwhile);
            while !meanwhile.is_finished() {
                self.turn();
            }
            meanwhile.join().expect("no panic")
        });
        let counts = |show: &Self| -> Vec<_> {
            show.viewers.iter().map(|viewer| (viewer.video.len(), viewer.audio.len())).collect()
        };
        let begin = counts(self);
        eventually("all have more sound and pictures", || {
            self.turn();
            let mut both = counts(self).into_iter().zip(&begin);
            let has_more = |(now, begin): ((usize, usize), &(usize, usize))| {
                now.0 > begin.0 + 100 && now.1 > begin.1 + 100
            };
            both.all(has_more).then_some(())
        });
        result
    }

    fn turn(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(5));
        self.viewers.iter_mut().for_each(Viewer::take);
    }

    /// Every player has had each picture once, under numbers without a gap, and at the times
    /// of the film.
    fn assert_whole(&self) {
        for viewer in &self.viewers {
            let client = &viewer.client;
            assert_eq!((client.bad, client.closed, &client.failed), (0, false, &None));
            for got in [&viewer.video, &viewer.audio] {
                let is_next = |pair: &[Got]| {
                    let goes_on = pair[1].timestamp.wrapping_sub(pair[0].timestamp) < 1 << 31;
                    pair[1].sequence_number == pair[0].sequence_number.wrapping_add(1) && goes_on
                };
                let odd = got.windows(2).position(|pair| !is_next(pair));
                let shown = |at: usize| {
                    let about = &got[at.saturating_sub(3)..got.len().min(at + 5)];
                    about.iter().map(|got| (got.sequence_number, got.timestamp)).collect::<Vec<_>>()
                };
                assert!(odd.is_none(), "packet {odd:?} of {}: {:?}", got.len(), odd.map(shown));
            }
            let pictures = viewer.pictures(&self.film);
            let odd = pictures.windows(2).position(|pair| pair[1] != (pair[0] + 1) % 250);
            assert!(odd.is_none(), "from {odd:?} on: {pictures:?}");
            let ends = viewer.video.iter().filter(|got| got.marker).map(|got| got.timestamp);
            let times: Vec<_> = ends.zip(&pictures).collect();
            // 25 a second; the film begins again 88 ms after its last picture.
            let is_even = |pair: &&[(u32, &usize)]| {
                let step = pair[1].0.wrapping_sub(pair[0].0);
                let expected = if *pair[1].1 == 0 { 7_920 } else { 3_600 };
                step.abs_diff(expected) <= 500
            };
            let odd: Vec<_> = times.windows(2).filter(|pair| !is_even(pair)).collect();
            assert!(odd.is_empty(), "steps of time: {odd:?}");
        }
    }
}

#[test]
fn players_of_frames_by_webrtc_go_on_over_two_upgrades() {
    let mut server = Server::spawn_workers(2, "");
    let mut show = Show::begin(&server, 4);
    let mut homes: Vec<_> =
        server.sessions("role=player").iter().map(|one| one["worker"].to_string()).collect();
    homes.sort();
    homes.dedup();
    assert_eq!(homes.len(), 2, "each worker has viewers");
    let first = show.play_on(|| upgrade(&mut server));
    show.assert_whole();
    let second = show.play_on(|| {
        kill(first.pid(), Signal::SIGUSR2).expect("it runs");
        eventually("another serves, and the first has ended", || {
            let second = serving(&server).filter(|pid| *pid != i64::from(first.pid().as_raw()))?;
            kill(first.pid(), None).is_err().then_some(second)
        })
    });
    let new = Successor(Pid::from_raw(second as i32));
    show.assert_whole();
    // Who comes now sees the same bridge.
    show.viewers.push(Viewer::begin(&server));
    show.play_on(|| ());
    show.viewers.last_mut().expect("it").forget_beginning();
    show.play_on(|| ());
    show.assert_whole();
    assert!(show.viewers.iter().all(|viewer| viewer.client.delete() == 200));
    new.end();
}

#[test]
fn players_of_frames_by_webrtc_go_on_when_no_process_takes_over() {
    let server = Server::spawn_workers(2, "");
    let mut show = Show::begin(&server, 2);
    std::fs::write(server.dir.path().join("millstream.toml"), "[no_such_section]\n").expect("written");
    assert_eq!(show.play_on(|| ask(&server).status), 409);
    show.assert_whole();
}

/// It hears all of them, and ends; the second one does so when it has said that it has them.
#[test]
fn players_of_frames_by_webrtc_go_on_when_the_other_process_ends_in_the_middle() {
    let (program, server) = StandIn::serve(4, 2);
    let mut show = Show::begin(&server, 2);
    show.play_on(|| assert_not_taken_over(&server));
    show.assert_whole();
    let sessions = server.sessions("");
    assert_eq!(sessions.len(), 3);
    program.says_that_it_has(&sessions);
    show.play_on(|| assert_not_taken_over(&server));
    show.assert_whole();
}
