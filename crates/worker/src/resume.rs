//! WebRTC sessions that another process hands over: taken here, and gone on with when that one sends nothing
//! to them any more.

use std::collections::HashMap;
use std::sync::Arc;

use rtc::{Peer, Timeouts};

use crate::event_loop::Worker;
use crate::packets::inputs;
use crate::packets::session::{Session, SessionPublication, Subscription, Transport};
use crate::registry::{Lane, Origin, Published, PublishedTracks};
use worker_api::auth::Action;
use worker_api::hand_over::{HandedSession, HandedSessions, IceTcpSocket};
use worker_api::hooks::{Admission, Asker, HandedAdmission, Hooks};
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{Protocol, SessionId};

/// How long datagrams wait at most for what is to be said of sessions.
const WAIT_MS_MAX: u64 = 60_000;

impl Worker {
    /// Has datagrams and new connections wait and sends nothing to WebRTC sessions until those of another
    /// process are here, whose ids go up to this one: a player that came before its publisher would get no
    /// headers, and a publisher could take a name that is in use.
    pub(crate) fn await_sessions(&mut self, highest: u64) {
        self.ctx.number_sessions_after(highest);
        self.datagrams_wait_until_ms = self.ctx.now_ms + WAIT_MS_MAX;
        self.acceptor.hold(self.ctx.now_ms + WAIT_MS_MAX);
        self.packets.freeze();
    }

    /// Takes sessions of another process, and connections of those by ICE-TCP. Those that it has.
    pub(crate) fn resume_sessions(
        &mut self,
        sessions: HandedSessions,
        ice_tcp: Vec<IceTcpSocket>,
    ) -> Vec<SessionId> {
        let mut resumed = Vec::new();
        let mut connections: HashMap<_, _> =
            ice_tcp.into_iter().map(|one| (one.connection.session, one)).collect();
        for session in sessions {
            let id = session.id;
            match self.resume_session(&session, connections.remove(&id)) {
                Ok(()) => resumed.push(id),
                Err(reason) => tracing::warn!(session = %id, reason, "session lost in the upgrade"),
            }
            self.carry_out_actions();
        }
        resumed
    }

    fn resume_session(
        &mut self,
        handed: &HandedSession,
        connection: Option<IceTcpSocket>,
    ) -> Result<(), &'static str> {
        let (app, name, role) = (handed.app.as_str(), handed.stream.as_str(), handed.role);
        let key = format!("{app}/{name}");
        if handed.is_by_tcp() {
            if connection.is_none() {
                return Err("its connection did not come");
            }
        } else if !self.packets.has_port(handed.ice.path.local) {
            return Err("its port is not one of this worker any more");
        }
        let is_as_it_was = match role {
            RtcRole::Publish => self.ctx.directory.home(&key).is_none(),
            RtcRole::Play if handed.is_bridged => self.ctx.directory.is_bridge_resumed(&key),
            // Of its own publisher: nobody else can publish packets yet.
            RtcRole::Play => matches!(self.ctx.directory.published(&key), Published::Packets(_)),
        };
        if !is_as_it_was {
            return Err("its stream is not what it was");
        }
        let place =
            self.ctx.place_of_resumed(handed.address.ip()).map_err(|_| "too many sessions of its address")?;
        let hooks = self.ctx.policy.hooks.clone();
        let admit = |(admission, hooks): (&HandedAdmission, Hooks)| {
            let asker = Asker {
                action: if role == RtcRole::Publish { Action::Publish } else { Action::Play },
                key: key.as_str().into(),
                session: Some(handed.id),
                protocol: if role == RtcRole::Publish { Protocol::Whip } else { Protocol::Whep },
                address: handed.address,
                user_agent: handed.user_agent.clone(),
            };
            let resumed = Admission::new(hooks, asker, admission.id.clone(), admission.since);
            Box::new(if admission.is_recorded { resumed.recorded() } else { resumed })
        };
        // Made last: one that is dropped reports an end.
        let admission = || handed.admission.as_ref().zip(hooks).map(admit);
        let (now, now_ms) = (self.ctx.now, self.ctx.now_ms);
        let timeouts = Timeouts::default();
        let peer = Peer::resume(handed.ice.clone(), timeouts, now);
        let mut transport = Transport::new(peer, handed.ice.local_ice.ufrag.as_str().into(), now_ms);
        transport.ufrags = handed.ufrags.iter().take(transport.ufrags.capacity()).cloned().collect();
        let tracks: PublishedTracks = handed.tracks.clone().into();
        let mut session = Session {
            id: handed.id,
            role,
            address: handed.address,
            _place: place,
            user_agent: handed.user_agent.clone(),
            bits_per_second_max: handed.bits_per_second_max,
            height_max: handed.height_max,
            ends_at_ms: handed.ends_in_ms.map(|left| now_ms.saturating_add(left)),
            admission: None,
            time_over_ms: handed.time_over_in_ms.map(|left| now_ms.saturating_add(left)),
            uses: None,
            trace: None,
            keys: None,
            is_handed_over: true,
            ends_with: None,
            transport,
            publications: Vec::new(),
            subscriptions: Vec::new(),
        };
        let peer = match role {
            RtcRole::Publish => {
                let claim = self.claim_packets(&key, app, &tracks).map_err(|_| "its stream is taken")?;
                let stream = self.claimed_packets(&claim, (app, name), &tracks);
                let epoch = claim.epoch;
                let sfu = &mut self.packets.streams[stream].sfu;
                sfu.publisher_started(now, epoch.0, inputs::publisher(&tracks));
                if let Some(position) = &handed.publisher {
                    sfu.resume_publisher(now, position);
                }
                let publication = SessionPublication { stream, epoch, tracks: Arc::clone(&tracks) };
                session.publications = vec![publication];
                session.admission = admission();
                if let Some(admission) = &mut session.admission {
                    admission.note_published();
                }
                let peer = self.packets.insert(&mut self.ctx, session);
                self.start_packets(&claim, stream, Origin::Peer(peer), tracks);
                peer
            }
            RtcRole::Play => {
                let id = self.subscribe(Lane::Packets, &key, (app, name), Some(handed.address.ip()));
                let stream = id.and_then(|id| self.packets.streams.find(id)).ok_or("its stream is gone")?;
                self.packets.player_joined(&self.ctx, stream);
                let published = handed.published.clone().into();
                session.subscriptions = vec![Subscription { stream, viewer: None, tracks, published }];
                session.admission = admission();
                self.packets.insert(&mut self.ctx, session)
            }
        };
        self.packets.resume(&mut self.ctx, peer, handed, connection)?;
        tracing::info!(session = %handed.id, stream = key, ?role, "session taken over");
        Ok(())
    }
}
