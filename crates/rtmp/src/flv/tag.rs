//! The header of an audio or video tag's body, legacy and enhanced.
//!
//! ```text
//!  legacy video (FLV 10.1, E.4.3.1)         frame type 4 | codec id 4
//!    codec 7 and 12 (AVC, HEVC)             | packet type 8 | composition time, signed 24
//!  enhanced video (Enhanced RTMP v2)        1 | frame type 3 | packet type 4
//!    while packet type is 7, ModEx:         | size-1 8 [255: size-1 16] | data | ModEx type 4 | packet type 4
//!    if it is 6, multitrack:                | multitrack type 4 | packet type 4
//!    unless many codecs:                    | FourCC 32
//!    per track of a multitrack:             [ | FourCC 32 ] | track id 8 [ | track bytes 24 ]
//!    CodedFrames of avc1, hvc1, vvc1:       | composition time, signed 24
//!
//!  legacy audio (E.4.2.1)                   sound format 4 | rate 2 | size 1 | stereo 1
//!    format 10 (AAC)                        | packet type 8
//!  enhanced audio                           9 | packet type 4, then as in video
//! ```
//!
//! Of a multitrack body the first track is read; [`TagHeader::next_track`] goes on to the others. Codecs have
//! numbers in FLV and FourCCs in Enhanced RTMP.

use media::{Codec, FourCc, FrameRole, Timestamp};

use super::FlvError;
use crate::MediaKind;

/// What the header says, and the bytes behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagHeader<'a> {
    pub(super) codec: Codec,
    pub(super) packet: Packet,
    /// Video frame type (1 key, 2 inter, 3 disposable, 4 generated key, 5 command); 0 for audio.
    pub(super) frame_type: u8,
    pub(super) composition_ms: i32,
    /// Of a multitrack body: what the next track is read with.
    pub(super) multitrack: Option<Multitrack<'a>>,
    /// Of this track; 0 if the body is not multitrack.
    pub(super) track_id: u8,
    /// Of the presentation time (`TimestampOffsetNano`).
    pub(super) offset_ns: u32,
    /// Legacy audio only: the first byte, which tells rate and channels; else 0.
    pub(super) audio_flags: u8,
    /// Configuration record or coded data of this track.
    pub(super) data: &'a [u8],
}

/// The part of a multitrack body that the tracks of it have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Multitrack<'a> {
    packet_type: u8,
    /// Each track names its codec.
    has_codecs: bool,
    /// The tracks that follow.
    pub(super) behind: &'a [u8],
}

/// What kind of data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    Config,
    Frames,
    End,
    /// Commands, colour and HDR, where loudspeakers are, packet types of the future.
    Other,
}

impl<'a> TagHeader<'a> {
    /// Reads the body of a video tag. Inlined, as this and the next are: a header is moved several times
    /// else, which takes longer than reading it.
    #[inline]
    pub(super) fn of_video(body: &'a [u8]) -> Result<Self, FlvError> {
        let mut cursor = Cursor(body);
        let first = cursor.u8()?;
        if first & 0x80 != 0 {
            let frame_type = first >> 4 & 7;
            let (packet_type, offset_ns) = cursor.modifiers(first & 0x0f)?;
            if frame_type == COMMAND_FRAME && packet_type != VIDEO_METADATA {
                cursor.u8()?;
                return Ok(Self::nothing(frame_type, cursor.0));
            }
            return Self::of_video_track(cursor.track(packet_type, VIDEO_MULTITRACK)?, frame_type, offset_ns);
        }
        let codec = video_codec(first & 0x0f);
        let mut header = Self { codec, packet: Packet::Frames, ..Self::nothing(first >> 4, &[]) };
        if header.frame_type == COMMAND_FRAME {
            header.packet = Packet::Other;
        } else if matches!(codec, Codec::H264 | Codec::H265) {
            header.packet = match cursor.u8()? {
                0 => Packet::Config,
                1 => Packet::Frames,
                2 => Packet::End,
                _ => Packet::Other,
            };
            header.composition_ms = cursor.i24()?;
        }
        Ok(Self { data: cursor.0, ..header })
    }

    fn of_video_track(track: TrackHeader<'a>, frame_type: u8, offset_ns: u32) -> Result<Self, FlvError> {
        let TrackHeader { codec, packet_type, multitrack, track_id, data } = track;
        let mut data = Cursor(data);
        let has_composition_time = matches!(codec, Codec::H264 | Codec::H265) || codec == VVC;
        let (packet, composition_ms) = match packet_type {
            0 | 5 => (Packet::Config, 0),
            1 if has_composition_time => (Packet::Frames, data.i24()?),
            1 | 3 => (Packet::Frames, 0),
            2 => (Packet::End, 0),
            // Colour, HDR: VIDEO_METADATA does not describe the stream as a whole.
            _ => (Packet::Other, 0),
        };
        let nothing = Self::nothing(frame_type, data.0);
        Ok(Self { codec, packet, composition_ms, multitrack, track_id, offset_ns, ..nothing })
    }

