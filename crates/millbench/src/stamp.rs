//! The in-band stamp: what lets a player check every byte without knowing the publisher.
//!
//! An H.264 access unit of the sample gets one more NAL unit in front, an SEI message of type
//! `user_data_unregistered` (ITU-T H.264 §7.3.2.3.1, §D.1.7), which decoders skip. It has the send
//! time of the frame, its number, and how many media messages and payload bytes the publisher had
//! sent before it. Counting what arrives between two stamps and comparing with their difference
//! shows one missing message or byte. Sequence headers are counted by neither side, because servers
//! repeat and reorder them.
//!
//! ```text
//! offset  0        5          9   10  11    12       28       33       43         53           63       73    74
//!         +--------+----------+---+---+-----+--------+--------+--------+----------+------------+--------+-----+
//!         | AVC tag| NAL size | 6 | 5 | 61  | UUID   | run    | time   | frame    | messages   | bytes  |0x80 | frame's own
//!         | header | 65, BE   |   |   |     | 16     | 5      | 10 ns  | 10       | 10         | 10     |     | NAL units
//!         +--------+----------+---+---+-----+--------+--------+--------+----------+------------+--------+-----+
//! ```
//!
//! Numbers are written seven bits a byte, most significant first, with the top bit set: no byte is zero, so
//! no emulation prevention byte (H.264 §7.4.1.1) can ever move the fields. The NAL size is four bytes long;
//! samples whose `lengthSizeMinusOne` is not 3 carry no stamp.

/// What the publisher knew at the moment it sent a stamped frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Distinguishes publishers: counters of two runs are never compared. 35 bits are carried.
    pub run: u64,
    /// Wall clock when the frame was handed to the socket, nanoseconds since the Unix epoch.
    pub sent_ns: u64,
    /// Number of this frame among the video frames of the run, from 0.
    pub frame: u64,
    /// Audio and video messages sent before this one, sequence headers excluded.
    pub messages: u64,
    /// Payload bytes of those messages.
    pub bytes: u64,
}

/// Length of the AVC tag header in front of the stamp (FLV specification v10.1, E.4.3.1 and E.4.3.2).
pub const AVC_TAG_HEADER_BYTES: usize = 5;

/// Bytes a stamp adds to a frame.
pub const STAMP_BYTES: usize = 4 + 3 + SEI_PAYLOAD_BYTES + 1;

/// A body prefix of this length is enough for [`find`].
pub const PREFIX_BYTES: usize = AVC_TAG_HEADER_BYTES + STAMP_BYTES;

/// Inserts room for a stamp into an AVC video body; `write` fills it in.
///
/// `body` is an FLV video tag body with at least the AVC tag header.
pub fn make_room(body: &[u8]) -> Vec<u8> {
    let (header, units) = body.split_at(AVC_TAG_HEADER_BYTES.min(body.len()));
    let mut stamped = Vec::with_capacity(body.len() + STAMP_BYTES);
    stamped.extend_from_slice(header);
    stamped.resize(header.len() + STAMP_BYTES, 0x80);
    stamped.extend_from_slice(units);
    stamped
}

/// Writes `stamp` into a body made by [`make_room`].
///
/// # Panics
/// If `body` is shorter than [`PREFIX_BYTES`].
pub fn write(body: &mut [u8], stamp: &Stamp) {
    let unit = &mut body[AVC_TAG_HEADER_BYTES..PREFIX_BYTES];
    unit[..LEAD.len()].copy_from_slice(&LEAD);
    unit[UUID_OFFSET..RUN_OFFSET].copy_from_slice(&UUID);
    put(&mut unit[RUN_OFFSET..TIME_OFFSET], stamp.run);
    put(&mut unit[TIME_OFFSET..FRAME_OFFSET], stamp.sent_ns);
    put(&mut unit[FRAME_OFFSET..MESSAGES_OFFSET], stamp.frame);
    put(&mut unit[MESSAGES_OFFSET..BYTES_OFFSET], stamp.messages);
    put(&mut unit[BYTES_OFFSET..END_OFFSET], stamp.bytes);
    unit[END_OFFSET] = RBSP_STOP;
}

/// Reads the stamp from the first bytes of a video body; `None` if it carries none of ours.
pub fn find(body_prefix: &[u8]) -> Option<Stamp> {
    let unit = body_prefix.get(AVC_TAG_HEADER_BYTES..PREFIX_BYTES)?;
    if unit[..LEAD.len()] != LEAD || unit[UUID_OFFSET..RUN_OFFSET] != UUID || unit[END_OFFSET] != RBSP_STOP {
        return None;
    }
    Some(Stamp {
        run: take(&unit[RUN_OFFSET..TIME_OFFSET])?,
        sent_ns: take(&unit[TIME_OFFSET..FRAME_OFFSET])?,
        frame: take(&unit[FRAME_OFFSET..MESSAGES_OFFSET])?,
        messages: take(&unit[MESSAGES_OFFSET..BYTES_OFFSET])?,
        bytes: take(&unit[BYTES_OFFSET..END_OFFSET])?,
    })
}

