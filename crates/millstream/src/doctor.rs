//! `millstream doctor`: what a configuration asks of the machine, in the words of the crate that looks.

use std::net::SocketAddr;
use std::process::ExitCode;

use ::acme::settings::ChallengeKind;
use ::doctor::{Acme, Certificate, Finding, Level, Port, Protocol, System, Wanted};
use config::resolve::Resolved;
use recording::settings::FileSettings;
use serde_json::json;

use crate::cli::DoctorArgs;
use crate::{EXIT_START, print_out};

/// Prints what was found. Fails where the server would not start, or a part of it would not work.
pub(crate) fn run(arguments: &DoctorArgs, resolved: &Resolved) -> ExitCode {
    let findings = ::doctor::examine(&wanted(resolved), &System::this(), worker_api::time::since_1970());
    match arguments.json {
        true => print_out(format!("{}\n", as_json(&findings))),
        false => findings.iter().for_each(|finding| print_out(finding.to_string())),
    }
    match findings.iter().any(|finding| finding.level == Level::Fault) {
        true => ExitCode::from(EXIT_START),
        false => ExitCode::SUCCESS,
    }
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let one = |finding: &Finding| {
        let Finding { level, about, found, mend } = finding;
        json!({ "level": level.name(), "about": about, "found": found, "mend": mend })
    };
    findings.iter().map(one).collect()
}

fn wanted(resolved: &Resolved) -> Wanted {
    let worker = &resolved.worker;
    let sessions = (worker.sessions_max * worker.workers) as u64;
    let mut directories: Vec<_> = resolved
        .record
        .iter()
        .flat_map(|record| {
            record.by_default.iter().chain(record.rules.iter().filter_map(|rule| rule.files.as_ref()))
        })
        .map(|FileSettings { directory, .. }| ("record.directory", directory.clone()))
        .collect();
    directories.sort();
    directories.dedup();
    directories.extend(resolved.acme.iter().map(|acme| ("acme.state_dir", acme.state_directory.clone())));
    if let (Some(store), Some(acme)) = (&resolved.certificates, &resolved.acme) {
        // As at the start of the server.
        store.set_issued(::acme::stored(acme));
    }
    let certificates = resolved.certificates.as_ref().map(|store| store.list()).unwrap_or_default();
    let servers = resolved.cluster.iter().flat_map(|cluster| &cluster.directory.servers);
    Wanted {
        workers: worker.workers,
        sessions,
        open_files: sessions + worker.keep_alive.connections_max as u64,
        ports: ports(resolved),
        public_addresses: worker.rtc.public_addresses.clone(),
        directories,
        servers: servers.map(|url| ("cluster.nats", host_and_port(url))).collect(),
        certificates: certificates
            .iter()
            .map(|one| Certificate {
                source: one.source.clone(),
                names: one.names.clone(),
                valid: (one.not_before, one.not_after),
            })
            .collect(),
        acme: resolved.acme.as_ref().map(|acme| {
            let (port, listener, addresses) = match acme.challenge {
                ChallengeKind::Tls => (443, "https.listen", &worker.https),
                ChallengeKind::Http => (80, "http.listen", &worker.http),
            };
            let listens = addresses.iter().any(|address| address.port() == port);
            Acme { state_directory: acme.state_directory.clone(), port, listener, listens }
        }),
    }
}

fn ports(resolved: &Resolved) -> Vec<Port> {
    let worker = &resolved.worker;
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    // Workers that have a port each take the next ones: so far apart, and so many beside each other.
    let own = |apart: u16, beside: u16| {
        let workers = u16::try_from(worker.workers).unwrap_or(u16::MAX);
        (0..workers)
            .flat_map(move |at| (0..beside).map(move |more| at.saturating_mul(apart) + more))
            .collect()
    };
    let shared = || vec![0];
    let rtc = || if worker.rtc.single_port { shared() } else { own(1, 1) };
    let moq = resolved.moq.as_ref().map_or(&[][..], |moq| &moq.listen);
    let nodes = resolved.cluster.as_ref().map_or(&[][..], |cluster| &cluster.listen);
    let relay: Vec<SocketAddr> = worker.relay.iter().map(|relay| relay.listen).collect();
    let listeners: [(&str, Protocol, &[SocketAddr], Vec<u16>); 13] = [
        ("rtmp.listen", tcp, &worker.rtmp, shared()),
        ("rtmps.listen", tcp, &worker.rtmps, shared()),
        ("http.listen", tcp, &worker.http, shared()),
        ("https.listen", tcp, &worker.https, shared()),
        ("rtsp.listen", tcp, &worker.rtsp.listen, shared()),
        ("rtsps.listen", tcp, &worker.rtsp.tls_listen, shared()),
        ("rtc.tcp_listen", tcp, &worker.rtc.tcp, rtc()),
        ("rtc.udp_listen", udp, &worker.rtc.udp, rtc()),
        ("rtsp.udp_listen", udp, &worker.rtsp.udp, own(2, 2)),
        ("srt.listen", udp, &worker.srt.listen, shared()),
        ("moq.listen", udp, moq, shared()),
        ("cluster.listen", tcp, nodes, shared()),
        ("cluster.relay_listen", udp, &relay, shared()),
    ];
    let one = |(key, protocol, addresses, offsets): (&'static str, Protocol, &[SocketAddr], Vec<u16>)| {
        let at = |address: SocketAddr, offset: u16| {
            // Port 0 is any that is free.
            let port = if address.port() == 0 { 0 } else { address.port().saturating_add(offset) };
            Port { key, protocol, address: SocketAddr::new(address.ip(), port) }
        };
        addresses
            .iter()
            .flat_map(|address| offsets.iter().map(|offset| at(*address, *offset)))
            .collect::<Vec<_>>()
    };
    listeners.into_iter().flat_map(one).collect()
}

