//! FLV files as samples: heads of tags are read, one after the other, and media is passed over.
//!
//! FLV has no index. What a sample lasts is known when the next of its track comes, so that the
//! last of each track waits for more, or for the end. Times are milliseconds: frames of audio,
//! which last a number of samples, are put one behind the other as long as that is within
//! [`AUDIO_TOLERANCE`] of what their tags say.

use std::io::{Read, Seek, SeekFrom};

use cmaf::Format;
use media::{Codec, FrameRole, MediaKind, Timestamp, TrackId};
use mp4::{IndexedSample, Limits, Mp4Error};
use rtmp::flv::{FILE_HEADER_BYTES, TAG_HEADER_BYTES, TagHead, read_tag_head};

use crate::VodError;

/// Bytes of a tag that are looked at: its head, and what frames say of themselves.
const HEAD_BYTES: usize = TAG_HEADER_BYTES + 96;
/// How far behind the samples of a segment the next one of the track is looked for.
const LOOK_AHEAD_BYTES: u64 = 4 << 20;
/// Tags that are passed over in one reading: a file of nothing else would take long.
const PASSED_OVER_MAX: u64 = 100_000;
/// Bytes that are read at once: tags of audio are small.
const WINDOW_BYTES: usize = 4096;
/// Bytes of a configuration.
const RECORD_BYTES_MAX: u32 = 64 << 10;
/// Tracks: the first bytes of a file that lies would name as many as there are numbers.
const TRACKS_MAX: usize = 16;
/// Between what the tag of a frame of audio says, and the end of the frame before it.
const AUDIO_TOLERANCE: Timestamp = Timestamp::from_millis(40);

/// Goes over the samples of a file.
#[derive(Debug)]
pub(crate) struct FlvWalk {
    limits: Limits,
    window: Window,
    /// Where the next tag begins.
    at: u64,
    has_video: bool,
    tags: u64,
    tracks: Vec<FlvTrack>,
    /// Where the sample that was given last is.
    given: Option<FlvMark>,
}

/// A track of it.
#[derive(Debug)]
struct FlvTrack {
    name: TrackId,
    codec: Codec,
    /// `None`: it is not known yet, or no player plays it.
    format: Option<Format>,
    /// Its configuration, and how many others came behind it.
    record: Option<Vec<u8>>,
    changes: u32,
    timing: Timing,
    /// The last sample that was read, and where it is.
    waiting: Option<(IndexedSample, FlvMark)>,
    last_duration: Timestamp,
}

/// A place among the samples of a track.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlvMark {
    at: u64,
    timing: Timing,
    last_duration: Timestamp,
}

/// Where the next sample of a track may be in time.
#[derive(Debug, Clone, Copy, Default)]
struct Timing {
    floor: Option<Timestamp>,
    /// Where the last frame of audio ends.
    end: Option<Timestamp>,
}

/// A tag: where its data is, and what it says of itself.
struct Tag {
    head: TagHead,
    /// Where the data is, and how many bytes it has.
    offset: u64,
    size: u32,
    /// The tag behind it.
    next: u64,
}

impl FlvWalk {
    /// Whether a file that begins so is one of FLV.
    pub(crate) fn is_flv(begin: &[u8]) -> bool {
        begin.starts_with(b"FLV")
    }

    /// Begins at the start of a file.
    pub(crate) fn begin<R: Read + Seek>(reader: &mut R, limits: Limits) -> Result<Self, VodError> {
        let mut head = [0; FILE_HEADER_BYTES];
        reader.seek(SeekFrom::Start(0))?;
        reader.read_exact(&mut head).map_err(|_| Mp4Error::Truncated { at: 0 })?;
        let size = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if !Self::is_flv(&head) || !(9..=1024).contains(&size) {
            return Err(VodError::Unplayable("not an FLV file".to_owned()));
        }
        let (at, has_video) = (u64::from(size) + 4, head[4] & 1 != 0);
        Ok(Self {
            limits,
            window: Window::default(),
            at,
            has_video,
            tags: 0,
            tracks: Vec::new(),
            given: None,
        })
    }

