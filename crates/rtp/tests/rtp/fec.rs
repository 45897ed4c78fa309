//! Any packet that is lost alone in its row comes back byte for byte, whatever it is, and repair
//! packets of another implementation are understood.

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::fec::{
    GROUP_NUMBERS_MAX, Generator, PROTECTED_LEN_MAX, ProtectError, ROWS_MAX, Recoverer, Repair, RepairError,
};

const SSRC: u32 = 0x1234_5678;

/// A packet: header and what is behind it.
#[derive(Clone, Debug)]
struct Media {
    header: Vec<u8>,
    payload: Vec<u8>,
}

impl Media {
    fn bytes(&self) -> Vec<u8> {
        [&self.header[..], &self.payload].concat()
    }

    fn sequence_number(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }
}

/// A packet with this many CSRCs, words of extension and bytes of padding.
fn media(
    number: u16,
    timestamp: u32,
    second: u8,
    csrcs: u8,
    words: Option<u8>,
    mut payload: Vec<u8>,
    padding: u8,
) -> Media {
    let mut header = vec![0x80 | csrcs, second];
    header.extend(number.to_be_bytes());
    header.extend(timestamp.to_be_bytes());
    header.extend(SSRC.to_be_bytes());
    header.extend((0..csrcs).flat_map(|csrc| [csrc; 4]));
    if let Some(words) = words {
        header[0] |= 0x10;
        header.extend([0xbe, 0xde, 0, words]);
        header.extend((0..words).flat_map(|word| [0x12, word, 7, number as u8]));
    }
    if padding > 0 {
        header[0] |= 0x20;
        payload.extend(std::iter::repeat_n(0, usize::from(padding) - 1));
        payload.push(padding);
    }
    Media { header, payload }
}

/// Packets of a group with gaps between their numbers.
fn group() -> impl Strategy<Value = Vec<Media>> {
    let packet = (
        1..3u16,
        any::<u32>(),
        any::<u8>(),
        0..3u8,
        proptest::option::of(0..5u8),
        vec(any::<u8>(), 0..60),
        0..4u8,
    );
    (any::<u16>(), vec(packet, 1..23)).prop_map(|(first, packets)| {
        let mut number = first;
        let next = |(step, timestamp, second, csrcs, words, payload, padding)| {
            number = number.wrapping_add(step);
            media(number, timestamp, second, csrcs, words, payload, padding)
        };
        packets.into_iter().map(next).collect()
    })
}

/// The repair packets of a group.
fn repairs(generator: &mut Generator, rows: usize, packets: &[Media]) -> Vec<Vec<u8>> {
    generator.begin(rows);
    for packet in packets {
        generator.add(&packet.header, &packet.payload).expect("it fits");
    }
    let write = |row| {
        let mut out = [0xa5; 1500];
        let len = generator.write(row, &mut out).expect("there is room");
        assert_eq!(generator.write(row, &mut out[..len - 1]), None);
        out[..len].to_vec()
    };
    (0..generator.rows()).map(write).collect()
}

/// What comes out of the packets that are not `lost` and these repair packets.
fn recovered(packets: &[Media], lost: impl Fn(usize) -> bool, repairs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut recoverer = Recoverer::new(SSRC, [0; 2]);
    for (at, packet) in packets.iter().enumerate() {
        if !lost(at) {
            recoverer.handle_packet(&packet.bytes());
        }
    }
    repairs.iter().for_each(|repair| recoverer.handle_repair(repair).expect("readable"));
    std::iter::from_fn(|| recoverer.poll_recovered()).collect()
}