/// Of the URL of a NATS server, whose port is 4222 unless it says another.
fn host_and_port(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, rest)| rest).trim_end_matches('/');
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:4222") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    fn wanted_by(set: &[(&str, &str)]) -> Wanted {
        let flags =
            set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned(), format!("--set {key}")));
        let sources = config::Sources { flags: flags.collect(), ..Default::default() };
        let config: Config = config::load(&sources).expect("a right configuration");
        wanted(&config::resolve::resolve(&config, &|_| None).expect("resolved"))
    }

    fn of(wanted: &Wanted, key: &str) -> Vec<String> {
        let mut found: Vec<_> = wanted
            .ports
            .iter()
            .filter(|port| port.key == key)
            .map(|port| format!("{} {}", port.protocol, port.address.port()))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn each_worker_has_its_ports() {
        let wanted = wanted_by(&[("server.workers", "3"), ("rtsp.udp_listen", "0.0.0.0:8000")]);
        assert_eq!(of(&wanted, "rtc.udp_listen"), ["udp 8189", "udp 8190", "udp 8191"]);
        assert_eq!(of(&wanted, "rtc.tcp_listen"), ["tcp 8189", "tcp 8190", "tcp 8191"]);
        assert_eq!(
            of(&wanted, "rtsp.udp_listen"),
            ["udp 8000", "udp 8001", "udp 8002", "udp 8003", "udp 8004", "udp 8005"]
        );
        assert_eq!(of(&wanted, "rtmp.listen"), ["tcp 1935"]);
        assert!(of(&wanted, "https.listen").is_empty(), "there is no certificate");
        let shared = wanted_by(&[("server.workers", "3"), ("rtc.single_port", "true")]);
        assert_eq!(of(&shared, "rtc.udp_listen"), ["udp 8189"]);
        assert_eq!(of(&shared, "rtc.tcp_listen"), ["tcp 8189"]);
    }

    #[test]
    fn servers_of_a_cluster_have_a_port() {
        for (url, expected) in [
            ("nats://127.0.0.1:4223", "127.0.0.1:4223"),
            ("tls://user:word@nats.example.org/", "nats.example.org:4222"),
            ("nats.example.org", "nats.example.org:4222"),
            ("nats://[::1]:4222", "[::1]:4222"),
        ] {
            assert_eq!(host_and_port(url), expected);
        }
    }

    #[test]
    fn ordered_certificates_need_a_directory_and_a_port() {
        let set = [
            ("acme.domains", "a.example"),
            ("acme.accept_terms", "true"),
            ("acme.state_dir", "/tmp/nowhere/acme"),
        ];
        let wanted = wanted_by(&set);
        assert_eq!(wanted.directories, [("acme.state_dir", "/tmp/nowhere/acme".into())]);
        let acme = wanted.acme.expect("orders");
        assert_eq!((acme.port, acme.listener, acme.listens), (443, "https.listen", false));
        assert_eq!(wanted.certificates[0].names, ["a.example"], "a self-signed one stands in");
        let wanted =
            wanted_by(&[&set[..], &[("acme.challenge", "http-01"), ("http.listen", "*:80")]].concat());
        let acme = wanted.acme.expect("orders");
        assert_eq!((acme.port, acme.listener, acme.listens), (80, "http.listen", true));
    }

    #[test]
    fn recordings_name_their_directory() {
        let wanted = wanted_by(&[("record.directory", "/tmp/recordings")]);
        assert_eq!(wanted.directories, [("record.directory", "/tmp/recordings".into())]);
    }
}
