//! Which addresses an answer names for a client.
//!
//! All of them are known when the answer is made, so none is trickled (RFC 9725 section 4.3.2).
//! Addresses of this machine alone (loopback) are named to clients on it, to others only if there
//! is nothing else.

use std::net::{IpAddr, SocketAddr};

use rtc::Transport;
use rtc::sdp::Candidate;

use worker_api::auth::is_loopback;
use worker_api::rtc::RtcEndpoint;

/// Most candidates of an answer; clients check each against each of their own.
const CANDIDATES_MAX: usize = 16;

/// Between the preferences of two candidates: the lowest bit does not reach the priority.
const PREFERENCE_STEP: usize = 2;

/// Candidates of a worker's `endpoint` for a client at `client`; `public` addresses stand for those
/// of the sockets.
pub(super) fn candidates(endpoint: &RtcEndpoint, public: &[IpAddr], client: IpAddr) -> Vec<Candidate> {
    let udp = addresses(&endpoint.udp, public, client).into_iter().map(|address| (address, Transport::Udp));
    let tcp = addresses(&endpoint.tcp, public, client).into_iter().map(|address| (address, Transport::Tcp));
    let all = udp.chain(tcp).take(CANDIDATES_MAX).enumerate();
    // The order is the preference.
    all.map(|(index, (address, transport))| {
        Candidate::host(
            address,
            transport,
            u16::MAX - u16::try_from(index * PREFERENCE_STEP).unwrap_or(u16::MAX),
        )
    })
    .collect()
}

fn addresses(sockets: &[SocketAddr], public: &[IpAddr], client: IpAddr) -> Vec<SocketAddr> {
    if !public.is_empty() {
        return announced(sockets, public);
    }
    let usable = sockets.iter().copied().filter(|socket| {
        !socket.ip().is_unspecified() && !matches!(socket.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local())
    });
    let (own, others): (Vec<_>, Vec<_>) = usable.partition(|socket| is_loopback(socket.ip()));
    match (is_loopback(client), others.is_empty()) {
        (true, _) => own.into_iter().chain(others).collect(),
        (false, true) => own,
        (false, false) => others,
    }
}

/// Public addresses with the ports of the sockets: those of the same family, or where there is none
/// of it, all.
fn announced(sockets: &[SocketAddr], public: &[IpAddr]) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for ip in public {
        let same = sockets.iter().filter(|socket| socket.is_ipv4() == ip.is_ipv4()).map(SocketAddr::port);
        let mut ports: Vec<u16> = same.collect();
        if ports.is_empty() {
            ports = sockets.iter().map(SocketAddr::port).collect();
        }
        ports.sort_unstable();
        ports.dedup();
        found.extend(ports.into_iter().map(|port| SocketAddr::new(*ip, port)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(udp: &[&str], public: &[&str], client: &str) -> Vec<String> {
        let endpoint = RtcEndpoint {
            udp: udp.iter().map(|text| text.parse().expect("an address")).collect(),
            tcp: Vec::new(),
        };
        let public: Vec<_> = public.iter().map(|text| text.parse().expect("an address")).collect();
        let found = candidates(&endpoint, &public, client.parse().expect("an address"));
        assert!(found.is_sorted_by(|a, b| a.priority > b.priority), "{found:?}");
        found.iter().map(|candidate| candidate.address.to_string()).collect()
    }

    #[test]
    fn clients_are_told_what_they_can_reach() {
        let all = ["127.0.0.1:1", "192.0.2.1:1", "[::1]:1", "[fe80::1]:1", "[2001:db8::1]:1"];
        type Texts<'a> = &'a [&'a str];
        let cases: [(Texts<'_>, Texts<'_>, &str, Texts<'_>); 7] = [
            (&all, &[], "203.0.113.9", &["192.0.2.1:1", "[2001:db8::1]:1"]),
            (&all, &[], "127.0.0.1", &["127.0.0.1:1", "[::1]:1", "192.0.2.1:1", "[2001:db8::1]:1"]),
            (&all, &[], "::ffff:127.0.0.1", &["127.0.0.1:1", "[::1]:1", "192.0.2.1:1", "[2001:db8::1]:1"]),
            (&["127.0.0.1:1"], &[], "203.0.113.9", &["127.0.0.1:1"]), // better than none
            (&all, &["198.51.100.7"], "127.0.0.1", &["198.51.100.7:1"]),
            (
                &["10.0.0.1:5", "10.0.0.2:6"],
                &["198.51.100.7"],
                "203.0.113.9",
                &["198.51.100.7:5", "198.51.100.7:6"],
            ),
            (&["10.0.0.1:5"], &["2001:db8::7"], "203.0.113.9", &["[2001:db8::7]:5"]), // translated on the way
        ];
        for (udp, public, client, expected) in cases {
            assert_eq!(named(udp, public, client), expected, "{udp:?} {public:?} {client}");
        }
    }

    #[test]
    fn tcp_comes_after_udp_and_waits_for_connections() {
        let at = |text: &str| vec![text.parse().expect("an address")];
        let endpoint = RtcEndpoint { udp: at("192.0.2.1:1"), tcp: at("192.0.2.1:2") };
        let found = candidates(&endpoint, &[], "203.0.113.9".parse().expect("an address"));
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(texts[0].contains(" udp ") && texts[0].contains("192.0.2.1 1 typ host"), "{texts:?}");
        assert!(texts[1].contains(" tcp ") && texts[1].ends_with("tcptype passive"), "{texts:?}");
    }
}
