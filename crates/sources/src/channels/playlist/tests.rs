//! Playlists of scripted items, on a clock that stands unless nothing else happens.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::SystemTime;

use media::{Codec, Frame, FrameRole, TrackId};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::location::Location;
use super::super::queue::{Sender, queue};
use super::super::status::{Snapshot, State};
use super::*;

const FRAME_NS: i64 = 40_000_000;
const DAYS: Duration = Duration::from_secs(4 * 86_400);
const TIMEOUTS: OpenTimeouts = OpenTimeouts { open: Duration::from_secs(60), frame: Duration::from_secs(10) };

/// What becomes of an item when it is opened.
#[derive(Debug, Clone, Copy)]
enum Script {
    /// It has so many frames of 40 ms.
    Plays(u32),
    /// After so many frames it breaks.
    Breaks(u32),
    /// After so many frames nothing comes any more.
    Stalls(u32),
    /// After so many frames the next one is of half a minute later.
    Gap(u32),
    /// It has so many frames, of which the last pretends to last for days.
    Lasts(u32),
    /// It cannot be opened.
    Missing,
    /// Opening never ends.
    Hangs,
}

/// Openings so far: index and position, and their queues, which a stalled item keeps open.
type Log = Arc<Mutex<(Vec<(usize, Duration)>, Vec<Held>)>>;
type Held = (Sender<Result<Sample, String>>, Option<oneshot::Sender<Result<ItemInfo, String>>>);

/// A playlist whose items go through these scripts, one each time they are opened, the last one for
/// ever.
fn playlist(scripts: &[&[Script]], looped: bool) -> (Playlist, Arc<Status>, Log) {
    let status = Arc::new(Status::new(String::new(), Location::some(scripts.len()), SystemTime::UNIX_EPOCH));
    let log = Log::default();
    let mut scripts: Vec<VecDeque<Script>> =
        scripts.iter().map(|own| own.iter().copied().collect()).collect();
    let items = scripts.len();
    let opened = Arc::clone(&log);
    let opener: Opener = Box::new(move |index, join| {
        let own = &mut scripts[index];
        let script = if own.len() > 1 { own.pop_front() } else { own.front().copied() };
        opened.lock().expect("a log").0.push((index, join));
        open(script.expect("a script"), join, &opened)
    });
    (Playlist::new(opener, items, looped, TIMEOUTS, Arc::clone(&status)), status, log)
}

fn open(script: Script, join: Duration, log: &Log) -> Item {
    let (tell, opened) = oneshot::channel();
    let (sender, samples) = queue(usize::MAX);
    let (frames, ending) = match script {
        Plays(frames) | Lasts(frames) => (frames, None),
        Gap(frames) => (frames, Some(Ok(sample(i64::from(frames) + 750)))),
        Breaks(frames) => (frames, Some(Err("cut off".to_owned()))),
        Stalls(frames) => (frames, None),
        Missing | Hangs => (0, None),
    };
    let days = if let Lasts(_) = script { DAYS } else { Duration::ZERO };
    let length = Duration::from_nanos(u64::from(frames) * FRAME_NS as u64) + days;
    let skipped = (join.as_nanos() / FRAME_NS as u128) as u32;
    let info = ItemInfo {
        duration: Some(length),
        begins: Duration::from_nanos(u64::from(skipped) * FRAME_NS as u64),
        tracks: Vec::new(),
    };
    for index in skipped..frames {
        let mut sample = sample(index.into());
        if index + 1 == frames {
            sample.duration += days.into();
        }
        sender.push(Ok(sample), 1).expect("room");
    }
    if let Some(ending) = ending {
        sender.push(ending, 1).expect("room");
    }
    match script {
        Hangs => log.lock().expect("a log").1.push((sender, Some(tell))),
        Missing => tell.send(Err("not found".to_owned())).expect("a listener"),
        Stalls(_) => {
            tell.send(Ok(info)).expect("a listener");
            log.lock().expect("a log").1.push((sender, None));
        }
        _ => tell.send(Ok(info)).expect("a listener"),
    }
    Item::scripted(opened, samples)
}

fn sample(index: i64) -> Sample {
    let at = Timestamp::from_ticks(index * FRAME_NS, 1_000_000_000);
    Sample {
        frame: Frame::new(TrackId::VIDEO, FrameRole::Key, Codec::H264, (at, at), Vec::new()),
        config: None,
        track_id: 1,
        duration: Timestamp::from_ticks(FRAME_NS, 1_000_000_000),
        is_hidden: false,
        offset: 0,
    }
}

