//! What RTMP publishers send: the video of `media.rs` as whole frames, and audio of the embedded
//! clip.
//!
//! The same H.264, 600 kbit/s at 30 frames a second with a key frame every 2 s, so that a
//! bridge gives viewers what a WHIP publisher would have given them. The audio is a recording in
//! AAC-LC (44.1 kHz, stereo, 64 kbit/s): a server that transcodes it has real work. Each frame
//! ends in a place for a mark. Connecting and sending are left to `rtmp.rs`.

use rtmp::MediaKind;

use super::h264;
use super::mark::{self, MARK_BYTES, Mark};
use super::media;
use crate::sample::Sample;

/// The repeated media; shared by all publishers.
#[derive(Clone, Debug)]
pub struct FlvMedia {
    /// Sequence headers, in the order they are sent.
    pub headers: Vec<(MediaKind, Vec<u8>)>,
    /// FLV bodies of a group of pictures, the key frame first; each has room for a mark.
    video: Vec<Vec<u8>>,
    /// FLV bodies.
    audio: Vec<Vec<u8>>,
    /// Audio samples per second.
    sample_rate: u32,
}

impl FlvMedia {
    /// Encodes the frames and takes the audio out of the embedded clip.
    ///
    /// # Errors
    /// Never in a released binary; the text says what is wrong with the clip.
    pub fn new() -> Result<FlvMedia, String> {
        let clip = Sample::embedded()?;
        let (config, frames) = clip.audio().ok_or("the clip has no audio")?;
        let sample_rate = sample_rate_of(config).ok_or("the clip's audio is not AAC")?;
        Ok(FlvMedia {
            headers: vec![(MediaKind::Video, video_header()), (MediaKind::Audio, config.to_vec())],
            video: media::video_frames()
                .iter()
                .enumerate()
                .map(|(index, unit)| body(index == 0, unit))
                .collect(),
            audio: frames.into_iter().map(<[u8]>::to_vec).collect(),
            sample_rate,
        })
    }

    /// Frames of a publisher per second: of video, and the packets of 20 ms that its audio becomes.
    pub const FRAMES_PER_SECOND: u32 = VIDEO_FRAMES_PER_SECOND as u32 + 50;
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'a> {
    /// Audio or video.
    pub kind: MediaKind,
    /// RTMP timestamp, milliseconds, wrapping.
    pub timestamp: u32,
    /// Payload, with its mark.
    pub body: &'a [u8],
}

/// When a publisher sends what.
#[derive(Clone, Debug)]
pub struct Timeline {
    publisher: u64,
    origin_ns: u64,
    video_frames: u64,
    audio_frames: u64,
    scratch: Vec<u8>,
}

impl Timeline {
    /// Begins at `origin_ns`; `publisher` is written into the marks.
    pub fn new(publisher: u64, origin_ns: u64) -> Timeline {
        Timeline { publisher, origin_ns, video_frames: 0, audio_frames: 0, scratch: Vec::new() }
    }

    /// When the next message is due, in the clock of `origin_ns`.
    pub fn next_due_ns(&self, media: &FlvMedia) -> u64 {
        let audio_ns = self.audio_frames * AAC_SAMPLES * 1_000_000_000 / u64::from(media.sample_rate);
        self.video_ns().min(self.origin_ns + audio_ns)
    }

    /// The next message; a video frame is marked with `now_ns`.
    pub fn take<'a>(&'a mut self, media: &'a FlvMedia, now_ns: u64) -> Due<'a> {
        let due_ns = self.next_due_ns(media);
        let timestamp = ((due_ns - self.origin_ns) / 1_000_000) as u32;
        if due_ns < self.video_ns() {
            let body = &media.audio[self.audio_frames as usize % media.audio.len()];
            self.audio_frames += 1;
            return Due { kind: MediaKind::Audio, timestamp, body };
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&media.video[self.video_frames as usize % media.video.len()]);
        let mark = Mark {
            publisher: self.publisher,
            sent_ns: now_ns,
            number: self.video_frames,
            counts: mark::Counted::Frames,
        };
        mark::write(&mut self.scratch, &mark);
        self.video_frames += 1;
        Due { kind: MediaKind::Video, timestamp, body: &self.scratch }
    }

    fn video_ns(&self) -> u64 {
        self.origin_ns + self.video_frames * 1_000_000_000 / VIDEO_FRAMES_PER_SECOND
    }
}

