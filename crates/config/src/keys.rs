//! Every key of the configuration: meaning, unit, default, range and cost.
//!
//! This is the only place that describes them. `config print --documented`, `docs/configuration.md` and `--help`
//! are written from it, and a test compares the committed page with it. What the values become for the workers
//! is in `resolve.rs`.

use super::section::section;
use super::value::{
    AllowChoice, BFramesChoice, Listen, LogFormat, ManageChoice, MetricsChoice, Moment,
    SecondPublisherChoice, UdpBackendChoice,
};

section! {
    /// Threads and the process.
    Server = "server" {
        /// Event-loop threads. 0 starts one per entry of `cores`, or, when that is empty, one per core the process may use.
        workers: i64 = 0, unit "threads", range 0..=1024,
        cost "Each thread has its own listeners and stream tables; frames of a stream cross to another worker once. More threads than cores only add switching.";

        /// Cores the workers are pinned to: worker `i` runs on entry `i`, starting over at the end. Empty leaves placement to the kernel.
        cores: Vec<i64> = Vec::new(), unit "core numbers",
        cost "A pinned worker keeps its caches, and cannot move away from a core that something else keeps busy.";

        /// File to which the listening ports are written as JSON once the server accepts connections. Meant for scripts that listen on port 0. Empty writes none.
        ports_file: String = String::new(),
        cost "None.";
    }
}

section! {
    /// RTMP: publishing and playing.
    Rtmp = "rtmp" {
        /// Addresses for RTMP. `*` means every IPv4 and IPv6 address. Port 0 picks a free port. An empty list turns RTMP off.
        listen: Listen = Listen::everywhere(1935),
        cost "One listening socket per address and worker.";
    }
}

section! {
    /// RTMP over TLS.
    Rtmps = "rtmps" {
        /// Addresses for RTMP over TLS, used once `tls.certificate` or `tls.self_signed` is set. An empty list turns it off.
        listen: Listen = Listen::everywhere(1936),
        cost "A TLS session holds about 40 kB more than a plain one, and bytes are encrypted for each player.";
    }
}

section! {
    /// HTTP: FLV and WebSocket-FLV, the management API, metrics and the console.
    Http = "http" {
        /// Addresses for HTTP. `*` means every IPv4 and IPv6 address. Port 0 picks a free port. An empty list turns HTTP off.
        listen: Listen = Listen::everywhere(8080),
        cost "One listening socket per address and worker.";

        /// `Access-Control-Allow-Origin` of media responses, so that pages of other sites may play. Empty sends none. The management API never sends it.
        cors_allow_origin: String = "*".to_owned(),
        cost "None. With `*` every web page may play what its visitor may play.";

        /// Host names, besides `localhost` and loopback addresses, under which a browser on this machine may use the management API without a token.
        public_hosts: Vec<String> = Vec::new(), unit "host names",
        cost "A name listed here that an attacker can point at 127.0.0.1 opens the API to web pages (DNS rebinding).";
    }
}

