//! What both lanes of a stream have on a worker: where it comes from and whom it goes to.
//!
//! The home of a publication is the worker of its publisher; a bridge publishes the other lane there. Other
//! workers with players subscribe by message and mirror what comes. What only one lane has (channels of
//! frames, viewers of packets) is in `frames/` and `packets/`; what takes both is in `publish.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use sfu::{LayersWanted, TrackIndex};

use crate::context::Context;
use crate::ids::{BridgeId, ConnId, FrameStreamId, PacketStreamId, PeerId, WorkerIndex};
use crate::mailbox::MessageBody;
use crate::registry::{Epoch, Lane, Origin, StreamId, Taken, WatchedBy};
use worker_api::auth::Denied;
use worker_api::overload::Overload;
use worker_api::{EndReason, Refused};

/// Where one lane of a stream comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) epoch: Epoch,
    pub(crate) origin: Origin,
}

/// Another worker that gets what is published here.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) worker: WorkerIndex,
    /// Frames to it were lost since the last one that it got.
    pub(crate) lost: bool,
    /// A header was among them, which does not come again by itself.
    pub(crate) lost_header: bool,
    /// Ends of tracks that were among them, the last of each track, which do not come again either.
    pub(crate) lost_ends: Vec<Arc<Frame>>,
    /// What it needs of tracks of packets that it does not need the main output of alone.
    pub(crate) layers: Vec<(TrackIndex, LayersWanted)>,
}

impl Remote {
    /// One that has had nothing yet.
    pub(crate) fn new(worker: WorkerIndex) -> Self {
        Self { worker, lost: false, lost_header: false, lost_ends: Vec::new(), layers: Vec::new() }
    }

    /// What it needs of a track of packets.
    #[inline]
    pub(crate) fn wants(&self, track: TrackIndex) -> LayersWanted {
        let wanted = self.layers.iter().find(|(known, _)| *known == track);
        wanted.map_or(LayersWanted::MAIN, |(_, wanted)| *wanted)
    }
}

/// What both lanes of a stream have on a worker: where it comes from and whom it goes to.
#[derive(Debug)]
pub(crate) struct Publication {
    lane: Lane,
    pub(crate) id: StreamId,
    /// `app/name`.
    pub(crate) key: Arc<str>,
    /// Length of the app in `key`.
    app_bytes: usize,
    pub(crate) source: Option<Source>,
    /// Workers that get everything, when the source is local.
    pub(crate) remotes: Vec<Remote>,
    /// Sessions that play it here.
    pub(crate) players: u32,
    /// The bridge that it goes to.
    pub(crate) bridge: Option<BridgeId>,
    /// When the present or last source began.
    pub(crate) live_since_ms: u64,
    ended_ms: u64,
    /// Another node or worker had the stream when a player came, or another node when the last source
    /// ended: it is on its way.
    pub(crate) is_elsewhere: bool,
    /// It begins because it is played, within this time.
    pub(crate) begins_within: Option<Duration>,
    /// Address of the newest of the present players, if one has it.
    pub(crate) asked_by: Option<IpAddr>,
    /// Players that do not keep an on-demand pull: recordings, pushes, and what cuts segments.
    pub(crate) unwatching: u32,
    /// What was reported of this.
    reported: (bool, Option<IpAddr>),
}

/// How long players wait for a stream that another node or worker publishes, also where they do not wait for
/// publishers.
pub(crate) const FETCH_WAIT: Duration = Duration::from_secs(3);

impl Publication {
    /// Without a source and without players.
    pub(crate) fn new(lane: Lane, id: StreamId, (app, name): (&str, &str)) -> Self {
        Self {
            lane,
            id,
            key: format!("{app}/{name}").into(),
            app_bytes: app.len(),
            source: None,
            remotes: Vec::new(),
            players: 0,
            bridge: None,
            live_since_ms: 0,
            ended_ms: 0,
            is_elsewhere: false,
            begins_within: None,
            asked_by: None,
            unwatching: 0,
            reported: (false, None),
        }
    }

    /// A source begins, here or on another worker.
    pub(crate) fn start(&mut self, source: Source, now_ms: u64) {
        self.source = Some(source);
        self.live_since_ms = now_ms;
    }

    /// Ends what `source` publishes, here or on another worker. False if there is a newer source already.
    pub(crate) fn end(&mut self, ctx: &mut Context, source: Source) -> bool {
        if self.source != Some(source) {
            return false;
        }
        (self.source, self.ended_ms) = (None, ctx.now_ms);
        if source.origin.is_publisher() {
            ctx.directory.release(&self.key, source.epoch);
        }
        // The link to its home was lost, or another node has taken the stream over.
        self.is_elsewhere = ctx.directory.is_elsewhere(&self.key);
        for remote in std::mem::take(&mut self.remotes) {
            ctx.send(remote.worker, (self.id, source.epoch, self.lane), MessageBody::End);
        }
        true
    }

    /// The last player has left (or none came): this lane of the stream need not come to this worker any
    /// more.
    pub(crate) fn unsubscribe(&self, ctx: &mut Context) {
        let home = ctx.directory.unsubscribe(&self.key, ctx.worker, self.lane);
        if let Some(home) = home.filter(|home| home.worker != ctx.worker) {
            ctx.send(home.worker, (self.id, home.epoch, self.lane), MessageBody::Unsubscribe);
        }
    }

