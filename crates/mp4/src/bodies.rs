//! FLV bodies of samples: what RTMP, the relay and every output behind it take.
//!
//! The two formats carry the same configuration records and the same coded data, with three exceptions that are made good
//! here: sizes of NAL units always get four bytes, a configuration that stands in the samples (`avc3`, `hev1`, AV1 without
//! a sequence header in its record) becomes a record, and a change of either is told once, before the sample it is for.

use super::description::Description;
use super::nal::{self, ParameterSets};
use super::{Mp4Error, Sample, Track, TrackKind};
use media::Codec;
use media::config::av1_record;
use rtmp::flv::{SoundPart, VideoPart, write_sound_head, write_video_head};

/// Makes FLV bodies of the samples of one track.
#[derive(Debug)]
pub struct BodyWriter {
    descriptions: Vec<Description>,
    /// The record that was given out last.
    sent: Option<(Codec, Vec<u8>)>,
    /// Parameter sets that came in samples, per description in use.
    sets: ParameterSets,
    description: Option<u32>,
}

impl BodyWriter {
    /// A writer for the samples of a track.
    pub fn new(track: &Track) -> Self {
        Self {
            descriptions: track.descriptions.clone(),
            sent: None,
            sets: ParameterSets::default(),
            description: None,
        }
    }

    /// The next sample gets a configuration again, changed or not.
    pub fn resend(&mut self) {
        self.sent = None;
    }

    /// The configuration body that has to be sent before this sample; `None` if the one sent last still holds, or none is
    /// known yet (parameter sets that have not come).
    ///
    /// [`Mp4Error::Malformed`] if the record is none, or the sample has a description that the file does not have.
    pub fn config(&mut self, sample: &Sample) -> Result<Option<Vec<u8>>, Mp4Error> {
        if self.description != Some(sample.description) {
            self.description = Some(sample.description);
            self.sets = ParameterSets::default();
        }
        let description = description_of(&self.descriptions, sample)?;
        let codec = description.codec;
        let Some(record) = record(description, sample, &mut self.sets)? else { return Ok(None) };
        if self.sent.as_ref().is_some_and(|(sent_codec, sent)| *sent_codec == codec && *sent == record) {
            return Ok(None);
        }
        let mut body = Vec::with_capacity(record.len() + HEAD_BYTES_MAX);
        match sample.kind {
            TrackKind::Video => write_video_head(&mut body, codec, VideoPart::Config),
            _ => write_sound_head(&mut body, codec, SoundPart::Config),
        }
        .ok_or(Mp4Error::Unsupported("this codec"))?;
        body.extend_from_slice(&record);
        self.sent = Some((codec, record));
        Ok(Some(body))
    }

    /// The body of a sample. `composition_ms` is presentation minus decoding time as the stream is going to tell them, in
    /// milliseconds; sound has none.
    ///
    /// [`Mp4Error::Malformed`] if the sizes of its NAL units do not add up.
    pub fn frame(&self, sample: &Sample, composition_ms: i32) -> Result<Vec<u8>, Mp4Error> {
        let description = description_of(&self.descriptions, sample)?;
        let codec = description.codec;
        let mut body = Vec::with_capacity(sample.data.len() + HEAD_BYTES_MAX);
        match sample.kind {
            TrackKind::Video => {
                let part = VideoPart::Frame { is_key: sample.is_key, composition_ms };
                write_video_head(&mut body, codec, part)
            }
            _ => write_sound_head(&mut body, codec, SoundPart::Frame),
        }
        .ok_or(Mp4Error::Unsupported("this codec"))?;
        match nal::length_size(description)? {
            Some(size) if size != 4 => nal::write_with_long_sizes(&mut body, &sample.data, size)?,
            _ => body.extend_from_slice(&sample.data),
        }
        Ok(body)
    }
}

fn description_of<'a>(descriptions: &'a [Description], sample: &Sample) -> Result<&'a Description, Mp4Error> {
    let description = descriptions.get(sample.description as usize);
    description.ok_or(Mp4Error::malformed(b"stsd", "a sample has a description that is not there"))
}

/// The record that holds for a sample; `None` if it is not known yet.
fn record(
    description: &Description,
    sample: &Sample,
    sets: &mut ParameterSets,
) -> Result<Option<Vec<u8>>, Mp4Error> {
    match description.codec {
        Codec::H264 | Codec::H265 => nal::record(description, sample, sets),
        Codec::Av1 if description.record.len() <= AV1_RECORD_BYTES => {
            // The record has no sequence header: a key frame begins with one.
            let made = if sample.is_key { av1_record(&sample.data).map(|made| made.bytes) } else { None };
            if let Some(made) = made {
                sets.made = Some(made);
            }
            Ok(sets.made.clone())
        }
        _ => Ok(Some(description.record.clone())),
    }
}

/// Of the longest head that a body has: FourCC and composition time.
const HEAD_BYTES_MAX: usize = 8;
/// An AV1CodecConfigurationRecord without OBUs.
const AV1_RECORD_BYTES: usize = 4;
