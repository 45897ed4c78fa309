//! Video on its way to packets.

use std::sync::Arc;

use live::flv::{Body, BodyKind, Codec as FlvCodec, video_body};
use rtp::packetize::{Sender, h264};
use rtp::payload::Codec;

use super::{PacketsOut, PublishedVideo, ToPacketsSettings, ToPacketsStats};
use crate::numbers::{VIDEO_SSRC, payload_type};

/// The video track of a bridge.
#[derive(Debug)]
pub(super) struct Video {
    pub(super) sender: Sender,
    /// The sequence header the state below was made of.
    record: Vec<u8>,
    length_size: usize,
    /// Parameter sets, repeated ahead of key frames.
    sets: Vec<Vec<u8>>,
    published: Option<PublishedVideo>,
    refused: Option<Arc<str>>,
    waits_for_key: bool,
}

impl Video {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(VIDEO_SSRC, 0),
            record: Vec::new(),
            length_size: 4,
            sets: Vec::new(),
            published: None,
            refused: None,
            waits_for_key: true,
        }
    }

    pub(super) fn restart(&mut self) {
        *self = Self { sender: self.sender, ..Self::new() };
    }

    pub(super) fn published(&self) -> Option<&PublishedVideo> {
        self.published.as_ref()
    }

    pub(super) fn refused(&self) -> Option<&Arc<str>> {
        self.refused.as_ref()
    }

    pub(super) fn take_warning(&mut self) -> Option<&'static str> {
        None
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
        let Ok(body) = video_body(body) else {
            stats.broken += 1;
            return false;
        };
        match (body.codec, body.kind) {
            (FlvCodec::H264, BodyKind::Config) => self.config(&body, stats),
            (FlvCodec::H264, BodyKind::Frames) if self.published.is_some() => {
                self.picture(settings, time_ms, &body, stats, out);
                false
            }
            (FlvCodec::H264, _) | (_, BodyKind::Other | BodyKind::End) => false,
            (codec, _) => {
                let reason = format!("video: {codec} is not sent by WebRTC");
                let changed = self.refused.as_deref() != Some(&reason);
                self.published = None;
                self.refused = Some(reason.into());
                changed
            }
        }
    }

    fn config(&mut self, body: &Body<'_>, stats: &mut ToPacketsStats) -> bool {
        if body.data == self.record && self.published.is_some() {
            return false;
        }
        let Some(sets) = parameter_sets(body.data) else {
            stats.broken += 1;
            return false;
        };
        self.record = body.data.to_vec();
        self.length_size = usize::from(body.data[4] & 3) + 1;
        self.sets = sets;
        self.waits_for_key = true;
        let [_, profile, constraints, level, ..] = *body.data else { return false };
        let fmtp = format!(
            "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id={profile:02x}{constraints:02x}{level:02x}"
        );
        self.published = Some(PublishedVideo { codec: Codec::H264, fmtp });
        self.refused = None;
        true
    }

    fn picture(
        &mut self,
        settings: &ToPacketsSettings,
        time_ms: i64,
        body: &Body<'_>,
        stats: &mut ToPacketsStats,
        out: &mut PacketsOut,
    ) {
        if self.waits_for_key && !body.is_key {
            return;
        }
        let pts_us = (time_ms + i64::from(body.composition_ms)) * 1_000 + i64::from(body.offset_ns / 1_000);
        let mut writer = self.sender.frame(payload_type(Codec::H264), timestamp(pts_us), &mut out.packets);
        let sets = self.sets.iter().map(Vec::as_slice).filter(|_| body.is_key);
        let sent = units(body.data, self.length_size)
            .filter(|unit| !unit.is_empty() && !matches!(unit[0] & 0x1f, 7..=9 | 12));
        h264::packetize(sets.chain(sent), settings.payload_bytes_max, &mut writer);
        if writer.end_frame(true) > 0 {
            stats.video_frames += 1;
            self.waits_for_key = false;
        } else {
            stats.broken += 1;
        }
    }
}

/// RTP timestamp of a stream time.
pub(super) fn timestamp(time_us: i64) -> u32 {
    (i128::from(time_us) * 9).div_euclid(100) as u32
}

fn units(mut data: &[u8], length_size: usize) -> impl Iterator<Item = &[u8]> + Clone {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_at_checked(length_size)?;
        let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        let (unit, rest) = rest.split_at_checked(length)?;
        data = rest;
        Some(unit)
    })
}

fn parameter_sets(record: &[u8]) -> Option<Vec<Vec<u8>>> {
    let [1, _, _, _, _, sps_count, ..] = *record else { return None };
    let mut sets = Vec::new();
    let mut rest = take_sets(&record[6..], sps_count & 0x1f, &mut sets)?;
    let pps_count = *rest.first()?;
    rest = &rest[1..];
    take_sets(rest, pps_count, &mut sets)?;
    (!sets.is_empty()).then_some(sets)
}

fn take_sets<'a>(mut rest: &'a [u8], count: u8, sets: &mut Vec<Vec<u8>>) -> Option<&'a [u8]> {
    for _ in 0..count {
        let (bytes, tail) = rest.split_first_chunk()?;
        let (set, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*bytes)))?;
        if set.is_empty() {
            return None;
        }
        sets.push(set.to_vec());
        rest = tail;
    }
    Some(rest)
}
