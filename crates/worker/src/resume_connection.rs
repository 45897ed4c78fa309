//! TCP connections that another process hands over: taken here, and gone on with (`hand_over.rs`) when that
//! one has let go of them.

use crate::event_loop::Worker;
use crate::frames::stream::Format;
use crate::ids::ConnId;
use crate::net::TcpSocket;
use crate::net::connection::Connection;
use crate::proto::session::{HookAnswer, Media, Publish, Rtmp, State};
use crate::proto::websocket::ClientFrames;
use crate::publication::{LaneStream, Source};
use crate::registry::{Claimant, Origin};
use crate::stats::columns::frames_reference;
use worker_api::auth::Action;
use worker_api::hand_over::HandedOver;
use worker_api::handed_connection::{HandedConnection, HandedMedia, HandedProtocol, HandedSocket};
use worker_api::hooks::{Admission, Asker};
use worker_api::snapshot::{Protocol, Role, SessionId};

impl Worker {
    /// Takes sessions of another process. Those that it has.
    pub(crate) fn resume(&mut self, handed: HandedOver) -> Vec<SessionId> {
        let mut resumed = self.resume_sessions(handed.sessions, handed.ice_tcp);
        self.bridges.handed.extend(handed.bridges.into_iter().map(|bridge| (bridge.key(), bridge)));
        self.frames.handed.waiting.extend(handed.streams.into_iter().map(|stream| (stream.key(), stream)));
        for HandedSocket { connection, socket } in handed.connections {
            let id = connection.id;
            let taken = TcpSocket::adopt(socket).map_err(|_| "its socket cannot be used");
            match taken.and_then(|socket| self.resume_connection(*connection, socket)) {
                Ok(()) => resumed.push(id),
                Err(reason) => tracing::warn!(session = %id, reason, "connection lost in the upgrade"),
            }
        }
        resumed
    }

