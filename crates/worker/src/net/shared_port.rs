//! The sockets of a port that all workers share for WebRTC (`rtc.single_port`).
//!
//! Those of one address are bound in the order of the workers, by which a program picks one of them
//! (`steer.rs`); what is bound there later it never picks. Another process takes all of them over or
//! none: their order in the kernel stays.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use group_send::steering::Steering;

use super::udp_bind::{BACKLOG, FREE_PORT_TRIES, RtcSockets, addresses_of, named, udp_port};
use crate::net::shared_sockets::SharedSockets;
use crate::net::udp_port::peers_max;
use crate::net::{BindOptions, TcpListener, UdpSocket, steer};
use worker_api::settings::RtcSettings;
use worker_api::sockets::{SocketKind, SocketPlace};

/// Most addresses in the kernel's table of a port: a megabyte when it is empty, up to six when it is full.
/// Addresses beyond that are steered by hash.
const TABLE_ENTRIES_MAX: usize = 1 << 16;

/// Binds the addresses of `rtc` once for each of `workers`.
pub(super) fn bind(
    rtc: &RtcSettings,
    workers: usize,
    local: &[IpAddr],
    shared: &mut SharedSockets,
) -> io::Result<Vec<RtcSockets>> {
    let mut all: Vec<RtcSockets> = (0..workers).map(|_| RtcSockets::default()).collect();
    let kind = SocketKind::RtcSharedUdp;
    for &wanted in &rtc.udp {
        let mut port = wanted.port();
        for ip in addresses_of(wanted, local) {
            let address = SocketAddr::new(ip, port);
            let inherited = std::iter::from_fn(|| shared.take_at(kind, wanted, ip));
            let inherited = inherited.map(UdpSocket::adopt).collect::<io::Result<Vec<_>>>()?;
            let is_inherited = !inherited.is_empty();
            let sockets = match inherited.len() {
                0 => named(bind_udp(address, workers), wanted, address)?,
                _ => named(of_all(inherited, workers), wanted, address)?,
            };
            let steering = named(attach_program(&sockets, is_inherited, rtc), wanted, address)?;
            for (worker, (sockets, socket)) in all.iter_mut().zip(sockets).enumerate() {
                let address = socket.local_addr()?;
                shared.keep(SocketPlace { kind, worker, wanted, address }, socket.duplicate());
                port = address.port();
                sockets.udp.push(socket);
                sockets.steering.push(steering.clone());
            }
        }
    }
    let kind = SocketKind::RtcSharedTcp;
    for &wanted in &rtc.tcp {
        for ip in addresses_of(wanted, local) {
            let port = match (wanted.port(), all.first()) {
                (0, Some(first)) => udp_port(&first.udp, ip).unwrap_or(0),
                (port, _) => port,
            };
            let address = SocketAddr::new(ip, port);
            let inherited = std::iter::from_fn(|| shared.take_at(kind, wanted, ip));
            let inherited = inherited.map(TcpListener::adopt).collect::<io::Result<Vec<_>>>()?;
            let sockets = match inherited.len() {
                0 => named(bind_tcp(address, wanted.port() == 0, workers), wanted, address)?,
                _ => named(of_all(inherited, workers), wanted, address)?,
            };
            for (worker, (sockets, socket)) in all.iter_mut().zip(sockets).enumerate() {
                let address = socket.local_addr()?;
                shared.keep(SocketPlace { kind, worker, wanted, address }, socket.duplicate());
                sockets.tcp.push(socket);
            }
        }
    }
    Ok(all)
}

/// Those of another process, if it has as many workers: with others, the program would pick none or the wrong
/// one, of that process as well, which may have to go on.
fn of_all<T>(inherited: Vec<T>, workers: usize) -> io::Result<Vec<T>> {
    if inherited.len() == workers {
        return Ok(inherited);
    }
    let message = format!(
        "the port is shared by {} workers, and can be taken over by as many only, not by {workers}",
        inherited.len()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn bind_udp(address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    // Another server on the port is an error.
    let first = UdpSocket::bind(address)?;
    first.share()?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(UdpSocket::bind_shared(address)?);
    }
    Ok(sockets)
}

/// Attaches the program that picks a socket. That of another process serves on until the sessions that are
/// taken over are in the table here (`Packets::go_on`): what comes meanwhile stays in order, and if nothing is
/// taken over after all, the other process has what it had.
fn attach_program(
    sockets: &[UdpSocket],
    is_inherited: bool,
    rtc: &RtcSettings,
) -> io::Result<Option<Arc<Steering>>> {
    let [first, _, ..] = sockets else {
        // One alone has nothing to pick from, and the kernel takes no program for it.
        return Ok(None);
    };
    let local = first.local_addr()?;
    if rtc.single_port_table {
        let entries_max = peers_max(rtc).saturating_mul(sockets.len()).min(TABLE_ENTRIES_MAX);
        let program = steer::program(sockets.len(), true);
        match Steering::new(&program, entries_max as u32) {
            Ok(steering) => {
                if !is_inherited {
                    first.steer_by_table(&steering)?;
                }
                tracing::info!(%local, "the kernel has a table of the workers of addresses");
                return Ok(Some(Arc::new(steering)));
            }
            Err(error) => {
                let right =
                    if error.kind() == io::ErrorKind::PermissionDenied { ": it takes CAP_BPF" } else { "" };
                tracing::info!(%local, %error, "the kernel has no table of the workers of addresses{right}");
            }
        }
    }
    if !is_inherited {
        first.steer(&steer::program(sockets.len(), false))?;
    }
    Ok(None)
}

fn bind_tcp(address: SocketAddr, is_any: bool, workers: usize) -> io::Result<Vec<TcpListener>> {
    let try_bind = |address, shared| TcpListener::bind(address, BindOptions { shared, ..Default::default() });
    let any = || (0..FREE_PORT_TRIES).find_map(|_| try_bind((address.ip(), 0).into(), false).ok());
    let free = match try_bind(address, false) {
        // The free port was one of UDP; the same one of TCP may be in use.
        Err(error) if is_any && error.kind() == io::ErrorKind::AddrInUse => any().ok_or(error)?,
        other => other?,
    };
    let address = free.local_addr()?;
    drop(free);
    let bind = |_| {
        let listener = try_bind(address, true)?;
        listener.listen(BACKLOG)?;
        Ok(listener)
    };
    (0..workers).map(bind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_workers_has_a_socket_each_at_one_address() {
        for workers in [1, 2, 5] {
            let sockets = bind_udp("127.0.0.1:0".parse().expect("an address"), workers).expect("a port");
            let addresses = sockets.iter().map(|socket| socket.local_addr().expect("bound"));
            let addresses: std::collections::HashSet<SocketAddr> = addresses.collect();
            assert_eq!((sockets.len(), addresses.len()), (workers, 1));
        }
    }
}
