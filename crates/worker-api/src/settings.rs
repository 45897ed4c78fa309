//! What the workers need to know, after configuration has been read, checked and resolved.
//!
//! Plain values. Which of them a reload may change while the workers run is in the tables of `config`, and
//! so is where a value comes from (file, environment, flag); how they get here is in `live.rs`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rtmp::name::NameRules;

use crate::overload::OverloadSettings;
use crate::pattern::Pattern;
use crate::traces::Traces;
use crate::usage::{Usage, UsageLimits};

/// Settings shared by all workers.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Number of event-loop threads, at least 1.
    pub workers: usize,
    /// Core of worker `i` is `cores[i % cores.len()]`; empty means not pinned.
    pub cores: Vec<usize>,
    /// Addresses for RTMP. Port 0 picks a free port, the same for all workers.
    pub rtmp: Vec<SocketAddr>,
    /// Addresses for RTMP over TLS; needs `rtmps_tls`.
    pub rtmps: Vec<SocketAddr>,
    /// Addresses for HTTP: media, API and console.
    pub http: Vec<SocketAddr>,
    /// Addresses for HTTPS; needs `https_tls`.
    pub https: Vec<SocketAddr>,
    /// Certificate and key for RTMPS.
    pub rtmps_tls: Option<Arc<rustls::ServerConfig>>,
    /// The same for HTTPS, which offers HTTP/2 as well.
    pub https_tls: Option<Arc<rustls::ServerConfig>>,
    /// HTTP connections between two requests.
    pub keep_alive: KeepAliveSettings,
    /// Time from accept to a publish or play command, or to a complete HTTP request head; then closed.
    pub handshake_timeout: Duration,
    /// A publisher that sends no byte for this long is closed.
    pub publisher_idle_timeout: Duration,
    /// Sessions per worker; further connections are closed at once.
    pub sessions_max: usize,
    /// What one client address may have.
    pub of_address: AddressLimits,
    /// From when on players and publishers are refused.
    pub overload: OverloadSettings,
    /// Port at which other nodes take RTMP, if players by RTMP are sent there.
    pub rtmp_elsewhere: Option<u16>,
    /// Largest RTMP message accepted from a publisher, bytes.
    pub message_bytes_max: u32,
    /// Names that applications and streams may have.
    pub names: NameRules,
    /// Frames that fit in the ring between two workers; when full, frames are dropped up to the next key
    /// frame.
    pub ring_frames: usize,
    /// `TCP_NOTSENT_LOWAT` of player sockets, bytes: data the kernel holds unsent before it reports the
    /// socket full.
    pub socket_unsent_bytes_max: u32,
    /// `SO_SNDBUF` of player sockets; `None` leaves the kernel's automatic sizing.
    pub socket_send_buffer_bytes: Option<u32>,
    /// Value of `Access-Control-Allow-Origin` on media responses; `None` sends none.
    pub cors_allow_origin: Option<String>,
    /// Applications in order; the first whose pattern matches an app name applies. The last matches
    /// everything.
    pub applications: Vec<Application>,
    /// WebRTC: WHIP and WHEP.
    pub rtc: RtcSettings,
    /// SRT.
    pub srt: SrtSettings,
    /// RTSP.
    pub rtsp: RtspSettings,
    /// Packets between nodes, on the first worker; `None` on a node without others.
    pub relay: Option<RelaySettings>,
    /// Transcoding of audio.
    pub transcoding: TranscodingSettings,
    /// Streams as segments; `None` where that is off.
    pub segments: Option<SegmentsSettings>,
    /// What one token, and one address, may use.
    pub usage_limits: UsageLimits,
    /// What they use: of this server, whatever is configured.
    pub usage: Usage,
    /// Traces of sessions; `None` where they are not exported.
    pub traces: Option<Traces>,
}

/// What one client address (IPv6: /64) may have, over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressLimits {
    /// Connections, WebRTC sessions and callers by SRT at a time. Zero: any.
    pub connections: usize,
    /// How many of them it may open in a second, on average; twice as many at once. Zero: any.
    pub connects_per_second: u32,
}

impl AddressLimits {
    /// Places of one address. They are counted also where they are not limited: a reload may do that.
    pub fn places(&self) -> usize {
        if self.connections == 0 { usize::MAX } else { self.connections }
    }
}

