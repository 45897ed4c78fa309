//! Shapes of the API's answers. Field names carry their units; everything optional is present as null.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use worker_api::command::Listed;
use worker_api::snapshot::{
    BridgeDirection, BridgeSnapshot, Role, RtcLayer, RtcLayerSnapshot, RtcPathSnapshot, RtcSessionSnapshot,
    SessionId, SessionSnapshot, SrtSessionSnapshot, WorkerSnapshot,
};

use super::reason::reason;

/// What kind of server this is and how it can be reached.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerInfo {
    #[schema(example = "Millstream")]
    pub(super) name: String,
    pub(super) version: String,
    pub(super) uptime_seconds: u64,
    /// RFC 3339.
    pub(super) started_at: String,
    /// Number of workers.
    pub(super) workers: usize,
    /// Its name in its cluster, see `/api/v1/cluster`; null for a single node.
    pub(super) cluster_node: Option<String>,
    /// `app/name` of the demo channel when one runs.
    pub(super) demo_stream: Option<String>,
    pub(super) endpoints: Endpoints,
    pub(super) publish: PublishRules,
    /// Whether streams can be recorded: a directory is configured.
    pub(super) recording: bool,
}

/// Base URLs by protocol; a protocol that is off has none.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Endpoints {
    pub(super) rtmp: Vec<String>,
    pub(super) rtmps: Vec<String>,
    pub(super) http: Vec<String>,
    pub(super) https: Vec<String>,
    /// Streams are published at `{base}/{app}/{stream}` (RFC 9725).
    pub(super) whip: Vec<String>,
    /// Streams are played at `{base}/{app}/{stream}`.
    pub(super) whep: Vec<String>,
    /// The list of recordings and files that are played on demand.
    pub(super) vod: Vec<String>,
}

/// What publishing takes, for instructions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PublishRules {
    /// No stream can be published from another machine.
    pub(super) loopback_only: bool,
    /// Some or all streams need a token.
    pub(super) token_required: bool,
}

/// All streams.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StreamList {
    pub(super) streams: Vec<Stream>,
}

/// One stream, over all workers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stream {
    pub(super) app: String,
    pub(super) name: String,
    pub(super) state: StreamState,
    /// Worker that has the publisher; null while there is none.
    pub(super) home_worker: Option<usize>,
    pub(super) publisher: Option<Publisher>,
    /// Since the publisher began; 0 while there is none.
    pub(super) uptime_seconds: u64,
    pub(super) video: Option<Video>,
    pub(super) audio: Option<Audio>,
    pub(super) bitrate_bits_per_second: u64,
    /// Players on all workers.
    pub(super) players: u64,
    /// Viewers by HLS and DASH: addresses with a `User-Agent` and a token that have asked for
    /// something of the stream within three target durations. They are not among `players`.
    pub(super) segment_viewers: u64,
    pub(super) gop: Gop,
    /// Media bytes since the stream was first seen.
    pub(super) bytes_in: u64,
    pub(super) sections: Sections,
    /// Whether it is being recorded.
    pub(super) recorded: bool,
    /// Tracks of a stream that is published as packets (WHIP); empty otherwise.
    pub(super) tracks: Vec<Track>,
    /// What WHEP players can be given of the first video track, from the least bits to the most: simulcast
    /// encodings and layers inside them. Empty for streams that are not published as packets.
    pub(super) layers: Vec<Layer>,
    /// What serves players of the other kind; null while there is none of them.
    pub(super) bridge: Option<Bridge>,
    /// What of the stream players of the other kind do not get, and why; null when they get all, as
    /// far as is known.
    pub(super) not_bridged: Option<String>,
    pub(super) urls: StreamUrls,
}

