//! HTTP-FLV player as a byte machine: request out, response head, optional chunked coding, FLV tags in.
//!
//! It keeps the first bytes of each tag body and skips the rest, so a player costs the same whatever its
//! bitrate. Redirects, compression and keep-alive are left out: a media server answers 200 and streams.

use rtmp::MediaKind;

use crate::net::HttpUrl;
use crate::stamp::PREFIX_BYTES;
use crate::tally::Arrival;

/// One HTTP-FLV download. **Write [`request`] to the socket, then give every byte read to `handle_input`.**
#[derive(Debug)]
pub struct HttpFlvClient {
    body: HttpBody,
    flv: FlvSkimmer,
}

/// The body of an answer that is a stream: what is left when head and chunks are taken off.
#[derive(Debug)]
pub struct HttpBody {
    state: State,
    chunked: bool,
    /// Bytes of the current HTTP chunk still to come, when `chunked`.
    chunk_left: u64,
}

#[derive(Debug)]
enum State {
    Head(Vec<u8>),
    Body,
    /// Reading a chunk size line (RFC 9112 §7.1): digits so far, and whether any was seen.
    ChunkSize {
        size: u64,
        digits: u8,
        in_extension: bool,
    },
    /// CR LF after a chunk's data; the number of bytes still expected.
    ChunkEnd(u8),
    Ended,
}

/// Why a download failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFlvError {
    /// The answer is not 200; holds the status line.
    Status(String),
    /// The response head is no HTTP/1 or longer than 16 KiB.
    BadHead,
    /// Chunked coding is broken.
    BadChunk,
    /// The body is no FLV.
    BadFlv,
}

