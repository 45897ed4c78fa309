//! Sound on its way to packets: Opus and G.711 as they are, AAC and MP3 by way of the caller's transcoder.

use std::sync::Arc;

use live::flv::{Body, BodyKind, Codec as FlvCodec, audio_body};
use rtp::packetize::{Sender, sound as packetize};
use rtp::payload::{Codec, opus::Toc};

use super::{PacketsOut, ToPacketsSettings, ToPacketsStats};
use crate::numbers::{SOUND_SSRC, payload_type};
use crate::sound::{CodedSound, SoundCodec, SoundFormat};

/// The sound track of a bridge.
#[derive(Debug)]
pub(super) struct Sound {
    pub(super) sender: Sender,
    /// What the publisher sends, once it is known.
    source: Option<FlvCodec>,
    /// Of sound that is transcoded.
    format: Option<Arc<SoundFormat>>,
    /// The transcoder has not been told of `format`.
    format_is_new: bool,
    published: Option<Codec>,
    refused: Option<Arc<str>>,
    /// Of sound that is passed on: timestamp of the sample behind the last one sent.
    next_timestamp: Option<u32>,
    /// Nothing was sent yet, or there was a gap.
    begins: bool,
}

impl Sound {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(SOUND_SSRC, 0),
            source: None,
            format: None,
            format_is_new: false,
            published: None,
            refused: None,
            next_timestamp: None,
            begins: true,
        }
    }

    pub(super) fn restart(&mut self) {
        *self = Self { sender: self.sender, ..Self::new() };
    }

    pub(super) fn published(&self) -> Option<Codec> {
        self.published
    }

    pub(super) fn refused(&self) -> Option<&Arc<str>> {
        self.refused.as_ref()
    }

    pub(super) fn refuse(&mut self, reason: Arc<str>) {
        self.published = None;
        self.refused = Some(reason);
    }

    /// Clock of the timestamps, in Hz.
    pub(super) fn clock_rate(&self) -> u32 {
        self.published.map_or(48_000, Codec::clock_rate)
    }

    /// Returns whether what is published may have changed.
    pub(super) fn frame(
        &mut self,
        settings: &ToPacketsSettings,
        time_ms: i64,
        body: &[u8],
        stats: &mut ToPacketsStats,
        out: &mut PacketsOut,
    ) -> bool {
        let Ok(body) = audio_body(body) else {
            stats.broken += 1;
            return false;
        };
        if matches!(body.kind, BodyKind::Other | BodyKind::End) {
            return false;
        }
        let changed = self.learn(&body);
        if body.kind == BodyKind::Config || self.published.is_none() {
            return changed;
        }
        let pts_us = time_ms * 1_000 + i64::from(body.offset_ns / 1_000);
        match body.codec {
            FlvCodec::Aac | FlvCodec::Mp3 => self.job(pts_us, body.data, stats, out),
            FlvCodec::Opus => self.opus(settings, pts_us, body.data, stats, out),
            _ => self.g711(settings, pts_us, body.data, stats, out),
        }
        changed
    }

    /// Takes in what a body says of the format. Returns whether it is news.
    fn learn(&mut self, body: &Body<'_>) -> bool {
        let is_config = body.kind == BodyKind::Config;
        let (published, codec) = match body.codec {
            FlvCodec::Aac if is_config => (Codec::Opus, Some(SoundCodec::Aac)),
            FlvCodec::Aac => return false,
            FlvCodec::Mp3 => (Codec::Opus, Some(SoundCodec::Mp3)),
            FlvCodec::Opus => (Codec::Opus, None),
            FlvCodec::G711U if body.sound.is_none_or(|sound| sound.channels == 1) => (Codec::Pcmu, None),
            FlvCodec::G711A if body.sound.is_none_or(|sound| sound.channels == 1) => (Codec::Pcma, None),
            codec => return self.cannot(codec),
        };
        let format = codec.map(|codec| SoundFormat {
            codec,
            config: if is_config { body.data.to_vec() } else { Vec::new() },
            sample_rate: body.sound.map_or(0, |sound| sound.sample_rate),
            channels: body.sound.map_or(0, |sound| sound.channels),
        });
        if self.source == Some(body.codec) && self.format.as_deref() == format.as_ref() {
            return false;
        }
        self.source = Some(body.codec);
        self.format_is_new = format.is_some();
        self.format = format.map(Arc::new);
        (self.published, self.refused) = (Some(published), None);
        self.begins = true;
        true
    }

    fn cannot(&mut self, codec: FlvCodec) -> bool {
        if self.source == Some(codec) {
            return false;
        }
        self.source = Some(codec);
        self.refuse(format!("sound: {codec} is not sent by WebRTC").into());
        true
    }

    fn job(&mut self, pts_us: i64, data: &[u8], stats: &mut ToPacketsStats, out: &mut PacketsOut) {
        if data.is_empty() {
            stats.broken += 1;
            return;
        }
        let format = std::mem::take(&mut self.format_is_new).then(|| self.format.clone()).flatten();
        out.sound.push(CodedSound { pts_us, format, data: data.to_vec() });
    }

    fn opus(
        &mut self,
        settings: &ToPacketsSettings,
        pts_us: i64,
        data: &[u8],
        stats: &mut ToPacketsStats,
        out: &mut PacketsOut,
    ) {
        let samples = Toc::parse(data).map(|toc| toc.samples);
        if !samples.is_some_and(|samples| self.send(settings, pts_us, u32::from(samples), data, out)) {
            stats.broken += 1;
        }
    }

    fn g711(
        &mut self,
        settings: &ToPacketsSettings,
        pts_us: i64,
        data: &[u8],
        stats: &mut ToPacketsStats,
        out: &mut PacketsOut,
    ) {
        if data.is_empty() {
            stats.broken += 1;
        }
        let mut ahead = 0;
        for piece in packetize::g711_pieces(data) {
            self.send(settings, pts_us + ahead * 125, piece.len() as u32, piece, out);
            ahead += piece.len() as i64;
        }
    }

    /// Opus of the transcoder; `false` if it cannot be sent.
    pub(super) fn transcoded(
        &mut self,
        settings: &ToPacketsSettings,
        sound: &CodedSound,
        out: &mut PacketsOut,
    ) -> bool {
        if self.format.is_none() || self.published.is_none() {
            return true;
        }
        let Some(toc) = Toc::parse(&sound.data) else { return false };
        self.send(settings, sound.pts_us, u32::from(toc.samples), &sound.data, out)
    }

    /// Sends a piece. Its timestamp follows the one before unless the times say that there is a gap.
    fn send(
        &mut self,
        settings: &ToPacketsSettings,
        pts_us: i64,
        samples: u32,
        data: &[u8],
        out: &mut PacketsOut,
    ) -> bool {
        let Some(codec) = self.published else { return false };
        let by_time = timestamp(pts_us, codec.clock_rate());
        let tolerated = codec.clock_rate() / 1_000 * ROUNDING_MS_MAX;
        let timestamp = match self.next_timestamp {
            Some(next) if next.wrapping_sub(by_time).cast_signed().unsigned_abs() <= tolerated => next,
            _ => by_time,
        };
        let mut writer = self.sender.frame(payload_type(codec), timestamp, &mut out.packets);
        let sent = packetize::opus(data, settings.payload_bytes_max, &mut writer);
        writer.end_frame(self.begins);
        if sent {
            self.begins = false;
            self.next_timestamp = Some(timestamp.wrapping_add(samples));
        }
        sent
    }
}

/// RTP timestamp of a stream time.
pub(super) fn timestamp(time_us: i64, clock_rate: u32) -> u32 {
    (i128::from(time_us) * i128::from(clock_rate)).div_euclid(1_000_000) as u32
}

/// Times of FLV are whole milliseconds and jitter by more with some publishers; a piece of sound that is off by less
/// follows the one before without a gap.
const ROUNDING_MS_MAX: u32 = 15;
