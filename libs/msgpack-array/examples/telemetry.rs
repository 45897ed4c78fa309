//! A telemetry file: a block for each second of measurements, added at the end and read in order.
//!
//! A block is one MessagePack document: an array of a number and three arrays. Any program that
//! reads MessagePack reads the file, block after block.
//!
//! ```sh
//! cargo run --release -p msgpack-array --example telemetry write engine.msgpack 60   # a minute, 10,000 a second
//! cargo run --release -p msgpack-array --example telemetry read engine.msgpack
//! ```

use std::fs::{self, OpenOptions};
use std::io::Write;

use msgpack_array::{array_header, decode_array_header, decode_f32s, decode_u16s, decode_u64s, encode};

const PER_SECOND: u64 = 10_000;

/// A second of measurements, a column for each quantity.
#[derive(Default)]
struct Block {
    time_us: Vec<u64>,
    rpm: Vec<u16>,
    celsius: Vec<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", file, seconds] => write(file, seconds.parse()?),
        ["read", file] => read(file),
        _ => Err("usage: telemetry write FILE SECONDS | telemetry read FILE".into()),
    }
}

fn write(file: &str, seconds: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    let mut document = Vec::new();
    for second in 0..seconds {
        let ticks = || second * PER_SECOND..(second + 1) * PER_SECOND;
        let block = Block {
            time_us: ticks().map(|tick| tick * 100).collect(),
            rpm: ticks().map(|tick| 900 + (tick / 50 % 3000) as u16).collect(),
            celsius: ticks().map(|tick| 80.0 + (tick % 977) as f32 / 100.0).collect(),
        };
        document.clear();
        block.encode(&mut document);
        // A block is whole or not there for who reads meanwhile.
        file.write_all(&document)?;
    }
    println!("{} measurements, the last second in {} bytes", seconds * PER_SECOND, document.len());
    Ok(())
}

fn read(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = fs::read(file)?;
    let (mut at, mut block, mut count, mut hottest) = (0, Block::default(), 0, (f32::MIN, 0));
    while at < bytes.len() {
        at += block.decode(&bytes[at..]).map_err(|error| format!("at byte {at}: {error}"))?;
        count += block.time_us.len();
        for (&celsius, &time_us) in block.celsius.iter().zip(&block.time_us) {
            if celsius > hottest.0 {
                hottest = (celsius, time_us);
            }
        }
    }
    println!("{count} measurements in {} bytes", bytes.len());
    println!("hottest: {:.2} degrees after {:.4} s", hottest.0, hottest.1 as f64 / 1e6);
    Ok(())
}

impl Block {
    fn encode(&self, document: &mut Vec<u8>) {
        let (header, len) = array_header(3);
        document.extend_from_slice(&header[..len]);
        encode(&self.time_us, document);
        encode(&self.rpm, document);
        encode(&self.celsius, document);
    }

    /// Reads a block from the beginning of `input` into the memory of the one before; how long it was.
    fn decode(&mut self, input: &[u8]) -> Result<usize, Box<dyn std::error::Error>> {
        self.time_us.clear();
        self.rpm.clear();
        self.celsius.clear();
        let (columns, mut at) = decode_array_header(input)?;
        if columns != 3 {
            return Err(format!("a block has 3 columns, not {columns}").into());
        }
        at += decode_u64s(&input[at..], &mut self.time_us)?;
        at += decode_u16s(&input[at..], &mut self.rpm)?;
        at += decode_f32s(&input[at..], &mut self.celsius)?;
        if self.rpm.len() != self.time_us.len() || self.celsius.len() != self.time_us.len() {
            return Err("columns of different lengths".into());
        }
        Ok(at)
    }
}
