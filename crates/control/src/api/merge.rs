//! One view from the views of several workers.
//!
//! A stream is known to its home worker (which has the publisher) and to every worker that has a
//! player of it; where both kinds of players are, a worker has a view of its frames and one of its
//! packets. What describes the media is taken from the publisher's view, or while there is none
//! from the first of those that get media; players are summed. Sessions belong to one worker each
//! and are only put in a row.

use super::types::{
    Audio, Bridge, Gop, IDS_MAX, KindName, Layer, Publisher, RoleName, Sections, Session, SessionList,
    SessionQuery, Stream, StreamState, Track, Video, address, codec_name,
};
use super::urls::Urls;
use crate::merged::{Merged, merged};
use crate::rtc::PlaybackOptions;
use worker_api::snapshot::{RtcLayerSnapshot, RtcTrackSnapshot, StreamSnapshot, TrackKind, WorkerSnapshot};
use worker_api::streams::NotBridged;

/// Most sessions of one page.
const PAGE_MAX: usize = 1000;
/// Sessions of a page when the request does not say.
const PAGE_DEFAULT: usize = 100;

/// Streams as the API shows them; `options` says how one (app and name) can be played.
pub(super) fn streams(
    workers: &[WorkerSnapshot],
    urls: &Urls<'_>,
    options: impl Fn(&str, &str) -> PlaybackOptions,
) -> Vec<Stream> {
    let merged = merged(workers);
    merged
        .iter()
        .map(|merged| stream(merged, urls, options(&merged.primary.app, &merged.primary.name)))
        .collect()
}

fn stream(merged: &Merged<'_>, urls: &Urls<'_>, options: PlaybackOptions) -> Stream {
    let view = merged.primary;
    let urls = urls.stream(&view.app, &view.name, &options);
    // A bridge that runs has seen more of the stream.
    let note = merged.bridge.and_then(|bridge| bridge.refused).map(NotBridged::Refused).or(options.note);
    Stream {
        app: view.app.clone(),
        name: view.name.clone(),
        state: if view.live { StreamState::Live } else { StreamState::Waiting },
        home_worker: merged.home,
        publisher: view.publisher.as_ref().map(|publisher| Publisher {
            session_id: publisher.session.to_string(),
            address: address(publisher.address),
            protocol: publisher.protocol.name().to_owned(),
            connected_seconds: publisher.connected_ms / 1000,
        }),
        uptime_seconds: view.uptime_ms / 1000,
        video: video(view),
        audio: audio(view),
        bitrate_bits_per_second: view.video_bits_per_second + view.audio_bits_per_second,
        players: merged.players,
        segment_viewers: 0,
        gop: Gop { frames: view.gop_frames, bytes: view.gop_bytes, duration_ms: view.gop_duration_ms },
        bytes_in: view.bytes_in,
        sections: Sections { cues: view.sections.cues, private: view.sections.private },
        recorded: false,
        tracks: view.tracks.iter().map(track).collect(),
        layers: layers(merged),
        bridge: merged.bridge.map(Bridge::from),
        not_bridged: note.map(|note| note.to_string()),
        urls,
    }
}

/// The video of a stream, of whichever kind it is; `None` if it has none, or nothing is known of it yet.
pub(crate) fn video(view: &StreamSnapshot) -> Option<Video> {
    let counted = Some(view.video_frames_per_second).filter(|rate| *rate > 0.0);
    let of_packets = || {
        let track = view.tracks.iter().find(|track| track.kind == TrackKind::Video)?;
        Some((codec_name(track.codec), track.format.as_ref()))
    };
    let of_frames = view.video.as_ref().map(|(codec, format)| (codec.to_string(), format.as_ref()));
    let (codec, format) = of_frames.or_else(of_packets)?;
    Some(Video {
        codec,
        profile: format.map(|format| format.profile.clone()),
        level: format.map(|format| format.level.clone()),
        width: format.map(|format| format.width),
        height: format.map(|format| format.height),
        frame_rate: format.and_then(|format| format.frame_rate).or(counted),
        bitrate_bits_per_second: view.video_bits_per_second,
        key_frame_interval_ms: Some(view.key_frame_interval_ms).filter(|interval| *interval > 0),
    })
}

fn audio(view: &StreamSnapshot) -> Option<Audio> {
    let of_frames = view.audio.as_ref().map(|(codec, format)| Audio {
        codec: codec.to_string(),
        profile: format.as_ref().map(|format| format.profile.clone()),
        sample_rate: format.as_ref().map(|format| format.sample_rate),
        channels: format.as_ref().map(|format| format.channels),
        bitrate_bits_per_second: view.audio_bits_per_second,
    });
    of_frames.or_else(|| {
        let track = view.tracks.iter().find(|track| track.kind == TrackKind::Audio)?;
        Some(Audio {
            codec: codec_name(track.codec),
            profile: None,
            sample_rate: Some(track.clock_rate),
            channels: track.channels,
            bitrate_bits_per_second: track.bits_per_second,
        })
    })
}

fn track(track: &RtcTrackSnapshot) -> Track {
    Track {
        kind: match track.kind {
            TrackKind::Audio => KindName::Audio,
            TrackKind::Video => KindName::Video,
        },
        codec: codec_name(track.codec),
        clock_rate: track.clock_rate,
        channels: track.channels,
        encodings: track.encodings,
        width: track.format.as_ref().map(|format| format.width),
        height: track.format.as_ref().map(|format| format.height),
        frame_rate: Some(track.frames_per_second).filter(|rate| *rate > 0.0),
        bitrate_bits_per_second: track.bits_per_second,
        key_frame_interval_ms: Some(track.key_frame_interval_ms).filter(|interval| *interval > 0),
    }
}

/// Layers of the first video track in the view of a worker.
fn layers_of(view: &StreamSnapshot) -> &[RtcLayerSnapshot] {
    let video = view.tracks.iter().find(|track| track.kind == TrackKind::Video);
    video.map_or(&[], |video| &video.layers)
}

/// The same with the players of all workers.
fn layers(merged: &Merged<'_>) -> Vec<Layer> {
    let of_layer = |layer: &RtcLayerSnapshot| {
        let others = merged.others.iter().flat_map(|view| layers_of(view));
        let same = others.filter(|other| other.layer == layer.layer);
        let mut with_others = Layer::from(layer);
        with_others.viewers += same.map(|other| other.viewers).sum::<u64>();
        with_others
    };
    layers_of(merged.primary).iter().map(of_layer).collect()
}

/// The page of sessions that `query` asks for, ordered by id, which is by worker and then by age.
pub(super) fn sessions(workers: &[WorkerSnapshot], query: &SessionQuery) -> SessionList {
    let matches = |session: &&worker_api::snapshot::SessionSnapshot| {
        query.stream.as_ref().is_none_or(|stream| session.stream.as_ref() == Some(stream))
            && query.role.is_none_or(|role| RoleName::from(session.role) == role)
    };
    let mut found: Vec<_> = workers.iter().flat_map(|worker| &worker.sessions).filter(matches).collect();
    found.sort_unstable_by_key(|session| session.id);
    let default = if query.ids.is_some() { IDS_MAX } else { PAGE_DEFAULT };
    let limit = query.limit.unwrap_or(default).min(PAGE_MAX);
    let page = found.iter().skip(query.offset).take(limit).map(|session| Session::from(*session)).collect();
    SessionList { sessions: page, total: found.len() }
}
