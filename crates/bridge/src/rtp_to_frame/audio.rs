//! The track of audio: packets in order to frames or to the transcoder, without holes.
//!
//! Players of FLV stop when audio does: their clock is the audio. So what is missing is filled: packets that
//! were lost, the pauses of discontinuous transmission (DTX), and a microphone that was switched off while
//! video goes on. Silence takes no place of audio that is late: where nothing announced a pause, it is
//! filled only when nothing has come for some time, and a packet that comes after all ends it. What fills
//! is a packet that says "nothing was received" to a decoder of Opus, which it conceals or plays as
//! background noise, and zero in G.711.

use std::sync::Arc;
use std::time::{Duration, Instant};

use media::config::{AudioSpecificConfig, opus_head};
use media::{CodecConfig, CodedAudio, Frame, FrameRole, Timestamp, TrackId};
use rtp::depacketize::aac::{AacDepacketizer, AacPackets};
use rtp::payload::{Codec, opus::Toc};

use super::video::Playing;
use super::{Context, FramesOut, RtpPayload, RtpToFrameSettings};
use crate::reorder_buffer::{Arrival, ReorderBuffer};

#[derive(Debug)]
pub(super) struct Audio {
    reorder: ReorderBuffer<RtpPayload<'static>>,
    to_aac: bool,
    source: Option<(u64, Codec)>,
    /// End of what was handed on last; `None` before the first.
    end_us: Option<i64>,
    newest: Option<Newest>,
    /// How long nothing has to come before silence is filled that nothing announced.
    silence_wait: Duration,
    /// Of Opus: configuration and channels of the packet before.
    toc: u8,
    /// The format the transcoder has.
    is_format_sent: bool,
    /// What AAC comes from the transcoder, and whether players have its configuration.
    aac: Option<Arc<CodecConfig>>,
    is_config_sent: bool,
    /// AAC of the publisher itself.
    own_aac: Option<OwnAac>,
    last: Timestamp,
}

/// AAC that comes in packets (RTSP; WebRTC has none).
#[derive(Debug)]
struct OwnAac {
    format: Arc<CodecConfig>,
    depacketizer: AacDepacketizer,
    /// Samples of an access unit, at the rate of the configuration.
    samples: i64,
}

/// The last packet that was received.
#[derive(Debug, Clone, Copy)]
struct Newest {
    arrival: Instant,
    end_us: i64,
    is_pause: bool,
    /// Something was filled in behind it.
    is_filled: bool,
}

impl Audio {
    pub(super) fn new(settings: &RtpToFrameSettings) -> Self {
        Self {
            reorder: ReorderBuffer::new(settings.delay_max, WAIT_MIN),
            to_aac: settings.audio_to_aac,
            source: None,
            end_us: None,
            newest: None,
            silence_wait: SILENCE_WAIT_MAX,
            toc: 0,
            is_format_sent: false,
            aac: None,
            is_config_sent: false,
            own_aac: None,
            last: Timestamp::ZERO,
        }
    }

    /// AAC comes with this configuration, in packets like these.
    pub(super) fn set_aac(&mut self, record: Vec<u8>, packets: AacPackets) {
        let Ok(read) = AudioSpecificConfig::read(&record) else { return };
        let samples = if read.short_frames { 960 } else { 1_024 };
        let channels = u8::try_from(read.channel_configuration).unwrap_or(2);
        let format = CodecConfig { codec: Codec::Aac, record, sample_rate: read.sample_rate, channels };
        let depacketizer = AacDepacketizer::new(packets);
        self.own_aac = Some(OwnAac { format: Arc::new(format), depacketizer, samples });
    }

    pub(super) fn arrive(&mut self, context: &mut Context<'_>, payload: &RtpPayload<'_>) {
        match self.reorder.arrive(context.now, payload.number, || payload.to_owned()) {
            Arrival::Next => self.deliver(context, payload, 0),
            Arrival::Held => {}
            Arrival::Late => {
                tracing::trace!(number = payload.number, "dropped: audio packet came too late");
                context.stats.late += 1;
            }
        }
    }

