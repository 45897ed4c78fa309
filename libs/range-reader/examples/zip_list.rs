//! Lists a remote zip archive, of which only its end and its directory are read.
//!
//! ```sh
//! cargo run -p range-reader --example zip_list https://example.org/archive.zip
//! ```
//!
//! The format: PKWARE's APPNOTE, sections 4.3.12 (directory), 4.3.14 to 4.3.16 (its end).

use std::io::{self, Read, Seek, SeekFrom};

use range_reader::http::HttpConfig;
use range_reader::http::address::AddressPolicy;
use range_reader::{RangeReader, ReaderConfig};

/// The end of the directory, with the longest comment there may be.
const END_MAX: u64 = 22 + 0xffff;
/// Larger directories are not read: their length is what the server says.
const DIRECTORY_MAX: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: zip_list URL")?;
    // Who types an address may mean one of the own network. Take the default where others name them.
    let http = HttpConfig { addresses: AddressPolicy::Any, ..HttpConfig::default() };
    let mut file = RangeReader::open(&url.parse()?, http, ReaderConfig::default())?;
    let length = file.len()?.ok_or("the server does not say how long the file is")?;
    let tail_at = length.saturating_sub(END_MAX);
    let tail = read(&mut file, tail_at, length - tail_at)?;
    let directory = find_directory(&mut file, &tail)?;
    if directory.bytes > DIRECTORY_MAX || directory.at.saturating_add(directory.bytes) > length {
        return Err("the directory is not within the file, or too large".into());
    }
    let entries = match directory.at.checked_sub(tail_at) {
        // Small ones have come with the end.
        Some(from) => tail[from as usize..][..directory.bytes as usize].to_vec(),
        None => read(&mut file, directory.at, directory.bytes)?,
    };
    let files = list(&entries)?;
    println!("{files} files in {length} bytes; {:?}", file.counters());
    Ok(())
}

struct Directory {
    at: u64,
    bytes: u64,
}

/// Where the directory is: what is said at the end, or at the place that is named there if that has
/// no room for large numbers.
fn find_directory(file: &mut RangeReader, tail: &[u8]) -> io::Result<Directory> {
    let end =
        tail.windows(4).rposition(|four| four == b"PK\x05\x06").ok_or_else(|| wrong("no zip archive"))?;
    let (bytes, at) = (number(tail, end + 12, 4)?, number(tail, end + 16, 4)?);
    let locator = end.checked_sub(20).filter(|&at| tail[at..].starts_with(b"PK\x06\x07"));
    match locator {
        Some(locator) if at == 0xffff_ffff || bytes == 0xffff_ffff => {
            let large = read(file, number(tail, locator + 8, 8)?, 56)?;
            if !large.starts_with(b"PK\x06\x06") {
                return Err(wrong("no end of the directory where one is named"));
            }
            Ok(Directory { at: number(&large, 48, 8)?, bytes: number(&large, 40, 8)? })
        }
        _ => Ok(Directory { at, bytes }),
    }
}

/// Prints the entries; how many there are.
fn list(mut entries: &[u8]) -> io::Result<usize> {
    let mut files = 0;
    while entries.starts_with(b"PK\x01\x02") {
        let packed = number(entries, 20, 4)?;
        let whole = number(entries, 24, 4)?;
        let [name, extra, comment] = [28, 30, 32].map(|at| number(entries, at, 2));
        let (name, rest) = (name? as usize, extra? as usize + comment? as usize);
        let text = entries.get(46..46 + name).ok_or_else(|| wrong("an entry is cut"))?;
        // Names come from a stranger: nothing in them may move the cursor.
        let text = String::from_utf8_lossy(text);
        let size = |bytes| if bytes == 0xffff_ffff { "over 4 GB".to_owned() } else { format!("{bytes}") };
        println!("{:>12} {:>12}  {}", size(packed), size(whole), text.escape_debug());
        entries = entries.get(46 + name + rest..).ok_or_else(|| wrong("an entry is cut"))?;
        files += 1;
    }
    Ok(files)
}

fn read(file: &mut RangeReader, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    if read.len() as u64 == bytes { Ok(read) } else { Err(wrong("the file is cut")) }
}

/// The number of `size` bytes at a place, least significant first.
fn number(bytes: &[u8], at: usize, size: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + size).ok_or_else(|| wrong("the archive is cut"))?;
    Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
