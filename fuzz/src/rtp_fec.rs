//! What the fuzz target of `rtp::fec` checks: repair packets are read as a second reader reads
//! them, bit by bit; packets and repair packets in any order make RTP packets that had not arrived,
//! or nothing; and what [`Generator`] makes of the packets gives each of them back.
//!
//! Input: packets, each behind two bytes: length in 15 bits, and whether it is a repair packet.
//! `crates/rtp/tests/rtp/fec_fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::collections::BTreeSet;

use rtp::Packet;
use rtp::fec::{Generator, PROTECTED_LEN_MAX, ROWS_MAX, Recoverer, Repair};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("fec", fec)];

/// Packets and repair packets.
pub fn fec(data: &[u8]) {
    // What the packets have, so that repair packets are for them.
    const SSRC: u32 = 0x1234_5678;
    const VOLATILE: [u8; 2] = [3, 5];
    let mut recoverer = Recoverer::new(SSRC, VOLATILE);
    let mut arrived = BTreeSet::new();
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut rest = data;
    while let [high, low, behind @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([high & 0x7f, *low])).min(behind.len());
        let (packet, behind) = behind.split_at(len);
        rest = behind;
        let mut packet = packet.to_vec();
        if high & 0x80 != 0 {
            is_read_twice(&packet);
            if packet.len() >= 16 {
                packet[12..16].copy_from_slice(&SSRC.to_be_bytes());
            }
            let _ = recoverer.handle_repair(&packet);
        } else if packet.len() >= 12 {
            packet[0] = 0x80 | packet[0] & 0x3f;
            packet[8..12].copy_from_slice(&SSRC.to_be_bytes());
            if let Ok(parsed) = Packet::parse(&packet) {
                arrived.insert(parsed.sequence_number());
                recoverer.handle_packet(&packet);
                packets.push(packet);
            }
        }
        while let Some(made) = recoverer.poll_recovered() {
            let made = Packet::parse(&made).expect("an RTP packet");
            assert_eq!(made.ssrc(), SSRC);
            // Packets that came long ago are forgotten.
            assert!(arrived.insert(made.sequence_number()) || arrived.len() > 200, "made what has arrived");
        }
    }
    for rows in 1..=ROWS_MAX {
        each_comes_back(&packets, rows, SSRC);
    }
}

/// Makes a group of the packets that it takes, and loses one after the other.
fn each_comes_back(packets: &[Vec<u8>], rows: usize, ssrc: u32) {
    let mut generator = Generator::new(rows, [0; 2]);
    generator.begin(rows);
    let add = |packet: &&Vec<u8>| {
        let header_len = Packet::parse(packet).expect("it was parsed before").header_len();
        generator.add(&packet[..header_len], &packet[header_len..]).is_ok()
    };
    let taken: Vec<_> = packets.iter().filter(add).collect();
    assert_eq!(generator.packets(), taken.len());
    assert!(taken.iter().all(|packet| packet.len() <= PROTECTED_LEN_MAX));
    let write = |row| {
        let mut out = [0; 2 * PROTECTED_LEN_MAX];
        let len = generator.write(row, &mut out).expect("there is room");
        out[..len].to_vec()
    };
    let repairs: Vec<_> = (0..generator.rows()).map(write).collect();
    for (lost, expected) in taken.iter().enumerate() {
        let mut recoverer = Recoverer::new(ssrc, [0; 2]);
        repairs.iter().for_each(|repair| recoverer.handle_repair(repair).expect("our own"));
        let others = taken.iter().enumerate().filter(|(at, _)| *at != lost);
        others.for_each(|(_, packet)| recoverer.handle_packet(packet));
        let found: Vec<_> = std::iter::from_fn(|| recoverer.poll_recovered()).collect();
        assert!(found.len() == 1 && found[0] == **expected, "packet {lost} of {}", taken.len());
    }
}

/// The masks a second time, one bit after the other.
fn is_read_twice(payload: &[u8]) {
    let bit = |at: usize| payload[18 + at / 8] & 0x80 >> (at % 8) != 0;
    let mut numbers = Vec::new();
    let mut is_whole = false;
    let mut at = 0;
    for bits in [16, 32, 64] {
        if payload.len() * 8 < 18 * 8 + at + bits {
            break;
        }
        let first = if at == 0 { 0 } else { at - at.div_ceil(32) };
        let base = if payload.len() >= 18 { u16::from_be_bytes([payload[16], payload[17]]) } else { 0 };
        numbers
            .extend((1..bits).filter(|of| bit(at + of)).map(|of| base.wrapping_add((first + of - 1) as u16)));
        is_whole = bit(at);
        if is_whole {
            break;
        }
        at += bits;
    }
    let is_ours = payload.first().is_some_and(|first| first & 0xc0 == 0) && payload.get(8) == Some(&1);
    let is_ours = is_ours && is_whole && !numbers.is_empty();
    match Repair::parse(payload) {
        Ok(repair) => {
            assert!(is_ours, "took what is no repair packet");
            assert!(repair.sequence_numbers().eq(numbers));
            assert_eq!(repair.ssrc().to_be_bytes(), payload[12..16]);
        }
        Err(error) => assert!(!is_ours, "refused a repair packet: {error}"),
    }
}
