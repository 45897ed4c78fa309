//! Every key of the configuration: meaning, unit, default, range and cost.
//!
//! This is the only place that describes them. `config print --documented`, `docs/configuration.md`
//! and `--help` are written from it, and a test compares the committed page with it. What the
//! values become for the workers is in `resolve.rs`.

mod acme;
mod hooks;
mod limits;
mod moq;
mod push;
mod record;
mod rtmp;
mod rtsp;
mod srt;
mod telemetry;
mod tls;
mod vod;

pub use acme::Acme;
pub use hooks::Hooks;
pub use limits::Limits;
pub use moq::Moq;
pub use push::{PushEntry, PushLimits};
pub use record::{Record, RecordRule, Upload};
pub use rtmp::{Rtmp, Rtmps};
pub use rtsp::{Rtsp, Rtsps};
pub use srt::{Srt, SrtStream};
pub use telemetry::Telemetry;
pub use tls::{CertificateFiles, Tls};
pub use vod::{Vod, VodRemote};

use super::section::section;
use super::value::{
    AllowChoice, BFramesChoice, HlsChoice, Listen, LogFormat, ManageChoice, MetricsChoice, Moment,
    RedirectChoice, RelayBackendChoice, SecondPublisherChoice, UdpBackendChoice,
};

section! {
    /// Threads and the process.
    Server = "server" {
        /// Event-loop threads. 0 starts one per entry of `cores`, or, when that is empty, one per
        /// core the process may use.
        workers: i64 = 0, unit "threads", range 0..=1024,
        cost "Each thread has its own listeners and stream tables; frames of a stream cross to \
            another worker once. More threads than cores only add switching.";

        /// Cores the workers are pinned to: worker `i` runs on entry `i`, starting over at the end.
        /// Empty leaves placement to the kernel.
        cores: Vec<i64> = Vec::new(), unit "core numbers",
        cost "A pinned worker keeps its caches, and cannot move away from a core that something \
            else keeps busy.";

        /// File to which the listening ports are written as JSON once the server accepts
        /// connections. Meant for scripts that listen on port 0. Empty writes none.
        ports_file: String = String::new(),
        cost "None.";
    }
}

section! {
    /// HTTP: FLV and WebSocket-FLV, the management API, metrics and the console.
    Http = "http" {
        /// Addresses for HTTP. `*` means every IPv4 and IPv6 address. Port 0 picks a free port. An
        /// empty list turns HTTP off. `rtmp.listen`, `rtmps.listen`, `http.listen` and `https.listen`
        /// may name the same address: the first bytes of a connection say what it is.
        listen: Listen = Listen::everywhere(8080),
        cost "One listening socket per address and worker.";

        /// `Access-Control-Allow-Origin` of media responses, so that pages from other sites may
        /// play. If empty, the header is not sent. The management API never sends it.
        cors_allow_origin: String = "*".to_owned(),
        cost "None. With `*`, every web page may play whatever its visitor may play.";

        /// Host names, besides `localhost` and loopback addresses, under which a browser on this
        /// machine may use the management API without a token.
        public_hosts: Vec<String> = Vec::new(), unit "host names",
        cost "A name listed here that an attacker can point at 127.0.0.1 opens the API to web \
            pages (DNS rebinding).";

        /// Time a connection without a request is kept open for the next one, over HTTP and HTTPS.
        /// 0 closes every connection after its answer.
        keep_alive_seconds: i64 = 75, unit "s", range 0..=3_600,
        cost "A longer time keeps more connections open: 1.5 kB and a file descriptor each, with TLS \
            about 11 kB.";

        /// Connections kept open between two requests, of all workers. Beyond it, answers say
        /// `Connection: close`.
        keep_alive_connections: i64 = 20_000, unit "connections", range 0..=4_000_000,
        cost "1.5 kB and a file descriptor per connection, with TLS about 11 kB.";

        /// The same for one client address (IPv6: /64).
        keep_alive_connections_per_address: i64 = 1_000, unit "connections", range 0..=4_000_000,
        cost "One address can hold this many; a reverse proxy needs as many as it keeps open.";
    }
}

