//! A file that can be played: its index, its segments, and what is said of them.
//!
//! Everything is made of the file's own index and written when somebody asks. The media itself is not read
//! here: a segment is a head, and ranges of the file. A file that grows is read on from where it ended.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use cmaf::{Format, FragmentSample};
use hls::on_demand::{FileRendition, Presentation};
use media::{MediaKind, Timestamp, TrackId};
use mp4::{IndexedSample, Limits};

use crate::VodError;
use crate::cut::{Cut, SEGMENT_MAX};
use crate::library::hash;
use crate::samples::{Finder, Place, Samples};

/// Audio tracks that are played; further ones are left out.
const AUDIO_TRACKS_MAX: usize = 8;
/// Segments of audio that a picture is waited for.
const AUDIO_FIRST_MAX: usize = 3;
/// Before this no track may begin: what is decoded first is a few pictures, or, where the start was cut, a
/// group of them.
const BEFORE_ZERO_MAX: Timestamp = Timestamp::from_millis(60_000);

/// What is known of a file.
#[derive(Debug)]
pub struct Film {
    samples: Samples,
    tracks: Vec<FilmTrack>,
    /// What all times are moved by, so that nothing is shown before 0: nothing, in most files.
    shift: Option<Timestamp>,
    /// Whether more is to come.
    grows: bool,
    /// Whether it is a recording, whose playlists say the same before and after it is complete.
    is_recording: bool,
}

#[derive(Debug)]
struct FilmTrack {
    /// Its id in the file.
    id: u32,
    name: TrackId,
    format: Format,
    timescale: u32,
    init: Bytes,
    cut: Cut,
}

/// How a file is read.
#[derive(Debug, Clone, Copy)]
pub struct FilmInput {
    /// Bytes of it, of which no more is believed.
    pub length: u64,
    /// Whether more is to come.
    pub grows: bool,
    /// Whether it is a recording.
    pub is_recording: bool,
    /// What its index may take.
    pub limits: Limits,
    /// Whether its samples may be in fragments, or tags: each costs a request where the file is on
    /// another server.
    pub takes_fragments: bool,
}

/// A segment that is to be read.
#[derive(Debug)]
pub(crate) struct SegmentPlan {
    finder: Finder,
    place: Place,
    samples: u32,
    next_dts: Option<Timestamp>,
    track: u32,
    kind: MediaKind,
    timescale: u32,
    number: u64,
    /// What decoding times, and times of presentation, are moved by. Those of decoding are moved further
    /// where pictures are decoded before 0: composition offsets may be negative.
    decode_shift: Timestamp,
    shift: Timestamp,
}

impl Film {
    /// Reads the index of a file, and of fragments all there are.
    ///
    /// # Errors
    /// It cannot be read, or says what cannot be.
    pub fn read<R: Read + Seek>(mut reader: R, input: FilmInput) -> Result<Self, VodError> {
        let mut film = Self::begin(&mut reader, input)?;
        film.read_on(&mut reader, input.length, input.grows)?;
        if film.tracks.is_empty() && !film.grows {
            return Err(film.samples.nothing_to_play());
        }
        Ok(film)
    }

