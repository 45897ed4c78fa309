//! Reads at a pace that cannot be derived from the file: guessing must never cost more than not
//! guessing.

use std::io::SeekFrom;
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use range_reader::{AsyncRangeReader, Counters, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::Instant;

use crate::engine::like_a_local_file::{MONTH, config, habits, links};
use crate::engine::world::{Habits, Link, World, file_of};

const RUNS: u64 = 170;
/// Bytes from one run to the next.
const PACE: u64 = 142_000;
const RUN: u64 = 90_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_guessed_gives_no_wrong_byte(
        pace in 3000..40_000_u64,
        run in 0.02..0.9_f64,
        jitter in 0.0..0.4_f64,
        habits in habits(),
        config in config(),
        link in links(),
    ) {
        let mut stray = strays((pace as f64 * jitter * 0.25) as u64);
        let run = ((pace as f64 * run) as u64).max(1);
        let runs: Vec<Range<u64>> =
            (0..60).map(|n| (n * pace + stray(), run + stray())).map(|(start, size)| start..start + size).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // Where each second request fails, that is the one that is waited for each time, if one is
        // asked ahead between.
        let habits = Habits { fails_every: habits.fails_every.map(|every| 2 * every + 1), ..habits };
        let config = ReaderConfig { learn: true, ..config };
        let read = async { tokio::time::timeout(MONTH, read(link, habits, &runs, config)).await };
        runtime.block_on(read).expect("a read never ends");
    }
}

/// Runs whose starts and ends stray from an even pace by up to `jitter` to both sides, as those of
/// a file of constant bit rate: by the sum of four evenly distributed numbers.
fn runs(jitter: u64) -> Vec<Range<u64>> {
    let mut stray = strays(jitter);
    (0..RUNS).map(|run| run * PACE + stray()..run * PACE + RUN + stray()).collect()
}

fn strays(jitter: u64) -> impl FnMut() -> u64 {
    let mut random = 7_u64;
    move || {
        let mut sum = 0;
        for _ in 0..4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (random >> 33) % (jitter / 2 + 1);
        }
        sum
    }
}

async fn read(link: Link, habits: Habits, runs: &[Range<u64>], config: ReaderConfig) -> (Counters, f64) {
    read_by(link, habits, runs, config, usize::MAX).await
}

/// In reads of at most so many bytes.
async fn read_by(
    link: Link,
    habits: Habits,
    runs: &[Range<u64>],
    config: ReaderConfig,
    bytes_max: usize,
) -> (Counters, f64) {
    let file = file_of(runs.last().map_or(0, |run| run.end + 10_000) as usize);
    let world = World::new(file.clone(), link, habits);
    let mut reader = AsyncRangeReader::with_source(world.source(), config);
    let begun = Instant::now();
    for run in runs {
        let mut piece = vec![0; (run.end - run.start) as usize];
        reader.seek(SeekFrom::Start(run.start)).await.unwrap();
        for part in piece.chunks_mut(bytes_max) {
            reader.read_exact(part).await.unwrap();
        }
        assert!(piece == file[run.start as usize..run.end as usize], "{run:?}");
    }
    let counters = reader.counters();
    let sum = counters.bytes_used + counters.bytes_skipped + counters.bytes_wasted + counters.bytes_buffered;
    assert_eq!(counters.bytes_received, sum, "{counters:?}");
    (counters, begun.elapsed().as_secs_f64())
}

fn useful(runs: &[Range<u64>]) -> f64 {
    runs.iter().map(|run| (run.end - run.start) as f64).sum()
}

