//! Nodes started with each way of sending packets to others: a WebRTC publisher at one, viewers at the
//! others, who get every packet, each once and as it was sent.

#![expect(clippy::disallowed_methods, reason = "packets are paced by the real clock")]

use std::time::{Duration, Instant};

use group_send::BackendKind;
use rtc_test::audio_payload;
use rtp::payload::MediaKind;

use crate::common::cluster::{Cluster, wait_for_lines};
use crate::common::eventually;
use crate::common::rtc::{Client, Options};
use crate::common::server::Server;
use crate::host::FAR_V4;
use crate::media::{frame_payload, send_audio, send_frame, taken};
use crate::place::Place;

/// Values of `cluster.udp_backend`, and what each needs.
const ALL: [(&str, Option<BackendKind>); 7] = [
    ("auto", None),
    ("sendmsg", None),
    ("sendmmsg", None),
    ("gso", None),
    ("io_uring", Some(BackendKind::IoUring)),
    ("af_xdp", Some(BackendKind::AfXdp)),
    ("tc_clone", Some(BackendKind::TcClone)),
];
/// Nodes that the first one feeds between hosts: as many as it takes for `tc_clone` to copy.
const NODES: usize = 5;
const FRAMES: u32 = 60;
const PARTS: u32 = 3;
/// The next frame is sent after this, whether all viewers have the one before or not.
const FRAME_WAIT: Duration = Duration::from_millis(50);

#[test]
fn every_packet_arrives_by_every_back_end() {
    for (backend, kind) in ALL {
        if let Some(place) = Place::of(kind)
            && !every_packet_arrives(&place, backend)
        {
            return;
        }
    }
}

/// False if there is no NATS.
fn every_packet_arrives(place: &Place, backend: &str) -> bool {
    let Some(cluster) = place.near(|_| Cluster::start_everywhere()) else { return false };
    let config = |name: &str, nats, at, more: &str| {
        let more = format!("relay_listen = [\"{at}:0\"]\nlinger_ms = 300\n{more}");
        cluster.config_by((nats, cluster.nats().port()).into(), name, &more)
    };
    let (nats, source) = place
        .near(|at| (at, Server::start(&config("source", at, at, &format!("udp_backend = \"{backend}\"")))));
    // What a machine does not have is said there.
    assert!(!source.log().contains("packets between nodes are sent by"), "{backend}: {}", source.log());
    let count = if place.has_hosts() { NODES } else { 1 };
    if let Place::Hosts(link) = place {
        // Nodes of the other host do not reach each other: all are fed by the source.
        link.far
            .ip(&format!("rule add pref 1 iif lo to {} prohibit\nrule add pref 2 lookup local", FAR_V4[0]));
        link.far.ip("rule del pref 0");
    }
    let start = |name: &str| place.far(|at| Server::start(&config(name, nats, at, "")));
    let nodes: Vec<Server> = (0..count).map(|number| start(&format!("node-{number}"))).collect();
    wait_for_lines(&source, "linked to a node", count);
    let mut publisher = place.near(|_| Client::publish(&source, "live/cam"));
    wait_for_lines(&source, "published in the cluster", 1);
    let play = |node| place.far(|_| Client::play_when_ready(node, "live/cam", &Options::default()));
    let mut viewers: Vec<Client> = nodes.iter().map(play).collect();
    wait_for_lines(&source, "served to another node", count);

    let sent_to_nodes = || place.near(|_| source.counter("millstream_relay_sent_datagrams"));
    let before = (place.sent_by_stack(), sent_to_nodes());
    let is_key = |frame: u32| frame.is_multiple_of(20);
    let mut frame = 0;
    let mut sent_at = Instant::now();
    let (last, others) = viewers.split_last_mut().expect("a viewer at least");
    last.until(&format!("every packet, by {backend}"), |last| {
        publisher.turn();
        others.iter_mut().for_each(|viewer| viewer.turn());
        // One after the other: all at once would not find room in a socket whose server is waiting for a
        // processor, and nobody asks again for the last ones. Viewers may miss the first.
        let has_come = |viewer: &Client| viewer.media.len() >= (frame * (PARTS + 1)) as usize;
        let is_due = others.iter().chain([&*last]).all(has_come) || sent_at.elapsed() >= FRAME_WAIT;
        if frame < FRAMES && is_due {
            sent_at = Instant::now();
            send_frame(&mut publisher, frame, PARTS, is_key(frame));
            send_audio(&mut publisher, frame);
            frame += 1;
        }
        others.iter().chain([&*last]).all(has_all)
    });
    let sent_video: Vec<Vec<u8>> = (0..FRAMES)
        .flat_map(|frame| (0..PARTS).map(move |part| frame_payload(frame, part, is_key(frame))))
        .collect();
    let sent_audio: Vec<Vec<u8>> = (0..FRAMES).map(|number| audio_payload(number).to_vec()).collect();
    for viewer in &viewers {
        let mut count = 0;
        for (kind, sent) in [(MediaKind::Video, &sent_video), (MediaKind::Audio, &sent_audio)] {
            let got: Vec<Vec<u8>> = taken(viewer, kind).into_iter().map(|got| got.payload).collect();
            // From where the stream was when the server saw the viewer connected.
            assert!(sent.ends_with(&got), "{backend}: {} packets of {kind:?}", got.len());
            count += got.len();
        }
        assert_eq!(viewer.media.len(), count, "{backend}: each once");
    }
    if place.has_hosts() {
        // Control datagrams and what was due before a route was known go through the socket.
        eventually("the counters have followed", || {
            let to_nodes = sent_to_nodes() - before.1;
            (to_nodes >= u64::from(FRAMES * (PARTS + 1)) * NODES as u64).then_some(())
        });
        let (by_stack, to_nodes) = (place.sent_by_stack() - before.0, sent_to_nodes() - before.1);
        assert!(by_stack < to_nodes / 2, "{backend}: {by_stack} of {to_nodes} went through the socket");
    }
    true
}

/// Whether the last packet of each kind has come, and all between it and the first that did.
fn has_all(viewer: &Client) -> bool {
    let last = [
        (MediaKind::Video, frame_payload(FRAMES - 1, PARTS - 1, false)),
        (MediaKind::Audio, audio_payload(FRAMES - 1).to_vec()),
    ];
    last.into_iter().all(|(kind, last)| {
        let got = taken(viewer, kind);
        let (Some(first), Some(newest)) = (got.first(), got.last()) else { return false };
        newest.payload == last && usize::from(newest.number - first.number) + 1 == got.len()
    })
}
