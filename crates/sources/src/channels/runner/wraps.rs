//! A channel on a clock that stands unless nothing else happens, before a worker that only reads.

use std::io::Cursor;

use media::Frame;
use mp4::{Limits, Mp4};
use tokio::sync::{Notify, oneshot};

use super::super::item::{Item, ItemInfo};
use super::super::location::Location;
use super::super::playlist::OpenTimeouts;
use super::super::queue::queue;
use super::*;
use crate::thread::IngestThread;
use worker_api::WorkerHandles;
use worker_api::command::Command as Asked;
use worker_api::internal::{FrameReceiver, Next as Received};
use worker_api::snapshot::{SessionId, WorkerSnapshot};

/// 1.2 s of video and audio.
pub(super) const FILM: &[u8] = include_bytes!("../../../../mp4/tests/samples/h264-aac.mp4");
/// More than six rounds of it.
const FRAMES: usize = 500;

/// Plays the film again and again.
fn playlist() -> (Playlist, Arc<Status>) {
    let status = Arc::new(Status::new(String::new(), Location::some(1), SystemTime::UNIX_EPOCH));
    let opener = Box::new(|_, join| {
        let mut mp4 = Mp4::open(Cursor::new(FILM), Limits::default()).expect("a film");
        let (duration, begins) = (mp4.frames_duration(), mp4.seek_to(join).expect("a beginning"));
        let tracks = mp4.video().into_iter().chain(mp4.audio()).cloned().collect();
        let (tell, opened) = oneshot::channel();
        let (sender, samples) = queue(usize::MAX);
        tell.send(Ok(ItemInfo { duration, begins, tracks })).expect("a listener");
        while let Some(sample) = mp4.next_sample().expect("a readable film") {
            sender.push(Ok(sample), 1).expect("room");
        }
        Item::scripted(opened, samples)
    });
    let timeouts = OpenTimeouts { open: Duration::from_secs(60), frame: Duration::from_secs(10) };
    (Playlist::new(opener, 1, true, timeouts, Arc::clone(&status)), status)
}

/// A publication as its worker sees it.
pub(super) struct Publication {
    frames: FrameReceiver,
    ready: Arc<Notify>,
}

impl Publication {
    /// The next frame, when it comes; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Arc<Frame>> {
        loop {
            match self.frames.receive() {
                Received::Frame(frame) => return Some(frame),
                Received::Empty => self.ready.notified().await,
                Received::Over => return None,
            }
        }
    }
}

/// A worker that takes every publisher, and the publications it has taken.
pub(super) fn worker(thread: &IngestThread) -> (Ingest, mpsc::UnboundedReceiver<Publication>) {
    let (taken, takes) = mpsc::unbounded_channel();
    let send = move |_, command| {
        match command {
            Asked::Snapshot { reply, .. } => _ = reply.send(WorkerSnapshot::default()),
            Asked::Publish(publish) => {
                let (frames, ready) = (publish.frames, Arc::new(Notify::new()));
                let notified = Arc::clone(&ready);
                frames.on_ready(move || notified.notify_one());
                let _ = publish.reply.send(Ok(SessionId::new(0, 1)));
                assert!(taken.send(Publication { frames, ready }).is_ok(), "the test waits");
            }
            other => panic!("{other:?} was not to be asked"),
        }
        Ok(())
    };
    (Ingest::new(WorkerHandles::over(1, Box::new(send)), thread, 1 << 20), takes)
}

/// What a channel that has played for so long sends next, and when it comes.
async fn frames_after(played: Duration) -> Vec<(Arc<Frame>, Instant)> {
    let thread = IngestThread::start().expect("a thread");
    let (ingest, mut takes) = worker(&thread);
    let (playlist, status) = playlist();
    let (_commands, commands) = mpsc::channel(1);
    let (_removed, removed) = watch::channel(false);
    let settings = Arc::new(SourceSettings::default());
    let (app, name) = ("live".to_owned(), "a".to_owned());
    let parts = Parts { app, name, start: None, settings, ingest, status, commands, removed };
    let mut runner = Runner::new(parts, playlist);
    runner.timeline = Timeline::after(played);
    let channel = tokio::spawn(runner.run());
    let mut publication = takes.recv().await.expect("it publishes");
    let mut frames = Vec::new();
    while frames.len() < FRAMES {
        frames.push((publication.next().await.expect("it loops"), Instant::now()));
    }
    channel.abort();
    frames
}

#[tokio::test(start_paused = true)]
async fn a_channel_goes_on_as_ever_when_the_time_of_rtmp_wraps() {
    let wraps = 1_u64 << 32;
    let ordinary = frames_after(Duration::ZERO).await;
    for (before, remark) in [(3_000, "2^32 ms is passed"), (wraps / 2 + 3_000, "2^31 ms is passed")] {
        let played = Duration::from_millis(wraps - before);
        let frames = frames_after(played).await;
        let (first, began) = (&frames[0].0, frames[0].1);
        assert_eq!(first.dts, ordinary[0].0.dts + played.into());
        for ((frame, at), (other, other_at)) in frames.iter().zip(&ordinary) {
            assert_eq!(frame.dts - first.dts, other.dts - ordinary[0].0.dts, "{remark}");
            assert_eq!(
                (frame.track, frame.role, frame.data()),
                (other.track, other.role, other.data()),
                "{remark}"
            );
            assert_eq!(*at - began, *other_at - ordinary[0].1, "{remark}: it comes at its time");
        }
    }
}
