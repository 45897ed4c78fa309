//! The task of a channel: gets frames from its playlist, publishes them, each at its time.
//!
//! One loop waits for whichever comes first: a request, the end of the publication, the time of the
//! next frame, or the frame itself. A channel that loses its stream asks for it again and continues
//! from the next key frame; a channel with a start continues where it would be without the
//! interruption.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use media::{Frame, Timestamp};
use mp4::Sample;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::outgoing::Outgoing;
use super::playlist::{Joined, Next, Playlist};
use super::status::{EventKind, State, Status};
use super::timeline::Timeline;
use crate::backoff::{Backoff, random};
use crate::ingest::{Ingest, Request, ended};
use crate::names::SourceKind;
use crate::pace::Pace;
use crate::settings::SourceSettings;
use worker_api::internal::{Publisher, Unsent};
use worker_api::{EndReason, time};

/// While a channel waits for its start, it reads the wall clock this often: somebody may set it.
const CLOCK_CHECK: Duration = Duration::from_secs(30);

/// Frames that come late again within this time are counted, not logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A channel with a start that is behind its schedule by more than this returns to it when an item
/// ends.
const BEHIND_MAX: Duration = Duration::from_millis(500);

/// What a channel can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Go on with the next item.
    Skip,
}

/// Why a channel's task is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// It was removed, or the server stops.
    Asked,
    /// Its playlist was to be played once.
    Over,
}

/// What a channel is made of.
#[derive(Debug)]
pub(super) struct Parts {
    /// Application.
    pub app: String,
    /// Name of its stream.
    pub name: String,
    /// When its playlist began.
    pub start: Option<SystemTime>,
    /// Limits and pauses.
    pub settings: Arc<SourceSettings>,
    /// For publishing.
    pub ingest: Ingest,
    /// What the API shows.
    pub status: Arc<Status>,
    /// Requests.
    pub commands: mpsc::Receiver<Command>,
    /// Becomes true when the channel is removed.
    pub removed: watch::Receiver<bool>,
}

/// The frame that leaves next.
struct Held {
    /// Its times are those of the stream.
    sample: Sample,
    /// Where in its item it is shown.
    position: Duration,
    due: Instant,
    /// Frames are buffered behind it until then.
    gathers: bool,
}

/// Plays one channel: takes frames from its playlist, and publishes each at its time.
pub(super) struct Runner {
    parts: Parts,
    playlist: Playlist,
    outgoing: Outgoing,
    timeline: Timeline,
    pace: Pace,
    /// Where the playlist was joined, until its first item begins.
    joined: Option<(Duration, Instant)>,
    publisher: Option<Publisher>,
    /// When the publication began, or may begin again.
    publishes: Instant,
    refusals: Backoff,
    held: Option<Held>,
    /// By how much the channel is later than its schedule because frames were late.
    behind: Duration,
    /// When late frames were logged last.
    reported_late: Option<Instant>,
    stopping: watch::Receiver<bool>,
}

impl Runner {
    /// Of a playlist.
    pub(super) fn new(parts: Parts, playlist: Playlist) -> Self {
        let (least, most) = (parts.settings.retry_min, parts.settings.retry_max);
        Self {
            stopping: parts.ingest.stopping(),
            playlist,
            outgoing: Outgoing::default(),
            timeline: Timeline::default(),
            pace: Pace::new(parts.settings.stall_timeout),
            joined: None,
            publisher: None,
            publishes: Instant::now(),
            refusals: Backoff::new(least, most),
            held: None,
            behind: Duration::ZERO,
            reported_late: None,
            parts,
        }
    }

