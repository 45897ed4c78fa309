//! Which worker is the home of which stream, and which others have players of it.
//!
//! A stream is published either as frames (RTMP) or as packets (WebRTC), and players of each kind are listed
//! apart: a publisher tells those that can use what it sends, and a bridge on its worker serves the others.
//!
//! The one thing workers share, behind a lock, and therefore never touched for a frame of media: only when a
//! publisher or a bridge begins or ends, when a player comes (twice), when a worker's last one leaves, and
//! when headers say what the stream would be as packets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::{ConnId, PeerId, WorkerIndex};
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
    /// The other lane, by a bridge of this worker, which is the home.
    Bridge,
    /// Another worker, which is the home.
    Worker,
}

impl Origin {
    /// Whether a client publishes it here, and not a bridge.
    pub(crate) fn is_client(self) -> bool {
        matches!(self, Self::Connection(_) | Self::Peer(_))
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

/// The stream has a publisher already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken;

/// Which worker is the home of which stream, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    inner: Mutex<Inner>,
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
    /// What the present publisher sends, if it sends packets.
    tracks: Option<PublishedTracks>,
    /// What it would be as packets, if it sends frames.
    bridged: WebrtcAvailability,
    /// Workers with players, by lane.
    subscribers: [Vec<WorkerIndex>; 2],
}

impl Directory {
    /// `worker` has a publisher for stream `key`: of packets, which are `tracks`, or of frames without.
    pub(crate) fn claim(
        &self,
        key: &str,
        worker: WorkerIndex,
        take_over: bool,
        tracks: Option<PublishedTracks>,
    ) -> Result<Claim, Taken> {
        let mut inner = self.lock();
        if !take_over && inner.streams.get(key).is_some_and(|listing| listing.home.is_some()) {
            return Err(Taken);
        }
        inner.last_epoch += 1;
        let epoch = Epoch(inner.last_epoch);
        let listing = inner.listing(key);
        let replaced = listing.home.replace(Home { worker, epoch });
        let (lane, other) = match tracks {
            Some(_) => (Lane::Packets, Lane::Frames),
            None => (Lane::Frames, Lane::Packets),
        };
        (listing.tracks, listing.bridged) = (tracks, WebrtcAvailability::Unknown);
        let others = |lane: Lane| {
            listing.subscribers[lane as usize].iter().copied().filter(|&other| other != worker).collect()
        };
        let (subscribers, bridged) = (others(lane), others(other));
        Ok(Claim { id: listing.id, epoch, subscribers, bridged, replaced })
    }

    /// The publication has ended. A newer one of the stream stays.
    pub(crate) fn release(&self, key: &str, epoch: Epoch) {
        let mut inner = self.lock();
        if let Some(listing) = inner.streams.get_mut(key)
            && listing.home.is_some_and(|home| home.epoch == epoch)
        {
            (listing.home, listing.tracks, listing.bridged) = (None, None, WebrtcAvailability::Unknown);
        }
        inner.forget_unused(key);
    }

    /// `worker` has a first player of the stream in this lane; says where the stream comes from.
    pub(crate) fn subscribe(&self, key: &str, worker: WorkerIndex, lane: Lane) -> (StreamId, Option<Home>) {
        let mut inner = self.lock();
        let listing = inner.listing(key);
        let subscribers = &mut listing.subscribers[lane as usize];
        if !subscribers.contains(&worker) {
            subscribers.push(worker);
        }
        (listing.id, listing.home)
    }

