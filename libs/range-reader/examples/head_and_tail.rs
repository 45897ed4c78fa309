//! Reads the first and the last bytes of a remote file, and says what that has cost.
//!
//! ```sh
//! cargo run -p range-reader --example head_and_tail https://example.org/film.mp4
//! ```

use std::io::{Read, Seek, SeekFrom};

use range_reader::http::HttpConfig;
use range_reader::{RangeReader, ReaderConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: head_and_tail URL")?;
    let mut file = RangeReader::open(&url.parse()?, HttpConfig::default(), ReaderConfig::default())?;

    let mut head = [0; 16];
    file.read_exact(&mut head)?;
    let length = file.len()?.ok_or("the server does not say how long the file is")?;
    file.seek(SeekFrom::End(-16))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;

    println!("{length} bytes, from {head:02x?} to {tail:02x?}");
    println!("{:?}", file.counters());
    Ok(())
}
