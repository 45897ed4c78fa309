//! A publisher goes and another comes: players stay, and the time they see never runs backwards.

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::flv::Tag;
use rtmp::{MediaKind, MediaMessage};

#[test]
fn players_survive_and_time_goes_on_after_a_polite_end() {
    reconnect(|publisher| publisher.end());
}

#[test]
fn players_survive_and_time_goes_on_after_a_lost_connection() {
    reconnect(drop);
}

#[test]
fn an_encoder_that_reconnects_at_once_is_let_in() {
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "");
        let tags = sample_tags();
        for watched in [false, true] {
            let _player = watched.then(|| RtmpClient::play(server.rtmp, "live/mill"));
            for attempt in 0..10 {
                let mut publisher = RtmpClient::begin_publish(server.rtmp, "live/mill");
                let answer = publisher.wait_started();
                assert!(
                    answer.is_ok(),
                    "watched {watched}, {workers} workers, attempt {attempt}: {answer:?}"
                );
                publisher.send_tags(&tags[..20]);
                drop(publisher);
            }
        }
    }
}

fn reconnect(end: impl Fn(RtmpClient)) {
    let server = Server::start("");
    // Two seconds, that is one group of pictures, from each of three publishers whose clocks all
    // start at zero.
    let tags: Vec<Tag> = sample_tags().into_iter().filter(|tag| tag.timestamp < 2_000).collect();
    let sent: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut rtmp = RtmpClient::play(server.rtmp, "live/mill");
    let address = server.http;
    let opening =
        std::thread::spawn(move || http::open(address, "GET", "/live/mill.flv", &[]).expect("play"));
    server.wait_for_players("live/mill", 2);
    let (mut by_rtmp, mut by_flv) = (Vec::<Tag>::new(), Vec::<Tag>::new());
    let mut flv = None;
    let mut opening = Some(opening);
    for round in 1..=3 {
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags);
        by_rtmp.extend(rtmp.take_frames(sent.len()).into_iter().map(tag_of));
        if let Some(opening) = opening.take() {
            flv = Some(TagReader::new(opening.join().expect("a response")));
        }
        let flv = flv.as_mut().expect("opened in the first round");
        by_flv.extend(frames(flv).take(sent.len()));
        assert_eq!(by_flv.len(), round * sent.len(), "HTTP-FLV goes on in round {round}");
        end(publisher);
        server.wait_for_publisher("live/mill", false);
        assert_eq!(
            server.sessions("stream=live/mill&role=player").len(),
            2,
            "both players stay in round {round}"
        );
    }
    for (name, received) in [("RTMP", &by_rtmp), ("HTTP-FLV", &by_flv)] {
        for (index, message) in received.iter().enumerate() {
            assert!(message.body == sent[index % sent.len()].body, "{name}: body of message {index}");
        }
        for pair in received.windows(2) {
            let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp) as i32;
            assert!(step >= 0, "{name}: time runs back from {} to {}", pair[0].timestamp, pair[1].timestamp);
        }
        let span = received.last().expect("messages").timestamp - received[0].timestamp;
        assert!(span >= 3 * 1_900, "{name}: three times two seconds are {span} ms");
    }
}

fn tag_of(message: MediaMessage) -> Tag {
    Tag { kind: message.kind, timestamp: message.timestamp, body: message.payload }
}

fn frames(reader: &mut TagReader<http::Streaming>) -> impl Iterator<Item = Tag> {
    std::iter::from_fn(|| reader.next()).filter(|tag| tag.kind != MediaKind::Data)
}