/// What comes out, shortened: `[` an item, its number of frames, `]` its end, `~` a wait, `!`
/// nothing can be played, `.` the end.
async fn events_of(playlist: &mut Playlist, events: usize) -> String {
    let mut out = String::new();
    let mut frames = 0;
    for _ in 0..events {
        match playlist.next().await {
            Next::Begins(_) => out.push('['),
            Next::Frame { .. } => frames += 1,
            Next::Waits => out.push('~'),
            Next::Ends(length) => {
                let ending = if length.is_some() { "]" } else { "/" };
                out.push_str(&format!("{frames}{ending}"));
                frames = 0;
            }
            Next::Nothing => out.push('!'),
            Next::Over => {
                out.push('.');
                break;
            }
        }
    }
    out
}

fn broken(now: &Snapshot) -> Vec<(Option<usize>, &str)> {
    let of = |event: &super::super::status::Event| event.kind == EventKind::Broken;
    now.events.iter().filter(|event| of(event)).map(|event| (event.item, event.message.as_str())).collect()
}

use Script::{Breaks, Gap, Hangs, Lasts, Missing, Plays, Stalls};

#[tokio::test(start_paused = true)]
async fn items_follow_each_other_and_the_first_follows_the_last() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Plays(50)]], true);
    assert_eq!(events_of(&mut playlist, 2 * (32 + 52) + 1).await, "[30][50][30][50][");
    let now = status.snapshot();
    assert_eq!((now.loops, now.items_played, now.items_failed, now.item), (2, 4, 0, Some(0)));
    assert_eq!(now.items[1].duration, Some(Duration::from_secs(2)));
    assert!(now.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_comes_next_is_told_from_the_beginning_of_an_item_on() {
    // A minute each: nothing is opened ahead yet.
    for (items, looped, next) in [(1, true, Some(0)), (2, true, Some(1)), (1, false, None)] {
        let scripts = vec![&[Plays(1_500)][..]; items];
        let (mut playlist, status, log) = playlist(&scripts, looped);
        assert!(events_of(&mut playlist, 1).await.starts_with('['));
        let now = status.snapshot();
        assert_eq!((now.item, now.next, now.next_ready), (Some(0), next, false));
        assert_eq!(log.lock().expect("a log").0.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_playlist_that_is_played_once_ends() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Missing]], false);
    assert_eq!(events_of(&mut playlist, 100).await, "[30].");
    assert_eq!(broken(&status.snapshot()), [(Some(1), "not found")]);
}

#[tokio::test(start_paused = true)]
async fn the_next_item_is_open_before_the_present_one_ends_but_not_long_before() {
    let (mut playlist, status, log) = playlist(&[&[Plays(1_000)], &[Plays(10)]], true); // forty seconds
    let opened = || log.lock().expect("a log").0.len();
    events_of(&mut playlist, 1 + 499).await;
    assert_eq!(opened(), 1, "twenty seconds and one frame are left");
    events_of(&mut playlist, 2).await;
    assert_eq!(opened(), 2);
    let now = status.snapshot();
    assert_eq!((now.item, now.next, now.next_ready), (Some(0), Some(1), true), "while frames flow");
    events_of(&mut playlist, 499).await;
    assert_eq!(events_of(&mut playlist, 2).await, "0][", "the queue was empty");
}

#[tokio::test(start_paused = true)]
async fn broken_items_are_skipped_and_told() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Missing], &[Breaks(20)], &[Plays(40)]], true);
    assert_eq!(events_of(&mut playlist, 32 + 22 + 42 + 1).await, "[30][20/[40][");
    let now = status.snapshot();
    assert_eq!(broken(&now)[..2], [(Some(1), "not found"), (Some(2), "cut off")]);
    assert_eq!(now.items[1].last_error.as_deref(), Some("not found"));
    assert_eq!(now.items[0].last_error, None);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_comes_back_is_played_again() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Missing, Plays(30)]], true);
    assert_eq!(events_of(&mut playlist, 32 + 32 + 32).await, "[30][30][30]");
    assert_eq!(
        status.snapshot().items[1],
        super::super::status::ItemStatus {
            duration: status.snapshot().items[0].duration,
            ..Default::default()
        },
        "the error is no longer so, and would be logged again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_that_stalls_is_given_up_after_the_patience_for_a_frame() {
    let (mut playlist, status, _) = playlist(&[&[Stalls(5)], &[Plays(30)]], true);
    let began = Instant::now();
    assert_eq!(events_of(&mut playlist, 7 + 32).await, "[5/[30]");
    assert_eq!(began.elapsed(), TIMEOUTS.frame);
    assert_eq!(broken(&status.snapshot())[0], (Some(0), "nothing came for 10 s"));
}