/// A bridge of a stream, between its publisher and players of the other kind. Totals are since it started.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Bridge {
    pub(super) direction: DirectionName,
    pub(super) running_seconds: f64,
    /// Frames of video that were taken in or made.
    pub(super) video_frames: u64,
    /// RTP packets that were made or taken in.
    pub(super) packets: u64,
    /// Audio frames that were transcoded.
    pub(super) audio_frames: u64,
    /// CPU time on the worker.
    pub(super) cpu_seconds: f64,
    /// CPU time on transcoding threads.
    pub(super) transcoding_cpu_seconds: f64,
    /// What it adds to the delay of video: median of the last second.
    pub(super) video_latency_ms: f64,
    /// The same of audio, transcoding included.
    pub(super) audio_latency_ms: f64,
    /// B-frames left out.
    pub(super) b_frames_dropped: u64,
    /// Frames or packets that were malformed, late or incomplete.
    pub(super) broken: u64,
    /// Audio frames the transcoder had no room for.
    pub(super) audio_dropped: u64,
}

impl From<&BridgeSnapshot> for Bridge {
    fn from(bridge: &BridgeSnapshot) -> Self {
        Self {
            direction: bridge.direction.into(),
            running_seconds: bridge.running_ms as f64 / 1e3,
            video_frames: bridge.video_frames,
            packets: bridge.packets,
            audio_frames: bridge.audio_frames,
            cpu_seconds: bridge.cpu_us as f64 / 1e6,
            transcoding_cpu_seconds: bridge.transcoding_cpu_us as f64 / 1e6,
            video_latency_ms: f64::from(bridge.video_latency_us) / 1e3,
            audio_latency_ms: f64::from(bridge.audio_latency_us) / 1e3,
            b_frames_dropped: bridge.b_frames_dropped,
            broken: bridge.broken,
            audio_dropped: bridge.audio_dropped,
        }
    }
}

/// Which way a bridge goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DirectionName {
    /// Published by RTMP, played by WHEP.
    RtmpToWebrtc,
    /// Published by WHIP, played by RTMP and FLV.
    WebrtcToRtmp,
}

impl From<BridgeDirection> for DirectionName {
    fn from(direction: BridgeDirection) -> Self {
        match direction {
            BridgeDirection::FrameToRtp => Self::RtmpToWebrtc,
            BridgeDirection::RtpToFrame => Self::WebrtcToRtmp,
        }
    }
}

/// One track of a stream that is published as packets.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Track {
    pub(super) kind: KindName,
    #[schema(example = "H.264")]
    pub(super) codec: String,
    /// RTP clock rate.
    pub(super) clock_rate: u32,
    pub(super) channels: Option<u8>,
    /// Simulcast encodings that arrive.
    pub(super) encodings: u8,
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
    /// Counted over the last second.
    pub(super) frame_rate: Option<f32>,
    /// Of all encodings.
    pub(super) bitrate_bits_per_second: u64,
    pub(super) key_frame_interval_ms: Option<u32>,
}

/// A layer of the video that players can be given.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Layer {
    /// The encoding by its RID, or by its number where the publisher gave none.
    #[schema(example = "h")]
    pub(super) name: String,
    /// The highest spatial layer of the encoding, if not all.
    pub(super) spatial: Option<u8>,
    /// The highest temporal layer of the encoding, if not all.
    pub(super) temporal: Option<u8>,
    /// Of the last second or two, with the layers that it needs; 0 until known.
    pub(super) bits_per_second: u64,
    /// Whether it arrives at present.
    pub(super) live: bool,
    /// Width of its pictures, if known.
    #[schema(example = 1280)]
    pub(super) width: Option<u16>,
    /// Height of its pictures, if known.
    #[schema(example = 720)]
    pub(super) height: Option<u16>,
    /// Players that get it, on all workers.
    pub(super) viewers: u64,
}

impl From<&RtcLayerSnapshot> for Layer {
    fn from(layer: &RtcLayerSnapshot) -> Self {
        let RtcLayer { name, spatial, temporal } = layer.layer.clone();
        let RtcLayerSnapshot { bits_per_second, is_live: live, viewers, size, .. } = *layer;
        let (width, height) = size.unzip();
        Self { name, spatial, temporal, bits_per_second, live, width, height, viewers }
    }
}

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindName {
    Audio,
    Video,
}

/// Whether media comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StreamState {
    /// A publisher is there.
    Live,
    /// Players wait for a publisher.
    Waiting,
}