    /// The codecs of its renditions (RFC 6381), by what is said of each track and its first sample:
    /// of what is between, nothing is read. Of a file that grows there may be none yet.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_codecs<R: Read + Seek>(mut reader: R, input: FilmInput) -> Result<Vec<String>, VodError> {
        let mut film = Self::begin(&mut reader, input)?;
        for (id, first) in film.samples.firsts(&mut reader, input.length, input.grows)? {
            film.begin_track(id, &first, &mut reader)?;
        }
        if film.tracks.is_empty() && !input.grows {
            return Err(film.samples.nothing_to_play());
        }
        Ok(film.codecs())
    }

    fn begin<R: Read + Seek>(reader: &mut R, input: FilmInput) -> Result<Self, VodError> {
        let samples = Samples::begin(reader, input.limits)?;
        if let Some(kind) = samples.scattered().filter(|_| !input.takes_fragments) {
            let reason = format!("{kind} of another server: it can be played as it is, by ranges");
            return Err(VodError::Unplayable(reason));
        }
        let is_recording = input.is_recording;
        Ok(Self { samples, tracks: Vec::new(), shift: None, grows: true, is_recording })
    }

    /// Reads what has come since.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_on<R: Read + Seek>(
        &mut self,
        mut reader: R,
        length: u64,
        grows: bool,
    ) -> Result<(), VodError> {
        while let Some((id, sample)) = self.samples.next(&mut reader, length, grows)? {
            let end = sample.offset.checked_add(sample.size.into());
            if end.is_none_or(|end| end > length) {
                return Err(mp4::Mp4Error::Truncated { at: sample.offset }.into());
            }
            if sample.description != 0 {
                let reason = "a track changes its format within the file";
                return Err(VodError::Unplayable(reason.to_owned()));
            }
            if !self.tracks.iter().any(|track| track.id == id)
                && !self.begin_track(id, &sample, &mut reader)?
            {
                continue;
            }
            let samples = &self.samples;
            if let Some(track) = self.tracks.iter_mut().find(|track| track.id == id) {
                track.cut.push(&sample, || samples.place())?;
            }
        }
        self.grows = grows;
        if !grows {
            self.tracks.iter_mut().for_each(|track| track.cut.finish());
        }
        let first =
            |of: fn(&Cut) -> Option<Timestamp>| self.tracks.iter().filter_map(|track| of(&track.cut)).min();
        if first(Cut::first_dts).is_some_and(|first| first < -BEFORE_ZERO_MAX) {
            let reason = "its times cannot be true: more than a minute is decoded before its start";
            return Err(VodError::Unplayable(reason.to_owned()));
        }
        if let (None, Some(first)) = (self.shift, first(Cut::first_pts)) {
            self.shift = Some(-first.min(Timestamp::ZERO));
        }
        Ok(())
    }

    /// A track whose first sample this is; `false` if it is not played.
    fn begin_track<R: Read + Seek>(
        &mut self,
        id: u32,
        first: &IndexedSample,
        reader: &mut R,
    ) -> Result<bool, VodError> {
        let Some(format) = self.samples.format(id, first, reader)? else { return Ok(false) };
        let kind = format.kind();
        let of_kind = self.tracks.iter().filter(|known| known.name.kind == kind).count();
        if of_kind >= if kind == MediaKind::Video { 1 } else { AUDIO_TRACKS_MAX } {
            return Ok(false);
        }
        let timescale = self.samples.clock(id, &format);
        let track_id = if kind == MediaKind::Video { 1 } else { 2 + of_kind as u32 };
        let init = Bytes::from(cmaf::init_segment(&format, track_id, timescale));
        let name = TrackId { kind, index: of_kind as u8 };
        self.tracks.push(FilmTrack { id, name, format, timescale, init, cut: Cut::new(kind) });
        self.tracks.sort_by_key(|track| (track.name.kind != MediaKind::Video, track.name.index));
        Ok(true)
    }

    /// What players see of it.
    pub fn presentation<'a>(
        &'a self,
        wall_clock: Option<Duration>,
        start_ms: Option<i64>,
        query: &'a str,
    ) -> Presentation<'a> {
        let renditions = self.tracks.iter().map(|track| FileRendition {
            id: track.name,
            format: &track.format,
            timescale: track.timescale,
            segments: track.cut.segments(),
        });
        let segments = || self.tracks.iter().flat_map(|track| track.cut.segments());
        let longest = segments().map(|segment| segment.duration.millis()).max().unwrap_or(0);
        // To the nearest second (RFC 8216bis section 4.4.3.1).
        let longest = u32::try_from((longest + 500) / 1000).unwrap_or(u32::MAX).max(1);
        let fixed = u32::try_from(SEGMENT_MAX.millis() / 1000).unwrap_or(1);
        Presentation {
            renditions: renditions.collect(),
            grows: self.grows,
            // What is said while it grows stays true.
            target_seconds: if self.is_recording { longest.max(fixed) } else { longest },
            shift: self.shift(),
            wall_clock,
            start_ms,
            query,
        }
    }

    /// Whether all renditions have something to play. Of a file that grows one may be ahead of the others
    /// by a segment, and a playlist without them would be believed.
    pub fn is_ready(&self) -> bool {
        let least = self.tracks.iter().map(|track| track.cut.segments().len()).min().unwrap_or(0);
        let has = |kind| self.tracks.iter().any(|track| track.name.kind == kind);
        let waits_for_video =
            !has(MediaKind::Video) && least < AUDIO_FIRST_MAX && self.samples.expects_video();
        !self.grows || least > 0 && !waits_for_video
    }

    /// The init segment of a rendition.
    pub fn init(&self, name: TrackId) -> Option<Bytes> {
        self.track(name).map(|track| track.init.clone())
    }

    /// How long what can be played is.
    pub fn duration(&self) -> Duration {
        let ends = self.tracks.iter().filter_map(|track| track.cut.segments().last());
        ends.map(|last| last.at + last.duration).max().unwrap_or_default().to_duration()
    }

    /// The codecs of its renditions (RFC 6381).
    pub fn codecs(&self) -> Vec<String> {
        self.tracks.iter().map(|track| track.format.codecs.clone()).collect()
    }

    /// Whether more is to come.
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// Bytes that it takes, about.
    pub fn memory(&self) -> usize {
        4096 + self.samples.bytes() + self.tracks.iter().map(|track| track.cut.memory()).sum::<usize>()
    }

    /// A number that differs from that of a file with another index.
    pub(crate) fn fingerprint(&self) -> u64 {
        let parts = self.tracks.iter().flat_map(|track| {
            let segments = track.cut.segments();
            let last = segments.last().map_or(0, |last| last.at.units().cast_unsigned() ^ last.bytes);
            [segments.len() as u64, last, segments.first().map_or(0, |first| first.bytes)]
        });
        let parts: Vec<u64> = [self.samples.bytes() as u64].into_iter().chain(parts).collect();
        hash(&parts)
    }

    /// A whole segment, with the bytes of its samples; `None`: there is none of that number. For files that
    /// are small, or trusted: a segment may have 64 MiB.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read_segment<R: Read + Seek>(
        &self,
        name: TrackId,
        number: u64,
        mut reader: R,
    ) -> Result<Option<Vec<u8>>, VodError> {
        let Some(plan) = self.segment(name, number) else { return Ok(None) };
        let (head, ranges) = plan.resolve(&mut reader)?;
        let mut out = head.to_vec();
        for range in ranges {
            reader.seek(SeekFrom::Start(range.start))?;
            reader.by_ref().take(range.end - range.start).read_to_end(&mut out)?;
        }
        Ok(Some(out))
    }

    pub(crate) fn segment(&self, name: TrackId, number: u64) -> Option<SegmentPlan> {
        let track = self.track(name)?;
        let (piece, segment, next_dts) = track.cut.piece(usize::try_from(number).ok()?)?;
        Some(SegmentPlan {
            finder: self.samples.finder(track.id, &track.format),
            place: piece.place.clone(),
            samples: segment.samples,
            next_dts,
            track: if name.kind == MediaKind::Video { 1 } else { 2 + u32::from(name.index) },
            kind: name.kind,
            timescale: track.timescale,
            number,
            decode_shift: -track.cut.first_dts().unwrap_or_default().min(-self.shift()),
            shift: self.shift(),
        })
    }

    fn shift(&self) -> Timestamp {
        self.shift.unwrap_or_default()
    }

    fn track(&self, name: TrackId) -> Option<&FilmTrack> {
        self.tracks.iter().find(|track| track.name == name)
    }
}