#[tokio::test(start_paused = true)]
async fn the_patience_for_a_frame_counts_while_a_frame_is_waited_for_only() {
    let (mut playlist, _, _) = playlist(&[&[Stalls(5)], &[Plays(30)]], true);
    assert_eq!(events_of(&mut playlist, 6).await, "[");
    sleep(TIMEOUTS.frame * 5).await; // as if each frame had to wait for its time
    let began = Instant::now();
    assert_eq!(events_of(&mut playlist, 1).await, "0/");
    assert_eq!(began.elapsed(), TIMEOUTS.frame);
}

#[tokio::test(start_paused = true)]
async fn waiting_may_be_given_up_and_begun_again() {
    let (mut playlist, _, _) = playlist(&[&[Stalls(5)], &[Plays(30)]], true);
    events_of(&mut playlist, 6).await;
    let began = Instant::now();
    let ended = loop {
        tokio::select! {
            biased;
            next = playlist.next() => break next,
            () = sleep(Duration::from_millis(700)) => {}
        }
    };
    assert!(matches!(ended, Next::Ends(None)));
    assert_eq!(began.elapsed(), TIMEOUTS.frame, "the wait is one, however often it is looked at");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_does_not_open_does_not_hold_up_the_one_that_plays() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Hangs], &[Plays(40)]], true);
    let began = Instant::now();
    assert_eq!(events_of(&mut playlist, 32).await, "[30]");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(events_of(&mut playlist, 1).await, "~");
    let now = status.snapshot();
    assert_eq!(
        (now.item, now.next, now.next_ready),
        (None, Some(1), false),
        "nothing plays while it is waited for"
    );
    assert_eq!(events_of(&mut playlist, 42).await, "[40]");
    assert_eq!(began.elapsed(), TIMEOUTS.frame, "the picture stands no longer than for a frame");
    assert_eq!(broken(&status.snapshot())[0], (Some(1), "it could not be opened within 10 s"));
}

