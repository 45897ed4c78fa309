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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now()
    }

    /// Sources with these rates in bytes per packet, 25 packets a second for two seconds; 0 is silent.
    fn sources(rates: &[usize], start: Instant) -> (Vec<Source>, Instant) {
        let mut sources: Vec<Source> = rates.iter().map(|_| Source::new(None, None)).collect();
        let mut now = start;
        for _ in 0..50 {
            now += Duration::from_millis(40);
            for (source, bytes) in sources.iter_mut().zip(rates).filter(|(_, bytes)| **bytes > 0) {
                source.arrived(now, *bytes);
            }
        }
        (sources, now)
    }

    #[test]
    fn the_highest_rate_wins_when_it_is_clear() {
        type Row<'a> = (&'a [usize], Option<u8>, Option<u8>, &'a str);
        let rows: [Row<'_>; 7] = [
            (&[100, 500, 900], None, Some(2), "the largest"),
            (&[900, 500, 100], None, Some(0), "whatever the order"),
            (&[100, 500, 0], Some(2), Some(1), "of those alive"),
            (&[100, 500, 900], Some(1), Some(2), "clearly better than the one held"),
            (&[100, 800, 900], Some(1), Some(1), "not clearly better"),
            (&[0, 0, 0], Some(1), None, "none is alive"),
            (&[700], Some(0), Some(0), "there is but one"),
        ];
        for (rates, held, expected, remark) in rows {
            let (sources, now) = sources(rates, start());
            assert_eq!(best(&sources, &[], held, now), expected, "{remark}");
        }
    }

    #[test]
    fn names_decide_until_rates_are_known() {
        let now = start();
        let mut sources: Vec<Source> = (0..3).map(|_| Source::new(None, None)).collect();
        sources.iter_mut().for_each(|source| source.arrived(now, 100));
        for rids in [["q", "h", "f"], ["l", "m", "high"], ["0", "1", "2"]] {
            let rids = rids.map(str::to_owned);
            assert_eq!(best(&sources, &rids, None, now), Some(2));
            assert_eq!(best(&sources, &rids, Some(0), now), Some(2));
        }
        assert_eq!(best(&sources, &["a", "b", "c"].map(str::to_owned), Some(1), now), Some(1));
    }
}
