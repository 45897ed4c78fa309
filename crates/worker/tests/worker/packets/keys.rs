//! Keys that change while a stream is played elsewhere.

use rtc_test::{OfferOptions, UdpClient};
use rtp::payload::MediaKind;
use worker_api::relay::{RelayCommand, RelayRefusal};

use crate::packets::common::media::{count, send_frame, taken};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;

#[test]
fn a_change_of_keys_is_not_seen_and_shuts_out_who_did_not_get_the_next() {
    let nodes = [(); 3].map(|()| Node::start(1));
    let [one, other, left] = &nodes;
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    for node in [other, left] {
        node.fetch_from(one, "live/a", link(one, node));
    }
    let (mut far, mut out) = (other.play(0, "live/a"), left.play(0, "live/a"));
    let mut frame = 0;
    let mut send_until = |what: &str, publisher: &mut _, far: &mut _, out: &mut _, seen: usize| {
        until(what, &mut [publisher, far, out], |clients| {
            send_frame(clients[0], frame, 1, frame.is_multiple_of(20));
            frame += 1;
            count(clients[1], MediaKind::Video) > seen
        });
    };
    send_until("pictures", &mut publisher, &mut far, &mut out, 40);
    let stream = || "live/a".to_owned();
    for epoch in 1..=3 {
        // One that nobody gets, and another one.
        let [unused, key] = [(); 2].map(|()| {
            one.ask(|reply| RelayCommand::NewKey { stream: stream(), reply }).expect("it is served")
        });
        assert_eq!((unused.epoch(), key.epoch()), (2 * epoch - 1, 2 * epoch));
        assert_ne!(unused.to_bytes()[4..], key.to_bytes()[4..]);
        // A node that comes now gets both that it needs, behind the one of what is kept.
        let offered = one.offer("live/a").expect("it is published");
        let epochs: Vec<u32> = offered.keys.iter().map(|key| key.epoch()).collect();
        assert!(epochs.ends_with(&[2 * epoch - 2, 2 * epoch]), "{epochs:?}");
        let added = other.ask(|reply| RelayCommand::AddKey { stream: stream(), key, reply });
        // The key of two changes before has expired by then on a slow machine only: it holds three.
        if added == Err(RelayRefusal::Setup(relay::SetupError::TooManyKeys)) {
            break;
        }
        assert_eq!(added, Ok(()));
        let seen = count(&far, MediaKind::Video);
        send_until("pictures under the key before", &mut publisher, &mut far, &mut out, seen + 10);
        for _ in 0..2 {
            let epoch = 2 * epoch;
            let used = one.ask(|reply| RelayCommand::UseNewKey { stream: stream(), epoch, reply });
            assert_eq!(used, Ok(()), "also if it was asked for before");
        }
        send_until("pictures under the next one", &mut publisher, &mut far, &mut out, seen + 60);
    }
    let video = taken(&far, MediaKind::Video);
    assert_eq!(usize::from(video[video.len() - 1].number - video[0].number) + 1, video.len(), "no gap");
    let unknown = left.stats().counters.unknown_key;
    assert!(unknown > 20, "{unknown} that the node without it could not open");
    let other_has = |node: &Node| node.stats().streams[0].packets;
    assert!(other_has(left) + 40 < other_has(other));
}

/// The next key of `live/a`, which these nodes get, is used.
fn change_key(source: &Node, nodes: &[&Node]) {
    let stream = || "live/a".to_owned();
    let key = source.ask(|reply| RelayCommand::NewKey { stream: stream(), reply }).expect("it is served");
    for node in nodes {
        let key = key.clone();
        node.ask(|reply| RelayCommand::AddKey { stream: stream(), key, reply }).expect("taken");
    }
    let epoch = key.epoch();
    source.ask(|reply| RelayCommand::UseNewKey { stream: stream(), epoch, reply }).expect("it is the next");
}

#[test]
fn a_node_that_joins_after_a_change_of_keys_begins_with_the_key_frame_before_it() {
    let nodes = [(); 4].map(|()| Node::start(1));
    let [one, other, late, later] = &nodes;
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(one, "live/a", link(one, other));
    let mut far = other.play(0, "live/a");
    let mut frame = 0;
    // Of whatever is to be seen, there is one key frame, the first.
    let mut play = |what: &str, viewer: &mut UdpClient, more: usize, has_key_frame: bool| {
        let seen = count(viewer, MediaKind::Video);
        until(what, &mut [&mut publisher, viewer], |clients| {
            send_frame(clients[0], frame, 1, has_key_frame && frame.is_multiple_of(10));
            frame += 1;
            count(clients[1], MediaKind::Video) >= seen + more
        });
    };
    play("pictures", &mut far, 1, true);
    play("more of them", &mut far, 20, false);
    change_key(one, &[other]);
    play("pictures under the next key", &mut far, 20, false);
    late.fetch_from(one, "live/a", link(one, late));
    play("pictures of what is kept", &mut late.play(0, "live/a"), 40, false);
    assert_eq!(late.stats().counters.unknown_key, 0);

    // The key of what is kept is not handed out any more: the next key frame is the first picture.
    change_key(one, &[other, late]);
    play("pictures under the third key", &mut far, 20, false);
    later.fetch_from(one, "live/a", link(one, later));
    play("pictures from the next key frame on", &mut later.play(0, "live/a"), 20, true);
    assert_eq!(later.stats().counters.unknown_key, 0);
}

#[test]
fn only_the_source_has_keys_to_change() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    let _publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    let new_key = |node: &Node| {
        let stream = "live/a".to_owned();
        node.ask(|reply| RelayCommand::NewKey { stream, reply }).map(|key| key.epoch())
    };
    assert_eq!(new_key(&other), Err(RelayRefusal::NoStream), "it is not offered there");
    other.offer("live/a").expect("it has it");
    assert_eq!(new_key(&other), Err(RelayRefusal::Setup(relay::SetupError::NotTheSource)));
    assert_eq!(new_key(&one), Ok(1));
}
