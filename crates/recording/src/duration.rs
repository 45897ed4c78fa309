//! How long a complete file is played, as its index says it: a few short reads, however large it is.
//!
//! Unlike `scan.rs` this believes what is written: it is for lists, not for repairs.

use std::io;
use std::time::Duration;

use crate::settings::Format;
use crate::storage::StoredFile;

/// Boxes that are looked at. A complete recording has three; other programs add a few.
const BOXES_MAX: usize = 16;

/// Reads the duration of a complete file; `None` if it does not say it.
///
/// # Errors
/// Those of reading.
pub fn read(file: &mut dyn StoredFile, format: Format) -> io::Result<Option<Duration>> {
    match format {
        Format::Mp4 => of_mp4(file),
        Format::Flv => of_flv(file),
    }
}

/// That of `mvhd` in `moov` (ISO/IEC 14496-12 section 8.2.2), which is its first box in practice.
fn of_mp4(file: &mut dyn StoredFile) -> io::Result<Option<Duration>> {
    let mut at = 0_u64;
    for _ in 0..BOXES_MAX {
        let Some(head) = bytes_at::<16>(file, at)? else { return Ok(None) };
        let size = u64::from(u32::from_be_bytes(std::array::from_fn(|index| head[index])));
        let (kind, large) = (&head[4..8], u64::from_be_bytes(std::array::from_fn(|index| head[8 + index])));
        if kind == b"moov" {
            return of_movie(file, at + 8);
        }
        let size = if size == 1 { large } else { size };
        // Zero: it is the last one.
        match at.checked_add(size).filter(|_| size >= 8) {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn of_movie(file: &mut dyn StoredFile, at: u64) -> io::Result<Option<Duration>> {
    let Some(head) = bytes_at::<40>(file, at)? else { return Ok(None) };
    if &head[4..8] != b"mvhd" {
        return Ok(None);
    }
    let word = |at: usize| u64::from(u32::from_be_bytes(std::array::from_fn(|index| head[at + index])));
    let (timescale, ticks) = match head[8] {
        // size, type, version and flags, times of creation and change, timescale, duration
        0 => (word(20), word(24)),
        1 => (word(28), word(32) << 32 | word(36)),
        _ => return Ok(None),
    };
    // All ones: not known.
    let is_known = timescale > 0 && ticks != u64::MAX && !(head[8] == 0 && ticks == u64::from(u32::MAX));
    let nanos = || u128::from(ticks) * 1_000_000_000 / u128::from(timescale);
    Ok(is_known.then(|| Duration::from_nanos(u64::try_from(nanos()).unwrap_or(u64::MAX))))
}

/// The time of the last tag, whose length is behind it.
fn of_flv(file: &mut dyn StoredFile) -> io::Result<Option<Duration>> {
    let bytes = file.length()?;
    let Some(length_at) = bytes.checked_sub(4) else { return Ok(None) };
    let Some(length) = bytes_at::<4>(file, length_at)? else { return Ok(None) };
    let tag_at = length_at.checked_sub(u64::from(u32::from_be_bytes(length)));
    let Some(tag_at) = tag_at.filter(|at| *at >= 13) else { return Ok(None) };
    let Some([kind, _, _, _, t0, t1, t2, t3]) = bytes_at::<8>(file, tag_at)? else { return Ok(None) };
    let is_tag = [8, 9, 18].contains(&kind);
    Ok(is_tag.then(|| Duration::from_millis(u32::from_be_bytes([t3, t0, t1, t2]).into())))
}

/// So many bytes; `None` if the file ends before them.
fn bytes_at<const N: usize>(file: &mut dyn StoredFile, at: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    // What `read_at` of the system takes.
    if i64::try_from(at).is_err() {
        return Ok(None);
    }
    Ok((file.read_at(at, &mut bytes)? == N).then_some(bytes))
}
