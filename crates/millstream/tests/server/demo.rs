//! `millstream demo` has a picture at once, without any publisher of ours.

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::server::Server;
use rtmp::MediaKind;

#[test]
fn the_demo_channel_plays_the_sample_in_a_loop_without_a_seam_in_time() {
    let server = Server::start("[demo]\nenabled = true\n");
    let info = server.api("/api/v1/server");
    assert_eq!(info["demo_stream"], "demo/clock");
    server.wait_for_publisher("demo/clock", true);
    let keys: Vec<_> = sample_tags().into_iter().filter(|tag| tag.body.starts_with(&[0x17, 1])).collect();
    let mut player = TagReader::new(http::open(server.http, "GET", "/demo/clock.flv", &[]).expect("play"));
    // Twelve seconds pass the seam once, wherever playing begins.
    let (mut last, mut first, mut pictures) = (0, None, Vec::new());
    while last - first.unwrap_or(0) < 12_000 {
        let tag = player.next().expect("the demo goes on");
        if tag.kind != MediaKind::Video || tag.body[1] != 1 {
            continue;
        }
        let zero = *first.get_or_insert(tag.timestamp);
        assert!(
            tag.timestamp - zero == 0 || (1..=80).contains(&(tag.timestamp - last)),
            "{last} then {}",
            tag.timestamp
        );
        last = tag.timestamp;
        if tag.body[0] == 0x17 {
            pictures
                .push(keys.iter().position(|key| key.body == tag.body).expect("a key frame of the sample"));
        }
    }
    assert!(pictures.len() >= 6, "a key frame every two seconds: {pictures:?}");
    for pair in pictures.windows(2) {
        assert_eq!((pair[0] + 1) % keys.len(), pair[1], "key frames in order: {pictures:?}");
    }
}
