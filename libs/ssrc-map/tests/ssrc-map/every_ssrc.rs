//! No SSRC is special: RFC 3550 allows all 2^32 of them.

use ssrc_map::SsrcMap;

const EDGES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff];

#[test]
fn edges_are_ordinary_keys_at_every_size() {
    for others in 0..40 {
        for &ssrc in &EDGES {
            let mut map = SsrcMap::with_seed(64, u64::from(others));
            for n in 0..others {
                map.insert(0x1000 + n, n).expect("below the limit");
            }
            assert_eq!(map.get(ssrc), None, "{ssrc:#x} beside {others}");
            assert_eq!(map.remove(ssrc), None, "{ssrc:#x} beside {others}");
            assert_eq!(map.insert(ssrc, 77), Ok(None));
            assert_eq!(map.get(ssrc), Some(&77), "{ssrc:#x} beside {others}");
            assert_eq!(map.insert(ssrc, 78), Ok(Some(77)));
            assert_eq!(map.get_mut(ssrc), Some(&mut 78));
            assert_eq!(map.remove(ssrc), Some(78));
            assert_eq!((map.get(ssrc), map.len()), (None, others as usize), "{ssrc:#x} beside {others}");
        }
    }
}

#[test]
fn no_ssrc_is_found_in_an_empty_map_even_after_use() {
    let mut map = SsrcMap::with_seed(64, 1);
    for round in 0..3 {
        for &ssrc in &EDGES {
            assert_eq!(map.get(ssrc), None, "{ssrc:#x}, round {round}");
        }
        for &ssrc in &EDGES {
            map.insert(ssrc, ()).expect("below the limit");
        }
        if round == 0 {
            map.clear();
        } else {
            for &ssrc in &EDGES {
                assert_eq!(map.remove(ssrc), Some(()));
            }
        }
    }
}

#[test]
fn streams_that_come_and_go_leave_nothing_behind() {
    let mut map = SsrcMap::with_seed(16, 1);
    for n in 0..if cfg!(miri) { 200 } else { 20_000_u32 } {
        let ssrc = n.wrapping_mul(0x0101_0101);
        map.insert(ssrc, n).expect("below the limit");
        if n >= 12 {
            let gone = (n - 12).wrapping_mul(0x0101_0101);
            assert_eq!(map.remove(gone), Some(n - 12));
            assert_eq!(map.get(gone), None);
        }
        assert!(map.len() <= 13 && map.iter().all(|(ssrc, &value)| ssrc == value.wrapping_mul(0x0101_0101)));
    }
}

#[test]
fn a_map_crosses_threads_and_is_shared_by_them() {
    fn crosses<T: Send + Sync + Clone + std::fmt::Debug>() {}
    crosses::<SsrcMap<u32>>();
}
