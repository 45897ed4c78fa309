//! Codecs by the numbers of FLV and the FourCCs of Enhanced RTMP.

use media::{Codec, FourCc};

/// Codec of a legacy `CodecID` (E.4.3.1). 12 is H.265, as used before Enhanced RTMP.
pub(super) fn of_video_id(id: u8) -> Codec {
    match id {
        7 => Codec::H264,
        12 => Codec::H265,
        _ => Codec::Unknown(FourCc([0, 0, 0, id])),
    }
}

/// Codec of a legacy `SoundFormat` (E.4.2.1).
pub(super) fn of_sound_format(format: u8) -> Codec {
    match format {
        2 | 14 => Codec::Mp3,
        7 => Codec::Pcma,
        8 => Codec::Pcmu,
        10 => Codec::Aac,
        11 => Codec::Speex,
        _ => Codec::Unknown(FourCc([0, 0, 0, format])),
    }
}

/// Codec of a FourCC (Enhanced RTMP v2, tables of "Enhanced Audio" and "Enhanced Video").
pub(super) fn of_fourcc(fourcc: [u8; 4]) -> Codec {
    FOURCCS
        .iter()
        .find(|(_, known)| *known == fourcc)
        .map_or(Codec::Unknown(FourCc(fourcc)), |(codec, _)| *codec)
}

/// FourCC of a codec; `None` for those that only FLV 10.1 has.
pub(super) fn fourcc(codec: Codec) -> Option<[u8; 4]> {
    FOURCCS.iter().find(|(known, _)| *known == codec).map(|(_, fourcc)| *fourcc)
}

/// `videocodecid` and `audiocodecid` of `onMetaData`: the number of FLV, or the FourCC (Enhanced RTMP v2, "Metadata
/// Frame"); 0 if there is none.
pub(super) fn number(codec: Codec) -> u32 {
    match codec {
        Codec::H264 | Codec::Pcma => 7,
        Codec::Pcmu => 8,
        Codec::Aac => 10,
        _ => fourcc(codec).map_or(0, u32::from_be_bytes),
    }
}

const FOURCCS: [(Codec, [u8; 4]); 11] = [
    (Codec::H264, *b"avc1"),
    (Codec::H265, *b"hvc1"),
    (Codec::Av1, *b"av01"),
    (Codec::Vp8, *b"vp08"),
    (Codec::Vp9, *b"vp09"),
    (Codec::Aac, *b"mp4a"),
    (Codec::Mp3, *b".mp3"),
    (Codec::Opus, *b"Opus"),
    (Codec::Ac3, *b"ac-3"),
    (Codec::Eac3, *b"ec-3"),
    (Codec::Flac, *b"fLaC"),
];
