//! The index of a file (`moov`, ISO/IEC 14496-12, 8.2): its tracks, and how each is timed.
//!
//! Tracks that are neither video nor audio, or of a codec that cannot be played, are listed and no
//! more: what else is in them is not looked at.

use mp4_atom::{Elst, Hdlr, Mdhd, Mehd, Mvhd, Tkhd, Trex};

use super::boxes::{Boxes, decode};
use super::description::{self, Description};
use super::edits::{self, Segment};
use super::tables::{Cursor, SampleTables};
use super::{Limits, Mp4Error};
use media::{Codec, MediaKind, Timestamp, TrackId};

/// A track of a file.
#[derive(Debug, Clone)]
pub struct Track {
    /// Its id in the file.
    pub id: u32,
    /// What it carries, and which track of that kind it is, in the order of the index; subtitles,
    /// hints and time codes are [`MediaKind::Data`].
    pub track: TrackId,
    /// Codec of its first samples; [`Codec::None`] for [`MediaKind::Data`].
    pub codec: Codec,
    /// Units of time per second in the file.
    pub timescale: u32,
    /// Width in pixels, 0 for audio.
    pub width: u32,
    /// Height in pixels, 0 for audio.
    pub height: u32,
    /// Audio samples per second as the file says, 0 for video.
    pub sample_rate: u32,
    /// Audio channels as the file says, 0 for video.
    pub channels: u16,
    /// Presentation time at which its last sample ends, edit list applied; `None` if it is in
    /// fragments and the file does not say.
    pub end: Option<Timestamp>,
    /// Like [`Track::end`], but of the last frame as it is given out, whole: an edit list often
    /// ends within a frame of audio. What is to follow without a gap begins here.
    pub frames_end: Option<Timestamp>,
    pub(super) descriptions: Vec<Description>,
}

impl Track {
    /// Whether its samples can be read: H.264, H.265, AV1, VP8, VP9, AAC and Opus.
    pub fn is_playable(&self) -> bool {
        let codec = self.codec;
        match self.track.kind {
            MediaKind::Video => {
                matches!(codec, Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9)
            }
            MediaKind::Audio => matches!(codec, Codec::Aac | Codec::Opus),
            MediaKind::Data => false,
        }
    }

    /// Whether [`SampleIndex`](crate::SampleIndex) knows where its samples are: besides those of
    /// [`Track::is_playable`], of MP3, AC-3, E-AC-3 and FLAC, which channels have no use for.
    pub fn is_indexed(&self) -> bool {
        self.is_playable() || matches!(self.codec, Codec::Mp3 | Codec::Ac3 | Codec::Eac3 | Codec::Flac)
    }
}

/// What is needed to read a track that can be played.
#[derive(Debug)]
pub(super) struct TrackMedia {
    pub(super) tables: SampleTables,
    pub(super) segments: Vec<Segment>,
}

/// The whole index.
#[derive(Debug)]
pub(super) struct Movie {
    pub(super) tracks: Vec<Track>,
    /// Per track; `None` for those that cannot be played.
    pub(super) media: Vec<Option<TrackMedia>>,
    /// Defaults of fragments; empty in a file without.
    pub(super) trex: Vec<Trex>,
    pub(super) is_fragmented: bool,
}

