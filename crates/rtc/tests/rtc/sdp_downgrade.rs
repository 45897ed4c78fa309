//! Nothing is agreed that would not be encrypted, or would need a second transport.

use crate::common::offers::{SAMPLES, sample, server};
use rtc::sdp::{Policy, SdpError, answer_publish, parse_offer};

/// `text` with every line that begins so taken out.
fn without(text: &str, start: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(start)).collect()
}

#[test]
fn offers_without_a_fingerprint_are_refused() {
    for sample in SAMPLES.iter() {
        let refused = parse_offer(&without(&sample.text, "a=fingerprint:"));
        assert_eq!(refused.map(drop), Err(SdpError::NoFingerprint), "{}", sample.name);
    }
}

#[test]
fn offers_with_broken_hashes_only_are_refused() {
    for (hash, digits) in [("sha-1", 20), ("md5", 16), ("md2", 16)] {
        let weak = format!("a=fingerprint:{hash} {}\r\n", vec!["AB"; digits].join(":"));
        for sample in SAMPLES.iter() {
            let mut text = without(&sample.text, "a=fingerprint:");
            let first = text.find("m=").expect("a media description");
            text.insert_str(first, &weak);
            assert_eq!(
                parse_offer(&text).map(drop),
                Err(SdpError::WeakFingerprint),
                "{} {hash}",
                sample.name
            );
            // Beside one that is accepted it is only ignored.
            let mut both = sample.text.clone();
            both.insert_str(first, &weak);
            assert!(
                !answer_or_none(&both).is_some_and(|answer| answer.contains(hash)),
                "{} {hash}",
                sample.name
            );
        }
    }
}

fn answer_or_none(text: &str) -> Option<String> {
    let offer = parse_offer(text).ok()?;
    answer_publish(&offer, &server(), &Policy::publish()).ok().map(|answer| answer.sdp)
}

#[test]
fn fingerprints_that_cannot_be_read_are_refused() {
    let text = sample("obs_publish");
    let line = text.lines().find(|line| line.starts_with("a=fingerprint:")).expect("a fingerprint");
    for bad in
        ["a=fingerprint:", "a=fingerprint:sha-256", "a=fingerprint:sha-256 AA:BB", &line.replace(':', "")[..]]
    {
        let refused = parse_offer(&text.replace(line, bad)).expect_err(bad);
        assert!(
            matches!(refused, SdpError::BadAttribute("fingerprint") | SdpError::NoFingerprint),
            "{bad}: {refused}"
        );
    }
}

#[test]
fn media_over_plain_rtp_are_refused_even_beside_encrypted_ones() {
    for protocol in ["RTP/AVP", "RTP/AVPF"] {
        for sample in SAMPLES.iter() {
            let all = sample.text.replace("UDP/TLS/RTP/SAVPF", protocol);
            let refused = parse_offer(&all).map(drop);
            assert_eq!(refused, Err(SdpError::PlaintextMedia), "{} {protocol}", sample.name);
            let one = sample.text.replacen("UDP/TLS/RTP/SAVPF", protocol, 1);
            let refused = parse_offer(&one).map(drop);
            assert_eq!(refused, Err(SdpError::PlaintextMedia), "{} {protocol}", sample.name);
        }
    }
}

#[test]
fn keys_in_the_offer_are_no_substitute_for_dtls() {
    let keys = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj\r\n";
    let text = without(sample("ffmpeg_publish"), "a=fingerprint:").replace("UDP/TLS/RTP/SAVPF", "RTP/SAVPF");
    let text = text.replace("a=rtcp-mux\r\n", &format!("a=rtcp-mux\r\n{keys}"));
    assert_eq!(parse_offer(&text).map(drop), Err(SdpError::NoFingerprint));
}

#[test]
fn media_that_need_more_than_one_transport_are_refused() {
    for sample in SAMPLES.iter() {
        let refused = parse_offer(&without(&sample.text, "a=rtcp-mux\r"));
        assert_eq!(refused.map(drop), Err(SdpError::NoRtcpMux), "{}", sample.name);
        if sample.name != "chromium_simulcast" {
            let refused = parse_offer(&without(&sample.text, "a=group:BUNDLE"));
            assert_eq!(refused.map(drop), Err(SdpError::NotBundled), "{}", sample.name);
        }
    }
    // One description alone has nothing to be bundled with.
    assert!(parse_offer(&without(sample("chromium_simulcast"), "a=group:BUNDLE")).is_ok());
}

#[test]
fn media_outside_of_the_bundle_are_rejected() {
    let text = sample("obs_publish").replace("a=group:BUNDLE 0 1", "a=group:BUNDLE 1");
    let offer = parse_offer(&text).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    assert!(answer.sdp.contains("m=audio 0 "), "{}", answer.sdp);
    assert!(answer.sdp.contains("a=group:BUNDLE 1\r\n"), "{}", answer.sdp);
    assert_eq!(answer.tracks.len(), 1);
}

#[test]
fn credentials_that_ice_does_not_have_are_refused() {
    let text = sample("ffmpeg_publish");
    let (ufrag, password) = ("5d1c2b3a", "6f0e1d2c3b4a59687766554433221100");
    let cases = [
        (ufrag, "abc"), // 4 to 256
        (ufrag, &"a".repeat(257)),
        (ufrag, "ab:cd"), // parts of USERNAME are separated so
        (ufrag, "ab\u{e9}cd"),
        (ufrag, ""),
        (password, "012345678901234567890"), // 22 to 256
        (password, &"a".repeat(257)),
        (password, "0123456789 01234567890123"),
    ];
    for (good, bad) in cases {
        let refused = parse_offer(&text.replace(good, bad)).map(drop);
        assert_eq!(refused, Err(SdpError::NoIceCredentials), "{bad:?}");
    }
    for line in ["a=ice-ufrag:", "a=ice-pwd:"] {
        assert_eq!(parse_offer(&without(text, line)).map(drop), Err(SdpError::NoIceCredentials), "{line}");
    }
}