section! {
    /// WebRTC: publishing by WHIP and playing by WHEP, both at the HTTP addresses.
    Rtc = "rtc" {
        /// Addresses for media over UDP. `*` means every IPv4 and IPv6 address. Worker `i` takes the port plus `i`; port 0 picks a free one for each. An empty list turns WebRTC off.
        udp_listen: Listen = Listen::everywhere(8189),
        cost "One socket per address of this machine and worker. Firewalls must let the ports of all workers through.";

        /// Addresses for media over TCP (ICE-TCP), for networks without UDP. Ports as for `udp_listen`. An empty list turns it off.
        tcp_listen: Listen = Listen::everywhere(8189),
        cost "One listening socket per address and worker. Clients that end up here get the delays of TCP.";

        /// Addresses announced to clients in place of all those of this machine, with the same ports: for servers behind a NAT that forwards the ports. List the address in the local network too if there are clients in it. Names are not accepted.
        public_addresses: Vec<String> = Vec::new(), unit "IP addresses",
        cost "Clients that cannot reach these addresses cannot connect.";

        /// STUN and TURN servers announced to clients: `stun:HOST`, `turn:HOST:PORT?transport=udp`, `turns:HOST`. Most need none, because this server is reached directly.
        ice_servers: Vec<String> = Vec::new(), unit "URIs",
        cost "Clients take longer to connect while they ask a server that does not answer.";

        /// User name for the TURN servers among `ice_servers`.
        ice_username: String = String::new(),
        cost "Every client that may publish or play learns it.";

        /// Password for the TURN servers among `ice_servers`.
        ice_credential: String = String::new(), secret true,
        cost "Every client that may publish or play learns it.";

        /// How datagrams are sent: `auto` takes the best that needs no privilege and works here. `af_xdp` goes past the kernel's UDP stack and needs `af_xdp_interface`.
        udp_backend: UdpBackendChoice = UdpBackendChoice::Auto,
        cost "`af_xdp` needs CAP_NET_RAW and CAP_NET_ADMIN, and takes a transmit queue of the interface for each worker.";

        /// Network interface for `udp_backend = "af_xdp"`.
        af_xdp_interface: String = String::new(),
        cost "None.";

        /// WebRTC sessions of one worker; further ones are answered 503.
        sessions_per_worker: i64 = 10_000, unit "sessions", range 1..=1_000_000,
        cost "A viewer takes about 15 to 40 kB.";

        /// Sessions of one worker that have been answered and are not connected yet; further ones are answered 503.
        pending_per_worker: i64 = 4_096, unit "sessions", range 1..=1_000_000,
        cost "Bounds what a flood of offers without media can hold.";

        /// The same of one client address (an IPv6 network of 64 bits counts as one), over all workers; further ones are answered 429.
        pending_per_address: i64 = 1_024, unit "sessions", range 1..=1_000_000,
        cost "Behind a reverse proxy all clients have its address, and share this.";

        /// A session whose client has not connected by ICE and DTLS after this long is freed.
        pending_timeout_ms: i64 = 15_000, unit "ms", range 1_000..=600_000,
        cost "Longer lets offers without media hold their slot for longer.";

        /// Requests for sessions (and changes of them) one client address may make in a second, on average; twice as many at once. Further ones are answered 429. 0 sets no limit.
        requests_per_second: i64 = 500, unit "requests per second", range 0..=1_000_000,
        cost "A request for a session costs less than 0.4 ms of CPU.";

        /// How long a packet can be sent again after it was lost.
        history_ms: i64 = 1_500, unit "ms", range 100..=30_000,
        cost "Memory per track and worker: this much media.";

        /// Most bytes the packets of one track take that are kept for sending again.
        history_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "Memory per track and worker.";

        /// Whether a new player starts with the packets since the last key frame (a picture at once) or waits for the next one.
        gop_cache: bool = true,
        cost "Memory per stream and worker up to `gop_cache_max_bytes`, and a burst of packets for each new player.";

        /// Most bytes the packets since the last key frame take; of longer groups of pictures nothing is kept, and the publisher is asked for a key frame.
        gop_cache_max_bytes: i64 = 8_388_608, unit "bytes", range 0..=1_073_741_824,
        cost "Memory per track and worker.";

        /// Longest group of pictures kept for new players.
        gop_cache_max_ms: i64 = 10_000, unit "ms", range 0..=600_000,
        cost "Longer groups are larger bursts.";

        /// Whether packets of a frame that are one byte shorter than its longest get a byte of RTP padding (RFC 3550 section 5.1), so that all of them leave in one run. Browsers cut frames that way.
        pad_runs: bool = true,
        cost "A byte for such packets; saves a tenth of the CPU. Receivers that do not know padding would take it for payload.";
    }
}

section! {
    /// HTTP over TLS.
    Https = "https" {
        /// Addresses for HTTPS, used once `tls.certificate` or `tls.self_signed` is set. An empty list turns it off.
        listen: Listen = Listen::everywhere(8443),
        cost "A TLS session holds about 40 kB more than a plain one, and bytes are encrypted for each player.";
    }
}

