//! A small writer of MP4 files for tests: every notation that the reader has to know, and what it
//! should read from them.
//!
//! Written from ISO/IEC 14496-12 apart from the reader, so that both would have to be wrong in the
//! same way.

use std::io::Cursor;

use media::{FrameRole, MediaKind, Timestamp};
use mp4::{Limits, Mp4, Sample};

/// A box with this body.
pub(crate) fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], kind, body].concat()
}

/// A box with version, flags and this body.
pub(crate) fn full(kind: &[u8; 4], version: u8, flags: u32, body: &[u8]) -> Vec<u8> {
    let head = (u32::from(version) << 24 | flags).to_be_bytes();
    boxed(kind, &[&head[..], body].concat())
}

/// Numbers of 32 bits, one behind the other.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A sample to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) size: u32,
    pub(crate) duration: u32,
    pub(crate) composition: i32,
    pub(crate) is_key: bool,
}

/// A track to be written.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    pub(crate) id: u32,
    pub(crate) handler: [u8; 4],
    pub(crate) timescale: u32,
    /// Boxes of `stsd`.
    pub(crate) descriptions: Vec<Vec<u8>>,
    pub(crate) units: Vec<Unit>,
    /// Duration in units of the movie, media time, rate.
    pub(crate) edits: Vec<(u64, i64, i16)>,
}

/// How a file is written.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) moov_first: bool,
    pub co64: bool,
    /// Bits of a size in `stz2`; 0: `stsz`.
    pub stz2: u8,
    pub(crate) wide_versions: bool,
    /// 64-bit sizes of boxes at the top level.
    pub(crate) long_boxes: bool,
    /// Samples per chunk.
    pub(crate) chunk: usize,
    /// Samples per fragment, 0: none. With `hybrid` the first so many are in the index.
    pub(crate) fragment: usize,
    pub(crate) hybrid: bool,
    pub(crate) base: Base,
    pub(crate) separate: bool,
    pub(crate) tfdt: bool,
    pub(crate) sidx: bool,
    pub(crate) mfra: bool,
    /// Bytes that belong to nobody between chunks.
    pub(crate) gap: usize,
    /// All chunks of a track, then all of the next.
    pub(crate) interleaved: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            moov_first: true,
            co64: false,
            stz2: 0,
            wide_versions: false,
            long_boxes: false,
            chunk: 4,
            fragment: 0,
            hybrid: false,
            base: Base::Moof,
            separate: false,
            tfdt: true,
            sidx: false,
            mfra: false,
            gap: 0,
            interleaved: true,
        }
    }
}

/// What data offsets of fragments count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// `default-base-is-moof`.
    Moof,
    /// `base-data-offset`.
    Explicit,
    /// Nothing is said: the `moof`, then where the track before ended.
    Implicit,
}

/// A sample that should be read; times in units of its track, before edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) track_id: u32,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) is_key: bool,
}

/// Units of time per second in edit lists.
pub(crate) const MOVIE_TIMESCALE: u32 = 1000;
/// Stands for a size that is not known yet.
const LATER: usize = 1 << 20;

/// The bytes of the sample at an offset: nothing that a shifted read would give, too.
pub(crate) fn pattern(offset: u64, size: u32) -> Vec<u8> {
    (offset..offset + u64::from(size)).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// A track with H.264 that is not looked at.
pub(crate) fn video(units: Vec<Unit>) -> Track {
    let descriptions = vec![visual(b"avc1", b"avcC", AVCC)];
    Track { id: 1, handler: *b"vide", timescale: 12_800, descriptions, units, edits: Vec::new() }
}

/// A track with AAC that is not looked at.
pub(crate) fn audio(units: Vec<Unit>) -> Track {
    let descriptions = vec![audio_entry()];
    Track { id: 2, handler: *b"soun", timescale: 48_000, descriptions, units, edits: Vec::new() }
}

/// Record with one SPS and one PPS (96x64), sizes of four bytes.
pub(crate) const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";

/// A VisualSampleEntry of 96x64 with one box.
pub(crate) fn visual(kind: &[u8; 4], record_kind: &[u8; 4], record: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 78];
    (body[7], body[25], body[27]) = (1, 96, 64);
    body.extend(boxed(record_kind, record));
    boxed(kind, &body)
}

