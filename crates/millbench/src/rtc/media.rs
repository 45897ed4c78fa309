//! What publishers send: two seconds of H.264 and Opus, made by code, cut into packets as browsers
//! do, and repeated.
//!
//! 600 kbit/s of video at 30 frames a second, a key frame every 2 s, and an Opus packet of 160
//! bytes every 20 ms: 71 + 50 packets a second. A frame that does not fit into a packet is split
//! into nearly equal ones, the last of which are a byte larger (FU-A, RFC 6184 section 5.8);
//! parameter sets travel in a packet of their own before each key frame (STAP-A, section 5.7.1).
//! Sizes vary from frame to frame. Sending is left to `publisher.rs`.

use super::h264::{self, Unit};
use super::mark::{self, MARK_BYTES};

/// Which of the two tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Opus at 48 kHz.
    Audio,
    /// H.264 at 90 kHz.
    Video,
}

impl Track {
    /// Both, in the order of [`Track::index`].
    pub const ALL: [Track; 2] = [Track::Audio, Track::Video];

    /// 0 for audio, 1 for video.
    pub fn index(self) -> usize {
        self as usize
    }

    /// RTP units per second.
    pub fn clock_rate(self) -> u32 {
        match self {
            Track::Audio => 48_000,
            Track::Video => 90_000,
        }
    }

    /// RTP units between two frames.
    fn step(self) -> u32 {
        match self {
            Track::Audio => 960,
            Track::Video => 3000,
        }
    }
}

/// A payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// RTP payload.
    pub bytes: Vec<u8>,
    /// Whether a mark may be written into it.
    pub marked: bool,
}

/// The repeated media; shared by all publishers.
#[derive(Clone, Debug)]
pub struct Media {
    /// Payloads of each frame of a group, the key frame first.
    video: Vec<Vec<Payload>>,
    audio: Vec<Payload>,
}

impl Media {
    /// Encodes it.
    pub fn new() -> Media {
        let mut video: Vec<_> = video_frames().iter().map(fragments).collect();
        video[0].insert(0, parameter_sets());
        Media { video, audio: vec![opus_payload()] }
    }

    /// Payloads of a frame.
    pub fn payloads(&self, frame: Frame) -> &[Payload] {
        match frame.track {
            Track::Audio => &self.audio,
            Track::Video => &self.video[frame.position % self.video.len()],
        }
    }

    /// Frames from one key frame to the next.
    pub fn group_length(&self) -> usize {
        self.video.len()
    }
}

impl Default for Media {
    fn default() -> Media {
        Media::new()
    }
}

/// Packets per second of a publisher: both tracks.
pub const PACKETS_PER_SECOND: u32 = 121;

/// A frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of which track.
    pub track: Track,
    /// Position in the group of pictures; 0 is the key frame. 0 for audio.
    pub position: usize,
    /// RTP units since the begin.
    pub timestamp: u32,
}

/// When a publisher sends what.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    origin_ns: u64,
    /// Frames taken of each track.
    taken: [u64; 2],
    position: usize,
}

impl Timeline {
    /// Begins with a key frame at `origin_ns`.
    pub fn new(origin_ns: u64) -> Timeline {
        Timeline { origin_ns, taken: [0; 2], position: 0 }
    }

    /// When the next frame is due, in the clock of `origin_ns`.
    pub fn next_due_ns(&self) -> u64 {
        self.due_ns(self.next_track())
    }

    /// The next frame; the one after it is due later or at the same time.
    pub fn take(&mut self, media: &Media) -> Frame {
        let track = self.next_track();
        let taken = &mut self.taken[track.index()];
        let timestamp = (*taken as u32).wrapping_mul(track.step());
        *taken += 1;
        let mut position = 0;
        if track == Track::Video {
            position = self.position;
            self.position = (self.position + 1) % media.group_length();
        }
        Frame { track, position, timestamp }
    }

    /// Makes the next frame a key frame, unless the last one was.
    pub fn want_key_frame(&mut self) {
        if self.position != 1 {
            self.position = 0;
        }
    }

    fn next_track(&self) -> Track {
        if self.due_ns(Track::Audio) <= self.due_ns(Track::Video) { Track::Audio } else { Track::Video }
    }

    fn due_ns(&self, track: Track) -> u64 {
        let per_second = u64::from(track.clock_rate() / track.step());
        self.origin_ns + self.taken[track.index()] * 1_000_000_000 / per_second
    }
}

