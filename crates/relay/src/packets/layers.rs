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
    // Rates can be compared once all are known.
    let measured = live().all(|(_, source)| source.bits_per_second() > 0);
    let rank = |(at, source): &(usize, &Source)| match measured {
        true => source.bits_per_second(),
        false => rids.get(*at).map_or(0, |rid| u64::from(rank_of_name(rid))),
    };
    let best = live().max_by_key(rank)?;
    let held = current.map(usize::from).and_then(|at| live().find(|(live, _)| *live == at));
    let keeps =
        |held: &(usize, &Source)| rank(&best) <= rank(held) + if measured { rank(held) / 4 } else { 0 };
    Some(held.filter(keeps).unwrap_or(best).0 as u8)
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
