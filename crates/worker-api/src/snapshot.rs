//! What a worker says about itself when asked: plain values, copied out of the loop in one turn.
//!
//! The control side turns them into API answers and metrics; a worker formats nothing.

use std::net::SocketAddr;
use std::time::Duration;

use media::Codec;
use media::config::{AudioFormat, VideoFormat};
use serde::{Deserialize, Serialize};

use super::EndCounters;
use super::columns::OutboxCounters;
use super::overload::OverloadCounters;
use super::relay::RelayCounters;
pub use super::role::Role;

/// Identifies a session for its whole life: worker index in the upper 16 bits, a serial number below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub u64);

impl SessionId {
    /// Id of the `serial`-th session of `worker`.
    pub fn new(worker: usize, serial: u64) -> Self {
        Self((worker as u64) << 48 | (serial & 0xffff_ffff_ffff))
    }

    /// Its number on the worker.
    pub fn serial(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }

    /// The worker that owns the session.
    pub fn worker(self) -> usize {
        (self.0 >> 48) as usize
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.worker(), self.serial())
    }
}

impl std::str::FromStr for SessionId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (worker, serial) = text.split_once('-').unwrap_or(("", text));
        Ok(Self::new(worker.parse::<u16>()?.into(), serial.parse()?))
    }
}

/// State of one worker at one moment. Counters only grow; rates are for the reader to derive, except where
/// named.
#[derive(Debug, Clone, Default)]
pub struct WorkerSnapshot {
    /// Index of the worker, from 0.
    pub index: usize,
    /// Core it is pinned to.
    pub core: Option<usize>,
    /// Totals.
    pub counters: WorkerCounters,
    /// Loop turns in the last full second: median busy time, microseconds.
    pub loop_time_us_p50: u32,
    /// Loop turns in the last full second: 99th percentile of busy time, microseconds.
    pub loop_time_us_p99: u32,
    /// CPU time of the thread over wall time in the last full second, percent of a core.
    pub load_percent: f32,
    /// It has no place for another player that could be sent to another node.
    pub is_full: bool,
    /// How long media has waited beyond its time, the longest of the last second.
    pub send_delay: Duration,
    /// It takes no further WebRTC session.
    pub is_full_of_rtc: bool,
    /// Bytes received in the last full second.
    pub bytes_in_per_second: u64,
    /// Bytes sent in the last full second.
    pub bytes_out_per_second: u64,
    /// Streams this worker knows, whether published here or only played here.
    pub streams: Vec<StreamSnapshot>,
    /// Sessions, only when asked for.
    pub sessions: Vec<SessionSnapshot>,
}

