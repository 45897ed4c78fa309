//! Where the samples of a file are, without their bytes: for whoever cuts it into pieces and sends
//! them on as they are.
//!
//! [`SampleIndex`] is the index of a file apart from its reader, so that many can share it. A
//! [`Walk`] goes over the samples of all tracks that are indexed, those of one track by decoding
//! time; a [`Mark`] is a place of it that another walk begins at, without going there. Samples and
//! their times are those that [`Mp4`](crate::Mp4) gives.
//!
//! A file that grows in fragments is walked as far as it is whole, and further when it has grown.

use std::io::{Read, Seek};

use super::configs::{config_in_sample, has_no_sequence_header};
use super::file::{TOP_BOXES_MAX, find_fragment, find_index, media_of};
use super::input::Input;
use super::lane::{Lane, Shown};
use super::movie::{Movie, Track};
use super::nal;
use super::{Limits, Mp4Error};
use media::{Codec, Timestamp};

/// The index of a file: `moov`, and where fragments begin.
#[derive(Debug)]
pub struct SampleIndex {
    movie: Movie,
    limits: Limits,
    first_fragment: Option<u64>,
    bytes: usize,
}

/// A sample: where it is, and when it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedSample {
    /// Place in the file.
    pub offset: u64,
    /// Bytes of it.
    pub size: u32,
    /// Decoding time on the clock of the presentation; never steps back within a track, and may be
    /// below 0.
    pub dts: Timestamp,
    /// When it is shown; not before `dts`.
    pub pts: Timestamp,
    /// How long it lasts, as the file says.
    pub duration: Timestamp,
    /// Whether a decoder can begin with it.
    pub is_key: bool,
    /// Index of its sample description.
    pub description: u32,
}

/// A place among the samples of all tracks.
#[derive(Debug, Clone)]
pub struct Walk {
    lanes: Vec<Lane>,
    /// The lane that is walked; those before it have no more samples for now.
    at: usize,
    /// The lanes as they were a while ago, and how many samples each has given since: before the
    /// present fragment, or somewhere in the tables.
    bases: Vec<(Lane, u32)>,
    fragment: Option<u64>,
    next_fragment: Option<u64>,
    samples: u64,
}

/// A place among the samples of one track.
#[derive(Debug, Clone)]
pub struct Mark {
    lane: Lane,
    fragment: Option<u64>,
    /// Samples of the fragment before it.
    skipped: u32,
}

impl SampleIndex {
    /// Reads the index of a file, wherever it stands.
    pub fn read<R: Read + Seek>(reader: R, limits: Limits) -> Result<Self, Mp4Error> {
        let mut input = Input::new(reader);
        let (moov, behind) = find_index(&mut input, &limits)?;
        let movie = Movie::read(&moov, &limits)?;
        let first_fragment = behind.filter(|_| movie.is_fragmented);
        Ok(Self { movie, limits, first_fragment, bytes: moov.len() })
    }

    /// All tracks of the file.
    pub fn tracks(&self) -> &[Track] {
        &self.movie.tracks
    }

    /// Whether samples are in fragments, of which the index says nothing.
    pub fn is_fragmented(&self) -> bool {
        self.movie.is_fragmented
    }

    /// Bytes of `moov`; in memory it takes about as many.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The configuration record of a track as it stands in the file, empty where its codec has
    /// none; `None` where samples have it.
    pub fn record(&self, track: u32) -> Result<Option<&[u8]>, Mp4Error> {
        let track = self.track(track)?;
        let description = &track.descriptions[0];
        match description.codec {
            Codec::H264 | Codec::H265 => {
                Ok(nal::record_with_long_lengths(description)?.map(|_| &description.record[..]))
            }
            Codec::Av1 if has_no_sequence_header(description) => Ok(None),
            _ => Ok(Some(&description.record)),
        }
    }

    /// The record that is made of a key frame, of tracks whose samples have it. `None`: this one has
    /// none.
    pub fn record_of_sample(&self, track: u32, data: &[u8]) -> Result<Option<Vec<u8>>, Mp4Error> {
        let description = &self.track(track)?.descriptions[0];
        match nal::length_size(description)? {
            None | Some(4) => config_in_sample(description, data),
            // The record that is made of them says four.
            Some(_) => Err(Mp4Error::Unsupported("parameter sets in samples, with short lengths")),
        }
    }

    /// Begins to walk: over all tracks that are indexed, in the order of [`Self::tracks`].
    pub fn walk(&self) -> Walk {
        self.walk_of(|_| true)
    }

    /// Begins to walk over one track.
    pub fn walk_track(&self, id: u32) -> Walk {
        self.walk_of(|track| track.id == id)
    }

    fn walk_of(&self, is_wanted: impl Fn(&Track) -> bool) -> Walk {
        let mut lanes = Vec::new();
        for (index, track) in self.movie.tracks.iter().enumerate() {
            if let (true, Some(media)) = (track.is_indexed() && is_wanted(track), &self.movie.media[index]) {
                lanes.push(Lane::new(index, track.id, track.track.kind, track.timescale, media));
            }
        }
        let bases = lanes.iter().map(|lane| (lane.clone(), 0)).collect();
        Walk { lanes, at: 0, bases, fragment: None, next_fragment: self.first_fragment, samples: 0 }
    }