section! {
    /// WebRTC: publishing by WHIP and playing by WHEP, both at the HTTP addresses.
    Rtc = "rtc" {
        /// Addresses for media over UDP. `*` means every IPv4 and IPv6 address. Worker `i` takes
        /// the port plus `i`; port 0 picks a free one for each. An empty list turns WebRTC off.
        udp_listen: Listen = Listen::everywhere(8189),
        cost "One socket per address of this machine and worker. Firewalls must let the ports of \
            all workers through.";

        /// Addresses for media over TCP (ICE-TCP), for networks without UDP. Ports as for
        /// `udp_listen`. An empty list turns it off.
        tcp_listen: Listen = Listen::everywhere(8189),
        cost "One listening socket per address and worker. Clients that use it get the delays of TCP.";

        /// All workers share the one UDP port of `udp_listen` and the one TCP port of `tcp_listen`,
        /// where a firewall or a Kubernetes Service lets only one through. The kernel gives each
        /// datagram to a worker, and that passes on what is another's.
        single_port: bool = false,
        cost "Of what clients send (a viewer little, a publisher its media) most crosses from one worker \
            to another, where `single_port_table` cannot help. What is sent to them costs the same.";

        /// With `single_port`, the kernel keeps a table of the worker of each client's address (eBPF),
        /// so that next to nothing crosses. Takes `CAP_BPF`, or `kernel.unprivileged_bpf_disabled = 0`;
        /// without, the log says so, and what goes to the wrong worker is passed on.
        single_port_table: bool = true,
        cost "Up to 6 MB of the kernel's memory for each address, at 65,536 clients.";

        /// Addresses announced to clients instead of the addresses of this machine, with the same
        /// ports: for servers behind a NAT that forwards the ports. Also list the local address if
        /// there are clients in the local network. Names are not accepted.
        public_addresses: Vec<String> = Vec::new(), unit "IP addresses",
        cost "Clients that cannot reach these addresses cannot connect.";

        /// Addresses that a client may have announced to it alone, instead of all others, by
        /// `?eip=ADDRESS` on its WHIP or WHEP URL: a browser outside and a load generator inside then
        /// use one server. Other addresses are refused. Names are not accepted.
        addresses_on_request: Vec<String> = Vec::new(), unit "IP addresses",
        cost "A client that asks for an address it cannot reach cannot connect.";

        /// STUN and TURN servers announced to clients: `stun:HOST`, `turn:HOST:PORT?transport=udp`,
        /// `turns:HOST`. Most clients need none, because they reach this server directly.
        ice_servers: Vec<String> = Vec::new(), unit "URIs",
        cost "Clients take longer to connect while they wait for a server that does not answer.";

        /// User name for the TURN servers among `ice_servers`.
        ice_username: String = String::new(),
        cost "Every client that may publish or play receives it.";

        /// Password for the TURN servers among `ice_servers`.
        ice_credential: String = String::new(), secret true,
        cost "Every client that may publish or play receives it.";

        /// How datagrams are sent: `auto` picks the best one that needs no privileges and works
        /// here. `sendmsg` makes a call for each, for comparison. `af_xdp` bypasses the kernel's UDP
        /// stack and needs `af_xdp_interface`.
        udp_backend: UdpBackendChoice = UdpBackendChoice::Auto,
        cost "`af_xdp` needs CAP_NET_RAW and CAP_NET_ADMIN, and uses one transmit queue of the \
            interface per worker.";

        /// Network interface for `udp_backend = "af_xdp"`.
        af_xdp_interface: String = String::new(),
        cost "None.";

        /// WebRTC sessions per worker; further ones get 503.
        sessions_per_worker: i64 = 10_000, unit "sessions", range 1..=1_000_000,
        cost "A viewer takes about 15 to 40 kB.";

        /// Sessions per worker that have been answered but are not connected yet; further ones get 503.
        pending_per_worker: i64 = 4_096, unit "sessions", range 1..=1_000_000,
        cost "Bounds the resources that a flood of offers without media can hold.";

        /// The same per client address (an IPv6 /64 counts as one), over all workers; further ones get 429.
        pending_per_address: i64 = 1_024, unit "sessions", range 1..=1_000_000,
        cost "Behind a reverse proxy, all clients have its address and share this limit.";

        /// A session whose client has not completed ICE and DTLS after this time is freed.
        pending_timeout_ms: i64 = 15_000, unit "ms", range 1_000..=600_000,
        cost "A longer time lets offers without media hold their slot longer.";

        /// Requests to create or change sessions that one client address may make per second, on
        /// average; bursts may be twice as large. Further ones get 429. 0 means no limit.
        requests_per_second: i64 = 500, unit "requests per second", range 0..=1_000_000,
        cost "A session request costs less than 0.4 ms of CPU.";

        /// How long a packet is kept for retransmission. 100 ms at most while nobody plays the
        /// stream.
        history_ms: i64 = 1_500, unit "ms", range 100..=30_000,
        cost "Memory per track and worker: media of this duration.";

        /// Maximum memory of the packets kept per track for retransmission.
        history_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "Memory per track and worker.";

        /// Whether a new player starts with the packets since the last key frame (immediate
        /// picture) or waits for the next one. A stream without players keeps none if its publisher
        /// has answered requests for key frames at once: it gets one when a player's session is
        /// opened, and the picture is there when the player is connected.
        gop_cache: bool = true,
        cost "Memory per stream and worker up to `gop_cache_max_bytes`, and a burst of packets for \
            each new player.";

        /// Maximum memory of the packets since the last key frame. Nothing is kept of larger groups
        /// of pictures; a key frame is requested from the publisher instead.
        gop_cache_max_bytes: i64 = 8_388_608, unit "bytes", range 0..=1_073_741_824,
        cost "Memory per track and worker.";

        /// Longest group of pictures kept for new players.
        gop_cache_max_ms: i64 = 10_000, unit "ms", range 0..=600_000,
        cost "Longer groups mean larger bursts.";

        /// Whether players get what their networks carry: each gets packets at the pace of its path,
        /// simulcast layers by its rate, and less video where there is no room for all of it.
        /// Without, all of a stream is sent to each player, whatever becomes of it.
        adaptation: bool = true,
        cost "Players that report each packet (`transport-cc`) cost some hundredths more CPU, and 6 kB.";

        /// What a player's network is taken to carry before it has reported anything. Of players that report
        /// packets; others begin with the most (docs/whep.md).
        start_kbps: i64 = 1_000, unit "kbit/s", range 50..=100_000,
        cost "More: the first pictures come sooner, and slow networks lose some of them.";

        /// Most that is sent to one player.
        player_max_kbps: i64 = 100_000, unit "kbit/s", range 100..=10_000_000,
        cost "None below it.";

        /// Whether packets of a frame that are one byte shorter than its longest get a byte of RTP
        /// padding (RFC 3550 section 5.1), so that all of them can be sent in one run. Browsers
        /// produce such frames.
        pad_runs: bool = true,
        cost "One byte in such packets; saves a tenth of the CPU. Receivers that do not implement \
            padding would treat it as payload.";
    }
}

