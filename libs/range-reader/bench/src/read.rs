//! Clients that read a trace in the ways that a range reader must beat.
//!
//! - `read-through`: one GET of the whole file, all of it kept, each read served when its bytes
//!   have arrived.
//! - `reopen`: a new connection and a bounded range for each run of reads that touch each other.
//! - `prepatch`: FFmpeg before forward seeks were served from the open connection. A range without
//!   an end, read through a buffer of 32 KiB; a seek out of that buffer opens another connection
//!   and then closes the previous one, which has received more unread bytes until then.
//! - `oracle`: see `oracle.rs`.
//!
//! Each prints the SHA-256 of what it read, in the order of the trace, and the seconds it took from
//! its first connection on. HTTP is what these need and nginx answers: no redirects, no chunks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::Options;
use crate::oracle::oracle;
use crate::trace::{self, Read};

/// Buffer of FFmpeg's reader.
const BUFFER_BYTES: usize = 32 << 10;
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Reads and prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let text = std::fs::read_to_string(options.text("trace")?).map_err(|error| error.to_string())?;
    let reads = trace::parse(&text)?;
    let server = Server { address: options.value("host")?, path: options.text("path")?.to_owned() };
    let begun = Instant::now();
    let mut sum = Sha256::new();
    match options.text("how")? {
        "read-through" => read_through(&server, &reads, &mut sum)?,
        "reopen" => reopen(&server, &reads, &mut sum)?,
        "prepatch" => prepatch(&server, &reads, &mut sum)?,
        "oracle" => oracle(server.address, &server.path, &reads, &mut sum)?,
        how => return Err(format!("--how {how}: not known")),
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{{\"sha256\": \"{sum}\", \"seconds\": {seconds:.6}}}");
    Ok(())
}

fn read_through(server: &Server, reads: &[Read], sum: &mut Sha256) -> Result<(), String> {
    let mut answer = server.get(None)?;
    let mut file = Vec::with_capacity(answer.length);
    for read in reads {
        let (start, end) = (place(read.offset)?, place(read.offset + read.length)?);
        let missing = end.saturating_sub(file.len());
        let got = (&mut answer.body).take(missing as u64).read_to_end(&mut file);
        got.map_err(|error| error.to_string())?;
        sum.update(file.get(start..end).ok_or("the file ends within a read")?);
    }
    Ok(())
}

fn reopen(server: &Server, reads: &[Read], sum: &mut Sha256) -> Result<(), String> {
    let mut bytes = Vec::new();
    for run in reads.chunk_by(|one, next| one.offset + one.length == next.offset) {
        let (start, end) = (run[0].offset, run.last().map_or(0, |read| read.offset + read.length));
        let mut answer = server.get(Some(format!("{start}-{}", end - 1)))?;
        bytes.resize(place(end - start)?, 0);
        answer.body.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        sum.update(&bytes);
    }
    Ok(())
}

fn prepatch(server: &Server, reads: &[Read], sum: &mut Sha256) -> Result<(), String> {
    let mut answer = server.get(Some("0-".to_owned()))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    // What the buffer holds is `start..end` of the file.
    let (mut start, mut end) = (0u64, 0u64);
    for read in reads {
        let mut at = read.offset;
        if !(start..=end).contains(&at) {
            // The old response is dropped once the new one's head has arrived: if that fails,
            // FFmpeg can continue.
            answer = server.get(Some(format!("{at}-")))?;
            (start, end) = (at, at);
        }
        while at < read.offset + read.length {
            if at == end {
                let bytes = answer.body.read(&mut buffer).map_err(|error| error.to_string())?;
                if bytes == 0 {
                    return Err("the file ends within a read".to_owned());
                }
                (start, end) = (end, end + bytes as u64);
            }
            let until = end.min(read.offset + read.length);
            sum.update(&buffer[place(at - start)?..place(until - start)?]);
            at = until;
        }
    }
    Ok(())
}

pub(crate) fn place(offset: u64) -> Result<usize, String> {
    usize::try_from(offset).map_err(|_| "beyond what fits in memory".to_owned())
}

struct Server {
    address: SocketAddr,
    path: String,
}

struct HttpResponse {
    length: usize,
    body: Body,
}

impl Server {
    /// A new connection and its response's head; dropping the response closes it.
    fn get(&self, range: Option<String>) -> Result<HttpResponse, String> {
        let mut stream = TcpStream::connect(self.address).map_err(|error| error.to_string())?;
        let range = range.map(|range| format!("range: bytes={range}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\naccept: */*\r\nconnection: close\r\n{range}\r\n",
            self.path, self.address
        );
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let (head, early) = read_head(&mut stream)?;
        let expected = if range.is_empty() { "HTTP/1.1 200 " } else { "HTTP/1.1 206 " };
        if !head.starts_with(expected) {
            return Err(format!("expected {expected}: {}", head.lines().next().unwrap_or_default()));
        }
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|(_, value)| value.trim().parse().ok()).ok_or("no content-length")?;
        Ok(HttpResponse { length, body: Body { early, stream } })
    }
}

fn read_head(stream: &mut TcpStream) -> Result<(String, Vec<u8>), String> {
    let mut bytes = vec![0; HEAD_BYTES_MAX];
    let mut filled = 0;
    loop {
        let got = stream.read(&mut bytes[filled..]).map_err(|error| error.to_string())?;
        if got == 0 {
            return Err("no whole head of an answer".to_owned());
        }
        filled += got;
        if let Some(end) = memchr::memmem::find(&bytes[..filled], b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            return Ok((head, bytes[end + 4..filled].to_vec()));
        }
    }
}

/// A body, the beginning of which came with the head.
struct Body {
    early: Vec<u8>,
    stream: TcpStream,
}

impl std::io::Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.early.is_empty() {
            return self.stream.read(buffer);
        }
        let bytes = buffer.len().min(self.early.len());
        buffer[..bytes].copy_from_slice(&self.early[..bytes]);
        self.early.drain(..bytes);
        Ok(bytes)
    }
}