/// Who publishes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Publisher {
    pub(super) session_id: String,
    /// `IP:PORT`.
    pub(super) address: String,
    pub(super) protocol: String,
    pub(super) connected_seconds: u64,
}

/// Video, as far as its headers say.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Video {
    #[schema(example = "H.264")]
    pub(crate) codec: String,
    pub(crate) profile: Option<String>,
    pub(crate) level: Option<String>,
    pub(crate) width: Option<u32>,
    pub(crate) height: Option<u32>,
    /// Declared by the stream, or counted over the last second.
    pub(crate) frame_rate: Option<f32>,
    pub(crate) bitrate_bits_per_second: u64,
    pub(crate) key_frame_interval_ms: Option<u32>,
}

/// Audio, as far as its headers say.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Audio {
    #[schema(example = "AAC")]
    pub(super) codec: String,
    pub(super) profile: Option<String>,
    pub(super) sample_rate: Option<u32>,
    pub(super) channels: Option<u8>,
    pub(super) bitrate_bits_per_second: u64,
}

/// What a new player gets at once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Gop {
    pub(super) frames: u32,
    pub(super) bytes: u64,
    pub(super) duration_ms: u32,
}

/// What publishers by MPEG-TS sent besides tracks since the stream was first seen. It goes to players and
/// pushes by MPEG-TS.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sections {
    /// Cues of SCTE 35.
    pub(super) cues: u64,
    /// Private sections.
    pub(super) private: u64,
}

/// Where to watch a stream; empty when the protocol is off, or when what is published cannot be
/// played that way (`not_bridged` says why).
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct StreamUrls {
    pub(super) rtmp: String,
    pub(super) flv: String,
    pub(super) ws_flv: String,
    pub(super) ts: String,
    pub(super) hls: String,
    pub(super) dash: String,
    pub(super) whep: String,
}

/// Which sessions to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionQuery {
    /// Only those of this stream, as `app/name`.
    pub(super) stream: Option<String>,
    /// Only those of this role.
    pub(super) role: Option<RoleName>,
    /// Sessions to skip.
    #[param(default = 0)]
    pub(super) offset: usize,
    /// Sessions to list, at most 1000; 100 when left out.
    #[param(default = 100, maximum = 1000)]
    pub(super) limit: Option<usize>,
    /// Only these: ids with commas between them, at most 200. Those that are gone are left out, and
    /// `limit` is 200 then.
    pub(super) ids: Option<String>,
}

/// Sessions that can be asked for by their ids in one request.
pub(super) const IDS_MAX: usize = 200;

impl SessionQuery {
    /// The sessions that workers have to look at; an error says what is wrong with `ids`.
    pub(super) fn listed(&self) -> Result<Listed, String> {
        let Some(text) = &self.ids else { return Ok(Listed::All) };
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty()).take(IDS_MAX + 1);
        let ids = ids.map(|id| id.parse().map_err(|_| format!("`{id}` in `ids` is no id of a session")));
        let mut ids = ids.collect::<Result<Vec<SessionId>, String>>()?;
        if ids.len() > IDS_MAX {
            return Err(format!("more than {IDS_MAX} sessions in `ids`"));
        }
        ids.sort_unstable();
        Ok(Listed::Only(ids.into()))
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    pub(super) sessions: Vec<Session>,
    /// Number of sessions that match, on all pages.
    pub(super) total: usize,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoleName {
    /// Sends media.
    Publisher,
    /// Receives media, or waits for it.
    Player,
    /// Has not said yet.
    Pending,
}

impl From<Role> for RoleName {
    fn from(role: Role) -> Self {
        match role {
            Role::Publisher => Self::Publisher,
            Role::Player => Self::Player,
            Role::Pending => Self::Pending,
        }
    }
}

/// One connection.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) worker: usize,
    pub(super) role: RoleName,
    #[schema(example = "rtmp")]
    pub(super) protocol: String,
    /// `app/name`, once known.
    pub(super) stream: Option<String>,
    /// `IP:PORT`.
    pub(super) address: String,
    pub(super) connected_seconds: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) bitrate_bits_per_second: u64,
    /// Bytes that wait for a player.
    pub(super) queue_bytes: u64,
    /// Media time that waits for a player.
    pub(super) queue_ms: u32,
    /// Frames a player did not get because it was too slow.
    pub(super) dropped_frames: u64,
    pub(super) user_agent: Option<String>,
    /// Of WebRTC sessions only.
    pub(super) rtc: Option<RtcSession>,
    /// Of SRT sessions only.
    pub(super) srt: Option<SrtSession>,
}

