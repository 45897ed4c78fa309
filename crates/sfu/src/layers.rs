//! Which of a publisher's simulcast layers is forwarded.
//!
//! All layers are received; viewers get the best that is alive. Best is the highest bitrate, since
//! names and order of layers are up to the publisher; before a rate is known, common names decide.
//! The choice changes only when it is clear, and takes effect at a key frame. Choosing per viewer
//! by its bandwidth would ask here, with what it can take.

use std::time::Instant;

use super::encoding::Encoding;

/// The layer to forward, of the encodings of one track; `current` is the one that is forwarded.
pub(crate) fn best(encodings: &[Encoding], rids: &[String], current: Option<u8>, now: Instant) -> Option<u8> {
    let live = || encodings.iter().enumerate().filter(|(_, encoding)| encoding.is_live(now));
    // Rates can be compared once all are known.
    let measured = live().all(|(_, encoding)| encoding.bits_per_second() > 0);
    let rank = |(at, encoding): &(usize, &Encoding)| match measured {
        true => encoding.bits_per_second(),
        false => rids.get(*at).map_or(0, |rid| u64::from(rank_of_name(rid))),
    };
    let best = live().max_by_key(rank)?;
    let held = current.map(usize::from).and_then(|at| live().find(|(live, _)| *live == at));
    let keeps =
        |held: &(usize, &Encoding)| rank(&best) <= rank(held) + if measured { rank(held) / 4 } else { 0 };
    Some(held.filter(keeps).unwrap_or(best).0 as u8)
}

/// Higher for names that commonly mean larger pictures: f, h, q (full, half, quarter), h, m, l, hi,
/// mid, lo, numbers.
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

    /// Sources with these rates in bytes per packet, 25 packets a second for two seconds; 0 is
    /// silent.
    fn encodings(rates: &[usize], start: Instant) -> (Vec<Encoding>, Instant) {
        let mut encodings: Vec<Encoding> = rates.iter().map(|_| Encoding::new(None, None)).collect();
        let mut now = start;
        for _ in 0..50 {
            now += Duration::from_millis(40);
            for (encoding, bytes) in encodings.iter_mut().zip(rates).filter(|(_, bytes)| **bytes > 0) {
                encoding.arrived(now, *bytes);
            }
        }
        (encodings, now)
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
            let (encodings, now) = encodings(rates, start());
            assert_eq!(best(&encodings, &[], held, now), expected, "{remark}");
        }
    }

    #[test]
    fn names_decide_until_rates_are_known() {
        let now = start();
        let mut encodings: Vec<Encoding> = (0..3).map(|_| Encoding::new(None, None)).collect();
        encodings.iter_mut().for_each(|encoding| encoding.arrived(now, 100));
        for rids in [["q", "h", "f"], ["l", "m", "high"], ["0", "1", "2"]] {
            let rids = rids.map(str::to_owned);
            assert_eq!(best(&encodings, &rids, None, now), Some(2));
            assert_eq!(best(&encodings, &rids, Some(0), now), Some(2));
        }
        assert_eq!(best(&encodings, &["a", "b", "c"].map(str::to_owned), Some(1), now), Some(1));
    }
}
