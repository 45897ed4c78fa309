//! Frames of an RTMP publisher to RTP packets, once for all viewers.
//!
//! ```text
//!  frame ─┬▶ video.rs: parameter sets, pictures, rtp::packetize ─▶ packets
//!         └▶ audio.rs: G.711, Opus as they are ─────────────────▶ packets
//!                      AAC, MP3 ─▶ caller's threads ─▶ Opus ────▶ packets
//! ```
//! It plays the publisher of a stream of packets: one SSRC for video, one for audio, and clock mappings that
//! tie both to one time. Each RTMP publisher has a bridge of its own. Broken frames are counted and dropped;
//! a codec that cannot be bridged is refused with a reason, and the other track goes on.

mod audio;
mod filler_frame;
mod g711;
mod video;

use std::time::Instant;

use media::{CodedAudio, Frame, FrameRole, MediaKind, Timestamp};
use rtp::HeaderFields;
use rtp::packetize::PacketSlab;
use rtp::payload::Codec;
use serde::{Deserialize, Serialize};

use crate::b_frames::BFrames;
use crate::clock::{ClockMappings, MappingSchedule, StreamClock, StreamClockState};
use crate::refusal::{Refused, TrackRefusal};
use audio::Audio;
use video::Video;

/// How a stream is packetised.
#[derive(Clone, Copy, Debug)]
pub struct FrameToRtpSettings {
    /// What becomes of B-frames.
    pub b_frames: BFrames,
    /// Longest RTP payload, bytes.
    pub payload_bytes_max: usize,
}

/// Totals of a bridge. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameToRtpStats {
    /// Pictures sent, filler frames included.
    pub video_frames: u64,
    /// RTP packets written, audio included.
    pub packets: u64,
    /// Pictures dropped because they are not shown in the order they are sent.
    pub b_frames_dropped: u64,
    /// Pictures dropped because no key frame came before them, or because the video had ended.
    pub undecodable: u64,
    /// Video and audio frames that are malformed, whole or in part.
    pub broken: u64,
    /// Video and audio frames dropped because they are not of the first track of their kind.
    pub other_tracks: u64,
}

/// Video as it is offered to viewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedVideo {
    /// Payload format.
    pub codec: Codec,
    /// `a=fmtp` value: profile and level; may be empty.
    pub fmtp: String,
}

/// What can be offered of a stream in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedFormats {
    /// Video, if there is some that can be bridged, or was until the publisher ended it.
    pub video: Option<PublishedVideo>,
    /// Audio as it is sent in packets, if there is some that can be bridged, or was until the publisher ended
    /// it.
    pub audio: Option<Codec>,
    /// Why video or audio is missing although the publisher sends it: for the player's error and the log.
    pub refused: Option<Refused>,
}

/// Output of a call. Calls append; the caller clears, which keeps the memory.
#[derive(Debug, Default)]
pub struct PacketsOut {
    packets: PacketSlab,
    /// Timestamps of the pictures among them that a decoder can start with.
    key_frames: Vec<u32>,
    /// To be transcoded to Opus, in order.
    pub audio: Vec<CodedAudio>,
    /// [`FrameToRtp::formats`] are others than before.
    pub formats_changed: bool,
    /// A warning for the operator, once a publisher.
    pub warning: Option<&'static str>,
}

impl PacketsOut {
    /// RTP packets as header fields and payload, in order, and whether each is of a picture that a decoder
    /// can start with.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = (&HeaderFields, &[u8], bool)> {
        self.packets.iter().map(|(fields, payload)| {
            let is_key = fields.ssrc == VIDEO_SSRC && self.key_frames.contains(&fields.timestamp);
            (fields, payload, is_key)
        })
    }

    /// Removes all output and keeps the memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.key_frames.clear();
        self.audio.clear();
        (self.formats_changed, self.warning) = (false, None);
    }
}