/// How HTTP connections are kept open for further requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAliveSettings {
    /// A connection without a request is closed after this long. Zero: every connection is closed after its
    /// answer.
    pub timeout: Duration,
    /// Connections of all workers that are kept open; with more, answers say `Connection: close`.
    pub connections_max: usize,
    /// The same for one client address (IPv6: /64).
    pub per_address_max: usize,
}

impl KeepAliveSettings {
    /// Places of connections that stay open after an answer, in all and for one address; none where
    /// keep-alive is off.
    pub fn places(&self) -> (usize, usize) {
        let total_max = if self.timeout.is_zero() { 0 } else { self.connections_max };
        (total_max, self.per_address_max)
    }
}

/// Settings of WebRTC sessions, on every worker the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtcSettings {
    /// Addresses for media over UDP: worker `i` takes port + `i`; port 0 picks a free one for each. Empty: no
    /// WebRTC.
    pub udp: Vec<SocketAddr>,
    /// Addresses for ICE-TCP (RFC 6544, passive), port by worker as for `udp`. Empty: UDP only.
    pub tcp: Vec<SocketAddr>,
    /// Whether all workers share the ports of `udp` and `tcp`.
    pub single_port: bool,
    /// With `single_port`: whether the kernel keeps a table of each client's worker, if it is allowed to.
    pub single_port_table: bool,
    /// Addresses announced as candidates in place of those of the interfaces, with the port of the socket.
    pub public_addresses: Vec<IpAddr>,
    /// Addresses that a client may ask for as the only candidates of its answer.
    pub addresses_on_request: Vec<IpAddr>,
    /// STUN and TURN servers named to clients.
    pub ice_servers: Vec<IceServer>,
    /// How datagrams are sent.
    pub udp_backend: UdpBackend,
    /// Interface for `UdpBackend::AfXdp`.
    pub af_xdp_interface: Option<String>,
    /// Sessions of one worker; further ones are answered 503.
    pub sessions_max: usize,
    /// Sessions of one worker that have no ICE connection yet; further ones are answered 503.
    pub pending_max: usize,
    /// The same of one client address (IPv6: /64), over all workers; further ones are answered 429.
    pub pending_per_address_max: usize,
    /// A session without ICE and DTLS after this long is freed.
    pub pending_timeout: Duration,
    /// Sessions one client address (IPv6: /64) may ask for in a second, on average; twice as many at once.
    /// Zero: any.
    pub posts_per_second_max: u32,
    /// How long a packet can be sent again.
    pub history: Duration,
    /// Most memory a track's packets kept for sending again take, on each worker.
    pub history_bytes_max: usize,
    /// Whether a new viewer starts with the packets since the last key frame instead of the next one.
    pub gop_cache: bool,
    /// Most memory the GOP cache of one track takes, on each worker; a longer group is not offered.
    pub gop_cache_bytes_max: usize,
    /// Longest a group in the GOP cache may last.
    pub gop_cache_duration_max: Duration,
    /// Whether packets of a frame that are one byte short are padded, for runs of equal datagrams.
    pub pad_runs: bool,
    /// Whether viewers get what their paths carry. Without, all of a stream, whatever becomes of it.
    pub adaptation: bool,
    /// What a viewer's path is taken to carry before anything is known.
    pub start_bits_per_second: u64,
    /// Most that is sent to one viewer.
    pub player_bits_per_second_max: u64,
}

/// Settings of SRT, on every worker the same.
#[derive(Debug, Clone)]
pub struct SrtSettings {
    /// Addresses for SRT, shared by all workers; port 0 picks a free one. Empty: no SRT.
    pub listen: Vec<SocketAddr>,
    /// Least delay of what is received and sent; a caller may ask for more.
    pub latency: Duration,
    /// Most delay of what is received.
    pub latency_max: Duration,
    /// What callers are to have for which streams: the first that matches decides.
    pub passphrases: Vec<SrtPassphrases>,
    /// Sessions of one worker; further ones are refused.
    pub sessions_max: usize,
    /// Sessions of one worker of which nothing has come since they were accepted; with more, callers are
    /// refused.
    pub pending_max: usize,
    /// The same of one address (IPv6: /64), on all workers.
    pub pending_per_address_max: usize,
    /// Sessions that one address (IPv6: /64) may ask for in a second, on average; twice as many at once.
    /// Zero: any.
    pub handshakes_per_second_max: u32,
    /// A session that sends nothing for this long is over.
    pub silence_max: Duration,
    /// Bytes of received packets that a session may hold.
    pub buffer_bytes_max: usize,
    /// Most that is sent to one player.
    pub player_bits_per_second_max: u64,
    /// How datagrams are sent.
    pub udp_backend: UdpBackend,
}