fn seconds_through(link: Link) -> f64 {
    (RUNS * PACE) as f64 / link.bytes_per_second + 2.0 * link.round_trip.as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn a_pace_with_jitter_spares_most_of_the_gaps_and_their_time() {
    let runs = runs(10_000);
    for link in [Link::COUNTRY, Link::FAR] {
        let (counters, seconds) = read(link, Habits::default(), &runs, ReaderConfig::default()).await;
        let ratio = counters.bytes_received as f64 / useful(&runs);
        assert!(ratio < 1.25, "{ratio}, reading through takes 1.58: {counters:?}");
        let through = seconds_through(link);
        assert!(seconds < 0.92 * through, "{seconds} s, reading through takes {through}: {counters:?}");
        assert!(counters.connections <= 5, "{counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pace_takes_no_longer_than_reading_through_where_it_cannot_be_guessed() {
    let plain = ReaderConfig::default();
    let one_range = ReaderConfig { several_ranges: false, ..plain.clone() };
    let erratic = Habits { fails_every: Some(9), ..Habits::default() };
    let cases = [
        ("near", Link::NEAR, Habits::default(), 10_000, &plain),
        ("jitter like the gaps", Link::COUNTRY, Habits::default(), 50_000, &plain),
        ("single ranges", Link::COUNTRY, Habits::default(), 10_000, &one_range),
        ("HTTP/2", Link::COUNTRY, Habits { http2: true, ..Habits::default() }, 10_000, &plain),
        (
            "refuses several",
            Link::COUNTRY,
            Habits { refuses_several: true, ..Habits::default() },
            10_000,
            &plain,
        ),
        ("each ninth request fails", Link::COUNTRY, erratic, 10_000, &plain),
    ];
    for (name, link, habits, jitter, config) in cases {
        let runs = runs(jitter);
        let (counters, seconds) = read(link, habits, &runs, config.clone()).await;
        let through = seconds_through(link);
        // A pause of 200 ms behind each failed request is the reader's own.
        let pauses = counters.retries as f64 * 0.25;
        assert!(
            seconds < 1.1 * through + pauses,
            "{name}: {seconds} s, reading through takes {through}: {counters:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn near_a_slow_server_requests_are_few() {
    let runs = runs(10_000);
    for (milliseconds, bytes_per_second) in
        [(1, 1e5), (5, 1.25e5), (5, 3e5), (20, 1.25e5), (50, 1.25e5), (10, 1e6), (5, 2.5e6)]
    {
        let link = Link { round_trip: Duration::from_millis(milliseconds), bytes_per_second };
        let (counters, seconds) = read(link, Habits::default(), &runs, ReaderConfig::default()).await;
        // As if each run were asked for when it is read.
        let asked = useful(&runs) / bytes_per_second + 2.0 * RUNS as f64 * link.round_trip.as_secs_f64();
        assert!(seconds < 1.25 * asked, "{link:?}: {seconds} s of {asked}, {counters:?}");
        assert!(counters.requests < 2 * RUNS, "{link:?}: {counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_where_it_was_expected_to_end_is_read() {
    let mut stray = strays(1622);
    let runs: Vec<Range<u64>> = (0..60)
        .map(|n| (n * 18_981 + stray(), 5971 + stray()))
        .map(|(start, size)| start..start + size)
        .collect();
    let habits = Habits { breaks_after: Some(6724), ..Habits::default() };
    let config = ReaderConfig {
        look_back_bytes: 0,
        window_bytes: 1,
        ranges_per_request_max: 2,
        several_ranges: false,
        ..ReaderConfig::default()
    };
    let read = tokio::time::timeout(MONTH, read(Link::NEAR, habits, &runs, config));
    read.await.expect("a read never ends");
}

#[tokio::test(start_paused = true)]
async fn a_long_run_after_many_short_ones_is_not_asked_for_by_the_byte() {
    for jitter in [0, 40, 4000] {
        for link in [Link::COUNTRY, Link::NEAR, Link::FAR] {
            let mut stray = strays(jitter);
            let mut runs: Vec<Range<u64>> = (0..40)
                .map(|n| (n * 142_000 + stray(), 90_000 + stray()))
                .map(|(start, size)| start..start + size)
                .collect();
            runs.push(40 * 142_000..40 * 142_000 + 3_000_000);
            let (before, _) = read(link, Habits::default(), &runs[..40], ReaderConfig::default()).await;
            let (counters, _) =
                read_by(link, Habits::default(), &runs, ReaderConfig::default(), 16_384).await;
            // No more than one for each read of the long run.
            let reads = 3_000_000 / 16_384;
            assert!(
                counters.requests < before.requests + reads,
                "{jitter} {link:?}: {counters:?}, {before:?}"
            );
        }
    }
}
