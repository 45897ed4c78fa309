//! Sections of one PID, put together from its packets (ISO/IEC 13818-1 section 2.4.4.1).
//!
//! ```text
//!  packet in which a section begins: | pointer 8 | end of the last section | section | section | 0xff ..
//! ```

use crate::packet::Packet;
use crate::psi::SECTION_BYTES_MAX;

/// Collects the section that is on its way.
#[derive(Debug)]
pub(super) struct SectionReader {
    /// Bytes that a section may have.
    bytes_max: usize,
    /// At most so many and the payload of a packet.
    bytes: Vec<u8>,
    /// A section has begun, and no packet of it was missed.
    is_open: bool,
    /// Of the newest packet, and its payload: a sender may send one twice.
    counter: u8,
    newest: Vec<u8>,
}

impl Default for SectionReader {
    /// Of a table that says what the stream has.
    fn default() -> Self {
        Self::new(SECTION_BYTES_MAX)
    }
}

impl SectionReader {
    /// Of sections with so many bytes at most.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: Vec::new(), is_open: false, counter: 0, newest: Vec::new() }
    }

    /// Takes in a packet, and hands on the sections that end in it.
    pub(super) fn push(&mut self, packet: &Packet<'_>, mut section: impl FnMut(&[u8])) {
        if !packet.has_payload {
            return;
        }
        let follows = packet.counter == (self.counter + 1) & 0x0f;
        let is_same = packet.payload == self.newest;
        if packet.counter == self.counter && (!packet.starts || is_same) {
            return;
        }
        self.counter = packet.counter;
        self.newest.clear();
        self.newest.extend_from_slice(packet.payload);
        if !packet.starts {
            self.is_open &= follows;
            self.append(packet.payload, &mut section);
            return;
        }
        let Some((&pointer, payload)) = packet.payload.split_first() else { return };
        let Some((end, begin)) = payload.split_at_checked(usize::from(pointer)) else {
            self.is_open = false;
            return;
        };
        self.is_open &= follows;
        self.append(end, &mut section);
        self.bytes.clear();
        self.is_open = true;
        self.append(begin, &mut section);
    }

    fn append(&mut self, payload: &[u8], section: &mut impl FnMut(&[u8])) {
        if !self.is_open {
            return;
        }
        self.bytes.extend_from_slice(payload);
        let mut at = 0;
        loop {
            let rest = &self.bytes[at..];
            // Stuffing goes on to the end of the packet.
            let &[table, high, low, ..] = rest else {
                self.is_open = rest.first() != Some(&0xff);
                break;
            };
            let length = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
            if table == 0xff || length > self.bytes_max {
                self.is_open = false;
                break;
            }
            let Some(whole) = rest.get(..length) else { break };
            section(whole);
            at += length;
        }
        match self.is_open {
            true => drop(self.bytes.drain(..at)),
            false => self.bytes.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(starts: bool, counter: u8, payload: &[u8]) -> Packet<'_> {
        Packet {
            pid: 0,
            starts,
            counter,
            discontinuity: false,
            random_access: false,
            payload,
            has_payload: true,
            has_pcr: false,
        }
    }

    fn sections(packets: &[(bool, u8, &[u8])]) -> Vec<Vec<u8>> {
        let (mut reader, mut sections) = (SectionReader::default(), Vec::new());
        for (starts, counter, payload) in packets {
            reader.push(&packet(*starts, *counter, payload), |section| sections.push(section.to_vec()));
        }
        sections
    }

    #[test]
    fn sections_may_share_packets_and_span_them() {
        let got = sections(&[
            (true, 0, &[0, 1, 0xb0, 2, 7, 7, 2, 0xb0, 3, 8]),
            (true, 1, &[2, 8, 8, 3, 0xb0, 1, 9, 0xff, 0xff]),
            (false, 2, &[1, 2, 3]),
        ]);
        assert_eq!(got, [&[1, 0xb0, 2, 7, 7][..], &[2, 0xb0, 3, 8, 8, 8], &[3, 0xb0, 1, 9]]);
    }

    #[test]
    fn a_section_that_lacks_a_packet_is_dropped() {
        let got = sections(&[(true, 0, &[0, 1, 0xb0, 4, 7]), (false, 2, &[7, 7, 7])]);
        assert_eq!(got, Vec::<Vec<u8>>::new());
        let got = sections(&[(true, 0, &[0, 1, 0xb0, 2, 7]), (false, 0, &[7]), (false, 1, &[8])]);
        assert_eq!(got, [[1, 0xb0, 2, 7, 8]], "a packet that came twice");
        let cue: (bool, u8, &[u8]) = (true, 5, &[0, 0xfc, 0xb0, 1, 9, 0xff]);
        assert_eq!(sections(&[cue, cue]), [[0xfc, 0xb0, 1, 9]], "and one with all of it");
        assert_eq!(sections(&[(true, 0, &[200, 1])]), Vec::<Vec<u8>>::new(), "a pointer too far");
    }
}
