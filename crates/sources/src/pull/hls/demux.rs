//! A segment as frames: MPEG-TS by `mpegts`, fragments of MP4 by `mp4`.
//!
//! What a segment is says its beginning, not its name. Frames are put in the order in which they are
//! decoded: segments come in bursts, and leave at their times.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use media::{Frame, FrameRole, MediaKind, Timestamp};
use mp4::{Limits, Mp4, Mp4Error};
use mpegts::{DemuxSettings, Demuxer};

/// Frames of a segment: ten minutes of video and audio.
const FRAMES_MAX: usize = 60_000;
/// Bytes of MPEG-TS after which the frames are counted.
const TURN_BYTES: usize = 256 << 10;
/// What the frames of any segment may have on top of its bytes: configurations, and
const EXTRA_BYTES: usize = 64 << 10;
/// this part of them, as lengths of NAL units have four bytes, and less in the segment.
const EXTRA_PART: usize = 4;
/// Times of a track that step back by more than this are those of another beginning.
pub(super) const BACK_MAX: Timestamp = Timestamp::from_millis(1_000);

/// Which tracks of a segment are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Audio has a playlist of its own.
    NoAudio,
    Audio,
}

/// Reads the segments of one playlist, in order.
#[derive(Debug)]
pub(super) struct Reader {
    wanted: Wanted,
    frame_bytes_max: u32,
    ts: Option<Box<Demuxer>>,
    /// Configurations that were given out last, of MP4, which has them in each segment.
    configs: Vec<Frame>,
}

impl Reader {
    pub(super) fn new(wanted: Wanted, frame_bytes_max: u32) -> Self {
        Self { wanted, frame_bytes_max, ts: None, configs: Vec::new() }
    }

    /// The frames of a segment, `init` being what its map is. The error is a sentence.
    ///
    /// Reads on another thread: the one of sources has frames to send, and one call of `mp4` can
    /// pass all that a segment declares. Where this is dropped, what was read before is forgotten.
    pub(super) async fn read(
        &mut self,
        segment: Vec<u8>,
        init: Option<Arc<Vec<u8>>>,
    ) -> Result<Vec<Frame>, String> {
        let mut reader = Self { ts: self.ts.take(), configs: std::mem::take(&mut self.configs), ..*self };
        let read = tokio::task::spawn_blocking(move || {
            let frames = reader.read_here(&segment, init.as_deref().map_or(&[], Vec::as_slice));
            (reader, frames)
        });
        let (reader, frames) = read.await.map_err(|_| "a segment cannot be read".to_owned())?;
        *self = reader;
        frames
    }

    fn read_here(&mut self, segment: &[u8], init: &[u8]) -> Result<Vec<Frame>, String> {
        let mut frames = match kind(segment) {
            Kind::Ts => self.read_ts(init, segment)?,
            Kind::Mp4 => self.read_mp4(Joined { parts: [init, segment], at: 0 })?,
            Kind::Refused(what) => return Err(format!("a segment is {what}, which is not read")),
        };
        let wanted = self.wanted;
        frames.retain(|frame| match frame.track.kind {
            MediaKind::Audio => wanted != Wanted::NoAudio,
            MediaKind::Video | MediaKind::Data => wanted != Wanted::Audio,
        });
        // Where a track begins again in the middle, the order of the segment is all that says so.
        if !steps_back(&frames) {
            frames.sort_by_key(|frame| frame.dts);
        }
        Ok(frames)
    }

    fn read_ts(&mut self, init: &[u8], segment: &[u8]) -> Result<Vec<Frame>, String> {
        let pes_bytes_max = self.frame_bytes_max as usize;
        let new = || Box::new(Demuxer::new(DemuxSettings { program: None, pes_bytes_max }));
        let demuxer = self.ts.get_or_insert_with(new);
        let mut frames = Frames::of(init.len() + segment.len());
        for bytes in init.chunks(TURN_BYTES).chain(segment.chunks(TURN_BYTES)) {
            demuxer.push(bytes);
            while let Some(frame) = demuxer.next_frame() {
                frames.push(frame)?;
            }
        }
        while let Some(codec) = demuxer.take_left_out() {
            tracing::warn!(codec, "a track of a pull is left out: its codec is not carried");
        }
        // The last picture ends with the segment (RFC 8216 section 3), not with the next one.
        demuxer.finish();
        while let Some(frame) = demuxer.next_frame() {
            frames.push(frame)?;
        }
        Ok(frames.frames)
    }

