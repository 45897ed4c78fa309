//! Clock references that are wrong in every way, in a program whose frames have the times they should.
//!
//! A second each: as they are, a jump of ten hours, a jump back, a wrap, none at all, one that stands
//! still, and then those of a PID of their own, which a new version of the PMT names.

use mpegts::PACKET_BYTES;

/// ISO/IEC 13818-1 section 2.4.3.5: ticks of 90 kHz in 33 bits.
const BASE_MASK: i64 = (1 << 33) - 1;
const SECOND: i64 = 90_000;
/// Where the muxer has the PMT.
const PMT_PID: u16 = 0x1000;
/// One that the muxer has nothing on.
const OWN_PID: u16 = 0x1ab;

/// Changes the packets that a frame was written as; the time is that of its decoding in the film.
pub(super) fn break_pcrs(at_ms: i64, bytes: &mut Vec<u8>) {
    let phase = at_ms / 1_000;
    let mut of_own_pid = Vec::new();
    for packet in bytes.as_chunks_mut::<PACKET_BYTES>().0 {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        if pid == PMT_PID && phase >= 6 {
            name_own_pid(packet);
        }
        // An adaptation field with a PCR.
        if packet[3] & 0x20 == 0 || packet[4] < 7 || packet[5] & 0x10 == 0 {
            continue;
        }
        let base = i64::from(u32::from_be_bytes([packet[6], packet[7], packet[8], packet[9]])) << 1
            | i64::from(packet[10] >> 7);
        let changed = match phase {
            0 => Some(base),
            1 => Some(base + 36_000 * SECOND),
            2 => Some(base - 20 * SECOND),
            3 => Some(BASE_MASK - SECOND / 2 + (at_ms - 3_000) * 90),
            4 => None,
            5 => Some(4_711),
            _ => {
                of_own_pid.push(base);
                None
            }
        };
        match changed {
            Some(base) => write_base(&mut packet[6..12], base),
            None => {
                packet[5] &= !0x10;
                packet[6..12].fill(0xff);
            }
        }
    }
    for base in of_own_pid {
        let mut packet = [0xff; PACKET_BYTES];
        let [high, low] = OWN_PID.to_be_bytes();
        packet[..6].copy_from_slice(&[0x47, high, low, 0x20, PACKET_BYTES as u8 - 5, 0x10]);
        write_base(&mut packet[6..12], base);
        bytes.extend(packet);
    }
}

fn write_base(field: &mut [u8], base: i64) {
    let base = base & BASE_MASK;
    field[..4].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
    // Six reserved bits, and an extension of 0.
    field[4..].copy_from_slice(&[(base as u8 & 1) << 7 | 0x7e, 0]);
}

/// The next version of the PMT in a packet, with another PID for the PCR.
fn name_own_pid(packet: &mut [u8; PACKET_BYTES]) {
    assert_eq!(packet[1] & 0x40, 0x40, "a section begins in it");
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    let section = &mut packet[4 + adaptation..];
    let pointer = usize::from(section[0]);
    let section = &mut section[1 + pointer..];
    let length = 3 + usize::from(u16::from_be_bytes([section[1] & 0x0f, section[2]]));
    let version = (section[5] >> 1 & 0x1f) + 1;
    section[5] = section[5] & 0xc1 | (version & 0x1f) << 1;
    section[8..10].copy_from_slice(&(0xe000 | OWN_PID).to_be_bytes());
    let crc = crc(&section[..length - 4]);
    section[length - 4..length].copy_from_slice(&crc.to_be_bytes());
}

/// ISO/IEC 13818-1 annex A.
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc & 1 << 31 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 }
        })
    })
}
