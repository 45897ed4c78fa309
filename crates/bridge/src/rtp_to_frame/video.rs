//! The track of video: packets in order to frames, each with its time.
//!
//! After a loss nothing is handed out before the next key frame: what is predicted from what is missing looks
//! broken, and a picture that stands still for a round trip does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use media::config::Record;
use media::{Frame, FrameRole, Timestamp, TrackId};
use rtp::depacketize::{Broken, Depacketizer};
use rtp::payload::{Codec, inspect};

use super::key_frames::KeyFrames;
use super::picture::{NoPicture, ParameterSets, Picture};
use super::{Context, RtpPayload, RtpToFrameSettings};
use crate::reorder_buffer::{Arrival, ReorderBuffer};

#[derive(Debug)]
pub(super) struct Video {
    reorder: ReorderBuffer<RtpPayload<'static>>,
    depacketizer: Depacketizer,
    epoch: Option<u64>,
    /// The frame under way.
    frame: Option<UnderWay>,
    sets: ParameterSets,
    /// Parameter sets of the publisher's SDP.
    sets_of_sdp: Vec<Vec<u8>>,
    record: Option<Record>,
    awaits_key: bool,
    key_frames: KeyFrames,
    /// Decoding time of the newest frame.
    last: Timestamp,
    playing: Option<Playing>,
}

/// How far the newest frame of which something came is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Playing {
    arrival: Instant,
    time_us: i64,
}

