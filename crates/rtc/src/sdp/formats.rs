//! Formats of a media description: `a=rtpmap`, `a=fmtp` and `a=rtcp-fb` by payload type (RFC 8866
//! section 6, RFC 4585).
//!
//! Only codecs that are forwarded become formats. Retransmissions (RFC 4588) are a property of the
//! format they repeat, repair packets and redundant audio (RFC 2198) of the media description.

use std::collections::BTreeMap;

use rtp::payload::{Codec, MediaKind};

use super::error::{Limit, SdpError};
use super::fmtp::parameter;
use super::track::{Feedback, Format, RedFormat};
use super::{FEC_REPAIR_WINDOW_US, FORMATS_MAX};

/// Attributes of formats by payload type, with the feedback that is for all (`a=rtcp-fb:*`).
#[derive(Default)]
pub(super) struct FormatTable<'a> {
    lines: BTreeMap<u8, FormatLines<'a>>,
    feedback_of_all: Feedback,
}

impl<'a> FormatTable<'a> {
    /// Takes `a=rtpmap`, `a=fmtp` or `a=rtcp-fb`: all begin with a payload type.
    pub(super) fn take(&mut self, name: &str, value: &'a str) {
        let (first, rest) = value.trim().split_once([' ', '\t']).unwrap_or((value, ""));
        let rest = rest.trim();
        if name == "rtcp-fb" && first == "*" {
            add_feedback(&mut self.feedback_of_all, rest);
            // It counts packets of the whole m-line (RFC 8888 section 6).
            self.feedback_of_all.ccfb |= rest.split_ascii_whitespace().eq(["ack", "ccfb"]);
            return;
        }
        let Some(payload_type) = payload_type(first) else { return };
        let lines = self.lines.entry(payload_type).or_default();
        match name {
            "rtpmap" => lines.rtpmap = Some(rest),
            "fmtp" => lines.fmtp = Some(rest),
            _ => add_feedback(&mut lines.feedback, rest),
        }
    }

    /// The formats of `list` whose codec is ours and of the right kind, in its order, with their
    /// retransmissions.
    pub(super) fn known(&self, kind: Option<MediaKind>, list: &str) -> Result<Vec<Format>, SdpError> {
        let Some(kind) = kind else { return Ok(Vec::new()) };
        let listed: Vec<u8> =
            list.split_ascii_whitespace().take(FORMATS_MAX + 1).filter_map(payload_type).collect();
        if list.split_ascii_whitespace().nth(FORMATS_MAX).is_some() {
            return Err(SdpError::TooMuch(Limit::Formats));
        }
        let mut formats: Vec<Format> = Vec::new();
        for &payload_type in &listed {
            let format = self.format(payload_type).filter(|format| format.codec.kind() == kind);
            // RFC 3264 section 5.1 has no use for the same payload type twice.
            let is_new = formats.iter().all(|known| known.payload_type != payload_type);
            formats.extend(format.filter(|_| is_new));
        }
        for &rtx in &listed {
            let Some(media) = self.retransmitted_by(rtx) else { continue };
            let format = formats.iter_mut().find(|format| format.payload_type == media);
            // The first of several, so that the list's order decides here, too.
            if let Some(format) = format.filter(|format| format.rtx_payload_type.is_none()) {
                format.rtx_payload_type = Some(rtx);
            }
        }
        Ok(formats)
    }

    /// RED of `list`, the first of several, if all of its blocks are of one of these formats (RFC
    /// 2198 section 5).
    pub(super) fn red(&self, list: &str, formats: &[Format]) -> Option<RedFormat> {
        let listed = || list.split_ascii_whitespace().take(FORMATS_MAX).filter_map(payload_type);
        listed().find_map(|red| {
            let lines = self.lines.get(&red)?;
            let mut blocks = lines.fmtp?.split('/').map(|word| payload_type(word.trim()));
            let media = blocks.next()??;
            let are_same = blocks.clone().count() > 0 && blocks.all(|block| block == Some(media));
            let is_opus =
                formats.iter().any(|format| format.payload_type == media && format.codec == Codec::Opus);
            let is_red = lines.rtpmap?.eq_ignore_ascii_case(RED) && red != media;
            let is_preferred = listed().find(|it| [red, media].contains(it)) == Some(red);
            (is_red && are_same && is_opus).then_some(RedFormat {
                payload_type: red,
                media_payload_type: media,
                is_preferred,
            })
        })
    }

