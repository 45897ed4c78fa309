//! The `codecs` parameter (RFC 6381, and what each codec's binding to ISO base media files says).

use media::Codec;
use media::config::AudioSpecificConfig;

/// The string for a codec with this configuration record; `None` if the record does not parse or the
/// codec has none.
pub(crate) fn codecs(codec: Codec, record: &[u8]) -> Option<String> {
    Some(match codec {
        Codec::H264 => {
            let [_, profile, constraints, level, ..] = *record else { return None };
            format!("avc1.{profile:02x}{constraints:02x}{level:02x}")
        }
        Codec::H265 => hevc(record.get(1..13)?.try_into().ok()?),
        Codec::Av1 => {
            let [0x81, profile_level, flags, _, ..] = *record else { return None };
            let tier = if flags & 0x80 == 0 { 'M' } else { 'H' };
            let depth = match (flags & 0x40, flags & 0x20) {
                (0, _) => 8,
                (_, 0) => 10,
                _ => 12,
            };
            format!("av01.{}.{:02}{tier}.{depth:02}", profile_level >> 5, profile_level & 0x1f)
        }
        Codec::Vp9 => {
            let [profile, level, depth, ..] = *record else { return None };
            format!("vp09.{profile:02}.{level:02}.{:02}", depth >> 4)
        }
        Codec::Aac => {
            let config = AudioSpecificConfig::read(record).ok()?;
            let object_type = match (config.extension_sample_rate, config.parametric_stereo) {
                (Some(_), true) => 29,
                (Some(_), false) => 5,
                (None, _) => config.object_type,
            };
            format!("mp4a.40.{object_type}")
        }
        Codec::Mp3 => "mp4a.6B".to_owned(),
        Codec::Opus => "opus".to_owned(),
        Codec::Ac3 => "ac-3".to_owned(),
        Codec::Eac3 => "ec-3".to_owned(),
        Codec::Flac => "fLaC".to_owned(),
        _ => return None,
    })
}

/// ISO/IEC 14496-15, annex E.3: profile space and profile, compatibility flags in reverse order, tier and
/// level, constraint bytes up to the last that is not zero.
fn hevc(general: [u8; 12]) -> String {
    let [first, a, b, c, d, constraints @ .., level] = general;
    let space = ["", "A", "B", "C"][usize::from(first >> 6)];
    let tier = if first & 0x20 == 0 { 'L' } else { 'H' };
    let compatibility = u32::from_be_bytes([a, b, c, d]).reverse_bits();
    let mut text = format!("hvc1.{space}{}.{compatibility:X}.{tier}{level}", first & 0x1f);
    let used = constraints.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    for byte in &constraints[..used] {
        text.push_str(&format!(".{byte:X}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_named_as_their_bindings_say() {
        for (codec, record, expected) in [
            (Codec::H264, &[1, 0x64, 0, 0x1f, 0xff][..], "avc1.64001f"),
            (Codec::H265, &[1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93, 0xf0], "hvc1.1.6.L93.90"),
            (Codec::H265, &[1, 0x22, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 120], "hvc1.2.4.H120"),
            (Codec::Av1, &[0x81, 0x05, 0x0c, 0], "av01.0.05M.08"),
            (Codec::Av1, &[0x81, 0x08, 0x4c, 0], "av01.0.08M.10"),
            (Codec::Vp9, &[0, 21, 0x82, 2, 2, 2, 0, 0], "vp09.00.21.08"),
            (Codec::Aac, &[0x12, 0x10], "mp4a.40.2"),
            (Codec::Opus, b"OpusHead", "opus"),
        ] {
            assert_eq!(codecs(codec, record).as_deref(), Some(expected));
            for length in 0..record.len() {
                let _ = codecs(codec, &record[..length]);
            }
        }
        assert_eq!(codecs(Codec::Vp8, &[]), None);
    }
}
