//! RTP packets of a WebRTC publisher to frames, once for all players.
//!
//! ```text
//!  Packet ─▶ reorder ─▶ depacketize ─▶ picture ─────────▶ Frame       video.rs
//!            (order)   (access unit)   key? record?   ▲ time by CaptureClock
//!  Packet ─▶ reorder ─▶ no holes ─▶ [ transcoder ] ─▶ Frame           audio.rs
//! ```
//! Both tracks are placed on one stream time. Configurations and metadata come ahead of what needs them, and
//! again when they change.

mod audio;
mod key_frames;
mod picture;
mod startup_gate;
mod video;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use media::config::Record;
use media::{Codec, CodedAudio, Frame, MediaKind, Metadata, Timestamp};
use rtp::depacketize::aac::AacPackets;
use sfu::Packet;

use self::audio::Audio;
use self::startup_gate::StartupGate;
use self::video::Video;
use crate::clock::{CaptureClock, Stamp};

pub use self::picture::key_frame_format;

/// How a stream is put together.
#[derive(Clone, Copy, Debug)]
pub struct RtpToFrameSettings {
    /// Longest a packet that is missing is waited for.
    pub delay_max: Duration,
    /// Longest distance between key frames; a new one is asked for then.
    pub key_frame_interval_max: Duration,
    /// Audio is handed out to be transcoded to AAC; else it stays Opus, as in Enhanced RTMP.
    pub audio_to_aac: bool,
}

/// What came out of a call. Calls append; the caller clears, which keeps the memory.
#[derive(Debug, Default)]
pub struct FramesOut {
    /// Frames, timed by the stream's clock.
    pub frames: Vec<Arc<Frame>>,
    /// To be transcoded to AAC, in order.
    pub audio: Vec<CodedAudio>,
    /// The publisher should send a key frame.
    pub key_frame_wanted: bool,
}

impl FramesOut {
    /// Removes all output and keeps the memory.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.audio.clear();
        self.key_frame_wanted = false;
    }
}

/// One packet of a track.
#[derive(Clone, Debug)]
pub struct RtpPayload<'a> {
    /// Counts up by one; a gap is what was lost or comes late.
    pub number: u64,
    /// Which publisher: another value is another publisher.
    pub epoch: u64,
    /// Its codec.
    pub codec: Codec,
    /// The marker bit.
    pub marker: bool,
    /// Its times.
    pub stamp: Stamp,
    /// The payload without padding; empty if there is nothing but padding.
    pub media: Cow<'a, [u8]>,
}

impl<'a> RtpPayload<'a> {
    /// The packet, if it is of the first track of its kind: a tag body of FLV has no place for others.
    pub fn of(packet: &'a Packet) -> Option<Self> {
        (packet.track().position() < 2).then(|| Self {
            number: packet.number(),
            epoch: packet.epoch(),
            codec: packet.codec(),
            marker: packet.marker(),
            stamp: Stamp::from(packet),
            media: Cow::Borrowed(packet.media()),
        })
    }

    /// Audio or video.
    pub fn kind(&self) -> MediaKind {
        self.stamp.kind
    }

    /// A copy that needs the packet no longer.
    fn to_owned(&self) -> RtpPayload<'static> {
        let Self { number, epoch, codec, marker, stamp, ref media } = *self;
        RtpPayload { number, epoch, codec, marker, stamp, media: Cow::Owned(media.to_vec()) }
    }
}

/// Totals of a bridge.
#[derive(Clone, Copy, Debug, Default)]
pub struct RtpToFrameStats {
    /// Frames of video made.
    pub video_frames: u64,
    /// Packets taken in.
    pub packets: u64,
    /// Packets and frames that made no sense.
    pub broken: u64,
    /// Pictures dropped because the key frame they need has not come.
    pub undecodable: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came too late.
    pub late: u64,
    /// From the arrival of the newest frame's last packet to the frame; `None` if the last call made none.
    pub video_latency: Option<Duration>,
}

/// Converts the packets of one stream to frames.
#[derive(Debug)]
pub struct RtpToFrame {
    clock: CaptureClock,
    headers: Headers,
    startup_gate: StartupGate,
    begins_at_once: bool,
    video: Video,
    audio: Audio,
    epoch: Option<u64>,
    last_call: Instant,
    stats: RtpToFrameStats,
}

impl RtpToFrame {
    /// A bridge nothing has gone through.
    pub fn new(settings: RtpToFrameSettings, now: Instant) -> Self {
        Self {
            clock: CaptureClock::new(),
            headers: Headers::default(),
            startup_gate: StartupGate::default(),
            begins_at_once: false,
            video: Video::new(&settings),
            audio: Audio::new(&settings),
            epoch: None,
            last_call: now,
            stats: RtpToFrameStats::default(),
        }
    }

