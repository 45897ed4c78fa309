//! Frames of an RTMP publisher to RTP packets, once for all viewers.
//!
//! ```text
//!  frame ─▶ rtmp::flv body ─┬▶ video.rs: parameter sets, pictures, rtp::packetize ─▶ packets
//!                           └▶ audio.rs: G.711, Opus as they are ─────────────────▶ packets
//!                                        AAC, MP3 ─▶ jobs ─▶ caller's threads ─▶ Opus ─▶ packets
//! ```
//! It plays the publisher of a stream of packets: one SSRC for video, one for audio, numbers and timestamps that go on
//! whatever RTMP publishers come and go, and sender reports that tie both to one clock. What is broken is counted and
//! left out; what cannot be bridged is refused with a reason, and the other track goes on.

mod audio;
mod formats;
mod g711;
mod out;
mod video;

use std::time::Instant;

use delivery::{Frame, FrameRole, Track};
use sfu::WallClock;

use crate::audio::CodedAudio;
use crate::clock::{Sender, SenderReports, StreamClock};
use audio::Audio;
use video::Video;

pub use formats::{PublishedFormats, PublishedVideo};
pub use out::PacketsOut;

/// What becomes of a stream whose pictures are not shown in the order they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BFrames {
    /// Pictures that no other needs are left out.
    #[default]
    Drop,
    /// The stream is not bridged.
    Refuse,
}

/// How a stream is packetised.
#[derive(Clone, Copy, Debug)]
pub struct FrameToRtpSettings {
    /// What becomes of B-frames.
    pub b_frames: BFrames,
    /// Longest RTP payload, bytes.
    pub payload_bytes_max: usize,
}

/// What has gone through a bridge. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameToRtpStats {
    /// Pictures sent, those included that stand in for video that is over.
    pub video_frames: u64,
    /// RTP packets written, audio included.
    pub packets: u64,
    /// Pictures left out because they are not shown in the order they are sent.
    pub b_frames_dropped: u64,
    /// Frames and audio frames that made no sense, whole or in part.
    pub broken: u64,
}

/// The machine of one stream. See the module documentation.
///
/// **To be driven like this:** [`FrameToRtp::publisher_started`] when a publisher begins, [`FrameToRtp::frame`] for each of
/// its frames, [`FrameToRtp::audio`] for what the transcoder makes of [`PacketsOut::audio`], and
/// [`FrameToRtp::report`] at [`FrameToRtp::next_timeout`].
#[derive(Debug)]
pub struct FrameToRtp {
    settings: FrameToRtpSettings,
    video: Video,
    audio: Audio,
    clock: StreamClock,
    reports: SenderReports,
    /// Tracks that had sent something at the last report: video, audio.
    reported: [bool; 2],
    /// When a track has sent something of which no report has told yet.
    unreported_since: Option<Instant>,
    formats: PublishedFormats,
    formats_changed: bool,
    stats: FrameToRtpStats,
}

impl FrameToRtp {
    /// A bridge nothing has gone through.
    pub fn new(settings: FrameToRtpSettings, now: Instant) -> Self {
        Self {
            settings,
            video: Video::new(),
            audio: Audio::new(),
            clock: StreamClock::new(now),
            reports: SenderReports::default(),
            reported: [false; 2],
            unreported_since: None,
            formats: PublishedFormats::default(),
            formats_changed: false,
            stats: FrameToRtpStats::default(),
        }
    }

    /// A publisher begins, or another one comes: what the one before has said holds no more. Times go on.
    pub fn publisher_started(&mut self, _now: Instant) {
        self.video.restart();
        self.audio.restart();
        self.clock.publisher_started();
        self.update_formats();
    }

