//! Adds up an array of numbers that comes over a pipe, without ever having all of it in memory.
//!
//! `python3 -c 'import sys, msgpack; sys.stdout.buffer.write(msgpack.packb(list(range(10**6))))' |
//!  cargo run --release -p msgpack-array --example pieces`

use std::io::{Read, stdin};

use msgpack_array::ArrayDecoder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut decoder = ArrayDecoder::<f64>::new();
    let (mut piece, mut numbers, mut sum) = ([0; 65_536], Vec::new(), 0.0);
    while !decoder.is_done() {
        let length = stdin().read(&mut piece)?;
        if length == 0 {
            return Err(format!(
                "the input ends behind {} of {:?} elements",
                decoder.decoded(),
                decoder.count()
            )
            .into());
        }
        numbers.clear();
        decoder.push(&piece[..length], &mut numbers)?;
        sum += numbers.iter().sum::<f64>();
    }
    println!("{} elements, sum {sum}", decoder.decoded());
    Ok(())
}
