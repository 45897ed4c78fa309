//! UDP sockets of SRT and RTSP.
//!
//! For SRT each worker has one on the same addresses: `SO_REUSEPORT` gives each worker a socket of its own,
//! and the kernel deals out by a hash of both addresses: what a caller sends comes to the same worker from
//! its first packet to its last. For RTSP each worker has ports of its own, an even one for RTP and the next for
//! RTCP, which clients are given. A wildcard address becomes a socket for each address of this host, since a
//! peer takes datagrams from the address alone that it has sent to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use group_send::{BatchLimits, Envelope, SendBatch};

use super::udp_bind::{addresses_of, named};
use crate::net::shared_sockets::SharedSockets;
use crate::net::{
    EventQueue, Interest, ReceivedBatch, Token, UdpSender, UdpSocket, has_more, local_addresses, udp_backend,
};
use worker_api::settings::{RtspSettings, SrtSettings, UdpBackend};
use worker_api::sockets::{SocketKind, SocketPlace};

/// Datagrams of one flush at most.
const BATCH: BatchLimits = BatchLimits { bytes: 2 << 20, datagrams: 1024 };
/// Longest datagram that is sent.
const DATAGRAM_BYTES_MAX: usize = srt::DATAGRAM_BYTES_MAX;
/// What waits longer than this for room in the kernel is dropped, milliseconds: the peer asks for it again.
const WAIT_MS_MAX: u64 = 100;

/// Binds every address of SRT once per worker, and says which they are.
pub(crate) fn bind_shared(
    settings: &SrtSettings,
    workers: usize,
    shared: &mut SharedSockets,
) -> io::Result<(Vec<SocketAddr>, Vec<Vec<UdpSocket>>)> {
    let mut bound = Vec::new();
    let mut sockets: Vec<Vec<UdpSocket>> = (0..workers).map(|_| Vec::new()).collect();
    if settings.listen.is_empty() {
        return Ok((bound, sockets));
    }
    let local = local_addresses(None);
    for &wanted in &settings.listen {
        let mut port = wanted.port();
        for ip in addresses_of(wanted, &local) {
            let inherited = std::iter::from_fn(|| shared.take_at(SocketKind::Srt, wanted, ip));
            let mut ready = inherited.map(UdpSocket::adopt).collect::<io::Result<Vec<_>>>()?;
            if ready.is_empty() {
                // Another server on the port is an error.
                let first = named(UdpSocket::bind((ip, port).into()), wanted, (ip, port).into())?;
                first.share()?;
                ready.push(first);
            }
            // Of a process with more workers, the last ones are closed: callers begin again by themselves.
            let mut ready = ready.into_iter();
            for (worker, sockets) in sockets.iter_mut().enumerate() {
                let address = SocketAddr::new(ip, port);
                let socket = match ready.next() {
                    Some(socket) => socket,
                    None => named(UdpSocket::bind_shared(address), wanted, address)?,
                };
                let address = socket.local_addr()?;
                let place = SocketPlace { kind: SocketKind::Srt, worker, wanted, address };
                shared.keep(place, socket.duplicate());
                port = address.port();
                sockets.push(socket);
            }
            bound.push(SocketAddr::new(ip, port));
        }
    }
    Ok((bound, sockets))
}

/// Sockets of a worker for RTSP: RTP and RTCP.
pub(crate) type SocketPairs = Vec<(UdpSocket, UdpSocket)>;

