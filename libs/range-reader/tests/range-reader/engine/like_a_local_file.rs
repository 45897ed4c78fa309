//! Any sequence of reads, seeks and hints gives what the same gives on a local file, whatever the
//! server is like.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::time::Duration;

use crate::engine::world::{Habits, Link, SimSource, World, file_of};
use proptest::prelude::*;
use range_reader::{AsyncRangeReader, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// Length of the file, in bytes.
const FILE_BYTES: u64 = 600_000;

/// Longer than all that any of these sequences can take.
pub(crate) const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Clone)]
enum Step {
    Read(usize),
    Seek(SeekFrom),
    /// The hints are right: the next steps read them.
    ReadHinted(Vec<Range<u64>>),
    /// The hints are unrelated to what is read.
    Mislead(Vec<Range<u64>>),
    Forget,
    Pause(u64),
}

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![0..FILE_BYTES, 0..FILE_BYTES, 0..2000_u64, FILE_BYTES - 10..FILE_BYTES + 1000]
}

fn range() -> impl Strategy<Value = Range<u64>> {
    (position(), prop_oneof![0..300_u64, 0..90_000_u64]).prop_map(|(start, size)| start..start + size)
}

fn step() -> impl Strategy<Value = Step> {
    let strided =
        (position(), 1..40_000_u64, 0..60_000_u64, 1..20_u64).prop_map(|(start, size, gap, count)| {
            (0..count)
                .map(|index| start + index * (size + gap))
                .map(|from| from..from + size)
                .collect::<Vec<_>>()
        });
    prop_oneof![
        5 => prop_oneof![0..10_usize, 0..20_000_usize, 0..200_000_usize].prop_map(Step::Read),
        4 => position().prop_map(|at| Step::Seek(SeekFrom::Start(at))),
        3 => prop_oneof![-300_i64..3000, -200_000_i64..200_000].prop_map(|by| Step::Seek(SeekFrom::Current(by))),
        1 => (-1000_i64..10).prop_map(|by| Step::Seek(SeekFrom::End(by))),
        1 => prop::collection::vec(range(), 0..8).prop_map(Step::ReadHinted),
        1 => strided.prop_map(Step::ReadHinted),
        1 => prop::collection::vec(range(), 0..8).prop_map(Step::Mislead),
        1 => Just(Step::Forget),
        1 => (0..3000_u64).prop_map(Step::Pause),
    ]
}

pub(crate) fn habits() -> impl Strategy<Value = Habits> {
    let lies = (any::<[bool; 7]>(), prop::option::of(2000..50_000_u64));
    let faults =
        (prop::option::weighted(0.3, 2000..60_000_u64), prop::option::weighted(0.3, 2..6_u64), any::<bool>());
    (prop::bool::weighted(0.5), lies, faults).prop_map(
        |(honest, (lies, shortens_to), (breaks_after, fails_every, http2))| {
            if honest {
                return Habits { breaks_after, fails_every, http2, ..Habits::default() };
            }
            Habits {
                no_ranges: lies[0] && lies[1],
                refuses_several: lies[2],
                collapses_several: lies[3],
                first_of_several: lies[4],
                reverses_several: lies[5],
                hides_length: lies[6],
                shortens_to,
                // A server that sends nothing but the whole file, and never to its end, cannot be
                // read.
                breaks_after: breaks_after.filter(|_| !(lies[0] && lies[1])),
                fails_every,
                is_silent: false,
                http2,
            }
        },
    )
}

pub(crate) fn config() -> impl Strategy<Value = ReaderConfig> {
    (0..40_000_usize, 1..300_000_usize, 1..20_usize, any::<bool>(), any::<bool>()).prop_map(
        |(look_back_bytes, window_bytes, ranges_per_request_max, several_ranges, learn)| ReaderConfig {
            look_back_bytes,
            window_bytes,
            ranges_per_request_max,
            several_ranges,
            learn,
            cut_answers_max: u32::MAX,
            ..ReaderConfig::default()
        },
    )
}

pub(crate) fn links() -> impl Strategy<Value = Link> {
    prop_oneof![Just(Link::COUNTRY), Just(Link::NEAR), Just(Link::FAR)]
}

