//! The frames of a stream as tracks of a broadcast: what the catalogue says of them, and what each
//! track gets.
//!
//! A group of video begins with each key frame, so that a subscriber can begin with each group; of
//! audio each frame is a group of its own, as browsers publish it. A track whose configuration
//! changes ends, and another takes its place under another name: whoever reads the old one to its
//! end has decoded it with the old configuration.

use std::collections::BTreeMap;

use cmaf::Format;
use media::config::picture_size;
use media::{Codec, Frame, FrameRole, MediaKind, TrackId};

use crate::catalog::{Audio, Catalog, Container, Renditions, Video, to_hex};

/// Tracks of one kind that a broadcast has; those of further ones are left out.
const TRACKS_MAX: u8 = 8;

/// The tracks of a stream, as they are at present.
#[derive(Debug, Default)]
pub struct Outgoing {
    tracks: BTreeMap<TrackId, Track>,
    /// Counts configurations, for names.
    changes: BTreeMap<TrackId, u32>,
    is_changed: bool,
}

#[derive(Debug)]
struct Track {
    name: String,
    /// The configuration record.
    record: Vec<u8>,
    entry: Entry,
}

#[derive(Debug)]
enum Entry {
    Video(Video),
    Audio(Audio),
}

/// What a track gets.
#[derive(Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Its name.
    pub track: &'a str,
    /// A group begins with it.
    pub begins_group: bool,
    /// A group ends with it.
    pub ends_group: bool,
    /// When it is to be shown or heard, in microseconds.
    pub time_us: u64,
    /// Time and access unit.
    pub payload: Vec<u8>,
}

impl Outgoing {
    /// Takes the next frame; what its track gets, if it gets something.
    pub fn frame(&mut self, frame: &Frame) -> Option<Unit<'_>> {
        if frame.track.kind == MediaKind::Data || frame.track.index >= TRACKS_MAX {
            return None;
        }
        match frame.role {
            FrameRole::Config => {
                self.configure(frame);
                None
            }
            FrameRole::End => {
                self.is_changed |= self.tracks.remove(&frame.track).is_some();
                None
            }
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => {
                if !self.tracks.contains_key(&frame.track) {
                    self.configure(frame);
                }
                let is_audio = frame.role == FrameRole::Audio;
                let time_us = frame.pts.micros().max(0).cast_unsigned().min(TIME_MAX);
                let track = &self.tracks.get(&frame.track)?.name;
                Some(Unit {
                    track,
                    begins_group: is_audio || frame.role == FrameRole::Key,
                    ends_group: is_audio,
                    time_us,
                    payload: payload(time_us, frame.data()),
                })
            }
            FrameRole::Metadata | FrameRole::Other => None,
        }
    }

    /// Another publication begins: its tracks are others, even if they are coded alike.
    pub fn begin_publication(&mut self) {
        self.is_changed |= !self.tracks.is_empty();
        self.tracks.clear();
    }

    /// The catalogue, if it has changed since this was asked last.
    pub fn changed_catalog(&mut self) -> Option<Catalog> {
        std::mem::take(&mut self.is_changed).then(|| self.catalog())
    }

    /// Whether there is a track of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tracks.values().any(|track| track.name == name)
    }

    fn catalog(&self) -> Catalog {
        let (mut video, mut audio) = (BTreeMap::new(), BTreeMap::new());
        for Track { name, entry, .. } in self.tracks.values() {
            match entry {
                Entry::Video(entry) => _ = video.insert(name.clone(), entry.clone()),
                Entry::Audio(entry) => _ = audio.insert(name.clone(), entry.clone()),
            }
        }
        Catalog {
            video: (!video.is_empty()).then_some(Renditions { renditions: video }),
            audio: (!audio.is_empty()).then_some(Renditions { renditions: audio }),
        }
    }

    /// Takes a configuration, or the first frame of a codec that has none.
    fn configure(&mut self, frame: &Frame) {
        let is_config = frame.role == FrameRole::Config;
        let record = if is_config { frame.data() } else { &[] };
        if self.tracks.get(&frame.track).is_some_and(|track| track.record == record) {
            return;
        }
        let Some(entry) = entry(frame, is_config) else {
            if is_config {
                tracing::debug!(codec = %frame.codec, "a track is left out: browsers do not play it");
                self.is_changed |= self.tracks.remove(&frame.track).is_some();
            }
            return;
        };
        let kind = if frame.track.kind == MediaKind::Video { "video" } else { "audio" };
        let change = self.changes.entry(frame.track).or_default();
        let name = match *change {
            0 => format!("{kind}{}", frame.track.index),
            change => format!("{kind}{}.{change}", frame.track.index),
        };
        *change += 1;
        self.tracks.insert(frame.track, Track { name, record: record.to_vec(), entry });
        self.is_changed = true;
    }
}

