//! Sample entries (`stsd`): what a decoder has to know beforehand.
//!
//! Configuration records go in as the publisher sent them, byte for byte. Records of codecs that have
//! none are made of a frame.

use media::bitstream::{BitReader, BitWriter, Malformed};
use media::config::flac_stream_info;
use media::{Codec, MediaKind};

use crate::Format;
use crate::boxes::{self, put16, put32, zeros};

/// Appends the sample entry of a format.
pub(crate) fn write(out: &mut Vec<u8>, format: &Format) {
    let kind = match format.codec {
        Codec::H264 => b"avc1",
        Codec::H265 => b"hvc1",
        Codec::Av1 => b"av01",
        Codec::Vp9 => b"vp09",
        Codec::Opus => b"Opus",
        Codec::Flac => b"fLaC",
        Codec::Ac3 => b"ac-3",
        Codec::Eac3 => b"ec-3",
        _ => b"mp4a",
    };
    boxes::write(out, kind, |out| {
        zeros(out, 6);
        put16(out, 1);
        match format.kind() {
            MediaKind::Video => visual(out, format),
            _ => audio(out, format),
        }
    });
}

/// VisualSampleEntry (12.1.3) behind the data reference.
fn visual(out: &mut Vec<u8>, format: &Format) {
    zeros(out, 16);
    put16(out, format.width.min(0xffff) as u16);
    put16(out, format.height.min(0xffff) as u16);
    // 72 dpi.
    put32(out, 0x48_0000);
    put32(out, 0x48_0000);
    put32(out, 0);
    put16(out, 1);
    zeros(out, 32);
    put16(out, 0x18);
    put16(out, 0xffff);
    match format.codec {
        Codec::H264 => boxes::write(out, b"avcC", |out| out.extend_from_slice(&format.record)),
        Codec::H265 => boxes::write(out, b"hvcC", |out| out.extend_from_slice(&format.record)),
        Codec::Av1 => boxes::write(out, b"av1C", |out| out.extend_from_slice(&format.record)),
        _ => boxes::write_full(out, b"vpcC", (1, 0), |out| out.extend_from_slice(&format.record)),
    }
}

/// AudioSampleEntry (12.2.3) behind the data reference.
fn audio(out: &mut Vec<u8>, format: &Format) {
    zeros(out, 8);
    put16(out, u16::from(format.channels.max(1)));
    put16(out, 16);
    zeros(out, 4);
    // 16.16; what does not fit is said by the codec's own box.
    put32(out, u16::try_from(format.sample_rate).map_or(0, |rate| u32::from(rate) << 16));
    match format.codec {
        Codec::Opus => boxes::write(out, b"dOps", |out| opus(out, &format.record)),
        Codec::Flac => boxes::write_full(out, b"dfLa", (0, 0), |out| flac(out, &format.record)),
        Codec::Ac3 => {
            boxes::write(out, b"dac3", |out| out.extend_from_slice(&ac3(&format.frame).unwrap_or_default()));
        }
        Codec::Eac3 => {
            boxes::write(out, b"dec3", |out| out.extend_from_slice(&eac3(&format.frame).unwrap_or_default()));
        }
        Codec::Mp3 => {
            // MPEG-2 has the lower rates.
            let object_type = if format.sample_rate >= 32_000 { 0x6b } else { 0x69 };
            boxes::write_full(out, b"esds", (0, 0), |out| elementary_stream(out, object_type, &[]));
        }
        _ => boxes::write_full(out, b"esds", (0, 0), |out| elementary_stream(out, 0x40, &format.record)),
    }
}

/// ES_Descriptor (ISO/IEC 14496-1, 7.2.6.5) of audio with this object type and configuration.
///
/// ```text
///  3 | size | id 16 | flags 8 | 4 | size | object type 8 | 0x15 | buffer 24 | max 32 | average 32
///  [ 5 | size | configuration ] | 6 | 1 | 2
/// ```
fn elementary_stream(out: &mut Vec<u8>, object_type: u8, config: &[u8]) {
    let config_bytes = if config.is_empty() { 0 } else { 5 + config.len() };
    descriptor(out, 3, 3 + 5 + 13 + config_bytes + 6);
    out.extend_from_slice(&[0, 0, 0]);
    descriptor(out, 4, 13 + config_bytes);
    out.extend_from_slice(&[object_type, 0x15]);
    zeros(out, 11);
    if !config.is_empty() {
        descriptor(out, 5, config.len());
        out.extend_from_slice(config);
    }
    descriptor(out, 6, 1);
    out.push(2);
}

