//! Chunks: `moof` and `mdat` of one part (ISO/IEC 14496-12, 8.8; CMAF, ISO/IEC 23000-19, 7.3.2.3), and the
//! wall clock in front of the first of a segment (`prft`, 8.16.5).

use std::sync::Arc;
use std::time::Duration;

use media::{Frame, MediaKind};

use crate::FragmentSample;
use crate::boxes::{put32, put64, write, write_full};

/// A frame with its place in the track, in ticks.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) frame: Arc<Frame>,
    pub(crate) dts: i64,
    /// Presentation minus decode time.
    pub(crate) composition: i32,
    pub(crate) duration: u32,
    pub(crate) is_key: bool,
}

/// What a chunk says besides its samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkHead {
    pub(crate) track_id: u32,
    /// Number of the fragment in its rendition, from 1.
    pub(crate) sequence: u32,
    pub(crate) is_video: bool,
    /// Wall clock of the first sample, at the begin of a segment.
    pub(crate) wall_clock: Option<Duration>,
}

/// The chunk of these samples, of which there is at least one; each begins where the one before it ends.
pub(crate) fn write_chunk(head: ChunkHead, samples: &[Sample]) -> Vec<u8> {
    let media_bytes: usize = samples.iter().map(|sample| sample.frame.data().len()).sum();
    let per_sample = if head.is_video { 16 } else { 8 };
    let mut out = Vec::with_capacity(media_bytes + 160 + per_sample * samples.len());
    if let Some(wall_clock) = head.wall_clock {
        let first = &samples[0];
        let presented = first.dts.saturating_add(first.composition.into()).max(0);
        // 24: the same offset to the wall clock as in all others of the track.
        write_full(&mut out, b"prft", (1, 8), |out| {
            put32(out, head.track_id);
            put64(out, ntp(wall_clock));
            put64(out, presented.cast_unsigned());
        });
    }
    let as_said = samples.iter().map(|sample| FragmentSample {
        duration: sample.duration,
        size: sample.frame.data().len() as u32,
        is_key: sample.is_key,
        composition: sample.composition,
    });
    put_moof(&mut out, head, samples[0].dts, as_said);
    write(&mut out, b"mdat", |out| {
        for sample in samples {
            out.extend_from_slice(sample.frame.data());
        }
    });
    out
}

/// What a fragment of these samples has before their bytes, which follow it: `moof`, and the head of
/// `mdat`. `decode_time` is that of the first, in ticks of the track; each begins where the one before it
/// ends. `sequence` is the number of the fragment, from 1. `None`: they have more bytes than an `mdat` with a
/// short header.
pub fn fragment_head(
    track_id: u32,
    kind: MediaKind,
    sequence: u32,
    decode_time: u64,
    samples: &[FragmentSample],
) -> Option<Vec<u8>> {
    let media: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
    let mdat_bytes = u32::try_from(media + 8).ok()?;
    let is_video = kind == MediaKind::Video;
    let mut out = Vec::with_capacity(160 + 16 * samples.len());
    let head = ChunkHead { track_id, sequence, is_video, wall_clock: None };
    put_moof(&mut out, head, i64::try_from(decode_time).unwrap_or(i64::MAX), samples.iter().copied());
    put32(&mut out, mdat_bytes);
    out.extend_from_slice(b"mdat");
    Some(out)
}

/// Appends the `moof` of a run of samples, whose bytes follow behind the head of an `mdat`.
fn put_moof(
    out: &mut Vec<u8>,
    head: ChunkHead,
    decode_time: i64,
    samples: impl ExactSizeIterator<Item = FragmentSample>,
) {
    let moof_at = out.len();
    let mut offset_at = 0;
    write(out, b"moof", |out| {
        write_full(out, b"mfhd", (0, 0), |out| put32(out, head.sequence));
        write(out, b"traf", |out| {
            // Flags: offsets count from the `moof`; default flags of samples are here.
            let default_flags = if head.is_video { INTER_SAMPLE } else { KEY_SAMPLE };
            write_full(out, b"tfhd", (0, 0x02_0020), |out| {
                put32(out, head.track_id);
                put32(out, default_flags);
            });
            write_full(out, b"tfdt", (1, 0), |out| put64(out, decode_time.max(0).cast_unsigned()));
            // Data offset, durations, sizes; flags and composition offsets of video.
            let flags = if head.is_video { 0x0f01 } else { 0x0301 };
            write_full(out, b"trun", (1, flags), |out| {
                put32(out, samples.len() as u32);
                offset_at = out.len();
                put32(out, 0);
                for sample in samples {
                    put32(out, sample.duration);
                    put32(out, sample.size);
                    if head.is_video {
                        put32(out, if sample.is_key { KEY_SAMPLE } else { INTER_SAMPLE });
                        put32(out, sample.composition.cast_unsigned());
                    }
                }
            });
        });
    });
    let offset = (out.len() - moof_at + 8) as u32;
    out[offset_at..offset_at + 4].copy_from_slice(&offset.to_be_bytes());
}

/// Makes a chunk that has its wall clock in front ([`Settings::dated_parts`](crate::Settings)) begin so many
/// ticks earlier, and numbers its fragment: those of a file begin near 0 and count from 1, whenever its
/// recording began. `false` if it is no such chunk.
pub fn relocate_chunk(chunk: &mut [u8], earlier_ticks: u64, sequence: u32) -> bool {
    let is_dated =
        chunk.get(4..8) == Some(b"prft") && chunk.get(PRFT_BYTES + 4..PRFT_BYTES + 8) == Some(b"moof");
    if !is_dated || chunk.len() < PRFT_BYTES + DECODE_TIME_AT + 8 {
        return false;
    }
    let sequence_at = PRFT_BYTES + SEQUENCE_AT;
    chunk[sequence_at..sequence_at + 4].copy_from_slice(&sequence.to_be_bytes());
    for at in [MEDIA_TIME_AT, PRFT_BYTES + DECODE_TIME_AT] {
        let time = u64::from_be_bytes(std::array::from_fn(|index| chunk[at + index]));
        chunk[at..at + 8].copy_from_slice(&time.saturating_sub(earlier_ticks).to_be_bytes());
    }
    true
}

/// NTP format (RFC 5905 section 6): seconds since 1900, and fractions of a second in 32 bits.
fn ntp(since_1970: Duration) -> u64 {
    let seconds = since_1970.as_secs().wrapping_add(2_208_988_800) & 0xffff_ffff;
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    seconds << 32 | fraction
}

/// A `prft`, and where the media time is in it.
const PRFT_BYTES: usize = 32;
const MEDIA_TIME_AT: usize = 24;
/// Where a `moof` has its number (in `mfhd`) and the decode time of its first sample (in `tfdt`).
const SEQUENCE_AT: usize = 20;
const DECODE_TIME_AT: usize = 64;
/// Depends on no other.
pub(crate) const KEY_SAMPLE: u32 = 0x0200_0000;
/// Depends on others, and is no sync sample.
const INTER_SAMPLE: u32 = 0x0101_0000;
