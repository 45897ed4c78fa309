//! What a viewer's own path has lost of what its receiver reports say is missing.
//!
//! A packet that never got here, from the publisher, over a link between nodes or between workers, leaves a
//! gap in the numbers that viewers are sent ([`rtp_rewriter`](super::rtp_rewriter)). A viewer cannot tell
//! it from loss on its own path, and reports both. Here both are known: the packet cache has what was sent.
//! Congestion control and repair packets are given what is left. Nor is a number lost that was left out on
//! purpose, where a picture was cut short ([`ViewerTrack::leave_gap`]).
//!
//! What is older than the cache counts like the rest of the report's interval.

use std::time::Duration;

use rtp::rtcp::ReportBlock;

use super::packet_cache::PacketCache;
use super::track::Track;
use super::viewer::{ColdTrack, ViewerTrack};

impl ColdTrack {
    /// Takes a report on this track, so long after its viewer joined; what its path has lost, as a share
    /// of 256.
    pub(crate) fn take_report(
        &mut self,
        since_joined: Duration,
        hot: &ViewerTrack,
        track: &Track,
        block: &ReportBlock,
    ) -> u8 {
        let (at_ms, highest) = (since_joined.as_millis() as u32, block.highest_sequence_number);
        if self.reported.is_some_and(|(before_ms, _)| at_ms.wrapping_sub(before_ms) < LOOKED_EACH_MS) {
            return self.own_fraction_lost.min(block.fraction_lost);
        }
        let before = self.reported.replace((at_ms, highest));
        // Nearly always: nothing is to be looked for.
        if block.fraction_lost == 0 {
            return 0;
        }
        // Reported from the next packet on, so perhaps not with the first report that comes.
        let left_out = u32::from(std::mem::take(&mut self.left_out));
        let interval =
            before.map_or(NUMBERS_MAX, |(_, before)| highest.wrapping_sub(before).min(NUMBERS_MAX));
        let (mut known, mut unsent) = (0_u32, 0_u32);
        for back in 0..interval {
            if let Some(is_here) = self.was_here(hot, track, highest.wrapping_sub(back) as u16) {
                known += 1;
                unsent += u32::from(!is_here);
            }
        }
        if unsent + left_out == 0 {
            return block.fraction_lost;
        }
        let unsent = f64::from(unsent) / f64::from(known.max(1));
        let expected = before.map_or(hot.packets, |_| interval).max(1);
        let lost = f64::from(block.fraction_lost) / 256.0 - f64::from(left_out) / f64::from(expected);
        let own = (lost - unsent) / (1.0 - unsent);
        // What was not lost came, so that there was something: no division by nothing.
        if own.is_finite() { (own * 256.0).clamp(0.0, 255.0) as u8 } else { 0 }
    }

    /// Whether the packet that a viewer has under this number was here to be sent, if that is still known.
    fn was_here(&self, hot: &ViewerTrack, track: &Track, sequence_number: u16) -> Option<bool> {
        let current = (self.rendition(), *hot);
        let before = self.layers.iter().flat_map(|layers| layers.previous.iter().rev());
        let all = std::iter::once(current).chain(before.map(|before| (before.rendition, before.track)));
        all.filter_map(|(rendition, stretch)| {
            let cache = &track.rendition(rendition)?.cache;
            let number = stretch.number_of(cache, sequence_number)?;
            (number >= cache.first()).then(|| cache.get(number).is_some())
        })
        .next()
    }
}

impl ViewerTrack {
    /// Which number of its output the viewer has under this one, if it is one of this stretch.
    pub(crate) fn number_of(&self, cache: &PacketCache, sequence_number: u16) -> Option<u64> {
        let newest = cache.end().min(self.until).checked_sub(1)?;
        let back = self.sequence_number(newest).wrapping_sub(sequence_number);
        newest.checked_sub(u64::from(back)).filter(|number| *number >= self.from)
    }
}

/// A report that comes sooner is read with what the one before has shown: a viewer that sends thousands of
/// them is not worth as many looks.
const LOOKED_EACH_MS: u32 = 100;
/// Numbers of one report that are looked up: 5 s of some 800 packets, which is more than is kept.
const NUMBERS_MAX: u32 = 4_096;

#[cfg(test)]
mod tests {
    use rtp::extension::Form;
    use rtp::payload::MediaKind;

    use super::*;
    use crate::inputs::ViewerTrackInput;
    use crate::track::TrackIndex;

    #[test]
    fn numbers_that_were_left_out_are_no_losses() {
        let index = TrackIndex::new(MediaKind::Video, 0).expect("one");
        let input = ViewerTrackInput {
            track: index,
            ssrc: 1,
            rtx_ssrc: None,
            mid: String::new(),
            form: Form::OneByte,
            extensions: Default::default(),
            payloads: Vec::new(),
            nack: true,
            fec: None,
        };
        let (mut cold, track) = (ColdTrack::new(&input), Track::new(index));
        let hot = ViewerTrack { packets: 40, ..ViewerTrack::NONE };
        // Seconds, lost of 40 by its report, left out, lost by its path.
        let rows = [(1, 2, 2, 0), (2, 2, 0, 2), (3, 10, 2, 8), (4, 0, 3, 0), (5, 3, 0, 0), (6, 3, 0, 3)];
        for (seconds, reported, left_out, own) in rows {
            cold.left_out += left_out;
            let share = |lost: u32| (lost * 256 / 40) as u8;
            let block = ReportBlock {
                fraction_lost: share(reported),
                highest_sequence_number: 40 * seconds,
                ..ReportBlock::default()
            };
            let found = cold.take_report(Duration::from_secs(seconds.into()), &hot, &track, &block);
            assert!(found.abs_diff(share(own)) <= 2, "{seconds}: {found}, should be {}", share(own));
        }
    }
}
