//! What the fuzz target of `sfu` checks: whatever another node says of the encodings of a stream, layers that
//! can be chosen stay few, the choice is one of them, and true reports are taken in again.
//!
//! `crates/sfu/tests/sfu/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::time::{Duration, Instant};

use rtp::extension::{ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::NtpTime;
use sfu::{
    LAYERS_MAX, Limits, Pacer, PacerInput, PacketStream, RelayedTrack, TrackIndex, TrackPayload, ViewerInput,
    ViewerPayload, ViewerTrackInput, WallClock,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("encodings_report", encodings_report)];

/// RTCP of another node that has the keys and says what it likes. The input is a program: steps of a
/// head, a length, and as many bytes. The lower bits of the head say what these are, the others how
/// much time passes.
pub fn encodings_report(data: &[u8]) {
    let mut input = data;
    let mut now = begin();
    let mut stream = PacketStream::new(Limits::default(), WallClock { at: now, ntp: NtpTime(1 << 63) });
    let video = TrackIndex::new(MediaKind::Video, 0).expect("there is one");
    let payload =
        TrackPayload { payload_type: 96, codec: Codec::H264, clock_rate: 90_000, rtx: None, red: None };
    let track = RelayedTrack {
        kind: MediaKind::Video,
        payloads: vec![payload],
        encodings: 3,
        rids: ["q", "h", "f"].map(str::to_owned).to_vec(),
    };
    stream.relayed_publisher_started(now, 1, [track]);
    let id = stream.join(now, &viewer(video)).expect("room");
    let most_bits_per_second = 50_000_000;
    let pacer = PacerInput {
        reports_packets: true,
        reports_streams: false,
        start_bits_per_second: 1_000_000,
        most_bits_per_second,
    };
    let mut pacer = Pacer::new(now, pacer);
    let mut own = 0_u16;
    while let [head, len, rest @ ..] = input {
        let (bytes, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        input = rest;
        let mut rtcp = Vec::new();
        match head & 3 {
            // As it is.
            0 => rtcp.extend_from_slice(bytes),
            // A report with this body behind its name.
            1 | 2 => {
                rtcp.extend_from_slice(&[0x81, 204, 0, 0, 0, 0, 0, 0]);
                rtcp.extend_from_slice(b"MSly");
                rtcp.extend_from_slice(bytes);
                rtcp.resize(rtcp.len().next_multiple_of(4), 0);
                let words = (rtcp.len() / 4 - 1) as u16;
                rtcp[2..4].copy_from_slice(&words.to_be_bytes());
            }
            // What this node would say itself.
            _ => {
                own = own.wrapping_add(1);
                stream.write_encodings_report(now, video, own, &mut rtcp);
                let before = stream.layers(now, video);
                let events = stream.receive_rtcp(now, &rtcp);
                assert!(!events.is_malformed, "{rtcp:?}");
                assert_eq!(stream.layers(now, video).len(), before.len());
            }
        }
        let _ = stream.receive_rtcp(now, &rtcp);
        stream.adapt(now, id, &mut pacer);
        let layers = stream.layers(now, video);
        assert!(layers.len() <= LAYERS_MAX * 16, "{}", layers.len());
        let (_, wanted) = stream.layer_of(id, video).expect("it takes video");
        assert!(
            wanted == sfu::Layer::BEST || wanted.encoding.is_some_and(|encoding| encoding < 3),
            "{wanted:?}"
        );
        let mut polls = 0;
        while let Some((track, arriving)) = stream.poll_encodings_wanted(now, true, |_| false) {
            stream.set_arriving(now, track, arriving);
            assert!(arriving.iter().all(|encoding| encoding < 3), "{arriving:?}");
            polls += 1;
            assert!(polls < 8, "it never knows what it wants");
        }
        while stream.poll_key_frame_request(now).is_some() {
            polls += 1;
            assert!(polls < 64, "requests without end");
        }
        now += Duration::from_millis(u64::from(head & 0xfc));
    }
}

#[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
fn begin() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

fn viewer(video: TrackIndex) -> ViewerInput {
    ViewerInput {
        token: 1,
        cname: "v".to_owned(),
        tracks: vec![ViewerTrackInput {
            track: video,
            ssrc: 7,
            rtx_ssrc: None,
            mid: String::new(),
            payloads: vec![ViewerPayload { codec: Codec::H264, payload_type: 100, rtx: None, red: None }],
            extensions: ExtensionMap::new(),
            form: Form::Either,
            fec: None,
            nack: true,
        }],
    }
}
