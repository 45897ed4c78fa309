//! One stream as a broadcast for one subscriber.
//!
//! Nothing runs for a stream until the subscriber asks for a track of it. Then the stream is
//! tapped, which is a session of its own for the worker, and what the tap brings goes into the
//! tracks, whether they are read or not: a group that has begun is there from its start for a
//! subscription that comes a round trip after the catalogue. `moq-net` sends what the connection
//! takes and forgets groups that are too old or too many, so nothing here waits for the subscriber.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use moq_net::{Error, broadcast, group, origin, track};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use worker_api::EndReason;
use worker_api::snapshot::Protocol;
use worker_api::tap::{Tap, TapItem, TapRefusal, TapRequest};

use crate::catalog::CATALOG_TRACK;
use crate::outgoing::{Outgoing, Unit};
use crate::shared::{Client, Shared, StreamKey};

/// How long a stream is tapped when nobody reads its tracks.
const LINGER: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody does.
const LOOK: Duration = Duration::from_secs(1);
/// How long a broadcast is not there before another takes its place, so that the one is not taken for
/// the other.
const RETRACTED_FOR: Duration = Duration::from_millis(500);
/// Priorities of tracks, higher first: as the publishers of browsers have them.
const CATALOG_PRIORITY: u8 = 100;
const AUDIO_PRIORITY: u8 = 80;
const VIDEO_PRIORITY: u8 = 60;
/// Tracks that are asked for before it is known which there are.
const ASKED_MAX: usize = 32;
/// Frames of a group; a longer group ends, and video goes on with the next key frame.
const GROUP_FRAMES_MAX: usize = 4_096;

/// A stream that a subscriber can ask for.
pub(crate) struct Broadcast {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Arc<Client>,
    pub(crate) key: StreamKey,
    /// What the subscriber is sent, and where in it.
    pub(crate) play: origin::Producer,
    pub(crate) path: String,
    /// When the right to play it ends.
    pub(crate) until: Option<Instant>,
}

/// The stream while it is tapped.
struct Playing {
    producer: broadcast::Producer,
    tap: Tap,
    outgoing: Outgoing,
    tracks: BTreeMap<String, Track>,
    catalog: Option<track::Producer>,
    /// A catalogue was written: what it does not name is not there.
    is_known: bool,
    /// Tracks that were asked for and are not there yet.
    asked: BTreeMap<String, track::Request>,
    used: Instant,
}

struct Track {
    producer: track::Producer,
    group: Option<Group>,
}

struct Group {
    producer: group::Producer,
    bytes: usize,
    frames: usize,
}

impl Broadcast {
    /// Announces it and serves it; an end is why the whole session is to end.
    pub(crate) async fn run(self) -> EndReason {
        let (until, has_end) = (self.until.unwrap_or_else(Instant::now), self.until.is_some());
        tokio::select! {
            reason = self.serve() => reason,
            () = sleep_until(until), if has_end => EndReason::TokenExpired,
        }
    }

    async fn serve(&self) -> EndReason {
        loop {
            // Not one that MoQ can carry: only others are served.
            let Ok(producer) = self.play.create_broadcast(&*self.path) else { return pending().await };
            let mut requests = producer.dynamic();
            if producer.announce(origin::Route::default()).is_err() {
                return EndReason::ClosedByPeer;
            }
            let mut playing = loop {
                let Ok(request) = requests.requested_track().await else { return EndReason::ClosedByPeer };
                match self.tap().await {
                    Ok(tap) => {
                        let mut playing = Playing::new(producer.clone(), tap);
                        playing.ask(self, request);
                        break playing;
                    }
                    Err(refusal) => {
                        tracing::debug!(stream = %self.key, ?refusal, "MoQ subscriber gets nothing");
                        request.reject(Error::NotFound);
                    }
                }
            };
            if let Some(reason) = playing.run(self, &mut requests).await {
                return reason;
            }
            // Tracks that have ended stay known by their names for a while, at both ends, and who asked
            // again would get what is left of them. Those of another broadcast are others.
            drop(playing);
            producer.close();
            sleep(RETRACTED_FOR).await;
        }
    }

    async fn tap(&self) -> Result<Tap, TapRefusal> {
        let request = TapRequest {
            app: self.key.app().to_owned(),
            name: self.key.name().to_owned(),
            protocol: Protocol::Moq,
            address: self.client.address,
            detail: self.client.agent.clone(),
        };
        let workers = &self.shared.workers;
        let worker = match (self.shared.home)(self.key.as_str()) {
            Some(home) => home,
            // A player may wait for a publisher, or have the stream fetched.
            None => workers.least_busy().await.map_err(|_| TapRefusal::Full)?,
        };
        workers.tap(worker, request).await.unwrap_or(Err(TapRefusal::Full))
    }
}

impl Playing {
    fn new(producer: broadcast::Producer, tap: Tap) -> Self {
        Self {
            producer,
            tap,
            outgoing: Outgoing::default(),
            tracks: BTreeMap::new(),
            catalog: None,
            is_known: false,
            asked: BTreeMap::new(),
            used: Instant::now(),
        }
    }