    /// Hands on what has waited long enough, and fills a pause as time goes by.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, video: Option<Playing>) {
        while let Some(due) = self.reorder.pop(context.now) {
            self.deliver(context, &due.packet, due.lost);
        }
        while self.fill_at(video).is_some_and(|at| at <= context.now) {
            self.fill(context);
            if let Some(newest) = &mut self.newest {
                newest.is_filled = true;
            }
        }
    }

    pub(super) fn next_timeout(&self, video: Option<Playing>) -> Option<Instant> {
        self.reorder.next_timeout().into_iter().chain(self.fill_at(video)).min()
    }

    /// When the next packet of a pause is due. A packet that is late by less than the lag still finds its
    /// place.
    fn fill_at(&self, video: Option<Playing>) -> Option<Instant> {
        let (newest, end_us) = (self.newest?, self.end_us?);
        let filled_us = u64::try_from(end_us - newest.end_us).ok()?;
        let lag = match newest.is_pause {
            true if filled_us < ALONE_US_MAX || video.is_some() => LAG_PAUSE,
            false if video.is_some() && newest.is_filled => LAG_SILENCE,
            false if video.is_some() => self.silence_wait,
            _ => return None,
        };
        // The time of what was held up on its way, all of it together, is still to come: nothing is filled
        // ahead of the picture.
        let shown = video.map(|video| video.reaches(end_us));
        Some(shown.max(Some(newest.arrival + Duration::from_micros(filled_us)))? + lag)
    }

    fn deliver(&mut self, context: &mut Context<'_>, payload: &RtpPayload<'_>, lost: u64) {
        context.stats.lost += lost;
        if self.source != Some((payload.epoch, payload.codec)) {
            // Another publisher, or another codec of the same.
            self.source = Some((payload.epoch, payload.codec));
            (self.is_format_sent, self.is_config_sent) = (false, false);
            (self.end_us, self.newest, self.silence_wait) = (None, None, SILENCE_WAIT_MAX);
        }
        if payload.media.is_empty() {
            return;
        }
        if payload.codec == Codec::Aac {
            return self.deliver_aac(context, payload, lost);
        }
        // How long it plays, and whether it says that nothing follows for a while.
        let length = match payload.codec {
            Codec::Opus => Toc::parse(&payload.media).map(|toc| (length_us(toc.samples), toc.silence)),
            // One byte a sample.
            _ => {
                let clock_rate = i64::from(payload.stamp.clock_rate.max(1));
                Some((payload.media.len() as i64 * 1_000_000 / clock_rate, false))
            }
        };
        let Some((length_us, is_pause)) = length else {
            tracing::trace!("dropped: broken audio");
            context.stats.broken += 1;
            return;
        };
        let time_us = context.clock.time_us(&payload.stamp);
        let arrived = Newest {
            arrival: payload.stamp.arrival,
            end_us: time_us + length_us,
            is_pause,
            is_filled: false,
        };
        let end_us = self.end_us.unwrap_or(time_us);
        if time_us + TOLERANCE_US < end_us {
            tracing::trace!(number = payload.number, "dropped: audio came after its time was filled");
            context.stats.late += 1;
            if end_us - time_us <= HOLE_US_MAX {
                // Nothing more is filled, so that what follows it finds its place, however late all of it is
                // from now on. Audio of longer ago is of a clock that was set: silence goes on meanwhile.
                (self.newest, self.silence_wait) = (Some(arrived), SILENCE_WAIT_MAX);
            }
            return;
        }
        let before = self.newest.replace(arrived);
        let was_silent = before.is_some_and(|before| before.is_filled && !before.is_pause);
        if was_silent {
            // There was nothing to come: a microphone that is switched off and on.
            self.silence_wait = (self.silence_wait / 2).max(LAG_SILENCE);
        }
        if payload.codec == Codec::Opus {
            self.toc = payload.media[0] & 0xfc;
        }
        while (TOLERANCE_US..=HOLE_US_MAX).contains(&(time_us - self.end_us.unwrap_or(time_us))) {
            self.fill(context);
        }
        self.end_us = Some(time_us + length_us);
        self.hand_on(context, time_us, &payload.media);
    }

    /// Access units of the publisher's AAC. What is missing is not filled: its length is not that of packets.
    fn deliver_aac(&mut self, context: &mut Context<'_>, payload: &RtpPayload<'_>, lost: u64) {
        let Some(mut aac) = self.own_aac.take() else { return };
        if lost > 0 {
            aac.depacketizer.abandon();
        }
        let time_us = context.clock.time_us(&payload.stamp);
        let unit_us = aac.samples * 1_000_000 / i64::from(aac.format.sample_rate.max(1));
        let format = Arc::clone(&aac.format);
        let read = aac.depacketizer.push(&payload.media, |at, unit| {
            let audio = CodedAudio {
                pts_us: time_us + at as i64 * unit_us,
                format: Some(Arc::clone(&format)),
                data: unit.to_vec(),
            };
            self.transcoded(context, &audio);
        });
        if read.is_err() {
            tracing::trace!("dropped: broken audio");
            context.stats.broken += 1;
        }
        self.own_aac = Some(aac);
    }

    /// A packet of nothing, where the audio has got to.
    fn fill(&mut self, context: &mut Context<'_>) {
        let (Some(end_us), Some((_, codec))) = (self.end_us, self.source) else { return };
        let nothing = [self.toc];
        let (packet, length_us) = match codec {
            Codec::Pcma => (&[0xd5; 160][..], 20_000),
            Codec::Pcmu => (&[0xff; 160][..], 20_000),
            _ => (&nothing[..], Toc::parse(&nothing).map_or(20_000, |toc| length_us(toc.samples))),
        };
        self.end_us = Some(end_us + length_us);
        self.hand_on(context, end_us, packet);
    }

    /// A packet in its place: to the transcoder, or as it is.
    fn hand_on(&mut self, context: &mut Context<'_>, time_us: i64, packet: &[u8]) {
        let Some((_, codec)) = self.source else { return };
        if codec == Codec::Opus && self.to_aac {
            let format = (!std::mem::replace(&mut self.is_format_sent, true)).then(|| {
                let record = opus_head(2).to_vec();
                Arc::new(CodecConfig { codec: Codec::Opus, record, sample_rate: 48_000, channels: 2 })
            });
            context.out.audio.push(CodedAudio { pts_us: time_us, format, data: packet.to_vec() });
            return;
        }
        let time = self.time(time_us);
        if !std::mem::replace(&mut self.is_config_sent, true) {
            let (rate, channels) = if codec == Codec::Opus { (48_000, 2) } else { (8_000, 1) };
            context.headers.audio((codec, rate, channels), time, context.out);
            if codec == Codec::Opus {
                push(context.out, FrameRole::Config, time, codec, opus_head(2).to_vec());
            }
        }
        // Not every decoder takes a packet without data for what it means.
        match Toc::parse(packet).filter(|toc| codec == Codec::Opus && toc.silence) {
            Some(toc) => push(context.out, FrameRole::Audio, time, codec, silence(toc.samples)),
            None => push(context.out, FrameRole::Audio, time, codec, packet.to_vec()),
        }
    }

    /// AAC from the transcoder.
    pub(super) fn transcoded(&mut self, context: &mut Context<'_>, audio: &CodedAudio) {
        let time = self.time(audio.pts_us);
        if let Some(format) = &audio.format
            && self.aac.as_ref() != Some(format)
        {
            self.aac = Some(Arc::clone(format));
            self.is_config_sent = false;
        }
        // Without a configuration nobody could decode it.
        let Some(format) = self.aac.clone().filter(|format| format.codec == Codec::Aac) else {
            tracing::trace!("dropped: broken audio");
            context.stats.broken += 1;
            return;
        };
        if !std::mem::replace(&mut self.is_config_sent, true) {
            let published = (Codec::Aac, format.sample_rate, format.channels);
            context.headers.audio(published, time, context.out);
            push(context.out, FrameRole::Config, time, Codec::Aac, format.record.clone());
        }
        push(context.out, FrameRole::Audio, time, Codec::Aac, audio.data.clone());
    }

    /// Stream time of a frame, never less than that of the one before.
    fn time(&mut self, time_us: i64) -> Timestamp {
        self.last = self.last.max(Timestamp::from_micros(time_us));
        self.last
    }
}

