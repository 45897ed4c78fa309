//! Writing session descriptions: the same lines in the same order for answers and offers.
//!
//! Transport attributes are written in every media description, although the first of the bundle
//! would do (RFC 9143 section 7.1.3): aiortc and older GStreamer look for them in each. Candidates
//! are written once, in the first.

use std::fmt::Write;

use rtp::extension::Extension;

use super::formats::{FLEXFEC, RED};
use super::section::{Direction, Setup};
use super::track::{Feedback, Format, RedFormat, Source};
use super::{Candidate, FEC_REPAIR_WINDOW_US, IceCredentials};
use crate::dtls::Fingerprint;

/// A description to write.
pub(super) struct Description<'a> {
    pub(super) session_id: u64,
    pub(super) ice_lite: bool,
    pub(super) extmap_allow_mixed: bool,
    /// `a=mid`s of the bundle; no group is written when empty.
    pub(super) bundle: Vec<&'a str>,
    pub(super) transport: LocalTransport<'a>,
    pub(super) media: Vec<Media<'a>>,
}

/// This side's end of the transport.
#[derive(Clone, Copy)]
pub(super) struct LocalTransport<'a> {
    pub(super) ice: &'a IceCredentials,
    pub(super) fingerprint: &'a Fingerprint,
    pub(super) setup: Setup,
    pub(super) candidates: &'a [Candidate],
    /// Whether more candidates may follow.
    pub(super) trickle: bool,
}

/// A media description to write.
pub(super) enum Media<'a> {
    /// Not accepted: port 0 and the format list of the offer (RFC 3264 section 6).
    Rejected { name: &'a str, protocol: &'a str, format_list: &'a str, mid: &'a str },
    /// Part of the bundle.
    Live(Box<Live<'a>>),
}

/// A media description of the bundle.
pub(super) struct Live<'a> {
    pub(super) name: &'a str,
    pub(super) protocol: &'a str,
    pub(super) mid: &'a str,
    pub(super) direction: Direction,
    pub(super) rtcp_reduced_size: bool,
    pub(super) extmap_allow_mixed: bool,
    pub(super) formats: Vec<Format>,
    pub(super) red: Option<RedFormat>,
    pub(super) extensions: Vec<(u8, Option<Direction>, Extension)>,
    pub(super) rids: &'a [String],
    pub(super) sources: &'a [Source],
    /// Payload type of repair packets, and their SSRC if this side sends them.
    pub(super) fec: Option<(u8, Option<u32>)>,
    /// Name of the media stream its track is of (RFC 8830); also the CNAME.
    pub(super) stream_id: &'a str,
}

/// Writes a whole description.
pub(super) fn description(description: &Description<'_>) -> String {
    let mut text = String::with_capacity(1024 * (1 + description.media.len()));
    // Writing to a string cannot fail.
    let _ = write_description(&mut text, description);
    text
}

fn write_description(out: &mut String, it: &Description<'_>) -> std::fmt::Result {
    // RFC 9429 section 5.2.1: a session id below 2^63.
    let session_id = it.session_id >> 1;
    write!(out, "v=0\r\no=- {session_id} 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n")?;
    if !it.bundle.is_empty() {
        write!(out, "a=group:BUNDLE {}\r\n", it.bundle.join(" "))?;
    }
    if it.extmap_allow_mixed {
        out.write_str("a=extmap-allow-mixed\r\n")?;
    }
    if it.ice_lite {
        out.write_str("a=ice-lite\r\n")?;
    }
    write!(
        out,
        "a=ice-options:{}ice2\r\na=msid-semantic: WMS *\r\n",
        if it.transport.trickle { "trickle " } else { "" }
    )?;
    // The bundle's first lists the candidates.
    let first = it.bundle.first().copied();
    for media in &it.media {
        match media {
            Media::Rejected { name, protocol, format_list, mid } => {
                write!(out, "m={name} 0 {protocol} {format_list}\r\nc=IN IP4 0.0.0.0\r\n")?;
                if !mid.is_empty() {
                    write!(out, "a=mid:{mid}\r\n")?;
                }
                out.write_str("a=inactive\r\n")?;
            }
            Media::Live(live) => {
                write_live(out, live, it.transport)?;
                if first.is_none_or(|mid| mid == live.mid) {
                    write_candidates(out, it.transport)?;
                }
            }
        }
    }
    Ok(())
}

