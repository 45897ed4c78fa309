//! A publisher whose pictures are not sent in the order they are shown: decoding times never go back, showing
//! times are kept.

use media::{FrameRole, MediaKind};
use rtp::payload::Codec;

use crate::rtp_to_frame::{Rig, body};

#[test]
fn decoding_times_never_go_back_and_showing_times_are_kept() {
    let shown_ms = [0, 120, 40, 80, 240, 160, 200];
    let mut rig = Rig::new(Codec::H264);
    rig.video(0, &[0x67, 0x42, 0xc0, 0x1e], false);
    rig.video(0, &[0x68, 0xce], false);
    for (at, shown) in shown_ms.into_iter().enumerate() {
        let number = rig.take_number(MediaKind::Video);
        let slice: &[u8] = if at == 0 { &[0x65, 0x88] } else { &[0x41, 0x9a] };
        // They arrive as steadily as they were coded.
        rig.arrive(at as u64 * 40, MediaKind::Video, number, shown, slice, true);
    }
    let frames: Vec<_> = rig
        .frames
        .iter()
        .filter(|frame| frame.track == MediaKind::Video)
        .map(|frame| (frame.timestamp, body(frame)))
        .filter(|(_, body)| body.role != FrameRole::Config)
        .collect();
    let begin = i64::from(frames[0].0);
    let decoded: Vec<_> = frames.iter().map(|(time_ms, _)| *time_ms).collect();
    assert!(decoded.is_sorted(), "{decoded:?}");
    for ((time_ms, body), shown) in frames.iter().zip(shown_ms) {
        let got = i64::from(*time_ms) + (body.pts - body.dts).millis() - begin;
        assert!(got.abs_diff(shown as i64) <= 2, "{got} for {shown}");
    }
}
