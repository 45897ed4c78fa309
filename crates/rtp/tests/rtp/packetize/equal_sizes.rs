//! A frame leaves in the fewest packets its limit allows, and they are of one size, the last being
//! at most that long: the run of datagrams segmentation offload takes.

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::packetize::{av1, h264, h265, vp8, vp9};

use crate::packetize::{lengths, limits, nal_units, noise, obus, packets, payloads};

/// Checks a run of sizes: equal but for the last, which is shorter by less than there are packets.
fn assert_run(sizes: &[usize], remark: &str) {
    let (last, others) = sizes.split_last().unwrap();
    let size = others.first().unwrap_or(last);
    assert!(others.iter().all(|other| other == size), "{remark}: {sizes:?}");
    assert!(last <= size && size - last < sizes.len().max(2), "{remark}: {sizes:?}");
}

fn sizes(write: impl FnOnce(&mut rtp::packetize::FrameWriter<'_>)) -> Vec<usize> {
    payloads(&packets(write)).iter().map(|payload| payload.len()).collect()
}

#[test]
fn one_slice_of_every_length() {
    for len in (3..2_000).chain((2_000..60_000).step_by(337)) {
        let limit = 1_160;
        let slice = [&[0x65][..], &noise(len - 1, 0)].concat();
        let h264 = sizes(|writer| h264::packetize([&slice[..]].into_iter(), limit, writer));
        assert_run(&h264, "H.264");
        assert_eq!(h264.len(), if len <= limit { 1 } else { (len - 1).div_ceil(limit - 2) });
        let slice = [&[0x26, 1][..], &noise(len - 2, 0)].concat();
        let h265 = sizes(|writer| h265::packetize([&slice[..]].into_iter(), limit, writer));
        assert_run(&h265, "H.265");
        assert_eq!(h265.len(), if len <= limit { 1 } else { (len - 2).div_ceil(limit - 3) });
        for (name, header, cut) in [
            ("VP8", 4, sizes(|writer| vp8::packetize(&slice, 1, limit, writer))),
            ("VP9", 3, sizes(|writer| vp9::packetize(&slice, 1, true, limit, writer))),
        ] {
            assert_run(&cut, name);
            assert_eq!(cut.len(), len.div_ceil(limit - header), "{name}, {len} bytes");
        }
        let obu = obus(&[len], &[4]);
        let av1 = sizes(|writer| assert!(av1::packetize(&[], &obu, false, limit, writer)));
        assert_run(&av1, "AV1");
        let sent = len + 1 + usize::from(len % 3 == 0);
        assert_eq!(av1.len(), sent.div_ceil(limit - 1), "AV1, {len} bytes");
    }
}

#[test]
fn sequence_header_and_frame_of_av1_share_equal_packets() {
    for len in (10..30_000).step_by(71) {
        let unit = obus(&[13, len], &[0, 4]);
        let cut = sizes(|writer| assert!(av1::packetize(&[], &unit, true, 1_160, writer)));
        assert_run(&cut, "sequence header and frame");
    }
}

proptest! {
    /// With many OBUs a length ahead of each may leave a byte or two that nothing fits into.
    #[test]
    fn many_obus(lengths in lengths(), kinds in vec(any::<u8>(), 1..8), limit in limits()) {
        let unit = obus(&lengths, &kinds);
        let cut = sizes(|writer| assert!(av1::packetize(&[], &unit, false, limit, writer)));
        let (last, others) = cut.split_last().unwrap();
        let longest = others.iter().max().unwrap_or(last);
        prop_assert!(others.iter().all(|size| longest - size <= 2), "{:?}", cut);
        prop_assert!(*last <= longest + 2, "{:?}", cut);
        // Never more packets than with a header and the longest length ahead of every element.
        let most: usize = lengths.iter().map(|len| len + 5).sum::<usize>() + 2 * lengths.len();
        prop_assert!(cut.len() <= most.div_ceil(limit - 4) + 1, "{:?} of {} bytes", cut, most);
    }

    /// Fragments of each slice are a run of their own.
    #[test]
    fn several_slices(lengths in vec(2_000..9_000usize, 1..6), limit in 64..1_300usize) {
        let units = nal_units(&lengths, &[0x61], false);
        let slab = packets(|writer| h264::packetize(units.iter().map(Vec::as_slice), limit, writer));
        let mut run = Vec::new();
        for payload in payloads(&slab) {
            run.push(payload.len());
            if payload[1] & 0x40 != 0 {
                assert_run(&std::mem::take(&mut run), "fragments of a slice");
            }
        }
        prop_assert!(run.is_empty());
    }

    /// The fewest packets: no packet and the next could have been one, unless they are fragments.
    #[test]
    fn short_units_are_put_together(lengths in vec(3..60usize, 1..40), limit in 64..300usize) {
        let units = nal_units(&lengths, &[0x07, 0x65], false);
        let slab = packets(|writer| h264::packetize(units.iter().map(Vec::as_slice), limit, writer));
        let mut packets = 1;
        let mut held = 1;
        for len in units.iter().map(|unit| unit.len() + 2) {
            if held > 1 && held + len > limit {
                (packets, held) = (packets + 1, 1);
            }
            held += len;
        }
        prop_assert_eq!(slab.len(), packets);
    }
}
