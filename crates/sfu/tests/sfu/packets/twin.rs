//! Random publishers against a naive twin that keeps everything: what each viewer has in the end is
//! the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use crate::packets::common::{World, audio_input, frame, video_input};

/// What happens to the stream next.
#[derive(Clone, Debug)]
enum Step {
    /// The packet this far ahead of the newest arrives (0: the next one; negative: a late one).
    Packet(i16),
    /// The publisher goes and another one comes, with these numbers.
    Restart(u16, u32),
    /// Milliseconds pass.
    Wait(u16),
    /// A viewer joins.
    Join,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => Just(Step::Packet(0)),
        6 => (1i16..40).prop_map(Step::Packet),
        12 => (-60i16..0).prop_map(Step::Packet),
        1 => (any::<u16>(), any::<u32>()).prop_map(|(number, timestamp)| Step::Restart(number, timestamp)),
        15 => (0u16..60).prop_map(Step::Wait),
        3 => Just(Step::Join),
    ];
    proptest::collection::vec(step, 1..400)
}

/// Every packet that arrived, by publisher and extended number, all kept.
#[derive(Default)]
struct Twin {
    publishers: Vec<Publisher>,
}

struct Publisher {
    first: i64,
    newest: i64,
    base: u32,
    arrived: BTreeSet<i64>,
}

impl Twin {
    /// The output place of each packet that arrived: publishers one behind the other, gaps where
    /// packets are missing.
    fn places(&self) -> BTreeMap<i64, (usize, i64)> {
        let mut places = BTreeMap::new();
        let mut start = 0;
        for (at, publisher) in self.publishers.iter().enumerate() {
            for number in &publisher.arrived {
                places.insert(start + number - publisher.first, (at, *number));
            }
            if let Some(last) = publisher.arrived.last() {
                start += last - publisher.first + 1;
            }
        }
        places
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_viewer_has_what_a_twin_that_keeps_everything_would_give_it(
        begin in any::<u16>(),
        timestamp in any::<u32>(),
        steps in steps(),
    ) {
        let mut world = World::published();
        let mut twin = Twin::default();
        let mut viewers = 0;
        let start = |twin: &mut Twin, begin: u16, base| {
            let first = i64::from(begin) + 65_536;
            twin.publishers.push(Publisher { first, newest: first - 1, base, arrived: BTreeSet::new() });
        };
        start(&mut twin, begin, timestamp);
        world.join(0);
        for step in steps {
            match step {
                Step::Packet(ahead) => {
                    let publisher = twin.publishers.last_mut().unwrap();
                    let number = publisher.newest + 1 + i64::from(ahead);
                    // A publisher's first packet is a key frame, and the one everything counts
                    // from.
                    if publisher.arrived.is_empty() && ahead != 0 || number < publisher.first {
                        continue;
                    }
                    // More than is asked for ends what was before; that has tests of its own.
                    let missing = number - publisher.first - publisher.arrived.len() as i64;
                    if missing > 400 {
                        continue;
                    }
                    let offset = (number - publisher.first) as u32;
                    let key = offset.is_multiple_of(20);
                    let rtp = frame(number as u16, publisher.base.wrapping_add(offset * 1_500), key);
                    let is_new = publisher.arrived.insert(number);
                    publisher.newest = publisher.newest.max(number);
                    let received = world.receive(&rtp);
                    prop_assert_eq!(received.is_ok(), is_new, "{:?} of {}", received, number);
                }
                Step::Restart(begin, base) => {
                    world.publish(vec![audio_input(), video_input()]);
                    start(&mut twin, begin, base);
                }
                Step::Wait(milliseconds) => world.wait(Duration::from_millis(u64::from(milliseconds))),
                Step::Join => {
                    viewers += 1;
                    world.join(viewers);
                }
            }
        }
        // All of the cache is sent.
        world.wait(Duration::from_millis(200));
        let places = twin.places();
        for token in 0..=viewers {
            let got = world.video(token);
            let Some(first) = got.first() else { continue };
            // The place of its first packet is that of a packet of the same content.
            let candidates = places.iter().filter(|(_, (_, number))| *number as u16 == first.origin());
            let fits = candidates.into_iter().any(|(origin, _)| {
                got.iter().all(|got| {
                    let distance = got.number().wrapping_sub(first.number()).cast_signed();
                    let place = places.get(&(origin + i64::from(distance)));
                    place.is_some_and(|(_, number)| *number as u16 == got.origin())
                })
            });
            prop_assert!(fits, "viewer {} has packets under wrong numbers", token);
            let distinct: BTreeSet<u16> = got.iter().map(|got| got.number()).collect();
            prop_assert_eq!(distinct.len(), got.len(), "viewer {} got a number twice", token);
            // The first viewer was there all the time and misses nothing from its first packet on.
            if token == 0 {
                prop_assert_eq!(got.len(), places.len());
            }
        }
    }
}
