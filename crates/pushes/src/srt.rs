//! A stream sent to an SRT listener, as MPEG-TS.
//!
//! The protocol is `srt`'s; this moves datagrams between it and a socket, and waits for its timers.

use std::fmt;
use std::net::SocketAddr;

use media::Frame;
use sources::peer::{call, call_failed, hang_up};
use sources::pull::SrtUrl;
use sources::settings::SourceSettings;
use srt::{Caller, Connection, DATAGRAM_BYTES_MAX, End};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};
use worker_api::snapshot::SrtSessionSnapshot;

use crate::failure::{Failure, LOOP, NotSent};
use crate::spec::is_this_server;
use crate::ts::TsOutput;

/// Datagrams read, and written, at a time.
const BATCH: usize = 64;
/// Bytes that wait for room before no more frames are taken.
const PENDING_MAX: usize = 64 << 10;

enum State {
    Calling(Box<Caller>),
    Connected(Box<Connection>),
}

/// A call, and what it is to send.
pub(crate) struct SrtPush {
    socket: UdpSocket,
    peer: SocketAddr,
    state: State,
    input: Box<[u8]>,
    ts: TsOutput,
}

impl SrtPush {
    /// Calls; the listener has accepted when this returns.
    pub(crate) async fn open(
        url: &SrtUrl,
        settings: &SourceSettings,
        own_ports: &[u16],
    ) -> Result<Self, Failure> {
        let (socket, peer, caller) = call(url, settings).await.map_err(Failure::new)?;
        if socket.local_addr().is_ok_and(|local| is_this_server(local.ip(), peer, own_ports)) {
            return Err(Failure::lasting(LOOP));
        }
        let input = vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice();
        let state = State::Calling(Box::new(caller));
        let mut push = Self { socket, peer, state, input, ts: TsOutput::default() };
        // The caller has a deadline of its own.
        while matches!(push.state, State::Calling(_)) {
            push.drive().await?;
        }
        Ok(push)
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        let sent = self.ts.write(frame);
        self.give();
        sent
    }

    pub(crate) fn has_room(&self) -> bool {
        self.ts.pending() < PENDING_MAX
    }

