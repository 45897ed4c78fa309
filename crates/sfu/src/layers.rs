//! Which of a publisher's simulcast layers there are, and which of them is forwarded.
//!
//! All layers are received; viewers get the best that is alive, unless they have a target of their own
//! (`switching.rs`). Best is the highest bitrate, since names and order of layers are up to the
//! publisher; before a rate is known, common names decide. The choice changes only when it is clear,
//! and takes effect at a key frame.

use std::time::Instant;

use rtp::payload::PictureSize;

use super::encoding::Encoding;

/// What a viewer is to get of a track of video: which encoding, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layer {
    /// The simulcast layer, below [`LAYERS_MAX`](super::LAYERS_MAX). `None`: the best that is alive, and all
    /// of it.
    pub encoding: Option<u8>,
    /// The highest spatial layer of that encoding; [`Layer::ALL`] without a limit.
    pub spatial: u8,
    /// The highest temporal layer of that encoding; [`Layer::ALL`] without a limit.
    pub temporal: u8,
}

impl Layer {
    /// No limit on layers inside an encoding.
    pub const ALL: u8 = 7;
    /// The best that is alive: what a viewer without a target gets.
    pub const BEST: Self = Self { encoding: None, spatial: Self::ALL, temporal: Self::ALL };

    /// All of one encoding.
    pub const fn of(encoding: u8) -> Self {
        Self { encoding: Some(encoding), ..Self::BEST }
    }

    /// In 16 bits: 0 is [`Layer::BEST`], and no two differ in nothing that counts.
    pub fn to_bits(self) -> u16 {
        let Some(encoding) = self.encoding else { return 0 };
        let limits = u16::from(self.spatial.min(Self::ALL)) << 3 | u16::from(self.temporal.min(Self::ALL));
        1 + (u16::from(encoding) << 6 | limits)
    }

    /// The layer with these bits.
    pub fn from_bits(bits: u16) -> Self {
        let Some(bits) = bits.checked_sub(1) else { return Self::BEST };
        Self {
            encoding: Some((bits >> 6) as u8),
            spatial: (bits >> 3) as u8 & Self::ALL,
            temporal: bits as u8 & Self::ALL,
        }
    }
}

/// A layer that a viewer can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerRate {
    /// What to set ([`PacketStream::set_layer`](super::PacketStream::set_layer)).
    pub layer: Layer,
    /// Bits per second of media and headers over the last second or two, those of the layers that it needs
    /// included. 0 until known.
    pub bits_per_second: u64,
    /// Whether anything of it has arrived lately.
    pub is_live: bool,
    /// Size of its pictures, if key frames have shown it.
    pub size: Option<PictureSize>,
}

/// The encodings of a track from the least bits to the most; by common names until all rates are known.
pub(crate) fn ascending(encodings: &[Encoding]) -> Vec<u8> {
    let mut order: Vec<u8> = (0..encodings.len() as u8).collect();
    let measured = encodings.iter().all(|encoding| encoding.bits_per_second() > 0);
    order.sort_by_key(|at| match measured {
        true => encodings[usize::from(*at)].bits_per_second(),
        false => u64::from(encodings[usize::from(*at)].rank),
    });
    order
}

/// The encoding to give instead of one that is dead: the best that is alive and less, or the least that
/// is alive.
pub(crate) fn fallback(encodings: &[Encoding], wanted: u8, is_live: impl Fn(&u8) -> bool) -> Option<u8> {
    let order = ascending(encodings);
    let rank = order.iter().position(|at| *at == wanted)?;
    let mut below = order[..rank].iter().rev();
    below.find(|at| is_live(at)).or_else(|| order.iter().find(|at| is_live(at))).copied()
}

/// The layer to forward, of the encodings of one track; `current` is the one that is forwarded.
pub(crate) fn best(encodings: &[Encoding], current: Option<u8>, now: Instant) -> Option<u8> {
    let live = || encodings.iter().enumerate().filter(|(_, encoding)| encoding.is_live(now));
    // Rates can be compared once all are known.
    let measured = live().all(|(_, encoding)| encoding.bits_per_second() > 0);
    let rank = |(_, encoding): &(usize, &Encoding)| match measured {
        true => encoding.bits_per_second(),
        false => u64::from(encoding.rank),
    };
    let best = live().max_by_key(rank)?;
    let held = current.map(usize::from).and_then(|at| live().find(|(live, _)| *live == at));
    let keeps =
        |held: &(usize, &Encoding)| rank(&best) <= rank(held) + if measured { rank(held) / 4 } else { 0 };
    Some(held.filter(keeps).unwrap_or(best).0 as u8)
}

/// Higher for names that commonly mean larger pictures: f, h, q (full, half, quarter), h, m, l, hi,
/// mid, lo, numbers.
pub(crate) fn rank_of_name(rid: &str) -> u8 {
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
        let mut encodings: Vec<Encoding> = rates.iter().map(|_| Encoding::new(None, None, 0)).collect();
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
            assert_eq!(best(&encodings, held, now), expected, "{remark}");
        }
    }

    #[test]
    fn names_decide_until_rates_are_known() {
        let now = start();
        let named = |rids: [&str; 3]| {
            let mut encodings = rids.map(|rid| Encoding::new(None, None, rank_of_name(rid)));
            encodings.iter_mut().for_each(|encoding| encoding.arrived(now, 100));
            encodings
        };
        for rids in [["q", "h", "f"], ["l", "m", "high"], ["0", "1", "2"]] {
            assert_eq!(best(&named(rids), None, now), Some(2));
            assert_eq!(best(&named(rids), Some(0), now), Some(2));
        }
        assert_eq!(best(&named(["a", "b", "c"]), Some(1), now), Some(1));
    }
}
