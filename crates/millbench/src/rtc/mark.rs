//! The mark inside a packet or a frame: its publisher, send time and number.
//!
//! A packet of the generated media has a place of [`MARK_BYTES`] bytes that a decoder does not
//! mind: samples of a raw macroblock in H.264, padding in Opus. A viewer that decrypts the packet
//! learns when it was sent, and sees from the number whether packets are missing that a server
//! numbered away. No byte of a mark is zero, so nothing in H.264 moves.
//!
//! A publisher of whole frames (RTMP) does not know how a server packetizes them. It marks the end
//! of each frame, which is the end of the frame's last packet in any case, and counts frames.
//!
//! ```text
//! offset  0        4           9          19            24   then, to the end of the payload:
//!         +--------+-----------+----------+-------------+    1 byte of any value (H.264's stop bit, or padding)
//!         | magic  | publisher | sent, ns | number      |
//!         +--------+-----------+----------+-------------+    seven bits a byte, top bit set, most significant first
//! ```

use crate::stamp::{put, take};

/// What is written into a packet when it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Distinguishes publishers and runs; 35 bits are carried.
    pub publisher: u64,
    /// Wall clock just before the packet was handed to the socket, nanoseconds since the Unix epoch.
    pub sent_ns: u64,
    /// Number of the packet or frame among those of its track, from 0; 35 bits are carried.
    pub number: u64,
    /// What the number counts.
    pub counts: Counted,
}

/// What the numbers of marks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Packets; every one may have a mark.
    #[default]
    Packets,
    /// Frames; the mark is at the end of each.
    Frames,
}

/// Length of a mark.
pub const MARK_BYTES: usize = 24;

/// Where a mark begins in a payload of `length` bytes, or `None` if the payload is too short for one.
pub fn place(length: usize) -> Option<usize> {
    length.checked_sub(MARK_BYTES + AFTER_BYTES)
}

/// Writes `mark` into a payload that has a place for one; a shorter payload stays as it is.
pub fn write(payload: &mut [u8], mark: &Mark) {
    let Some(at) = place(payload.len()) else { return };
    let field = &mut payload[at..at + MARK_BYTES];
    field[..MAGIC_BYTES].copy_from_slice(match mark.counts {
        Counted::Packets => &PACKET_MAGIC,
        Counted::Frames => &FRAME_MAGIC,
    });
    put(&mut field[PUBLISHER], mark.publisher);
    put(&mut field[SENT], mark.sent_ns);
    put(&mut field[NUMBER], mark.number);
}

/// Reads the mark of a payload; `None` if there is none.
pub fn find(payload: &[u8]) -> Option<Mark> {
    let at = place(payload.len())?;
    let field = &payload[at..at + MARK_BYTES];
    let counts = match *field.first_chunk()? {
        PACKET_MAGIC => Counted::Packets,
        FRAME_MAGIC => Counted::Frames,
        _ => return None,
    };
    Some(Mark {
        publisher: take(&field[PUBLISHER])?,
        sent_ns: take(&field[SENT])?,
        number: take(&field[NUMBER])?,
        counts,
    })
}

const MAGIC_BYTES: usize = 4;
const PACKET_MAGIC: [u8; MAGIC_BYTES] = [0xed, 0xb1, 0x9c, 0xf3];
const FRAME_MAGIC: [u8; MAGIC_BYTES] = [0xed, 0xb1, 0x9c, 0xf5];
const PUBLISHER: std::ops::Range<usize> = 4..9;
const SENT: std::ops::Range<usize> = 9..19;
const NUMBER: std::ops::Range<usize> = 19..24;
const AFTER_BYTES: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_and_has_no_zero_byte() {
        for shift in 0..64 {
            let value = 1u64 << shift;
            let counts = if shift % 2 == 0 { Counted::Packets } else { Counted::Frames };
            let mark = Mark { publisher: value, sent_ns: value, number: value, counts };
            let mut payload = vec![0u8; 100];
            write(&mut payload, &mark);
            let cut = |value: u64| value & ((1 << 35) - 1);
            let expected = Mark { publisher: cut(value), sent_ns: value, number: cut(value), counts };
            assert_eq!(find(&payload), Some(expected), "shift {shift}");
            assert!(payload[75..99].iter().all(|&byte| byte != 0), "shift {shift}");
            assert!(
                payload[..75].iter().chain(&payload[99..]).all(|&byte| byte == 0),
                "nothing else changes"
            );
        }
    }

    #[test]
    fn other_payloads_carry_no_mark() {
        let mut payload = vec![0x55; 60];
        assert_eq!(find(&payload), None);
        write(&mut payload, &Mark::default());
        assert!(find(&payload).is_some());
        for changed in 35..59 {
            let mut broken = payload.clone();
            broken[changed] ^= 0x80;
            assert_eq!(find(&broken), None, "byte {changed}");
        }
        for length in 0..60 {
            assert_eq!(find(&payload[..length]), None, "cut at {length}");
        }
        let mut short = [7; MARK_BYTES];
        write(&mut short, &Mark::default());
        assert_eq!(short, [7; MARK_BYTES], "too short: left as it is");
    }
}
