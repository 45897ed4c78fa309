//! What the server prints once it runs: every address a person may want to open or copy.

use std::fmt::Write;
use std::net::SocketAddr;

use control::Serves;
use worker_api::ListenAddresses;
use worker_api::auth::Policy;

/// The banner. `demo` is `app/stream` of the demo channel.
pub(crate) fn text(
    addresses: &ListenAddresses,
    workers: usize,
    demo: Option<&str>,
    policy: &Policy,
    serves: Serves,
) -> String {
    let mut out = String::new();
    let s = if workers == 1 { "" } else { "s" };
    let _ = writeln!(out, "Millstream {} runs on {workers} worker{s}.\n", env!("CARGO_PKG_VERSION"));
    let rtmp = bases(&[("rtmp", &addresses.rtmp), ("rtmps", &addresses.rtmps)]);
    let web = bases(&[("http", &addresses.http), ("https", &addresses.https)]);
    lines(&mut out, "console", &web, "/");
    lines(&mut out, "publish", &rtmp, "/live/STREAM");
    let who = match (policy.publish_needs_token(), policy.publish_is_loopback_only()) {
        (true, _) => "with ?token=TOKEN after the name; by WHIP, Authorization: Bearer TOKEN or ?token=TOKEN",
        (_, true) => "from this machine only, until [auth] says otherwise",
        _ => "by the rules in [[auth.publish]]",
    };
    let _ = writeln!(out, "  {:10}{who}", "");
    let rtc: &[String] = if addresses.rtc_udp.is_empty() { &[] } else { &web };
    lines(&mut out, "WHIP", rtc, "/whip/live/STREAM");
    lines(&mut out, "WHEP", rtc, "/whep/live/STREAM");
    media_ports(&mut out, addresses);
    let srt = bases(&[("srt", &everywhere_once(&addresses.srt))]);
    let token = if policy.publish_needs_token() { "?token=TOKEN" } else { "" };
    lines(&mut out, "SRT", &srt, &format!("?streamid=publish:live/STREAM{token}, or read:live/STREAM"));
    let rtsp = bases(&[("rtsp", &addresses.rtsp), ("rtsps", &addresses.rtsps)]);
    lines(&mut out, "RTSP", &rtsp, "/live/STREAM, to publish and to play");
    lines(&mut out, "play", &rtmp, "/live/STREAM");
    lines(&mut out, "", &web, "/live/STREAM.flv");
    let others = if serves.segments { ".ts, .m3u8 (HLS), .mpd (DASH)" } else { ".ts" };
    let _ = writeln!(out, "  {:10}and with {others}", "");
    let sockets: Vec<String> = web.iter().map(|base| base.replacen("http", "ws", 1)).collect();
    lines(&mut out, "", &sockets, "/live/STREAM.flv");
    if serves.on_demand {
        lines(&mut out, "on demand", &web, "/vod/");
    }
    lines(&mut out, "API", &web, "/api/v1/openapi.json");
    lines(&mut out, "metrics", &web, "/metrics");
    lines(&mut out, "health", &web, "/healthz and /readyz");
    if let Some(demo) = demo {
        let player: Vec<String> = web.iter().map(|base| format!("{base}/#/watch/{demo}")).collect();
        lines(&mut out, "demo", &player, "");
        lines(&mut out, "", &web, &format!("/{demo}.flv"));
        lines(&mut out, "", &rtmp, &format!("/{demo}"));
    }
    out.push('\n');
    out
}

/// What it says of MoQ; nothing where that is off. `hash` is that of a certificate for trials.
pub(crate) fn moq(addresses: &[SocketAddr], hash: Option<&str>) -> String {
    let mut out = String::new();
    if addresses.is_empty() {
        return out;
    }
    let _ = writeln!(out, "  {:10}an experiment, by UDP; publish and play", "MoQ");
    lines(&mut out, "", &bases(&[("https", &addresses.to_vec())]), "/live, broadcast STREAM");
    if let Some(hash) = hash {
        let _ = writeln!(out, "  {:10}certificate for trials, SHA-256 {hash}", "");
    }
    out.push('\n');
    out
}

/// Where media of WebRTC comes in: firewalls know HTTP, but not these.
fn media_ports(out: &mut String, addresses: &ListenAddresses) {
    let lists = [("UDP", &addresses.rtc_udp), ("TCP", &addresses.rtc_tcp)];
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let texts: Vec<String> = lists.map(|(name, list)| format!("{name} {}", ports(list))).collect();
    if !addresses.rtc_udp.is_empty() {
        let _ = writeln!(out, "  {:10}media: {}; a firewall must let them through", "", texts.join(", "));
    }
}

