//! `range-reader` for C and C++: `include/range_reader.h`, `librange_reader_c.a` and
//! `librange_reader_c.so`.
//!
//! The calls of a file (`open`, `read`, `seek`, `close`), two of them also in the shape of FFmpeg's
//! callbacks. What C passes is read here and in `options.rs`; a reader is `reader.rs`; numbers of
//! errors are `error.rs`. The header is made from this file and `error.rs` by cbindgen and compared
//! by `tests/range-reader-c/main.rs`.
//!
//! A panic, which would be a bug, is answered by `RANGE_READER_ERROR_BUG` at the boundary and never
//! unwinds into C.

mod error;
mod options;
mod reader;

pub use error::Error;
pub use reader::Reader;

use error::Failure;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

/// Most ranges of one call of `range_reader_hint`.
pub const RANGE_READER_RANGES_MAX: usize = 131_072;

/// How a file is read. All zero (or NULL instead of it) is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Header fields of each request, a line `name: value` for each, with a line feed between them:
    /// "authorization: Bearer key\nuser-agent: player". NULL for none. After a redirect to another
    /// host, credentials are not sent.
    pub headers: *const c_char,
    /// Certificates in PEM that are trusted besides the system's. NULL for none.
    pub roots_pem: *const c_char,
    /// Whether any address may be connected to. Otherwise public ones only, checked after names are
    /// resolved and at each redirect: no loopback, private or link-local ones. Set it if a person
    /// chose the URL, and leave it if the URL came from outside.
    pub any_address: bool,
    /// Whether the proxies of the environment are used (http_proxy, https_proxy, all_proxy,
    /// no_proxy). Otherwise none.
    pub proxies_of_environment: bool,
    /// Whether reads are left unlearned. Otherwise repeating patterns are detected and prefetched
    /// when there are no hints.
    pub no_learning: bool,
    /// Milliseconds that a connection, an answer, and silence within an answer may take; 0 for
    /// 10,000, 20,000 and 20,000.
    pub timeout_ms: u32,
    /// Bytes fetched ahead and kept in memory; 0 for 2 MiB. Up to 512 KiB more may come at once.
    pub window_bytes: usize,
    /// Bytes already read that are kept for seeks back; 0 for 256 KiB.
    pub look_back_bytes: usize,
    /// Longest file that is read, in bytes; 0 for any.
    pub file_bytes_max: u64,
}

/// A range of bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Position of the first byte.
    pub start: u64,
    /// Position behind the last byte.
    pub end: u64,
}

/// What reading has cost since the reader was opened. Each byte received is one of used, skipped,
/// wasted and buffered.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    /// Requests sent.
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections that broke or were refused and were tried again.
    pub retries: u64,
    /// Bytes of responses received.
    pub bytes_received: u64,
    /// Of those, bytes handed to the caller; reading them again from memory does not count again.
    pub bytes_used: u64,
    /// Bytes received and dropped because they lay between two positions that were read.
    pub bytes_skipped: u64,
    /// Wasted bytes: of cancelled responses, and prefetched but not read.
    pub bytes_wasted: u64,
    /// Bytes in memory that have not been handed to the caller yet.
    pub bytes_buffered: u64,
    /// Seeks to a position that was not in memory yet.
    pub seeks: u64,
}

/// Opens the file at `url` ("http://..." or "https://...") and stores the reader in `*opened`. Free
/// it with `range_reader_close`. Nothing is sent before the first read or question for the size.
///
/// Returns 0, or a negative number, and then `*opened` is NULL: INVALID_ARGUMENT if `url` or
/// `opened` is NULL, no URL, or an option makes no sense; NOT_ALLOWED for other schemes; SETUP if
/// there are no file descriptors. `why` may be NULL; otherwise up to `why_size` bytes of it become a
/// text that explains the error, "" if there is none, which ends with a zero.
///
/// # Safety
/// `url` and the strings of `options` are NULL or end with a zero, `options` and `opened` are NULL or
/// may be read and written to, `why` is NULL or `why_size` bytes there may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_open(
    url: *const c_char,
    options: *const Options,
    opened: *mut *mut Reader,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    let result = guard(|| {
        // SAFETY: `opened` is as the contract says.
        let opened = unsafe { opened.as_mut() }.ok_or_else(|| Failure::argument("opened is NULL"))?;
        *opened = ptr::null_mut();
        if url.is_null() {
            return Err(Failure::argument("url is NULL"));
        }
        // SAFETY: not NULL, so it ends with a zero by the contract.
        let url = options::text("url", unsafe { CStr::from_ptr(url) })?;
        // SAFETY: `options` is as the contract says.
        let (http, config) = unsafe { options::read(options.as_ref()) }?;
        *opened = Box::into_raw(Box::new(Reader::open(url, http, config)?));
        Ok(0)
    });
    let (number, text) = match result {
        Ok(_) => (0, String::new()),
        Err(failure) => (failure.error as c_int, failure.text),
    };
    // SAFETY: `why` is as the contract says.
    unsafe { write_text(why, why_size, &text) };
    number
}

