//! Coded frames to RTP packets, one file per payload format: the counterpart of `depacketize`.
//!
//! ```text
//!  access unit ─▶ h264::packetize(units, limit, &mut FrameWriter) ─▶ headers and payloads in a PacketSlab
//! ```
//! A frame becomes as few packets as its format and the limit allow. Fragments have one size,
//! except that the last may be a few bytes shorter: segmentation offload takes a run of equal
//! datagrams that ends with a shorter one. Where a format forbids fragments (several units in one
//! packet) sizes differ, which costs one more run.
//!
//! Nothing is allocated per packet in the steady state: packets are written one after the other
//! into memory that is reused. The caller decides which frames are sent, and their timestamps.

pub mod audio;
pub mod av1;
pub mod h264;
pub mod h265;
pub mod vp8;
pub mod vp9;

use serde::{Deserialize, Serialize};

use crate::{FIXED_HEADER_LEN, HeaderFields};

/// Smallest supported payload limit, in bytes; a lower one is raised to this.
///
/// Every descriptor fits, with room for data.
pub const PAYLOAD_BYTES_MIN: usize = 64;

/// Largest limit of a payload, in bytes; a higher one counts as this. A datagram cannot be longer.
pub const PAYLOAD_BYTES_MAX: usize = crate::PACKET_LEN_MAX - FIXED_HEADER_LEN;

/// The sender's side of one SSRC: what its packets have in common, and their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// SSRC.
    pub ssrc: u32,
    /// Sequence number of the next packet; wraps.
    pub sequence_number: u16,
    /// Packets written since the beginning; wraps, as sender reports have it.
    pub packets: u32,
    /// Payload bytes written since the beginning; wraps, as sender reports have it.
    pub payload_bytes: u32,
}

impl Sender {
    /// A source that has sent nothing, whose first packet has this number.
    pub fn new(ssrc: u32, sequence_number: u16) -> Self {
        Self { ssrc, sequence_number, packets: 0, payload_bytes: 0 }
    }

    /// Begins a frame. Its packets are appended to `slab`.
    pub fn frame<'a>(
        &'a mut self,
        payload_type: u8,
        timestamp: u32,
        slab: &'a mut PacketSlab,
    ) -> FrameWriter<'a> {
        FrameWriter { sender: self, payload_type, timestamp, packets: 0, slab }
    }
}

/// Writes the packets of one frame: those of one timestamp.
///
/// **To be driven like this:** [`FrameWriter::begin`], [`FrameWriter::put`] as often as needed, for
/// each packet; then [`FrameWriter::end_frame`]. The functions of this module's submodules do the
/// former.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    sender: &'a mut Sender,
    payload_type: u8,
    timestamp: u32,
    packets: usize,
    slab: &'a mut PacketSlab,
}

impl FrameWriter<'_> {
    /// Begins a packet; what was begun before is whole.
    #[inline]
    pub fn begin(&mut self) {
        let fields = HeaderFields {
            marker: false,
            payload_type: self.payload_type,
            sequence_number: self.sender.sequence_number,
            timestamp: self.timestamp,
            ssrc: self.sender.ssrc,
        };
        self.slab.begin(fields);
        self.packets += 1;
        self.sender.sequence_number = self.sender.sequence_number.wrapping_add(1);
        self.sender.packets = self.sender.packets.wrapping_add(1);
    }

    /// Appends to the payload of the packet begun last.
    ///
    /// # Panics
    /// If none was begun in this slab.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.slab.put(bytes);
        self.sender.payload_bytes = self.sender.payload_bytes.wrapping_add(bytes.len() as u32);
    }

    /// Packets begun in this frame.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Ends the frame: its last packet, if there is one, gets the marker when `marker` is set.
    /// Returns the packets written.
    pub fn end_frame(self, marker: bool) -> usize {
        if marker && self.packets > 0 {
            self.slab.mark_last();
        }
        self.packets
    }
}

