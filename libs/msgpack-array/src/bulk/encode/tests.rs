//! Every instruction set of this machine against one element at a time.

use std::vec;
use std::vec::Vec;

use super::*;

/// A number of any of the types, made of 64 bits.
trait Sample: Element + core::fmt::Debug {
    fn sample(bits: u64) -> Self;
}

macro_rules! samples {
    ($($element:ty: $sample:expr),*) => { $(
        impl Sample for $element {
            fn sample(bits: u64) -> Self {
                $sample(bits)
            }
        }
    )* };
}

samples!(bool: |bits| bits & 1 == 1, i8: |bits| bits as i8, u8: |bits| bits as u8, i16: |bits| bits as i16, u16: |bits| bits as u16,
    i32: |bits| bits as i32, u32: |bits| bits as u32, i64: |bits| bits as i64, u64: |bits| bits,
    f32: |bits| f32::from_bits(bits as u32), f64: f64::from_bits);

fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 33
    }
}

/// Numbers of which at most `bits` bits matter, negative ones among them.
fn of_width(random: &mut impl FnMut() -> u64, bits: u32) -> u64 {
    let number = random() >> (64 - bits);
    if random() & 1 == 0 { number } else { !number }
}

/// Both sides of every power of two, and their complements, which are as many bits and negative.
fn boundaries() -> impl Iterator<Item = u64> {
    (0..64)
        .map(|bit| 1_u64 << bit)
        .flat_map(|power| [power - 1, power, power + 1])
        .flat_map(|number| [number, !number])
}

/// One element after the other.
fn expected<T: Sample>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let mut one = [0; 9];
        let length = value.encode_one(&mut one);
        bytes.extend_from_slice(&one[..length]);
    }
    bytes
}

const CANARY: u8 = 0xc1;

/// Encodes into room as long as it has to be and `slack` more, `offset` bytes behind an address
/// that is a multiple of 64.
fn check<T: Sample>(
    values: &[T],
    offset: usize,
    slack: usize,
    encode: impl Fn(&[T], &mut [MaybeUninit<u8>]) -> usize,
) {
    let room = values.len() * T::ENCODED_MAX + slack;
    let mut memory = vec![CANARY; room + offset + 128];
    let begin = memory.as_ptr().align_offset(64) + offset;
    let out = &mut memory[begin..begin + room];
    let written = encode(values, super::super::as_uninit(out));
    assert!(out[..written] == expected(values), "{values:?}");
    assert!(memory[..begin].iter().chain(&memory[begin + room..]).all(|&byte| byte == CANARY), "{values:?}");
}

/// As [`check`], by every instruction set, and also piece by piece.
fn check_all<T: Sample>(values: &[T], offset: usize, slack: usize) {
    for isa in Isa::available() {
        check(values, offset, slack, |values, out| encode(isa, values, out));
    }
}

fn every_length<T: Sample>() {
    let mut random = random(1);
    let step = if cfg!(miri) { 37 } else { 1 };
    for length in (0..=300).step_by(step) {
        let (offset, bits) = (random() as usize % 64, 1 + random() as u32 % 64);
        let one_width: Vec<T> = (0..length).map(|_| T::sample(of_width(&mut random, bits))).collect();
        let mixed: Vec<T> = (0..length)
            .map(|_| {
                let bits = 1 + random() as u32 % 64;
                T::sample(of_width(&mut random, bits))
            })
            .collect();
        let all_bits: Vec<T> = (0..length).map(|_| T::sample(random())).collect();
        for values in [one_width, mixed, all_bits] {
            check_all(&values, offset, 0);
            check_all(&values, 0, SLACK);
            check_all(&values, offset, random() as usize % 64);
        }
    }
}

/// Each boundary at each place among numbers of each width, so that it meets every kind of block.
fn every_boundary<T: Sample>() {
    let mut random = random(2);
    for bits in if cfg!(miri) { vec![5, 64] } else { vec![5, 8, 16, 32, 64] } {
        let others: Vec<T> = (0..130).map(|_| T::sample(of_width(&mut random, bits))).collect();
        for (at, boundary) in boundaries().enumerate().step_by(if cfg!(miri) { 29 } else { 1 }) {
            let mut values = others.clone();
            values[at % 130] = T::sample(boundary);
            check_all(&values, at % 64, 0);
        }
    }
    let all: Vec<T> = boundaries().map(T::sample).collect();
    check_all(&all, 1, 0);
}

/// The path past the caches, with pieces and lines that end anywhere.
#[cfg(target_arch = "x86_64")]
fn past_the_caches<T: Sample>() {
    let mut random = random(3);
    let kernels = [
        (Isa::Avx512, avx512::stream as unsafe fn(&[_], &mut [_])),
        (Isa::Avx2, avx2::stream),
        (Isa::Sse, sse::stream),
    ];
    for (isa, stream) in kernels.into_iter().filter(|(isa, _)| isa.is_available()) {
        for length in (0..40).chain([64, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 5000]) {
            let offset = random() as usize % 64;
            let values: Vec<T> = (0..length)
                .map(|_| {
                    let bits = 1 + random() as u32 % 64;
                    T::sample(of_width(&mut random, bits))
                })
                .collect();
            check(&values, offset, 0, |values, out| {
                // SAFETY: the machine has this instruction set.
                large::encode(
                    values,
                    out,
                    |values, out| encode(isa, values, out),
                    |from, to| unsafe { stream(from, to) },
                )
            });
        }
    }
}

macro_rules! tests {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;

            #[test]
            fn every_length_is_as_element_by_element() {
                every_length::<$name>();
            }

            #[test]
            fn every_boundary_is_as_element_by_element() {
                every_boundary::<$name>();
            }

            #[cfg(target_arch = "x86_64")]
            #[cfg_attr(miri, ignore = "has no such instruction sets")]
            #[test]
            fn past_the_caches_is_as_element_by_element() {
                past_the_caches::<$name>();
            }
        }
    )* };
}

tests!(bool i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);

/// So many that `encode` itself takes the path past the caches.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(miri, ignore = "too long")]
#[test]
fn arrays_of_many_elements_are_as_element_by_element() {
    let mut random = random(4);
    let values: Vec<i64> = (0..3_000_000).map(|at| of_width(&mut random, 1 + at / 7 % 64) as i64).collect();
    check_all(&values, 3, 0);
}
