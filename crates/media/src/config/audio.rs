//! What an audio configuration, or a frame where there is none, says about the sound.
//!
//! For people to read, like `video_format.rs`. AAC has a file of its own.

use super::bits::Bits;
use super::tag::{Packet, TagHeader};
use super::{Codec, aac};

/// Sound format of an audio stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioFormat {
    /// Profile or kind, e.g. `LC` of AAC; empty where the codec has none.
    pub profile: String,
    /// Samples per second.
    pub sample_rate: u32,
    /// Channels; 0 if the configuration does not say.
    pub channels: u8,
}

/// Format from the body of an audio tag: the sequence header for AAC, Opus and FLAC, any frame for MP3,
/// AC-3, E-AC-3, G.711 and Speex.
///
/// `None` if the body is not such a one, is of another codec than `codec`, or does not parse.
pub fn audio_format(codec: Codec, body: &[u8]) -> Option<AudioFormat> {
    let header = TagHeader::of_audio(body).ok()?;
    if header.codec != codec {
        return None;
    }
    match (codec, header.packet) {
        (Codec::Aac, Packet::Config) => aac::format(header.data),
        (Codec::Opus, Packet::Config) => opus_format(header.data),
        (Codec::Flac, Packet::Config) => flac_format(header.data),
        (Codec::Mp3, Packet::Frames) => mp3_format(header.data),
        (Codec::Ac3 | Codec::Eac3, Packet::Frames) => ac3_format(header.data),
        (Codec::G711A | Codec::G711U, Packet::Frames) => plain(8_000, 1 + (header.sound_flags & 1)),
        (Codec::Speex, Packet::Frames) => plain(16_000, 1),
        _ => None,
    }
}

fn plain(sample_rate: u32, channels: u8) -> Option<AudioFormat> {
    Some(AudioFormat { profile: String::new(), sample_rate, channels })
}

/// Identification header (RFC 7845 section 5.1). Opus always decodes to 48 kHz; the header's rate is only
/// that of the source.
///
/// ```text
///  "OpusHead" | version 8 | channels 8 | pre-skip 16 | source rate 32 | gain 16 | mapping 8
/// ```
fn opus_format(head: &[u8]) -> Option<AudioFormat> {
    let [_version, channels, ..] = *head.strip_prefix(b"OpusHead")? else { return None };
    plain(48_000, channels)
}

/// STREAMINFO (RFC 9639 section 8.2), behind the marker and the metadata block header.
///
/// ```text
///  "fLaC" | last 1, type 7 | bytes 24 | block sizes 32 | frame sizes 48 | rate 20 | channels-1 3 | ..
/// ```
fn flac_format(config: &[u8]) -> Option<AudioFormat> {
    let block = config.strip_prefix(b"fLaC").unwrap_or(config);
    let mut bits = Bits::new(block);
    bits.skip(1)?;
    if bits.u(7)? != 0 {
        return None;
    }
    bits.skip(24 + 32 + 48)?;
    plain(bits.u(20)?, bits.u(3)? as u8 + 1)
}

/// Frame header (ISO/IEC 11172-3, 2.4.2.3; 13818-3 for the lower rates).
///
/// ```text
///  sync 11 | version 2 | layer 2 | no CRC 1 | bit rate 4 | rate 2 | padding 1, private 1 | mode 2 | ..
/// ```
fn mp3_format(frame: &[u8]) -> Option<AudioFormat> {
    let mut bits = Bits::new(frame);
    if bits.u(11)? != 0x7ff {
        return None;
    }
    let (version, layer) = (bits.u(2)?, bits.u(2)?);
    bits.skip(5)?;
    let rate = *[44_100, 48_000, 32_000].get(bits.u(2)? as usize)?;
    bits.skip(2)?;
    let channels = if bits.u(2)? == 3 { 1 } else { 2 };
    let divisor = match version {
        3 => 1, // MPEG-1
        2 => 2, // MPEG-2
        0 => 4, // "MPEG-2.5"
        _ => return None,
    };
    let profile = match layer {
        1 => "Layer III",
        2 => "Layer II",
        3 => "Layer I",
        _ => return None,
    };
    Some(AudioFormat { profile: profile.to_owned(), sample_rate: rate / divisor, channels })
}

