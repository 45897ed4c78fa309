//! The life of one push: connect, send what the stream brings, and connect again when that ends, for as
//! long as the stream is published.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use media::{Frame, FrameRole, MediaKind, TrackId};
use sources::backoff::{Backoff, random};
use sources::pull::{SRT_EVERY, Status};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use worker_api::EndReason;
use worker_api::snapshot::Protocol;
use worker_api::tap::{Tap, TapItem, TapRefusal, TapRequest};

use crate::common::{Common, PushSettings};
use crate::failure::{Failure, NotSent};
use crate::queue::Queue;
use crate::spec::{PushSpec, TargetUrl};
use crate::target::Target;
use crate::times::Times;

/// Time of the frames that a receiver without an own clock gets at once when a stream begins; of a longer
/// group of pictures it gets none.
const CATCH_UP: Duration = Duration::from_secs(1);
/// A track that has not begun so long after the first one is not waited for.
const SETTLING: Duration = Duration::from_millis(500);
/// What a target has to take within the stall timeout when more waits for it.
const PROGRESS_BYTES: u64 = 16 << 10;

/// One stream on its way to one target.
#[derive(Debug)]
pub struct Push {
    /// Application.
    pub app: String,
    /// Stream.
    pub name: String,
    /// Where it goes, without what may be secret.
    pub url: String,
    status: Mutex<PushStatus>,
}

/// How it is doing.
#[derive(Debug, Clone, Default)]
pub struct PushStatus {
    /// State, failures and bytes.
    pub link: Status,
    /// Frames handed to the target.
    pub frames: u64,
    /// Frames of audio and video left out, since the target was too slow or did not take them.
    pub left_out: u64,
    /// What the target cannot carry, while other tracks go on.
    pub not_carried: Option<String>,
}

impl Push {
    pub(crate) fn new(spec: &PushSpec, app: &str, name: &str) -> Self {
        let url = spec.shown_for(app, name);
        Self { app: app.to_owned(), name: name.to_owned(), url, status: Mutex::default() }
    }

    /// How it is doing.
    pub fn status(&self) -> PushStatus {
        self.locked().clone()
    }

    /// `app/name`.
    pub fn stream(&self) -> String {
        format!("{}/{}", self.app, self.name)
    }

    fn change(&self, change: impl FnOnce(&mut PushStatus)) {
        change(&mut self.locked());
    }

    /// How its SRT connection is, for the API and metrics.
    fn note_srt(&self, target: &Target) {
        if let Some(link) = target.srt() {
            self.change(|status| status.link.srt = Some(link));
        }
    }

