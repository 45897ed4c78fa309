//! `multipart/byteranges` (RFC 9110, 14.6; RFC 2046, 5.1), read as it comes.
//!
//! ```text
//! --boundary CRLF
//! Content-Type: video/mp4 CRLF
//! Content-Range: bytes 500-999/8000 CRLF
//! CRLF
//! 500 bytes CRLF
//! --boundary-- CRLF
//! ```
//! `Content-Range` says how long a part is, so its bytes are counted, not searched for the
//! boundary: they may contain it. Data are handed on without a copy. Which parts are welcome is
//! judged in `response.rs`.

use bytes::{Buf, Bytes};

use super::content_range::{self, ContentRange};

/// Longest line of a preamble, a delimiter or a part's head, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Longest preamble, epilogue, and head of a part, in bytes.
const SECTION_BYTES_MAX: usize = 16 << 10;
/// Header fields of a part.
const PART_FIELDS_MAX: usize = 32;
/// Longest boundary (RFC 2046, 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// What a multipart body consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The head of a part; its range is not `None`.
    Part(ContentRange),
    /// Bytes of the present part.
    Data(Bytes),
}

/// Why a body is not `multipart/byteranges`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MultipartError {
    /// A line, the preamble, the epilogue, or the head of a part is longer than anybody needs.
    TooLong,
    /// The head of a part is not header fields.
    BadHead,
    /// A part has no `Content-Range`, more than one, or one that cannot be read.
    NoRange,
    /// A part is encoded (`Content-Encoding`), which was not asked for.
    Encoded,
    /// No delimiter stands where the range says that a part ends.
    WrongLength,
    /// The body ends before its closing delimiter.
    Truncated,
}

impl MultipartError {
    /// As text.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "a line or the head of a part of several ranges is too long",
            Self::BadHead => "the head of a part of several ranges is not header fields",
            Self::NoRange => "a part of several ranges does not say its range",
            Self::Encoded => "a part of several ranges is encoded",
            Self::WrongLength => "a part of several ranges is not as long as its range",
            Self::Truncated => "the answer with several ranges ends too early",
        }
    }
}

/// Reader of one body. Feed it with [`Multipart::next`] until there is nothing left, then
/// [`Multipart::finish`].
#[derive(Debug)]
pub struct Multipart {
    /// `--boundary`.
    delimiter: Vec<u8>,
    state: State,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Lines of the section that is being read, in one.
    head: Vec<u8>,
    /// Bytes of the present section.
    section_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Preamble,
    Head,
    /// Bytes of the part that are still to come, not 0.
    Data(u64),
    /// The line break that belongs to the delimiter.
    AfterData,
    Delimiter,
    Epilogue,
    Failed(MultipartError),
}

impl Multipart {
    /// A body whose parts are separated by `boundary`, see [`boundary`].
    pub fn new(boundary: &[u8]) -> Self {
        Self {
            delimiter: [b"--", boundary].concat(),
            state: State::Preamble,
            line: Vec::new(),
            head: Vec::new(),
            section_bytes: 0,
        }
    }