/// The request for one stream.
pub fn request(url: &HttpUrl) -> Vec<u8> {
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: millbench/{}\r\nAccept: */*\r\n\r\n",
        url.path,
        url.authority,
        env!("CARGO_PKG_VERSION")
    )
    .into_bytes()
}

impl HttpFlvClient {
    /// A download whose request is about to be sent.
    pub fn new() -> HttpFlvClient {
        let flv = FlvSkimmer { state: FlvState::FileHeader, held: [0; HELD_BYTES], held_len: 0 };
        HttpFlvClient { body: HttpBody::default(), flv }
    }

    /// Takes bytes from the server and calls `on_media` for each complete tag.
    ///
    /// # Errors
    /// See [`HttpFlvError`]; the download is dead afterwards.
    pub fn handle_input(
        &mut self,
        input: &[u8],
        mut on_media: impl FnMut(Arrival<'_>),
    ) -> Result<(), HttpFlvError> {
        let flv = &mut self.flv;
        self.body.handle_input(input, |bytes| flv.handle_input(bytes, &mut on_media))
    }

    /// Whether the server has ended the answer.
    pub fn is_ended(&self) -> bool {
        self.body.is_ended()
    }
}

impl HttpBody {
    /// Takes bytes from the server and calls `on_body` with those of the body.
    ///
    /// # Errors
    /// See [`HttpFlvError`], or those of `on_body`; the download is dead afterwards.
    pub fn handle_input(
        &mut self,
        mut input: &[u8],
        mut on_body: impl FnMut(&[u8]) -> Result<(), HttpFlvError>,
    ) -> Result<(), HttpFlvError> {
        while !input.is_empty() {
            match &mut self.state {
                State::Head(head) => {
                    let taken = input.len().min(MAX_HEAD_BYTES - head.len());
                    let searched_from = head.len().saturating_sub(3);
                    head.extend_from_slice(&input[..taken]);
                    let end = head[searched_from..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
                    let Some(end) = end.map(|position| searched_from + position + 4) else {
                        if head.len() == MAX_HEAD_BYTES {
                            return Err(HttpFlvError::BadHead);
                        }
                        return Ok(());
                    };
                    input = &input[taken - (head.len() - end)..];
                    self.chunked = read_head(&head[..end])?;
                    self.state = if self.chunked { NEXT_CHUNK } else { State::Body };
                }
                State::Body => {
                    let limit = if self.chunked { self.chunk_left } else { u64::MAX };
                    let taken = usize::try_from(limit).map_or(input.len(), |limit| limit.min(input.len()));
                    on_body(&input[..taken])?;
                    input = &input[taken..];
                    if self.chunked {
                        self.chunk_left -= taken as u64;
                        if self.chunk_left == 0 {
                            self.state = State::ChunkEnd(2);
                        }
                    }
                }
                State::ChunkSize { size, digits, in_extension } => {
                    let byte = input[0];
                    input = &input[1..];
                    match (byte as char).to_digit(16) {
                        Some(digit) if !*in_extension && *digits < 15 => {
                            *size = *size << 4 | u64::from(digit);
                            *digits += 1;
                        }
                        _ if *digits == 0 => return Err(HttpFlvError::BadChunk),
                        _ if byte == b'\n' => {
                            self.chunk_left = *size;
                            self.state = if *size == 0 { State::Ended } else { State::Body };
                        }
                        _ if byte == b'\r' || byte == b';' || *in_extension => *in_extension = true,
                        _ => return Err(HttpFlvError::BadChunk),
                    }
                }
                State::ChunkEnd(left) => {
                    let expected = if *left == 2 { b'\r' } else { b'\n' };
                    if input[0] != expected {
                        return Err(HttpFlvError::BadChunk);
                    }
                    input = &input[1..];
                    *left -= 1;
                    if *left == 0 {
                        self.state = NEXT_CHUNK;
                    }
                }
                State::Ended => return Ok(()),
            }
        }
        Ok(())
    }

    /// Whether the server ended the body.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}

impl Default for HttpBody {
    fn default() -> HttpBody {
        HttpBody { state: State::Head(Vec::new()), chunked: false, chunk_left: 0 }
    }
}

impl Default for HttpFlvClient {
    fn default() -> HttpFlvClient {
        HttpFlvClient::new()
    }
}

/// Checks status and version; returns whether the body is chunked (RFC 9112 §2.1, §6.1).
fn read_head(head: &[u8]) -> Result<bool, HttpFlvError> {
    let text = std::str::from_utf8(head).map_err(|_| HttpFlvError::BadHead)?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut words = status_line.split(' ');
    if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(HttpFlvError::BadHead);
    }
    if words.next() != Some("200") {
        let printable = status_line.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(HttpFlvError::Status(printable));
    }
    Ok(lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked")
    }))
}

/// Splits an FLV byte stream into tags without keeping their bodies (FLV specification v10.1, annex E).
#[derive(Debug)]
struct FlvSkimmer {
    state: FlvState,
    /// Tag header and first body bytes of a tag that spans two inputs.
    held: [u8; HELD_BYTES],
    held_len: usize,
}

#[derive(Debug)]
enum FlvState {
    FileHeader,
    /// Collecting tag header and body prefix in `held`.
    Tag,
    /// Skipping what is left of body and trailing `PreviousTagSize`; the tag is announced when it is whole.
    Rest {
        left: u32,
    },
}

impl FlvSkimmer {
    fn handle_input(
        &mut self,
        mut input: &[u8],
        on_media: &mut impl FnMut(Arrival<'_>),
    ) -> Result<(), HttpFlvError> {
        loop {
            match self.state {
                FlvState::FileHeader => {
                    if !self.hold(&mut input, FILE_HEADER_BYTES) {
                        return Ok(());
                    }
                    if self.held[..3] != *b"FLV" || self.held[5..9] != [0, 0, 0, 9] {
                        return Err(HttpFlvError::BadFlv);
                    }
                    self.held_len = 0;
                    self.state = FlvState::Tag;
                }
                FlvState::Tag => {
                    if !self.hold(&mut input, TAG_HEADER_BYTES) {
                        return Ok(());
                    }
                    let body_len = self.body_len();
                    let prefix_len = body_len.min(PREFIX_BYTES as u32);
                    if !self.hold(&mut input, TAG_HEADER_BYTES + prefix_len as usize) {
                        return Ok(());
                    }
                    self.state = FlvState::Rest { left: body_len - prefix_len + PREVIOUS_TAG_SIZE_BYTES };
                }
                FlvState::Rest { left } => {
                    let skipped = input.len().min(left as usize);
                    input = &input[skipped..];
                    let left = left - skipped as u32;
                    if left > 0 {
                        self.state = FlvState::Rest { left };
                        return Ok(());
                    }
                    on_media(self.arrival()?);
                    self.held_len = 0;
                    self.state = FlvState::Tag;
                }
            }
        }
    }

    /// Fills `held` up to `wanted` bytes; `false` when the input ended before.
    fn hold(&mut self, input: &mut &[u8], wanted: usize) -> bool {
        let taken = input.len().min(wanted - self.held_len.min(wanted));
        self.held[self.held_len..self.held_len + taken].copy_from_slice(&input[..taken]);
        self.held_len += taken;
        *input = &input[taken..];
        self.held_len >= wanted
    }

    fn body_len(&self) -> u32 {
        u32::from_be_bytes([0, self.held[1], self.held[2], self.held[3]])
    }

    fn arrival(&self) -> Result<Arrival<'_>, HttpFlvError> {
        let kind = match self.held[0] & 0x1f {
            8 => MediaKind::Audio,
            9 => MediaKind::Video,
            18 => MediaKind::Data,
            _ => return Err(HttpFlvError::BadFlv),
        };
        let [t2, t1, t0, t3] = [self.held[4], self.held[5], self.held[6], self.held[7]];
        let timestamp = u32::from_be_bytes([t3, t2, t1, t0]);
        Ok(Arrival {
            kind,
            timestamp,
            length: self.body_len(),
            prefix: &self.held[TAG_HEADER_BYTES..self.held_len],
        })
    }
}

const NEXT_CHUNK: State = State::ChunkSize { size: 0, digits: 0, in_extension: false };

/// Limit of a response head; servers send a few hundred bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// File header and the first `PreviousTagSize`.
const FILE_HEADER_BYTES: usize = 9 + 4;
const TAG_HEADER_BYTES: usize = 11;
const PREVIOUS_TAG_SIZE_BYTES: u32 = 4;
const HELD_BYTES: usize = TAG_HEADER_BYTES + PREFIX_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two audio tags, a video tag longer than the prefix and a data tag, as one FLV stream.
    fn flv() -> (Vec<u8>, Vec<(MediaKind, u32, u32)>) {
        let tags = [
            (MediaKind::Audio, 0u32, 7u32),
            (MediaKind::Video, 0x0123_4567, 5_000),
            (MediaKind::Data, 40, 0),
            (MediaKind::Audio, u32::MAX, 79),
        ];
        let mut bytes = Vec::new();
        rtmp::flv::write_file_header(&mut bytes, true, true);
        for (kind, timestamp, length) in tags {
            rtmp::flv::write_tag(&mut bytes, kind, timestamp, &vec![0xaf; length as usize]);
        }
        (bytes, tags.to_vec())
    }

    fn receive(response: &[u8], piece: usize) -> Result<Vec<(MediaKind, u32, u32)>, HttpFlvError> {
        let mut client = HttpFlvClient::new();
        let mut seen = Vec::new();
        for input in response.chunks(piece) {
            client.handle_input(input, |media| {
                assert_eq!(media.prefix.len(), (media.length as usize).min(PREFIX_BYTES));
                seen.push((media.kind, media.timestamp, media.length));
            })?;
        }
        Ok(seen)
    }

    #[test]
    fn tags_are_found_however_the_bytes_arrive() {
        let (body, tags) = flv();
        let plain = [b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\n\r\n".to_vec(), body.clone()].concat();
        let mut chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n".to_vec();
        for part in body.chunks(100) {
            chunked.extend_from_slice(format!("{:X};ext=1\r\n", part.len()).as_bytes());
            chunked.extend_from_slice(part);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        for piece in (1..200).chain([1000, 10_000]) {
            assert_eq!(receive(&plain, piece), Ok(tags.clone()), "plain, pieces of {piece}");
            assert_eq!(receive(&chunked, piece), Ok(tags.clone()), "chunked, pieces of {piece}");
        }
    }

    #[test]
    fn wrong_answers_are_errors() {
        let ok = "HTTP/1.1 200 OK\r\n\r\n";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let cases = [
            (
                "HTTP/1.1 404 Not Found\r\n\r\n".to_owned(),
                HttpFlvError::Status("HTTP/1.1 404 Not Found".into()),
            ),
            ("SSH-2.0-x\r\n\r\n".to_owned(), HttpFlvError::BadHead),
            ("x".repeat(MAX_HEAD_BYTES + 1), HttpFlvError::BadHead),
            (format!("{ok}GIF89a and some more bytes"), HttpFlvError::BadFlv),
            (format!("{chunked}xyz"), HttpFlvError::BadChunk),
            (format!("{chunked}1\r\nFxx"), HttpFlvError::BadChunk),
            (format!("{chunked}1111111111111111\r\n"), HttpFlvError::BadChunk),
        ];
        for (response, error) in cases {
            for piece in [1, 7, 100_000] {
                assert_eq!(
                    receive(response.as_bytes(), piece),
                    Err(error.clone()),
                    "{response:.40} by {piece}"
                );
            }
        }
    }

    #[test]
    fn the_request_names_host_and_path() {
        let url: HttpUrl = "http://localhost:8080/live/a.flv?token=t".parse().expect("a valid URL");
        let text = String::from_utf8(request(&url)).expect("a request is text");
        assert!(text.starts_with("GET /live/a.flv?token=t HTTP/1.1\r\nHost: localhost:8080\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"), "{text}");
    }
}
