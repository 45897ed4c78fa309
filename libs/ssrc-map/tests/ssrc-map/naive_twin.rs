//! Whatever is done to it, the map answers as a `BTreeMap` of bounded size does.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ssrc_map::{Full, SsrcMap};

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    /// So many from the first one on, so far apart.
    InsertMany(u32, u32, u32),
    RemoveMany(u32, u32, u32),
    Remove(u32),
    Get(u32),
    Change(u32),
    Clear,
}

/// Few distinct SSRCs, so that steps meet; 0 and the largest among them.
fn ssrc() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), 1..40_u32, (0..40_u32).prop_map(|n| n << 26), any::<u32>()]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => ssrc().prop_map(Step::Insert),
        1 => (ssrc(), ssrc(), 0..MANY_MAX).prop_map(|(first, apart, n)| Step::InsertMany(first, apart, n)),
        1 => (ssrc(), ssrc(), 0..MANY_MAX).prop_map(|(first, apart, n)| Step::RemoveMany(first, apart, n)),
        6 => ssrc().prop_map(Step::Remove),
        4 => ssrc().prop_map(Step::Get),
        2 => ssrc().prop_map(Step::Change),
        // Seldom, or a map would never grow.
        1 => prop::bool::weighted(0.2).prop_map(|clear| if clear { Step::Clear } else { Step::Get(0) }),
    ]
}

const MANY_MAX: u32 = if cfg!(miri) { 20 } else { 300 };

fn check(limit: usize, seed: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut map = SsrcMap::with_seed(limit, seed);
    let mut twin = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        match *step {
            Step::Insert(ssrc) if twin.len() == limit && !twin.contains_key(&ssrc) => {
                prop_assert_eq!(map.insert(ssrc, n), Err(Full(n)));
            }
            Step::Insert(ssrc) => prop_assert_eq!(map.insert(ssrc, n), Ok(twin.insert(ssrc, n))),
            Step::InsertMany(first, apart, many) => {
                for ssrc in (0..many).map(|n| first.wrapping_add(apart.wrapping_mul(n))) {
                    let full = twin.len() == limit && !twin.contains_key(&ssrc);
                    let expected = if full { Err(Full(n)) } else { Ok(twin.insert(ssrc, n)) };
                    prop_assert_eq!(map.insert(ssrc, n), expected);
                }
            }
            Step::RemoveMany(first, apart, many) => {
                for ssrc in (0..many).map(|n| first.wrapping_add(apart.wrapping_mul(n))) {
                    prop_assert_eq!(map.remove(ssrc), twin.remove(&ssrc));
                }
            }
            Step::Remove(ssrc) => prop_assert_eq!(map.remove(ssrc), twin.remove(&ssrc)),
            Step::Get(ssrc) => {
                prop_assert_eq!(map.get(ssrc), twin.get(&ssrc));
                prop_assert_eq!(
                    map.get_unless_in_stash(ssrc).unwrap_or_else(|_| map.get(ssrc)),
                    twin.get(&ssrc)
                );
                prop_assert_eq!(map.contains(ssrc), twin.contains_key(&ssrc));
            }
            Step::Change(ssrc) => {
                prop_assert_eq!(
                    map.get_mut(ssrc).map(|value| core::mem::replace(value, n)),
                    twin.get(&ssrc).copied()
                );
                twin.entry(ssrc).and_modify(|value| *value = n);
            }
            Step::Clear => {
                map.clear();
                twin.clear();
            }
        }
        prop_assert_eq!(map.len(), twin.len());
        prop_assert_eq!(map.is_empty(), twin.is_empty());
        prop_assert!(map.len() <= map.capacity() && map.capacity() <= map.limit());
    }
    prop_assert_eq!(map.iter().len(), twin.len());
    prop_assert_eq!(map.iter().map(|(ssrc, &value)| (ssrc, value)).collect::<BTreeMap<_, _>>(), twin.clone());
    prop_assert_eq!(
        map.iter_mut().map(|(ssrc, value)| (ssrc, *value)).collect::<BTreeMap<_, _>>(),
        twin.clone()
    );
    for (&ssrc, value) in &twin {
        prop_assert_eq!(map.get(ssrc), Some(value));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 192 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_as_a_bounded_btree_map(
        limit in prop_oneof![0..12_usize, 12..200_usize, Just(2000)],
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 60 } else { 300 }),
    ) {
        check(limit, seed, &steps)?;
    }
}
