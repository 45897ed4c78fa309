//! An MP4 file as a sequence of samples.

use std::io::{Read, Seek};
use std::ops::Range;
use std::time::Duration;

use super::configs::Configs;
use super::fragment::{Fragment, Run};
use super::index::FragmentIndex;
use super::input::Input;
use super::lane::{Lane, Shown};
use super::movie::{Movie, Track, TrackMedia};
use super::reorder::Reorder;
use super::{Limits, Mp4Error, nal, seek};
use media::{Frame, FrameRole, MediaKind, Timestamp};

/// A frame, and what the file says about it that a frame does not carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The frame. Its times are on the clock of the presentation, which all tracks share, exactly
    /// as the file has them. The decoding time is below 0 for what has to be decoded before the
    /// first picture, and never steps back within a track; the presentation time is not before it.
    /// Lengths of NAL units have four bytes.
    pub frame: Frame,
    /// Its configuration, with the times of the frame, where that is not the one that came last for
    /// its track. `None` also as long as none is known: parameter sets that have not come yet.
    pub config: Option<Frame>,
    /// Id of its track in the file.
    pub track_id: u32,
    /// How long it lasts, as the file says.
    pub duration: Timestamp,
    /// A picture that the edit list does not show, but others may need.
    pub is_hidden: bool,
    /// Where it is in the file.
    pub offset: u64,
}

/// Reads the samples of a video and an audio track, **by decoding time, and forward in the file**
/// where its interleaving allows.
///
/// After [`Mp4::open`] the first video and audio track that can be played are selected. Call
/// [`Mp4::next_sample`] until it gives `None`. A reader over a network is told by [`Mp4::upcoming`]
/// what will be needed; it must not be moved by others. After an error of the reader the call can
/// be repeated. Memory: the index ([`Limits::index_bytes`]), samples that wait for their turn
/// ([`Limits::reorder_bytes`]), and one sample.
#[derive(Debug)]
pub struct Mp4<R> {
    pub(super) input: Input<R>,
    pub(super) limits: Limits,
    pub(super) movie: Movie,
    pub(super) lanes: Vec<Lane>,
    /// Per lane: no more samples are known.
    dry: Vec<Dry>,
    /// Per lane: the configuration that was given out.
    configs: Vec<Configs>,
    queue: Reorder,
    /// Where the next fragment is looked for; `None`: there are no more.
    pub(super) next_fragment: Option<u64>,
    pub(super) first_fragment: Option<u64>,
    /// Where fragments are, as far as the file says.
    pub(super) indexes: Vec<FragmentIndex>,
    pub(super) is_mfra_read: bool,
    /// Fragments read since the last seek, and their samples, for their limits.
    fragments_read: u32,
    fragment_samples_read: u64,
}

/// Whether more samples of a track are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dry {
    No,
    /// None are, and so many fragments had none either.
    Since(u32),
}

impl<R: Read + Seek> Mp4<R> {
    /// Reads the index of a file, wherever it stands.
    pub fn open(reader: R, limits: Limits) -> Result<Self, Mp4Error> {
        let mut input = Input::new(reader);
        let (moov, behind) = find_index(&mut input, &limits)?;
        let movie = Movie::read(&moov, &limits)?;
        let queue = Reorder::new(0, limits.reorder_bytes, 0);
        let mut file = Self {
            input,
            limits,
            movie,
            lanes: Vec::new(),
            dry: Vec::new(),
            configs: Vec::new(),
            queue,
            next_fragment: None,
            first_fragment: None,
            indexes: Vec::new(),
            is_mfra_read: false,
            fragments_read: 0,
            fragment_samples_read: 0,
        };
        if let Some(behind) = behind.filter(|_| file.movie.is_fragmented) {
            file.find_first_fragment(behind)?;
        }
        let first = |kind| {
            let mut tracks = file.movie.tracks.iter();
            tracks.find(|track| track.track.kind == kind && track.is_playable()).map(|track| track.id)
        };
        let (video, audio) = (first(MediaKind::Video), first(MediaKind::Audio));
        file.select(video, audio)?;
        Ok(file)
    }