    fn locked(&self) -> MutexGuard<'_, PushStatus> {
        // Plain values: they are right even if somebody panicked between two of them.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an attempt ended.
enum End {
    /// The stream has, or nobody wants the push any more.
    Over,
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Pushes a stream until it is over or `stop` comes.
pub(crate) async fn run(
    common: Arc<Common>,
    spec: Arc<PushSpec>,
    push: Arc<Push>,
    mut stop: oneshot::Receiver<()>,
) {
    let stream = push.stream();
    let url = match spec.target(&push.app, &push.name) {
        Ok(url) => url,
        // A name that makes no valid URL of the template.
        Err(reason) => {
            tracing::warn!(stream, reason, "not pushed");
            return;
        }
    };
    let settings = common.settings.load();
    let mut backoff = Backoff::new(settings.sources.retry_min, settings.sources.retry_max);
    while (common.home)(&stream).is_some() {
        push.change(|status| status.link.connecting());
        let mut live_since = None;
        let attempt = Attempt {
            common: &common,
            // Those in effect now: a target that fails again and again gets the new ones.
            settings: &common.settings.load(),
            spec: &spec,
            push: &push,
            live_since: &mut live_since,
        };
        let failure = match attempt.run(&url, &mut stop).await {
            End::Over => break,
            End::Failed(failure) => failure,
        };
        let live = live_since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
        let least = if failure.is_lasting { settings.sources.retry_max } else { Duration::ZERO };
        let pause = backoff.pause(live, random()).max(least);
        let reason = spec.hide(&push.app, &push.name, &failure.reason);
        tracing::warn!(
            stream,
            url = push.url,
            reason,
            failures = backoff.failures(),
            pause_ms = pause.as_millis() as u64,
            "push failed"
        );
        push.change(|status| status.link.failed(reason, pause));
        tokio::select! {
            () = sleep(pause) => {}
            _ = &mut stop => break,
        }
    }
    let status = push.status();
    tracing::info!(
        stream,
        url = push.url,
        bytes = status.link.bytes,
        left_out = status.left_out,
        "push ended"
    );
}

/// One connection to the target.
struct Attempt<'a> {
    common: &'a Common,
    settings: &'a PushSettings,
    spec: &'a PushSpec,
    push: &'a Push,
    live_since: &'a mut Option<Instant>,
}

impl Attempt<'_> {
    async fn run(self, url: &TargetUrl, stop: &mut oneshot::Receiver<()>) -> End {
        let Self { common, settings, spec, .. } = &self;
        let is_pushed = |stream: &str| spec.stream.matches(stream);
        // Before the target is reached, so that the begin of a stream waits for it.
        let mut tap = match self.tap().await {
            Ok(tap) => tap,
            Err(end) => return end,
        };
        let mut queue = Queue::new(settings.queue);
        if url.needs_tracks()
            && let Err(end) = wait_for_tracks(&mut tap, &mut queue, stop).await
        {
            return end;
        }
        let (sources, begin) = (&settings.sources, queue.frames());
        let opened = tokio::select! {
            opened = Target::open(url, sources, &common.own_ports, is_pushed, &begin) => opened,
            _ = &mut *stop => return End::Over,
        };
        drop(begin);
        let mut target = match opened {
            Ok(target) => target,
            Err(failure) => return End::Failed(failure),
        };
        if let Some(peer) = target.peer() {
            tracing::debug!(stream = self.push.stream(), %peer, "the target has accepted");
        }
        let push = self.push;
        let end = self.relay(&mut target, &mut tap, queue, stop).await;
        push.note_srt(&target);
        drop(tap);
        if matches!(end, End::Over) {
            target.finish().await;
        }
        end
    }

    /// Becomes a player of the stream.
    async fn tap(&self) -> Result<Tap, End> {
        let Self { common, push, .. } = self;
        let request = TapRequest {
            app: push.app.clone(),
            name: push.name.clone(),
            protocol: Protocol::Push,
            // The target has none before it is reached.
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            detail: push.url.clone(),
        };
        let Some(home) = (common.home)(&push.stream()) else { return Err(End::Over) };
        match common.workers.tap(home, request).await {
            Ok(Ok(tap)) => Ok(tap),
            Ok(Err(TapRefusal::NotFound | TapRefusal::Draining)) => Err(End::Over),
            Ok(Err(TapRefusal::NotFrames)) => Err(Failure::lasting(
                "the stream is published by WebRTC, and bridges are off for this application",
            )
            .into()),
            Ok(Err(TapRefusal::Full)) => Err(Failure::new("the server has no room for the session").into()),
            Err(_) => Err(Failure::new("the worker does not answer").into()),
        }
    }