fn write_live(out: &mut String, it: &Live<'_>, transport: LocalTransport<'_>) -> std::fmt::Result {
    write!(out, "m={} 9 {}", it.name, it.protocol)?;
    for format in &it.formats {
        let red = it.red.filter(|red| red.media_payload_type == format.payload_type);
        // Their order says what a publisher sends.
        match red {
            Some(red) if red.is_preferred => write!(out, " {} {}", red.payload_type, format.payload_type)?,
            Some(red) => write!(out, " {} {}", format.payload_type, red.payload_type)?,
            None => write!(out, " {}", format.payload_type)?,
        }
        if let Some(rtx) = format.rtx_payload_type {
            write!(out, " {rtx}")?;
        }
    }
    if let Some((fec, _)) = it.fec {
        write!(out, " {fec}")?;
    }
    out.write_str("\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\n")?;
    if !it.mid.is_empty() {
        write!(out, "a=mid:{}\r\n", it.mid)?;
    }
    write!(out, "a=ice-ufrag:{}\r\na=ice-pwd:{}\r\n", transport.ice.ufrag, transport.ice.password)?;
    write!(out, "a=fingerprint:{}\r\na=setup:{}\r\n", transport.fingerprint, transport.setup.name())?;
    write!(out, "a={}\r\na=rtcp-mux\r\n", it.direction.name())?;
    if it.rtcp_reduced_size {
        out.write_str("a=rtcp-rsize\r\n")?;
    }
    // The session's line speaks for all descriptions; an offer may have it for one only.
    if it.extmap_allow_mixed {
        out.write_str("a=extmap-allow-mixed\r\n")?;
    }
    for (id, direction, extension) in &it.extensions {
        write!(out, "a=extmap:{id}")?;
        if let Some(direction) = direction {
            write!(out, "/{}", direction.name())?;
        }
        write!(out, " {}\r\n", extension.uri())?;
    }
    if it.formats.iter().any(|format| format.feedback.ccfb) {
        out.write_str("a=rtcp-fb:* ack ccfb\r\n")?;
    }
    it.formats.iter().try_for_each(|format| write_format(out, format))?;
    if let Some(RedFormat { payload_type, media_payload_type: media, .. }) = it.red {
        write!(out, "a=rtpmap:{payload_type} {RED}\r\na=fmtp:{payload_type} {media}/{media}\r\n")?;
    }
    if let Some((fec, _)) = it.fec {
        write!(out, "a=rtpmap:{fec} {FLEXFEC}\r\na=fmtp:{fec} repair-window={FEC_REPAIR_WINDOW_US}\r\n")?;
    }
    write_layers_and_sources(out, it)
}

fn write_format(out: &mut String, format: &Format) -> std::fmt::Result {
    let Format { payload_type, codec, clock_rate, channels, .. } = format;
    write!(out, "a=rtpmap:{payload_type} {}/{clock_rate}", rtp::payload::encoding_name(*codec))?;
    if *channels > 1 {
        write!(out, "/{channels}")?;
    }
    out.write_str("\r\n")?;
    if !format.fmtp.is_empty() {
        write!(out, "a=fmtp:{payload_type} {}\r\n", format.fmtp)?;
    }
    let Feedback { nack, pli, fir, transport_cc, remb, ccfb: _ } = format.feedback;
    let messages = [
        (remb, "goog-remb"),
        (transport_cc, "transport-cc"),
        (fir, "ccm fir"),
        (nack, "nack"),
        (pli, "nack pli"),
    ];
    for (_, message) in messages.into_iter().filter(|(agreed, _)| *agreed) {
        write!(out, "a=rtcp-fb:{payload_type} {message}\r\n")?;
    }
    if let Some(rtx) = format.rtx_payload_type {
        write!(out, "a=rtpmap:{rtx} rtx/{clock_rate}\r\na=fmtp:{rtx} apt={payload_type}\r\n")?;
    }
    Ok(())
}

fn write_layers_and_sources(out: &mut String, it: &Live<'_>) -> std::fmt::Result {
    let direction = if it.direction.sends() { "send" } else { "recv" };
    for rid in it.rids {
        write!(out, "a=rid:{rid} {direction}\r\n")?;
    }
    if !it.rids.is_empty() {
        write!(out, "a=simulcast:{direction} {}\r\n", it.rids.join(";"))?;
    }
    if !it.direction.sends() {
        return Ok(());
    }
    let (stream, track) = (it.stream_id, it.mid);
    write!(out, "a=msid:{stream} {stream}-{}-{track}\r\n", it.name)?;
    let pairs = it.sources.iter().filter_map(|source| Some((source.ssrc, source.rtx_ssrc?)));
    for (ssrc, rtx) in pairs {
        write!(out, "a=ssrc-group:FID {ssrc} {rtx}\r\n")?;
    }
    let fec_ssrc = it.fec.and_then(|(_, ssrc)| ssrc);
    if let (Some(source), Some(fec)) = (it.sources.first(), fec_ssrc) {
        write!(out, "a=ssrc-group:FEC-FR {} {fec}\r\n", source.ssrc)?;
    }
    let ssrcs = it.sources.iter().flat_map(|source| [Some(source.ssrc), source.rtx_ssrc]);
    for ssrc in ssrcs.chain([fec_ssrc]).flatten() {
        write!(out, "a=ssrc:{ssrc} cname:{stream}\r\n")?;
    }
    Ok(())
}

fn write_candidates(out: &mut String, transport: LocalTransport<'_>) -> std::fmt::Result {
    for candidate in transport.candidates {
        write!(out, "a={candidate}\r\n")?;
    }
    if transport.trickle { Ok(()) } else { out.write_str("a=end-of-candidates\r\n") }
}