/// The connection of an SRT session, pull or push, in the direction of its media.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SrtSession {
    /// Data packets, each once.
    pub(super) packets: u64,
    /// Data packets that the receiver found missing, before they were sent again.
    pub(super) lost_packets: u64,
    /// Data packets that came when they were sent again, or were sent again.
    pub(super) retransmitted_packets: u64,
    /// Data packets given up: the receiver does not get them.
    pub(super) dropped_packets: u64,
    /// Data packets that came twice, or too late.
    pub(super) late_packets: u64,
    /// Data packets that could not be decrypted.
    pub(super) undecrypted_packets: u64,
    pub(super) rtt_ms: Option<f32>,
    /// Delay that was agreed on.
    pub(super) latency_ms: u32,
    /// What waits to be delivered, or to be acknowledged.
    pub(super) buffer_packets: u64,
    pub(super) buffer_bytes: u64,
    pub(super) buffer_ms: u32,
    pub(super) encrypted: bool,
}

impl SrtSession {
    /// A pull is what a publisher is, and a push what a player is.
    pub(super) fn new(srt: &SrtSessionSnapshot, role: Role) -> Self {
        let SrtSessionSnapshot { counters, status } = srt;
        let is_publisher = role == Role::Publisher;
        let of = |publisher: u64, player: u64| if is_publisher { publisher } else { player };
        let (latency, (packets, bytes, time)) = match is_publisher {
            true => (status.receive_latency, status.receive_buffer),
            false => (status.send_latency, status.send_buffer),
        };
        Self {
            packets: of(counters.packets_in, counters.packets_out),
            lost_packets: of(counters.lost_in, counters.lost_out),
            retransmitted_packets: of(counters.retransmitted_in, counters.retransmitted_out),
            dropped_packets: of(counters.dropped_in, counters.dropped_out),
            late_packets: of(counters.late_in, 0),
            undecrypted_packets: of(counters.undecrypted_in, 0),
            rtt_ms: status.round_trip.map(|time| time.as_secs_f32() * 1000.0),
            latency_ms: latency.as_millis() as u32,
            buffer_packets: packets as u64,
            buffer_bytes: bytes as u64,
            buffer_ms: time.as_millis() as u32,
            encrypted: status.is_encrypted,
        }
    }
}

/// The connection of a WebRTC session. Losses are those of the media's receiver: ours of a
/// publisher, the viewer's own.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RtcSession {
    /// `checking`, `handshake` or `connected`.
    #[schema(example = "connected")]
    pub(super) state: String,
    /// `udp` or `tcp`, once connected.
    pub(super) transport: Option<String>,
    pub(super) codecs: Vec<String>,
    /// RTP packets of the media, without those sent again.
    pub(super) packets: u64,
    pub(super) lost_packets: u64,
    /// Of a publisher's packets in the last second, or of a viewer's in its last report; 0 when
    /// that is unknown.
    pub(super) loss_percent: f32,
    pub(super) rtt_ms: Option<f32>,
    /// Of the last report (RFC 3550 section 6.4.1).
    pub(super) jitter_ms: Option<f32>,
    /// Packets requested by NACK.
    pub(super) nacks: u64,
    pub(super) resent_packets: u64,
    pub(super) key_frame_requests: u64,
    /// What the path of a player carries; null for publishers, and without `rtc.adaptation`.
    pub(super) path: Option<RtcPath>,
}

