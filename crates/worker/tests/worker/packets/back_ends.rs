//! Every way of sending datagrams, to viewers and to nodes: every packet arrives.

use group_send::BackendKind;
use rtc::sdp::Direction;
use rtc_test::{OfferOptions, UdpClient, offer};
use rtp::payload::MediaKind;
use worker_api::rtc::RtcRole;
use worker_api::settings::UdpBackend;

use crate::host::NEAR_DEVICE;
use crate::packets::common::media::{frame_payload, send_frame, taken};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;
use crate::place::Place;

/// Each of them, what it is called when it is in use, and what it needs.
const ALL: [(UdpBackend, &str, Option<BackendKind>); 7] = [
    (UdpBackend::Auto, "gso", None),
    (UdpBackend::Sendmsg, "sendmsg", None),
    (UdpBackend::Sendmmsg, "sendmmsg", None),
    (UdpBackend::Gso, "gso", None),
    (UdpBackend::IoUring, "io_uring", Some(BackendKind::IoUring)),
    (UdpBackend::AfXdp, "af_xdp", Some(BackendKind::AfXdp)),
    (UdpBackend::TcClone, "tc_clone", Some(BackendKind::TcClone)),
];

/// Nodes that the first one feeds: as many as it takes for `tc_clone` to copy.
const NODES: usize = 5;
const FRAMES: u32 = 60;
const PARTS: u32 = 3;

#[test]
fn every_packet_arrives_by_every_back_end() {
    for (backend, name, kind) in ALL {
        if let Some(place) = Place::of(kind) {
            every_packet_arrives(&place, backend, name);
        }
    }
}

fn every_packet_arrives(place: &Place, backend: UdpBackend, name: &str) {
    let source = place.near(|at| {
        Node::start_at(at, 1, |settings| {
            let relay = settings.relay.as_mut().expect("it has one");
            relay.udp_backend = backend;
            if backend != UdpBackend::TcClone {
                settings.rtc.udp_backend = backend;
            }
            if backend == UdpBackend::AfXdp {
                settings.rtc.af_xdp_interface = Some(NEAR_DEVICE.to_owned());
            }
        })
    });
    assert_eq!(source.stats().backend, name);
    let options = OfferOptions::default();
    let open = |node: &Node, role, direction| {
        place.far(|at| node.open((0, at), role, "live/a", |local| offer(direction, local, &options)))
    };
    let mut publisher = open(&source, RtcRole::Publish, Direction::Send);
    let nodes: Vec<Node> = (0..NODES).map(|_| place.far(|at| Node::start_at(at, 1, |_| {}))).collect();
    let mut viewers = vec![open(&source, RtcRole::Play, Direction::Receive)];
    for node in &nodes {
        node.fetch_from(&source, "live/a", link(&source, node));
        viewers.push(open(node, RtcRole::Play, Direction::Receive));
    }
    let before = (place.sent_by_stack(), source.stats().counters.datagrams_out);
    let mut clients: Vec<&mut UdpClient> = std::iter::once(&mut publisher).chain(&mut viewers).collect();
    let mut frame = 0;
    until(&format!("every packet, by {name}"), &mut clients, |clients| {
        if frame < FRAMES {
            send_frame(clients[0], frame, PARTS, frame.is_multiple_of(20));
            frame += 1;
        }
        let last = frame_payload(FRAMES - 1, PARTS - 1, false);
        clients[1..].iter().all(|client| {
            let got = taken(client, MediaKind::Video);
            let (Some(first), Some(newest)) = (got.first(), got.last()) else { return false };
            newest.payload == last && usize::from(newest.number - first.number) + 1 == got.len()
        })
    });
    let sent: Vec<Vec<u8>> = (0..FRAMES * PARTS)
        .map(|at| frame_payload(at / PARTS, at % PARTS, (at / PARTS).is_multiple_of(20)))
        .collect();
    for viewer in &viewers {
        let got: Vec<Vec<u8>> = taken(viewer, MediaKind::Video).into_iter().map(|got| got.payload).collect();
        // From the key frame on that was the newest when the server saw it connected.
        assert!(sent.ends_with(&got), "{name}: {} of {} packets", got.len(), sent.len());
    }
    for node in &nodes {
        let packets = node.stats().streams[0].packets;
        assert!(packets >= u64::from(FRAMES * PARTS), "{name}: {packets}");
    }
    let after = (place.sent_by_stack(), source.stats().counters.datagrams_out);
    let to_nodes = after.1 - before.1;
    assert!(to_nodes >= u64::from(FRAMES * PARTS) * NODES as u64);
    if place.has_hosts() {
        // Control datagrams and what was due before a route was known go through the socket.
        let by_stack = after.0 - before.0;
        assert!(by_stack < to_nodes / 2, "{name}: {by_stack} of {to_nodes} went through the socket");
    }
    drop(nodes);
}
