//! A stream of one node is played at another: the same packets, whichever workers have it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use rtc::sdp::{Direction, OfferConfig};
use rtc_test::{OfferOptions, offer};
use rtp::extension::Extension;
use rtp::payload::MediaKind;
use worker_api::relay::RelayRefusal;
use worker_api::rtc::RtcRole;
use worker_api::streams::Published;

use crate::packets::common::media::{
    CAPTURE_ID, DESCRIPTOR_ID, LEVEL_ID, count, send_audio, send_frame, taken,
};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;

/// An offer with extensions.
pub(crate) fn with_extensions(direction: Direction) -> impl FnOnce(SocketAddr) -> OfferConfig {
    move |local| {
        let mut offer = offer(direction, local, &OfferOptions::default());
        for media in &mut offer.media {
            media.extensions.set(LEVEL_ID, Extension::AudioLevel);
            media.extensions.set(CAPTURE_ID, Extension::AbsCaptureTime);
            media.extensions.set(DESCRIPTOR_ID, Extension::DependencyDescriptor);
        }
        offer
    }
}

#[test]
fn viewers_of_both_nodes_get_the_same_whichever_worker_has_the_stream_and_the_viewers() {
    // Worker of the publisher, and of the viewers at each node.
    for (home, viewers) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let (one, other) = (Node::start(2), Node::start(2));
        let link = link(&one, &other);
        let mut publisher = one.publish_as(home, "live/a", with_extensions(Direction::Send));
        assert_eq!(other.published("live/a"), Published::Nobody);
        other.fetch_from(&one, "live/a", link);
        assert_eq!(other.published("live/a"), one.published("live/a"), "tracks travel with it");
        let mut near = one.play_as(viewers, "live/a", with_extensions(Direction::Receive));
        let mut far = other.play_as(viewers, "live/a", with_extensions(Direction::Receive));
        let mut frame = 0;
        until("both see a picture", &mut [&mut publisher, &mut near, &mut far], |clients| {
            send_frame(clients[0], frame, 3, frame.is_multiple_of(10));
            send_audio(clients[0], frame);
            frame += 1;
            clients[1..]
                .iter()
                .all(|client| count(client, MediaKind::Video) > 120 && count(client, MediaKind::Audio) > 40)
        });
        // What is under way.
        let last = frame - 1;
        until("the last frame is everywhere", &mut [&mut publisher, &mut near, &mut far], |clients| {
            clients[1..].iter().all(|client| {
                let newest =
                    |kind| taken(client, kind).pop().filter(|got| kind == MediaKind::Audio || got.marker);
                newest(MediaKind::Video).is_some_and(|got| got.timestamp == last * 3_000)
                    && newest(MediaKind::Audio).is_some_and(|got| got.timestamp == last * 960)
            })
        });
        // A viewer that begins with a key frame gets what was before it came with timestamps of its own.
        for (kind, ten_frames) in [(MediaKind::Audio, 9_600), (MediaKind::Video, 30_000)] {
            let (near, far) = (taken(&near, kind), taken(&far, kind));
            // One of them may have begun earlier.
            let from = near[0].timestamp.max(far[0].timestamp);
            let live = |got: &[crate::packets::common::media::Got]| {
                got.iter().filter(|got| got.timestamp >= from + ten_frames).cloned().collect::<Vec<_>>()
            };
            assert!(live(&near).len() > 10, "{kind:?}: {} packets", near.len());
            let (near, far) = (live(&near), live(&far));
            let counts = (near.len(), far.len());
            assert!(near == far, "{kind:?}, home {home}, viewers {viewers}: {counts:?} packets");
            let has_extensions = far.iter().all(|got| !got.extensions.is_empty());
            assert!(has_extensions, "{kind:?}");
        }
    }
}

#[test]
fn what_cannot_be_served_or_fetched_is_refused_with_the_reason() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    assert_eq!(one.offer("live/a").map(|_| ()), Err(RelayRefusal::NoStream));
    let _publisher = one.publish(0, "live/a", &OfferOptions::default());
    let offered = one.offer("live/a").expect("it is published");
    let nowhere = worker_api::relay::LinkId(4_711);
    assert_eq!(one.serve("live/a", nowhere, &offered, 0, None), Err(RelayRefusal::NoLink));
    assert_eq!(one.serve("live/b", link, &offered, 0, None), Err(RelayRefusal::NoStream));
    assert_eq!(other.fetch("live/a", nowhere, &offered), Err(RelayRefusal::NoLink));
    let without_keys = worker_api::relay::Offered { keys: Vec::new(), ..offered.clone() };
    assert_eq!(other.fetch("live/a", link, &without_keys), Err(RelayRefusal::NoKey));
    let older = worker_api::streams::Epoch(offered.epoch.0 - 1);
    let replaced = worker_api::relay::Offered { epoch: older, ..offered.clone() };
    assert_eq!(one.serve("live/a", link, &replaced, 0, None), Err(RelayRefusal::Replaced));
    let _own = other.publish(0, "live/a", &OfferOptions::default());
    assert_eq!(other.fetch("live/a", link, &offered), Err(RelayRefusal::Taken));
    assert_eq!(other.stats().streams, []);
}

#[test]
fn a_viewer_that_joins_at_a_node_that_joins_begins_with_the_last_key_frame() {
    let (one, other) = (Node::start(2), Node::start(1));
    let link = link(&one, &other);
    // Its home is not the worker that serves.
    let mut publisher = one.publish(1, "live/a", &OfferOptions::default());
    // Somebody watches: the group of pictures is kept.
    let mut near = one.play(0, "live/a");
    (0..40).for_each(|frame| send_frame(&mut publisher, frame, 2, frame == 0));
    until("a group of pictures", &mut [&mut publisher, &mut near], |clients| {
        count(clients[1], MediaKind::Video) == 80
    });
    other.fetch_from(&one, "live/a", link);
    let mut far = other.play(0, "live/a");
    // The publisher sends nothing any more, and no key frame is asked of it.
    until("pictures", &mut [&mut publisher, &mut near, &mut far], |clients| {
        count(clients[2], MediaKind::Video) == 80
    });
    let payloads = |client| taken(client, MediaKind::Video).into_iter().map(|got| got.payload);
    assert!(payloads(&far).eq(payloads(&near)));
}

#[test]
fn nodes_reach_each_other_by_ipv6() {
    let at = IpAddr::from(Ipv6Addr::LOCALHOST);
    if UdpSocket::bind((at, 0)).is_err() {
        let _ = writeln!(std::io::stderr(), "nodes over IPv6: left out, this host has none");
        return;
    }
    let (one, other) = (Node::start_at(at, 1, |_| {}), Node::start_at(at, 1, |_| {}));
    let link = link(&one, &other);
    let options = OfferOptions::default();
    let open = |node: &Node, role, direction| {
        node.open((0, at), role, "live/a", |local| offer(direction, local, &options))
    };
    let mut publisher = open(&one, RtcRole::Publish, Direction::Send);
    other.fetch_from(&one, "live/a", link);
    let mut far = open(&other, RtcRole::Play, Direction::Receive);
    let mut frame = 0;
    until("pictures", &mut [&mut publisher, &mut far], |clients| {
        send_frame(clients[0], frame, 2, frame.is_multiple_of(20));
        frame += 1;
        count(clients[1], MediaKind::Video) > 40
    });
}