/// Counters of one worker since start (gauges are named so).
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerCounters {
    /// Gauge: open sessions of any role.
    pub sessions: u64,
    /// Gauge: publishing sessions.
    pub publishers: u64,
    /// Gauge: playing sessions, waiting ones included.
    pub players: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections accepted by this worker that another took, since this one was full. That one counts them
    /// as accepted.
    pub handed_over: u64,
    /// Connections closed at accept because `sessions_max` was reached.
    pub refused_full: u64,
    /// Connections, WebRTC sessions and callers by SRT that were refused because their address has, or opens,
    /// too many.
    pub refused_address: u64,
    /// Players and publishers that were refused because there is too much to do.
    pub overload: OverloadCounters,
    /// Gauge: HTTP connections kept open between two requests.
    pub http_idle: u64,
    /// HTTP connections handed to control, each time.
    pub http_handed_over: u64,
    /// Requests for playlists, segments and parts that were answered with one.
    pub segments_answered: u64,
    /// Those of them that waited for it.
    pub segments_waited: u64,
    /// Those that were refused.
    pub segments_refused: u64,
    /// HTTP connections that came back from control, each time.
    pub http_returned: u64,
    /// Times accepting paused because file descriptors ran out.
    pub accept_pauses: u64,
    /// Media messages received from local publishers.
    pub frames_in: u64,
    /// Media messages of local publishers that made no sense and were left out.
    pub frames_invalid: u64,
    /// Frames that no RTMP and FLV player got, since FLV has no place for their codec or so many bytes.
    pub flv_drops: u64,
    /// Frames that no player of transport streams got, since those have no place for them.
    pub ts_drops: u64,
    /// Bytes received on all sockets.
    pub bytes_in: u64,
    /// Bytes sent on all sockets.
    pub bytes_out: u64,
    /// Media messages sent, summed over players.
    pub frames_out: u64,
    /// Calls of `writev` on player sockets.
    pub writes: u64,
    /// Frames players did not get because they were too slow.
    pub queue_drops: u64,
    /// Players disconnected because they were too slow.
    pub slow_disconnects: u64,
    /// Messages put into the rings of other workers: frames, packets, and what is said about streams.
    pub ring_messages_out: u64,
    /// Times this worker has woken another from its sleep for such messages and for connections.
    pub worker_wake_ups: u64,
    /// Frames received from other workers.
    pub ring_frames_in: u64,
    /// Frames another worker could not be given because its ring was full.
    pub ring_drops: u64,
    /// Frames from another worker of a publication that is not played here any more.
    pub ring_late: u64,
    /// Video frames that no player of this worker got because the key frame they need is missing.
    pub undecodable: u64,
    /// Sessions ended by a protocol error, a bad request or a time limit before publish or play.
    pub protocol_errors: u64,
    /// Sessions refused by authorisation.
    pub unauthorized: u64,
    /// Sessions that have ended, by cause; each once. A session of HTTP counts for each request that a worker
    /// has answered without a stream.
    pub ended: EndCounters,
    /// Defects of the server that ended a session, a stream's sessions or a bridge: panics that were caught.
    pub panics: u64,
    /// Loop turns.
    pub loop_turns: u64,
    /// Busy time of all turns, microseconds.
    pub loop_busy_us: u64,
    /// WebRTC alone.
    pub rtc: RtcCounters,
    /// SRT alone.
    pub srt: SrtCounters,
    /// RTSP alone.
    pub rtsp: RtspCounters,
    /// Packets between nodes alone.
    pub relay: RelayCounters,
    /// Bridges alone.
    pub bridges: BridgeCounters,
    /// Statistics that left for the control side.
    pub stats: OutboxCounters,
}

/// Counters of bridges of one worker since start (gauges are named so). What single bridges count is added up
/// here when it happens, and stays when they stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BridgeCounters {
    /// Bridges from RTMP to WebRTC that were started.
    pub frame_to_rtp_started: u64,
    /// Bridges from WebRTC to RTMP that were started.
    pub rtp_to_frame_started: u64,
    /// Gauge: bridges from RTMP to WebRTC.
    pub frame_to_rtp_running: u64,
    /// Gauge: bridges from WebRTC to RTMP.
    pub rtp_to_frame_running: u64,
    /// Transcoders started.
    pub transcoders_started: u64,
    /// Transcoders refused because there were as many as there may be.
    pub transcoders_refused: u64,
    /// CPU time on the worker, microseconds.
    pub cpu_us: u64,
    /// CPU time on transcoding threads, microseconds.
    pub transcoding_cpu_us: u64,
    /// B-frames left out.
    pub b_frames_dropped: u64,
    /// Video frames dropped because the key frame they need has not come.
    pub undecodable: u64,
    /// Frames dropped because they are not of the first audio or video track.
    pub other_tracks: u64,
    /// Frames or packets that made no sense, or came too late, or lacked a part.
    pub broken: u64,
    /// Audio frames the transcoders had no room for.
    pub audio_dropped: u64,
}

/// RTSP counters of one worker since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RtspCounters {
    /// RECORD requests accepted.
    pub published: u64,
    /// PLAY requests accepted.
    pub played: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// RTP and RTCP packets received.
    pub packets_in: u64,
    /// Those that made no sense, or were of no track that is carried.
    pub dropped: u64,
    /// Interleaved packets on channels without SETUP, and datagrams of no session.
    pub unknown: u64,
    /// Packets sent in datagrams.
    pub datagrams_out: u64,
    /// Packets that a player by UDP was not sent because there was no room, and datagrams the system refused.
    pub send_failures: u64,
}

