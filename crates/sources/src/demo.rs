//! The demo channel: publishes an embedded sample to this server, for ever and in real time.
//!
//! A source like channels and pulls (`ingest`), with the simplest media there is. Frames leave at absolute deadlines, so
//! the pace does not drift; timestamps go on from loop to loop. What the sample shows and how it was made: `media/`.

use std::time::Duration;

use rtmp::MediaKind;
use rtmp::flv::{BodyRole, FlvReader, Tag, inspect};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{Ingest, Publisher, Request, SourceKind};
use worker_api::EndReason;

/// Ten seconds of H.264 and AAC, about 600 kbit/s.
const SAMPLE: &[u8] = include_bytes!("../../../media/demo.flv");
/// Largest tag of the sample.
const TAG_BYTES_MAX: u32 = 1 << 20;
/// First and longest pause between attempts to publish.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Later than this (the machine slept), no frames are sent in a burst to catch up; pacing restarts.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Publishes as `app/stream` until the server stops.
pub async fn run(ingest: Ingest, app: String, stream: String) {
    let sample = match Sample::read(SAMPLE) {
        Ok(sample) => sample,
        Err(reason) => {
            tracing::error!(reason, "the demo sample cannot be read");
            return;
        }
    };
    let mut stopping = ingest.stopping();
    let mut pause = PAUSE.0;
    while !*stopping.borrow() {
        let began = Instant::now();
        let request =
            Request { app: &app, name: &stream, kind: SourceKind::Demo, address: None, detail: "demo" };
        match ingest.publish(request).await {
            Err(refused) => tracing::warn!(reason = refused.reason(), "the demo channel was refused"),
            Ok(publisher) => match play(&sample, publisher, &mut stopping).await {
                None => return,
                Some(ended) => tracing::warn!(reason = ended.text(), "the demo channel was interrupted"),
            },
        }
        pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopping.changed() => {}
        }
    }
}

/// Sends the sample over and over. `None`: because the server stops.
async fn play(
    sample: &Sample,
    mut publisher: Publisher,
    stopping: &mut watch::Receiver<bool>,
) -> Option<EndReason> {
    let mut pace = Pace::new(sample);
    loop {
        tokio::select! {
            _ = stopping.changed() => {
                publisher.finish().await;
                return None;
            }
            ended = publisher.ended() => return Some(ended),
            () = sleep_until(pace.due()) => {}
        }
        pace.take_due(Instant::now(), |kind, timestamp_ms, body| {
            // A queue with room for a minute of the sample is flushed each time; a message left out would be a gap.
            let _ = publisher.send_body(kind, timestamp_ms, body);
        });
        if let Err(ended) = publisher.flush().await {
            return Some(ended);
        }
    }
}

/// The sample: all its tags, and how long one loop lasts.
struct Sample {
    tags: Vec<Tag>,
    loop_ms: u64,
}

impl Sample {
    fn read(file: &[u8]) -> Result<Self, &'static str> {
        let mut reader = FlvReader::new(TAG_BYTES_MAX);
        reader.push(file);
        let mut tags: Vec<Tag> = Vec::new();
        while let Some(tag) = reader.next_tag().map_err(|error| error.reason())? {
            tags.push(tag);
        }
        let loop_ms = [MediaKind::Video, MediaKind::Audio].map(|kind| duration_ms(&tags, kind));
        let loop_ms = u64::from(loop_ms.into_iter().max().unwrap_or(0));
        // The last tag says that there are no pictures any more, but they go on.
        tags.retain(|tag| !inspect(tag.kind, &tag.body).is_ok_and(|body| body.role == BodyRole::End));
        if loop_ms == 0 { Err("no two frames of one kind") } else { Ok(Self { tags, loop_ms }) }
    }
}

/// From the first frame of a kind to one frame after the last, so that the next loop's first one fits there.
fn duration_ms(tags: &[Tag], kind: MediaKind) -> u32 {
    let times: Vec<u32> = tags.iter().filter(|tag| tag.kind == kind).map(|tag| tag.timestamp).collect();
    let [first, .., before_last, last] = times[..] else { return 0 };
    (last - first) + (last - before_last).max(1)
}

/// Which tag comes next, and when.
struct Pace<'a> {
    sample: &'a Sample,
    origin: Instant,
    /// Media time at which the current loop began, milliseconds.
    loop_began_ms: u64,
    next: usize,
}

impl<'a> Pace<'a> {
    fn new(sample: &'a Sample) -> Self {
        Self { sample, origin: Instant::now(), loop_began_ms: 0, next: 0 }
    }

    /// Media time of the next tag since the start, milliseconds.
    fn position_ms(&self) -> u64 {
        self.loop_began_ms + u64::from(self.sample.tags[self.next].timestamp)
    }

    fn due(&self) -> Instant {
        self.origin + Duration::from_millis(self.position_ms())
    }

    /// Gives every tag whose time has come to `send`.
    fn take_due(&mut self, now: Instant, mut send: impl FnMut(MediaKind, u32, &[u8])) {
        let late = now.saturating_duration_since(self.due());
        if late > LATE_MAX {
            self.origin += late;
        }
        while self.due() <= now {
            let tag = &self.sample.tags[self.next];
            // RTMP timestamps wrap at 2^32.
            send(tag.kind, self.position_ms() as u32, &tag.body);
            self.next += 1;
            if self.next == self.sample.tags.len() {
                self.next = 0;
                self.loop_began_ms += self.sample.loop_ms;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_ten_seconds_that_join_without_a_step_back() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        assert!((9_900..=10_200).contains(&sample.loop_ms), "{}", sample.loop_ms);
        for kind in [MediaKind::Video, MediaKind::Audio] {
            let times: Vec<u64> =
                sample.tags.iter().filter(|tag| tag.kind == kind).map(|tag| tag.timestamp.into()).collect();
            assert!(times.is_sorted(), "{kind:?}");
            let (first, last) = (times[0], times[times.len() - 1]);
            assert!((last..last + 100).contains(&(first + sample.loop_ms)), "{kind:?}: {first} after {last}");
        }
    }

    #[test]
    fn tags_leave_at_their_time_however_late_the_task_wakes() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        let mut pace = Pace::new(&sample);
        let origin = pace.origin;
        let mut bytes = 0;
        let steps = [0, 7, 13, 40, 900, 1_999]; // wakes at odd times
        let mut now = origin;
        for step in steps.iter().cycle().take(600) {
            now += Duration::from_millis(*step);
            pace.take_due(now, |_, _, body| bytes += body.len());
            assert!(pace.due() > now, "everything due was sent");
            let ahead = pace.due() - now;
            assert!(ahead < Duration::from_millis(100), "nothing was sent early: {ahead:?}");
        }
        assert_eq!(pace.origin, origin, "no drift after {:?}", now - origin);
        assert!(bytes > 10 << 20, "five minutes of the sample: {bytes}");
        let late = now + Duration::from_secs(3600);
        bytes = 0;
        pace.take_due(late, |_, _, body| bytes += body.len());
        assert!(pace.due() - late < Duration::from_millis(100));
        assert!(bytes < 1 << 20, "an hour asleep is not sent after: {bytes}");
    }
}