/// The stamps in access units that stand one behind the other, as in the `mdat` of a fragment.
pub fn find_all(units: &[u8]) -> impl Iterator<Item = Stamp> {
    memchr::memmem::find_iter(units, &UUID).filter_map(|at| {
        let unit = at.checked_sub(UUID_OFFSET)?;
        // `find` takes the body of a tag: what stands in for its header does not matter.
        let mut body = [0; PREFIX_BYTES];
        body[AVC_TAG_HEADER_BYTES..].copy_from_slice(units.get(unit..unit + STAMP_BYTES)?);
        find(&body)
    })
}

/// Most significant seven bits first, each byte with its top bit set; bits that do not fit are cut off.
pub(crate) fn put(field: &mut [u8], value: u64) {
    for (position, byte) in field.iter_mut().rev().enumerate() {
        *byte = 0x80 | (value >> (7 * position)) as u8 & 0x7f;
    }
}

/// What [`put`] wrote; `None` if a byte is none of its.
pub(crate) fn take(field: &[u8]) -> Option<u64> {
    field
        .iter()
        .try_fold(0u64, |value, &byte| (byte & 0x80 != 0).then_some(value << 7 | u64::from(byte & 0x7f)))
}

const UUID: [u8; 16] = *b"\xe4\x6d\x69\x6c\x6c\x62\x4e\x63\xa5\x1d\x73\x74\x61\x6d\x70\x31";
const SEI_PAYLOAD_BYTES: usize = 16 + 5 + 10 + 10 + 10 + 10;
const RBSP_STOP: u8 = 0x80;

/// NAL size, `nal_unit_type` 6 (SEI), `payloadType` 5, `payloadSize`.
const LEAD: [u8; 7] = [0, 0, 0, (STAMP_BYTES - 4) as u8, 6, 5, SEI_PAYLOAD_BYTES as u8];
const UUID_OFFSET: usize = LEAD.len();
const RUN_OFFSET: usize = UUID_OFFSET + 16;
const TIME_OFFSET: usize = RUN_OFFSET + 5;
const FRAME_OFFSET: usize = TIME_OFFSET + 10;
const MESSAGES_OFFSET: usize = FRAME_OFFSET + 10;
const BYTES_OFFSET: usize = MESSAGES_OFFSET + 10;
const END_OFFSET: usize = BYTES_OFFSET + 10;

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 12] = [0x17, 1, 0, 0, 0, 0, 0, 0, 3, 0x65, 1, 2];

    fn stamped(stamp: &Stamp) -> Vec<u8> {
        let mut body = make_room(&FRAME);
        write(&mut body, stamp);
        body
    }

    #[test]
    fn what_is_written_is_found() {
        let cases = [
            (Stamp::default(), "all zero"),
            (Stamp { run: 1, sent_ns: 2, frame: 3, messages: 4, bytes: 5 }, "each field on its own"),
            (
                Stamp {
                    run: (1 << 35) - 1,
                    sent_ns: u64::MAX,
                    frame: u64::MAX,
                    messages: u64::MAX,
                    bytes: u64::MAX,
                },
                "the largest values",
            ),
            (
                Stamp {
                    run: 0x1234_5678,
                    sent_ns: 1_795_000_000_123_456_789,
                    frame: 25,
                    messages: 68,
                    bytes: 75_600,
                },
                "ordinary values",
            ),
        ];
        for (stamp, remark) in cases {
            assert_eq!(find(&stamped(&stamp)), Some(stamp), "{remark}");
        }
    }

    #[test]
    fn a_stamp_changes_nothing_else_in_the_frame() {
        let body = stamped(&Stamp::default());
        assert_eq!(body.len(), FRAME.len() + STAMP_BYTES);
        assert_eq!(body[..AVC_TAG_HEADER_BYTES], FRAME[..AVC_TAG_HEADER_BYTES]);
        assert_eq!(body[PREFIX_BYTES..], FRAME[AVC_TAG_HEADER_BYTES..]);
        // The inserted unit is a well-formed length-prefixed SEI: size, type 6, payload type 5,
        // payload size, stop bit.
        assert_eq!(body[5..12], [0, 0, 0, 65, 6, 5, 61]);
        assert_eq!(body[9 + 3 + 61], 0x80);
    }

    #[test]
    fn no_byte_after_the_nal_size_is_zero() {
        for shift in 0..64 {
            let value = 1u64 << shift;
            let body =
                stamped(&Stamp { run: value, sent_ns: value, frame: value, messages: value, bytes: value });
            assert!(body[9..PREFIX_BYTES].iter().all(|&byte| byte != 0), "shift {shift}");
        }
    }

    #[test]
    fn other_bodies_carry_no_stamp() {
        let body = stamped(&Stamp::default());
        for length in 0..PREFIX_BYTES {
            assert_eq!(find(&body[..length]), None, "cut at {length}");
        }
        for changed in AVC_TAG_HEADER_BYTES..PREFIX_BYTES {
            let mut broken = body.clone();
            broken[changed] ^= 0x80;
            assert_eq!(find(&broken), None, "byte {changed}");
        }
        assert_eq!(find(&[0x17; 200]), None);
    }
}
