//! Publishers nobody watches: their sockets (and queues, of publishers inside this process) are read a few
//! times a second instead of message by message.
//!
//! What arrives is only needed for the GOP cache, so nobody waits for it, and one read takes what would have
//! been several: with thousands of publishers the reads are most of what they cost. The moment a player or
//! another worker joins, the socket is read at once and from then on as soon as anything arrives. Measured in
//! docs/decisions/0006-unwatched-publishers.md.

use super::connections::Connections;
use super::session::{Media, State};
use crate::context::Context;
use crate::ids::ConnId;

/// Time between two reads, milliseconds.
const READ_EVERY_MS: u64 = 60;
/// Reads are gathered on multiples of this, so that the loop wakes less often, milliseconds.
const GATHER_MS: u64 = 5;
/// A read of at least this many bytes is followed by the next after [`GATHER_MS`]: the kernel's receive
/// buffer must not fill up and throttle the publisher.
const LARGE_READ_BYTES: u64 = 32 << 10;

/// A publisher nobody watches whose input is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueRead {
    pub(crate) conn: ConnId,
    due_ms: u64,
    /// What it had sent before.
    bytes_in: u64,
}

impl Connections {
    /// Sets whether anybody watches what a session publishes.
    pub(crate) fn set_watched(&mut self, ctx: &Context, conn: ConnId, is_watched: bool) {
        let session = &self.sessions[conn];
        // TLS may hold input of its own that no read would be due for.
        let Media::Publish(publish) = session.media else { return };
        // Datagrams are taken as they come, and packets that are timed by their arrival.
        let is_timed = matches!(session.state, State::Srt(_) | State::Rtsp(_));
        if session.is_tls()
            || is_timed
            || session.is_handed_over
            || publish.read_at_ms.is_none() == is_watched
        {
            return;
        }
        if !is_watched {
            self.read_later(ctx, conn, READ_EVERY_MS);
        } else if let Some(read_at_ms) = self.read_at(conn) {
            *read_at_ms = None;
        }
        // Becoming readable again reports at once what has arrived meanwhile.
        if let Err(error) = self.set_readable(ctx, conn, is_watched) {
            tracing::warn!(session = %self.sessions[conn].id, %error, "event queue refused a change");
        }
    }

    /// The next publisher that is due; give it to [`was_read`](Self::was_read) when it has been read.
    pub(crate) fn next_unwatched(&mut self, now_ms: u64) -> Option<DueRead> {
        while let Some((due_ms, conn)) = self.unwatched.pop(now_ms) {
            // The session may have ended, or be watched now, or be another one.
            if self.read_at(conn).is_some_and(|read_at_ms| *read_at_ms == Some(due_ms)) {
                return Some(DueRead { conn, due_ms, bytes_in: self.columns.bytes_in(conn) });
            }
        }
        None
    }

    /// It has been read: sets when it is read again, if still nobody watches.
    pub(crate) fn was_read(&mut self, ctx: &Context, due: DueRead) {
        let read_at_ms = self.read_at(due.conn);
        if read_at_ms.is_some_and(|read_at_ms| read_at_ms.take_if(|at| *at == due.due_ms).is_some()) {
            let bytes = self.columns.bytes_in(due.conn).saturating_sub(due.bytes_in);
            let after_ms = if bytes >= LARGE_READ_BYTES { GATHER_MS } else { READ_EVERY_MS };
            self.read_later(ctx, due.conn, after_ms);
        }
    }

    fn read_later(&mut self, ctx: &Context, conn: ConnId, after_ms: u64) {
        let due_ms = (ctx.now_ms + after_ms).next_multiple_of(GATHER_MS);
        let Self { sessions, unwatched, .. } = self;
        if let Media::Publish(publish) = &mut sessions[conn].media {
            unwatched.set(conn, &mut publish.read_at_ms, due_ms);
        }
    }

    /// What the timer of a publisher is set to.
    fn read_at(&mut self, conn: ConnId) -> Option<&mut Option<u64>> {
        match &mut self.sessions.get_mut(conn)?.media {
            Media::Publish(publish) => Some(&mut publish.read_at_ms),
            _ => None,
        }
    }
}