/// AVCDecoderConfigurationRecord (ISO/IEC 14496-15 section 5.3.3.1) behind the head of a sequence header.
fn video_header() -> Vec<u8> {
    let (sequence, parameters) = (h264::sequence_parameters(), h264::picture_parameters());
    let mut body = vec![0x17, 0, 0, 0, 0];
    // Version; profile, compatibility and level as in the parameter set; lengths of four bytes; one set.
    body.extend_from_slice(&[1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1]);
    body.extend_from_slice(&(sequence.len() as u16).to_be_bytes());
    body.extend_from_slice(&sequence);
    body.push(1);
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    body.extend_from_slice(&parameters);
    body
}

/// A frame of one slice: head of the tag, no composition offset, length, slice.
fn body(is_key: bool, unit: &h264::Unit) -> Vec<u8> {
    let mut body = vec![if is_key { 0x17 } else { 0x27 }, 1, 0, 0, 0];
    body.extend_from_slice(&(unit.bytes.len() as u32).to_be_bytes());
    let skipped = body.len();
    body.extend_from_slice(&unit.bytes);
    let mark = mark::place(body.len()).map_or(0..0, |at| at - skipped..at - skipped + MARK_BYTES);
    debug_assert!(unit.free.iter().any(|free| free.start <= mark.start && mark.end <= free.end));
    body
}

/// Sampling frequency of an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1) behind the head
/// of its message.
fn sample_rate_of(body: &[u8]) -> Option<u32> {
    let &[0xa0..=0xaf, 0, first, second, ..] = body else { return None };
    RATES.get(usize::from((first & 7) << 1 | second >> 7)).copied()
}

const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

const VIDEO_FRAMES_PER_SECOND: u64 = 30;

/// Samples of a frame of AAC.
const AAC_SAMPLES: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use rtp::packetize::{self, PacketSlab, Sender};

    const BEGIN_NS: u64 = 1_795_000_000_000_000_000;

    #[test]
    fn two_seconds_hold_a_group_of_marked_frames_and_the_audio() {
        let media = FlvMedia::new().expect("the clip is readable");
        let (mut timeline, mut video_frames, mut audio_frames, mut last) =
            (Timeline::new(7, BEGIN_NS), 0, 0, 0);
        while timeline.next_due_ns(&media) < BEGIN_NS + 2_000_000_000 {
            let due = timeline.take(&media, BEGIN_NS + 5);
            assert!(due.timestamp >= last, "{} after {last}", due.timestamp);
            last = due.timestamp;
            if due.kind == MediaKind::Audio {
                audio_frames += 1;
                continue;
            }
            let mark = mark::find(due.body).expect("every frame is marked");
            let counts = mark::Counted::Frames;
            assert_eq!(mark, Mark { publisher: 7, sent_ns: BEGIN_NS + 5, number: video_frames, counts });
            assert_eq!(due.body[0] == 0x17, video_frames % 60 == 0);
            video_frames += 1;
        }
        assert_eq!((video_frames, audio_frames), (60, 2 * 44_100 / 1024 + 1));
    }

    #[test]
    fn marks_survive_however_frames_are_cut() {
        let media = FlvMedia::new().expect("the clip is readable");
        let mut timeline = Timeline::new(7, BEGIN_NS);
        let (mut slab, mut sender) = (PacketSlab::default(), Sender::new(1, 0));
        for payload_bytes_max in (300..1500).chain([4000, 60_000]) {
            let due = timeline.take(&media, BEGIN_NS);
            if due.kind == MediaKind::Audio {
                continue;
            }
            slab.clear();
            let mut writer = sender.frame(96, 0, &mut slab);
            packetize::h264::packetize(std::iter::once(&due.body[9..]), payload_bytes_max, &mut writer);
            writer.end_frame(true);
            let (_, last) = slab.iter().next_back().expect("a packet");
            let number = timeline.video_frames - 1;
            assert_eq!(mark::find(last).map(|mark| mark.number), Some(number), "{payload_bytes_max}");
        }
    }

    #[test]
    fn bodies_are_what_servers_understand() {
        let media = FlvMedia::new().expect("the clip is readable");
        let roles: Vec<_> = media
            .headers
            .iter()
            .map(|(kind, body)| rtmp::flv::Tag { kind: *kind, timestamp: 0, body: body.clone() })
            .map(|tag| rtmp::flv::read_frames(tag.into()).expect("a header").0.role)
            .collect();
        assert_eq!(roles, [::media::FrameRole::Config; 2]);
        for (index, body) in media.video.iter().enumerate() {
            let length = u32::from_be_bytes([body[5], body[6], body[7], body[8]]) as usize;
            assert_eq!(length, body.len() - 9, "{index}");
        }
    }
}