    /// The next item of `input`, which is shortened by what has been read; `None`: more input is
    /// needed.
    ///
    /// After an error it stays with that error.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Item>, MultipartError> {
        let result = self.step_until_item(input);
        if let Err(error) = result {
            self.state = State::Failed(error);
        }
        result
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) -> Result<(), MultipartError> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        // The closing delimiter may be the last there is, without a line break.
        let line = std::mem::take(&mut self.line);
        if self.state == State::Delimiter && self.delimiter_in(&line) == Some(true) {
            self.state = State::Epilogue;
        }
        if self.state == State::Epilogue { Ok(()) } else { Err(MultipartError::Truncated) }
    }

    fn step_until_item(&mut self, input: &mut Bytes) -> Result<Option<Item>, MultipartError> {
        while !input.is_empty() {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Data(left) => return Ok(Some(self.data(left, input))),
                State::Epilogue => {
                    self.count(input.len())?;
                    input.clear();
                }
                State::Preamble | State::Head | State::AfterData | State::Delimiter => {
                    if self.take_line(input)? {
                        let line = std::mem::take(&mut self.line);
                        let item = self.end_of_line(&line)?;
                        self.line = line;
                        self.line.clear();
                        if item.is_some() {
                            return Ok(item);
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    fn data(&mut self, left: u64, input: &mut Bytes) -> Item {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let left = left - length as u64;
        self.state = if left == 0 { State::AfterData } else { State::Data(left) };
        Item::Data(input.split_to(length))
    }

    /// Moves bytes to `line` up to a line break, which is left out; returns whether it has arrived.
    fn take_line(&mut self, input: &mut Bytes) -> Result<bool, MultipartError> {
        let end = memchr::memchr(b'\n', input);
        let length = end.unwrap_or(input.len());
        if self.line.len() + length > LINE_BYTES_MAX {
            return Err(MultipartError::TooLong);
        }
        self.line.extend_from_slice(&input[..length]);
        input.advance(length + usize::from(end.is_some()));
        if end.is_none() {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        self.count(self.line.len() + 2)?;
        Ok(true)
    }

    fn count(&mut self, bytes: usize) -> Result<(), MultipartError> {
        self.section_bytes = self.section_bytes.saturating_add(bytes);
        if self.section_bytes > SECTION_BYTES_MAX { Err(MultipartError::TooLong) } else { Ok(()) }
    }

    /// What a whole line means.
    fn end_of_line(&mut self, line: &[u8]) -> Result<Option<Item>, MultipartError> {
        match self.state {
            State::Preamble => {
                if let Some(is_last) = self.delimiter_in(line) {
                    self.after_delimiter(is_last);
                }
            }
            State::AfterData if line.is_empty() => self.state = State::Delimiter,
            State::Delimiter => {
                let is_last = self.delimiter_in(line).ok_or(MultipartError::WrongLength)?;
                self.after_delimiter(is_last);
            }
            State::Head if line.is_empty() => {
                let range = read_head(&self.head)?;
                let length = range.range.as_ref().map_or(0, |range| range.end - range.start);
                self.head.clear();
                self.section_bytes = 0;
                self.state = State::Data(length);
                return Ok(Some(Item::Part(range)));
            }
            State::Head => {
                self.head.extend_from_slice(line);
                self.head.extend_from_slice(b"\r\n");
            }
            State::AfterData => return Err(MultipartError::WrongLength),
            State::Data(_) | State::Epilogue | State::Failed(_) => {}
        }
        Ok(None)
    }

    /// Whether `line` is a delimiter, and then whether it is the closing one.
    fn delimiter_in(&self, line: &[u8]) -> Option<bool> {
        // Padding between the boundary and the line break is ignored (RFC 2046, 5.1.1).
        match line.strip_prefix(self.delimiter.as_slice())?.trim_ascii_end() {
            b"" => Some(false),
            b"--" => Some(true),
            _ => None,
        }
    }

    fn after_delimiter(&mut self, is_last: bool) {
        self.section_bytes = 0;
        self.state = if is_last { State::Epilogue } else { State::Head };
    }
}

/// The range of a part with this head, whose lines end with CRLF; the empty line is left out.
fn read_head(head: &[u8]) -> Result<ContentRange, MultipartError> {
    let block = [head, b"\r\n"].concat();
    let mut fields = [httparse::EMPTY_HEADER; PART_FIELDS_MAX];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(&block, &mut fields) else {
        return Err(MultipartError::BadHead);
    };
    let named = |name: &'static str| fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    if named("content-encoding").any(|field| !field.value.eq_ignore_ascii_case(b"identity")) {
        return Err(MultipartError::Encoded);
    }
    let mut ranges = named("content-range");
    match (ranges.next(), ranges.next()) {
        (Some(field), None) => content_range::parse(field.value)
            .filter(|range| range.range.is_some())
            .ok_or(MultipartError::NoRange),
        _ => Err(MultipartError::NoRange),
    }
}

/// The boundary of a `multipart/byteranges` content type, its quotes removed; `None` if it is
/// another type or has no boundary that could be one (1 to 70 characters).
///
/// `multipart/x-byteranges`, which some old servers say, is the same.
pub fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(content_type).ok()?;
    let (kind, mut rest) = text.split_once(';')?;
    let kind = kind.trim();
    if !kind.eq_ignore_ascii_case("multipart/byteranges")
        && !kind.eq_ignore_ascii_case("multipart/x-byteranges")
    {
        return None;
    }
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = parameter_value(after)?;
        if name.trim().eq_ignore_ascii_case("boundary") {
            let is_valid = (1..=BOUNDARY_BYTES_MAX).contains(&value.len())
                && value.iter().all(|byte| (0x20..0x7f).contains(byte))
                && value.last() != Some(&b' ');
            return is_valid.then_some(value);
        }
        rest = after.trim_start().strip_prefix(';')?;
    }
}

/// A token or a quoted string (RFC 9110, 5.6.4), and the rest after it.
fn parameter_value(text: &str) -> Option<(Vec<u8>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return Some((text[..end].trim().as_bytes().to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.extend_from_slice(characters.next()?.1.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All items, data joined within their part, with the input cut at `cuts`.
    fn read(body: &[u8], cuts: &[usize]) -> Result<Vec<Item>, MultipartError> {
        let mut multipart = Multipart::new(b"sea");
        let mut items: Vec<Item> = Vec::new();
        let mut from = 0;
        for &cut in cuts.iter().chain([&body.len()]) {
            let mut input = Bytes::copy_from_slice(&body[from..cut]);
            from = cut;
            while let Some(item) = multipart.next(&mut input)? {
                match (items.last_mut(), item) {
                    (Some(Item::Data(before)), Item::Data(data)) => {
                        *before = [&before[..], &data[..]].concat().into()
                    }
                    (_, item) => items.push(item),
                }
            }
            assert!(input.is_empty(), "all input is used");
        }
        multipart.finish()?;
        Ok(items)
    }

    fn part(start: u64, end: u64, total: u64) -> Item {
        Item::Part(ContentRange { range: Some(start..end), total_bytes: Some(total) })
    }

    fn data(bytes: &[u8]) -> Item {
        Item::Data(Bytes::copy_from_slice(bytes))
    }

    /// As in RFC 9110, 14.6, with parts short enough to be written out, one of which looks like a
    /// delimiter.
    const BODY: &[u8] =
        b"preamble\r\n--sea\r\nContent-Type: application/pdf\r\nContent-Range: bytes 500-507/8000\r\n\r\n\
        \r\n--sea\n\r\n--sea \t\r\ncontent-range:bytes 7000-7003/8000\r\n\r\nabcd\r\n--sea--\r\nepilogue\r\n";

    fn items() -> Vec<Item> {
        vec![part(500, 508, 8000), data(b"\r\n--sea\n"), part(7000, 7004, 8000), data(b"abcd")]
    }

    #[test]
    fn a_body_may_be_cut_anywhere() {
        assert_eq!(read(BODY, &[]).unwrap(), items());
        for first in 0..=BODY.len() {
            for second in first..=BODY.len() {
                assert_eq!(read(BODY, &[first, second]).unwrap(), items(), "{first} {second}");
            }
        }
        assert_eq!(read(BODY, &(0..BODY.len()).collect::<Vec<_>>()).unwrap(), items());
    }

    #[test]
    fn a_body_cut_short_is_noticed_until_the_last_delimiter() {
        let end = BODY.windows(7).position(|window| window == b"--sea--").unwrap() + 7;
        for length in 0..BODY.len() {
            let result = read(&BODY[..length], &[]);
            if length < end {
                assert_eq!(result.unwrap_err(), MultipartError::Truncated, "{length}");
            } else {
                assert_eq!(result.unwrap(), items(), "{length}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = [b"--sea\r\n".as_slice(), &b"a: b\r\n".repeat(10_000)].concat();
        let many = [b"--sea\r\n".as_slice(), &b"a: b\r\n".repeat(PART_FIELDS_MAX + 1), b"\r\n"].concat();
        let cases: &[(&[u8], MultipartError)] = &[
            (b"", MultipartError::Truncated),
            (b"--sea--", MultipartError::Truncated), // no part at all
            (b"--seaside\r\n", MultipartError::Truncated),
            (&[b' '; LINE_BYTES_MAX + 1], MultipartError::TooLong),
            (&b"\r\n".repeat(SECTION_BYTES_MAX), MultipartError::TooLong),
            (&long, MultipartError::TooLong),
            (&many, MultipartError::BadHead),
            (b"--sea\r\nno field\r\n\r\n", MultipartError::BadHead),
            (b"--sea\r\n\r\n", MultipartError::NoRange),
            (b"--sea\r\ncontent-range: bytes */5\r\n\r\n", MultipartError::NoRange),
            (
                b"--sea\r\ncontent-range: bytes 0-4/5\r\ncontent-encoding: gzip\r\n\r\n",
                MultipartError::Encoded,
            ),
            (b"--sea\r\ncontent-range: bytes 0-0/5\r\n\r\nab\r\n", MultipartError::WrongLength),
            (b"--sea\r\ncontent-range: bytes 0-1/5\r\n\r\nab--sea--\r\n", MultipartError::WrongLength),
            (b"--sea\r\ncontent-range: bytes 0-1/5\r\n\r\nab\r\n--other\r\n", MultipartError::WrongLength),
        ];
        for (body, expected) in cases {
            assert_eq!(read(body, &[]).unwrap_err(), *expected, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn an_epilogue_is_bounded() {
        let body = b"--sea\r\ncontent-range: bytes 0-1/5\r\n\r\nab\r\n--sea--";
        assert!(
            read(&[body.as_slice(), b"\r\n", &[0; SECTION_BYTES_MAX + 1]].concat(), &[body.len()]).is_err()
        );
        assert!(read(&[body.as_slice(), b"\r\n", &[0; 1_000]].concat(), &[]).is_ok());
    }

    #[test]
    fn after_an_error_nothing_comes() {
        let mut multipart = Multipart::new(b"sea");
        let mut input = Bytes::from_static(b"--sea\r\n\r\n");
        assert_eq!(multipart.next(&mut input), Err(MultipartError::NoRange));
        let mut input = Bytes::from_static(BODY);
        assert_eq!(multipart.next(&mut input), Err(MultipartError::NoRange));
        assert_eq!(multipart.finish(), Err(MultipartError::NoRange));
    }

    #[test]
    fn boundaries_are_tokens_or_quoted() {
        let seventy = "b".repeat(70);
        let quoted_long = format!("multipart/byteranges; boundary={seventy}");
        let too_long = format!("multipart/byteranges; boundary={seventy}b");
        let cases: &[(&str, Option<&str>)] = &[
            ("multipart/byteranges; boundary=THIS_STRING_SEPARATES", Some("THIS_STRING_SEPARATES")), // RFC 9110, 14.6
            ("Multipart/ByteRanges;Boundary=a", Some("a")),
            ("multipart/x-byteranges; boundary=a", Some("a")),
            ("multipart/byteranges; boundary=\"gc0p4Jq0M:2Yt08jU534c0p\"", Some("gc0p4Jq0M:2Yt08jU534c0p")), // RFC 2046
            ("multipart/byteranges; boundary=\"a;b=c\\\"d\"; x=y", Some("a;b=c\"d")),
            ("multipart/byteranges; x=\"boundary=b;\"; boundary=a", Some("a")),
            ("multipart/byteranges ; x=y ; boundary = a ", Some("a")),
            (&quoted_long, Some(&seventy)),
            (&too_long, None),
            ("multipart/byteranges; boundary=", None),
            ("multipart/byteranges; boundary=\"\"", None),
            ("multipart/byteranges; boundary=\"a", None),
            ("multipart/byteranges; boundary=\"a \"", None),
            ("multipart/byteranges; boundary=\"a\u{e9}\"", None),
            ("multipart/byteranges; boundary", None),
            ("multipart/byteranges", None),
            ("multipart/mixed; boundary=a", None),
            ("video/mp4", None),
            ("", None),
        ];
        for (content_type, expected) in cases {
            let found = boundary(content_type.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{content_type}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            parts in prop::collection::vec((0_u64..1 << 40, prop::collection::vec(any::<u8>(), 1..200)), 1..20),
            mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let mut body = Vec::new();
            let mut expected = Vec::new();
            for (start, bytes) in &parts {
                let end = start + bytes.len() as u64;
                let head = format!("\r\n--sea\r\nContent-Range: bytes {start}-{}/{}\r\n\r\n", end - 1, u64::MAX);
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(bytes);
                expected.extend([part(*start, end, u64::MAX), data(bytes)]);
            }
            body.extend_from_slice(b"\r\n--sea--\r\n");
            let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(body.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(read(&body, &cuts).unwrap(), expected);
        }
    }
}
