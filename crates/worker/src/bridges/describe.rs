//! What a stream of frames is as packets, in the words of session descriptions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::bridge::PublishedFormats;
use rtc::sdp::{Feedback, Format, Source, TrackDescription};
use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};
use sfu::PublisherInput;

use super::Machine;
use super::begin::frame_to_rtp_settings;
use crate::event_loop::Worker;
use crate::ids::FrameStreamId;
use crate::packets::inputs;
use crate::registry::{Origin, PublishedTracks, WebrtcAvailability};
use worker_api::streams::NotBridged;

/// How long a publisher that has sent only audio, or only video, may still come with the other, milliseconds.
const KINDS_MS: u64 = 500;

/// How often a publisher is looked at as soon as it says something new; from then on every [`KINDS_MS`] at
/// most, so that headers without end cost no more than others.
const DESCRIBES_AT_ONCE: u8 = 8;

/// The publisher that a bridge is to the stream of packets: it may send any codec at any time, so that a
/// publisher that comes back with another needs no new one.
pub(super) fn virtual_publisher() -> PublisherInput {
    let all = |kind: MediaKind| {
        let formats = rtp::payload::CODECS.into_iter().filter(|codec| codec.kind() == kind);
        track(kind, formats.map(|codec| format(codec, String::new())).collect())
    };
    inputs::publisher(&[all(MediaKind::Audio), all(MediaKind::Video)])
}

/// The tracks of what is really there.
pub(super) fn tracks(formats: &PublishedFormats) -> PublishedTracks {
    let audio = formats.audio.map(|codec| track(MediaKind::Audio, vec![format(codec, String::new())]));
    let video = formats.video.as_ref();
    let video = video.map(|video| track(MediaKind::Video, vec![format(video.codec, video.fmtp.clone())]));
    audio.into_iter().chain(video).collect()
}

/// The same as an answer for players.
fn bridged(formats: &PublishedFormats) -> WebrtcAvailability {
    let tracks = tracks(formats);
    match (formats.refused.map(NotBridged::Refused), tracks.is_empty()) {
        (Some(reason), true) => WebrtcAvailability::Impossible(reason),
        (None, true) => WebrtcAvailability::Unknown,
        (refused, false) => WebrtcAvailability::Tracks(tracks, refused),
    }
}

fn track(kind: MediaKind, formats: Vec<Format>) -> TrackDescription {
    let ssrc = match kind {
        MediaKind::Audio => ::bridge::AUDIO_SSRC,
        _ => ::bridge::VIDEO_SSRC,
    };
    TrackDescription {
        mid: String::new(),
        kind,
        formats,
        extensions: ExtensionMap::default(),
        sources: vec![Source { ssrc, rtx_ssrc: None }],
        extmap_allow_mixed: false,
        rids: Vec::new(),
        red: None,
        fec: None,
    }
}

fn format(codec: Codec, fmtp: String) -> Format {
    Format {
        payload_type: ::bridge::payload_type(codec),
        codec,
        clock_rate: rtp::payload::clock_rate(codec),
        // RFC 7587 section 7: Opus is always described with two.
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp,
        rtx_payload_type: None,
        feedback: Feedback::default(),
    }
}

impl Worker {
    /// Tells the directory what the frames of a publisher here would be as packets; call it when what is
    /// known of it is new.
    pub(crate) fn describe_as_packets(&mut self, stream: FrameStreamId) {
        let local = &self.frames.streams[stream];
        let Some(source) =
            local.publication.source.filter(|source| matches!(source.origin, Origin::Connection(_)))
        else {
            return;
        };
        // What a bridge has found out costs nothing to tell, and may have to end players.
        let made = local.description.made;
        if made == DESCRIBES_AT_ONCE && local.publication.bridge.is_none() {
            if local.description.due_ms.is_none() {
                self.describe_later(stream);
            }
            return;
        }
        self.frames.streams[stream].description.made = (made + 1).min(DESCRIBES_AT_ONCE);
        let local = &self.frames.streams[stream];
        let running = local.publication.bridge.and_then(|bridge| self.bridges.slab.get(bridge));
        let probed;
        let formats = match running.map(|bridge| &bridge.machine) {
            Some(Machine::FrameToRtp(machine)) => Some(machine.formats()),
            _ => {
                probed = catch_unwind(AssertUnwindSafe(|| self.probe(stream))).ok();
                if probed.is_none() {
                    self.ctx.counters.panics += 1;
                    tracing::error!("a defect in the server: a stream is not bridged");
                }
                probed.as_ref()
            }
        };
        // The headers of audio and video come one after the other: who came in between would be answered
        // without a picture.
        let is_early = self.ctx.now_ms - local.publication.live_since_ms < KINDS_MS;
        let is_one_kind = |formats: &PublishedFormats| {
            formats.refused.is_none() && formats.video.is_some() != formats.audio.is_some()
        };
        let bridged = match formats {
            None => WebrtcAvailability::Impossible(NotBridged::Bug),
            Some(formats) if is_early && is_one_kind(formats) => WebrtcAvailability::Unknown,
            Some(formats) => bridged(formats),
        };
        // Some codecs say what they are only with their first key frame.
        let is_unknown = bridged == WebrtcAvailability::Unknown;
        let (key, epoch, codecs) = (&local.publication.key, source.epoch, self.codecs(stream));
        self.ctx.directory.set_formats(key, epoch, bridged, codecs);
        self.frames.streams[stream].description.due_ms = None;
        if is_unknown {
            self.describe_later(stream);
        }
    }

    fn describe_later(&mut self, stream: FrameStreamId) {
        let at_ms = self.ctx.now_ms + KINDS_MS;
        self.frames.streams[stream].description.due_ms = Some(at_ms);
        self.bridges.descriptions.push_back((at_ms, stream));
    }

    /// Formats of the stream in packets, by what a new player would begin with.
    fn probe(&self, stream: FrameStreamId) -> PublishedFormats {
        let local = &self.frames.streams[stream];
        let ended = local.delivery.ended().map(|header| &**header);
        let headers = local.delivery.headers().iter().map(|header| &**header);
        let first = local.description.first.iter().flatten().map(|frame| &**frame);
        let cached = local.delivery.gop().frames().map(|(_, frame)| &**frame);
        let settings = frame_to_rtp_settings(local.settings.bridge);
        ::bridge::describe(&settings, ended, headers.chain(first).chain(cached))
    }

    /// Codecs of the stream, each once.
    fn codecs(&self, stream: FrameStreamId) -> Vec<Codec> {
        let mut codecs = Vec::new();
        let local = &self.frames.streams[stream];
        let headers = local.delivery.headers().iter();
        for frame in headers.chain(local.description.first.iter().flatten()) {
            let is_media = frame.track.kind != MediaKind::Data;
            if is_media && !codecs.contains(&frame.codec) {
                codecs.push(frame.codec);
            }
        }
        codecs
    }

    /// Describes again what could not be described yet.
    pub(super) fn describe_late(&mut self) {
        let now_ms = self.ctx.now_ms;
        while let Some((at_ms, stream)) =
            self.bridges.descriptions.pop_front_if(|(at_ms, _)| *at_ms <= now_ms)
        {
            let local = self.frames.streams.get_mut(stream);
            let description = local.map(|local| &mut local.description);
            if let Some(description) = description.filter(|description| description.due_ms == Some(at_ms)) {
                (description.due_ms, description.made) = (None, DESCRIBES_AT_ONCE - 1);
                self.describe_as_packets(stream);
            }
        }
    }
}