    /// Runs until the channel is removed, the server stops, or a playlist that is played once is
    /// over.
    pub(super) async fn run(mut self) {
        let mut removed = self.parts.removed.clone();
        let mut stopping = self.stopping.clone();
        let stopped = tokio::select! {
            biased;
            _ = removed.wait_for(|removed| *removed) => Stopped::Asked,
            _ = stopping.wait_for(|stopping| *stopping) => Stopped::Asked,
            () = self.play() => Stopped::Over,
        };
        if stopped == Stopped::Over {
            self.enter(State::Ended, None);
            self.parts
                .status
                .update(|status| (status.item, status.next, status.next_ready) = (None, None, false));
            tracing::info!(channel = %self.shown(), "the playlist is over");
        }
        if let Some(publisher) = self.publisher.take() {
            publisher.finish().await;
        }
    }

    async fn play(&mut self) {
        let mut failures = Backoff::new(self.parts.settings.retry_min, self.parts.settings.retry_max);
        let mut began = Instant::now();
        self.wait_for_start().await;
        let mut must_join = self.parts.start.is_some();
        loop {
            if std::mem::take(&mut must_join) && !self.join().await {
                return;
            }
            match self.play_on().await {
                Pause::Over => return,
                Pause::Rejoin => {
                    sleep_until(self.publishes).await;
                    must_join = true;
                }
                Pause::Nothing => {
                    // So that players wait for a publisher instead of showing a frozen picture.
                    if let Some(publisher) = self.publisher.take() {
                        publisher.finish().await;
                    }
                    let pause = failures.pause(began.elapsed(), random());
                    self.parts.status.tell(
                        time::now(),
                        None,
                        EventKind::NothingToPlay,
                        "no item can be played",
                    );
                    self.enter(State::Retrying, Some(pause));
                    sleep(pause).await;
                    // There was nothing to skip.
                    while self.parts.commands.try_recv().is_ok() {}
                    began = Instant::now();
                    must_join = self.parts.start.is_some();
                }
            }
        }
    }

    /// Waits for the start, by the wall clock.
    async fn wait_for_start(&mut self) {
        let Some(start) = self.parts.start else { return };
        while let Ok(left) = start.duration_since(time::now()) {
            if left.is_zero() {
                return;
            }
            self.enter(State::Waiting, Some(left));
            sleep(left.min(CLOCK_CHECK)).await;
        }
    }

    /// Goes to where the playlist is by its schedule. False: it is over.
    async fn join(&mut self) -> bool {
        let Some(start) = self.parts.start else { return true };
        self.enter(State::Opening, None);
        self.held = None;
        self.timeline.end_item(None);
        let elapsed = || time::now().duration_since(start).unwrap_or_default();
        match self.playlist.join(elapsed).await {
            Joined::At { position, moment } => {
                self.joined = Some((position, moment));
                self.behind = Duration::ZERO;
            }
            Joined::Nothing => {}
            Joined::Over => return false,
        }
        true
    }

    /// Plays until something cannot go on as it is.
    async fn play_on(&mut self) -> Pause {
        loop {
            if self.held.is_some() && self.publisher.is_none() && !self.publish().await {
                // Time has passed, and with a start the playlist has gone on.
                if self.parts.start.is_some() {
                    return Pause::Rejoin;
                }
                continue;
            }
            if let Some(pause) = self.step().await {
                return pause;
            }
        }
    }

    /// Waits for one thing to happen, and does it.
    async fn step(&mut self) -> Option<Pause> {
        let due = self.held.as_ref().map(|held| held.due);
        let gathers = self.held.as_ref().is_some_and(|held| held.gathers);
        let (publisher, playlist) = (&mut self.publisher, &mut self.playlist);
        let coming = async {
            if gathers {
                playlist.filled().await;
                return None;
            }
            Some(playlist.next().await)
        };
        tokio::select! {
            biased;
            command = self.parts.commands.recv() => {
                if let Some(Command::Skip) = command {
                    self.skip();
                }
                None
            }
            ended = ended(publisher) => self.interrupted(ended),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.send().await,
            next = coming, if due.is_none() || gathers => match next {
                Some(next) => self.take(next),
                None => {
                    self.go_on();
                    None
                }
            },
        }
    }

