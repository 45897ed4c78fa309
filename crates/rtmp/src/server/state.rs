//! A session that goes on in another process: where it is, as a plain value.
//!
//! ```text
//! old ─▶ handle_input, poll_event until None, output drained ─▶ state      new: resume ─▶ handle_input
//! ```
//! The peer notices nothing: what it sends next may be the rest of a chunk, and what it gets next
//! follows what it got. The server's own messages have full headers and no transactions of their
//! own, so that nothing of them has to go over but the chunk size; media of players is the caller's.

use serde::{Deserialize, Serialize};

use super::super::RtmpError;
use super::super::chunk::{PLAY_CHUNK_SIZE, ReaderLimits};
use super::super::connection::{Connection, ConnectionState};
use super::super::name::NAME_BYTES_MAX;
use super::{ServerConfig, ServerSession, Stage, reader_limits};

/// Where a session is that publishes or plays, for [`ServerSession::resume`].
///
/// To be serialised by name: a later release skips fields that it does not know, and those that it
/// adds have a default. It holds what has come of unfinished messages, so it can be as long as
/// [`ServerConfig::publish_memory_bytes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    activity: Activity,
    /// Length of the application's name.
    app_bytes: usize,
    connection: ConnectionState,
}

/// The stages in which nothing is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Activity {
    Publishing,
    Playing,
}

impl ServerSession {
    /// Where it is, for another process to go on with.
    ///
    /// `None` unless it publishes or plays; after a failure; and while events or
    /// [`output`](Self::output) are left, which are the caller's: take these first. The session
    /// itself stays as it is, in case the other process fails; only one of the two may go on.
    pub fn state(&self) -> Option<SessionState> {
        let activity = match self.stage {
            Stage::Publishing => Activity::Publishing,
            Stage::Playing => Activity::Playing,
            _ => return None,
        };
        // What waits for an answer waits no longer in these stages, but behind a failure.
        if self.failure.is_some() || !self.events.is_empty() || !self.waiting.is_empty() {
            return None;
        }
        Some(SessionState { activity, app_bytes: self.app_bytes, connection: self.connection.state()? })
    }

    /// The session that goes on from `state`, with the limits of `config`.
    ///
    /// If this release writes to players in other chunks than the one that the state is of, there
    /// is output at once, which says so.
    ///
    /// # Errors
    ///
    /// What is unfinished exceeds the limits, which may be others than those of the first process;
    /// or no session can be there. The peer has to connect again.
    pub fn resume(config: &ServerConfig, state: SessionState) -> Result<Self, RtmpError> {
        let SessionState { activity, app_bytes, connection } = state;
        if app_bytes > NAME_BYTES_MAX {
            return Err(RtmpError::StateImpossible);
        }
        let stage = match activity {
            Activity::Publishing => Stage::Publishing,
            Activity::Playing => Stage::Playing,
        };
        // Who plays may have published before, and left a message unfinished.
        let partial_bytes = config.publish_memory_bytes.max(config.idle_memory_bytes);
        let limits = ReaderLimits { partial_bytes, ..reader_limits(config, stage) };
        let mut session = Self::with(config, Connection::resume(limits, connection)?, stage, app_bytes);
        session.enter(stage);
        // The caller writes media in chunks of this size.
        if session.connection.chunk_size() != PLAY_CHUNK_SIZE {
            session.connection.announce_chunk_size(PLAY_CHUNK_SIZE);
        }
        Ok(session)
    }
}