/// The packetiser of one stream.
///
/// **To be driven like this:** [`FrameToRtp::frame`] for each frame of a publisher, [`FrameToRtp::audio`] for
/// what the transcoder makes of [`PacketsOut::audio`], and [`FrameToRtp::report`] at
/// [`FrameToRtp::next_timeout`].
#[derive(Debug)]
pub struct FrameToRtp {
    settings: FrameToRtpSettings,
    video: Video,
    audio: Audio,
    clock: StreamClock,
    mappings: MappingSchedule,
    /// Tracks that had sent something at the last mapping: video, audio.
    mapped: [bool; 2],
    /// When a track sent something that no mapping covers yet.
    unmapped_since: Option<Instant>,
    formats: PublishedFormats,
    stats: FrameToRtpStats,
}

/// Where a bridge is, for another process to go on with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrameToRtpState {
    video: Video,
    audio: Audio,
    clock: StreamClockState,
}

impl FrameToRtp {
    /// A bridge nothing has gone through.
    pub fn new(settings: FrameToRtpSettings, now: Instant) -> Self {
        Self {
            settings,
            video: Video::new(),
            audio: Audio::new(),
            clock: StreamClock::new(now),
            mappings: MappingSchedule::default(),
            mapped: [false; 2],
            unmapped_since: None,
            formats: PublishedFormats::default(),
            stats: FrameToRtpStats::default(),
        }
    }

    /// Where it is.
    pub fn state(&self, now: Instant) -> FrameToRtpState {
        let (video, audio) = (self.video.handed(), self.audio.handed());
        FrameToRtpState { video, audio, clock: self.clock.state(now) }
    }

    /// One that goes on where another was at `at`: with the next frame, under the numbers that follow. It has
    /// to get the headers of the stream again.
    pub fn resumed(settings: FrameToRtpSettings, at: Instant, state: FrameToRtpState) -> Self {
        let FrameToRtpState { video, audio, clock } = state;
        let (video, audio) = (video.resumed(&settings), audio.resumed());
        let formats = formats_of(&video, &audio);
        let clock = StreamClock::resumed(at, clock);
        Self { video, audio, clock, formats, ..Self::new(settings, at) }
    }

    /// A frame of the stream, headers included; `time` is its decoding time on the stream's timeline.
    ///
    /// Its packets are appended to `out`.
    pub fn frame(&mut self, now: Instant, time: Timestamp, frame: &Frame, out: &mut PacketsOut) {
        let before = out.packets.len();
        let kind = frame.track.kind;
        if kind != MediaKind::Data && !matches!(frame.role, FrameRole::Config | FrameRole::End) {
            self.clock.arrived(now, time.micros());
            if kind == MediaKind::Audio {
                self.video.fill(&self.settings, time, &mut self.stats, out);
            }
        }
        let (settings, stats) = (&self.settings, &mut self.stats);
        let changed = match kind {
            MediaKind::Video => self.video.frame(settings, time, frame, stats, Some(out)),
            MediaKind::Audio => self.audio.frame(settings, time, frame, stats, Some(out)),
            MediaKind::Data => false,
        };
        self.note_packets(now, out.packets.len() - before);
        if changed {
            self.update_formats(out);
        }
    }

    /// The video or audio known from the frames so far has ended, as if its end had been one of them.
    pub fn track_ended(&mut self, kind: MediaKind, out: &mut PacketsOut) {
        match kind {
            MediaKind::Video => self.video.ended(),
            MediaKind::Audio => self.audio.ended(),
            MediaKind::Data => {}
        }
        self.update_formats(out);
    }

    /// An Opus packet of the transcoder.
    pub fn audio(&mut self, now: Instant, audio: &CodedAudio, out: &mut PacketsOut) {
        let before = out.packets.len();
        if !self.audio.transcoded(&self.settings, audio, out) {
            tracing::trace!(bytes = audio.data.len(), "dropped: the transcoder's packet is no Opus");
            self.stats.broken += 1;
        }
        self.note_packets(now, out.packets.len() - before);
    }

    /// Audio cannot be transcoded: it is not sent until the publisher changes it or another one begins. The
    /// reason goes to [`PublishedFormats::refused`].
    pub fn refuse_audio(&mut self, reason: &'static str, out: &mut PacketsOut) {
        self.audio.refuse(TrackRefusal::Transcoder(reason));
        self.update_formats(out);
    }

