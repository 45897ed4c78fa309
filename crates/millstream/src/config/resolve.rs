//! Turns a configuration into what the parts of the server take: worker settings, policy, demo stream.
//!
//! Checks what one key alone cannot show: files that must be readable, keys that need each other, cores that must
//! exist. Reads files, binds nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::error::{ConfigError, Origin};
use super::keys::{AuthRule, Https, Rtmps, Stream};
use super::value::{AllowChoice, ManageChoice, MetricsChoice, SecondPublisherChoice};
use super::{Config, RuleEntry, tls};
use crate::auth::manage::Manage;
use crate::auth::pattern::Pattern;
use crate::auth::{Access, Policy, Rule, Rules, Tokens};
use crate::worker::settings::{Application, ApplicationSettings, SecondPublisher, WorkerSettings};

/// A configuration that can be started.
#[derive(Debug)]
pub struct Resolved {
    /// For the workers.
    pub worker: WorkerSettings,
    /// For workers and control.
    pub policy: Policy,
    /// `app` and `stream` of the demo channel when it is enabled.
    pub demo: Option<(String, String)>,
}

/// Checks and converts `config`; `variable` reads the environment. Returns all errors.
pub fn resolve(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Vec<ConfigError>> {
    let mut errors = Errors(Vec::new());
    let worker = worker_settings(config, &mut errors);
    let policy = policy(config, variable, &mut errors);
    let demo = demo(config, &mut errors);
    if !is_log_filter(&config.log.level) {
        let given = &config.log.level;
        let message = format!("`log.level` cannot be `{given}`: it takes a level, or a list of module=level");
        errors.add(&config.origin("log.level"), message);
    }
    if errors.0.is_empty() { Ok(Resolved { worker, policy, demo }) } else { Err(errors.0) }
}

/// Collects errors.
struct Errors(Vec<ConfigError>);

impl Errors {
    fn add(&mut self, origin: &Origin, message: impl Into<String>) {
        self.0.push(ConfigError::new(origin, message));
    }
}

fn worker_settings(config: &Config, errors: &mut Errors) -> WorkerSettings {
    let tls = tls::server_config(config).unwrap_or_else(|error| {
        errors.0.push(error);
        None
    });
    let secured = [
        ("rtmps.listen", &config.rtmps.listen, Rtmps::default().listen),
        ("https.listen", &config.https.listen, Https::default().listen),
    ];
    for (key, listen, default) in secured {
        // The default waits for a certificate; another address is a wish that must not be dropped silently.
        let wanted = *listen != default && !listen.0.is_empty();
        if wanted && config.tls.certificate.is_empty() && !config.tls.self_signed {
            errors.add(
                &config.origin(key),
                format!("`{key}` needs `tls.certificate` and `tls.key`, or `tls.self_signed` for a trial"),
            );
        }
    }
    let cores = cores(config, errors);
    let ipv6 = std::net::TcpListener::bind("[::]:0").is_ok();
    let encrypted = |addresses: &super::value::Listen| match tls {
        Some(_) => addresses.addresses(ipv6),
        None => Vec::new(),
    };
    WorkerSettings {
        workers: match (config.server.workers, cores.len()) {
            (0, 0) => std::thread::available_parallelism().map_or(1, usize::from),
            (0, cores) => cores,
            (workers, _) => to_usize(workers),
        },
        cores,
        rtmp: config.rtmp.listen.addresses(ipv6),
        rtmps: encrypted(&config.rtmps.listen),
        http: config.http.listen.addresses(ipv6),
        https: encrypted(&config.https.listen),
        handshake_timeout: ms(config.limits.handshake_timeout_ms),
        publisher_idle_timeout: ms(config.limits.publisher_idle_timeout_ms),
        sessions_max: to_usize(config.limits.sessions_per_worker),
        message_bytes_max: to_u32(config.limits.message_max_bytes),
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
        tls,
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
        pattern: name.to_owned(),
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
    }
}

fn policy(config: &Config, variable: &dyn Fn(&str) -> Option<String>, errors: &mut Errors) -> Policy {
    let auth = &config.auth;
    let publish_token =
        token(config, "auth.publish_token", &auth.publish_token, &auth.publish_token_file, errors);
    let play_token = token(config, "auth.play_token", &auth.play_token, &auth.play_token_file, errors);
    let manage_token =
        token(config, "auth.manage_token", &auth.manage_token, &auth.manage_token_file, errors);
    let metrics_token =
        token(config, "auth.metrics_token", &auth.metrics_token, &auth.metrics_token_file, errors);
    let (manage_loopback, manage_by_token) = match auth.manage {
        ManageChoice::Auto => (manage_token.is_empty(), true),
        ManageChoice::Token => (false, true),
        ManageChoice::Loopback => (true, false),
        ManageChoice::TokenOrLoopback => (true, true),
        ManageChoice::Nobody => (false, false),
    };
    let needs_token = matches!(auth.manage, ManageChoice::Token | ManageChoice::TokenOrLoopback);
    if needs_token && manage_token.is_empty() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` asks for a token: set `auth.manage_token` or `auth.manage_token_file`",
        );
    }
    if matches!(auth.manage, ManageChoice::Loopback | ManageChoice::Nobody) && !manage_token.is_empty() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` leaves no use for `auth.manage_token`: remove one of them",
        );
    }
    Policy {
        publish: rules(
            &config.publish_rules,
            "auth.publish",
            publish_token,
            Access::loopback(),
            variable,
            errors,
        ),
        play: rules(&config.play_rules, "auth.play", play_token, Access::anyone(), variable, errors),
        manage: Manage {
            loopback: manage_loopback,
            tokens: if manage_by_token { manage_token } else { Tokens::default() },
            public_hosts: config.http.public_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            metrics_anyone: auth.metrics == MetricsChoice::Anyone,
            metrics_tokens: metrics_token,
        },
        internal: None,
    }
}