    /// Until nobody reads any more, or the stream is over; a reason ends the whole session.
    async fn run(&mut self, broadcast: &Broadcast, requests: &mut broadcast::Dynamic) -> Option<EndReason> {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                item = self.tap.next() => match item {
                    Ok(item) => self.take(broadcast, item),
                    Err(reason @ (EndReason::Kicked | EndReason::Draining)) => return Some(reason),
                    Err(reason) => {
                        let (stream, reason) = (&broadcast.key, reason.text());
                        tracing::debug!(%stream, reason, "MoQ subscriber's stream ended");
                        return None;
                    }
                },
                request = requests.requested_track() => match request {
                    Ok(request) => self.ask(broadcast, request),
                    Err(_) => return Some(EndReason::ClosedByPeer),
                },
                _ = look.tick() => {
                    let tracks = self.tracks.values().map(|track| &track.producer).chain(&self.catalog);
                    let is_used = tracks.into_iter().any(track::Producer::is_used) || !self.asked.is_empty();
                    if is_used {
                        self.used = Instant::now();
                    } else if self.used.elapsed() >= LINGER {
                        return None;
                    }
                }
            }
        }
    }

    /// A track is asked for that is not there.
    fn ask(&mut self, broadcast: &Broadcast, request: track::Request) {
        let name = request.name().to_owned();
        if name == CATALOG_TRACK {
            // Whoever waits for a publisher has subscribed.
            self.catalog = Some(request.accept(info(broadcast, &name)));
        } else if self.is_known && !self.outgoing.has(&name) || self.asked.len() >= ASKED_MAX {
            request.reject(Error::NotFound);
        } else {
            self.asked.insert(name, request);
        }
    }

    fn take(&mut self, broadcast: &Broadcast, item: TapItem) {
        match item {
            TapItem::Start { frames, .. } => {
                self.outgoing.begin_publication();
                self.frames(broadcast, &frames);
            }
            TapItem::Frame(frame) => self.frames(broadcast, &[frame]),
            TapItem::Gap { dropped, frames } => {
                tracing::debug!(stream = %broadcast.key, dropped, "frames left out on their way to MoQ");
                self.end_groups();
                self.frames(broadcast, &frames);
            }
            TapItem::Stop => self.end_groups(),
        }
    }

    /// Of video, what would come next needs what is missing.
    fn end_groups(&mut self) {
        for track in self.tracks.values_mut() {
            track.end_group();
        }
    }

    fn frames(&mut self, broadcast: &Broadcast, frames: &[Arc<Frame>]) {
        for frame in frames {
            let unit = self.outgoing.frame(frame);
            if let Some(unit) = unit {
                if !self.tracks.contains_key(unit.track)
                    && let Some(producer) = create(&mut self.asked, &self.producer, broadcast, unit.track)
                {
                    self.tracks.insert(unit.track.to_owned(), Track { producer, group: None });
                }
                if let Some(track) = self.tracks.get_mut(unit.track) {
                    track.write(unit, broadcast.shared.settings.group_bytes_max);
                }
            }
        }
        // After the tracks that it names.
        if let Some(catalog) = self.outgoing.changed_catalog() {
            let outgoing = &self.outgoing;
            self.tracks.retain(|name, _| outgoing.has(name));
            if self.catalog.is_none() {
                self.catalog = create(&mut self.asked, &self.producer, broadcast, CATALOG_TRACK);
            }
            if let Some(track) = &mut self.catalog {
                // It fails once the subscriber has gone.
                let _ = track.write_frame(moq_net::Timestamp::ZERO, catalog.to_json());
            }
            self.is_known = true;
            let unknown = self.asked.extract_if(.., |name, _| !outgoing.has(name));
            for (_, request) in unknown {
                request.reject(Error::NotFound);
            }
        }
    }
}

/// The track of this name, for whoever has asked for it and for whoever will.
fn create(
    asked: &mut BTreeMap<String, track::Request>,
    producer: &broadcast::Producer,
    broadcast: &Broadcast,
    name: &str,
) -> Option<track::Producer> {
    let info = info(broadcast, name);
    match asked.remove(name) {
        Some(request) => Some(request.accept(info)),
        None => producer.create_track(name, info).ok(),
    }
}

fn info(broadcast: &Broadcast, name: &str) -> track::Info {
    let priority = match name {
        CATALOG_TRACK => CATALOG_PRIORITY,
        name if name.starts_with("audio") => AUDIO_PRIORITY,
        _ => VIDEO_PRIORITY,
    };
    track::Info::default()
        .with_timescale(moq_net::Timescale::MICRO)
        .with_max_age(broadcast.shared.settings.age_max)
        .with_priority(priority)
}

impl Track {
    fn write(&mut self, unit: Unit<'_>, group_bytes_max: usize) {
        if unit.begins_group {
            self.end_group();
            let group = self.producer.append_group().ok();
            self.group = group.map(|producer| Group { producer, bytes: 0, frames: 0 });
        }
        let Some(group) = &mut self.group else { return };
        group.bytes += unit.payload.len();
        group.frames += 1;
        // What a subscriber that does not read makes the server hold.
        let is_full = group.frames > GROUP_FRAMES_MAX || (group.frames > 1 && group.bytes > group_bytes_max);
        let time = moq_net::Timestamp::from_micros(unit.time_us);
        let is_written =
            !is_full && time.is_ok_and(|time| group.producer.write_frame(time, unit.payload).is_ok());
        if !is_written || unit.ends_group {
            self.end_group();
        }
    }

    fn end_group(&mut self) {
        if let Some(group) = self.group.take() {
            // It fails once the subscriber has gone.
            let _ = group.producer.finish();
        }
    }
}

/// Says that nothing more comes.
impl Drop for Track {
    fn drop(&mut self) {
        self.end_group();
        let _ = self.producer.finish();
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let Some(catalog) = &self.catalog {
            let _ = catalog.finish();
        }
    }
}
