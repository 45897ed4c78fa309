//! One connection: its socket, what it has become, and what still has to be written to it.
//!
//! Its counters are columns beside the table of sessions (`columns`).

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

use bytes::{Buf, Bytes};
use delivery::PlayerId;
use rtmp::server::ServerSession;

use crate::ids::{ConnId, FrameStreamId, PacketStreamId, TapId};
use crate::net::connection::Connection;
use crate::net::listen::Doors;
use crate::proto::websocket::ClientFrames;
use crate::registry::Epoch;
use crate::rtsp::RtspLink;
use crate::srt::SrtLink;
use worker_api::AddressSlot;
use worker_api::EndReason;
use worker_api::auth::{Action, Denied};
use worker_api::hooks::Admission;
use worker_api::internal::FrameReceiver;
use worker_api::snapshot::SessionId;
use worker_api::traces::SessionTrace;
use worker_api::usage::Uses;

/// A client: its connection, what it is in the middle of, and what it publishes or plays.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` for a publisher or player inside this process.
    pub(crate) connection: Option<Connection>,
    pub(crate) id: SessionId,
    pub(crate) address: SocketAddr,
    pub(crate) state: State,
    pub(crate) media: Media,
    /// Private bytes to write before anything else; they begin and end at message boundaries.
    pub(crate) pending: Pending,
    /// The body of an answer, shared with other sessions: written behind `pending`. What is added to that
    /// meanwhile would overtake it, so that the next request waits.
    pub(crate) body: Body,
    /// The socket took less than it was offered: wait for it to become writable.
    pub(crate) blocked: bool,
    /// It is in the list of sessions to read again next turn.
    pub(crate) reads_again: bool,
    /// The peer has closed its side: there is an end to be read.
    pub(crate) peer_closed: bool,
    /// Set once the session is over but its last bytes may still leave: close at this time at the latest.
    pub(crate) closing_at_ms: Option<u64>,
    /// When it stops publishing or playing because its token ends.
    pub(crate) ends_at_ms: Option<u64>,
    /// What the operator's hook has said of what it publishes or plays, or is about to.
    pub(crate) hook: Option<Box<HookAnswer>>,
    /// A request of it waits for that: the next one waits behind it.
    pub(crate) waits_for_hook: bool,
    /// Since when it can have asked for what it publishes or plays, or is about to.
    pub(crate) asked_since_ms: u64,
    /// Since when it neither publishes nor plays.
    pub(crate) unused_since_ms: u64,
    pub(crate) received_ms: u64,
    /// When the socket last took bytes, or was first found full; what a blocked peer is judged by.
    pub(crate) written_ms: u64,
    pub(crate) user_agent: Option<Box<str>>,
    /// What it takes of the limits of its token and address while it publishes or plays.
    pub(crate) uses: Option<Box<Uses>>,
    /// Its trace, if what it publishes or plays has one.
    pub(crate) trace: Option<Box<SessionTrace>>,
    /// Another process has it, or it is not decided which one has it: its socket is neither read nor written
    /// here, and in no event queue.
    pub(crate) is_handed_over: bool,
    /// Why it is to end once it goes on, here or there.
    pub(crate) ends_with: Option<EndReason>,
}

/// What the connection speaks.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing yet, and one of these.
    Undecided(Doors),
    /// RTMP.
    Rtmp(Box<Rtmp>),
    /// HTTP, before the request head is complete. Boxed: a player that reads has none.
    HttpHead(Box<HttpHead>),
    /// HTTP, after a media request; what the client still sends does not matter.
    HttpBody,
    /// WebSocket.
    WebSocket(ClientFrames),
    /// Nothing: a publisher inside this process gives its frames.
    Internal(Box<FrameReceiver>),
    /// Nothing: a player inside this process takes frames.
    Tap,
    /// SRT, in datagrams.
    Srt(Box<SrtLink>),
    /// RTSP.
    Rtsp(Box<RtspLink>),
}

