//! Vectors made by hand from the tables and the syntax of the AV1 RTP specification, appendix A.

use rtp::extension::{
    DecodeTarget, DependencyError, DependencyReader, DependencyStructure, DescriptorWriteError, Layer,
    write_active_decode_targets,
};

use super::{Descriptor, Structure, l3t3, l3t3_key_shift, letters};

/// Bytes of a string of bits; spaces are left out, and zeros fill the last byte.
fn bits(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b' ').map(|digit| digit - b'0').collect();
    digits.chunks(8).map(|byte| (0..8).fold(0, |sum, at| sum << 1 | byte.get(at).unwrap_or(&0))).collect()
}

/// The structure of section A.10.2.1 (L1T3), with the first packet of frame 100.
fn first_packet() -> Vec<u8> {
    bits(
        &[
            "1 0 000000 0000000001100100",           // start, not end, template 0, frame 100
            "1 0 0 0 0",                             // structure, nothing else
            "000000 00010",                          // offset 0, three decode targets
            "00 01 01 00 11",                        // T0 T0 T1 T2 T2, the last
            "101010 101010 100100 010000 010000",    // SSS SSS SD- D-- D--
            "0 1 0011 0 1 0001 0 1 0000 0 1 0000 0", // none, 4, 2, 1, 1
            "01",                                    // one chain: ns(4)
            "0000 0100 0010 0001 0011",              // protects all: ns(1) has no bits; 0 4 2 1 3
            "1 0000010011111111 0000001011001111",   // at most 1280x720
        ]
        .concat(),
    )
}

#[test]
fn l1t3_of_section_a_10_2_1_is_read_as_its_table_has_it() {
    let mut reader = DependencyReader::new();
    assert_eq!(reader.read(&[0x80, 0, 100]), Err(DependencyError::UnknownTemplate), "no structure yet");
    let frame = reader.read(&first_packet()).unwrap();
    assert_eq!((frame.layer, letters(&frame)), (Layer { spatial: 0, temporal: 0 }, "SSS".to_string()));
    assert_eq!(frame.referred_frames().len(), 0);
    assert!(frame.previous_in_chains().eq([None]));
    let structure = reader.structure();
    let layers: Vec<_> =
        structure.decode_targets().map(|target| structure.layer_of(target).unwrap()).collect();
    assert_eq!(layers, [2, 1, 0].map(|temporal| Layer { spatial: 0, temporal }), "30, 15 and 7.5 fps");
    assert!(structure.decode_targets().all(|target| structure.chain_of(target) == Some(0)));
    assert_eq!(structure.resolution_of(0), Some((1280, 720)));
    assert_eq!(structure.resolution_of(1), None);
    assert_eq!(reader.active_decode_targets(), 0b111, "all, unless it says otherwise (section A.4)");

    // The frames behind it: template, number, layer, indications, reference, chain.
    for (template, number, temporal, indications, reference, previous) in [
        (3, 101, 2, "D--", 100, 100),
        (2, 102, 1, "SD-", 100, 100),
        (4, 103, 2, "D--", 102, 100),
        (1, 104, 0, "SSS", 100, 100),
    ] {
        let frame = reader.read(&[0xc0 | template, 0, number]).unwrap();
        assert_eq!((frame.layer.temporal, letters(&frame).as_str()), (temporal, indications));
        assert!(frame.referred_frames().eq([reference]), "frame {number}");
        assert!(frame.previous_in_chains().eq([Some(previous)]), "frame {number}");
    }
    assert_eq!(reader.read(&[0xc5, 0, 105]), Err(DependencyError::UnknownTemplate), "a sixth template");
}

/// Section A.8.2, the fields behind the flags: those that a packet has stand for the template's.
#[test]
fn custom_fields_stand_for_those_of_the_template() {
    let mut reader = DependencyReader::new();
    reader.read(&first_packet()).unwrap();
    let packet = bits(
        &[
            "1 1 000001 0000000000000010", // start and end, template 1, frame 2
            "0 1 1 1 1",                   // all but a structure
            "011",                         // decode target 2 is not active
            "11 01 00",                    // RD-
            "01 0011",                     // 4 back
            "10 00010000",                 // 17 back
            "11 111111111111",             // 4096 back
            "00",                          // no more
            "11111111",                    // 255 back in the chain
        ]
        .concat(),
    );
    let frame = reader.read(&packet).unwrap();
    assert_eq!((frame.layer.temporal, letters(&frame).as_str()), (0, "RD-"));
    assert_eq!(frame.active_decode_targets, Some(0b011));
    assert!(frame.referred_frames().eq([65_534, 65_521, 61_442]), "they wrap");
    assert!(frame.previous_in_chains().eq([Some(65_283)]));
    assert_eq!(reader.active_decode_targets(), 0b011);
    reader.read(&[0xc1, 0, 3]).unwrap();
    assert_eq!(reader.active_decode_targets(), 0b011, "until the next update (section A.4)");
    for len in 4..packet.len() {
        assert_eq!(reader.read(&packet[..len]), Err(DependencyError::CutOff), "{len} bytes");
    }
}