/// SRT counters of one worker since start (gauges are named so).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SrtCounters {
    /// Gauge: sessions.
    pub sessions: u64,
    /// Gauge: sessions of which nothing has come since they were accepted.
    pub pending: u64,
    /// Sessions accepted.
    pub accepted: u64,
    /// Callers refused.
    pub refused: u64,
    /// Requests for a cookie answered, of which nothing is kept.
    pub inductions: u64,
    /// Requests for a connection with a wrong cookie, which are not answered.
    pub wrong_cookies: u64,
    /// Datagrams that are for no session.
    pub unknown: u64,
    /// Datagrams that make no sense to their session.
    pub invalid: u64,
    /// Data packets received, each once.
    pub packets_in: u64,
    /// Data packets found missing.
    pub lost_in: u64,
    /// Those of them that came when they were sent again.
    pub retransmitted_in: u64,
    /// Data packets dropped because the next one was due.
    pub dropped_in: u64,
    /// Data packets that came twice, or too late.
    pub late_in: u64,
    /// Data packets for which there was no room.
    pub no_room_in: u64,
    /// Data packets that could not be decrypted.
    pub undecrypted_in: u64,
    /// Data packets sent for the first time.
    pub packets_out: u64,
    /// Data packets that players reported missing.
    pub lost_out: u64,
    /// Data packets sent again.
    pub retransmitted_out: u64,
    /// Data packets dropped because they were too old.
    pub dropped_out: u64,
    /// Datagrams that the system had no room for, or refused.
    pub send_failures: u64,
}

impl SrtCounters {
    /// Adds what a session has counted.
    pub fn add(&mut self, session: &srt::Counters) {
        self.invalid += session.invalid_in;
        self.packets_in += session.packets_in;
        self.lost_in += session.lost_in;
        self.retransmitted_in += session.retransmitted_in;
        self.dropped_in += session.dropped_in;
        self.late_in += session.late_in;
        self.no_room_in += session.no_room_in;
        self.undecrypted_in += session.undecrypted_in;
        self.packets_out += session.packets_out;
        self.lost_out += session.lost_out;
        self.retransmitted_out += session.retransmitted_out;
        self.dropped_out += session.dropped_out;
    }
}

