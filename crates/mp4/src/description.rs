//! Sample descriptions (`stsd`, ISO/IEC 14496-12, 8.5.2): codec, and what a decoder has to know
//! beforehand.
//!
//! The configuration is kept as the record that frames carry: `avcC`, `hvcC`, `av1C` and `vpcC` as
//! they stand, AudioSpecificConfig out of `esds`, `OpusHead` made of `dOps`, STREAMINFO of `dfLa`.

use mp4_atom::{Dops, Esds};

use super::Mp4Error;
use super::boxes::{Boxes, decode};
use media::{Codec, FourCc};

/// One way in which samples of a track are coded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) codec: Codec,
    /// Configuration record; may be empty.
    pub(super) record: Vec<u8>,
    /// Parameter sets may be in the samples, and change there (`avc3`, `hev1`).
    pub(super) in_band: bool,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) sample_rate: u32,
    pub(super) channels: u16,
}

/// Reads the body of `stsd` of a video (`is_video`) or audio track. What is not known has
/// [`Codec::Unknown`].
pub(super) fn read(stsd: &[u8], is_video: bool) -> Result<Vec<Description>, Mp4Error> {
    let (head, entries) = stsd.split_first_chunk::<8>().ok_or(Mp4Error::malformed(b"stsd", "cut short"))?;
    let version = head[0];
    let mut descriptions = Vec::new();
    for next in Boxes(entries) {
        let (kind, body) = next?;
        Mp4Error::check("sample descriptions of a track", descriptions.len() as u64 + 1, DESCRIPTIONS_MAX)?;
        let description = if is_video { video(kind.0, body) } else { audio(kind.0, body, version) };
        descriptions.push(description?);
    }
    if descriptions.is_empty() {
        return Err(Mp4Error::malformed(b"stsd", "it describes nothing"));
    }
    Ok(descriptions)
}

/// VisualSampleEntry (12.1.3).
///
/// ```text
///  reserved 48 | data reference 16 | 128 | width 16 | height 16 | .. 50 bytes | boxes
/// ```
fn video(kind: [u8; 4], body: &[u8]) -> Result<Description, Mp4Error> {
    let (head, boxes) = body.split_first_chunk::<78>().ok_or(Mp4Error::malformed(&kind, "cut short"))?;
    let side = |at: usize| u32::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let (codec, record_kind) = match &kind {
        b"avc1" | b"avc3" => (Codec::H264, b"avcC"),
        b"hvc1" | b"hev1" => (Codec::H265, b"hvcC"),
        b"av01" => (Codec::Av1, b"av1C"),
        b"vp08" => (Codec::Vp8, b"vpcC"),
        b"vp09" => (Codec::Vp9, b"vpcC"),
        _ => (Codec::Unknown(FourCc(kind)), b"    "),
    };
    let record = match codec {
        Codec::Unknown(_) => &[][..],
        _ => Boxes(boxes).require(record_kind)?,
    };
    // Version and flags are of the box, not of the record.
    let record = if record_kind == b"vpcC" { record.get(4..).unwrap_or_default() } else { record };
    Ok(Description {
        codec,
        record: record.to_vec(),
        in_band: matches!(&kind, b"avc3" | b"hev1"),
        width: side(24),
        height: side(26),
        sample_rate: 0,
        channels: 0,
    })
}

/// AudioSampleEntry (12.2.3), and QuickTime's versions 1 and 2 of it, which are longer.
///
/// ```text
///  reserved 48 | data reference 16 | version 16 | 48 | channels 16 | sample size 16 | 32 | rate 16.16 | boxes
///  version 1:  .. | 128 | boxes          version 2:  .. | 32 | rate f64 | channels 32 | 160 | boxes
/// ```
fn audio(kind: [u8; 4], body: &[u8], stsd_version: u8) -> Result<Description, Mp4Error> {
    let cut = Mp4Error::malformed(&kind, "cut short");
    let Some((head, mut boxes)) = body.split_first_chunk::<28>() else { return Err(cut) };
    let mut channels = u16::from_be_bytes([head[16], head[17]]);
    let mut sample_rate = u32::from(u16::from_be_bytes([head[24], head[25]]));
    match (stsd_version, head[9]) {
        (0, 1) => boxes = boxes.get(16..).ok_or(cut)?,
        (0, 2) => {
            let (long, behind) = boxes.split_first_chunk::<36>().ok_or(cut)?;
            let [_, _, _, _, rate @ .., _, _, c, d] = *long.first_chunk::<16>().expect("36 bytes");
            (sample_rate, channels) = (f64::from_be_bytes(rate) as u32, u16::from_be_bytes([c, d]));
            boxes = behind;
        }
        _ => {}
    }
    let (codec, record) = match &kind {
        b"mp4a" => mpeg4_audio(boxes)?,
        b"Opus" => {
            let opus: Dops = decode(Boxes(boxes).require(b"dOps")?)?;
            sample_rate = 48_000;
            channels = opus.output_channel_count.into();
            (Codec::Opus, opus_head(&opus))
        }
        b"fLaC" => (Codec::Flac, flac_head(Boxes(boxes).require(b"dfLa")?)),
        // Their frames say all that their boxes do.
        b"ac-3" => (Codec::Ac3, Vec::new()),
        b"ec-3" => (Codec::Eac3, Vec::new()),
        b".mp3" => (Codec::Mp3, Vec::new()),
        _ => (Codec::Unknown(FourCc(kind)), Vec::new()),
    };
    Ok(Description { codec, record, in_band: false, width: 0, height: 0, sample_rate, channels })
}

