//! AAC whose description says one rate in its rtpmap and another in its configuration: whichever of
//! the two is true, neither audio nor video is stretched.

use std::time::Duration;

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use rtp::rtcp::NtpTime;
use rtsp::{Incoming, IncomingSettings, Outgoing, announced};

use crate::media_both_ways::{AVCC, packets, start, take};

const LENGTH_MS: i64 = 6_000;

/// Pictures every 40 ms, and AAC of 44.1 kHz.
fn film() -> Vec<Frame> {
    let frame = |track, role, codec, at: Timestamp, data: &[u8]| {
        Frame::new(track, role, codec, (at, at), data.to_vec())
    };
    let mut frames = vec![
        frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, Timestamp::ZERO, AVCC),
        frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, Timestamp::ZERO, &[0x12, 0x10]),
    ];
    for at in 0..LENGTH_MS / 40 {
        let (role, head) = if at % 25 == 0 { (FrameRole::Key, 0x65) } else { (FrameRole::Inter, 0x41) };
        let picture = [&[0, 0, 0, 40, head, 0x88, 0x84, at as u8][..], &[1; 36]].concat();
        frames.push(frame(TrackId::VIDEO, role, Codec::H264, Timestamp::from_millis(at * 40), &picture));
    }
    for at in 0..LENGTH_MS * 44_100 / 1_024_000 {
        let time = Timestamp::from_ticks(at * 1_024, 44_100);
        frames.push(frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, time, &[at as u8; 50]));
    }
    frames[2..].sort_by_key(|frame| frame.dts);
    frames
}

#[test]
fn a_false_rate_of_aac_stretches_neither_audio_nor_video() {
    type Lie = fn(&str) -> String;
    let rows: [(&str, Lie); 7] = [
        ("true", |text| text.to_owned()),
        ("an rtpmap of 8000", |text| text.replace("MPEG4-GENERIC/44100", "MPEG4-GENERIC/8000")),
        ("an rtpmap of 96000", |text| text.replace("MPEG4-GENERIC/44100", "MPEG4-GENERIC/96000")),
        ("an rtpmap of 48000", |text| text.replace("MPEG4-GENERIC/44100", "MPEG4-GENERIC/48000")),
        ("an rtpmap of 22050", |text| text.replace("MPEG4-GENERIC/44100", "MPEG4-GENERIC/22050")),
        ("a configuration of 8000", |text| text.replace("config=1210", "config=1588")),
        ("a configuration of 96000", |text| text.replace("config=1210", "config=1010")),
    ];
    for backlog_ms in [0, 600] {
        for (what, lie) in rows {
            let began = start();
            let mut outgoing = Outgoing::new([1, 2], began);
            let (mut sent, mut bytes) = (Vec::new(), Vec::new());
            for frame in film() {
                bytes.clear();
                let ms = frame.dts.millis() as u64;
                let ntp = NtpTime((1 << 60) + (ms << 32) / 1_000);
                let now = began + Duration::from_millis(ms);
                outgoing.write(now, ntp, frame.dts, &frame, &mut bytes);
                // What it has kept until then comes at once.
                sent.push((now.max(began + Duration::from_millis(backlog_ms)), packets(&bytes)));
            }
            let text = outgoing.description("cam").expect("a description");
            let changed = lie(&text);
            assert!(what == "true" || changed != text, "{text}");
            let tracks = announced(changed.as_bytes()).expect("it can be read");
            let settings = IncomingSettings { delay_max: Duration::from_millis(200) };
            let mut incoming = Incoming::new(&tracks, settings, began);
            let mut times: [Vec<i64>; 2] = Default::default();
            for (now, packets) in sent {
                take(&mut incoming, now, packets);
                incoming.poll(now);
                for frame in std::iter::from_fn(|| incoming.next_frame()) {
                    if matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio) {
                        times[usize::from(frame.track.kind == MediaKind::Audio)].push(frame.pts.millis());
                    }
                }
            }
            for (kind, times) in ["video", "audio"].iter().zip(&times) {
                let length_ms = times[times.len() - 1] - times[0];
                println!("{what}, {backlog_ms} ms at once: {kind} {} frames, {length_ms} ms", times.len());
                let expected = LENGTH_MS - 300..LENGTH_MS + 100;
                assert!(expected.contains(&length_ms), "{what}: {kind} lasts {length_ms} ms");
            }
            assert!(times[0].len() >= 145 && times[1].len() >= 230, "{what}");
            let apart_ms = times[1][times[1].len() - 1] - times[0][times[0].len() - 1];
            assert!(apart_ms.abs() <= 60, "{what}: {apart_ms} ms apart at the end");
        }
    }
}
