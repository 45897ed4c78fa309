//! Which worker is the home of which stream, and which others have players of it.
//!
//! A stream is published either as frames (RTMP) or as packets (WebRTC), and players of each kind are listed
//! apart: a publisher tells those that can use what it sends, and a bridge on its worker serves the others.
//!
//! In a cluster, the registry also asks what other nodes publish, and reports what this one publishes and
//! what it wants from them ([`Elsewhere`]): each change once and in order, because the lock is held.
//!
//! The one thing workers share, behind a lock, and therefore never touched for a frame of media: only when a
//! publisher or a bridge begins or ends, when a player comes (twice), when a worker's last one leaves, and
//! when headers say what the stream would be as packets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ids::{ConnId, PeerId, TableId, WorkerIndex};
use media::Codec;
use tokio::sync::mpsc::WeakSender;
use tokio::sync::mpsc::error::TrySendError;
use worker_api::cluster::{self, Elsewhere, Watched};
use worker_api::publications::StreamNews;
pub(crate) use worker_api::streams::{Epoch, Published, PublishedTracks, StreamId, WebrtcAvailability};

/// Where a stream is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) worker: WorkerIndex,
    pub(crate) epoch: Epoch,
}

/// Where what a worker shows of one lane of a stream comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The connection of this worker that publishes it, as frames.
    Connection(ConnId),
    /// The WebRTC session of this worker that publishes it, as packets.
    Peer(PeerId),
    /// The connection of this worker that publishes it, as packets (RTSP).
    Rtsp(ConnId),
    /// Another node, as packets that come to this worker.
    Node,
    /// The other lane, by a bridge of this worker, which is the home.
    Bridge,
    /// Another worker, which is the home.
    Worker,
}

impl Origin {
    /// Whether it is published here, by a client or another node, and not by a bridge.
    pub(crate) fn is_publisher(self) -> bool {
        matches!(self, Self::Connection(_) | Self::Peer(_) | Self::Rtsp(_) | Self::Node)
    }

    /// Whether it is published here as packets, and not by a bridge.
    pub(crate) fn sends_packets(self) -> bool {
        matches!(self, Self::Peer(_) | Self::Rtsp(_) | Self::Node)
    }

    /// Whether this worker is the home.
    pub(crate) fn is_local(self) -> bool {
        self != Self::Worker
    }
}

/// Form in which a stream crosses from its home to other workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Coded frames: RTMP, FLV.
    Frames,
    /// RTP packets: WebRTC.
    Packets,
}

/// By what a worker's players watch a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchedBy {
    /// Players of a lane.
    Lane(Lane),
    /// Clients that ask for segments.
    Segments,
}

impl WatchedBy {
    /// How many there are.
    const COUNT: usize = 3;

    fn index(self) -> usize {
        match self {
            Self::Lane(lane) => lane as usize,
            Self::Segments => 2,
        }
    }
}

/// A publisher may begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: StreamId,
    pub(crate) epoch: Epoch,
    /// Other workers with players of the publisher's lane.
    pub(crate) subscribers: Vec<WorkerIndex>,
    /// Other workers with players of the other lane.
    pub(crate) bridged: Vec<WorkerIndex>,
    /// The publication this one replaces.
    pub(crate) replaced: Option<Home>,
}

/// Who wants to publish a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// A client, or a source of this server.
    Publisher {
        /// It replaces one that there is, here or on another node.
        takes_over: bool,
    },
    /// This node, which fetches the stream from another.
    Fetch,
}

/// The stream has a publisher already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// On this node.
    Here,
    /// On another.
    Elsewhere,
}

/// Which worker is the home of which stream, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    inner: Mutex<Inner>,
    /// The rest of the cluster, if there is one. Reports go to it with `inner` locked.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Where ends are sent, as long as workers run.
    news: Option<WeakSender<StreamNews>>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<String, Listing>,
    last_id: u64,
    last_epoch: u64,
}