section! {
    /// Certificate for RTMPS and HTTPS.
    Tls = "tls" {
        /// File with the certificate chain, PEM, own certificate first. Read once at start.
        certificate: String = String::new(),
        cost "None; turns RTMPS and HTTPS on.";

        /// File with the private key of the certificate, PEM.
        key: String = String::new(),
        cost "None.";

        /// Makes a new self-signed certificate at each start when no certificate is given. For trials: clients must be told to accept it.
        self_signed: bool = false,
        cost "Clients cannot tell this server from another one in between.";

        /// Names and addresses in the self-signed certificate.
        self_signed_names: Vec<String> = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()],
        cost "None.";
    }
}

section! {
    /// Bounds that keep one peer from harming the others.
    Limits = "limits" {
        /// Sessions of one worker; further connections are closed at once.
        sessions_per_worker: i64 = 50_000, unit "sessions", range 1..=4_000_000,
        cost "A playing session takes about 12 kB besides kernel socket buffers, and one file descriptor (`ulimit -n`).";

        /// Time from accept to a publish or play command, or to a complete HTTP request head; then the connection is closed.
        handshake_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "Longer lets idle connections hold their slot and up to 64 kB for longer.";

        /// A publisher that sends no byte for this long is closed, and its stream waits for a new one.
        publisher_idle_timeout_ms: i64 = 30_000, unit "ms", range 1_000..=3_600_000,
        cost "Longer leaves players looking at a dead publisher; shorter ends publishers on a bad network.";

        /// Largest RTMP message accepted from a publisher.
        message_max_bytes: i64 = 8_388_608, unit "bytes", range 4_096..=16_777_215,
        cost "A publisher may make the server hold this much for a message in progress.";

        /// Frames that fit in the ring between two workers; when full, frames are dropped up to the next key frame.
        ring_frames: i64 = 4_096, unit "frames", range 64..=1_048_576,
        cost "16 bytes per frame and ordered pair of workers, allocated at start; the frames themselves are shared.";

        /// Data the kernel holds unsent for a player before it reports the socket as full (`TCP_NOTSENT_LOWAT`).
        socket_unsent_bytes: i64 = 131_072, unit "bytes", range 4_096..=16_777_216,
        cost "More memory in the kernel per slow player, in exchange for fewer wake-ups.";

        /// Send buffer of player sockets (`SO_SNDBUF`). 0 leaves the kernel's automatic sizing.
        socket_send_buffer_bytes: i64 = 0, unit "bytes", range 0..=67_108_864,
        cost "A fixed size bounds kernel memory per player and caps throughput at this many bytes per round trip.";
    }
}