/// An AudioSampleEntry with AAC LC, 48 kHz, stereo.
pub(crate) fn audio_entry() -> Vec<u8> {
    let esds = b"\x03\x19\x00\x00\x00\x04\x11\x40\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x02\x11\x90\x06\x01\x02";
    audio_sample_entry(b"mp4a", &full(b"esds", 0, 0, esds))
}

/// An AudioSampleEntry of 48 kHz, stereo, with these boxes.
pub(crate) fn audio_sample_entry(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 28];
    (body[7], body[17], body[19]) = (1, 2, 16);
    body[24..26].copy_from_slice(&48_000u16.to_be_bytes());
    body.extend_from_slice(boxes);
    boxed(kind, &body)
}

/// `count` pictures in groups of `group`, a key frame first.
pub(crate) fn pictures(count: usize, group: usize, size: u32) -> Vec<Unit> {
    let unit = |index: usize| Unit {
        size: size + index as u32 % 7,
        duration: 512,
        composition: 0,
        is_key: index.is_multiple_of(group),
    };
    (0..count).map(unit).collect()
}

/// `count` frames of AAC.
pub(crate) fn frames(count: usize, size: u32) -> Vec<Unit> {
    let unit =
        |index: usize| Unit { size: size + index as u32 % 3, duration: 1024, composition: 0, is_key: true };
    (0..count).map(unit).collect()
}

/// Writes a file; gives the samples that are in it, by track.
pub(crate) fn write(tracks: &[Track], layout: &Layout) -> (Vec<u8>, Vec<Vec<Expected>>) {
    // The index does not change its size with the offsets in it.
    let probe = Writer::new(tracks, layout, 0).file();
    let written = Writer::new(tracks, layout, probe.moov_bytes).file();
    (written.bytes, written.expected)
}

/// What `Mp4` reads from a file.
pub(crate) fn read_all(bytes: &[u8]) -> Vec<Sample> {
    let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).expect("a file that can be opened");
    let mut samples = Vec::new();
    while let Some(sample) = file.next_sample().expect("a file that can be read") {
        samples.push(sample);
    }
    samples
}

/// Compares the samples of one track with what is expected of it; times are moved by `shift` units.
pub(crate) fn assert_track(samples: &[Sample], expected: &[Expected], timescale: u32, shift: i64) {
    let Some(id) = expected.first().map(|first| first.track_id) else { return };
    let read: Vec<_> = samples.iter().filter(|sample| sample.track_id == id).collect();
    for (sample, expected) in read.iter().zip(expected) {
        assert_eq!(
            (sample.offset, sample.frame.data().len() as u32),
            (expected.offset, expected.size),
            "{expected:?}"
        );
        let exact = |time| Timestamp::from_ticks(time + shift, timescale);
        assert_eq!(
            (sample.frame.dts, sample.frame.pts),
            (exact(expected.dts), exact(expected.pts)),
            "{expected:?}"
        );
        let role = match (sample.frame.track.kind, expected.is_key) {
            (MediaKind::Audio, _) => FrameRole::Audio,
            (_, true) => FrameRole::Key,
            (_, false) => FrameRole::Inter,
        };
        assert_eq!(sample.frame.role, role, "{expected:?}");
        assert_eq!(sample.frame.data(), pattern(expected.offset, expected.size), "{expected:?}");
    }
    assert_eq!(read.len(), expected.len(), "samples of track {id}");
}

struct Writer<'a> {
    tracks: &'a [Track],
    layout: &'a Layout,
    moov_bytes: usize,
    expected: Vec<Vec<Expected>>,
    /// Per track: offset, samples.
    chunks: Vec<Vec<(u64, u32)>>,
}

struct Written {
    bytes: Vec<u8>,
    expected: Vec<Vec<Expected>>,
    moov_bytes: usize,
}

