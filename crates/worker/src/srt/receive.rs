//! Datagrams in: to the connection they are for, and its payloads as frames to the stream.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use media::FrameRole;
use srt::{End, Incoming, SocketId};

use super::Srt;
use crate::context::Context;
use crate::event_loop::Worker;
use crate::ids::ConnId;
use crate::proto::connections::Connections;
use crate::proto::session::{Media, State};
use worker_api::EndReason;

/// Datagrams read from a socket per turn at most; the next turn reads the rest.
const DATAGRAMS_MAX: usize = 4_096;
/// Callers whose cookie was right, that are accepted per turn; the others ask again.
const OPENING_MAX: usize = 64;

impl Worker {
    /// Reads what waits at the sockets of SRT.
    pub(crate) fn receive_srt(&mut self) {
        for port in 0..self.srt.ports.len() {
            let mut read = 0;
            while read < DATAGRAMS_MAX && self.srt.ports[port].readable {
                if let Err(error) = self.srt.ports[port].receive(&mut self.received) {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::debug!(%error, "receiving failed");
                    }
                    break;
                }
                read += self.received.len();
                for datagram in self.received.iter() {
                    let (source, bytes) = (datagram.source, datagram.payload);
                    self.srt.datagram(&mut self.ctx, &mut self.connections, port, source, bytes);
                }
            }
        }
        for (port, source, datagram) in std::mem::take(&mut self.srt.opening) {
            self.open_srt(port, source, &datagram);
        }
        while let Some(conn) = self.srt.failed.pop() {
            self.ctx.counters.panics += 1;
            tracing::error!(?conn, "a defect in the server ended this SRT session");
            self.remove(conn, EndReason::Defect);
        }
        for at in 0..self.srt.dirty.len() {
            self.srt_due(self.srt.dirty[at]);
        }
    }

    /// Looks at the links whose time has come.
    pub(crate) fn run_srt_timers(&mut self) {
        while let Some((due, conn)) = self.srt.timers.pop(self.ctx.now) {
            let session = self.connections.sessions.get_mut(conn);
            if let Some(State::Srt(link)) = session.map(|session| &mut session.state)
                && link.due.take_if(|set| *set == due).is_some()
            {
                self.srt.mark_dirty(conn, link);
                self.srt_due(conn);
            }
        }
    }

    /// Does what is due for a link: timers, payloads, and its end.
    fn srt_due(&mut self, conn: ConnId) {
        let now = self.ctx.now;
        let end = self.guard_srt(conn, |link| {
            link.connection.handle_timeout(now);
            let end = link.connection.end();
            // What players send is not taken in.
            if let Some(demuxer) = &mut link.demuxer {
                link.connection.deliver(now, |payload| demuxer.push(payload));
                if end.is_some() {
                    demuxer.finish();
                }
            }
            end
        });
        let Some(end) = end else { return };
        self.srt_frames(conn);
        match end {
            Some(End::Shutdown) => self.remove(conn, EndReason::ClosedByPeer),
            Some(End::Silent) => self.remove(conn, EndReason::SilentPeer),
            Some(End::Closed) | None => {}
        }
    }

    /// Takes the frames that a publisher's packets have made, and counts what came.
    fn srt_frames(&mut self, conn: ConnId) {
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        let State::Srt(link) = &mut session.state else { return };
        let (bytes, packets) = std::mem::take(&mut link.received);
        if bytes > 0 && link.demuxer.is_some() {
            session.received_ms = self.ctx.now_ms;
            self.connections.columns.received(conn, bytes);
            self.connections.columns.passed(conn, packets);
        }
        while let Some(codec) = link.demuxer.as_mut().and_then(|demuxer| demuxer.take_left_out()) {
            // SRT has no word for it once a caller is accepted.
            tracing::warn!(session = %session.id, codec, "a track is left out: its codec is not carried");
        }
        loop {
            let Some(session) = self.connections.sessions.get_mut(conn) else { return };
            let (State::Srt(link), Media::Publish(publish)) = (&mut session.state, session.media) else {
                return;
            };
            let Some(frame) = link.demuxer.as_mut().and_then(|demuxer| demuxer.next_frame()) else { return };
            if matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio) {
                link.media_ms = self.ctx.now_ms;
            }
            self.ctx.counters.frames_in += 1;
            self.receive_frame(publish.stream, &Arc::new(frame));
        }
    }

    /// Lets a session's own machines work; a defect that this meets ends the session, and nothing else.
    fn guard_srt<T>(&mut self, conn: ConnId, work: impl FnOnce(&mut super::SrtLink) -> T) -> Option<T> {
        let session = self.connections.sessions.get_mut(conn)?;
        let State::Srt(link) = &mut session.state else { return None };
        let worked = catch_unwind(AssertUnwindSafe(|| work(link)));
        if worked.is_err() {
            self.ctx.counters.panics += 1;
            tracing::error!(session = %session.id, "a defect in the server ended this session");
            self.remove(conn, EndReason::Defect);
        }
        worked.ok()
    }
}