/// Binds ports for RTSP: worker `i` gets the port plus `2 i` and the next one, or free ones for port 0.
pub(crate) fn bind_pairs(
    settings: &RtspSettings,
    workers: usize,
    shared: &mut SharedSockets,
) -> io::Result<(Vec<SocketAddr>, Vec<SocketPairs>)> {
    let (mut bound, mut all) = (Vec::new(), Vec::new());
    let has_any = !settings.udp.is_empty();
    let local = if has_any { local_addresses(None) } else { Vec::new() };
    for worker in 0..workers {
        let mut pairs = Vec::new();
        for &wanted in &settings.udp {
            let port = match wanted.port() {
                0 => 0,
                port => port_after(wanted, port, 2 * worker)?,
            };
            for ip in addresses_of(wanted, &local) {
                let address = SocketAddr::new(ip, port);
                let mut take = |kind, address| {
                    shared.take_of_worker(kind, worker, wanted, address).map(UdpSocket::adopt).transpose()
                };
                let rtp = take(SocketKind::RtspRtp, address)?;
                let rtcp = take(SocketKind::RtspRtcp, SocketAddr::new(ip, port.wrapping_add(1)))?;
                let (rtp, rtcp) = match rtp.zip(rtcp) {
                    Some(pair) => pair,
                    None => bind_pair(wanted, ip, port)?,
                };
                for (kind, socket) in [(SocketKind::RtspRtp, &rtp), (SocketKind::RtspRtcp, &rtcp)] {
                    let address = socket.local_addr()?;
                    shared.keep(SocketPlace { kind, worker, wanted, address }, socket.duplicate());
                    bound.push(address);
                }
                pairs.push((rtp, rtcp));
            }
        }
        all.push(pairs);
    }
    Ok((bound, all))
}

fn bind_pair(wanted: SocketAddr, ip: IpAddr, port: u16) -> io::Result<(UdpSocket, UdpSocket)> {
    let at = |port| named(UdpSocket::bind((ip, port).into()), wanted, (ip, port).into());
    if port != 0 {
        return Ok((at(port)?, at(port_after(wanted, port, 1)?)?));
    }
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..FREE_PAIR_TRIES {
        let rtp = at(0)?;
        let port = rtp.local_addr()?.port();
        // RTP has the even one (RFC 3550 section 11).
        if port % 2 != 0 || port == u16::MAX {
            continue;
        }
        match at(port + 1) {
            Ok(rtcp) => return Ok((rtp, rtcp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn port_after(wanted: SocketAddr, port: u16, by: usize) -> io::Result<u16> {
    let message = || format!("{wanted}: no port left above it; choose a lower one");
    u16::try_from(usize::from(port) + by).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, message()))
}

/// Times another pair of free ports is tried.
const FREE_PAIR_TRIES: usize = 64;

/// A socket, and the datagrams that wait for the next flush.
pub(crate) struct DatagramPort {
    socket: UdpSocket,
    local: SocketAddr,
    /// More may wait in the kernel than was read.
    pub(crate) readable: bool,
    sender: UdpSender,
    batch: SendBatch,
    /// The kernel had no room the last time.
    blocked: bool,
    /// Datagrams that were dropped or refused.
    pub(crate) failures: u64,
}

impl std::fmt::Debug for DatagramPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramPort").field("local", &self.local).finish_non_exhaustive()
    }
}

impl DatagramPort {
    /// Takes a bound socket, which may share its address.
    pub(crate) fn new(socket: UdpSocket, backend: UdpBackend, is_shared: bool) -> io::Result<Self> {
        let local = socket.local_addr()?;
        socket.enlarge()?;
        // The twin of one that shares its address would have the first get what is for the others.
        let config = udp_backend::config(backend, None, None);
        let sender = socket.sender(&group_send::Config { twin: !is_shared, ..config })?;
        for reason in sender.not_chosen() {
            tracing::warn!(%local, "datagrams are sent by {}, not by {reason}", sender.backend());
        }
        let batch = SendBatch::new(BATCH);
        Ok(Self { socket, local, readable: false, sender, batch, blocked: false, failures: 0 })
    }

    /// Puts it into the event queue.
    pub(crate) fn register(&self, token: Token, events: &EventQueue) -> io::Result<()> {
        events.add(&self.socket, token, Interest::Read)
    }

    /// Where it is.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Receives once. It stays `readable` while more may wait.
    pub(crate) fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        let received = self.socket.receive(batch);
        self.readable = has_more(&received, batch);
        received
    }

    /// Whether there is room for another datagram, after a flush if it takes one.
    pub(crate) fn has_room(&mut self, now_ms: u64) -> bool {
        let is_low = self.batch.datagrams_free() == 0 || self.batch.bytes_free() < DATAGRAM_BYTES_MAX;
        if is_low && !self.blocked {
            self.flush(now_ms);
            return !self.blocked;
        }
        !is_low
    }

    /// Lets `write` make a datagram in the place that it is sent from. Whether it made one; there is
    /// [room](Self::has_room) for it.
    pub(crate) fn datagram(
        &mut self,
        destination: SocketAddr,
        now_ms: u64,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let envelope = Envelope { stamp: now_ms, ..destination.into() };
        let Ok(id) = self.batch.reserve(envelope, DATAGRAM_BYTES_MAX) else {
            self.failures += 1;
            return false;
        };
        let len = write(self.batch.buffer(id));
        match len {
            Some(len) => self.batch.set_len(id, len),
            None => self.batch.discard(id),
        }
        len.is_some()
    }

    /// Sends a datagram, which is dropped where there is no room.
    pub(crate) fn send(&mut self, destination: SocketAddr, datagram: &[u8], now_ms: u64) {
        if !self.has_room(now_ms) {
            self.failures += 1;
            return;
        }
        self.datagram(destination, now_ms, |out| {
            out[..datagram.len()].copy_from_slice(datagram);
            Some(datagram.len())
        });
    }

    /// Sends what waits. What finds no room is tried again with the next flush, and dropped when it is too
    /// old.
    pub(crate) fn flush(&mut self, now_ms: u64) {
        if self.batch.is_empty() {
            // Discarded datagrams have taken room.
            self.batch.clear();
            self.blocked = false;
            return;
        }
        let progress = self.sender.flush(&mut self.batch, usize::MAX);
        self.failures += progress.failed as u64;
        self.blocked = progress.blocked;
        if progress.blocked {
            let before = self.batch.len();
            self.batch.retain(|envelope, _| envelope.stamp + WAIT_MS_MAX >= now_ms);
            self.failures += (before - self.batch.len()) as u64;
        }
    }

    /// When to flush again, if the kernel had no room: it does not say when it has.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.blocked.then_some(Duration::from_millis(1))
    }
}

