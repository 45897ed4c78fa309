//! The task of one stream: takes what is new of it, and brings its folder in the store up to date.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hls::Object;
use media::TrackId;
use object_store::path::Path;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use worker_api::segments::{SegmentsState, SegmentsUpdate, SegmentsView};

use super::rendition::{Rendition, Waiting};
use super::{Message, Mirror};
use crate::status::{Cause, Failure};

/// Segments of a rendition that are sent before its playlist is written: after a while without the store
/// there are many, and players wait for the first.
const BEFORE_PLAYLIST_MAX: usize = 4;
/// Objects that are deleted at a time.
const DELETED_AT_ONCE: usize = 8;
/// When one is tried again that could not be deleted.
const DELETED_AGAIN: Duration = Duration::from_secs(30);
/// Objects that may wait to be deleted; the next start finds further ones.
const TO_DELETE_MAX: usize = 20_000;
/// How often the multivariant playlist is written for nothing but bit rates.
const RATES_EVERY: Duration = Duration::from_secs(10);
/// What of a stream that is over is not in the store by then is left to the next start.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3600);

/// One stream.
struct Stream<'a> {
    mirror: &'a Mirror,
    folder: &'a str,
    state: Mutex<State>,
    /// Something is new.
    news: Notify,
    /// Something is to be deleted.
    retired: Notify,
}

#[derive(Default)]
struct State {
    renditions: BTreeMap<TrackId, Rendition>,
    tag: Arc<str>,
    target_seconds: u32,
    /// The newest multivariant playlist, and those that it names.
    index: Option<(Bytes, Vec<TrackId>)>,
    written: Option<WrittenIndex>,
    is_ended: bool,
    /// Since when nothing new comes.
    over_since: Option<Instant>,
    /// Objects to be deleted, and when.
    to_delete: VecDeque<(Instant, Path)>,
    /// Playlists of an earlier process, which are replaced if the stream is published again.
    left: Vec<Path>,
    has_begun: bool,
}

struct WrittenIndex {
    text: Bytes,
    tracks: Vec<TrackId>,
    tag: Arc<str>,
    at: Instant,
    is_ended: bool,
}

/// Sends a stream until it is over and nothing of it is left to do. Its folder.
pub(super) async fn run(
    mirror: Arc<Mirror>,
    folder: String,
    mut messages: mpsc::Receiver<Message>,
) -> String {
    if let Err(Failure { why, .. }) = mirror.key(&folder, "index.m3u8") {
        tracing::warn!(folder, why, "its segments are not sent to the store");
        return folder;
    }
    let (news, retired) = (Notify::new(), Notify::new());
    let stream = Stream { mirror: &mirror, folder: &folder, state: Mutex::default(), news, retired };
    let mut views: Option<watch::Receiver<SegmentsUpdate>> = None;
    loop {
        let mut work = std::pin::pin!(stream.work());
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(Message::Run(new)) => {
                        stream.begin();
                        let mut new = new;
                        // Who cuts the stream does not wait for this: the view is not held.
                        let view = new.borrow_and_update().state.clone();
                        let is_over = stream.take(&view);
                        views = (!is_over).then_some(new);
                        if is_over {
                            stream.is_over();
                        }
                    }
                    Some(Message::Left { media, playlists }) => stream.take_left(media, playlists),
                    // The thread ends.
                    None => return folder.clone(),
                },
                changed = next(&mut views) => {
                    let is_over = match (changed, &mut views) {
                        (true, Some(views)) => {
                            let view = views.borrow_and_update().state.clone();
                            stream.take(&view)
                        }
                        _ => true,
                    };
                    if is_over {
                        views = None;
                        stream.is_over();
                    }
                }
                () = &mut work => break,
            }
        }
        // Nothing waits between these two: who comes later begins another task.
        if messages.is_empty() && views.is_none() {
            messages.close();
            return folder.clone();
        }
    }
}

/// Whether there is a new view, or none will come any more.
async fn next(views: &mut Option<watch::Receiver<SegmentsUpdate>>) -> bool {
    match views {
        Some(views) => views.changed().await.is_ok(),
        None => pending().await,
    }
}

