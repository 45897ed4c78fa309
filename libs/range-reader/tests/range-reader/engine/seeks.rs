//! What a seek costs: nothing within memory, nothing to wait for after a short look, and the length
//! when it is needed.

use std::io::{ErrorKind, SeekFrom};
use std::sync::{Arc, Mutex};

use range_reader::{AsyncRangeReader, RangeReader, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::engine::world::{Habits, Link, World, file_of};

#[tokio::test(start_paused = true)]
async fn a_seek_back_within_the_look_back_buffer_asks_nothing() {
    let file = file_of(1_000_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut piece = vec![0; 500_000];
    reader.read_exact(&mut piece).await.unwrap();
    let requests = world.requests();
    reader.seek(SeekFrom::Current(-150_000)).await.unwrap();
    reader.read_exact(&mut piece[..150_000]).await.unwrap();
    assert!(piece[..150_000] == file[350_000..500_000]);
    assert_eq!(world.requests(), requests);
    assert_eq!(reader.counters().bytes_used, 500_000, "read twice, used once");
}

#[tokio::test(start_paused = true)]
async fn looking_at_the_head_and_then_at_the_end_keeps_the_connection() {
    let file = file_of(10_000_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut head = [0; 48];
    reader.read_exact(&mut head).await.unwrap();
    reader.seek(SeekFrom::End(-40_000)).await.unwrap();
    let mut tail = Vec::new();
    reader.read_to_end(&mut tail).await.unwrap();
    assert!(tail == file[9_960_000..]);
    let counters = reader.counters();
    assert_eq!(counters.connections, 1, "{counters:?}");
    assert!(counters.bytes_received < 70_000, "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn a_whole_file_takes_few_requests() {
    let file = file_of(10_000_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let mut all = Vec::new();
    reader.read_to_end(&mut all).await.unwrap();
    assert!(all == file);
    let counters = reader.counters();
    assert!(counters.requests <= 4, "{counters:?}");
    assert_eq!((counters.bytes_received, counters.connections), (10_000_000, 1), "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_and_places_behind_the_end_give_nothing() {
    let world = World::new(Vec::new(), Link::NEAR, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0);
    assert_eq!(reader.len().await.unwrap(), Some(0));
    let world = World::new(file_of(1000), Link::NEAR, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    reader.seek(SeekFrom::Start(u64::MAX)).await.unwrap();
    assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0);
    assert_eq!(reader.seek(SeekFrom::Current(1)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(reader.seek(SeekFrom::End(-1)).await.unwrap(), 999);
    assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_larger_than_allowed_is_refused() {
    let world = World::new(file_of(100_000), Link::NEAR, Habits::default());
    let config = ReaderConfig { file_bytes_max: Some(99_999), ..ReaderConfig::default() };
    let mut reader = AsyncRangeReader::with_source(world.source(), config);
    assert_eq!(reader.read(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn blocking_reads_and_progress() {
    use std::io::{Read, Seek};
    let file = file_of(400_000);
    let world = World::new(
        file.clone(),
        Link { round_trip: std::time::Duration::ZERO, ..Link::NEAR },
        Habits::default(),
    );
    let mut reader = RangeReader::with_source(world.source(), ReaderConfig::default()).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&reported);
    reader
        .on_progress(move |progress| teller.lock().unwrap().push((progress.position, progress.total_bytes)));
    let mut piece = vec![0; 1000];
    reader.seek(SeekFrom::Start(300_000)).unwrap();
    reader.read_exact(&mut piece).unwrap();
    assert!(piece == file[300_000..301_000]);
    assert_eq!(reader.len().unwrap(), Some(400_000));
    assert_eq!(reported.lock().unwrap().last(), Some(&(301_000, Some(400_000))));
    drop(reader);
    assert_eq!(world.open(), (0, 0, 0));
}