    /// Waits for datagrams or a timer, and says how many bytes of packets left.
    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        let (due, sent) = self.transmit()?;
        if sent > 0 {
            return Ok(sent);
        }
        tokio::select! {
            readable = self.socket.readable() => readable?,
            () = sleep_until(due) => {}
        }
        self.receive()?;
        self.give();
        Ok(0)
    }

    /// Gives the connection what it has room for.
    fn give(&mut self) {
        let State::Connected(connection) = &mut self.state else { return };
        let now = Instant::now().into_std();
        // Less than is usual where the listener's path is a tunnel.
        let bytes_max = connection.payload_bytes_max();
        while let Some(payload) = self.ts.next_payload(bytes_max) {
            let bytes = payload.len();
            if !connection.send(now, payload) {
                return;
            }
            self.ts.advance(bytes);
        }
    }

    fn transmit(&mut self) -> Result<(Instant, u64), Failure> {
        let now = Instant::now().into_std();
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let mut sent = 0;
        let due = match &mut self.state {
            State::Calling(caller) => {
                while let Some(len) =
                    caller.poll_transmit(now, &mut out).map_err(|error| Failure::new(call_failed(error)))?
                {
                    let _ = self.socket.try_send(&out[..len]);
                }
                Some(caller.next_timeout())
            }
            State::Connected(connection) => {
                for _ in 0..BATCH {
                    let Some(len) = connection.poll_transmit(now, &mut out) else { break };
                    // What has no room is lost, as on the way, and sent again.
                    let _ = self.socket.try_send(&out[..len]);
                    sent += len as u64;
                }
                if let Some(end) = connection.end() {
                    return Err(Failure::new(match end {
                        End::Silent => "the listener answers nothing any more",
                        End::Shutdown | End::Closed => "the listener ended the connection",
                    }));
                }
                connection.next_timeout(now)
            }
        };
        Ok((due.map_or_else(Instant::now, Instant::from_std), sent))
    }

    fn receive(&mut self) -> Result<(), Failure> {
        let now = Instant::now().into_std();
        for _ in 0..BATCH {
            // An error is the system's word that nobody listens there: whoever is silent is dropped.
            let Ok(len) = self.socket.try_recv(&mut self.input) else { break };
            match &mut self.state {
                State::Calling(caller) => {
                    let answer = caller.handle_packet(now, &self.input[..len]);
                    if let Some(connection) = answer.map_err(|error| Failure::new(call_failed(error)))? {
                        self.state = State::Connected(Box::new(connection));
                    }
                }
                State::Connected(connection) => {
                    let _ = connection.handle_packet(now, &self.input[..len]);
                }
            }
        }
        if let State::Connected(connection) = &mut self.state {
            connection.handle_timeout(now);
            // Nothing is wanted from the listener.
            connection.deliver(now, |_| {});
        }
        Ok(())
    }

    /// Until all has left and was acknowledged, or the listener ends it.
    pub(crate) async fn finish(mut self) {
        loop {
            let State::Connected(connection) = &self.state else { return };
            let (_, held, _) = connection.status(Instant::now().into_std()).send_buffer;
            if self.ts.pending() == 0 && held == 0 {
                return;
            }
            if self.drive().await.is_err() {
                return;
            }
        }
    }

    /// The connection.
    pub(crate) fn link(&self) -> Option<SrtSessionSnapshot> {
        let State::Connected(connection) = &self.state else { return None };
        let status = connection.status(Instant::now().into_std());
        Some(SrtSessionSnapshot { counters: connection.counters(), status })
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// The listener is told that nothing more comes.
impl Drop for SrtPush {
    fn drop(&mut self) {
        if let State::Connected(connection) = &mut self.state {
            hang_up(&self.socket, connection);
        }
    }
}

impl fmt::Debug for SrtPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrtPush").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use media::{Codec, FrameRole, Timestamp, TrackId};
    use mpegts::PACKET_BYTES;
    use range_reader::http::address::AddressPolicy;
    use srt::{Accept, CookieSecret, HEADER_BYTES, Incoming, Limits, SocketId};

    use super::*;

    /// Listens, names this MTU, and gives the payload of the first packet of media.
    async fn first_payload(listener: UdpSocket, mtu: u32) -> Vec<u8> {
        let secret = CookieSecret::new(&[7; 32]);
        let accept = Accept {
            socket: SocketId(9),
            latency: Duration::from_millis(120),
            latency_max: Duration::from_millis(120),
            passphrase: None,
            limits: Limits::default(),
        };
        let mut input = [0; DATAGRAM_BYTES_MAX];
        loop {
            let (len, peer) = listener.recv_from(&mut input).await.expect("a datagram");
            let answer = match secret.handle(Duration::ZERO, peer, &input[..len]) {
                Ok(Incoming::Induction(answer)) => answer,
                Ok(Incoming::Conclusion(request)) => {
                    let asked = request.read().expect("it asks for something");
                    let accepted = asked.accept(Instant::now().into_std(), &accept);
                    let mut answer = accepted.expect("it is accepted").1;
                    answer[HEADER_BYTES + 12..HEADER_BYTES + 16].copy_from_slice(&mtu.to_be_bytes());
                    answer
                }
                Err(_) if input[0] & 0x80 == 0 => return input[HEADER_BYTES..len].to_vec(),
                Err(_) => continue,
            };
            listener.send_to(&answer, peer).await.expect("room");
        }
    }

    #[tokio::test]
    async fn packets_are_as_long_as_the_listener_takes_them() {
        for (mtu, packets) in [(264, 1), (1_000, 5), (1_500, 7)] {
            let listener = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("its address").port();
            let url = SrtUrl::parse(&format!("srt://127.0.0.1:{port}?streamid=publish:live/a"));
            let settings = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
            let mut first = tokio::spawn(first_payload(listener, mtu));
            let mut push = SrtPush::open(&url.expect("a URL"), &settings, &[]).await.expect("accepted");
            let time = Timestamp::ZERO;
            let frame =
                Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Mp3, (time, time), vec![7; 8_000]);
            push.send(&frame).expect("it is carried");
            let payload = loop {
                tokio::select! {
                    payload = &mut first => break payload.expect("a payload"),
                    driven = push.drive() => drop(driven.expect("it is connected")),
                }
            };
            assert_eq!(payload.len(), packets * PACKET_BYTES, "{mtu}");
        }
    }
}