    fn take(&mut self, next: Next) -> Option<Pause> {
        match next {
            Next::Begins(info) => {
                self.timeline.begin_item(info.begins.into());
                self.pace.begin_item();
                self.outgoing.begin_item(&info.tracks);
                if self.publisher.is_some() {
                    self.enter(State::Playing, None);
                }
                let behind = self.behind;
                self.parts.status.update(|status| status.behind = behind);
                if let Some((position, moment)) = self.joined.take() {
                    let timestamp_ms = self.timeline.at(position.into());
                    self.pace.join(moment, timestamp_ms, Instant::now());
                }
            }
            Next::Frame { sample, was_awaited } => self.hold(sample, was_awaited),
            Next::Ends(length) => {
                self.timeline.end_item(length.map(Timestamp::from));
                if self.parts.start.is_some() && self.behind > BEHIND_MAX {
                    return Some(Pause::Rejoin);
                }
            }
            Next::Waits => {
                if self.publisher.is_some() {
                    self.enter(State::Opening, None);
                }
            }
            Next::Nothing => return Some(Pause::Nothing),
            Next::Over => return Some(Pause::Over),
        }
        None
    }

    /// Gives a frame its time.
    fn hold(&mut self, mut sample: Sample, was_awaited: bool) {
        let frame = &mut sample.frame;
        let position = frame.pts.to_duration();
        // A hidden frame before the item's beginning is only decoded: a live stream shows it at the
        // beginning.
        let pts = if sample.is_hidden { frame.pts.max(Timestamp::ZERO) } else { frame.pts };
        (frame.dts, frame.pts) = self.timeline.place(frame.track.kind, (frame.dts, pts), sample.duration);
        let now = Instant::now();
        let (due, late) = self.pace.due(now, wire_time(frame), was_awaited);
        self.behind += late;
        let gather = if late.is_zero() { Duration::ZERO } else { due.saturating_duration_since(now) };
        if !late.is_zero() && self.publisher.is_some() {
            self.was_late(late - gather, gather);
        }
        self.held = Some(Held { sample, position, due, gathers: !gather.is_zero() });
    }

    /// No more frames can be buffered: the channel goes on.
    fn go_on(&mut self) {
        let Some(held) = &mut self.held else { return };
        let now = Instant::now();
        self.pace.go_on(now, held.due);
        self.behind = self.behind.saturating_sub(held.due.saturating_duration_since(now));
        (held.due, held.gathers) = (now, false);
        let behind = self.behind;
        self.parts.status.update(|status| status.behind = behind);
    }

    /// The source was too slow: counts it, and logs the first of several in a row.
    fn was_late(&mut self, late: Duration, gather: Duration) {
        let behind = self.behind;
        let item = self.parts.status.update(|status| {
            status.pauses += 1;
            status.behind = behind;
            status.item
        });
        let now = Instant::now();
        if self.reported_late.is_none_or(|last| now > last + REPORT_INTERVAL) {
            self.reported_late = Some(now);
            self.parts.status.tell(time::now(), item, EventKind::Late, &late_words(late, gather, behind));
        }
    }

    /// Sends the frame in hand.
    async fn send(&mut self) -> Option<Pause> {
        let (Some(held), Some(publisher)) = (self.held.take(), &mut self.publisher) else { return None };
        for frame in self.outgoing.frames(held.sample) {
            let bytes = frame.bytes();
            match publisher.send(frame).await {
                Ok(()) => {}
                Err(Unsent::TooLong) => {
                    // Later frames may need it.
                    let reason =
                        format!("a frame of {bytes} bytes is larger than `limits.message_max_bytes`");
                    self.playlist.give_up(&reason);
                    self.timeline.end_item(None);
                    return None;
                }
                Err(Unsent::Ended(ended)) => return self.interrupted(ended),
            }
        }
        publisher.flush();
        self.parts.status.update(|status| status.position = held.position);
        None
    }