    /// The next sample in the first `length` bytes, and which track it is of; `None`: there are no
    /// more for now.
    pub(crate) fn next<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        length: u64,
        grows: bool,
    ) -> Result<Option<(u32, IndexedSample)>, VodError> {
        while let Some((tag, bytes)) = self.window.tag(reader, self.at, length)? {
            let at = std::mem::replace(&mut self.at, tag.next);
            self.tags += 1;
            // Tags of other kinds cost as much.
            let (what, value, limit) = ("tags of a file", self.tags, 2 * u64::from(self.limits.samples));
            if value > limit {
                return Err(Mp4Error::TooLarge { what, value, limit }.into());
            }
            let Some(index) = self.track(&tag.head) else { continue };
            let track = &mut self.tracks[index];
            match tag.head.role {
                // ffmpeg puts one ahead of what it does not know yet, such as that of AV1.
                FrameRole::Config if tag.size == 0 => continue,
                FrameRole::Config => {
                    let bytes = self
                        .window
                        .read(reader, tag.offset, tag.size.min(RECORD_BYTES_MAX) as usize)?
                        .to_vec();
                    track.configure(bytes);
                    continue;
                }
                FrameRole::Key | FrameRole::Inter | FrameRole::Audio if tag.size > 0 => {}
                _ => continue,
            }
            if track.format.is_none() {
                // Frames tell it where there is no configuration.
                let is_key = tag.head.role != FrameRole::Inter;
                track.format = Format::of_sample(track.codec, &bytes, is_key).ok();
            }
            let Some(format) = &track.format else { continue };
            let mark = FlvMark { at, timing: track.timing, last_duration: track.last_duration };
            let mut sample = track.timing.place(format, &tag, &bytes);
            sample.description = track.changes;
            if let Some((mut before, mark)) = track.waiting.replace((sample, mark)) {
                before.duration = sample.dts - before.dts;
                track.last_duration = before.duration;
                self.given = Some(mark);
                return Ok(Some((track_number(track.name), before)));
            }
        }
        if grows {
            return Ok(None);
        }
        let last = self.tracks.iter_mut().find_map(|track| {
            let (sample, mark) = track.waiting.take()?;
            let duration = track.timing.last(sample.dts, track.last_duration);
            self.given = Some(mark);
            Some((track_number(track.name), IndexedSample { duration, ..sample }))
        });
        Ok(last)
    }

    /// Where the sample is that was given last.
    pub(crate) fn mark(&self) -> Option<FlvMark> {
        self.given
    }

    /// How the track with this number is coded; `None`: no player plays it.
    pub(crate) fn format(&self, id: u32) -> Option<&Format> {
        self.tracks.iter().find(|track| track_number(track.name) == id)?.format.as_ref()
    }

    /// Codecs of all tracks.
    pub(crate) fn codecs(&self) -> Vec<Codec> {
        self.tracks.iter().map(|track| track.codec).collect()
    }

    /// Whether there is, or will be, video that can be played.
    pub(crate) fn expects_video(&self) -> bool {
        let video = self.tracks.iter().find(|track| track.name.kind == MediaKind::Video);
        video.map_or(self.has_video, |track| track.format.is_some() || track.record.is_none())
    }

    /// The track that a tag is of, which may be new; `None`: it is not looked at.
    fn track(&mut self, head: &TagHead) -> Option<usize> {
        if head.track.kind == MediaKind::Data || head.codec == Codec::None {
            return None;
        }
        let known = self.tracks.iter().position(|track| track.name == head.track);
        if let Some(known) = known {
            let track = &mut self.tracks[known];
            if track.codec != head.codec {
                track.changes += 1;
                track.codec = head.codec;
            }
            return Some(known);
        }
        if self.tracks.len() >= TRACKS_MAX {
            return None;
        }
        self.tracks.push(FlvTrack {
            name: head.track,
            codec: head.codec,
            format: None,
            record: None,
            changes: 0,
            timing: Timing::default(),
            waiting: None,
            last_duration: Timestamp::ZERO,
        });
        Some(self.tracks.len() - 1)
    }
}

impl FlvTrack {
    fn configure(&mut self, record: Vec<u8>) {
        match &self.record {
            Some(before) if *before != record => self.changes += 1,
            Some(_) => {}
            None => {
                self.format = Format::of_record(self.codec, &record).ok().flatten();
                self.record = Some(record);
            }
        }
    }
}

impl Timing {
    /// When the sample of a tag is decoded and shown. Its duration is not known yet.
    fn place(&mut self, format: &Format, tag: &Tag, bytes: &[u8]) -> IndexedSample {
        let (said, shown) = (tag.head.dts, tag.head.pts);
        let near = self.end.filter(|end| (*end - said).units().abs() <= AUDIO_TOLERANCE.units());
        let dts = near.unwrap_or(said).max(self.floor.unwrap_or(said));
        self.floor = Some(dts);
        let is_audio = tag.head.track.kind == MediaKind::Audio;
        let pts = if is_audio { dts } else { shown.max(dts) };
        self.end = format
            .samples_of_frame(bytes)
            .filter(|_| is_audio)
            .map(|samples| dts + Timestamp::from_ticks(samples.into(), format.sample_rate));
        let is_key = tag.head.role != FrameRole::Inter;
        let duration = Timestamp::ZERO;
        IndexedSample { offset: tag.offset, size: tag.size, dts, pts, duration, is_key, description: 0 }
    }

