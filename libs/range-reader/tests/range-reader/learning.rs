//! What the learner is worth, on kinds of reads that occur: each is replayed against its
//! predictions alone.

use std::ops::Range;

use range_reader::learn::{LearnLimits, Learner, Misses, PredictionLimits};

#[path = "support/replay.rs"]
mod replay;

use replay::Replay;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A film of three interleaved tracks (audio, video, another video) with its index after them, as
/// in an MP4.
struct Film {
    bytes: Vec<u8>,
    index: Range<u64>,
    /// Where each chunk begins and ends, by track.
    chunks: [Vec<Range<u64>>; 3],
}

impl Film {
    fn new(rounds: usize) -> Self {
        let mut numbers = Numbers(1);
        let (mut at, mut chunks) = (48, [const { Vec::new() }; 3]);
        for _ in 0..rounds {
            for (track, (least, jitter)) in
                [(6700, 500), (79_000, 9000), (48_000, 8000)].into_iter().enumerate()
            {
                let end = at + least + numbers.below(jitter);
                chunks[track].push(at..end);
                at = end;
            }
        }
        let mut bytes: Vec<u8> = (0..at).map(|_| numbers.below(256) as u8).collect();
        for track in &chunks {
            bytes.extend(b"....stco....");
            bytes.extend(track.iter().flat_map(|chunk| (chunk.start as u32).to_be_bytes()));
        }
        let index = at..bytes.len() as u64;
        Self { bytes, index, chunks }
    }

    /// The reads of a player that takes these tracks: the header, the index, then what lies in a
    /// row at once.
    fn reads(&self, tracks: &[usize]) -> Vec<Range<u64>> {
        let chunks: Vec<_> = tracks.iter().flat_map(|track| self.chunks[*track].clone()).collect();
        let mut reads = vec![0..48, self.index.clone()];
        reads.extend(range_reader::ranges::merge(&chunks, 0));
        reads
    }

    fn replay(&self, reads: &[Range<u64>]) -> Replay {
        let limits =
            PredictionLimits { ranges_max: 200, bytes_max: 2 << 20, file_end: self.bytes.len() as u64 };
        Replay::of(&mut Learner::new(LearnLimits::default()), reads, &self.bytes, limits)
    }
}

fn replay(reads: &[Range<u64>]) -> Replay {
    let limits = PredictionLimits { ranges_max: 200, bytes_max: 2 << 20, file_end: 1 << 40 };
    Replay::of(&mut Learner::new(LearnLimits::default()), reads, &[], limits)
}

#[test]
fn tables_in_the_file_tell_every_run_after_a_few_seeks() {
    let film = Film::new(170);
    for (name, tracks) in [("video and audio", &[0, 1][..]), ("audio", &[0]), ("other picture", &[2])] {
        let replay = film.replay(&film.reads(tracks));
        assert!(replay.misses <= 8, "{name}: {replay:?}");
        assert!(replay.batches <= 20, "{name}: {replay:?}");
        assert!((replay.fetched - replay.fetched_and_used) * 20 < replay.used, "{name}: {replay:?}");
    }
}

#[test]
fn a_pace_is_learned_where_no_table_fits() {
    let mut film = Film::new(170);
    let reads = film.reads(&[0, 1]);
    film.bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    let mut learner = Learner::new(LearnLimits::default());
    learner.note_link(125_000.0, Misses::Hidden);
    let limits = PredictionLimits { ranges_max: 200, bytes_max: 2 << 20, file_end: film.bytes.len() as u64 };
    let replay = Replay::of(&mut learner, &reads[2..], &film.bytes, limits);
    let wasted_bytes = replay.fetched - replay.fetched_and_used + replay.skipped;
    // Reading the gaps through would be 0.6 of what is used. Here runs wander off, and batches are
    // long for the sake of few requests.
    assert!(wasted_bytes * 100 < replay.used * 45, "{replay:?}");
    assert!(replay.batches <= 25, "{replay:?}");
}

#[test]
fn records_are_learned_after_three() {
    let reads: Vec<_> = (0..500_u64).map(|n| n * 65_536..n * 65_536 + 4096).collect();
    let replay = replay(&reads);
    assert!(replay.misses <= 4 && replay.batches <= 12, "{replay:?}");
    assert!(replay.fetched - replay.fetched_and_used <= 1 << 20, "{replay:?}");
}

#[test]
fn reading_in_a_row_predicts_nothing() {
    let reads: Vec<_> = (0..3000_u64).map(|n| n * 32_768..(n + 1) * 32_768).collect();
    assert_eq!(replay(&reads).batches, 0);
}

#[test]
fn random_access_costs_no_more_than_is_allowed() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let reads: Vec<_> = (0..2000)
            .map(|_| {
                let start = numbers.below(1 << 32);
                start..start + 1 + numbers.below(60_000)
            })
            .collect();
        let replay = replay(&reads);
        let wasted_bytes = replay.fetched - replay.fetched_and_used;
        assert!(wasted_bytes <= LearnLimits::default().wasted_bytes_max, "seed {seed}: {replay:?}");
    }
}

#[test]
fn a_pattern_that_ends_is_given_up_within_what_is_allowed() {
    let mut numbers = Numbers(5);
    let mut reads: Vec<_> = (0..200_u64).map(|n| n * 200_000..n * 200_000 + 50_000).collect();
    reads.extend((0..500).map(|_| {
        let start = numbers.below(1 << 32);
        start..start + 5000
    }));
    let replay = replay(&reads);
    let wasted_bytes = replay.fetched - replay.fetched_and_used;
    assert!(wasted_bytes <= 4 << 20, "{replay:?}");
    assert!(replay.batches < 40, "{replay:?}");
}
