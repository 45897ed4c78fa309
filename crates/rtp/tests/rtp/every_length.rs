//! Every parser takes every length from 0 to 1500 bytes: zeros, ones, noise, and valid packets cut
//! or drawn out.

use crate::fuzz_corpus::checks;

/// Bytes of SplitMix64.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bytes.extend((mixed ^ mixed >> 29).to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Runs all checks of the fuzz targets, which panic if something is wrong.
fn check_all(bytes: &[u8]) {
    for (_, check) in checks::CHECKS {
        check(bytes);
    }
}

#[test]
fn every_length_of_constant_bytes_is_taken() {
    for byte in [0x00, 0x80, 0x90, 0xb1, 0xff] {
        for len in 0..=1500 {
            check_all(&vec![byte; len]);
        }
    }
}

#[test]
fn every_length_of_noise_is_taken() {
    for len in 0..=1500 {
        for seed in 0..4 {
            check_all(&noise(seed * 10_000 + len as u64, len));
        }
    }
}

#[test]
fn every_length_behind_every_first_byte_is_taken() {
    for first in 0..=255 {
        for len in (1..=64).chain([100, 255, 256, 257, 1200, 1499, 1500]) {
            let mut bytes = noise(u64::from(first), len);
            bytes[0] = first;
            check_all(&bytes);
        }
    }
}

#[test]
fn every_rtcp_type_and_format_is_taken_at_every_length() {
    for packet_type in 190..=215 {
        for format in 0..32 {
            for len in (4..=80).chain([1500]) {
                let mut bytes = noise(u64::from(format), len);
                bytes[0] = 0x80 | format;
                bytes[1] = packet_type;
                bytes[2..4].copy_from_slice(&((len / 4 - 1) as u16).to_be_bytes());
                checks::rtcp(&bytes);
            }
        }
    }
}
