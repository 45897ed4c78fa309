//! What the fuzz target of `range-reader-c` checks: any options, and calls in any order with any
//! arguments, on a file that a server on loopback has.
//!
//! What is read is what the file has there, positions are where they should be, and errors are those
//! that the arguments deserve, never that of a bug. Addresses of others are opened and never read, which
//! sends nothing. `libs/range-reader-c/tests/range-reader-c/fuzz_corpus.rs` includes this file and
//! replays the kept corpus.

#[path = "input.rs"]
mod input;

use crate::origin::Origin;
use input::Input;
use range_reader_c::{
    Error, Options, Range, Reader, Statistics, range_reader_avio_read, range_reader_avio_seek,
    range_reader_close, range_reader_error_text, range_reader_hint, range_reader_interrupt,
    range_reader_open, range_reader_read, range_reader_seek, range_reader_size, range_reader_statistics_of,
};
use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("range_reader_c", range_reader_c)];

/// Bytes of the file.
const FILE_BYTES: usize = 300_000;

fn byte_at(at: usize) -> u8 {
    (at.wrapping_mul(31).wrapping_add(at / 256)) as u8
}

/// Options, then calls.
pub fn range_reader_c(data: &[u8]) {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    let origin = ORIGIN.get_or_init(|| Origin::start((0..FILE_BYTES).map(byte_at).collect(), None));
    let mut input = Input(data);
    let (kind, shape) = (input.byte(), input.byte());
    let is_ours = kind < 0xc0;
    let url = if is_ours { origin.url("/film").into_bytes() } else { text(&mut input) };
    let url = CString::new(url).expect("no zero");
    let headers = CString::new(text_if(shape & 0x01 != 0, &mut input)).expect("no zero");
    let roots = CString::new(text_if(shape & 0x02 != 0, &mut input)).expect("no zero");
    let options = Options {
        headers: if shape & 0x01 != 0 { headers.as_ptr() } else { null() },
        roots_pem: if shape & 0x02 != 0 { roots.as_ptr() } else { null() },
        any_address: shape & 0x80 == 0,
        proxies_of_environment: false,
        no_learning: shape & 0x04 != 0,
        // Shorter ones would be up before the server answers.
        timeout_ms: if shape & 0x08 != 0 { u32::MAX } else { 0 },
        window_bytes: size_if(shape & 0x10 != 0, &mut input),
        look_back_bytes: size_if(shape & 0x20 != 0, &mut input),
        file_bytes_max: size_if(shape & 0x40 != 0, &mut input) as u64,
    };
    let (mut reader, mut why) = (null_mut(), Text::new(input.byte()));
    let options_or_none = if kind == 1 { null() } else { &raw const options };
    let opened = unsafe {
        range_reader_open(url.as_ptr(), options_or_none, &raw mut reader, why.pointer(), why.size())
    };
    why.check(opened < 0);
    assert_eq!(opened == 0, !reader.is_null());
    if opened != 0 {
        let refusals = [Error::InvalidArgument, Error::NotAllowed, Error::Setup];
        assert!(refusals.iter().any(|error| *error as c_int == opened), "range_reader_open: {opened}");
        return;
    }
    let mut twin = Twin {
        reader,
        position: 0,
        interrupted: false,
        is_ours,
        // None of them is what is tested here.
        may_fail: kind == 1 || !options.any_address || shape & 0x43 != 0,
    };
    for _ in 0..24 {
        if input.0.is_empty() {
            break;
        }
        twin.call(&mut input);
    }
    unsafe { range_reader_close(reader) };
}

/// A reader, and what is known of it.
struct Twin {
    reader: *mut Reader,
    position: u64,
    interrupted: bool,
    is_ours: bool,
    /// The file may be too long or not allowed, or the server does not take the headers.
    may_fail: bool,
}