/// Tag and size of a descriptor, the size in four bytes of seven bits.
fn descriptor(out: &mut Vec<u8>, tag: u8, size: usize) {
    let group = |shift: u32| (size >> shift & 0x7f) as u8;
    out.extend_from_slice(&[tag, 0x80 | group(21), 0x80 | group(14), 0x80 | group(7), group(0)]);
}

/// OpusSpecificBox ("Encapsulation of Opus in ISO Base Media File Format", 4.3.2) of an `OpusHead` (RFC
/// 7845 section 5.1), whose numbers are little-endian.
fn opus(out: &mut Vec<u8>, head: &[u8]) {
    let byte = |at: usize| head.get(at).copied().unwrap_or(0);
    out.extend_from_slice(&[0, byte(9).max(1), byte(11), byte(10)]);
    out.extend_from_slice(&[byte(15), byte(14), byte(13), byte(12), byte(17), byte(16)]);
    let mapping = head.get(18..).unwrap_or_default();
    match mapping.first() {
        None | Some(0) => out.push(0),
        Some(_) => out.extend_from_slice(&mapping[..mapping.len().min(3 + usize::from(byte(9)))]),
    }
}

/// Metadata blocks of FLAC ("Encapsulation of FLAC in ISO Base Media File Format", 3.3.2): STREAMINFO,
/// marked as the last.
fn flac(out: &mut Vec<u8>, record: &[u8]) {
    let info = flac_stream_info(record).map_or(&[][..], |info| &info[..]);
    out.extend_from_slice(&[0x80, 0, 0, info.len() as u8]);
    out.extend_from_slice(info);
}

/// AC3SpecificBox (ETSI TS 102 366, F.4) of a frame.
fn ac3(frame: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut bits = BitReader::new(frame);
    bits.skip(32)?;
    let (rate, size_code, id, service, mode) = (bits.u(2)?, bits.u(6)?, bits.u(5)?, bits.u(3)?, bits.u(3)?);
    let levels = [mode & 1 != 0 && mode != 1, mode & 4 != 0, mode == 2];
    bits.skip(2 * levels.iter().filter(|applies| **applies).count())?;
    let lfe = u32::from(bits.bit()?);
    let mut out = BitWriter::default();
    for (value, width) in [(rate, 2), (id, 5), (service, 3), (mode, 3), (lfe, 1), (size_code >> 1, 5), (0, 5)]
    {
        out.u(value, width);
    }
    Ok(out.bytes().to_vec())
}

/// EC3SpecificBox (ETSI TS 102 366, F.6) of a frame: one independent substream, as all live encoders
/// make it.
fn eac3(frame: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut bits = BitReader::new(frame);
    bits.skip(16 + 2 + 3)?;
    let size = (bits.u(11)? + 1) * 2;
    let (rate, blocks, mode, lfe, id) = (bits.u(2)?, bits.u(2)?, bits.u(3)?, bits.u(1)?, bits.u(5)?);
    let (samples, sample_rate) = eac3_duration(rate, blocks)?;
    let kilobits = size * 8 * sample_rate / samples / 1000;
    let mut out = BitWriter::default();
    for (value, width) in [
        (kilobits.min(0x1fff), 13),
        (0, 3),
        (rate, 2),
        (id, 5),
        (0, 2),
        (0, 3),
        (mode, 3),
        (lfe, 1),
        (0, 3),
        (0, 4),
        (0, 1),
    ] {
        out.u(value, width);
    }
    Ok(out.bytes().to_vec())
}

/// Samples and sampling rate of a frame of E-AC-3 (E.1.2.4) by its codes: of the rate, and of the number of
/// blocks or, at the lower rates, of that rate.
pub(crate) fn eac3_duration(rate: u32, blocks: u32) -> Result<(u32, u32), Malformed> {
    const RATES: [u32; 3] = [48_000, 44_100, 32_000];
    match RATES.get(rate as usize) {
        Some(rate) => Ok((256 * [1, 2, 3, 6][blocks as usize & 3], *rate)),
        None => Ok((1536, RATES.get(blocks as usize).ok_or(Malformed)? / 2)),
    }
}