/// Reads up to `size` bytes at the position into `buffer`, and advances the position.
///
/// Returns how many bytes it read, fewer than `size` often and more than 1 MiB never; 0 at the end of
/// the file, or if `size` is 0; or a negative number. After UNREACHABLE, TRUNCATED or INTERRUPTED a
/// later call may succeed and continues at the same position.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call; `buffer` is NULL or `size` bytes
/// there may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_read(reader: *const Reader, buffer: *mut u8, size: usize) -> i64 {
    // SAFETY: the same contract as this function's.
    answer(reader, |reader| reader.read(unsafe { buffer_of(buffer, size) }?).map(|count| count as i64))
}

/// Moves the position by `offset` from the start (`whence` 0, SEEK_SET), from the position (1,
/// SEEK_CUR) or from the end of the file (2, SEEK_END). Beyond the end is allowed; reads give 0 there.
///
/// Returns the new position or a negative number: INVALID_ARGUMENT for a position before the start,
/// UNKNOWN_SIZE from the end of a file whose size the server does not say. Only from the end may it
/// wait for the server.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_seek(reader: *const Reader, offset: i64, whence: c_int) -> i64 {
    answer(reader, |reader| reader.seek(offset, whence))
}

/// Returns the size of the file in bytes, requested from the server if there was no response yet, or
/// a negative number: UNKNOWN_SIZE if the server does not say it.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_size(reader: *const Reader) -> i64 {
    answer(reader, |reader| {
        let size = reader.size()?.ok_or_else(Failure::unknown_size)?;
        i64::try_from(size).map_err(|_| Failure::new(Error::TooLarge, "more than 2^63 - 1 bytes"))
    })
}

/// Announces what will be read, in this order; replaces earlier hints. `count` 0 takes them back.
///
/// Hinted ranges are requested together, as far as there is memory for them, with the next read.
/// Hints may be wrong: that wastes bytes, up to the size of the window. Returns 0 or a negative
/// number: INVALID_ARGUMENT if there are more than RANGE_READER_RANGES_MAX, or one ends before its
/// start; then earlier hints stay.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call; `ranges` is NULL or `count` of
/// them may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_hint(
    reader: *const Reader,
    ranges: *const Range,
    count: usize,
) -> c_int {
    let number = answer(reader, |reader| {
        if count > RANGE_READER_RANGES_MAX {
            return Err(Failure::argument("too many ranges"));
        }
        if count > 0 && (ranges.is_null() || !ranges.is_aligned()) {
            return Err(Failure::argument("ranges is NULL or not aligned"));
        }
        let ranges = match count {
            0 => &[],
            // SAFETY: not NULL, aligned, of the stated length, which was checked.
            count => unsafe { slice::from_raw_parts(ranges, count) },
        };
        if ranges.iter().any(|range| range.end < range.start) {
            return Err(Failure::argument("a range ends before its start"));
        }
        reader.hint(ranges).map(|()| 0)
    });
    number as c_int
}

/// While `interrupted` is true, a call that waits for the server, and each later one that may, returns
/// INTERRUPTED. Nothing is lost: reads continue where they were. For another thread, so that a player
/// can stop or seek while a server is slow.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_interrupt(reader: *const Reader, interrupted: bool) {
    answer(reader, |reader| {
        reader.interrupt(interrupted);
        Ok(0)
    });
}

/// Stores in `*statistics` what reading has cost, as of the last call that has returned. Returns 0, or
/// INVALID_ARGUMENT if a pointer is NULL.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call; `statistics` is NULL or may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_statistics_of(
    reader: *const Reader,
    statistics: *mut Statistics,
) -> c_int {
    let number = answer(reader, |reader| {
        // SAFETY: `statistics` is as the contract says.
        let statistics = unsafe { statistics.as_mut() };
        *statistics.ok_or_else(|| Failure::argument("statistics is NULL"))? = reader.statistics();
        Ok(0)
    });
    number as c_int
}

/// Copies the text of the last error of this reader, whichever thread got it, into `text`: cut to
/// `size` bytes with the zero at its end, "" if no call has failed. It names no path and no query of
/// the URL, which may hold secrets.
///
/// # Safety
/// `reader` is NULL or a reader that is not closed during the call; `text` is NULL or `size` bytes
/// there may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_error_text(reader: *const Reader, text: *mut c_char, size: usize) {
    let words = guard(|| {
        // SAFETY: `reader` is as the contract says.
        let reader = unsafe { reader.as_ref() };
        Ok(reader.map_or_else(|| "reader is NULL".to_owned(), Reader::error_text))
    });
    // SAFETY: `text` is as the contract says.
    unsafe { write_text(text, size, &words.unwrap_or_default()) };
}