#[test]
fn a_structure_that_is_cut_off_or_too_large_leaves_the_old_one() {
    let mut reader = DependencyReader::new();
    let packet = first_packet();
    reader.read(&packet).unwrap();
    let before = reader.structure().clone();
    for len in 0..packet.len() {
        let expected = if len == 3 { None } else { Some(DependencyError::CutOff) };
        assert_eq!(reader.read(&packet[..len]).err(), expected, "{len} bytes");
    }
    let head = "1 0 000000 0000000001100100 1 0 0 0 0 000000 00000";
    for (layers, remark) in [
        ("00".repeat(64) + "11", "65 templates"),
        ("01".repeat(8) + "11", "nine temporal layers"),
        ("10".repeat(8) + "11", "nine spatial layers"),
        ("11 00 ".to_string() + &"1 0000 ".repeat(17) + "0", "17 references"),
    ] {
        let packet = bits(&[head, &layers, &"0".repeat(800)].concat());
        assert_eq!(reader.read(&packet), Err(DependencyError::TooMany), "{remark}");
    }
    assert_eq!(*reader.structure(), before);
    let most = bits(&[head, &"00".repeat(63), "11", &"0".repeat(800)].concat());
    assert!(reader.read(&most).is_ok(), "64 templates");
}

fn structure_of(structure: &Structure) -> DependencyStructure {
    let descriptor = Descriptor { start: true, has_structure: true, ..Descriptor::default() };
    let mut reader = DependencyReader::new();
    reader.read(&descriptor.write(structure)).unwrap();
    reader.structure().clone()
}

#[test]
fn the_best_decode_target_is_within_the_limits_and_active() {
    let structure = structure_of(&l3t3());
    let all = structure.all_decode_targets();
    assert_eq!(all, 0x1ff);
    for (spatial, temporal, active, expected, remark) in [
        (2, 2, all, Some(0), "HD 30 fps"),
        (7, 7, all, Some(0), "no limit"),
        (1, 1, all, Some(4), "VGA 15 fps"),
        (0, 0, all, Some(8), "QVGA 7.5 fps"),
        (2, 2, all & !1, Some(1), "HD 30 fps is not produced"),
        (2, 2, 0x1c0, Some(6), "nothing but QVGA is"),
        (0, 0, 1, None, "nothing within the limits is"),
    ] {
        let best = structure.best_within(Layer { spatial, temporal }, active);
        assert_eq!(best, expected.map(DecodeTarget), "{remark}");
    }
}

#[test]
fn contained_decode_targets_are_those_whose_frames_are_all_there() {
    let (full, key) = (structure_of(&l3t3()), structure_of(&l3t3_key_shift()));
    for (structure, target, expected, remark) in [
        (&full, 0, 0b1_1111_1111, "full SVC, HD 30 fps has all"),
        (&full, 1, 0b1_1011_0110, "full SVC, HD 15 fps"),
        (&full, 3, 0b1_1111_1000, "full SVC, VGA 30 fps"),
        (&full, 8, 0b1_0000_0000, "full SVC, QVGA 7.5 fps"),
        (&key, 0, 0b0_0000_0111, "K-SVC, HD has no frames of VGA between key frames"),
        (&key, 4, 0b0_0011_0000, "K-SVC, VGA 15 fps"),
    ] {
        assert_eq!(structure.contained_in(DecodeTarget(target)), expected, "{remark}");
    }
}

#[test]
fn another_mask_is_written_and_all_else_is_kept() {
    let mut out = [0xee; 64];
    let mut write = |data: &[u8], count, active| {
        write_active_decode_targets(data, count, active, &mut out).map(|len| out[..len].to_vec())
    };
    assert_eq!(write(&[0xc3, 0, 101], 3, 0b101), Ok(bits("11000011 00000000 01100101 0 1 0 0 0 101")));
    assert_eq!(write(&[0xc3, 0, 101], 9, 0b101), Ok(bits("11000011 00000000 01100101 01000 000000101")));
    // Custom references stay behind another mask, and behind one that is put in; the padding of the
    // last byte stays too, though it takes a byte of its own there.
    let head = "11000011 00000000 01100101";
    let with = bits(&[head, "0 1 0 1 0 111 01 0011 00"].concat());
    let without = bits(&[head, "0 0 0 1 0 01 0011 00"].concat());
    let expected = bits(&[head, "0 1 0 1 0 001 01 0011 00"].concat());
    assert_eq!(write(&with, 3, 1), Ok(expected.clone()));
    assert_eq!(write(&without, 3, 1), Ok([&expected[..], &[0]].concat()));
    // A structure says itself how many decode targets it has.
    let written = write(&first_packet(), 0, 0b010).unwrap();
    let (mut before, mut after) = (DependencyReader::new(), DependencyReader::new());
    before.read(&first_packet()).unwrap();
    assert_eq!(after.read(&written).unwrap().active_decode_targets, Some(0b010));
    assert_eq!(after.structure(), before.structure());
    assert_eq!(written.len(), first_packet().len() + 1);

    assert_eq!(write(&[0xc3, 0], 3, 1), Err(DescriptorWriteError::Malformed), "cut off");
    assert_eq!(write(&[0xc3, 0, 101], 0, 1), Err(DescriptorWriteError::Malformed), "no decode targets");
    assert_eq!(write(&[0xc3, 0, 101], 33, 1), Err(DescriptorWriteError::Malformed), "too many");
    for room in 0..4 {
        let written = write_active_decode_targets(&[0xc3, 0, 101], 3, 1, &mut out[..room]);
        assert_eq!(written, Err(DescriptorWriteError::NoRoom), "{room} bytes of room");
    }
}
