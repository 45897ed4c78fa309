//! Where the newest key frame of each encoding of video of a stream begins: what a node that joins begins
//! with.

use std::time::{Duration, Instant};

use relay::Position;

/// Begins of key frames.
#[derive(Debug, Default)]
pub(super) struct Starts(Vec<Start>);

#[derive(Debug)]
struct Start {
    ssrc: u32,
    timestamp: u32,
    position: Position,
    at: Instant,
}

impl Starts {
    /// A packet of a key frame of this SSRC is at this position. Whether it is the first of it.
    pub(super) fn note(&mut self, now: Instant, ssrc: u32, timestamp: u32, position: Position) -> bool {
        let start = Start { ssrc, timestamp, position, at: now };
        match self.0.iter_mut().find(|known| known.ssrc == ssrc) {
            Some(known) if known.timestamp == timestamp => return false,
            Some(known) => *known = start,
            None => self.0.push(start),
        }
        true
    }

    /// Nothing of this SSRC is sent any more.
    pub(super) fn forget(&mut self, ssrc: u32) {
        self.0.retain(|start| start.ssrc != ssrc);
    }

    /// From where on all video can be decoded.
    pub(super) fn oldest(&self) -> Option<Position> {
        self.0.iter().min_by_key(|start| start.at).map(|start| start.position)
    }

    /// Forgets key frames that are too old to begin with. Whether there were any.
    pub(super) fn expire(&mut self, now: Instant, age_max: Duration) -> bool {
        let before = self.0.len();
        self.0.retain(|start| now.saturating_duration_since(start.at) <= age_max);
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Clock;

    #[test]
    fn the_oldest_of_the_newest_key_frames_is_where_all_tracks_begin() {
        let (mut starts, now, second) = (Starts::default(), Clock::now(), Duration::from_secs(1));
        let [one, two] = [1, 2];
        let at = |index| Position { epoch: 0, index };
        assert_eq!(starts.oldest(), None);
        assert!(starts.note(now, one, 0, at(10)));
        assert!(!starts.note(now, one, 0, at(11)), "another packet of it");
        assert!(starts.note(now + second, two, 90, at(20)));
        assert_eq!(starts.oldest(), Some(at(10)));
        assert!(starts.note(now + 2 * second, one, 180, at(30)));
        assert_eq!(starts.oldest(), Some(at(20)));
        assert!(!starts.expire(now + 3 * second, 2 * second));
        assert!(starts.expire(now + 4 * second, 2 * second));
        assert_eq!(starts.oldest(), Some(at(30)), "a track without key frames does not hold it back");
    }
}
