//! Audio on its way to packets: Opus and G.711 as they are, AAC and MP3 by way of the caller's transcoder.

use std::sync::Arc;

use media::{CodecConfig, CodedAudio, Frame, FrameRole, Timestamp, TrackId};
use rtp::packetize::{Sender, audio as packetize};
use rtp::payload::{Codec, opus::Toc};
use serde::{Deserialize, Serialize};

use super::g711::{self, Law};
use super::{AUDIO_SSRC, FrameToRtpSettings, FrameToRtpStats, PacketsOut, payload_type};
use crate::clock::AudioTimestamps;
use crate::refusal::TrackRefusal;

/// The audio track of a bridge. Another process may go on with it, perhaps of a neighbouring release: a field
/// that is added needs a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Audio {
    pub(super) sender: Sender,
    clock_rate: u32,
    timestamps: AudioTimestamps,
    /// Of several tracks, the first that came is sent.
    track: Option<TrackId>,
    /// Format of the publisher, once it is known.
    source: Option<CodecConfig>,
    is_transcoded: bool,
    /// `source` is to go with the next frame to the transcoder.
    source_is_new: bool,
    published: Option<Codec>,
    #[serde(skip)]
    refused: Option<TrackRefusal>,
    /// Memory for samples of G.711.
    #[serde(skip)]
    samples: Vec<u8>,
    /// Nothing was sent yet of this publisher.
    begins: bool,
    /// The publisher has ended it; its configuration stays valid if it goes on without another.
    is_over: bool,
}

