//! The demo channel: publishes an embedded sample to this server, for ever and in real time.
//!
//! A source like channels and pulls, with the simplest media there is. Frames leave at absolute
//! deadlines, so the pace does not drift; timestamps go on from loop to loop. What the sample shows
//! and how it was made: `media/`.

use std::sync::Arc;
use std::time::Duration;

use media::{Frame, FrameRole, MediaKind, Timestamp};
use rtmp::flv::{FlvReader, read_frames};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::ingest::{Ingest, Request};
use crate::names::SourceKind;
use worker_api::EndReason;
use worker_api::internal::{Publisher, Unsent};

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
        let now = Instant::now();
        while let Some(frame) = pace.next_due(now) {
            if let Err(Unsent::Ended(ended)) = publisher.send(frame).await {
                return Some(ended);
            }
        }
        publisher.flush();
    }
}

/// The sample: all its frames, and how long one loop lasts.
struct Sample {
    frames: Vec<Frame>,
    loop_time: Timestamp,
}

impl Sample {
    fn read(file: &[u8]) -> Result<Self, &'static str> {
        let mut reader = FlvReader::new(TAG_BYTES_MAX);
        reader.push(file);
        let mut frames: Vec<Frame> = Vec::new();
        while let Some(tag) = reader.next_tag().map_err(|error| error.reason())? {
            let (frame, others) = read_frames(tag.into()).map_err(|error| error.reason())?;
            frames.push(frame);
            frames.extend(others);
        }
        let loop_time = [MediaKind::Video, MediaKind::Audio].map(|kind| duration(&frames, kind));
        let loop_time = loop_time.into_iter().max().unwrap_or_default();
        // The last tag says that the video is over, but it goes on.
        frames.retain(|frame| frame.role != FrameRole::End);
        if loop_time == Timestamp::ZERO {
            Err("no two frames of one kind")
        } else {
            Ok(Self { frames, loop_time })
        }
    }
}

/// From the first frame of a kind to one frame after the last, so that the next loop's first one
/// fits there.
fn duration(frames: &[Frame], kind: MediaKind) -> Timestamp {
    let times: Vec<_> =
        frames.iter().filter(|frame| frame.track.kind == kind).map(|frame| frame.dts).collect();
    let [first, .., before_last, last] = times[..] else { return Timestamp::ZERO };
    (last - first) + (last - before_last).max(Timestamp::from_millis(1))
}

/// Which frame comes next, and when.
struct Pace<'a> {
    sample: &'a Sample,
    origin: Instant,
    /// Media time at which the current loop began.
    loop_began: Timestamp,
    next: usize,
}

impl<'a> Pace<'a> {
    fn new(sample: &'a Sample) -> Self {
        Self { sample, origin: Instant::now(), loop_began: Timestamp::ZERO, next: 0 }
    }

    fn due(&self) -> Instant {
        self.origin + (self.loop_began + self.sample.frames[self.next].dts).to_duration()
    }

    /// The next frame, if its time has come.
    fn next_due(&mut self, now: Instant) -> Option<Arc<Frame>> {
        let late = now.checked_duration_since(self.due())?;
        if late > LATE_MAX {
            self.origin += late;
        }
        let mut frame = self.sample.frames[self.next].clone();
        frame.dts += self.loop_began;
        frame.pts += self.loop_began;
        self.next += 1;
        if self.next == self.sample.frames.len() {
            self.next = 0;
            self.loop_began += self.sample.loop_time;
        }
        Some(Arc::new(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_ten_seconds_that_join_without_a_step_back() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        assert!((9_900..=10_200).contains(&sample.loop_time.millis()), "{:?}", sample.loop_time);
        for kind in [MediaKind::Video, MediaKind::Audio] {
            let own = sample.frames.iter().filter(|frame| frame.track.kind == kind);
            let times: Vec<_> = own.map(|frame| frame.dts.millis()).collect();
            assert!(times.is_sorted(), "{kind:?}");
            let (first, last) = (times[0] + sample.loop_time.millis(), times[times.len() - 1]);
            assert!((last..last + 100).contains(&first), "{kind:?}: {first} after {last}");
        }
    }

    /// Takes all frames that are due; gives their bytes.
    fn take_due(pace: &mut Pace<'_>, now: Instant) -> usize {
        std::iter::from_fn(|| pace.next_due(now)).map(|frame| frame.bytes()).sum()
    }

    #[test]
    fn frames_leave_at_their_time_however_late_the_task_wakes() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        let mut pace = Pace::new(&sample);
        let origin = pace.origin;
        let mut bytes = 0;
        let steps = [0, 7, 13, 40, 900, 1_999]; // wakes at odd times
        let mut now = origin;
        for step in steps.iter().cycle().take(600) {
            now += Duration::from_millis(*step);
            bytes += take_due(&mut pace, now);
            assert!(pace.due() > now, "everything due was sent");
            let ahead = pace.due() - now;
            assert!(ahead < Duration::from_millis(100), "nothing was sent early: {ahead:?}");
        }
        assert_eq!(pace.origin, origin, "no drift after {:?}", now - origin);
        assert!(bytes > 10 << 20, "five minutes of the sample: {bytes}");
        let late = now + Duration::from_secs(3600);
        bytes = take_due(&mut pace, late);
        assert!(pace.due() - late < Duration::from_millis(100));
        assert!(bytes < 1 << 20, "an hour asleep is not sent after: {bytes}");
    }
}