    /// Chooses a video and an audio track, by their ids, and rewinds.
    ///
    /// [`Mp4Error::NothingToPlay`] without any, [`Mp4Error::NoSamples`] if they have none;
    /// [`Mp4Error::NoTrack`] if there is none with that id and kind, or it cannot be played.
    pub fn select(&mut self, video: Option<u32>, audio: Option<u32>) -> Result<(), Mp4Error> {
        let mut lanes = Vec::new();
        for (id, kind) in [(video, MediaKind::Video), (audio, MediaKind::Audio)] {
            let Some(id) = id else { continue };
            let of_kind = |track: &Track| track.id == id && track.track.kind == kind && track.is_playable();
            let track = self.movie.tracks.iter().position(of_kind);
            let track = track.ok_or(Mp4Error::NoTrack(id))?;
            let media = self.movie.media[track].as_ref().ok_or(Mp4Error::NoTrack(id))?;
            lanes.push(Lane::new(track, id, kind, self.movie.tracks[track].timescale, media));
        }
        let is_empty = |lane: &Lane| media_of(&self.movie, lane.track).tables.len() == 0;
        if lanes.is_empty() {
            let tracks = self.movie.tracks.iter().filter(|track| track.track.kind != MediaKind::Data);
            return Err(Mp4Error::NothingToPlay(tracks.map(|track| track.codec).collect()));
        }
        if !self.movie.is_fragmented && lanes.iter().all(is_empty) {
            return Err(Mp4Error::NoSamples);
        }
        self.lanes = lanes;
        self.restart_queue();
        Ok(())
    }

