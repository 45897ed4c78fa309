//! Callers that ask for a connection: what for, whether they may, and with which passphrase.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use mpegts::{DemuxSettings, Demuxer};
use rtmp::name::query_value;
use srt::{Accept, Incoming, Limits, Mode, Reject, SocketId, StreamId};

use super::SrtLink;
use crate::event_loop::Worker;
use crate::frames::stream::Format;
use crate::net::Clock;
use crate::proto::session::State;
use crate::publication::{Credential, PlayRefusal, PublishRefusal};
use worker_api::EndReason;
use worker_api::auth::{Action, Bearer, Denied};
use worker_api::hooks::{Answer, Asker};
use worker_api::snapshot::{Protocol, Role};

impl Worker {
    /// A caller whose cookie is right asks for a connection.
    pub(super) fn open_srt(&mut self, port: usize, source: SocketAddr, datagram: &[u8]) {
        self.open_or_ask_srt(port, source, datagram, None);
    }

    /// Its hook has answered.
    pub(crate) fn answer_srt(&mut self, port: usize, source: SocketAddr, datagram: &[u8], answer: Answer) {
        if self.ctx.draining_until.is_none() {
            self.open_or_ask_srt(port, source, datagram, Some(answer));
        }
    }

    fn open_or_ask_srt(&mut self, port: usize, source: SocketAddr, datagram: &[u8], hook: Option<Answer>) {
        let since = self.ctx.now.saturating_duration_since(self.srt.shared.began);
        let shared = std::sync::Arc::clone(&self.srt.shared);
        let Ok(Incoming::Conclusion(request)) = shared.secret.handle(since, source, datagram) else { return };
        // It may have come twice in one batch. Who waits for its hook repeats it until then.
        let waits_for_hook =
            hook.is_none() && self.control.hooks.as_ref().is_some_and(|it| it.holds_srt(source));
        if waits_for_hook || self.srt.by_caller.contains_key(&(source, request.socket())) {
            return;
        }
        match self.accept_srt(port, source, request, datagram, hook) {
            Ok(true) => self.srt.counters.accepted += 1,
            // It waits for its hook.
            Ok(false) => {}
            Err(reject) => {
                self.srt.counters.refused += 1;
                tracing::debug!(address = %source, reason = reject.reason(), "SRT caller refused");
                let answer = request.reject(reject);
                self.srt.ports[port].send(source, &answer, self.ctx.now_ms);
            }
        }
    }

