//! The server's end of an RTMP connection.
//!
//! [`ServerSession`] is driven by three calls and asks three questions:
//!
//! ```text
//!  handle_input ─▶ poll_event ─▶ Connect  ─▶ accept_connect | close
//!                                Publish  ─▶ accept_publish | reject_publish ─▶ Media ...
//!                                Play     ─▶ accept_play    | reject_play
//!  output: bytes to write, drained by the caller
//! ```
//!
//! While a question is open, further commands and media of the peer wait (a client need not await each
//! answer) and count against [`ServerConfig::idle_memory_bytes`]. Media a player gets is written by the
//! caller with [`write_play_message`](super::chunk::write_play_message) behind the session's own output.
//!
//! `commands.rs` reads the peer's commands, `replies.rs` holds what is said to it, `state.rs` has
//! another process go on with a session. Who may do what, how long to wait and what a stream is are
//! decided by the caller.

mod aggregate;
mod commands;
mod events;
mod replies;
mod state;

use std::collections::VecDeque;

use super::RtmpError;
use super::chunk::ReaderLimits;
use super::command;
use super::connection::{Connection, Handshake};
use super::handshake::ServerHandshake;
use super::message::{AGGREGATE, Message};
use super::name::NameRules;
pub use events::{ConnectRequest, PlayReject, PlayRequest, PublishReject, PublishRequest, ServerEvent};
pub use state::SessionState;

/// Limits and announcements of a [`ServerSession`].
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Window in which the peer is asked to acknowledge, in bytes. Default 2,500,000.
    ///
    /// It also stands for the peer's own window until it names one. It does not limit sending: TCP does.
    pub window_ack_bytes: u32,
    /// Longest message, in bytes. Default 8 MiB. A longer one ends the session at its header.
    pub max_message_bytes: u32,
    /// Memory for unfinished messages of a session that does not publish, in bytes, and as much again for
    /// messages that wait for an answer. Default 64 KiB. More ends the session.
    pub idle_memory_bytes: u32,
    /// Memory for unfinished messages of an accepted publisher, in bytes. Default 16 MiB.
    ///
    /// It should hold two of the longest messages, one of audio and one of video.
    pub publish_memory_bytes: u32,
    /// Names that applications and streams may have.
    pub names: NameRules,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            window_ack_bytes: 2_500_000,
            max_message_bytes: 8 << 20,
            idle_memory_bytes: 64 << 10,
            publish_memory_bytes: 16 << 20,
            names: NameRules::default(),
        }
    }
}

/// One RTMP connection, server side.
///
/// **After each [`handle_input`](Self::handle_input), take all of [`poll_event`](Self::poll_event), answer
/// its questions, then write and drain [`output`](Self::output).** While the peer does not take output, stop
/// reading from it: replies are at most about as long as the input they answer, and nothing else bounds them.
#[derive(Debug)]
pub struct ServerSession {
    config: ServerConfig,
    connection: Connection,
    stage: Stage,
    /// Length of the application's name, of which a slash in a stream's name makes more.
    app_bytes: usize,
    events: VecDeque<ServerEvent>,
    /// Messages that arrived while a question was open.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// Once set, the session is over.
    failure: Option<RtmpError>,
}

/// How far the session is. `*Asked` are the open questions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Fresh,
    ConnectAsked(commands::ConnectReply),
    Connected,
    PublishAsked,
    Publishing,
    PlayAsked { reset: bool },
    Playing,
    Closed,
}

impl ServerSession {
    /// A session that has seen nothing. `seed` makes the handshake's random bytes; it need not be secret.
    pub fn new(config: &ServerConfig, seed: u64) -> Self {
        let limits = reader_limits(config, Stage::Fresh);
        let handshake = Handshake::Server(ServerHandshake::new(seed));
        let connection = Connection::new(handshake, Vec::new(), limits, config.window_ack_bytes);
        Self::with(config, connection, Stage::Fresh, 0)
    }

