//! What hints save: requests, connections, bytes and time.

use std::io::SeekFrom;
use std::ops::Range;

use range_reader::{AsyncRangeReader, Counters, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::Instant;

use crate::engine::world::{Habits, Link, World, file_of};

/// Runs like those of a film's video and audio: 90 kB of every 142 kB, an index at the end, read
/// first.
fn film() -> Vec<Range<u64>> {
    let index = [0..48, 8_500_000..8_530_000];
    index.into_iter().chain((0..60).map(|run| 100 + run * 141_000..90_100 + run * 141_000)).collect()
}

async fn read(
    world: &World,
    reads: &[Range<u64>],
    file: &[u8],
    config: ReaderConfig,
    has_hints: bool,
) -> (Counters, f64) {
    let mut reader = AsyncRangeReader::with_source(world.source(), config);
    if has_hints {
        reader.will_need(reads.iter().cloned());
    }
    let began = Instant::now();
    for range in reads {
        let mut run = vec![0; (range.end - range.start) as usize];
        reader.seek(SeekFrom::Start(range.start)).await.unwrap();
        reader.read_exact(&mut run).await.unwrap();
        assert!(run == file[range.start as usize..range.end as usize]);
    }
    (reader.counters(), began.elapsed().as_secs_f64())
}

fn useful(reads: &[Range<u64>]) -> u64 {
    reads.iter().map(|range| range.end - range.start).sum()
}

#[tokio::test(start_paused = true)]
async fn a_list_of_runs_takes_two_requests_on_one_connection() {
    let file = file_of(8_600_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let (counters, seconds) = read(&world, &film(), &file, ReaderConfig::default(), true).await;
    assert_eq!((counters.requests, counters.connections), (2, 1), "{counters:?}");
    assert_eq!(counters.bytes_received, useful(&film()), "{counters:?}");
    let least = useful(&film()) as f64 / Link::COUNTRY.bytes_per_second;
    assert!(seconds < least + 0.4, "{seconds} s, the link takes {least} s");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_several_ranges_is_asked_for_one_at_a_time() {
    let file = file_of(8_600_000);
    for http2 in [false, true] {
        let world = World::new(
            file.clone(),
            Link::COUNTRY,
            Habits { refuses_several: true, http2, ..Habits::default() },
        );
        let (counters, seconds) = read(&world, &film(), &file, ReaderConfig::default(), true).await;
        let through = 8_600_000.0 / Link::COUNTRY.bytes_per_second;
        assert!(seconds < 1.3 * through, "{seconds} s, reading through takes {through} s: {counters:?}");
        // Four at a time, and the one that was given up with the whole file on it.
        assert!(counters.connections <= 5, "{counters:?}");
        assert!(counters.bytes_received <= 8_900_000, "{counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_hints_cost_a_window_and_no_wrong_byte() {
    let file = file_of(8_600_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    reader.will_need((0..40).map(|run| 4_000_000 + run * 100_000..4_050_000 + run * 100_000));
    let mut all = vec![0; 1_000_000];
    reader.read_exact(&mut all).await.unwrap();
    assert!(all == file[..1_000_000]);
    let counters = reader.counters();
    assert!(counters.bytes_received < 1_000_000 + (4 << 20), "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_list_stops_what_the_old_one_asked_for() {
    let file = file_of(8_600_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    reader.will_need(std::iter::once(0..8_000_000));
    let mut piece = vec![0; 100_000];
    reader.read_exact(&mut piece).await.unwrap();
    reader.will_need(std::iter::once(8_400_000..8_500_000));
    reader.seek(SeekFrom::Start(8_400_000)).await.unwrap();
    reader.read_exact(&mut piece).await.unwrap();
    assert!(piece == file[8_400_000..8_500_000]);
    assert_eq!(world.open().1, 0, "the old answer is given up");
    let counters = reader.counters();
    assert!(counters.bytes_received < 1_500_000, "{counters:?}");
}

#[tokio::test(start_paused = true)]
async fn without_hints_a_pattern_is_learned() {
    let file = file_of(8_600_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let (counters, _) = read(&world, &film(), &file, ReaderConfig::default(), false).await;
    assert!(counters.bytes_received < useful(&film()) * 13 / 10, "{counters:?}");
    assert!(counters.requests < 40, "{counters:?}");
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let plain = ReaderConfig { learn: false, ..ReaderConfig::default() };
    let (unlearned, _) = read(&world, &film(), &file, plain, false).await;
    assert!(unlearned.bytes_received > counters.bytes_received, "{unlearned:?}");
    assert_eq!(unlearned.bytes_predicted, 0);
}

/// Reads of a small part of a file, in the order of the file or not.
fn crumbs(order: [u64; 3]) -> Vec<Range<u64>> {
    order.map(|start| start..start + 8000).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_nothing_but_the_whole_file_is_asked_once() {
    let file = file_of(317_000);
    let many = (0..45).map(|run| run * 7000..run * 7000 + 900).collect();
    let lists =
        [crumbs([0, 100_000, 300_000]), crumbs([200_000, 0, 290_000]), crumbs([290_000, 9000, 0]), many];
    for reads in lists {
        for http2 in [false, true] {
            for hides_length in [false, true] {
                let habits = Habits { no_ranges: true, http2, hides_length, ..Habits::default() };
                let world = World::new(file.clone(), Link::COUNTRY, habits);
                let (counters, _) = read(&world, &reads, &file, ReaderConfig::default(), true).await;
                assert_eq!((counters.requests, counters.connections), (1, 1), "{reads:?}: {counters:?}");
                assert!(counters.bytes_received <= 317_000, "{reads:?}: {counters:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_hinted_of_a_whole_file_is_kept_as_far_as_the_window_goes() {
    let file = file_of(8_600_000);
    let habits = Habits { no_ranges: true, ..Habits::default() };
    // Backwards, and more than the window holds: the second look at the file finds the rest.
    let reads: Vec<_> = (0..40).rev().map(|run| run * 200_000..run * 200_000 + 100_000).collect();
    let mut received = Vec::new();
    for has_hints in [true, false] {
        let world = World::new(file.clone(), Link::NEAR, habits);
        let (counters, _) = read(&world, &reads, &file, ReaderConfig::default(), has_hints).await;
        received.push(counters.bytes_received);
    }
    assert!(received[0] <= 3 * 8_600_000, "{received:?}");
    assert!(received[1] > received[0], "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn wrong_hints_cost_nothing_with_a_server_that_sends_the_whole_file() {
    let file = file_of(400_000);
    let habits = Habits { no_ranges: true, ..Habits::default() };
    let world = World::new(file.clone(), Link::COUNTRY, habits);
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    reader.will_need(crumbs([0, 100_000, 300_000]));
    let mut all = Vec::new();
    reader.read_to_end(&mut all).await.unwrap();
    assert!(all == file);
    assert_eq!(world.requests(), 1, "{:?}", world.log());
}

#[tokio::test(start_paused = true)]
async fn what_was_read_and_is_hinted_again_is_not_asked_for_twice() {
    // A player reads the index at the end, then everything from the start on.
    let file = file_of(3_000_000);
    let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
    let config = ReaderConfig { several_ranges: false, ..ReaderConfig::default() };
    let mut reader = AsyncRangeReader::with_source(world.source(), config);
    let mut index = vec![0; 40_000];
    reader.seek(SeekFrom::Start(2_960_000)).await.unwrap();
    reader.will_need(std::iter::once(2_960_000..u64::MAX));
    reader.read_exact(&mut index).await.unwrap();
    reader.seek(SeekFrom::Start(0)).await.unwrap();
    reader.will_need(std::iter::once(0..u64::MAX));
    let mut all = Vec::new();
    reader.read_to_end(&mut all).await.unwrap();
    assert!(all == file);
    assert_eq!(world.requests(), 2, "{:?}", world.log());
    assert_eq!(reader.counters().bytes_received, 3_000_000);
}
