//! Every array has the bytes that `rmp` writes element by element, and comes back from them: with
//! every instruction set of the machine, of every length, at every place in memory.

use crate::common::{
    Number, Random, bits, boundaries, for_every_element, naive_encode, rounds, there_and_back,
};
use msgpack_array::Isa;

#[test]
fn every_boundary_of_every_type() {
    for_every_element!(boundaries_of);
}

fn boundaries_of<T: Number>() {
    let all = boundaries::<T>();
    there_and_back(&all);
    // Alone, and in the company of many others of its kind.
    for value in &all {
        there_and_back(&[*value]);
        there_and_back(&vec![*value; rounds(150, 20)]);
    }
    // Every one beside every other one.
    let pairs: Vec<T> = all.iter().flat_map(|a| all.iter().flat_map(|b| [*a, *b])).collect();
    there_and_back(&pairs[..pairs.len().min(rounds(usize::MAX, 300))]);
}

#[test]
fn every_length_to_300() {
    for_every_element!(lengths);
}

fn lengths<T: Number>() {
    let mut random = Random::new();
    for length in (0..=300).step_by(rounds(1, 37)) {
        there_and_back::<T>(&random.any(length));
        there_and_back::<T>(&random.mixed(length));
    }
}

#[test]
fn lengths_where_the_header_grows() {
    for_every_element!(lengths_of_headers);
}

fn lengths_of_headers<T: Number>() {
    let mut random = Random::new();
    for length in [14, 15, 16, 17] {
        there_and_back::<T>(&random.mixed(length));
    }
    for length in [65_534, 65_535, 65_536, 65_537, 200_000] {
        if !cfg!(miri) {
            there_and_back::<T>(&random.any(length));
        }
    }
}

#[test]
fn many_arrays_of_many_kinds() {
    for_every_element!(kinds);
}

fn kinds<T: Number>() {
    let mut random = Random::new();
    for _ in 0..rounds(300, 5) {
        let length = random.below(rounds(1200, 60));
        there_and_back::<T>(&random.any(length));
    }
    // One wide value in many narrow ones, at every place of a vector, and the other way round.
    let [narrow, wide] = [1, u64::MAX >> 1].map(T::from_bits);
    for place in 0..rounds(130, 10) {
        for (most, one) in [(narrow, wide), (wide, narrow)] {
            let mut values = vec![most; rounds(200, 30)];
            values[place] = one;
            there_and_back(&values);
        }
    }
}

#[test]
fn every_place_in_memory() {
    for_every_element!(places);
}

fn places<T: Number>() {
    let mut random = Random::new();
    let values: Vec<T> = random.mixed(300);
    for isa in Isa::available() {
        for offset in (0..=64).step_by(rounds(1, 17)) {
            let part = &values[offset..offset + 100 + offset];
            let expected = naive_encode(part);
            // Behind as many bytes as there are elements left out, so that both ends move through
            // the lines of the cache.
            let mut encoded = vec![0xc1; offset];
            msgpack_array::encode_with(isa, part, &mut encoded);
            assert_eq!(encoded[offset..], expected, "{isa:?} {} at {offset}", T::NAME);
            let mut decoded = values[..offset].to_vec();
            let used = msgpack_array::decode_into_with(isa, &encoded[offset..], &mut decoded);
            assert_eq!(used, Ok(expected.len()));
            assert_eq!(bits(&decoded[offset..]), bits(part), "{isa:?} {} at {offset}", T::NAME);
        }
    }
}