    fn with(config: &ServerConfig, connection: Connection, stage: Stage, app_bytes: usize) -> Self {
        Self {
            config: config.clone(),
            connection,
            stage,
            app_bytes,
            events: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            failure: None,
        }
    }

    /// Takes all of `input` apart.
    ///
    /// After an error the session is over: flush [`output`](Self::output), which may hold a last status for
    /// the peer, and close. Events from before the error are still there.
    pub fn handle_input(&mut self, mut input: &[u8]) -> Result<(), RtmpError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.connection.note_received(input.len());
        let result = self.take_messages(&mut input);
        self.failure = result.err();
        self.connection.acknowledge();
        result
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            self.events = VecDeque::new();
        }
        event
    }

    /// Bytes waiting to be written; the caller drains them. They end at a message boundary.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.connection.output()
    }

    /// Why the session is over, if it is. Set as well when a message that had waited for an answer, like
    /// that of [`accept_connect`](Self::accept_connect), turns out to be bad.
    pub fn failure(&self) -> Option<RtmpError> {
        self.failure
    }

    /// Gives back memory that a player does not need: what remains is below 2 kB.
    pub fn trim(&mut self) {
        self.connection.trim();
        self.events.shrink_to_fit();
        self.waiting.shrink_to_fit();
    }

    /// Bytes received, handshake included.
    pub fn bytes_in(&self) -> u64 {
        self.connection.bytes_in()
    }

    /// Memory held for input: half a handshake, unfinished messages, messages waiting for an answer.
    pub fn buffered_bytes(&self) -> usize {
        self.connection.buffered_bytes() + self.waiting_bytes
    }

    fn take_messages(&mut self, input: &mut &[u8]) -> Result<(), RtmpError> {
        while let Some(message) = self.connection.next(input)? {
            if self.has_open_question() { self.keep_waiting(message) } else { self.handle_message(message) }?;
        }
        Ok(())
    }

    /// Media that nobody accepted is dropped: encoders send some behind their `deleteStream`.
    fn handle_message(&mut self, message: Message) -> Result<(), RtmpError> {
        match message.header.type_id {
            _ if self.stage == Stage::Closed => Ok(()),
            AGGREGATE if self.stage == Stage::Publishing => aggregate::split(&message, &mut self.events),
            type_id if command::is_command(type_id) => self.handle_command(&message),
            _ => {
                if self.stage == Stage::Publishing
                    && let Ok(media) = message.into_media()
                {
                    self.events.push_back(ServerEvent::Media(media));
                }
                Ok(())
            }
        }
    }

    fn has_open_question(&self) -> bool {
        matches!(self.stage, Stage::ConnectAsked(_) | Stage::PublishAsked | Stage::PlayAsked { .. })
    }

    fn keep_waiting(&mut self, message: Message) -> Result<(), RtmpError> {
        let bytes = message.payload.len() + size_of::<Message>();
        if self.waiting_bytes + bytes > self.config.idle_memory_bytes as usize {
            return Err(RtmpError::MemoryLimit);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(message);
        Ok(())
    }

    /// Enters `stage`, then handles what had waited, up to the next question.
    fn answer(&mut self, stage: Stage) {
        self.enter(stage);
        while !self.has_open_question() && self.failure.is_none() {
            let Some(message) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= message.payload.len() + size_of::<Message>();
            self.failure = self.handle_message(message).err();
        }
    }

    /// Enters `stage`, and gives the peer the memory that goes with it.
    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.connection.set_limits(reader_limits(&self.config, stage));
    }
}

/// What the peer may send in a stage.
fn reader_limits(config: &ServerConfig, stage: Stage) -> ReaderLimits {
    let partial_bytes = match stage {
        Stage::Publishing => config.publish_memory_bytes,
        _ => config.idle_memory_bytes,
    };
    ReaderLimits { message_bytes: config.max_message_bytes, partial_bytes, keep_payload_bytes: u32::MAX }
}

/// Room for events that a session keeps between inputs. A read of 64 KiB brings about 30 messages, but up
/// to 65,536 empty ones from a peer that wants to take memory.
const EVENTS_KEPT: usize = 128;