    fn skip(&mut self) {
        if self.playlist.skip() {
            if self.held.as_ref().is_some_and(|held| held.gathers) {
                self.go_on();
            }
            self.held = None;
            if let Some(timestamp_ms) = self.pace.timestamp_at(Instant::now()) {
                self.timeline.leave_item(timestamp_ms);
            }
            // The next item begins now, not at the scheduled end of this one.
            self.joined = None;
        }
    }

    /// Asks for the stream; true if it publishes. After a refusal it waits.
    async fn publish(&mut self) -> bool {
        sleep_until(self.publishes).await;
        let detail = format!("channel {}", self.shown());
        let request = Request {
            app: &self.parts.app,
            name: &self.parts.name,
            kind: SourceKind::Channel,
            address: None,
            detail: &detail,
        };
        match self.parts.ingest.publish(request).await {
            Ok(publisher) => {
                self.publisher = Some(publisher);
                self.publishes = Instant::now();
                self.outgoing.begin_publication();
                if self.parts.start.is_none() {
                    self.pace.restart();
                }
                // The frame in hand is due now, unless a schedule says otherwise.
                if let Some(held) = &mut self.held {
                    held.gathers = false;
                    held.due = self.pace.due(Instant::now(), wire_time(&held.sample.frame), true).0;
                }
                self.enter(State::Playing, None);
                tracing::info!(channel = %self.shown(), "the channel publishes");
                true
            }
            Err(refused) => {
                // Said once, not each time it is asked for again.
                if self.refusals.failures() == 0 || self.parts.status.totals().0 != State::Waiting {
                    self.parts.status.tell(time::now(), None, EventKind::Interrupted, refused.reason());
                }
                let pause = self.refusals.pause(Duration::ZERO, random());
                self.enter(State::Waiting, Some(pause));
                sleep(pause).await;
                false
            }
        }
    }

    /// The publication has ended. With a start, the playlist goes on without it.
    fn interrupted(&mut self, ended: EndReason) -> Option<Pause> {
        let reason = ended.text();
        self.publisher = None;
        let pause = self.refusals.pause(self.publishes.elapsed(), random());
        self.publishes = Instant::now() + pause;
        self.parts.status.tell(time::now(), None, EventKind::Interrupted, reason);
        self.enter(State::Waiting, Some(pause));
        match ended {
            EndReason::Draining => Some(Pause::Over),
            _ => self.parts.start.is_some().then_some(Pause::Rejoin),
        }
    }

    fn enter(&self, state: State, retry_in: Option<Duration>) {
        let now = time::now();
        self.parts.status.enter(state, now, retry_in.and_then(|pause| now.checked_add(pause)));
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.parts.app, self.parts.name)
    }
}

#[cfg(test)]
mod slow_source;
#[cfg(test)]
mod wraps;

/// Why playing cannot continue.
enum Pause {
    /// No item can be played.
    Nothing,
    /// The schedule has moved on: join it again.
    Rejoin,
    /// There is nothing left to play, or no server to play to.
    Over,
}

/// The message of an event about late frames; `behind` includes earlier ones.
fn late_words(late: Duration, gather: Duration, behind: Duration) -> String {
    let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
    let mut words = format!("frames came {} late", seconds(late));
    if !gather.is_zero() {
        words += &format!(" again; more are gathered for up to {}", seconds(gather));
    }
    if behind > late {
        words += &format!("; {} behind in all", seconds(behind));
    }
    words
}

/// When a frame is due, milliseconds since the timeline began.
fn wire_time(frame: &Frame) -> u64 {
    frame.dts.millis().max(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_told_with_its_sum() {
        let ms = Duration::from_millis;
        let cases = [
            ((300, 0, 300), "frames came 0.3 s late"),
            ((300, 0, 8_640), "frames came 0.3 s late; 8.6 s behind in all"),
            (
                (300, 2_000, 2_600),
                "frames came 0.3 s late again; more are gathered for up to 2.0 s; 2.6 s behind in all",
            ),
        ];
        for ((late, gather, behind), expected) in cases {
            assert_eq!(late_words(ms(late), ms(gather), ms(behind)), expected);
        }
    }
}