/// Ports of `list` in order, each once; runs of them as `8189-8192`. Empty without any.
fn ports(list: &[SocketAddr]) -> String {
    let mut ports: Vec<u16> = list.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    let runs = ports.chunk_by(|port, next| port.checked_add(1) == Some(*next)).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => format!("{}", run[0]),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Where `[::]` is wanted, SRT has a socket for each address of the machine: these once, as one everywhere.
fn everywhere_once(list: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut once = Vec::new();
    for &address in list {
        let of_port = || list.iter().filter(|other| other.port() == address.port());
        let is_everywhere = of_port().count() > 1 && of_port().any(|other| other.ip().is_loopback());
        let shown = if is_everywhere { ([0; 4], address.port()).into() } else { address };
        if !once.contains(&shown) {
            once.push(shown);
        }
    }
    once
}

/// One line per base URL; only the first carries the name.
fn lines(out: &mut String, name: &str, bases: &[String], path: &str) {
    for (index, base) in bases.iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let _ = writeln!(out, "  {name:10}{base}{path}");
    }
}

/// Base URLs of listeners; those on every address under the name that works on this machine.
fn bases(lists: &[(&str, &Vec<SocketAddr>)]) -> Vec<String> {
    let base = |scheme: &str, address: &SocketAddr| {
        if address.ip().is_unspecified() {
            format!("{scheme}://localhost:{}", address.port())
        } else {
            format!("{scheme}://{address}")
        }
    };
    lists.iter().flat_map(|(scheme, list)| list.iter().map(move |address| base(scheme, address))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use worker_api::auth::{Access, Rules};

    #[test]
    fn a_certificate_for_trials_is_named_by_its_hash() {
        let at = ["[::]:4443".parse().expect("an address")];
        assert_eq!(moq(&[], Some("00ff")), "");
        let text = moq(&at, Some("00ff"));
        assert!(text.contains("https://localhost:4443/live, broadcast STREAM\n"), "{text}");
        assert!(text.contains("SHA-256 00ff\n") && !moq(&at, None).contains("SHA-256"), "{text}");
    }

    #[test]
    fn addresses_of_the_machine_at_one_port_are_named_once() {
        let at = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let all = at(&["192.0.2.2:8890", "127.0.0.1:8890", "[::1]:8890", "192.0.2.2:9000"]);
        assert_eq!(
            bases(&[("srt", &everywhere_once(&all))]),
            ["srt://localhost:8890", "srt://192.0.2.2:9000"]
        );
        let two = at(&["192.0.2.2:8890", "192.0.2.3:8890"]);
        assert_eq!(everywhere_once(&two), two, "neither is this machine's own name");
    }

    #[test]
    fn every_address_can_be_copied() {
        let at = |text: &str| vec![text.parse().expect("an address")];
        let addresses = ListenAddresses {
            rtmp: at("[::]:1935"),
            http: at("[::1]:8080"),
            https: at("0.0.0.0:8443"),
            rtc_udp: ["[::1]:8190", "127.0.0.1:8189", "127.0.0.1:8190"].map(|text| at(text)[0]).to_vec(),
            rtc_tcp: at("127.0.0.1:9000"),
            srt: at("[::]:8890"),
            ..ListenAddresses::default()
        };
        let policy =
            Policy { publish: Rules { rules: vec![], fallback: Access::loopback() }, ..Policy::default() };
        let of = |segments, on_demand| {
            text(&addresses, 2, Some("demo/clock"), &policy, Serves { segments, on_demand })
        };
        let text = of(true, true);
        for part in [
            "runs on 2 workers",
            "console   http://[::1]:8080/\n",
            "https://localhost:8443/\n",
            "publish   rtmp://localhost:1935/live/STREAM\n",
            "from this machine only",
            "http://[::1]:8080/live/STREAM.flv\n",
            "and with .ts, .m3u8 (HLS), .mpd (DASH)\n",
            "on demand http://[::1]:8080/vod/\n",
            "ws://[::1]:8080/live/STREAM.flv\n",
            "media: UDP 8189-8190, TCP 9000;",
            "WHIP      http://[::1]:8080/whip/live/STREAM\n",
            "https://localhost:8443/whep/live/STREAM\n",
            "SRT       srt://localhost:8890?streamid=publish:live/STREAM, or read:live/STREAM\n",
            "wss://localhost:8443/live/STREAM.flv\n",
            "http://[::1]:8080/demo/clock.flv\n",
            "rtmp://localhost:1935/demo/clock\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("rtmps://"), "{text}");
        let token = Access { signed: true, ..Access::default() };
        let policy = Policy { publish: Rules { rules: vec![], fallback: token }, ..Policy::default() };
        let serves = Serves { segments: false, on_demand: false };
        let with_tokens = super::text(&addresses, 2, None, &policy, serves);
        let srt = "?streamid=publish:live/STREAM?token=TOKEN, or read:live/STREAM\n";
        assert!(with_tokens.contains(srt), "{with_tokens}");
        let text = of(false, false);
        assert!(!text.contains("m3u8") && !text.contains("/vod/"), "{text}");
    }
}