proptest! {
    #[test]
    fn any_one_packet_comes_back(packets in group(), before in group(), rows in 1..=ROWS_MAX) {
        let mut generator = Generator::new(ROWS_MAX, [0; 2]);
        // What an earlier group left behind is of no weight.
        repairs(&mut generator, ROWS_MAX, &before);
        let repairs = repairs(&mut generator, rows, &packets);
        prop_assert_eq!(repairs.len(), rows.min(packets.len()));
        for (lost, packet) in packets.iter().enumerate() {
            prop_assert_eq!(recovered(&packets, |at| at == lost, &repairs), [packet.bytes()], "packet {}", lost);
        }
        prop_assert!(recovered(&packets, |_| false, &repairs).is_empty(), "nothing is lost");
    }

    #[test]
    fn bursts_as_long_as_there_are_rows_come_back(packets in group(), rows in 1..=ROWS_MAX) {
        let repairs = repairs(&mut Generator::new(rows, [0; 2]), rows, &packets);
        for first in 0..packets.len() {
            let is_lost = |at: usize| (first..first + rows).contains(&at);
            let mut found = recovered(&packets, is_lost, &repairs);
            found.sort_by_key(|packet| u16::from_be_bytes([packet[2], packet[3]]).wrapping_sub(packets[0].sequence_number()));
            let expected: Vec<_> = packets.iter().skip(first).take(rows).map(Media::bytes).collect();
            prop_assert_eq!(found, expected, "from {}", first);
        }
        if packets.len() > rows {
            // Two of one row.
            prop_assert!(recovered(&packets, |at| at == 0 || at == rows, &repairs).is_empty());
        }
    }

    #[test]
    fn whatever_arrives_makes_rtp_packets_or_nothing(
        packets in vec(vec(any::<u8>(), 0..40), 0..8), repairs in vec(vec(any::<u8>(), 0..60), 0..8),
    ) {
        let mut recoverer = Recoverer::new(SSRC, [3, 4]);
        for packet in packets {
            let mut packet = packet;
            if packet.len() >= 12 {
                packet[0] = 0x80 | packet[0] & 0x3f;
                packet[2] = 0;
                packet[8..12].copy_from_slice(&SSRC.to_be_bytes());
            }
            recoverer.handle_packet(&packet);
        }
        for mut repair in repairs {
            if repair.len() >= 20 {
                repair[0] &= 0x3f;
                (repair[8], repair[16]) = (1, 0);
                repair[12..16].copy_from_slice(&SSRC.to_be_bytes());
            }
            let _ = recoverer.handle_repair(&repair);
            while let Some(packet) = recoverer.poll_recovered() {
                prop_assert!(rtp::Packet::parse(&packet).is_ok());
            }
        }
    }
}

#[test]
fn a_group_reaches_over_as_many_numbers_as_two_masks_have() {
    let packets: Vec<_> = (0..GROUP_NUMBERS_MAX)
        .map(|at| media(at.wrapping_sub(3), 0, 96, 0, None, vec![at as u8; 3], 0))
        .collect();
    let mut generator = Generator::new(1, [0; 2]);
    let repairs = repairs(&mut generator, 1, &packets);
    let numbers: Vec<_> = Repair::parse(&repairs[0]).expect("readable").sequence_numbers().collect();
    assert_eq!(numbers, packets.iter().map(Media::sequence_number).collect::<Vec<_>>());
    let far = media(GROUP_NUMBERS_MAX - 3, 0, 96, 0, None, Vec::new(), 0);
    assert_eq!(generator.add(&far.header, &far.payload), Err(ProtectError::TooFar));
    assert_eq!(generator.packets(), usize::from(GROUP_NUMBERS_MAX));
    // One mask is enough for the first 15.
    assert_eq!(repair_len(&mut generator, &packets[..15]) + 4, repair_len(&mut generator, &packets[..16]));
}

fn repair_len(generator: &mut Generator, packets: &[Media]) -> usize {
    repairs(generator, 1, packets)[0].len()
}

#[test]
fn what_does_not_fit_a_group_leaves_it_as_it_was() {
    let first = media(0xffff, 1, 96, 0, None, vec![1; 30], 0);
    let mut generator = Generator::new(2, [0; 2]);
    let expected = repairs(&mut generator, 2, std::slice::from_ref(&first));
    let mut other = media(0, 1, 96, 0, None, vec![1; 30], 0);
    other.header[8] ^= 1;
    let long = media(0, 1, 96, 0, None, vec![1; PROTECTED_LEN_MAX - 11], 0);
    let same = first.clone();
    let older = media(0xfffe, 1, 96, 0, None, vec![1; 30], 0);
    let short = Media { header: vec![0x80; 11], payload: vec![0; 30] };
    for (packet, error) in [
        (other, ProtectError::OtherStream),
        (long, ProtectError::TooLong),
        (same, ProtectError::NotNewer),
        (older, ProtectError::NotNewer),
        (short, ProtectError::TooShort),
    ] {
        assert_eq!(generator.add(&packet.header, &packet.payload), Err(error));
        let mut out = [0; 1500];
        let len = generator.write(0, &mut out).expect("a row");
        assert_eq!((generator.packets(), generator.rows()), (1, 1));
        assert_eq!(out[..len], expected[0]);
    }
    let longest = media(0, 1, 96, 0, None, vec![1; PROTECTED_LEN_MAX - 12], 0);
    assert_eq!(generator.add(&longest.header, &longest.payload), Ok(()));
}