    fn resume_connection(&mut self, handed: HandedConnection, socket: TcpSocket) -> Result<(), &'static str> {
        if self.connections.is_full(&mut self.ctx) {
            return Err("there are too many");
        }
        let place = self
            .ctx
            .place_of_resumed(handed.address.ip())
            .map_err(|_| "too many connections of its address")?;
        let key = handed.key();
        let HandedConnection { id, address, protocol, app, stream: name, media, .. } = handed;
        let (state, protocol, format) = match protocol {
            HandedProtocol::Rtmp { session, app, query, token } => {
                let machine = self.connections.resume_rtmp(*session).map_err(|error| error.reason())?;
                let rtmp = Rtmp { machine, app, query, token };
                (State::Rtmp(Box::new(rtmp)), Protocol::Rtmp, Format::Rtmp)
            }
            HandedProtocol::HttpFlv { chunked: true } => {
                (State::HttpBody, Protocol::HttpFlv, Format::FlvChunked)
            }
            HandedProtocol::HttpFlv { chunked: false } => (State::HttpBody, Protocol::HttpFlv, Format::Flv),
            HandedProtocol::WebSocketFlv { partial } => {
                (State::WebSocket(ClientFrames::resume(partial)), Protocol::WsFlv, Format::WsFlv)
            }
        };
        let has_hooks = self.ctx.policy.hooks.is_some();
        let connection = Connection::resume(socket, place);
        let conn = self.connections.add_as(&self.ctx, id, Some(connection), address, (state, protocol));
        let session = &mut self.connections.sessions[conn];
        session.is_handed_over = true;
        session.pending.owed = handed.pending.len();
        session.pending.bytes = handed.pending;
        session.user_agent = handed.user_agent;
        let now_ms = self.ctx.now_ms;
        let at_ms = |left: Option<u64>| left.map(|left| now_ms.saturating_add(left));
        // A hook's limit of time holds where no hook is asked any more.
        let time_over = handed.time_over_in_ms.filter(|_| handed.admission.is_none() || !has_hooks);
        session.ends_at_ms = at_ms([handed.ends_in_ms, time_over].into_iter().flatten().min());
        session.collect_output();
        let taken = match media {
            HandedMedia::Publish => self.resume_publisher(conn, &key, (&app, &name)),
            HandedMedia::Play { .. } => self.resume_player(conn, &key, (&app, &name), format, media),
        };
        if let Err(reason) = taken {
            // Its socket is not shut down: the other process says goodbye, and reports the end.
            self.connections.take(&self.ctx, conn);
            return Err(reason);
        }
        let action = if media == HandedMedia::Publish { Action::Publish } else { Action::Play };
        let session = &mut self.connections.sessions[conn];
        if let Some((admission, hooks)) = handed.admission.zip(self.ctx.policy.hooks.clone()) {
            let asker = Asker {
                action,
                key: key.as_str().into(),
                session: Some(id),
                protocol,
                address,
                user_agent: session.user_agent.clone(),
            };
            let resumed = Admission::new(hooks, asker, admission.id, admission.since);
            let answer = Box::new(if admission.is_recorded { resumed.recorded() } else { resumed });
            let ends_at_ms = at_ms(handed.time_over_in_ms);
            let hook = HookAnswer { action, key: key.clone(), answer: Ok(answer), ends_at_ms };
            session.hook = Some(Box::new(hook));
        }
        if media == HandedMedia::Publish {
            self.note_published(conn);
        }
        tracing::info!(session = %id, stream = key, %address, ?action, "connection taken over");
        Ok(())
    }

    fn resume_publisher(
        &mut self,
        conn: ConnId,
        key: &str,
        (app, name): (&str, &str),
    ) -> Result<(), &'static str> {
        if !self.frames.handed.waiting.contains_key(key) {
            return Err("its stream did not come");
        }
        let claimant = Claimant::Publisher { takes_over: false };
        let claim = self.ctx.directory.claim(key, self.ctx.worker, claimant, None);
        let claim = claim.map_err(|_| "its stream is taken")?;
        // Taken only now: players whose publisher does not go over need its time.
        let handed = self.frames.handed.waiting.remove(key).ok_or("its stream did not come")?;
        let stream = self.begin_frames(&claim, (app, name), conn);
        if !self.frames.resume_stream(&self.ctx, stream, handed) {
            let source = Source { epoch: claim.epoch, origin: Origin::Connection(conn) };
            self.end_publication(LaneStream::Frames(stream), source);
            return Err("its stream cannot be used");
        }
        // Who has come before it has had nothing of it, and it does not begin again.
        self.frames.wait_for_key(stream);
        let publish = Publish { stream, epoch: claim.epoch, read_at_ms: None };
        self.connections.sessions[conn].media = Media::Publish(publish);
        self.connections.columns.takes_role(conn, Role::Publisher, frames_reference(stream));
        self.resume_bridge(stream);
        self.describe_as_packets(stream);
        self.bridge_claimed(&claim);
        Ok(())
    }

    fn resume_player(
        &mut self,
        conn: ConnId,
        key: &str,
        (app, name): (&str, &str),
        format: Format,
        media: HandedMedia,
    ) -> Result<(), &'static str> {
        let address = self.connections.sessions[conn].address.ip();
        let stream = self.subscribe_to_frames(key, (app, name), Some(address));
        let stream = stream.map_err(|refusal| refusal.reason())?;
        if let Some(handed) = self.frames.handed.waiting.remove(key) {
            let home = self.ctx.directory.home(key).map(|(_, home)| home);
            match home.filter(|home| handed.is_published && home.worker != self.ctx.worker) {
                Some(home) => {
                    // The home, which was asked just now, answers that it goes on; with another number of the
                    // newest frame, that some are missing.
                    let source = Source { epoch: home.epoch, origin: Origin::Worker };
                    self.start_source(LaneStream::Frames(stream), source, None);
                    self.frames.resume_stream(&self.ctx, stream, handed);
                    self.frames.wait_for_key(stream);
                }
                None => {
                    let local = &mut self.frames.streams[stream];
                    local.delivery.resume_time(self.ctx.now_ms, handed.delivery);
                }
            }
        }
        let player = self.frames.resume_player(&self.ctx, (stream, conn), format, media);
        self.connections.sessions[conn].media = Media::Play(player);
        self.ctx.mailboxes.fullness().join();
        self.connections.columns.takes_role(conn, Role::Player, frames_reference(stream));
        Ok(())
    }
}
