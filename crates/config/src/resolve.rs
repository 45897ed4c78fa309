//! Turns a configuration into the settings of the server's parts: workers, policy, sources, demo
//! stream.
//!
//! Checks what cannot be seen from one key alone: files that must be readable, keys that require
//! each other, cores that must exist. Reads files, binds no socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::{ConfigError, Origin};
use super::keys::{Https, Rtmps, Rtsps, Stream};
use super::value::{BFramesChoice, ChallengeChoice, HlsChoice, SecondPublisherChoice, UdpBackendChoice};
use super::{
    Config, acme, cluster, hooks, moq, policy, record, rtc, sources, srt, telemetry, tls, upload, vod,
};
use ::acme::settings::AcmeSettings;
use ::hooks::settings::HookSettings;
use ::pushes::{PushSettings, PushSpec};
use ::sources::channels::ChannelSpec;
use ::sources::key_set::KeySource;
use ::sources::pull::PullSpec;
use ::sources::settings::SourceSettings;
use ::telemetry::settings::TelemetrySettings;
use ::vod::settings::VodSettings;
use jwt::Verifier;
use recording::settings::RecordSettings;
use rtmp::name::NameRules;
use uploads::settings::UploadSettings;
use worker_api::auth::Policy;
use worker_api::certificates::CertificateStore;
use worker_api::overload::OverloadSettings;
use worker_api::pattern::Pattern;
use worker_api::settings::{
    AddressLimits, Application, ApplicationSettings, BridgeSettings, KeepAliveSettings, MoqSettings,
    RtspSettings, SecondPublisher, SegmentsSettings, TranscodingSettings, WorkerSettings,
};
use worker_api::usage::{Usage, UsageLimits};

/// Most transcoding threads when their number is not configured: on a large machine they would only
/// take cores from workers.
const THREADS_UNASKED: usize = 8;

/// A configuration a server can be started with.
#[derive(Debug)]
pub struct Resolved {
    /// For the workers.
    pub worker: WorkerSettings,
    /// What TLS shows to clients; `None`: it is off.
    pub certificates: Option<Arc<CertificateStore>>,
    /// What certificates are ordered; `None`: none are.
    pub acme: Option<AcmeSettings>,
    /// For workers and control.
    pub policy: Policy,
    /// Keys of signed tokens that are read again, and what they are for.
    pub signed: Option<(Arc<Verifier>, KeySource)>,
    /// Limits of channels and pulls.
    pub sources: SourceSettings,
    /// `[[pull]]` entries.
    pub pulls: Vec<PullSpec>,
    /// Limits of pushes; those of sources are put in where they start.
    pub push_limits: PushSettings,
    /// `[[push]]` entries.
    pub pushes: Vec<PushSpec>,
    /// `[[channel]]` entries.
    pub channels: Vec<ChannelSpec>,
    /// `app` and `stream` of the demo channel when it is enabled.
    pub demo: Option<(String, String)>,
    /// What is recorded; `None`: nothing can be.
    pub record: Option<RecordSettings>,
    /// Where recordings are sent; `None`: they are not.
    pub upload: Option<UploadSettings>,
    /// What is played on demand; `None`: nothing.
    pub vod: Option<VodSettings>,
    /// Media over QUIC; `None`: it is off.
    pub moq: Option<MoqSettings>,
    /// Who is asked about publishers and players, and told what happens; `None`: nobody.
    pub hooks: Option<HookSettings>,
    /// Where telemetry is exported; `None`: nowhere.
    pub telemetry: Option<TelemetrySettings>,
    /// What this node is among others, if it is.
    pub cluster: Option<nodes::Settings>,
}