    fn read_mp4(&mut self, file: Joined<'_>) -> Result<Vec<Frame>, String> {
        let mut frames = Frames::of(file.len());
        let limits = Limits {
            index_bytes: 4 << 20,
            samples: FRAMES_MAX as u32,
            fragments_read: FRAMES_MAX as u32,
            fragment_samples_read: FRAMES_MAX as u64,
            sample_bytes: self.frame_bytes_max,
            reorder_bytes: file.len() as u64,
            tracks: 16,
            edits: 16,
        };
        let explain = |error: Mp4Error| format!("a segment cannot be read: {error}");
        let mut file = Mp4::open(file, limits).map_err(explain)?;
        while let Some(sample) = file.next_sample().map_err(explain)? {
            for mut frame in sample.config.into_iter().chain([sample.frame]) {
                // Whichever track of its file it is, it is the only one of its kind.
                frame.track.index = 0;
                if frame.role != FrameRole::Config || self.is_news(&frame) {
                    frames.push(frame)?;
                }
            }
        }
        Ok(frames.frames)
    }

    fn is_news(&mut self, config: &Frame) -> bool {
        if self.configs.iter().any(|given| given.repeats(config)) {
            return false;
        }
        self.configs.retain(|given| given.track != config.track);
        self.configs.push(config.clone());
        true
    }
}

/// Frames of a segment, as far as they are not more than can be in it: samples of MP4 may all be the
/// same bytes.
#[derive(Debug)]
struct Frames {
    frames: Vec<Frame>,
    bytes_left: usize,
}

impl Frames {
    fn of(bytes: usize) -> Self {
        Self { frames: Vec::new(), bytes_left: bytes + bytes / EXTRA_PART + EXTRA_BYTES }
    }

    fn push(&mut self, frame: Frame) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(frame.bytes_held());
        self.bytes_left = left.ok_or("the frames of a segment have more bytes than it has")?;
        if self.frames.len() >= FRAMES_MAX {
            return Err("a segment has too many frames".to_owned());
        }
        self.frames.push(frame);
        Ok(())
    }
}

/// A map and its segment as one file, without a copy of either.
#[derive(Debug)]
struct Joined<'a> {
    parts: [&'a [u8]; 2],
    at: u64,
}

impl Joined<'_> {
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

impl Read for Joined<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let [first, second] = self.parts;
        let mut rest = match first.get(at..) {
            Some(rest @ [_, ..]) => rest,
            _ => second.get(at.saturating_sub(first.len())..).unwrap_or_default(),
        };
        let read = rest.read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Joined<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => (self.len() as u64).checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// What a segment is.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Ts,
    Mp4,
    Refused(&'static str),
}

fn kind(segment: &[u8]) -> Kind {
    match segment {
        [0x47, ..] => Kind::Ts,
        [_, _, _, _, b'f', b't', b'y', b'p', ..]
        | [_, _, _, _, b's', b't', b'y', b'p', ..]
        | [_, _, _, _, b's', b'i', b'd', b'x', ..]
        | [_, _, _, _, b'm', b'o', b'o', b'f' | b'v', ..]
        | [_, _, _, _, b'e', b'm', b's', b'g', ..]
        | [_, _, _, _, b'p', b'r', b'f', b't', ..]
        | [_, _, _, _, b'f', b'r', b'e', b'e', ..] => Kind::Mp4,
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => Kind::Refused("audio without a container"),
        [b'W', b'E', b'B', b'V', ..] => Kind::Refused("WebVTT"),
        [b'<', ..] => Kind::Refused("a page"),
        [] => Kind::Refused("empty"),
        // Some begin with a part of a packet.
        _ if has_sync(segment) => Kind::Ts,
        _ => Kind::Refused("neither MPEG-TS nor MP4"),
    }
}

/// Whether two packets begin behind one another in the first bytes.
fn has_sync(segment: &[u8]) -> bool {
    let is_sync = |at: usize| segment.get(at) == Some(&mpegts::SYNC_BYTE);
    let distances = mpegts::PACKET_DISTANCES.iter().filter(|distance| segment.len() > 2 * **distance);
    distances.into_iter().any(|distance| (0..*distance).any(|at| is_sync(at) && is_sync(at + distance)))
}

