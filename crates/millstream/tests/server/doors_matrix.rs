//! Every door in, every door out: what is published by one plays unchanged, and in time, at all others.
//!
//! A film is sent in real time by RTMP, SRT, RTSP, MPEG-TS over UDP or WHIP, and played meanwhile by every
//! protocol. Access units are the same bytes; times are the film's up to a constant, the same for audio and
//! video. Each test prints its row: frames of video and audio, how far the times of a track are from the
//! film's, and audio and video from each other.
//!
//! Parameter sets and delimiters are no part of the comparison: transport streams and RTP have to add them.
#![expect(clippy::disallowed_methods, reason = "clients in real time read the clock")]

pub(crate) mod film;
mod pcr;
pub(crate) mod players;
pub(crate) mod publishers;

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use media::{Codec, Frame, MediaKind};

use film::Film;
use players::{Player, PushedBy};
use publishers::{LOSSY_LATENCY_MS, Publisher};

/// What a player got, compared with the film.
#[derive(Debug)]
struct Cell {
    /// Access units that are the film's, in one run; `None` if the codec is another, as after transcoding.
    video: Option<usize>,
    audio: Option<usize>,
    /// The most that times of one track are off from their first, microseconds.
    off_us: i64,
    /// The most that the time between a picture's decoding and its showing is off from the film's.
    decoding_us: i64,
    /// How much further audio is from video than in the film.
    apart_us: Option<i64>,
}

/// Publishes `film` by one door, plays it by all of `players`, and prints and checks the row.
fn row(publisher: Publisher, film: &Film, players: &[Player]) -> Vec<(Player, Cell)> {
    row_without_audio(publisher, film, players, &[])
}

/// The same, where some players get no audio, because their doors do not carry its codec.
fn row_without_audio(
    publisher: Publisher,
    film: &Film,
    players: &[Player],
    without_audio: &[Player],
) -> Vec<(Player, Cell)> {
    let (server, pulled) = publisher.server();
    let over = AtomicBool::new(false);
    let cells: Vec<(Player, Result<Cell, String>)> = thread::scope(|scope| {
        let (server, over) = (&server, &over);
        let running: Vec<_> = players
            .iter()
            .map(|&player| (player, scope.spawn(move || player.play(server, "live/film", over))))
            .collect();
        let at_the_end = Over(over);
        publisher.publish(server, "live/film", film, pulled);
        // Players have what is on its way.
        let by_lossy_network = players.contains(&Player::SrtLossy);
        let latency_ms = if by_lossy_network { LOSSY_LATENCY_MS } else { 0 };
        thread::sleep(Duration::from_millis(700 + u64::from(latency_ms)));
        drop(at_the_end);
        let compared = |player, frames: thread::Result<Vec<Frame>>| match frames {
            Ok(frames) => {
                let has_audio = !without_audio.contains(&player);
                (player, compare((publisher, player), &frames, film, has_audio))
            }
            Err(_) => (player, Err("the player panicked".to_owned())),
        };
        running.into_iter().map(|(player, thread)| compared(player, thread.join())).collect()
    });
    let mut text = String::new();
    for (player, cell) in &cells {
        match cell {
            Ok(cell) => writeln!(
                text,
                "{publisher:?} -> {player:?}: video {}, audio {}, off {} us, decoding off {} us, apart {}",
                cell.video.map_or("other or none".to_owned(), |count| count.to_string()),
                cell.audio.map_or("other or none".to_owned(), |count| count.to_string()),
                cell.off_us,
                cell.decoding_us,
                cell.apart_us.map_or("-".to_owned(), |us| format!("{us} us")),
            ),
            Err(reason) => writeln!(text, "{publisher:?} -> {player:?}: BROKEN: {reason}"),
        }
        .expect("text takes text");
    }
    println!("{text}");
    let bad = |player: Player, cell: &Cell| {
        let by_rtp = publisher.is_rtp() || player.is_rtsp();
        let off_us_max = if by_rtp || player.is_webrtc() { OFF_BY_RTP_US_MAX } else { OFF_US_MAX };
        let decoding_us_max = if by_rtp { DECODING_BY_RTP_US_MAX } else { DECODING_US_MAX };
        let apart_us_max = if player.is_webrtc() { APART_BY_WEBRTC_US_MAX } else { APART_US_MAX };
        cell.off_us > off_us_max
            || cell.decoding_us > decoding_us_max
            || cell.apart_us.is_some_and(|us| us.abs() > apart_us_max)
            || cell.video.is_some_and(|count| count < FRAMES_MIN)
            || cell.audio.is_some_and(|count| count < FRAMES_MIN)
    };
    let broken = cells.iter().any(|(player, cell)| cell.as_ref().map_or(true, |cell| bad(*player, cell)));
    assert!(!broken, "\n{text}\n{}", server.log());
    cells.into_iter().filter_map(|(player, cell)| Some((player, cell.ok()?))).collect()
}