section! {
    /// HTTP over TLS.
    Https = "https" {
        /// Addresses for HTTPS, used once `tls.certificate` or `tls.self_signed` is set. An empty
        /// list turns it off.
        listen: Listen = Listen::everywhere(8443),
        cost "A TLS session holds about 40 kB more than a plain one, and bytes are encrypted for \
            each player.";
    }
}

section! {
    /// How streams behave. `[stream]` applies to every application; an `[[application]]` entry
    /// overrides individual keys. For WebRTC, only `second_publisher`, `wait_for_publisher_seconds`
    /// and the bridge keys apply; `[rtc]` has separate keys for packets.
    Stream = "stream" {
        /// How long a message may wait to be sent together with others. 0 sends each message at once.
        merge_latency_ms: i64 = 100, unit "ms", range 0..=10_000,
        cost "Adds up to this much delay. Fewer writes: at 600 kbit/s a player costs the kernel \
            about five times less at 100 than at 0.";

        /// Send as soon as this many messages are waiting, even before `merge_latency_ms`. 0 means
        /// no such limit.
        merge_messages: i64 = 0, unit "messages", range 0..=100_000,
        cost "Small values mean more writes.";

        /// Whether a new player starts with the last group of pictures (immediate picture, but
        /// later than live) or waits for the next key frame.
        gop_cache: bool = true,
        cost "Memory per stream and worker up to `gop_cache_max_bytes`; players start up to one \
            group of pictures late.";

        /// Maximum bytes in the GOP cache of a stream; a larger group of pictures is not sent to new players.
        gop_cache_max_bytes: i64 = 8_388_608, unit "bytes", range 0..=1_073_741_824,
        cost "Memory per stream and worker.";

        /// Longest group of pictures kept in the GOP cache, in media time.
        gop_cache_max_ms: i64 = 20_000, unit "ms", range 0..=600_000,
        cost "Longer groups take more memory and leave new players further behind.";

        /// Bytes a player may lag behind before it skips to the next key frame.
        player_queue_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "Players hold references to shared bytes, so memory is bounded by the slowest player \
            of a stream, not by their number.";

        /// Time a player may lag behind, measured by arrival of messages, before it skips to the
        /// next key frame.
        player_queue_max_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "As for `player_queue_max_bytes`.";

        /// A player that accepts no byte for this long while data is waiting is disconnected.
        player_stall_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "A longer time keeps dead connections longer.";

        /// How long a player waits for a publisher. 0 refuses it at once, -1 lets it wait forever.
        /// WHEP viewers wait only once they are connected: requests for an unpublished stream
        /// get 409.
        wait_for_publisher_seconds: i64 = 60, unit "seconds", range -1..=86_400,
        cost "A waiting player holds its session.";

        /// What happens when a second publisher asks for a stream. Regardless of this setting, a
        /// WHIP publisher that has been silent for 13 s is replaced.
        second_publisher: SecondPublisherChoice = SecondPublisherChoice::Refuse,
        cost "`take_over` lets anybody with publish rights cut off the current publisher.";

        /// Whether RTMP streams can be played over WebRTC, and WebRTC streams over RTMP and FLV. A
        /// bridge runs while it has players, once for all of them.
        bridge: bool = true,
        cost "CPU per bridge, see `millstream_stream_bridge_cpu_seconds_total`. RTMP audio is \
            transcoded, see `[transcoding]`.";

        /// How to bridge video with B-frames to WebRTC, which does not support them. `drop` leaves
        /// out B-frames that no other frame references and warns once per stream. `refuse`
        /// bridges no video, so that only RTMP and FLV players get it. `drop` does the same where
        /// other frames reference B-frames (x264 from preset `faster` on, unless
        /// `b-pyramid=none`). Streams without B-frames (x264: `-bf 0` or `-tune zerolatency`; OBS:
        /// B-frames 0) are not affected.
        bridge_b_frames: BFramesChoice = BFramesChoice::Drop,
        cost "`drop` lowers the frame rate: by half with one B-frame between two others, to a \
            third with two.";

        /// From WebRTC: how long to wait for a missing packet. Without loss there is no delay.
        bridge_delay_max_ms: i64 = 250, unit "ms", range 0..=5_000,
        cost "A longer time delays players after losses; a shorter one drops frames that could \
            have been repaired.";

        /// From WebRTC: maximum key frame interval while the stream is played over RTMP or FLV;
        /// after that a key frame is requested. Browsers send none on their own.
        bridge_key_frame_interval_ms: i64 = 2_000, unit "ms", range 250..=60_000,
        cost "A key frame is several times as large as other frames; a long interval makes players \
            start late.";

        /// How long a bridge keeps running after its last player has left.
        bridge_linger_ms: i64 = 10_000, unit "ms", range 0..=3_600_000,
        cost "A longer time uses CPU without players; the first player after a bridge has ended \
            waits for a key frame.";

        /// From WebRTC: whether Opus is transcoded to AAC, in builds with the encoder (cargo
        /// feature `fdk-aac`). Otherwise Opus is sent unchanged in Enhanced RTMP.
        bridge_aac: bool = true,
        cost "CPU on a transcoding thread; fewer players support Opus than AAC.";
    }
}