    /// Nothing is held back until both tracks have begun: for receivers that mind no metadata in the middle
    /// of a stream.
    #[must_use]
    pub fn beginning_at_once(self) -> Self {
        Self { begins_at_once: true, startup_gate: StartupGate::over(), ..self }
    }

    /// Parameter sets of H.264 or H.265 of the publisher's SDP: its key frames may come
    /// without.
    #[must_use]
    pub fn with_parameter_sets(mut self, sets: Vec<Vec<u8>>) -> Self {
        self.video.set_sets_of_sdp(sets);
        self
    }

    /// AAC with this AudioSpecificConfig may come, in packets like these; without this it is dropped.
    #[must_use]
    pub fn with_aac(mut self, config: Vec<u8>, packets: AacPackets) -> Self {
        self.audio.set_aac(config, packets);
        self
    }

    /// A packet of the publisher as the stream keeps it, in the order of arrival. Of several tracks of a kind
    /// the first is taken.
    pub fn packet(&mut self, now: Instant, packet: &Packet, out: &mut FramesOut) {
        if let Some(payload) = RtpPayload::of(packet) {
            self.payload(now, &payload, out);
        }
    }

    /// The same, of a packet that was taken apart.
    pub fn payload(&mut self, now: Instant, payload: &RtpPayload<'_>, out: &mut FramesOut) {
        self.stats.packets += 1;
        self.stats.video_latency = None;
        if self.epoch.is_none_or(|epoch| epoch < payload.epoch) {
            self.epoch = Some(payload.epoch);
            self.headers.clear();
            self.startup_gate =
                if self.begins_at_once { StartupGate::over() } else { StartupGate::default() };
        }
        self.startup_gate.note(now, payload);
        let first = out.frames.len();
        let (mut context, video, audio) = self.parts(now, out);
        match payload.kind() {
            MediaKind::Audio => audio.arrive(&mut context, payload),
            _ => video.arrive(&mut context, payload),
        }
        audio.poll(&mut context, video.playing(now));
        self.startup_gate.pass(now, first, out);
    }

    /// An audio frame from the transcoder.
    pub fn audio(&mut self, now: Instant, audio: &CodedAudio, out: &mut FramesOut) {
        let first = out.frames.len();
        let (mut context, _, track) = self.parts(now, out);
        track.transcoded(&mut context, audio);
        self.startup_gate.pass(now, first, out);
    }

    /// What time has made due.
    pub fn poll(&mut self, now: Instant, out: &mut FramesOut) {
        self.stats.video_latency = None;
        let first = out.frames.len();
        let (mut context, video, audio) = self.parts(now, out);
        video.poll(&mut context);
        audio.poll(&mut context, video.playing(now));
        self.startup_gate.pass(now, first, out);
    }

    /// Totals.
    pub fn stats(&self) -> RtpToFrameStats {
        self.stats
    }

    /// When to call [`RtpToFrame::poll`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.startup_gate.next_timeout(),
            self.video.next_timeout(),
            self.audio.next_timeout(self.video.playing(self.last_call)),
        ];
        timeouts.into_iter().flatten().min()
    }

    fn parts<'a>(
        &'a mut self,
        now: Instant,
        out: &'a mut FramesOut,
    ) -> (Context<'a>, &'a mut Video, &'a mut Audio) {
        self.last_call = now;
        let Self { clock, headers, video, audio, stats, .. } = self;
        (Context { now, clock, headers, stats, out }, video, audio)
    }
}

/// Everything the parts share in one call.
struct Context<'a> {
    now: Instant,
    clock: &'a mut CaptureClock,
    headers: &'a mut Headers,
    stats: &'a mut RtpToFrameStats,
    out: &'a mut FramesOut,
}

/// What players know about the stream as a whole.
/// It is sent again whenever it has changed.
#[derive(Debug, Default)]
struct Headers(Metadata);

impl Headers {
    /// Video is configured so from here.
    fn video(&mut self, codec: Codec, record: &Record, time: Timestamp, out: &mut FramesOut) {
        self.set(Metadata { video: Some((codec, record.width, record.height)), ..self.0 }, time, out);
    }

    /// Audio is configured so from here: codec, samples per second, channels.
    fn audio(&mut self, audio: (Codec, u32, u8), time: Timestamp, out: &mut FramesOut) {
        self.set(Metadata { audio: Some(audio), ..self.0 }, time, out);
    }

    /// Another publisher, of whom nothing is known.
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn set(&mut self, metadata: Metadata, time: Timestamp, out: &mut FramesOut) {
        if self.0 != metadata {
            self.0 = metadata;
            out.frames.push(Arc::new(Frame::metadata(metadata, time)));
        }
    }
}
