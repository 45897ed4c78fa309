//! Frames from files and made ones, and a stream of a segmenter and its window.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cmaf::{Output, Segmenter};
use hls::{Accepts, Answer, Body, Object, Query, SegmentId, Window};
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};

use crate::boxes::{Chunk, read_chunk, read_init};
use crate::playlist::{Playlist, check};

/// When streams of tests begin, seconds since 1970.
pub(crate) const BEGIN: u64 = 1_700_000_000;

/// A segmenter, its window, and all that it made.
pub(crate) struct Stream {
    pub(crate) segmenter: Segmenter,
    pub(crate) window: Window,
    pub(crate) made: Vec<Output>,
    /// Segments that the window wanted on disk.
    pub(crate) disk: HashMap<SegmentId, Vec<u8>>,
    /// Whether there is one that works.
    pub(crate) disk_works: bool,
    /// The newest playlists, each checked against the one before.
    pub(crate) playlists: Vec<(TrackId, Playlist)>,
    /// Whether playlists are checked at every change.
    pub(crate) checks: bool,
}

impl Stream {
    pub(crate) fn new(cmaf: cmaf::Settings, hls: hls::Settings) -> Self {
        Self {
            segmenter: Segmenter::new(cmaf),
            window: Window::new(hls),
            made: Vec::new(),
            disk: HashMap::new(),
            disk_works: true,
            playlists: Vec::new(),
            checks: true,
        }
    }

    /// A frame that comes when it is due.
    pub(crate) fn push(&mut self, frame: &Arc<Frame>) {
        let now = Duration::from_secs(BEGIN) + frame.dts.to_duration();
        self.push_at(now, frame.dts, frame);
    }

    pub(crate) fn push_at(&mut self, now: Duration, dts: Timestamp, frame: &Arc<Frame>) {
        self.segmenter.push(now, dts, frame);
        self.take();
    }

    pub(crate) fn finish(&mut self) {
        self.segmenter.finish();
        self.take();
    }

    fn take(&mut self) {
        if let Some(seconds) = self.segmenter.target_duration() {
            self.window.set_target_duration(seconds);
        }
        let mut is_changed = false;
        while let Some(output) = self.segmenter.poll_output() {
            self.made.push(output.clone());
            is_changed = true;
            self.window.push(output);
        }
        self.use_disk();
        if self.checks && is_changed {
            self.check();
        }
    }

    fn use_disk(&mut self) {
        while self.disk_works
            && let Some((id, pieces)) = self.window.to_store()
        {
            assert!(self.disk.insert(id, pieces.concat()).is_none(), "each once");
            self.window.stored(id);
        }
        for id in self.window.take_expired() {
            assert!(self.disk.remove(&id).is_some(), "what is removed is there");
        }
    }

    /// Checks all playlists against those before, and deltas against the full ones.
    pub(crate) fn check(&mut self) {
        let tracks: Vec<_> = self.made.iter().filter_map(init_of).collect();
        for (track, init) in &tracks {
            if tracks.iter().find(|(other, _)| other == track).map(|(_, first)| first) != Some(init) {
                continue;
            }
            let Some(full) = self.text(Object::Playlist(*track), "") else { continue };
            assert!(full.contains("#EXTINF"), "what players without parts can begin with is there");
            let before = self.playlists.iter().position(|(other, _)| other == track);
            let before = before.map(|at| self.playlists.swap_remove(at).1);
            let read = check(&full, before.as_ref());
            let delta = self.text(Object::Playlist(*track), "_HLS_skip=YES").unwrap();
            if let (Some(before), true) = (&before, delta.contains("#EXT-X-SKIP")) {
                assert_eq!(before.apply(&delta, &read), full, "a delta is the full playlist");
            } else {
                assert!(delta == full || before.is_none());
            }
            self.check_blocking(*track, &read, before.as_ref());
            self.playlists.push((*track, read));
        }
    }

    /// A player that asks for what comes next waits for it, and for nothing less.
    fn check_blocking(&mut self, track: TrackId, read: &Playlist, before: Option<&Playlist>) {
        let ask = |stream: &mut Self, msn: u64, part: usize| match stream
            .ask(Object::Playlist(track), &format!("_HLS_msn={msn}&_HLS_part={part}"))
        {
            Answer::Respond(_) => true,
            Answer::Wait { .. } => false,
            other => panic!("{other:?}"),
        };
        let (msn, part) = read.next();
        assert_eq!(ask(self, msn, part), read.is_ended, "what comes next is waited for");
        if part > 0 {
            assert!(ask(self, msn, part - 1), "what is there is not waited for");
        }
        let Some((msn, part)) = before.map(Playlist::next) else { return };
        // The part that was asked for is there, or the segment is over and the next one has begun.
        let came = match msn.cmp(&read.next().0) {
            std::cmp::Ordering::Less => {
                let entry = &read.segments[(msn - read.media_sequence) as usize];
                part < entry.parts.len() || read.next() > (msn + 1, 0)
            }
            std::cmp::Ordering::Equal => part < read.open.parts.len(),
            std::cmp::Ordering::Greater => false,
        };
        assert_eq!(ask(self, msn, part), came || read.is_ended, "answered when it has come, {msn} {part}");
    }