/// Ends the players, however the publisher ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Frames of a player as a run of the film's.
fn compare(
    (publisher, player): (Publisher, Player),
    frames: &[Frame],
    film: &Film,
    has_audio: bool,
) -> Result<Cell, String> {
    let by_rtp = publisher.is_rtp() || player.is_rtsp();
    let mut runs = [(None, Vec::new()), (None, Vec::new())];
    let mut decoding_us = 0;
    for (run, kind) in runs.iter_mut().zip([MediaKind::Video, MediaKind::Audio]) {
        let of_kind = |frame: &&Frame| frame.track.kind == kind && film::is_media(frame);
        let mut got: Vec<&Frame> = frames.iter().filter(of_kind).collect();
        let sent: Vec<&Frame> = film.frames.iter().filter(of_kind).collect();
        let (Some(first), Some(expected)) = (got.first(), sent.first()) else {
            if got.is_empty() && (sent.is_empty() || kind == MediaKind::Audio && !has_audio) {
                continue;
            }
            return Err(format!("{kind:?}: {} frames of {}", got.len(), sent.len()));
        };
        if kind == MediaKind::Audio && !has_audio {
            return Err(format!("audio of {:?} came, which is not carried", first.codec));
        }
        if first.codec != expected.codec {
            continue;
        }
        // What is said about a picture besides it is no part of what a browser gets.
        let unit = |frame: &Frame| film::unit(frame, player.is_webrtc());
        let begin = sent.iter().position(|frame| unit(frame) == unit(first));
        let begin = begin.ok_or_else(|| format!("{kind:?}: the first frame is none of the film's"))?;
        for (at, (one, own)) in got.iter().zip(&sent[begin..]).enumerate() {
            if unit(one) != unit(own) {
                let there = sent.iter().position(|sent| unit(sent) == unit(one));
                let there = there.map_or("none of its".to_owned(), |at| format!("its number {at}"));
                return Err(format!("{kind:?}: frame {at} of {begin} on is not the film's, but {there}"));
            }
            run.1.push((one.pts - own.pts).micros());
            if one.dts > one.pts {
                return Err(format!("{kind:?}: frame {at} is decoded after it is shown"));
            }
            if !player.is_webrtc() {
                let distance = |frame: &Frame| (frame.pts - frame.dts).micros();
                // Of the first ones it is not known how far apart pictures are.
                if !by_rtp || at >= FIRST_PICTURES {
                    decoding_us = decoding_us.max((distance(one) - distance(own)).abs());
                }
            }
        }
        // By RTP the receiver of the test goes on with silence when nothing comes any more.
        if kind == MediaKind::Audio && (player.is_rtsp() || player == Player::Whep) {
            got.truncate(sent.len() - begin);
        }
        if got.len() > sent.len() - begin {
            return Err(format!(
                "{kind:?}: {} frames more than the film has",
                got.len() + begin - sent.len()
            ));
        }
        run.0 = Some(got.len());
    }
    let off = |offsets: &[i64]| {
        // The receiver of the test makes the first times of WebRTC's of when packets come.
        if player == Player::Whep {
            return 0;
        }
        let (least, most) = (offsets.iter().min(), offsets.iter().max());
        least.zip(most).map_or(0, |(least, most)| most - least)
    };
    let middle = |offsets: &[i64]| {
        let mut sorted = offsets.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let [(video, video_offsets), (audio, audio_offsets)] = runs;
    Ok(Cell {
        video,
        audio,
        off_us: off(&video_offsets).max(off(&audio_offsets)),
        decoding_us,
        apart_us: middle(&video_offsets).zip(middle(&audio_offsets)).map(|(video, audio)| audio - video),
    })
}

/// From the earliest to the latest: each time is within a millisecond of the film's. RTMP and FLV have
/// milliseconds, and RTP of AAC counts samples.
const OFF_US_MAX: i64 = 2_000;
/// What comes by RTP gets its times from the clock that its packets are seen to have, here and in the
/// receiver of the test, which follows when they come on a machine that has much to do. How exactly it
/// does is tested in virtual time, by the bridge's tests of clocks; a false rate shows here as well.
const OFF_BY_RTP_US_MAX: i64 = 400_000;
const APART_US_MAX: i64 = 1_000;
/// By sender reports, and in the receiver of the test, which moves pictures there little by little.
const APART_BY_WEBRTC_US_MAX: i64 = 10_000;
/// Milliseconds of RTMP, each of two times.
const DECODING_US_MAX: i64 = 1_000;
/// Less than a picture.
const DECODING_BY_RTP_US_MAX: i64 = 39_000;
/// RTP has no decoding times, and at first it is not known how long before its showing a picture is decoded.
const FIRST_PICTURES: usize = 3;
/// Of either kind: players that begin late have at least the last group of pictures.
const FRAMES_MIN: usize = 30;

const FRAME_PLAYERS: [Player; 8] = [
    Player::Rtmp,
    Player::HttpFlv,
    Player::WebSocketFlv,
    Player::HttpTs,
    Player::Srt,
    Player::RtspTcp,
    Player::RtspUdp,
    Player::Hls,
];

/// Servers that the stream is pushed to, each as its protocol carries it.
const PUSHED: [Player; 4] = [
    Player::Pushed(PushedBy::Rtmp),
    Player::Pushed(PushedBy::Srt),
    Player::Pushed(PushedBy::Rtsp),
    Player::Pushed(PushedBy::Udp),
];

fn all_players() -> Vec<Player> {
    FRAME_PLAYERS.into_iter().chain([Player::Whep]).collect()
}

#[test]
fn h264_and_aac_by_rtmp_play_at_every_door() {
    row(Publisher::Rtmp, &Film::h264_aac(), &all_players());
}

#[test]
fn h264_and_aac_by_srt_play_at_every_door() {
    row(Publisher::Srt, &Film::h264_aac(), &all_players());
}

#[test]
fn h264_and_aac_by_rtsp_play_at_every_door() {
    row(Publisher::Rtsp, &Film::h264_aac(), &all_players());
}

#[test]
fn h264_and_aac_by_mpeg_ts_over_udp_play_at_every_door() {
    row(Publisher::TsUdp, &Film::h264_aac(), &all_players());
}

#[test]
fn h264_and_opus_by_whip_play_at_every_door() {
    row(Publisher::Whip, &Film::h264_opus(), &all_players());
}

/// PCRs are the encoder's clock, and frames have times of their own: those count.
#[test]
fn wrong_pcrs_change_no_time_and_end_nothing() {
    for publisher in [Publisher::SrtWrongPcr, Publisher::TsUdpWrongPcr] {
        row(publisher, &Film::h264_aac(), &all_players());
    }
}

#[test]
fn rtsp_by_udp_plays_while_others_forge_its_packets() {
    row(Publisher::RtspUdpForged, &Film::h264_aac(), &[Player::Rtmp, Player::RtspUdp, Player::HttpTs]);
}

#[test]
fn through_a_network_that_loses_ten_percent_srt_loses_no_frame() {
    let film = Film::h264_aac();
    let count = |kind| {
        let of_kind = |frame: &&Frame| film::is_media(frame) && frame.track.kind == kind;
        Some(film.frames.iter().filter(of_kind).count())
    };
    for (player, cell) in row(Publisher::SrtLossy, &film, &[Player::Rtmp, Player::Srt, Player::SrtLossy]) {
        let all = (count(MediaKind::Video), count(MediaKind::Audio));
        assert_eq!((cell.video, cell.audio), all, "{player:?}");
    }
}

#[test]
fn h264_and_audio_are_pushed_by_every_protocol_that_carries_them() {
    for publisher in [Publisher::Rtmp, Publisher::Srt, Publisher::Rtsp] {
        row(publisher, &Film::h264_aac(), &PUSHED);
    }
    let pushed = [&PUSHED[..], &[Player::Pushed(PushedBy::Whip)]].concat();
    row(Publisher::Rtmp, &Film::h264_opus(), &pushed);
}

/// The server there makes the times of the pictures follow the audio, which it gets as Opus of a transcoder.
#[test]
fn aac_that_is_pushed_by_whip_stays_with_its_picture() {
    for publisher in [Publisher::Rtmp, Publisher::Srt] {
        row(publisher, &Film::h264_aac(), &[Player::Pushed(PushedBy::Whip)]);
    }
}

#[test]
fn b_frames_and_h265_are_pushed_by_every_protocol_that_carries_them() {
    for film in [Film::of_sample("h264-b3.flv", Codec::H264), Film::of_sample("h265-b3.flv", Codec::H265)] {
        row(Publisher::Rtmp, &film, &PUSHED);
    }
}

#[test]
fn mp3_and_ac3_play_at_every_door_that_carries_them() {
    let rtsp = [Player::RtspTcp, Player::RtspUdp, Player::Pushed(PushedBy::Rtsp)];
    for codec in [Codec::Mp3, Codec::Ac3] {
        // The reader of MP4 that plays HLS here knows neither. AC-3 is not transcoded: WHEP refuses the whole
        // stream (406), once the codec of its audio is known.
        let is_played =
            |player: &Player| *player != Player::Hls && (codec == Codec::Mp3 || *player != Player::Whep);
        let players = [&FRAME_PLAYERS[..], &[Player::Whep], &PUSHED].concat();
        let players: Vec<Player> = players.into_iter().filter(is_played).collect();
        let film = Film::h264_and_made(codec);
        for publisher in [Publisher::Rtmp, Publisher::Srt, Publisher::TsUdp] {
            println!("{codec}");
            row_without_audio(publisher, &film, &players, &rtsp);
        }
    }
}

#[test]
fn g711_plays_at_every_door_that_carries_it() {
    let players = [&FRAME_PLAYERS[..], &[Player::Whep], &PUSHED].concat();
    // The viewer of the test offers Opus alone.
    let without = [
        Player::Whep,
        Player::HttpTs,
        Player::Srt,
        Player::Hls,
        Player::Pushed(PushedBy::Srt),
        Player::Pushed(PushedBy::Udp),
    ];
    for publisher in [Publisher::Rtmp, Publisher::Rtsp] {
        row_without_audio(publisher, &Film::h264_g711(), &players, &without);
    }
}

#[test]
fn h265_plays_at_every_door_that_carries_it() {
    let film = Film::of_sample("h265-b3.flv", Codec::H265);
    for publisher in [Publisher::Rtmp, Publisher::Srt, Publisher::TsUdp, Publisher::Rtsp] {
        row(publisher, &film, &FRAME_PLAYERS);
    }
}

#[test]
fn b_frames_keep_their_times_at_every_door() {
    let film = Film::of_sample("h264-b3.flv", Codec::H264);
    for publisher in [Publisher::Rtmp, Publisher::Srt, Publisher::TsUdp, Publisher::Rtsp] {
        row(publisher, &film, &FRAME_PLAYERS);
    }
}

#[test]
fn av1_and_vp9_play_at_every_door_that_carries_them() {
    let doors = FRAME_PLAYERS.into_iter().filter(|player| !matches!(player, Player::HttpTs | Player::Srt));
    let doors: Vec<Player> = doors.collect();
    for film in [Film::of_mp4("av1-opus.mp4"), Film::of_mp4("vp9-opus-fragments.mp4")] {
        for publisher in [Publisher::Rtmp, Publisher::Rtsp] {
            row(publisher, &film, &doors);
        }
    }
}