/// Checks and converts `config`; `variable` reads the environment. Returns all errors.
pub fn resolve(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Vec<ConfigError>> {
    let mut errors = Errors(Vec::new());
    let ipv6 = std::net::TcpListener::bind("[::]:0").is_ok();
    let certificates = config.read_certificates().unwrap_or_else(|found| {
        errors.0.extend(found);
        Vec::new()
    });
    let certificates = (!certificates.is_empty()).then(|| {
        let store = CertificateStore::new(certificates);
        Arc::new(if config.uses_self_signed() { store.with_stand_in() } else { store })
    });
    let acme = acme::settings(config, &mut errors);
    let worker = worker_settings(config, ipv6, certificates.as_ref(), &mut errors);
    let demo = demo(config, &worker.names, &mut errors);
    let record = record::settings(config, &mut errors);
    let sources = sources::settings(config, &worker.names, record.as_ref(), &mut errors);
    let signed = policy::signed_tokens(config, &sources, &mut errors);
    let policy = policy::policy(config, signed.as_ref(), variable, &mut errors);
    let pulls = sources::pulls(config, &sources, &mut errors);
    let push_limits = super::pushes::settings(config);
    let pushes = super::pushes::pushes(config, &sources, &mut errors);
    let channels = sources::channels(config, &sources, &mut errors);
    let upload = upload::settings(config, record.as_ref(), variable, &mut errors);
    let vod = vod::settings(config, record.as_ref(), &sources, &mut errors);
    let moq = moq::settings(config, worker.rtmps_tls.as_ref(), ipv6, &mut errors);
    let hooks = hooks::settings(config, &sources, record.as_ref(), &mut errors);
    let telemetry = telemetry::settings(config, &sources, &mut errors);
    let cluster = cluster::settings(config, ipv6, &mut errors);
    if !is_log_filter(&config.log.level) {
        let given = &config.log.level;
        let message = format!("`log.level` cannot be `{given}`: it takes a level, or a list of module=level");
        errors.add(&config.origin("log.level"), message);
    }
    if !errors.0.is_empty() {
        return Err(errors.0);
    }
    let signed = signed.and_then(|signed| Some((signed.signed.verifier, signed.keys?)));
    Ok(Resolved {
        worker,
        certificates,
        acme,
        policy,
        signed,
        sources,
        pulls,
        push_limits,
        pushes,
        channels,
        demo,
        record,
        upload,
        vod,
        moq,
        hooks,
        telemetry,
        cluster,
    })
}

/// Collects errors.
pub(super) struct Errors(Vec<ConfigError>);

impl Errors {
    pub(super) fn add(&mut self, origin: &Origin, message: impl Into<String>) {
        self.0.push(ConfigError::new(origin, message));
    }
}

fn worker_settings(
    config: &Config,
    ipv6: bool,
    certificates: Option<&Arc<CertificateStore>>,
    errors: &mut Errors,
) -> WorkerSettings {
    let tls = certificates.map(tls::server_config);
    let secured = [
        ("rtmps.listen", &config.rtmps.listen, Rtmps::default().listen),
        ("https.listen", &config.https.listen, Https::default().listen),
        ("rtsps.listen", &config.rtsps.listen, Rtsps::default().listen),
    ];
    for (key, listen, default) in secured {
        // The default waits for a certificate; another address is a choice that must not be dropped silently.
        let wanted = *listen != default && !listen.0.is_empty();
        if wanted && !config.tls_is_on() {
            errors.add(
                &config.origin(key),
                format!(
                    "`{key}` needs `tls.certificate` and `tls.key`, `acme.domains`, or `tls.self_signed` for a \
                     trial"
                ),
            );
        }
    }
    if config.rtsp.udp_backend == UdpBackendChoice::AfXdp {
        errors.add(&config.origin("rtsp.udp_backend"), "`rtsp.udp_backend` cannot be \"af_xdp\"");
    }
    let cores = cores(config, errors);
    let encrypted = |addresses: &super::value::Listen| match tls {
        Some(_) => addresses.addresses(ipv6),
        None => Vec::new(),
    };
    let workers = match (config.server.workers, cores.len()) {
        (0, 0) => std::thread::available_parallelism().map_or(1, usize::from),
        (0, cores) => cores,
        (workers, _) => to_usize(workers),
    };
    WorkerSettings {
        workers,
        cores,
        rtc: rtc::settings(config, ipv6, workers, errors),
        srt: srt::settings(config, ipv6, errors),
        rtsp: RtspSettings {
            listen: config.rtsp.listen.addresses(ipv6),
            tls_listen: encrypted(&config.rtsps.listen),
            udp: match config.rtsp.listen.0.is_empty() {
                true => Vec::new(),
                false => config.rtsp.udp_listen.addresses(ipv6),
            },
            udp_backend: config.rtsp.udp_backend.into(),
            pending_per_address_max: to_usize(config.rtsp.pending_per_address),
            reorder: ms(config.rtsp.reorder_ms),
            silence_max: ms(config.rtsp.silence_timeout_ms),
        },
        relay: cluster::relay(config, ipv6),
        transcoding: transcoding(config),
        segments: segments(config),
        // Made when they start.
        traces: None,
        rtmp: config.rtmp.listen.addresses(ipv6),
        rtmps: encrypted(&config.rtmps.listen),
        http: config.http.listen.addresses(ipv6),
        https: encrypted(&config.https.listen),
        handshake_timeout: ms(config.limits.handshake_timeout_ms),
        publisher_idle_timeout: ms(config.limits.publisher_idle_timeout_ms),
        sessions_max: to_usize(config.limits.sessions_per_worker),
        of_address: AddressLimits {
            connections: to_usize(config.limits.connections_per_address),
            connects_per_second: to_u32(config.limits.connects_per_second_per_address),
        },
        usage_limits: UsageLimits {
            connections_per_token: to_u32(config.limits.connections_per_token),
            connects_per_second_per_token: to_u32(config.limits.connects_per_second_per_token),
            bits_per_second_per_token: to_u64(config.limits.kbps_per_token) * 1_000,
            bits_per_second_per_address: to_u64(config.limits.kbps_per_address) * 1_000,
        },
        usage: Usage::default(),
        overload: OverloadSettings {
            load_percent: to_u32(config.limits.load_percent),
            // Last, whatever is configured.
            publisher_load_percent: match to_u32(config.limits.publisher_load_percent) {
                0 => 0,
                _ if config.limits.load_percent == 0 => 0,
                percent => percent.max(to_u32(config.limits.load_percent)),
            },
            loop_time: ms(config.limits.loop_time_ms),
            send_delay: ms(config.limits.send_delay_ms),
            egress_bits_per_second: config.limits.egress_mbit.unsigned_abs() * 1_000_000,
            memory_bytes: config.limits.memory_bytes.unsigned_abs(),
        },
        rtmp_elsewhere: u16::try_from(config.cluster.public_rtmp_port).ok().filter(|port| *port > 0),
        message_bytes_max: to_u32(config.limits.message_max_bytes),
        names: names(config, errors),
        ring_frames: to_usize(config.limits.ring_frames),
        socket_unsent_bytes_max: to_u32(config.limits.socket_unsent_bytes),
        socket_send_buffer_bytes: Some(to_u32(config.limits.socket_send_buffer_bytes))
            .filter(|bytes| *bytes > 0),
        cors_allow_origin: Some(config.http.cors_allow_origin.clone()).filter(|origin| {
            let sendable = origin.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            if !sendable {
                let at = config.origin("http.cors_allow_origin");
                errors.add(&at, "`http.cors_allow_origin` takes printable ASCII only");
            }
            !origin.is_empty()
        }),
        applications: applications(config),
        keep_alive: KeepAliveSettings {
            timeout: Duration::from_secs(config.http.keep_alive_seconds.unsigned_abs()),
            connections_max: to_usize(config.http.keep_alive_connections),
            per_address_max: to_usize(config.http.keep_alive_connections_per_address),
        },
        https_tls: tls.as_deref().map(|tls| {
            let has_challenges = config.has_acme() && config.acme.challenge == ChallengeChoice::TlsAlpn;
            tls::for_https(tls, has_challenges)
        }),
        rtmps_tls: tls,
    }
}

/// Cores to pin to; each must be one the process may run on.
fn cores(config: &Config, errors: &mut Errors) -> Vec<usize> {
    use nix::sched::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap_or_else(|_| CpuSet::new());
    let mut cores = Vec::new();
    for &core in &config.server.cores {
        let core = to_usize(core);
        if !allowed.is_set(core).unwrap_or(false) {
            let usable: Vec<_> = (0..CpuSet::count())
                .filter(|core| allowed.is_set(*core).unwrap_or(false))
                .map(|core| core.to_string())
                .collect();
            let origin = config.origin("server.cores");
            errors.add(
                &origin,
                format!("`server.cores` names core {core}; this process may use {}", usable.join(", ")),
            );
        }
        cores.push(core);
    }
    cores
}

/// Entries in order, then `[stream]` for every other name.
fn applications(config: &Config) -> Vec<Application> {
    let entry = |name: &str, stream: &Stream| Application {
        pattern: Pattern::new(name),
        settings: Arc::new(application_settings(stream)),
    };
    let entries = config.applications.iter().map(|own| entry(&own.name, &config.application_stream(own)));
    entries.chain([entry("*", &config.stream)]).collect()
}

fn application_settings(stream: &Stream) -> ApplicationSettings {
    ApplicationSettings {
        merge_latency: ms(stream.merge_latency_ms),
        merge_messages: to_u32(stream.merge_messages),
        gop_cache: stream.gop_cache,
        gop_cache_bytes_max: to_usize(stream.gop_cache_max_bytes),
        gop_cache_duration_max: ms(stream.gop_cache_max_ms),
        player_queue_bytes_max: to_usize(stream.player_queue_max_bytes),
        player_queue_duration_max: ms(stream.player_queue_max_ms),
        player_stall_timeout: ms(stream.player_stall_timeout_ms),
        wait_for_publisher: u64::try_from(stream.wait_for_publisher_seconds).ok().map(Duration::from_secs),
        second_publisher: match stream.second_publisher {
            SecondPublisherChoice::Refuse => SecondPublisher::Refuse,
            SecondPublisherChoice::TakeOver => SecondPublisher::TakeOver,
        },
        bridge: BridgeSettings {
            enabled: stream.bridge,
            b_frames: match stream.bridge_b_frames {
                BFramesChoice::Drop => bridge::BFrames::Drop,
                BFramesChoice::Refuse => bridge::BFrames::Refuse,
            },
            delay_max: ms(stream.bridge_delay_max_ms),
            key_frame_interval_max: ms(stream.bridge_key_frame_interval_ms),
            linger: ms(stream.bridge_linger_ms),
            audio_to_aac: stream.bridge_aac,
        },
    }
}

fn segments(config: &Config) -> Option<SegmentsSettings> {
    let hls = &config.hls;
    (hls.mode != HlsChoice::Off).then(|| SegmentsSettings {
        always: hls.mode == HlsChoice::Always,
        part: ms(hls.part_ms),
        // A segment has one part at least.
        segment: ms(hls.segment_ms.max(hls.part_ms)),
        window_segments: to_usize(hls.window_segments),
        window: Duration::from_secs(to_u64(hls.window_seconds)),
        window_bytes: to_usize(hls.window_mb) << 20,
        directory: (!hls.directory.is_empty()).then(|| PathBuf::from(&hls.directory)),
        linger: Duration::from_secs(to_u64(hls.linger_seconds)),
        streams_max: to_usize(hls.streams_max),
    })
}

fn transcoding(config: &Config) -> TranscodingSettings {
    let transcoding = &config.transcoding;
    TranscodingSettings {
        threads: match to_usize(transcoding.threads) {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_UNASKED),
            threads => threads,
        },
        streams_max: to_usize(transcoding.streams_max),
        opus_bits_per_second: to_u32(transcoding.opus_bits_per_second),
        aac_bits_per_second: to_u32(transcoding.aac_bits_per_second),
    }
}

