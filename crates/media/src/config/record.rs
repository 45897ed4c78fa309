//! Decoder configuration records made of what a coded stream has in itself: parameter sets,
//! sequence headers, key frames.
//!
//! The layouts are drawn where records are read: `avc.rs`, `hevc.rs`, `av1.rs`, `video.rs`. A publisher of
//! packets sends no records, and a container cannot do without.

use h264_reader::nal::sps::{ChromaFormat, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal};

use super::{av1, hevc, vp};
use crate::Codec;

/// A configuration record, and the picture size in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The record.
    pub bytes: Vec<u8>,
    /// Width in pixels, 0 if unknown.
    pub width: u32,
    /// Height in pixels, 0 if unknown.
    pub height: u32,
}

/// AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1) of these NAL units; NAL units of the
/// stream have sizes of four bytes.
///
/// `None` without an SPS of at least four bytes, without a PPS, with more of them than the record
/// can count, or with one that is empty or longer than 65,535 bytes.
pub fn avc_record(sps: &[&[u8]], pps: &[&[u8]]) -> Option<Record> {
    let [_, profile, constraints, level, ..] = **sps.first()? else { return None };
    if sps.len() > 31 || pps.is_empty() || pps.len() > 255 {
        return None;
    }
    let mut bytes = vec![1, profile, constraints, level, 0xff, 0xe0 | sps.len() as u8];
    sps.iter().try_for_each(|set| write_set(&mut bytes, set))?;
    bytes.push(pps.len() as u8);
    pps.iter().try_for_each(|set| write_set(&mut bytes, set))?;
    let unit = RefNal::new(sps[0], &[], true);
    let parsed = SeqParameterSet::from_bits(unit.rbsp_bits()).ok();
    if let Some(parsed) = parsed.as_ref().filter(|_| !matches!(profile, 66 | 77 | 88)) {
        let chroma = &parsed.chroma_info;
        let format = match chroma.chroma_format {
            ChromaFormat::Monochrome => 0,
            ChromaFormat::YUV420 => 1,
            ChromaFormat::YUV422 => 2,
            ChromaFormat::YUV444 => 3,
            ChromaFormat::Invalid(_) => return None,
        };
        let depths = [chroma.bit_depth_luma_minus8, chroma.bit_depth_chroma_minus8];
        bytes.extend_from_slice(&[0xfc | format, 0xf8 | depths[0] & 7, 0xf8 | depths[1] & 7, 0]);
    }
    let (width, height) = parsed.and_then(|parsed| parsed.pixel_dimensions().ok()).unwrap_or((0, 0));
    Some(Record { bytes, width, height })
}

/// HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1) of these NAL units; NAL units of the
/// stream have sizes of four bytes.
///
/// `None` if one kind is missing, empty or too long, or the first SPS cannot be read.
pub fn hevc_record(vps: &[&[u8]], sps: &[&[u8]], pps: &[&[u8]]) -> Option<Record> {
    let facts = hevc::SpsFacts::read(sps.first()?).ok()?;
    let mut bytes = vec![1];
    bytes.extend_from_slice(&facts.profile_tier_level);
    // Segmentation and parallelism are not signalled.
    bytes.extend_from_slice(&[0xf0, 0, 0xfc, 0xfc | facts.chroma]);
    bytes.extend_from_slice(&[0xf8 | facts.depth_luma_minus8, 0xf8 | facts.depth_chroma_minus8, 0, 0]);
    bytes.push(facts.temporal_layers << 3 | u8::from(facts.temporal_id_nesting) << 2 | 3);
    bytes.push(3);
    for (kind, sets) in [(hevc::NAL_VPS, vps), (hevc::NAL_SPS, sps), (hevc::NAL_PPS, pps)] {
        if sets.is_empty() {
            return None;
        }
        bytes.push(0x80 | kind);
        bytes.extend_from_slice(&u16::try_from(sets.len()).ok()?.to_be_bytes());
        sets.iter().try_for_each(|set| write_set(&mut bytes, set))?;
    }
    Some(Record { bytes, width: facts.width, height: facts.height })
}

/// AV1CodecConfigurationRecord (AV1 ISOBMFF binding, 2.3) of the first sequence header among
/// `obus`, which have sizes.
///
/// `None` if there is none, or it cannot be read.
pub fn av1_record(obus: &[u8]) -> Option<Record> {
    let unit = av1::sequence_header_unit(obus)?;
    let header = av1::SequenceHeader::read(unit.payload).ok()?;
    let flags = [
        header.tier,
        header.depth > 8,
        header.depth == 12,
        header.monochrome,
        header.subsampling.0,
        header.subsampling.1,
    ];
    let third = flags.iter().fold(0, |bits, flag| bits << 1 | u8::from(*flag)) << 2 | header.chroma_position;
    let mut bytes = vec![0x81, header.profile << 5 | header.level, third, 0];
    bytes.extend_from_slice(unit.whole);
    Some(Record { bytes, width: header.width, height: header.height })
}

