//! AV1 temporal units to payloads (RTP payload format for AV1, section 4): an aggregation header,
//! then pieces of OBUs.
//!
//! ```text
//! |Z|Y| W (2) |N|RSV|   Z: goes on with an OBU of the packet before   Y: its last OBU goes on in the next packet
//! W = 0: each element has its length ahead of it (LEB128); else W elements, the last without length
//! OBU   |F| type (4) |X|S|R|   X: | temporal (3) | spatial (2) | RSV |   S: | size (LEB128) |
//! ```
//! OBUs may be split anywhere, so all packets of a unit but the last get the same length: the
//! shortest that needs no more packets than the limit does. Size fields are removed, and temporal
//! delimiters, tile lists and padding are not sent (section 5).

use media::bitstream::next_obu;

use super::{FrameWriter, limited};

/// OBUs of one temporal unit; one with more is refused. The standard's largest level has 128 tiles,
/// so that a frame of one group for each tile stays far below.
pub const OBUS_MAX: usize = 1_024;

/// Writes the OBUs of one temporal unit in the low-overhead format (AV1 specification, section
/// 5.2), with `ahead`, OBUs of the same form, in front of them: the sequence header where it is to
/// be repeated.
///
/// `begins_sequence`: the unit begins a coded video sequence (N). Returns whether it could be read;
/// if not (a size beyond the end, the forbidden bit, more than [`OBUS_MAX`] OBUs, nothing to send),
/// nothing is written.
pub fn packetize(
    ahead: &[u8],
    unit: &[u8],
    begins_sequence: bool,
    payload_bytes_max: usize,
    writer: &mut FrameWriter<'_>,
) -> bool {
    let all = obus(ahead).chain(obus(unit)).take(OBUS_MAX + 1);
    if all.clone().count() > OBUS_MAX || !all.clone().all(|obu| obu.is_some()) || sent(unit).next().is_none()
    {
        return false;
    }
    let elements = || sent(ahead).chain(sent(unit));
    let limit = limited(payload_bytes_max);
    let fewest = Cutter::new(elements()).count_packets(limit);
    // The shortest length that does not need more packets.
    let (mut low, mut high) = (LENGTH_MIN, limit);
    while low < high {
        let middle = (low + high) / 2;
        if Cutter::new(elements()).count_packets(middle) <= fewest {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Cutter::new(elements()).write(low, begins_sequence, writer);
    true
}

/// Whether a sequence header is among the OBUs (type 1).
pub fn has_sequence_header(unit: &[u8]) -> bool {
    obus(unit).take(OBUS_MAX).flatten().any(|obu| obu.kind() == SEQUENCE_HEADER)
}

/// An OBU as it is sent: its header without the size flag, and what follows the size.
#[derive(Clone, Copy, Debug)]
struct Obu<'a> {
    header: [u8; 2],
    header_len: usize,
    payload: &'a [u8],
}

impl<'a> Obu<'a> {
    /// Reads the first OBU of `bytes`; returns it and what follows. One without a size takes all.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut behind = bytes;
        let obu = next_obu(&mut behind)?;
        let (first, second) = (obu.header[0], obu.header.get(1).copied().unwrap_or(0));
        let header = [first & !SIZE_FLAG, second];
        let obu = Self { header, header_len: obu.header.len(), payload: obu.payload };
        (first & FORBIDDEN == 0).then_some((obu, behind))
    }

    fn kind(&self) -> u8 {
        self.header[0] >> 3 & 0x0f
    }

    fn is_sent(&self) -> bool {
        !matches!(self.kind(), TEMPORAL_DELIMITER | TILE_LIST | PADDING)
    }

    fn len(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// Writes `len` bytes of it, from `from` on.
    fn put(&self, from: usize, len: usize, writer: &mut FrameWriter<'_>) {
        let end = from + len;
        if from < self.header_len {
            writer.put(&self.header[from..self.header_len.min(end)]);
        }
        let range = from.max(self.header_len) - self.header_len..end.max(self.header_len) - self.header_len;
        writer.put(&self.payload[range]);
    }
}

/// The OBUs of `bytes`; `None` where one cannot be read, which is the last item then.
fn obus(bytes: &[u8]) -> impl Iterator<Item = Option<Obu<'_>>> + Clone {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = Obu::read(rest);
        rest = read.map_or(&[], |(_, behind)| behind);
        Some(read.map(|(obu, _)| obu))
    })
}

/// The OBUs of `bytes` that are sent.
fn sent(bytes: &[u8]) -> impl Iterator<Item = Obu<'_>> + Clone {
    obus(bytes).flatten().filter(Obu::is_sent)
}

