//! Arrays too large for the caches, which are written past them: wherever they begin in a line,
//! they have the same bytes, and no byte before or behind them changes.
#![cfg(all(target_arch = "x86_64", not(miri)))]

use std::mem::MaybeUninit;

use crate::common::{Number, Random, bits, naive_encode};
use msgpack_array::{Isa, array_header, decode_elements, encode_elements_uninit};

/// Longest forms together: above the size from which on `bulk/encode/large.rs` is used.
const LARGE_BYTES: usize = 26 << 20;

#[test]
fn of_bytes() {
    large::<i8>();
}

#[test]
fn of_integers() {
    large::<i32>();
}

#[test]
fn of_floats() {
    large::<f64>();
}

/// A repeated part with random values, because checking costs more than encoding.
fn large<T: Number>() {
    let part: Vec<T> = Random::new().mixed(65_521);
    let encoded_part = &naive_encode(&part)[array_header(part.len() as u32).1..];
    let repetitions = (LARGE_BYTES / T::ENCODED_MAX).div_ceil(part.len());
    // An odd number more, so that the last piece is none of the usual length.
    let values = [&part.repeat(repetitions)[..], &part[..777]].concat();
    let end = &naive_encode(&part[..777])[3..];
    let length = encoded_part.len() * repetitions + end.len();
    let mut memory = vec![MaybeUninit::new(0xa5_u8); 64 + values.len() * T::ENCODED_MAX + 64];
    for isa in Isa::available().filter(|isa| *isa != Isa::Scalar) {
        for offset in [0, 1, 63] {
            memory[..64].fill(MaybeUninit::new(0xa5));
            memory[values.len() * T::ENCODED_MAX..].fill(MaybeUninit::new(0xa5));
            let out = &mut memory[offset..offset + values.len() * T::ENCODED_MAX];
            assert_eq!(encode_elements_uninit(isa, &values, out), Some(length), "{isa:?} {}", T::NAME);
            let bytes = initialized(&memory);
            let (before, behind) = (&bytes[..offset], &bytes[offset + values.len() * T::ENCODED_MAX..]);
            assert!(before.iter().chain(behind).all(|byte| *byte == 0xa5), "{isa:?} {}", T::NAME);
            let encoded = &bytes[offset..offset + length];
            let (parts, rest) = encoded.split_at(encoded_part.len() * repetitions);
            for (number, found) in parts.chunks(encoded_part.len()).enumerate() {
                assert!(found == encoded_part, "{isa:?} {} part {number} at {offset}", T::NAME);
            }
            assert_eq!(rest, end);
            if offset == 1 {
                let mut decoded = vec![T::from_bits(0); values.len()];
                assert_eq!(decode_elements(encoded, &mut decoded), Ok(length));
                for found in
                    [&decoded[..part.len()], &decoded[part.len() * (repetitions - 1)..][..part.len()]]
                {
                    assert!(bits(found) == bits(&part), "{}", T::NAME);
                }
            }
        }
    }
}

#[expect(unsafe_code, reason = "memory that was initialised before")]
fn initialized(memory: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: the caller has filled all of it, and encoding leaves initialised what it does not
    // write.
    unsafe { memory.assume_init_ref() }
}