/// The frames of a group, the key frame first.
pub(super) fn video_frames() -> Vec<Unit> {
    let changed = frame_sizes().into_iter().zip(1..).map(|(raw, number)| h264::changed_frame(number, raw));
    std::iter::once(h264::key_frame(KEY_RAW)).chain(changed).collect()
}

/// Raw macroblocks of each frame after the key frame: 59 frames of one to three packets, 600
/// kbit/s in all.
fn frame_sizes() -> Vec<u32> {
    // How often each size occurs. Sizes from 7 on take three packets, 3 to 6 take two.
    let mut sizes: Vec<u32> = [(4, 6), (5, 8), (6, 32), (7, 5), (8, 5), (9, 3)]
        .iter()
        .flat_map(|&(raw, times)| vec![raw; times])
        .collect();
    // Mixed, always in the same way.
    let mut random = 0x9e37_79b9u32;
    for last in (1..sizes.len()).rev() {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        sizes.swap(last, random as usize % (last + 1));
    }
    sizes
}

/// In one packet, before each key frame.
fn parameter_sets() -> Payload {
    let mut bytes = vec![STAP_A | 0x60];
    for set in [h264::sequence_parameters(), h264::picture_parameters()] {
        bytes.extend_from_slice(&(set.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&set);
    }
    Payload { bytes, marked: false }
}

/// Cuts a NAL unit into payloads: whole if it fits, otherwise into nearly equal parts, larger ones last.
fn fragments(unit: &Unit) -> Vec<Payload> {
    let (header, length) = (unit.bytes[0], unit.bytes.len());
    if length <= PAYLOAD_MAX {
        return vec![Payload { bytes: unit.bytes.clone(), marked: is_free(unit, mark_range(0, 0, length)) }];
    }
    let body = &unit.bytes[1..];
    let count = body.len().div_ceil(PAYLOAD_MAX - FU_HEADER);
    let (small, larger) = (body.len() / count, body.len() % count);
    let mut begin = 0;
    let mut cut = |index: usize| {
        let end = begin + small + usize::from(index >= count - larger);
        let ends = u8::from(index == 0) << 7 | u8::from(index + 1 == count) << 6;
        let mut bytes = vec![FU_A | header & 0xe0, ends | header & 0x1f];
        bytes.extend_from_slice(&body[begin..end]);
        let marked = is_free(unit, mark_range(1 + begin, FU_HEADER, bytes.len()));
        begin = end;
        Payload { bytes, marked }
    };
    (0..count).map(&mut cut).collect()
}

/// Bytes of the NAL unit that a mark would take in a payload of `length` whose bytes from `skipped`
/// on are those of the unit from `begin` on.
fn mark_range(begin: usize, skipped: usize, length: usize) -> Option<std::ops::Range<usize>> {
    let at = mark::place(length)?.checked_sub(skipped)? + begin;
    Some(at..at + MARK_BYTES)
}

fn is_free(unit: &Unit, range: Option<std::ops::Range<usize>>) -> bool {
    range.is_some_and(|mark| unit.free.iter().any(|free| free.start <= mark.start && mark.end <= free.end))
}

/// 20 ms of silence and padding (RFC 6716 sections 3.1 and 3.2.5): full band, mono, one frame.
fn opus_payload() -> Payload {
    let padding = OPUS_BYTES - 5;
    // Configuration 31, code 3; one frame with padding; its length; CELT's frame of silence.
    let mut bytes = vec![31 << 3 | 3, 0x41, padding as u8, 0xff, 0xfe];
    bytes.resize(OPUS_BYTES, 0);
    Payload { bytes, marked: true }
}

/// Raw macroblocks of a key frame.
const KEY_RAW: u32 = 28;

/// Browsers keep packets at 1200 bytes with RTP header and extensions.
const PAYLOAD_MAX: usize = 1168;

const OPUS_BYTES: usize = 160;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const FU_HEADER: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtc::mark::Mark;

    #[test]
    fn a_second_has_the_promised_packets_and_bits() {
        let media = Media::new();
        let video: Vec<&Payload> = media.video.iter().flatten().collect();
        assert_eq!(media.group_length(), 60);
        assert_eq!(video.len() as u32 / 2 + 50, PACKETS_PER_SECOND);
        assert_eq!(video.len() % 2, 0);
        let bits_per_second = video.iter().map(|payload| payload.bytes.len() * 8).sum::<usize>() / 2;
        assert!((595_000..605_000).contains(&bits_per_second), "{bits_per_second}");
    }

    #[test]
    fn frames_are_cut_nearly_equally_with_larger_packets_last() {
        for (index, payloads) in Media::new().video.iter().enumerate() {
            let cut = &payloads[usize::from(index == 0)..];
            let (first, last) = (cut[0].bytes.len(), cut[cut.len() - 1].bytes.len());
            assert!(last - first <= 1 && cut.is_sorted_by_key(|payload| payload.bytes.len()), "{index}");
            assert!(last <= PAYLOAD_MAX && (cut.len() == 1 || first > PAYLOAD_MAX / 2), "{index}: {first}");
        }
    }

    /// Reassembles the packets of a frame (RFC 6184 section 5.8).
    fn reassemble(payloads: &[Payload]) -> Vec<u8> {
        let mut unit = Vec::new();
        for payload in payloads {
            let bytes = &payload.bytes;
            match bytes[0] & 0x1f {
                FU_A if bytes[1] & 0x80 != 0 => unit.push(bytes[0] & 0xe0 | bytes[1] & 0x1f),
                FU_A => {}
                _ => return bytes.clone(),
            }
            unit.extend_from_slice(&bytes[2..]);
        }
        unit
    }

    #[test]
    fn fragments_are_the_frame_again() {
        for raw in 0..40 {
            let unit = h264::key_frame(raw);
            assert_eq!(reassemble(&fragments(&unit)), unit.bytes, "{raw}");
        }
    }

    #[test]
    fn marks_change_samples_only() {
        let media = Media::new();
        for (position, raw) in frame_sizes().into_iter().enumerate() {
            let unit = h264::changed_frame(position as u32 + 1, raw);
            let mut payloads = media.video[position + 1].clone();
            for payload in payloads.iter_mut().filter(|payload| payload.marked) {
                let mark = Mark { publisher: 1, sent_ns: 2, number: 3, ..Mark::default() };
                mark::write(&mut payload.bytes, &mark);
            }
            let marked = reassemble(&payloads);
            for (at, (before, after)) in unit.bytes.iter().zip(&marked).enumerate() {
                assert!(
                    before == after || unit.free.iter().any(|free| free.contains(&at)),
                    "{position}: {at}"
                );
            }
        }
    }

    #[test]
    fn most_packets_can_be_marked() {
        let media = Media::new();
        let video: Vec<&Payload> = media.video.iter().flatten().collect();
        let marked = video.iter().filter(|payload| payload.marked).count();
        assert!(marked * 10 >= video.len() * 8, "{marked} of {}", video.len());
        assert!(media.audio.iter().all(|payload| payload.marked && payload.bytes.len() == OPUS_BYTES));
    }

    #[test]
    fn frames_come_in_time_order_at_both_rates() {
        let (media, mut timeline) = (Media::new(), Timeline::new(1_000));
        let mut last = 0;
        let mut frames = Vec::new();
        while timeline.next_due_ns() < 1_000 + 4_000_000_000 {
            assert!(timeline.next_due_ns() >= last);
            last = timeline.next_due_ns();
            frames.push(timeline.take(&media));
        }
        let video: Vec<&Frame> = frames.iter().filter(|frame| frame.track == Track::Video).collect();
        assert_eq!((frames.len(), video.len()), (4 * 80, 4 * 30));
        assert_eq!(video.iter().filter(|frame| frame.position == 0).count(), 2);
        assert!(video.windows(2).all(|pair| pair[1].timestamp - pair[0].timestamp == 3000));
    }

    #[test]
    fn a_wanted_key_frame_is_the_next_one() {
        let (media, mut timeline) = (Media::new(), Timeline::new(0));
        let next_frame = |timeline: &mut Timeline| loop {
            let frame = timeline.take(&media);
            if frame.track == Track::Video {
                break frame.position;
            }
        };
        assert_eq!((next_frame(&mut timeline), next_frame(&mut timeline)), (0, 1));
        timeline.want_key_frame();
        assert_eq!(next_frame(&mut timeline), 0);
        timeline.want_key_frame();
        assert_eq!(next_frame(&mut timeline), 1, "the last one was a key frame: not again");
    }
}