/// Closes the reader and its connections, without waiting for the server. NULL is allowed.
///
/// # Safety
/// `reader` is NULL or a reader that has not been closed, and no other call on it is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_close(reader: *mut Reader) {
    if !reader.is_null() {
        // SAFETY: by the contract it comes from `Box::into_raw` in `range_reader_open`, and only once.
        let reader = unsafe { Box::from_raw(reader) };
        let _ = guard(move || {
            drop(reader);
            Ok(0)
        });
    }
}

/// `range_reader_read` as FFmpeg's `avio_alloc_context` takes it, with the reader as `opaque`.
///
/// Returns FFmpeg's numbers: AVERROR_EOF at the end, AVERROR_EXIT after an interruption, AVERROR() of
/// an errno otherwise.
///
/// # Safety
/// As `range_reader_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_avio_read(opaque: *mut c_void, buffer: *mut u8, size: c_int) -> c_int {
    let Ok(size) = usize::try_from(size) else { return -libc::EINVAL };
    if size == 0 {
        return 0;
    }
    // SAFETY: the same contract as this function's.
    match unsafe { range_reader_read(opaque.cast(), buffer, size) } {
        0 => error::AVERROR_EOF,
        failed if failed < 0 => error::averror(failed),
        // At most 1 MiB.
        count => count as c_int,
    }
}

/// `range_reader_seek` as FFmpeg's `avio_alloc_context` takes it, with the reader as `opaque`. Knows
/// AVSEEK_SIZE, and AVERROR(ENOSYS) is its answer if the size is unknown; AVSEEK_FORCE changes nothing.
///
/// # Safety
/// As `range_reader_seek`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn range_reader_avio_seek(opaque: *mut c_void, offset: i64, whence: c_int) -> i64 {
    // libavformat/avio.h: a bit that asks for a seek at any cost, and one for the size instead of a seek.
    const AVSEEK_FORCE: c_int = 0x20000;
    const AVSEEK_SIZE: c_int = 0x10000;
    let result = match whence & !AVSEEK_FORCE {
        // SAFETY: the same contract as this function's.
        AVSEEK_SIZE => unsafe { range_reader_size(opaque.cast()) },
        // SAFETY: the same contract as this function's.
        whence => unsafe { range_reader_seek(opaque.cast(), offset, whence) },
    };
    if result < 0 { i64::from(error::averror(result)) } else { result }
}

/// Runs `work` on the reader; its error becomes the number, and the text is kept with the reader.
///
/// `reader` is as the contracts of the callers say: NULL, or a reader that is not closed meanwhile.
fn answer(reader: *const Reader, work: impl FnOnce(&Reader) -> Result<i64, Failure>) -> i64 {
    // SAFETY: as the contracts of all callers say.
    let Some(reader) = (unsafe { reader.as_ref() }) else { return Error::InvalidArgument as i64 };
    guard(|| work(reader)).unwrap_or_else(|failure| {
        let number = failure.error as i64;
        reader.keep_error(failure.text);
        number
    })
}

/// Runs `work`, and turns a panic into an error.
fn guard<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // A reader that has panicked refuses everything else (its lock is poisoned), and until it is
    // closed it is memory-safe like any Rust value.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Failure::bug()))
}

/// The caller's memory, which need not be initialized.
///
/// # Safety
/// `buffer` is NULL or `size` bytes there may be written to, and nothing else uses them meanwhile.
unsafe fn buffer_of<'a>(buffer: *mut u8, size: usize) -> Result<&'a mut [MaybeUninit<u8>], Failure> {
    if size == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() {
        return Err(Failure::argument("buffer is NULL"));
    }
    if isize::try_from(size).is_err() {
        return Err(Failure::argument("size is more than there can be"));
    }
    // SAFETY: not NULL, of the stated length, which was checked; bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts_mut(buffer.cast(), size) })
}

/// Copies `text` with a zero at its end, cut to `size` bytes at the boundary of a character.
///
/// # Safety
/// `to` is NULL or `size` bytes there may be written to.
unsafe fn write_text(to: *mut c_char, size: usize, text: &str) {
    if to.is_null() || size == 0 {
        return;
    }
    // A zero would end it.
    let text = text.split('\0').next().unwrap_or_default();
    let length = text.floor_char_boundary(size - 1);
    // SAFETY: `length + 1 <= size`, and the two do not overlap.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), length) };
    // SAFETY: `length < size`.
    unsafe { *to.add(length) = 0 };
}