impl<'a> Writer<'a> {
    fn new(tracks: &'a [Track], layout: &'a Layout, moov_bytes: usize) -> Self {
        let empty = vec![Vec::new(); tracks.len()];
        Self { tracks, layout, moov_bytes, expected: empty, chunks: vec![Vec::new(); tracks.len()] }
    }

    fn lead(&self) -> Vec<u8> {
        boxed(b"ftyp", b"isom\0\0\x02\0isomiso6")
    }

    fn top(&self, kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        if !self.layout.long_boxes {
            return boxed(kind, body);
        }
        [&1u32.to_be_bytes()[..], kind, &(body.len() as u64 + 16).to_be_bytes(), body].concat()
    }

    fn top_head(&self) -> usize {
        if self.layout.long_boxes { 16 } else { 8 }
    }

    fn file(mut self) -> Written {
        let mut bytes = self.lead();
        let in_tables = self.in_tables();
        if self.layout.moov_first {
            bytes.resize(bytes.len() + self.moov_bytes, 0);
        }
        let moov_at = self.lead().len();
        let media_at = bytes.len() + self.top_head();
        let media = self.media(media_at as u64, &in_tables);
        let media = if media.is_empty() { Vec::new() } else { self.top(b"mdat", &media) };
        let moov = self.moov(&in_tables);
        bytes.extend(media);
        let moov_bytes = moov.len();
        if !self.layout.moov_first {
            bytes.extend(moov);
        } else if self.moov_bytes == moov_bytes {
            bytes[moov_at..moov_at + moov_bytes].copy_from_slice(&moov);
        }
        if self.layout.fragment > 0 {
            self.fragments(&mut bytes, &in_tables);
        }
        Written { bytes, expected: self.expected, moov_bytes }
    }

    /// Samples per track that are in the index.
    fn in_tables(&self) -> Vec<usize> {
        let count = |track: &Track| match (self.layout.fragment, self.layout.hybrid) {
            (0, _) => track.units.len(),
            (fragment, true) => fragment.min(track.units.len()),
            (_, false) => 0,
        };
        self.tracks.iter().map(count).collect()
    }

    fn media(&mut self, at: u64, in_tables: &[usize]) -> Vec<u8> {
        let mut media = Vec::new();
        let mut next = vec![0; self.tracks.len()];
        while (0..next.len()).any(|track| next[track] < in_tables[track]) {
            for track in 0..next.len() {
                loop {
                    let count = self.layout.chunk.min(in_tables[track] - next[track]);
                    if count == 0 {
                        break;
                    }
                    media.resize(media.len() + self.layout.gap, 0xaa);
                    let offset = at + media.len() as u64;
                    self.chunks[track].push((offset, count as u32));
                    for _ in 0..count {
                        let size = self.put(track, next[track], at + media.len() as u64);
                        media.extend(pattern(at + media.len() as u64, size));
                        next[track] += 1;
                    }
                    if self.layout.interleaved {
                        break;
                    }
                }
            }
        }
        media
    }

    /// Notes what is expected; gives the size.
    fn put(&mut self, track: usize, index: usize, offset: u64) -> u32 {
        let units = &self.tracks[track].units;
        // Behind the one before, which is noted already.
        let dts = match (self.expected[track].last(), index.checked_sub(1)) {
            (Some(last), Some(before)) => last.dts + i64::from(units[before].duration),
            _ => 0,
        };
        let unit = units[index];
        let pts = dts + i64::from(unit.composition);
        let track_id = self.tracks[track].id;
        self.expected[track].push(Expected {
            track_id,
            offset,
            size: unit.size,
            dts,
            pts,
            is_key: unit.is_key,
        });
        unit.size
    }