    /// Reads the body of an audio tag.
    #[inline]
    pub(super) fn of_audio(body: &'a [u8]) -> Result<Self, FlvError> {
        let mut cursor = Cursor(body);
        let first = cursor.u8()?;
        if first >> 4 == ENHANCED_AUDIO {
            let (packet_type, offset_ns) = cursor.modifiers(first & 0x0f)?;
            return Ok(Self::of_audio_track(cursor.track(packet_type, AUDIO_MULTITRACK)?, offset_ns));
        }
        let codec = audio_codec(first >> 4);
        let packet = match codec {
            Codec::Aac if cursor.u8()? == 0 => Packet::Config,
            _ => Packet::Frames,
        };
        Ok(Self { codec, packet, audio_flags: first, ..Self::nothing(0, cursor.0) })
    }

    fn of_audio_track(track: TrackHeader<'a>, offset_ns: u32) -> Self {
        let TrackHeader { codec, packet_type, multitrack, track_id, data } = track;
        let packet = match packet_type {
            0 => Packet::Config,
            1 => Packet::Frames,
            2 => Packet::End,
            // 4 is MultichannelConfig: it says where the loudspeakers are, and changes no decoder.
            _ => Packet::Other,
        };
        Self { codec, packet, multitrack, track_id, offset_ns, ..Self::nothing(0, data) }
    }

    /// The header of the next track of a multitrack body; `None` behind the last one.
    pub(super) fn next_track(&self, kind: MediaKind) -> Option<Result<Self, FlvError>> {
        let multitrack = self.multitrack.filter(|multitrack| !multitrack.behind.is_empty())?;
        let track = Cursor(multitrack.behind).next_track(multitrack, self.codec);
        Some(match kind {
            MediaKind::Video => {
                track.and_then(|track| Self::of_video_track(track, self.frame_type, self.offset_ns))
            }
            _ => track.map(|track| Self::of_audio_track(track, self.offset_ns)),
        })
    }

    /// What it makes of a frame of `kind`.
    pub(super) fn role(&self, kind: MediaKind) -> FrameRole {
        match (self.packet, kind, self.frame_type) {
            (Packet::Config, ..) => FrameRole::Config,
            (Packet::End, ..) => FrameRole::End,
            (Packet::Other, ..) => FrameRole::Other,
            (Packet::Frames, MediaKind::Audio, _) => FrameRole::Audio,
            (Packet::Frames, _, 1 | 4) => FrameRole::Key,
            (Packet::Frames, _, 2 | 3) => FrameRole::Inter,
            (Packet::Frames, ..) => FrameRole::Other,
        }
    }

    /// Decoding time `dts` and the presentation time of a frame.
    pub(super) fn times(&self, dts: Timestamp) -> (Timestamp, Timestamp) {
        let mut pts = dts + Timestamp::from_millis(self.composition_ms.into());
        if self.offset_ns > 0 {
            // More than a millisecond is not what the standard allows.
            pts += Timestamp::from_ticks(self.offset_ns.min(999_999).into(), 1_000_000_000);
        }
        (dts, pts)
    }

    /// A header that says nothing yet, but what is given.
    fn nothing(frame_type: u8, data: &'a [u8]) -> Self {
        let (codec, packet) = (Codec::None, Packet::Other);
        Self {
            codec,
            packet,
            frame_type,
            composition_ms: 0,
            multitrack: None,
            track_id: 0,
            offset_ns: 0,
            audio_flags: 0,
            data,
        }
    }
}

/// Codec and data of a track.
struct TrackHeader<'a> {
    codec: Codec,
    packet_type: u8,
    multitrack: Option<Multitrack<'a>>,
    track_id: u8,
    data: &'a [u8],
}

