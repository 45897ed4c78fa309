//! Live streams in a store: what a running server writes there is played without it.

use std::fs;
use std::path::Path;

use crate::common::eventually;
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{Packet, frames_of, publish, sample};

fn facts(packets: &[Packet]) -> Vec<(u64, String)> {
    packets.iter().map(|packet| (packet.size, packet.checksum.clone())).collect()
}

fn config(store: &Path) -> String {
    format!(
        "[stream]\nwait_for_publisher_seconds = 1\n[hls]\nmode = \"always\"\n\
         [upload]\ndirectory = \"{}\"\nsegments = \"live/*\"\nsegments_seconds = 600\n",
        store.display()
    )
}

#[test]
fn ffmpeg_plays_from_the_store_exactly_what_was_published() {
    let source = frames_of(&sample());
    let folder = ScratchDir::new();
    let store = folder.path().join("store");
    let server = Server::start(&config(&store));
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    let of_stream = store.join("hls/live/mill");
    let index = of_stream.join("index.m3u8");
    eventually("it can be played while it is live", || index.exists().then_some(()));
    publisher.finish();
    eventually("it has ended in the store", || {
        let text = fs::read_to_string(of_stream.join("v0.m3u8")).unwrap_or_default();
        let audio = fs::read_to_string(of_stream.join("a0.m3u8")).unwrap_or_default();
        (text.ends_with("#EXT-X-ENDLIST\n") && audio.ends_with("#EXT-X-ENDLIST\n")).then_some(())
    });
    assert_eq!(server.counter("millstream_upload_segments_left_out"), 0);
    assert!(server.counter("millstream_upload_segments_sent") > 4);
    drop(server);
    let played = frames_of(&index);
    assert_eq!(facts(&played.video), facts(&source.video));
    // Audio that comes before the first picture is in no segment.
    let (audio, all) = (facts(&played.audio), facts(&source.audio));
    assert!(all.ends_with(&audio) && audio.len() + 3 > all.len(), "{} of {}", audio.len(), all.len());
}