    /// So many samples of a track from a mark on; fewer if there are no more.
    pub fn samples<R: Read + Seek>(
        &self,
        mark: &Mark,
        reader: R,
        count: u32,
    ) -> Result<Vec<IndexedSample>, Mp4Error> {
        let mut lane = mark.lane.clone();
        let media = media_of(&self.movie, lane.track);
        let (mut input, mut next) = (Input::new(reader), mark.fragment);
        let mut skip = mark.skipped;
        let mut found = Vec::with_capacity(count.min(4096) as usize);
        while found.len() < count as usize {
            match lane.next(media)? {
                Some(_) if skip > 0 => skip -= 1,
                Some(shown) => found.push(indexed(&shown)),
                None => {
                    let Some(at) = next else { break };
                    let fragment = find_fragment(&mut input, at, &self.movie, &self.limits)?;
                    let Some((fragment, behind)) = fragment else { break };
                    let id = lane.id;
                    fragment.runs.into_iter().filter(|run| run.track_id == id).for_each(|run| lane.push(run));
                    next = behind;
                }
            }
        }
        Ok(found)
    }

    fn track(&self, id: u32) -> Result<&Track, Mp4Error> {
        let track = self.movie.tracks.iter().find(|track| track.id == id && track.is_indexed());
        track.ok_or(Mp4Error::NoTrack(id))
    }
}

impl Walk {
    /// The next sample of the file, with its track's id. All that the index has of one track, then of
    /// the next; then those of each fragment in the same way. `None`: there are no more in the first
    /// `length` bytes; when the file has grown there may be.
    ///
    /// After an error the walk is over.
    pub fn next<R: Read + Seek>(
        &mut self,
        index: &SampleIndex,
        reader: R,
        length: u64,
    ) -> Result<Option<(u32, IndexedSample)>, Mp4Error> {
        let mut input = None;
        let mut reader = Some(reader);
        loop {
            while let Some(lane) = self.lanes.get_mut(self.at) {
                let (base, given) = &mut self.bases[self.at];
                if self.fragment.is_none() && *given == BASE_SAMPLES {
                    (*base, *given) = (lane.clone(), 0);
                }
                if let Some(shown) = lane.next(media_of(&index.movie, lane.track))? {
                    self.samples += 1;
                    let limits = &index.limits;
                    Mp4Error::check("samples of a file", self.samples, limits.samples.into())?;
                    Mp4Error::check("bytes of a sample", shown.size.into(), limits.sample_bytes.into())?;
                    *given += 1;
                    return Ok(Some((lane.id, indexed(&shown))));
                }
                self.at += 1;
            }
            let input = input.get_or_insert_with(|| Input::new(reader.take().expect("taken once")));
            if !self.load(index, input, length)? {
                return Ok(None);
            }
        }
    }

    /// The place of the sample that [`Self::next`] gave last. Before the first it is that of the start.
    pub fn mark(&self) -> Option<Mark> {
        let (base, given) = self.bases.get(self.at)?;
        // In the tables: fragments may follow.
        let fragment = self.fragment.or(self.next_fragment);
        Some(Mark { lane: base.clone(), fragment, skipped: given.saturating_sub(1) })
    }

    /// Takes the next fragment; `false` if it is not there, or not as a whole.
    fn load<R: Read + Seek>(
        &mut self,
        index: &SampleIndex,
        input: &mut Input<R>,
        length: u64,
    ) -> Result<bool, Mp4Error> {
        let Some(mut at) = self.next_fragment else { return Ok(false) };
        // What is not whole is not looked into.
        let mut boxes = 0;
        loop {
            boxes += 1;
            Mp4Error::check("boxes between fragments", boxes, TOP_BOXES_MAX.into())?;
            let Some(found) = input.top_box(at)? else { return Ok(false) };
            let Some(end) = found.end().filter(|end| *end <= length) else { return Ok(false) };
            if &found.kind.0 == b"moof" {
                let media = input.top_box(end)?.and_then(|media| media.end());
                if media.is_none_or(|end| end > length) {
                    return Ok(false);
                }
                break;
            }
            at = end;
            self.next_fragment = Some(at);
        }
        let found = find_fragment(input, at, &index.movie, &index.limits)?;
        let Some((fragment, next)) = found else { return Ok(false) };
        self.bases = self.lanes.iter().map(|lane| (lane.clone(), 0)).collect();
        (self.fragment, self.next_fragment, self.at) = (Some(at), next, 0);
        for run in fragment.runs {
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == run.track_id) {
                lane.push(run);
            }
        }
        Ok(true)
    }
}

fn indexed(shown: &Shown) -> IndexedSample {
    let Shown { offset, size, dts, pts, duration, is_key, is_hidden: _, description } = *shown;
    IndexedSample { offset, size, dts, pts, duration, is_key, description }
}

/// Samples after which a place in the tables is noted again: as many are passed from a mark on.
const BASE_SAMPLES: u32 = 256;
