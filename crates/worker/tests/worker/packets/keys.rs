//! Keys that change while a stream is played elsewhere.

use rtc_test::OfferOptions;
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
        // A node that comes now gets both that it needs.
        let offered = one.offer("live/a").expect("it is published");
        let epochs: Vec<u32> = offered.keys.iter().map(|key| key.epoch()).collect();
        assert_eq!(epochs, [2 * epoch - 2, 2 * epoch]);
        let added = other.ask(|reply| RelayCommand::AddKey { stream: stream(), key, reply });
        // The key of two changes before has expired by then on a slow machine only: it holds three.
        if added == Err(RelayRefusal::Setup(relay::SetupError::TooManyKeys)) {
            break;
        }
        assert_eq!(added, Ok(()));
        let seen = count(&far, MediaKind::Video);
        send_until("pictures under the key before", &mut publisher, &mut far, &mut out, seen + 10);
        one.tell(RelayCommand::UseNewKey { stream: stream(), epoch: 2 * epoch });
        send_until("pictures under the next one", &mut publisher, &mut far, &mut out, seen + 60);
    }
    let video = taken(&far, MediaKind::Video);
    assert_eq!(usize::from(video[video.len() - 1].number - video[0].number) + 1, video.len(), "no gap");
    let unknown = left.stats().counters.unknown_key;
    assert!(unknown > 20, "{unknown} that the node without it could not open");
    let other_has = |node: &Node| node.stats().streams[0].packets;
    assert!(other_has(left) + 40 < other_has(other));
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