/// WebRTC counters of one worker since start (gauges are named so).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RtcCounters {
    /// Gauge: sessions that are not connected yet.
    pub pending: u64,
    /// Sessions opened.
    pub opened: u64,
    /// Sessions whose ICE and DTLS were done.
    pub connected: u64,
    /// Sessions freed because they did not connect in time.
    pub expired: u64,
    /// Sessions ended because the peer stopped answering checks (RFC 7675).
    pub consent_lost: u64,
    /// RTP and RTCP packets received that were authentic.
    pub packets_in: u64,
    /// RTP packets sent for the first time, summed over viewers.
    pub packets_out: u64,
    /// Turns of the loop that left video to the next one.
    pub video_left: u64,
    /// RTP packets sent again.
    pub packets_resent: u64,
    /// Packets viewers asked for again and did not get: too old, or over their budget.
    pub resends_refused: u64,
    /// Datagrams from addresses that no session has validated.
    pub unknown_source: u64,
    /// Datagrams and connections of ICE-TCP that were passed on to the worker of their session, which shares
    /// the port.
    pub passed_on: u64,
    /// Those that were not, since the ring to it was full, or too many named it.
    pub passed_on_dropped: u64,
    /// STUN and DTLS datagrams a session refused.
    pub signals_refused: u64,
    /// Packets whose authentication failed.
    pub unauthentic: u64,
    /// Packets dropped: replayed, too old, malformed, of no track or before there were keys, those from other
    /// workers and bridges that are not taken included.
    pub dropped: u64,
    /// Authentic packets of publishers that went to nobody: padding, and layers that are not
    /// forwarded.
    pub not_forwarded: u64,
    /// Packets that viewers did not get because they do not take the codec.
    pub unsupported: u64,
    /// Packets that went to no viewer, or not to all, because too many of their stream waited, or
    /// for too long.
    pub unsent: u64,
    /// Packets left out of transport feedback because too many arrived between two.
    pub unacknowledged: u64,
    /// Packets a socket or the send batch did not take, that waited for its room for too long, or that could
    /// not be encrypted.
    pub send_failures: u64,
    /// Audio packets to viewers among them that the socket had no room for.
    pub no_room_audio: u64,
    /// The same of video.
    pub no_room_video: u64,
    /// Audio packets to viewers among them that the system refused to send.
    pub refused_audio: u64,
    /// The same of video.
    pub refused_video: u64,
    /// Packets not sent because their session had no path.
    pub paused: u64,
    /// Packets viewers asked for again by NACK.
    pub nacks_in: u64,
    /// Packets asked for again, from publishers.
    pub nacks_out: u64,
    /// Key-frame requests received, from viewers.
    pub key_frame_requests_in: u64,
    /// Key-frame requests sent, to publishers.
    pub key_frame_requests_out: u64,
    /// Times a peer has said by BYE that its media is over; the session goes on.
    pub byes_in: u64,
    /// Packets another worker could not be given because its ring was full.
    pub ring_drops: u64,
    /// Probes begun: short rises of what is sent to a viewer, to see whether its path carries more.
    pub probes: u64,
    /// Bytes of padding sent to viewers for probes.
    pub padding_bytes: u64,
    /// Times that a viewer's video waited for its path for so long that it went on with the next key frame.
    pub times_behind: u64,
    /// Changes of viewers to a higher layer.
    pub switches_up: u64,
    /// Changes of viewers to a lower layer.
    pub switches_down: u64,
    /// Gauge: connected viewers that get all of their video.
    pub viewers_all: u64,
    /// Gauge: connected viewers that get key frames only.
    pub viewers_key_frames: u64,
    /// Gauge: connected viewers that get no video, since their path carries no more than audio.
    pub viewers_audio_only: u64,
    /// Gauge: viewers that nothing is sent to, since they report nothing (RFC 8083 section 4).
    pub viewers_stopped: u64,
    /// Gauge: what the paths of viewers that report packets are estimated to carry, bits per second in all.
    pub estimate_bits_per_second: u64,
    /// Gauge: what is to be sent to them at most now, less while queues are to go away.
    pub target_bits_per_second: u64,
}

/// One stream as one worker sees it.
#[derive(Debug, Clone)]
pub struct StreamSnapshot {
    /// Application.
    pub app: String,
    /// Name within the application.
    pub name: String,
    /// Whether media is coming in: from a local publisher or from the home worker.
    pub live: bool,
    /// Set on the home worker only.
    pub publisher: Option<PublisherSnapshot>,
    /// Milliseconds since the current publisher began; 0 when not live.
    pub uptime_ms: u64,
    /// Players on this worker.
    pub players: u32,
    /// Video codec and what its sequence header says.
    pub video: Option<(Codec, Option<VideoFormat>)>,
    /// Audio codec and what its sequence header says.
    pub audio: Option<(Codec, Option<AudioFormat>)>,
    /// Media bits in the last full second.
    pub video_bits_per_second: u64,
    /// Media bits in the last full second.
    pub audio_bits_per_second: u64,
    /// Video frames in the last full second.
    pub video_frames_per_second: f32,
    /// Distance of the last two key frames, milliseconds; 0 when unknown.
    pub key_frame_interval_ms: u32,
    /// Frames in the GOP cache.
    pub gop_frames: u32,
    /// Bytes in the GOP cache.
    pub gop_bytes: u64,
    /// Media time in the GOP cache, milliseconds.
    pub gop_duration_ms: u32,
    /// Media payload bytes since the stream was created on this worker.
    pub bytes_in: u64,
    /// What publishers by MPEG-TS have sent besides tracks.
    pub sections: SectionsSnapshot,
    /// Tracks of a publisher that sends packets; empty when it sends frames or there is none.
    pub tracks: Vec<RtcTrackSnapshot>,
    /// The bridge to the other kind of player; set on the home worker, while it runs.
    pub bridge: Option<BridgeSnapshot>,
}

