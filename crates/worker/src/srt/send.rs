//! Datagrams out: what links have to send, and when each is due next.

use super::GATHER;
use crate::event_loop::Worker;
use crate::ids::ConnId;
use crate::proto::session::State;

impl Worker {
    /// Sends what links have to send, and flushes the sockets.
    pub(crate) fn send_srt(&mut self) {
        // A player whose packets have left may be given more, which marks its link again.
        while let Some(conn) = self.srt.dirty.pop() {
            if self.transmit_srt(conn) {
                self.write(conn);
            }
        }
        for port in &mut self.srt.ports {
            port.flush(self.ctx.now_ms);
        }
    }

    /// Sends what a link has to send now. Whether its player waits for room that there is.
    fn transmit_srt(&mut self, conn: ConnId) -> bool {
        let (now, now_ms) = (self.ctx.now, self.ctx.now_ms);
        let Some(session) = self.connections.sessions.get_mut(conn) else { return false };
        let State::Srt(link) = &mut session.state else { return false };
        link.is_dirty = false;
        let port = &mut self.srt.ports[link.port];
        let mut bytes = 0;
        let mut has_room = true;
        while has_room {
            let mut len = 0;
            let peer = link.peer;
            let sent = port.datagram(peer, now_ms, |out| {
                let written = link.connection.poll_transmit(now, out);
                len = written.unwrap_or_default();
                written
            });
            if !sent {
                break;
            }
            bytes += len as u64;
            has_room = port.has_room(now_ms);
        }
        self.ctx.counters.bytes_out += bytes;
        self.ctx.load.bytes_out += bytes;
        if let Some(due) = link.connection.next_timeout(now) {
            // What is due at once has no room: the socket is asked again in a moment.
            let due = due.max(now + GATHER);
            self.srt.timers.set(conn, &mut link.due, due);
        }
        session.blocked && link.has_room() && has_room && {
            session.blocked = false;
            true
        }
    }
}
