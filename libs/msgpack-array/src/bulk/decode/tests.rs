//! Every kernel against the oracle: the same elements, the same place and reason to stop, and
//! nothing written behind.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::decode;
use crate::bulk::{Decoded, Isa, Kind};
use crate::element::Element;

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled").
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// How the elements of a test are chosen.
#[derive(Debug, Clone, Copy)]
struct Mix {
    /// Bits of the values, so that narrow elements are acceptable.
    bits: u32,
    /// Of markers in the table of `marker`, how many are used, and from which on.
    markers: (usize, usize),
    /// One in so many elements is of any marker, 0 for none.
    any: usize,
}

/// Fixints, then integers by width, then what else numbers can be.
const MARKERS: [u8; 16] =
    [0x05, 0xf0, 0xcc, 0xd0, 0xcd, 0xd1, 0xce, 0xd2, 0xcf, 0xd3, 0xca, 0xcb, 0xc2, 0xc3, 0xc0, 0xd9];

fn append_element(random: &mut Random, mix: Mix, input: &mut Vec<u8>) {
    let any = mix.any != 0 && random.below(mix.any) == 0;
    let marker = if any { random.next() as u8 } else { MARKERS[mix.markers.0 + random.below(mix.markers.1)] };
    let value = match random.below(4) {
        // Acceptable to any integer type.
        0 => random.next() & 0x7f,
        1 => (random.next() as i64 >> (64 - mix.bits)) as u64,
        _ => random.next() >> (64 - mix.bits),
    };
    let payload = value.to_be_bytes();
    match marker {
        0x05 => input.push(value as u8 & 0x7f),
        0xf0 => input.push(value as u8 | 0xe0),
        _ => {
            input.push(marker);
            let length = match marker {
                0xcc | 0xd0 => 1,
                0xcd | 0xd1 => 2,
                0xce | 0xd2 | 0xca => 4,
                0xcf | 0xd3 | 0xcb => 8,
                _ => 0,
            };
            input.extend_from_slice(&payload[8 - length..]);
        }
    }
}

/// What decoding means.
fn by_oracle<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    let mut bytes = 0;
    for (elements, out) in out.iter_mut().enumerate() {
        match T::decode_one(&input[bytes..]) {
            Ok((value, length)) => {
                out.write(value);
                bytes += length;
            }
            Err(stop) => return Decoded { elements, bytes, stop: Some(stop) },
        }
    }
    Decoded { elements: out.len(), bytes, stop: None }
}

/// What `isa` makes of `input` with room for `room` elements, bit for bit, and that it does not
/// write more.
fn decoded<T: Element>(isa: Option<Isa>, input: &[u8], room: usize) -> (Decoded, Vec<u8>) {
    const CANARY: u8 = 0xa5;
    let size = size_of::<T>();
    let mut memory = alloc::vec![MaybeUninit::<T>::uninit(); room + 64];
    // SAFETY: the bytes of the vector's elements, which are as many.
    unsafe { memory.as_mut_ptr().cast::<u8>().write_bytes(CANARY, memory.len() * size) };
    let decoded = match isa {
        Some(isa) => decode(isa, input, &mut memory[..room]),
        None => by_oracle(input, &mut memory[..room]),
    };
    // SAFETY: all of these bytes were initialised above, and kernels write only initialised ones.
    let bytes = unsafe { core::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), memory.len() * size) };
    assert!(bytes[room * size..].iter().all(|byte| *byte == CANARY), "{isa:?} wrote behind the room");
    (decoded, bytes[..decoded.elements * size].to_vec())
}

fn compare<T: Element>(input: &[u8], room: usize, remark: &dyn core::fmt::Debug) {
    // Boxes, so that an address sanitizer sees reads beyond the end.
    let input: Box<[u8]> = input.into();
    let expected = decoded::<T>(None, &input, room);
    for isa in Isa::available() {
        let (result, values) = decoded::<T>(Some(isa), &input, room);
        let name = core::any::type_name::<T>();
        assert_eq!(result, expected.0, "{isa:?} {name} room {room} {remark:?} {input:02x?}");
        assert_eq!(values, expected.1, "{isa:?} {name} room {room} {remark:?} {input:02x?}");
    }
}

fn mixes<T: Element>() -> Vec<Mix> {
    let bits = 8 * size_of::<T>() as u32 - u32::from(T::KIND == Kind::Signed);
    let log = size_of::<T>().ilog2() as usize;
    let all = match T::KIND {
        Kind::Bool => (12, 2),
        Kind::Float => (8 + log, 1),
        Kind::Unsigned | Kind::Signed => (0, 4 + 2 * log),
    };
    let mut mixes = alloc::vec![
        Mix { bits, markers: all, any: 0 },
        Mix { bits, markers: all, any: 1000 },
        Mix { bits, markers: all, any: 60 },
        Mix { bits: bits + u32::from(bits < 64), markers: all, any: 0 },
        Mix { bits: 7, markers: (0, MARKERS.len()), any: 0 },
        Mix { bits: 7, markers: (0, 10), any: 0 },
        Mix { bits: 64, markers: (10, 2), any: 20 },
    ];
    // One length each, with and without sign, with and without something else now and then.
    for length in 0..5 {
        for markers in [(2 * length, 1), (2 * length, 2), (2 * length + 1, 1)] {
            let bits = bits.min((8 << length >> 1) - 1).max(7);
            mixes.extend([0, 30, 300].map(|any| Mix { bits, markers, any }));
        }
    }
    mixes
}

fn random_arrays<T: Element>() {
    let rounds = if cfg!(miri) { 1 } else { 4 };
    for (number, mix) in mixes::<T>().into_iter().enumerate() {
        let seed = 0x9e37_79b9_7f4a_7c15 ^ number as u64;
        let mut random = Random(seed);
        for round in 0..rounds {
            let elements = random.below(if cfg!(miri) { 20 } else { 400 });
            let mut input = Vec::new();
            (0..elements).for_each(|_| append_element(&mut random, mix, &mut input));
            for trailing in [0, 1, 100] {
                // Something else behind the array, then more of the same.
                let mut input = input.clone();
                input.extend((0..trailing).map(|_| if round % 2 == 0 { 0xc1 } else { random.next() as u8 }));
                compare::<T>(&input, elements, &(mix, seed));
            }
            compare::<T>(&input, random.below(elements + 1), &(mix, seed));
            compare::<T>(&input[..random.below(input.len() + 1)], elements, &(mix, seed));
            compare::<T>(&input, elements + 100, &(mix, seed));
        }
    }
}

/// Arrays cut at each of the last bytes, and with room for every number of elements.
fn every_length<T: Element>() {
    const ELEMENTS: usize = 70;
    let mut random = Random(0x1234_5678_9abc_def1);
    for mix in mixes::<T>() {
        let mut input = Vec::new();
        (0..if cfg!(miri) { 4 } else { ELEMENTS }).for_each(|_| append_element(&mut random, mix, &mut input));
        for cut in input.len().saturating_sub(100)..input.len() {
            compare::<T>(&input[..cut], ELEMENTS, &mix);
        }
        for room in 0..ELEMENTS {
            compare::<T>(&input, room, &mix);
        }
    }
}

macro_rules! tests {
    ($($type:ident)*) => { $(
        mod $type {
            #[test]
            fn random_arrays_decode_as_the_oracle_says() {
                super::random_arrays::<$type>();
            }

            #[test]
            fn every_length_decodes_as_the_oracle_says() {
                super::every_length::<$type>();
            }
        }
    )* };
}

tests!(bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