    /// Whether a stream is published, and in which form.
    pub(crate) fn published(&self, key: &str) -> Published {
        let inner = self.lock();
        let Some(listing) = inner.streams.get(key).filter(|listing| listing.home.is_some()) else {
            return Published::Nobody;
        };
        match &listing.tracks {
            Some(tracks) => Published::Packets(Arc::clone(tracks)),
            None => Published::Frames(listing.bridged.clone()),
        }
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

    /// What the frames of this publication would be as packets.
    pub(crate) fn set_bridged(&self, key: &str, epoch: Epoch, bridged: WebrtcAvailability) {
        if let Some(listing) = self.lock().streams.get_mut(key)
            && listing.home.is_some_and(|home| home.epoch == epoch)
        {
            listing.bridged = bridged;
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
        inner.forget_unused(key);
        home
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
            let subscribers = [Vec::new(), Vec::new()];
            let listing =
                Listing { id, home: None, tracks: None, bridged: WebrtcAvailability::Unknown, subscribers };
            self.streams.insert(key.to_owned(), listing);
        }
        self.streams.get_mut(key).expect("it was there or has just been inserted")
    }

    fn forget_unused(&mut self, key: &str) {
        let unused =
            |listing: &Listing| listing.home.is_none() && listing.subscribers.iter().all(Vec::is_empty);
        if self.streams.get(key).is_some_and(unused) {
            self.streams.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_publisher_is_refused_or_takes_over() {
        let directory = Directory::default();
        let first = directory.claim("live/a", WorkerIndex(0), false, None).unwrap();
        assert_eq!(directory.claim("live/a", WorkerIndex(1), false, None), Err(Taken));
        let second = directory.claim("live/a", WorkerIndex(1), true, None).unwrap();
        assert_eq!(second.replaced, Some(Home { worker: WorkerIndex(0), epoch: first.epoch }));
        directory.release("live/a", first.epoch);
        assert_eq!(
            directory.claim("live/a", WorkerIndex(0), false, None),
            Err(Taken),
            "the late release is of the old one"
        );
        directory.release("live/a", second.epoch);
        assert!(directory.claim("live/a", WorkerIndex(0), false, None).is_ok());
    }

    #[test]
    fn publisher_learns_of_waiting_workers_and_players_of_the_home() {
        let directory = Directory::default();
        let (id, home) = directory.subscribe("live/a", WorkerIndex(2), Lane::Frames);
        assert_eq!(home, None);
        directory.subscribe("live/a", WorkerIndex(0), Lane::Frames);
        let claim = directory.claim("live/a", WorkerIndex(0), false, None).unwrap();
        assert_eq!((claim.id, claim.subscribers), (id, vec![WorkerIndex(2)]));
        assert_eq!(
            directory.subscribe("live/a", WorkerIndex(1), Lane::Frames).1,
            Some(Home { worker: WorkerIndex(0), epoch: claim.epoch })
        );
    }

    #[test]
    fn unused_streams_are_forgotten() {
        let directory = Directory::default();
        let claim = directory.claim("live/a", WorkerIndex(0), false, None).unwrap();
        directory.subscribe("live/a", WorkerIndex(0), Lane::Frames);
        directory.release("live/a", claim.epoch);
        directory.unsubscribe("live/a", WorkerIndex(0), Lane::Frames);
        assert!(directory.lock().streams.is_empty());
    }

    #[test]
    fn players_of_both_lanes_find_the_publisher_and_are_told_apart() {
        let directory = Directory::default();
        directory.subscribe("live/a", WorkerIndex(1), Lane::Frames);
        directory.subscribe("live/a", WorkerIndex(2), Lane::Packets);
        let claim = directory.claim("live/a", WorkerIndex(0), false, Some(Arc::from([]))).unwrap();
        assert_eq!((claim.subscribers, claim.bridged), (vec![WorkerIndex(2)], vec![WorkerIndex(1)]));
        assert_eq!(directory.published("live/a"), Published::Packets(Arc::from([])));
        let home = Some(Home { worker: WorkerIndex(0), epoch: claim.epoch });
        assert_eq!(directory.subscribe("live/a", WorkerIndex(3), Lane::Frames).1, home);
        assert_eq!(directory.subscribe("live/a", WorkerIndex(3), Lane::Packets).1, home);
        assert_eq!(directory.unsubscribe("live/a", WorkerIndex(3), Lane::Frames), home);
        directory.release("live/a", claim.epoch);
        assert_eq!(directory.published("live/a"), Published::Nobody);
    }

    #[test]
    fn what_frames_would_be_as_packets_is_forgotten_with_their_publisher() {
        let directory = Directory::default();
        let claim = directory.claim("live/a", WorkerIndex(0), false, None).unwrap();
        assert_eq!(directory.published("live/a"), Published::Frames(WebrtcAvailability::Unknown));
        let tracks = WebrtcAvailability::Tracks(Arc::from([]), None);
        directory.set_bridged("live/a", claim.epoch, tracks.clone());
        assert_eq!(directory.published("live/a"), Published::Frames(tracks.clone()));
        let second = directory.claim("live/a", WorkerIndex(1), true, None).unwrap();
        assert_eq!(directory.published("live/a"), Published::Frames(WebrtcAvailability::Unknown));
        directory.set_bridged("live/a", claim.epoch, tracks);
        assert_eq!(
            directory.published("live/a"),
            Published::Frames(WebrtcAvailability::Unknown),
            "of the one before"
        );
        directory.release("live/a", second.epoch);
    }
}
