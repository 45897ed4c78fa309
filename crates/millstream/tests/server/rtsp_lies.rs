//! Cameras by RTSP whose description is not true of their media, and those that stop and go on: what they
//! send is played as far as it can be, and nothing else is disturbed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ::media::{Frame, MediaKind};

use crate::common::beside::Beside;
use crate::common::server::Server;
use crate::doors_matrix::film::{self, Film};
use crate::doors_matrix::players::Player;
use crate::doors_matrix::publishers::{RtspPublisher, in_time};

/// A description with something else between `from` and the next end of a value.
fn with(text: &str, from: &str, value: &str) -> String {
    let (ahead, behind) = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}"));
    let end = behind.find([';', '\r', '/']).expect("the end of a value");
    format!("{ahead}{from}{value}{}", &behind[end..])
}

/// Makes a description say something else.
type Lie = fn(&str) -> String;

/// What a description says: none of it is what comes.
const LIES: [(&str, Lie); 12] = [
    ("pictures at a clock rate of 8000", |text| with(text, "H264/", "8000")),
    ("pictures at a clock rate of 1000000", |text| with(text, "H264/", "1000000")),
    ("audio at a clock rate of 8000", |text| with(text, "MPEG4-GENERIC/", "8000")),
    ("audio at a clock rate of 96000", |text| with(text, "MPEG4-GENERIC/", "96000")),
    ("255 channels", |text| with(text, "MPEG4-GENERIC/44100/", "255")),
    ("AAC of one channel at 8000 Hz", |text| with(text, "config=", "1588")),
    ("1000 pictures a second", |text| text.replace("a=rtpmap:96", "a=framerate:1000\r\na=rtpmap:96")),
    ("parameter sets of other pictures", |text| {
        with(text, "sprop-parameter-sets=", "Z0IAKeKQFAe2AtwEBAaQeJEV,aM48gA==")
    }),
    ("parameter sets that are none", |text| with(text, "sprop-parameter-sets=", "AAAA,/////w==,%%")),
    ("no parameter sets", |text| with(text, "sprop-parameter-sets=", "")),
    ("another profile and level", |text| with(text, "profile-level-id=", "ffffff")),
    (SWAPPED, |text| text.replace("96", "x").replace("97", "96").replace('x', "97")),
];

const SWAPPED: &str = "audio for pictures, and pictures for audio";

/// Of a player: frames of video and audio, and for how long they last, milliseconds.
fn measured(frames: &[Frame], kind: MediaKind) -> (usize, i64) {
    let mut times = frames.iter().filter(|frame| frame.track.kind == kind && film::is_media(frame));
    let first = times.next();
    let last = times.next_back().or(first);
    let count = frames.iter().filter(|frame| frame.track.kind == kind && film::is_media(frame)).count();
    (count, first.zip(last).map_or(0, |(first, last)| last.dts.millis() - first.dts.millis()))
}

#[test]
fn descriptions_that_are_not_true_disturb_nothing() {
    let mut server = Server::start_workers(2, "");
    let beside = Beside::start(&server);
    let mut film = Film::h264_aac();
    film.frames.retain(|frame| frame.dts.millis() < 4_000);
    let over = AtomicBool::new(false);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let (server, film, over) = (&server, &film, &over);
        let publishing: Vec<_> = LIES
            .iter()
            .enumerate()
            .map(|(at, (what, change))| {
                let stream = format!("live/lie{at}");
                scope.spawn(move || {
                    let opened = RtspPublisher::open(server, &stream, film, false, |text| change(&text));
                    let mut publisher = match opened {
                        Ok(publisher) => publisher,
                        Err(code) => return (what, Err(code)),
                    };
                    let name = stream.clone();
                    let playing = scope.spawn(move || Player::Rtmp.play(server, &name, over));
                    server.wait_for_players(&stream, 1);
                    in_time(film, || {}, |frame| publisher.send(frame, |_, _, _| {}));
                    publisher.end();
                    (what, Ok(playing))
                })
            })
            .collect();
        let published: Vec<_> = publishing.into_iter().map(|it| it.join().expect("it is served")).collect();
        thread::sleep(Duration::from_millis(500));
        over.store(true, Ordering::Relaxed);
        published
            .into_iter()
            .map(|(what, played)| (what, played.map(|it| it.join().expect("it plays"))))
            .collect()
    });
    for (what, outcome) in &outcomes {
        let frames = outcome.as_ref().unwrap_or_else(|code| panic!("{what}: refused with {code}"));
        let [video, audio] = [MediaKind::Video, MediaKind::Audio].map(|kind| measured(frames, kind));
        println!("{what}: video {video:?}, audio {audio:?}");
        // What says another codec for each is nothing that could be read.
        if **what == SWAPPED {
            continue;
        }
        assert!(video.0 >= 95 && audio.0 >= 160, "{what}: {video:?} {audio:?}");
        for (kind, (_, length_ms)) in [("video", video), ("audio", audio)] {
            assert!((3_600..4_200).contains(&length_ms), "{what}: {kind} lasts {length_ms} ms");
        }
    }
    beside.finish();
    server.assert_healthy();
}