    fn moov(&self, in_tables: &[usize]) -> Vec<u8> {
        let mut body = if self.layout.wide_versions {
            let head = [&[0; 16][..], &words(&[MOVIE_TIMESCALE]), &[0; 8]].concat();
            full(b"mvhd", 1, 0, &[&head[..], &[0; 80]].concat())
        } else {
            full(b"mvhd", 0, 0, &[&words(&[0, 0, MOVIE_TIMESCALE, 0])[..], &[0; 80]].concat())
        };
        for (index, track) in self.tracks.iter().enumerate() {
            body.extend(self.trak(track, index, in_tables[index]));
        }
        if self.layout.fragment > 0 {
            let trex = |track: &Track| full(b"trex", 0, 0, &words(&[track.id, 1, 7, 11, 0x1_0000]));
            body.extend(boxed(b"mvex", &self.tracks.iter().flat_map(trex).collect::<Vec<_>>()));
        }
        body.extend(boxed(b"udta", &boxed(b"Xtra", &[0xff; 5])));
        self.top(b"moov", &body)
    }

    fn trak(&self, track: &Track, index: usize, count: usize) -> Vec<u8> {
        let (tkhd, mdhd) = if self.layout.wide_versions {
            let tkhd = [&[0; 16][..], &words(&[track.id]), &[0; 72]].concat();
            let mdhd = [&[0; 16][..], &words(&[track.timescale]), &[0; 12]].concat();
            (full(b"tkhd", 1, 7, &tkhd), full(b"mdhd", 1, 0, &mdhd))
        } else {
            let tkhd = [&words(&[0, 0, track.id])[..], &[0; 68]].concat();
            let mdhd = [&words(&[0, 0, track.timescale])[..], &[0; 8]].concat();
            (full(b"tkhd", 0, 7, &tkhd), full(b"mdhd", 0, 0, &mdhd))
        };
        let hdlr = full(b"hdlr", 0, 0, &[&[0; 4], &track.handler[..], &[0; 12], b"\xff\xfename"].concat());
        let stbl = boxed(b"stbl", &self.tables(track, index, count));
        let mdia = boxed(b"mdia", &[mdhd, hdlr, boxed(b"minf", &stbl)].concat());
        let mut body = tkhd;
        if !track.edits.is_empty() {
            body.extend(boxed(b"edts", &self.elst(track)));
        }
        body.extend(mdia);
        boxed(b"trak", &body)
    }

    fn elst(&self, track: &Track) -> Vec<u8> {
        let mut body = words(&[track.edits.len() as u32]);
        for (duration, media, rate) in &track.edits {
            if self.layout.wide_versions {
                body.extend(duration.to_be_bytes());
                body.extend(media.to_be_bytes());
            } else {
                body.extend((*duration as u32).to_be_bytes());
                body.extend((*media as i32).to_be_bytes());
            }
            body.extend(rate.to_be_bytes());
            body.extend([0, 0]);
        }
        full(b"elst", u8::from(self.layout.wide_versions), 0, &body)
    }

    fn tables(&self, track: &Track, index: usize, count: usize) -> Vec<u8> {
        let units = &track.units[..count];
        let runs = |value: &dyn Fn(&Unit) -> u32| {
            let mut runs: Vec<[u32; 2]> = Vec::new();
            for unit in units {
                match runs.last_mut() {
                    Some(last) if last[1] == value(unit) => last[0] += 1,
                    _ => runs.push([1, value(unit)]),
                }
            }
            [words(&[runs.len() as u32]), words(runs.as_flattened())].concat()
        };
        let descriptions = track.descriptions.concat();
        let count = words(&[track.descriptions.len() as u32]);
        let mut body = full(b"stsd", 0, 0, &[count, descriptions].concat());
        body.extend(full(b"stts", 0, 0, &runs(&|unit| unit.duration)));
        if units.iter().any(|unit| unit.composition != 0) {
            let version = u8::from(units.iter().any(|unit| unit.composition < 0));
            body.extend(full(b"ctts", version, 0, &runs(&|unit| unit.composition as u32)));
        }
        if units.iter().any(|unit| !unit.is_key) {
            let keys: Vec<_> =
                (1..).zip(units).filter(|(_, unit)| unit.is_key).map(|(number, _)| number).collect();
            body.extend(full(b"stss", 0, 0, &[words(&[keys.len() as u32]), words(&keys)].concat()));
        }
        body.extend(self.chunk_tables(index, track.descriptions.len() as u32));
        body.extend(self.sizes(units));
        body
    }

