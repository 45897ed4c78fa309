//! Parameters of formats (`a=fmtp`) and which formats can carry each other's packets.
//!
//! A server that forwards packets cannot convert them: a viewer's format has to be able to take
//! what the publisher sends as it is. Levels are not compared; they say what a decoder was tested
//! for, and browsers decode more.

use super::track::Format;
use rtp::payload::Codec;

/// The value of `name` in an `a=fmtp` value, without regard to case.
pub(super) fn parameter<'a>(fmtp: &'a str, name: &str) -> Option<&'a str> {
    parameters(fmtp).find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// `name=value` pairs; a name alone has an empty value.
fn parameters(fmtp: &str) -> impl Iterator<Item = (&str, &str)> {
    fmtp.split(';').map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (key.trim(), value.trim())
    })
}

/// The format among `offered` that takes packets of `published` best; the first of equals.
pub(super) fn best_match<'a>(published: &Format, offered: &'a [Format]) -> Option<&'a Format> {
    let scored = offered.iter().filter_map(|format| Some((distance(published, format)?, format)));
    scored.min_by_key(|&(distance, _)| distance).map(|(_, format)| format)
}

/// How far `taker` is from what `published` needs: 0 the same, more is worse, `None` cannot take
/// it.
pub(super) fn distance(published: &Format, taker: &Format) -> Option<u8> {
    let same = published.codec == taker.codec
        && published.clock_rate == taker.clock_rate
        && published.channels == taker.channels;
    if !same {
        return None;
    }
    let equal = |name, default| {
        let value = |format: &Format| parameter(&format.fmtp, name).unwrap_or(default).to_ascii_lowercase();
        value(published) == value(taker)
    };
    match published.codec {
        Codec::H264 => h264_distance(&published.fmtp, &taker.fmtp),
        // RFC 7798 section 7.1: both parameters must be the same on both sides.
        Codec::H265 => (equal("profile-id", "1") && equal("tx-mode", "SRST")).then_some(0),
        // RFC 9628 section 7: the profile is part of the format.
        Codec::Vp9 => equal("profile-id", "0").then_some(0),
        // AV1 RTP specification section 7.2.
        Codec::Av1 => equal("profile", "0").then_some(0),
        _ => Some(0),
    }
}

/// RFC 6184 section 8.2.2: profile and packetization mode make the format.
///
/// The same profile is best, a profile whose decoders decode the other next. Any other profile of 8
/// bits 4:2:0 comes last instead of never: Firefox offers the constrained baseline only and decodes
/// High, which is what encoders on a desktop send. High 10, High 4:2:2 and the like (`Other`) are
/// taken by those only that offer them: no browser decodes them else.
fn h264_distance(published: &str, taker: &str) -> Option<u8> {
    let mode = |fmtp| parameter(fmtp, "packetization-mode").unwrap_or("0") == "1";
    let (mode_needed, mode_taken) = (mode(published), mode(taker));
    // A receiver of mode 1 takes single NAL unit packets, which are all that mode 0 has.
    if mode_needed && !mode_taken {
        return None;
    }
    let (needed, taken) = (H264Profile::of(published), H264Profile::of(taker));
    let profile = if needed == taken {
        0
    } else if needed.is_decoded_by(taken) {
        2
    } else if matches!(needed, H264Profile::Other(_)) {
        return None;
    } else {
        4
    };
    Some(profile + u8::from(mode_needed != mode_taken))
}

/// Profiles as decoders distinguish them (RFC 6184 section 8.1, tables 5 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum H264Profile {
    ConstrainedBaseline,
    Baseline,
    Main,
    ConstrainedHigh,
    High,
    Other(u8),
}

impl H264Profile {
    fn of(fmtp: &str) -> Self {
        // Without the parameter: baseline, level 1 (RFC 6184 section 8.1).
        let id = parameter(fmtp, "profile-level-id").unwrap_or("420010");
        let byte = |at: usize| id.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (Some(profile), Some(constraints)) = (byte(0), byte(2)) else { return Self::Other(0) };
        match (profile, constraints) {
            (0x42, bits) if bits & 0x40 != 0 => Self::ConstrainedBaseline,
            (0x4d, bits) if bits & 0x80 != 0 => Self::ConstrainedBaseline,
            (0x58, bits) if bits & 0xc0 == 0xc0 => Self::ConstrainedBaseline,
            (0x42, _) => Self::Baseline,
            (0x58, bits) if bits & 0x80 != 0 => Self::Baseline,
            (0x4d, _) => Self::Main,
            (0x64, 0x0c) => Self::ConstrainedHigh,
            (0x64, _) => Self::High,
            (other, _) => Self::Other(other),
        }
    }

    /// Whether a decoder of `taker` decodes this.
    fn is_decoded_by(self, taker: Self) -> bool {
        use H264Profile::{Baseline, ConstrainedBaseline, ConstrainedHigh, High, Main};
        match self {
            ConstrainedBaseline => matches!(taker, Baseline | Main | ConstrainedHigh | High),
            Main | ConstrainedHigh => taker == High,
            _ => false,
        }
    }
}

/// The `a=fmtp` of an answer by one that will receive what `offered` describes.
///
/// Parameters that describe the sender's own stream (`sprop-...`) are not repeated: from us they
/// would describe ours. A sender that announces stereo is asked for it (RFC 7587 section 6.1:
/// without `stereo=1` it should send mono).
pub(super) fn for_receiving(codec: Codec, offered: &str) -> String {
    let mut kept: Vec<&str> = offered
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty() && !is_sender_property(part))
        .collect();
    let announced = codec == Codec::Opus && parameter(offered, "sprop-stereo") == Some("1");
    if announced && parameter(offered, "stereo").is_none() {
        kept.push("stereo=1");
    }
    kept.join(";")
}

