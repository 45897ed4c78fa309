//! A recorded sample: the frames of an MP4 or WebM file, if WebRTC can carry them.
//!
//! Video is H.264, H.265, VP8, VP9 or AV1 without B-frames, audio is Opus. What does not fit is
//! refused with the command that makes it fit. Packets are made in `media.rs`.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use matroska_demuxer::{Frame as Block, MatroskaFile, TrackEntry, TrackType};
use media::bitstream::next_length_prefixed;
use media::{Codec, CodecConfig, FrameRole, MediaKind, Timestamp};
use mp4::{Limits, Mp4};
use rtp::packetize::{av1, vp8, vp9};

use super::media::Track;

/// The frames of a file.
#[derive(Debug)]
pub struct Recording {
    /// Codec and configuration of its video.
    pub video: CodecConfig,
    /// Audio and video, each in the order of decoding, which is that of time. Video begins with a
    /// key frame at 0; there may be no audio.
    pub frames: [Vec<Recorded>; 2],
}

/// A frame of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it is shown or heard, nanoseconds since the first picture.
    pub at_ns: u64,
    /// Whether a decoder can start with it.
    pub is_key: bool,
    /// The coded frame; NAL units have lengths of four bytes.
    pub data: Vec<u8>,
}

impl Recording {
    /// Reads a file, by what is in it, not by its name.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(path: &Path) -> Result<Recording, String> {
        let name = path.display();
        let mut file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        let mut head = [0; 4];
        let is_read = file.read_exact(&mut head).and_then(|()| file.rewind());
        is_read.map_err(|error| format!("{name}: {error}"))?;
        let file = BufReader::new(file);
        let read = match &head {
            EBML => read_matroska(file),
            [b'F', b'L', b'V', _] => Err(Unfit::Flv),
            _ => read_mp4(file),
        };
        read.and_then(Taken::finish).map_err(|unfit| unfit.message(&name.to_string()))
    }
}

/// Why a file cannot be sent by WebRTC.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unfit {
    /// Not readable as what it seems to be.
    Broken(&'static str, String),
    Flv,
    NoVideo,
    Video(String),
    Audio(String),
    /// Number of the picture that is shown before an earlier one.
    BFrames(usize),
    Short,
    Large,
}

impl Unfit {
    /// What is wrong, and what helps.
    fn message(&self, file: &str) -> String {
        let what = match self {
            Unfit::Broken(container, error) => {
                return format!("{file}: not a readable {container} file: {error}");
            }
            Unfit::Flv => {
                "is FLV, which `millbench rtmp` takes; WebRTC needs MP4 or WebM with Opus".to_owned()
            }
            Unfit::NoVideo => "has no video".to_owned(),
            Unfit::Video(codec) => format!("has {codec} video, which WebRTC does not carry"),
            Unfit::Audio(codec) => format!("has {codec} audio, and WebRTC needs Opus"),
            Unfit::BFrames(number) => {
                format!(
                    "has B-frames (picture {number} is shown before the one ahead of it), which WebRTC does not carry"
                )
            }
            Unfit::Short => "has fewer than two pictures from the first key frame on".to_owned(),
            Unfit::Large => format!("has more than {} MiB of media: cut it", BYTES_MAX >> 20),
        };
        let video = match self {
            Unfit::Audio(_) => "copy",
            Unfit::Flv | Unfit::Video(_) | Unfit::BFrames(_) => "libx264 -bf 0",
            _ => return format!("{file} {what}"),
        };
        format!("{file} {what}. This helps: ffmpeg -i {file} -c:v {video} -c:a libopus sample.mp4")
    }
}

/// What has been taken from a file.
struct Taken {
    video: CodecConfig,
    audio: Vec<(i64, Recorded)>,
    pictures: Vec<(i64, Recorded)>,
    bytes: usize,
}

