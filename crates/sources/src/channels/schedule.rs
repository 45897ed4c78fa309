//! Where a playlist is that began at a given time: pure arithmetic over the lengths of its items.
//!
//! Lengths are learned by opening items, so what is asked for is what is needed: items up to the
//! present one, and all of them only once the playlist has gone round.

use std::time::Duration;

/// How long an item is, as far as known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Length {
    /// Not opened yet.
    #[default]
    Unknown,
    /// It could not be opened: it is skipped and takes no time.
    Broken,
    /// It lasts this long.
    Known(Duration),
}

/// Where a playlist is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaylistPosition {
    /// The length of this item must be known first.
    Needs(usize),
    /// In this item.
    In {
        /// Its index.
        item: usize,
        /// How far.
        position: Duration,
        /// How often the playlist has gone round before.
        rounds: u64,
    },
    /// Played once, to its end.
    Over,
    /// No item can be played.
    Nothing,
}

/// Position of a playlist `elapsed` after it began.
///
/// `position = elapsed - rounds * sum(lengths) - sum(lengths[..item])`, so that `0 <= position <
/// lengths[item]`.
pub(super) fn locate(lengths: &[Length], looped: bool, elapsed: Duration) -> PlaylistPosition {
    let whole = match walk(lengths, elapsed) {
        Ok(found) => return found,
        Err(whole) => whole,
    };
    match (whole.is_zero(), looped) {
        (true, _) => PlaylistPosition::Nothing,
        (false, false) => PlaylistPosition::Over,
        (false, true) => {
            let rounds = elapsed.as_nanos() / whole.as_nanos();
            let rest = elapsed.as_nanos() % whole.as_nanos();
            let rest = Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX));
            let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
            match walk(lengths, rest) {
                Ok(PlaylistPosition::In { item, position, .. }) => {
                    PlaylistPosition::In { item, position, rounds }
                }
                _ => PlaylistPosition::Nothing,
            }
        }
    }
}

/// Goes through the items once; the error is the length of all of them.
fn walk(lengths: &[Length], elapsed: Duration) -> Result<PlaylistPosition, Duration> {
    let mut begins = Duration::ZERO;
    for (item, length) in lengths.iter().enumerate() {
        match length {
            Length::Unknown => return Ok(PlaylistPosition::Needs(item)),
            Length::Broken => {}
            Length::Known(length) => {
                let ends = begins.saturating_add(*length);
                if elapsed < ends {
                    return Ok(PlaylistPosition::In { item, position: elapsed - begins, rounds: 0 });
                }
                begins = ends;
            }
        }
    }
    Err(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_the_one_an_uninterrupted_playlist_would_have() {
        use Length::{Broken, Known, Unknown};
        let s = Duration::from_secs;
        let at = |item, position, rounds| PlaylistPosition::In { item, position: s(position), rounds };
        let three = [Known(s(10)), Broken, Known(s(20))];
        let rows: [(&[Length], bool, u64, PlaylistPosition); 13] = [
            (&three, true, 0, at(0, 0, 0)),
            (&three, true, 9, at(0, 9, 0)),
            (&three, true, 10, at(2, 0, 0)), // the broken one takes no time
            (&three, true, 30, at(0, 0, 1)), // round
            (&three, true, 105, at(2, 5, 3)),
            (&three, true, 3_000_000_029, at(2, 19, 100_000_000)), // a century
            (&three, false, 29, at(2, 19, 0)),
            (&three, false, 30, PlaylistPosition::Over),
            (&[Known(s(10)), Unknown], true, 5, at(0, 5, 0)), // no need to open the second one
            (&[Known(s(10)), Unknown], true, 15, PlaylistPosition::Needs(1)),
            (&[Unknown, Known(s(10))], true, 15, PlaylistPosition::Needs(0)),
            (&[Broken, Known(s(0))], true, 5, PlaylistPosition::Nothing),
            (&[], true, 5, PlaylistPosition::Nothing),
        ];
        for (lengths, looped, elapsed, expected) in rows {
            assert_eq!(locate(lengths, looped, s(elapsed)), expected, "{lengths:?} after {elapsed} s");
        }
    }

    #[test]
    fn every_moment_follows_the_one_before() {
        let lengths = [7, 0, 13, 1].map(|ms| Length::Known(Duration::from_millis(ms)));
        let ends = [7, 7, 20, 21];
        for ms in 0..1_000_u64 {
            let PlaylistPosition::In { item, position, rounds } =
                locate(&lengths, true, Duration::from_millis(ms))
            else {
                panic!("nowhere after {ms} ms");
            };
            let began = if item == 0 { 0 } else { ends[item - 1] };
            assert_eq!(rounds * 21 + began + position.as_millis() as u64, ms);
        }
    }
}