impl Twin {
    fn call(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        match what % 9 {
            0 | 1 => self.read(input, what & 0x80 != 0),
            2 | 3 => self.seek(input, what & 0x80 != 0),
            4 => self.hint(input),
            5 if self.is_ours => {
                let avio = what & 0x80 != 0;
                let size = match avio {
                    false => unsafe { range_reader_size(self.reader) },
                    true => unsafe { range_reader_avio_seek(self.reader.cast(), 7, 0x10000) },
                };
                self.check(avio, size, || size == FILE_BYTES as i64);
            }
            6 => {
                self.interrupted = what & 0x80 != 0;
                unsafe { range_reader_interrupt(self.reader, self.interrupted) };
            }
            7 => {
                let mut text = Text::new(input.byte());
                unsafe { range_reader_error_text(self.reader, text.pointer(), text.size()) };
                text.check(false);
            }
            _ => {
                let mut statistics = Statistics::default();
                let done = unsafe { range_reader_statistics_of(self.reader, &raw mut statistics) };
                let Statistics { bytes_used, bytes_skipped, bytes_wasted, bytes_buffered, .. } = statistics;
                let accounted = bytes_used + bytes_skipped + bytes_wasted + bytes_buffered;
                assert_eq!((done, accounted), (0, statistics.bytes_received), "{statistics:?}");
                assert_eq!(unsafe { range_reader_statistics_of(self.reader, null_mut()) }, INVALID);
            }
        }
    }

    fn read(&mut self, input: &mut Input<'_>, avio: bool) {
        let size = usize::from(input.short());
        let mut buffer: Box<[u8]> = vec![0xa5; size].into();
        match input.byte() {
            0xff => {
                assert_eq!(unsafe { range_reader_read(self.reader, null_mut(), size.max(1)) }, NUMBER);
                assert_eq!(
                    unsafe { range_reader_read(self.reader, buffer.as_mut_ptr(), usize::MAX) },
                    NUMBER
                );
                let none = unsafe { range_reader_avio_read(self.reader.cast(), buffer.as_mut_ptr(), -1) };
                assert!(none < 0, "{none}");
            }
            _ if !self.is_ours => {}
            _ if avio => {
                let wanted = size as c_int;
                let count =
                    unsafe { range_reader_avio_read(self.reader.cast(), buffer.as_mut_ptr(), wanted) };
                let ended = size > 0 && self.position >= FILE_BYTES as u64;
                let count = if ended && count == AVERROR_EOF { 0 } else { i64::from(count) };
                self.check_read(true, count, &buffer);
            }
            _ => {
                let count = unsafe { range_reader_read(self.reader, buffer.as_mut_ptr(), size) };
                self.check_read(false, count, &buffer);
            }
        }
    }

    fn check_read(&mut self, avio: bool, count: i64, buffer: &[u8]) {
        let left = (FILE_BYTES as u64).saturating_sub(self.position);
        let nothing = buffer.is_empty() || left == 0;
        self.check(avio, count, || (count == 0) == nothing && count as u64 <= left);
        if let Ok(count) = usize::try_from(count) {
            let wanted = (self.position as usize..).map(byte_at);
            assert!(buffer[..count].iter().copied().eq(wanted.take(count)), "at {}", self.position);
            self.position += count as u64;
        }
    }

    fn seek(&mut self, input: &mut Input<'_>, avio: bool) {
        let (whence, kind) = (c_int::from(input.byte() % 5) - 1, input.byte());
        let offset = i64::from(input.short()) << (kind % 50);
        let offset = if kind & 0x80 != 0 { offset.wrapping_neg() } else { offset };
        // The end is where the server says.
        if whence == 2 && !self.is_ours {
            return;
        }
        let moved = match avio {
            false => unsafe { range_reader_seek(self.reader, offset, whence) },
            true => unsafe { range_reader_avio_seek(self.reader.cast(), offset, whence) },
        };
        let base = match whence {
            0 => Some(0),
            1 => Some(self.position as i64),
            2 => Some(FILE_BYTES as i64),
            _ => None,
        };
        let expected = base.and_then(|base| base.checked_add(offset)).filter(|to| *to >= 0);
        match (expected, moved) {
            (Some(to), moved) if moved >= 0 => {
                assert_eq!(moved, to, "{offset} from {whence}");
                self.position = to as u64;
            }
            (Some(_), failed) => self.check(avio, failed, || false),
            (None, failed) => assert!(failed < 0 && failed != bug(avio), "{failed}: {offset} from {whence}"),
        }
    }