    /// Reports whether players of this worker keep an on-demand pull of the stream, if that has changed,
    /// and who has come while there is none. Call it whenever players have come or left.
    pub(crate) fn report_watched(&mut self, ctx: &Context) {
        let is_watched = self.players > self.unwatching;
        let asked_by = if self.source.is_none() { self.asked_by } else { self.reported.1 };
        let watched = (is_watched, asked_by);
        if std::mem::replace(&mut self.reported, watched) != watched && ctx.directory.has_other_sources() {
            ctx.directory.set_watched(&self.key, ctx.worker, WatchedBy::Lane(self.lane), watched);
        }
    }

    /// Whether it is neither published nor played here.
    pub(crate) fn is_unused(&self) -> bool {
        self.players == 0 && !self.is_home()
    }

    /// Whether anybody plays it: here, on another worker, or through a bridge.
    pub(crate) fn is_watched(&self) -> bool {
        self.players > 0 || !self.remotes.is_empty() || self.bridge.is_some()
    }

    /// Whether a player that joined then has had no source for longer than `limit`; never without one.
    pub(crate) fn is_overdue(&self, joined_ms: u64, limit: Option<Duration>, now_ms: u64) -> bool {
        let waited_ms = now_ms.saturating_sub(self.ended_ms.max(joined_ms));
        let least = if self.is_elsewhere { FETCH_WAIT } else { Duration::ZERO };
        let limit = match self.begins_within {
            // A pull that was live and comes back is waited for like any publisher.
            Some(within) if self.ended_ms > joined_ms => limit.map(|limit| limit.max(within)),
            Some(within) => Some(within.max(least)),
            None => limit.map(|limit| limit.max(least)),
        };
        self.source.is_none() && limit.is_some_and(|limit| u128::from(waited_ms) > limit.as_millis())
    }

    /// App part of the key.
    pub(crate) fn app(&self) -> &str {
        &self.key[..self.app_bytes]
    }

    /// Stream part of the key.
    pub(crate) fn name(&self) -> &str {
        &self.key[self.app_bytes + 1..]
    }

    /// The connection of this worker that publishes it as frames.
    pub(crate) fn connection(&self) -> Option<ConnId> {
        match self.source?.origin {
            Origin::Connection(conn) => Some(conn),
            Origin::Peer(_) | Origin::Rtsp(_) | Origin::Node | Origin::Bridge | Origin::Worker => None,
        }
    }

    /// The WebRTC session of this worker that publishes it as packets.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        match self.source?.origin {
            Origin::Peer(peer) => Some(peer),
            Origin::Connection(_) | Origin::Rtsp(_) | Origin::Node | Origin::Bridge | Origin::Worker => None,
        }
    }

    /// Whether a client of this worker publishes it as packets.
    pub(crate) fn is_sent_by_client(&self) -> bool {
        self.source.is_some_and(|source| matches!(source.origin, Origin::Peer(_) | Origin::Rtsp(_)))
    }

    /// Whether it is published here, and not by a bridge.
    pub(crate) fn has_publisher(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_publisher())
    }

    /// Whether this worker is the home: a publisher or a bridge is here.
    pub(crate) fn is_home(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_local())
    }
}

/// One lane of a stream on this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneStream {
    /// Its frames.
    Frames(FrameStreamId),
    /// Its packets.
    Packets(PacketStreamId),
}

impl LaneStream {
    /// Which lane it is.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Self::Frames(_) => Lane::Frames,
            Self::Packets(_) => Lane::Packets,
        }
    }
}

/// What a publisher shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credential<'a> {
    /// A client's token, if it has one.
    Token(Option<&'a str>),
    /// It is a part of this server: the rules are for clients. It never takes a stream over, so that it
    /// cannot fight with a client about one.
    Own,
    /// It is this server's as well, and fetches the stream from another node.
    Fetch,
}

/// Why a publisher is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishRefusal {
    /// By the rules of authorisation.
    Denied(Denied),
    /// The stream has a publisher, here or elsewhere, and newcomers are refused.
    Taken(Taken),
    /// There is too much to do.
    Overloaded(Overload),
    /// The server is shutting down.
    Draining,
}

impl PublishRefusal {
    /// For the publisher and the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::Taken(Taken::Here) => "the stream is already being published",
            Self::Taken(Taken::Elsewhere) => "the stream is already being published on another node",
            Self::Overloaded(overload) => overload.reason(),
            Self::Draining => EndReason::Draining.text(),
        }
    }
}

/// Why a player is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlayRefusal {
    /// By the rules of authorisation.
    Denied(Denied),
    /// The stream has no publisher, and the application does not let players wait for one.
    NotFound,
    /// The stream is published as packets, and bridges are off.
    NotFrames,
    /// The format asked for has no place for it; the text says why.
    NotCarried(&'static str),
    /// There is too much to do.
    Overloaded(Overload),
    /// The server is shutting down.
    Draining,
}

impl PlayRefusal {
    /// For the player and the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::NotFound => "there is no such stream",
            Self::NotFrames => "the stream is published by WebRTC: play it by WHEP",
            Self::NotCarried(reason) => reason,
            Self::Overloaded(overload) => overload.reason(),
            Self::Draining => EndReason::Draining.text(),
        }
    }
}

/// For HTTP.
impl From<PlayRefusal> for Refused {
    fn from(refusal: PlayRefusal) -> Self {
        let status = match refusal {
            PlayRefusal::Denied(denied) => return denied.into(),
            PlayRefusal::NotFound => 404,
            PlayRefusal::NotFrames | PlayRefusal::NotCarried(_) => 406,
            PlayRefusal::Overloaded(_) | PlayRefusal::Draining => 503,
        };
        Self::new(status, refusal.reason())
    }
}