/// What the path of a WHEP player carries, and what the player gets because of that.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RtcPath {
    /// `ok`, or `no_reports`: the player has reported nothing for too long, and nothing is sent.
    #[schema(example = "ok")]
    pub(super) state: String,
    /// What the path carries.
    pub(super) estimate_kbps: u64,
    /// What is sent at most now: less than the estimate while a queue is to go away.
    pub(super) target_kbps: u64,
    /// What the player has asked for by `max_bitrate`.
    pub(super) limit_kbps: Option<u64>,
    /// What the player has asked for by `max_height`, in pixels.
    pub(super) max_height: Option<u16>,
    /// How long packets wait in the path.
    pub(super) queue_ms: f32,
    /// Probes begun: short rises of what is sent, to see whether the path carries more.
    pub(super) probes: u64,
    /// Bytes of padding sent for probes.
    pub(super) padding_bytes: u64,
    /// Times that video waited for the path for so long that it went on with the next key frame.
    pub(super) times_behind: u64,
    /// How much of its video it gets: `all`, `key_frames` or `audio_only`.
    #[schema(example = "all")]
    pub(super) share: String,
    /// What it gets of the video; null where layers are not known, and while nothing is published.
    pub(super) layer: Option<LayerName>,
    /// What it changes over to at the next key frame; the same as `layer` if nothing changes.
    pub(super) wanted_layer: Option<LayerName>,
    /// The player has chosen the layer.
    pub(super) fixed: bool,
    /// Why it gets this, in words.
    #[schema(example = "its path carries 620 kbit/s, h takes 1.8 Mbit/s")]
    pub(super) reason: String,
}

/// An encoding, and how much of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LayerName {
    /// The encoding by its RID, or by its number where the publisher gave none.
    #[schema(example = "h")]
    pub(super) name: String,
    /// The highest spatial layer, if not all.
    pub(super) spatial: Option<u8>,
    /// The highest temporal layer, if not all.
    pub(super) temporal: Option<u8>,
}

impl From<&RtcLayer> for LayerName {
    fn from(layer: &RtcLayer) -> Self {
        let RtcLayer { name, spatial, temporal } = layer.clone();
        Self { name, spatial, temporal }
    }
}

impl From<&RtcPathSnapshot> for RtcPath {
    fn from(path: &RtcPathSnapshot) -> Self {
        let layer = path.layer.as_ref();
        Self {
            state: if path.is_stopped { "no_reports" } else { "ok" }.to_owned(),
            estimate_kbps: path.estimate_bits_per_second / 1000,
            target_kbps: path.target_bits_per_second / 1000,
            limit_kbps: path.limit_bits_per_second.map(|limit| limit / 1000),
            max_height: path.height_max,
            queue_ms: path.queue_ms,
            probes: path.probes,
            padding_bytes: path.padding_bytes,
            times_behind: path.times_behind,
            share: path.share.name().to_owned(),
            layer: layer.map(|layer| LayerName::from(&layer.current)),
            wanted_layer: layer.map(|layer| LayerName::from(&layer.wanted)),
            fixed: layer.is_some_and(|layer| layer.is_fixed),
            reason: reason(path),
        }
    }
}

impl From<&RtcSessionSnapshot> for RtcSession {
    fn from(rtc: &RtcSessionSnapshot) -> Self {
        Self {
            state: rtc.state.name().to_owned(),
            transport: rtc.transport.map(str::to_owned),
            codecs: rtc.codecs.iter().map(|codec| codec_name(codec)).collect(),
            packets: rtc.packets,
            lost_packets: rtc.lost_packets,
            loss_percent: rtc.loss_percent,
            rtt_ms: rtc.rtt_ms,
            jitter_ms: rtc.jitter_ms,
            nacks: rtc.nacks,
            resent_packets: rtc.resent_packets,
            key_frame_requests: rtc.key_frame_requests,
            path: rtc.path.as_ref().map(RtcPath::from),
        }
    }
}

/// A codec as people write it, from its name in SDP.
pub(super) fn codec_name(encoding: &str) -> String {
    match encoding {
        "H264" => "H.264".to_owned(),
        "H265" => "H.265".to_owned(),
        "opus" => "Opus".to_owned(),
        "PCMU" | "PCMA" => format!("G.711 {encoding}"),
        other => other.to_owned(),
    }
}

