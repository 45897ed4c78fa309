//! The WebRTC side of the configuration: addresses, servers named to clients, limits.
//!
//! Finds errors that otherwise show only when a client cannot connect: invalid public addresses,
//! server URIs that do not follow RFC 7064 and RFC 7065, too few ports for all workers.

use std::net::{IpAddr, SocketAddr};

use super::Config;
use super::keys::Rtc;
use super::resolve::{Errors, ms, to_u32, to_u64, to_usize};
use super::value::{Listen, UdpBackendChoice};
use worker_api::settings::{IceServer, RtcSettings};

/// What `[rtc]` means for `workers` workers.
pub(super) fn settings(config: &Config, ipv6: bool, workers: usize, errors: &mut Errors) -> RtcSettings {
    let rtc = &config.rtc;
    let mut addresses = |key: &str, listen: &Listen| {
        let addresses = listen.addresses(ipv6);
        if !rtc.single_port {
            check_ports(config, key, &addresses, workers, errors);
        }
        addresses
    };
    RtcSettings {
        udp: addresses("rtc.udp_listen", &rtc.udp_listen),
        // Without UDP there is no WebRTC; a default TCP address does not contradict that.
        tcp: if rtc.udp_listen.0.is_empty() {
            Vec::new()
        } else {
            addresses("rtc.tcp_listen", &rtc.tcp_listen)
        },
        single_port: rtc.single_port,
        single_port_table: rtc.single_port_table,
        public_addresses: ip_addresses(config, "rtc.public_addresses", &rtc.public_addresses, errors),
        addresses_on_request: ip_addresses(
            config,
            "rtc.addresses_on_request",
            &rtc.addresses_on_request,
            errors,
        ),
        ice_servers: ice_servers(config, errors),
        udp_backend: rtc.udp_backend.into(),
        af_xdp_interface: interface(config, errors),
        sessions_max: to_usize(rtc.sessions_per_worker),
        pending_max: to_usize(rtc.pending_per_worker),
        pending_per_address_max: to_usize(rtc.pending_per_address),
        pending_timeout: ms(rtc.pending_timeout_ms),
        posts_per_second_max: to_u32(rtc.requests_per_second),
        history: ms(rtc.history_ms),
        history_bytes_max: to_usize(rtc.history_max_bytes),
        gop_cache: rtc.gop_cache,
        gop_cache_bytes_max: to_usize(rtc.gop_cache_max_bytes),
        gop_cache_duration_max: ms(rtc.gop_cache_max_ms),
        pad_runs: rtc.pad_runs,
        adaptation: rtc.adaptation,
        start_bits_per_second: to_u64(rtc.start_kbps * 1_000),
        player_bits_per_second_max: to_u64(rtc.player_max_kbps * 1_000),
    }
}

/// Worker `i` takes the port plus `i`: the last port must exist, and two entries must not overlap.
fn check_ports(config: &Config, key: &str, addresses: &[SocketAddr], workers: usize, errors: &mut Errors) {
    for address in addresses.iter().filter(|address| address.port() != 0) {
        let last = usize::from(address.port()) + workers.saturating_sub(1);
        if last > usize::from(u16::MAX) {
            let message = format!("`{key}`: {workers} workers from port {} need port {last}", address.port());
            errors.add(&config.origin(key), message);
        }
    }
}

/// Addresses that candidates can name, of the list that `key` has.
fn ip_addresses(config: &Config, key: &str, texts: &[String], errors: &mut Errors) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for text in texts {
        match text.parse::<IpAddr>() {
            Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => addresses.push(ip),
            _ => errors
                .add(&config.origin(key), format!("`{key}` takes IP addresses without ports, not `{text}`")),
        }
    }
    addresses
}

fn ice_servers(config: &Config, errors: &mut Errors) -> Vec<IceServer> {
    let Rtc { ice_servers, ice_username, ice_credential, .. } = &config.rtc;
    let quotable = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if !quotable(ice_username) || !quotable(ice_credential) {
        let message = "`rtc.ice_username` and `rtc.ice_credential` take printable ASCII only";
        errors.add(&config.origin("rtc.ice_credential"), message);
    }
    let mut servers = Vec::new();
    for uri in ice_servers {
        let origin = config.origin("rtc.ice_servers");
        match relay_of(uri) {
            None => errors.add(
                &origin,
                format!("`rtc.ice_servers` takes `stun:HOST:PORT`, `turn:HOST:PORT?transport=udp` and the like, not `{uri}`"),
            ),
            Some(true) if ice_username.is_empty() || ice_credential.is_empty() => errors.add(
                &origin,
                format!("`rtc.ice_servers`: {uri} needs `rtc.ice_username` and `rtc.ice_credential`"),
            ),
            Some(relay) => {
                let credential = relay.then(|| (ice_username.clone(), ice_credential.clone()));
                servers.push(IceServer { uri: uri.clone(), credential });
            }
        }
    }
    servers
}

/// Whether `uri` names a TURN server; `None`: neither STUN nor TURN (RFC 7064 §3.1, RFC 7065 §3.1).
fn relay_of(uri: &str) -> Option<bool> {
    let (scheme, rest) = uri.split_once(':')?;
    let relay = match scheme {
        "stun" | "stuns" => false,
        "turn" | "turns" => true,
        _ => return None,
    };
    let (authority, query) = rest.split_once('?').map_or((rest, None), |(host, query)| (host, Some(query)));
    let transport = match query {
        None => true,
        Some(query) => relay && matches!(query, "transport=udp" | "transport=tcp"),
    };
    (transport && is_authority(authority)).then_some(relay)
}

/// `HOST` or `HOST:PORT`; IPv6 addresses in brackets.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, rest)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", rest.strip_prefix(':')),
        _ if text.starts_with('[') => return false,
        _ => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty()
        && host.bytes().all(plain)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn interface(config: &Config, errors: &mut Errors) -> Option<String> {
    let Rtc { udp_backend, af_xdp_interface, .. } = &config.rtc;
    match (*udp_backend == UdpBackendChoice::AfXdp, af_xdp_interface.is_empty()) {
        (true, true) => {
            let message = "`rtc.udp_backend` = \"af_xdp\" needs `rtc.af_xdp_interface`, such as \"eth0\"";
            errors.add(&config.origin("rtc.udp_backend"), message);
            None
        }
        (false, false) => {
            let message = "`rtc.af_xdp_interface` has no use without `rtc.udp_backend` = \"af_xdp\"";
            errors.add(&config.origin("rtc.af_xdp_interface"), message);
            None
        }
        (true, false) => Some(af_xdp_interface.clone()),
        (false, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_as_the_rfcs_have_it() {
        let cases = [
            ("stun:stun.example.net", Some(false)),
            ("stun:stun.example.net:3478", Some(false)),
            ("stuns:192.0.2.1:5349", Some(false)),
            ("stun:[2001:db8::1]:3478", Some(false)),
            ("turn:turn.example.net?transport=udp", Some(true)),
            ("turns:turn.example.net:443?transport=tcp", Some(true)),
            ("stun:stun.example.net?transport=udp", None), // RFC 7064 has no query
            ("turn:turn.example.net?transport=sctp", None),
            ("turn://turn.example.net", None), // no hierarchical form
            ("stun:", None),
            ("stun:host:0", None),
            ("stun:host:99999", None),
            ("stun:[2001:db8::1", None),
            ("stun:a>; rel=\"x\"", None), // would end the `Link` header it is put into
            ("http://example.net", None),
            ("example.net", None),
        ];
        for (uri, expected) in cases {
            assert_eq!(relay_of(uri), expected, "{uri}");
        }
    }
}