/// The part of a body that is not read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Reads ModEx parts; returns the packet type behind them and the nanoseconds they add to the time.
    fn modifiers(&mut self, mut packet_type: u8) -> Result<(u8, u32), FlvError> {
        let mut offset_ns = 0;
        while packet_type == MODEX {
            let mut bytes = usize::from(self.u8()?) + 1;
            if bytes == 256 {
                bytes = usize::from(u16::from_be_bytes(self.take()?)) + 1;
            }
            let (data, rest) = self.0.split_at_checked(bytes).ok_or(FlvError::Truncated)?;
            self.0 = rest;
            let kinds = self.u8()?;
            if let (TIMESTAMP_OFFSET_NANO, [a, b, c, ..]) = (kinds >> 4, data) {
                offset_ns = u32::from_be_bytes([0, *a, *b, *c]);
            }
            packet_type = kinds & 0x0f;
        }
        Ok((packet_type, offset_ns))
    }

    /// Reads FourCC and track fields of the first or only track.
    fn track(&mut self, packet_type: u8, multitrack_type: u8) -> Result<TrackHeader<'a>, FlvError> {
        if packet_type != multitrack_type {
            let codec = codec_of(self.take()?);
            return Ok(TrackHeader { codec, packet_type, multitrack: None, track_id: 0, data: self.0 });
        }
        let kinds = self.u8()?;
        let packet_type = kinds & 0x0f;
        let codec = codec_of(self.take()?);
        let has_codecs = kinds >> 4 == MANY_TRACKS_MANY_CODECS;
        let multitrack = Multitrack { packet_type, has_codecs, behind: &[] };
        if kinds >> 4 == ONE_TRACK {
            let track_id = self.u8()?;
            let multitrack = Some(multitrack);
            return Ok(TrackHeader { codec, packet_type, multitrack, track_id, data: self.0 });
        }
        self.sized_track(multitrack, codec)
    }

    /// Reads the fields of a track that follows another of `codec`.
    fn next_track(&mut self, multitrack: Multitrack<'a>, codec: Codec) -> Result<TrackHeader<'a>, FlvError> {
        let codec = if multitrack.has_codecs { codec_of(self.take()?) } else { codec };
        self.sized_track(multitrack, codec)
    }

    fn sized_track(&mut self, multitrack: Multitrack<'a>, codec: Codec) -> Result<TrackHeader<'a>, FlvError> {
        let track_id = self.u8()?;
        let [a, b, c] = self.take()?;
        let bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        let (data, behind) = self.0.split_at_checked(bytes).ok_or(FlvError::Truncated)?;
        let multitrack = Multitrack { behind, ..multitrack };
        let packet_type = multitrack.packet_type;
        Ok(TrackHeader { codec, packet_type, multitrack: Some(multitrack), track_id, data })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], FlvError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(FlvError::Truncated)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, FlvError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn i24(&mut self) -> Result<i32, FlvError> {
        self.take().map(|[a, b, c]| i32::from_be_bytes([a, b, c, 0]) >> 8)
    }
}

/// Codec of a legacy `CodecID` (E.4.3.1). 12 is H.265, as used before Enhanced RTMP.
fn video_codec(id: u8) -> Codec {
    match id {
        7 => Codec::H264,
        12 => Codec::H265,
        _ => Codec::Unknown(FourCc([0, 0, 0, id])),
    }
}

/// Codec of a legacy `SoundFormat` (E.4.2.1).
fn audio_codec(format: u8) -> Codec {
    match format {
        2 | 14 => Codec::Mp3,
        7 => Codec::Pcma,
        8 => Codec::Pcmu,
        10 => Codec::Aac,
        11 => Codec::Speex,
        _ => Codec::Unknown(FourCc([0, 0, 0, format])),
    }
}

/// Codec of a FourCC (Enhanced RTMP v2, tables of "Enhanced Audio" and "Enhanced Video").
fn codec_of(fourcc: [u8; 4]) -> Codec {
    FOURCCS
        .iter()
        .find(|(_, known)| *known == fourcc)
        .map_or(Codec::Unknown(FourCc(fourcc)), |(codec, _)| *codec)
}

/// FourCC of a codec; `None` for those that only FLV 10.1 has.
pub(super) fn fourcc(codec: Codec) -> Option<[u8; 4]> {
    FOURCCS.iter().find(|(known, _)| *known == codec).map(|(_, fourcc)| *fourcc)
}

/// `videocodecid` and `audiocodecid` of `onMetaData`: the number of FLV, or the FourCC (Enhanced RTMP v2,
/// "Metadata Frame"); 0 if there is none.
pub(super) fn codec_number(codec: Codec) -> u32 {
    match codec {
        Codec::H264 | Codec::Pcma => 7,
        Codec::Pcmu => 8,
        Codec::Aac => 10,
        _ => fourcc(codec).map_or(0, u32::from_be_bytes),
    }
}

const FOURCCS: [(Codec, [u8; 4]); 11] = [
    (Codec::H264, *b"avc1"),
    (Codec::H265, *b"hvc1"),
    (Codec::Av1, *b"av01"),
    (Codec::Vp8, *b"vp08"),
    (Codec::Vp9, *b"vp09"),
    (Codec::Aac, *b"mp4a"),
    (Codec::Mp3, *b".mp3"),
    (Codec::Opus, *b"Opus"),
    (Codec::Ac3, *b"ac-3"),
    (Codec::Eac3, *b"ec-3"),
    (Codec::Flac, *b"fLaC"),
];

const VVC: Codec = Codec::Unknown(FourCc(*b"vvc1"));
const COMMAND_FRAME: u8 = 5;
pub(super) const ENHANCED_AUDIO: u8 = 9;
const MODEX: u8 = 7;
const TIMESTAMP_OFFSET_NANO: u8 = 0;
const VIDEO_METADATA: u8 = 4;
pub(super) const VIDEO_MULTITRACK: u8 = 6;
pub(super) const AUDIO_MULTITRACK: u8 = 5;
pub(super) const ONE_TRACK: u8 = 0;
const MANY_TRACKS_MANY_CODECS: u8 = 2;
