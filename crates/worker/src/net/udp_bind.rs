//! UDP and TCP sockets of the workers for WebRTC.
//!
//! Each worker has ports of its own, so the kernel sorts datagrams by worker: the answer to an
//! offer names the port. Or all share the ports (`shared_port.rs`). A wildcard address becomes one
//! socket for each address of this host, because an ICE check has to be answered from the address
//! it was sent to, which a socket for all addresses leaves to the routing table. TCP listens on the
//! ports of UDP (RFC 6544), for networks that let no datagram through. All are bound before a
//! worker starts: an address that is taken is an error at start.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use group_send::steering::Steering;

use crate::net::shared_sockets::SharedSockets;
use crate::net::{BindOptions, TcpListener, UdpSocket, local_addresses, shared_port};
use worker_api::rtc::RtcEndpoint;
use worker_api::settings::RtcSettings;
use worker_api::sockets::{SocketKind, SocketPlace};

/// Connections the kernel completes while the worker is busy.
pub(super) const BACKLOG: i32 = 1024;
/// Times another free port is tried where the TCP port of a free UDP port is taken.
pub(super) const FREE_PORT_TRIES: usize = 16;

/// The sockets of one worker.
#[derive(Debug, Default)]
pub(crate) struct RtcSockets {
    pub(crate) udp: Vec<UdpSocket>,
    /// Of each of them the table of addresses in the kernel, where all workers share the ports.
    pub(crate) steering: Vec<Option<Arc<Steering>>>,
    pub(crate) tcp: Vec<TcpListener>,
}

impl RtcSockets {
    /// Where they are, with real ports.
    fn endpoint(&self) -> io::Result<RtcEndpoint> {
        Ok(RtcEndpoint {
            udp: self.udp.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?,
            tcp: self.tcp.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?,
        })
    }
}

/// Binds the addresses of `rtc` for each of `workers`: worker `i` gets the port plus `i`, or free ports for
/// port 0. Or all get the same.
pub(crate) fn bind(
    rtc: &RtcSettings,
    workers: usize,
    shared: &mut SharedSockets,
) -> io::Result<(Vec<RtcEndpoint>, Vec<RtcSockets>)> {
    let local = local_addresses(None);
    let all = if rtc.single_port {
        shared_port::bind(rtc, workers, &local, shared)?
    } else {
        let mut all = Vec::with_capacity(workers);
        for worker in 0..workers {
            let mut sockets = RtcSockets::default();
            for &wanted in &rtc.udp {
                bind_udp(wanted, worker, &local, &mut sockets.udp, shared)?;
            }
            for &wanted in &rtc.tcp {
                bind_tcp(wanted, worker, &local, &mut sockets, shared)?;
            }
            all.push(sockets);
        }
        all
    };
    let endpoints = all.iter().map(RtcSockets::endpoint).collect::<io::Result<_>>()?;
    Ok((endpoints, all))
}

fn bind_udp(
    wanted: SocketAddr,
    worker: usize,
    local: &[IpAddr],
    out: &mut Vec<UdpSocket>,
    shared: &mut SharedSockets,
) -> io::Result<()> {
    let mut port = port_of(wanted, worker)?;
    for ip in addresses_of(wanted, local) {
        let address = SocketAddr::new(ip, port);
        let socket = match shared.take_of_worker(SocketKind::RtcUdp, worker, wanted, address) {
            Some(socket) => UdpSocket::adopt(socket),
            None => UdpSocket::bind(address),
        };
        let socket = named(socket, wanted, address)?;
        let address = socket.local_addr()?;
        shared.keep(SocketPlace { kind: SocketKind::RtcUdp, worker, wanted, address }, socket.duplicate());
        // The first one chooses the free port, the others are at the same if they can.
        port = address.port();
        out.push(socket);
    }
    Ok(())
}

fn bind_tcp(
    wanted: SocketAddr,
    worker: usize,
    local: &[IpAddr],
    out: &mut RtcSockets,
    shared: &mut SharedSockets,
) -> io::Result<()> {
    for ip in addresses_of(wanted, local) {
        let port = match wanted.port() {
            0 => udp_port(&out.udp, ip).unwrap_or(0),
            _ => port_of(wanted, worker)?,
        };
        let address = SocketAddr::new(ip, port);
        let socket = match shared.take_of_worker(SocketKind::RtcTcp, worker, wanted, address) {
            Some(socket) => TcpListener::adopt(socket),
            None => tcp_listener(address),
        };
        let socket = match socket {
            // The free port was one of UDP; the same one of TCP may be in use.
            Err(error) if wanted.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => {
                (0..FREE_PORT_TRIES).find_map(|_| tcp_listener((ip, 0).into()).ok()).ok_or(error)
            }
            other => other,
        };
        let socket = named(socket, wanted, address)?;
        let address = socket.local_addr()?;
        shared.keep(SocketPlace { kind: SocketKind::RtcTcp, worker, wanted, address }, socket.duplicate());
        out.tcp.push(socket);
    }
    Ok(())
}

