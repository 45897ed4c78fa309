//! One stream: a player inside this process whose frames become segments.

use std::collections::HashMap;
use std::future;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cmaf::Segmenter;
use hls::{SegmentId, Window};
use media::Timestamp;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use worker_api::Refused;
use worker_api::segments::{
    NO_CODECS, SegmentsState, SegmentsUpdate, SegmentsView, TOO_MANY_STREAMS, UpdateSender, Want,
};
use worker_api::settings::SegmentsSettings;
use worker_api::snapshot::Protocol;
use worker_api::tap::{Tap, TapItem, TapRequest};
use worker_api::time::since_1970;
use worker_api::viewers::Viewers;
use worker_api::{HomeOf, WorkerHandles};

use crate::store::{Done, Store, StreamStore};
use crate::thread::OnCut;

/// How soon an update that found no room is sent again.
const RETRY: Duration = Duration::from_millis(20);
/// How often it is looked whether a stream that is over is published again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long the segments of a stream that is over can be requested.
const ENDED_FOR: Duration = Duration::from_secs(30);

/// What all streams have in common.
pub(crate) struct Shared {
    pub(crate) settings: SegmentsSettings,
    pub(crate) workers: WorkerHandles,
    pub(crate) home: Box<HomeOf>,
    pub(crate) updates: Vec<UpdateSender>,
    /// Where long windows are kept.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) known: Arc<Known>,
    pub(crate) cut: Option<Box<OnCut>>,
}

/// Streams that can be requested, whether they are published at present or not.
pub(crate) type Known = Mutex<HashMap<Arc<str>, watch::Sender<SegmentsUpdate>>>;

/// There is no room for what is wanted: requests are answered 503.
pub(crate) fn refuse(want: Want, key: &Arc<str>, shared: &Shared) {
    let state = SegmentsState::Over(TOO_MANY_STREAMS);
    let update = SegmentsUpdate { key: Arc::clone(key), state };
    match want {
        Want::Updates(worker) => {
            // If that finds no room either, requests are answered when they have waited for too long.
            let _ = shared.updates.get(worker).map(|worker| worker.send(update));
        }
        // Who asked may have gone.
        Want::Watch(reply) => drop(reply.send(watch::Sender::new(update).subscribe())),
        Want::Nothing(_) | Want::Recall(_) => {}
    }
}

/// A stream that is cut.
struct Cut {
    shared: Arc<Shared>,
    key: Arc<str>,
    /// Of all paths, as long as this is cut.
    tag: Arc<str>,
    viewers: Arc<Viewers>,
    segmenter: Segmenter,
    window: Window,
    /// What of the window is on disk.
    stored: Option<StreamStore>,
    /// Workers that want it, and whether each has the newest view.
    workers: Vec<(usize, bool)>,
    control: watch::Sender<SegmentsUpdate>,
    /// Since when nobody has wanted it.
    unwanted_since: Option<Instant>,
    has_published: bool,
}

/// Cuts a stream until nobody wants it any more, or it is over. `first` is what it begins with. Its key.
pub(crate) async fn run(
    shared: Arc<Shared>,
    key: Arc<str>,
    app_bytes: usize,
    first: Want,
    mut wants: Receiver<Want>,
    mut recalls: Receiver<SegmentId>,
) -> Arc<str> {
    let mut cut = Cut::new(Arc::clone(&shared), Arc::clone(&key));
    cut.want(first);
    let (app, name) = (key[..app_bytes].to_owned(), key[app_bytes + 1..].to_owned());
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let request = TapRequest { app, name, protocol: Protocol::Segments, address, detail: String::new() };
    let home = (shared.home)(&key).unwrap_or_default();
    match shared.workers.tap(home, request).await {
        Ok(Ok(mut tap)) => {
            tracing::info!(stream = %key, "cut into segments");
            let known = (Arc::clone(&key), cut.control.clone());
            shared.known.lock().unwrap_or_else(PoisonError::into_inner).insert(known.0, known.1);
            if let Some(on_cut) = &shared.cut {
                on_cut(&key[..app_bytes], &key[app_bytes + 1..], cut.control.subscribe());
            }
            cut.follow(&mut tap, &mut wants, &mut recalls).await;
        }
        Ok(Err(refusal)) => tracing::debug!(stream = %key, ?refusal, "not cut into segments"),
        Err(no_answer) => tracing::warn!(stream = %key, ?no_answer, "not cut into segments"),
    }
    wants.close();
    // Who has asked meanwhile gets an answer as well.
    while let Ok(want) = wants.try_recv() {
        cut.want(want);
    }
    cut.end(&mut recalls).await;
    key
}

