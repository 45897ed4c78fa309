//! H.264 and H.265 of FLV: a record with parameter sets, then access units of NAL units behind lengths.

use rtp::packetize::{FrameWriter, h264};
use rtp::payload::Codec;

use super::{ToPacketsSettings, Verdict};

/// The state of a stream of NAL units.
#[derive(Debug)]
pub(super) struct Nal {
    length_size: usize,
    /// Parameter sets, repeated ahead of key frames.
    sets: Vec<Vec<u8>>,
    units: Vec<Vec<u8>>,
}

impl Nal {
    /// Reads a record; and gives the `a=fmtp` value. `None` if it is broken.
    pub(super) fn new(_settings: &ToPacketsSettings, codec: Codec, record: &[u8]) -> Option<(Self, String)> {
        if codec != Codec::H264 {
            return None;
        }
        let sets = parameter_sets(record)?;
        let [_, profile, constraints, level, lengths, ..] = *record else { return None };
        let fmtp = format!(
            "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id={profile:02x}{constraints:02x}{level:02x}"
        );
        Some((Self { length_size: usize::from(lengths & 3) + 1, sets, units: Vec::new() }, fmtp))
    }

    /// Takes an access unit in; [`Nal::write`] writes it if it is to be sent.
    pub(super) fn take(&mut self, data: &[u8], is_key: bool, _composition_ms: i32) -> Verdict {
        self.units.clear();
        if is_key {
            self.units.extend(self.sets.iter().cloned());
        }
        let sent = units(data, self.length_size)
            .filter(|unit| !unit.is_empty() && !matches!(unit[0] & 0x1f, 7..=9 | 12));
        self.units.extend(sent.map(<[u8]>::to_vec));
        Verdict::Sent
    }

    /// What the operator should know.
    pub(super) fn warning(&self) -> Option<&'static str> {
        None
    }

    /// Writes what was taken in.
    pub(super) fn write(&self, payload_bytes_max: usize, writer: &mut FrameWriter<'_>) {
        h264::packetize(self.units.iter().map(Vec::as_slice), payload_bytes_max, writer);
    }
}

fn units(mut data: &[u8], length_size: usize) -> impl Iterator<Item = &[u8]> + Clone {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_at_checked(length_size)?;
        let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        let (unit, rest) = rest.split_at_checked(length)?;
        data = rest;
        Some(unit)
    })
}

fn parameter_sets(record: &[u8]) -> Option<Vec<Vec<u8>>> {
    let [1, _, _, _, _, sps_count, ..] = *record else { return None };
    let mut sets = Vec::new();
    let mut rest = take_sets(&record[6..], sps_count & 0x1f, &mut sets)?;
    let pps_count = *rest.first()?;
    rest = &rest[1..];
    take_sets(rest, pps_count, &mut sets)?;
    (!sets.is_empty()).then_some(sets)
}

fn take_sets<'a>(mut rest: &'a [u8], count: u8, sets: &mut Vec<Vec<u8>>) -> Option<&'a [u8]> {
    for _ in 0..count {
        let (bytes, tail) = rest.split_first_chunk()?;
        let (set, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*bytes)))?;
        if set.is_empty() {
            return None;
        }
        sets.push(set.to_vec());
        rest = tail;
    }
    Some(rest)
}