section! {
    /// HLS, LL-HLS and DASH: `/{app}/{stream}.m3u8` and `/{app}/{stream}.mpd` on the HTTP ports. A stream
    /// is cut into segments once, on a thread of its own, for all players and both protocols.
    Hls = "hls" {
        /// When a stream is cut into segments: never, from the first request until `linger_seconds`
        /// after the last, or as long as it is published.
        mode: HlsChoice = HlsChoice::OnDemand,
        cost "Less than 2 % of a core per stream of 3 Mbit/s, and memory of `window_segments` \
            segments. With `always` the first player does not wait for a key frame.";

        /// Length of a part (LL-HLS), and so the least delay of players.
        part_ms: i64 = 200, unit "ms", range 50..=2_000,
        cost "Shorter parts mean more requests: two for each part and player.";

        /// Length of a segment, which begins with a key frame: with key frames further apart it is
        /// as long as their distance.
        segment_ms: i64 = 2_000, unit "ms", range 500..=20_000,
        cost "Longer segments keep players without LL-HLS further behind.";

        /// Segments in a playlist, at least: three times the length of the longest are listed. Those
        /// that have left it can still be requested for 8 s and that time.
        window_segments: i64 = 6, unit "segments", range 3..=10_000,
        cost "Memory of each stream: these segments, and those that have left the playlist.";

        /// Time that playlists list, at least: how far players can go back.
        window_seconds: i64 = 0, unit "seconds", range 0..=86_400,
        cost "Memory up to `window_mb` per track, or the space of these seconds in `directory`. A playlist \
            has 100 bytes for each segment, compressed a tenth of that.";

        /// Media of a track in memory. What is older moves to `directory`; without one, playlists are as
        /// short as that makes them.
        window_mb: i64 = 64, unit "MiB", range 1..=16_384,
        cost "Memory of each track of each stream, with a long window. While the disk fails, as much again.";

        /// Directory for the older segments of long windows, made if it is not there. One server at a time
        /// uses it; what an earlier run left there is removed. Empty: windows are in memory only.
        directory: String = String::new(),
        cost "The bytes of the window of every stream that is cut, written once.";

        /// Time without a request after which a stream is no longer cut, with `on_demand`.
        linger_seconds: i64 = 30, unit "seconds", range 1..=86_400,
        cost "The next player after that waits for the next key frame if the GOP cache is off.";

        /// Streams cut at a time; further ones cannot be played so.
        streams_max: i64 = 1_000, unit "streams", range 0..=100_000,
        cost "Memory and CPU of each.";
    }
}