    /// A frame of the stream, headers included; `time_ms` is its decoding time on the stream's timeline.
    ///
    /// What comes of it is appended to `out`.
    pub fn frame(&mut self, now: Instant, time_ms: u64, frame: &Frame, out: &mut PacketsOut) {
        let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX).min(TIME_MS_MAX);
        let before = out.packets.len();
        if frame.track != Track::Data && !matches!(frame.role, FrameRole::Config | FrameRole::End) {
            self.clock.arrived(now, time_ms * 1_000);
            if frame.track == Track::Audio {
                self.video.goes_on(&self.settings, time_ms, &mut self.stats, out);
            }
        }
        let changed = match frame.track {
            Track::Video => self.video.frame(&self.settings, time_ms, &frame.payload, &mut self.stats, out),
            Track::Audio => self.audio.frame(&self.settings, time_ms, &frame.payload, &mut self.stats, out),
            Track::Data => false,
        };
        self.note_packets(now, out.packets.len() - before);
        if changed {
            self.update_formats();
        }
    }

    /// What the frames so far tell of a track has ended, as if its end had been one of them.
    pub fn track_ended(&mut self, track: Track) {
        match track {
            Track::Video => self.video.ended(),
            Track::Audio => self.audio.ended(),
            Track::Data => {}
        }
        self.update_formats();
    }

    /// An Opus packet of the transcoder.
    pub fn audio(&mut self, now: Instant, audio: &CodedAudio, out: &mut PacketsOut) {
        let before = out.packets.len();
        if !self.audio.transcoded(&self.settings, audio, out) {
            self.stats.broken += 1;
        }
        self.note_packets(now, out.packets.len() - before);
    }

    /// Audio is not sent from now on, until the publisher changes it or another one begins: it cannot be transcoded. The
    /// reason goes to [`PublishedFormats::refused`].
    pub fn refuse_audio(&mut self, reason: &str) {
        self.audio.refuse(format!("audio: {reason}").into());
        self.update_formats();
    }

    /// Replaces `rtcp` by a compound packet with the sender reports of both tracks, if they are due at `now`. Call it when
    /// all frames that arrived together have gone in, and at [`FrameToRtp::next_timeout`].
    pub fn report(&mut self, now: Instant, wall: &WallClock, rtcp: &mut Vec<u8>) -> bool {
        let sender = |sender: &rtp::packetize::Sender, clock_rate| Sender {
            ssrc: sender.ssrc,
            clock_rate,
            packets: sender.packets,
            payload_bytes: sender.payload_bytes,
        };
        let senders = [
            sender(&self.video.sender, VIDEO_CLOCK_RATE),
            sender(&self.audio.sender, self.audio.clock_rate()),
        ];
        let is_written = self.reports.write(now, wall, &self.clock, &senders, rtcp);
        self.unreported_since = None;
        if is_written {
            self.reported = self.active();
        }
        is_written
    }

    /// When to call [`FrameToRtp::report`] at the latest; `None` before the first packet.
    pub fn next_timeout(&self) -> Option<Instant> {
        // Without a report that tells of both, viewers cannot play them in sync.
        self.unreported_since.or(self.reports.next_timeout())
    }

    /// What can be offered to viewers, as far as the publisher has told.
    pub fn formats(&self) -> &PublishedFormats {
        &self.formats
    }

    /// Whether [`FrameToRtp::formats`] has changed since this was asked.
    pub fn take_formats_change(&mut self) -> bool {
        std::mem::take(&mut self.formats_changed)
    }

    /// What the operator should know of the stream, once.
    pub fn take_warning(&mut self) -> Option<&'static str> {
        self.video.take_warning()
    }

    /// What has gone through.
    pub fn stats(&self) -> FrameToRtpStats {
        self.stats
    }

    /// Tracks that have sent something: video, audio.
    fn active(&self) -> [bool; 2] {
        [self.video.sender.packets > 0, self.audio.sender.packets > 0]
    }

    fn note_packets(&mut self, now: Instant, packets: usize) {
        self.stats.packets += packets as u64;
        if packets > 0 && self.active() != self.reported {
            self.unreported_since.get_or_insert(now);
        }
    }

    fn update_formats(&mut self) {
        let formats = formats::join(&self.video, &self.audio);
        if formats != self.formats {
            self.formats = formats;
            self.formats_changed = true;
        }
    }
}

/// Clock of video timestamps, in Hz.
const VIDEO_CLOCK_RATE: u32 = 90_000;

/// Stream times beyond this (hundreds of thousands of years) are taken for this, so that nothing overflows.
const TIME_MS_MAX: i64 = i64::MAX / 1_000_000;