/// VPCodecConfigurationRecord ("VP Codec ISO Media File Format Binding") of a VP8 key frame; `None`
/// if it is none.
pub fn vp8_record(frame: &[u8]) -> Option<Record> {
    vp::Picture::of_vp8(frame).map(|picture| picture.record())
}

/// VPCodecConfigurationRecord ("VP Codec ISO Media File Format Binding") of a VP9 key frame; `None`
/// if it is none.
pub fn vp9_record(frame: &[u8]) -> Option<Record> {
    vp::Picture::of_vp9(frame).map(|picture| picture.record())
}

/// Width and height in pixels, from what the coded stream has itself: an SPS of H.264 or H.265 with its
/// head, the payload of a sequence header OBU of AV1, the beginning of a key frame of VP8 or VP9. `None` if
/// that does not tell.
pub fn picture_size(codec: Codec, unit: &[u8]) -> Option<(u32, u32)> {
    match codec {
        Codec::H264 => {
            let sps = SeqParameterSet::from_bits(RefNal::new(unit, &[], true).rbsp_bits()).ok()?;
            sps.pixel_dimensions().ok()
        }
        Codec::H265 => hevc::SpsFacts::read(unit).ok().map(|facts| (facts.width, facts.height)),
        Codec::Av1 => av1::SequenceHeader::read(unit).ok().map(|header| (header.width, header.height)),
        Codec::Vp8 => vp::Picture::of_vp8(unit).map(|picture| picture.size()),
        Codec::Vp9 => vp::Picture::of_vp9(unit).map(|picture| picture.size()),
        _ => None,
    }
}

/// Identification header of Opus (RFC 7845 section 5.1), mapping family 0.
///
/// Nothing is to be skipped at the start: in a live stream that is long past.
pub fn opus_head(channels: u8) -> [u8; 19] {
    let mut head = *b"OpusHead\x01\x02\0\0\x80\xbb\0\0\0\0\0";
    head[9] = channels;
    head
}