impl Playing {
    /// When the picture got or will get to this stream time, if it goes on as it does.
    pub(super) fn reaches(self, time_us: i64) -> Instant {
        let distance = Duration::from_micros(time_us.abs_diff(self.time_us));
        match time_us < self.time_us {
            true => self.arrival.checked_sub(distance).unwrap_or(self.arrival),
            false => self.arrival + distance,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    timestamp: u32,
    time_us: i64,
    last_arrival: Instant,
}

impl Video {
    pub(super) fn new(settings: &RtpToFrameSettings) -> Self {
        Self {
            reorder: ReorderBuffer::new(settings.delay_max, settings.delay_max),
            depacketizer: Depacketizer::new(Codec::H264),
            epoch: None,
            frame: None,
            sets: ParameterSets::default(),
            sets_of_sdp: Vec::new(),
            record: None,
            awaits_key: true,
            key_frames: KeyFrames::new(settings.key_frame_interval_max),
            last: Timestamp::ZERO,
            playing: None,
        }
    }

    /// Parameter sets of the publisher's SDP.
    pub(super) fn set_sets_of_sdp(&mut self, sets: Vec<Vec<u8>>) {
        self.sets_of_sdp = sets;
    }

    pub(super) fn arrive(&mut self, context: &mut Context<'_>, payload: &RtpPayload<'_>) {
        match self.reorder.arrive(context.now, payload.number, || payload.to_owned()) {
            Arrival::Next => self.deliver(context, payload, 0),
            Arrival::Held => {}
            Arrival::Late => {
                tracing::trace!(number = payload.number, "dropped: video packet came too late");
                context.stats.late += 1;
            }
        }
        self.poll(context);
    }

    /// Hands on what has waited long enough, and asks for key frames.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        while let Some(due) = self.reorder.pop(context.now) {
            self.deliver(context, &due.packet, due.lost);
        }
        if self.epoch.is_some() && self.key_frames.poll(context.now, self.awaits_key) {
            context.out.key_frame_wanted = true;
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.reorder.next_timeout()
    }

    /// Where it has got to, unless it has stopped.
    pub(super) fn playing(&self, now: Instant) -> Option<Playing> {
        self.playing.filter(|playing| now.saturating_duration_since(playing.arrival) < LIVE)
    }

    fn deliver(&mut self, context: &mut Context<'_>, payload: &RtpPayload<'_>, lost: u64) {
        if self.epoch != Some(payload.epoch) || self.depacketizer.codec() != payload.codec {
            // Another publisher, or another codec of the same.
            self.depacketizer = Depacketizer::new(payload.codec);
            self.epoch = Some(payload.epoch);
            (self.frame, self.record) = (None, None);
            self.sets.clear();
            self.sets.put(payload.codec, &self.sets_of_sdp);
            self.awaits_key = true;
        }
        if lost > 0 {
            context.stats.lost += lost;
            self.awaits_key = true;
            if self.frame.is_some_and(|frame| frame.timestamp != payload.stamp.timestamp) {
                // Its end is what was lost, or all of it but its end.
                tracing::trace!("dropped: broken video");
                context.stats.broken += 1;
                self.depacketizer.abandon();
                self.frame = None;
            }
            let starts =
                inspect(payload.codec, &payload.media, payload.marker).is_some_and(|info| info.starts_frame);
            if (self.frame.is_some() || !starts) && !self.depacketizer.is_broken() {
                tracing::trace!("dropped: broken video");
                context.stats.broken += 1;
                self.depacketizer.break_frame(Broken::MissingStart);
            }
        }
        // What the publisher padded with fills its place, and no more.
        if payload.media.is_empty() {
            return;
        }
        if self.frame.is_some_and(|frame| frame.timestamp != payload.stamp.timestamp) {
            self.finish(context);
        }
        let time_us = match self.frame {
            Some(frame) => frame.time_us,
            None => {
                let time_us = context.clock.time_us(&payload.stamp);
                self.playing = Some(Playing { arrival: payload.stamp.arrival, time_us });
                time_us
            }
        };
        let last_arrival =
            self.frame.map_or(payload.stamp.arrival, |frame| frame.last_arrival.max(payload.stamp.arrival));
        self.frame = Some(UnderWay { timestamp: payload.stamp.timestamp, time_us, last_arrival });
        if self.depacketizer.push(&payload.media).is_err() {
            tracing::trace!("dropped: broken video");
            context.stats.broken += 1;
            self.awaits_key = true;
        }
        if payload.marker {
            self.finish(context);
        }
    }

    /// The frame under way has all its packets.
    fn finish(&mut self, context: &mut Context<'_>) {
        let Some(under_way) = self.frame.take() else { return };
        let codec = self.depacketizer.codec();
        // What breaks while it is put together was counted then.
        let was_counted = self.depacketizer.is_broken();
        let read = match self.depacketizer.finish() {
            Ok(frame) => Picture::read(codec, &frame, &mut self.sets).map(|picture| (picture, frame)),
            Err(Broken::Empty) => Err(NoPicture::Nothing),
            Err(_) => Err(NoPicture::Broken),
        };
        match read {
            Ok((picture, _)) if self.awaits_key && !picture.is_key => {
                tracing::trace!("dropped: a picture ahead of the key frame it needs");
                context.stats.undecodable += 1;
            }
            Ok((picture, frame)) => {
                // Decoding times never go back; where pictures are not sent in the order they are shown,
                // showing times do.
                let pts = Timestamp::from_micros(under_way.time_us.max(0));
                let dts = pts.max(self.last);
                self.last = dts;
                if let Some(record) = &picture.record {
                    self.key_frames.came(context.now);
                    self.awaits_key = false;
                    if self.record.as_ref() != Some(record) {
                        context.headers.video(codec, record, dts, context.out);
                        let (role, data) = (FrameRole::Config, record.bytes.clone());
                        let config = Frame::new(TrackId::VIDEO, role, codec, (dts, dts), data);
                        context.out.frames.push(Arc::new(config));
                        self.record = Some(record.clone());
                    }
                }
                let role = if picture.is_key { FrameRole::Key } else { FrameRole::Inter };
                let frame = Frame::new(TrackId::VIDEO, role, codec, (dts, pts), picture.data(&frame));
                context.out.frames.push(Arc::new(frame));
                context.stats.video_frames += 1;
                let latency = context.now.saturating_duration_since(under_way.last_arrival);
                context.stats.video_latency = Some(latency);
            }
            Err(NoPicture::Nothing) => {}
            Err(NoPicture::Broken) => {
                context.stats.broken += u64::from(!was_counted);
                self.awaits_key = true;
            }
        }
    }
}

/// Video of which nothing came for this long has stopped.
const LIVE: Duration = Duration::from_secs(1);
