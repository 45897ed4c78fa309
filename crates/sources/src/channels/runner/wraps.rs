//! A channel on a clock that stands unless nothing else happens, before a worker that only reads.

use std::io::Cursor;

use mp4::{Limits, Mp4};
use rtmp::flv::{FlvReader, Tag};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::super::item::{Facts, Item};
use super::super::location::Location;
use super::super::playlist::OpenTimeouts;
use super::super::queue::queue;
use super::*;
use crate::IngestThread;
use worker_api::WorkersLink;
use worker_api::link::{Adopt, Command as Asked};
use worker_api::snapshot::{SessionId, WorkerSnapshot};

/// 1.2 s of pictures and sound.
pub(super) const FILM: &[u8] = include_bytes!("../../../../mp4/tests/samples/h264-aac.mp4");
/// More than six rounds of it.
const TAGS: usize = 500;

/// Plays the film again and again.
fn playlist() -> (Playlist, Arc<Status>) {
    let status = Arc::new(Status::new(String::new(), Location::some(1), SystemTime::UNIX_EPOCH));
    let opener = Box::new(|_, join| {
        let mut mp4 = Mp4::open(Cursor::new(FILM), Limits::default()).expect("a film");
        let (duration, begins) = (mp4.frames_duration(), mp4.seek_to(join).expect("a beginning"));
        let tracks = mp4.video().into_iter().chain(mp4.audio()).cloned().collect();
        let (tell, opened) = oneshot::channel();
        let (sender, samples) = queue(usize::MAX);
        tell.send(Ok(Facts { duration, begins, tracks })).expect("a listener");
        while let Some(sample) = mp4.next_sample().expect("a readable film") {
            sender.push(Ok(sample), 1).expect("room");
        }
        Item::scripted(opened, samples)
    });
    let timeouts = OpenTimeouts { open: Duration::from_secs(60), frame: Duration::from_secs(10) };
    (Playlist::new(opener, 1, true, timeouts, Arc::clone(&status)), status)
}

/// The way to a worker that takes every publisher, and what it takes.
pub(super) fn worker(
    thread: &IngestThread,
) -> (Ingest, mpsc::UnboundedReceiver<(std::net::TcpStream, oneshot::Sender<&'static str>)>) {
    let (taken, takes) = mpsc::unbounded_channel();
    let send = move |_, command| {
        match command {
            Asked::Snapshot { reply, .. } => _ = reply.send(WorkerSnapshot::default()),
            Asked::Adopt(adopt) => {
                let Adopt { socket, reply, ended, .. } = *adopt;
                let _ = reply.send(Ok(SessionId::new(0, 1)));
                taken.send((socket, ended)).expect("the test waits");
            }
            other => panic!("{other:?} was not to be asked"),
        }
        Ok(())
    };
    (Ingest::new(WorkersLink::over(1, Box::new(send)), thread, 1 << 20), takes)
}

/// What a channel that has played for so long sends next, and when it comes.
async fn tags_after(played: Duration) -> Vec<(Tag, Instant)> {
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
    let (socket, _ended) = takes.recv().await.expect("it publishes");
    let mut socket = TcpStream::from_std(socket).expect("a socket that does not block");
    let (mut reader, mut tags, mut piece) = (FlvReader::new(1 << 20), Vec::new(), vec![0; 64 << 10]);
    while tags.len() < TAGS {
        let bytes = socket.read(&mut piece).await.expect("bytes");
        reader.push(&piece[..bytes]);
        while let Some(tag) = reader.next_tag().expect("FLV") {
            tags.push((tag, Instant::now()));
        }
    }
    channel.abort();
    tags
}

#[tokio::test(start_paused = true)]
async fn a_channel_goes_on_as_ever_when_the_time_of_rtmp_wraps() {
    let wraps = 1_u64 << 32;
    let ordinary = tags_after(Duration::ZERO).await;
    for (before, remark) in [(3_000, "2^32 ms is passed"), (wraps / 2 + 3_000, "2^31 ms is passed")] {
        let played_ms = wraps - before;
        let tags = tags_after(Duration::from_millis(played_ms)).await;
        let (first, began) = (tags[0].0.timestamp, tags[0].1);
        assert_eq!(first, (u64::from(ordinary[0].0.timestamp) + played_ms) as u32);
        for ((tag, at), (other, other_at)) in tags.iter().zip(&ordinary) {
            let passed = |tag: &Tag, first: u32| tag.timestamp.wrapping_sub(first);
            assert_eq!(passed(tag, first), passed(other, ordinary[0].0.timestamp), "{remark}");
            assert!(tag.kind == other.kind && tag.body == other.body, "{remark}");
            assert_eq!(*at - began, *other_at - ordinary[0].1, "{remark}: it comes at its time");
        }
    }
}
