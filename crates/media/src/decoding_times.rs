//! Decoding times of pictures that come with the times they are shown at alone, in decoding order.
//!
//! RTP and MoQ have no decoding times. If at most `n` pictures are sent ahead of one that is shown before
//! them, the picture sent as number `i` may have the time of the one that is shown as number `i - n`: that
//! one has come by then. `n` is learned from what comes, picture by picture; it only grows.

use crate::Timestamp;

/// Pictures that can be sent ahead of others at most: as many as a decoder holds.
const REORDER_MAX: usize = 16;

/// Gives pictures decoding times.
#[derive(Debug, Default)]
pub struct DecodingTimes {
    /// Times of pictures that were not used yet, rising.
    waiting: Vec<Timestamp>,
    /// How many are sent ahead of others.
    reorder: usize,
    newest_shown: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl DecodingTimes {
    /// Of a publisher that is known to send so many pictures ahead of others.
    pub fn with_reorder(reorder: usize) -> Self {
        Self { reorder: reorder.min(REORDER_MAX), ..Self::default() }
    }

    /// The decoding time of the next picture, which is shown at `pts`: never after it unless it is out of
    /// order as none before, and never before that of the one before.
    pub fn next(&mut self, pts: Timestamp) -> Timestamp {
        let jumps = self.newest_shown.is_some_and(|newest| (newest - pts).micros().abs() > JUMP_US);
        if jumps {
            self.newest_shown = None;
            self.waiting.clear();
        }
        self.newest_shown = Some(self.newest_shown.map_or(pts, |newest| newest.max(pts)));
        let at = self.waiting.partition_point(|known| *known <= pts);
        self.waiting.insert(at, pts);
        if self.waiting.len() <= self.reorder {
            // The first ones: a little before the time of the first of all that is shown.
            let ahead = (self.reorder + 1 - self.waiting.len()) as i64;
            let dts = self.waiting[0] - Timestamp::from_micros(ahead * FIRST_STEP_US);
            return self.rise(dts);
        }
        let mut dts = self.waiting.remove(0);
        if self.last.is_some_and(|last| dts < last) && self.reorder < REORDER_MAX {
            // More of them are sent ahead than was known.
            self.reorder += 1;
            self.waiting.insert(0, dts);
            dts = self.last.unwrap_or(dts);
        }
        self.rise(dts)
    }

    fn rise(&mut self, dts: Timestamp) -> Timestamp {
        let dts = self.last.map_or(dts, |last| dts.max(last));
        self.last = Some(dts);
        dts
    }
}

/// Distance of the first pictures that have no time of another to take.
const FIRST_STEP_US: i64 = 1_000;
/// Times further apart are no order of pictures, but another beginning.
const JUMP_US: i64 = 3_000_000;
