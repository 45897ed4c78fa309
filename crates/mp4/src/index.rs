//! Where fragments are, without reading them all: `sidx` in front of them (ISO/IEC 14496-12,
//! 8.16.3), `mfra` behind (8.8.9).
//!
//! Both are hints of a muxer, and taken for no more: what is found by them is checked against the
//! fragments. An index of indexes (`sidx` that refers to others) is left out.

use std::io::{Read, Seek};

use mp4_atom::{Mfro, Sidx, Tfra};

use super::boxes::{Boxes, decode};
use super::input::{Input, TopBox};
use super::{Limits, Mp4Error};

/// What an index says about one track.
#[derive(Debug)]
pub(super) struct FragmentIndex {
    pub(super) track_id: u32,
    /// Composition time of the first sample, and where a fragment begins; in units of `timescale`.
    pub(super) entries: Vec<(i64, u64)>,
    /// Time scale of the entries; `None`: that of the track.
    pub(super) timescale: Option<u32>,
    /// When the last fragment ends, if the index says so.
    pub(super) end: Option<i64>,
}

impl FragmentIndex {
    /// Reads a `sidx`. `None` if it refers to other indexes, or is empty.
    pub(super) fn of_sidx(body: &[u8], found: &TopBox) -> Result<Option<Self>, Mp4Error> {
        let sidx: Sidx = decode(body)?;
        if sidx.references.is_empty() || sidx.references.iter().any(|reference| reference.reference_type) {
            return Ok(None);
        }
        let mut time = i64::try_from(sidx.earliest_presentation_time).unwrap_or(i64::MAX);
        let mut at = found.end().unwrap_or(found.body_at).saturating_add(sidx.first_offset);
        let mut entries = Vec::with_capacity(sidx.references.len());
        for reference in &sidx.references {
            entries.push((time, at));
            time = time.saturating_add(reference.subsegment_duration.into());
            at = at.saturating_add(reference.referenced_size.into());
        }
        let timescale = Some(sidx.timescale.max(1));
        Ok(Some(Self { track_id: sidx.reference_id, entries, timescale, end: Some(time) }))
    }

    /// Reads the `tfra` boxes in the body of an `mfra`.
    fn of_mfra(mfra: &[u8]) -> Result<Vec<Self>, Mp4Error> {
        let mut indexes = Vec::new();
        for next in Boxes(mfra) {
            let (kind, body) = next?;
            if &kind.0 != b"tfra" {
                continue;
            }
            let tfra: Tfra = decode(body)?;
            let entry = |time: u64, at: u64| (i64::try_from(time).unwrap_or(i64::MAX), at);
            let entries = tfra.entries.iter().map(|info| entry(info.time, info.moof_offset)).collect();
            indexes.push(Self { track_id: tfra.track_id, entries, timescale: None, end: None });
        }
        Ok(indexes)
    }

    /// Where the last fragment is that begins at or before a time, in units of `timescale`.
    pub(super) fn before(&self, time: i64, timescale: u32) -> Option<u64> {
        let scale = i128::from(self.timescale.unwrap_or(timescale));
        let wanted = i128::from(time) * scale / i128::from(timescale.max(1));
        let entry = self.entries.iter().take_while(|(start, _)| i128::from(*start) <= wanted).last();
        entry.map(|(_, at)| *at)
    }
}

/// Reads the `mfra` at the end of a file; empty if there is none, or it is broken.
pub(super) fn find_mfra<R: Read + Seek>(
    input: &mut Input<R>,
    limits: &Limits,
) -> Result<Vec<FragmentIndex>, Mp4Error> {
    let length = input.len()?;
    let Some(at) = length.checked_sub(MFRO_BYTES) else { return Ok(Vec::new()) };
    let Some(last) = input.top_box(at)?.filter(|last| &last.kind.0 == b"mfro") else { return Ok(Vec::new()) };
    let mfro: Mfro = decode(&input.body(&last, MFRO_BYTES)?)?;
    let Some(at) = length.checked_sub(mfro.parent_size.into()) else { return Ok(Vec::new()) };
    let Some(found) = input.top_box(at)?.filter(|found| &found.kind.0 == b"mfra") else {
        return Ok(Vec::new());
    };
    let body = input.body(&found, limits.index_bytes / MFRA_SHARE)?;
    Ok(FragmentIndex::of_mfra(&body).unwrap_or_default())
}

/// Bytes of an `mfro` box.
const MFRO_BYTES: u64 = 16;
/// An entry takes up to four times the memory that it has in the file.
const MFRA_SHARE: u64 = 8;