    /// Sends what comes; returns when it ends.
    async fn relay(
        self,
        target: &mut Target,
        tap: &mut Tap,
        mut queue: Queue,
        stop: &mut oneshot::Receiver<()>,
    ) -> End {
        let Self { settings, push, live_since, .. } = self;
        let mut carried = Carried::default();
        let mut times = Times::new(Instant::now());
        let mut progress = Progress::new(Instant::now());
        let mut is_over = false;
        let mut srt_due = interval(SRT_EVERY);
        srt_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let left_out_before = push.status().left_out;
        push.change(|status| status.not_carried = None);
        loop {
            while target.has_room() {
                let Some(frame) = queue.pop() else { break };
                let frame = times.place(Instant::now(), frame);
                let sent = target.send(&frame);
                if let Err(failure) = carried.note(Instant::now(), &frame, sent, queue.has_video()) {
                    return End::Failed(failure);
                }
                let is_live = frame.track.kind != MediaKind::Data && carried.audio_alone.is_none();
                if live_since.is_none() && is_live {
                    *live_since = Some(Instant::now());
                    tracing::info!(stream = push.stream(), url = push.url, "push is live");
                    push.change(|status| status.link.live());
                }
                push.change(|status| status.frames += 1);
            }
            if let Err(failure) = carried.settle(Instant::now(), queue.has_video()) {
                return End::Failed(failure);
            }
            if let Some(reason) = carried.news.take() {
                tracing::warn!(
                    stream = push.stream(),
                    url = push.url,
                    reason,
                    "not all of the stream is pushed"
                );
                push.change(|status| status.not_carried = Some(reason));
            }
            let left_out = left_out_before + queue.left_out() + carried.left_out;
            push.change(|status| status.left_out = left_out);
            if is_over && queue.is_empty() {
                return End::Over;
            }
            if target.take_key_frame_request() {
                tap.request_key_frame();
            }
            let is_blocked = target.is_blocked();
            if !is_blocked {
                progress = Progress::new(Instant::now());
            }
            tokio::select! {
                _ = &mut *stop => return End::Over,
                item = tap.next(), if !is_over => match next_item(item) {
                    Ok(Some(item)) => take(&mut queue, item, target.begins_live()),
                    Ok(None) => is_over = true,
                    Err(failure) => return End::Failed(failure),
                },
                moved = target.drive() => match moved {
                    Ok(0) => {}
                    Ok(bytes) => {
                        progress.moved(Instant::now(), bytes);
                        push.change(|status| status.link.moved(bytes));
                    }
                    Err(failure) => return End::Failed(failure),
                },
                () = sleep_until(carried.settles_at().unwrap_or_else(Instant::now)),
                    if carried.audio_alone.is_some() => {}
                _ = srt_due.tick(), if target.is_srt() => push.note_srt(target),
                () = sleep_until(progress.since + settings.stall_timeout), if is_blocked => {
                    return End::Failed(Failure::new("the target takes nothing"));
                }
            }
        }
    }
}

/// What a target that has something to take has taken.
///
/// A byte now and then is none: a target that takes so little gets nothing that anybody could play.
#[derive(Debug)]
struct Progress {
    since: Instant,
    bytes: u64,
}

impl Progress {
    fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0 }
    }

    fn moved(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= PROGRESS_BYTES {
            *self = Self::new(now);
        }
    }
}

/// What a tap brought; none if the stream is over.
fn next_item(item: Result<TapItem, EndReason>) -> Result<Option<TapItem>, Failure> {
    match item {
        Ok(TapItem::Stop) => Ok(None),
        Ok(item) => Ok(Some(item)),
        Err(EndReason::Kicked) => Err(Failure::lasting("its session was ended")),
        Err(_) => Ok(None),
    }
}

/// Fills the queue until it says which tracks the stream has.
async fn wait_for_tracks(
    tap: &mut Tap,
    queue: &mut Queue,
    stop: &mut oneshot::Receiver<()>,
) -> Result<(), End> {
    let mut first: Option<Instant> = None;
    while !queue.has_tracks(SETTLING) {
        let until = first.map(|first| first + SETTLING);
        tokio::select! {
            _ = &mut *stop => return Err(End::Over),
            item = tap.next() => match next_item(item)? {
                Some(item) => take(queue, item, false),
                None => return Err(End::Over),
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => break,
        }
        if first.is_none() && queue.frames().iter().any(|frame| is_media(frame)) {
            first = Some(Instant::now());
        }
    }
    Ok(())
}

fn take(queue: &mut Queue, item: TapItem, begins_live: bool) {
    let now = Instant::now().into_std();
    match item {
        TapItem::Start { mut frames, .. } => {
            let times = || frames.iter().filter(|frame| is_media(frame)).map(|frame| frame.dts);
            let span = times().max().zip(times().min());
            let is_long = span.is_some_and(|(newest, oldest)| (newest - oldest).to_duration() > CATCH_UP);
            if begins_live && is_long {
                frames.retain(|frame| !is_media(frame));
            }
            queue.start(now, frames);
        }
        TapItem::Frame(frame) => queue.push(now, frame),
        TapItem::Gap { dropped, frames } => queue.gap(now, dropped, frames),
        TapItem::Stop => {}
    }
}

fn is_media(frame: &Frame) -> bool {
    matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio)
}

/// Which tracks the target takes.
#[derive(Debug, Default)]
struct Carried {
    refused: BTreeSet<TrackId>,
    /// The audio is refused, since when and why, and whether there is video is not known yet.
    audio_alone: Option<(Instant, String)>,
    news: Option<String>,
    left_out: u64,
}