impl Cut {
    fn new(shared: Arc<Shared>, key: Arc<str>) -> Self {
        let settings = &shared.settings;
        let of = |duration: Duration| Timestamp::from_millis(duration.as_millis() as i64);
        let (segment, by_default) = (of(settings.segment), cmaf::Settings::default());
        let segmenter = Segmenter::new(cmaf::Settings {
            part: of(settings.part),
            segment,
            segment_max: by_default.segment_max.max(segment),
            // Numbers of a stream that was cut before do not come again, and neither do its names.
            first_msn: since_1970().as_secs(),
            ..by_default
        });
        let window = Window::new(hls::Settings {
            segments: settings.window_segments,
            listed: of(settings.window),
            bytes: settings.window_bytes,
            stores: shared.store.is_some(),
            ..hls::Settings::default()
        });
        let stored = shared.store.as_ref().map(StreamStore::new);
        let control =
            watch::Sender::new(SegmentsUpdate { key: Arc::clone(&key), state: SegmentsState::Pending });
        Self {
            shared,
            key,
            tag: format!("{:x}", since_1970().as_millis()).into(),
            viewers: Arc::default(),
            segmenter,
            window,
            stored,
            workers: Vec::new(),
            control,
            unwanted_since: None,
            has_published: false,
        }
    }

    /// Takes what the stream brings, until it is over or nobody wants it any more.
    async fn follow(&mut self, tap: &mut Tap, wants: &mut Receiver<Want>, recalls: &mut Receiver<SegmentId>) {
        loop {
            let now = Instant::now();
            let is_wanted = !self.workers.is_empty() || self.control.receiver_count() > 0;
            self.unwanted_since = if is_wanted { None } else { self.unwanted_since.or(Some(now)) };
            let has_unsent = self.workers.iter().any(|(_, is_sent)| !is_sent);
            let linger = self.shared.settings.linger;
            let over_at =
                self.unwanted_since.filter(|_| !self.shared.settings.always).map(|since| since + linger);
            let due = if has_unsent { Some(now + RETRY) } else { None };
            let tidy_at = self.stored.as_ref().and_then(StreamStore::tidy_at);
            let due = due.into_iter().chain(over_at).chain(tidy_at).min().unwrap_or(now + linger);
            tokio::select! {
                item = tap.next() => {
                    let Ok(item) = item else { return };
                    self.take(item);
                    while let Some(item) = tap.try_next() {
                        self.take(item);
                    }
                    self.show();
                }
                want = wants.recv() => {
                    let Some(want) = want else { return };
                    self.want(want);
                }
                done = next_of_disk(&mut self.stored) => self.take_of_disk(done),
                Some(id) = recalls.recv() => self.recall(id),
                () = sleep_until(due) => {
                    if over_at.is_some_and(|at| at <= Instant::now()) {
                        return;
                    }
                    if self.tidy() {
                        self.publish_window();
                    }
                    self.send_views();
                }
            }
        }
    }

    fn take(&mut self, item: TapItem) {
        let frames = match item {
            TapItem::Start { frames, .. } => {
                self.has_published = true;
                frames
            }
            TapItem::Frame(frame) => vec![frame],
            TapItem::Gap { dropped, frames } => {
                tracing::debug!(stream = %self.key, dropped, "frames are missing in segments");
                frames
            }
            // Another publisher may come. Until then the playlist ends with the last frame of this one.
            TapItem::Stop => return self.segmenter.restart(),
        };
        let now = since_1970();
        // Those of the GOP cache came earlier: the newest has come now.
        let newest = frames.last().map(|frame| frame.dts);
        for frame in frames {
            let age = newest.map_or(0, |newest| (newest - frame.dts).millis());
            let came_at = now.saturating_sub(Duration::from_millis(u64::try_from(age).unwrap_or(0)));
            self.segmenter.push(came_at, frame.dts, &frame);
        }
    }