impl Stream<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut state = self.state();
        (state.over_since, state.has_begun) = (None, true);
        // Playlists are written over.
        state.left.clear();
        state.to_delete.retain(|(_, key)| !is_playlist(key));
        // Media behind them waits no longer.
        self.retired.notify_one();
    }

    fn is_over(&self) {
        self.state().over_since.get_or_insert_with(Instant::now);
        self.news.notify_one();
    }

    fn take_left(&self, media: Vec<Path>, playlists: Vec<Path>) {
        let mut state = self.state();
        let at = Instant::now() + self.grace(&state);
        // With a clock that was set back, what is sent at present seems to be older than this process.
        let of_now: Vec<_> = state.renditions.values().map(|each| Arc::clone(each.tag())).collect();
        let is_of_now = |key: &Path| {
            let tag = key.as_ref().rsplit('/').nth(2);
            tag == Some(&*state.tag) || of_now.iter().any(|of_now| tag == Some(&**of_now))
        };
        let media: Vec<_> = media.into_iter().filter(|key| !is_of_now(key)).collect();
        state.to_delete.extend(media.into_iter().map(|key| (at, key)));
        if !state.has_begun {
            state.left = playlists;
            state.over_since.get_or_insert_with(Instant::now);
        }
        drop(state);
        self.retired.notify_one();
        self.news.notify_one();
    }

    /// Takes what a view has that is new, and whether that is all there will be.
    fn take(&self, view: &SegmentsState) -> bool {
        let SegmentsState::Objects(SegmentsView { tag, window, .. }) = view else { return false };
        let counts = self.mirror.counts();
        let mut state = self.state();
        let state = &mut *state;
        let Some(target) = window.target_duration() else { return false };
        (state.tag, state.target_seconds) = (Arc::clone(tag), target);
        let mut is_new = false;
        state.is_ended = window.is_ended();
        for id in window.renditions() {
            let rendition = match state.renditions.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    // One of an earlier run may have been about to go.
                    let playlist = self.mirror.key(self.folder, &Object::Playlist(id).to_string()).ok();
                    state.to_delete.retain(|(_, key)| Some(key) != playlist.as_ref());
                    self.retired.notify_one();
                    new.insert(Rendition::new(id))
                }
            };
            let before: usize = rendition.waiting().map(Waiting::bytes).sum();
            is_new |= rendition.take(tag, window);
            let after: usize = rendition.waiting().map(Waiting::bytes).sum();
            counts.waiting_bytes.fetch_add(after, Ordering::Relaxed);
            counts.waiting_bytes.fetch_sub(before, Ordering::Relaxed);
        }
        if !is_new {
            return false;
        }
        state.index = window.multivariant();
        // Who finds no room makes some: the oldest of its own go.
        while counts.waiting_bytes.load(Ordering::Relaxed) > self.mirror.settings.waiting_bytes {
            let waiting = state.renditions.values_mut().flat_map(Rendition::waiting_mut);
            let oldest =
                waiting.filter(|waiting| !waiting.is_gap()).min_by_key(|waiting| waiting.segment.msn);
            let Some(oldest) = oldest else { break };
            counts.waiting_bytes.fetch_sub(oldest.bytes(), Ordering::Relaxed);
            oldest.segment.content.clear();
        }
        self.news.notify_one();
        window.is_ended()
    }

    /// Time for which players may still ask for what a playlist has named (RFC 8216bis section 6.2.2).
    fn grace(&self, state: &State) -> Duration {
        self.listed(state) + 2 * Duration::from_secs(u64::from(state.target_seconds))
    }

    /// Time that playlists list: three target durations at least.
    fn listed(&self, state: &State) -> Duration {
        self.mirror.settings.listed.max(3 * Duration::from_secs(u64::from(state.target_seconds)))
    }

    /// Works until nothing is left to do and nothing will come.
    async fn work(&self) {
        // Segments do not wait for deletions, and however often one comes, deletions go on.
        tokio::select! {
            () = self.publish() => {}
            () = self.delete_media() => {}
        }
    }

    /// Brings the folder up to date, until nothing is left to do.
    async fn publish(&self) {
        loop {
            let news = self.news.notified();
            // What fails is tried again with what has come by then; the store is asked after a pause.
            let turn = self.turn().await;
            if self.state().over_since.is_some_and(|at| at.elapsed() > GIVEN_UP_AFTER) {
                return;
            }
            let Ok(did_something) = turn else { continue };
            if did_something {
                continue;
            }
            let Some(due) = self.next_due() else { return };
            match due {
                Some(at) => tokio::select! {
                    () = news => {}
                    () = sleep_until(at) => {}
                },
                None => news.await,
            }
        }
    }

    /// When something is to be done, if nothing comes: `None`, never.
    #[expect(clippy::option_option, reason = "never, when something comes, and at a time")]
    fn next_due(&self) -> Option<Option<Instant>> {
        let state = self.state();
        let deletes = self.mirror.settings.deletes;
        let has_all = !state.renditions.is_empty() || state.written.is_some() || !state.left.is_empty();
        let clean_at = state.over_since.filter(|_| deletes && has_all).map(|at| at + self.grace(&state));
        let deletion = state.to_delete.front().filter(|(_, key)| is_playlist(key)).map(|(at, _)| *at);
        let rates = state.written.as_ref().map(|written| written.at + RATES_EVERY);
        let rates = rates.filter(|_| state.over_since.is_none() && self.wants_index(&state));
        let due = [clean_at, deletion, rates].into_iter().flatten().min();
        let has_all_done = state.over_since.is_some() && state.to_delete.is_empty();
        if due.is_none() && has_all_done { None } else { Some(due) }
    }

    /// One round: segments, the playlists that name them, the playlist of these, and what can go. Whether
    /// there was anything to do.
    async fn turn(&self) -> Result<bool, Failure> {
        let mut did_something = false;
        self.leave_out_late();
        for _ in 0..BEFORE_PLAYLIST_MAX {
            let next: Vec<_> = {
                let state = self.state();
                let first = |(id, rendition): (&TrackId, &Rendition)| {
                    let waiting = rendition.waiting().next()?.clone();
                    let init = waiting.init.clone().filter(|_| rendition.lacks_init(&waiting));
                    Some((*id, waiting, init))
                };
                state.renditions.iter().filter_map(first).collect()
            };
            if next.is_empty() {
                break;
            }
            did_something = true;
            let sent = next.iter().map(|(id, waiting, init)| async {
                let sent = self.send(*id, waiting, init.clone()).await;
                self.done(*id, waiting, sent)
            });
            join_all(sent).await.into_iter().collect::<Result<(), _>>()?;
        }
        let playlists: Vec<_> = {
            let state = self.state();
            let renditions = state.renditions.iter();
            renditions.filter_map(|(id, each)| Some((*id, each.playlist(state.target_seconds)?))).collect()
        };
        did_something |= !playlists.is_empty();
        let written = playlists.into_iter().map(|(id, (extent, text))| async move {
            self.write(&Object::Playlist(id).to_string(), text).await?;
            if let Some(rendition) = self.state().renditions.get_mut(&id) {
                rendition.wrote(extent);
            }
            Ok(())
        });
        join_all(written).await.into_iter().collect::<Result<(), Failure>>()?;
        did_something |= self.write_index().await?;
        self.clean_up();
        did_something |= self.delete_playlist().await;
        Ok(did_something)
    }

    /// Leaves out what would have left the playlists by the time that it gets into them, and all that waits of
    /// a stream that has been over for as long: it would take the room of those that are live.
    fn leave_out_late(&self) {
        let mut state = self.state();
        let listed = self.listed(&state);
        let is_stale = state.over_since.is_some_and(|at| at.elapsed() > listed);
        let counts = self.mirror.counts();
        let mut names = Vec::new();
        for (id, rendition) in &mut state.renditions {
            while let Some(late) = rendition.take_late(listed, is_stale) {
                counts.waiting_bytes.fetch_sub(late.bytes(), Ordering::Relaxed);
                if late.segment.init.is_some() {
                    counts.left_out.fetch_add(1, Ordering::Relaxed);
                    // An attempt whose answer was lost may have brought it there all the same.
                    names.push(format!("{}{}", late.prefix, Object::Segment(*id, late.segment.msn)));
                }
            }
        }
        self.delete_later(&mut state, names);
    }

    /// Brings a segment, and its init segment where that is new, to the store. Whether it is there: it is not
    /// if there is nothing of it.
    async fn send(&self, id: TrackId, waiting: &Waiting, init: Option<Bytes>) -> Result<bool, Failure> {
        let name = |object| format!("{}{object}", waiting.prefix);
        if let (Some(init), Some(number)) = (init, waiting.segment.init) {
            let key = self.mirror.key(self.folder, &name(Object::Init(id, number)))?;
            self.mirror.ask(self.mirror.put(&key, init)).await?;
            if let Some(rendition) = self.state().renditions.get_mut(&id) {
                rendition.has_init(waiting);
            }
        }
        if waiting.is_gap() {
            return Ok(false);
        }
        let key = self.mirror.key(self.folder, &name(Object::Segment(id, waiting.segment.msn)))?;
        // Put together when its turn has come: while the store is away there are no copies.
        let put = async {
            let content = match &waiting.segment.content[..] {
                [one] => one.clone(),
                parts => parts.concat().into(),
            };
            self.mirror.put(&key, content).await
        };
        self.mirror.ask(put).await?;
        Ok(true)
    }

    /// Notes how sending went.
    fn done(&self, id: TrackId, waiting: &Waiting, sent: Result<bool, Failure>) -> Result<(), Failure> {
        let (is_there, is_ours) = match sent {
            Ok(is_there) => (is_there, true),
            Err(Failure { cause: Cause::Conflict, why }) => {
                tracing::warn!(folder = self.folder, why, "a segment is left out");
                (false, false)
            }
            Err(failure) => return Err(failure),
        };
        let mut state = self.state();
        let listed = self.listed(&state);
        let Some(rendition) = state.renditions.get_mut(&id) else { return Ok(()) };
        let bytes: usize = rendition.waiting().next().map_or(0, Waiting::bytes);
        let (count, is_needed) = (rendition.waiting().count(), waiting.segment.init.is_some());
        let mut retired = rendition.list(waiting, !is_there, listed);
        if !is_there && is_ours && is_needed {
            // An attempt whose answer was lost may have brought it there all the same.
            retired.push(format!("{}{}", waiting.prefix, Object::Segment(id, waiting.segment.msn)));
        }
        let counts = self.mirror.counts();
        if rendition.waiting().count() < count {
            counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if !is_there && is_needed {
                counts.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.delete_later(&mut state, retired);
        Ok(())
    }

    /// Has objects deleted that nobody needs, after the time for which players may ask for them.
    fn delete_later(&self, state: &mut State, names: Vec<String>) {
        if !self.mirror.settings.deletes {
            return;
        }
        let at = Instant::now() + self.grace(state);
        let keys = names.into_iter().filter_map(|name| self.mirror.key(self.folder, &name).ok());
        state.to_delete.extend(keys.map(|key| (at, key)));
        while state.to_delete.len() > TO_DELETE_MAX {
            state.to_delete.pop_front();
        }
        self.retired.notify_one();
    }

    async fn write(&self, name: &str, text: Bytes) -> Result<(), Failure> {
        let key = self.mirror.key(self.folder, name)?;
        self.mirror.ask(self.mirror.store.replace(&key, text)).await?;
        self.mirror.counts().playlists.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the multivariant playlist in the store is not as it should be, and what it names is there.
    fn wants_index(&self, state: &State) -> bool {
        let Some((text, tracks)) = &state.index else { return false };
        let is_there = |id| state.renditions.get(id).is_some_and(|each| each.is_written(&state.tag));
        let is_written = |written: &WrittenIndex| written.text == *text && written.tag == state.tag;
        tracks.iter().all(is_there) && !state.written.as_ref().is_some_and(is_written)
    }

    async fn write_index(&self) -> Result<bool, Failure> {
        let index = {
            let state = self.state();
            let is_due = |written: &WrittenIndex| {
                let tracks = state.index.as_ref().map(|(_, tracks)| tracks);
                written.tag != state.tag
                    || tracks != Some(&written.tracks)
                    || state.is_ended != written.is_ended
                    || written.at + RATES_EVERY <= Instant::now()
            };
            let wants = self.wants_index(&state) && state.written.as_ref().is_none_or(is_due);
            let (tag, is_ended) = (Arc::clone(&state.tag), state.is_ended);
            state.index.clone().filter(|_| wants).map(|(text, tracks)| WrittenIndex {
                text,
                tracks,
                tag,
                at: Instant::now(),
                is_ended,
            })
        };
        let Some(index) = index else { return Ok(false) };
        self.write(&Object::Multivariant.to_string(), index.text.clone()).await?;
        let mut state = self.state();
        // Renditions that only an earlier run had. The next may have begun while this was written.
        let is_newest = index.tag == state.tag;
        let is_gone = |rendition: &Rendition| is_newest && *rendition.tag() != index.tag;
        let gone: Vec<_> =
            state.renditions.iter().filter(|(_, each)| is_gone(each)).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(mut rendition) = state.renditions.remove(&id) else { continue };
            let waiting: usize = rendition.waiting().map(Waiting::bytes).sum();
            self.mirror.counts().waiting_bytes.fetch_sub(waiting, Ordering::Relaxed);
            let mut names = rendition.retire();
            names.push(Object::Playlist(id).to_string());
            self.delete_later(&mut state, names);
        }
        state.written = Some(index);
        Ok(true)
    }

    /// Has all of a stream deleted that has been over for long.
    fn clean_up(&self) {
        let mut state = self.state();
        let (now, grace) = (Instant::now(), self.grace(&state));
        let is_old = self.mirror.settings.deletes && state.over_since.is_some_and(|at| at + grace <= now);
        if !is_old || (state.renditions.is_empty() && state.left.is_empty()) {
            return;
        }
        let mut names: Vec<String> = vec![Object::Multivariant.to_string()];
        names.extend(state.renditions.keys().map(|id| Object::Playlist(*id).to_string()));
        names.extend(state.renditions.values_mut().flat_map(Rendition::retire));
        if state.renditions.is_empty() {
            names.clear();
        }
        (state.renditions, state.written, state.index) = (BTreeMap::new(), None, None);
        let keys = names.iter().filter_map(|name| self.mirror.key(self.folder, name).ok());
        let mut keys: Vec<Path> = keys.collect();
        keys.append(&mut state.left);
        // Before all else: what is not named is not asked for.
        keys.into_iter().rev().for_each(|key| state.to_delete.push_front((now, key)));
    }

    /// Deletes the playlist whose turn it is, that of the others first: what they name goes when they are
    /// gone. Whether there was one. One that is written again must not be deleted after that, so this and
    /// writing take turns.
    async fn delete_playlist(&self) -> bool {
        let first = self.state().to_delete.front().cloned();
        let Some((_, key)) = first.filter(|(at, key)| is_playlist(key) && *at <= Instant::now()) else {
            return false;
        };
        let is_gone = self.mirror.clean(self.mirror.store.delete(&key)).await.is_ok();
        self.deleted(&key, is_gone);
        self.retired.notify_one();
        true
    }

    /// Deletes segments whose time has come. Never ends.
    async fn delete_media(&self) {
        loop {
            let retired = self.retired.notified();
            let (due, next) = {
                let state = self.state();
                let now = Instant::now();
                let media = state.to_delete.iter().take_while(|(_, key)| !is_playlist(key));
                let due = media.take_while(|(at, _)| *at <= now).take(DELETED_AT_ONCE);
                let due: Vec<Path> = due.map(|(_, key)| key.clone()).collect();
                (due, state.to_delete.front().filter(|(_, key)| !is_playlist(key)).map(|(at, _)| *at))
            };
            if due.is_empty() {
                match next {
                    Some(at) => tokio::select! {
                        () = retired => {}
                        () = sleep_until(at) => {}
                    },
                    None => retired.await,
                }
                continue;
            }
            let requests = due.iter().map(|key| self.mirror.clean(self.mirror.store.delete(key)));
            let deleted = join_all(requests).await;
            for (key, deleted) in due.iter().zip(deleted) {
                self.deleted(key, deleted.is_ok());
            }
            self.news.notify_one();
        }
    }

    /// Notes how a deletion went.
    fn deleted(&self, key: &Path, is_gone: bool) {
        let mut state = self.state();
        let Some(at) = state.to_delete.iter().position(|(_, other)| other == key) else { return };
        state.to_delete.remove(at);
        if is_gone {
            self.mirror.counts().deleted.fetch_add(1, Ordering::Relaxed);
        } else if is_playlist(key) {
            state.to_delete.push_front((Instant::now() + DELETED_AGAIN, key.clone()));
        } else {
            state.to_delete.push_back((Instant::now() + DELETED_AGAIN, key.clone()));
        }
    }
}

fn is_playlist(key: &Path) -> bool {
    key.extension() == Some("m3u8")
}