impl Carried {
    /// What became of a frame. An error is why the push cannot go on: who wants a stream wants its
    /// picture, or else its sound.
    fn note(
        &mut self,
        now: Instant,
        frame: &Frame,
        sent: Result<(), NotSent>,
        has_video: bool,
    ) -> Result<(), Failure> {
        let track = frame.track;
        match sent {
            // A track may have another codec now.
            Ok(()) => {
                self.refused.remove(&track);
                if track == TrackId::AUDIO {
                    self.audio_alone = None;
                }
            }
            Err(NotSent::Frame) => self.left_out += 1,
            Err(NotSent::Changed(reason)) => return Err(Failure::new(reason)),
            Err(NotSent::Track(reason)) if track == TrackId::VIDEO => return Err(Failure::lasting(reason)),
            Err(NotSent::Track(reason)) => {
                self.left_out += u64::from(is_media(frame));
                if track == TrackId::AUDIO && !has_video {
                    self.audio_alone.get_or_insert((now, reason));
                } else if self.refused.insert(track) {
                    self.news = Some(reason);
                }
            }
        }
        Ok(())
    }

    /// Decides on a refused audio track that came before any video: an encoder may send its audio first.
    fn settle(&mut self, now: Instant, has_video: bool) -> Result<(), Failure> {
        if !has_video && self.settles_at().is_some_and(|at| now < at) {
            return Ok(());
        }
        let Some((_, reason)) = self.audio_alone.take() else { return Ok(()) };
        if !has_video {
            return Err(Failure::lasting(reason));
        }
        self.refused.insert(TrackId::AUDIO);
        self.news = Some(reason);
        Ok(())
    }

    fn settles_at(&self) -> Option<Instant> {
        self.audio_alone.as_ref().map(|(since, _)| *since + SETTLING)
    }
}

#[cfg(test)]
mod tests {
    use media::{Codec, Timestamp};

    use super::*;

    fn frame(track: TrackId) -> Frame {
        let (role, codec) = match track.kind {
            MediaKind::Audio => (FrameRole::Audio, Codec::Flac),
            _ => (FrameRole::Key, Codec::H264),
        };
        Frame::new(track, role, codec, (Timestamp::ZERO, Timestamp::ZERO), vec![1])
    }

    #[test]
    fn audio_that_is_refused_ends_a_push_only_where_no_video_follows() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let refused = || Err(NotSent::Track("no FLAC".to_owned()));
        for video_at in [None, Some(300)] {
            let mut carried = Carried::default();
            assert_eq!(carried.note(at(0), &frame(TrackId::AUDIO), refused(), false), Ok(()));
            assert_eq!(carried.note(at(20), &frame(TrackId::AUDIO), refused(), false), Ok(()));
            assert_eq!(carried.settles_at(), Some(at(500)));
            assert_eq!(carried.settle(at(299), false), Ok(()));
            assert_eq!(carried.news, None);
            let Some(video_at) = video_at else {
                assert_eq!(carried.settle(at(500), false), Err(Failure::lasting("no FLAC")));
                continue;
            };
            assert_eq!(carried.note(at(video_at), &frame(TrackId::VIDEO), Ok(()), true), Ok(()));
            assert_eq!(carried.settle(at(video_at), true), Ok(()));
            assert_eq!((carried.news.take().as_deref(), carried.left_out), (Some("no FLAC"), 2));
            assert_eq!(carried.settle(at(600), true), Ok(()));
            // Said once, and the picture is what cannot be missing.
            assert_eq!(carried.note(at(700), &frame(TrackId::AUDIO), refused(), true), Ok(()));
            assert_eq!(carried.news, None);
            let lost = carried.note(at(800), &frame(TrackId::VIDEO), refused(), true);
            assert_eq!(lost, Err(Failure::lasting("no FLAC")));
        }
    }

    #[test]
    fn a_target_that_takes_a_byte_now_and_then_makes_no_progress() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        (1..=20).for_each(|second| progress.moved(at(second), 500));
        assert_eq!(progress.since, began);
        // One that takes what there is, however slowly.
        (21..=40).for_each(|second| progress.moved(at(second), 4 << 10));
        assert!(progress.since >= at(38), "{progress:?}");
    }
}