impl Movie {
    /// Reads the body of `moov`.
    pub(super) fn read(moov: &[u8], limits: &Limits) -> Result<Self, Mp4Error> {
        if Boxes(moov).find(b"cmov")?.is_some() {
            return Err(Mp4Error::Unsupported("a compressed index (cmov)"));
        }
        let head: Mvhd = decode(Boxes(moov).require(b"mvhd")?)?;
        let mvex = Boxes(moov).find(b"mvex")?;
        let mut movie =
            Self { tracks: Vec::new(), media: Vec::new(), trex: Vec::new(), is_fragmented: mvex.is_some() };
        let mut fragments_duration = None;
        for next in Boxes(mvex.unwrap_or_default()) {
            let (kind, body) = next?;
            match &kind.0 {
                b"trex" => movie.trex.push(decode(body)?),
                b"mehd" => fragments_duration = Some(decode::<Mehd>(body)?.fragment_duration),
                _ => {}
            }
            Mp4Error::check("tracks", movie.trex.len() as u64, limits.tracks.into())?;
        }
        for next in Boxes(moov) {
            let (kind, trak) = next?;
            if &kind.0 != b"trak" {
                continue;
            }
            Mp4Error::check("tracks", movie.tracks.len() as u64 + 1, limits.tracks.into())?;
            let (mut track, mut media) = read_track(trak, head.timescale, limits)?;
            if movie.is_fragmented {
                if let Some(media) = &mut media {
                    media.show_all();
                }
                track.frames_end = None;
                let known = fragments_duration.filter(|duration| *duration > 0);
                track.end = known.map(|duration| {
                    Timestamp::from_ticks(duration.try_into().unwrap_or(i64::MAX), head.timescale)
                });
            }
            if movie.tracks.iter().any(|other| other.id == track.id) {
                return Err(Mp4Error::malformed(b"tkhd", "two tracks have the same id"));
            }
            // At most 255 of a kind: there are not more tracks than that, or the last ones share a
            // number.
            let before = movie.tracks.iter().filter(|other| other.track.kind == track.track.kind).count();
            track.track.index = u8::try_from(before).unwrap_or(u8::MAX);
            movie.tracks.push(track);
            movie.media.push(media);
        }
        Ok(movie)
    }
}

/// Reads a `trak`.
fn read_track(
    trak: &[u8],
    movie_timescale: u32,
    limits: &Limits,
) -> Result<(Track, Option<TrackMedia>), Mp4Error> {
    let id = decode::<Tkhd>(Boxes(trak).require(b"tkhd")?)?.track_id;
    let mdia = Boxes(trak).require(b"mdia")?;
    let timescale = decode::<Mdhd>(Boxes(mdia).require(b"mdhd")?)?.timescale;
    let kind = match <[u8; 4]>::from(handler(mdia)?) {
        bytes if &bytes == b"vide" => MediaKind::Video,
        bytes if &bytes == b"soun" => MediaKind::Audio,
        _ => MediaKind::Data,
    };
    let mut track = Track {
        id,
        track: TrackId { kind, index: 0 },
        codec: Codec::None,
        timescale,
        width: 0,
        height: 0,
        sample_rate: 0,
        channels: 0,
        end: None,
        frames_end: None,
        descriptions: Vec::new(),
    };
    if kind == MediaKind::Data {
        return Ok((track, None));
    }
    let minf = Boxes(mdia).require(b"minf")?;
    let stbl = Boxes(minf).require(b"stbl")?;
    track.descriptions = description::read(Boxes(stbl).require(b"stsd")?, kind == MediaKind::Video)?;
    let first = &track.descriptions[0];
    (track.codec, track.width, track.height) = (first.codec, first.width, first.height);
    (track.sample_rate, track.channels) = (first.sample_rate, first.channels);
    if !track.is_indexed() {
        return Ok((track, None));
    }
    if timescale == 0 {
        return Err(Mp4Error::malformed(b"mdhd", "its time scale is 0"));
    }
    if !is_self_contained(minf)? {
        return Err(Mp4Error::Unsupported("media in another file (dref)"));
    }
    let tables = SampleTables::read(stbl, limits)?;
    let segments = edits::segments(edit_list(trak, limits)?.as_ref(), timescale, movie_timescale, limits)?;
    let media = TrackMedia { tables, segments };
    track.end = Some(Timestamp::from_ticks(media.end(), timescale));
    track.frames_end = Some(Timestamp::from_ticks(media.frames_end(), timescale));
    Ok((track, Some(media)))
}

/// Handler of a track (8.4.3). Its name is cut off: some are not text.
fn handler(mdia: &[u8]) -> Result<mp4_atom::FourCC, Mp4Error> {
    let body = Boxes(mdia).require(b"hdlr")?;
    let fixed = body.get(..HDLR_BYTES).unwrap_or(body);
    Ok(decode::<Hdlr>(fixed)?.handler)
}

