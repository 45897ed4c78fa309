//! Reads a file of a recording from its begin: what in it is whole, and where that ends.
//!
//! ```text
//!  ftyp | free, later the head of one mdat | moov | { prft | moof | mdat | free: checksum } ... | moov
//!         `-- PLACEHOLDER_AT                                                                   `-- complete
//! ```
//!
//! The checksum says of bytes that came to the disk in any order, or not at all, whether they are those that
//! were written. FLV has tags, each with its length behind it, and nothing that says so.

use std::io;
use std::time::Duration;

use cmaf::{Fragment, PLACEHOLDER_AT, PLACEHOLDER_BYTES, SampleTable};

use crate::settings::Format;
use crate::storage::StoredFile;

/// What is in a file.
#[derive(Debug)]
pub struct Scan {
    /// Whether its index is there.
    pub is_complete: bool,
    /// Where the last whole fragment, or tag, ends.
    pub whole_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How many whole fragments, or tags, there are.
    pub fragments: u64,
    /// How long the file is played.
    pub duration: Duration,
    /// Wall clock at its begin, and of the newest fragment, since 1970.
    pub wall_clock: Option<(Duration, Duration)>,
    /// Whether all that is whole is what was written, as far as that was asked for and can be known.
    pub is_sound: bool,
    /// Whether its head makes all in front of an index one `mdat`, be the index there or not.
    pub(crate) is_one_mdat: bool,
    pub(crate) moov: Vec<u8>,
    pub(crate) tables: Vec<SampleTable>,
}

/// Which checksums are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// None.
    Nothing,
    /// Those of the newest minute; what is damaged and all behind it is not taken for whole.
    Newest,
    /// All.
    Everything,
    /// All; what is damaged and all behind it is not taken for whole, an index neither.
    UpToDamage,
}

/// How long bytes may have been written, and a power cut takes them: the kernel writes them by itself after
/// 30 s (`vm.dirty_expire_centisecs`), if nobody asks for it before.
const UNSETTLED: Duration = Duration::from_secs(60);

/// Reads a file.
///
/// # Errors
/// Those of reading. A file that is damaged is none: there is less in it.
pub fn scan(file: &mut dyn StoredFile, format: Format, check: Check) -> io::Result<Scan> {
    match format {
        Format::Flv => scan_flv(file),
        Format::Mp4 => {
            let (mut found, mut damaged_at) = scan_mp4(file, check, None)?;
            // What is damaged may have said that what is in front of it is old: it is looked at as well.
            while let Some(at) = damaged_at.filter(|_| matches!(check, Check::Newest | Check::UpToDamage)) {
                (found, damaged_at) = scan_mp4(file, check, Some(at))?;
            }
            Ok(found)
        }
    }
}

/// The same up to `until`, where a damaged fragment is and no index is taken; and where the first
/// damaged one is.
fn scan_mp4(file: &mut dyn StoredFile, check: Check, until: Option<u64>) -> io::Result<(Scan, Option<u64>)> {
    let bytes = file.length()?;
    let mut found = Scan {
        is_complete: false,
        whole_bytes: 0,
        bytes,
        fragments: 0,
        duration: Duration::ZERO,
        wall_clock: None,
        is_sound: true,
        is_one_mdat: false,
        moov: Vec::new(),
        tables: Vec::new(),
    };
    let mut reader = Reader { file, bytes, block: Vec::new(), block_at: 0 };
    let head_end = PLACEHOLDER_AT + PLACEHOLDER_BYTES;
    let Some(head) = reader.read(0, head_end)? else { return Ok((found, None)) };
    if &head[4..8] != b"ftyp" {
        return Ok((found, None));
    }
    let placeholder: [u8; 16] = std::array::from_fn(|index| head[PLACEHOLDER_AT as usize + index]);
    let mut end = until.unwrap_or(bytes);
    let index_at = index_at(&placeholder);
    found.is_one_mdat = index_at.is_some();
    if until.is_none()
        && let Some(index_at) = index_at
        && let Some((kind, size)) = reader.box_head(index_at)?
    {
        found.is_complete = &kind == b"moov" && index_at + u64::from(size) == bytes;
        end = if found.is_complete { index_at } else { end };
    }
    let Some((b"moov", size)) = reader.box_head(head_end)?.as_ref().map(|(kind, size)| (kind, *size)) else {
        return Ok((found, None));
    };
    let Some(moov) = reader.read(head_end, u64::from(size).min(MOOV_BYTES_MAX))? else {
        return Ok((found, None));
    };
    let Some(tables) = SampleTable::of_movie(moov) else { return Ok((found, None)) };
    (found.moov, found.tables) = (moov.to_vec(), tables);
    found.whole_bytes = head_end + u64::from(size);
    // Fragments in order: where each is, and when it was.
    let mut fragments: Vec<(u64, u64, Duration)> = Vec::new();
    while let Some((fragment_end, wall_clock)) = read_fragment(&mut reader, &mut found, end)? {
        fragments.push((found.whole_bytes, fragment_end, wall_clock));
        found.whole_bytes = fragment_end;
        found.fragments += 1;
        let first = found.wall_clock.map_or(wall_clock, |(first, _)| first);
        found.wall_clock = Some((first, wall_clock));
    }
    // Of an index that is there, fragments reach up to it.
    let mut damaged_at = None;
    if found.is_complete {
        found.is_sound = found.whole_bytes == end;
        damaged_at = (!found.is_sound && check == Check::UpToDamage).then_some(found.whole_bytes);
        found.whole_bytes = bytes;
    }
    found.duration = found.tables.iter().map(SampleTable::duration).max().unwrap_or_default();
    let from = match (check, found.wall_clock) {
        (Check::Nothing, _) | (_, None) => return Ok((found, damaged_at)),
        (Check::Everything | Check::UpToDamage, _) => Duration::ZERO,
        (Check::Newest, Some((_, newest))) => newest.saturating_sub(UNSETTLED),
    };
    // All behind the first that is new, whatever their clocks say, which may be what is damaged; and the one
    // in front of it for the same reason.
    let first_new = fragments.iter().position(|(.., wall_clock)| *wall_clock >= from).unwrap_or(0);
    for (begin, fragment_end, _) in fragments.into_iter().skip(first_new.saturating_sub(1)) {
        if !is_sound(&mut reader, begin, fragment_end)? {
            found.is_sound = false;
            return Ok((found, Some(begin)));
        }
    }
    Ok((found, damaged_at))
}

