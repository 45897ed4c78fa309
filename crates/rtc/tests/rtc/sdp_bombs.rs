//! Descriptions made to cost much are refused by counting, before they are looked into.

use crate::common::offers::{sample, server};
use rtc::sdp::{
    CANDIDATES_MAX, FORMATS_MAX, LINE_BYTES_MAX, LINES_MAX, Limit, MEDIA_MAX, Policy, RIDS_MAX,
    SDP_BYTES_MAX, SOURCES_MAX, SdpError, answer_publish, parse_fragment, parse_offer,
};

fn refused(text: &str) -> Result<(), SdpError> {
    parse_offer(text).map(drop)
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|at| line(at) + "\r\n").collect()
}

#[test]
fn each_limit_has_its_refusal() {
    let base = sample("obs_publish");
    let with = |more: String| format!("{base}{more}");
    let payload_types: String = (0..=FORMATS_MAX).map(|at| format!(" {}", at % 128)).collect();
    let cases = [
        (Limit::Bytes, with("a=x\r\n".repeat(SDP_BYTES_MAX / 5 + 1))),
        (Limit::Bytes, "\u{0}".repeat(16 << 20)),
        (Limit::Lines, with("a=x\r\n".repeat(LINES_MAX))),
        (Limit::Lines, with("\n".repeat(LINES_MAX))),
        (Limit::LineBytes, with(format!("a={}\r\n", "x".repeat(LINE_BYTES_MAX)))),
        (Limit::MediaSections, with("m=video 9 UDP/TLS/RTP/SAVPF 96\r\n".repeat(MEDIA_MAX))),
        (Limit::Formats, with(format!("m=video 9 UDP/TLS/RTP/SAVPF{payload_types}\r\n"))),
        (
            Limit::Candidates,
            with(lines(CANDIDATES_MAX, |at| {
                format!("a=candidate:{at} 1 udp 1 192.0.2.1 {} typ host", at + 1)
            })),
        ),
        (Limit::Candidates, with(lines(CANDIDATES_MAX + 1, |_| "a=candidate:rubbish".to_owned()))),
        (Limit::Sources, with(lines(SOURCES_MAX + 1, |at| format!("a=ssrc:{at} cname:x")))),
        (Limit::Sources, with(lines(3 * SOURCES_MAX, |at| format!("a=ssrc-group:FID {at} {}", at + 1000)))),
        (Limit::Rids, with(lines(3 * RIDS_MAX, |at| format!("a=rid:r{at} send")))),
        (Limit::Fingerprints, with("a=fingerprint:sha-1 AA\r\n".repeat(20))),
        (Limit::Extensions, with(lines(100, |at| format!("a=extmap:{at} urn:x")))),
    ];
    for (at, (limit, text)) in cases.iter().enumerate() {
        assert_eq!(refused(text), Err(SdpError::TooMuch(*limit)), "case {at}");
    }
}

#[test]
fn the_largest_description_that_is_read_is_answered_or_refused_as_usual() {
    // As many of everything as passes the counters: what this costs is what a bomb can cost.
    let base = sample("obs_publish").to_owned();
    let mids: String = (0..MEDIA_MAX - 2).map(|at| format!(" x{at}")).collect();
    let mut text = base.replace("a=group:BUNDLE 0 1", &format!("a=group:BUNDLE 0 1{mids}"));
    for at in 0..MEDIA_MAX - 2 {
        text += &format!("m=video 9 UDP/TLS/RTP/SAVPF 96 97\r\na=mid:x{at}\r\na=rtcp-mux\r\na=sendonly\r\n");
        text += "a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n";
        text += &lines(16, |ssrc| format!("a=ssrc:{} cname:x", at * 100 + ssrc));
    }
    let room = SDP_BYTES_MAX - text.len();
    let candidate = "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n";
    text += &candidate.repeat((room / candidate.len()).min(CANDIDATES_MAX - 4));
    let offer = parse_offer(&text).expect("within every limit");
    assert_eq!(offer.media.len(), MEDIA_MAX);
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    // The audio of the original, and as many of the videos as there may be.
    assert_eq!(answer.tracks.len(), 1 + Policy::publish().tracks_per_kind_max);
    assert!(answer.remote.candidates.len() <= CANDIDATES_MAX);
}

#[test]
fn fragments_have_limits_of_their_own() {
    let cases = [
        (Limit::Bytes, "a=x\r\n".repeat(1 << 17)),
        (Limit::Lines, "\n".repeat(LINES_MAX + 1)),
        (Limit::LineBytes, format!("a={}", "x".repeat(LINE_BYTES_MAX))),
        (Limit::Candidates, "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n".repeat(CANDIDATES_MAX + 1)),
    ];
    for (limit, text) in cases {
        assert_eq!(parse_fragment(&text).map(drop), Err(SdpError::TooMuch(limit)));
    }
}

#[test]
fn characters_that_would_break_the_answers_lines_are_refused() {
    for bad in ["\r", "\u{0}", "\u{b}", "\u{1b}"] {
        let text = sample("obs_publish").replace("a=mid:1\r\n", &format!("a=mid:1{bad}a=x\r\n"));
        assert!(matches!(refused(&text), Err(SdpError::Syntax(_))), "{bad:?}");
        assert!(
            matches!(parse_fragment(&format!("a=ice-ufrag:ab{bad}cd\r\n")), Err(SdpError::Syntax(1))),
            "{bad:?}"
        );
    }
}