    /// Goes to the last key frame at or before a time; gives the time at which that is shown. Audio
    /// begins there, too.
    ///
    /// Behind the end it is the last key frame. Without video it is the audio frame. Before the
    /// first key frame it is that time itself: audio before the first picture belongs to the file.
    pub fn seek_to(&mut self, at: Duration) -> Result<Duration, Mp4Error> {
        let mut at = Timestamp::from(at);
        if self.is_behind_tables(at) {
            return self.seek_in_fragments(at).map(Timestamp::to_duration);
        }
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let found = lane.seek(at, media_of(&self.movie, lane.track));
            // The first lane leads: video, if there is any.
            if index == 0 {
                at = at.min(found);
            }
        }
        self.restart_queue();
        Ok(at.to_duration())
    }

    /// The next sample by decoding time; `None` at the end.
    pub fn next_sample(&mut self) -> Result<Option<Sample>, Mp4Error> {
        loop {
            self.know_more(self.limits.reorder_bytes)?;
            if self.needs_fragment() {
                // What is left of the present fragment stands before the next one.
                if !(self.queue.has_room() && self.read_one()?) {
                    self.load_fragment()?;
                }
                continue;
            }
            let Some(lane) = self.queue.due() else { return Ok(None) };
            if let Some((shown, data)) = self.queue.pop(lane) {
                return self.sample(lane, &shown, data).map(Some);
            }
            let read = self.read_one()?;
            debug_assert!(read, "a sample that is due is planned");
        }
    }

    /// Ranges of the file that will be read next, in this order, of about `bytes_max` bytes; for a
    /// reader that fetches ahead.
    ///
    /// Reads nothing. What is behind the present fragment is not known: the last range is then a
    /// guess, of the head of the next fragment, or of all up to `bytes_max` if every track is
    /// selected, and may go beyond the end of the file.
    pub fn upcoming(&mut self, bytes_max: u64) -> Result<Vec<Range<u64>>, Mp4Error> {
        while self.queue.planned_bytes() < bytes_max {
            self.know_more(self.limits.reorder_bytes)?;
            if !self.queue.plan() {
                break;
            }
        }
        let mut ranges = self.queue.planned_ranges();
        let left = bytes_max.saturating_sub(self.queue.planned_bytes());
        if let Some(next) = self.next_fragment.filter(|_| left > 0) {
            let is_all = self.lanes.len() == self.movie.tracks.len();
            let bytes = if is_all { left } else { left.min(FRAGMENT_HEAD_BYTES) };
            match ranges.last_mut() {
                Some(last) if last.end == next => last.end = next.saturating_add(bytes),
                _ => ranges.push(next..next.saturating_add(bytes)),
            }
        }
        Ok(ranges)
    }

    /// All tracks of the file.
    pub fn tracks(&self) -> &[Track] {
        &self.movie.tracks
    }

    /// The selected video track.
    pub fn video(&self) -> Option<&Track> {
        self.selected(MediaKind::Video)
    }

    /// The selected audio track.
    pub fn audio(&self) -> Option<&Track> {
        self.selected(MediaKind::Audio)
    }

    /// When the last of the selected tracks ends; `None` if the file does not say
    /// ([`Mp4::find_duration`]).
    pub fn duration(&self) -> Option<Duration> {
        self.latest(|track| track.end)
    }

    /// When the last frame of the selected tracks ends, as frames are given out: whole. `None` if
    /// the file does not say.
    pub fn frames_duration(&self) -> Option<Duration> {
        self.latest(|track| track.frames_end)
    }

    /// The reader.
    pub fn get_ref(&self) -> &R {
        &self.input.reader
    }

    /// The reader, to tell it something; its position must stay.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.input.reader
    }

    /// The reader, anywhere in the file.
    pub fn into_inner(self) -> R {
        self.input.reader
    }

    fn latest(&self, end: impl Fn(&Track) -> Option<Timestamp>) -> Option<Duration> {
        let ends = self.lanes.iter().map(|lane| end(&self.movie.tracks[lane.track]));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max().map(Timestamp::to_duration)
    }

    fn selected(&self, kind: MediaKind) -> Option<&Track> {
        self.lanes.iter().find(|lane| lane.kind == kind).map(|lane| &self.movie.tracks[lane.track])
    }

    /// Reads the boxes behind the index up to the first fragment, which may be indexes of
    /// fragments.
    fn find_first_fragment(&mut self, mut at: u64) -> Result<(), Mp4Error> {
        self.first_fragment = Some(at);
        for _ in 0..TOP_BOXES_MAX {
            let Some(found) = self.input.top_box(at)? else { break };
            if &found.kind.0 == b"sidx" {
                let body = self.input.body(&found, SIDX_BYTES_MAX)?;
                self.indexes.extend(FragmentIndex::of_sidx(&body, &found)?);
                Mp4Error::check("fragment indexes", self.indexes.len() as u64, self.limits.tracks.into())?;
            }
            let Some(end) = found.end().filter(|_| &found.kind.0 != b"moof") else { break };
            at = end;
            // Media of the index: fragments are behind it, but nothing is read beyond it now.
            if &found.kind.0 == b"mdat" {
                break;
            }
        }
        self.first_fragment = Some(at);
        seek::set_ends(&mut self.movie.tracks, &self.indexes);
        Ok(())
    }

    /// Whether a time is shown by samples of fragments.
    fn is_behind_tables(&self, at: Timestamp) -> bool {
        let Some(lane) = self.lanes.first().filter(|_| self.first_fragment.is_some()) else { return false };
        let media = media_of(&self.movie, lane.track);
        at > Timestamp::ZERO && lane.shown_at(media.tables.duration(), media) <= at
    }

    /// To the start, as if nothing had been read.
    pub(super) fn rewind(&mut self) {
        for lane in &mut self.lanes {
            lane.rewind(media_of(&self.movie, lane.track));
        }
        self.restart_queue();
    }

    /// Forgets all that is known of coming samples; lanes are where they are to go on.
    fn restart_queue(&mut self) {
        self.queue = Reorder::new(self.lanes.len(), self.limits.reorder_bytes, self.input.position());
        self.dry = vec![Dry::No; self.lanes.len()];
        self.configs = self.lanes.iter().map(|_| Configs::default()).collect();
        self.next_fragment = self.first_fragment;
        (self.fragments_read, self.fragment_samples_read) = (0, 0);
    }

    /// Takes samples from tables and fragments until a window of them is not planned yet.
    fn know_more(&mut self, window: u64) -> Result<(), Mp4Error> {
        while self.queue.unplanned_bytes() < window && self.queue.len() < KNOWN_SAMPLES_MAX {
            let open = |(index, lane): (usize, &Lane)| {
                (self.dry[index] == Dry::No).then(|| (lane.last_dts(), index))
            };
            let Some((_, index)) = self.lanes.iter().enumerate().filter_map(open).min() else {
                return Ok(());
            };
            let lane = &mut self.lanes[index];
            match lane.next(media_of(&self.movie, lane.track))? {
                None => self.dry[index] = Dry::Since(0),
                Some(shown) => {
                    let limit = self.limits.sample_bytes;
                    Mp4Error::check("bytes of a sample", shown.size.into(), limit.into())?;
                    self.queue.push(index, shown);
                }
            }
        }
        Ok(())
    }

    /// Whether the next fragment has to be known before anything is given out: a track has no more
    /// samples, and the next fragments may have some that are due.
    fn needs_fragment(&self) -> bool {
        if self.next_fragment.is_none() {
            return false;
        }
        let waits = |index: usize| match self.dry[index] {
            Dry::Since(fragments) => self.queue.is_empty(index) && fragments < DRY_FRAGMENTS_MAX,
            Dry::No => false,
        };
        (0..self.lanes.len()).any(waits) || self.queue.len() == 0
    }

    /// Reads the next sample in the order of the file. `false` if none is known.
    fn read_one(&mut self) -> Result<bool, Mp4Error> {
        if self.queue.next_read().is_none() && !self.queue.plan() {
            return Ok(false);
        }
        let Some((id, offset, size)) = self.queue.next_read() else { return Ok(false) };
        let data = self.input.sample(offset, size)?;
        self.queue.fill(id, data);
        Ok(true)
    }

    /// Finds the next fragment, and hands its runs to the tracks.
    fn load_fragment(&mut self) -> Result<(), Mp4Error> {
        let Some(at) = self.next_fragment else { return Ok(()) };
        let Some((fragment, next)) = find_fragment(&mut self.input, at, &self.movie, &self.limits)? else {
            self.next_fragment = None;
            return Ok(());
        };
        self.fragments_read = self.fragments_read.saturating_add(1);
        let limit = self.limits.fragments_read;
        Mp4Error::check("fragments", self.fragments_read.into(), limit.into())?;
        let is_read = |run: &&Run| self.lanes.iter().any(|lane| lane.id == run.track_id);
        // A run without samples takes memory, too.
        let samples = fragment.runs.iter().filter(is_read).map(|run| u64::from(run.len().max(1)));
        self.fragment_samples_read = self.fragment_samples_read.saturating_add(samples.sum());
        let limit = self.limits.fragment_samples_read;
        Mp4Error::check("samples of all fragments", self.fragment_samples_read, limit)?;
        self.next_fragment = next;
        self.queue.moved(self.input.position());
        for (lane, dry) in self.lanes.iter_mut().zip(&mut self.dry) {
            let mut any = false;
            let id = lane.id;
            for run in fragment.runs.iter().filter(|run| run.track_id == id) {
                lane.push(run.clone());
                any = true;
            }
            *dry = match *dry {
                _ if any => Dry::No,
                Dry::Since(fragments) => Dry::Since(fragments + 1),
                Dry::No => Dry::No,
            };
        }
        Ok(())
    }

    fn sample(&mut self, lane: usize, shown: &Shown, data: Vec<u8>) -> Result<Sample, Mp4Error> {
        let configs = &mut self.configs[lane];
        let lane = &self.lanes[lane];
        let Track { track, descriptions, .. } = &self.movie.tracks[lane.track];
        let description = descriptions.get(shown.description as usize);
        let description = description
            .ok_or(Mp4Error::malformed(b"stsd", "a sample has a description that is not there"))?;
        let frame = |role, data| Frame::new(*track, role, description.codec, (shown.dts, shown.pts), data);
        let config = configs.before((shown.description, description), shown.is_key, &data)?;
        let role = match (lane.kind, shown.is_key) {
            (MediaKind::Audio, _) => FrameRole::Audio,
            (_, true) => FrameRole::Key,
            (_, false) => FrameRole::Inter,
        };
        Ok(Sample {
            config: config.map(|record| frame(FrameRole::Config, record)),
            frame: frame(role, nal::with_long_lengths(description, data)?),
            track_id: lane.id,
            duration: shown.duration,
            is_hidden: shown.is_hidden,
            offset: shown.offset,
        })
    }
}