    /// Compares what playlists say of parts and segments with what is in their boxes.
    pub(crate) fn check_boxes(&mut self) {
        for (track, playlist) in std::mem::take(&mut self.playlists) {
            for entry in playlist.segments.iter().chain([&playlist.open]) {
                let Some(map) = entry.map.as_ref().filter(|_| !entry.is_gap) else { continue };
                let init = read_init(&self.bytes(map));
                let seconds = |chunk: &Chunk| chunk.ticks() as f64 / f64::from(init.timescale);
                let mut end = None;
                for part in &entry.parts {
                    let chunk = read_chunk(&self.bytes(&part.uri));
                    assert!((seconds(&chunk) - part.duration).abs() < 1.1e-5, "a part's true duration");
                    assert_eq!(chunk.samples[0].is_sync, part.independent);
                    let first = &chunk.samples[0];
                    assert!(end.is_none_or(|end| end == first.dts), "parts follow each other");
                    end = Some(first.dts + chunk.ticks() as i64);
                }
                if !entry.uri.is_empty() {
                    let whole = self.bytes(&entry.uri);
                    let parts: Vec<_> = entry.parts.iter().flat_map(|part| self.bytes(&part.uri)).collect();
                    assert!(parts.is_empty() || parts == whole, "a segment is its parts");
                }
            }
            self.playlists.push((track, playlist));
        }
    }

    fn bytes(&mut self, uri: &str) -> Vec<u8> {
        self.body(Object::parse(uri).expect("a name of an object"), "").bytes.concat()
    }

    /// Text of an object, if there is any.
    pub(crate) fn text(&mut self, object: Object, query: &str) -> Option<String> {
        let Answer::Respond(body) = self.ask(object, query) else { return None };
        Some(String::from_utf8(body.bytes.concat()).unwrap())
    }

    pub(crate) fn ask(&mut self, object: Object, query: &str) -> Answer {
        let query = match Query::parse(query) {
            Ok(query) => query,
            Err(error) => return Answer::Bad(error),
        };
        let now = Duration::from_secs(BEGIN + 1_000);
        self.window.respond(object, &query, Accepts::default(), "s/", now)
    }

    pub(crate) fn body(&mut self, object: Object, query: &str) -> Body {
        match self.ask(object, query) {
            Answer::Respond(body) => body,
            Answer::Recall(id) => {
                self.window.recall(id, self.disk[&id].clone().into());
                let Answer::Respond(body) = self.ask(object, query) else { panic!("{id:?} was recalled") };
                body
            }
            other => panic!("{object}?{query}: {other:?}"),
        }
    }
}

fn init_of(output: &Output) -> Option<(TrackId, u64)> {
    let Output::Init(init) = output else { return None };
    Some((init.rendition, init.number))
}

/// The frames of an MP4 file, in the order in which a publisher sends them.
pub(crate) fn frames_of(path: &Path) -> Vec<Arc<Frame>> {
    let file = std::io::Cursor::new(std::fs::read(path).unwrap());
    let mut file = mp4::Mp4::open(file, mp4::Limits::default()).unwrap();
    let mut frames = Vec::new();
    while let Some(sample) = file.next_sample().unwrap() {
        frames.extend(sample.config.map(Arc::new));
        frames.push(Arc::new(sample.frame));
    }
    frames
}

/// A sample of the crate `mp4`.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples").join(name)
}

impl Stream {
    /// Configurations of H.264 and AAC.
    pub(crate) fn configure(&mut self, has_video: bool) {
        let zero = (Timestamp::ZERO, Timestamp::ZERO);
        if has_video {
            let config = Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, AVCC.to_vec());
            self.push(&Arc::new(config));
        }
        let config = Frame::new(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, vec![0x11, 0x90]);
        self.push(&Arc::new(config));
    }
}

/// Pictures and sound as an RTMP publisher sends them: in whole milliseconds.
pub(crate) fn publish(stream: &mut Stream, has_video: bool, millis: Range<i64>, per_second: i64, gop: i64) {
    let at = |millis: i64| (Timestamp::from_millis(millis), Timestamp::from_millis(millis));
    let picture = |index: i64| {
        let role = if index % gop == 0 { FrameRole::Key } else { FrameRole::Inter };
        let data = vec![index as u8; if index % gop == 0 { 9_000 } else { 1_500 }];
        Frame::new(TrackId::VIDEO, role, Codec::H264, at(millis.start + index * 1000 / per_second), data)
    };
    let sound = |index: i64| {
        let time = at(millis.start + index * 1024 * 1000 / 48_000);
        Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, time, vec![index as u8; 340])
    };
    let is_in = |frame: &Frame| frame.dts < Timestamp::from_millis(millis.end);
    let mut frames: Vec<_> = (0..).map(sound).take_while(is_in).collect();
    if has_video {
        frames.extend((0..).map(picture).take_while(is_in));
    }
    frames.sort_by_key(|frame| frame.dts);
    for frame in frames {
        stream.push(&Arc::new(frame));
    }
}

/// Record with one SPS and one PPS (96x64), sizes of four bytes.
const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";
