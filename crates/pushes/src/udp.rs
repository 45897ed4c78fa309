//! MPEG-TS in datagrams, bare or in RTP (RFC 2250 section 2), to an address or a multicast group.
//!
//! Nobody answers, so that nothing fails here but the socket. Datagrams of a large picture leave in
//! steps of [`BURST`] a millisecond, which receivers with ordinary buffers keep up with.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use media::Frame;
use socket2::{Domain, Protocol, Socket, Type};
use sources::backoff::random;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Failure, NotSent};
use crate::spec::UdpTarget;
use crate::ts::{PAYLOAD_BYTES, TsOutput};

/// Datagrams sent at a time: 168 Mbit/s.
const BURST: usize = 16;
const BURST_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes that wait before no more frames are taken.
const PENDING_MAX: usize = 64 << 10;
/// The payload type of MPEG-TS (RFC 3551 section 6).
const PAYLOAD_TYPE: u8 = 33;
const RTP_HEADER_BYTES: usize = 12;

/// An open socket, and what it is to send.
#[derive(Debug)]
pub(crate) struct UdpPush {
    socket: UdpSocket,
    address: SocketAddr,
    ts: TsOutput,
    /// The head of the next packet: number and source, if it is RTP.
    rtp: Option<(u16, u32)>,
    started: Instant,
    next_at: Instant,
}

impl UdpPush {
    pub(crate) fn open(target: &UdpTarget) -> Result<Self, Failure> {
        let socket = open(target).map_err(|error| Failure::new(format!("cannot send: {error}")))?;
        let now = Instant::now();
        Ok(Self {
            socket,
            address: target.address,
            ts: TsOutput::default(),
            rtp: target.is_rtp.then(|| (random() as u16, random())),
            started: now,
            next_at: now,
        })
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        self.ts.write(frame)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.ts.pending() < PENDING_MAX
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        if self.ts.pending() == 0 {
            // Until there is a frame.
            return std::future::pending().await;
        }
        sleep_until(self.next_at).await;
        let mut bytes = 0;
        for _ in 0..BURST {
            let Some(payload) = self.ts.next_payload(PAYLOAD_BYTES) else { break };
            let mut datagram = [0; RTP_HEADER_BYTES + PAYLOAD_BYTES];
            let head = match self.rtp {
                Some((number, source)) => {
                    // The time of sending at 90 kHz, as RFC 2250 section 2 has it.
                    let time = (self.started.elapsed().as_micros() * 9 / 100) as u32;
                    datagram[0] = 0x80;
                    datagram[1] = PAYLOAD_TYPE;
                    datagram[2..4].copy_from_slice(&number.to_be_bytes());
                    datagram[4..8].copy_from_slice(&time.to_be_bytes());
                    datagram[8..12].copy_from_slice(&source.to_be_bytes());
                    RTP_HEADER_BYTES
                }
                None => 0,
            };
            let len = head + payload.len();
            datagram[head..len].copy_from_slice(payload);
            match self.socket.try_send(&datagram[..len]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.next_at = Instant::now() + BURST_INTERVAL;
                    return Ok(bytes);
                }
                // Nobody listens there at present, which the system knows of addresses nearby.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
            self.rtp = self.rtp.map(|(number, source)| (number.wrapping_add(1), source));
            self.ts.advance(len - head);
            bytes += len as u64;
        }
        self.next_at = Instant::now() + BURST_INTERVAL;
        Ok(bytes)
    }

    pub(crate) async fn finish(mut self) {
        while self.ts.pending() > 0 && self.drive().await.is_ok() {}
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.address
    }
}

fn open(target: &UdpTarget) -> std::io::Result<UdpSocket> {
    let is_v4 = target.address.is_ipv4();
    let domain = if is_v4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    match target.address.ip() {
        IpAddr::V4(ip) if ip.is_multicast() => {
            socket.set_multicast_ttl_v4(target.ttl.into())?;
            if let Some(interface) = target.interface {
                socket.set_multicast_if_v4(&interface)?;
            }
        }
        IpAddr::V6(ip) if ip.is_multicast() => socket.set_multicast_hops_v6(target.ttl.into())?,
        _ => {}
    }
    socket.set_nonblocking(true)?;
    socket.connect(&target.address.into())?;
    UdpSocket::from_std(socket.into())
}