section! {
    /// Threads that transcode the audio of bridges, shared by all streams. Workers never transcode.
    Transcoding = "transcoding" {
        /// Threads. 0 means one per core available to the process, at most 8. They start with the
        /// first stream that needs them.
        threads: i64 = 0, unit "threads", range 0..=64,
        cost "More threads than cores only add context switches; they compete with workers that \
            are not pinned.";

        /// Streams transcoded at the same time; further ones are bridged without audio.
        streams_max: i64 = 256, unit "streams", range 0..=100_000,
        cost "CPU of about a hundredth of a core per stream, and 200 kB of memory.";

        /// Opus bitrate for WebRTC players, for stereo; mono uses half.
        opus_bits_per_second: i64 = 96_000, unit "bits per second", range 12_000..=510_000,
        cost "Bandwidth of each player.";

        /// AAC bitrate for RTMP and FLV players, for stereo; mono uses half. Only in builds with
        /// the encoder (cargo feature `fdk-aac`).
        aac_bits_per_second: i64 = 128_000, unit "bits per second", range 32_000..=320_000,
        cost "Bandwidth of each player.";
    }
}

section! {
    /// Settings per application, in order: the first entry whose name matches applies. Any key of
    /// `[stream]` may follow the name.
    ApplicationName = "application" {
        /// App name, or a pattern in which `*` stands for any run of characters, `/` included.
        name: String = String::new(),
        cost "None.";
    }
}

section! {
    /// Who may publish, play and manage. Rules with patterns are in `[[auth.publish]]` and
    /// `[[auth.play]]`; the tokens here apply to every stream that no rule matches.
    Auth = "auth" {
        /// Token for publishing every stream without a rule of its own. With a token or rule set,
        /// loopback peers need it too.
        publish_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `publish_token`; white space around it is ignored.
        publish_token_file: String = String::new(),
        cost "None.";

        /// Token for playing every stream without a rule of its own. Without it anyone may play.
        play_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `play_token`.
        play_token_file: String = String::new(),
        cost "None.";

        /// Who may use the management API: `auto` requires the token once one is configured and
        /// trusts this machine until then.
        manage: ManageChoice = ManageChoice::Auto,
        cost "`loopback` trusts every user of this machine, and everybody who comes through a \
            reverse proxy that runs on it and hides their address.";

        /// Token for the management API, sent as `Authorization: Bearer TOKEN`.
        manage_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `manage_token`.
        manage_token_file: String = String::new(),
        cost "None.";

        /// Who may read `/metrics`: `auto` means anyone who may use the management API or has the
        /// metrics token.
        metrics: MetricsChoice = MetricsChoice::Auto,
        cost "`anyone` shows stream names and traffic to everybody who can reach the port.";

        /// Token that grants access to `/metrics` only.
        metrics_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `metrics_token`.
        metrics_token_file: String = String::new(),
        cost "None.";

        /// Where the public keys of signed tokens (JWT) are: the URL of a JSON Web Key Set. With it, or
        /// another key for signed tokens, they are accepted wherever a token is, and streams that no rule
        /// matches need one.
        jwks_url: String = String::new(), secret true,
        cost "A request every `jwks_refresh_seconds`. What that server signs is let in.";

        /// File with a JSON Web Key Set, instead of a URL. Read again when it has changed.
        jwks_file: String = String::new(),
        cost "None.";

        /// How often the keys are read, and sooner when a token names a key that is not among them. Keys that
        /// have been read count until others are.
        jwks_refresh_seconds: i64 = 300, unit "s", range 10..=86_400,
        cost "A key that was withdrawn counts for this long.";

        /// Secret of tokens signed by HS256, at least 32 bytes.
        jwt_secret: String = String::new(), secret true,
        cost "Whoever can check such tokens can make them. Flags are visible to other users of the machine: \
            prefer the file.";

        /// File that holds `jwt_secret`; white space around it is ignored.
        jwt_secret_file: String = String::new(),
        cost "None.";

        /// Issuer (`iss`) that signed tokens must have. Empty: any.
        jwt_issuer: String = String::new(),
        cost "None.";

        /// Audience (`aud`) that signed tokens must have. Empty: tokens for an audience are refused.
        jwt_audience: String = String::new(),
        cost "None.";

        /// By how much the clocks of signers may differ from this machine's.
        jwt_leeway_seconds: i64 = 10, unit "s", range 0..=300,
        cost "Tokens are valid for this much longer.";

        /// Claim of signed tokens with the streams they are for: a pattern over `app/stream`, or several.
        jwt_stream_claim: String = "stream".to_owned(),
        cost "None.";

        /// Claim of signed tokens with what they allow: `publish`, `play`, `manage`, in a list or in
        /// a text with spaces.
        jwt_actions_claim: String = "actions".to_owned(),
        cost "None.";

        /// Sessions end when the token they began with expires; otherwise they last.
        jwt_ends_sessions: bool = false,
        cost "A viewer has to come back with another token.";
    }
}