/// Sections that publishers by MPEG-TS have sent, since the stream was created on this worker. They are
/// passed on to MPEG-TS outputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionsSnapshot {
    /// Cues of SCTE 35.
    pub cues: u64,
    /// Private sections.
    pub private: u64,
}

/// Which way a bridge goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BridgeDirection {
    /// From RTMP to WebRTC.
    FrameToRtp,
    /// From WebRTC to RTMP and FLV.
    RtpToFrame,
}

/// A running bridge. Totals are since it started.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeSnapshot {
    /// Which way it goes.
    pub direction: BridgeDirection,
    /// How long it has run, milliseconds.
    pub running_ms: u64,
    /// Frames of video taken in (to packets) or made (to frames).
    pub video_frames: u64,
    /// Packets made (to packets) or taken in (to frames).
    pub packets: u64,
    /// Audio frames that came back from the transcoder.
    pub audio_frames: u64,
    /// CPU time on the worker, microseconds.
    pub cpu_us: u64,
    /// CPU time on transcoding threads, microseconds.
    pub transcoding_cpu_us: u64,
    /// Time from a video frame's (last) arrival to its packets or frame, median of the last second,
    /// microseconds.
    pub video_latency_us: u32,
    /// The same for audio, transcoding included.
    pub audio_latency_us: u32,
    /// B-frames left out.
    pub b_frames_dropped: u64,
    /// Frames or packets that made no sense, or came too late, or lacked a part.
    pub broken: u64,
    /// Audio that the transcoder had no room for.
    pub audio_dropped: u64,
    /// Why something the publisher sends is not bridged.
    pub refused: Option<bridge::Refused>,
}

/// One track of a stream that is published as packets.
#[derive(Debug, Clone, PartialEq)]
pub struct RtcTrackSnapshot {
    /// Audio or video.
    pub kind: TrackKind,
    /// Its codec, as SDP names it: `H264`, `opus`.
    pub codec: &'static str,
    /// RTP clock rate, Hz.
    pub clock_rate: u32,
    /// Audio channels.
    pub channels: Option<u8>,
    /// Simulcast encodings that arrive; 1 without simulcast.
    pub encodings: u8,
    /// What its newest key frame says, of the encoding that is forwarded.
    pub format: Option<VideoFormat>,
    /// Media bits in the last full second, of all encodings.
    pub bits_per_second: u64,
    /// Frames in the last full second, of the encoding that is forwarded.
    pub frames_per_second: f32,
    /// Distance of the last two key frames, milliseconds; 0 when unknown.
    pub key_frame_interval_ms: u32,
    /// What viewers can be given of a video track, from the least bits to the most. Empty for audio, and on
    /// workers other than the publisher's.
    pub layers: Vec<RtcLayerSnapshot>,
}

/// A layer of a video track: an encoding, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtcLayer {
    /// The encoding by its RID, or by its number where the publisher gave none.
    pub name: String,
    /// The highest spatial layer of it, if there is a limit.
    pub spatial: Option<u8>,
    /// The highest temporal layer of it, if there is a limit.
    pub temporal: Option<u8>,
}

/// A layer that viewers can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtcLayerSnapshot {
    /// Which.
    pub layer: RtcLayer,
    /// Bits per second, those of the layers it needs included; 0 until known.
    pub bits_per_second: u64,
    /// Whether anything of it has arrived lately.
    pub is_live: bool,
    /// Width and height of its pictures, if known.
    pub size: Option<(u16, u16)>,
    /// Viewers on this worker that get it.
    pub viewers: u64,
}

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackKind {
    /// Audio.
    Audio,
    /// Video.
    Video,
}

/// Who publishes a stream.
#[derive(Debug, Clone)]
pub struct PublisherSnapshot {
    /// Its session.
    pub session: SessionId,
    /// Its address.
    pub address: SocketAddr,
    /// How it came in.
    pub protocol: Protocol,
    /// Milliseconds since it connected.
    pub connected_ms: u64,
}

