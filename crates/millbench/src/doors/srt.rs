//! SRT: a call with a socket of its own, for a player or a publisher.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use group_send::RecvBatch;
use mio::net::UdpSocket;
use srt::{Call, Caller, Connection, DATAGRAM_BYTES_MAX, End, Limits, SequenceNumber, SocketId};

use super::udp;
use crate::counters::Counters;
use crate::srt_url::SrtUrl;

/// A call. **Give it readiness with [`SrtLink::receive`], and time with [`SrtLink::drive`] at
/// [`SrtLink::due`].**
#[derive(Debug)]
pub struct SrtLink {
    socket: UdpSocket,
    state: State,
}

#[derive(Debug)]
enum State {
    Calling(Box<Caller>),
    Connected(Box<Connection>),
}

impl SrtLink {
    /// Calls.
    ///
    /// # Errors
    /// When there is no socket.
    pub fn open(url: &SrtUrl, address: SocketAddr, now: Instant) -> io::Result<SrtLink> {
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let socket = udp::open(any)?;
        socket.connect(address)?;
        let call = Call {
            socket: SocketId::random(),
            initial: SequenceNumber::random(),
            stream_id: url.stream_id.clone(),
            receive_latency: url.latency,
            send_latency: url.latency,
            latency_max: url.latency.max(LATENCY_MAX),
            encryption: None,
            timeout: CALL_TIMEOUT,
            limits: Limits::default(),
        };
        Ok(SrtLink { socket, state: State::Calling(Box::new(Caller::new(now, call))) })
    }

    /// What is to be registered.
    pub fn socket(&mut self) -> &mut UdpSocket {
        &mut self.socket
    }

    /// Whether the listener has accepted.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected(_))
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Connected(connection) => Some(connection),
            State::Calling(_) => None,
        }
    }

    /// Reads until the socket is empty.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn receive(
        &mut self,
        now: Instant,
        batch: &mut RecvBatch,
        counters: &mut Counters,
    ) -> Result<(), String> {
        let SrtLink { socket, state } = self;
        udp::receive(socket, batch, counters, |counters, _, datagram| {
            // A packet of data has its first bit clear (draft-sharabayko-srt-01 section 3).
            counters.packets += u64::from(datagram.first().is_some_and(|byte| byte & 0x80 == 0));
            match state {
                State::Calling(caller) => {
                    let answer = caller.handle_packet(now, datagram);
                    if let Some(connection) = answer.map_err(|error| error.reason().to_owned())? {
                        *state = State::Connected(Box::new(connection));
                    }
                }
                // What makes no sense is dropped and counted by the machine.
                State::Connected(connection) => drop(connection.handle_packet(now, datagram)),
            }
            Ok(())
        })
    }

    /// Does what is due, delivers to `on_payload`, sends what is to be sent.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn drive(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        mut on_payload: impl FnMut(&mut Counters, &[u8]),
    ) -> Result<(), String> {
        if let State::Connected(connection) = &mut self.state {
            connection.handle_timeout(now);
            connection.deliver(now, |payload| on_payload(counters, payload));
        }
        self.transmit(now, counters)?;
        match self.connection().and_then(|connection| connection.end()) {
            None | Some(End::Closed) => Ok(()),
            Some(End::Silent) => Err("the server says nothing any more".to_owned()),
            Some(End::Shutdown) => Err(crate::net::CLOSED.to_owned()),
        }
    }

    /// Sends what may leave now.
    ///
    /// # Errors
    /// When nobody answers the call.
    pub fn transmit(&mut self, now: Instant, counters: &mut Counters) -> Result<(), String> {
        let mut out = [0; DATAGRAM_BYTES_MAX];
        loop {
            let length = match &mut self.state {
                State::Calling(caller) => {
                    caller.poll_transmit(now, &mut out).map_err(|error| error.reason().to_owned())?
                }
                State::Connected(connection) => connection.poll_transmit(now, &mut out),
            };
            let Some(length) = length else { return Ok(()) };
            counters.writes += 1;
            counters.bytes_out += length as u64;
            // What the socket does not take is lost, as on the way, and sent again.
            let _ = self.socket.send(&out[..length]);
        }
    }

    /// When to drive it next.
    pub fn due(&mut self, now: Instant) -> Option<Instant> {
        match &mut self.state {
            State::Calling(caller) => Some(caller.next_timeout()),
            State::Connected(connection) => connection.next_timeout(now),
        }
    }

    /// Packets that the other end has not acknowledged.
    pub fn unacknowledged(&mut self, now: Instant) -> usize {
        self.connection().map_or(0, |connection| connection.status(now).send_buffer.0)
    }

    /// Says goodbye.
    pub fn close(&mut self, now: Instant, counters: &mut Counters) {
        if let State::Connected(connection) = &mut self.state {
            connection.close(now);
            // It only sends what it has.
            let _ = self.transmit(now, counters);
        }
    }
}

/// The longest delay that a listener may ask for.
const LATENCY_MAX: Duration = Duration::from_secs(8);
/// The load generator has a deadline of its own for sessions to come up.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
