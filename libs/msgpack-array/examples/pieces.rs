//! Adds up an array of numbers that comes over a pipe, without ever having all of it in memory.
//!
//! `python3 -c 'import sys; sys.stdout.buffer.write(b"\xdc\xff\xff" + b"\x07" * 65535)' |
//!  cargo run --release -p msgpack-array --example pieces`

use std::io::{IsTerminal, Read, stdin};

use msgpack_array::ArrayDecoder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if stdin().is_terminal() {
        return Err("the bytes of a MessagePack array of numbers are wanted on standard input".into());
    }
    let mut decoder = ArrayDecoder::<f64>::new();
    let (mut piece, mut numbers, mut sum) = ([0; 65_536], Vec::new(), 0.0);
    while !decoder.is_done() {
        let length = stdin().read(&mut piece)?;
        if length == 0 {
            return Err(match decoder.count() {
                Some(count) => format!("the input ends behind {} of {count} elements", decoder.decoded()),
                None => "the input ends before the number of elements is known".into(),
            }
            .into());
        }
        numbers.clear();
        decoder.push(&piece[..length], &mut numbers)?;
        sum += numbers.iter().sum::<f64>();
    }
    println!("{} elements, sum {sum}", decoder.decoded());
    Ok(())
}
