//! A frame as its codec coded it to a tag body, and the configuration it brings along.

use media::config::{self, Record};
use rtmp::flv::{VideoPart, write_video_head};
use rtp::payload::Codec;

use super::units::{self, Contents, Family, ParameterSets};
/// What is known of a frame before it becomes a body.
#[derive(Debug)]
pub(super) struct Picture {
    codec: Codec,
    contents: Contents,
    /// Configuration a decoder that starts here needs; of key frames.
    pub(super) record: Option<Record>,
}

/// Why a frame is no picture that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPicture {
    /// Parameter sets, supplemental information: nothing is missing.
    Nothing,
    /// It cannot be what it says.
    Broken,
}

impl Picture {
    /// Looks into a frame.
    pub(super) fn read(codec: Codec, frame: &[u8], sets: &mut ParameterSets) -> Result<Self, NoPicture> {
        let (is_key, record) = match codec {
            Codec::H264 => return Self::of_units(codec, Family::Avc, frame, sets),
            Codec::H265 => return Self::of_units(codec, Family::Hevc, frame, sets),
            Codec::Vp8 => (frame.first().is_some_and(|tag| tag & 1 == 0), config::vp8_record(frame)),
            Codec::Vp9 => {
                let record = config::vp9_record(frame);
                (record.is_some(), record)
            }
            // Each random access point brings its sequence header along.
            _ => {
                let record = config::av1_record(frame);
                (record.is_some(), record)
            }
        };
        if is_key && record.is_none() {
            return Err(NoPicture::Broken);
        }
        let contents = Contents { is_picture: true, is_key };
        Ok(Self { codec, contents, record })
    }

    fn of_units(
        codec: Codec,
        family: Family,
        frame: &[u8],
        sets: &mut ParameterSets,
    ) -> Result<Self, NoPicture> {
        let contents = sets.look_through(family, frame).ok_or(NoPicture::Broken)?;
        if !contents.is_picture {
            return Err(NoPicture::Nothing);
        }
        let record = contents.is_key.then(|| sets.record(family));
        if record == Some(None) {
            return Err(NoPicture::Broken);
        }
        Ok(Self { codec, contents, record: record.flatten() })
    }

    /// Whether a decoder can start with it.
    pub(super) fn is_key(&self) -> bool {
        self.contents.is_key
    }

    /// The tag body of the frame.
    pub(super) fn body(&self, frame: &[u8], composition_ms: i32) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEAD_BYTES_MAX + frame.len());
        let part = VideoPart::Frame { is_key: self.is_key(), composition_ms };
        let _ = write_video_head(&mut body, self.codec, part);
        match self.codec {
            Codec::H264 => units::write(Family::Avc, frame, self.contents, &mut body),
            Codec::H265 => units::write(Family::Hevc, frame, self.contents, &mut body),
            _ => body.extend_from_slice(frame),
        }
        body
    }
}

/// The tag body of a configuration.
pub(super) fn config_body(codec: Codec, record: &Record) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEAD_BYTES_MAX + record.bytes.len());
    let _ = write_video_head(&mut body, codec, VideoPart::Config);
    body.extend_from_slice(&record.bytes);
    body
}

/// Longest head of a body.
const HEAD_BYTES_MAX: usize = 8;
