//! What an audio configuration, or a frame where there is none, says about the audio.
//!
//! For people to read, like `video.rs`. AAC has a file of its own.

use super::aac::AudioSpecificConfig;
use crate::Codec;
use crate::bitstream::{BitReader, Malformed};

/// Format of an audio stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioFormat {
    /// Profile or kind, e.g. `LC` of AAC; empty where the codec has none.
    pub profile: String,
    /// Samples per second.
    pub sample_rate: u32,
    /// Channels; 0 if the configuration does not say.
    pub channels: u8,
}

/// Format from a configuration: AudioSpecificConfig, `OpusHead`, or STREAMINFO of FLAC. `None` if it does not
/// parse, or for another codec.
pub fn audio_format(codec: Codec, config: &[u8]) -> Option<AudioFormat> {
    match codec {
        Codec::Aac => AudioSpecificConfig::read(config).ok().map(|config| config.format()),
        Codec::Opus => opus_format(config),
        Codec::Flac => flac_format(config).ok(),
        _ => None,
    }
}

/// Format from any frame of MP3, AC-3, E-AC-3, and Speex, which have no configuration. `None` if it does not
/// parse, or for another codec.
pub fn audio_frame_format(codec: Codec, frame: &[u8]) -> Option<AudioFormat> {
    match codec {
        Codec::Mp3 => mp3_format(frame).ok(),
        Codec::Ac3 | Codec::Eac3 => ac3_format(frame).ok(),
        Codec::Speex => Some(plain(16_000, 1)),
        _ => None,
    }
}

fn plain(sample_rate: u32, channels: u8) -> AudioFormat {
    AudioFormat { profile: String::new(), sample_rate, channels }
}

/// Identification header (RFC 7845 section 5.1). Opus always decodes to 48 kHz; the header's rate is only
/// that of the source.
///
/// ```text
///  "OpusHead" | version 8 | channels 8 | pre-skip 16 | source rate 32 | gain 16 | mapping 8
/// ```
fn opus_format(head: &[u8]) -> Option<AudioFormat> {
    let [_version, channels, ..] = *head.strip_prefix(b"OpusHead")? else { return None };
    Some(plain(48_000, channels))
}

/// STREAMINFO of FLAC (RFC 9639 section 8.2): behind the marker and the head of its block, or behind that
/// head, or alone, as ffmpeg has it in FLV.
///
/// ```text
///  "fLaC" | last 1, type 7 | bytes 24 | block sizes 32 | frame sizes 48 | rate 20 | channels-1 3 | ..
/// ```
pub fn flac_stream_info(config: &[u8]) -> Option<&[u8; STREAM_INFO_BYTES]> {
    let block = config.strip_prefix(b"fLaC").unwrap_or(config);
    match block {
        _ if block.len() == STREAM_INFO_BYTES => block.first_chunk(),
        [kind, _, _, _, info @ ..] if kind & 0x7f == 0 => info.first_chunk(),
        _ => None,
    }
}

const STREAM_INFO_BYTES: usize = 34;

fn flac_format(config: &[u8]) -> Result<AudioFormat, Malformed> {
    let mut bits = BitReader::new(flac_stream_info(config).ok_or(Malformed)?);
    bits.skip(32 + 48)?;
    Ok(plain(bits.u(20)?, bits.u(3)? as u8 + 1))
}

/// Frame header (ISO/IEC 11172-3, 2.4.2.3; 13818-3 for the lower rates).
///
/// ```text
///  sync 11 | version 2 | layer 2 | no CRC 1 | bit rate 4 | rate 2 | padding 1, private 1 | mode 2 | ..
/// ```
fn mp3_format(frame: &[u8]) -> Result<AudioFormat, Malformed> {
    let mut bits = BitReader::new(frame);
    if bits.u(11)? != 0x7ff {
        return Err(Malformed);
    }
    let (version, layer) = (bits.u(2)?, bits.u(2)?);
    bits.skip(5)?;
    let rate = *[44_100, 48_000, 32_000].get(bits.u(2)? as usize).ok_or(Malformed)?;
    bits.skip(2)?;
    let channels = if bits.u(2)? == 3 { 1 } else { 2 };
    let divisor = match version {
        3 => 1, // MPEG-1
        2 => 2, // MPEG-2
        0 => 4, // "MPEG-2.5"
        _ => return Err(Malformed),
    };
    let profile = match layer {
        1 => "Layer III",
        2 => "Layer II",
        3 => "Layer I",
        _ => return Err(Malformed),
    };
    Ok(AudioFormat { profile: profile.to_owned(), sample_rate: rate / divisor, channels })
}

/// Sync frame (ETSI TS 102 366, 4.3 and E.1.2); bit stream id 11 to 16 is E-AC-3.
///
/// ```text
///  AC-3:    0x0b77 | crc 16 | rate 2 | frame size 6 | id 5 | mode 3 | channels 3 | ..
///  E-AC-3:  0x0b77 | stream 5 | frame size 11 | rate 2 | blocks 2, or rate/2 2 | channels 3 | lfe 1 | id 5
/// ```
fn ac3_format(frame: &[u8]) -> Result<AudioFormat, Malformed> {
    const RATES: [u32; 3] = [48_000, 44_100, 32_000];
    const CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
    let mut bits = BitReader::new(frame);
    if bits.u(16)? != 0x0b77 {
        return Err(Malformed);
    }
    bits.skip(16)?;
    let rate = bits.u(2)? as usize;
    if frame.get(5).ok_or(Malformed)? >> 3 > 10 {
        let half_rate = bits.u(2)? as usize;
        let channels = CHANNELS[bits.u(3)? as usize] + u8::from(bits.bit()?);
        let sample_rate = RATES.get(rate).copied().or_else(|| RATES.get(half_rate).map(|rate| rate / 2));
        return Ok(plain(sample_rate.ok_or(Malformed)?, channels));
    }
    bits.skip(6 + 5 + 3)?;
    let mode = bits.u(3)?;
    // Centre mix, surround mix and Dolby Surround levels come before the LFE flag, each if it applies.
    let levels = [mode & 1 != 0 && mode != 1, mode & 4 != 0, mode == 2];
    bits.skip(2 * levels.iter().filter(|applies| **applies).count())?;
    Ok(plain(*RATES.get(rate).ok_or(Malformed)?, CHANNELS[mode as usize] + u8::from(bits.bit()?)))
}