/// Rules of one list. Without rules and token `default` applies; with rules, what none matches is refused.
fn rules(
    entries: &[RuleEntry],
    list: &str,
    token: Tokens,
    default: Access,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Rules {
    let rules: Vec<Rule> = entries.iter().map(|entry| rule(entry, list, variable, errors)).collect();
    let fallback = match (token.is_empty(), rules.is_empty()) {
        (false, _) => Access { tokens: token, ..Access::default() },
        (true, false) => Access::default(),
        (true, true) => default,
    };
    Rules { rules, fallback }
}

fn rule(
    entry: &RuleEntry,
    list: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Rule {
    let AuthRule { stream, allow, tokens, token_files, token_env } = &entry.rule;
    if stream.is_empty() {
        errors.add(&entry.origin, format!("[[{list}]] needs a `stream`, such as \"live/*\""));
    }
    let mut found: Vec<String> = tokens.clone();
    for path in token_files {
        match read_tokens(Path::new(path)) {
            Ok(tokens) => found.extend(tokens),
            Err(reason) => errors.add(&entry.origin, format!("[[{list}]] `token_files`: {path}: {reason}")),
        }
    }
    for name in token_env {
        match variable(name) {
            Some(token) if !token.is_empty() => found.push(token),
            _ => errors.add(&entry.origin, format!("[[{list}]] `token_env`: {name} is not set or empty")),
        }
    }
    check_tokens(&found, &entry.origin, list, errors);
    let by_token = matches!(allow, AllowChoice::Token | AllowChoice::TokenOrLoopback);
    if by_token && found.is_empty() {
        let hint = if entry.allow_given { "" } else { " or another `allow`" };
        errors.add(&entry.origin, format!("[[{list}]] needs `tokens`, `token_files` or `token_env`{hint}"));
    }
    if !by_token && !found.is_empty() {
        errors.add(&entry.origin, format!("[[{list}]] has tokens that its `allow` leaves without use"));
    }
    let access = Access {
        anyone: *allow == AllowChoice::Anyone,
        loopback: matches!(allow, AllowChoice::Loopback | AllowChoice::TokenOrLoopback),
        tokens: Tokens::new(found),
    };
    Rule { pattern: Pattern::new(stream), access }
}

/// The token of one pair of keys `key` and `key_file`.
fn token(config: &Config, key: &str, text: &str, file: &str, errors: &mut Errors) -> Tokens {
    let file_key = format!("{key}_file");
    let tokens = match (text, file) {
        ("", "") if config.origin(key) == Origin::Default => Vec::new(),
        // Set to nothing on purpose or by an unset variable: opening the door would be the wrong reading.
        ("", "") => {
            errors.add(&config.origin(key), format!("`{key}` is empty"));
            Vec::new()
        }
        (text, "") => vec![text.to_owned()],
        ("", file) => read_tokens(Path::new(file)).unwrap_or_else(|reason| {
            errors.add(&config.origin(&file_key), format!("`{file_key}` {file}: {reason}"));
            Vec::new()
        }),
        _ => {
            errors
                .add(&config.origin(&file_key), format!("`{key}` and `{file_key}` are both set: remove one"));
            Vec::new()
        }
    };
    check_tokens(&tokens, &config.origin(key), key, errors);
    Tokens::new(tokens)
}

fn read_tokens(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let tokens: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if tokens.is_empty() { Err("holds no token".to_owned()) } else { Ok(tokens) }
}

fn check_tokens(tokens: &[String], origin: &Origin, key: &str, errors: &mut Errors) {
    let usable = |token: &String| {
        (1..=256).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !tokens.iter().all(usable) {
        errors.add(origin, format!("`{key}`: a token is 1 to 256 printable ASCII characters without spaces"));
    }
}

fn demo(config: &Config, errors: &mut Errors) -> Option<(String, String)> {
    if !config.demo.enabled {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let parts = config.demo.stream.split_once('/').filter(|(app, stream)| {
        !app.is_empty() && !stream.is_empty() && app.chars().chain(stream.chars()).all(plain)
    });
    let origin = config.origin("demo.stream");
    match parts {
        None => errors.add(&origin, "`demo.stream` takes `app/stream` of letters, digits, `-`, `_` and `.`"),
        Some(_) if config.rtmp.listen.0.is_empty() => {
            errors.add(
                &config.origin("rtmp.listen"),
                "the demo channel publishes by RTMP: `rtmp.listen` must not be empty",
            );
        }
        Some(_) => {}
    }
    parts.map(|(app, stream)| (app.to_owned(), stream.to_owned()))
}

/// Whether `text` is a comma-separated list of levels and `module=level`. The parser of the logging crate would take
/// a misspelt level for the name of a module.
fn is_log_filter(text: &str) -> bool {
    let level = |text: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&text.trim());
    text.split(',')
        .all(|part| part.split_once('=').map_or(level(part), |(module, of)| !module.is_empty() && level(of)))
}

fn ms(value: i64) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

fn to_usize(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

fn to_u32(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
