//! Publishers, and pulls, whose clock passes 2^24 ms (extended timestamps begin) and 2^32 ms (it
//! wraps to zero). Channels do so in virtual time, in a test of their own
//! (`channels/runner/wraps.rs`).

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;

#[test]
fn time_goes_on_evenly_for_players_when_the_publisher_s_clock_wraps() {
    for (start, remark) in [
        (0x00ff_ffff_u32 - 4_000, "into extended timestamps"),
        (0x00ff_ffff, "the first extended timestamp"),
        (0x7fff_ffff - 4_000, "past 2^31"),
        (u32::MAX - 4_000, "past 2^32"),
    ] {
        let server = Server::start("");
        let tags: Vec<Tag> = sample_tags()
            .into_iter()
            // Less than a player may be behind, since all is sent at once.
            .filter(|tag| tag.timestamp < 8_000)
            .map(|tag| Tag { timestamp: tag.timestamp.wrapping_add(start), ..tag })
            .collect();
        let sent: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
        let mut rtmp = RtmpClient::play(server.rtmp, "live/mill");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..200]);
        let mut flv = TagReader::new(http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"));
        publisher.send_tags(&tags[200..]);

        let by_rtmp = rtmp.take_frames(sent.len());
        for (got, want) in by_rtmp.iter().zip(&sent) {
            let elapsed = got.timestamp.wrapping_sub(by_rtmp[0].timestamp);
            assert_eq!(elapsed, want.timestamp.wrapping_sub(sent[0].timestamp), "RTMP, {remark}");
            assert!(got.payload == want.body, "RTMP, {remark}");
        }

        let last_sent = sent.last().expect("tags");
        let mut times = Vec::new();
        loop {
            let tag = flv.next().expect("the stream goes on");
            if tag.kind == MediaKind::Video && tag.body[1] == 1 {
                times.push(tag.timestamp);
            }
            if tag.kind == last_sent.kind && tag.body == last_sent.body {
                break;
            }
        }
        let steps: Vec<u32> = times.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert!(steps.iter().all(|step| (39..=41).contains(step)), "HTTP-FLV, {remark}: {steps:?}");
    }
}

#[test]
fn time_goes_on_evenly_when_the_clock_of_a_pull_wraps() {
    for start in [0x00ff_ffff - 4_000, u32::MAX - 4_000] {
        let (server, origin) = (Server::start(LOCAL), Origin::start());
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        add_pull(&server, "mill", &origin.url("/live.flv"));
        let mut asked = origin.accept();
        asked.begin();
        let tags: Vec<Tag> = sample_tags().into_iter().filter(|tag| tag.timestamp < 8_000).collect();
        asked.send_tags(&tags, start);
        let sent: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
        let played = player.take_frames(sent.len());
        for (got, want) in played.iter().zip(&sent) {
            let elapsed = got.timestamp.wrapping_sub(played[0].timestamp);
            assert_eq!(elapsed, want.timestamp - sent[0].timestamp, "from {start}");
            assert!(got.payload == want.body, "from {start}");
        }
    }
}