impl SegmentPlan {
    /// The head of the segment, and the ranges of the file that follow it.
    ///
    /// # Errors
    /// Reading fails, or the file is no longer what it was.
    pub(crate) fn resolve<R: Read + Seek>(&self, reader: R) -> Result<(Bytes, Vec<Range<u64>>), VodError> {
        let samples = self.finder.samples(&self.place, reader, self.samples)?;
        let Some(first) = samples.first().filter(|_| samples.len() == self.samples as usize) else {
            return Err(VodError::NotFound);
        };
        let ticks = |time: Timestamp| time.ticks(self.timescale);
        // Each rounded by itself, so that what is between two samples stays as it is in the file.
        let moved = ticks(self.shift) - ticks(self.decode_shift);
        let ends = samples.iter().skip(1).map(|next| Some(next.dts)).chain([self.next_dts]);
        let said = samples.iter().zip(ends).map(|(sample, end)| {
            let end = end.unwrap_or(sample.dts + sample.duration);
            FragmentSample {
                duration: u32::try_from(ticks(end) - ticks(sample.dts)).unwrap_or(0),
                size: sample.size,
                is_key: sample.is_key,
                composition: i32::try_from(ticks(sample.pts) - ticks(sample.dts) + moved).unwrap_or(0),
            }
        });
        let said: Vec<_> = said.collect();
        let decode_time = (ticks(first.dts) + ticks(self.decode_shift)).max(0).cast_unsigned();
        let sequence = u32::try_from(self.number + 1).unwrap_or(u32::MAX);
        let head = cmaf::fragment_head(self.track, self.kind, sequence, decode_time, &said);
        let head = head.ok_or_else(|| VodError::Unplayable("a segment is too large".to_owned()))?;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for sample in &samples {
            let end = sample.offset + u64::from(sample.size);
            match ranges.last_mut() {
                Some(last) if last.end == sample.offset => last.end = end,
                _ => ranges.push(sample.offset..end),
            }
        }
        Ok((Bytes::from(head), ranges))
    }
}