/// Settings of RTSP, on every worker the same.
#[derive(Debug, Clone)]
pub struct RtspSettings {
    /// Addresses for RTSP; port 0 picks a free one, the same for all workers. Empty: no RTSP.
    pub listen: Vec<SocketAddr>,
    /// Addresses for RTSP over TLS; they need the certificate of RTMPS.
    pub tls_listen: Vec<SocketAddr>,
    /// Addresses for RTP: worker `i` takes port + 2 `i`, and the next one for RTCP; port 0 picks free ones.
    /// Empty: packets go in the connection only.
    pub udp: Vec<SocketAddr>,
    /// How datagrams are sent.
    pub udp_backend: UdpBackend,
    /// Connections of one address (IPv6: /64), on all workers, that neither play nor publish yet; further
    /// ones are closed.
    pub pending_per_address_max: usize,
    /// Longest that a packet of a publisher is waited for.
    pub reorder: Duration,
    /// A session by UDP of which nothing is heard for this long is over.
    pub silence_max: Duration,
}

impl Default for RtspSettings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            tls_listen: Vec::new(),
            udp: Vec::new(),
            udp_backend: UdpBackend::Auto,
            pending_per_address_max: 1_024,
            reorder: Duration::from_millis(200),
            silence_max: Duration::from_secs(75),
        }
    }
}

/// Passphrases of the streams of a pattern.
#[derive(Debug, Clone)]
pub struct SrtPassphrases {
    /// Over `app/stream`.
    pub pattern: Pattern,
    /// Of publishers; `None`: they send in clear.
    pub publish: Option<srt::Passphrase>,
    /// Of players; `None`: they get it in clear.
    pub play: Option<srt::Passphrase>,
}

impl SrtSettings {
    /// The passphrases of a stream.
    pub fn passphrases_of(&self, app: &str, stream: &str) -> Option<&SrtPassphrases> {
        self.passphrases.iter().find(|rule| rule.pattern.matches_parts(app, stream))
    }
}

impl Default for SrtSettings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            latency: Duration::from_millis(120),
            latency_max: Duration::from_secs(8),
            passphrases: Vec::new(),
            sessions_max: 1_000,
            pending_max: 256,
            pending_per_address_max: 64,
            handshakes_per_second_max: 20,
            silence_max: Duration::from_secs(5),
            buffer_bytes_max: 8 << 20,
            player_bits_per_second_max: 100_000_000,
            udp_backend: UdpBackend::Auto,
        }
    }
}

/// Settings of Media over QUIC.
#[derive(Debug, Clone)]
pub struct MoqSettings {
    /// Where it listens, by UDP.
    pub listen: Vec<SocketAddr>,
    /// Certificate and key; `None`: one for trials is made, and again before it is too old.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Names of that one.
    pub certificate_names: Vec<String>,
    /// Sessions at a time.
    pub sessions_max: usize,
    /// A client that sends nothing for this long is over.
    pub silence_max: Duration,
    /// How far behind a subscriber may be before groups are left out.
    pub age_max: Duration,
    /// Bytes of one group, which a subscriber that does not read makes the server hold.
    pub group_bytes_max: usize,
}

/// Settings of the packets between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySettings {
    /// Where datagrams of other nodes come in; they leave from there too. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// How datagrams are sent.
    pub udp_backend: UdpBackend,
    /// Interface for `UdpBackend::AfXdp` and `UdpBackend::TcClone`; `None`: the one that has the address of
    /// `listen`.
    pub interface: Option<String>,
}

