//! However many viewers of WebRTC a stream of RTMP has, on whichever worker: one packetiser and one
//! transcoder.

use crate::common::bridge::{LivePublisher, Viewed, metric, wait_for_metric};
use crate::common::flv::sample_tags;
use crate::common::rtc::{Client, full_size};
use crate::common::server::Server;

#[test]
fn all_viewers_share_one_packetiser_and_one_transcoder() {
    let viewers = if full_size() { 1000 } else { 100 };
    let _turn = crate::common::many_descriptors(viewers as u64 * 2 + 200);
    let server = Server::start_workers(2, "");
    let _publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    let mut clients: Vec<(Client, Viewed)> = Vec::new();
    for _ in 0..viewers {
        clients.push((Client::play_h264(&server, "live/mill"), Viewed::default()));
        // Buffers of those who came before must not run over.
        clients.iter_mut().for_each(|(client, viewed)| {
            client.turn();
            viewed.take(client);
        });
    }
    for (index, (client, viewed)) in clients.iter_mut().enumerate() {
        client.until(&format!("viewer {index} sees and hears"), |client| {
            viewed.take(client);
            viewed.key_frame && viewed.frames > 0 && viewed.audio > 0
        });
        assert_eq!(viewed.backwards, 0, "viewer {index}");
    }
    wait_for_metric(&server, "millstream_bridge_started_total", "rtmp_to_webrtc", 1.0);
    wait_for_metric(&server, "millstream_bridge_running", "rtmp_to_webrtc", 1.0);
    wait_for_metric(&server, "millstream_bridge_transcoders_started_total", "", 1.0);
    assert_eq!(metric(&server, "millstream_bridge_started_total", "webrtc_to_rtmp"), Some(0.0));
    // The first viewer is at the other worker, which begins with what the bridge has made of the GOP.
    let dropped = metric(&server, "millstream_rtc_dropped_packets_total", "");
    assert_eq!(dropped, Some(0.0), "packets that came twice");
}
