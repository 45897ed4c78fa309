//! Broadcasts of one client that are published here.
//!
//! A broadcast that is announced is checked as the stream of any other publisher: its name, the
//! right to it, and that nobody publishes it. Its session begins with a catalogue that has a track
//! to take in. A task reads each track; a worker that is slow holds them up, and `moq-net` forgets
//! what is too old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use moq_net::{PathOwned, broadcast, origin, track};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use worker_api::EndReason;
use worker_api::internal::{PublishRequest, Publisher, Refusal, Unsent};
use worker_api::moq::MoqStatus;
use worker_api::snapshot::Protocol;

use crate::catalog::{CATALOG_BYTES_MAX, CATALOG_TRACK, CatalogReader};
use crate::incoming::{Incoming, Selection};
use crate::shared::{Client, Shared, StreamKey, end_of};

/// Broadcasts that one client publishes at a time.
const BROADCASTS_MAX: usize = 4;
/// Time from one catalogue of a broadcast to the next: each is read whole, by the thread that all share.
const CATALOG_INTERVAL: Duration = Duration::from_millis(100);
/// Frames that wait to be handed to the worker, of all tracks.
const WAITING_MAX: usize = 64;
/// A stream that was just left may still have its publisher: it is asked for once more.
const TAKEN_AGAIN: Duration = Duration::from_millis(250);

/// Takes in what the client announces; an end is why its session is to end.
pub(crate) async fn receive(
    shared: &Arc<Shared>,
    client: &Arc<Client>,
    publish: &origin::Producer,
) -> EndReason {
    let consumer = publish.consume();
    let mut announced = consumer.announced();
    let mut stops: BTreeMap<PathOwned, oneshot::Sender<()>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            update = announced.next() => {
                let Some(update) = update else { return EndReason::ClosedByPeer };
                if !update.kind.is_active() {
                    stops.remove(&update.prefix);
                    continue;
                }
                if stops.contains_key(&update.prefix) {
                    continue;
                }
                stops.retain(|_, stop| !stop.is_closed());
                if stops.len() >= BROADCASTS_MAX {
                    return EndReason::Refused("a client publishes too many broadcasts");
                }
                let stream = client.stream_of(update.prefix.as_str());
                let key = match StreamKey::new(&shared.names, &stream) {
                    Ok(key) => key,
                    Err(error) => {
                        let (address, reason) = (client.address, error.reason());
                        tracing::info!(%address, reason, "MoQ publisher refused");
                        MoqStatus::count(&shared.status.refused);
                        return EndReason::Protocol(error.reason());
                    }
                };
                let until = match client.may_publish(shared, &key) {
                    Ok(permit) => end_of(permit),
                    Err(denied) => {
                        let (address, reason) = (client.address, denied.reason());
                        tracing::info!(%address, stream, reason, "MoQ publisher refused");
                        MoqStatus::count(&shared.status.refused);
                        return EndReason::Refused(reason);
                    }
                };
                let (stop, stopped) = oneshot::channel();
                let publication = Publication {
                    shared: Arc::clone(shared),
                    client: Arc::clone(client),
                    key,
                    until,
                };
                let (consumer, path) = (consumer.clone(), update.prefix.clone());
                tasks.spawn(async move { publication.run(&consumer, &path, stopped).await });
                stops.insert(update.prefix, stop);
            }
            Some(ended) = tasks.join_next() => {
                if let Ok(Some(reason)) = ended {
                    return reason;
                }
            }
        }
    }
}

/// A broadcast that becomes a stream.
struct Publication {
    shared: Arc<Shared>,
    client: Arc<Client>,
    key: StreamKey,
    /// When the right to publish it ends.
    until: Option<Instant>,
}

/// What a track has sent.
struct Unit {
    slot: usize,
    /// Which of the tracks that the slot has had.
    generation: u64,
    begins_group: bool,
    payload: Bytes,
}

/// Video or audio: what the catalogue says of it, and who reads it.
#[derive(Default)]
struct Slot {
    incoming: Option<Incoming>,
    reader: Option<AbortHandle>,
    generation: u64,
}