/// `esds`, which QuickTime puts into a `wave` box.
fn mpeg4_audio(boxes: &[u8]) -> Result<(Codec, Vec<u8>), Mp4Error> {
    let esds = match Boxes(boxes).find(b"esds")? {
        Some(esds) => esds,
        None => Boxes(Boxes(boxes).find(b"wave")?.unwrap_or_default()).require(b"esds")?,
    };
    // Each descriptor that is not known is a warning in the log.
    Mp4Error::check("bytes of esds", esds.len() as u64, ESDS_BYTES_MAX)?;
    let decoder = decode::<Esds>(esds)?.es_desc.dec_config;
    match decoder.object_type_indication {
        OBJECT_AAC | OBJECT_AAC_MPEG2_MAIN..=OBJECT_AAC_MPEG2_SSR => {
            let why = "AAC without AudioSpecificConfig";
            let specific = decoder.dec_specific.ok_or(Mp4Error::malformed(b"esds", why))?;
            Ok((Codec::Aac, specific.raw))
        }
        OBJECT_MP3_MPEG2 | OBJECT_MP3 => Ok((Codec::Mp3, Vec::new())),
        other => Ok((Codec::Unknown(FourCc([b'm', b'p', b'4', other])), Vec::new())),
    }
}

/// Identification header (RFC 7845 section 5.1) with what `dOps` says ("Encapsulation of Opus in
/// ISO Base Media File Format", 4.3.2): the same fields, but little-endian.
fn opus_head(opus: &Dops) -> Vec<u8> {
    let mut head = b"OpusHead\x01".to_vec();
    head.push(opus.output_channel_count);
    head.extend_from_slice(&opus.pre_skip.to_le_bytes());
    head.extend_from_slice(&opus.input_sample_rate.to_le_bytes());
    head.extend_from_slice(&opus.output_gain.to_le_bytes());
    match &opus.channel_mapping {
        None => head.push(0),
        Some(mapping) => {
            head.extend_from_slice(&[mapping.family, mapping.stream_count, mapping.coupled_count]);
            head.extend_from_slice(&mapping.channel_mapping);
        }
    }
    head
}

/// The marker of a FLAC stream and STREAMINFO, as a stream begins; `dfLa` ("Encapsulation of FLAC
/// in ISO Base Media File Format", 3.3.2) has version and flags, then the metadata blocks, of which
/// that is the first.
fn flac_head(dfla: &[u8]) -> Vec<u8> {
    let block = dfla.get(4..).unwrap_or_default();
    [b"fLaC", &block[..block.len().min(STREAMINFO_BYTES)]].concat()
}

/// A metadata block header and STREAMINFO (RFC 9639 section 8.2).
const STREAMINFO_BYTES: usize = 4 + 34;
/// Nobody needs more, and each is a record in memory.
const DESCRIPTIONS_MAX: u64 = 64;
/// Those of real files have about 50.
const ESDS_BYTES_MAX: u64 = 4096;
/// Object type indications (registered at mp4ra.org): ISO/IEC 14496-3, 13818-7 in three profiles,
/// 13818-3, 11172-3.
const OBJECT_AAC: u8 = 0x40;
const OBJECT_AAC_MPEG2_MAIN: u8 = 0x66;
const OBJECT_AAC_MPEG2_SSR: u8 = 0x68;
const OBJECT_MP3_MPEG2: u8 = 0x69;
const OBJECT_MP3: u8 = 0x6b;