/// What the catalogue says of a track with this configuration or, without one, first frame.
fn entry(frame: &Frame, is_config: bool) -> Option<Entry> {
    let (codec, data, container) = (frame.codec, frame.data(), Container::default());
    let is_key = frame.role == FrameRole::Key;
    match codec {
        Codec::Vp8 => {
            let size = picture_size(codec, data).filter(|_| is_key);
            let (coded_width, coded_height) = size.unzip();
            let codec = "vp8".to_owned();
            Some(Entry::Video(Video { codec, container, description: None, coded_width, coded_height }))
        }
        Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp9 => {
            let format = match is_config {
                true => Format::of_record(codec, data).ok()??,
                false => Format::of_sample(codec, data, is_key).ok()?,
            };
            // WebCodecs takes the configurations of AV1 and VP9 from key frames alone.
            let has_description = is_config && matches!(codec, Codec::H264 | Codec::H265);
            let known = |pixels: u32| (pixels > 0).then_some(pixels);
            Some(Entry::Video(Video {
                codec: format.codecs,
                container,
                description: has_description.then(|| to_hex(data)),
                coded_width: known(format.width),
                coded_height: known(format.height),
            }))
        }
        Codec::Aac | Codec::Opus | Codec::Mp3 => {
            let format = match is_config {
                true => Format::of_record(codec, data).ok()?,
                false => None,
            };
            let format = format.or_else(|| Format::of_sample(codec, data, false).ok());
            let (mut codecs, mut sample_rate, mut channels) = match format {
                Some(format) => (format.codecs, format.sample_rate, format.channels),
                // Some publishers send no header of Opus, which is stereo then.
                None if codec == Codec::Opus => ("opus".to_owned(), 48_000, 2),
                None => return None,
            };
            match codec {
                // As WebCodecs has it, and not the name of HLS.
                Codec::Mp3 => codecs = "mp3".to_owned(),
                Codec::Opus => sample_rate = 48_000,
                _ => {}
            }
            channels = channels.max(1);
            // The mapping of Opus is needed beyond stereo only.
            let has_description =
                is_config && (codec == Codec::Aac || (codec == Codec::Opus && channels > 2));
            Some(Entry::Audio(Audio {
                codec: codecs,
                container,
                sample_rate,
                number_of_channels: channels,
                description: has_description.then(|| to_hex(data)),
            }))
        }
        _ => None,
    }
}

/// Largest value of a QUIC integer (RFC 9000 section 16).
const TIME_MAX: u64 = (1 << 62) - 1;

