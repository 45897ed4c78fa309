//! Strangers and liars at the relay's port: nothing changes, and nothing is answered.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rtc_test::OfferOptions;
use rtp::payload::MediaKind;

use crate::packets::common::media::{count, send_frame, taken};
use crate::packets::common::node::{Node, link_over};
use crate::packets::common::path::{Path, Towards};
use crate::packets::common::{eventually, until};

/// Media, whatever its version has it look like: the first byte.
const MEDIA: u8 = 0xd1;

#[test]
fn datagrams_of_strangers_and_forged_ones_change_nothing_and_are_not_answered() {
    let (one, other) = (Node::start(1), Node::start(1));
    // Once this is set, media does not arrive but lies here.
    let (is_held, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let rule = {
        let (is_held, held) = (Arc::clone(&is_held), Arc::clone(&held));
        move |towards, _number, datagram: &[u8]| {
            if towards == Towards::Other && datagram[0] == MEDIA && is_held.load(Ordering::Relaxed) {
                held.lock().expect("no panic").push(datagram.to_vec());
                return Vec::new();
            }
            vec![datagram.to_vec()]
        }
    };
    let path = Path::new([one.relay(), other.relay()], Arc::new(rule));
    let link = link_over(&one, &other, path.addresses());
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    let mut far = other.play(0, "live/a");
    let mut frame = 0;
    until("pictures", &mut [&mut publisher, &mut far], |clients| {
        send_frame(clients[0], frame, 1, frame.is_multiple_of(20));
        frame += 1;
        count(clients[1], MediaKind::Video) > 40
    });
    until("all of them", &mut [&mut publisher, &mut far], |clients| {
        let got = taken(clients[1], MediaKind::Video);
        let is_whole = usize::from(got[got.len() - 1].number - got[0].number) + 1 == got.len();
        is_whole && got[got.len() - 1].timestamp == (frame - 1) * 3_000
    });
    is_held.store(true, Ordering::Relaxed);
    send_frame(&mut publisher, frame, 1, false);
    until("a datagram that is on its way", &mut [&mut publisher, &mut far], |_| {
        !held.lock().expect("no panic").is_empty()
    });
    let genuine = held.lock().expect("no panic")[0].clone();
    let before = other.stats();
    let seen = taken(&far, MediaKind::Video);

    // Of a stranger: garbage of every length, and what is genuine but for where it comes from.
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let garbage = |len: usize| (0..len).map(|at| (at * 31 + len) as u8).collect::<Vec<u8>>();
    let mut strange: Vec<Vec<u8>> = (0..1_500).map(garbage).collect();
    strange.extend((0..1_500).map(|len| [&genuine[..1], &garbage(len)].concat()));
    strange.push(genuine.clone());
    for part in strange.chunks(50) {
        let sent = other.stats().counters.unknown_source + part.len() as u64;
        for datagram in part {
            stranger.send_to(datagram, other.relay()).expect("it is sent");
        }
        eventually("all of it is counted", || (other.stats().counters.unknown_source >= sent).then_some(()));
    }
    // From where the other node is: the genuine one with each bit changed, cut off and prolonged; garbage.
    let mut forged = Vec::new();
    for bit in 0..8 * genuine.len() {
        let mut datagram = genuine.clone();
        datagram[bit / 8] ^= 1 << (bit % 8);
        forged.push(datagram);
    }
    forged.extend((0..genuine.len()).map(|len| genuine[..len].to_vec()));
    forged.push([&genuine[..], &[0]].concat());
    forged.extend((1..1_500).map(garbage));
    for part in forged.chunks(50) {
        let sent = other.stats().counters.datagrams_in + part.len() as u64;
        part.iter().for_each(|datagram| path.inject(Towards::Other, other.relay(), datagram));
        // Reports of the other node come in between.
        eventually("all of it is counted", || (other.stats().counters.datagrams_in >= sent).then_some(()));
    }
    let after = other.stats();
    assert_eq!(other.counters().malformed, after.counters.malformed, "the metrics have them as well");
    let dropped = |stats: &worker_api::relay::RelayStats| {
        let counters = stats.counters;
        counters.malformed + counters.forged + counters.replayed + counters.unknown_key
    };
    assert!(dropped(&after) - dropped(&before) >= forged.len() as u64, "{:?}", after.counters);
    assert_eq!(after.links[0].received.received, before.links[0].received.received);
    assert_eq!(after.streams, before.streams);
    far.turn();
    assert_eq!(taken(&far, MediaKind::Video), seen, "nothing of it came through");

    // The genuine one still counts, once.
    for _ in 0..20 {
        path.inject(Towards::Other, other.relay(), &genuine);
    }
    is_held.store(false, Ordering::Relaxed);
    until("it and what follows", &mut [&mut publisher, &mut far], |clients| {
        frame += 1;
        send_frame(clients[0], frame, 1, false);
        taken(clients[1], MediaKind::Video).len() > seen.len() + 20
    });
    assert!(other.stats().counters.replayed >= before.counters.replayed + 19);
    let video = taken(&far, MediaKind::Video);
    // On a machine so slow that it lay here for over a second, it was given up.
    let lost = |stats: &worker_api::relay::RelayStats| stats.links[0].received.lost as usize;
    let given_up = lost(&other.stats()) - lost(&before);
    assert!(usize::from(video[video.len() - 1].number - video[0].number) < video.len() + given_up);
    stranger.set_nonblocking(true).expect("a socket option");
    let answer = stranger.recv(&mut [0; 2_000]).map_err(|error| error.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock), "strangers get no answer");
}

#[test]
fn a_node_that_is_not_linked_any_more_is_a_stranger() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = crate::packets::common::node::link(&one, &other);
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    let mut far = other.play(0, "live/a");
    let mut frame = 0;
    until("pictures", &mut [&mut publisher, &mut far], |clients| {
        send_frame(clients[0], frame, 1, frame == 0);
        frame += 1;
        count(clients[1], MediaKind::Video) > 5
    });
    other.tell(worker_api::relay::RelayCommand::RemoveLink { link });
    until("they are refused", &mut [&mut publisher, &mut far], |clients| {
        send_frame(clients[0], frame, 1, false);
        frame += 1;
        other.stats().counters.unknown_source > 5
    });
    assert_eq!(other.stats().links, []);
    assert_eq!(other.stats().streams[0].parents, [], "it waits for another parent");
}
