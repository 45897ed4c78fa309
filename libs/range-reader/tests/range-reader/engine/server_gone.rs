//! A server that goes away in the middle and comes back, or comes back with another file.

use std::io::{ErrorKind, SeekFrom};
use std::time::Duration;

use range_reader::error::SourceError;
use range_reader::{AsyncRangeReader, ReadError, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::sleep;

use crate::engine::world::{Habits, Link, World, file_of};

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_at_the_byte_once_the_server_is_back() {
    let file = file_of(2_000_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let outage = async {
        sleep(Duration::from_millis(400)).await;
        world.set_down(true);
        sleep(Duration::from_secs(2)).await;
        world.set_down(false);
    };
    let mut got = Vec::new();
    let (result, ()) = tokio::join!(reader.read_to_end(&mut got), outage);
    result.unwrap();
    assert!(got == file);
    let counters = reader.counters();
    assert!((1..=8).contains(&counters.retries), "{counters:?}");
    assert_eq!(counters.bytes_used, file.len() as u64);
    assert!(counters.bytes_wasted < 300_000, "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn tries_end_and_begin_anew_with_the_next_read() {
    let file = file_of(100_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    world.set_down(true);
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut piece = [0; 1000];
    let error = reader.read_exact(&mut piece).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert_eq!(world.requests(), 6, "the first and five more");
    world.set_down(false);
    reader.read_exact(&mut piece).await.unwrap();
    assert!(piece == file[..1000]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_gives_a_byte_a_connection_is_not_flooded() {
    let file = file_of(100_000);
    let habits = Habits { breaks_after: Some(1), ..Habits::default() };
    let world = World::new(file.clone(), Link::NEAR, habits);
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let began = tokio::time::Instant::now();
    let mut piece = [0; 20];
    reader.read_exact(&mut piece).await.unwrap();
    assert!(piece == file[..20]);
    // On a clock that only the waits move.
    assert!(began.elapsed() >= 19 * ReaderConfig::default().pause, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_in_the_time_that_is_documented() {
    let file = file_of(100_000);
    let habits = Habits { is_silent: true, ..Habits::default() };
    let world = World::new(file, Link::COUNTRY, habits);
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    for has_hints in [false, true] {
        if has_hints {
            reader.will_need([0..1000, 50_000..60_000]);
        }
        let began = tokio::time::Instant::now();
        let error = reader.read_exact(&mut [0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
        assert_eq!(began.elapsed().as_secs(), ReaderConfig::default().silence_max.as_secs());
        assert_eq!(world.open(), (0, 0, 0), "what was in flight is given up");
        // Time that nobody waits is no silence.
        let waiting = tokio::time::timeout(Duration::from_secs(20), reader.len());
        waiting.await.unwrap_err();
        sleep(Duration::from_secs(3600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cuts_every_answer_short_ends_after_so_many_requests() {
    let file = file_of(20_000_000);
    for bytes in [1000, 20_000, 64 << 10, 200_000] {
        for habits in [
            Habits { breaks_after: Some(bytes), ..Habits::default() },
            Habits { shortens_to: Some(bytes), ..Habits::default() },
        ] {
            let world = World::new(file.clone(), Link::COUNTRY, habits);
            let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
            let error = reader.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{habits:?}: {error}");
            let most = 2 * u64::from(ReaderConfig::default().cut_answers_max);
            assert!(world.requests() <= most, "{habits:?}: {} requests", world.requests());
        }
    }
    // One that sends a MiB at a time is read.
    let habits = Habits { shortens_to: Some(1 << 20), ..Habits::default() };
    let world = World::new(file.clone(), Link::COUNTRY, habits);
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut all = Vec::new();
    reader.read_to_end(&mut all).await.unwrap();
    assert!(all == file);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_short_now_and_then_do_not_add_up() {
    let file = file_of(20_000_000);
    let mut failed = Vec::new();
    for pause in [Duration::ZERO, Duration::from_secs(60)] {
        let habits = Habits { shortens_to: Some(40_000), ..Habits::default() };
        let world = World::new(file.clone(), Link::COUNTRY, habits);
        let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
        let mut has_failed = false;
        for place in 0..100 {
            reader.seek(SeekFrom::Start(place * 150_000)).await.unwrap();
            has_failed |= reader.read_exact(&mut [0; 60_000]).await.is_err();
            sleep(pause).await;
        }
        failed.push(has_failed);
    }
    assert_eq!(failed, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_an_error_from_then_on() {
    let world = World::new(file_of(3_000_000), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut piece = vec![0; 10_000];
    reader.read_exact(&mut piece).await.unwrap();
    world.replace(file_of(3_000_000).into_iter().rev().collect::<Vec<_>>());
    reader.seek(SeekFrom::Start(2_000_000)).await.unwrap();
    for _ in 0..2 {
        let error = reader.read_exact(&mut piece).await.unwrap_err();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
        assert_eq!(inner, Some(&ReadError::Source(SourceError::Changed)));
        // Not even what was read from the file that it was.
        reader.seek(SeekFrom::Start(0)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_comes_to_the_end_of_the_whole_file_is_given_up() {
    let file = file_of(1_000_000);
    for (start, has_hints) in [(0, false), (0, true), (900_000, false), (900_000, true)] {
        let habits = Habits { no_ranges: true, breaks_after: Some(100_000), ..Habits::default() };
        let world = World::new(file.clone(), Link::COUNTRY, habits);
        let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
        if has_hints {
            reader.will_need([900_000..950_000, 10_000..20_000]);
        }
        reader.seek(SeekFrom::Start(start)).await.unwrap();
        let error = reader.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        // Its answers break off at points that differ: some bring a little more than those before.
        assert!(world.requests() <= 40, "{} requests from {start}", world.requests());
        let counters = reader.counters();
        assert!(counters.retries + 1 >= world.requests(), "{counters:?}");
    }
}
