//! A full map takes nothing more, gives the value back, and is otherwise as before.

use ssrc_map::{Full, SsrcMap};

#[test]
fn a_new_ssrc_beyond_the_limit_is_refused_and_its_value_returned() {
    for limit in [0, 1, 2, 4, 5, 8, 9, 100] {
        let mut map = SsrcMap::with_seed(limit, 1);
        for n in 0..limit {
            assert_eq!(map.insert(n as u32, vec![n]), Ok(None));
        }
        assert_eq!((map.len(), map.limit()), (limit, limit));
        assert_eq!(map.insert(0xffff_ffff, vec![7, 7]), Err(Full(vec![7, 7])), "limit {limit}");
        assert_eq!((map.len(), map.get(0xffff_ffff)), (limit, None));
        for n in 0..limit {
            assert_eq!(
                map.insert(n as u32, vec![n, n]),
                Ok(Some(vec![n])),
                "a known SSRC is replaced, limit {limit}"
            );
        }
        if limit > 0 {
            assert_eq!(map.remove(0), Some(vec![0, 0]));
            assert_eq!(map.insert(0xffff_ffff, vec![8]), Ok(None), "room again, limit {limit}");
        }
    }
}

#[test]
fn a_limit_larger_than_the_largest_counts_as_the_largest() {
    assert_eq!(SsrcMap::<u8>::with_seed(usize::MAX, 1).limit(), SsrcMap::<u8>::LIMIT_MAX);
}

#[test]
fn capacity_is_what_fits_without_allocating() {
    let mut map = SsrcMap::with_seed(1000, 1);
    assert_eq!(map.capacity(), 0, "nothing is allocated before the first insertion");
    let mut address = None;
    for n in 0..1000 {
        let room = map.capacity() > map.len();
        map.insert(n, n).expect("below the limit");
        let now = Some(map.iter().next().map(|(_, value)| std::ptr::from_ref(value)).expect("not empty"));
        assert!(!room || now == address, "values moved although there was room for {n}");
        assert!(map.len() <= map.capacity() && map.capacity() <= 1000);
        address = now;
    }
}

#[test]
fn full_says_so_without_showing_the_value() {
    let full = Full("secret");
    assert_eq!(full.to_string(), "the map has as many SSRCs as its limit allows");
    assert!(!format!("{full:?}").contains("secret"));
}
