//! What the fuzz targets of `range-reader` check: what a server says of ranges is read the same
//! however it is cut, holds together, and is what was written.
//!
//! `libs/range-reader/tests/range-reader/fuzz_corpus.rs` includes this file and replays the kept corpus.

use bytes::Bytes;
use range_reader::http::content_range::{self, ContentRange};
use range_reader::http::multipart::{self, Item, Multipart, MultipartError};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("content_range", content_range), ("multipart_byteranges", multipart_byteranges)];

/// A value of `Content-Range`: what is accepted is written back, and is accepted again as the same.
pub fn content_range(data: &[u8]) {
    let Some(parsed) = content_range::parse(data) else { return };
    let ContentRange { range, total_bytes } = &parsed;
    if let Some(range) = range {
        assert!(range.start < range.end && total_bytes.is_none_or(|total| range.end <= total));
    }
    let total = total_bytes.map_or("*".to_owned(), |total| total.to_string());
    let written = match range {
        Some(range) => format!("bytes {}-{}/{total}", range.start, range.end - 1),
        None => format!("bytes */{total}"),
    };
    assert_eq!(content_range::parse(written.as_bytes()), Some(parsed));
}

/// A content type, an empty line, and a body: read at once and in pieces, with the same result.
pub fn multipart_byteranges(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (content_type, rest) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let Some(boundary) = multipart::boundary(content_type) else { return };
    assert!((1..=70).contains(&boundary.len()));
    // The first byte says how large the pieces are.
    let Some((&piece, body)) = rest.split_first() else { return };
    let whole = read(&boundary, body, body.len().max(1));
    let pieces = read(&boundary, body, usize::from(piece).max(1));
    assert_eq!(whole, pieces);
    check(&whole, body);
}

/// The parts with their bytes, and how it ended.
type Outcome = (Vec<(ContentRange, Vec<u8>)>, Result<(), MultipartError>);

fn read(boundary: &[u8], body: &[u8], piece: usize) -> Outcome {
    let mut multipart = Multipart::new(boundary);
    let mut parts: Vec<(ContentRange, Vec<u8>)> = Vec::new();
    for piece in body.chunks(piece) {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match multipart.next(&mut input) {
                Ok(Some(Item::Part(range))) => parts.push((range, Vec::new())),
                Ok(Some(Item::Data(data))) => {
                    assert!(!data.is_empty());
                    parts.last_mut().expect("a part begins with its head").1.extend_from_slice(&data);
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(multipart.finish(), Err(error), "an error stays");
                    return (parts, Err(error));
                }
            }
        }
        assert!(input.is_empty(), "all input is used");
    }
    (parts, multipart.finish())
}

/// Parts have their announced length, except one that has been cut off; their bytes are in the
/// body.
fn check((parts, end): &Outcome, body: &[u8]) {
    for (index, (range, bytes)) in parts.iter().enumerate() {
        let range = range.range.as_ref().expect("a part has bytes");
        let is_cut = index + 1 == parts.len() && *end == Err(MultipartError::Truncated);
        let length = bytes.len() as u64;
        assert!(length == range.end - range.start || (is_cut && length < range.end - range.start));
    }
    let total: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(total <= body.len());
}