/// How a session came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// RTMP over TCP.
    Rtmp,
    /// RTMP over TLS.
    Rtmps,
    /// FLV as an HTTP response body, or a request not yet understood.
    HttpFlv,
    /// The same over TLS.
    HttpsFlv,
    /// FLV in WebSocket frames.
    WsFlv,
    /// The same over TLS.
    WssFlv,
    /// WebRTC, published by WHIP.
    Whip,
    /// WebRTC, played by WHEP.
    Whep,
    /// A virtual channel of this server.
    Channel,
    /// Pulled from another server by this one.
    Pull,
    /// The demo channel.
    Demo,
    /// Another node of the cluster: the publisher of a stream that is fetched from it, or a player that
    /// passes a stream on to it.
    Node,
    /// What cuts a stream into segments: a player inside this process.
    Segments,
    /// Playlists and segments by HTTP (HLS, DASH).
    Hls,
    /// The same over TLS.
    HlsTls,
    /// What records a stream: a player inside this process.
    Recording,
    /// A transport stream as an HTTP response body.
    HttpTs,
    /// The same over TLS.
    HttpsTs,
    /// A transport stream by SRT.
    Srt,
    /// RTSP.
    Rtsp,
    /// The same over TLS.
    Rtsps,
    /// What sends a stream on to another server: a player inside this process.
    Push,
    /// Media over QUIC.
    Moq,
}

impl Protocol {
    /// All of them, each at the index it is as a number.
    pub const ALL: [Self; 23] = [
        Self::Rtmp,
        Self::Rtmps,
        Self::HttpFlv,
        Self::HttpsFlv,
        Self::WsFlv,
        Self::WssFlv,
        Self::Whip,
        Self::Whep,
        Self::Channel,
        Self::Pull,
        Self::Demo,
        Self::Node,
        Self::Segments,
        Self::Hls,
        Self::HlsTls,
        Self::Recording,
        Self::HttpTs,
        Self::HttpsTs,
        Self::Srt,
        Self::Rtsp,
        Self::Rtsps,
        Self::Push,
        Self::Moq,
    ];

    /// Name used in the API, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rtmp => "rtmp",
            Self::Rtmps => "rtmps",
            Self::HttpFlv => "http-flv",
            Self::HttpsFlv => "https-flv",
            Self::WsFlv => "ws-flv",
            Self::WssFlv => "wss-flv",
            Self::Whip => "whip",
            Self::Whep => "whep",
            Self::Channel => "channel",
            Self::Pull => "pull",
            Self::Demo => "demo",
            Self::Node => "node",
            Self::Segments => "segments",
            Self::Hls => "hls",
            Self::HlsTls => "hls-tls",
            Self::Recording => "recording",
            Self::HttpTs => "http-ts",
            Self::HttpsTs => "https-ts",
            Self::Srt => "srt",
            Self::Rtsp => "rtsp",
            Self::Rtsps => "rtsps",
            Self::Push => "push",
            Self::Moq => "moq",
        }
    }
}

/// One session.
#[derive(Debug, Clone)]
pub struct SessionSnapshot {
    /// Its id.
    pub id: SessionId,
    /// What it does.
    pub role: Role,
    /// How it came in.
    pub protocol: Protocol,
    /// `app/name`, once known.
    pub stream: Option<String>,
    /// Peer address.
    pub address: SocketAddr,
    /// Milliseconds since accept.
    pub connected_ms: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Media bits per second since the last sample (about a second), in the direction of its role.
    pub bits_per_second: u64,
    /// Player: bytes waiting for it.
    pub queue_bytes: u64,
    /// Player: time between the arrival of what it gets next and of the newest message, milliseconds.
    pub queue_ms: u32,
    /// Player: frames it did not get because it was too slow.
    pub dropped_frames: u64,
    /// `User-Agent`, or RTMP `flashVer`, at most 128 bytes.
    pub user_agent: Option<String>,
    /// What only WebRTC sessions have.
    pub rtc: Option<RtcSessionSnapshot>,
    /// What only SRT sessions have.
    pub srt: Option<SrtSessionSnapshot>,
}

/// The connection of one SRT session.
#[derive(Debug, Clone, PartialEq)]
pub struct SrtSessionSnapshot {
    /// What happened since it began.
    pub counters: srt::Counters,
    /// How it is now.
    pub status: srt::Status,
}

