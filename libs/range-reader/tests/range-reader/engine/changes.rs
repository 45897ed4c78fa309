//! What changes while a file is read: the reader pauses, or the path to the server becomes longer.

use std::io::SeekFrom;
use std::ops::Range;
use std::time::Duration;

use range_reader::{AsyncRangeReader, Counters, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::{Instant, sleep};

use crate::engine::world::{Habits, Link, SimSource, World, file_of};

const FILE_BYTES: usize = 17_000_000;

/// 50 ms, which become 200.
const SHORT: Link = Link::COUNTRY;
const LONG: Link = Link { round_trip: Duration::from_millis(200), ..SHORT };

/// Kinds of reads, 120 each, and whether they are hinted.
fn kinds() -> Vec<(&'static str, Vec<Range<u64>>, bool)> {
    let through: Vec<_> = (0..120_u64).map(|at| at * 64_000..(at + 1) * 64_000).collect();
    let film: Vec<_> = (0..120_u64).map(|at| at * 140_000..at * 140_000 + 90_000).collect();
    let mut number = 7_u64;
    let jitter = film.iter().map(|run| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let stray = (number >> 33) % 6000;
        run.start + stray..run.end + stray
    });
    let jitter = jitter.collect();
    let far_apart: Vec<_> = (0..120_u64).map(|at| at * 140_000..at * 140_000 + 4000).collect();
    vec![
        ("through", through, false),
        ("film", film.clone(), true),
        ("film", film, false),
        ("film with jitter", jitter, false),
        ("far apart", far_apart.clone(), true),
        ("far apart", far_apart, false),
    ]
}

struct Reading {
    world: World,
    file: Vec<u8>,
    reader: AsyncRangeReader<SimSource>,
    began: Instant,
}

impl Reading {
    fn new(link: Link, reads: &[Range<u64>], has_hints: bool) -> Self {
        let file = file_of(FILE_BYTES);
        let world = World::new(file.clone(), link, Habits::default());
        let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
        if has_hints {
            reader.will_need(reads.iter().cloned());
        }
        Self { world, file, reader, began: Instant::now() }
    }

    async fn read(&mut self, range: &Range<u64>) {
        let mut piece = vec![0; (range.end - range.start) as usize];
        self.reader.seek(SeekFrom::Start(range.start)).await.unwrap();
        self.reader.read_exact(&mut piece).await.unwrap();
        assert!(piece == self.file[range.start as usize..range.end as usize], "{range:?}");
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn counters(&self) -> Counters {
        self.reader.counters()
    }
}

/// Reads half over a path of 50 ms and the rest over one of 200 ms, and both over either of them.
#[tokio::test(start_paused = true)]
async fn a_path_that_grows_long_in_mid_flight_costs_what_the_long_one_costs() {
    for (name, reads, has_hints) in kinds() {
        let mut seconds = Vec::new();
        for (first, second) in [(SHORT, SHORT), (SHORT, LONG), (LONG, LONG)] {
            let mut reading = Reading::new(first, &reads, has_hints);
            for (number, range) in reads.iter().enumerate() {
                if number == reads.len() / 2 {
                    reading.world.set_link(second);
                }
                reading.read(range).await;
            }
            let Counters { requests, connections, bytes_received, bytes_used, .. } = reading.counters();
            println!(
                "{name}, hints {has_hints}, {:?} to {:?}: {:.2} s, {requests} requests, {connections} \
                 connections, {:.3} bytes",
                first.round_trip,
                second.round_trip,
                reading.seconds(),
                bytes_received as f64 / bytes_used as f64
            );
            seconds.push(reading.seconds());
        }
        let (changed, long) = (seconds[1], seconds[2]);
        assert!(
            changed < long,
            "{name}, hints {has_hints}: {changed} s, {long} s if it is long from the start"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_pauses_goes_on_where_it_was() {
    for (name, reads, has_hints) in kinds() {
        let mut found = Vec::new();
        // Longer than a reader waits for a silent server.
        for pause in [Duration::ZERO, Duration::from_millis(700), Duration::from_secs(90)] {
            let mut reading = Reading::new(SHORT, &reads, has_hints);
            let mut paused = 0.0;
            for (number, range) in reads.iter().enumerate() {
                if number % 20 == 19 {
                    sleep(pause).await;
                    paused += pause.as_secs_f64();
                }
                reading.read(range).await;
            }
            let counters = reading.counters();
            let Counters { requests, connections, bytes_received, bytes_used, retries, .. } = counters;
            let seconds = reading.seconds() - paused;
            println!(
                "{name}, hints {has_hints}, pauses of {pause:?}: {seconds:.2} s beside them, {requests} \
                 requests, {connections} connections, {:.3} bytes",
                bytes_received as f64 / bytes_used as f64
            );
            assert_eq!(retries, 0, "{name}, {pause:?}: {counters:?}");
            found.push((seconds, requests, connections));
        }
        let (seconds, requests, connections) = found[0];
        for (with_pauses, more_requests, more_connections) in &found[1..] {
            assert!(*with_pauses < 1.02 * seconds, "{name}, hints {has_hints}: {found:?}");
            assert!(*more_requests <= requests + 2, "{name}, hints {has_hints}: {found:?}");
            assert!(*more_connections <= connections + 1, "{name}, hints {has_hints}: {found:?}");
        }
    }
}

/// Servers give up clients that take nothing for a minute or so.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_server_gives_it_up_in_a_pause_asks_again_for_what_is_missing() {
    for (name, reads, has_hints) in kinds() {
        let mut reading = Reading::new(SHORT, &reads, has_hints);
        for (number, range) in reads.iter().enumerate() {
            if number % 40 == 39 {
                sleep(Duration::from_secs(90)).await;
                reading.world.set_down(true);
                reading.world.set_down(false);
            }
            reading.read(range).await;
        }
        let counters = reading.counters();
        let seconds = reading.seconds() - 3.0 * 90.0;
        println!("{name}, hints {has_hints}: {seconds:.2} s beside three pauses, {counters:?}");
        // In three pauses, of four requests at a time.
        assert!(counters.retries <= 3 * 4, "{name}: {counters:?}");
        let lost = counters.bytes_received as f64 / counters.bytes_used as f64;
        assert!(lost < 1.25, "{name}: {counters:?}");
    }
}
