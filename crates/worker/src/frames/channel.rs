//! One stream in one wire format on one worker: the bytes its players share and the times they are served.

use std::io::Write;
use std::sync::Arc;

use delivery::{DeliveryLog, Frame, FrameRole, Headers, Mark, Received, Schedule, Stream, Track};
use rtmp::MediaKind;
use rtmp::chunk;
use rtmp::flv;

use crate::proto::websocket;

/// Wire format of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// RTMP chunk stream.
    Rtmp,
    /// FLV tags, one chunk each, as the body of an HTTP/1.1 response (RFC 9112 section 7.1).
    FlvChunked,
    /// FLV tags, as the body of an HTTP/1.0 response.
    Flv,
    /// One FLV tag per WebSocket message.
    WsFlv,
}

impl Format {
    /// Number of formats; each indexes an array by `as usize`.
    pub(crate) const COUNT: usize = 4;
}

/// Bytes a message may be larger than its payload: headers, one chunk header per chunk, WebSocket frame header.
const fn overhead(payload: usize) -> usize {
    64 + payload / chunk::PLAY_CHUNK_SIZE as usize * 8
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) format: Format,
    pub(crate) log: DeliveryLog,
    pub(crate) schedule: Schedule,
    /// When the worker will look at the schedule next, if at all.
    pub(crate) armed_ms: Option<u64>,
}

impl Channel {
    /// A channel that begins with the stream's GOP cache.
    pub(crate) fn new(format: Format, merge_ms: u64, stream: &Stream, now_ms: u64) -> Self {
        let schedule = Schedule::new(merge_ms);
        let mut channel = Self { format, log: DeliveryLog::default(), schedule, armed_ms: None };
        for (time_ms, frame) in stream.gop().frames() {
            let entry = frame.role == FrameRole::Key;
            channel.append(frame, Received { time_ms: *time_ms, entry }, now_ms);
        }
        channel
    }

    /// Serialises a frame for all players.
    pub(crate) fn append(&mut self, frame: &Frame, received: Received, now_ms: u64) {
        let format = self.format;
        let hint = Self::bytes_hint(frame);
        let Received { time_ms, entry } = received;
        let mark = Mark { position: self.log.head(), time_ms, arrived_ms: now_ms, entry };
        self.log.append(mark, hint, |out| write(format, out, frame, time_ms));
    }

    /// Most bytes a frame takes in any format.
    pub(crate) fn bytes_hint(frame: &Frame) -> usize {
        frame.payload.len() + overhead(frame.payload.len())
    }

    /// Log position and message count, as the schedule wants them.
    pub(crate) fn log_end(&self) -> (u64, u64) {
        (self.log.head(), self.log.next_message())
    }

    /// What a player gets before its first frame, and again after frames were left out.
    pub(crate) fn write_headers(&self, out: &mut Vec<u8>, headers: &Headers, time_ms: u64) {
        for frame in headers.iter() {
            write(self.format, out, frame, time_ms);
        }
    }
}

/// What an FLV player gets once, before everything else.
pub(crate) fn write_file_header(format: Format, out: &mut Vec<u8>, stream: &Stream) {
    // A player that is told of a track waits for it: name only what is there, or what the metadata promises.
    let promised = |key: &[u8]| {
        let metadata = stream.headers().metadata.as_ref();
        metadata.is_some_and(|frame| frame.payload.windows(key.len()).any(|window| window == key))
    };
    let has_audio = stream.has_audio() || promised(b"audiocodecid");
    let has_video = stream.has_video() || promised(b"videocodecid");
    let mut header = Vec::with_capacity(16);
    flv::write_file_header(&mut header, has_audio, has_video);
    write_framed(format, out, header.len(), |out| out.extend_from_slice(&header));
}

