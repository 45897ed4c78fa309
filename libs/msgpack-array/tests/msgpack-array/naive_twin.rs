//! Arrays and bytes from a generator that shrinks what fails: the same as from the naive twin.

use crate::common::{decodes_as_naive, there_and_back};
use proptest::prelude::*;

/// Bytes that begin like an array and continue like elements more often than random bytes do.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let element = prop_oneof![
        4 => (0x00..=0x7f_u8).prop_map(|byte| vec![byte]),
        2 => (0xe0..=0xff_u8).prop_map(|byte| vec![byte]),
        2 => (prop::sample::select(vec![0xcc_u8, 0xd0]), any::<[u8; 1]>()).prop_map(with_marker),
        2 => (prop::sample::select(vec![0xcd_u8, 0xd1]), any::<[u8; 2]>()).prop_map(with_marker),
        2 => (prop::sample::select(vec![0xce_u8, 0xd2, 0xca]), any::<[u8; 4]>()).prop_map(with_marker),
        2 => (prop::sample::select(vec![0xcf_u8, 0xd3, 0xcb]), any::<[u8; 8]>()).prop_map(with_marker),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let elements = prop::collection::vec(element, 0..if cfg!(miri) { 30 } else { 200 });
    (elements, 0..3_u32, any::<bool>()).prop_map(|(elements, more, long)| {
        let count = elements.len() as u32 + more;
        let [short, longest] = crate::common::headers(count);
        [if long { longest } else { short }, elements.concat()].concat()
    })
}

fn with_marker<const N: usize>((marker, payload): (u8, [u8; N])) -> Vec<u8> {
    [&[marker][..], &payload].concat()
}

macro_rules! twin {
    ($($type:ident),*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 128 }, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $type(values in prop::collection::vec(any::<$type>(), 0..if cfg!(miri) { 20 } else { 300 }), input in input(), cut in 1..70_usize) {
                    there_and_back::<$type>(&values);
                    decodes_as_naive::<$type>(&input, cut);
                }
            )*
        }
    };
}

twin!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool);