/// RTP packets as values: the fields of each header, and the payloads one behind the other.
///
/// Grows to the size one turn needs and keeps that memory, up to 1 MiB, when it is cleared.
#[derive(Clone, Debug, Default)]
pub struct PacketSlab {
    payloads: Vec<u8>,
    /// Each header, and where its payload begins; it ends where the next begins, the last at the
    /// end of `payloads`.
    packets: Vec<(HeaderFields, usize)>,
}

impl PacketSlab {
    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.payloads.clear();
        // One frame of several megabytes is no reason to hold that much for every stream.
        self.payloads.shrink_to(KEPT_BYTES_MAX);
    }

    /// Header and payload of each packet, in the order they were written.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&HeaderFields, &[u8])> + DoubleEndedIterator {
        self.packets.iter().enumerate().map(|(index, (fields, start))| {
            let end = self.packets.get(index + 1).map_or(self.payloads.len(), |(_, next)| *next);
            (fields, &self.payloads[*start..end])
        })
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of memory held for payloads.
    pub fn memory_bytes(&self) -> usize {
        self.payloads.capacity()
    }

    #[inline]
    fn begin(&mut self, fields: HeaderFields) {
        self.packets.push((fields, self.payloads.len()));
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        assert!(!self.packets.is_empty(), "a packet was begun");
        self.payloads.extend_from_slice(bytes);
    }

    /// Sets the marker of the last packet.
    fn mark_last(&mut self) {
        self.packets.last_mut().expect("a packet was begun").0.marker = true;
    }
}

/// Memory a slab keeps when it is cleared, in bytes: more than a key frame of 20 Mbit/s.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The limit as it is used.
fn limited(payload_bytes_max: usize) -> usize {
    payload_bytes_max.clamp(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)
}

/// Size of the pieces when `len` bytes are cut into the fewest pieces of at most `max` bytes: all
/// but the last have it, and the last lacks less bytes than there are pieces.
fn piece_len(len: usize, max: usize) -> usize {
    len.div_ceil(len.div_ceil(max).max(1)).max(1)
}

/// Splits `data` into packets that each begin with a descriptor of at most [`PAYLOAD_BYTES_MIN`] /
/// 2 bytes, of the same length in all of them. The arguments of `descriptor` are whether the piece
/// is the first and whether it is the last.
fn cut<const N: usize>(
    data: &[u8],
    payload_bytes_max: usize,
    writer: &mut FrameWriter<'_>,
    descriptor: impl Fn(bool, bool) -> [u8; N],
) {
    let len = piece_len(data.len(), limited(payload_bytes_max) - N);
    let mut pieces = data.chunks(len).peekable();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        writer.begin();
        writer.put(&descriptor(is_first, pieces.peek().is_none()));
        writer.put(piece);
        is_first = false;
    }
}