/// What ends the stream in this format, where the format has an end.
pub(crate) fn write_end(format: Format, out: &mut Vec<u8>) {
    if format == Format::FlvChunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Puts `length` bytes of FLV into the frame of what carries them.
fn write_framed(format: Format, out: &mut Vec<u8>, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
    match format {
        Format::FlvChunked => {
            // Writing to a `Vec` cannot fail.
            let _ = write!(out, "{length:x}\r\n");
            write(out);
            out.extend_from_slice(b"\r\n");
        }
        Format::WsFlv => {
            websocket::write_binary_header(out, length);
            write(out);
        }
        Format::Flv | Format::Rtmp => write(out),
    }
}

fn write(format: Format, out: &mut Vec<u8>, frame: &Frame, time_ms: u64) {
    let kind = media_kind(frame.track);
    // Stream time wraps at 2^32 ms on the wire, as RTMP and FLV have it. Metadata is of no time: ffmpeg takes any other
    // time for that of a subtitle.
    let timestamp = if frame.role == FrameRole::Metadata { 0 } else { time_ms as u32 };
    if format == Format::Rtmp {
        return chunk::write_play_message(out, kind, timestamp, &frame.payload);
    }
    write_framed(format, out, frame.payload.len() + FLV_TAG_OVERHEAD, |out| {
        flv::write_tag(out, kind, timestamp, &frame.payload);
    });
}

/// Bytes of an FLV tag besides its body: header and previous tag size.
const FLV_TAG_OVERHEAD: usize = 15;

fn media_kind(track: Track) -> MediaKind {
    match track {
        Track::Audio => MediaKind::Audio,
        Track::Video => MediaKind::Video,
        Track::Data => MediaKind::Data,
    }
}

/// Largest header frame, bytes. Each new player gets a copy of its own; real ones have a few hundred bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// The frame of a message, or `None` for a message no player can use.
pub(crate) fn frame_of(message: rtmp::MediaMessage) -> Option<(Arc<Frame>, flv::BodyInfo)> {
    let info = flv::inspect(message.kind, &message.payload).ok()?;
    let track = match message.kind {
        MediaKind::Audio => Track::Audio,
        MediaKind::Video => Track::Video,
        MediaKind::Data => Track::Data,
    };
    let role = match info.role {
        flv::BodyRole::Config => FrameRole::Config,
        flv::BodyRole::Key => FrameRole::Key,
        flv::BodyRole::Inter | flv::BodyRole::Disposable => FrameRole::Inter,
        flv::BodyRole::Audio => FrameRole::Audio,
        flv::BodyRole::Metadata if track == Track::Data => FrameRole::Metadata,
        // Of one track among several it is not the end of the pictures.
        flv::BodyRole::End if !info.multitrack => FrameRole::End,
        flv::BodyRole::Metadata | flv::BodyRole::End | flv::BodyRole::Other => FrameRole::Other,
    };
    let is_header = matches!(role, FrameRole::Config | FrameRole::Metadata);
    if is_header && message.payload.len() > HEADER_BYTES_MAX {
        return None;
    }
    let frame = Frame { track, role, timestamp: message.timestamp, payload: message.payload };
    Some((Arc::new(frame), info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_covers_every_format_and_size() {
        for bytes in [0, 1, 125, 126, 65_535, 65_536, 200_000] {
            let frame =
                Frame { track: Track::Video, role: FrameRole::Key, timestamp: 0, payload: vec![0; bytes] };
            for format in [Format::Rtmp, Format::FlvChunked, Format::Flv, Format::WsFlv] {
                let mut out = Vec::new();
                write(format, &mut out, &frame, 0xffff_ffff);
                assert!(out.len() <= Channel::bytes_hint(&frame), "{format:?} {bytes}: {}", out.len());
            }
        }
    }

    #[test]
    fn metadata_is_of_no_time() {
        for (role, expected) in [(FrameRole::Metadata, 0), (FrameRole::Config, 0x0102_0304)] {
            let frame = Frame { track: Track::Data, role, timestamp: 7, payload: vec![2; 20] };
            let mut out = Vec::new();
            write(Format::Flv, &mut out, &frame, 0x0102_0304);
            assert_eq!(u32::from_be_bytes([out[7], out[4], out[5], out[6]]), expected, "{role:?}");
        }
    }

    #[test]
    fn chunks_hold_exactly_one_tag() {
        let mut out = Vec::new();
        write_framed(Format::FlvChunked, &mut out, 26, |out| out.extend_from_slice(&[7; 26]));
        write_end(Format::FlvChunked, &mut out);
        assert_eq!(out, [&b"1a\r\n"[..], &[7; 26], b"\r\n0\r\n\r\n"].concat());
    }

    #[test]
    fn websocket_messages_hold_exactly_one_tag() {
        let frame =
            Frame { track: Track::Audio, role: FrameRole::Audio, timestamp: 0, payload: vec![7; 300] };
        let mut out = Vec::new();
        write(Format::WsFlv, &mut out, &frame, 5);
        assert_eq!(out[..2], [0x82, 126]);
        assert_eq!(usize::from(u16::from_be_bytes([out[2], out[3]])), out.len() - 4);
    }
}
