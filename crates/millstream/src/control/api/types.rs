//! Shapes of the API's answers. Field names carry their units; everything optional is present as null.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::worker::snapshot::{Role, SessionSnapshot, WorkerSnapshot};

/// Body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    pub(super) error: ApiError,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApiError {
    /// For programs; does not change.
    #[schema(example = "not_found")]
    pub(super) code: String,
    /// For people.
    pub(super) message: String,
}

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
    /// `app/name` of the demo channel when one runs.
    #[schema(required = true)]
    pub(super) demo_stream: Option<String>,
    pub(super) endpoints: Endpoints,
    pub(super) publish: PublishRules,
}

/// Base URLs by protocol; a protocol that is off has none.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Endpoints {
    pub(super) rtmp: Vec<String>,
    pub(super) rtmps: Vec<String>,
    pub(super) http: Vec<String>,
    pub(super) https: Vec<String>,
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
    #[schema(required = true)]
    pub(super) home_worker: Option<usize>,
    #[schema(required = true)]
    pub(super) publisher: Option<Publisher>,
    /// Since the publisher began; 0 while there is none.
    pub(super) uptime_seconds: u64,
    #[schema(required = true)]
    pub(super) video: Option<Video>,
    #[schema(required = true)]
    pub(super) audio: Option<Audio>,
    pub(super) bitrate_bits_per_second: u64,
    /// Players on all workers.
    pub(super) players: u64,
    pub(super) gop: Gop,
    /// Media bytes since the stream was first seen.
    pub(super) bytes_in: u64,
    pub(super) urls: StreamUrls,
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
pub(super) struct Video {
    #[schema(example = "H.264")]
    pub(super) codec: String,
    #[schema(required = true)]
    pub(super) profile: Option<String>,
    #[schema(required = true)]
    pub(super) level: Option<String>,
    #[schema(required = true)]
    pub(super) width: Option<u32>,
    #[schema(required = true)]
    pub(super) height: Option<u32>,
    /// Declared by the stream, or counted over the last second.
    #[schema(required = true)]
    pub(super) frame_rate: Option<f32>,
    pub(super) bitrate_bits_per_second: u64,
    #[schema(required = true)]
    pub(super) key_frame_interval_ms: Option<u32>,
}

/// Audio, as far as its headers say.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Audio {
    #[schema(example = "AAC")]
    pub(super) codec: String,
    #[schema(required = true)]
    pub(super) profile: Option<String>,
    #[schema(required = true)]
    pub(super) sample_rate: Option<u32>,
    #[schema(required = true)]
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

/// Where to watch a stream; empty when the protocol is off.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StreamUrls {
    pub(super) rtmp: String,
    pub(super) flv: String,
    pub(super) ws_flv: String,
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
    #[schema(required = true)]
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
    #[schema(required = true)]
    pub(super) user_agent: Option<String>,
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
    #[schema(required = true)]
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
            ring_drops: counters.ring_drops,
        }
    }
}

/// An address as people write it: IPv4 peers of a dual-stack socket as IPv4.
pub(super) fn address(address: std::net::SocketAddr) -> String {
    std::net::SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}
