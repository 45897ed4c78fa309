//! The media that publishers send: an FLV file in memory, endlessly repeated with continuing timestamps.
//!
//! The embedded sample is the demo clip: ten seconds of H.264 and AAC at about 605 kbit/s. Sequence
//! headers and metadata are sent once, at the start of a session; the loop holds coded frames only. Each
//! H.264 frame gets room for a [`stamp`] when the file is loaded.

use media::{Codec, FrameRole};
use rtmp::MediaKind;
use rtmp::flv::{FlvReader, read_frames};

use crate::stamp::{self, Stamp};
use crate::stats::Counted;
use crate::tally::Count;

/// A sample file ready to be sent by any number of sessions of one thread.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Metadata and sequence headers, sent once with timestamp 0.
    pub headers: Vec<(MediaKind, Vec<u8>)>,
    /// Coded frames in order of sending; timestamps start at 0.
    frames: Vec<Frame>,
    /// Duration of one loop, milliseconds.
    loop_ms: u32,
}

#[derive(Clone, Debug)]
struct Frame {
    kind: MediaKind,
    timestamp: u32,
    body: Vec<u8>,
    stamped: bool,
}

/// A message to send now.
#[derive(Clone, Copy, Debug)]
pub struct Due<'a> {
    /// Audio or video.
    pub kind: MediaKind,
    /// RTMP timestamp, milliseconds, wrapping.
    pub timestamp: u32,
    /// Payload, with its stamp filled in.
    pub body: &'a [u8],
}

impl Sample {
    /// The embedded demo clip.
    ///
    /// # Errors
    /// Never in a released binary; the text says what is wrong with the embedded file.
    pub fn embedded() -> Result<Sample, String> {
        Sample::from_flv(EMBEDDED)
    }

    /// Reads a whole FLV file.
    ///
    /// # Errors
    /// A text for the user, when the file is no FLV or holds fewer than two frames.
    pub fn from_flv(file: &[u8]) -> Result<Sample, String> {
        let mut reader = FlvReader::new(MAX_TAG_BYTES);
        reader.push(file);
        let mut headers: Vec<(MediaKind, Vec<u8>)> = Vec::new();
        let mut frames = Vec::new();
        let mut room_for_stamp = false;
        while let Some(tag) =
            reader.next_tag().map_err(|error| format!("not a readable FLV file: {error:?}"))?
        {
            let (frame, _) =
                read_frames(tag.clone().into()).map_err(|error| format!("a damaged FLV tag: {error:?}"))?;
            match frame.role {
                FrameRole::Config | FrameRole::Metadata => {
                    // `lengthSizeMinusOne` of the AVCDecoderConfigurationRecord (ISO/IEC 14496-15
                    // §5.3.3.1.2).
                    let length_size =
                        tag.body.get(stamp::AVC_TAG_HEADER_BYTES + 4).map_or(0, |byte| byte & 3);
                    if frame.codec == Codec::H264 && tag.kind == MediaKind::Video {
                        room_for_stamp = tag.body[0] & 0x80 == 0 && length_size == 3;
                    }
                    if !headers.contains(&(tag.kind, tag.body.clone())) {
                        headers.push((tag.kind, tag.body));
                    }
                }
                FrameRole::End | FrameRole::Other => {}
                _ if tag.kind == MediaKind::Data => {}
                _ => {
                    let stamped =
                        room_for_stamp && tag.kind == MediaKind::Video && frame.codec == Codec::H264;
                    let body = if stamped { stamp::make_room(&tag.body) } else { tag.body };
                    frames.push(Frame { kind: tag.kind, timestamp: tag.timestamp, body, stamped });
                }
            }
        }
        if frames.len() < 2 {
            return Err("the FLV file holds fewer than two audio or video frames".to_owned());
        }
        // Interleaving in files is not always in order of time; sending is.
        let first = frames.iter().map(|frame| frame.timestamp).min().unwrap_or(0);
        frames.iter_mut().for_each(|frame| frame.timestamp -= first);
        frames.sort_by_key(|frame| frame.timestamp);
        let loop_ms = loop_duration_ms(&frames);
        Ok(Sample { headers, frames, loop_ms })
    }

    /// Its audio: sequence header and frames; `None` if there is no such header.
    pub fn audio(&self) -> Option<(&[u8], Vec<&[u8]>)> {
        let (_, header) = self.headers.iter().find(|(kind, _)| *kind == MediaKind::Audio)?;
        let frames = self.frames.iter().filter(|frame| frame.kind == MediaKind::Audio);
        Some((header, frames.map(|frame| &frame.body[..]).collect()))
    }

    /// Whether `units` are the access units of so many video frames from number `first` on, whatever their
    /// stamps say.
    pub fn has_video(&self, first: u64, frames: u64, mut units: &[u8]) -> bool {
        let video: Vec<_> = self.frames.iter().filter(|frame| frame.kind == MediaKind::Video).collect();
        for number in first..first + frames {
            let body = &video[(number % video.len() as u64) as usize].body;
            let unit = &body[stamp::AVC_TAG_HEADER_BYTES..];
            let Some((found, rest)) = units.split_at_checked(unit.len()) else { return false };
            if found[stamp::STAMP_BYTES..] != unit[stamp::STAMP_BYTES..] {
                return false;
            }
            units = rest;
        }
        units.is_empty()
    }

