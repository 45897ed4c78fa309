//! Codecs in words: what a stream has, what a player offered, and why the two do not meet.
//!
//! For the error of a player that would see nothing. What fits what is decided by the crate `rtc`;
//! here it is only said, with the profile a person would look for in an encoder's settings.

use std::fmt::Write;

use rtc::sdp::{Answer, Format, Offer, TrackDescription};
use rtp::payload::{Codec, MediaKind};

/// Most codecs of a player, and profiles of each, that are listed; browsers offer about six of one
/// codec, some of them twice.
const LISTED_MAX: usize = 12;

/// Why this player cannot play the stream, if it cannot: it gets none of its video although it
/// asked for video, or nothing at all. A player without video, and one that lacks only the audio,
/// gets what it can take.
pub(super) fn obstacle(
    offer: &Offer,
    published: &[TrackDescription],
    answer: Option<&Answer>,
) -> Option<String> {
    let lacks = |kind: MediaKind| {
        let had = answer.is_some_and(|answer| answer.tracks.iter().any(|track| track.kind == kind));
        let asked = offered(offer, kind).is_some();
        let there = published.iter().any(|track| track.kind == kind);
        (there && asked && !had).then_some(kind)
    };
    let kind = match answer {
        Some(_) => lacks(MediaKind::Video)?,
        None => lacks(MediaKind::Video).or_else(|| lacks(MediaKind::Audio))?,
    };
    Some(explanation(kind, published, &offered(offer, kind).unwrap_or_default()))
}

/// Whether the player asks for pictures.
pub(super) fn wants_video(offer: &Offer) -> bool {
    offered(offer, MediaKind::Video).is_some()
}

/// Formats a player offers to receive of a kind; `None`: it does not want this kind.
fn offered(offer: &Offer, kind: MediaKind) -> Option<Vec<&Format>> {
    let wanted = offer
        .media
        .iter()
        .filter(|media| media.kind == Some(kind) && media.live && media.direction.receives());
    let formats: Vec<Vec<&Format>> = wanted.map(|media| media.formats.iter().collect()).collect();
    (!formats.is_empty()).then(|| formats.into_iter().flatten().collect())
}

fn explanation(kind: MediaKind, published: &[TrackDescription], offered: &[&Format]) -> String {
    let name = match kind {
        MediaKind::Audio => "audio",
        _ => "video",
    };
    let there = published.iter().filter(|track| track.kind == kind).flat_map(|track| &track.formats);
    let mut text = format!("the stream's {name} is {}, and ", list(&distinct(there.map(described)), "or"));
    match by_codec(offered).as_slice() {
        [] => text.push_str("this player offers no codec that is known here"),
        taken => {
            let _ = write!(text, "this player takes {}", list(taken, "and"));
        }
    }
    text
}

/// A format of a stream: as [`words`], and for H.264 with the number an encoder or a browser is looked up by.
fn described(format: &Format) -> String {
    let text = words(format);
    match (format.codec, parameter(&format.fmtp, "profile-level-id")) {
        // What came in by RTMP was written here; a WHIP publisher may have written anything.
        (Codec::H264, Some(id)) if id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{text} (profile-level-id {})", id.to_ascii_lowercase())
        }
        _ => text,
    }
}

/// `H.264 High`, `H.265 Main 10`, `VP8`.
fn words(format: &Format) -> String {
    let (codec, profile) = (codec_name(format.codec), profile(format));
    if profile.is_empty() { codec.to_owned() } else { format!("{codec} {profile}") }
}

fn codec_name(codec: Codec) -> String {
    match codec {
        Codec::Pcmu => "G.711 PCMU".to_owned(),
        Codec::Pcma => "G.711 PCMA".to_owned(),
        codec => codec.to_string(),
    }
}

/// Name of a format's profile; empty where there are none.
fn profile(format: &Format) -> String {
    let number = |name| parameter(&format.fmtp, name).and_then(|value| value.parse::<u8>().ok());
    let name = match (format.codec, number("profile-id"), number("profile")) {
        (Codec::H264, ..) => h264_profile(&format.fmtp),
        (Codec::H265, None | Some(1), _) => "Main",
        (Codec::H265, Some(2), _) => "Main 10",
        (Codec::H265, Some(3), _) => "Main Still Picture",
        (Codec::H265, Some(4), _) => "with range extensions",
        (Codec::Av1, _, None | Some(0)) => "Main",
        (Codec::Av1, _, Some(1)) => "High",
        (Codec::Av1, _, Some(2)) => "Professional",
        (Codec::Vp9, number, _) | (Codec::H265, number, _) | (Codec::Av1, _, number) => {
            return format!("profile {}", number.unwrap_or(0));
        }
        _ => "",
    };
    name.to_owned()
}

/// Each codec once with its profiles: `H.264 (Main, High)`.
fn by_codec(formats: &[&Format]) -> Vec<String> {
    let codecs = distinct(formats.iter().map(|format| codec_name(format.codec).to_owned()));
    let text = |codec: &String| {
        let of_codec = formats.iter().filter(|format| codec_name(format.codec) == *codec);
        match distinct(of_codec.map(|format| profile(format))).as_slice() {
            [one] if one.is_empty() => codec.clone(),
            [one] => format!("{codec} {one}"),
            several => format!("{codec} ({})", several.join(", ")),
        }
    };
    codecs.iter().map(text).collect()
}