/// Sync frame (ETSI TS 102 366, 4.3 and E.1.2); bit stream id 11 to 16 is E-AC-3.
///
/// ```text
///  AC-3:    0x0b77 | crc 16 | rate 2 | frame size 6 | id 5 | mode 3 | channels 3 | ..
///  E-AC-3:  0x0b77 | stream 5 | frame size 11 | rate 2 | blocks 2, or rate/2 2 | channels 3 | lfe 1 | id 5
/// ```
fn ac3_format(frame: &[u8]) -> Option<AudioFormat> {
    const RATES: [u32; 3] = [48_000, 44_100, 32_000];
    const CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
    let mut bits = Bits::new(frame);
    if bits.u(16)? != 0x0b77 {
        return None;
    }
    bits.skip(16)?;
    let rate = bits.u(2)? as usize;
    if frame.get(5)? >> 3 > 10 {
        let half_rate = bits.u(2)? as usize;
        let channels = CHANNELS[bits.u(3)? as usize] + u8::from(bits.flag()?);
        let sample_rate = RATES.get(rate).copied().or_else(|| RATES.get(half_rate).map(|rate| rate / 2))?;
        return plain(sample_rate, channels);
    }
    bits.skip(6 + 5 + 3)?;
    let mode = bits.u(3)?;
    // Centre mix, surround mix and Dolby Surround levels come before the LFE flag, each if it applies.
    let levels = [mode & 1 != 0 && mode != 1, mode & 4 != 0, mode == 2];
    bits.skip(2 * levels.iter().filter(|applies| **applies).count())?;
    plain(*RATES.get(rate)?, CHANNELS[mode as usize] + u8::from(bits.flag()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_from_configurations_and_frames() {
        let flac = b"\x90fLaCfLaC\x80\x00\x00\x22\x10\x00\x10\x00\x00\x00\x00\x00\x00\x00\x0a\xc4\x42\xf0";
        for (codec, body, profile, rate, channels) in [
            (Codec::Aac, &[0xaf, 0, 0x12, 0x10][..], "LC", 44_100, 2),
            (Codec::Aac, &[0xaf, 0, 0x11, 0x90], "LC", 48_000, 2),
            (Codec::Aac, b"\x90mp4a\x11\x88", "LC", 48_000, 1),
            (Codec::Opus, b"\x90OpusOpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0", "", 48_000, 2),
            (Codec::Flac, flac, "", 44_100, 2),
            (Codec::Mp3, &[0x2f, 0xff, 0xfb, 0x90, 0x64], "Layer III", 44_100, 2),
            (Codec::Mp3, b"\x91.mp3\xff\xf3\x44\xc4", "Layer III", 24_000, 1),
            (Codec::G711U, &[0x82, 0xff], "", 8_000, 1),
            (Codec::G711A, &[0x73, 0xd5], "", 8_000, 2),
            (Codec::Speex, &[0xb2, 0], "", 16_000, 1),
            (Codec::Ac3, b"\x91ac-3\x0b\x77\0\0\x14\x40\xe1\0", "", 48_000, 6),
            (Codec::Eac3, b"\x91ec-3\x0b\x77\x02\xff\x3f\x87\xe0", "", 48_000, 6),
        ] {
            let expected = AudioFormat { profile: profile.to_owned(), sample_rate: rate, channels };
            assert_eq!(audio_format(codec, body), Some(expected), "{body:02x?}");
            for length in 0..body.len() {
                let _ = audio_format(codec, &body[..length]);
            }
        }
        assert_eq!(audio_format(Codec::Opus, &[0xaf, 0, 0x12, 0x10]), None, "another codec");
        assert_eq!(audio_format(Codec::Aac, &[0xaf, 1, 0x12, 0x10]), None, "a frame");
    }
}
