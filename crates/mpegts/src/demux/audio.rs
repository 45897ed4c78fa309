//! Audio frames, which PES packets may cut anywhere: each frame has a header that says how long it
//! is, and the first that begins in a PES packet has that packet's time.

use std::collections::VecDeque;

use media::bitstream::StreamMuxConfig;
use media::config::opus_head;
use media::{Frame, FrameRole, Timestamp, TrackId};

use super::Times;
use super::aac;
use crate::codecs::Carried;

/// Bytes of a frame; more makes no sense in any of the codecs.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// Dependent substreams behind a frame of E-AC-3 (ETSI TS 102 366 section E.1.1).
const SUBSTREAMS_MAX: usize = 8;

/// Reads the frames of a track.
#[derive(Debug)]
pub(super) struct AudioReader {
    id: TrackId,
    carried: Carried,
    /// The beginning of a frame.
    rest: Vec<u8>,
    /// When the next frame begins, as the frames before it say.
    next: Option<Timestamp>,
    latm: Option<StreamMuxConfig>,
    /// The configuration that was handed on last.
    config: Option<Vec<u8>>,
}

/// A frame that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AudioFrame {
    /// Bytes of it and its header.
    pub(super) bytes: usize,
    pub(super) data: Vec<u8>,
    /// Its configuration, where there is one.
    pub(super) config: Option<Vec<u8>>,
    pub(super) samples: u32,
    pub(super) sample_rate: u32,
    /// Where there is no configuration.
    pub(super) channels: u8,
}

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AudioRead {
    Frame(AudioFrame),
    /// A frame whose end is missing.
    Incomplete,
    /// No frame.
    Nothing,
}

impl AudioReader {
    pub(super) fn new(id: TrackId, carried: Carried) -> Self {
        Self { id, carried, rest: Vec::new(), next: None, latm: None, config: None }
    }

    /// Bytes are missing: what waits for its end does not get it.
    pub(super) fn forget_rest(&mut self) {
        self.rest.clear();
    }

    pub(super) fn bytes_held(&self) -> usize {
        self.rest.len()
    }

    /// Reads the frames of a PES packet, and says whether bytes were of no use. `None` if nobody knows
    /// when they are.
    pub(super) fn read(
        &mut self,
        payload: &[u8],
        times: Option<Times>,
        frames: &mut VecDeque<Frame>,
    ) -> Option<bool> {
        let mut bytes = std::mem::take(&mut self.rest);
        // Frames from here on may have the time of the packet.
        let timed_from = bytes.len();
        bytes.extend_from_slice(payload);
        let mut time = times.map(|times| times.pts);
        if self.next.is_none() && time.is_none() {
            return None;
        }
        let (mut at, mut has_garbage) = (0, false);
        while at < bytes.len() {
            // What begins nothing is tried again at the next byte: each try has to be short.
            let end = bytes.len().min(at + FRAME_BYTES_MAX);
            match self.frame(&bytes[at..end]) {
                AudioRead::Frame(frame) => {
                    let begins = match time.take_if(|_| at >= timed_from) {
                        Some(time) => time,
                        None => self.next.or(time)?,
                    };
                    let AudioFrame { samples, sample_rate, .. } = frame;
                    self.next = Some(begins + Timestamp::from_ticks(samples.into(), sample_rate));
                    at += frame.bytes;
                    self.hand_on(frame, begins, frames);
                }
                AudioRead::Incomplete if bytes.len() - at < FRAME_BYTES_MAX => break,
                AudioRead::Incomplete | AudioRead::Nothing => (at, has_garbage) = (at + 1, true),
            }
        }
        if at < bytes.len() && at >= timed_from {
            // The first frame that begins in the packet does not end in it.
            self.next = time.or(self.next);
        }
        bytes.drain(..at);
        self.rest = bytes;
        Some(has_garbage)
    }

    fn frame(&mut self, bytes: &[u8]) -> AudioRead {
        match self.carried {
            Carried::Adts => aac::read_adts(bytes),
            Carried::Latm => aac::read_latm(bytes, &mut self.latm),
            Carried::MpegAudio => read_mpeg_audio(bytes),
            Carried::Ac3 | Carried::Eac3 => read_ac3(bytes),
            Carried::Opus { channels } => read_opus(bytes, channels),
            Carried::H264 | Carried::H265 => AudioRead::Nothing,
        }
    }