/// What H.264 and H.265 payloads have in common: NAL units go alone, together with their neighbours, or
/// in fragments. This is how a format writes them.
///
/// A fragment holds a piece of one unit, so each slice that is split is a run of equal packets, and
/// parameter sets ahead of a key frame are another. x264 at 600 kbit/s and 30 frames a second is
/// sent in 1.02 runs a frame with one slice and in 2.02 with two (`-tune zerolatency -threads 2`).
/// Filling up the packet of the parameter sets with SEI filler would join it to the run of the key
/// frame, for a kilobyte more to each viewer: one run in 60 frames is cheaper.
struct UnitFormat {
    /// Bytes of a NAL unit's header; those of an aggregation packet's payload header are as many.
    header_len: usize,
    /// Writes the payload header of an aggregation packet that holds these units.
    aggregation: fn(&mut dyn Iterator<Item = &[u8]>, &mut FrameWriter<'_>),
    /// Writes the payload header of a fragment of a unit; whether it is the first, and whether the last.
    fragment: fn(&[u8], bool, bool, &mut FrameWriter<'_>),
    /// Whether a unit can be sent at all.
    is_unit: fn(&[u8]) -> bool,
}

impl UnitFormat {
    /// Writes all units, in order.
    ///
    /// Consecutive units share a packet as far as they fit, which gives the fewest packets
    /// possible; a unit that is too long is split into equal fragments.
    fn packetize<'a>(
        &self,
        units: impl Iterator<Item = &'a [u8]> + Clone,
        payload_bytes_max: usize,
        writer: &mut FrameWriter<'_>,
    ) {
        let limit = limited(payload_bytes_max);
        let mut units = units.filter(|unit| (self.is_unit)(unit));
        while let Some(unit) = units.clone().next() {
            // How many of the next units go into one packet: 0 if not even the first does.
            let (mut together, mut bytes) = (0, self.header_len);
            for unit in units.clone() {
                bytes += SIZE_LEN + unit.len();
                // One alone needs neither the header nor its size.
                if bytes > limit && (together > 0 || unit.len() > limit) {
                    break;
                }
                together += 1;
            }
            match together {
                0 => {
                    // The unit's header travels in the fragment's, which is one byte longer.
                    let body = &unit[self.header_len..];
                    let mut rest = body;
                    let len = piece_len(body.len(), limit - self.header_len - 1);
                    while !rest.is_empty() {
                        let (piece, behind) = rest.split_at(len.min(rest.len()));
                        writer.begin();
                        (self.fragment)(unit, rest.len() == body.len(), behind.is_empty(), writer);
                        writer.put(piece);
                        rest = behind;
                    }
                }
                1 => {
                    writer.begin();
                    writer.put(unit);
                }
                _ => {
                    writer.begin();
                    (self.aggregation)(&mut units.clone().take(together), writer);
                    for unit in units.clone().take(together) {
                        // Fits: a payload is shorter than 2^16 bytes.
                        writer.put(&(unit.len() as u16).to_be_bytes());
                        writer.put(unit);
                    }
                }
            }
            units.by_ref().take(together.max(1)).for_each(drop);
        }
    }
}

/// Bytes of a unit's size in an aggregation packet.
const SIZE_LEN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_few_and_equal_but_for_the_last() {
        for max in 1..40 {
            for len in 1..400usize {
                let piece = piece_len(len, max);
                let pieces = len.div_ceil(piece);
                assert!(piece <= max && pieces == len.div_ceil(max), "{len} in pieces of {max}: {piece}");
                let last = len - (pieces - 1) * piece;
                assert!(
                    piece - last < pieces,
                    "{len} in pieces of {max}: the last has {last}, others {piece}"
                );
            }
        }
        assert_eq!(piece_len(0, 10), 1);
    }

    #[test]
    fn a_frame_writer_numbers_marks_and_counts() {
        let mut slab = PacketSlab::default();
        let mut sender = Sender::new(7, u16::MAX);
        let mut frame = sender.frame(96, 90_000, &mut slab);
        frame.begin();
        frame.put(b"one");
        frame.begin();
        frame.put(b"tw");
        frame.put(b"o");
        assert_eq!(frame.end_frame(true), 2);
        assert_eq!(sender.frame(96, 93_000, &mut slab).end_frame(true), 0, "nothing of ours to mark");
        let mut frame = sender.frame(111, 4, &mut slab);
        frame.begin();
        assert_eq!(frame.end_frame(false), 1);
        let seen: Vec<_> = slab.iter().map(|(fields, payload)| (*fields, payload.to_vec())).collect();
        let fields = |marker, payload_type, sequence_number, timestamp| HeaderFields {
            marker,
            payload_type,
            sequence_number,
            timestamp,
            ssrc: 7,
        };
        assert_eq!(
            seen,
            [
                (fields(false, 96, u16::MAX, 90_000), b"one".to_vec()),
                (fields(true, 96, 0, 90_000), b"two".to_vec()),
                (fields(false, 111, 1, 4), vec![]),
            ]
        );
        assert_eq!((sender.packets, sender.payload_bytes, sender.sequence_number), (3, 6, 2));
    }
}