    /// The payload type of `list` for repair packets of video, the first of several
    /// (draft-ietf-payload-flexible-fec-scheme-03 section 5.1).
    pub(super) fn fec(&self, kind: Option<MediaKind>, list: &str) -> Option<u8> {
        let is_fec = |payload_type: &u8| {
            let Some(lines) = self.lines.get(payload_type) else { return false };
            let is_it = lines.rtpmap.is_some_and(|rtpmap| rtpmap.eq_ignore_ascii_case(FLEXFEC));
            let window = lines.fmtp.and_then(|fmtp| parameter(fmtp, "repair-window")?.parse::<u64>().ok());
            // Who keeps packets for a shorter time has no use for ours.
            is_it && window.is_none_or(|window| window >= FEC_REPAIR_WINDOW_US)
        };
        let listed = list.split_ascii_whitespace().take(FORMATS_MAX).filter_map(payload_type);
        listed.filter(|_| kind == Some(MediaKind::Video)).find(is_fec)
    }

    fn format(&self, payload_type: u8) -> Option<Format> {
        let lines = self.lines.get(&payload_type);
        let rtpmap = lines.and_then(|lines| lines.rtpmap).or(match payload_type {
            // Static payload types need no a=rtpmap (RFC 3551 section 6).
            0 => Some("PCMU/8000"),
            8 => Some("PCMA/8000"),
            _ => None,
        })?;
        let mut parts = rtpmap.split('/');
        let codec = rtp::payload::codec_of_name(parts.next()?)?;
        let clock_rate: u32 = parts.next()?.trim().parse().ok()?;
        let channels: u8 = parts.next().map_or(Some(1), |channels| channels.trim().parse().ok())?;
        // RFC 7587 section 7: Opus is always written with two channels.
        let expected = if codec == Codec::Opus { 2 } else { 1 };
        if clock_rate != rtp::payload::clock_rate(codec) || channels != expected {
            return None;
        }
        let fmtp = lines.and_then(|lines| lines.fmtp).unwrap_or_default().to_owned();
        let feedback = lines.map(|lines| lines.feedback).unwrap_or_default().or(self.feedback_of_all);
        Some(Format { payload_type, codec, clock_rate, channels, fmtp, rtx_payload_type: None, feedback })
    }

    /// The payload type whose packets this one repeats (RFC 4588 section 8.1).
    fn retransmitted_by(&self, payload_type: u8) -> Option<u8> {
        let lines = self.lines.get(&payload_type)?;
        let name = lines.rtpmap?.split('/').next()?;
        let media = parameter(lines.fmtp?, "apt")?.parse().ok()?;
        (name.eq_ignore_ascii_case("rtx") && media != payload_type).then_some(media)
    }
}

/// `a=rtpmap` of redundant audio of Opus, without the payload type.
pub(super) const RED: &str = "red/48000/2";

/// `a=rtpmap` of repair packets, without the payload type.
pub(super) const FLEXFEC: &str = "flexfec-03/90000";

fn payload_type(word: &str) -> Option<u8> {
    word.parse().ok().filter(|payload_type| *payload_type < 128)
}

/// Takes one feedback message as RFC 4585 section 4.2 has them; unknown ones are not taken.
fn add_feedback(feedback: &mut Feedback, text: &str) {
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some("nack"), None) => feedback.nack = true,
        (Some("nack"), Some("pli")) => feedback.pli = true,
        (Some("ccm"), Some("fir")) => feedback.fir = true,
        (Some("transport-cc"), None) => feedback.transport_cc = true,
        (Some("goog-remb"), None) => feedback.remb = true,
        _ => {}
    }
}

/// The attributes of one payload type.
#[derive(Default)]
struct FormatLines<'a> {
    rtpmap: Option<&'a str>,
    fmtp: Option<&'a str>,
    feedback: Feedback,
}