    fn accept_srt(
        &mut self,
        port: usize,
        source: SocketAddr,
        request: srt::Request<'_>,
        datagram: &[u8],
        hook: Option<Answer>,
    ) -> Result<bool, Reject> {
        let settings = &self.ctx.settings.srt;
        if self.ctx.draining_until.is_some() {
            return Err(Reject::Unavailable);
        }
        // Before anything is read: what follows costs more.
        if hook.is_none() && self.srt.shared.handshakes.take(source.ip(), self.ctx.now).is_err() {
            return Err(Reject::Overload);
        }
        let is_full = self.srt.by_socket.len() >= settings.sessions_max
            || self.srt.counters.pending >= settings.pending_max as u64;
        if is_full {
            self.ctx.counters.refused_full += 1;
        }
        if is_full || self.connections.is_full(&mut self.ctx) {
            return Err(Reject::Overload);
        }
        // Taken before the key is derived, and given back where the caller is refused.
        let pending = self.srt.shared.pending.take(source.ip());
        let pending = pending.ok_or(Reject::Overload)?;
        let asked = request.read()?;
        let bad_request = |reason: &'static str| {
            tracing::info!(address = %source, reason, "SRT caller refused");
            Reject::BadRequest
        };
        let id = StreamId::parse(asked.stream_id()).map_err(bad_request)?;
        let (app, name) = id.resource.rsplit_once('/').unwrap_or_default();
        self.ctx.settings.names.check(app, name).map_err(|_| bad_request("the name is not a valid one"))?;
        let token = id.token.map(str::to_owned).or_else(|| query_value(id.query, "token"));
        let token = token.as_deref();
        let program = id.program.map(str::to_owned).or_else(|| query_value(id.query, "program"));
        let program = program.map(|text| text.parse().ok().and_then(NonZeroU16::new).ok_or(text));
        let program =
            program.transpose().map_err(|_| bad_request("`program` is no number from 1 to 65535"))?;
        // Deriving a key takes half a millisecond: only for those who may come in.
        let bearer = Bearer { token, peer: source.ip(), now: Clock::since_1970() };
        let permit = match id.mode {
            Mode::Publish => self.ctx.policy.may_publish(app, name, &bearer),
            Mode::Request => self.ctx.policy.may_play(app, name, &bearer),
        };
        if let Err(denied) = permit {
            self.ctx.counters.unauthorized += 1;
            let stream = id.resource;
            tracing::info!(address = %source, stream, reason = denied.reason(), "SRT caller refused");
            return Err(denied_as(denied));
        }
        let (action, role) = match id.mode {
            Mode::Publish => (Action::Publish, Role::Publisher),
            Mode::Request => (Action::Play, Role::Player),
        };
        // The hook is not asked then, and no key is derived.
        if let Some(overload) = self.overload(role).filter(|_| hook.is_none()) {
            self.ctx.counters.overload.count(role, overload);
            tracing::info!(address = %source, reason = overload.reason(), "SRT caller refused");
            return Err(Reject::Overload);
        }
        let key = format!("{app}/{name}");
        let (major, minor, patch) = asked.version();
        let user = id.user.map(|user| format!(", {user}")).unwrap_or_default();
        let agent = format!("SRT {major}.{minor}.{patch}{user}");
        let agent: String = agent.chars().filter(|char| !char.is_control()).take(128).collect();
        let hook = match hook {
            Some(answer) => {
                let answer = answer.inspect_err(|denied| {
                    self.ctx.counters.unauthorized += 1;
                    let reason = denied.reason();
                    tracing::info!(address = %source, stream = key, reason, "SRT caller refused");
                });
                Some(self.hook_answer(action, key, Ok(answer.map_err(denied_as)?)))
            }
            None if self.control.hooks.as_ref().is_some_and(|asked| asked.hooks.admits(action)) => {
                let user_agent = Some(agent.into());
                let (key, protocol) = (key.into(), Protocol::Srt);
                let asker = Asker { action, key, session: None, protocol, address: source, user_agent };
                return self.hold_srt(asker, port, source, datagram).map(|()| false);
            }
            None => None,
        };
        let Ok(place) = self.ctx.place_of(source.ip()) else {
            self.ctx.counters.refused_address += 1;
            tracing::debug!(address = %source, "SRT caller refused: too many connections of this address");
            return Err(Reject::Overload);
        };
        let settings = &self.ctx.settings.srt;
        let rule = settings.passphrases_of(app, name);
        let passphrase = rule.and_then(|rule| match id.mode {
            Mode::Publish => rule.publish.clone(),
            Mode::Request => rule.play.clone(),
        });
        let accept = Accept {
            socket: self.srt.vacant_socket(),
            latency: settings.latency,
            latency_max: settings.latency_max,
            passphrase,
            limits: Limits {
                receive_bytes_max: settings.buffer_bytes_max,
                send_bytes_max: settings.buffer_bytes_max,
                send_bits_per_second_max: settings.player_bits_per_second_max,
                silence_max: settings.silence_max,
                ..Limits::default()
            },
        };
        let (connection, answer) = asked.accept(self.ctx.now, &accept).inspect_err(|reject| {
            let stream = id.resource;
            tracing::info!(address = %source, stream, reason = reject.reason(), "SRT caller refused");
        })?;
        let demux = DemuxSettings {
            program: program.map(NonZeroU16::get),
            pes_bytes_max: self.ctx.settings.message_bytes_max as usize,
        };
        let link = SrtLink {
            demuxer: (id.mode == Mode::Publish).then(|| Box::new(Demuxer::new(demux))),
            port,
            peer: source,
            answer: answer.clone().into(),
            due: None,
            is_dirty: false,
            is_answered: false,
            pending: Some(pending),
            received: (0, 0),
            media_ms: self.ctx.now_ms,
            connection,
            _place: Some(place),
        };
        let caller = (source, link.connection.peer());
        let state = State::Srt(Box::new(link));
        let conn = self.connections.add(&mut self.ctx, None, source, state, Protocol::Srt);
        self.srt.by_socket.insert(accept.socket, conn);
        self.srt.by_caller.insert(caller, conn);
        self.srt.counters.pending += 1;
        let session = &mut self.connections.sessions[conn];
        session.user_agent = Some(agent.into());
        session.hook = hook.map(Box::new);
        let refused = match id.mode {
            Mode::Publish => {
                let outcome = self.publish(conn, (app, name), Credential::Token(token));
                outcome.err().map(|refusal| (publish_refused(refusal), refusal.reason()))
            }
            Mode::Request => {
                let outcome = self.play(conn, (app, name), token, Format::Srt);
                outcome.err().map(|refusal| (play_refused(refusal), refusal.reason()))
            }
        };
        if let Some((reject, reason)) = refused {
            self.remove(conn, EndReason::Refused(reason));
            return Err(reject);
        }
        self.srt.ports[port].send(source, &answer, self.ctx.now_ms);
        if let State::Srt(link) = &mut self.connections.sessions[conn].state {
            link.is_answered = true;
            self.srt.mark_dirty(conn, link);
        }
        Ok(true)
    }
}

impl super::Srt {
    fn vacant_socket(&self) -> SocketId {
        loop {
            let socket = SocketId::random();
            if !self.by_socket.contains_key(&socket) {
                return socket;
            }
        }
    }
}

fn denied_as(denied: Denied) -> Reject {
    // As over HTTP: 401 where another token may be accepted, 503 where the same may be, else 403.
    match denied.challenge() {
        Some(_) => Reject::Unauthorized,
        None if denied.is_exceeded() => Reject::Overload,
        None if denied.is_temporary() => Reject::Unavailable,
        None => Reject::Forbidden,
    }
}

fn publish_refused(refusal: PublishRefusal) -> Reject {
    match refusal {
        PublishRefusal::Denied(denied) => denied_as(denied),
        PublishRefusal::Taken(_) => Reject::Conflict,
        PublishRefusal::Overloaded(_) => Reject::Overload,
        PublishRefusal::Draining => Reject::Unavailable,
    }
}

fn play_refused(refusal: PlayRefusal) -> Reject {
    match refusal {
        PlayRefusal::Denied(denied) => denied_as(denied),
        PlayRefusal::NotFound => Reject::NotFound,
        PlayRefusal::NotFrames | PlayRefusal::NotCarried(_) => Reject::NotSupported,
        PlayRefusal::Overloaded(_) => Reject::Overload,
        PlayRefusal::Draining => Reject::Unavailable,
    }
}