/// Where the index of a complete file is, as the head of its `mdat` says it.
fn index_at(placeholder: &[u8; 16]) -> Option<u64> {
    let [0, 0, 0, 1, b'm', b'd', b'a', b't', size @ ..] = placeholder else { return None };
    u64::from_be_bytes(*size).checked_add(PLACEHOLDER_AT)
}

/// Takes the fragment behind what is whole into the tables: its end, and its wall clock. `None`: there is
/// none up to `end`, or not a whole one.
fn read_fragment(reader: &mut Reader<'_>, found: &mut Scan, end: u64) -> io::Result<Option<(u64, Duration)>> {
    let begin = found.whole_bytes;
    let Some((b"prft", 32)) = reader.box_head(begin)?.as_ref().map(|(kind, size)| (kind, *size)) else {
        return Ok(None);
    };
    let Some(prft) = reader.read(begin, 32)? else { return Ok(None) };
    let ntp = u64::from_be_bytes(std::array::from_fn(|index| prft[16 + index]));
    let moof_at = begin + 32;
    let Some((b"moof", size)) = reader.box_head(moof_at)?.as_ref().map(|(kind, size)| (kind, *size)) else {
        return Ok(None);
    };
    let mdat_at = moof_at + u64::from(size);
    let Some((b"mdat", mdat)) = reader.box_head(mdat_at)?.as_ref().map(|(kind, size)| (kind, *size)) else {
        return Ok(None);
    };
    let checksum_at = mdat_at + u64::from(mdat);
    let fragment_end = checksum_at + CHECKSUM_BYTES as u64;
    if fragment_end > end {
        return Ok(None);
    }
    let is_checksum = reader.read(checksum_at, 12)?.is_some_and(|head| head == CHECKSUM_HEAD);
    let Some(moof) = reader.read(moof_at, u64::from(size))? else { return Ok(None) };
    let Some(fragment) = Fragment::read(moof) else { return Ok(None) };
    let table = found.tables.iter_mut().find(|table| table.track_id == fragment.track_id);
    let (Some(table), true) = (table, is_checksum && fragment.data_bytes + 8 == u64::from(mdat)) else {
        return Ok(None);
    };
    table.push(&fragment, mdat_at + 8);
    Ok(Some((fragment_end, since_1970(ntp))))
}

fn is_sound(reader: &mut Reader<'_>, begin: u64, end: u64) -> io::Result<bool> {
    let mut hasher = crc32fast::Hasher::new();
    let mut at = begin;
    let checksum_at = end - CHECKSUM_BYTES as u64;
    while at < checksum_at {
        let most = (checksum_at - at).min(BLOCK_BYTES as u64);
        let Some(bytes) = reader.read(at, most)? else { return Ok(false) };
        hasher.update(bytes);
        at += most;
    }
    let said =
        reader.read(checksum_at + 12, 4)?.map(|said| u32::from_be_bytes(std::array::from_fn(|at| said[at])));
    Ok(said == Some(hasher.finalize()))
}

