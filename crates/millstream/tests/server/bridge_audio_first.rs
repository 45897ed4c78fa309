//! A publisher whose audio is known some time before its video: nobody who asks for video is let in to audio
//! alone.

#![expect(clippy::disallowed_methods, reason = "a test waits in real time for a real process")]

use std::time::{Duration, Instant};

use crate::common::bridge::{is_header, sample_audio};
use crate::common::flv::sample_tags;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtc::sdp::Direction;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use rtp::payload::Codec;

/// How much later the header of the video comes.
const LATER: Duration = Duration::from_millis(200);
/// What comes this long after the beginning proves nothing: by and by, a stream that has sent only audio is
/// one of audio.
const VOID: Duration = Duration::from_millis(400);
/// On a loaded machine a round takes too long.
const ROUNDS: usize = 20;

/// The answers to a player who asks for video, again and again until `end`; at least one.
fn ask(server: &Server, stream: &str, end: Instant) -> Vec<Result<Client, u16>> {
    let options = Options { video: Some(Codec::H264), ..Options::default() };
    let mut answers = Vec::new();
    while answers.is_empty() || Instant::now() < end {
        let answer = Client::try_open(server, &format!("/whep/{stream}"), Direction::Receive, &options);
        answers.push(answer.map_err(|response| response.status));
    }
    answers
}

/// Publishes; `None` if the machine was too slow to tell, else what was answered before the header of the
/// video.
fn round(server: &Server, stream: &str) -> Option<Vec<u16>> {
    let mut listener = RtmpClient::play(server.rtmp, stream);
    let began = Instant::now();
    let mut publisher = RtmpClient::publish(server.rtmp, stream);
    let audio = sample_audio();
    publisher.send_tags(&audio[..10]);
    // What players have got, the server knows.
    listener.take_frames(10);
    let early = ask(server, stream, began + LATER);
    let tags = sample_tags();
    let video: Vec<&Tag> = tags.iter().filter(|tag| tag.kind == MediaKind::Video).collect();
    assert!(is_header(video[0]));
    publisher.send_tags([video[0]]);
    let is_void = began.elapsed() > VOID;
    publisher.send_tags(video[1..10].iter().copied());
    (!is_void).then_some(())?;
    let options = Options { video: Some(Codec::H264), ..Options::default() };
    let player = Client::play_when_ready(server, stream, &options);
    assert!(player.answer.tracks.iter().all(Option::is_some), "audio and video are answered");
    Some(early.into_iter().map(|answer| answer.map_or_else(|status| status, |_| 201)).collect())
}

#[test]
fn who_asks_for_video_waits_until_both_are_known() {
    let server = Server::start("");
    let answers = (0..ROUNDS).find_map(|number| round(&server, &format!("live/a{number}")));
    let answers = answers.expect("one round that was fast enough");
    assert!(answers.iter().all(|status| *status == 409), "{answers:?}");
}