    fn hand_on(&mut self, frame: AudioFrame, time: Timestamp, frames: &mut VecDeque<Frame>) {
        let (codec, times) = (self.carried.codec(), (time, time));
        if let Some(config) = frame.config
            && self.config.as_ref() != Some(&config)
        {
            frames.push_back(Frame::new(self.id, FrameRole::Config, codec, times, config.clone()));
            self.config = Some(config);
        }
        let mut coded = Frame::new(self.id, FrameRole::Audio, codec, times, frame.data);
        coded.channels = frame.channels;
        frames.push_back(coded);
    }
}

/// A frame of MPEG-1 or MPEG-2 audio (ISO/IEC 11172-3 section 2.4.2.3, 13818-3).
///
/// ```text
///  sync 11 | version 2 | layer 2 | no CRC 1 | bit rate 4 | rate 2 | padding 1, private 1 | mode 2 | ..
/// ```
fn read_mpeg_audio(bytes: &[u8]) -> AudioRead {
    const KBITS: [[u32; 15]; 5] = [
        [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448], // MPEG-1, layer I
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],    // layer II
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],     // layer III
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],    // MPEG-2, layer I
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],         // layers II and III
    ];
    let Some(&[sync, second, third, fourth]) = bytes.first_chunk::<4>() else {
        let is_beginning = bytes.first() == Some(&0xff) && bytes.get(1).is_none_or(|byte| byte >> 5 == 7);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    let (version, layer, rate) = (second >> 3 & 3, second >> 1 & 3, usize::from(third >> 2 & 3));
    let bit_rate = usize::from(third >> 4);
    if sync != 0xff
        || second >> 5 != 7
        || version == 1
        || layer == 0
        || rate == 3
        || matches!(bit_rate, 0 | 15)
    {
        return AudioRead::Nothing;
    }
    // "MPEG-2.5" has half the rates of MPEG-2 again.
    let sample_rate = [44_100, 48_000, 32_000][rate] / [4, 1, 2, 1][usize::from(version)];
    let row = match (version == 3, layer) {
        (true, layer) => 3 - usize::from(layer),
        (false, 3) => 3,
        (false, _) => 4,
    };
    let bits_per_second = KBITS[row][bit_rate] * 1000;
    let padding = u32::from(third >> 1 & 1);
    let (samples, frame_bytes) = match (layer, version) {
        (3, _) => (384, (12 * bits_per_second / sample_rate + padding) * 4),
        (1, 0 | 2) => (576, 72 * bits_per_second / sample_rate + padding),
        _ => (1152, 144 * bits_per_second / sample_rate + padding),
    };
    let frame_bytes = frame_bytes as usize;
    let Some(data) = bytes.get(..frame_bytes) else { return AudioRead::Incomplete };
    let channels = if fourth >> 6 == 3 { 1 } else { 2 };
    let data = data.to_vec();
    AudioRead::Frame(AudioFrame { bytes: frame_bytes, data, config: None, samples, sample_rate, channels })
}

