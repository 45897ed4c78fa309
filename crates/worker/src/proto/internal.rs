//! Publishers inside this process: channels, pulls and the demo, which reach a worker by a connected socket pair.
//!
//! The control side makes the pair and gives one end away; from then on it is a session like any other, which is read,
//! counted, listed and ended the same way. It speaks FLV, the plainest form of what a publisher of frames sends: there
//! is nothing to negotiate and nobody to authorise. Why it ended is told by a channel of its own, because a stream of
//! tags has no answers.

use std::net::SocketAddr;

use mio::net::TcpStream;
use rtmp::MediaMessage;
use rtmp::flv::FlvReader;
use tokio::sync::oneshot;

use crate::event_loop::Worker;
use crate::frames::publish::{Credential, PublishRefusal};
use crate::ids::ConnId;
use crate::net::connection::Connection;
use crate::proto::session::{Media, Pending, Session, State};
use worker_api::EndReason;
use worker_api::link::{Adopt, AdoptRefusal};

/// What an adopted session is besides its socket.
#[derive(Debug)]
pub(crate) struct Adopted {
    reader: FlvReader,
    ended: Option<oneshot::Sender<EndReason>>,
}

impl Adopted {
    /// Tells the other end why the session is over; the first reason counts.
    pub(crate) fn tell(&mut self, reason: EndReason) {
        if let Some(ended) = self.ended.take() {
            // The other end may have gone first.
            let _ = ended.send(reason);
        }
    }
}

impl Worker {
    /// Takes a publisher of this process over, or says why not; the socket is closed then.
    pub(crate) fn adopt(&mut self, adopt: Adopt) {
        let Adopt { socket, app, name, protocol, address, detail, reply, ended } = adopt;
        if self.ctx.draining_until.is_some() {
            let _ = reply.send(Err(AdoptRefusal::Draining));
            return;
        }
        if self.sessions.len() >= self.ctx.settings.sessions_max {
            self.ctx.counters.refused_full += 1;
            let _ = reply.send(Err(AdoptRefusal::Full));
            return;
        }
        let reader = FlvReader::new(self.ctx.settings.message_bytes_max);
        let adopted = Adopted { reader, ended: Some(ended) };
        let session = self.adopted_session(TcpStream::from_std(socket), address, adopted, &detail);
        let id = session.id;
        let conn = self.sessions.insert(session);
        self.columns.open(conn, id, protocol, self.ctx.now_ms);
        if let Err(error) = self.register(conn) {
            tracing::warn!(session = %id, %error, "connection not registered");
            self.sessions.remove(conn);
            self.columns.close(conn);
            let _ = reply.send(Err(AdoptRefusal::Full));
            return;
        }
        let outcome = match self.publish(conn, (&app, &name), Credential::Own) {
            Ok(()) => Ok(id),
            Err(PublishRefusal::Draining) => Err(AdoptRefusal::Draining),
            Err(PublishRefusal::Taken | PublishRefusal::Denied(_)) => Err(AdoptRefusal::Taken),
        };
        let refused = outcome.is_err();
        // Who does not wait for the answer any more does not use the session either.
        if reply.send(outcome).is_err() || refused {
            self.remove(conn, EndReason::Refused("refused"));
        }
    }

    fn adopted_session(
        &mut self,
        socket: TcpStream,
        address: SocketAddr,
        adopted: Adopted,
        detail: &str,
    ) -> Session {
        Session {
            connection: Connection { socket, tls: None },
            id: self.ctx.next_session_id(),
            address,
            state: State::Adopted(Box::new(adopted)),
            media: Media::None,
            pending: Pending::default(),
            blocked: false,
            reads_again: false,
            peer_closed: false,
            closing_at_ms: None,
            unused_since_ms: self.ctx.now_ms,
            received_ms: self.ctx.now_ms,
            written_ms: self.ctx.now_ms,
            user_agent: (!detail.is_empty()).then(|| detail.chars().take(128).collect()),
        }
    }

    /// Takes tags in.
    pub(crate) fn adopted_input(&mut self, conn: ConnId, input: &[u8]) {
        let Some(State::Adopted(adopted)) = self.sessions.get_mut(conn).map(|session| &mut session.state)
        else {
            return;
        };
        adopted.reader.push(input);
        loop {
            let Some(session) = self.sessions.get_mut(conn).filter(|session| session.closing_at_ms.is_none())
            else {
                return;
            };
            let State::Adopted(adopted) = &mut session.state else { return };
            match adopted.reader.next_tag() {
                Ok(Some(tag)) => {
                    let length = tag.body.len() as u32;
                    let message =
                        MediaMessage { kind: tag.kind, timestamp: tag.timestamp, length, payload: tag.body };
                    self.receive_message(conn, message);
                }
                Ok(None) => return,
                Err(error) => {
                    self.ctx.counters.protocol_errors += 1;
                    return self.remove(conn, EndReason::Protocol(error.reason()));
                }
            }
        }
    }
}