proptest! {
    #[test]
    fn any_sequence_reads_as_from_a_local_file(
        steps in prop::collection::vec(step(), 1..30),
        habits in habits(),
        config in config(),
        link in links(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // In virtual time: a reader that waits for nothing shows up at once.
        let compared = async { tokio::time::timeout(MONTH, compare(steps, habits, config, link)).await };
        runtime.block_on(compared).expect("a read never ends");
    }
}

async fn compare(steps: Vec<Step>, habits: Habits, config: ReaderConfig, link: Link) {
    let file = file_of(FILE_BYTES as usize);
    let world = World::new(file.clone(), link, habits);
    let mut local = Cursor::new(file);
    let mut remote = AsyncRangeReader::with_source(world.source(), config);
    for step in steps {
        match step {
            Step::Read(size) => read_both(&mut remote, &mut local, size).await,
            Step::Seek(to) => seek_both(&mut remote, &mut local, to).await,
            Step::ReadHinted(ranges) => {
                remote.will_need(ranges.clone());
                for range in ranges {
                    seek_both(&mut remote, &mut local, SeekFrom::Start(range.start)).await;
                    read_both(&mut remote, &mut local, (range.end - range.start) as usize).await;
                }
            }
            Step::Mislead(ranges) => remote.will_need(ranges),
            Step::Forget => remote.will_need([]),
            Step::Pause(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        }
        let counters = remote.counters();
        let accounted =
            counters.bytes_used + counters.bytes_skipped + counters.bytes_wasted + counters.bytes_buffered;
        assert_eq!(counters.bytes_received, accounted, "{counters:?}");
    }
    drop(remote);
    assert_eq!(world.open(), (0, 0, 0), "connections, answers, requests left open");
}

async fn read_both(remote: &mut AsyncRangeReader<SimSource>, local: &mut Cursor<Vec<u8>>, size: usize) {
    let mut expected = Vec::new();
    Read::take(&mut *local, size as u64).read_to_end(&mut expected).unwrap();
    let mut got = Vec::new();
    remote.take(size as u64).read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), expected.len(), "length of a read at {}", local.position());
    assert!(got == expected, "bytes of a read that ends at {}", local.position());
}

async fn seek_both(remote: &mut AsyncRangeReader<SimSource>, local: &mut Cursor<Vec<u8>>, to: SeekFrom) {
    match (Seek::seek(local, to), remote.seek(to).await) {
        (Ok(expected), Ok(got)) => assert_eq!(got, expected, "{to:?}"),
        (Err(_), Err(_)) => {}
        // The length of a file that the server does not say is known once its end was seen, or
        // never.
        (Ok(expected), Err(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
            assert_eq!(remote.seek(SeekFrom::Start(expected)).await.unwrap(), expected);
        }
        (local, remote) => panic!("{to:?}: {local:?} and {remote:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_brings_without_its_being_kept_is_asked_for() {
    let first = 282..66_583;
    let then = vec![0..1, 37_103..37_104, 600_591..600_592, 6946..37_105, 136_366..136_367, 0..2];
    let steps = vec![
        Step::Seek(SeekFrom::Start(68_302)),
        Step::Read(1),
        Step::ReadHinted(vec![first]),
        Step::ReadHinted(then),
    ];
    let habits = Habits { first_of_several: true, http2: true, ..Habits::default() };
    let config = ReaderConfig {
        look_back_bytes: 0,
        window_bytes: 1589,
        learn: false,
        ranges_per_request_max: 2,
        ..ReaderConfig::default()
    };
    let compared = tokio::time::timeout(MONTH, compare(steps, habits, config, Link::FAR));
    compared.await.expect("a read never ends");
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_ahead_may_fail_more_often_than_a_read() {
    let single = |first: u64, count: u64| {
        Step::ReadHinted((0..count).map(|n| first + n * 17_101..first + n * 17_101 + 1).collect())
    };
    let steps = vec![
        Step::Read(1),
        Step::Seek(SeekFrom::Start(810)),
        Step::Read(148_511),
        single(600_000, 8),
        single(0, 7),
    ];
    let habits = Habits {
        hides_length: true,
        shortens_to: Some(2507),
        fails_every: Some(2),
        http2: true,
        ..Habits::default()
    };
    let config = ReaderConfig {
        look_back_bytes: 0,
        window_bytes: 1,
        learn: false,
        ranges_per_request_max: 1,
        several_ranges: false,
        cut_answers_max: u32::MAX,
        ..ReaderConfig::default()
    };
    let compared = tokio::time::timeout(MONTH, compare(steps, habits, config, Link::COUNTRY));
    compared.await.expect("a read never ends");
}