pub(super) fn udp_port(sockets: &[UdpSocket], address: IpAddr) -> Option<u16> {
    let same = |local: &SocketAddr| local.ip() == address;
    sockets.iter().filter_map(|socket| socket.local_addr().ok()).find(same).map(|local| local.port())
}

fn port_of(wanted: SocketAddr, worker: usize) -> io::Result<u16> {
    if wanted.port() == 0 {
        return Ok(0);
    }
    let port = usize::from(wanted.port()) + worker;
    let message = || format!("{wanted}: no port for worker {worker}; choose a lower one");
    u16::try_from(port).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, message()))
}

/// The addresses a listen address stands for: `0.0.0.0` all IPv4 addresses of this host, `[::]` all
/// of both kinds.
pub(super) fn addresses_of(wanted: SocketAddr, local: &[IpAddr]) -> Vec<IpAddr> {
    if !wanted.ip().is_unspecified() {
        return vec![wanted.ip()];
    }
    local.iter().copied().filter(|address| wanted.is_ipv6() || address.is_ipv4()).collect()
}

fn tcp_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address, BindOptions::default())?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// Names the address in an error: as configured, and what it stands for here.
pub(super) fn named<T>(result: io::Result<T>, wanted: SocketAddr, address: SocketAddr) -> io::Result<T> {
    let place = if wanted == address { wanted.to_string() } else { format!("{wanted} ({address})") };
    result.map_err(|error| io::Error::new(error.kind(), format!("{place}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn settings(single_port: bool, udp: Vec<SocketAddr>) -> RtcSettings {
        RtcSettings { single_port, tcp: udp.clone(), udp, ..RtcSettings::default() }
    }

    #[test]
    fn each_worker_has_a_port_of_its_own_and_tcp_shares_it() {
        let settings = settings(false, vec![at("127.0.0.1:0")]);
        let (endpoints, sockets) = bind(&settings, 2, &mut SharedSockets::default()).unwrap();
        assert_eq!((endpoints.len(), sockets.len()), (2, 2));
        assert_ne!(endpoints[0].udp[0].port(), endpoints[1].udp[0].port());
        assert_eq!(endpoints[0].tcp.len(), 1);
    }

    #[test]
    fn all_workers_have_one_port_and_another_server_is_an_error() {
        let mut shared = SharedSockets::default();
        let any = settings(true, vec![at("127.0.0.1:0")]);
        let (endpoints, _sockets) = bind(&any, 3, &mut shared).unwrap();
        assert_eq!(endpoints[0].udp, endpoints[2].udp);
        assert_eq!(endpoints[0].tcp, endpoints[2].tcp);
        let same = settings(true, endpoints[0].udp.clone());
        let error = bind(&same, 3, &mut SharedSockets::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&endpoints[0].udp[0].to_string()), "{error}");
        // The next process takes the same sockets over, if it has as many workers.
        let bound = shared.into_bound();
        let copies = || SharedSockets::new(bound.iter().map(|bound| bound.try_clone().unwrap()).collect());
        let (taken, _sockets) = bind(&any, 3, &mut copies()).unwrap();
        assert_eq!(taken, endpoints);
        let error = bind(&any, 2, &mut copies()).unwrap_err();
        assert!(error.to_string().contains("shared by 3 workers"), "{error}");
    }

    #[test]
    fn the_wildcard_stands_for_every_address_that_others_can_use() {
        let local: Vec<IpAddr> = ["10.0.0.1", "127.0.0.1", "::1"].map(|text| text.parse().unwrap()).to_vec();
        let texts = |wanted: &str| addresses_of(at(wanted), &local).len();
        assert_eq!((texts("0.0.0.0:1"), texts("[::]:1"), texts("192.0.2.1:1")), (2, 3, 1));
    }

    #[test]
    fn an_address_in_use_is_an_error_that_names_it() {
        let free = settings(false, vec![at("127.0.0.1:0")]);
        let (endpoints, _held) = bind(&free, 1, &mut SharedSockets::default()).unwrap();
        let taken = settings(false, endpoints[0].udp.clone());
        let error = bind(&taken, 1, &mut SharedSockets::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&endpoints[0].udp[0].to_string()), "{error}");
    }

    #[test]
    fn ports_do_not_run_past_the_last_one() {
        assert_eq!(port_of(at("127.0.0.1:65535"), 0).unwrap(), 65_535);
        assert_eq!(port_of(at("127.0.0.1:65535"), 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
