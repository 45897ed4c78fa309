//! Memory of the caller's: exact sizes are enough, too little is refused, and nothing beyond it is
//! touched.

use std::mem::MaybeUninit;

use crate::common::{Number, Random, bits, for_every_element, naive_encode, rounds};
use msgpack_array::{
    Isa, array_header, encode_elements_uninit, encode_into, encode_into_uninit, max_encoded_len,
};

#[test]
fn the_greatest_length_is_enough_and_one_byte_less_is_not() {
    for_every_element!(greatest_length);
}

fn greatest_length<T: Number>() {
    let mut random = Random::new();
    for length in (0..=100).step_by(rounds(1, 50)) {
        let values: Vec<T> = random.any(length);
        let expected = naive_encode(&values);
        let exact = array_header(length as u32).1 + length * T::ENCODED_MAX;
        assert!(expected.len() <= exact && exact <= max_encoded_len::<T>(length));
        for offset in [0, 1, 7] {
            // In the middle of other bytes, which must stay.
            let mut memory = vec![0xa5; offset + exact + CANARY];
            let written = encode_into(&values, &mut memory[offset..offset + exact]);
            assert_eq!(written, Some(expected.len()), "{} of {length}", T::NAME);
            assert_eq!(memory[offset..offset + expected.len()], expected);
            assert!(memory[..offset].iter().chain(&memory[offset + exact..]).all(|byte| *byte == 0xa5));
        }
        let mut memory = vec![0xa5; exact];
        assert_eq!(encode_into(&values, &mut memory[1..]), None, "{} of {length}", T::NAME);
        assert!(memory.iter().all(|byte| *byte == 0xa5), "a refusal writes nothing");
    }
}

const CANARY: usize = if cfg!(miri) { 4 } else { 200 };

#[test]
fn elements_alone_with_every_instruction_set() {
    for_every_element!(elements_alone);
}

fn elements_alone<T: Number>() {
    let mut random = Random::new();
    for isa in Isa::available() {
        for length in (0..=150).step_by(rounds(1, 70)) {
            let values: Vec<T> = random.any(length);
            let expected = &naive_encode(&values)[array_header(length as u32).1..];
            let exact = length * T::ENCODED_MAX;
            let mut memory = vec![MaybeUninit::new(0xa5_u8); exact + CANARY];
            assert_eq!(encode_elements_uninit(isa, &values, &mut memory[..exact]), Some(expected.len()));
            let memory: Vec<u8> = memory.into_iter().map(initialized).collect();
            assert_eq!(memory[..expected.len()], *expected, "{isa:?} {}", T::NAME);
            assert!(memory[exact..].iter().all(|byte| *byte == 0xa5), "{isa:?} {} of {length}", T::NAME);
            if length > 0 {
                let mut memory = vec![MaybeUninit::new(0_u8); exact - 1];
                assert_eq!(encode_elements_uninit(isa, &values, &mut memory), None);
            }
        }
    }
}

#[expect(unsafe_code, reason = "memory that was initialised before")]
fn initialized<T>(value: MaybeUninit<T>) -> T {
    // SAFETY: every caller has made it of initialised values, which stay initialised.
    unsafe { value.assume_init() }
}

#[test]
fn uninitialised_memory_is_initialised_as_far_as_said() {
    let values: Vec<i32> = (-30..30).map(|value| value * 3000).collect();
    let mut memory = Vec::with_capacity(max_encoded_len::<i32>(values.len()));
    let written = encode_into_uninit(&values, memory.spare_capacity_mut()).unwrap();
    #[expect(unsafe_code, reason = "what is tested: the interpreter notices bytes that were not written")]
    // SAFETY: `encode_into_uninit` says so.
    unsafe {
        memory.set_len(written);
    }
    assert_eq!(memory, naive_encode(&values));
}

#[test]
fn decoding_into_a_slice_stays_in_it() {
    for_every_element!(decoding);
}

fn decoding<T: Number>() {
    let mut random = Random::new();
    let canary = T::from_bits(1);
    for isa in Isa::available() {
        for length in (0..=150).step_by(rounds(1, 70)) {
            let values: Vec<T> = random.any(length);
            let header = array_header(length as u32).1;
            // As many elements again behind those wanted: they could be decoded, and must not.
            let input = [&naive_encode(&values)[header..], &naive_encode(&values)[header..]].concat();
            let mut memory = vec![MaybeUninit::new(canary); length + CANARY];
            let used = msgpack_array::decode_elements_uninit(isa, &input, &mut memory[..length]);
            assert_eq!(used, Ok(input.len() / 2), "{isa:?} {}", T::NAME);
            let memory: Vec<T> = memory.into_iter().map(initialized).collect();
            assert_eq!(bits(&memory[..length]), bits(&values));
            assert!(
                memory[length..].iter().all(|value| value.bits() == canary.bits()),
                "{isa:?} {}",
                T::NAME
            );
        }
    }
}

#[test]
#[should_panic(expected = "not available on this machine")]
fn an_instruction_set_of_another_machine_is_refused() {
    let missing = Isa::ALL.into_iter().find(|isa| !isa.is_available()).expect("no machine has all");
    msgpack_array::encode_with(missing, &[1_u8], &mut Vec::new());
}