/// Name of the profile in `profile-level-id` (RFC 6184 section 8.1; ITU-T H.264 annex A.2).
fn h264_profile(fmtp: &str) -> &'static str {
    let id = parameter(fmtp, "profile-level-id").unwrap_or("420010");
    let byte = |at: usize| id.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let (Some(profile), Some(constraints)) = (byte(0), byte(2)) else { return "of an unknown profile" };
    let intra = constraints & 0x10 != 0;
    match profile {
        0x42 if constraints & 0x40 != 0 => "Constrained Baseline",
        0x42 => "Baseline",
        0x4d => "Main",
        0x58 => "Extended",
        0x64 if constraints & 0x0c == 0x0c => "Constrained High",
        0x64 => "High",
        0x6e if intra => "High 10 Intra",
        0x6e => "High 10",
        0x7a if intra => "High 4:2:2 Intra",
        0x7a => "High 4:2:2",
        0xf4 if intra => "High 4:4:4 Intra",
        0xf4 => "High 4:4:4 Predictive",
        0x2c => "CAVLC 4:4:4 Intra",
        _ => "of an unknown profile",
    }
}

/// The value of `name` in an `a=fmtp` value.
fn parameter<'a>(fmtp: &'a str, name: &str) -> Option<&'a str> {
    let pairs = fmtp.split(';').filter_map(|part| part.split_once('='));
    pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|it| it.1)
}

/// Each once, in order, as many as are listed.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if !found.contains(&text) && found.len() < LISTED_MAX {
            found.push(text);
        }
    }
    found
}

/// `A, B and C`.
fn list(texts: &[String], before_last: &str) -> String {
    match texts {
        [] => "of an unknown codec".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {before_last} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(codec: Codec, fmtp: &str) -> Format {
        Format {
            payload_type: 96,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            channels: 1,
            fmtp: fmtp.to_owned(),
            rtx_payload_type: None,
            feedback: rtc::sdp::Feedback::default(),
        }
    }

    #[test]
    fn formats_are_named_as_encoders_name_them() {
        let cases = [
            (Codec::H264, "packetization-mode=1;profile-level-id=42e01f", "H.264 Constrained Baseline"),
            (Codec::H264, "profile-level-id=42001f", "H.264 Baseline"),
            (Codec::H264, "profile-level-id=4d0028", "H.264 Main"),
            (Codec::H264, "Profile-Level-Id = 640C1F", "H.264 Constrained High"),
            (Codec::H264, "profile-level-id=640028", "H.264 High"),
            (Codec::H264, "profile-level-id=6e0028", "H.264 High 10"),
            (Codec::H264, "profile-level-id=7a1028", "H.264 High 4:2:2 Intra"),
            (Codec::H264, "profile-level-id=f40028", "H.264 High 4:4:4 Predictive"),
            (Codec::H264, "", "H.264 Baseline"), // the default of RFC 6184
            (Codec::H264, "profile-level-id=x", "H.264 of an unknown profile"),
            (Codec::H264, "profile-level-id=\u{e9}\u{e9}\u{e9}", "H.264 of an unknown profile"),
            (Codec::H265, "profile-id=2;tx-mode=SRST", "H.265 Main 10"),
            (Codec::H265, "", "H.265 Main"),
            (Codec::H265, "profile-id=11", "H.265 profile 11"),
            (Codec::Vp9, "profile-id=2", "VP9 profile 2"),
            (Codec::Av1, "level-idx=5;profile=0", "AV1 Main"),
            (Codec::Vp8, "", "VP8"),
            (Codec::Opus, "", "Opus"),
            (Codec::Pcma, "", "G.711 PCMA"),
        ];
        for (codec, fmtp, expected) in cases {
            assert_eq!(words(&format(codec, fmtp)), expected, "{codec:?} {fmtp}");
        }
    }

    #[test]
    fn nothing_of_a_publishers_text_is_repeated() {
        let strange = format(Codec::H264, "profile-level-id=64<b>8");
        assert_eq!(described(&strange), "H.264 of an unknown profile");
        assert_eq!(
            described(&format(Codec::H264, "profile-level-id=7A0028")),
            "H.264 High 4:2:2 (profile-level-id 7a0028)"
        );
    }

    #[test]
    fn profiles_of_a_codec_stand_together() {
        let offered = [
            format(Codec::H264, "profile-level-id=42e01f"),
            format(Codec::Vp8, ""),
            format(Codec::H264, "packetization-mode=1;profile-level-id=42e01f"),
            format(Codec::H264, "profile-level-id=4d001f"),
            format(Codec::Vp9, "profile-id=2"),
        ];
        let offered: Vec<&Format> = offered.iter().collect();
        assert_eq!(by_codec(&offered), ["H.264 (Constrained Baseline, Main)", "VP8", "VP9 profile 2"]);
    }

    #[test]
    fn lists_are_short_and_read_as_sentences() {
        let texts = |count: usize| (0..count).map(|at| format!("c{at}"));
        assert_eq!(list(&distinct(texts(3).chain(texts(3))), "and"), "c0, c1 and c2");
        assert_eq!(list(&distinct(texts(1)), "or"), "c0");
        assert_eq!(distinct(texts(100)).len(), LISTED_MAX);
    }
}