/// Time and access unit, as the container has them.
fn payload(time_us: u64, data: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(8 + data.len());
    // RFC 9000 section 16: the two highest bits say how many bytes there are.
    match time_us {
        0..0x40 => payload.push(time_us as u8),
        0x40..0x4000 => payload.extend_from_slice(&(time_us as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => payload.extend_from_slice(&(time_us as u32 | 0x8000_0000).to_be_bytes()),
        _ => payload.extend_from_slice(&(time_us | 0xc000_0000_0000_0000).to_be_bytes()),
    }
    payload.extend_from_slice(data);
    payload
}

/// The time in microseconds of a frame, and its access unit; `None` if it is cut.
pub fn read_payload(payload: &[u8]) -> Option<(u64, &[u8])> {
    let first = *payload.first()?;
    let (time, data) = payload.split_at_checked(1 << (first >> 6))?;
    let value = time[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, data))
}

#[cfg(test)]
mod tests {
    use media::Timestamp;

    use super::*;

    fn frame(track: TrackId, role: FrameRole, codec: Codec, time_us: i64, data: &[u8]) -> Frame {
        let time = Timestamp::from_micros(time_us);
        Frame::new(track, role, codec, (time, time), data.to_vec())
    }

    #[test]
    fn times_of_all_lengths_are_read_back() {
        for time in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, TIME_MAX] {
            let payload = payload(time, b"unit");
            assert_eq!(read_payload(&payload), Some((time, &b"unit"[..])));
            for length in 0..payload.len() - 4 {
                assert_eq!(read_payload(&payload[..length]), None);
            }
        }
    }

    #[test]
    fn groups_begin_with_key_frames_and_each_frame_of_audio_is_one() {
        let mut outgoing = Outgoing::default();
        let aac = frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, 0, &[0x12, 0x10]);
        assert_eq!(outgoing.frame(&aac), None);
        let audio = outgoing.changed_catalog().expect("a track").audio.expect("audio");
        let entry = &audio.renditions["audio0"];
        assert_eq!((&*entry.codec, entry.sample_rate, entry.number_of_channels), ("mp4a.40.2", 44_100, 2));
        assert_eq!(entry.description.as_deref(), Some("1210"));
        outgoing.frame(&aac);
        assert_eq!(outgoing.changed_catalog(), None, "it was repeated");
        let unit = outgoing.frame(&frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, 70, b"raw"));
        let unit = unit.expect("a unit");
        assert_eq!((unit.track, unit.begins_group, unit.ends_group), ("audio0", true, true));
        assert_eq!(unit.payload, b"\x40\x46raw");
        // A key frame of VP8 of 320x180.
        let key = [0x10, 0, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xb4, 0];
        let unit = outgoing.frame(&frame(TrackId::VIDEO, FrameRole::Key, Codec::Vp8, -5, &key));
        let unit = unit.expect("a unit");
        assert_eq!((unit.time_us, unit.begins_group, unit.ends_group), (0, true, false));
        let video = outgoing.changed_catalog().expect("a track").video.expect("video");
        let entry = &video.renditions["video0"];
        assert_eq!((&*entry.codec, entry.coded_width, entry.coded_height), ("vp8", Some(320), Some(180)));
        let inter = frame(TrackId::VIDEO, FrameRole::Inter, Codec::Vp8, 9, &[1, 0]);
        assert_eq!(outgoing.frame(&inter).map(|unit| unit.begins_group), Some(false));
    }

    #[test]
    fn another_configuration_is_another_track_and_an_ended_one_is_none() {
        let mut outgoing = Outgoing::default();
        for (record, name) in [([0x12, 0x10], "audio0"), ([0x11, 0x90], "audio0.1")] {
            outgoing.frame(&frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, 0, &record));
            let audio = outgoing.changed_catalog().and_then(|catalog| catalog.audio).expect("audio");
            assert!(audio.renditions.into_keys().eq([name]) && outgoing.has(name));
        }
        outgoing.frame(&frame(TrackId::AUDIO, FrameRole::End, Codec::Aac, 0, &[]));
        assert_eq!(outgoing.changed_catalog(), Some(Catalog::default()));
        let speex = frame(TrackId::AUDIO, FrameRole::Audio, Codec::Speex, 0, b"speech");
        assert_eq!(outgoing.frame(&speex), None, "no browser plays it");
        let broken = frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, 0, &[1]);
        assert_eq!(outgoing.frame(&broken), None);
        assert_eq!(outgoing.changed_catalog(), None);
    }
}