section! {
    /// Publish and play rules, in order: the first whose pattern matches `app/stream` decides. Once
    /// a list has an entry, streams that no entry matches require the token of `[auth]`, and are
    /// refused without one.
    AuthRule = "auth.publish" {
        /// Pattern over `app/stream`; `*` stands for any run of characters, `/` included.
        stream: String = String::new(),
        cost "None.";

        /// Who is allowed. Loopback does not bypass a token unless the rule says `token_or_loopback`.
        allow: AllowChoice = AllowChoice::Token,
        cost "`loopback` and `token_or_loopback` trust every peer whose connection starts on this \
            machine, reverse proxies included.";

        /// Tokens of this rule.
        tokens: Vec<String> = Vec::new(), secret true,
        cost "None.";

        /// Files with one token per line.
        token_files: Vec<String> = Vec::new(),
        cost "None.";

        /// Environment variables that each hold a token. Their names must not begin with `MILLSTREAM_`.
        token_env: Vec<String> = Vec::new(),
        cost "None.";
    }
}

section! {
    /// Log lines, written to standard error.
    Log = "log" {
        /// Format of a line.
        format: LogFormat = LogFormat::Text,
        cost "None.";

        /// Least severe level written: `error`, `warn`, `info`, `debug` or `trace`, optionally per
        /// crate or module as in `info,worker=debug`.
        level: String = "info".to_owned(),
        cost "`debug` writes several lines per session. Workers never wait for the log: when it \
            falls behind, lines are dropped and counted.";

        /// Lines that one place in the code may write per second and thread; the next line says how
        /// many were left out. 0 means no limit.
        lines_per_second: i64 = 200, unit "lines per second", range 0..=1_000_000,
        cost "Without a limit a flood of bad connections becomes a flood of lines.";
    }
}

section! {
    /// Prometheus metrics at `/metrics`.
    Metrics = "metrics" {
        /// Streams with metrics of their own, those with most players first.
        /// `millstream_streams_omitted` says how many are left out.
        streams_max: i64 = 1_000, unit "streams", range 0..=100_000,
        cost "Nine time series per stream in your metrics store, and ten more while it has a bridge.";
    }
}

section! {
    /// Stopping on SIGTERM or SIGINT.
    Shutdown = "shutdown" {
        /// Time sessions have to end after they are notified; then they are closed. A second signal
        /// ends the process at once.
        drain_seconds: i64 = 10, unit "seconds", range 0..=3_600,
        cost "A restart takes up to this much longer.";
    }
}

section! {
    /// Sources this server publishes itself: `[[pull]]` and channels. Their URLs may come from the
    /// API, so the addresses they can reach are restricted.
    Sources = "sources" {
        /// Whether sources may connect to non-public addresses: loopback, private, link-local and
        /// others (also in their IPv6 forms, and after redirects). Checked after name resolution.
        allow_private_addresses: bool = false,
        cost "Anyone who may use the management API can make this server send requests inside its network.";

        /// File with PEM certificates that are trusted in addition to those of the system, for
        /// HTTPS and RTMPS sources. Read once at start. Empty: none.
        ca_file: String = String::new(),
        cost "Anyone with a key of these certificates can impersonate any source.";

        /// Directory to which the files of channels added over the API are restricted. Empty allows
        /// none. Channels in the configuration may use any file.
        files_root: String = String::new(),
        cost "Anyone who may use the management API can publish every file in it.";

        /// Pulls at the same time, including those in the configuration; further ones get 409.
        pulls_max: i64 = 100, unit "pulls", range 0..=100_000,
        cost "The bandwidth of each, permanently. One thread serves all sources and decrypts TLS.";

        /// On-demand pulls at the same time, besides `pulls_max`; further streams are refused as not
        /// published. One client address holds at most a quarter of them with sources that do not answer.
        on_demand_max: i64 = 50, unit "pulls", range 0..=100_000,
        cost "The bandwidth of each. Whoever may play streams of a pattern decides which sources are pulled.";

        /// Time that a player waits for the on-demand pull that it began to bring media; then it is refused
        /// as if nobody published the stream.
        on_demand_timeout_ms: i64 = 8_000, unit "ms", range 100..=60_000,
        cost "Players of a source that is away wait as long.";

        /// Time that an on-demand pull goes on after its last player has left.
        on_demand_linger_ms: i64 = 10_000, unit "ms", range 0..=3_600_000,
        cost "The bandwidth of the stream for as long; with less, players that reconnect wait for the source.";

        /// Channels at the same time, including those in the configuration; further ones get 409.
        channels_max: i64 = 100, unit "channels", range 0..=100_000,
        cost "Each takes a thread and the memory of one item (see `channel.items`), of two while it opens \
            the next one.";

        /// Maximum consecutive redirects.
        redirects_max: i64 = 5, unit "redirects", range 0..=20,
        cost "None.";

        /// Time to open a connection: name resolution, TCP, TLS, and the wait for the response to begin.
        connect_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "A longer time waits longer for servers that do not answer.";

        /// A source that sends no audio or video that can be read for this long is disconnected and
        /// retried.
        stall_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "A longer time leaves players with a dead source; a shorter one disconnects sources \
            that only pause.";

        /// First pause before a failed source is retried; it doubles each time and varies by a quarter.
        retry_min_ms: i64 = 500, unit "ms", range 10..=600_000,
        cost "A shorter pause retries a broken source more often.";

        /// Maximum pause.
        retry_max_ms: i64 = 30_000, unit "ms", range 10..=3_600_000,
        cost "With a longer pause it takes longer to notice that a source is back.";

        /// Largest file of a channel. 0 means no limit.
        file_max_bytes: i64 = 0, unit "bytes", range 0..=9_007_199_254_740_991,
        cost "None: files are read in pieces.";
    }
}

