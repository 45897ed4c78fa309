//! What the fuzz target of `rtp::packetize` checks: frames of any bytes are cut into packets no
//! longer than allowed, and put together again as they were.
//!
//! ```text
//!  codec 8 | limit 16 | frame; for H.264 and H.265: | size 8 | unit | size 8 | unit ...
//! ```
//! `crates/rtp/tests/rtp/packetize_fuzz_corpus.rs` includes this file and replays the kept corpus.

use rtp::depacketize::Depacketizer;
use rtp::packetize::{FrameWriter, PAYLOAD_BYTES_MIN, PacketSlab, Sender, audio, av1, h264, h265, vp8, vp9};
use rtp::payload::Codec;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("packetize", packetize)];

/// A frame of a codec.
pub fn packetize(data: &[u8]) {
    let Some((&[codec, high, low], frame)) = data.split_first_chunk() else { return };
    let limit = usize::from(u16::from_be_bytes([high, low]));
    match codec % 6 {
        0 | 1 => units(codec % 6 == 1, frame, limit),
        2 => obus(frame, limit),
        3 => whole(Codec::Vp8, frame, limit, |writer| vp8::packetize(frame, 0x1234, limit, writer)),
        4 => {
            let is_key = vp9::is_key_frame(frame);
            assert_eq!(is_key.is_some(), vp9::profile(frame).is_some());
            cut(limit, |writer| vp9::packetize(frame, 0x1234, is_key == Some(true), limit, writer));
        }
        _ => {
            let slab = cut(limit, |writer| {
                let is_sent = audio::whole(frame, limit, writer);
                assert_eq!(is_sent, !frame.is_empty() && frame.len() <= limit.max(PAYLOAD_BYTES_MIN));
            });
            assert!(slab.len() <= 1);
            assert_eq!(audio::g711_pieces(frame).collect::<Vec<_>>().concat(), frame);
        }
    }
}

/// Packets of a frame, none of them longer than allowed.
fn cut(limit: usize, write: impl FnOnce(&mut FrameWriter<'_>)) -> PacketSlab {
    let mut slab = PacketSlab::default();
    let mut sender = Sender::new(7, 65_535);
    let mut writer = sender.frame(96, 1, &mut slab);
    write(&mut writer);
    assert_eq!(writer.end_frame(true), slab.len());
    let last = slab.len().saturating_sub(1);
    for (index, (fields, payload)) in slab.iter().enumerate() {
        assert!((1..=limit.max(PAYLOAD_BYTES_MIN)).contains(&payload.len()));
        assert_eq!(fields.marker, index == last);
    }
    slab
}

/// What the packets hold; `None` if there are none.
fn put_together(codec: Codec, slab: &PacketSlab) -> Option<Vec<u8>> {
    let mut depacketizer = Depacketizer::new(codec);
    for (_, payload) in slab.iter() {
        depacketizer.push(payload).expect("a payload of ours");
    }
    depacketizer.finish().ok().map(|frame| frame.to_vec())
}

fn whole(codec: Codec, frame: &[u8], limit: usize, write: impl FnOnce(&mut FrameWriter<'_>)) {
    let slab = cut(limit, write);
    assert_eq!(put_together(codec, &slab).unwrap_or_default(), frame);
}

fn units(is_h265: bool, frame: &[u8], limit: usize) {
    let mut units = Vec::new();
    let mut rest = frame;
    while let Some((size, behind)) = rest.split_first() {
        let (unit, behind) = behind.split_at(behind.len().min(usize::from(*size)));
        units.push(unit);
        rest = behind;
    }
    let is_unit = |unit: &&&[u8]| match **unit {
        [first, second, ..] if is_h265 => first >> 1 < 48 && second & 7 != 0,
        [first, ..] if !is_h265 => first & 0x80 == 0 && (1..=23).contains(&(first & 0x1f)),
        _ => false,
    };
    let expected: Vec<u8> = units
        .iter()
        .filter(is_unit)
        .flat_map(|unit| [&(unit.len() as u32).to_be_bytes(), *unit].concat())
        .collect();
    let (codec, slab) = match is_h265 {
        true => (Codec::H265, cut(limit, |writer| h265::packetize(units.iter().copied(), limit, writer))),
        false => (Codec::H264, cut(limit, |writer| h264::packetize(units.iter().copied(), limit, writer))),
    };
    assert_eq!(put_together(codec, &slab).unwrap_or_default(), expected);
}

/// A temporal unit that was written once is written again as it came back.
fn obus(unit: &[u8], limit: usize) {
    let mut is_whole = false;
    let slab = cut(limit, |writer| is_whole = av1::packetize(&[], unit, true, limit, writer));
    assert_eq!(is_whole, !slab.is_empty());
    if let Some(written) = put_together(Codec::Av1, &slab) {
        let again = cut(limit, |writer| assert!(av1::packetize(&[], &written, true, limit, writer)));
        assert!(again.iter().eq(slab.iter()));
    } else {
        assert!(!is_whole);
    }
}