const VIDEO: usize = 0;
const AUDIO: usize = 1;

impl Publication {
    /// Until it is over; a reason ends the whole session.
    async fn run(
        self,
        consumer: &origin::Consumer,
        path: &PathOwned,
        mut stop: oneshot::Receiver<()>,
    ) -> Option<EndReason> {
        let broadcast = tokio::select! {
            broadcast = consumer.request_broadcast(path) => broadcast.ok()?,
            _ = &mut stop => return None,
        };
        let (catalogs, mut catalog) = mpsc::channel(1);
        let mut readers = JoinSet::new();
        readers.spawn(read_catalog(broadcast.clone(), catalogs));
        let selection = loop {
            tokio::select! {
                next = catalog.recv() => match next {
                    Some(selection) if selection == Selection::default() => {}
                    Some(selection) => break selection,
                    None => return None,
                },
                _ = &mut stop => return None,
            }
        };
        let mut publisher = match self.claim().await {
            Ok(publisher) => publisher,
            Err(reason) => {
                let (address, stream) = (self.client.address, &self.key);
                tracing::info!(%address, %stream, reason = reason.text(), "MoQ publisher refused");
                return Some(reason);
            }
        };
        let reason =
            self.publish(&broadcast, selection, &mut catalog, &mut publisher, &mut readers, stop).await;
        drop(readers);
        if reason.is_none() {
            publisher.finish().await;
        }
        reason
    }

    /// Begins the stream's session with the least busy worker.
    async fn claim(&self) -> Result<Publisher, EndReason> {
        match self.claim_once().await {
            Err(Refusal::Taken | Refusal::TakenElsewhere) => {
                sleep(TAKEN_AGAIN).await;
                self.claim_once().await
            }
            claimed => claimed,
        }
        .map_err(|refusal| match refusal {
            Refusal::Taken => EndReason::Refused("the stream is already being published"),
            Refusal::TakenElsewhere => {
                EndReason::Refused("the stream is already being published on another node")
            }
            Refusal::Full => EndReason::Refused("the worker has as many sessions as it may have"),
            Refusal::Draining => EndReason::Draining,
        })
    }

    async fn claim_once(&self) -> Result<Publisher, Refusal> {
        let request = PublishRequest {
            app: self.key.app().to_owned(),
            name: self.key.name().to_owned(),
            protocol: Protocol::Moq,
            address: self.client.address,
            detail: self.client.agent.clone(),
        };
        let workers = &self.shared.workers;
        let worker = workers.least_busy().await.map_err(|_| Refusal::Full)?;
        workers.publish(worker, request, self.shared.frame_bytes_max()).await.unwrap_or(Err(Refusal::Full))
    }