fn names(config: &Config, errors: &mut Errors) -> NameRules {
    NameRules::new(&config.limits.name_extra_characters).unwrap_or_else(|c| {
        let message = format!("`limits.name_extra_characters` cannot have {}", c.escape_unicode());
        errors.add(&config.origin("limits.name_extra_characters"), message);
        NameRules::default()
    })
}

fn demo(config: &Config, names: &NameRules, errors: &mut Errors) -> Option<(String, String)> {
    if !config.demo.enabled {
        return None;
    }
    let (app, name) = config.demo.stream.rsplit_once('/').unwrap_or_default();
    if let Err(error) = names.check(app, name) {
        errors.add(&config.origin("demo.stream"), format!("`demo.stream` takes `app/stream`: {error}"));
    }
    Some((app.to_owned(), name.to_owned()))
}

/// Whether `text` is a comma-separated list of levels and `module=level`. The parser of the logging
/// crate would take a misspelt level for the name of a module.
fn is_log_filter(text: &str) -> bool {
    let level = |text: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&text.trim());
    text.split(',')
        .all(|part| part.split_once('=').map_or(level(part), |(module, of)| !module.is_empty() && level(of)))
}

pub(super) fn ms(value: i64) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

pub(super) fn to_usize(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

pub(super) fn to_u64(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn to_u32(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
