//! Whatever part of an offer arrives, and however it is damaged, it is answered or refused.

use crate::common::offers::{SAMPLES, server};
use proptest::prelude::*;
use rtc::sdp::{Policy, TrackDescription, answer_play, answer_publish, parse_fragment, parse_offer};

/// Runs all parsers on a text and checks the results.
fn try_all(text: &str, stream: &[TrackDescription]) {
    if let Ok(fragment) = parse_fragment(text) {
        assert_eq!(parse_fragment(&fragment.to_string()).map(|it| it.candidates), Ok(fragment.candidates));
    }
    let Ok(offer) = parse_offer(text) else { return };
    let answers = [
        answer_publish(&offer, &server(), &Policy::publish()),
        answer_play(&offer, &server(), &Policy::play(), stream),
    ];
    for answer in answers.into_iter().flatten() {
        let read = sdp_types::Session::parse(answer.sdp.as_bytes()).expect("an answer is well-formed");
        assert_eq!(read.medias.len(), offer.media.len(), "each description is answered");
        assert!(answer.sdp.contains("a=fingerprint:sha-256 "));
        assert!(!answer.remote.fingerprints.is_empty() && !answer.tracks.is_empty());
        assert!(answer.tracks.iter().all(|track| !track.formats.is_empty()));
    }
}

fn stream() -> Vec<TrackDescription> {
    let offer = parse_offer(crate::common::offers::sample("chromium_publish")).expect("readable");
    answer_publish(&offer, &server(), &Policy::publish()).expect("answered").tracks
}

#[test]
fn prefixes_of_every_sample_are_answered_or_refused() {
    let stream = stream();
    for sample in SAMPLES.iter() {
        let text = &sample.text;
        assert!(parse_offer(text).is_ok(), "{}", sample.name);
        // Lines end by CR LF or LF.
        assert!(parse_offer(&text.replace("\r\n", "\n")).is_ok(), "{}", sample.name);
        // Each end of the short ones, every eleventh of the long ones, which repeat themselves.
        let step = if text.len() < 1800 { 1 } else { 11 };
        for end in (0..text.len()).step_by(step) {
            try_all(&text[..end], &stream);
        }
    }
}

#[test]
fn every_sample_without_any_one_of_its_lines_is_answered_or_refused() {
    let stream = stream();
    for sample in SAMPLES.iter() {
        let lines: Vec<&str> = sample.text.split_inclusive('\n').collect();
        for missing in 0..lines.len() {
            let rest: String =
                lines.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, it)| *it).collect();
            try_all(&rest, &stream);
            let twice: String = lines
                .iter()
                .enumerate()
                .map(|(at, it)| if at == missing { it.repeat(2) } else { (*it).to_owned() })
                .collect();
            try_all(&twice, &stream);
        }
    }
}

proptest! {
    #[test]
    fn damaged_samples_are_answered_or_refused(
        which in 0..17_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = SAMPLES[which % SAMPLES.len()].text.clone().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        try_all(&String::from_utf8_lossy(&bytes), &stream());
    }
}