#[tokio::test(start_paused = true)]
async fn the_first_item_has_more_time_to_open() {
    let (mut playlist, ..) = playlist(&[&[Hangs], &[Plays(40)]], true);
    let began = Instant::now();
    assert_eq!(events_of(&mut playlist, 43).await, "~[40]");
    assert_eq!(began.elapsed(), TIMEOUTS.open, "nobody watches yet");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_does_not_open_can_be_skipped() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Hangs], &[Plays(40)]], true);
    events_of(&mut playlist, 33).await;
    tokio::select! {
        biased;
        _ = playlist.next() => panic!("it hangs"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert!(playlist.skip());
    let began = Instant::now();
    assert_eq!(events_of(&mut playlist, 42).await, "[40]");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(status.snapshot().events[0].kind, EventKind::Skipped);
}

#[tokio::test(start_paused = true)]
async fn what_is_opened_for_its_length_only_is_not_what_comes_next() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Hangs]], true);
    events_of(&mut playlist, 10).await;
    status.enter(State::Opening, SystemTime::UNIX_EPOCH, None);
    tokio::select! {
        biased;
        _ = playlist.join(|| Duration::from_secs(5)) => panic!("it hangs"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let now = status.snapshot();
    assert_eq!((now.item, now.next, now.next_ready), (None, None, false));
    assert_eq!(now.items[0].duration, Some(Duration::from_millis(1_200)));
    assert_eq!(status.can_skip(), Err(State::Opening));
}

#[tokio::test(start_paused = true)]
async fn when_nothing_can_be_played_that_is_said_once_a_round() {
    let (mut playlist, status, log) = playlist(&[&[Missing], &[Missing, Missing, Plays(30)]], true);
    assert_eq!(events_of(&mut playlist, 2).await, "!!");
    assert_eq!(log.lock().expect("a log").0.len(), 4, "each item once a round");
    assert_eq!(events_of(&mut playlist, 32).await, "[30]");
    assert_eq!(status.snapshot().items_failed, 6, "five before it, and the first one again while it played");
}

#[tokio::test(start_paused = true)]
async fn items_that_break_at_once_are_no_reason_to_open_them_without_end() {
    for script in [Breaks(0), Breaks(3), Plays(0), Plays(1)] {
        let (mut playlist, _, log) = playlist(&[&[script], &[script]], true);
        let out = events_of(&mut playlist, 20).await;
        assert!(out.contains('!'), "{script:?}: {out}");
        let first = out.find('!').expect("found");
        assert_eq!(out[..first].matches('[').count(), 2, "{script:?}: {out}");
        assert!(log.lock().expect("a log").0.len() <= 3 * (out.matches('!').count() + 1), "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn skipping_leaves_the_present_item() {
    let (mut playlist, status, _) = playlist(&[&[Plays(30)], &[Plays(40)]], true);
    assert!(!playlist.skip(), "nothing plays yet");
    events_of(&mut playlist, 6).await;
    assert!(playlist.skip());
    assert_eq!(events_of(&mut playlist, 42).await, "[40]");
    assert_eq!(status.snapshot().events[0].kind, EventKind::Skipped);
}

#[tokio::test(start_paused = true)]
async fn a_playlist_is_joined_where_it_would_be() {
    // 10 s, nothing, 20 s
    let scripts: [&[Script]; 3] = [&[Plays(250)], &[Missing], &[Plays(500)]];
    let (mut playlist, status, log) = playlist(&scripts, true);
    let moment = Instant::now();
    let joined = playlist.join(|| Duration::from_secs(3_000 + 17)).await;
    assert_eq!(joined, Joined::At { position: Duration::from_secs(7), moment });
    let Next::Begins(info) = playlist.next().await else { panic!("no item") };
    assert_eq!(info.begins, Duration::from_secs(7));
    let opened = log.lock().expect("a log").0.clone();
    let zero = Duration::ZERO;
    assert_eq!(opened, [(0, zero), (1, zero), (2, zero), (2, Duration::from_secs(7))]);
    assert_eq!((status.snapshot().item, status.snapshot().loops), (Some(2), 100));
    assert_eq!(events_of(&mut playlist, 325 + 1).await, "325]");
    assert_eq!(events_of(&mut playlist, 252).await, "[250]", "and goes on as ever");
    assert_eq!(status.snapshot().loops, 101);
}

#[tokio::test(start_paused = true)]
async fn a_playlist_that_is_over_or_has_nothing_to_play_cannot_be_joined() {
    let (mut once, ..) = playlist(&[&[Plays(250)]], false);
    assert_eq!(once.join(|| Duration::from_secs(11)).await, Joined::Over);
    assert!(matches!(once.next().await, Next::Over));
    let (mut nothing, ..) = playlist(&[&[Missing, Plays(250)]], true);
    assert_eq!(nothing.join(|| Duration::from_secs(11)).await, Joined::Nothing);
    let again = nothing.join(|| Duration::from_secs(11)).await;
    assert!(matches!(again, Joined::At { position, .. } if position == Duration::from_secs(1)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_item_with_a_long_gap_is_broken_there() {
    let (mut playlist, status, _) = playlist(&[&[Gap(30)], &[Plays(40)]], true);
    assert_eq!(events_of(&mut playlist, 32 + 42).await, "[30/[40]");
    assert_eq!(broken(&status.snapshot())[0], (Some(0), "it has nothing to play for 30 s"));
}

#[tokio::test(start_paused = true)]
async fn a_last_frame_does_not_last_for_days() {
    let (mut playlist, status, _) = playlist(&[&[Lasts(30)], &[Plays(40)]], true);
    for _ in 0..31 {
        playlist.next().await;
    }
    let Next::Ends(Some(length)) = playlist.next().await else { panic!("it ends") };
    assert!(length <= Duration::from_secs(3) + GAP_MAX.to_duration(), "{length:?}");
    assert_eq!(status.snapshot().items[0].duration, Some(length));
}

#[tokio::test(start_paused = true)]
async fn it_is_told_whether_a_frame_was_waited_for() {
    let (mut playlist, _, log) = playlist(&[&[Stalls(5)]], true);
    playlist.next().await;
    let mut awaited = Vec::new();
    for index in 0..7 {
        let log = Arc::clone(&log);
        let later = async {
            if index == 5 {
                sleep(Duration::from_secs(1)).await;
                for index in 5..7 {
                    log.lock().expect("a log").1[0].0.push(Ok(sample(index)), 1).expect("room");
                }
            }
        };
        let (next, ()) = tokio::join!(playlist.next(), later);
        let Next::Frame { was_awaited, .. } = next else { panic!("a frame") };
        awaited.push(was_awaited);
    }
    assert_eq!(awaited, [false, false, false, false, false, true, false]);
}
