//! How many samples a frame of audio has: the exact duration that containers with milliseconds do not say.

use media::Codec;
use media::bitstream::BitReader;

use crate::Format;
use crate::sample_entry::eac3_duration;

/// Samples of a frame at the sampling rate of its format; `None` if its head does not say it.
pub(crate) fn frame_samples(format: &Format, data: &[u8]) -> Option<u32> {
    match format.codec {
        Codec::Aac => Some(format.frame_samples),
        Codec::Opus => opus(data),
        // MPEG-1 has 1152 samples in a frame of layer III, the lower rates half of that.
        Codec::Mp3 => Some(if format.sample_rate >= 32_000 { 1152 } else { 576 }),
        Codec::Ac3 => Some(1536),
        Codec::Eac3 => {
            let mut bits = BitReader::new(data.get(4..)?);
            let (rate, blocks) = (bits.u(2).ok()?, bits.u(2).ok()?);
            eac3_duration(rate, blocks).ok().map(|(samples, _)| samples)
        }
        Codec::Flac => flac(data),
        _ => None,
    }
}

/// RFC 6716 section 3.1: the first byte has the duration of a frame and how many frames there are.
fn opus(packet: &[u8]) -> Option<u32> {
    let toc = *packet.first()?;
    let samples = match toc >> 3 {
        config @ 0..12 => [480, 960, 1920, 2880][usize::from(config & 3)],
        config @ 12..16 => [480, 960][usize::from(config & 1)],
        config => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(*packet.get(1)? & 0x3f),
    };
    // A packet has 120 ms at most.
    Some(samples * frames).filter(|samples| (1..=5760).contains(samples))
}

/// RFC 9639 section 9.1.1: block size in the frame header.
fn flac(frame: &[u8]) -> Option<u32> {
    let [0xff, 0xf8..=0xf9, codes, _, rest @ ..] = frame else { return None };
    match codes >> 4 {
        1 => Some(192),
        code @ 2..=5 => Some(144 << code),
        code @ 8..=15 => Some(1 << code),
        code @ 6..=7 => {
            // Behind the number of the frame, coded as UTF-8 codes characters.
            let number = match rest.first()?.leading_ones() {
                0 => 1,
                ones @ 2..=7 => ones as usize,
                _ => return None,
            };
            let size = rest.get(number..)?;
            Some(
                1 + if code == 6 {
                    u32::from(*size.first()?)
                } else {
                    u32::from(u16::from_be_bytes([*size.first()?, *size.get(1)?]))
                },
            )
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opus_packets_say_their_duration() {
        for (packet, samples) in [
            (&[0b1111_1000][..], Some(960)),
            (&[0b1111_1001], Some(1920)),
            (&[0b0001_1000], Some(2880)),
            (&[0b1110_0011, 5], Some(600)),
            (&[0b1111_1011, 0], None),
            (&[0b1111_1011], None),
            (&[0b1111_1011, 0x3f], None),
            (&[], None),
        ] {
            assert_eq!(opus(packet), samples, "{packet:?}");
        }
    }

    #[test]
    fn flac_frames_say_their_block_size() {
        for (frame, samples) in [
            (&[0xff, 0xf8, 0xc9, 0x18, 0][..], Some(4096)),
            (&[0xff, 0xf8, 0x29, 0x18, 0], Some(576)),
            (&[0xff, 0xf8, 0x69, 0x18, 0xc2, 0x80, 99], Some(100)),
            (&[0xff, 0xf9, 0x79, 0x18, 5, 0x11, 0x23], Some(0x1124)),
            (&[0xff, 0xf9, 0x79, 0x18, 5, 0x11], None),
            (&[0, 1, 2], None),
        ] {
            assert_eq!(flac(frame), samples, "{frame:?}");
        }
    }
}