/// What is put behind each fragment, a `free` of 16 bytes with its checksum.
pub(crate) fn checksum(fragment: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut out = [0; CHECKSUM_BYTES];
    out[..12].copy_from_slice(&CHECKSUM_HEAD);
    out[12..].copy_from_slice(&crc32fast::hash(fragment).to_be_bytes());
    out
}

const CHECKSUM_BYTES: usize = 16;
const CHECKSUM_HEAD: [u8; 12] = *b"\0\0\0\x10freecrc ";

/// Seconds since 1900 and a fraction of 32 bits (RFC 5905 section 6), up to 2036.
fn since_1970(ntp: u64) -> Duration {
    let seconds = (ntp >> 32).saturating_sub(2_208_988_800);
    let nanos = ((ntp & 0xffff_ffff) * 1_000_000_000) >> 32;
    Duration::new(seconds, nanos as u32)
}

/// Reads in blocks, so that a fragment's head is one call.
struct Reader<'a> {
    file: &'a mut dyn StoredFile,
    bytes: u64,
    block: Vec<u8>,
    block_at: u64,
}

impl Reader<'_> {
    /// These bytes; `None` if the file ends before them.
    fn read(&mut self, at: u64, count: u64) -> io::Result<Option<&[u8]>> {
        let Some(end) = at.checked_add(count).filter(|end| *end <= self.bytes && count <= READ_BYTES_MAX)
        else {
            return Ok(None);
        };
        if at < self.block_at || end > self.block_at + self.block.len() as u64 {
            let wanted = (count as usize).max(BLOCK_BYTES).min((self.bytes - at) as usize);
            self.block.resize(wanted, 0);
            self.block_at = at;
            let read = self.file.read_at(at, &mut self.block)?;
            self.block.truncate(read);
            if (read as u64) < count {
                return Ok(None);
            }
        }
        let from = (at - self.block_at) as usize;
        Ok(Some(&self.block[from..from + count as usize]))
    }

    /// Type and size of the box at a place.
    fn box_head(&mut self, at: u64) -> io::Result<Option<([u8; 4], u32)>> {
        let Some(head) = self.read(at, 8)? else { return Ok(None) };
        let size = u32::from_be_bytes(std::array::from_fn(|index| head[index]));
        Ok((size >= 8).then(|| (std::array::from_fn(|index| head[4 + index]), size)))
    }
}

/// A head of a fragment and more: 30 pictures take 700 bytes.
const BLOCK_BYTES: usize = 4096;
/// Bytes of the first `moov`; those of five tracks are 3 kB and their configurations.
const MOOV_BYTES_MAX: u64 = 4 << 20;
/// Longest piece that is read at once, whatever sizes say.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Walks over the tags of an FLV file.
fn scan_flv(file: &mut dyn StoredFile) -> io::Result<Scan> {
    let bytes = file.length()?;
    let mut found = Scan {
        is_complete: true,
        whole_bytes: 0,
        bytes,
        fragments: 0,
        duration: Duration::ZERO,
        wall_clock: None,
        is_sound: true,
        is_one_mdat: false,
        moov: Vec::new(),
        tables: Vec::new(),
    };
    let mut reader = Reader { file, bytes, block: Vec::new(), block_at: 0 };
    if reader.read(0, FLV_HEAD_BYTES)?.is_none_or(|head| !head.starts_with(b"FLV\x01")) {
        return Ok(found);
    }
    found.whole_bytes = FLV_HEAD_BYTES;
    while let Some(head) = reader.read(found.whole_bytes, 11)? {
        let [kind, l0, l1, l2, t0, t1, t2, t3, ..] = *head else { break };
        let length = u64::from(u32::from_be_bytes([0, l0, l1, l2])) + 11;
        let millis = u32::from_be_bytes([t3, t0, t1, t2]);
        let behind = reader.read(found.whole_bytes + length, 4)?;
        let is_whole = behind.is_some_and(|said| said == (length as u32).to_be_bytes());
        if !is_whole || ![8, 9, 18].contains(&kind) {
            break;
        }
        found.whole_bytes += length + 4;
        found.fragments += 1;
        found.duration = found.duration.max(Duration::from_millis(millis.into()));
    }
    found.is_sound = found.whole_bytes == bytes;
    Ok(found)
}

/// The head of an FLV file, and the length of no tag before the first.
const FLV_HEAD_BYTES: u64 = 13;
