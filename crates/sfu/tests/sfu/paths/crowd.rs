//! Many viewers of one stream, whose paths carry from 0.2 to 5 Mbit/s: each gets what its own carries, and
//! one that has a bad path changes nothing for the others.
//!
//! The bench `crowd` includes this file, for 200 viewers.

use std::time::Duration;

use super::world::{World, quantile};

const SECOND: Duration = Duration::from_secs(1);
const RATES: [f64; 3] = [150e3, 500e3, 1.7e6];
/// What is before it counts for nothing: all join in the first second.
const SETTLED: Duration = Duration::from_secs(8);
/// The viewer with the bad path.
const BAD: u64 = 1_000_000;

/// What viewers with paths of one kind got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) viewers: usize,
    /// Bits of the layers that were shown, of those of the best that fits each path.
    pub(crate) utilisation: f64,
    /// The same of the viewer that has least of it.
    pub(crate) least: f64,
    pub(crate) waits_p95: Duration,
    pub(crate) audio_late_p99: Duration,
    pub(crate) lost_percent: f64,
    /// Time without a new picture, of a viewer, mean.
    pub(crate) frozen: Duration,
}

/// What a crowd got.
pub(crate) struct Crowd {
    /// With paths below 0.6, below 2, and above 2 Mbit/s.
    pub(crate) kinds: [Figures; 3],
    /// Requests for a key frame that reached the publisher once all had settled, and the most in 3 s for one
    /// encoding.
    pub(crate) key_frames: usize,
    pub(crate) key_frames_in_3_s: usize,
}

/// Plays to so many viewers for so long. `has_bad`: one more has 100 kbit/s, loses a tenth, and asks for a
/// key frame 10 times a second.
pub(crate) fn play(viewers: u64, seconds: u32, has_bad: bool) -> Crowd {
    let mut world = World::simulcast(&RATES, Some(250));
    world.report_interval = Duration::from_millis(100);
    world.run(SECOND);
    let rate_of = |at: u64| 200e3 * 25_f64.powf(at as f64 / (viewers - 1) as f64);
    for at in 0..viewers {
        world.join(at, rate_of(at), true);
        if at % 10 == 9 {
            world.run(SECOND / (viewers as u32 / 10).max(1));
        }
    }
    if has_bad {
        world.join(BAD, 100e3, true);
        let seat = world.seats.get_mut(&BAD).expect("it");
        (seat.storms, seat.lost_share) = (true, 0.1);
    }
    world.run(seconds * SECOND);
    let kind_of = |rate: f64| usize::from(rate >= 600e3) + usize::from(rate >= 2e6);
    let kinds = [0, 1, 2].map(|kind| {
        let of_kind: Vec<u64> = (0..viewers).filter(|at| kind_of(rate_of(*at)) == kind).collect();
        figures(&world, &of_kind, rate_of)
    });
    let from = world.start + SETTLED;
    let asked: Vec<_> = world.key_frames_asked.iter().zip(&world.encodings_asked).collect();
    let late: Vec<_> = asked.into_iter().filter(|(at, _)| **at > from).collect();
    let within = |(at, encoding): (_, usize)| {
        late.iter()
            .filter(|(other, one)| **one == encoding && **other >= at && **other < at + 3 * SECOND)
            .count()
    };
    let most = late.iter().map(|(at, encoding)| within((**at, **encoding))).max();
    Crowd { kinds, key_frames: late.len(), key_frames_in_3_s: most.unwrap_or(0) }
}

fn figures(world: &World, viewers: &[u64], rate_of: impl Fn(u64) -> f64) -> Figures {
    let (from, end) = (world.start + SETTLED, world.clock.now());
    let (mut waits, mut late, mut frozen) = (Vec::new(), Vec::new(), Duration::ZERO);
    let (mut shown, mut could, mut least) = (0.0, 0.0, f64::INFINITY);
    let (mut sent, mut lost) = (0, 0);
    for token in viewers {
        let seen = &world.seats[token].seen;
        let pictures: Vec<_> =
            seen.pictures.iter().zip(&seen.layers).filter(|((at, ..), _)| *at > from).collect();
        let bits: f64 = pictures.iter().map(|(_, layer)| RATES[usize::from(**layer)] / 25.0).sum();
        // Audio takes 52 kbit/s with all headers.
        let fits = |layer: &&f64| 1.05 * **layer <= rate_of(*token) - 52e3;
        let best = RATES.iter().rev().find(fits).unwrap_or(&RATES[0]) * (end - from).as_secs_f64();
        (shown, could, least) = (shown + bits, could + best, least.min(bits / best));
        waits.extend(seen.waits.iter().filter(|(at, _)| *at > from).map(|(_, wait)| *wait));
        late.extend(seen.audio.iter().filter(|(at, _)| *at > from).map(|(_, late)| *late));
        let gaps = pictures.windows(2).map(|pair| pair[1].0.0 - pair[0].0.0);
        let long = gaps.filter(|gap| *gap > Duration::from_millis(190));
        frozen += long.map(|gap| gap - Duration::from_millis(40)).sum::<Duration>();
        (sent, lost) = (sent + seen.sent, lost + seen.overflowed);
    }
    Figures {
        viewers: viewers.len(),
        utilisation: shown / could,
        least,
        waits_p95: quantile(waits, 0.95),
        audio_late_p99: quantile(late, 0.99),
        lost_percent: 100.0 * lost as f64 / sent as f64,
        frozen: frozen / viewers.len() as u32,
    }
}

#[test]
fn each_of_many_viewers_gets_what_its_path_carries_and_a_bad_one_changes_nothing() {
    let [without, with] = [false, true].map(|has_bad| play(24, 22, has_bad));
    for (kind, other) in without.kinds.iter().zip(&with.kinds) {
        println!("{kind:?}\n{other:?}");
        assert!(kind.utilisation > 0.85, "{kind:?}");
        assert!(kind.waits_p95 < Duration::from_millis(60), "{kind:?}");
        assert!(other.utilisation > kind.utilisation - 0.03, "{kind:?}, with a bad one {other:?}");
        // Key frames come each 3 s for the bad one, and are larger than what slow paths take at once.
        assert!(other.waits_p95 < Duration::from_millis(50), "{kind:?}, with a bad one {other:?}");
        for one in [kind, other] {
            assert!((7..10).contains(&one.viewers) && one.least > 0.8 && one.lost_percent < 1.0, "{one:?}");
            assert!(one.audio_late_p99 < Duration::from_millis(150), "{one:?}");
            assert!(one.frozen < SECOND, "{one:?}");
        }
    }
    println!("{} key frames, {} with a bad one", without.key_frames, with.key_frames);
    assert!(with.key_frames_in_3_s <= without.key_frames_in_3_s + 1, "{}", with.key_frames_in_3_s);
}
