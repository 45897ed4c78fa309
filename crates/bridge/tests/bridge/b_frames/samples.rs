//! Coded pictures of `tests/samples`, tag by tag, as an encoder sent them.

use std::path::{Path, PathBuf};

use bridge::BFrames;
use bridge::b_frames::{PictureFilter, Verdict};
use media::FrameRole;
use media::bitstream::Nals;
use rtmp::MediaKind;
use rtmp::flv::{FlvReader, read_frames};
use rtp::payload::Codec;

/// A frame of a sample.
#[derive(Clone)]
pub(crate) struct Picture {
    pub(crate) key: bool,
    /// When it is to be shown.
    pub(crate) shown_ms: i64,
    pub(crate) data: Vec<u8>,
}

/// A sample.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) codec: Codec,
    pub(crate) record: Vec<u8>,
    pub(crate) pictures: Vec<Picture>,
}

/// What a filter made of a sample.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Index in the sample, and the units sent.
    pub(crate) kept: Vec<(usize, Vec<Vec<u8>>)>,
    pub(crate) keys: usize,
    pub(crate) dropped: usize,
    pub(crate) refused: Option<bridge::b_frames::Refusal>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

/// Names of all samples.
pub(crate) fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let flv = files.filter(|file| file.extension().is_some_and(|extension| extension == "flv"));
    let mut names: Vec<_> = flv.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What `scripts/make-b-frame-samples` found with a decoder.
pub(crate) fn expected() -> String {
    std::fs::read_to_string(folder().join("expected.txt")).unwrap()
}

/// Reads a sample.
pub(crate) fn sample(name: &str) -> Sample {
    let mut reader = FlvReader::new(1 << 20);
    reader.push(&std::fs::read(folder().join(name).with_extension("flv")).unwrap());
    let codec = if name.starts_with("h264") { Codec::H264 } else { Codec::H265 };
    let mut sample = Sample { codec, record: Vec::new(), pictures: Vec::new() };
    while let Some(tag) = reader.next_tag().unwrap() {
        if tag.kind != MediaKind::Video {
            continue;
        }
        let (frame, _) = read_frames(tag.into()).unwrap();
        assert!(matches!(frame.codec, Codec::H264 | Codec::H265), "{name}");
        match frame.role {
            FrameRole::Config => sample.record = frame.data().to_vec(),
            FrameRole::Key | FrameRole::Inter => sample.pictures.push(Picture {
                key: frame.is_key(),
                shown_ms: frame.pts.millis(),
                data: frame.data().to_vec(),
            }),
            _ => {}
        }
    }
    sample
}

impl Sample {
    /// A filter for it.
    pub(crate) fn filter(&self, b_frames: BFrames) -> PictureFilter {
        PictureFilter::new(self.codec, &self.record, b_frames).unwrap()
    }

    /// All of it through a filter of its own.
    pub(crate) fn filtered(&self) -> Sent {
        self.filtered_from(0)
    }

    /// Its pictures from one on.
    pub(crate) fn filtered_from(&self, from: usize) -> Sent {
        send(&mut self.filter(BFrames::Drop), &self.pictures, from)
    }
}

/// Pictures from one on through a filter.
pub(crate) fn send(filter: &mut PictureFilter, pictures: &[Picture], from: usize) -> Sent {
    let (mut sent, mut nals) = (Sent::default(), Nals::default());
    for (at, picture) in pictures.iter().enumerate().skip(from) {
        match filter.frame(&picture.data, picture.key, &mut nals) {
            Verdict::Keep { key } => {
                sent.keys += usize::from(key);
                sent.kept.push((at, nals.iter().map(<[u8]>::to_vec).collect()));
            }
            verdict => {
                assert!(nals.is_empty(), "nothing is sent of what is not kept");
                match verdict {
                    Verdict::Refuse(refusal) => {
                        sent.refused = Some(refusal);
                        break;
                    }
                    _ => sent.dropped += 1,
                }
            }
        }
    }
    sent
}

/// The same frame with start codes in place of lengths, by turns of three and four bytes.
pub(crate) fn annex_b(frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, unit) in media::bitstream::NalUnits::of(frame, 4).unwrap().enumerate() {
        // The first has the long form, as annex B.1.1 asks for.
        out.extend_from_slice(if at % 2 == 0 { &[0, 0, 0, 1] } else { &[0, 0, 1] });
        out.extend_from_slice(unit);
    }
    out
}
