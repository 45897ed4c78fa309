//! HTTP connections between two requests.
//!
//! An idle connection is a socket and a row here: no session, no row in the statistics, no buffer. Its next
//! bytes make it a session again, which reads a request head like that of a new connection. So ten thousand
//! of them cost little, and a request for media that comes on one is served by the worker as ever.

use std::net::SocketAddr;

use crate::context::{Context, READ_BYTES};
use crate::ids::{IdleId, Table};
use crate::net::connection::{Connection, ReadOutcome};
use crate::net::{Interest, Readiness, Token};
use crate::proto::connections::COMMAND_READ_BYTES;
use worker_api::AddressSlot;
use worker_api::handoff::Handoff;

/// Time between two looks for connections that were idle for too long, milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The idle connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    connections: Table<IdleId, IdleConnection>,
    next_sweep_ms: u64,
}

/// One that waits for its next request.
#[derive(Debug)]
pub(crate) struct IdleConnection {
    pub(crate) connection: Connection,
    pub(crate) address: SocketAddr,
    /// Requests answered so far.
    pub(crate) requests: u32,
    pub(crate) slot: Option<AddressSlot>,
    pub(crate) since_ms: u64,
}

/// A connection whose next request has come, or begun to.
#[derive(Debug)]
pub(crate) struct NextRequest {
    pub(crate) idle: IdleConnection,
    /// What has arrived of it.
    pub(crate) bytes: Vec<u8>,
    /// Its socket is in the event queue already.
    pub(crate) was_idle: bool,
    pub(crate) peer_closed: bool,
}

impl IdleConnections {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    fn close(&mut self, id: IdleId) {
        if let Some(idle) = self.connections.remove(id) {
            idle.close();
        }
    }

    /// Closes all of them.
    pub(crate) fn clear(&mut self) {
        for id in self.connections.ids() {
            self.close(id);
        }
    }
}

impl IdleConnection {
    /// Closes it.
    pub(crate) fn close(mut self) {
        self.connection.finish();
    }
}

impl IdleConnections {
    /// Takes back a connection whose request control has answered. If the next has come, or begun to, it is
    /// returned.
    pub(crate) fn take_back(&mut self, ctx: &mut Context, handoff: Handoff) -> Option<NextRequest> {
        let Handoff { stream, tls, buffered, peer: address, requests, slot, place, .. } = handoff;
        ctx.counters.http_returned += 1;
        let connection = Connection::from_parts(stream, tls, place);
        let idle = IdleConnection { connection, address, requests, slot, since_ms: ctx.now_ms };
        if ctx.draining_until.is_some() {
            idle.close();
        } else if buffered.is_empty() {
            self.add(ctx, idle);
        } else {
            return Some(NextRequest { idle, bytes: buffered, was_idle: false, peer_closed: false });
        }
        None
    }

    /// Waits for the next request of a connection.
    pub(crate) fn add(&mut self, ctx: &Context, idle: IdleConnection) {
        let id = self.connections.insert(idle);
        let socket = self.connections[id].connection.socket();
        if let Err(error) = ctx.events.add(socket, Token::Idle(id), Interest::Read) {
            tracing::warn!(%error, "connection not registered");
            self.close(id);
        }
    }

    /// Reads from an idle connection: it closes, or has a request.
    pub(crate) fn read(&mut self, ctx: &mut Context, id: IdleId, ready: &Readiness) -> Option<NextRequest> {
        let idle = self.connections.get_mut(id)?;
        // Bytes of all that have a request in one turn are held at once; the rest is read by the session.
        let most = if idle.connection.is_tls() { READ_BYTES } else { COMMAND_READ_BYTES };
        let bytes = match idle.connection.read(&mut ctx.read_buffer[..most], &mut ctx.cipher_buffer) {
            // A TLS record that carries no data, or half of one.
            Ok(ReadOutcome::WouldBlock) => return None,
            Ok(ReadOutcome::Data { bytes, .. }) => ctx.read_buffer[..bytes].to_vec(),
            Ok(ReadOutcome::Closed) | Err(_) => {
                self.close(id);
                return None;
            }
        };
        let idle = self.connections.remove(id)?;
        ctx.counters.bytes_in += bytes.len() as u64;
        ctx.load.bytes_in += bytes.len() as u64;
        Some(NextRequest { idle, bytes, was_idle: true, peer_closed: ready.closed })
    }

    /// Closes connections that have been idle for too long. They are looked at once a second, not each turn.
    pub(crate) fn sweep(&mut self, ctx: &Context) {
        if ctx.now_ms < self.next_sweep_ms {
            return;
        }
        self.next_sweep_ms = ctx.now_ms + SWEEP_MS;
        let limit_ms = ctx.settings.keep_alive.timeout.as_millis() as u64;
        for id in self.connections.ids() {
            let since_ms = self.connections.get(id).map(|idle| idle.since_ms);
            if since_ms.is_some_and(|since_ms| ctx.now_ms - since_ms > limit_ms) {
                self.close(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::ids::ConnId;
    use crate::net::tests::connected;
    use crate::packets::panic_tests::worker;

    #[test]
    fn a_late_event_is_not_taken_for_the_next_connection_with_its_id() {
        let (mut worker, _noted) = worker();
        let (stream, mut client) = connected();
        let peer = stream.peer_addr().expect("an address");
        let home = worker.control.home.clone();
        let handoff = Handoff {
            stream,
            tls: None,
            buffered: Vec::new(),
            peer,
            requests: 1,
            slot: None,
            place: None,
            home,
        };
        assert!(worker.idle.take_back(&mut worker.ctx, handoff).is_none());
        client.write_all(b"GET /heal").expect("sent");
        let ready = |token, closed| Readiness { token, readable: true, writable: false, closed };
        // The second is of a connection that something else in the same batch has ended.
        let (idle, ended) = (Token::Idle(IdleId(0)), Token::Connection(ConnId(0)));
        worker.turn(&[ready(idle, false), ready(ended, true)]);
        let session = &worker.connections.sessions[ConnId(0)];
        assert_eq!((session.address, session.peer_closed), (peer, false));
    }
}