/// An HTTP connection on which a request is expected.
#[derive(Debug, Default)]
pub(crate) struct HttpHead {
    /// What has been read of the request.
    pub(crate) bytes: Vec<u8>,
    /// How many of these have been looked at.
    pub(crate) seen: usize,
    /// A request waits for a part of a stream (`segments.rs`), and what has been read comes after it.
    pub(crate) waits: bool,
    /// Requests answered before.
    pub(crate) requests: u32,
    /// Its place among the connections that are kept open, once it has one.
    pub(crate) slot: Option<AddressSlot>,
}

/// An RTMP connection.
#[derive(Debug)]
pub(crate) struct Rtmp {
    pub(crate) machine: ServerSession,
    pub(crate) app: String,
    /// Query of the `connect` command's app.
    pub(crate) query: String,
    /// The token in it, if any.
    pub(crate) token: Option<String>,
}

/// A publisher whose stream has another, perhaps not for long.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    pub(crate) session: SessionId,
    pub(crate) conn: ConnId,
    pub(crate) app: String,
    pub(crate) name: String,
    pub(crate) token: Option<String>,
}

/// What a hook has said of a session.
#[derive(Debug)]
pub(crate) struct HookAnswer {
    pub(crate) action: Action,
    /// `app/name`.
    pub(crate) key: String,
    pub(crate) answer: Result<Box<Admission>, Denied>,
    /// When it ends because the hook says so.
    pub(crate) ends_at_ms: Option<u64>,
}

/// What the session does with a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Media {
    /// Nothing yet, or no longer.
    None,
    /// Sends it.
    Publish(Publish),
    /// Sends it, as packets.
    PublishPackets(PublishPackets),
    /// Receives it.
    Play(PlayerId),
    /// The same, inside this process.
    Tap(TapId),
}

/// A publishing session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publish {
    /// Index of the stream on this worker.
    pub(crate) stream: FrameStreamId,
    /// The publication it is.
    pub(crate) epoch: Epoch,
    /// Nobody watches the stream: the socket is not read before this time.
    pub(crate) read_at_ms: Option<u64>,
}

/// A session that publishes packets (RTSP).
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishPackets {
    /// The stream on this worker.
    pub(crate) stream: PacketStreamId,
    /// The publication it is.
    pub(crate) epoch: Epoch,
}

impl Session {
    /// The player that it is, if it plays.
    pub(crate) fn player(&self) -> Option<PlayerId> {
        match self.media {
            Media::Play(player) => Some(player),
            _ => None,
        }
    }

    /// Whether another process can go on with it: it publishes or plays frames by RTMP, or plays FLV, in
    /// clear text.
    pub(crate) fn can_go_over(&self) -> bool {
        let has_place = matches!(self.state, State::Rtmp(_) | State::HttpBody | State::WebSocket(_));
        let is_begun = matches!(self.media, Media::Publish(_) | Media::Play(_));
        has_place && is_begun && !self.is_tls() && self.closing_at_ms.is_none()
    }

    /// Whether it plays by RTSP and gets packets that are taken out of what others get as it is.
    pub(crate) fn is_served_apart(&self) -> bool {
        matches!(&self.state, State::Rtsp(link) if link.is_served_apart())
    }