#[derive(Debug)]
struct Listing {
    id: StreamId,
    home: Option<Home>,
    /// The home has the stream from another node.
    is_fetched: bool,
    /// The stream was reported as wanted from other nodes.
    is_wanted: bool,
    /// What the present publisher sends, if it sends packets.
    tracks: Option<PublishedTracks>,
    /// What it would be as packets, if it sends frames.
    bridged: WebrtcAvailability,
    /// Its bridge to packets goes on where one of another process was.
    is_bridge_resumed: bool,
    /// Codecs of the present publisher of frames.
    codecs: Vec<Codec>,
    /// Workers with players, by lane.
    subscribers: [Vec<WorkerIndex>; 2],
    /// Workers with players that keep an on-demand pull, by [`WatchedBy`].
    watching: [Vec<WorkerIndex>; WatchedBy::COUNT],
    /// Address of the first of these players.
    asked_by: Option<IpAddr>,
    /// What was reported last.
    watched: Watched,
}

impl Directory {
    /// None listed yet; with the rest of the cluster, if there is one.
    pub(crate) fn new(elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// Tells of publications that have ended.
    pub(crate) fn with_news(self, news: WeakSender<StreamNews>) -> Self {
        Self { news: Some(news), ..self }
    }

    /// `worker` has a publisher for stream `key`: of packets, which are `tracks`, or of frames without.
    ///
    /// It does not wait for the cluster: whoever claims a name on two nodes within the moment that news take
    /// is told by the cluster afterwards, and one of the two ends.
    pub(crate) fn claim(
        &self,
        key: &str,
        worker: WorkerIndex,
        claimant: Claimant,
        tracks: Option<PublishedTracks>,
    ) -> Result<Claim, Taken> {
        let may_replace = claimant == Claimant::Publisher { takes_over: true };
        if claimant == (Claimant::Publisher { takes_over: false }) && self.is_elsewhere(key) {
            return Err(Taken::Elsewhere);
        }
        let mut inner = self.lock();
        // What is fetched is in nobody's way: if a client may publish here, it is out of date.
        let is_taken = |listing: &Listing| listing.home.is_some() && !listing.is_fetched;
        if !may_replace && inner.streams.get(key).is_some_and(is_taken) {
            return Err(Taken::Here);
        }
        inner.last_epoch += 1;
        let epoch = Epoch(inner.last_epoch);
        let listing = inner.listing(key);
        let replaced = listing.home.replace(Home { worker, epoch });
        listing.is_fetched = claimant == Claimant::Fetch;
        let (lane, other) = match tracks {
            Some(_) => (Lane::Packets, Lane::Frames),
            None => (Lane::Frames, Lane::Packets),
        };
        listing.tracks = tracks;
        listing.forget_formats();
        self.report_want(key, listing);
        if let (Some(elsewhere), Claimant::Publisher { takes_over }) = (&self.elsewhere, claimant) {
            let (worker, published) = (worker.index(), &listing.published());
            elsewhere.started(&cluster::Publication { key, epoch, worker, published, takes_over });
        }
        let others = |lane: Lane| {
            listing.subscribers[lane as usize].iter().copied().filter(|&other| other != worker).collect()
        };
        let (subscribers, bridged) = (others(lane), others(other));
        Ok(Claim { id: listing.id, epoch, subscribers, bridged, replaced })
    }

    /// Where a stream is published as packets, and what they are; `None` if it is not.
    pub(crate) fn packets(&self, key: &str) -> Option<(StreamId, Home, PublishedTracks)> {
        let inner = self.lock();
        let listing = inner.streams.get(key)?;
        Some((listing.id, listing.home?, Arc::clone(listing.tracks.as_ref()?)))
    }

    /// The publication has ended. A newer one of the stream stays.
    pub(crate) fn release(&self, key: &str, epoch: Epoch) {
        let mut inner = self.lock();
        if let Some(listing) = inner.streams.get_mut(key)
            && listing.home.is_some_and(|home| home.epoch == epoch)
        {
            (listing.home, listing.tracks) = (None, None);
            listing.forget_formats();
            let was_fetched = std::mem::take(&mut listing.is_fetched);
            if let Some(elsewhere) = self.elsewhere.as_ref().filter(|_| !was_fetched) {
                elsewhere.ended(key, epoch);
            }
            self.report_want(key, listing);
            // Whoever looks it up waits for the lock, and then finds it gone.
            if let Some(news) = self.news.as_ref().and_then(WeakSender::upgrade)
                && let Err(TrySendError::Full(news)) = news.try_send(StreamNews::Ended(key.into()))
            {
                tracing::warn!(stream = %news.key(), "news of a stream found no room: too many at once");
            }
        }
        inner.forget_unused(key);
    }

    /// `worker` has a player of the stream in this lane; says where the stream comes from. `None` when it
    /// comes from nowhere here, and the player does not wait.
    pub(crate) fn subscribe(
        &self,
        key: &str,
        worker: WorkerIndex,
        lane: Lane,
        waits: bool,
    ) -> Option<(StreamId, Option<Home>)> {
        let mut inner = self.lock();
        if !waits && inner.streams.get(key).is_none_or(|listing| listing.home.is_none()) {
            return None;
        }
        let listing = inner.listing(key);
        let subscribers = &mut listing.subscribers[lane as usize];
        if !subscribers.contains(&worker) {
            subscribers.push(worker);
        }
        self.report_want(key, listing);
        Some((listing.id, listing.home))
    }

    /// Whether `worker` has players by `by` that keep an on-demand pull of the stream.
    /// `asked_by`: the newest of them, if its address is known.
    pub(crate) fn set_watched(
        &self,
        key: &str,
        worker: WorkerIndex,
        by: WatchedBy,
        (is_watched, asked_by): (bool, Option<IpAddr>),
    ) {
        let mut inner = self.lock();
        if !is_watched && !inner.streams.contains_key(key) {
            return;
        }
        let listing = inner.listing(key);
        if is_watched {
            listing.asked_by = asked_by.or(listing.asked_by);
        }
        let watching = &mut listing.watching[by.index()];
        watching.retain(|&other| other != worker);
        if is_watched {
            watching.push(worker);
        }
        self.report_watched(key, listing);
        inner.forget_unused(key);
    }

    /// How long a first player waits for a stream that nobody publishes, and that begins because it is
    /// played.
    pub(crate) fn begins_within(&self, key: &str) -> Option<Duration> {
        self.elsewhere.as_ref()?.begins_within(key)
    }

    /// Whether a stream is published, here or on another node, and in which form.
    pub(crate) fn published(&self, key: &str) -> Published {
        let here = {
            let inner = self.lock();
            let listing = inner.streams.get(key);
            listing.map(|listing| (listing.published(), listing.is_fetched))
        };
        match here {
            // While a fetched stream has only begun, its home knows more of it.
            None | Some((Published::Nobody, _) | (Published::Frames(WebrtcAvailability::Unknown), true)) => {
                let elsewhere = self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.published(key));
                elsewhere.or(here.map(|(here, _)| here)).unwrap_or(Published::Nobody)
            }
            Some((here, _)) => here,
        }
    }

