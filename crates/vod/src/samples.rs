//! The samples of a file in either format, and how its tracks are coded.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use cmaf::{FRAME_HEAD_BYTES, Format};
use media::{MediaKind, TrackId};
use mp4::{IndexedSample, Limits, Mark, SampleIndex, Walk};

use crate::VodError;
use crate::flv::{self, FlvMark, FlvWalk};

/// Samples of an FLV file among which is one of each track: some seconds.
const FLV_FIRST_SAMPLES: usize = 500;

/// The samples of a file, as far as they have been gone through.
#[derive(Debug)]
pub(crate) enum Samples {
    Mp4 { index: Arc<SampleIndex>, walk: Walk },
    Flv(FlvWalk),
}

/// Where a sample is, in its file.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Mp4(Mark),
    Flv(FlvMark),
}

/// What samples are found with from a [`Place`] on.
#[derive(Debug, Clone)]
pub(crate) enum Finder {
    Mp4(Arc<SampleIndex>),
    Flv(TrackId, Box<Format>),
}

impl Samples {
    /// Reads what is before the samples, which is all that MP4 has of an index but for fragments.
    pub(crate) fn begin<R: Read + Seek>(reader: &mut R, limits: Limits) -> Result<Self, VodError> {
        reader.seek(SeekFrom::Start(0))?;
        let mut begin = Vec::new();
        reader.by_ref().take(3).read_to_end(&mut begin)?;
        if FlvWalk::is_flv(&begin) {
            return FlvWalk::begin(reader, limits).map(Self::Flv);
        }
        reader.seek(SeekFrom::Start(0))?;
        let index = SampleIndex::read(reader, limits)?;
        let walk = index.walk();
        Ok(Self::Mp4 { index: Arc::new(index), walk })
    }

    /// The next sample in the first `length` bytes, with its track's number; `None`: there are no
    /// more for now.
    pub(crate) fn next<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        length: u64,
        grows: bool,
    ) -> Result<Option<(u32, IndexedSample)>, VodError> {
        match self {
            Self::Mp4 { index, walk } => Ok(walk.next(index, reader, length)?),
            Self::Flv(walk) => walk.next(reader, length, grows),
        }
    }

    /// The first sample of each track, as far as it is near the begin of the file, or in an index.
    /// Nothing can be gone through afterwards.
    pub(crate) fn firsts<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        length: u64,
        grows: bool,
    ) -> Result<Vec<(u32, IndexedSample)>, VodError> {
        let mut found: Vec<(u32, IndexedSample)> = Vec::new();
        match self {
            Self::Mp4 { index, .. } => {
                for track in index.tracks().iter().filter(|track| track.is_indexed()) {
                    found.extend(index.walk_track(track.id).next(index, &mut *reader, length)?);
                }
            }
            Self::Flv(walk) => {
                for _ in 0..FLV_FIRST_SAMPLES {
                    let Some((id, sample)) = walk.next(reader, length, grows)? else { break };
                    if !found.iter().any(|(known, _)| *known == id) {
                        found.push((id, sample));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The place of the sample that was given last.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::Mp4 { walk, .. } => walk.mark().map(Place::Mp4),
            Self::Flv(walk) => walk.mark().map(Place::Flv),
        }
    }

    /// How a track is coded whose first sample is here; `None`: it is not played.
    pub(crate) fn format<R: Read + Seek>(
        &self,
        id: u32,
        first: &IndexedSample,
        reader: &mut R,
    ) -> Result<Option<Format>, VodError> {
        let index = match self {
            Self::Mp4 { index, .. } => index,
            Self::Flv(walk) => return Ok(walk.format(id).cloned()),
        };
        let Some(track) = index.tracks().iter().find(|track| track.id == id) else { return Ok(None) };
        let codec = track.codec;
        let mut sample = |bytes: u64| -> Result<Vec<u8>, VodError> {
            let mut data = Vec::new();
            reader.seek(SeekFrom::Start(first.offset))?;
            reader.by_ref().take(u64::from(first.size).min(bytes)).read_to_end(&mut data)?;
            Ok(data)
        };
        let record = match index.record(id)? {
            Some(record) => record.to_vec(),
            None => index.record_of_sample(id, &sample(u64::MAX)?)?.unwrap_or_default(),
        };
        let format = match Format::of_record(codec, &record) {
            Ok(None) => Format::of_sample(codec, &sample(FRAME_HEAD_BYTES as u64)?, true).map(Some),
            told => told,
        };
        Ok(format.unwrap_or_else(|refusal| {
            tracing::debug!(track = id, %refusal, "a track is not played");
            None
        }))
    }

    /// The ticks per second in which the times of a track are exact.
    pub(crate) fn clock(&self, id: u32, format: &Format) -> u32 {
        let of_file = match self {
            Self::Mp4 { index, .. } => index.tracks().iter().find(|track| track.id == id),
            Self::Flv(_) => None,
        };
        of_file.map_or(format.timescale(), |track| track.timescale)
    }

    /// What finds the samples of a track.
    pub(crate) fn finder(&self, id: u32, format: &Format) -> Finder {
        match self {
            Self::Mp4 { index, .. } => Finder::Mp4(Arc::clone(index)),
            Self::Flv(_) => Finder::Flv(flv::track_of(id), Box::new(format.clone())),
        }
    }

    /// Why nothing of the file is played.
    pub(crate) fn nothing_to_play(&self) -> VodError {
        let codecs = match self {
            Self::Mp4 { index, .. } => {
                let tracks = index.tracks().iter().filter(|track| track.track.kind != MediaKind::Data);
                tracks.map(|track| track.codec).collect()
            }
            Self::Flv(walk) => walk.codecs(),
        };
        mp4::Mp4Error::NothingToPlay(codecs).into()
    }

    /// Whether there is, or will be, video that can be played.
    pub(crate) fn expects_video(&self) -> bool {
        match self {
            Self::Mp4 { index, .. } => {
                index.tracks().iter().any(|track| track.track.kind == MediaKind::Video && track.is_playable())
            }
            Self::Flv(walk) => walk.expects_video(),
        }
    }

    /// Why a file of another server is not cut: finding its samples would take a request for each
    /// few of them.
    pub(crate) fn scattered(&self) -> Option<&'static str> {
        match self {
            Self::Mp4 { index, .. } if index.is_fragmented() => Some("a fragmented file"),
            Self::Mp4 { .. } => None,
            Self::Flv(_) => Some("an FLV file"),
        }
    }

    /// Bytes of its index.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Mp4 { index, .. } => index.bytes(),
            Self::Flv(_) => 0,
        }
    }
}

impl Finder {
    /// So many samples from a place on; fewer if there are no more.
    pub(crate) fn samples<R: Read + Seek>(
        &self,
        place: &Place,
        reader: R,
        count: u32,
    ) -> Result<Vec<IndexedSample>, VodError> {
        match (self, place) {
            (Self::Mp4(index), Place::Mp4(mark)) => Ok(index.samples(mark, reader, count)?),
            (Self::Flv(name, format), Place::Flv(mark)) => flv::samples(mark, (*name, format), reader, count),
            _ => Err(VodError::NotFound),
        }
    }
}