/// A STUN or TURN server, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IceServer {
    /// `stun:`, `stuns:`, `turn:` or `turns:` URI (RFC 7064, RFC 7065).
    pub uri: String,
    /// Long-term credential: user name and password; `turn` servers need it.
    pub credential: Option<(String, String)>,
}

/// How datagrams leave, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpBackend {
    /// The best that needs no privilege and works here.
    Auto,
    /// One `sendmsg` call for each datagram.
    Sendmsg,
    /// One `sendmmsg` call for a batch.
    Sendmmsg,
    /// `sendmmsg` with UDP segmentation offload.
    Gso,
    /// io_uring.
    IoUring,
    /// AF_XDP: frames past the kernel's UDP stack; needs privileges and an interface.
    AfXdp,
    /// Between nodes only: one frame of a packet is copied for all in the kernel; needs privileges, an
    /// interface, and a build with the feature `tc-clone`.
    TcClone,
}

/// A named set of stream settings.
#[derive(Debug, Clone)]
pub struct Application {
    /// Matches the app name.
    pub pattern: Pattern,
    /// What applies to its streams.
    pub settings: Arc<ApplicationSettings>,
}

/// Settings of the streams of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationSettings {
    /// How long a message may wait to be sent together with others. Zero sends each message at once.
    pub merge_latency: Duration,
    /// Send as soon as this many messages wait, even before `merge_latency`. Zero means no such limit.
    pub merge_messages: u32,
    /// Whether a new player starts with the last group of pictures instead of the next key frame.
    pub gop_cache: bool,
    /// Most bytes the GOP cache of one stream holds; a longer group is not offered to new players.
    pub gop_cache_bytes_max: usize,
    /// Longest group of pictures kept, in media time.
    pub gop_cache_duration_max: Duration,
    /// Most bytes a player may be behind before it is moved to the next key frame.
    pub player_queue_bytes_max: usize,
    /// Longest a player may be behind, by when messages arrived, before it is moved to the next key frame.
    pub player_queue_duration_max: Duration,
    /// A player that takes no byte for this long while data waits for it is disconnected.
    pub player_stall_timeout: Duration,
    /// How long a player waits for a publisher; zero refuses it at once, `None` waits for ever.
    pub wait_for_publisher: Option<Duration>,
    /// What happens to a second publisher of the same name.
    pub second_publisher: SecondPublisher,
    /// From RTMP to WebRTC and back.
    pub bridge: BridgeSettings,
}

/// Bridges between frames (RTMP, FLV) and packets (WebRTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Whether players of the one kind get streams of the other at all.
    pub enabled: bool,
    /// What becomes of a stream with B-frames, which WebRTC cannot carry.
    pub b_frames: bridge::BFrames,
    /// From WebRTC: longest a missing packet is waited for.
    pub delay_max: Duration,
    /// From WebRTC: longest distance between key frames; the publisher is asked for one then.
    pub key_frame_interval_max: Duration,
    /// How long a bridge goes on without a player.
    pub linger: Duration,
    /// From WebRTC: audio becomes AAC, where the encoder is built in; else it stays Opus.
    pub audio_to_aac: bool,
}

/// Streams as segments: HLS and DASH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentsSettings {
    /// All that is published is cut, not only what somebody plays so.
    pub always: bool,
    /// Length of a part.
    pub part: Duration,
    /// Length of a segment, if there are key frames for that.
    pub segment: Duration,
    /// Segments in a playlist, at least.
    pub window_segments: usize,
    /// Time that playlists list, at least.
    pub window: Duration,
    /// Bytes of a rendition in memory.
    pub window_bytes: usize,
    /// Where older segments of a window are kept; otherwise there is as much of it as memory has room for.
    pub directory: Option<PathBuf>,
    /// Time without a request after which a stream is cut no longer.
    pub linger: Duration,
    /// Streams cut at a time.
    pub streams_max: usize,
}

impl Default for SegmentsSettings {
    fn default() -> Self {
        Self {
            always: false,
            part: Duration::from_millis(200),
            segment: Duration::from_secs(2),
            window_segments: 6,
            window: Duration::ZERO,
            window_bytes: 64 << 20,
            directory: None,
            linger: Duration::from_secs(30),
            streams_max: 1_000,
        }
    }
}

