//! A document of columns: written by the kernels, read back, and read without this crate.
//!
//! `cargo run --release -p msgpack-array --features rmp-serde --example columns`
#![allow(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// What a server has of each of its sessions, every second.
#[derive(Serialize, Deserialize, PartialEq)]
struct Sessions {
    time_ms: u64,
    #[serde(with = "msgpack_array::serde")]
    id: Vec<u64>,
    #[serde(with = "msgpack_array::serde")]
    bits_per_second: Vec<u64>,
    #[serde(with = "msgpack_array::serde")]
    loss_percent: Vec<f32>,
    #[serde(with = "msgpack_array::serde")]
    rtt_ms: Vec<f32>,
}

/// The same document for a reader with only `rmp-serde`.
#[derive(Deserialize)]
struct Loss {
    loss_percent: Vec<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = 10_000;
    let sessions = Sessions {
        time_ms: 1_790_000_000_000,
        id: (0..count).map(|n| n * 7).collect(),
        bits_per_second: (0..count).map(|n| 600_000 + n * n % 300_000).collect(),
        loss_percent: (0..count).map(|n| (n % 50) as f32 / 10.0).collect(),
        rtt_ms: (0..count).map(|n| 20.0 + (n % 400) as f32 / 4.0).collect(),
    };

    let started = Instant::now();
    let document = msgpack_array::serde::to_vec_named(&sessions)?;
    println!("{count} sessions, {} bytes, written in {:?}", document.len(), started.elapsed());

    let started = Instant::now();
    let back: Sessions = msgpack_array::serde::from_slice(&document)?;
    println!(
        "read in {:?}: {}",
        started.elapsed(),
        if back == sessions { "the same" } else { "not the same" }
    );

    let loss: Loss = rmp_serde::from_slice(&document)?;
    let worst = loss.loss_percent.into_iter().fold(0.0, f32::max);
    println!("greatest loss, read without this crate: {worst} %");
    Ok(())
}
