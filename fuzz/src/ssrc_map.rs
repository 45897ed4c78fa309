//! What the fuzz target of `ssrc-map` checks: after any operations the map is what a `BTreeMap`
//! with a limit is.
//!
//! The input is a seed, a limit and a list of operations. The seed is known to the fuzzer, which an
//! attacker does not have, so that it can find SSRCs that collide.
//! `libs/ssrc-map/tests/ssrc-map/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::collections::BTreeMap;

use ssrc_map::{Full, SsrcMap};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("ssrc_map_ops", ssrc_map_ops)];

/// Operations of all kinds; values are boxes, so that one lost or dropped twice is noticed.
pub fn ssrc_map_ops(data: &[u8]) {
    let mut input = Input(data);
    let limit = LIMITS[usize::from(input.byte()) % LIMITS.len()];
    let mut map = SsrcMap::with_seed(limit, input.byte().into());
    let mut twin = Twin { entries: BTreeMap::new(), limit };
    while !input.0.is_empty() {
        step(&mut map, &mut twin, &mut input);
        assert_eq!(map.len(), twin.entries.len());
        assert_eq!(map.is_empty(), twin.entries.is_empty());
        assert!(map.len() <= map.capacity() && map.capacity() <= map.limit());
    }
    compare_all(&map, &twin);
}

/// Around the sizes at which the map may change its ways, none at all, and more than the bulk
/// insertions reach.
const LIMITS: [usize; 16] = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 100, 1000, 100_000];

/// The naive map.
struct Twin {
    entries: BTreeMap<u32, Box<u32>>,
    limit: usize,
}

impl Twin {
    fn insert(&mut self, ssrc: u32, value: Box<u32>) -> Result<Option<Box<u32>>, Full<Box<u32>>> {
        if self.entries.len() >= self.limit && !self.entries.contains_key(&ssrc) {
            return Err(Full(value));
        }
        Ok(self.entries.insert(ssrc, value))
    }
}

fn step(map: &mut SsrcMap<Box<u32>>, twin: &mut Twin, input: &mut Input<'_>) {
    match input.byte() % 16 {
        0..=3 => insert(map, twin, input.ssrc(), input.byte().into()),
        4..=6 => {
            let ssrc = input.ssrc();
            assert_eq!(map.remove(ssrc), twin.entries.remove(&ssrc));
            assert!(!map.contains(ssrc));
        }
        7..=8 => {
            let ssrc = input.ssrc();
            assert_eq!(map.get(ssrc), twin.entries.get(&ssrc));
            assert_eq!(map.contains(ssrc), twin.entries.contains_key(&ssrc));
        }
        9 => {
            let ssrc = input.ssrc();
            let (ours, theirs) = (map.get_mut(ssrc), twin.entries.get_mut(&ssrc));
            assert_eq!(ours, theirs);
            [ours, theirs].into_iter().flatten().for_each(|value| **value = value.wrapping_add(1));
        }
        // An arithmetic progression, of which weak hashes make a pile.
        10..=11 => {
            let (first, distance, count) = (input.ssrc(), input.ssrc(), u32::from(input.byte()));
            for i in 0..count {
                insert(map, twin, first.wrapping_add(distance.wrapping_mul(i)), i);
            }
        }
        12 => {
            let (first, distance, count) = (input.ssrc(), input.ssrc(), u32::from(input.byte()));
            for i in 0..count {
                let ssrc = first.wrapping_add(distance.wrapping_mul(i));
                assert_eq!(map.remove(ssrc), twin.entries.remove(&ssrc));
            }
        }
        13 => {
            map.iter_mut().for_each(|(ssrc, value)| **value = value.wrapping_mul(3) ^ ssrc);
            twin.entries.iter_mut().for_each(|(ssrc, value)| **value = value.wrapping_mul(3) ^ ssrc);
        }
        14 => {
            *map = map.clone();
            compare_all(map, twin);
        }
        // Seldom, or no map ever grows.
        _ => {
            if input.byte() < 64 {
                map.clear();
                twin.entries.clear();
            }
        }
    }
}

fn insert(map: &mut SsrcMap<Box<u32>>, twin: &mut Twin, ssrc: u32, value: u32) {
    assert_eq!(map.insert(ssrc, Box::new(value)), twin.insert(ssrc, Box::new(value)));
    assert_eq!(map.get(ssrc), twin.entries.get(&ssrc));
}

fn compare_all(map: &SsrcMap<Box<u32>>, twin: &Twin) {
    let mut entries: Vec<(u32, &Box<u32>)> = map.iter().collect();
    assert_eq!(entries.len(), map.len());
    entries.sort_unstable_by_key(|&(ssrc, _)| ssrc);
    assert!(entries.into_iter().eq(twin.entries.iter().map(|(&ssrc, value)| (ssrc, value))));
    for (&ssrc, value) in &twin.entries {
        assert_eq!(map.get(ssrc), Some(value));
    }
    // Among them those that were removed.
    for ssrc in 0..SMALL_SSRCS {
        assert_eq!(map.get(ssrc), twin.entries.get(&ssrc));
    }
}

/// SSRCs that need one byte of input.
const SMALL_SSRCS: u32 = 128;

/// What is left of the input; reads zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// One of 128 SSRCs, so that they meet again, or any of 2^31 others.
    fn ssrc(&mut self) -> u32 {
        let byte = u32::from(self.byte());
        if byte < SMALL_SSRCS {
            return byte;
        }
        byte << 24 | u32::from(self.byte()) << 16 | u32::from(self.byte()) << 8 | u32::from(self.byte())
    }
}