    fn hint(&mut self, input: &mut Input<'_>) {
        let kind = input.byte();
        let ranges: Box<[Range]> = (0..kind % 12)
            .map(|_| {
                let (start, len) = (number(input), number(input));
                let end = start.wrapping_add(len);
                if kind & 0x40 == 0 { Range { start, end: end.max(start) } } else { Range { start, end } }
            })
            .collect();
        let (pointer, count) = match kind {
            0xff => (null(), ranges.len()),
            0xfe => (ranges.as_ptr(), usize::MAX),
            0xfd => (ranges.as_ptr().wrapping_byte_add(1), ranges.len()),
            _ => (ranges.as_ptr(), ranges.len()),
        };
        let done = unsafe { range_reader_hint(self.reader, pointer, count) };
        let is_wrong = ranges.iter().any(|range| range.end < range.start);
        let is_wrong = kind == 0xfe || !ranges.is_empty() && (is_wrong || kind >= 0xfd);
        assert_eq!(done, if is_wrong { INVALID } else { 0 });
    }

    /// A number that is no error is right, and an error has a reason.
    fn check(&self, avio: bool, number: i64, is_right: impl FnOnce() -> bool) {
        let interrupted = if avio { AVERROR_EXIT } else { Error::Interrupted as i64 };
        assert!(number != bug(avio), "a bug");
        assert_eq!(number == interrupted, self.interrupted && number < 0, "{number}");
        assert!(number < 0 && (self.interrupted || self.may_fail) || is_right(), "{number}");
    }
}

/// How a bug is called: FFmpeg's numbers are others.
fn bug(avio: bool) -> i64 {
    if avio { AVERROR_EXTERNAL } else { Error::Bug as i64 }
}

const INVALID: c_int = Error::InvalidArgument as c_int;
const NUMBER: i64 = Error::InvalidArgument as i64;

/// As FFmpeg has them.
const AVERROR_EOF: c_int = -541_478_725;
const AVERROR_EXIT: i64 = -1_414_092_869;
const AVERROR_EXTERNAL: i64 = -542_398_533;

/// Room for a text, with as many bytes.
struct Text(Box<[u8]>);

impl Text {
    fn new(size: u8) -> Self {
        Self(vec![0xa5; usize::from(size)].into())
    }

    fn pointer(&mut self) -> *mut c_char {
        if self.0.is_empty() { null_mut() } else { self.0.as_mut_ptr().cast() }
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    /// It ends, is whole characters, and says something if it has to.
    fn check(&self, says_something: bool) {
        if self.0.is_empty() {
            return;
        }
        let end = self.0.iter().position(|byte| *byte == 0).expect("a zero at the end");
        assert!(std::str::from_utf8(&self.0[..end]).is_ok());
        assert!(!says_something || end > 0 || self.0.len() < 8);
    }
}

fn text(input: &mut Input<'_>) -> Vec<u8> {
    let len = usize::from(input.byte());
    input.bytes(len).iter().copied().filter(|byte| *byte != 0).collect()
}

fn text_if(is_there: bool, input: &mut Input<'_>) -> Vec<u8> {
    if is_there { text(input) } else { Vec::new() }
}

fn size_if(is_there: bool, input: &mut Input<'_>) -> usize {
    if is_there { number(input) as usize } else { 0 }
}

/// A number of any magnitude.
fn number(input: &mut Input<'_>) -> u64 {
    let (value, shift) = (u64::from(input.short()), input.byte());
    if shift == 0xff { u64::MAX } else { value << (shift % 56) }
}