/// A NAL unit with its size in two bytes.
fn write_set(out: &mut Vec<u8>, set: &[u8]) -> Option<()> {
    let size = u16::try_from(set.len()).ok().filter(|size| *size > 0)?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(set);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{audio_format, video_format};

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// What `video_format` makes of the record.
    fn size_of(codec: Codec, record: &Record) -> Option<(u32, u32)> {
        video_format(codec, &record.bytes).map(|format| (format.width, format.height))
    }

    /// Parameter sets and the record ffmpeg 5.1 made of them, with libx264.
    #[test]
    fn avc_records_are_those_ffmpeg_makes() {
        let sps = bytes("6742c01fda014016feb0110000030001000003003c0f1832a0");
        let pps = bytes("68ce0fc8");
        let record = avc_record(&[&sps], &[&pps]).unwrap();
        assert_eq!(
            record.bytes,
            bytes("0142c01fffe100196742c01fda014016feb0110000030001000003003c0f1832a001000468ce0fc8")
        );
        assert_eq!((record.width, record.height), (1280, 718));
        assert_eq!(size_of(Codec::H264, &record), Some((1280, 718)));
    }

    #[test]
    fn avc_records_of_high_profiles_tell_chroma_and_depth() {
        // libx264, High, 320x240, 4:2:0, 8 bits.
        let sps = bytes("64000d acd94141fb0110000003001000000303c0f142 9960");
        let sps = [&[0x67][..], &sps].concat();
        let record = avc_record(&[&sps], &[&[0x68, 0xeb]]).unwrap();
        assert!(record.bytes.ends_with(&[0xfd, 0xf8, 0xf8, 0]), "{:02x?}", record.bytes);
        assert_eq!((record.width, record.height), (320, 240));
    }

    #[test]
    fn avc_records_are_not_made_of_what_does_not_fit() {
        let sps: &[u8] = &[0x67, 66, 0, 30];
        let pps: &[u8] = &[0x68, 1];
        assert!(avc_record(&[sps], &[pps]).is_some());
        assert_eq!(avc_record(&[], &[pps]), None);
        assert_eq!(avc_record(&[sps], &[]), None);
        assert_eq!(avc_record(&[&sps[..3]], &[pps]), None);
        assert_eq!(avc_record(&[sps], &[&[]]), None);
        assert_eq!(avc_record(&[sps], &[&[0; 65_536]]), None);
        assert_eq!(avc_record(&[sps; 32], &[pps]), None);
        assert_eq!(avc_record(&[sps], &[pps; 256]), None);
        assert!(avc_record(&[sps; 31], &[pps; 255]).is_some());
    }

    /// Parameter sets of libx265 (Main 10, 1080p) as ffmpeg 5.1 wrote them; it counts segmentation
    /// differently.
    #[test]
    fn hevc_records_are_those_ffmpeg_makes() {
        let vps = bytes("40010c01ffff0220000003009000000300000300789594 09");
        let sps = bytes(
            "420101022000000300900000030000030078a003c0801107cad965654a4c2f016808000003000800000300f04022",
        );
        let pps = bytes("4401c073c18927");
        let sps = [&sps[..], &[0x00]].concat();
        let record = hevc_record(&[&vps], &[&sps], &[&pps]).unwrap();
        assert_eq!(record.bytes[..13], bytes("01022000000090000000000078"));
        // Main 10 is 4:2:0 with 10 bits; one temporal layer, nesting; sizes of 4 bytes.
        assert_eq!(record.bytes[13..23], [0xf0, 0, 0xfc, 0xfd, 0xfa, 0xfa, 0, 0, 0x0f, 3]);
        assert_eq!((record.width, record.height), (1920, 1080));
        assert_eq!(size_of(Codec::H265, &record), Some((1920, 1080)));
        assert_eq!(hevc_record(&[], &[&sps], &[&pps]), None);
        assert_eq!(hevc_record(&[&vps], &[&sps], &[]), None);
        for len in 0..sps.len() {
            let _ = hevc_record(&[&vps], &[&sps[..len]], &[&pps]);
        }
    }

    #[test]
    fn av1_records_are_those_ffmpeg_makes() {
        for (record, size) in [
            ("81010c000a0b0000000cc5036936be4010", (642, 362)),
            ("81010c000a0b0000000cc4ff6700be0010", (640, 360)),
        ] {
            let expected = bytes(record);
            // A temporal delimiter ahead, a frame behind.
            let unit = [&[0x12, 0][..], &expected[4..], &[0x32, 1, 0x10]].concat();
            let made = av1_record(&unit).unwrap();
            assert_eq!(made.bytes, expected);
            assert_eq!((made.width, made.height), size);
            for len in 0..unit.len() - 3 {
                assert_eq!(av1_record(&unit[..len]), None, "length {len}");
            }
        }
    }

    /// First bytes of key frames of libvpx.
    #[test]
    fn vp_records_tell_profile_and_size() {
        let vp9 = bytes("824983420013f00b f0 00");
        let record = vp9_record(&vp9).unwrap();
        assert_eq!((record.width, record.height), (320, 192), "0x013f, 0x00bf");
        assert_eq!(record.bytes, [0, 11, 0x82, 2, 2, 2, 0, 0]);
        let vp8 = bytes("50 10 00 9d012a 4001 f000 00");
        let record = vp8_record(&vp8).unwrap();
        assert_eq!((record.width, record.height), (320, 240));
        assert_eq!(record.bytes[..3], [0, 20, 0x82]);
        for frame in [&vp8, &vp9] {
            for len in 0..frame.len() - 1 {
                assert!(vp8_record(&frame[..len]).is_none() || len == 10);
                assert!(vp9_record(&frame[..len]).is_none() || len >= 9);
            }
        }
        assert_eq!(vp8_record(&bytes("5110009d012a4001f00000")), None, "no key frame");
        assert_eq!(vp9_record(&bytes("864983420013f00bf000")), None, "no key frame");
    }

    #[test]
    fn the_shown_frame_of_a_superframe_tells_the_size() {
        let small = bytes("82498342000 9f005f000");
        let large = bytes("824983420013f00bf000");
        let index = [0xc9, small.len() as u8, 0, large.len() as u8, 0, 0xc9];
        let superframe = [&small[..], &large, &index].concat();
        assert_eq!(vp9_record(&superframe).unwrap().width, 320);
        // An upper layer refers to the lower one, and does not say its size.
        let upper = bytes("8602 00");
        let index = [0xc9, small.len() as u8, 0, upper.len() as u8, 0, 0xc9];
        let layers = [&small[..], &upper, &index].concat();
        assert_eq!(vp9_record(&layers).unwrap().width, vp9_record(&small).unwrap().width);
        let index = [0xc9, upper.len() as u8, 0, small.len() as u8, 0, 0xc9];
        assert_eq!(
            vp9_record(&[&upper[..], &small, &index].concat()),
            None,
            "begins with a picture that refers"
        );
        let wrong = [0xc9, 0xff, 0xff, 0xff, 0xff, 0xc9];
        let _ = vp9_record(&[&small[..], &wrong].concat());
    }

    #[test]
    fn opus_heads_are_read_by_their_reader() {
        let format = audio_format(Codec::Opus, &opus_head(2)).unwrap();
        assert_eq!((format.sample_rate, format.channels), (48_000, 2));
    }
}