    /// Bytes of audio and video that one second of the loop holds, on average.
    pub fn bytes_per_second(&self) -> f64 {
        let bytes: usize = self.frames.iter().map(|frame| frame.body.len()).sum();
        bytes as f64 * 1000.0 / f64::from(self.loop_ms)
    }

    /// Audio and video messages that one second of the loop holds, on average.
    pub fn messages_per_second(&self) -> f64 {
        self.frames.len() as f64 * 1000.0 / f64::from(self.loop_ms)
    }

    /// Whether players can check every byte (H.264 with four-byte NAL sizes).
    pub fn is_stamped(&self) -> bool {
        self.frames.iter().any(|frame| frame.stamped)
    }
}

/// Position of one publisher in its endless repetition of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    next_index: usize,
    loops: u64,
    frame: u64,
    run: u64,
    /// Messages and payload bytes taken so far.
    pub sent: Count,
}

impl Timeline {
    /// Starts at the beginning; `run` marks the stamps of this publisher.
    pub fn new(run: u64) -> Timeline {
        Timeline { run: run & ((1 << 35) - 1), ..Timeline::default() }
    }

    /// When the next message is due, milliseconds after the start.
    pub fn next_due_ms(&self, sample: &Sample) -> u64 {
        self.loops * u64::from(sample.loop_ms) + u64::from(sample.frames[self.next_index].timestamp)
    }

    /// Takes the next message and stamps it with `now_ns` (wall clock, nanoseconds since the Unix epoch).
    pub fn take<'a>(&mut self, sample: &'a mut Sample, now_ns: u64) -> Due<'a> {
        let timestamp = self.next_due_ms(sample) as u32;
        let frame_count = sample.frames.len();
        let frame = &mut sample.frames[self.next_index];
        if frame.stamped {
            let Count { messages, bytes } = self.sent;
            let stamp = Stamp { run: self.run, sent_ns: now_ns, frame: self.frame, messages, bytes };
            stamp::write(&mut frame.body, &stamp);
            self.frame += 1;
        }
        self.sent.add(&Count { messages: 1, bytes: frame.body.len() as u64 });
        self.next_index += 1;
        if self.next_index == frame_count {
            self.next_index = 0;
            self.loops += 1;
        }
        Due { kind: frame.kind, timestamp, body: &frame.body }
    }
}

/// Last timestamp of each kind plus its mean interval; the longer of the two, so that no kind overlaps.
fn loop_duration_ms(frames: &[Frame]) -> u32 {
    let end = |kind| {
        let timestamps: Vec<u32> = frames.iter().filter(|f| f.kind == kind).map(|f| f.timestamp).collect();
        let (Some(first), Some(last)) = (timestamps.first(), timestamps.last()) else { return 0 };
        let intervals = (timestamps.len() as u32 - 1).max(1);
        last + ((last - first + intervals / 2) / intervals).max(1)
    };
    end(MediaKind::Video).max(end(MediaKind::Audio)).max(1)
}

const EMBEDDED: &[u8] = include_bytes!("../../../media/demo.flv");

/// Largest FLV tag accepted from a sample file: the format's own limit.
const MAX_TAG_BYTES: u32 = (1 << 24) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_sample_is_what_the_benchmarks_assume() {
        let sample = Sample::embedded().expect("the embedded sample is readable");
        let kbit_s = sample.bytes_per_second() * 8.0 / 1000.0;
        assert!((550.0..700.0).contains(&kbit_s), "{kbit_s} kbit/s");
        assert!((60.0..75.0).contains(&sample.messages_per_second()), "{}", sample.messages_per_second());
        assert!(sample.is_stamped());
        assert!(sample.headers.iter().any(|(kind, _)| *kind == MediaKind::Video));
        assert!(sample.headers.iter().any(|(kind, _)| *kind == MediaKind::Audio));
    }

    #[test]
    fn the_loop_goes_on_with_rising_timestamps_and_exact_counters() {
        let mut sample = Sample::embedded().expect("the embedded sample is readable");
        let mut timeline = Timeline::new(9);
        let (mut last_timestamp, mut counted, mut stamps) = (0, Count::default(), 0);
        for _ in 0..sample.frames.len() * 2 + 10 {
            let due_ms = timeline.next_due_ms(&sample);
            let due = timeline.take(&mut sample, 5_000);
            assert_eq!(u64::from(due.timestamp), due_ms);
            assert!(due.timestamp >= last_timestamp && due.timestamp - last_timestamp < 200);
            last_timestamp = due.timestamp;
            if let Some(stamp) = stamp::find(due.body) {
                let expected = Stamp {
                    run: 9,
                    sent_ns: 5_000,
                    frame: stamps,
                    messages: counted.messages,
                    bytes: counted.bytes,
                };
                assert_eq!(stamp, expected);
                stamps += 1;
            }
            counted.add(&Count { messages: 1, bytes: due.body.len() as u64 });
        }
        assert!(stamps > 500);
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        for file in [&b""[..], b"FLV", b"GIF89a..........", &EMBEDDED[..600]] {
            assert!(Sample::from_flv(file).is_err(), "{} bytes", file.len());
        }
    }
}