/// The `a=fmtp` of an answer by one that will send `published` to a receiver that offered
/// `offered`.
pub(super) fn for_sending(published: Option<&Format>, offered: &Format) -> String {
    let stereo =
        |fmtp: &str| ["sprop-stereo", "stereo"].iter().any(|name| parameter(fmtp, name) == Some("1"));
    let mut answer = for_receiving(offered.codec, &offered.fmtp);
    if offered.codec == Codec::Opus && published.is_some_and(|format| stereo(&format.fmtp)) {
        let separator = if answer.is_empty() { "" } else { ";" };
        answer = format!("{answer}{separator}sprop-stereo=1");
    }
    answer
}

fn is_sender_property(part: &str) -> bool {
    part.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("sprop-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdp::Feedback;

    fn format(codec: Codec, fmtp: &str) -> Format {
        Format {
            payload_type: 96,
            codec,
            clock_rate: 90_000,
            channels: 1,
            fmtp: fmtp.to_owned(),
            rtx_payload_type: None,
            feedback: Feedback::default(),
        }
    }

    #[test]
    fn formats_are_compared_as_their_payload_formats_say() {
        let cbp = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f";
        let high = "packetization-mode=1;profile-level-id=640028";
        let cases = [
            (Codec::H264, cbp, cbp, Some(0)),
            // Level 5.2 in place of 3.1.
            (Codec::H264, cbp, "packetization-mode=1;profile-level-id=42E034", Some(0)),
            // Main with constraint_set0 is the constrained baseline as well.
            (Codec::H264, cbp, "packetization-mode=1;profile-level-id=4d801f", Some(0)),
            (Codec::H264, cbp, "packetization-mode=1;profile-level-id=42001f", Some(2)),
            (Codec::H264, cbp, high, Some(2)),
            (Codec::H264, high, cbp, Some(4)),
            (Codec::H264, "packetization-mode=1;profile-level-id=6e0028", high, None), // 10 bits
            (Codec::H264, "packetization-mode=1;profile-level-id=7a0028", cbp, None),  // 4:2:2
            (Codec::H264, "profile-level-id=f40028", "packetization-mode=1;profile-level-id=f4001f", Some(1)),
            (Codec::H264, high, "packetization-mode=1;profile-level-id=f4001f", Some(4)),
            (Codec::H264, "profile-level-id=42e01f", cbp, Some(1)),
            (Codec::H264, cbp, "profile-level-id=42e01f", None),
            (Codec::H264, "", "profile-level-id=42001f", Some(0)),
            (Codec::H264, "profile-level-id=zz", "profile-level-id=4\u{e9}1", Some(0)),
            (Codec::Vp9, "", "profile-id=0", Some(0)),
            (Codec::Vp9, "profile-id=2", "profile-id=0", None),
            (Codec::Av1, "level-idx=5;profile=0;tier=0", "", Some(0)),
            (Codec::Av1, "profile=1", "profile=0", None),
            (Codec::H265, "level-id=93;profile-id=1;tier-flag=0;tx-mode=SRST", "", Some(0)),
            (Codec::H265, "profile-id=2", "profile-id=1", None),
            (Codec::Vp8, "max-fr=30", "", Some(0)),
        ];
        for (codec, published, taker, expected) in cases {
            let found = distance(&format(codec, published), &format(codec, taker));
            assert_eq!(found, expected, "{codec:?} {published:?} to {taker:?}");
        }
        assert_eq!(distance(&format(Codec::Vp8, ""), &format(Codec::Vp9, "")), None);
    }

    #[test]
    fn the_nearest_format_is_chosen_and_the_first_of_equals() {
        let mut offered = vec![
            format(Codec::H264, "profile-level-id=42e01f"),
            format(Codec::H264, "packetization-mode=1;profile-level-id=64001f"),
            format(Codec::H264, "packetization-mode=1;profile-level-id=42e01f"),
            format(Codec::H264, "packetization-mode=1;profile-level-id=42e034"),
        ];
        for (at, format) in offered.iter_mut().enumerate() {
            format.payload_type = 100 + at as u8;
        }
        let published = format(Codec::H264, "packetization-mode=1;profile-level-id=42e01f");
        assert_eq!(best_match(&published, &offered).map(|found| found.payload_type), Some(102));
        let published = format(Codec::H264, "packetization-mode=1;profile-level-id=640032");
        assert_eq!(best_match(&published, &offered).map(|found| found.payload_type), Some(101));
        assert_eq!(best_match(&format(Codec::Vp8, ""), &offered), None);
    }

    #[test]
    fn answers_ask_for_stereo_and_do_not_repeat_what_describes_the_sender() {
        let cases = [
            (Codec::Opus, "minptime=10;useinbandfec=1", "minptime=10;useinbandfec=1"),
            (Codec::Opus, "minptime=10; sprop-stereo=1", "minptime=10;stereo=1"),
            (Codec::Opus, "stereo=1;sprop-stereo=1", "stereo=1"),
            (Codec::H264, "sprop-parameter-sets=Z0IA,aM4=;packetization-mode=1", "packetization-mode=1"),
            (Codec::Vp8, "", ""),
        ];
        for (codec, offered, answer) in cases {
            assert_eq!(for_receiving(codec, offered), answer);
        }
    }

    #[test]
    fn a_viewer_is_told_of_stereo_when_the_publisher_sends_it() {
        let (published, taker) = (format(Codec::Opus, "sprop-stereo=1"), format(Codec::Opus, "minptime=10"));
        assert_eq!(for_sending(Some(&published), &taker), "minptime=10;sprop-stereo=1");
        assert_eq!(for_sending(Some(&taker), &taker), "minptime=10");
        assert_eq!(for_sending(None, &format(Codec::Opus, "")), "");
    }
}
