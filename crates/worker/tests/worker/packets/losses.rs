//! A path between two nodes that loses, repeats and reorders: viewers at the other one miss nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rtc_test::OfferOptions;
use rtp::payload::MediaKind;

use crate::packets::common::media::{count, send_audio, send_frame, taken};
use crate::packets::common::node::{Node, link_over};
use crate::packets::common::path::{Path, Towards};
use crate::packets::common::{now, until};

#[test]
fn what_the_path_loses_is_repaired() {
    // A machine that stands still for as long as packets are kept has to try again.
    assert!((0..5).any(|_| is_repaired()), "packets were given up each time");
}

/// False if some were given up, because the machine stood still.
fn is_repaired() -> bool {
    let (one, other) = (Node::start(1), Node::start(2));
    let held: Mutex<HashMap<bool, Vec<u8>>> = Mutex::default();
    let rule = move |towards, number: u64, datagram: &[u8]| {
        let datagram = datagram.to_vec();
        let mut passed = match number % 20 {
            // A viewer begins with whichever key frame comes whole.
            _ if number < 60 => vec![datagram],
            // One in ten is lost, in both directions: requests and repairs too.
            3 | 10 => Vec::new(),
            7 => vec![datagram.clone(), datagram],
            // Held until the next one has passed.
            15 => {
                held.lock().expect("no panic").insert(towards == Towards::One, datagram);
                return Vec::new();
            }
            _ => vec![datagram],
        };
        passed.extend(held.lock().expect("no panic").remove(&(towards == Towards::One)));
        passed
    };
    let path = Path::new([one.relay(), other.relay()], Arc::new(rule));
    let link = link_over(&one, &other, path.addresses());
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    // On another worker than the one that fetches.
    let mut far = other.play(1, "live/a");
    const FRAMES: u32 = 300;
    let (mut frame, mut looked, mut pause) = (0, now(), Duration::ZERO);
    let lost = || other.stats().links[0].received.lost;
    until("everything has come", &mut [&mut publisher, &mut far], |clients| {
        pause = pause.max(now() - std::mem::replace(&mut looked, now()));
        if frame < FRAMES {
            send_frame(clients[0], frame, 4, frame.is_multiple_of(50));
            send_audio(clients[0], frame);
            frame += 1;
        }
        let has_all = count(clients[1], MediaKind::Video) >= 4 * FRAMES as usize
            && taken(clients[1], MediaKind::Audio)
                .last()
                .is_some_and(|got| got.timestamp == (FRAMES - 1) * 960);
        frame == FRAMES && (has_all || lost() > 0)
    });
    if lost() > 0 {
        assert!(pause > Duration::from_millis(100), "{} were given up", lost());
        return false;
    }
    let video = taken(&far, MediaKind::Video);
    let (first, last) = (video[0].number, video[video.len() - 1].number);
    assert_eq!(usize::from(last.wrapping_sub(first)) + 1, video.len(), "no gap");
    let at_other = &other.stats().links[0].received;
    assert!(at_other.repaired > 50, "{at_other:?}");
    let at_one = &one.stats().links[0].sent;
    assert!(at_one.repairs >= at_other.repaired, "{at_one:?}");
    true
}
