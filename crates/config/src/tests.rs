//! Layers, errors and the reference page.

use super::resolve::{Resolved, resolve};
use super::*;
use std::time::Duration;
use worker_api::auth::{Bearer, Denied, Policy};
use worker_api::settings::{BridgeSettings, IceServer, RtcSettings, TranscodingSettings, UdpBackend};

fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources {
        file: (!file.is_empty()).then(|| ("m.toml".to_owned(), file.to_owned())),
        environment: environment.iter().map(pair).collect(),
        flags: flags
            .iter()
            .map(pair)
            .map(|(path, value)| (path.clone(), value, format!("--set {path}")))
            .collect(),
    }
}

fn errors_of(sources: &Sources) -> Vec<String> {
    match load(sources) {
        Ok(config) => match resolve(&config, &|_| None) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        },
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn resolved(file: &str) -> Resolved {
    resolve(&load(&sources(file, &[], &[])).expect("loads"), &|_| None).expect("resolves")
}

#[test]
fn every_default_works_without_a_file() {
    let resolved = resolved("");
    assert!(resolved.worker.workers >= 1);
    assert_eq!(resolved.worker.rtmp[0].port(), 1935);
    assert!(resolved.worker.rtmps.is_empty() && resolved.worker.rtmps_tls.is_none());
    assert_eq!(
        *resolved.worker.applications[0].settings,
        worker_api::settings::ApplicationSettings::default()
    );
    assert!(resolved.policy.publish_is_loopback_only());
}

#[test]
fn defaults_are_those_of_the_sources() {
    let theirs = ::sources::settings::SourceSettings::default();
    assert_eq!(format!("{:?}", resolved("").sources), format!("{theirs:?}"));
}

#[test]
fn defaults_are_those_of_the_workers() {
    let ours = resolved("").worker;
    let theirs = worker_api::settings::WorkerSettings::default();
    assert_eq!(ours.handshake_timeout, theirs.handshake_timeout);
    assert_eq!(ours.publisher_idle_timeout, theirs.publisher_idle_timeout);
    assert_eq!(ours.sessions_max, theirs.sessions_max);
    assert_eq!(ours.message_bytes_max, theirs.message_bytes_max);
    assert_eq!(ours.ring_frames, theirs.ring_frames);
    assert_eq!(ours.socket_unsent_bytes_max, theirs.socket_unsent_bytes_max);
    assert_eq!(ours.socket_send_buffer_bytes, theirs.socket_send_buffer_bytes);
    assert_eq!(ours.cors_allow_origin, theirs.cors_allow_origin);
    let listening = RtcSettings { udp: ours.rtc.udp.clone(), tcp: ours.rtc.tcp.clone(), ..theirs.rtc };
    assert_eq!(ours.rtc, listening);
    assert_eq!((ours.rtc.udp[0].port(), ours.rtc.tcp[0].port()), (8189, 8189));
    // How many threads there are depends on the machine.
    assert_eq!(
        ours.transcoding,
        TranscodingSettings { threads: ours.transcoding.threads, ..theirs.transcoding }
    );
    assert!((1..=8).contains(&ours.transcoding.threads));
}

#[test]
fn bridges_are_set_by_application_and_transcoding_for_all() {
    let file = "[stream]\nbridge_delay_max_ms = 100\nbridge_linger_ms = 0\n[transcoding]\nthreads = 3\nstreams_max = 0\n\
        opus_bits_per_second = 64000\naac_bits_per_second = 96000\n\
        [[application]]\nname = \"cinema\"\nbridge_b_frames = \"refuse\"\nbridge_key_frame_interval_ms = 4000\nbridge_aac = false\n\
        [[application]]\nname = \"off\"\nbridge = false\n";
    let worker = resolved(file).worker;
    let bridges: Vec<_> = worker.applications.iter().map(|app| app.settings.bridge).collect();
    let all = BridgeSettings {
        delay_max: Duration::from_millis(100),
        linger: Duration::ZERO,
        ..BridgeSettings::default()
    };
    let cinema = BridgeSettings {
        b_frames: bridge::BFrames::Refuse,
        key_frame_interval_max: Duration::from_secs(4),
        audio_to_aac: false,
        ..all
    };
    assert_eq!(bridges, [cinema, BridgeSettings { enabled: false, ..all }, all]);
    let transcoding = TranscodingSettings {
        threads: 3,
        streams_max: 0,
        opus_bits_per_second: 64_000,
        aac_bits_per_second: 96_000,
    };
    assert_eq!(worker.transcoding, transcoding);
}

#[test]
fn bridges_that_could_not_work_are_errors() {
    let cases = [
        ("[stream]\nbridge_b_frames = \"keep\"", "it takes \"drop\" or \"refuse\""),
        ("[stream]\nbridge_key_frame_interval_ms = 0", "an integer from 250 to 60000 (ms)"),
        ("[stream]\nbridge_delay_max_ms = 5001", "an integer from 0 to 5000 (ms)"),
        ("[stream]\nbridge_linger_ms = -1", "an integer from 0 to 3600000 (ms)"),
        ("[stream]\nb_frames = \"drop\"", "unknown key `stream.b_frames`"),
        ("[transcoding]\nthreads = 65", "an integer from 0 to 64 (threads)"),
        ("[transcoding]\nopus_bits_per_second = 5", "an integer from 12000 to 510000 (bits per second)"),
        ("[transcoder]\nthreads = 1", "the nearest valid one is `transcoding`"),
    ];
    for (file, expected) in cases {
        let errors = errors_of(&sources(file, &[], &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
    }
}

#[test]
fn webrtc_has_servers_addresses_and_a_back_end() {
    let file = "[rtc]\nice_servers = [\"stun:s\", \"turn:t?transport=udp\"]\nice_username = \"u\"\nice_credential = \"p\"\n\
        public_addresses = [\"192.0.2.1\", \"2001:db8::1\"]\naddresses_on_request = \"198.51.100.7\"\nudp_backend = \"af_xdp\"\naf_xdp_interface = \"eth0\"\n";
    let rtc = resolved(file).worker.rtc;
    assert_eq!(rtc.ice_servers[0], IceServer { uri: "stun:s".to_owned(), credential: None });
    assert_eq!(rtc.ice_servers[1].credential, Some(("u".to_owned(), "p".to_owned())));
    assert_eq!((rtc.public_addresses.len(), rtc.addresses_on_request.len()), (2, 1));
    assert_eq!((rtc.udp_backend, rtc.af_xdp_interface.as_deref()), (UdpBackend::AfXdp, Some("eth0")));
    let off = resolved("[rtc]\nudp_listen = []\n").worker.rtc;
    assert!(off.udp.is_empty() && off.tcp.is_empty(), "without UDP there is no TCP either");
    let last = "[server]\nworkers = 2\n[rtc]\nsingle_port = true\nudp_listen = \"*:65535\"\n";
    assert!(resolved(last).worker.rtc.single_port, "all workers have room at the last port");
    let flags = section_keys().iter().map(Key::flag).collect::<Vec<_>>();
    assert!(flags.contains(&"udp-backend".to_owned()) && flags.contains(&"rtc-udp-listen".to_owned()));
}

#[test]
fn what_would_keep_webrtc_clients_from_connecting_is_an_error() {
    let cases = [
        ("public_addresses = \"example.net\"", "takes IP addresses without ports, not `example.net`"),
        ("public_addresses = \"0.0.0.0\"", "takes IP addresses without ports"),
        (
            "addresses_on_request = \"192.0.2.1:8189\"",
            "`rtc.addresses_on_request` takes IP addresses without ports, not `192.0.2.1:8189`",
        ),
        ("ice_servers = \"turn:t\"", "turn:t needs `rtc.ice_username` and `rtc.ice_credential`"),
        ("ice_servers = \"http://x\"", "`rtc.ice_servers` takes `stun:HOST:PORT`"),
        ("ice_credential = \"a\\nb\"", "take printable ASCII only"),
        ("udp_backend = \"af_xdp\"", "needs `rtc.af_xdp_interface`"),
        ("af_xdp_interface = \"eth0\"", "has no use without"),
        ("udp_backend = \"fast\"", "it takes \"auto\", \"sendmsg\""),
        ("udp_listen = \"*:65535\"", "`rtc.udp_listen`: 2 workers from port 65535 need port 65536"),
        ("pending_timeout_ms = 1", "an integer from 1000 to 600000 (ms)"),
    ];
    for (line, expected) in cases {
        let errors = errors_of(&sources(&format!("[server]\nworkers = 2\n[rtc]\n{line}\n"), &[], &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
    }
}

#[test]
fn later_layers_win() {
    let file = "[stream]\nmerge_latency_ms = 1\nmerge_messages = 1\ngop_cache_max_ms = 1\n";
    let environment =
        [("MILLSTREAM_STREAM_MERGE_MESSAGES", "2"), ("MILLSTREAM_STREAM_GOP_CACHE_MAX_MS", "2")];
    let config = load(&sources(file, &environment, &[("stream.gop_cache_max_ms", "3")])).expect("loads");
    let stream = &config.stream;
    assert_eq!((stream.merge_latency_ms, stream.merge_messages, stream.gop_cache_max_ms), (1, 2, 3));
    assert_eq!(stream.gop_cache_max_bytes, Stream::default().gop_cache_max_bytes);
    assert_eq!(config.origin("stream.merge_latency_ms").to_string(), "m.toml:2");
}

#[test]
fn applications_inherit_from_stream_whatever_set_it() {
    let file = "[[application]]\nname = \"low*\"\nmerge_latency_ms = 0\n";
    let config = load(&sources(file, &[("MILLSTREAM_STREAM_MERGE_MESSAGES", "7")], &[])).expect("loads");
    let worker = resolve(&config, &|_| None).expect("resolves").worker;
    let named: Vec<_> = worker.applications.iter().map(|app| (app.pattern.as_str(), &app.settings)).collect();
    assert_eq!((named[0].0, named[1].0), ("low*", "*"));
    assert_eq!(
        (named[0].1.merge_latency, named[1].1.merge_latency),
        (Duration::ZERO, Duration::from_millis(100))
    );
    assert_eq!((named[0].1.merge_messages, named[1].1.merge_messages), (7, 7));
}

#[test]
fn errors_say_where_what_and_what_would_be_right() {
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);
    let cases: [Case; 39] = [
        (
            "[rtmp]\nlisen = \"*:1\"",
            &[],
            "m.toml:2: unknown key `rtmp.lisen`; the nearest valid one is `rtmp.listen`",
        ),
        (
            "[rmtp]\nlisten = \"*:1\"",
            &[],
            "m.toml:1: unknown section [rmtp]; the nearest valid one is `rtmp`",
        ),
        ("workers = 2", &[], "m.toml:1: unknown key `workers`; the nearest valid one is `server.workers`"),
        (
            "",
            &[("MILLSTREAM_HTTP_LISTN", "x")],
            "environment variable MILLSTREAM_HTTP_LISTN: no such setting; the nearest valid one is `MILLSTREAM_HTTP_LISTEN`",
        ),
        (
            "[stream]\nmerge_latency_ms = 99999",
            &[],
            "m.toml:2: `stream.merge_latency_ms` cannot be 99999: it takes an integer from 0 to 10000 (ms)",
        ),
        (
            "[stream]\nmerge_latency_ms = \"100\"",
            &[],
            "`stream.merge_latency_ms` cannot be \"100\": it takes an integer",
        ),
        ("[stream]\nmerge_latency_ms = 0.1", &[], "cannot be a number with a fraction"),
        ("", &[("MILLSTREAM_STREAM_MERGE_LATENCY_MS", "ten")], "`stream.merge_latency_ms` cannot be `ten`"),
        ("[stream]\ngop_cache = 1", &[], "`stream.gop_cache` cannot be 1: it takes true or false"),
        ("[stream]\nsecond_publisher = \"kick\"", &[], "it takes \"refuse\" or \"take_over\""),
        (
            "[rtmp]\nlisten = [\"localhost\"]",
            &[],
            "`rtmp.listen` cannot be [\"localhost\"]: it takes a list of addresses",
        ),
        ("[rtmp]\nlisten = [\"*:70000\"]", &[], "`rtmp.listen` cannot be"),
        ("[rtmp\n", &[], "m.toml:1: not valid TOML"),
        (
            "[[application]]\nnam = \"x\"",
            &[],
            "m.toml:2: unknown key `nam` in [[application]]; the nearest valid one is `name`",
        ),
        ("[[application]]\nmerge_latency_ms = 1", &[], "m.toml:1: [[application]] needs a `name`"),
        ("[application]\nname = \"x\"", &[], "unknown key `application.name`"),
        ("[rtmps]\nlisten = \"*:1937\"", &[], "m.toml:2: `rtmps.listen` needs `tls.certificate`"),
        ("[tls]\nkey = \"/k\"", &[], "m.toml:2: `tls.key` needs `tls.certificate`"),
        (
            "[tls]\ncertificate = \"/nowhere.pem\"\nkey = \"/k\"",
            &[],
            "m.toml:2: `tls.certificate` /nowhere.pem: no PEM certificate",
        ),
        ("[server]\ncores = [9999]", &[], "m.toml:2: `server.cores` names core 9999; this process may use"),
        ("[log]\nlevel = \"loud\"", &[], "m.toml:2: `log.level` cannot be `loud`"),
        ("[demo]\nenabled = true\nstream = \"clock\"", &[], "m.toml:3: `demo.stream` takes `app/stream`"),
        (
            "[demo]\nenabled = true\nstream = \"a/b c\"",
            &[],
            "m.toml:3: `demo.stream` takes `app/stream`: the name has",
        ),
        (
            "[limits]\nname_extra_characters = \" /\"",
            &[],
            "m.toml:2: `limits.name_extra_characters` cannot have \\u{2f}",
        ),
        (
            "[[pull]]\nstream = \"live/$(id)\"\nurl = \"rtmp://h/a/b\"",
            &[],
            "m.toml:1: [[pull]] cannot publish as `live/$(id)`: the name has",
        ),
        (
            "[[channel]]\nstream = \"live/a b\"\nitems = [\"http://h/a\"]",
            &[],
            "m.toml:1: [[channel]] cannot publish as `live/a b`: the name has",
        ),
        ("[[pull]]\nurl = \"rtmp://h/a/b\"", &[], "m.toml:1: [[pull]] needs a `stream`"),
        ("[[pull]]\nstream = \"live/a\"", &[], "m.toml:1: [[pull]] needs a `url`"),
        (
            "[[pull]]\nstream = \"live/a\"\nurl = \"gopher://h/1\"",
            &[],
            "m.toml:1: [[pull]] cannot use a URL of scheme",
        ),
        ("[[pull]]\nstream = \"live/a\"\nlink = \"x\"", &[], "m.toml:3: unknown key `link` in [[pull]]"),
        ("[[pull]]\nurl = 7", &[], "m.toml:2: `pull.url` cannot be the given value"),
        (
            "[[pull]]\nstream = \"live/a\"\nurl = \"http://[::ffff:10.0.0.1]/a.flv\"",
            &[],
            "m.toml:1: [[pull]] `url`: ::ffff:a00:1 is not a public address",
        ),
        (
            "[[pull]]\nstream = \"live/a\"\nurl = \"http://h/a\"\n[[pull]]\nstream = \"live/a\"\nurl = \"http://h/b\"",
            &[],
            "m.toml:4: [[pull]] has two entries for `live/a`",
        ),
        (
            "[sources]\npulls_max = 0\n[[pull]]\nstream = \"live/a\"\nurl = \"http://h/a\"",
            &[],
            "m.toml:2: `sources.pulls_max` is 0",
        ),
        (
            "[sources]\nretry_min_ms = 5000\nretry_max_ms = 1000",
            &[],
            "m.toml:2: `sources.retry_min_ms` must not be larger",
        ),
        ("[sources]\nfiles_root = \"/nowhere\"", &[], "m.toml:2: `sources.files_root` /nowhere:"),
        ("[sources]\nca_file = \"/nowhere\"", &[], "m.toml:2: `sources.ca_file` /nowhere:"),
        ("[pull]\nstream = \"live/a\"", &[], "unknown key `pull.stream`"),
        (
            "[[pull]]\nstream = \"live/a\"\nurl = \"http://h/a\"\n[[channel]]\nstream = \"live/a\"\nitems = [\"/a\"]",
            &[],
            "m.toml:1: `live/a` has a [[pull]] and a [[channel]]",
        ),
    ];
    for (file, environment, expected) in cases {
        let errors = errors_of(&sources(file, environment, &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let found =
        errors_of(&sources("[rtmp]\na = 1\n[http]\nb = 1\n", &[("MILLSTREAM_X", "1")], &[("log.c", "1")]));
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn variables_of_others_are_left_alone() {
    let environment = [
        ("PATH", "x"),
        (CONFIG_VARIABLE, "x"),
        ("MILLSTREAM_SERVICE_HOST", "10.0.0.1"),
        ("MILLSTREAM_PORT", "tcp://10.0.0.1:1935"),
        ("MILLSTREAM_PORT_1935_TCP_ADDR", "10.0.0.1"),
        ("MILLSTREAM_TOP_TOKEN", "secret"),
    ];
    assert_eq!(errors_of(&sources("", &environment, &[])), Vec::<String>::new());
}

#[test]
fn bad_authorisation_refuses_to_start() {
    let cases = [
        ("[[auth.publish]]\nstream = \"live/*\"", "m.toml:1: [[auth.publish]] needs `tokens`"),
        ("[[auth.play]]\nallow = \"anyone\"", "m.toml:1: [[auth.play]] needs a `stream`"),
        (
            "[[auth.play]]\nstream = \"*\"\nallow = \"anyone\"\ntokens = [\"x\"]",
            "has tokens that its `allow` leaves without use",
        ),
        ("[[auth.play]]\nstream = \"*\"\ntokens = [\"\"]", "a token is 1 to 256 printable ASCII characters"),
        ("[[auth.play]]\nstream = \"*\"\ntoken_env = [\"NOT_THERE\"]", "NOT_THERE is not set or empty"),
        ("[[auth.play]]\nstream = \"*\"\ntoken_files = [\"/nowhere\"]", "`token_files`: /nowhere: "),
        ("[[auth.play]]\nstream = \"*\"\nallow = \"tokens\"", "it takes \"token\", \"loopback\""),
        ("[auth]\npublish_token = \"\"", "m.toml:2: `auth.publish_token` is empty"),
        ("[auth]\npublish_token = \"a b\"", "a token is 1 to 256 printable ASCII characters"),
        ("[auth]\npublish_token = \"a\"\npublish_token_file = \"b\"", "are both set"),
        ("[auth]\nmanage = \"token\"", "`auth.manage` asks for a token"),
        ("[auth]\nmanage = \"loopback\"\nmanage_token = \"x\"", "leaves no use for `auth.manage_token`"),
        ("[auth]\npublish = \"x\"", "`auth.publish` is a list of tables: write [[auth.publish]]"),
    ];
    for (file, expected) in cases {
        let errors = errors_of(&sources(file, &[], &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
    }
}

/// What somebody on this machine is answered who shows this token.
fn publish(policy: &Policy, stream: &str, token: Option<&str>) -> Result<(), Denied> {
    let (app, name) = stream.split_once('/').expect("an application");
    policy.may_publish(app, name, &bearer(token)).map(|_| ())
}

fn play(policy: &Policy, stream: &str, token: Option<&str>) -> Result<(), Denied> {
    let (app, name) = stream.split_once('/').expect("an application");
    policy.may_play(app, name, &bearer(token)).map(|_| ())
}

fn bearer(token: Option<&str>) -> Bearer<'_> {
    Bearer { token, peer: std::net::IpAddr::from([127, 0, 0, 1]), now: Duration::ZERO }
}

#[test]
fn rules_and_tokens_become_a_policy() {
    let file = "[auth]\nplay_token = \"p\"\n[[auth.publish]]\nstream = \"live/*\"\ntokens = [\"t\"]\n[[auth.play]]\nstream = \"open/*\"\nallow = \"anyone\"\n";
    let policy = resolved(file).policy;
    assert_eq!(publish(&policy, "live/a", Some("t")), Ok(()));
    assert_eq!(publish(&policy, "live/a", None), Err(Denied::TokenMissing));
    assert_eq!(publish(&policy, "other/a", Some("t")), Err(Denied::Closed));
    assert_eq!(play(&policy, "open/a", None), Ok(()));
    assert_eq!(play(&policy, "else/a", Some("p")), Ok(()));
    assert_eq!(play(&policy, "else/a", None), Err(Denied::TokenMissing));
}

#[test]
fn tokens_come_from_files_and_variables() {
    let path = std::env::temp_dir().join(format!("millstream-tokens-{}", std::process::id()));
    std::fs::write(&path, "\n one \ntwo\n").expect("written");
    let file = format!(
        "[[auth.play]]\nstream = \"*\"\ntoken_files = [\"{}\"]\ntoken_env = [\"PLAY\"]\n",
        path.display()
    );
    let config = load(&sources(&file, &[], &[])).expect("loads");
    let policy =
        resolve(&config, &|name| (name == "PLAY").then(|| "three".to_owned())).expect("resolves").policy;
    for token in ["one", "two", "three"] {
        assert_eq!(play(&policy, "a/b", Some(token)), Ok(()), "{token}");
    }
    assert!(play(&policy, "a/b", Some(" one ")).is_err());
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn signed_tokens_close_what_no_rule_opens() {
    let secret = "[auth]\njwt_secret = \"0123456789abcdef0123456789abcdef\"\n";
    let policy = resolved(secret).policy;
    assert_eq!(publish(&policy, "live/a", None), Err(Denied::TokenMissing));
    assert_eq!(play(&policy, "live/a", None), Err(Denied::TokenMissing));
    assert_eq!(play(&policy, "live/a", Some("x")), Err(Denied::TokenWrong));
    let malformed = Err(Denied::Signed(jwt::Refused::Malformed));
    assert_eq!(play(&policy, "live/a", Some("a.b.c")), malformed);
    assert!(policy.manage.signed.is_some() && policy.manage.loopback, "the own machine may still manage");
    let rules = "[[auth.play]]\nstream = \"open/*\"\nallow = \"anyone\"\n[[auth.play]]\nstream = \"live/*\"\n\
                 [[auth.play]]\nstream = \"none/*\"\nallow = \"nobody\"\n";
    let policy = resolved(&format!("{secret}{rules}")).policy;
    assert_eq!(play(&policy, "open/a", None), Ok(()));
    assert_eq!(play(&policy, "live/a", Some("a.b.c")), malformed, "a rule by tokens needs none of its own");
    assert_eq!(play(&policy, "none/a", Some("a.b.c")), Err(Denied::Closed));
}

#[test]
fn what_is_wrong_with_signed_tokens_is_said() {
    let cases = [
        ("jwt_secret = \"short\"", "at least 32 bytes"),
        ("jwt_secret = \"\"", "is empty"),
        ("jwt_secret_file = \"/nowhere/secret\"", "/nowhere/secret"),
        ("jwks_file = \"/nowhere/keys\"", "/nowhere/keys"),
        ("jwks_file = \"a\"\njwks_url = \"https://id.example/\"", "both set"),
        ("jwks_url = \"\"", "`auth.jwks_url` is empty"),
        ("jwks_file = \"\"", "`auth.jwks_file` is empty"),
        ("jwt_secret_file = \"\"", "`auth.jwt_secret_file` is empty"),
        ("jwt_issuer = \"https://id.example\"", "is for signed tokens"),
        ("jwt_ends_sessions = true", "is for signed tokens"),
        ("jwks_url = \"id.example\"", "is no URL"),
        ("jwks_url = \"http://id.example/keys\"", "begins with https://"),
        ("jwks_url = \"https://me:pass@id.example/keys\"", "password"),
        ("jwks_url = \"https://127.0.0.1/keys\"", "not a public address"),
        ("jwks_url = \"https://id.example/keys\"\njwt_stream_claim = \"\"", "is empty"),
    ];
    for (keys, expected) in cases {
        let errors = errors_of(&sources(&format!("[auth]\n{keys}\n"), &[], &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
        assert!(!errors.iter().any(|error| error.contains(":pass")), "{errors:#?}");
    }
}

#[test]
fn a_self_signed_certificate_turns_tls_on() {
    let worker = resolved("[tls]\nself_signed = true\n[https]\nlisten = []\n").worker;
    let offered = |config: &Option<std::sync::Arc<rustls::ServerConfig>>| {
        config.as_ref().map(|config| config.alpn_protocols.iter().map(Vec::len).collect())
    };
    assert_eq!(offered(&worker.rtmps_tls), Some(vec!["http/1.1".len()]));
    assert_eq!(offered(&worker.https_tls), Some(vec!["h2".len(), "http/1.1".len()]));
    assert_eq!(worker.rtmps[0].port(), 1936);
    assert!(worker.https.is_empty());
}

#[test]
fn printed_configuration_loads_and_prints_the_same() {
    let file = "[stream]\nmerge_latency_ms = 5\n[[application]]\nname = \"a\\\"b\"\ngop_cache = false\n[[auth.play]]\nstream = \"*\"\nallow = \"anyone\"\n";
    let config = load(&sources(file, &[], &[("http.listen", "127.0.0.1:1,[::1]:2")])).expect("loads");
    for documented in [false, true] {
        let text = print::toml(&config, documented, documented);
        let again = load(&sources(&text, &[], &[])).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let errors = resolve(&again, &|_| None).err();
        assert!(errors.is_none(), "what is printed can be started: {errors:?}");
        assert_eq!(print::toml(&again, false, false), print::toml(&config, false, false));
        assert_eq!(again.stream, config.stream);
        assert_eq!(again.http, config.http);
        assert_eq!(again.applications.len(), 1);
        assert!(!again.application_stream(&again.applications[0]).gop_cache);
        assert_eq!(again.play_rules[0].rule, config.play_rules[0].rule);
    }
}

#[test]
fn secrets_are_never_shown() {
    let file = "[auth]\nmanage_token = \"hush\"\n[[auth.play]]\nstream = \"*\"\ntokens = [\"hush\"]\n";
    let config = load(&sources(file, &[], &[])).expect("loads");
    assert!(!print::toml(&config, true, true).contains("hush"));
    let errors = errors_of(&sources("[auth]\nmanage_token = [\"hush\"]\n", &[], &[]));
    assert!(errors.len() == 1 && !errors[0].contains("hush"), "{errors:?}");
}

#[test]
fn passphrases_of_srt_have_a_length_are_not_shown_and_the_first_rule_decides() {
    let file = "[srt]\npassphrase = \"hush for all of them\"\n\
                [[srt.stream]]\nstream = \"in/*\"\npublish_passphrase = \"hush for encoders\"\n";
    let config = load(&sources(file, &[], &[])).expect("loads");
    let shown = print::toml(&config, true, true);
    assert!(!shown.contains("hush") && shown.contains("[[srt.stream]]\nstream = \"in/*\""), "{shown}");
    let srt = resolved(file).worker.srt;
    let has = |app: &str| {
        let rule = srt.passphrases_of(app, "cam").expect("one for all");
        (rule.publish.is_some(), rule.play.is_some())
    };
    assert_eq!((has("in"), has("live")), ((true, false), (true, true)));
    let wrong = "[srt]\npassphrase = \"short\"\nlatency_max_ms = 50\nudp_backend = \"af_xdp\"\n\
                 [[srt.stream]]\nplay_passphrase = \"short\"\n";
    let text = errors_of(&sources(wrong, &[], &[])).join("\n");
    for part in [
        "`srt.passphrase` takes 10 to 80",
        "srt.latency_max_ms",
        "needs a `stream`",
        "`play_passphrase`",
        "af_xdp",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn every_key_is_described() {
    for key in section_keys() {
        assert!(key.doc.len() > 10 && key.cost.len() > 4 && !key.default.is_empty(), "{}", key.path());
        assert!(!key.kind.contains("integer") || !key.unit.is_empty(), "{} has a unit", key.path());
        assert!(key.kind != "an integer" || key.range.is_some(), "{} has a range", key.path());
    }
    let mut flags: Vec<_> = section_keys().iter().map(Key::flag).collect();
    flags.sort();
    flags.dedup();
    assert_eq!(flags.len(), section_keys().len(), "no two keys share a flag");
}

#[test]
fn a_cluster_needs_nats_a_name_a_secret_and_an_address() {
    let folder = std::env::temp_dir().join(format!("millstream-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let secret = folder.join("secret");
    std::fs::write(&secret, "0123456789abcdef\n").expect("a file");
    let short = folder.join("short");
    std::fs::write(&short, "short\n").expect("a file");
    let (secret, short) = (secret.display(), short.display());
    let head = "[cluster]\nnats = [\"nats://127.0.0.1:4222\"]\n";
    let whole = format!("{head}node_name = \"a\"\nsecret_file = \"{secret}\"\n");

    assert!(resolved("").cluster.is_none());
    for (mode, is_exposed) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o711, false)] {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.join("secret"), permissions).expect("its owner may");
        let cluster = resolved(&format!("{whole}relay_listen = [\"127.0.0.1:0\"]\n")).cluster;
        assert_eq!(cluster.expect("a cluster").exposed_secret_file.is_some(), is_exposed, "{mode:o}");
    }
    let listen = "relay_listen = [\"127.0.0.1:0\"]\n";
    let cluster = resolved(&format!("{whole}{listen}region = \"fra\"\nfan_out_max = 3\n")).cluster;
    let cluster = cluster.expect("a cluster");
    assert_eq!(cluster.directory.addresses.relay_tcp, "127.0.0.1:0");
    assert_eq!((cluster.fan_out_max, cluster.directory.region.as_str()), (3, "fra"));
    assert_eq!(cluster.linger, Duration::from_secs(5));
    for (public, announced) in [
        ("edge-1.example.com", "edge-1.example.com:8290"),
        ("203.0.113.1", "203.0.113.1:8290"),
        ("203.0.113.1:99", "203.0.113.1:99"),
        ("2001:db8::1", "[2001:db8::1]:8290"),
        ("[2001:db8::1]:99", "[2001:db8::1]:99"),
    ] {
        let cluster = resolved(&format!("{whole}relay_public_address = \"{public}\"\n")).cluster;
        assert_eq!(cluster.expect("a cluster").directory.addresses.relay_tcp, announced);
    }

    let (whole, public) = (whole.as_str(), "relay_public_address = \"a\"\n");
    let cases = [
        (format!("{head}{public}"), "needs `cluster.node_name`"),
        (format!("{head}{public}"), "needs `cluster.secret_file`"),
        (format!("{head}node_name = \"a b\""), "`cluster.node_name` cannot be `a b`"),
        (whole.to_owned(), "cannot connect to `*`"),
        (format!("{whole}relay_public_address = \"a:b\""), "takes HOST or HOST:PORT, not `a:b`"),
        (format!("{whole}relay_listen = []"), "takes at least one address"),
        (format!("{whole}relay_public_address = \"0.0.0.0\""), "cannot connect to `0.0.0.0`"),
        (format!("{whole}relay_public_address = \"[::]:99\""), "cannot connect to `[::]:99`"),
        (
            format!("{whole}relay_listen = [\"127.0.0.1:0\"]\nrelay_public_address = \"2001:db8::1\""),
            "has no address of the kind of `2001:db8::1`",
        ),
        (whole.replace("://", "://me:word@") + public, "takes no user or password in URLs"),
        (format!("{head}secret_file = \"{short}\""), "16 bytes are needed at least"),
        (format!("{head}secret_file = \"/nowhere\""), "`cluster.secret_file` /nowhere: No such file"),
        ("[cluster]\nnode_name = \"a\"".to_owned(), "needs `cluster.nats`"),
        (format!("{whole}{public}nats_user = \"me\""), "`cluster.nats_password` belong together"),
        (format!("{whole}{public}nats_token = \"t\"\nnats_nkey_seed = \"s\""), "are both set"),
        (format!("{whole}{public}nats_key = \"k\""), "`cluster.nats_key` belong together"),
        (format!("{whole}{public}public_url = \"edge-1\""), "takes an http or https URL, not `edge-1`"),
        (format!("{whole}{public}redirect = \"sometimes\""), "it takes \"never\", \"when_full\""),
        (format!("{whole}{public}nats_prefix = \"a.b\""), "the prefix takes"),
    ];
    for (file, expected) in cases {
        let errors = errors_of(&sources(&file, &[], &[]));
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected}: {errors:?}");
    }
    let password = [("MILLSTREAM_CLUSTER_NATS_PASSWORD", "it is secret")];
    let file = format!("{whole}{public}nats_user = \"me\"");
    let loaded = load(&sources(&file, &password, &[])).expect("loads");
    assert!(!print::toml(&loaded, true, true).contains("it is secret"));
    let cluster = resolve(&loaded, &|_| None).expect("resolves").cluster.expect("a cluster");
    assert!(!format!("{cluster:?}").contains("it is secret"));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn the_reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == print::markdown(),
        "docs/configuration.md is not current; run: \
         cargo run -p millstream -- config print --markdown > docs/configuration.md"
    );
}

#[test]
fn keys_spelt_as_flags_are_named_in_files_and_in_the_environment() {
    for key in section_keys() {
        for name in [key.flag(), key.whole_flag(), format!("--{}", key.flag()), key.variable()] {
            let errors = errors_of(&sources(&format!("\"{name}\" = 1"), &[], &[]));
            let expected =
                format!("m.toml:1: unknown key `{name}`; the nearest valid one is `{}`", key.path());
            assert_eq!(errors, [expected]);
        }
        let flag = format!("MILLSTREAM_{}", key.flag().to_uppercase().replace('-', "_"));
        if flag != key.variable() {
            let errors = errors_of(&sources("", &[(&flag, "1")], &[]));
            assert!(errors[0].ends_with(&format!("is `{}`", key.variable())), "{errors:?}");
        }
    }
    assert_eq!(errors_of(&sources("zebra = 1", &[], &[])), ["m.toml:1: unknown key `zebra`"]);
}

#[test]
fn moq_is_off_and_needs_a_server_that_has_it() {
    assert!(resolved("").moq.is_none());
    let file = "[moq]\nlisten = [\"127.0.0.1:4443\"]\ngroup_max_bytes = 1000000\n";
    if cfg!(feature = "moq") {
        let moq = resolved(file).moq.expect("it is on");
        assert_eq!((moq.listen.len(), moq.group_bytes_max, moq.tls.is_none()), (1, 1_000_000, true));
    } else {
        let errors = errors_of(&sources(file, &[], &[]));
        assert!(errors.len() == 1 && errors[0].contains("cargo feature `moq`"), "{errors:?}");
    }
}