    /// Hands on what comes.
    async fn publish(
        &self,
        broadcast: &broadcast::Consumer,
        mut selection: Selection,
        catalog: &mut mpsc::Receiver<Selection>,
        publisher: &mut Publisher,
        readers: &mut JoinSet<()>,
        mut stop: oneshot::Receiver<()>,
    ) -> Option<EndReason> {
        let (units, mut unit) = mpsc::channel(WAITING_MAX);
        let mut slots = [Slot::default(), Slot::default()];
        let read =
            |slots: &mut [Slot; 2], readers: &mut JoinSet<()>, selection: &Selection, which: [bool; 2]| {
                let age = self.shared.settings.age_max;
                let video = selection.video.as_ref().map(|(name, entry)| (name, Incoming::video(entry)));
                let audio = selection.audio.as_ref().map(|(name, entry)| (name, Incoming::audio(entry)));
                for (slot, track) in [(VIDEO, video), (AUDIO, audio)] {
                    if !which[slot] {
                        continue;
                    }
                    let state = &mut slots[slot];
                    if let Some(reader) = state.reader.take() {
                        reader.abort();
                    }
                    state.generation += 1;
                    state.incoming = None;
                    let Some((name, Some(incoming))) = track else { continue };
                    let reader = Reader { slot, generation: state.generation, units: units.clone() };
                    state.reader = Some(readers.spawn(reader.run(broadcast.clone(), name.clone(), age)));
                    state.incoming = Some(incoming);
                }
            };
        read(&mut slots, readers, &selection, [true, true]);
        let mut catalog_is_open = true;
        loop {
            tokio::select! {
                _ = &mut stop => return None,
                reason = publisher.ended() => return Some(reason),
                _ = broadcast.closed() => return None,
                () = sleep_until(self.until.unwrap_or_else(Instant::now)), if self.until.is_some() => {
                    return Some(EndReason::TokenExpired);
                }
                next = catalog.recv(), if catalog_is_open => match next {
                    Some(next) => {
                        let which = [next.video != selection.video, next.audio != selection.audio];
                        let stays = [next.video.is_some(), next.audio.is_some()];
                        let gone = slots.iter().zip(stays).filter(|(_, stays)| !stays);
                        let ends = gone.filter_map(|(slot, _)| slot.incoming.as_ref()?.end());
                        let ends: Vec<_> = ends.collect();
                        read(&mut slots, readers, &next, which);
                        selection = next;
                        for end in ends {
                            if let Err(Unsent::Ended(reason)) = publisher.send(Arc::new(end)).await {
                                return Some(reason);
                            }
                        }
                        publisher.flush();
                    }
                    None => catalog_is_open = false,
                },
                Some(next) = unit.recv() => {
                    let state = &mut slots[next.slot];
                    let Some(incoming) = &mut state.incoming else { continue };
                    if next.generation != state.generation {
                        continue;
                    }
                    let Some(frames) = incoming.frames(&next.payload, next.begins_group) else {
                        MoqStatus::count(&self.shared.status.invalid);
                        continue;
                    };
                    for frame in frames {
                        match publisher.send(Arc::new(frame)).await {
                            Ok(()) => {}
                            Err(Unsent::TooLong) => {
                                publisher.count_invalid();
                                incoming.interrupt();
                            }
                            Err(Unsent::Ended(reason)) => return Some(reason),
                        }
                    }
                    publisher.flush();
                }
            }
        }
    }
}

/// Reads the catalogue to its end.
async fn read_catalog(broadcast: broadcast::Consumer, selections: mpsc::Sender<Selection>) {
    let subscription = track::Subscription::default().with_priority(u8::MAX);
    let Ok(track) = broadcast.track(CATALOG_TRACK) else { return };
    let Ok(track) = track.subscribe(subscription).await else { return };
    let mut groups = track.ordered();
    let mut reader = CatalogReader::default();
    while let Ok(Some(mut group)) = groups.next_group().await {
        reader.begin_group();
        // One that is lost is replaced by the next.
        while let Ok(Some(frame)) = group.read_frame().await {
            // Of what is read no more, nothing is kept.
            if frame.payload.len() > CATALOG_BYTES_MAX {
                return;
            }
            if let Some(catalog) = reader.frame(&frame.payload)
                && selections.send(Selection::of(catalog)).await.is_err()
            {
                return;
            }
            sleep(CATALOG_INTERVAL).await;
        }
    }
}

/// Reads one track.
struct Reader {
    slot: usize,
    generation: u64,
    units: mpsc::Sender<Unit>,
}

impl Reader {
    async fn run(self, broadcast: broadcast::Consumer, name: String, age: Duration) {
        let priority = if self.slot == AUDIO { 2 } else { 1 };
        let subscription = track::Subscription::default().with_priority(priority).with_max_age(age);
        let Ok(track) = broadcast.track(&name) else { return };
        let Ok(track) = track.subscribe(subscription).await else { return };
        let mut groups = track.ordered();
        while let Ok(Some(mut group)) = groups.next_group().await {
            // The rest of one that is too late, or cut, is skipped: the next group stands alone.
            loop {
                let begins_group = group.index() == 0;
                let Ok(Some(frame)) = group.read_frame().await else { break };
                let (slot, generation) = (self.slot, self.generation);
                let unit = Unit { slot, generation, begins_group, payload: frame.payload };
                if self.units.send(unit).await.is_err() {
                    return;
                }
            }
        }
    }
}
