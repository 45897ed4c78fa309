//! Message bodies that are cut short or make no sense: left out, and the publisher goes on.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;

#[test]
fn truncated_bodies_at_every_length_harm_nobody() {
    for workers in [1, 2] {
        let mut server = Server::start_workers(workers, "");
        let tags = sample_tags();
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..60]);
        player.take_frames(58);
        let heads: [(MediaKind, &[u8]); 8] = [
            (
                MediaKind::Video,
                &[0x17, 0, 0, 0, 0, 1, 0x4d, 0x40, 0x1e, 0xff, 0xe1, 0, 3, 0x67, 0, 0, 1, 0, 1, 0x68],
            ),
            (
                MediaKind::Video,
                &[0x90, b'h', b'v', b'c', b'1', 1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93, 0xf0],
            ),
            (
                MediaKind::Video,
                &[0x90, b'a', b'v', b'0', b'1', 0x81, 5, 0x0c, 0, 0x0a, 0x0b, 0, 0, 0, 0x24, 0xc4],
            ),
            (MediaKind::Video, &[0xa6, 0x13, b'a', b'v', b'0', b'1', 1, 0, 0, 9, 5, 5, 5]),
            (MediaKind::Audio, &[0xaf, 0, 0x12, 0x10, 0x56, 0xe5, 0]),
            (
                MediaKind::Audio,
                &[0x90, b'O', b'p', b'u', b's', b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', 1, 2],
            ),
            (MediaKind::Audio, &[0x95, 0x11, 1, 2, 3]),
            (
                MediaKind::Data,
                &[2, 0, 10, b'o', b'n', b'M', b'e', b't', b'a', b'D', b'a', b't', b'a', 8, 0, 0, 0, 1],
            ),
        ];
        for (kind, head) in heads {
            for length in 0..=head.len() {
                publisher.send(kind, 2_000, &head[..length]);
            }
        }
        publisher.send_tags(&tags[60..400]);
        // The second key frame of the sample is among them, from where players can see again.
        let key = tags[60..400].iter().find(|tag| tag.body.starts_with(&[0x17, 1])).expect("a key frame");
        while player.next_media().expect("the player is still served").payload != key.body {}
        assert_eq!(server.sessions("role=publisher").len(), 1, "the publisher is still there");
        server.api("/api/v1/streams/live/mill");
        server.assert_healthy();
    }
}
