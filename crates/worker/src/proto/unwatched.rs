//! Publishers nobody watches: their sockets (and queues, of publishers inside this process) are read a few
//! times a second instead of message by message.
//!
//! What arrives is only needed for the GOP cache, so nobody waits for it, and one read takes what would have
//! been several: with thousands of publishers the reads are most of what they cost. The moment a player or
//! another worker joins, the socket is read at once and from then on as soon as anything arrives. Measured in
//! docs/decisions/0006-unwatched-publishers.md.

use std::cmp::Reverse;

use crate::event_loop::Worker;
use crate::ids::{ConnId, FrameStreamId};
use crate::proto::session::Media;

/// Time between two reads, milliseconds.
const READ_EVERY_MS: u64 = 60;
/// Reads are gathered on multiples of this, so that the loop wakes less often, milliseconds.
const GATHER_MS: u64 = 5;
/// A read of at least this many bytes is followed by the next after [`GATHER_MS`]: the kernel's receive
/// buffer must not fill up and throttle the publisher.
const LARGE_READ_BYTES: u64 = 32 << 10;

impl Worker {
    /// Call it when a stream's players or remote workers may have become none, or the first.
    pub(crate) fn update_read_interest(&mut self, stream: FrameStreamId) {
        let local = &self.frames.streams[stream];
        let Some(conn) = local.publication.connection() else { return };
        let unwatched = local.publication.players == 0
            && local.publication.remotes.is_empty()
            && local.publication.bridge.is_none();
        let session = &self.sessions[conn];
        // TLS may hold input of its own that no read would be due for.
        let Media::Publish(publish) = session.media else { return };
        if session.is_tls() || publish.read_at_ms.is_some() == unwatched {
            return;
        }
        if unwatched {
            self.read_later(conn, READ_EVERY_MS);
        } else {
            self.set_read_at(conn, None);
        }
        // Becoming readable again reports at once what has arrived meanwhile.
        if let Err(error) = self.set_readable(conn, !unwatched) {
            tracing::warn!(session = %self.sessions[conn].id, %error, "event queue refused a change");
        }
    }

    /// Reads the sockets that are due.
    pub(crate) fn read_unwatched(&mut self) {
        while let Some(&Reverse((due_ms, conn))) = self.unwatched.peek() {
            if due_ms > self.ctx.now_ms {
                return;
            }
            self.unwatched.pop();
            // The session may have ended, or be watched now, or be another one.
            if self.read_at(conn) != Some(due_ms) {
                continue;
            }
            let before = self.columns.bytes_in(conn);
            self.read(conn);
            if self.read_at(conn) == Some(due_ms) {
                let large = self.columns.bytes_in(conn).saturating_sub(before) >= LARGE_READ_BYTES;
                self.read_later(conn, if large { GATHER_MS } else { READ_EVERY_MS });
            }
        }
    }

    fn read_later(&mut self, conn: ConnId, after_ms: u64) {
        let due_ms = (self.ctx.now_ms + after_ms).next_multiple_of(GATHER_MS);
        self.set_read_at(conn, Some(due_ms));
        self.unwatched.push(Reverse((due_ms, conn)));
    }

    fn read_at(&self, conn: ConnId) -> Option<u64> {
        match self.sessions.get(conn)?.media {
            Media::Publish(publish) => publish.read_at_ms,
            _ => None,
        }
    }

    fn set_read_at(&mut self, conn: ConnId, read_at_ms: Option<u64>) {
        if let Media::Publish(publish) = &mut self.sessions[conn].media {
            publish.read_at_ms = read_at_ms;
        }
    }
}
