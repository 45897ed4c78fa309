//! What a stream of frames is as packets, in the words of session descriptions.

use std::sync::Arc;

use ::bridge::{PacketsOut, PublishedFormats, ToPackets};
use relay::packets::PublisherInput;
use rtc::sdp::{Feedback, Format, Source, TrackDescription};
use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};

use super::begin::to_packets_settings;
use crate::worker::directory::{Bridged, Origin, PublishedTracks};
use crate::worker::engine::Worker;
use crate::worker::rtc::inputs;

/// Why a player of the other kind gets nothing where bridges are off.
const OFF: &str = "the stream is published by RTMP, and bridges to WebRTC are off for this application";

/// The publisher that a bridge is to the stream of packets: it may send any codec at any time, so that a publisher that
/// comes back with another needs no new one.
pub(super) fn virtual_publisher() -> PublisherInput {
    let all = |kind: MediaKind| {
        let formats = Codec::ALL.into_iter().filter(|codec| codec.kind() == kind);
        track(kind, formats.map(|codec| format(codec, String::new())).collect())
    };
    inputs::publisher(&[all(MediaKind::Audio), all(MediaKind::Video)])
}

/// The tracks of what is really there.
pub(super) fn tracks(formats: &PublishedFormats) -> PublishedTracks {
    let sound = formats.sound.map(|codec| track(MediaKind::Audio, vec![format(codec, String::new())]));
    let video = formats.video.as_ref();
    let video = video.map(|video| track(MediaKind::Video, vec![format(video.codec, video.fmtp.clone())]));
    sound.into_iter().chain(video).collect()
}

/// The same as an answer for players. Of a stream with video (`has_video`) sound alone is not offered: who asks for it
/// would wait for a picture.
pub(super) fn bridged(formats: &PublishedFormats, has_video: bool) -> Bridged {
    let tracks = tracks(formats);
    match (&formats.refused, tracks.is_empty() || has_video && formats.video.is_none()) {
        (Some(reason), true) => Bridged::Impossible(Arc::clone(reason)),
        (None, true) => Bridged::Unknown,
        (refused, false) => Bridged::Tracks(tracks, refused.clone()),
    }
}

fn track(kind: MediaKind, formats: Vec<Format>) -> TrackDescription {
    let ssrc = match kind {
        MediaKind::Audio => ::bridge::SOUND_SSRC,
        MediaKind::Video => ::bridge::VIDEO_SSRC,
    };
    TrackDescription {
        mid: String::new(),
        kind,
        formats,
        extensions: ExtensionMap::default(),
        sources: vec![Source { ssrc, rtx_ssrc: None }],
        extmap_allow_mixed: false,
        rids: Vec::new(),
    }
}

fn format(codec: Codec, fmtp: String) -> Format {
    Format {
        payload_type: ::bridge::payload_type(codec),
        codec,
        clock_rate: codec.clock_rate(),
        // RFC 7587 section 7: Opus is always described with two.
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp,
        rtx_payload_type: None,
        feedback: Feedback::default(),
    }
}

impl Worker {
    /// Tells the directory what the frames of a publisher here would be as packets; call it when its headers are new.
    pub(in crate::worker) fn describe_as_packets(&mut self, stream: usize) {
        let local = &self.streams.slab[stream];
        let Some(source) = local.source.filter(|source| matches!(source.origin, Origin::Session(_))) else {
            return;
        };
        // A bridge that runs knows better, and says so itself.
        if local.bridge.is_some() {
            return;
        }
        let bridged = if local.settings.bridge.enabled {
            // What a bridge would say that had seen what new players begin with.
            let mut probe = ToPackets::new(to_packets_settings(local.settings.bridge), self.now);
            let mut out = PacketsOut::default();
            local.relay.headers().iter().for_each(|header| probe.frame(self.now, 0, header, &mut out));
            for (time_ms, frame) in local.relay.gop().frames() {
                out.clear();
                probe.frame(self.now, *time_ms, frame, &mut out);
            }
            bridged(probe.formats(), local.video.is_some())
        } else {
            Bridged::Impossible(OFF.into())
        };
        self.parts.directory.set_bridged(&local.key, source.epoch, bridged);
    }
}