/// Threads for transcoding audio, shared by all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscodingSettings {
    /// Threads; at least 1.
    pub threads: usize,
    /// Streams transcoded at a time; the audio of further ones is left out.
    pub streams_max: usize,
    /// Opus, stereo, bits per second.
    pub opus_bits_per_second: u32,
    /// AAC, stereo, bits per second.
    pub aac_bits_per_second: u32,
}

/// What happens when a stream that has a publisher gets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondPublisher {
    /// The newcomer is refused.
    Refuse,
    /// The newcomer takes the stream over and the old publisher is closed.
    TakeOver,
}

impl Default for ApplicationSettings {
    fn default() -> Self {
        Self {
            merge_latency: Duration::from_millis(100),
            merge_messages: 0,
            gop_cache: true,
            gop_cache_bytes_max: 8 << 20,
            gop_cache_duration_max: Duration::from_secs(20),
            player_queue_bytes_max: 8 << 20,
            player_queue_duration_max: Duration::from_secs(10),
            player_stall_timeout: Duration::from_secs(10),
            wait_for_publisher: Some(Duration::from_secs(60)),
            second_publisher: SecondPublisher::Refuse,
            bridge: BridgeSettings::default(),
        }
    }
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            b_frames: bridge::BFrames::Drop,
            delay_max: Duration::from_millis(250),
            key_frame_interval_max: Duration::from_secs(2),
            linger: Duration::from_secs(10),
            audio_to_aac: true,
        }
    }
}

impl Default for TranscodingSettings {
    fn default() -> Self {
        Self { threads: 2, streams_max: 256, opus_bits_per_second: 96_000, aac_bits_per_second: 128_000 }
    }
}

impl Default for KeepAliveSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(75), connections_max: 20_000, per_address_max: 1_000 }
    }
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            workers: 1,
            cores: Vec::new(),
            rtmp: Vec::new(),
            rtmps: Vec::new(),
            http: Vec::new(),
            https: Vec::new(),
            rtmps_tls: None,
            https_tls: None,
            keep_alive: KeepAliveSettings::default(),
            handshake_timeout: Duration::from_secs(10),
            publisher_idle_timeout: Duration::from_secs(30),
            sessions_max: 50_000,
            of_address: AddressLimits::default(),
            overload: OverloadSettings::default(),
            rtmp_elsewhere: None,
            message_bytes_max: 8 << 20,
            names: NameRules::default(),
            ring_frames: 4096,
            socket_unsent_bytes_max: 128 << 10,
            socket_send_buffer_bytes: None,
            cors_allow_origin: Some("*".to_owned()),
            applications: vec![Application { pattern: Pattern::new("*"), settings: Arc::default() }],
            rtc: RtcSettings::default(),
            srt: SrtSettings::default(),
            rtsp: RtspSettings::default(),
            relay: None,
            transcoding: TranscodingSettings::default(),
            segments: Some(SegmentsSettings::default()),
            usage_limits: UsageLimits::default(),
            usage: Usage::default(),
            traces: None,
        }
    }
}

impl Default for RtcSettings {
    fn default() -> Self {
        Self {
            udp: Vec::new(),
            tcp: Vec::new(),
            single_port: false,
            single_port_table: true,
            public_addresses: Vec::new(),
            addresses_on_request: Vec::new(),
            ice_servers: Vec::new(),
            udp_backend: UdpBackend::Auto,
            af_xdp_interface: None,
            sessions_max: 10_000,
            pending_max: 4_096,
            pending_per_address_max: 1_024,
            pending_timeout: Duration::from_secs(15),
            posts_per_second_max: 500,
            history: Duration::from_millis(1_500),
            history_bytes_max: 8 << 20,
            gop_cache: true,
            gop_cache_bytes_max: 8 << 20,
            gop_cache_duration_max: Duration::from_secs(10),
            pad_runs: true,
            adaptation: true,
            start_bits_per_second: 1_000_000,
            player_bits_per_second_max: 100_000_000,
        }
    }
}

/// Settings of an application.
pub fn settings_for(applications: &[Application], app: &str) -> Arc<ApplicationSettings> {
    let found = applications.iter().find(|application| application.pattern.matches(app));
    found.map_or_else(Arc::default, |application| Arc::clone(&application.settings))
}