/// The connection of one WebRTC session, as it is and as reports describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct RtcSessionSnapshot {
    /// How far it is.
    pub state: RtcState,
    /// `udp` or `tcp`, once a path is validated.
    pub transport: Option<&'static str>,
    /// Codecs of its tracks, as SDP names them.
    pub codecs: Vec<&'static str>,
    /// RTP packets received from a publisher, or sent to a viewer for the first time.
    pub packets: u64,
    /// Packets lost in all: what we miss of a publisher's, or what a viewer reports.
    pub lost_packets: u64,
    /// Share lost, percent: of a publisher's packets in the last second, or of a viewer's in its last report;
    /// 0 when unknown.
    pub loss_percent: f32,
    /// Round trip, milliseconds: of a viewer by its reports on ours, of a publisher by what it sent again.
    pub rtt_ms: Option<f32>,
    /// Interarrival jitter of the last report (RFC 3550 section 6.4.1), milliseconds; the largest of its
    /// tracks.
    pub jitter_ms: Option<f32>,
    /// Packets asked for again: by us of a publisher, by a viewer of us.
    pub nacks: u64,
    /// Packets sent again.
    pub resent_packets: u64,
    /// Key frames asked for: by us of a publisher, by a viewer of us.
    pub key_frame_requests: u64,
    /// What its path carries, and what it gets because of that. Only of viewers with congestion control.
    pub path: Option<RtcPathSnapshot>,
}

/// What the path of a viewer carries, and what it gets because of that.
#[derive(Debug, Clone, PartialEq)]
pub struct RtcPathSnapshot {
    /// What the path carries for longer.
    pub estimate_bits_per_second: u64,
    /// What is sent now, less while a queue is to go away.
    pub target_bits_per_second: u64,
    /// The most that the viewer has asked for, if it has.
    pub limit_bits_per_second: Option<u64>,
    /// The highest pictures that the viewer has asked for, in pixels, if it has.
    pub height_max: Option<u16>,
    /// Media time that waits in the path, milliseconds.
    pub queue_ms: f32,
    /// Probes begun.
    pub probes: u64,
    /// Bytes of padding sent for them.
    pub padding_bytes: u64,
    /// Times that video waited for so long that it went on with the next key frame.
    pub times_behind: u64,
    /// How much of the video it gets.
    pub share: RtcShare,
    /// It reports nothing, and so nothing is sent.
    pub is_stopped: bool,
    /// Its stream has a publisher.
    pub is_published: bool,
    /// What it gets of its first video track. `None` without video or a publisher, and where layers are not
    /// known.
    pub layer: Option<RtcPathLayer>,
}

/// Which layer a viewer gets, and what its choice depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtcPathLayer {
    /// What it gets now.
    pub current: RtcLayer,
    /// What it is to get: it changes over at the next key frame.
    pub wanted: RtcLayer,
    /// The viewer has asked for `wanted`; otherwise its path decides.
    pub is_fixed: bool,
    /// The next better layer that is live, and its bits per second: of those that are not too high, if there
    /// is one.
    pub better: Option<(RtcLayer, u64)>,
    /// The pictures of `better` are higher than the viewer wants.
    pub is_too_high: bool,
    /// Bits per second of the least layer that is live.
    pub least_bits_per_second: u64,
}

/// How much of its video a viewer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcShare {
    /// All of it.
    All,
    /// Key frames only.
    KeyFrames,
    /// None.
    AudioOnly,
}

impl RtcShare {
    /// Name used in the API and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::KeyFrames => "key_frames",
            Self::AudioOnly => "audio_only",
        }
    }
}

/// How far a WebRTC session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcState {
    /// No validated path yet.
    Checking,
    /// A path is validated; DTLS is under way.
    Handshake,
    /// Media may flow.
    Connected,
}

impl RtcState {
    /// Name used in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Handshake => "handshake",
            Self::Connected => "connected",
        }
    }
}
/// What is kept of the name that a client gives of itself: it may send any.
pub fn kept_user_agent(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(USER_AGENT_BYTES_MAX)].into()
}

const USER_AGENT_BYTES_MAX: usize = 128;
