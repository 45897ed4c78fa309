//! Audio on its way to packets: Opus and G.711 as they are, AAC and MP3 by way of the caller's transcoder.

use std::sync::Arc;

use rtmp::flv::{Body, BodyKind, Codec as FlvCodec, audio_body};
use rtp::packetize::{Sender, sound as packetize};
use rtp::payload::{Codec, opus::Toc};

use super::g711::{self, Law};
use super::{FrameToRtpSettings, FrameToRtpStats, PacketsOut};
use crate::audio::{AudioCodec, AudioFormat, CodedAudio};
use crate::clock::AudioTimestamps;
use crate::numbers::{AUDIO_SSRC, payload_type};

/// The audio track of a bridge.
#[derive(Debug)]
pub(super) struct Audio {
    pub(super) sender: Sender,
    clock_rate: u32,
    timestamps: AudioTimestamps,
    /// The one that is sent of several: the first that came.
    track_id: Option<u8>,
    /// What the publisher sends, once it is known.
    source: Option<Source>,
    /// Of audio that is transcoded.
    format: Option<Arc<AudioFormat>>,
    /// The transcoder has not been told of `format`.
    format_is_new: bool,
    published: Option<Codec>,
    refused: Option<Arc<str>>,
    /// Memory for samples of G.711.
    samples: Vec<u8>,
    /// Nothing was sent yet of this publisher.
    begins: bool,
    /// The publisher has ended it; what was known of it holds again if it goes on without another configuration.
    is_over: bool,
}

/// What tells one kind of audio from another.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    codec: FlvCodec,
    channels: u8,
    config: Vec<u8>,
}

impl Audio {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(AUDIO_SSRC, 0),
            clock_rate: Codec::Opus.clock_rate(),
            timestamps: AudioTimestamps::new(Codec::Opus.clock_rate()),
            track_id: None,
            source: None,
            format: None,
            format_is_new: false,
            published: None,
            refused: None,
            samples: Vec::new(),
            begins: true,
            is_over: false,
        }
    }

    /// Another publisher begins. Numbers and timestamps go on.
    pub(super) fn restart(&mut self) {
        let timestamps = self.timestamps.clone();
        *self = Self { sender: self.sender, clock_rate: self.clock_rate, timestamps, ..Self::new() };
    }

    /// Also of audio that is over: it may go on.
    pub(super) fn published(&self) -> Option<Codec> {
        self.published
    }

    /// The publisher has ended it.
    pub(super) fn ended(&mut self) {
        self.is_over = true;
    }

    pub(super) fn refused(&self) -> Option<&Arc<str>> {
        self.refused.as_ref().filter(|_| !self.is_over)
    }

    pub(super) fn refuse(&mut self, reason: Arc<str>) {
        (self.published, self.format, self.refused) = (None, None, Some(reason));
    }

    /// Clock of the timestamps, in Hz.
    pub(super) fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    /// Takes in a tag body. Returns whether what is published may have changed.
    pub(super) fn frame(
        &mut self,
        settings: &FrameToRtpSettings,
        time_ms: i64,
        body: &[u8],
        stats: &mut FrameToRtpStats,
        out: &mut PacketsOut,
    ) -> bool {
        let Ok(body) = audio_body(body) else {
            stats.broken += 1;
            return false;
        };
        let is_config = body.kind == BodyKind::Config;
        if matches!(body.kind, BodyKind::Other) || body.codec == FlvCodec::None {
            return false;
        }
        if *self.track_id.get_or_insert(body.track_id) != body.track_id {
            return false;
        }
        let turns = self.is_over != (body.kind == BodyKind::End);
        self.is_over = body.kind == BodyKind::End;
        if self.is_over {
            return turns;
        }
        let changed = self.learn(&body, is_config) | turns;
        if is_config || self.published.is_none() {
            return changed;
        }
        let pts_us = time_ms * 1_000 + super::video::offset_us(&body);
        let is_whole = match body.codec {
            FlvCodec::Aac | FlvCodec::Mp3 => self.job(pts_us, body.data, out),
            FlvCodec::Opus => self.opus(settings, pts_us, body.data, out),
            _ => self.g711(settings, pts_us, &body, out),
        };
        stats.broken += u64::from(!is_whole);
        changed
    }

    /// Takes in what a body says of the format. Returns whether it is news.
    fn learn(&mut self, body: &Body<'_>, is_config: bool) -> bool {
        let source = match (body.codec, &self.source) {
            // The sequence header alone tells; without one, AAC cannot begin, and Opus is what it nearly always is.
            (FlvCodec::Aac, _) if !is_config => return false,
            (FlvCodec::Opus, Some(known)) if !is_config && known.codec == FlvCodec::Opus => return false,
            (codec, _) => Source {
                codec,
                channels: if codec == FlvCodec::Mp3 {
                    0
                } else {
                    body.sound.map_or(0, |audio| audio.channels)
                },
                config: if is_config { body.data.to_vec() } else { Vec::new() },
            },
        };
        if self.source.as_ref() == Some(&source) {
            return false;
        }
        self.begins = true;
        match carried_as(&source) {
            Ok((codec, transcoded)) => self.publish(codec, transcoded, &source),
            Err(reason) => self.refuse(reason.into()),
        }
        self.source = Some(source);
        true
    }

    fn publish(&mut self, codec: Codec, transcoded: Option<AudioCodec>, source: &Source) {
        let format = transcoded.map(|codec| AudioFormat {
            codec,
            config: source.config.clone(),
            sample_rate: 0,
            channels: 0,
        });
        self.format_is_new = format.is_some();
        self.format = format.map(Arc::new);
        (self.published, self.refused) = (Some(codec), None);
        if self.clock_rate != codec.clock_rate() {
            self.clock_rate = codec.clock_rate();
            self.timestamps = AudioTimestamps::new(self.clock_rate);
        }
    }

    /// Hands a piece out to be transcoded; `false` if it is empty.
    fn job(&mut self, pts_us: i64, data: &[u8], out: &mut PacketsOut) -> bool {
        if data.is_empty() {
            return false;
        }
        let format = std::mem::take(&mut self.format_is_new).then(|| self.format.clone()).flatten();
        out.audio.push(CodedAudio { pts_us, format, data: data.to_vec() });
        true
    }

    /// Sends an Opus packet; `false` if it is none, or too long.
    fn opus(
        &mut self,
        settings: &FrameToRtpSettings,
        pts_us: i64,
        data: &[u8],
        out: &mut PacketsOut,
    ) -> bool {
        let Some(toc) = Toc::parse(data) else { return false };
        self.send(settings, pts_us, u32::from(toc.samples), data, out)
    }

    /// Sends samples in pieces, of two channels their mean; `false` if there are none.
    fn g711(
        &mut self,
        settings: &FrameToRtpSettings,
        pts_us: i64,
        body: &Body<'_>,
        out: &mut PacketsOut,
    ) -> bool {
        let mut samples = std::mem::take(&mut self.samples);
        samples.clear();
        match (body.codec, body.sound.map(|audio| audio.channels)) {
            (FlvCodec::G711U, Some(2)) => g711::mix(Law::Mu, body.data, &mut samples),
            (_, Some(2)) => g711::mix(Law::A, body.data, &mut samples),
            _ => samples.extend_from_slice(body.data),
        }
        let mut ahead = 0;
        for piece in packetize::g711_pieces(&samples) {
            self.send(settings, pts_us + ahead * G711_SAMPLE_US, piece.len() as u32, piece, out);
            ahead += piece.len() as i64;
        }
        // One tag of megabytes is no reason to hold that much.
        samples.shrink_to(SAMPLES_KEPT_MAX);
        self.samples = samples;
        ahead > 0
    }

    /// Sends Opus of the transcoder; `false` if it is none. What comes of a format that is no longer the publisher's is
    /// passed over.
    pub(super) fn transcoded(
        &mut self,
        settings: &FrameToRtpSettings,
        audio: &CodedAudio,
        out: &mut PacketsOut,
    ) -> bool {
        self.format.is_none() || self.opus(settings, audio.pts_us, &audio.data, out)
    }

    fn send(
        &mut self,
        settings: &FrameToRtpSettings,
        pts_us: i64,
        samples: u32,
        data: &[u8],
        out: &mut PacketsOut,
    ) -> bool {
        let Some(codec) = self.published else { return false };
        let timestamp = self.timestamps.next(pts_us, samples);
        let mut writer = self.sender.frame(payload_type(codec), timestamp, &mut out.packets);
        let is_sent = packetize::whole(data, settings.payload_bytes_max, &mut writer);
        // The marker says that audio begins (RFC 3551 section 4.1).
        writer.end_frame(self.begins);
        self.begins &= !is_sent;
        is_sent
    }
}

