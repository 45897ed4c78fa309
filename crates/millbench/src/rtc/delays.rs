//! How late media arrives, by what it is: audio, key frames, other frames of video.
//!
//! A packet's delay runs from the publisher's send call to its arrival, and needs the packet decrypted for
//! its mark. A key frame is also timed as a whole: until all of it has arrived at the last viewer, for
//! which headers are enough once any viewer has decrypted one of its packets.

use serde::Serialize;

use super::media::Track;
use crate::stats::{Percentiles, Times};

/// Delays since they were last cleared.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    audio: Times,
    video: Times,
    key: Times,
    key_complete: Times,
    /// Frames that still arrive, of each stream.
    frames: Vec<Vec<Frame>>,
}

/// The percentiles of [`Delays`].
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DelaysByKind {
    /// Packets of audio.
    pub audio: Option<Percentiles>,
    /// Packets of video that belong to no key frame.
    pub video: Option<Percentiles>,
    /// Packets of key frames.
    pub key: Option<Percentiles>,
    /// Key frames, until the last viewer has all of one.
    pub key_complete: Option<Percentiles>,
}

/// A frame of video on its way to the viewers of a stream.
#[derive(Clone, Copy, Debug)]
struct Frame {
    timestamp: u32,
    last_arrival_ns: u64,
    /// When the first packet that was decrypted had been sent, of a key frame.
    key_sent_ns: Option<u64>,
}

impl Delays {
    /// A packet of video arrived at a viewer of a stream.
    pub fn arrived(&mut self, stream: usize, timestamp: u32, at_ns: u64) {
        let frame = self.frame(stream, timestamp, at_ns);
        frame.last_arrival_ns = frame.last_arrival_ns.max(at_ns);
    }

    /// The mark of a packet was read.
    pub fn note(&mut self, stream: usize, track: Track, key: Option<u32>, sent_ns: u64, at_ns: u64) {
        let times = match (track, key) {
            (Track::Audio, _) => &mut self.audio,
            (Track::Video, None) => &mut self.video,
            (Track::Video, Some(_)) => &mut self.key,
        };
        times.record_ns(at_ns.saturating_sub(sent_ns));
        if let Some(timestamp) = key {
            let frame = self.frame(stream, timestamp, at_ns);
            frame.key_sent_ns = Some(frame.key_sent_ns.map_or(sent_ns, |known| known.min(sent_ns)));
        }
    }

    /// The frame with this timestamp; the oldest one is complete when there are too many.
    fn frame(&mut self, stream: usize, timestamp: u32, at_ns: u64) -> &mut Frame {
        if self.frames.len() <= stream {
            self.frames.resize_with(stream + 1, Vec::new);
        }
        let frames = &mut self.frames[stream];
        let known = frames.iter().rposition(|frame| frame.timestamp == timestamp);
        let at = known.unwrap_or_else(|| {
            if frames.len() == FRAMES_UNDER_WAY {
                let complete = frames.remove(0);
                if let Some(sent_ns) = complete.key_sent_ns {
                    self.key_complete.record_ns(complete.last_arrival_ns.saturating_sub(sent_ns));
                }
            }
            frames.push(Frame { timestamp, last_arrival_ns: at_ns, key_sent_ns: None });
            frames.len() - 1
        });
        &mut frames[at]
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        for times in [&mut self.audio, &mut self.video, &mut self.key, &mut self.key_complete] {
            times.clear();
        }
    }

    /// What was recorded.
    pub fn percentiles(&self) -> DelaysByKind {
        DelaysByKind {
            audio: self.audio.percentiles(),
            video: self.video.percentiles(),
            key: self.key.percentiles(),
            key_complete: self.key_complete.percentiles(),
        }
    }
}

/// Frames of a stream that are looked at together: a third of a second at 30 a second.
const FRAMES_UNDER_WAY: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_frame_is_complete_when_the_last_viewer_has_it() {
        let mut delays = Delays::default();
        let ms = |ms: u64| 1_000_000_000 + ms * 1_000_000;
        // Of the key frame with timestamp 7, two of the packets are decrypted.
        delays.arrived(3, 7, ms(5));
        delays.note(3, Track::Video, Some(7), ms(1), ms(5));
        delays.arrived(3, 7, ms(9));
        delays.note(3, Track::Video, Some(7), ms(0), ms(9));
        delays.arrived(3, 7, ms(30));
        delays.arrived(0, 7, ms(50));
        delays.note(3, Track::Audio, None, ms(0), ms(2));
        delays.note(3, Track::Video, None, ms(0), ms(6));
        for frame in 0..FRAMES_UNDER_WAY as u32 {
            assert_eq!(delays.percentiles().key_complete, None);
            delays.arrived(3, 100 + frame, ms(60));
        }
        let found = delays.percentiles();
        let near =
            |times: Option<Percentiles>, ms: f64| times.is_some_and(|times| (times.max_ms - ms).abs() < 0.4);
        assert!(near(found.key_complete, 30.0) && near(found.key, 9.0), "{found:?}");
        assert!(near(found.audio, 2.0) && near(found.video, 6.0), "{found:?}");
        delays.clear();
        assert_eq!(delays.percentiles().key, None);
    }
}