impl From<&SessionSnapshot> for Session {
    fn from(session: &SessionSnapshot) -> Self {
        Self {
            id: session.id.to_string(),
            worker: session.id.worker(),
            role: session.role.into(),
            protocol: session.protocol.name().to_owned(),
            stream: session.stream.clone(),
            address: address(session.address),
            connected_seconds: session.connected_ms / 1000,
            bytes_in: session.bytes_in,
            bytes_out: session.bytes_out,
            bitrate_bits_per_second: session.bits_per_second,
            queue_bytes: session.queue_bytes,
            queue_ms: session.queue_ms,
            dropped_frames: session.dropped_frames,
            user_agent: session.user_agent.clone(),
            rtc: session.rtc.as_ref().map(RtcSession::from),
            srt: session.srt.as_ref().map(|srt| SrtSession::new(srt, session.role)),
        }
    }
}

/// All workers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorkerList {
    pub(super) workers: Vec<Worker>,
}

/// One worker. Counters grow from the start of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Worker {
    pub(super) index: usize,
    /// Core it is pinned to.
    pub(super) core: Option<usize>,
    pub(super) sessions: u64,
    pub(super) publishers: u64,
    pub(super) players: u64,
    /// CPU time of the last second, percent of a core.
    pub(super) load_percent: f32,
    /// Median busy time of a loop turn.
    pub(super) loop_time_us_p50: u32,
    /// 99th percentile of it.
    pub(super) loop_time_us_p99: u32,
    pub(super) bytes_in_per_second: u64,
    pub(super) bytes_out_per_second: u64,
    pub(super) frames_in: u64,
    pub(super) writes: u64,
    pub(super) queue_drops: u64,
    pub(super) ring_drops: u64,
    /// WebRTC sessions that are not connected yet.
    pub(super) rtc_pending: u64,
    pub(super) rtc_packets_in: u64,
    /// RTP packets to viewers, those sent again included.
    pub(super) rtc_packets_out: u64,
    /// Connected WHEP players that get less than all of their video, since their paths carry no more.
    pub(super) rtc_players_thinned: u64,
    /// Datagrams that were not authentic, or from nobody.
    pub(super) rtc_refused: u64,
    /// CPU time of the last snapshot for `/api/v1/stats`, microseconds.
    pub(super) stats_snapshot_us: u32,
    /// Snapshots that were dropped because they were not read in time.
    pub(super) stats_snapshots_dropped: u64,
}

impl From<&WorkerSnapshot> for Worker {
    fn from(worker: &WorkerSnapshot) -> Self {
        let counters = &worker.counters;
        Self {
            index: worker.index,
            core: worker.core,
            sessions: counters.sessions,
            publishers: counters.publishers,
            players: counters.players,
            load_percent: worker.load_percent,
            loop_time_us_p50: worker.loop_time_us_p50,
            loop_time_us_p99: worker.loop_time_us_p99,
            bytes_in_per_second: worker.bytes_in_per_second,
            bytes_out_per_second: worker.bytes_out_per_second,
            frames_in: counters.frames_in,
            writes: counters.writes,
            queue_drops: counters.queue_drops,
            ring_drops: counters.ring_drops + counters.rtc.ring_drops,
            rtc_pending: counters.rtc.pending,
            rtc_players_thinned: counters.rtc.viewers_key_frames + counters.rtc.viewers_audio_only,
            rtc_packets_in: counters.rtc.packets_in,
            rtc_packets_out: counters.rtc.packets_out + counters.rtc.packets_resent,
            rtc_refused: counters.rtc.unknown_source
                + counters.rtc.signals_refused
                + counters.rtc.unauthentic,
            stats_snapshot_us: counters.stats.last_us,
            stats_snapshots_dropped: counters.stats.dropped,
        }
    }
}

/// An address as people write it: IPv4 peers of a dual-stack socket as IPv4.
pub(super) fn address(address: std::net::SocketAddr) -> String {
    std::net::SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}