section! {
    /// How streams behave. `[stream]` applies to every application; an `[[application]]` entry repeats the keys it wants different. For WebRTC, `second_publisher`, `wait_for_publisher_seconds` and the keys of bridges hold; the rest is about frames, and `[rtc]` has keys of its own for packets.
    Stream = "stream" {
        /// How long a message may wait to be sent to a player together with others. 0 sends each message at once.
        merge_latency_ms: i64 = 100, unit "ms", range 0..=10_000,
        cost "Adds up to this much delay. Fewer writes: at 600 kbit/s a player costs the kernel about five times less at 100 than at 0.";

        /// Send as soon as this many messages wait, even before `merge_latency_ms`. 0 sets no such limit.
        merge_messages: i64 = 0, unit "messages", range 0..=100_000,
        cost "Small numbers mean more writes.";

        /// Whether a new player starts with the last group of pictures (a picture at once, that much behind) or waits for the next key frame.
        gop_cache: bool = true,
        cost "Memory per stream and worker up to `gop_cache_max_bytes`; players start up to one group of pictures late.";

        /// Most bytes the GOP cache of one stream holds; a longer group of pictures is not offered to new players.
        gop_cache_max_bytes: i64 = 8_388_608, unit "bytes", range 0..=1_073_741_824,
        cost "Memory per stream and worker.";

        /// Longest group of pictures kept in the GOP cache, in media time.
        gop_cache_max_ms: i64 = 20_000, unit "ms", range 0..=600_000,
        cost "Longer groups are larger and leave new players further behind.";

        /// Most bytes a player may be behind before it is moved to the next key frame.
        player_queue_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "Players hold references to shared bytes, so memory is bounded by the slowest player of a stream, not by their number.";

        /// Longest a player may be behind, by when messages arrived, before it is moved to the next key frame.
        player_queue_max_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "As for `player_queue_max_bytes`.";

        /// A player that takes no byte for this long while data waits for it is disconnected.
        player_stall_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "Longer keeps dead connections for longer.";

        /// How long a player waits for a publisher. 0 refuses it at once, -1 lets it wait for ever. By WHEP only who is connected waits: a stream that is not published yet is answered 409.
        wait_for_publisher_seconds: i64 = 60, unit "seconds", range -1..=86_400,
        cost "A waiting player holds its session.";

        /// What happens when a stream that has a publisher gets another one. Whatever is set, a WHIP publisher that has been silent for 13 s gives way.
        second_publisher: SecondPublisherChoice = SecondPublisherChoice::Refuse,
        cost "`take_over` lets anybody who may publish cut off the current publisher.";

        /// Whether streams of RTMP are played by WebRTC as well, and those of WebRTC by RTMP and FLV. A bridge runs while it has players, once for all of them.
        bridge: bool = true,
        cost "CPU per bridge: `millstream_stream_bridge_cpu_seconds` says how much. Audio of RTMP is transcoded, see `[transcoding]`.";

        /// To WebRTC, which has no B-frames: `drop` leaves those out that no other picture needs and warns once per stream, `refuse` leaves the video to players of RTMP and FLV. So does `drop` where other pictures need them (x264 from preset `faster` on, unless `b-pyramid=none`). Publishers without B-frames (x264: `-bf 0` or `-tune zerolatency`; OBS: B-frames 0) are played as they are.
        bridge_b_frames: BFramesChoice = BFramesChoice::Drop,
        cost "`drop` lowers the frame rate: by half with one B-frame between two others, to a third with two.";

        /// From WebRTC: longest a packet that is missing is waited for. Nothing waits while nothing is missing.
        bridge_delay_max_ms: i64 = 250, unit "ms", range 0..=5_000,
        cost "Longer delays players after losses; shorter leaves pictures out that would have been repaired.";

        /// From WebRTC: longest distance of key frames while it is played by RTMP or FLV; the publisher is asked for one then. Browsers send none by themselves.
        bridge_key_frame_interval_ms: i64 = 2_000, unit "ms", range 250..=60_000,
        cost "A key frame is several times as large as another one; a long distance makes players begin late.";

        /// How long a bridge goes on after its last player.
        bridge_linger_ms: i64 = 10_000, unit "ms", range 0..=3_600_000,
        cost "Longer spends CPU on nobody; the next player after the end of a bridge waits for a key frame.";

        /// From WebRTC: whether Opus becomes AAC, in builds that have the encoder (cargo feature `fdk-aac`). Otherwise, and in builds without, it is sent as it is by Enhanced RTMP.
        bridge_aac: bool = true,
        cost "CPU of a transcoding thread; fewer players take Opus than AAC.";
    }
}

section! {
    /// Threads that transcode the audio of bridges, shared by all streams. Workers never transcode.
    Transcoding = "transcoding" {
        /// Threads. 0 starts one per core the process may use, at most 8. They start with the first stream that needs one.
        threads: i64 = 0, unit "threads", range 0..=64,
        cost "Threads beyond the cores only add switching; they compete with workers that are not pinned.";

        /// Streams transcoded at a time; further ones are bridged without audio.
        streams_max: i64 = 256, unit "streams", range 0..=100_000,
        cost "CPU of about a hundredth of a core per stream, and 200 kB of memory.";

        /// Rate of Opus made for WebRTC players, of stereo; mono takes half.
        opus_bits_per_second: i64 = 96_000, unit "bits per second", range 12_000..=510_000,
        cost "Bandwidth of each player.";

        /// Rate of AAC made for RTMP and FLV players, of stereo; mono takes half. Only in builds with the encoder (cargo feature `fdk-aac`).
        aac_bits_per_second: i64 = 128_000, unit "bits per second", range 32_000..=320_000,
        cost "Bandwidth of each player.";
    }
}

