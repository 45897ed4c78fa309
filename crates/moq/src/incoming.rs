//! A track of a publisher as frames: its catalogue entry becomes a configuration, and what it sends
//! access units.
//!
//! A group of video begins with a key frame, which is all that tells one. H.264 and H.265 come as
//! MP4 has them if the catalogue describes them, and else with start codes and with their parameter
//! sets in key frames, as encoders of browsers send them.

use media::bitstream::{NalUnits, next_obu};
use media::config::{
    AudioSpecificConfig, PARAMETER_SETS_MAX, SETS_BYTES_MAX, av1_record, avc_record, hevc_record, opus_head,
    read_avcc, read_hvcc, reorder_frames, reorder_pictures, vp8_record, vp9_record,
};
use media::{Codec, DecodingTimes, Frame, FrameRole, Timestamp, TrackId};

use crate::catalog::{Audio, Catalog, Video, from_hex};
use crate::outgoing::read_payload;

/// A track that is taken in.
#[derive(Debug)]
pub struct Incoming {
    track: TrackId,
    codec: Codec,
    /// The configuration record, once it is known.
    record: Option<Vec<u8>>,
    /// Frames with the present configuration have been made.
    is_configured: bool,
    has_start_codes: bool,
    channels: u8,
    times: DecodingTimes,
    /// A key frame has come, and nothing was left out since.
    is_flowing: bool,
    /// Decoding time of the last frame.
    last: Option<Timestamp>,
}

/// What of a catalogue is taken in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Name of the track and how it is coded: the largest picture.
    pub video: Option<(String, Video)>,
    /// The first one.
    pub audio: Option<(String, Audio)>,
}

impl Selection {
    /// The tracks of a catalogue that this server can take in.
    pub fn of(catalog: Catalog) -> Self {
        let video = catalog.video.map(|video| video.renditions).unwrap_or_default().into_iter();
        let audio = catalog.audio.map(|audio| audio.renditions).unwrap_or_default().into_iter();
        let video = video.filter(|(_, entry)| Incoming::video(entry).is_some());
        let size = |entry: &Video| {
            u64::from(entry.coded_width.unwrap_or(0)) * u64::from(entry.coded_height.unwrap_or(0))
        };
        Self {
            // The first of those with the largest picture.
            video: video.rev().max_by_key(|(_, entry)| size(entry)),
            audio: audio.into_iter().find(|(_, entry)| Incoming::audio(entry).is_some()),
        }
    }
}

impl Incoming {
    /// The track that a catalogue entry describes, if it can be taken in.
    pub fn video(entry: &Video) -> Option<Self> {
        let codec = match entry.codec.split('.').next()? {
            "avc1" | "avc3" => Codec::H264,
            "hvc1" | "hev1" => Codec::H265,
            "av01" => Codec::Av1,
            "vp8" => Codec::Vp8,
            "vp9" | "vp09" => Codec::Vp9,
            _ => return None,
        };
        if !entry.container.is_read() {
            return None;
        }
        let mut new = Self::new(TrackId::VIDEO, codec);
        if matches!(codec, Codec::H264 | Codec::H265) {
            new.has_start_codes = entry.description.is_none();
            if let Some(description) = &entry.description {
                new.use_record(from_hex(description)?)?;
            }
        }
        Some(new)
    }

    /// The same for audio.
    pub fn audio(entry: &Audio) -> Option<Self> {
        let codec = match entry.codec.as_str() {
            "opus" => Codec::Opus,
            "mp3" => Codec::Mp3,
            codec if codec.starts_with("mp4a.40.") => Codec::Aac,
            _ => return None,
        };
        if !entry.container.is_read() || entry.number_of_channels == 0 {
            return None;
        }
        let mut new = Self::new(TrackId::AUDIO, codec);
        new.channels = entry.number_of_channels;
        let described = entry.description.as_deref().map(|text| from_hex(text).ok_or(())).transpose().ok()?;
        new.record = match (codec, described) {
            (Codec::Aac, Some(record)) => {
                AudioSpecificConfig::read(&record).ok()?;
                Some(record)
            }
            (Codec::Aac, None) => Some(AudioSpecificConfig::write_low_complexity(
                entry.sample_rate,
                // Eight channels are number 7 of ISO/IEC 14496-3 table 1.19.
                u32::from(entry.number_of_channels.min(7)),
            )),
            (Codec::Opus, Some(head)) if head.starts_with(b"OpusHead") => Some(head),
            (Codec::Opus, _) => Some(opus_head(entry.number_of_channels).to_vec()),
            _ => None,
        };
        Some(new)
    }

    fn new(track: TrackId, codec: Codec) -> Self {
        Self {
            track,
            codec,
            record: None,
            is_configured: false,
            has_start_codes: false,
            channels: 0,
            times: DecodingTimes::default(),
            is_flowing: false,
            last: None,
        }
    }

    /// What was sent has been left out: video goes on with a key frame.
    pub fn interrupt(&mut self) {
        self.is_flowing = false;
    }

    /// What says that the track is over, if it had begun.
    pub fn end(&self) -> Option<Frame> {
        let last = self.last?;
        Some(Frame::new(self.track, FrameRole::End, self.codec, (last, last), Vec::new()))
    }

