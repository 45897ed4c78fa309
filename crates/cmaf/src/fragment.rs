//! Reads fragments as `chunk.rs` writes them, for the index of a recording. The crate `mp4` reads those of
//! others.

use crate::chunk::KEY_SAMPLE;

/// What a `moof` of [`Segmenter`](crate::Segmenter) says: one run of samples of one track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The track.
    pub track_id: u32,
    /// Decode time of the first sample, in ticks of the track.
    pub decode_time: u64,
    /// Bytes of all samples: what is in the `mdat` behind it.
    pub data_bytes: u64,
    is_video: bool,
    entries: &'a [u8],
}

/// One sample of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentSample {
    /// In ticks.
    pub duration: u32,
    /// In bytes.
    pub size: u32,
    /// Whether a decoder can begin with it.
    pub is_key: bool,
    /// Presentation minus decode time, in ticks.
    pub composition: i32,
}

impl<'a> Fragment<'a> {
    /// Reads a whole `moof`, header included; `None` if it is damaged, or was written by something else.
    pub fn read(moof: &'a [u8]) -> Option<Self> {
        let (kind, body) = first_box(moof)?;
        let (b"moof", body) = (kind, body) else { return None };
        let (mfhd, rest) = split_box(body)?;
        let (b"mfhd", traf) = (first_box(mfhd)?.0, first_box(rest)?) else { return None };
        let (b"traf", traf) = traf else { return None };
        let (tfhd, rest) = split_box(traf)?;
        let (tfdt, trun) = split_box(rest)?;
        let (b"tfhd", [0, 2, 0, 0x20, tfhd @ ..]) = first_box(tfhd)? else { return None };
        let (b"tfdt", [1, 0, 0, 0, tfdt @ ..]) = first_box(tfdt)? else { return None };
        let (b"trun", [1, 0, flags @ 3..=15, 1, trun @ ..]) = first_box(trun)? else { return None };
        let is_video = match flags {
            0x0f => true,
            0x03 => false,
            _ => return None,
        };
        let track_id = u32::from_be_bytes(*tfhd.first_chunk()?);
        let decode_time = u64::from_be_bytes(*tfdt.first_chunk()?);
        let count = u32::from_be_bytes(*trun.first_chunk()?) as usize;
        let entries = trun.get(8..)?;
        let mut fragment = Self { track_id, decode_time, data_bytes: 0, is_video, entries };
        if count == 0 || entries.len() != count.checked_mul(fragment.entry_bytes())? {
            return None;
        }
        fragment.data_bytes = fragment.samples().map(|sample| u64::from(sample.size)).sum();
        Some(fragment)
    }

    /// Its samples, in decoding order.
    pub fn samples(&self) -> impl Iterator<Item = FragmentSample> + use<'a> {
        let is_video = self.is_video;
        self.entries.chunks_exact(self.entry_bytes()).map(move |entry| {
            let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|index| entry[at * 4 + index]));
            let (is_key, composition) = match is_video {
                true => (word(2) == KEY_SAMPLE, word(3).cast_signed()),
                false => (true, 0),
            };
            FragmentSample { duration: word(0), size: word(1), is_key, composition }
        })
    }

    fn entry_bytes(&self) -> usize {
        if self.is_video { 16 } else { 8 }
    }
}

/// Type and body of the box that `bytes` begins with.
pub(crate) fn first_box(bytes: &[u8]) -> Option<(&[u8; 4], &[u8])> {
    let (whole, _) = split_box(bytes)?;
    Some((whole[4..].first_chunk()?, &whole[8..]))
}

/// The box that `bytes` begins with, and what comes behind it.
pub(crate) fn split_box(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    (size >= 8).then(|| bytes.split_at_checked(size))?
}

/// The boxes in `bytes`; ends before one that is not whole.
pub(crate) fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (whole, rest) = split_box(bytes)?;
        bytes = rest;
        first_box(whole)
    })
}
