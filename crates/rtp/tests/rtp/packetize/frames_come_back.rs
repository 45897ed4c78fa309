//! What is cut into packets is put together again, byte by byte, and no payload is longer than the limit.

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::depacketize::Depacketizer;
use rtp::packetize::{PacketSlab, audio, av1, h264, h265, vp8, vp9};
use rtp::payload::{Codec, inspect, vp8::PictureId};

use crate::packetize::{lengths, limits, nal_units, noise, obus, packets, payloads};

fn put_together(codec: Codec, slab: &PacketSlab, limit: usize) -> Vec<u8> {
    let mut depacketizer = Depacketizer::new(codec);
    for payload in payloads(slab) {
        assert!(payload.len() <= limit, "{} bytes, {limit} allowed", payload.len());
        assert!(inspect(codec, payload, false).is_some(), "a payload the relay takes: {payload:x?}");
        depacketizer.push(payload).unwrap();
    }
    depacketizer.finish().unwrap().to_vec()
}

fn with_lengths(units: &[Vec<u8>]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes(), &unit[..]].concat()).collect()
}

proptest! {
    #[test]
    fn h264(lengths in lengths(), kinds in vec(any::<u8>(), 1..8), limit in limits()) {
        let units = nal_units(&lengths, &kinds, false);
        let slab = packets(|writer| h264::packetize(units.iter().map(Vec::as_slice), limit, writer));
        prop_assert_eq!(put_together(Codec::H264, &slab, limit), with_lengths(&units));
    }

    #[test]
    fn h265(lengths in lengths(), kinds in vec(any::<u8>(), 1..8), limit in limits()) {
        let units = nal_units(&lengths, &kinds, true);
        let slab = packets(|writer| h265::packetize(units.iter().map(Vec::as_slice), limit, writer));
        prop_assert_eq!(put_together(Codec::H265, &slab, limit), with_lengths(&units));
    }

    #[test]
    fn av1(lengths in lengths(), kinds in vec(any::<u8>(), 1..8), limit in limits(), ahead in 0..3usize, begins in any::<bool>()) {
        let (ahead, unit) = (obus(&lengths[..ahead.min(lengths.len())], &[0]), obus(&lengths, &kinds));
        let slab = packets(|writer| assert!(av1::packetize(&ahead, &unit, begins, limit, writer)));
        prop_assert_eq!(put_together(Codec::Av1, &slab, limit), [&ahead[..], &unit].concat());
        let begins_sequence: Vec<_> = payloads(&slab).iter().map(|payload| payload[0] & 0x08 != 0).collect();
        prop_assert!(begins_sequence.iter().enumerate().all(|(index, set)| *set == (begins && index == 0)));
    }

    #[test]
    fn vp8(len in 10..9_000usize, picture_id in any::<u16>(), limit in limits()) {
        let mut frame = noise(len, 3);
        frame[..6].copy_from_slice(&[0x10, 0, 0, 0x9d, 1, 0x2a]);
        let slab = packets(|writer| vp8::packetize(&frame, picture_id, limit, writer));
        for (index, payload) in payloads(&slab).iter().enumerate() {
            let descriptor = rtp::payload::vp8::Descriptor::parse(payload).unwrap();
            prop_assert_eq!(descriptor.picture_id, Some(PictureId::Long(picture_id & 0x7fff)));
            prop_assert_eq!((descriptor.starts_partition, descriptor.partition), (index == 0, 0));
        }
        prop_assert_eq!(put_together(Codec::Vp8, &slab, limit), frame);
    }

    #[test]
    fn vp9(len in 1..9_000usize, picture_id in any::<u16>(), is_key in any::<bool>(), limit in limits()) {
        let mut picture = noise(len, 5);
        // The last byte is no marker of a superframe, which would be taken apart.
        picture[0] = if is_key { 0x82 } else { 0x86 };
        *picture.last_mut().unwrap() &= 0x9f;
        picture[0] |= 0x80;
        let slab = packets(|writer| vp9::packetize(&picture, picture_id, is_key, limit, writer));
        let all = payloads(&slab);
        for (index, payload) in all.iter().enumerate() {
            let descriptor = rtp::payload::vp9::Descriptor::parse(payload).unwrap();
            prop_assert_eq!(descriptor.picture_id, Some(PictureId::Long(picture_id & 0x7fff)));
            prop_assert_eq!(descriptor.inter_predicted, !is_key);
            prop_assert_eq!(descriptor.starts_layer_frame, index == 0);
            prop_assert_eq!(descriptor.ends_layer_frame, index + 1 == all.len());
        }
        prop_assert_eq!(put_together(Codec::Vp9, &slab, limit), picture);
    }

    #[test]
    fn g711(len in 0..4_000usize) {
        let samples = noise(len, 0);
        let pieces: Vec<_> = audio::g711_pieces(&samples).collect();
        prop_assert_eq!(&pieces.concat(), &samples);
        prop_assert!(pieces.iter().all(|piece| (1..=160).contains(&piece.len())));
        prop_assert_eq!(pieces.len(), len.div_ceil(160));
    }
}

#[test]
fn what_cannot_be_sent_is_not_begun() {
    // Forbidden bit; a size beyond the end; a size that does not end; extension cut off; delimiters
    // only; nothing.
    for unit in [&[0x80u8, 0][..], &[0x32, 5, 1], &[0x32, 0xff, 0xff], &[0x36], &[0x12, 0], &[]] {
        let slab = packets(|writer| assert!(!av1::packetize(&[], unit, true, 1_200, writer), "{unit:x?}"));
        assert!(slab.is_empty());
    }
    let many = [0x32, 1, 7].repeat(av1::OBUS_MAX + 1);
    assert!(packets(|writer| assert!(!av1::packetize(&[], &many, true, 1_200, writer))).is_empty());
    for (packet, is_sent) in [(&[][..], false), (&[0xfc; 1_201], false), (&[0xfc; 1_200], true)] {
        let slab = packets(|writer| assert_eq!(audio::whole(packet, 1_200, writer), is_sent));
        assert_eq!(slab.len(), usize::from(is_sent));
    }
    assert!(packets(|writer| vp8::packetize(&[], 1, 1_200, writer)).is_empty());
    assert!(packets(|writer| vp9::packetize(&[], 1, true, 1_200, writer)).is_empty());
}

#[test]
fn delimiters_tile_lists_and_padding_of_av1_are_not_sent() {
    let unit = [&[0x12, 0][..], &[0x0a, 2, 7, 7], &[0x7a, 1, 0x80], &[0x42, 1, 1], &[0x32, 2, 8, 8]].concat();
    let slab = packets(|writer| assert!(av1::packetize(&[], &unit, true, 1_200, writer)));
    assert_eq!(payloads(&slab), [&[0x28, 3, 0x08, 7, 7, 0x30, 8, 8][..]], "two elements, N");
}