    /// The frames of what a track has sent, a configuration first where there is a new one. `None`
    /// if it makes no sense, or needs a frame that has not come.
    pub fn frames(&mut self, payload: &[u8], begins_group: bool) -> Option<Vec<Frame>> {
        let (time_us, data) = read_payload(payload)?;
        let pts = Timestamp::from_micros(i64::try_from(time_us).ok()?);
        if data.is_empty() {
            return None;
        }
        let is_audio = self.track == TrackId::AUDIO;
        let role = match (is_audio, begins_group) {
            (true, _) => FrameRole::Audio,
            (false, true) => FrameRole::Key,
            (false, false) => FrameRole::Inter,
        };
        if role == FrameRole::Inter && !self.is_flowing {
            return None;
        }
        self.is_flowing = false;
        let data = match self.codec {
            Codec::H264 | Codec::H265 if self.has_start_codes => {
                self.without_start_codes(data, begins_group)?
            }
            Codec::H264 | Codec::H265 => data.to_vec(),
            Codec::Av1 => {
                if begins_group {
                    self.use_record(av1_record(data)?.bytes)?;
                }
                without_delimiters(data)?
            }
            Codec::Vp8 if begins_group => {
                self.use_record(vp8_record(data)?.bytes)?;
                data.to_vec()
            }
            Codec::Vp9 if begins_group => {
                self.use_record(vp9_record(data)?.bytes)?;
                data.to_vec()
            }
            _ => data.to_vec(),
        };
        self.is_flowing = true;
        let dts = if is_audio { pts } else { self.times.next(pts) };
        self.last = Some(dts);
        let mut frames = Vec::with_capacity(1);
        if !std::mem::replace(&mut self.is_configured, true)
            && let Some(record) = &self.record
        {
            frames.push(Frame::new(self.track, FrameRole::Config, self.codec, (dts, dts), record.clone()));
        }
        let mut frame = Frame::new(self.track, role, self.codec, (dts, pts), data);
        if self.codec == Codec::Mp3 {
            frame.channels = self.channels;
        }
        frames.push(frame);
        Some(frames)
    }

    /// Takes a record; `None` if it cannot be read.
    fn use_record(&mut self, record: Vec<u8>) -> Option<()> {
        if self.record.as_ref() == Some(&record) {
            return Some(());
        }
        let reorder = match self.codec {
            Codec::H264 => {
                let sets = read_avcc(&record).ok()?.sets;
                sets.iter()
                    .find(|set| set.first().is_some_and(|head| head & 0x1f == 7))
                    .map(|sps| reorder_frames(sps))
            }
            Codec::H265 => {
                let sets = read_hvcc(&record).ok()?.sets;
                sets.iter()
                    .find(|set| set.first().is_some_and(|head| head >> 1 & 0x3f == 33))
                    .map(|sps| reorder_pictures(sps))
            }
            _ => None,
        };
        // Where the sequence does not say, it is learned from what comes.
        if self.record.is_none() {
            self.times = DecodingTimes::with_reorder(reorder.flatten().unwrap_or(0));
        }
        self.record = Some(record);
        self.is_configured = false;
        Some(())
    }

    /// Units with their lengths before them; the parameter sets of a key frame become the
    /// configuration.
    fn without_start_codes(&mut self, data: &[u8], is_key: bool) -> Option<Vec<u8>> {
        let mut sets: [Vec<&[u8]>; 3] = Default::default();
        let (mut set_count, mut set_bytes) = (0, 0);
        let mut out = Vec::with_capacity(data.len() + 16);
        for unit in NalUnits::annex_b(data).ok()? {
            let kind = match self.codec {
                Codec::H264 => match unit[0] & 0x1f {
                    7 => Some(1),
                    8 => Some(2),
                    // Delimiters, ends, filler.
                    9..=12 => continue,
                    _ => None,
                },
                _ => match unit[0] >> 1 & 0x3f {
                    kind @ 32..=34 => Some(usize::from(kind - 32)),
                    35..=38 => continue,
                    _ => None,
                },
            };
            if let (Some(kind), true) = (kind, is_key) {
                (set_count, set_bytes) = (set_count + 1, set_bytes + unit.len());
                if set_count > PARAMETER_SETS_MAX || set_bytes > SETS_BYTES_MAX {
                    return None;
                }
                sets[kind].push(unit);
                continue;
            }
            out.extend_from_slice(&u32::try_from(unit.len()).ok()?.to_be_bytes());
            out.extend_from_slice(unit);
        }
        if is_key {
            let [vps, sps, pps] = &sets;
            let record = match self.codec {
                Codec::H264 => avc_record(sps, pps),
                _ => hevc_record(vps, sps, pps),
            };
            match record {
                Some(record) => self.use_record(record.bytes)?,
                // Some send parameter sets once.
                None => _ = self.record.as_ref()?,
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

/// A temporal unit without its delimiters.
fn without_delimiters(data: &[u8]) -> Option<Vec<u8>> {
    const DELIMITER: u8 = 2;
    let (mut rest, mut out) = (data, Vec::with_capacity(data.len()));
    while !rest.is_empty() {
        let obu = next_obu(&mut rest)?;
        if obu.kind() != DELIMITER {
            out.extend_from_slice(obu.whole);
        }
    }
    (!out.is_empty()).then_some(out)
}