impl Audio {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(AUDIO_SSRC, 0),
            clock_rate: rtp::payload::clock_rate(Codec::Opus),
            timestamps: AudioTimestamps::new(rtp::payload::clock_rate(Codec::Opus)),
            track: None,
            source: None,
            is_transcoded: false,
            source_is_new: false,
            published: None,
            refused: None,
            samples: Vec::new(),
            begins: true,
            is_over: false,
        }
    }

    /// For another process, whose transcoder has to hear the format. What is refused is looked at again
    /// there.
    pub(super) fn handed(&self) -> Self {
        let source = self.source.clone().filter(|_| self.refused.is_none());
        Self { source, refused: None, source_is_new: self.is_transcoded, ..self.clone() }
    }

    /// From another process.
    pub(super) fn resumed(self) -> Self {
        let sender = Sender { ssrc: AUDIO_SSRC, ..self.sender };
        Self { sender, timestamps: self.timestamps.resumed(), ..self }
    }

    /// Also of audio that has ended: it may go on.
    pub(super) fn published(&self) -> Option<Codec> {
        self.published
    }

    /// The publisher has ended it.
    pub(super) fn ended(&mut self) {
        self.is_over = true;
    }

    pub(super) fn refused(&self) -> Option<TrackRefusal> {
        self.refused.filter(|_| !self.is_over)
    }

    pub(super) fn refuse(&mut self, reason: TrackRefusal) {
        (self.published, self.is_transcoded, self.refused) = (None, false, Some(reason));
    }

    /// Clock of the timestamps, in Hz.
    pub(super) fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    /// Takes in a frame; without `out`, no packets are written. Returns whether what is published may have
    /// changed.
    pub(super) fn frame(
        &mut self,
        settings: &FrameToRtpSettings,
        time: Timestamp,
        frame: &Frame,
        stats: &mut FrameToRtpStats,
        out: Option<&mut PacketsOut>,
    ) -> bool {
        if frame.role == FrameRole::Other || frame.codec == Codec::None {
            return false;
        }
        if *self.track.get_or_insert(frame.track) != frame.track {
            tracing::trace!(track = ?frame.track, "dropped: not the first audio track");
            stats.other_tracks += 1;
            return false;
        }
        let turns = self.is_over != (frame.role == FrameRole::End);
        self.is_over = frame.role == FrameRole::End;
        if self.is_over {
            return turns;
        }
        let changed = self.learn(frame) | turns;
        if frame.role == FrameRole::Config {
            return changed;
        }
        if self.published.is_none() {
            tracing::trace!("dropped: audio without a configuration that can be sent");
            stats.undecodable += 1;
            return changed;
        }
        let Some(out) = out else { return changed };
        let pts_us = (time + (frame.pts - frame.dts)).micros();
        let is_whole = match frame.codec {
            Codec::Aac | Codec::Mp3 => {
                let data = frame.data();
                if !data.is_empty() {
                    let is_new = std::mem::take(&mut self.source_is_new);
                    let format = self.source.as_ref().filter(|_| is_new).cloned().map(Arc::new);
                    out.audio.push(CodedAudio { pts_us, format, data: data.to_vec() });
                }
                !data.is_empty()
            }
            Codec::Opus => self.opus(settings, pts_us, frame.data(), out),
            _ => self.g711(settings, pts_us, frame, out),
        };
        if !is_whole {
            tracing::trace!(time_ms = time.millis(), "dropped: broken audio frame");
            stats.broken += 1;
        }
        changed
    }

    /// Reads the format from a frame. Returns whether it has changed.
    fn learn(&mut self, frame: &Frame) -> bool {
        let is_config = frame.role == FrameRole::Config;
        match (frame.codec, &self.source) {
            // AAC cannot begin without its sequence header; without one, Opus is taken for what it nearly
            // always is.
            (Codec::Aac, _) if !is_config => return false,
            (Codec::Opus, Some(known)) if !is_config && known.codec == Codec::Opus => return false,
            _ => {}
        }
        let source = CodecConfig {
            codec: frame.codec,
            record: if is_config { frame.data().to_vec() } else { Vec::new() },
            sample_rate: 0,
            // MP3 frames may differ in it; the decoder copes.
            channels: if frame.codec == Codec::Mp3 { 0 } else { frame.channels },
        };
        if self.source.as_ref() == Some(&source) {
            return false;
        }
        self.begins = true;
        match carried_as(&source) {
            Err(reason) => self.refuse(reason),
            Ok(codec) => {
                self.is_transcoded = codec != source.codec;
                self.source_is_new = self.is_transcoded;
                (self.published, self.refused) = (Some(codec), None);
                if self.clock_rate != rtp::payload::clock_rate(codec) {
                    self.clock_rate = rtp::payload::clock_rate(codec);
                    self.timestamps = AudioTimestamps::new(self.clock_rate);
                }
            }
        }
        self.source = Some(source);
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

    /// Sends samples, of two channels their mean; `false` if there are none.
    fn g711(
        &mut self,
        settings: &FrameToRtpSettings,
        pts_us: i64,
        frame: &Frame,
        out: &mut PacketsOut,
    ) -> bool {
        let mut samples = std::mem::take(&mut self.samples);
        samples.clear();
        match (frame.codec, frame.channels) {
            (Codec::Pcmu, 2) => g711::mix(Law::Mu, frame.data(), &mut samples),
            (_, 2) => g711::mix(Law::A, frame.data(), &mut samples),
            _ => samples.extend_from_slice(frame.data()),
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

    /// Sends Opus of the transcoder; `false` if it is none. Left out if the publisher's format needs no
    /// transcoding any more.
    pub(super) fn transcoded(
        &mut self,
        settings: &FrameToRtpSettings,
        audio: &CodedAudio,
        out: &mut PacketsOut,
    ) -> bool {
        !self.is_transcoded || self.opus(settings, audio.pts_us, &audio.data, out)
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

/// The codec audio is sent as, transcoded if it is another; or the reason it is refused.
fn carried_as(source: &CodecConfig) -> Result<Codec, TrackRefusal> {
    let codec = source.codec;
    match codec {
        Codec::Aac
            if source.record.len() < AAC_CONFIG_BYTES.0 || source.record.len() > AAC_CONFIG_BYTES.1 =>
        {
            Err(TrackRefusal::HeaderBroken(codec))
        }
        Codec::Aac | Codec::Mp3 => Ok(Codec::Opus),
        // Channel mapping family 0 (RFC 7845 section 5.1.1) is what a packet of RFC 7587 can hold.
        Codec::Opus if source.record.get(OPUS_HEAD_FAMILY).is_some_and(|family| *family != 0) => {
            Err(TrackRefusal::OpusChannels)
        }
        Codec::Opus | Codec::Pcma | Codec::Pcmu => Ok(codec),
        _ => Err(TrackRefusal::NotTranscoded(codec)),
    }
}

/// Lengths of an AudioSpecificConfig, bytes: the shortest names rate and channels of LC, a long one has a
/// program config element with comments.
const AAC_CONFIG_BYTES: (usize, usize) = (2, 512);

/// Where `OpusHead` has its channel mapping family.
const OPUS_HEAD_FAMILY: usize = 18;

/// Microseconds of a sample at 8 kHz.
const G711_SAMPLE_US: i64 = 125;

/// Memory for samples that is kept, in bytes: a second of two channels.
const SAMPLES_KEPT_MAX: usize = 16_000;