    /// How long the last sample lasts.
    fn last(&self, dts: Timestamp, before: Timestamp) -> Timestamp {
        self.end.map_or(before, |end| end - dts)
    }
}

/// So many samples of a track from a mark on; fewer if there are no more.
pub(crate) fn samples<R: Read + Seek>(
    mark: &FlvMark,
    (name, format): (TrackId, &Format),
    mut reader: R,
    count: u32,
) -> Result<Vec<IndexedSample>, VodError> {
    let FlvMark { mut at, mut timing, mut last_duration } = *mark;
    let mut window = Window::default();
    let mut found: Vec<IndexedSample> = Vec::with_capacity(count.min(4096) as usize);
    // Behind the last sample, one more is looked for, which says how long that one lasts.
    let mut end = None;
    while let Some((tag, bytes)) = window.tag(&mut reader, at, u64::MAX)? {
        if end.is_some_and(|end: u64| tag.next - end > LOOK_AHEAD_BYTES) {
            break;
        }
        at = tag.next;
        let is_frame = matches!(tag.head.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio);
        if tag.head.track != name || !is_frame || tag.size == 0 {
            continue;
        }
        let sample = timing.place(format, &tag, &bytes);
        if let Some(last) = found.last_mut() {
            last.duration = sample.dts - last.dts;
            last_duration = last.duration;
        }
        if found.len() == count as usize {
            return Ok(found);
        }
        found.push(sample);
        end = (found.len() == count as usize).then_some(at);
    }
    if let Some(last) = found.last_mut() {
        last.duration = timing.last(last.dts, last_duration);
    }
    Ok(found)
}

/// The number of a track: 0 and up of video, behind all of those of audio.
fn track_number(name: TrackId) -> u32 {
    u32::from(name.index) + if name.kind == MediaKind::Audio { 256 } else { 0 }
}

/// The track of a number.
pub(crate) fn track_of(number: u32) -> TrackId {
    let kind = if number >= 256 { MediaKind::Audio } else { MediaKind::Video };
    TrackId { kind, index: (number % 256) as u8 }
}

/// The bytes of a file around where it was read last.
#[derive(Debug, Default)]
struct Window {
    at: u64,
    bytes: Vec<u8>,
    /// Tags of which nothing is known.
    passed_over: u64,
}

impl Window {
    /// The next tag that is whole and of which something is known, with the first bytes of its
    /// data; `None`: there is none in the first `length` bytes.
    fn tag<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        mut at: u64,
        length: u64,
    ) -> Result<Option<(Tag, Vec<u8>)>, VodError> {
        loop {
            let bytes = self.read(reader, at, HEAD_BYTES)?;
            let Some((&[kind, l0, l1, l2, t0, t1, t2, t3, ..], body)) =
                bytes.split_first_chunk::<TAG_HEADER_BYTES>()
            else {
                return Ok(None);
            };
            let size = u32::from_be_bytes([0, l0, l1, l2]);
            let begin = at + TAG_HEADER_BYTES as u64;
            // The size of the tag is behind it.
            let next = begin + u64::from(size) + 4;
            if next > length {
                return Ok(None);
            }
            let body = &body[..body.len().min(size as usize)];
            let time = u32::from_be_bytes([t3, t0, t1, t2]);
            if let Ok(Some(head)) = read_tag_head(kind, time, body) {
                let data = body.get(head.data_at..).unwrap_or_default().to_vec();
                let offset = begin + head.data_at as u64;
                let size = size.saturating_sub(head.data_at as u32);
                return Ok(Some((Tag { head, offset, size, next }, data)));
            }
            at = next;
            self.passed_over += 1;
            if self.passed_over > PASSED_OVER_MAX {
                let text = format!("has more than {PASSED_OVER_MAX} tags that are neither audio nor video");
                return Err(VodError::Unplayable(text));
            }
        }
    }

    /// So many bytes from a place on; fewer at the end of the file.
    fn read<R: Read + Seek>(&mut self, reader: &mut R, at: u64, count: usize) -> Result<&[u8], VodError> {
        let from = at.checked_sub(self.at).and_then(|from| usize::try_from(from).ok());
        let here = from.filter(|from| from.saturating_add(count) <= self.bytes.len());
        let from = match here {
            Some(from) => from,
            None => {
                reader.seek(SeekFrom::Start(at))?;
                self.at = at;
                self.bytes.clear();
                reader.by_ref().take(count.max(WINDOW_BYTES) as u64).read_to_end(&mut self.bytes)?;
                0
            }
        };
        Ok(&self.bytes[from..self.bytes.len().min(from + count)])
    }
}
