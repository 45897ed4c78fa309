//! The life of one pull: connect, publish what arrives, and reconnect when it ends.
//!
//! Each connection is a publication of its own: while the source is away, the stream has no
//! publisher, which is what players and the API should see, and players that wait are served on
//! when it is back; the stream's timeline goes on by the time that passed, whatever timestamps the
//! source begins with.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use media::MediaKind;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::failure::Failure;
use super::hls::Played;
use super::source::Source;
use super::spec::PullSpec;
use super::status::{SRT_EVERY, Status};
use crate::backoff::{Backoff, random};
use crate::ingest::{Ingest, Request, ended};
use crate::names::SourceKind;
use crate::settings::{AddedBy, SourceSettings};
use worker_api::EndReason;
use worker_api::internal::{Publisher, Unsent};

/// One pull.
#[derive(Debug)]
pub struct Pull {
    /// What is pulled.
    pub spec: PullSpec,
    /// Who added it.
    pub added_by: AddedBy,
    /// The pattern that it was begun by.
    pub(super) rule: Option<Arc<Pull>>,
    status: Mutex<Status>,
}

impl Pull {
    pub(super) fn new(spec: PullSpec, added_by: AddedBy) -> Self {
        let status = if spec.on_demand { Status::of_idle() } else { Status::new() };
        Self { spec, added_by, rule: None, status: Mutex::new(status) }
    }

    /// One that begins because of a pattern.
    pub(super) fn of_rule(spec: PullSpec, rule: &Arc<Self>) -> Self {
        Self { rule: Some(Arc::clone(rule)), ..Self::new(spec, rule.added_by) }
    }

    /// Nobody plays it.
    pub(super) fn idle(&self) {
        self.change(Status::idle);
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        self.locked().clone()
    }

    /// `app/name`.
    pub fn stream(&self) -> String {
        format!("{}/{}", self.spec.app, self.spec.name)
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.locked());
    }

    fn locked(&self) -> MutexGuard<'_, Status> {
        // Plain values: they are right even if somebody panicked between two of them.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an attempt ended.
enum End {
    /// The server stops.
    Stopping,
    /// The source failed, or does not begin.
    Failed(String),
    /// The publication was ended on this side.
    Unpublished(EndReason),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

/// Pulls until the server stops or the task is dropped.
pub(super) async fn run(pull: Arc<Pull>, ingest: Ingest, settings: Arc<SourceSettings>) {
    let mut stopping = ingest.stopping();
    let mut backoff = Backoff::new(settings.retry_min, settings.retry_max);
    let played = Played::default();
    while !*stopping.borrow() {
        pull.change(|status| status.connecting());
        let (pull, ingest, settings, played) = (&*pull, &ingest, &*settings, &played);
        let mut attempt = Attempt { pull, ingest, settings, played, live_since: None };
        let end = attempt.run(&mut stopping).await;
        let live = attempt.live_since.map_or(Duration::ZERO, |since| since.elapsed());
        let (reason, least) = match end {
            End::Stopping => return,
            End::Failed(reason) => (reason, Duration::ZERO),
            // Somebody does not want it now: there is no hurry.
            End::Unpublished(
                ended @ (EndReason::Kicked | EndReason::TakenOver | EndReason::PublishedElsewhere),
            ) => (ended.text().to_owned(), settings.retry_max),
            End::Unpublished(ended) => (ended.text().to_owned(), Duration::ZERO),
        };
        let pause = backoff.pause(live, random()).max(least);
        tracing::warn!(
            stream = pull.stream(), url = %pull.spec.origin, reason, failures = backoff.failures(),
            pause_ms = pause.as_millis() as u64, "pull failed"
        );
        pull.change(|status| status.failed(reason, pause));
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopping.changed() => {}
        }
    }
}

/// One connection to the source.
struct Attempt<'a> {
    pull: &'a Pull,
    ingest: &'a Ingest,
    settings: &'a SourceSettings,
    played: &'a Played,
    live_since: Option<Instant>,
}