pub(super) fn media_of(movie: &Movie, track: usize) -> &TrackMedia {
    movie.media[track].as_ref().expect("only tracks with media are selected")
}

/// Reads the boxes at the top level up to the index; gives its body, and where it ends.
pub(super) fn find_index<R: Read + Seek>(
    input: &mut Input<R>,
    limits: &Limits,
) -> Result<(Vec<u8>, Option<u64>), Mp4Error> {
    let mut at = 0;
    for boxes in 0..TOP_BOXES_MAX {
        let Some(found) = input.top_box(at)? else { break };
        if boxes == 0 && !FIRST_BOXES.contains(&&found.kind.0) {
            return Err(Mp4Error::NotMp4);
        }
        if &found.kind.0 == b"moov" {
            return Ok((input.body(&found, limits.index_bytes)?, found.end()));
        }
        let Some(end) = found.end() else { break };
        at = end;
    }
    Err(if at == 0 { Mp4Error::NotMp4 } else { Mp4Error::NoIndex })
}

/// Finds the fragment at or behind `at`; gives where the one behind it is to be looked for.
pub(super) fn find_fragment<R: Read + Seek>(
    input: &mut Input<R>,
    mut at: u64,
    movie: &Movie,
    limits: &Limits,
) -> Result<Option<(Fragment, Option<u64>)>, Mp4Error> {
    for _ in 0..TOP_BOXES_MAX {
        let Some(found) = input.top_box(at)? else { return Ok(None) };
        let Some(end) = found.end() else { return Ok(None) };
        at = end;
        if &found.kind.0 != b"moof" {
            continue;
        }
        let body = input.body(&found, limits.index_bytes)?;
        let fragment = Fragment::read(&body, found.at, &movie.trex, limits)?;
        // The header of the media is read while reading is there: later it would be behind.
        let next = match input.top_box(end)? {
            Some(media) if &media.kind.0 == b"mdat" => media.end(),
            Some(_) => Some(end),
            None => None,
        };
        return Ok(Some((fragment, next)));
    }
    Err(Mp4Error::malformed(b"moof", "too many boxes before the next one"))
}

/// Types of a file's first box.
const FIRST_BOXES: [&[u8; 4]; 11] =
    [b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"pnot", b"uuid", b"moof"];
/// Boxes at the top level that are passed in search of one. Sane files have a handful.
pub(super) const TOP_BOXES_MAX: u32 = 4096;
/// A `sidx` has 65,535 entries at most.
const SIDX_BYTES_MAX: u64 = 1 << 20;
/// What a `moof` of a few seconds takes.
const FRAGMENT_HEAD_BYTES: u64 = 16 << 10;
/// Samples that are known ahead of time; each costs about 100 bytes. When there are so many, the
/// window is smaller.
const KNOWN_SAMPLES_MAX: usize = 32_768;
/// Fragments without samples of a track after which the others no longer wait for it.
const DRY_FRAGMENTS_MAX: u32 = 2;
