//! `oracle`: what a client takes that knows all reads beforehand.
//!
//! One connection, and all requests sent on it at once (RFC 9112, 9.3.2): as many ranges in each as
//! common servers take, in the order of the file, so that a byte that is read twice comes once and
//! nothing comes that is not read. What is read is in memory when all of it has come; no client
//! that has to deliver every byte over such a link can end sooner, but for the heads of parts.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::read::place;
use crate::trace::Read;

/// Ranges of one request.
const RANGES_MAX: usize = 200;
/// Gaps up to this are received: leaving them out costs the head of a part.
const GAP_BYTES: u64 = 128;

/// Reads `path` of the server at `address`, and adds what `reads` give, in their order, to `sum`.
pub(crate) fn oracle(
    address: SocketAddr,
    path: &str,
    reads: &[Read],
    sum: &mut Sha256,
) -> Result<(), String> {
    let wanted = merged(reads);
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let mut requests = String::new();
    for ranges in wanted.chunks(RANGES_MAX) {
        let list: Vec<_> = ranges.iter().map(|range| format!("{}-{}", range.start, range.end - 1)).collect();
        let list = list.join(",");
        requests +=
            &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: */*\r\nrange: bytes={list}\r\n\r\n");
    }
    stream.write_all(requests.as_bytes()).map_err(|error| error.to_string())?;
    let mut stream = BufReader::new(stream);
    let mut parts = Vec::with_capacity(wanted.len());
    for ranges in wanted.chunks(RANGES_MAX) {
        receive(&mut stream, ranges, &mut parts)?;
    }
    for read in reads {
        let index = wanted.partition_point(|range| range.end <= read.offset);
        let from = place(read.offset - wanted[index].start)?;
        sum.update(&parts[index][from..from + place(read.length)?]);
    }
    Ok(())
}

/// What is read, in the order of the file.
fn merged(reads: &[Read]) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = reads.iter().map(|read| read.offset..read.offset + read.length).collect();
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// One response, of a part for each of `ranges` (RFC 9110, 14.6), or of one range alone.
fn receive(
    stream: &mut BufReader<TcpStream>,
    ranges: &[Range<u64>],
    parts: &mut Vec<Vec<u8>>,
) -> Result<(), String> {
    let (status, head) = fields(stream)?;
    if !status.starts_with("HTTP/1.1 206 ") {
        return Err(format!("expected 206: {status}"));
    }
    let length = value(&head, "content-length").and_then(|value| value.parse().ok());
    let mut body = stream.take(length.ok_or("no content-length")?);
    for range in ranges {
        let part = if ranges.len() == 1 { head.clone() } else { part_head(&mut body)? };
        let expected = format!("bytes {}-{}/", range.start, range.end - 1);
        if !value(&part, "content-range").is_some_and(|found| found.starts_with(&expected)) {
            return Err(format!("expected {expected}: {part:?}"));
        }
        let mut bytes = vec![0; place(range.end - range.start)?];
        body.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        parts.push(bytes);
    }
    body.read_to_end(&mut Vec::new()).map_err(|error| error.to_string())?;
    Ok(())
}

/// The boundary before a part, and its fields.
fn part_head(body: &mut impl BufRead) -> Result<Vec<String>, String> {
    loop {
        let (line, fields) = fields(body)?;
        if line.starts_with("--") {
            return Ok(fields);
        }
    }
}

/// A line, and those that follow it up to an empty one. None follow an empty line.
fn fields(stream: &mut impl BufRead) -> Result<(String, Vec<String>), String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            return Err("the connection ends within a head".to_owned());
        }
        match line.trim_end() {
            "" if lines.is_empty() => return Ok((String::new(), lines)),
            "" => return Ok((lines.remove(0), lines)),
            line => lines.push(line.to_owned()),
        }
    }
}

fn value<'a>(fields: &'a [String], name: &str) -> Option<&'a str> {
    let named = |(found, _): &(&str, &str)| found.eq_ignore_ascii_case(name);
    fields.iter().filter_map(|field| field.split_once(':')).find(named).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset: u64, length: u64) -> Read {
        Read { offset, length }
    }

    #[test]
    fn what_is_read_twice_or_lies_close_comes_once() {
        let reads = [read(5000, 100), read(0, 10), read(5050, 200), read(130, 10), read(9000, 0)];
        assert_eq!(merged(&reads), [0..140, 5000..5250]);
    }

    #[test]
    fn the_head_of_a_part_is_found_behind_the_part_before_it() {
        let part = |range: &str| format!("\r\n--edge\r\nContent-Range: bytes {range}/9\r\n\r\n");
        let text = part("0-1") + "ab" + &part("4-5") + "cd";
        let mut body = text.as_bytes();
        assert_eq!(part_head(&mut body), Ok(vec!["Content-Range: bytes 0-1/9".to_owned()]));
        body = &body[2..];
        let second = part_head(&mut body).expect("whole");
        assert_eq!((value(&second, "content-range"), body), (Some("bytes 4-5/9"), &b"cd"[..]));
    }
}