    /// Clock mappings of the tracks, if they are due at `now`. Call it when all frames that arrived together
    /// have gone in, and at [`FrameToRtp::next_timeout`].
    pub fn report(&mut self, now: Instant) -> ClockMappings {
        let active = self.active();
        let tracks = [(active[0], VIDEO_CLOCK_RATE), (active[1], self.audio.clock_rate())];
        let mappings = self.mappings.poll(now, &self.clock, tracks);
        self.unmapped_since = None;
        if mappings.is_some() {
            self.mapped = active;
        }
        mappings.unwrap_or_default()
    }

    /// When to call [`FrameToRtp::report`] at the latest; `None` before the first packet.
    pub fn next_timeout(&self) -> Option<Instant> {
        // Without a mapping of each track, viewers cannot play them in sync.
        self.unmapped_since.or(self.mappings.next_timeout())
    }

    /// What can be offered to viewers, as far as it is known from the publisher.
    pub fn formats(&self) -> &PublishedFormats {
        &self.formats
    }

    /// Totals.
    pub fn stats(&self) -> FrameToRtpStats {
        self.stats
    }

    /// Tracks that have sent something: video, audio.
    fn active(&self) -> [bool; 2] {
        [self.video.sender.packets > 0, self.audio.sender.packets > 0]
    }

    fn note_packets(&mut self, now: Instant, packets: usize) {
        self.stats.packets += packets as u64;
        if packets > 0 && self.active() != self.mapped {
            self.unmapped_since.get_or_insert(now);
        }
    }

    fn update_formats(&mut self, out: &mut PacketsOut) {
        let formats = formats_of(&self.video, &self.audio);
        if formats != self.formats {
            self.formats = formats;
            out.formats_changed = true;
        }
    }
}

/// What a bridge would publish of a stream with these frames, without making packets of them: `ended` are the
/// sequence headers of tracks that have ended, `frames` the headers and frames that a new player would begin
/// with.
///
/// The headers give the formats of most codecs. Only the key frames of VP8 and VP9 say what they are, and
/// only the pictures of H.264 and H.265 say whether their B-frames can be dropped.
pub fn describe<'a>(
    settings: &FrameToRtpSettings,
    ended: impl IntoIterator<Item = &'a Frame>,
    frames: impl IntoIterator<Item = &'a Frame>,
) -> PublishedFormats {
    let (mut video, mut audio, mut stats) = (Video::new(), Audio::new(), FrameToRtpStats::default());
    let marked = ended.into_iter().map(|frame| (frame, true));
    for (frame, has_ended) in marked.chain(frames.into_iter().map(|frame| (frame, false))) {
        let is_inter = frame.role == FrameRole::Inter;
        if is_inter && !matches!(frame.codec, Codec::H264 | Codec::H265) {
            continue;
        }
        match frame.track.kind {
            MediaKind::Video => {
                video.frame(settings, Timestamp::ZERO, frame, &mut stats, None);
                if has_ended {
                    video.ended();
                }
            }
            MediaKind::Audio => {
                audio.frame(settings, Timestamp::ZERO, frame, &mut stats, None);
                if has_ended {
                    audio.ended();
                }
            }
            MediaKind::Data => {}
        }
    }
    formats_of(&video, &audio)
}

fn formats_of(video: &Video, audio: &Audio) -> PublishedFormats {
    let refused = Refused { video: video.refused(), audio: audio.refused() };
    let refused = (refused.video.is_some() || refused.audio.is_some()).then_some(refused);
    PublishedFormats { video: video.published().cloned(), audio: audio.published(), refused }
}

/// Clock of video timestamps, in Hz.
const VIDEO_CLOCK_RATE: u32 = 90_000;

/// SSRC of video. Numbers of the publisher that a bridge is never reach a viewer: each has its own.
pub const VIDEO_SSRC: u32 = 1;
/// SSRC of audio.
pub const AUDIO_SSRC: u32 = 2;

/// Payload type of a codec: the static one where there is one (RFC 3551 section 6), else of the dynamic
/// range.
pub fn payload_type(codec: Codec) -> u8 {
    match codec {
        Codec::Pcmu => 0,
        Codec::Pcma => 8,
        Codec::H264 => 96,
        Codec::H265 => 97,
        Codec::Av1 => 98,
        Codec::Vp9 => 99,
        Codec::Vp8 => 100,
        Codec::Opus => 111,
        _ => 127,
    }
}