    /// Codecs of what is published here, as far as they are known: of packets, all that may come.
    pub(crate) fn codecs(&self, key: &str) -> Vec<Codec> {
        let inner = self.lock();
        let Some(listing) = inner.streams.get(key).filter(|listing| listing.home.is_some()) else {
            return Vec::new();
        };
        match &listing.tracks {
            Some(tracks) => {
                tracks.iter().flat_map(|track| &track.formats).map(|format| format.codec).collect()
            }
            None => listing.codecs.clone(),
        }
    }

    /// Whether this node is one of a cluster.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.has_nodes())
    }

    /// Whether somebody else is asked for streams: other nodes, or on-demand pulls.
    pub(crate) fn has_other_sources(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Base URL of the node where an HTTP player of the stream is to go instead, if it is to go.
    pub(crate) fn redirect(&self, key: &str, is_full: bool) -> Option<String> {
        self.elsewhere.as_ref()?.redirect(key, is_full)
    }

    /// Whether another node publishes a stream.
    pub(crate) fn is_elsewhere(&self, key: &str) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.published(key).is_some())
    }

    /// Streams with players here that no client or source of this node publishes.
    pub(crate) fn wanted(&self) -> Vec<String> {
        let inner = self.lock();
        let wanted = inner.streams.iter().filter(|(_, listing)| listing.wants());
        wanted.map(|(key, _)| key.clone()).collect()
    }

    /// A bridge of this publication begins on its home: the number of what comes out of it, and other workers
    /// with players of that lane. `None` when the publication has been replaced.
    pub(crate) fn bridge(
        &self,
        key: &str,
        publication: Epoch,
        lane: Lane,
    ) -> Option<(Epoch, Vec<WorkerIndex>)> {
        let mut inner = self.lock();
        let listing = inner.streams.get(key)?;
        let home = listing.home.filter(|home| home.epoch == publication)?;
        let others = &listing.subscribers[lane as usize];
        let others = others.iter().copied().filter(|&other| other != home.worker).collect();
        inner.last_epoch += 1;
        Some((Epoch(inner.last_epoch), others))
    }

    /// The bridge to packets of this publication goes on where one of another process was.
    pub(crate) fn bridge_resumed(&self, key: &str, publication: Epoch) {
        let mut inner = self.lock();
        let listing = inner.streams.get_mut(key);
        let is_it = |home: Home| home.epoch == publication;
        if let Some(listing) = listing.filter(|listing| listing.home.is_some_and(is_it)) {
            listing.is_bridge_resumed = true;
        }
    }

    /// A bridge to packets has ended: another one begins from the first number.
    pub(crate) fn bridge_ended(&self, key: &str) {
        if let Some(listing) = self.lock().streams.get_mut(key) {
            listing.is_bridge_resumed = false;
        }
    }

    /// Whether the stream's bridge to packets goes on where one of another process was.
    pub(crate) fn is_bridge_resumed(&self, key: &str) -> bool {
        self.lock().streams.get(key).is_some_and(|listing| listing.is_bridge_resumed)
    }

    /// What the frames of this publication, of these codecs, would be as packets, on nodes that bridge them.
    pub(crate) fn set_formats(
        &self,
        key: &str,
        epoch: Epoch,
        bridged: WebrtcAvailability,
        codecs: Vec<Codec>,
    ) {
        let mut inner = self.lock();
        let listing = inner.streams.get_mut(key);
        let listing = listing.filter(|listing| listing.home.is_some_and(|home| home.epoch == epoch));
        let Some(listing) = listing else { return };
        let has_changed = listing.bridged != bridged;
        let has_other_codecs = listing.codecs != codecs;
        (listing.bridged, listing.codecs) = (bridged, codecs);
        if let Some(elsewhere) = self.elsewhere.as_ref().filter(|_| !listing.is_fetched) {
            if has_other_codecs {
                elsewhere.codecs(key, epoch, &listing.codecs);
            }
            if has_changed {
                elsewhere.changed(key, epoch, &Published::Frames(listing.bridged.clone()));
            }
        }
    }

    /// Where a stream is published.
    pub(crate) fn home(&self, key: &str) -> Option<(StreamId, Home)> {
        let inner = self.lock();
        let listing = inner.streams.get(key)?;
        Some((listing.id, listing.home?))
    }

    /// The last player of the stream in this lane on `worker` is gone; says where the stream came from.
    pub(crate) fn unsubscribe(&self, key: &str, worker: WorkerIndex, lane: Lane) -> Option<Home> {
        let mut inner = self.lock();
        let listing = inner.streams.get_mut(key)?;
        listing.subscribers[lane as usize].retain(|&other| other != worker);
        let home = listing.home;
        self.report_want(key, listing);
        inner.forget_unused(key);
        home
    }

    /// Reports whether the stream is wanted from other nodes, if that has changed.
    fn report_want(&self, key: &str, listing: &mut Listing) {
        let wants = listing.wants();
        if std::mem::replace(&mut listing.is_wanted, wants) != wants
            && let Some(elsewhere) = &self.elsewhere
        {
            if wants { elsewhere.wanted(key) } else { elsewhere.unwanted(key) }
        }
        self.report_watched(key, listing);
    }

    /// Reports whether the stream is watched and published, if that has changed.
    fn report_watched(&self, key: &str, listing: &mut Listing) {
        let watched = Watched {
            has_players: !listing.watching.iter().all(Vec::is_empty),
            is_published: listing.home.is_some(),
            asked_by: listing.asked_by,
        };
        if std::mem::replace(&mut listing.watched, watched) != watched
            && let Some(elsewhere) = &self.elsewhere
        {
            elsewhere.watched(key, watched);
        }
    }

    /// Streams that are listed.
    #[cfg(feature = "simulated")]
    pub(crate) fn len(&self) -> usize {
        self.lock().streams.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn listing(&mut self, key: &str) -> &mut Listing {
        if !self.streams.contains_key(key) {
            self.last_id += 1;
            let id = StreamId(self.last_id);
            let listing = Listing {
                id,
                home: None,
                is_fetched: false,
                is_wanted: false,
                tracks: None,
                bridged: WebrtcAvailability::Unknown,
                is_bridge_resumed: false,
                codecs: Vec::new(),
                subscribers: [Vec::new(), Vec::new()],
                watching: Default::default(),
                asked_by: None,
                watched: Watched::default(),
            };
            self.streams.insert(key.to_owned(), listing);
        }
        self.streams.get_mut(key).expect("it was there or has just been inserted")
    }

    fn forget_unused(&mut self, key: &str) {
        let is_watched = |listing: &Listing| !listing.watching.iter().all(Vec::is_empty);
        let unused =
            |listing: &Listing| listing.home.is_none() && !listing.has_players() && !is_watched(listing);
        if self.streams.get(key).is_some_and(unused) {
            self.streams.remove(key);
        }
    }
}