#[cfg(all(test, not(feature = "simulated")))]
mod tests {
    use std::net::UdpSocket as Peer;

    use super::*;

    #[test]
    fn callers_of_srt_come_to_all_workers() {
        let listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let settings = SrtSettings { listen, ..SrtSettings::default() };
        let (bound, sockets) = bind_shared(&settings, 2, &mut SharedSockets::default()).expect("a port");
        let port = |sockets: Vec<UdpSocket>| {
            let socket = sockets.into_iter().next().expect("a socket");
            DatagramPort::new(socket, settings.udp_backend, true).expect("a port")
        };
        let mut ports: Vec<DatagramPort> = sockets.into_iter().map(port).collect();
        for _ in 0..64 {
            Peer::bind("127.0.0.1:0").expect("a socket").send_to(&[0; 16], bound[0]).expect("room");
        }
        let mut batch = ReceivedBatch::new(group_send::RecvConfig::default());
        for port in &mut ports {
            assert!(port.receive(&mut batch).is_ok_and(|received| received > 0));
        }
    }

    #[test]
    fn a_free_port_is_nobody_elses() {
        let listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let settings = SrtSettings { listen, ..SrtSettings::default() };
        // As many as make two with one port all but certain, where the kernel picks among shared ones.
        let servers = (0..700).map(|_| bind_shared(&settings, 1, &mut SharedSockets::default()));
        let servers: Vec<_> = servers.map(|server| server.expect("a port")).collect();
        let ports: std::collections::HashSet<_> = servers.iter().map(|(bound, _)| bound[0].port()).collect();
        assert_eq!(ports.len(), servers.len());
    }
}