section! {
    /// Streams of one application, in order: the first entry whose name matches applies. Keys of `[stream]` may follow the name.
    ApplicationName = "application" {
        /// App name, or a pattern in which `*` stands for any run of characters, `/` included.
        name: String = String::new(),
        cost "None.";
    }
}

section! {
    /// Who may publish, play and manage. Rules with patterns are in `[[auth.publish]]` and `[[auth.play]]`; the tokens here apply to every stream no rule matched.
    Auth = "auth" {
        /// Token that lets publish every stream without a rule of its own. With a token or rule set, loopback peers need it too.
        publish_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `publish_token`; white space around it is ignored.
        publish_token_file: String = String::new(),
        cost "None.";

        /// Token that lets play every stream without a rule of its own. Without it anyone may play.
        play_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `play_token`.
        play_token_file: String = String::new(),
        cost "None.";

        /// Who may use the management API: `auto` asks for the token once one is configured and trusts this machine until then.
        manage: ManageChoice = ManageChoice::Auto,
        cost "`loopback` trusts every user of this machine, and everybody who comes through a reverse proxy that runs on it and hides their address.";

        /// Token for the management API, sent as `Authorization: Bearer TOKEN`.
        manage_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `manage_token`.
        manage_token_file: String = String::new(),
        cost "None.";

        /// Who may read `/metrics`: `auto` means whoever may use the management API, and whoever shows the metrics token.
        metrics: MetricsChoice = MetricsChoice::Auto,
        cost "`anyone` shows stream names and traffic to everybody who reaches the port.";

        /// Token that opens `/metrics` and nothing else.
        metrics_token: String = String::new(), secret true,
        cost "Flags are visible to other users of the machine: prefer the file.";

        /// File that holds `metrics_token`.
        metrics_token_file: String = String::new(),
        cost "None.";
    }
}

section! {
    /// Publish and play rules, in order: the first whose pattern matches `app/stream` decides. Once a list has an entry, what no entry matches falls to the token of `[auth]`, and without one is refused.
    AuthRule = "auth.publish" {
        /// Pattern over `app/stream`; `*` stands for any run of characters, `/` included.
        stream: String = String::new(),
        cost "None.";

        /// Who is let in. `loopback` is no way around a token unless the rule says `token_or_loopback`.
        allow: AllowChoice = AllowChoice::Token,
        cost "`loopback` and `token_or_loopback` trust every peer whose connection starts on this machine, reverse proxies included.";

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
        /// Form of a line.
        format: LogFormat = LogFormat::Text,
        cost "None.";

        /// Least severe level written: `error`, `warn`, `info`, `debug` or `trace`, optionally per module as in `info,millstream::worker=debug`.
        level: String = "info".to_owned(),
        cost "`debug` writes several lines per session. Workers never wait for the log: when it falls behind, lines are dropped and counted.";

        /// Lines one place in the code may write per second and thread; how many were left out is said with the next one. 0 sets no limit.
        lines_per_second: i64 = 200, unit "lines per second", range 0..=1_000_000,
        cost "Without a limit a flood of bad connections becomes a flood of lines.";
    }
}

section! {
    /// Prometheus metrics at `/metrics`.
    Metrics = "metrics" {
        /// Streams that get samples of their own: those with most players first. `millstream_streams_omitted` says how many are left out.
        streams_max: i64 = 1_000, unit "streams", range 0..=100_000,
        cost "Nine time series per stream in whatever stores the metrics, and ten more while it has a bridge.";
    }
}

section! {
    /// Stopping on SIGTERM or SIGINT.
    Shutdown = "shutdown" {
        /// Time sessions have to end after they are notified; then they are closed. A second signal ends the process at once.
        drain_seconds: i64 = 10, unit "seconds", range 0..=3_600,
        cost "A restart takes up to this much longer.";
    }
}