section! {
    /// Live streams from other servers that this one publishes as its own. Retried indefinitely
    /// when they end; more can be added over the API.
    PullEntry = "pull" {
        /// Name of the stream here, as `app/stream`. With `on_demand`, `*` in it stands for any characters:
        /// `cam/*` is for every stream of `cam`.
        stream: String = String::new(),
        cost "None.";

        /// Whether it is begun by the first player and ended after the last.
        on_demand: bool = false,
        cost "The first player waits for the source to connect and begin.";

        /// Its URL: `rtmp://`, `rtmps://`, `rtsp://`, `rtsps://`, `http://` and `https://` for FLV, or
        /// for HLS if the path ends in `.m3u8` (docs/pulls.md), `whep://` and `wheps://` for WHEP over HTTP
        /// and HTTPS, `srt://`, or `udp://` for MPEG-TS that is sent to a port or group of this host
        /// (docs/mpegts.md). A user name and password in it are used for HTTP and RTSP and are not shown.
        /// With `on_demand`, `{app}` and `{stream}` in its path and query stand for the names of the
        /// stream.
        url: String = String::new(), secret true,
        cost "The bandwidth of the stream: permanently, or with `on_demand` while it is played.";

        /// Bearer token that a WHEP endpoint wants. Empty: none.
        token: String = String::new(), secret true,
        cost "None.";
    }
}

section! {
    /// Virtual live channels: playlists of MP4 files that are played in real time as streams. More
    /// can be added over the API.
    ChannelEntry = "channel" {
        /// Name of the stream, as `app/stream`.
        stream: String = String::new(),
        cost "None.";

        /// What is played, in order: `http://` and `https://` URLs of MP4 files, paths, and recordings:
        /// `recording:live/mill`, the newest, or `recording:live/mill/20261127T190500.123Z.mp4`.
        /// Relative paths begin at `sources.files_root`, or where the server was started. A user
        /// name and password in a URL are used and not shown.
        items: Vec<String> = Vec::new(), unit "URLs and paths",
        cost "A thread and up to 7 MB of memory for the current item, plus the index of its file \
            (about 6 MB per hour), and 8 MB more if its audio and video are far apart in the file; \
            the same for the next item before it begins.";

        /// Whether the first item follows the last one.
        r#loop: bool = true,
        cost "None.";

        /// When the playlist began: the channel joins at the position it would have reached by now,
        /// or waits for a time in the future. Empty: it begins with the first item when the server
        /// starts.
        start: Moment = Moment::default(),
        cost "Items are opened at start to learn their lengths.";
    }
}