/// By how much times of a track are later than the film's, in the middle, from a time of the film on.
fn later(frames: &[Frame], film: &Film, kind: MediaKind, from_ms: i64) -> i64 {
    let of_kind = |frame: &&Frame| frame.track.kind == kind && film::is_media(frame);
    let sent: Vec<&Frame> = film.frames.iter().filter(of_kind).collect();
    let mut later: Vec<i64> = frames
        .iter()
        .filter(of_kind)
        .filter_map(|got| {
            let is_same = |sent: &&&Frame| film::unit(sent, false) == film::unit(got, false);
            let sent = sent.iter().find(is_same)?;
            (sent.dts.millis() >= from_ms).then(|| got.pts.millis() - sent.pts.millis())
        })
        .collect();
    later.sort_unstable();
    *later.get(later.len() / 2).unwrap_or_else(|| panic!("{kind:?} of what follows the pause"))
}

/// Cameras whose link breaks for a while: with a clock that stands still meanwhile, or goes on.
#[test]
fn a_publisher_that_stops_and_goes_on_is_the_same_stream_in_sync() {
    const PAUSE: Duration = Duration::from_millis(2_500);
    const UNTIL_MS: i64 = 3_000;
    let mut server = Server::start_workers(2, "");
    let beside = Beside::start(&server);
    let film = Film::h264_aac();
    let over = AtomicBool::new(false);
    for clock_goes_on in [false, true] {
        let stream = format!("live/stops{}", u8::from(clock_goes_on));
        let frames = thread::scope(|scope| {
            let mut publisher =
                RtspPublisher::open(&server, &stream, &film, false, |text| text).expect("it is taken");
            let playing = scope.spawn(|| Player::Rtmp.play(&server, &stream, &over));
            server.wait_for_players(&stream, 1);
            let (mut ahead, mut behind) = (film.clone(), film.clone());
            ahead.frames.retain(|frame| frame.dts.millis() < UNTIL_MS);
            behind.frames.retain(|frame| film::is_media(frame) && frame.dts.millis() >= UNTIL_MS);
            in_time(&ahead, || {}, |frame| publisher.send(frame, |_, _, _| {}));
            thread::sleep(PAUSE);
            // In time from here on.
            let shift = ::media::Timestamp::from_millis(UNTIL_MS);
            behind.frames.iter_mut().for_each(|frame| {
                let times = (frame.dts - shift, frame.pts - shift);
                *frame = Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec());
            });
            let pause = ::media::Timestamp::from_millis(PAUSE.as_millis() as i64);
            let back = if clock_goes_on { shift + pause } else { shift };
            in_time(
                &behind,
                || {},
                |frame| {
                    let times = (frame.dts + back, frame.pts + back);
                    let frame =
                        Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec());
                    publisher.send(&frame, |_, _, _| {});
                },
            );
            thread::sleep(Duration::from_millis(500));
            assert_eq!(server.sessions(&format!("stream={stream}&role=publisher")).len(), 1);
            publisher.end();
            over.store(true, Ordering::Relaxed);
            playing.join().expect("it plays")
        });
        over.store(false, Ordering::Relaxed);
        for kind in [MediaKind::Video, MediaKind::Audio] {
            let times: Vec<i64> = frames
                .iter()
                .filter(|frame| frame.track.kind == kind && film::is_media(frame))
                .map(|frame| frame.dts.millis())
                .collect();
            assert!(times.is_sorted(), "{kind:?} never goes back");
            println!("{stream}: {} of {kind:?}", times.len());
        }
        for from_ms in [0, UNTIL_MS] {
            let [video, audio] =
                [MediaKind::Video, MediaKind::Audio].map(|kind| later(&frames, &film, kind, from_ms));
            println!("{stream}: from {from_ms} ms on video is {video} ms later, and audio {audio} ms");
            assert!((video - audio).abs() <= 20, "audio is {} ms from its picture", audio - video);
        }
    }
    beside.finish();
    server.assert_healthy();
}