/// Whether the times of a track step back.
fn steps_back(frames: &[Frame]) -> bool {
    let mut last: Vec<(media::TrackId, Timestamp)> = Vec::new();
    frames.iter().any(|frame| match last.iter_mut().find(|(track, _)| *track == frame.track) {
        Some((_, last)) => std::mem::replace(last, frame.dts) > frame.dts + BACK_MAX,
        None => {
            last.push((frame.track, frame.dts));
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[test]
    fn what_a_segment_is_says_its_beginning() {
        let late = [&[0; 100][..], &[0x47], &[0; 187], &[0x47], &[0; 187]].concat();
        let stamped = [&[1, 2, 3, 4, 0x47][..], &[0; 187]].concat().repeat(3);
        for (segment, expected) in [
            (&[0x47, 0x40, 0, 0x10][..], Kind::Ts),
            (&late[..], Kind::Ts),
            (&stamped, Kind::Ts),
            (b"\0\0\0\x18styp....", Kind::Mp4),
            (b"\0\0\0\x18moof....", Kind::Mp4),
            (b"ID3\x04", Kind::Refused("audio without a container")),
            (&[0xff, 0xf1, 0x50], Kind::Refused("audio without a container")),
            (b"WEBVTT", Kind::Refused("WebVTT")),
            (b"<html>", Kind::Refused("a page")),
            (b"", Kind::Refused("empty")),
            (&[0; 400], Kind::Refused("neither MPEG-TS nor MP4")),
        ] {
            assert_eq!(kind(segment), expected, "{}", segment[..segment.len().min(8)].escape_ascii());
        }
    }

    #[tokio::test]
    async fn broken_segments_are_an_error_or_nothing() {
        let mut reader = Reader::new(Wanted::All, 1 << 20);
        let mut noise = vec![0x47; 188 * 100];
        assert_eq!(reader.read(noise.clone(), None).await, Ok(Vec::new()));
        noise[4..8].copy_from_slice(b"moof");
        noise[0] = 0;
        let error = reader.read(noise, None).await.expect_err("no file");
        assert!(error.starts_with("a segment cannot be read"), "{error}");
    }

    /// A map with H.264 in track 1 and AAC in track 2, and fragments of it.
    fn map_and_segment() -> (Arc<Vec<u8>>, Vec<u8>) {
        let file = include_bytes!("../../../../mp4/tests/samples/fragments.mp4");
        let moof = file.windows(4).position(|window| window == b"moof").expect("a fragment") - 4;
        (Arc::new(file[..moof].to_vec()), file[moof..].to_vec())
    }

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 + 8).to_be_bytes()[..], kind, body].concat()
    }

    /// Bodies of 32-bit numbers.
    fn numbers(kind: &[u8; 4], numbers: &[u32]) -> Vec<u8> {
        boxed(kind, &numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>())
    }

    /// A fragment of runs in track 1, samples of no duration and this size; each run is given by its
    /// samples and offset.
    fn moof(size: u32, runs: &[(u32, u32)]) -> Vec<u8> {
        let mut traf = numbers(b"tfhd", &[0x2_0018, 1, 0, size]);
        for (samples, offset) in runs {
            traf.extend(numbers(b"trun", &[1, *samples, *offset]));
        }
        boxed(b"moof", &boxed(b"traf", &traf))
    }

    #[tokio::test]
    async fn a_map_and_its_segment_are_one_file() {
        let (map, segment) = map_and_segment();
        let whole = Reader::new(Wanted::All, 1 << 20).read([&map[..], &segment].concat(), None).await;
        let mut reader = Reader::new(Wanted::All, 1 << 20);
        let frames = reader.read(segment.clone(), Some(Arc::clone(&map))).await.expect("a segment");
        assert_eq!(Ok(&frames), whole.as_ref());
        let configs = |frames: &[Frame]| frames.iter().filter(|of| of.role == FrameRole::Config).count();
        assert_eq!(configs(&frames), 2, "of {}", frames.len());
        let again = reader.read(segment, Some(map)).await.expect("a segment");
        assert_eq!((configs(&again), again.len()), (0, frames.len() - 2), "it has not been forgotten");
    }

    #[test]
    fn segments_are_read_on_another_thread() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().expect("a runtime");
        let (release, wait) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            tokio::task::spawn_blocking(move || wait.recv());
            let (map, segment) = map_and_segment();
            let mut reader = Reader::new(Wanted::All, 1 << 20);
            let mut read = std::pin::pin!(reader.read(segment, Some(map)));
            let polled = std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "it waits for the only thread that may block");
            drop(release);
            assert!(read.await.is_ok());
        });
    }

    #[tokio::test]
    async fn samples_that_are_all_the_same_bytes_are_refused() {
        let (map, _) = map_and_segment();
        let blob = [&0xfffc_u32.to_be_bytes()[..], &[0x65; 0xfffc]].concat();
        for (runs, is_read) in [(1, true), (1_000, false)] {
            let offsets = |head: usize| vec![(1, head as u32 + 8); runs];
            let head = moof(0x1_0000, &offsets(0)).len();
            let segment = [moof(0x1_0000, &offsets(head)), boxed(b"mdat", &blob)].concat();
            let read = Reader::new(Wanted::All, 1 << 20).read(segment, Some(Arc::clone(&map))).await;
            match read {
                Ok(frames) => assert_eq!((frames.len(), is_read), (2, true)),
                Err(error) => {
                    assert_eq!(error, "the frames of a segment have more bytes than it has");
                    assert!(!is_read);
                }
            }
        }
    }

    #[tokio::test]
    async fn samples_without_bytes_and_fragments_without_samples_are_counted() {
        let (map, segment) = map_and_segment();
        for (more, why) in [
            (moof(0, &[(50_000, 0); 2]), "samples of all fragments"),
            (moof(0, &vec![(0, 0); FRAMES_MAX]), "samples of all fragments"),
            (boxed(b"moof", b"").repeat(FRAMES_MAX), "fragments: 60001"),
        ] {
            let segment = [&segment[..], &more].concat();
            let read = Reader::new(Wanted::All, 1 << 20).read(segment, Some(Arc::clone(&map))).await;
            let error = read.expect_err("too many");
            assert!(error.contains(why), "{error}");
        }
    }
}