/// Samples at 48 kHz in microseconds.
fn length_us(samples: u16) -> i64 {
    i64::from(samples) * 1_000_000 / 48_000
}

/// An Opus packet that plays silence for so many samples at 48 kHz, in CELT frames of 20 ms or of what a
/// shorter one is.
fn silence(samples: u16) -> Vec<u8> {
    const FRAME: [u8; 2] = [0xff, 0xfe];
    let frames = samples / 960;
    let toc = match samples {
        ..240 => 0xe0,
        240..480 => 0xe8,
        480..960 => 0xf0,
        _ => 0xf8,
    };
    if frames <= 1 {
        return [&[toc][..], &FRAME].concat();
    }
    // Code 3: as many frames as the next byte says, all of one size.
    [&[toc | 3, frames as u8][..], &FRAME.repeat(usize::from(frames))].concat()
}

fn push(out: &mut FramesOut, role: FrameRole, time: Timestamp, codec: Codec, data: Vec<u8>) {
    let mut frame = Frame::new(TrackId::AUDIO, role, codec, (time, time), data);
    // G.711 has no configuration that would tell; the static payload types have one channel (RFC 3551 section
    // 6).
    frame.channels = u8::from(matches!(codec, Codec::Pcma | Codec::Pcmu));
    out.frames.push(Arc::new(frame));
}

/// Shortest wait for a missing packet: audio is seldom sent again, but packets overtake each other.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// Times that are off by less belong together: half a packet.
const TOLERANCE_US: i64 = 10_000;

/// Longest hole that is filled when its end is seen, in microseconds. What was silent for longer starts over.
const HOLE_US_MAX: i64 = 3_000_000;

/// Longest pause that is filled while nothing at all arrives: in DTX something comes every 400 ms (RFC 7587
/// section 3.1.3), in microseconds.
const ALONE_US_MAX: u64 = 2_000_000;

/// How far behind the clock a pause is filled.
const LAG_PAUSE: Duration = Duration::from_millis(100);

/// The same where no pause was announced, once silence is filled.
const LAG_SILENCE: Duration = Duration::from_millis(500);

/// How long nothing has to come before that begins, at most and at first: audio that is held up alone
/// comes in bursts, and players that wait for it lose none of it. Each silence that was true halves the
/// wait down to the lag; audio that comes too late restores it.
const SILENCE_WAIT_MAX: Duration = Duration::from_secs(2);
