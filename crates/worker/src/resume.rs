//! WebRTC sessions that another process hands over go on here.

use std::sync::Arc;

use rtc::{Peer, Timeouts};

use crate::event_loop::Worker;
use crate::packets::inputs;
use crate::packets::session::{Session, SessionPublication, Subscription, Transport};
use crate::registry::{Lane, Origin, PublishedTracks};
use worker_api::auth::Action;
use worker_api::hand_over::HandedSession;
use worker_api::hooks::{Admission, Asker};
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{Protocol, SessionId};

impl Worker {
    /// Goes on with sessions of another process. Which it does.
    pub(crate) fn resume_sessions(&mut self, sessions: Vec<HandedSession>) -> Vec<SessionId> {
        let mut resumed = Vec::new();
        for session in sessions {
            let id = session.id;
            match self.resume_session(session) {
                Ok(()) => resumed.push(id),
                Err(reason) => tracing::warn!(session = %id, reason, "session lost in the upgrade"),
            }
            self.carry_out_actions();
        }
        resumed
    }

    fn resume_session(&mut self, handed: HandedSession) -> Result<(), &'static str> {
        let (app, name, role) = (handed.app.as_str(), handed.stream.as_str(), handed.role);
        let key = format!("{app}/{name}");
        if !self.packets.has_port(handed.ice.path.local) {
            return Err("its port is not one of this worker any more");
        }
        let is_published = self.ctx.directory.home(&key).is_some();
        if is_published == (role == RtcRole::Publish) {
            return Err("its stream is not what it was");
        }
        let place =
            self.ctx.place_of_resumed(handed.address.ip()).map_err(|_| "too many sessions of its address")?;
        let hooks = self.ctx.policy.hooks.clone();
        let admission = handed.admission.as_ref().zip(hooks).map(|(admission, hooks)| {
            let asker = Asker {
                action: if role == RtcRole::Publish { Action::Publish } else { Action::Play },
                key: key.as_str().into(),
                session: Some(handed.id),
                protocol: if role == RtcRole::Publish { Protocol::Whip } else { Protocol::Whep },
                address: handed.address,
                user_agent: handed.user_agent.clone(),
            };
            Box::new(Admission::new(hooks, asker, admission.id.clone(), admission.since))
        });
        let (now, now_ms) = (self.ctx.now, self.ctx.now_ms);
        let timeouts = Timeouts::default();
        let peer = Peer::resume(handed.ice.clone(), timeouts, now);
        let mut transport = Transport::new(peer, handed.ice.local_ice.ufrag.as_str().into(), now_ms);
        transport.ufrags = handed.ufrags.iter().take(transport.ufrags.capacity()).cloned().collect();
        let tracks: PublishedTracks = handed.tracks.clone().into();
        self.ctx.note_session_id(handed.id);
        self.ctx.mailboxes.fullness().join();
        let mut session = Session {
            id: handed.id,
            role,
            address: handed.address,
            _place: place,
            user_agent: handed.user_agent.clone(),
            bits_per_second_max: handed.bits_per_second_max,
            height_max: handed.height_max,
            ends_at_ms: handed.ends_in_ms.map(|left| now_ms.saturating_add(left)),
            admission,
            time_over_ms: handed.time_over_in_ms.map(|left| now_ms.saturating_add(left)),
            uses: None,
            trace: None,
            keys: None,
            is_handed_over: false,
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
                let peer = self.packets.insert(&mut self.ctx, session);
                self.start_packets(&claim, stream, Origin::Peer(peer), tracks);
                peer
            }
            RtcRole::Play => {
                let id = self.subscribe(Lane::Packets, &key, (app, name), Some(handed.address.ip()));
                let stream = id.and_then(|id| self.packets.streams.find(id)).ok_or("its stream is gone")?;
                let publication = &mut self.packets.streams[stream].publication;
                publication.players += 1;
                publication.report_watched(&self.ctx);
                self.packets.update_watched(now, stream);
                let published = handed.published.clone().into();
                session.subscriptions = vec![Subscription { stream, viewer: None, tracks, published }];
                self.packets.insert(&mut self.ctx, session)
            }
        };
        self.packets.resume(&mut self.ctx, peer, &handed)?;
        tracing::info!(session = %handed.id, stream = key, ?role, "session goes on after an upgrade");
        Ok(())
    }
}
