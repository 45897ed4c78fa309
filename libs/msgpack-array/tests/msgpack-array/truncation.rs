//! An array cut off at any byte is detected, and leaves the vector unchanged.

use crate::common::{Number, Random, boundaries, for_every_element, naive_encode, rounds};
use msgpack_array::{ArrayDecoder, DecodeError, Isa};

#[test]
fn at_every_byte() {
    for_every_element!(every_byte);
}

fn every_byte<T: Number>() {
    let mut random = Random::new();
    for values in [boundaries::<T>(), random.mixed(rounds(200, 30)), random.uniform(rounds(200, 30))] {
        let encoded = naive_encode(&values);
        for isa in Isa::available() {
            for cut in 0..encoded.len() {
                // A block of memory of its own, so that tools notice if what was cut off is read.
                let input: Box<[u8]> = encoded[..cut].into();
                let mut decoded = values[..1].to_vec();
                let result = msgpack_array::decode_into_with(isa, &input, &mut decoded);
                assert_eq!(result, Err(DecodeError::Truncated), "{isa:?} {} cut at {cut}", T::NAME);
                assert_eq!(decoded.len(), 1);
            }
        }
        let mut decoder = ArrayDecoder::<T>::new();
        let mut decoded = Vec::new();
        for byte in encoded.chunks(1) {
            assert!(!decoder.is_done());
            assert_eq!(decoder.push(byte, &mut decoded), Ok(1));
        }
        assert!(decoder.is_done());
    }
}

#[test]
fn elements_without_a_header() {
    let mut out = [0_i32; 3];
    assert_eq!(msgpack_array::decode_elements(&[1, 2], &mut out), Err(DecodeError::Truncated));
    assert_eq!(msgpack_array::decode_elements(&[1, 2, 0xcd, 1], &mut out), Err(DecodeError::Truncated));
    assert_eq!(msgpack_array::decode_elements(&[1, 2, 0xcd, 1, 0, 9], &mut out), Ok(5));
    assert_eq!(out, [1, 2, 256]);
    assert_eq!(msgpack_array::decode_elements::<i32>(&[], &mut []), Ok(0));
}