impl Listing {
    fn has_players(&self) -> bool {
        !self.subscribers.iter().all(Vec::is_empty)
    }

    /// Whether other nodes are to be asked for it.
    fn wants(&self) -> bool {
        self.has_players() && (self.home.is_none() || self.is_fetched)
    }

    /// What is known of the formats was about the publisher before.
    fn forget_formats(&mut self) {
        self.bridged = WebrtcAvailability::Unknown;
        self.is_bridge_resumed = false;
        self.codecs.clear();
    }

    fn published(&self) -> Published {
        match (&self.home, &self.tracks) {
            (None, _) => Published::Nobody,
            (_, Some(tracks)) => Published::Packets(Arc::clone(tracks)),
            (_, None) => Published::Frames(self.bridged.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Claimant = Claimant::Publisher { takes_over: false };
    const TAKES_OVER: Claimant = Claimant::Publisher { takes_over: true };

    /// Where the stream comes from for a player on a worker.
    fn home_for(directory: &Directory, worker: u32, lane: Lane) -> Option<Home> {
        directory.subscribe("live/a", WorkerIndex(worker), lane, true).and_then(|(_, home)| home)
    }

    #[test]
    fn second_publisher_is_refused_or_takes_over() {
        let directory = Directory::default();
        let first = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        assert_eq!(directory.claim("live/a", WorkerIndex(1), REFUSED, None), Err(Taken::Here));
        let second = directory.claim("live/a", WorkerIndex(1), TAKES_OVER, None).unwrap();
        assert_eq!(second.replaced, Some(Home { worker: WorkerIndex(0), epoch: first.epoch }));
        directory.release("live/a", first.epoch);
        assert_eq!(
            directory.claim("live/a", WorkerIndex(0), REFUSED, None),
            Err(Taken::Here),
            "the late release is of the old one"
        );
        directory.release("live/a", second.epoch);
        assert!(directory.claim("live/a", WorkerIndex(0), REFUSED, None).is_ok());
    }

    #[test]
    fn the_end_of_a_publication_is_told_once_nobody_has_replaced_it() {
        let (news, mut told) = tokio::sync::mpsc::channel(8);
        let directory = Directory::default().with_news(news.downgrade());
        let first = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        let second = directory.claim("live/a", WorkerIndex(1), TAKES_OVER, None).unwrap();
        directory.release("live/a", first.epoch);
        assert!(told.try_recv().is_err());
        directory.release("live/a", second.epoch);
        assert_eq!(told.try_recv(), Ok(StreamNews::Ended("live/a".into())));
        // When the workers end, so do the news.
        let third = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        drop(news);
        directory.release("live/a", third.epoch);
        assert_eq!(told.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected));
    }

    #[test]
    fn publisher_learns_of_waiting_workers_and_players_of_the_home() {
        let directory = Directory::default();
        let (id, home) = directory.subscribe("live/a", WorkerIndex(2), Lane::Frames, true).unwrap();
        assert_eq!(home, None);
        directory.subscribe("live/a", WorkerIndex(0), Lane::Frames, true);
        let claim = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        assert_eq!((claim.id, claim.subscribers), (id, vec![WorkerIndex(2)]));
        assert_eq!(
            home_for(&directory, 1, Lane::Frames),
            Some(Home { worker: WorkerIndex(0), epoch: claim.epoch })
        );
    }

    #[test]
    fn unused_streams_are_forgotten() {
        let directory = Directory::default();
        let claim = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        directory.subscribe("live/a", WorkerIndex(0), Lane::Frames, true);
        directory.release("live/a", claim.epoch);
        directory.unsubscribe("live/a", WorkerIndex(0), Lane::Frames);
        assert!(directory.lock().streams.is_empty());
    }

    #[test]
    fn players_of_both_lanes_find_the_publisher_and_are_told_apart() {
        let directory = Directory::default();
        directory.subscribe("live/a", WorkerIndex(1), Lane::Frames, true);
        directory.subscribe("live/a", WorkerIndex(2), Lane::Packets, true);
        let claim = directory.claim("live/a", WorkerIndex(0), REFUSED, Some(Arc::from([]))).unwrap();
        assert_eq!((claim.subscribers, claim.bridged), (vec![WorkerIndex(2)], vec![WorkerIndex(1)]));
        assert_eq!(directory.published("live/a"), Published::Packets(Arc::from([])));
        let home = Some(Home { worker: WorkerIndex(0), epoch: claim.epoch });
        assert_eq!(home_for(&directory, 3, Lane::Frames), home);
        assert_eq!(home_for(&directory, 3, Lane::Packets), home);
        assert_eq!(directory.unsubscribe("live/a", WorkerIndex(3), Lane::Frames), home);
        directory.release("live/a", claim.epoch);
        assert_eq!(directory.published("live/a"), Published::Nobody);
    }

    #[test]
    fn what_frames_would_be_as_packets_is_forgotten_with_their_publisher() {
        let directory = Directory::default();
        let claim = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        assert_eq!(directory.published("live/a"), Published::Frames(WebrtcAvailability::Unknown));
        let tracks = WebrtcAvailability::Tracks(Arc::from([]), None);
        directory.set_formats("live/a", claim.epoch, tracks.clone(), Vec::new());
        assert_eq!(directory.published("live/a"), Published::Frames(tracks.clone()));
        let second = directory.claim("live/a", WorkerIndex(1), TAKES_OVER, None).unwrap();
        assert_eq!(directory.published("live/a"), Published::Frames(WebrtcAvailability::Unknown));
        directory.set_formats("live/a", claim.epoch, tracks, Vec::new());
        assert_eq!(
            directory.published("live/a"),
            Published::Frames(WebrtcAvailability::Unknown),
            "of the one before"
        );
        directory.release("live/a", second.epoch);
    }

    #[test]
    fn a_stream_of_another_node_takes_nobodys_place_and_gives_way_to_a_client() {
        let directory = Directory::default();
        let fetch =
            || directory.claim("live/a", WorkerIndex(0), Claimant::Fetch, Some(PublishedTracks::from([])));
        let first = directory.claim("live/a", WorkerIndex(1), REFUSED, None).unwrap();
        assert_eq!(fetch(), Err(Taken::Here));
        assert_eq!(directory.packets("live/a"), None);
        directory.release("live/a", first.epoch);
        let fetched = fetch().unwrap();
        let home = Home { worker: WorkerIndex(0), epoch: fetched.epoch };
        assert_eq!(directory.packets("live/a"), Some((fetched.id, home, Arc::from([]))));
        let fetched_again = fetch().unwrap();
        assert_eq!(fetched_again.replaced, Some(home), "the next publication of the other node");
        let client = directory.claim("live/a", WorkerIndex(1), REFUSED, None).unwrap();
        assert_eq!(client.replaced, Some(Home { worker: WorkerIndex(0), epoch: fetched_again.epoch }));
        assert_eq!(
            directory.claim("live/a", WorkerIndex(0), REFUSED, None),
            Err(Taken::Here),
            "it is a client's now"
        );
        directory.release("live/a", fetched.epoch);
        assert!(directory.home("live/a").is_some());
    }

    /// What is reported of streams that are watched, newest last.
    #[derive(Debug, Default)]
    struct Reported(Mutex<Vec<Watched>>);

    impl Elsewhere for Reported {
        fn published(&self, _key: &str) -> Option<Published> {
            None
        }

        fn redirect(&self, _key: &str, _is_full: bool) -> Option<String> {
            None
        }

        fn wanted(&self, _key: &str) {}

        fn unwanted(&self, _key: &str) {}

        fn started(&self, _publication: &cluster::Publication<'_>) {}

        fn changed(&self, _key: &str, _epoch: Epoch, _published: &Published) {}

        fn ended(&self, _key: &str, _epoch: Epoch) {}

        fn watched(&self, _key: &str, watched: Watched) {
            self.0.lock().expect("no panic").push(watched);
        }
    }

    #[test]
    fn who_watches_is_reported_for_all_workers_and_while_it_is_published() {
        let reported = Arc::new(Reported::default());
        let directory = Directory::new(Some(Arc::clone(&reported) as _));
        let by = [WatchedBy::Lane(Lane::Frames), WatchedBy::Lane(Lane::Packets), WatchedBy::Segments];
        for (worker, by) in by.into_iter().enumerate() {
            let asked_by = Some(IpAddr::from([10, 0, 0, worker as u8]));
            directory.set_watched("live/a", WorkerIndex::at(worker), by, (true, asked_by));
        }
        let claim = directory.claim("live/a", WorkerIndex(0), REFUSED, None).unwrap();
        for (worker, by) in by.into_iter().enumerate() {
            directory.set_watched("live/a", WorkerIndex::at(worker), by, (false, None));
        }
        directory.release("live/a", claim.epoch);
        directory.set_watched("live/b", WorkerIndex(0), by[0], (false, None));
        // Each who has come, while it is waited for.
        let report = |has_players, is_published, worker| {
            let asked_by = Some(IpAddr::from([10, 0, 0, worker]));
            Watched { has_players, is_published, asked_by }
        };
        assert_eq!(
            *reported.0.lock().expect("no panic"),
            [
                report(true, false, 0),
                report(true, false, 1),
                report(true, false, 2),
                report(true, true, 2),
                report(false, true, 2),
                report(false, false, 2)
            ]
        );
        assert!(directory.lock().streams.is_empty());
    }
}