/// As what audio is sent, and as what it is transcoded if it is; or why it cannot be.
fn carried_as(source: &Source) -> Result<(Codec, Option<AudioCodec>), String> {
    let codec = source.codec;
    match codec {
        FlvCodec::Aac
            if source.config.len() < AAC_CONFIG_BYTES.0 || source.config.len() > AAC_CONFIG_BYTES.1 =>
        {
            Err("audio: the sequence header of AAC is broken".to_owned())
        }
        FlvCodec::Aac => Ok((Codec::Opus, Some(AudioCodec::Aac))),
        FlvCodec::Mp3 => Ok((Codec::Opus, Some(AudioCodec::Mp3))),
        // Channel mapping family 0 (RFC 7845 section 5.1.1) is what a packet of RFC 7587 can hold.
        FlvCodec::Opus if source.config.get(OPUS_HEAD_FAMILY).is_some_and(|family| *family != 0) => {
            Err("audio: WebRTC has no Opus of more than two channels".to_owned())
        }
        FlvCodec::Opus => Ok((Codec::Opus, None)),
        FlvCodec::G711A => Ok((Codec::Pcma, None)),
        FlvCodec::G711U => Ok((Codec::Pcmu, None)),
        _ => Err(format!("audio: {codec} is not transcoded")),
    }
}

/// Lengths of an AudioSpecificConfig, bytes: the shortest names rate and channels of LC, a long one has a program config
/// element with comments.
const AAC_CONFIG_BYTES: (usize, usize) = (2, 512);

/// Where `OpusHead` has its channel mapping family.
const OPUS_HEAD_FAMILY: usize = 18;

/// Microseconds of a sample at 8 kHz.
const G711_SAMPLE_US: i64 = 125;

/// Memory for samples that is kept, in bytes: a second of two channels.
const SAMPLES_KEPT_MAX: usize = 16_000;