section! {
    /// Other nodes: a stream published on one is played on all. Off without `nats`. See
    /// [cluster.md](cluster.md).
    Cluster = "cluster" {
        /// NATS servers with JetStream that all nodes of the cluster use, such as
        /// `nats://10.0.0.1:4222` or `tls://nats.example.com:4222`. One is enough; the others of its
        /// cluster are learned from it. User and password have keys of their own, which are not printed.
        /// Empty: this server is no part of a cluster.
        nats: Vec<String> = Vec::new(), unit "URLs",
        cost "A few messages a second per node. Who can write to NATS can name any node as the home \
            of any stream.";

        /// File of NATS credentials: a JWT and its seed (`.creds`).
        nats_credentials_file: String = String::new(),
        cost "None.";

        /// User for NATS, with `nats_password`.
        nats_user: String = String::new(),
        cost "None.";

        /// Password for NATS. The environment keeps it out of files:
        /// `MILLSTREAM_CLUSTER_NATS_PASSWORD`.
        nats_password: String = String::new(), secret true,
        cost "None.";

        /// Token for NATS, instead of user and password.
        nats_token: String = String::new(), secret true,
        cost "None.";

        /// Seed of an nkey for NATS, instead of user and password.
        nats_nkey_seed: String = String::new(), secret true,
        cost "None.";

        /// Refuses NATS servers without TLS; `tls://` URLs do so as well.
        nats_tls: bool = false,
        cost "None.";

        /// Authorities, as PEM, to trust for NATS besides those of the system.
        nats_ca_file: String = String::new(),
        cost "None.";

        /// This node's certificate for NATS, as PEM, with `nats_key`.
        nats_certificate: String = String::new(),
        cost "None.";

        /// Private key of `nats_certificate`, as PEM.
        nats_key: String = String::new(),
        cost "None.";

        /// First part of the names that this cluster uses in NATS: clusters with different ones share
        /// NATS and nothing else. Letters, digits, `-` and `_`.
        nats_prefix: String = "millstream".to_owned(),
        cost "None.";

        /// Name of this node, its own in the cluster: letters, digits, `-`, `_` and `.`, at most 64.
        /// Needed with `nats`.
        node_name: String = String::new(),
        cost "A second node of a name does not start.";

        /// Where this node is, in your words. Nodes prefer others of their region to fetch from.
        region: String = String::new(),
        cost "None.";

        /// Address for other nodes, over TCP and UDP. `*` means every IPv4 and IPv6 address. Port 0
        /// picks a free port.
        relay_listen: Listen = Listen::everywhere(8290),
        cost "One TCP socket per address, and one UDP socket at the first. Strangers are asked for the secret and closed after 3 s.";

        /// How packets of WebRTC streams are sent to other nodes: `auto` picks the best way that needs
        /// no privileges and works here. `af_xdp` and `tc_clone` bypass parts of the kernel and need
        /// `udp_interface`, or a `relay_listen` that names an address of one.
        udp_backend: RelayBackendChoice = RelayBackendChoice::Auto,
        cost "`af_xdp` and `tc_clone` need CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.";

        /// Network interface for `udp_backend = "af_xdp"` or `"tc_clone"`.
        udp_interface: String = String::new(),
        cost "None.";

        /// Address that other nodes connect to, `HOST` or `HOST:PORT`; without a port, that of
        /// `relay_listen`. Needed unless `relay_listen` names an address.
        relay_public_address: String = String::new(),
        cost "Nodes that cannot reach it cannot fetch from this one.";

        /// File with the secret that all nodes of the cluster share: at least 16 bytes, and random,
        /// such as the output of `openssl rand -hex 32`. Needed with `nats`. Only the server's user should
        /// be able to read it (`chmod 600`); a file that others can read is used, with a warning in the log.
        secret_file: String = String::new(),
        cost "Who has it is a node: it can fetch and publish all streams.";

        /// Nodes that this one feeds with one stream, at most. A further one is sent to a node that
        /// has the stream and room.
        fan_out_max: i64 = 8, unit "nodes", range 1..=1_000,
        cost "One copy of the stream for each. Fewer make a deeper tree, and each level adds a \
            millisecond and the way between two nodes.";

        /// Whether HTTP-FLV players and WHEP viewers are sent to another node (307): `never`; `when_full`,
        /// to the least busy node when this one has no room or uses 80 % of a core; `always`, to the node
        /// that the stream is published on. WebSocket players stay; for RTMP see `public_rtmp_port`.
        redirect: RedirectChoice = RedirectChoice::Never,
        cost "A round trip more for the player, which has to follow redirects. With `always`, all players \
            of a stream are on one node.";

        /// URL of this node for players, such as `https://edge-1.example.com`: where other nodes
        /// send theirs by `redirect`. Empty: nobody is sent here.
        public_url: String = String::new(),
        cost "None.";

        /// Port at which players by RTMP reach the nodes, the same on all of them. They are sent to
        /// other nodes as `redirect` says, at the host of `public_url`, by
        /// `NetConnection.Connect.Rejected` with a new URL (`ex.redirect`). 0: players by RTMP stay.
        public_rtmp_port: i64 = 0, unit "port", range 0..=65_535,
        cost "Players that do not follow such an answer do not play: ffmpeg, for one.";

        /// How long a stream of another node is fetched after its last player has left.
        linger_ms: i64 = 5_000, unit "ms", range 0..=600_000,
        cost "The bandwidth of the stream for so long; less lets players that come and go wait for it \
            again.";
    }
}

section! {
    /// The demo channel: a test picture that the server publishes itself.
    Demo = "demo" {
        /// Whether to publish it. `millstream demo` turns it on.
        enabled: bool = false,
        cost "One publisher of about 600 kbit/s.";

        /// Its name, as `app/stream`.
        stream: String = "demo/clock".to_owned(),
        cost "None.";
    }
}