    /// With several descriptions chunks use them in turn.
    fn chunk_tables(&self, index: usize, descriptions: u32) -> Vec<u8> {
        let chunks = &self.chunks[index];
        let mut runs: Vec<[u32; 3]> = Vec::new();
        for (number, (_, samples)) in (1..).zip(chunks) {
            let description = (number - 1) % descriptions + 1;
            if runs.last().is_none_or(|last| (last[1], last[2]) != (*samples, description)) {
                runs.push([number, *samples, description]);
            }
        }
        let mut body =
            full(b"stsc", 0, 0, &[words(&[runs.len() as u32]), words(runs.as_flattened())].concat());
        let count = words(&[chunks.len() as u32]);
        body.extend(if self.layout.co64 {
            let offsets = chunks.iter().flat_map(|(offset, _)| offset.to_be_bytes()).collect();
            full(b"co64", 0, 0, &[count, offsets].concat())
        } else {
            let offsets = chunks.iter().flat_map(|(offset, _)| (*offset as u32).to_be_bytes()).collect();
            full(b"stco", 0, 0, &[count, offsets].concat())
        });
        body
    }

    fn sizes(&self, units: &[Unit]) -> Vec<u8> {
        let sizes: Vec<_> = units.iter().map(|unit| unit.size).collect();
        let count = sizes.len() as u32;
        let bits = self.layout.stz2;
        let packed: Vec<u8> = match bits {
            4 => sizes.chunks(2).map(|pair| (pair[0] << 4 | pair.get(1).unwrap_or(&0)) as u8).collect(),
            8 => sizes.iter().map(|size| *size as u8).collect(),
            16 => sizes.iter().flat_map(|size| (*size as u16).to_be_bytes()).collect(),
            _ if sizes.windows(2).all(|pair| pair[0] == pair[1]) && count > 0 => {
                return full(b"stsz", 0, 0, &words(&[sizes[0], count]));
            }
            _ => return full(b"stsz", 0, 0, &[words(&[0, count]), words(&sizes)].concat()),
        };
        full(b"stz2", 0, 0, &[words(&[u32::from(bits), count]), packed].concat())
    }

    fn fragments(&mut self, bytes: &mut Vec<u8>, in_tables: &[usize]) {
        let mut next = in_tables.to_vec();
        let mut starts = Vec::new();
        let sidx_at = bytes.len();
        let times = |track: &Track, index: usize| {
            track.units[..index].iter().map(|unit| u64::from(unit.duration)).sum()
        };
        // The size of an index is known when the fragments are: they are written behind room for
        // it.
        let pieces = self.tracks[0].units.len().saturating_sub(next[0]).div_ceil(self.layout.fragment);
        let sidx_bytes = if pieces > 0 && self.layout.sidx { 32 + 12 * pieces } else { 0 };
        bytes.resize(sidx_at + sidx_bytes, 0);
        while (0..next.len()).any(|track| next[track] < self.tracks[track].units.len()) {
            let time: u64 = times(&self.tracks[0], next[0]);
            starts.push((bytes.len(), time));
            let groups: Vec<Vec<usize>> = if self.layout.separate {
                (0..next.len()).map(|track| vec![track]).collect()
            } else {
                vec![(0..next.len()).collect()]
            };
            for group in groups {
                let counts: Vec<_> = group
                    .iter()
                    .map(|track| {
                        (*track, self.layout.fragment.min(self.tracks[*track].units.len() - next[*track]))
                    })
                    .filter(|(_, count)| *count > 0)
                    .collect();
                if !counts.is_empty() {
                    self.fragment(bytes, &counts, &mut next);
                }
            }
        }
        let end: u64 = times(&self.tracks[0], self.tracks[0].units.len());
        if pieces > 0 && self.layout.sidx {
            starts.truncate(pieces);
            let mut sidx = words(&[self.tracks[0].id, self.tracks[0].timescale]);
            sidx.extend(words(&[starts[0].1 as u32, 0, starts.len() as u32]));
            for (index, (at, time)) in starts.iter().enumerate() {
                let next = starts.get(index + 1).copied().unwrap_or((bytes.len(), end));
                sidx.extend(words(&[(next.0 - at) as u32, (next.1 - time) as u32, 0x9000_0000]));
            }
            let sidx = full(b"sidx", 0, 0, &sidx);
            bytes[sidx_at..sidx_at + sidx_bytes].copy_from_slice(&sidx);
        }
        if self.layout.mfra {
            let mut tfra = words(&[self.tracks[0].id, 0, starts.len() as u32]);
            for (at, time) in &starts {
                tfra.extend(words(&[*time as u32, *at as u32]));
                tfra.extend([1, 1, 1]);
            }
            let tfra = full(b"tfra", 0, 0, &tfra);
            let mfro = full(b"mfro", 0, 0, &words(&[tfra.len() as u32 + 8 + 16]));
            bytes.extend(boxed(b"mfra", &[tfra, mfro].concat()));
        }
    }

