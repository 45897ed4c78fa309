//! HTTP connections between two requests.
//!
//! An idle connection is a socket and a row here: no session, no row in the statistics, no buffer. Its next
//! bytes make it a session again, which reads a request head like that of a new connection. So ten thousand
//! of them cost little, and a request for media that comes on one is served by the worker as ever.

use std::net::SocketAddr;

use crate::event_loop::Worker;
use crate::ids::{ConnId, IdleId, Table};
use crate::net::connection::{Connection, ReadOutcome};
use crate::net::{Interest, Readiness, Token};
use crate::proto::session::{HttpHead, State};
use worker_api::AddressSlot;
use worker_api::link::Handoff;
use worker_api::snapshot::Protocol;

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
struct IdleConnection {
    connection: Connection,
    address: SocketAddr,
    requests: u32,
    slot: Option<AddressSlot>,
    since_ms: u64,
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
    fn close(mut self) {
        self.connection.finish();
    }
}

impl Worker {
    /// Takes back connections whose request control has answered.
    pub(crate) fn take_returned(&mut self) {
        while let Ok(handoff) = self.control.returned.try_recv() {
            let Handoff { stream, tls, buffered, peer: address, requests, slot, .. } = handoff;
            self.ctx.counters.http_returned += 1;
            let connection = Connection::from_parts(stream, tls);
            let idle = IdleConnection { connection, address, requests, slot, since_ms: self.ctx.now_ms };
            if self.ctx.draining_until.is_some() {
                idle.close();
            } else if buffered.is_empty() {
                self.wait_for_request(idle);
            } else if let Some(conn) = self.expect_request(idle, buffered) {
                // Bytes that have arrived since are announced by the registration.
                let Some(connection) = &self.sessions[conn].connection else { continue };
                match self.ctx.events.add(connection.socket(), Token::Connection(conn), Interest::ReadWrite) {
                    Ok(()) => self.http_input(conn),
                    Err(error) => self.drop_unregistered(conn, &error),
                }
            }
        }
    }

    fn wait_for_request(&mut self, idle: IdleConnection) {
        let id = self.idle.connections.insert(idle);
        let socket = self.idle.connections[id].connection.socket();
        if let Err(error) = self.ctx.events.add(socket, Token::Idle(id), Interest::Read) {
            tracing::warn!(%error, "connection not registered");
            self.idle.close(id);
        }
    }

    /// Reads from an idle connection: it closes, or has a request.
    pub(crate) fn idle_event(&mut self, id: IdleId, ready: &Readiness) {
        let Some(idle) = self.idle.connections.get_mut(id) else { return };
        let mut bytes = Vec::new();
        match idle.connection.read(&mut self.ctx.read_buffer, &mut self.cipher) {
            // A TLS record that carries no data, or half of one.
            Ok(ReadOutcome::WouldBlock) => return,
            Ok(ReadOutcome::Data { bytes: count, .. }) => {
                bytes.extend_from_slice(&self.ctx.read_buffer[..count])
            }
            Ok(ReadOutcome::Closed) | Err(_) => return self.idle.close(id),
        }
        let Some(idle) = self.idle.connections.remove(id) else { return };
        self.ctx.counters.bytes_in += bytes.len() as u64;
        self.ctx.load.bytes_in += bytes.len() as u64;
        let Some(conn) = self.expect_request(idle, bytes) else { return };
        let session = &mut self.sessions[conn];
        session.peer_closed = ready.closed;
        if let Err(error) = self.set_readable(conn, true) {
            return self.drop_unregistered(conn, &error);
        }
        // The socket may hold more, which no event tells of again.
        self.read_next_turn(conn);
        self.http_input(conn);
    }

    /// Makes it a session that reads a request head, of which `bytes` have arrived. Who calls this registers
    /// its socket.
    fn expect_request(&mut self, idle: IdleConnection, bytes: Vec<u8>) -> Option<ConnId> {
        if self.sessions.len() >= self.ctx.settings.sessions_max {
            self.ctx.counters.refused_full += 1;
            idle.close();
            return None;
        }
        let IdleConnection { connection, address, requests, slot, .. } = idle;
        let protocol = if connection.is_tls() { Protocol::HttpsFlv } else { Protocol::HttpFlv };
        let head = HttpHead { bytes, requests, slot };
        Some(self.add_session(Some(connection), address, State::HttpHead(Box::new(head)), protocol))
    }

    /// Closes connections that have been idle for too long. They are looked at once a second, not each turn.
    pub(crate) fn close_idle(&mut self) {
        if self.ctx.now_ms < self.idle.next_sweep_ms {
            return;
        }
        self.idle.next_sweep_ms = self.ctx.now_ms + SWEEP_MS;
        let limit_ms = self.ctx.settings.keep_alive.timeout.as_millis() as u64;
        for id in self.idle.connections.ids() {
            let since_ms = self.idle.connections.get(id).map(|idle| idle.since_ms);
            if since_ms.is_some_and(|since_ms| self.ctx.now_ms - since_ms > limit_ms) {
                self.idle.close(id);
            }
        }
    }
}