section! {
    /// Sources this server publishes itself: `[[pull]]` and channels. Their URLs may come from the API, so what they reach is limited.
    Sources = "sources" {
        /// Whether sources may connect to addresses that are not public: loopback, private, link-local and others (also in their IPv6 forms, and after redirects). Checked after names are resolved.
        allow_private_addresses: bool = false,
        cost "Whoever may use the management API can make this server send requests inside its network.";

        /// File with certificates in PEM that are trusted besides those of the system, for sources by HTTPS and RTMPS. Read once at start. Empty: none.
        ca_file: String = String::new(),
        cost "Whoever holds a key of these certificates can pose as any source.";

        /// Directory below which channels made through the API may name files. Empty allows none. Channels of the configuration may name any file.
        files_root: String = String::new(),
        cost "Whoever may use the management API can publish every file in it.";

        /// Pulls at a time, those of the configuration included; further ones are answered 409.
        pulls_max: i64 = 100, unit "pulls", range 0..=100_000,
        cost "The bandwidth of each, always. One thread serves all sources, and decrypts those by TLS.";

        /// Channels at a time, those of the configuration included; further ones are answered 409.
        channels_max: i64 = 100, unit "channels", range 0..=100_000,
        cost "For each: a thread and the memory of an item, see `channel.items`; of two items while the next one is opened.";

        /// Redirects followed in a row.
        redirects_max: i64 = 5, unit "redirects", range 0..=20,
        cost "None.";

        /// Time to open a connection: name, TCP, TLS, and until an answer begins.
        connect_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "Longer waits for servers that do not answer.";

        /// A source that sends nothing for this long is given up and tried again.
        stall_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "Longer leaves players looking at a dead source; shorter gives up sources that only pause.";

        /// First pause before a source that failed is tried again; it doubles each time, and varies by a quarter.
        retry_min_ms: i64 = 500, unit "ms", range 10..=600_000,
        cost "Shorter asks a broken source more often.";

        /// Longest such pause.
        retry_max_ms: i64 = 30_000, unit "ms", range 10..=3_600_000,
        cost "Longer finds a source that is back later.";

        /// Largest file of a channel. 0 sets no limit.
        file_max_bytes: i64 = 0, unit "bytes", range 0..=9_007_199_254_740_991,
        cost "None: files are read piece by piece.";
    }
}

section! {
    /// Live streams of other servers that this one publishes as its own. Tried again for ever when they end; more can be added through the API.
    PullEntry = "pull" {
        /// Name of the stream here, as `app/stream`.
        stream: String = String::new(),
        cost "None.";

        /// Where it comes from: `rtmp://`, `rtmps://`, or `http://` and `https://` for FLV. A user name and password in it are used for HTTP and are not shown.
        url: String = String::new(), secret true,
        cost "The bandwidth of the stream, always: a pull does not wait for players.";
    }
}

section! {
    /// Virtual live channels: playlists of MP4 files that are played in real time as streams. More can be added through the API.
    ChannelEntry = "channel" {
        /// Name of the stream, as `app/stream`.
        stream: String = String::new(),
        cost "None.";

        /// What is played, in order: `http://` and `https://` URLs of MP4 files, and paths. Relative paths begin at `sources.files_root`, or where the server was started. A user name and password in a URL are used and not shown.
        items: Vec<String> = Vec::new(), unit "URLs and paths",
        cost "A thread and up to 7 MB of memory for the item that is played, besides the index of its file (about 6 MB an hour), and 8 MB more where its audio and video are interleaved far apart; the same for the next one before it begins.";

        /// Whether the first item follows the last one.
        r#loop: bool = true,
        cost "None.";

        /// When the playlist began: the channel joins it where it would be now, and waits for a time in the future. Empty begins with the first item when the server starts.
        start: Moment = Moment::default(),
        cost "Items are opened at start to learn how long they are.";
    }
}

section! {
    /// The demo channel: a sample picture published to this server by itself.
    Demo = "demo" {
        /// Whether to publish it. `millstream demo` turns it on.
        enabled: bool = false,
        cost "One publisher of about 600 kbit/s.";

        /// Its name, as `app/stream`.
        stream: String = "demo/clock".to_owned(),
        cost "None.";
    }
}
