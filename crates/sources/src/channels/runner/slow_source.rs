//! A channel whose source brings frames more slowly than they are played, on a clock that stands
//! unless nothing else happens.

use std::io::Cursor;

use mp4::{Limits, Mp4};
use tokio::sync::oneshot;

use super::super::item::{Item, ItemInfo};
use super::super::location::Location;
use super::super::playlist::OpenTimeouts;
use super::super::queue::{Sender, queue};
use super::super::status::Snapshot;
use super::wraps::{FILM, worker};
use super::*;
use crate::thread::IngestThread;

const MS: Duration = Duration::from_millis(1);
/// Longer than between any two frames, audio included, that come in time.
const PAUSE_MIN: Duration = Duration::from_millis(150);

/// Video and audio of so many rounds of the film, as of one file that is as long as all of them.
fn samples(rounds: u32) -> (ItemInfo, Vec<Sample>) {
    let (mut all, mut info) = (Vec::new(), None);
    for round in 0..rounds {
        let mut mp4 = Mp4::open(Cursor::new(FILM), Limits::default()).expect("a film");
        let length = mp4.frames_duration().expect("a length");
        let begins = mp4.seek_to(Duration::ZERO).expect("a beginning");
        let tracks = mp4.video().into_iter().chain(mp4.audio()).cloned().collect();
        info.get_or_insert(ItemInfo { duration: Some(length * rounds), begins, tracks });
        while let Some(mut sample) = mp4.next_sample().expect("a readable film") {
            sample.frame.dts += (length * round).into();
            sample.frame.pts += (length * round).into();
            all.push(sample);
        }
    }
    (info.expect("one round at least"), all)
}

/// Plays `rounds` of the film once, as `feed` brings them, and says by how much each pause was
/// longer than the time between frames, and how the channel was in the end.
async fn pauses<F: Future<Output = ()> + Send + 'static>(
    rounds: u32,
    feed: impl FnOnce(Vec<Sample>, Sender<Result<Sample, String>>) -> F + Send + Sync + 'static,
) -> (Vec<Duration>, Snapshot) {
    let (info, samples) = samples(rounds);
    let status = Arc::new(Status::new(String::new(), Location::some(1), SystemTime::UNIX_EPOCH));
    let mut feed = Some((feed, samples));
    let opener = Box::new(move |_, _| {
        let (tell, opened) = oneshot::channel();
        let (sender, queued) = queue(usize::MAX);
        tell.send(Ok(info.clone())).expect("a listener");
        let (feed, samples) = feed.take().expect("opened once");
        tokio::spawn(feed(samples, sender));
        Item::scripted(opened, queued)
    });
    let timeouts = OpenTimeouts { open: Duration::from_secs(60), frame: Duration::from_secs(10) };
    let playlist = Playlist::new(opener, 1, false, timeouts, Arc::clone(&status));
    let thread = IngestThread::start().expect("a thread");
    let (ingest, mut takes) = worker(&thread);
    let (_commands, commands) = mpsc::channel(1);
    let (_removed, removed) = watch::channel(false);
    let (app, name) = ("live".to_owned(), "a".to_owned());
    let (settings, shared) = (Arc::new(SourceSettings::default()), Arc::clone(&status));
    let parts = Parts { app, name, start: None, settings, ingest, status: shared, commands, removed };
    tokio::spawn(Runner::new(parts, playlist).run());
    let mut publication = takes.recv().await.expect("it publishes");
    let (mut pauses, mut last) = (Vec::new(), None);
    while publication.next().await.is_some() {
        let now = Instant::now();
        let waited = now - last.replace(now).unwrap_or(now);
        if waited > PAUSE_MIN {
            pauses.push(waited);
        }
    }
    (pauses, status.snapshot())
}

#[tokio::test(start_paused = true)]
async fn a_source_a_little_too_slow_stops_a_few_times_and_the_sum_is_told() {
    // Six sevenths of real time, for a minute.
    let (pauses, now) = pauses(50, async |samples: Vec<Sample>, sender: Sender<_>| {
        let began = Instant::now();
        for sample in samples {
            let due = sample.frame.dts.to_duration();
            sleep_until(began + due * 7 / 6).await;
            sender.push(Ok(sample), 1).expect("room");
        }
    })
    .await;
    // The first time nothing is gathered: frames come late, one by one.
    assert_eq!(now.pauses, 1 + pauses.len() as u64, "{pauses:?}, {:#?}", now.events);
    let seconds: Vec<u64> = pauses.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [1, 2, 4, 8], "{pauses:?}");
    let sum: Duration = pauses.iter().sum();
    assert!((sum..sum + 1_500 * MS).contains(&now.behind), "{sum:?}, {:?}", now.behind);
    let late: Vec<_> = now.events.iter().filter(|event| event.kind == EventKind::Late).collect();
    let last = &late.last().expect("events").message;
    assert!(
        last.contains("late again; more are gathered for up to") && last.contains("behind in all"),
        "{last}"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_when_no_more_comes() {
    let (pauses, now) = pauses(10, async |samples: Vec<Sample>, sender: Sender<_>| {
        let began = Instant::now();
        for (index, sample) in samples.into_iter().enumerate() {
            // Twice it has nothing for some seconds; then everything else comes at once.
            match index {
                100 => sleep_until(began + 5_000 * MS).await,
                200 => sleep_until(began + 15_500 * MS).await,
                _ => {}
            }
            sender.push(Ok(sample), 1).expect("room");
        }
    })
    .await;
    assert_eq!((pauses.len(), now.pauses), (2, 2), "{pauses:?}");
    assert!(now.events[1].message.contains("more are gathered"), "{:?}", now.events);
    let sum: Duration = pauses.iter().sum();
    assert!(
        sum.abs_diff(now.behind) < 200 * MS,
        "the second that was not needed does not count: {pauses:?}, {now:?}"
    );
}