/// A place in the OBUs, from which packets are cut.
#[derive(Clone)]
struct Cutter<'a, I> {
    obus: I,
    /// The current OBU, and how many of its bytes were sent.
    current: Option<(Obu<'a>, usize)>,
}

/// What goes into one packet.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// Elements, at least one.
    elements: usize,
    /// Bytes of the last element.
    last_len: usize,
    /// The last one has its length ahead of it, too (W = 0).
    last_is_sized: bool,
}

impl<'a, I: Iterator<Item = Obu<'a>> + Clone> Cutter<'a, I> {
    fn new(mut obus: I) -> Self {
        let current = obus.next().map(|obu| (obu, 0));
        Self { obus, current }
    }

    fn count_packets(mut self, len: usize) -> usize {
        let mut packets = 0;
        while self.current.is_some() {
            let plan = self.plan(len);
            self.advance(plan, |_, _, _, _| {});
            packets += 1;
        }
        packets
    }

    fn write(mut self, len: usize, begins_sequence: bool, writer: &mut FrameWriter<'_>) {
        let mut is_first = true;
        while let Some((_, sent)) = self.current {
            let plan = self.plan(len);
            let goes_on = u8::from(sent > 0) << 7;
            let counted = if plan.last_is_sized { 0 } else { (plan.elements as u8) << 4 };
            let begins = u8::from(is_first && begins_sequence) << 3;
            // Whether the last one continues is known only after it.
            let mut after = self.clone();
            after.advance(plan, |_, _, _, _| {});
            let continues = u8::from(after.current.is_some_and(|(_, sent)| sent > 0)) << 6;
            writer.begin();
            writer.put(&[goes_on | continues | counted | begins]);
            self.advance(plan, |obu, from, len, is_sized| {
                if is_sized {
                    put_leb128(len, writer);
                }
                obu.put(from, len, writer);
            });
            is_first = false;
        }
    }

    /// What the next packet of at most `len >= LENGTH_MIN` bytes holds.
    fn plan(&self, len: usize) -> Plan {
        let mut room = len - 1;
        let mut plan = Plan::default();
        let mut ahead = self.clone();
        while let Some((obu, sent)) = ahead.current {
            let left = obu.len() - sent;
            let is_counted = plan.elements < COUNTED_MAX;
            ahead.current = ahead.obus.next().map(|obu| (obu, 0));
            let whole = leb128_len(left) + left;
            // At least a byte of another one fits after it; or it is the last and needs a length.
            if whole < room && ahead.current.is_some() {
                room -= whole;
                plan.elements += 1;
                (plan.last_len, plan.last_is_sized) = (left, true);
                continue;
            }
            // With its length it ends where the packet does; without, a byte would be left over.
            if whole == room && ahead.current.is_some() {
                return Plan { elements: plan.elements + 1, last_len: left, last_is_sized: true };
            }
            let last_len = if is_counted { left.min(room) } else { sized_in(room).min(left) };
            // Never cut within the header: that of a piece says what the piece is.
            if last_len > 0 && sent + last_len >= obu.header_len {
                plan = Plan { elements: plan.elements + 1, last_len, last_is_sized: !is_counted };
            }
            break;
        }
        plan
    }

    /// Advances by `plan` and calls `element` with each piece: the OBU, offset, length, whether a
    /// length field precedes it.
    fn advance(&mut self, plan: Plan, mut element: impl FnMut(&Obu<'a>, usize, usize, bool)) {
        for index in 1..=plan.elements {
            let Some((obu, sent)) = self.current else { return };
            let is_last = index == plan.elements;
            let len = if is_last { plan.last_len } else { obu.len() - sent };
            element(&obu, sent, len, !is_last || plan.last_is_sized);
            self.current = match sent + len < obu.len() {
                true => Some((obu, sent + len)),
                false => self.obus.next().map(|obu| (obu, 0)),
            };
        }
    }
}

fn leb128_len(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

fn put_leb128(value: usize, writer: &mut FrameWriter<'_>) {
    let mut rest = value;
    while rest >= 0x80 {
        writer.put(&[rest as u8 | 0x80]);
        rest >>= 7;
    }
    writer.put(&[rest as u8]);
}

/// Maximum length of an element that fits into `room` with its length field; 0 if not even one byte
/// does.
fn sized_in(room: usize) -> usize {
    let len = room.saturating_sub(leb128_len(room));
    // One byte of room less than the length of a longer number needs: 128 bytes hold 127, not 126.
    if len + 1 + leb128_len(len + 1) <= room { len + 1 } else { len }
}

/// Shortest packet that always holds something of an OBU.
const LENGTH_MIN: usize = 4;

/// Elements of a packet that W can count.
const COUNTED_MAX: usize = 3;

const FORBIDDEN: u8 = 0x80;
const SIZE_FLAG: u8 = 0x02;

const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;