impl Srt {
    /// Takes one datagram in.
    fn datagram(
        &mut self,
        ctx: &mut Context,
        connections: &mut Connections,
        port: usize,
        source: SocketAddr,
        datagram: &[u8],
    ) {
        ctx.counters.bytes_in += datagram.len() as u64;
        ctx.load.bytes_in += datagram.len() as u64;
        match srt::destination(datagram) {
            Some(SocketId(0)) => self.handshake(ctx, connections, port, source, datagram),
            Some(socket) => {
                let conn = self.by_socket.get(&socket).copied();
                let session = conn.and_then(|conn| Some((conn, connections.sessions.get_mut(conn)?)));
                let Some((conn, session)) = session else { return self.counters.unknown += 1 };
                let State::Srt(link) = &mut session.state else { return };
                // Whoever has the number of the socket is not the caller if it is elsewhere.
                if link.peer != source {
                    return self.counters.unknown += 1;
                }
                let is_data = datagram[0] & 0x80 == 0;
                if is_data && link.demuxer.is_none() {
                    // Data of players is not read.
                    return self.counters.unknown += 1;
                }
                let handle = || link.connection.handle_packet(ctx.now, datagram);
                match catch_unwind(AssertUnwindSafe(handle)) {
                    Ok(handled) => {
                        // A publisher that only says that it is there, or says again what it has said, sends
                        // nothing.
                        if is_data && handled.is_ok() {
                            link.received.0 += datagram.len() as u64;
                            link.received.1 += 1;
                        }
                        if handled.is_ok() && link.pending.take().is_some() {
                            self.counters.pending -= 1;
                        }
                        self.mark_dirty(conn, link);
                    }
                    Err(_) if !self.failed.contains(&conn) => self.failed.push(conn),
                    Err(_) => {}
                }
            }
            None => self.counters.unknown += 1,
        }
    }

    /// A datagram that is for no connection.
    fn handshake(
        &mut self,
        ctx: &Context,
        connections: &Connections,
        port: usize,
        source: SocketAddr,
        datagram: &[u8],
    ) {
        let since = ctx.now.saturating_duration_since(self.shared.began);
        match self.shared.secret.handle(since, source, datagram) {
            Ok(Incoming::Induction(answer)) => {
                self.counters.inductions += 1;
                self.ports[port].send(source, &answer, ctx.now_ms);
            }
            Ok(Incoming::Conclusion(request)) => {
                let known = self.by_caller.get(&(source, request.socket()));
                let session = known.and_then(|conn| connections.sessions.get(*conn));
                if let Some(State::Srt(link)) = session.map(|session| &session.state) {
                    // The answer was lost, or is on its way.
                    self.ports[port].send(source, &link.answer, ctx.now_ms);
                } else if self.opening.len() < OPENING_MAX {
                    self.opening.push((port, source, datagram.to_vec()));
                }
            }
            Err(srt::Ignored::WrongCookie) => self.counters.wrong_cookies += 1,
            Err(srt::Ignored::NoHandshake) => self.counters.unknown += 1,
        }
    }
}