    /// Writes `moof` and `mdat`; the size of the first is found by writing it twice.
    fn fragment(&mut self, bytes: &mut Vec<u8>, counts: &[(usize, usize)], next: &mut [usize]) {
        let at = bytes.len();
        let moof_bytes = self.moof(at, LATER, counts, next).len();
        let moof = self.moof(at, moof_bytes, counts, next);
        bytes.extend(moof);
        let data_at = at + moof_bytes + self.top_head();
        let mut data = Vec::new();
        for (track, count) in counts {
            for _ in 0..*count {
                let offset = (data_at + data.len()) as u64;
                let size = self.put(*track, next[*track], offset);
                data.extend(pattern(offset, size));
                next[*track] += 1;
            }
        }
        bytes.extend(self.top(b"mdat", &data));
    }

    fn moof(&self, at: usize, moof_bytes: usize, counts: &[(usize, usize)], next: &[usize]) -> Vec<u8> {
        let mut body = full(b"mfhd", 0, 0, &words(&[1]));
        let mut data_at = moof_bytes + self.top_head();
        for (number, (track, count)) in counts.iter().enumerate() {
            let id = self.tracks[*track].id;
            let units = &self.tracks[*track].units[next[*track]..next[*track] + count];
            let (flags, base) = match self.layout.base {
                Base::Moof => (0x2_0000, Vec::new()),
                Base::Explicit => (1, ((at + data_at) as u64).to_be_bytes().to_vec()),
                Base::Implicit => (0, Vec::new()),
            };
            let mut traf = full(b"tfhd", 0, flags, &[words(&[id]), base].concat());
            if self.layout.tfdt {
                let time: u64 = self.tracks[*track].units[..next[*track]]
                    .iter()
                    .map(|unit| u64::from(unit.duration))
                    .sum();
                traf.extend(if self.layout.wide_versions {
                    full(b"tfdt", 1, 0, &time.to_be_bytes())
                } else {
                    full(b"tfdt", 0, 0, &words(&[time as u32]))
                });
            }
            // Two runs, the second of which says no offset.
            let (first, second) = units.split_at(units.len().div_ceil(2));
            let offset = match (self.layout.base, number) {
                (Base::Moof, _) | (Base::Implicit, 0) => Some(data_at as i32),
                (Base::Explicit, _) => Some(0),
                (Base::Implicit, _) => None,
            };
            traf.extend(trun(first, offset));
            if !second.is_empty() {
                traf.extend(trun(second, None));
            }
            body.extend(boxed(b"traf", &traf));
            data_at += units.iter().map(|unit| unit.size as usize).sum::<usize>();
        }
        self.top(b"moof", &body)
    }
}

fn trun(units: &[Unit], offset: Option<i32>) -> Vec<u8> {
    let mut body = words(&[units.len() as u32]);
    body.extend(offset.iter().flat_map(|offset| offset.to_be_bytes()));
    for unit in units {
        let flags = if unit.is_key { 0x200_0000 } else { 0x101_0000 };
        body.extend(words(&[unit.duration, unit.size, flags, unit.composition as u32]));
    }
    let version = u8::from(units.iter().any(|unit| unit.composition < 0));
    full(b"trun", version, 0xf00 | u32::from(offset.is_some()), &body)
}