/// Whether all media is in this file (8.7.2): data references have flag 1, or there are none.
fn is_self_contained(minf: &[u8]) -> Result<bool, Mp4Error> {
    let Some(dinf) = Boxes(minf).find(b"dinf")? else { return Ok(true) };
    let Some(dref) = Boxes(dinf).find(b"dref")? else { return Ok(true) };
    for next in Boxes(dref.get(8..).unwrap_or_default()) {
        let (_, reference) = next?;
        if reference.get(3).is_some_and(|flags| flags & 1 == 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn edit_list(trak: &[u8], limits: &Limits) -> Result<Option<Elst>, Mp4Error> {
    let Some(edts) = Boxes(trak).find(b"edts")? else { return Ok(None) };
    let Some(body) = Boxes(edts).find(b"elst")? else { return Ok(None) };
    // Checked before it is made a list of.
    Mp4Error::check("bytes of an edit list", body.len() as u64, 8 + 20 * u64::from(limits.edits))?;
    decode(body).map(Some)
}

impl TrackMedia {
    /// Samples of fragments belong to the first segment, and nothing ends it: edit lists are
    /// written before they are known.
    fn show_all(&mut self) {
        self.segments.truncate(1);
        for segment in &mut self.segments {
            segment.media.1 = i64::MAX;
        }
    }

    /// Presentation time at which the last sample ends.
    fn end(&self) -> i64 {
        // Composition times begin with that of the first sample, except in files of exotic
        // encoders.
        let first = Cursor::at(&self.tables, 0).next(&self.tables).map_or(0, |entry| entry.pts);
        let media_end = self.tables.duration().saturating_add(first);
        self.segments.iter().map(|segment| segment.end(media_end)).max().unwrap_or(0)
    }

    /// Presentation time at which the last frame ends that begins in time.
    fn frames_end(&self) -> i64 {
        let Some(segment) = self.segments.last() else { return 0 };
        let end = segment.media.1;
        let last = self.tables.sample_at(end.saturating_sub(1));
        // The last in decoding order need not be the last to be shown.
        let mut cursor = Cursor::at(&self.tables, last.saturating_sub(REORDERED_FRAMES));
        let mut shown = segment.start;
        for entry in std::iter::from_fn(|| cursor.next(&self.tables)).take(LAST_FRAMES_MAX) {
            if entry.dts.saturating_add(self.tables.composition_min()) >= end {
                break;
            }
            if entry.pts < end {
                let frame_end = entry.pts.saturating_add(entry.duration.into());
                shown = shown.max(segment.to_presentation(frame_end));
            }
        }
        shown
    }
}

/// More frames than any codec decodes ahead of one that is shown before them.
const REORDERED_FRAMES: u32 = 64;
/// Frames that are looked at for the last one: a broken file may have any number without duration.
const LAST_FRAMES_MAX: usize = 4096;
/// Version and flags, and all up to the name (8.4.3.2).
const HDLR_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_in_another_file_is_noticed() {
        let dref = |entries: &[u8]| {
            let size = entries.len() as u32 + 16;
            let dref = [&size.to_be_bytes()[..], b"dref\0\0\0\0\0\0\0\x01", entries].concat();
            [&(size + 8).to_be_bytes()[..], b"dinf", &dref].concat()
        };
        for (minf, expected) in [
            (Vec::new(), true),
            (dref(b"\0\0\0\x0curl \0\0\0\x01"), true),
            (dref(b"\0\0\0\x0calis\0\0\0\x01"), true),
            (dref(b"\0\0\0\x0furl \0\0\0\0a:b"), false),
            (dref(b"\0\0\0\x0curl \0\0\0\x01\0\0\0\x0curn \0\0\0\0"), false),
        ] {
            assert_eq!(is_self_contained(&minf).unwrap(), expected, "{}", minf.escape_ascii());
        }
    }
}