    /// Moves what was made into the window; if that has changed, all get the new view.
    fn show(&mut self) {
        let mut is_changed = false;
        while let Some(output) = self.segmenter.poll_output() {
            if let Some(target) = self.segmenter.target_duration() {
                self.window.set_target_duration(target);
            }
            self.window.push(output);
            is_changed = true;
        }
        let is_pending = || matches!(self.control.borrow().state, SegmentsState::Pending);
        if is_changed {
            self.tidy();
            self.publish_window();
        } else if !self.segmenter.has_tracks() && self.segmenter.refusals().next().is_some() && is_pending() {
            for (track, refusal) in self.segmenter.refusals() {
                tracing::warn!(stream = %self.key, ?track, %refusal, "nothing to cut into segments");
            }
            self.publish(SegmentsState::Refused(NO_CODECS));
        }
    }

    /// Has a segment read from disk; it comes with the next view.
    fn recall(&mut self, id: SegmentId) {
        if let Some(stored) = self.stored.as_mut().filter(|_| !self.window.has_recalled(id)) {
            stored.read(id);
        }
    }

    /// Takes in what the disk has done, and shows what was read.
    fn take_of_disk(&mut self, done: Done) {
        let Some(stored) = &mut self.stored else { return };
        let mut is_new = stored.take(done, &mut self.window);
        while let Some(done) = stored.try_next() {
            is_new |= stored.take(done, &mut self.window);
        }
        if is_new {
            self.publish_window();
        }
    }

    /// Whether something was dropped that was read from disk.
    fn tidy(&mut self) -> bool {
        self.stored.as_mut().is_some_and(|stored| stored.tidy(&mut self.window))
    }

    fn publish_window(&mut self) {
        let window = Arc::new(self.window.clone());
        let (tag, viewers) = (Arc::clone(&self.tag), Arc::clone(&self.viewers));
        self.publish(SegmentsState::Objects(SegmentsView { tag, window, viewers }));
    }

    fn publish(&mut self, state: SegmentsState) {
        self.control.send_replace(SegmentsUpdate { key: Arc::clone(&self.key), state });
        self.workers.iter_mut().for_each(|(_, is_sent)| *is_sent = false);
        self.send_views();
    }

    /// Sends the newest view to workers that do not have it.
    fn send_views(&mut self) {
        let update = self.control.borrow().clone();
        for (worker, is_sent) in self.workers.iter_mut().filter(|(_, is_sent)| !is_sent) {
            *is_sent = self.shared.updates.get(*worker).is_none_or(|worker| worker.send(update.clone()));
        }
    }

    fn want(&mut self, want: Want) {
        match want {
            Want::Updates(worker) => {
                self.workers.retain(|(known, _)| *known != worker);
                let is_pending = matches!(self.control.borrow().state, SegmentsState::Pending);
                self.workers.push((worker, is_pending));
                self.send_views();
            }
            Want::Nothing(worker) => self.workers.retain(|(known, _)| *known != worker),
            // Who asked may have gone.
            Want::Watch(reply) => drop(reply.send(self.control.subscribe())),
            Want::Recall(id) => self.recall(id),
        }
    }

    fn forget(&self) {
        let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        // The next publication may have its own there already.
        if known.get(&self.key).is_some_and(|known| known.same_channel(&self.control)) {
            known.remove(&self.key);
        }
    }

    /// The stream is over: what there is can be requested for a while, or until it is published again, and
    /// then nothing.
    async fn end(mut self, recalls: &mut Receiver<SegmentId>) {
        if self.has_published {
            self.segmenter.finish();
            self.show();
            tracing::info!(stream = %self.key, "no longer cut into segments");
            let until = Instant::now() + ENDED_FOR;
            while Instant::now() < until && (self.shared.home)(&self.key).is_none() {
                let look_again = Instant::now() + LOOK_AGAIN;
                tokio::select! {
                    done = next_of_disk(&mut self.stored) => self.take_of_disk(done),
                    Some(id) = recalls.recv() => self.recall(id),
                    () = sleep_until(look_again) => {
                        if self.tidy() {
                            self.publish_window();
                        }
                        self.send_views();
                    }
                }
            }
        }
        self.forget();
        self.publish(SegmentsState::Over(Refused::NO_STREAM));
        let until = Instant::now() + ENDED_FOR;
        while Instant::now() < until && self.workers.iter().any(|(_, is_sent)| !is_sent) {
            self.send_views();
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// What the disk does next; never, without one.
async fn next_of_disk(stored: &mut Option<StreamStore>) -> Done {
    match stored {
        Some(stored) => stored.next().await,
        None => future::pending().await,
    }
}
