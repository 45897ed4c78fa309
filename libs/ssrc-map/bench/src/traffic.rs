//! Which SSRCs exist, and in which order packets ask for them.
//!
//! A sequence is 65536 look-ups long: what a branch predictor cannot learn by heart, except for
//! round robin over few streams, which it learns in a server as well.

use std::collections::HashSet;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::contender::{Stream, shuffle};

/// Look-ups of one sequence.
pub(crate) const SEQUENCE_LEN: usize = 1 << 16;

/// What a miss adds to the sum, so that no two results can be confused unnoticed.
pub(crate) const MISS: u64 = 0x1_0000_0001;

/// Order in which the streams' packets come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Each packet's stream is drawn.
    Random,
    /// All streams in turn, repeatedly.
    RoundRobin,
    /// Ten packets in a row of a stream that is drawn: the pieces of a video frame.
    Burst,
    /// No packet's SSRC is known; each is drawn.
    Miss,
}

impl Pattern {
    pub(crate) const ALL: [Self; 4] = [Self::Random, Self::RoundRobin, Self::Burst, Self::Miss];

    /// Look-ups of one stream in a row.
    pub(crate) fn look_ups_a_stream(self) -> usize {
        if self == Self::Burst { BURST_LEN } else { 1 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::Burst => "burst",
            Self::Miss => "miss",
        }
    }
}

/// Packets of one burst.
const BURST_LEN: usize = 10;

/// Streams of one set of keys, the look-ups, and what they must add up to.
pub(crate) struct Traffic {
    pub(crate) streams: Vec<Stream>,
    pub(crate) sequence: Vec<u32>,
    /// `sums[i]` is the sum of the first `i` results.
    sums: Vec<u64>,
}

impl Traffic {
    pub(crate) fn new(streams_len: usize, pattern: Pattern, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut known = HashSet::new();
        let mut streams = Vec::new();
        while streams.len() < streams_len {
            let ssrc = random.random();
            if known.insert(ssrc) {
                streams.push(Stream::new(ssrc, random.random::<u32>().into()));
            }
        }
        let results = results(&streams, &known, pattern, &mut random);
        let mut sums = vec![0];
        sums.extend(results.iter().scan(0, |sum: &mut u64, &(_, result)| {
            *sum = sum.wrapping_add(result);
            Some(*sum)
        }));
        let sequence = results.into_iter().map(|(ssrc, _)| ssrc).collect();
        Self { streams, sequence, sums }
    }

    /// What the look-ups of this part of the sequence add up to.
    pub(crate) fn expected(&self, part: std::ops::Range<usize>) -> u64 {
        self.sums[part.end].wrapping_sub(self.sums[part.start])
    }
}

/// Each look-up's SSRC and result.
fn results(
    streams: &[Stream],
    known: &HashSet<u32>,
    pattern: Pattern,
    random: &mut SmallRng,
) -> Vec<(u32, u64)> {
    let mut order: Vec<usize> = (0..streams.len()).collect();
    shuffle(&mut order, random);
    let mut current = 0;
    let mut result_of = |position: usize| {
        let index = match pattern {
            Pattern::Miss => {
                let ssrc = loop {
                    let ssrc = random.random();
                    if !known.contains(&ssrc) {
                        break ssrc;
                    }
                };
                return (ssrc, MISS);
            }
            Pattern::RoundRobin => order[position % order.len()],
            Pattern::Burst if !position.is_multiple_of(BURST_LEN) => current,
            Pattern::Burst | Pattern::Random => random.random_range(0..streams.len()),
        };
        current = index;
        (streams[index].ssrc, streams[index].packets)
    };
    (0..SEQUENCE_LEN).map(&mut result_of).collect()
}
