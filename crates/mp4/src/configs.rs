//! Which configuration holds for a sample, and whether that has to be said.
//!
//! Most tracks have it in their sample description. Where it is in the samples (`avc3`, `hev1`,
//! AV1 without a sequence header in its record), a record is made of it.

use super::Mp4Error;
use super::description::Description;
use super::nal::{self, ParameterSets};
use media::Codec;
use media::config::av1_record;

/// Configurations of one track.
#[derive(Debug, Default)]
pub(super) struct Configs {
    /// Index of the sample description in use.
    description: Option<u32>,
    /// Parameter sets that came in samples of that description.
    sets: ParameterSets,
    /// The record that was given out last.
    given: Option<(Codec, Vec<u8>)>,
}

impl Configs {
    /// The record that a decoder needs before a sample, if that is not the one given out last.
    /// `description` comes with its index.
    ///
    /// [`Mp4Error::Malformed`] if the record is none.
    pub(super) fn before(
        &mut self,
        (index, description): (u32, &Description),
        is_key: bool,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>, Mp4Error> {
        let mut record = None;
        if self.description != Some(index) {
            self.sets = ParameterSets::default();
            record = match description.codec {
                Codec::H264 | Codec::H265 => nal::record_with_long_lengths(description)?,
                Codec::Av1 if has_no_sequence_header(description) => None,
                _ => Some(description.record.clone()),
            };
            self.description = Some(index);
        }
        let in_sample = match description.codec {
            _ if !is_key => None,
            Codec::H264 | Codec::H265 if description.in_band => self.sets.take(description, data)?,
            Codec::Av1 if has_no_sequence_header(description) => av1_record(data).map(|made| made.bytes),
            _ => None,
        };
        let Some(record) = in_sample.or(record) else { return Ok(None) };
        let is_given = |(codec, given): &(Codec, Vec<u8>)| *codec == description.codec && *given == record;
        if self.given.as_ref().is_some_and(is_given) {
            return Ok(None);
        }
        self.given = Some((description.codec, record.clone()));
        Ok(Some(record))
    }
}

/// The record that one key frame has, of a track whose samples have them.
pub(super) fn config_in_sample(description: &Description, data: &[u8]) -> Result<Option<Vec<u8>>, Mp4Error> {
    Configs { description: Some(0), ..Configs::default() }.before((0, description), true, data)
}

/// Of an `av1C` without OBUs (AV1 ISOBMFF binding, 2.3).
pub(super) fn has_no_sequence_header(description: &Description) -> bool {
    description.record.len() <= 4
}
