//! Which of a publisher's simulcast layers is forwarded.
//!
//! All layers are received; viewers get the best that is alive. Best is the highest bitrate, since names and order of
//! layers are the publisher's fancy; before a rate is known, common names decide. The choice changes only when it is
//! clear, and takes effect at a key frame. Choosing per viewer by its bandwidth would ask here, with what it can take.

use std::time::Instant;

use super::source::Source;

/// The layer to forward, of the sources of one track; `current` is the one that is forwarded.
pub(crate) fn best(sources: &[Source], rids: &[String], current: Option<u8>, now: Instant) -> Option<u8> {
    let live = || sources.iter().enumerate().filter(|(_, source)| source.is_live(now));
    let rank = |(at, source): &(usize, &Source)| {
        (source.bits_per_second(), rids.get(*at).map_or(0, |rid| rank_of_name(rid)))
    };
    let (best, candidate) = live().max_by_key(rank)?;
    let held = current.map(usize::from).and_then(|at| live().find(|(live, _)| *live == at));
    match held {
        Some((at, held)) if !is_clearly_better(candidate, held) && held.bits_per_second() > 0 => {
            Some(at as u8)
        }
        _ => Some(best as u8),
    }
}

fn is_clearly_better(candidate: &Source, held: &Source) -> bool {
    candidate.bits_per_second() > held.bits_per_second() + held.bits_per_second() / 4
}

/// Higher for names that commonly mean larger pictures: f, h, q (full, half, quarter), h, m, l, hi, mid, lo, numbers.
fn rank_of_name(rid: &str) -> u8 {
    match rid {
        "f" | "hi" | "high" => 3,
        "h" | "m" | "mid" | "medium" => 2,
        "q" | "l" | "lo" | "low" => 1,
        digits => digits.parse::<u8>().map_or(0, |digit| digit.min(9)),
    }
}
