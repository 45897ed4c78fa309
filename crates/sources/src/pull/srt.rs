//! A stream played from an SRT listener, as MPEG-TS.
//!
//! The protocol is `srt`'s; this moves datagrams between it and a socket, and waits for its timers.

use std::fmt;
use std::net::SocketAddr;

use srt::{CallError, Caller, Connection, DATAGRAM_BYTES_MAX, End};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use super::failure::Failure;
use super::ts::TsInput;
use crate::peer::{call, call_failed, hang_up};
use crate::settings::SourceSettings;
use crate::srt_url::SrtUrl;
use worker_api::snapshot::SrtSessionSnapshot;

/// Datagrams read at a time.
const BATCH: usize = 64;

/// How far a call is.
enum State {
    Calling(Box<Caller>),
    Connected(Box<Connection>),
    /// It has ended, for this reason, and all that came was delivered.
    Over(&'static str),
}

/// A call and what has come of it.
pub(super) struct SrtPlay {
    socket: UdpSocket,
    peer: SocketAddr,
    state: State,
    input: Box<[u8]>,
    pub(super) ts: TsInput,
}

impl SrtPlay {
    /// Opens a socket. What the listener says comes with [`fill`](Self::fill).
    pub(super) async fn open(url: &SrtUrl, settings: &SourceSettings) -> Result<Self, Failure> {
        let (socket, peer, caller) = call(url, settings).await.map_err(Failure::new)?;
        Ok(Self {
            socket,
            peer,
            state: State::Calling(Box::new(caller)),
            input: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
            ts: TsInput::new(url.program, settings),
        })
    }

    /// Waits for bytes, and says how many came. Nothing is lost when it is dropped while it waits.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        loop {
            let due = self.drive()?;
            tokio::select! {
                readable = self.socket.readable() => readable?,
                () = sleep_until(due) => {}
            }
            let bytes = self.receive()?;
            if bytes > 0 {
                return Ok(bytes);
            }
        }
    }

    /// Sends what is to be sent, and says when to come back.
    fn drive(&mut self) -> Result<Instant, Failure> {
        let now = Instant::now().into_std();
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let due = match &mut self.state {
            State::Calling(caller) => {
                while let Some(len) = caller.poll_transmit(now, &mut out).map_err(failed)? {
                    let _ = self.socket.try_send(&out[..len]);
                }
                Some(caller.next_timeout())
            }
            State::Connected(connection) => {
                while let Some(len) = connection.poll_transmit(now, &mut out) {
                    // What has no room is lost, as on the way.
                    let _ = self.socket.try_send(&out[..len]);
                }
                connection.next_timeout(now)
            }
            State::Over(reason) => return Err(Failure::new((*reason).to_owned())),
        };
        Ok(due.map_or_else(Instant::now, Instant::from_std))
    }

    /// Takes what has arrived and what is due.
    fn receive(&mut self) -> Result<usize, Failure> {
        let now = Instant::now().into_std();
        for _ in 0..BATCH {
            // An error is the system's word that nobody listens there: whoever is silent is dropped.
            let Ok(len) = self.socket.try_recv(&mut self.input) else { break };
            match &mut self.state {
                State::Calling(caller) => {
                    if let Some(connection) = caller.handle_packet(now, &self.input[..len]).map_err(failed)? {
                        self.state = State::Connected(Box::new(connection));
                    }
                }
                State::Connected(connection) => {
                    let _ = connection.handle_packet(now, &self.input[..len]);
                }
                State::Over(_) => {}
            }
        }
        let State::Connected(connection) = &mut self.state else { return Ok(0) };
        connection.handle_timeout(now);
        let end = connection.end();
        let mut bytes = 0;
        connection.deliver(now, |payload| {
            bytes += payload.len();
            self.ts.push(payload);
        });
        if let Some(end) = end {
            self.ts.finish();
            self.state = State::Over(match end {
                End::Silent => "the listener sends nothing any more",
                End::Shutdown | End::Closed => "the listener ended the connection",
            });
        }
        Ok(bytes)
    }

    /// The connection, once the listener has accepted.
    pub(super) fn link(&self) -> Option<SrtSessionSnapshot> {
        let State::Connected(connection) = &self.state else { return None };
        let status = connection.status(Instant::now().into_std());
        Some(SrtSessionSnapshot { counters: connection.counters(), status })
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// The listener is told that nobody listens to it any more.
impl Drop for SrtPlay {
    fn drop(&mut self) {
        if let State::Connected(connection) = &mut self.state {
            hang_up(&self.socket, connection);
        }
    }
}

impl fmt::Debug for SrtPlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrtPlay").field("peer", &self.peer).finish_non_exhaustive()
    }
}

fn failed(error: CallError) -> Failure {
    Failure::new(call_failed(error))
}