/// A frame of AC-3 or E-AC-3 (ETSI TS 102 366 sections 4.3 and E.1.2), with the dependent substreams
/// that follow it.
fn read_ac3(bytes: &[u8]) -> AudioRead {
    let Some(&[0x0b, 0x77, ..]) = bytes.first_chunk::<6>() else {
        let is_beginning = bytes.len() < 6 && [0x0b, 0x77].iter().zip(bytes).all(|(sync, byte)| sync == byte);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    let Some((mut whole, samples, sample_rate)) = ac3_frame(bytes) else { return AudioRead::Nothing };
    if bytes.len() < whole {
        return AudioRead::Incomplete;
    }
    for _ in 0..SUBSTREAMS_MAX {
        let [0x0b, 0x77, third, _, _, sixth, ..] = bytes[whole..] else { break };
        let is_dependent = sixth >> 3 > 10 && third >> 6 == 1;
        let Some((more, ..)) = ac3_frame(&bytes[whole..]).filter(|_| is_dependent) else { break };
        if bytes.len() < whole + more {
            return AudioRead::Incomplete;
        }
        whole += more;
    }
    let data = bytes[..whole].to_vec();
    AudioRead::Frame(AudioFrame { bytes: whole, data, config: None, samples, sample_rate, channels: 0 })
}

/// Bytes, samples and rate of a frame, of which six bytes are there.
fn ac3_frame(bytes: &[u8]) -> Option<(usize, u32, u32)> {
    const RATES: [u32; 3] = [48_000, 44_100, 32_000];
    // Table 4.13: kbit/s.
    const KBITS: [u32; 19] =
        [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
    let (third, fourth, fifth) = (bytes[2], bytes[3], bytes[4]);
    let rate = usize::from(fifth >> 6);
    if bytes[5] >> 3 > 10 {
        let frame_bytes = (usize::from(third & 7) << 8 | usize::from(fourth)) * 2 + 2;
        let field = usize::from(fifth >> 4 & 3);
        return Some(match rate {
            3 => (frame_bytes, 1536, RATES.get(field)? / 2),
            _ => (frame_bytes, [256, 512, 768, 1536][field], RATES[rate]),
        });
    }
    let size = usize::from(fifth & 0x3f);
    let kbits = KBITS.get(size / 2)?;
    let words = match rate {
        0 => kbits * 2,
        1 => kbits * 96_000 / 44_100 + (size as u32 & 1),
        2 => kbits * 3,
        _ => return None,
    };
    Some((words as usize * 2, 1536, RATES[rate]))
}

/// An Opus packet behind its control header ("Opus in MPEG-TS", a draft of xiph.org).
///
/// ```text
///  prefix 11 (0x3ff) | start trim 1, end trim 1, extension 1 | .. 2 | size, 255 a byte
///  | [trims 16] | [extension] | packet
/// ```
fn read_opus(bytes: &[u8], channels: u8) -> AudioRead {
    let &[first, second, ref behind @ ..] = bytes else { return AudioRead::Incomplete };
    if first != 0x7f || second & 0xe0 != 0xe0 {
        return AudioRead::Nothing;
    }
    let Some(last) = behind.iter().position(|byte| *byte != 255) else { return AudioRead::Incomplete };
    let size = 255 * last + usize::from(behind[last]);
    let trims = usize::from(second >> 4 & 1) + usize::from(second >> 3 & 1);
    let mut head = 2 + last + 1 + 2 * trims;
    if second & 0x04 != 0 {
        let Some(extension) = bytes.get(head) else { return AudioRead::Incomplete };
        head += 1 + usize::from(*extension);
    }
    if size > FRAME_BYTES_MAX {
        return AudioRead::Nothing;
    }
    let Some(data) = bytes.get(head..head + size) else { return AudioRead::Incomplete };
    let Some(samples) = opus_samples(data) else { return AudioRead::Nothing };
    // 0 are two independent ones.
    let channels = if channels == 0 || channels > 8 { 2 } else { channels };
    AudioRead::Frame(AudioFrame {
        bytes: head + size,
        data: data.to_vec(),
        config: Some(opus_head(channels).to_vec()),
        samples,
        sample_rate: 48_000,
        channels: 0,
    })
}

/// Samples of a packet at 48 kHz (RFC 6716 section 3.1).
fn opus_samples(packet: &[u8]) -> Option<u32> {
    let toc = *packet.first()?;
    let frame = match toc >> 3 {
        configuration @ 0..=11 => [480, 960, 1920, 2880][usize::from(configuration & 3)],
        configuration @ 12..=15 => [480, 960][usize::from(configuration & 1)],
        configuration => [120, 240, 480, 960][usize::from(configuration & 3)],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    Some(frame * frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of AAC, 48 kHz, of so many bytes each.
    fn adts(frames: usize, bytes: usize) -> Vec<u8> {
        let length = bytes + 7;
        let head = [
            0xff,
            0xf1,
            0x4c,
            0x80 | (length >> 11) as u8,
            (length >> 3) as u8,
            (length << 5) as u8 | 0x1f,
            0xfc,
        ];
        (0..frames).flat_map(|at| [&head[..], &vec![at as u8; bytes]].concat()).collect()
    }

    fn time(samples: i64) -> Timestamp {
        Timestamp::from_ticks(samples, 48_000)
    }

    #[test]
    fn frames_that_packets_cut_have_their_own_times() {
        let bytes = adts(12, 100);
        for cut in [1, 6, 50, 106, 107, 108, 200, 300, 333] {
            let mut reader = AudioReader::new(TrackId::AUDIO, Carried::Adts);
            let mut frames = VecDeque::new();
            for (at, piece) in bytes.chunks(cut).enumerate() {
                // The time of the first frame that begins in the piece; none where none does.
                let first = (at * cut).div_ceil(107);
                let begins = first * 107 < at * cut + piece.len();
                let times = begins.then(|| time(1024 * first as i64 + 7));
                let times = times.map(|time| Times { dts: time, pts: time });
                assert_eq!(reader.read(piece, times, &mut frames), Some(false), "cut {cut}");
            }
            assert_eq!(frames[0].role, FrameRole::Config);
            let times: Vec<_> = frames.iter().skip(1).map(|frame| frame.pts).collect();
            let expected: Vec<_> = (0..12).map(|at| time(1024 * at + 7)).collect();
            assert_eq!(times, expected, "cut {cut}");
            assert!(frames.iter().skip(1).enumerate().all(|(at, frame)| frame.data() == [at as u8; 100]));
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_passed_over() {
        let bytes = [&[0xff, 0xff, 0x0b, 0x77, 0x56, 0xe0][..], &adts(2, 30)].concat();
        let mut reader = AudioReader::new(TrackId::AUDIO, Carried::Adts);
        let mut frames = VecDeque::new();
        let times = Times { dts: time(0), pts: time(0) };
        assert_eq!(reader.read(&bytes, Some(times), &mut frames), Some(true));
        assert_eq!(frames.len(), 3);
        for carried in [Carried::Latm, Carried::MpegAudio, Carried::Ac3, Carried::Opus { channels: 2 }] {
            let mut reader = AudioReader::new(TrackId::AUDIO, carried);
            reader.read(&[0; 20_000], Some(times), &mut frames);
            assert!(frames.len() == 3 && reader.bytes_held() < FRAME_BYTES_MAX, "{carried:?}");
        }
    }

    /// What a sender could send to have each byte looked at for long: frames of E-AC-3 whose substreams never
    /// end, and elements of LATM with other data that does not. Megabytes of it; it would take minutes.
    #[test]
    fn bytes_that_look_like_frames_everywhere_are_passed_over_in_time() {
        let substream = [0x0b, 0x77, 0x40, 0x02, 0x00, 0x80];
        let endless = [0x56, 0xff, 0xff, 0x20, 0x80, 0xe9, 0xa1, 0x90, 0x0f, 0xfc];
        let more = [0x02, 0x01, 0x00, 0x80, 0x40, 0x20, 0x10, 0x08];
        let element = [&endless[..], &more].concat();
        for (carried, pattern) in [(Carried::Eac3, &substream[..]), (Carried::Latm, &element)] {
            let mut reader = AudioReader::new(TrackId::AUDIO, carried);
            let bytes = pattern.repeat((4 << 20) / pattern.len());
            let times = Times { dts: time(0), pts: time(0) };
            assert!(reader.read(&bytes, Some(times), &mut VecDeque::new()).is_some(), "{carried:?}");
            assert!(reader.bytes_held() < FRAME_BYTES_MAX, "{carried:?}");
        }
    }

    #[test]
    fn opus_packets_say_how_long_they_are() {
        for (packet, samples) in [
            (&[0xfc][..], Some(960)),
            (&[0x80], Some(120)),
            (&[0x18], Some(2880)),
            (&[0xfd], Some(1920)),
            (&[0xff, 0x03], Some(2880)),
            (&[0xff], None),
            (&[], None),
        ] {
            assert_eq!(opus_samples(packet), samples, "{packet:?}");
        }
    }
}