impl Taken {
    fn new(video: Codec) -> Taken {
        Taken {
            video: CodecConfig::new(video, Vec::new()),
            audio: Vec::new(),
            pictures: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes a frame that is presented at `at_ns`, of any zero.
    fn push(&mut self, track: Track, at_ns: i64, is_key: bool, data: Vec<u8>) -> Result<(), Unfit> {
        self.bytes += data.len();
        if self.bytes > BYTES_MAX {
            return Err(Unfit::Large);
        }
        // Nothing to send, and no decoder needs it.
        if data.is_empty() {
            return Ok(());
        }
        let frames = match track {
            Track::Audio => &mut self.audio,
            Track::Video if self.pictures.is_empty() && !is_key => return Ok(()),
            Track::Video => &mut self.pictures,
        };
        if track == Track::Video && frames.last().is_some_and(|(last_ns, _)| at_ns < *last_ns) {
            return Err(Unfit::BFrames(frames.len() + 1));
        }
        frames.push((at_ns, Recorded { at_ns: 0, is_key, data }));
        Ok(())
    }

    /// Counts from the first picture on.
    fn finish(mut self) -> Result<Recording, Unfit> {
        if self.pictures.len() < 2 {
            return Err(Unfit::Short);
        }
        self.audio.sort_by_key(|(at_ns, _)| *at_ns);
        let zero_ns = self.pictures[0].0;
        let from_zero = |frames: Vec<(i64, Recorded)>| {
            let counted = frames.into_iter().filter_map(|(at_ns, frame)| {
                let at_ns = u64::try_from(at_ns - zero_ns).ok()?;
                Some(Recorded { at_ns, ..frame })
            });
            counted.collect()
        };
        Ok(Recording { video: self.video, frames: [from_zero(self.audio), from_zero(self.pictures)] })
    }
}

fn read_mp4(file: impl Read + Seek) -> Result<Taken, Unfit> {
    let broken = |error: mp4::Mp4Error| Unfit::Broken("MP4", error.to_string());
    let mut file = match Mp4::open(file, Limits::default()) {
        Ok(file) => file,
        Err(mp4::Mp4Error::NothingToPlay(codecs)) => {
            return Err(Unfit::Video(codecs.first().unwrap_or(&Codec::None).to_string()));
        }
        Err(error) => return Err(broken(error)),
    };
    let of_kind = |kind| file.tracks().iter().filter(move |track| track.track.kind == kind);
    let video = of_kind(MediaKind::Video).find(|track| track.is_playable());
    let Some(video) = video else {
        return Err(of_kind(MediaKind::Video)
            .next()
            .map_or(Unfit::NoVideo, |track| Unfit::Video(track.codec.to_string())));
    };
    let audio = of_kind(MediaKind::Audio).find(|track| track.codec == Codec::Opus);
    if let (None, Some(other)) = (audio, of_kind(MediaKind::Audio).next()) {
        return Err(Unfit::Audio(other.codec.to_string()));
    }
    let mut taken = Taken::new(video.codec);
    let chosen = (Some(video.id), audio.map(|track| track.id));
    file.select(chosen.0, chosen.1).map_err(broken)?;
    while let Some(sample) = file.next_sample().map_err(broken)? {
        let frame = sample.frame;
        let track = if frame.track.kind == MediaKind::Video { Track::Video } else { Track::Audio };
        if let Some(config) = sample.config.filter(|config| config.track.kind == MediaKind::Video)
            && taken.video.record.is_empty()
        {
            taken.video.record = config.data().to_vec();
        }
        let is_key = track == Track::Audio || frame.role == FrameRole::Key;
        taken.push(track, nanoseconds(frame.pts), is_key, frame.data().to_vec())?;
    }
    Ok(taken)
}

fn nanoseconds(time: Timestamp) -> i64 {
    (i128::from(time.units()) * 1_000_000_000 / i128::from(Timestamp::UNITS_PER_SECOND)) as i64
}

fn read_matroska(file: impl Read + Seek) -> Result<Taken, Unfit> {
    let broken = |error: matroska_demuxer::DemuxError| Unfit::Broken("WebM or Matroska", error.to_string());
    let mut file = MatroskaFile::open(file).map_err(broken)?;
    let of_type = |kind: TrackType| file.tracks().iter().filter(move |track| track.track_type() == kind);
    let video = of_type(TrackType::Video).next().ok_or(Unfit::NoVideo)?;
    let codec = video_codec(video.codec_id()).ok_or_else(|| Unfit::Video(video.codec_id().to_owned()))?;
    let audio = of_type(TrackType::Audio).find(|track| track.codec_id() == "A_OPUS");
    if let (None, Some(other)) = (audio, of_type(TrackType::Audio).next()) {
        return Err(Unfit::Audio(other.codec_id().trim_start_matches("A_").to_owned()));
    }
    let is_coded = |track: &TrackEntry| track.content_encodings().is_some_and(|list| !list.is_empty());
    if [Some(video), audio].into_iter().flatten().any(is_coded) {
        return Err(Unfit::Broken("WebM", "its frames are compressed or encrypted".to_owned()));
    }
    let length_size = video.codec_private().and_then(|record| record.get(4)).map_or(0, |byte| byte & 3);
    if codec == Codec::H264 && length_size != 3 {
        return Err(Unfit::Broken("Matroska", "NAL units without lengths of four bytes".to_owned()));
    }
    let mut taken = Taken::new(codec);
    taken.video.record = video.codec_private().unwrap_or_default().to_vec();
    let (video, audio) = (video.track_number().get(), audio.map(|track| track.track_number().get()));
    let scale = file.info().timestamp_scale().get();
    let mut block = Block::default();
    while file.next_frame(&mut block).map_err(broken)? {
        let track = match block.track {
            number if number == video => Track::Video,
            number if Some(number) == audio => Track::Audio,
            _ => continue,
        };
        let data = std::mem::take(&mut block.data);
        // Only simple blocks say so themselves.
        let is_key = track == Track::Audio || block.is_keyframe.unwrap_or_else(|| is_key_frame(codec, &data));
        let at_ns = i64::try_from(block.timestamp.saturating_mul(scale)).unwrap_or(i64::MAX);
        taken.push(track, at_ns, is_key, data)?;
    }
    Ok(taken)
}

/// Codec ids of Matroska (RFC 9559 and its codec registry).
fn video_codec(id: &str) -> Option<Codec> {
    Some(match id {
        "V_VP8" => Codec::Vp8,
        "V_VP9" => Codec::Vp9,
        "V_AV1" => Codec::Av1,
        "V_MPEG4/ISO/AVC" => Codec::H264,
        "V_MPEGH/ISO/HEVC" => Codec::H265,
        _ => return None,
    })
}

/// Whether a decoder can start with a frame, by its first bits.
fn is_key_frame(codec: Codec, data: &[u8]) -> bool {
    let unit_type = |mut rest: &[u8], is: fn(u8) -> bool| {
        std::iter::from_fn(|| next_length_prefixed(&mut rest, 4))
            .any(|unit| unit.first().is_some_and(|first| is(*first)))
    };
    match codec {
        Codec::Vp8 => vp8::is_key_frame(data).unwrap_or(false),
        Codec::Vp9 => vp9::is_key_frame(data).unwrap_or(false),
        Codec::Av1 => av1::has_sequence_header(data),
        Codec::H264 => unit_type(data, |first| first & 0x1f == 5),
        // BLA, IDR and CRA pictures (H.265 table 7-1).
        Codec::H265 => unit_type(data, |first| (16..=21).contains(&(first >> 1 & 0x3f))),
        _ => false,
    }
}

/// The first bytes of a Matroska file: the id of its EBML head (RFC 8794 section 11.2.1).
const EBML: &[u8; 4] = &[0x1a, 0x45, 0xdf, 0xa3];

/// The packets of a sample are kept in memory.
const BYTES_MAX: usize = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str) -> Result<Recording, String> {
        Recording::open(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples")).join(name))
    }

    #[test]
    fn mp4_and_webm_are_read_alike() {
        for (name, codec) in
            [("h264-opus.mp4", Codec::H264), ("vp8-opus.webm", Codec::Vp8), ("av1-opus.webm", Codec::Av1)]
        {
            let recording = open(name).expect(name);
            let [audio, pictures] = &recording.frames;
            assert_eq!((recording.video.codec, pictures.len()), (codec, 80), "{name}");
            // Of the last packet, a part may be beyond the end.
            assert!((199..=202).contains(&audio.len()), "{name}: {}", audio.len());
            let keys: Vec<u64> =
                pictures.iter().filter(|it| it.is_key).map(|it| it.at_ns / 1_000_000).collect();
            assert_eq!(keys, [0, 1000, 2000, 3000], "{name}");
            assert!(pictures.windows(2).all(|pair| pair[1].at_ns - pair[0].at_ns == 50_000_000), "{name}");
            assert!(audio.is_sorted_by_key(|packet| packet.at_ns) && audio[0].at_ns < 20_000_000, "{name}");
            assert!(recording.video.fmtp().is_some(), "{name}");
        }
    }

    #[test]
    fn what_webrtc_does_not_carry_is_refused_with_what_helps() {
        let cases = [
            ("aac.mp4", "has AAC audio, and WebRTC needs Opus", "-c:v copy -c:a libopus"),
            ("b-frames.mp4", "has B-frames (picture 3 is shown", "-c:v libx264 -bf 0 -c:a libopus"),
            ("../../../../media/demo.flv", "is FLV, which `millbench rtmp` takes", "-c:a libopus"),
            ("../millbench/main.rs", "not a readable MP4 file", ""),
            ("missing.mp4", "missing.mp4: No such file", ""),
        ];
        for (name, reason, helps) in cases {
            let refused = open(name).expect_err(name);
            assert!(refused.contains(reason) && refused.contains(helps), "{name}: {refused}");
        }
    }

    #[test]
    fn time_begins_with_the_first_key_frame() {
        let mut taken = Taken::new(Codec::Vp8);
        for (track, at_ns, is_key) in [
            (Track::Video, 5, false),
            (Track::Audio, 6, true),
            (Track::Video, 10, true),
            (Track::Audio, 12, true),
            (Track::Video, 20, false),
        ] {
            taken.push(track, at_ns, is_key, vec![1]).expect("it fits");
        }
        let Recording { frames: [audio, pictures], .. } = taken.finish().expect("two pictures");
        let times = |frames: &[Recorded]| frames.iter().map(|frame| frame.at_ns).collect::<Vec<_>>();
        assert_eq!((times(&audio), times(&pictures)), (vec![2], vec![0, 10]));
        assert_eq!(Taken::new(Codec::Vp8).finish().map(drop), Err(Unfit::Short));
    }
}
