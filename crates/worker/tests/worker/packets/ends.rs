//! What is served or fetched ends, by whoever ends it, and begins again.

use rtc_test::{OfferOptions, UdpClient};
use rtp::payload::MediaKind;
use tokio::sync::oneshot;
use worker_api::EndReason;
use worker_api::relay::{Offered, RelayCommand, RelayNotice};
use worker_api::streams::Published;

use crate::packets::common::media::{count, send_frame};
use crate::packets::common::node::{Node, link};
use crate::packets::common::{eventually, until};

/// Sends frames, numbered from here on, until a viewer has so many packets more. The next number.
fn play(publisher: &mut UdpClient, mut frame: u32, viewer: &mut UdpClient, packets: usize) -> u32 {
    let seen = count(viewer, MediaKind::Video);
    until("pictures", &mut [publisher, viewer], |clients| {
        send_frame(clients[0], frame, 1, frame.is_multiple_of(10));
        frame += 1;
        count(clients[1], MediaKind::Video) >= seen + packets
    });
    frame
}

#[test]
fn viewers_stay_when_the_publisher_leaves_and_go_on_with_the_next_one() {
    let (mut one, other) = (Node::start(2), Node::start(1));
    let link = link(&one, &other);
    let mut publisher = one.publish(1, "live/a", &OfferOptions::default());
    let fetched = other.fetch_from(&one, "live/a", link);
    let mut far = other.play(0, "live/a");
    play(&mut publisher, 0, &mut far, 30);
    let offered = one.offer("live/a").expect("it is published");
    publisher.peer.close(crate::packets::common::now());
    publisher.turn();
    let stream = "live/a".to_owned();
    assert_eq!(one.notice(), RelayNotice::ServedEnded { stream: stream.clone(), epoch: offered.epoch });
    assert_eq!(one.stats().streams, []);
    other.tell(RelayCommand::EndFetch { stream, epoch: fetched.epoch });
    eventually("it is not published any more", || {
        (other.published("live/a") == Published::Nobody).then_some(())
    });
    assert_eq!(other.stats().streams, []);

    // The same viewer, another publisher on another worker.
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    play(&mut publisher, 0, &mut far, 30);
    assert!(!far.closed);
}

#[test]
fn a_publisher_of_this_node_takes_the_place_of_what_it_fetches() {
    let (one, mut other) = (Node::start(1), Node::start(2));
    let link = link(&one, &other);
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    let fetched = other.fetch_from(&one, "live/a", link);
    let mut far = other.play(1, "live/a");
    let mut frame = play(&mut publisher, 0, &mut far, 30);
    let mut own = other.publish(1, "live/a", &OfferOptions::default());
    let (stream, reason) = ("live/a".to_owned(), EndReason::TakenOver);
    assert_eq!(other.notice(), RelayNotice::FetchEnded { stream, epoch: fetched.epoch, reason });
    assert_eq!(other.stats().streams, []);
    play(&mut own, 0, &mut far, 30);
    // What still comes changes nothing.
    until("packets that nobody wants", &mut [&mut publisher, &mut far], |clients| {
        send_frame(clients[0], frame, 1, false);
        frame += 1;
        other.stats().counters.unknown_handle > 0
    });
}

#[test]
fn a_publisher_that_takes_over_ends_what_is_served() {
    let (mut one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    // It gets the stream from a third node, and is asked for it.
    let third = Node::start(1);
    let upper = crate::packets::common::node::link(&third, &one);
    let mut publisher = third.publish(0, "live/a", &OfferOptions::default());
    let fetched = one.fetch_from(&third, "live/a", upper);
    other.fetch_from(&one, "live/a", link);
    let mut far = other.play(0, "live/a");
    play(&mut publisher, 0, &mut far, 20);
    let _own = one.publish(0, "live/a", &OfferOptions::default());
    let notices = [one.notice(), one.notice()];
    let (stream, reason) = ("live/a".to_owned(), EndReason::TakenOver);
    let of_fetch = RelayNotice::FetchEnded { stream, epoch: fetched.epoch, reason };
    assert!(notices.contains(&of_fetch), "{notices:?}");
    let is_served = |notice: &RelayNotice| match notice {
        RelayNotice::ServedEnded { epoch, .. } => *epoch == fetched.epoch,
        _ => false,
    };
    assert!(notices.iter().any(is_served), "{notices:?}");
    // What it publishes itself can be served, under other keys.
    let offered = one.offer("live/a").expect("it is published");
    assert!(offered.epoch > fetched.epoch);
}

#[test]
fn a_link_that_goes_takes_along_what_is_served_over_it() {
    let (one, other) = (Node::start(1), Node::start(1));
    let first = link(&one, &other);
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", first);
    let mut far = other.play(0, "live/a");
    let frame = play(&mut publisher, 0, &mut far, 20);
    for node in [&one, &other] {
        node.tell(RelayCommand::RemoveLink { link: first });
    }
    assert_eq!(one.stats().streams[0].children, []);
    // Another connection of the two; the stream goes on where it was.
    let second = link(&one, &other);
    other.attach_to(&one, "live/a", second);
    let frame = play(&mut publisher, frame, &mut far, 20);
    one.tell(RelayCommand::StopServing { link: second, stream: "live/a".to_owned() });
    let sent = one.stats().links[0].sent.packets;
    let mut near = one.play(0, "live/a");
    play(&mut publisher, frame, &mut near, 20);
    assert_eq!(one.stats().links[0].sent.packets, sent);
}

#[test]
fn a_stream_is_not_fetched_for_somebody_who_does_not_wait_for_it_any_more() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    let _publisher = one.publish(0, "live/a", &OfferOptions::default());
    let Offered { tracks, keys, .. } = one.offer("live/a").expect("it is published");
    let (reply, answer) = oneshot::channel();
    drop(answer);
    other.tell(RelayCommand::Fetch { link, stream: "live/a".to_owned(), tracks, keys, reply });
    assert_eq!(other.stats().streams, [], "behind it in the queue");
    assert_eq!(other.published("live/a"), Published::Nobody);
}