#[test]
fn values_filled_in_when_a_packet_leaves_come_back_as_zeros() {
    let packet = |number: u16, cc: [u8; 2], payload: &[u8]| {
        let mut packet = media(number, 5, 96, 0, None, payload.to_vec(), 0);
        packet.header[0] |= 0x10;
        packet.header.extend([0xbe, 0xde, 0, 2, 0x10, b'v', 0x31, cc[0], cc[1], 0x20, 9, 0]);
        packet
    };
    // Parity is made before the numbers are there, or with others than are received.
    let mut generator = Generator::new(1, [3, 0]);
    let made = [packet(1, [0, 0], b"one"), packet(2, [7, 7], b"second"), packet(3, [0, 9], b"3")];
    let sent = [packet(1, [1, 2], b"one"), packet(2, [3, 4], b"second"), packet(3, [5, 6], b"3")];
    let repairs = repairs(&mut generator, 1, &made);
    for lost in 0..3 {
        let mut recoverer = Recoverer::new(SSRC, [3, 0]);
        for (at, packet) in sent.iter().enumerate().filter(|(at, _)| *at != lost) {
            assert!(at < 3);
            recoverer.handle_packet(&packet.bytes());
        }
        recoverer.handle_repair(&repairs[0]).expect("readable");
        let payload = [&b"one"[..], b"second", b"3"][lost];
        assert_eq!(recoverer.poll_recovered(), Some(packet(lost as u16 + 1, [0, 0], payload).bytes()));
    }
}

#[test]
fn a_repair_packet_that_came_first_waits() {
    let packets: Vec<_> = (0..4).map(|at| media(at, 0, 96, 0, None, vec![at as u8; 9], 0)).collect();
    let repairs = repairs(&mut Generator::new(1, [0; 2]), 1, &packets);
    let mut recoverer = Recoverer::new(SSRC, [0; 2]);
    recoverer.handle_repair(&repairs[0]).expect("readable");
    for packet in [&packets[0], &packets[3]] {
        recoverer.handle_packet(&packet.bytes());
        assert_eq!(recoverer.poll_recovered(), None);
    }
    recoverer.handle_packet(&packets[1].bytes());
    assert_eq!(recoverer.poll_recovered(), Some(packets[2].bytes()));
    assert_eq!(recoverer.poll_recovered(), None);
    let mut other = repairs[0].clone();
    other[12] ^= 1;
    assert_eq!(recoverer.handle_repair(&other), Err(RepairError::Unsupported));
}

#[test]
fn repair_packets_are_those_of_pion() {
    // Made by FlexEncoder03 of github.com/pion/interceptor 0.1.42, two for the first 5 packets and
    // two for all 18.
    let cases: [(usize, &[&str]); 2] = [
        (
            5,
            &[
                "00e00007000039900100000012345678fffad4006706066565",
                "1080000e000028900100000012345678fffaa800daba6465310102006262",
            ],
        ),
        (
            18,
            &[
                "00e000040000c4000100000012345678fffa5555a0000000717b6d630a",
                "10e1000d000059380100000012345678fffa2aaad0000000aebe0c6531110200721476046a",
            ],
        ),
    ];
    let packet = |at: u16| {
        let second = if at.is_multiple_of(3) { 0x80 } else { 0 } | (96 + at % 2) as u8;
        let payload = vec![b'a' + at as u8; usize::from(at % 5) + 1];
        let mut packet = media(at.wrapping_sub(6), 3_000 * u32::from(at), second, 0, None, payload, 0);
        if at % 4 == 1 {
            packet.header[0] |= 0x10;
            packet.header.extend([0xbe, 0xde, 0, 1, 0x31, at as u8, 2, 0]);
        }
        packet
    };
    for (count, theirs) in cases {
        let packets: Vec<_> = (0..count as u16).map(packet).collect();
        let theirs: Vec<Vec<u8>> = theirs.iter().map(|hex| bytes(hex)).collect();
        assert_eq!(repairs(&mut Generator::new(2, [0; 2]), 2, &packets), theirs, "{count} packets");
        for (lost, packet) in packets.iter().enumerate() {
            assert_eq!(recovered(&packets, |at| at == lost, &theirs), [packet.bytes()], "{lost} of {count}");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}
