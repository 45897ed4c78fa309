//! A picture as its codec coded it to the data of a frame, and the configuration it brings along.

use media::config::{self, Record};
use rtp::payload::Codec;

use super::units::{self, Contents, Family, ParameterSets};

/// What is known of a picture.
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

    /// The data of the frame.
    pub(super) fn data(&self, frame: &[u8]) -> Vec<u8> {
        let mut data = Vec::with_capacity(frame.len());
        match self.codec {
            Codec::H264 => units::write(Family::Avc, frame, self.contents, &mut data),
            Codec::H265 => units::write(Family::Hevc, frame, self.contents, &mut data),
            _ => data.extend_from_slice(frame),
        }
        data
    }
}