impl Attempt<'_> {
    async fn run(&mut self, stopping: &mut watch::Receiver<bool>) -> End {
        let opened = tokio::select! {
            opened = Source::open(&self.pull.spec.origin, self.settings, self.played) => opened,
            _ = stopping.changed() => return End::Stopping,
        };
        let mut publisher = None;
        let relayed = match opened {
            Ok(mut source) => {
                let relayed = self.relay(&mut source, &mut publisher, stopping).await;
                self.note_srt(&source);
                relayed
            }
            Err(failure) => Err(failure.into()),
        };
        let Err(end) = relayed;
        if let Some(publisher) = publisher {
            publisher.finish().await;
        }
        end
    }

    /// Publishes what comes; returns only when it ends.
    async fn relay(
        &mut self,
        source: &mut Source,
        publisher: &mut Option<Publisher>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<std::convert::Infallible, End> {
        let (mut last_bytes, mut last_media) = (Instant::now(), Instant::now());
        let stall_timeout = source.stall_timeout(self.settings);
        let mut metadata = None;
        let mut unheard = None;
        let mut srt_due = interval(SRT_EVERY);
        srt_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let was_waiting = source.is_waiting();
            let mut has_stalled = false;
            tokio::select! {
                _ = stopping.changed() => return Err(End::Stopping),
                ended = ended(publisher) => return Err(End::Unpublished(ended)),
                () = sleep_until(last_media + stall_timeout), if !was_waiting => {
                    has_stalled = true;
                    source.finish();
                }
                filled = source.fill() => {
                    let bytes = filled?;
                    if bytes > 0 {
                        last_bytes = Instant::now();
                    }
                    self.pull.change(|status| status.moved(bytes as u64));
                }
                _ = srt_due.tick(), if source.is_srt() => self.note_srt(source),
            }
            if was_waiting && !source.is_waiting() {
                last_media = Instant::now();
            } else if was_waiting && unheard.is_none() {
                unheard = source.unheard();
                if let Some(reason) = &unheard {
                    tracing::warn!(stream = self.pull.stream(), reason, "pull waits for another sender");
                    self.pull.change(|status| status.noticed(reason.clone()));
                }
            }
            while let Some(message) = source.next_message()? {
                // A message that is no frame is left out, as of any publisher.
                let Ok((frame, others)) = message else {
                    publisher.iter().for_each(Publisher::count_invalid);
                    continue;
                };
                // Of metadata and cues alone nobody sees or hears anything.
                if frame.track.kind != MediaKind::Data {
                    last_media = Instant::now();
                }
                let publisher = match publisher {
                    Some(publisher) => publisher,
                    // Metadata alone is not yet a stream; the newest is kept for when it is one.
                    None if frame.track.kind == MediaKind::Data => {
                        metadata = Some(frame);
                        continue;
                    }
                    None => publisher.insert(self.publish(source.peer()).await?),
                };
                for frame in metadata.take().into_iter().chain([frame]).chain(others) {
                    publisher.send(Arc::new(frame)).await.map_err(|unsent| match unsent {
                        Unsent::TooLong => End::Failed("a message is too long".to_owned()),
                        Unsent::Ended(ended) => End::Unpublished(ended),
                    })?;
                }
            }
            publisher.iter().for_each(Publisher::flush);
            if has_stalled {
                // The end of what a source sent before it fell silent may be part of a frame.
                let is_silent = last_bytes.elapsed() > stall_timeout / 2;
                let silence = || "the source sends nothing".to_owned();
                return Err(End::Failed(if is_silent { silence() } else { source.complaint() }));
            }
        }
    }

    /// How its SRT connection is, for the API and metrics.
    fn note_srt(&self, source: &Source) {
        if let Some(link) = source.srt() {
            self.pull.change(|status| status.srt = Some(link));
        }
    }

    async fn publish(&mut self, peer: Option<SocketAddr>) -> Result<Publisher, End> {
        let PullSpec { app, name, origin, .. } = &self.pull.spec;
        let detail = origin.to_string();
        let request = Request { app, name, kind: SourceKind::Pull, address: peer, detail: &detail };
        let publisher =
            self.ingest.publish(request).await.map_err(|refused| End::Failed(refused.reason().to_owned()))?;
        tracing::info!(session = %publisher.session(), stream = self.pull.stream(), url = detail, "pull is live");
        self.pull.change(|status| status.live());
        self.live_since = Some(Instant::now());
        Ok(publisher)
    }
}
