//! A segment as frames: MPEG-TS by `mpegts`, fragments of MP4 by `mp4`.
//!
//! What a segment is says its beginning, not its name. Frames are put in the order in which they are
//! decoded: segments come in bursts, and leave at their times.

use std::io::Cursor;

use media::{Frame, FrameRole, MediaKind, Timestamp};
use mp4::{Limits, Mp4, Mp4Error};
use mpegts::{DemuxSettings, Demuxer};
use tokio::task::yield_now;

/// Frames of a segment: ten minutes of video and audio.
const FRAMES_MAX: usize = 60_000;
/// Bytes that are read before others have their turn.
const TURN_BYTES: usize = 256 << 10;
/// Frames of MP4 for the same reason.
const TURN_FRAMES: usize = 256;
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
    pub(super) async fn read(&mut self, segment: Vec<u8>, init: Option<&[u8]>) -> Result<Vec<Frame>, String> {
        let mut frames = match kind(&segment) {
            Kind::Ts => self.read_ts(init.unwrap_or_default(), &segment).await?,
            Kind::Mp4 => self.read_mp4([init.unwrap_or_default(), &segment].concat()).await?,
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

    async fn read_ts(&mut self, init: &[u8], segment: &[u8]) -> Result<Vec<Frame>, String> {
        let pes_bytes_max = self.frame_bytes_max as usize;
        let new = || Box::new(Demuxer::new(DemuxSettings { program: None, pes_bytes_max }));
        let demuxer = self.ts.get_or_insert_with(new);
        let mut frames = Vec::new();
        for bytes in init.chunks(TURN_BYTES).chain(segment.chunks(TURN_BYTES)) {
            demuxer.push(bytes);
            while let Some(frame) = demuxer.next_frame() {
                frames.push(frame);
            }
            if frames.len() > FRAMES_MAX {
                return Err(TOO_MANY.to_owned());
            }
            yield_now().await;
        }
        // The last picture ends with the segment (RFC 8216 section 3), not with the next one.
        demuxer.finish();
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
        Ok(frames)
    }

    async fn read_mp4(&mut self, file: Vec<u8>) -> Result<Vec<Frame>, String> {
        let limits = Limits {
            index_bytes: 4 << 20,
            samples: FRAMES_MAX as u32,
            sample_bytes: self.frame_bytes_max,
            reorder_bytes: file.len() as u64,
            tracks: 16,
            edits: 16,
        };
        let explain = |error: Mp4Error| format!("a segment cannot be read: {error}");
        let mut file = Mp4::open(Cursor::new(file), limits).map_err(explain)?;
        let mut frames = Vec::new();
        while let Some(sample) = file.next_sample().map_err(explain)? {
            for mut frame in sample.config.into_iter().chain([sample.frame]) {
                // Whichever track of its file it is, it is the only one of its kind.
                frame.track.index = 0;
                if frame.role != FrameRole::Config || self.is_news(&frame) {
                    frames.push(frame);
                }
            }
            if frames.len() > FRAMES_MAX {
                return Err(TOO_MANY.to_owned());
            }
            if frames.len().is_multiple_of(TURN_FRAMES) {
                yield_now().await;
            }
        }
        Ok(frames)
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

const TOO_MANY: &str = "a segment has too many frames";

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
        _ if segment.len() > 2 * mpegts::PACKET_BYTES && has_sync(segment) => Kind::Ts,
        _ => Kind::Refused("neither MPEG-TS nor MP4"),
    }
}

/// Whether two packets begin behind one another in the first bytes.
fn has_sync(segment: &[u8]) -> bool {
    (0..mpegts::PACKET_BYTES)
        .any(|at| segment[at] == mpegts::SYNC_BYTE && segment[at + mpegts::PACKET_BYTES] == mpegts::SYNC_BYTE)
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
    use super::*;

    #[test]
    fn what_a_segment_is_says_its_beginning() {
        let late = [&[0; 100][..], &[0x47], &[0; 187], &[0x47], &[0; 187]].concat();
        for (segment, expected) in [
            (&[0x47, 0x40, 0, 0x10][..], Kind::Ts),
            (&late[..], Kind::Ts),
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
}
