//! Many streams and SSRCs between two nodes, on one link.

use std::collections::HashMap;
use std::time::Duration;

use netsim::LinkConfig;
use relay::SealKey;

use crate::world::{World, delay};

#[test]
fn hundreds_of_ssrcs_of_many_streams_are_told_apart() {
    let down = LinkConfig { loss: 0.02, ..delay(10) };
    let mut world = World::new(5);
    let edge = world.add_edge(&down, &delay(10), Duration::ZERO);
    for _ in 0..20 {
        let stream = world.add_stream();
        let key = SealKey::random(1);
        world.subscribe(stream, edge, &key.open_key());
        world.sender.rotate(world.streams[stream].id, key).unwrap();
    }
    // 20 streams of 150 tracks.
    for _ in 0..2 {
        for ssrc in 0..150 {
            for stream in 0..20 {
                world.send_frame(stream, ssrc * 0x0101_0101 + stream as u32, 1);
            }
            world.run(Duration::from_millis(20));
        }
    }
    world.run(Duration::from_secs(2));
    assert!(world.check().iter().all(|lacks| *lacks == 0));
    for (stream, id) in &world.edges[edge].streams {
        let tracks: HashMap<_, _> = world.edges[edge].receiver.tracks(*id).collect();
        assert_eq!(tracks.len(), 150, "stream {stream}");
        let mut indices: Vec<u16> = tracks.values().map(|track| track.0).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..150));
    }
}

#[test]
fn sender_reports_come_along_and_belong_to_their_track() {
    let mut world = World::fan_out(6, 1, &delay(10), &delay(10));
    world.send_frame(0, 0x0102_0304, 1);
    let report = [&[0x80, 200, 0, 6, 1, 2, 3, 4][..], &[9; 20]].concat();
    let (now, id) = (world.now(), world.streams[0].id);
    let mut out = relay::Outgoing::new();
    world.sender.send(now, id, &[&report], &mut out).unwrap();
    world.run(Duration::from_millis(20));
    let (_, private) = out.links().next().unwrap();
    let mut datagram = [&private[0][..], out.shared().next().unwrap()].concat();
    let edge = &mut world.edges[0];
    let received =
        edge.receiver.handle_datagram(world.clock.now(), edge.link, &mut datagram).unwrap().unwrap();
    assert!(received.is_rtcp && received.packet == report);
    assert_eq!((received.track.0, edge.receiver.tracks(received.stream).count()), (0, 1));
}