    /// Whether bytes go through TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_tls())
    }

    /// Whether bytes that were written still wait for the socket.
    pub(crate) fn holds_ciphertext(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::holds_ciphertext)
    }

    /// Whether the socket has all that was to be written.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.pending.len() == 0 && self.body.is_empty() && !self.holds_ciphertext()
    }

    /// Whether it was answered, and nothing of its next request has come.
    pub(crate) fn awaits_request(&self) -> bool {
        let State::HttpHead(head) = &self.state else { return false };
        head.requests > 0 && head.bytes.is_empty() && !head.waits
    }

    /// Writes its private bytes and the body of its answer, as many as the socket takes.
    pub(crate) fn write_pending(&mut self, now_ms: u64, written: &mut Written) -> Result<(), EndReason> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        while (self.pending.len() > 0 || !self.body.is_empty()) && !self.blocked {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let own = usize::from(self.pending.len() > 0);
            slices[0] = self.pending.rest();
            let count = own + self.body.slices(&mut slices[own..]);
            match connection.write(&slices[..count]) {
                Ok(bytes) => {
                    let of_body = self.pending.advance(bytes);
                    self.body.advance(of_body);
                    self.written_ms = now_ms;
                    written.bytes += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (self.blocked, self.written_ms) = (true, now_ms);
                }
                Err(_) => return Err(EndReason::ConnectionFailed),
            }
        }
        self.blocked |= !connection.flush().map_err(|_| EndReason::ConnectionFailed)?;
        Ok(())
    }
}

/// Pieces written at a time.
const SLICES_MAX: usize = 32;

/// Bytes that sessions share.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pieces: VecDeque<Bytes>,
}

impl Body {
    /// Whether all has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// The first pieces, as many as fit; how many they are.
    fn slices<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let count = self.pieces.len().min(out.len());
        for (slot, piece) in out.iter_mut().zip(&self.pieces) {
            *slot = IoSlice::new(piece);
        }
        count
    }

    /// Takes written bytes off.
    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.pieces.front_mut() {
            if written < first.len() {
                return first.advance(written);
            }
            written -= first.len();
            self.pieces.pop_front();
        }
        // An idle connection holds no memory for what it has sent.
        self.pieces = VecDeque::new();
    }
}

/// What was written to a session.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Writes of media.
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    /// Messages left out so far, since it began to play.
    pub(crate) dropped: u64,
}

/// Most bytes of answers kept for a peer that does not read them.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Bytes that were sent and are kept until the rest has left, at most.
const SENT_BYTES_MAX: usize = 64 << 10;

/// Bytes for one session only.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) bytes: Vec<u8>,
    /// How many of them are the rest of a media message, which is not the peer's doing.
    pub(crate) owed: usize,
    sent: usize,
}

impl Pending {
    /// What is left to write.
    pub(crate) fn rest(&self) -> IoSlice<'_> {
        IoSlice::new(&self.bytes[self.sent..])
    }

    /// Bytes left to write.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether a part has left: nothing else may be written before the rest.
    pub(crate) fn is_partly_sent(&self) -> bool {
        self.sent > 0
    }

    /// Takes written bytes off, as many as are its own; returns how many were not.
    pub(crate) fn advance(&mut self, written: usize) -> usize {
        let own = written.min(self.len());
        self.sent += own;
        if self.sent == self.bytes.len() {
            // Give the memory back: a playing session needs none here.
            *self = Self::default();
        } else if self.sent > SENT_BYTES_MAX {
            // Nor does one that never takes all of it hold what it has taken. A byte stays: a part has left.
            self.bytes.drain(..self.sent - 1);
            self.sent = 1;
        }
        self.owed = self.owed.min(self.len());
        written - own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_takes_all_of_it_holds_no_memory_for_what_was_sent() {
        let mut pending = Pending::default();
        pending.bytes.extend_from_slice(&[0; 1_000]);
        for number in 0..10_000u32 {
            pending.bytes.extend_from_slice(&[7; 1_000]);
            pending.bytes.push(number as u8);
            assert_eq!(pending.advance(1_001), 0);
            assert!(pending.is_partly_sent());
            assert_eq!(pending.len(), 1_000);
            assert_eq!(pending.rest().last(), Some(&(number as u8)));
            assert!(pending.bytes.len() <= SENT_BYTES_MAX + 3_000, "{}", pending.bytes.len());
        }
        assert_eq!(pending.advance(2_000), 1_000);
        assert_eq!((pending.len(), pending.is_partly_sent()), (0, false));
    }
}
