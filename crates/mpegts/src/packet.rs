//! One packet: its header and adaptation field (ISO/IEC 13818-1 sections 2.4.3.2 and 2.4.3.4).
//!
//! ```text
//!  0x47 | error 1, start 1, priority 1, PID 13 | scrambling 2, adaptation 1, payload 1, counter 4
//!  adaptation field: | length 8 | discontinuity 1, random access 1, priority 1, PCR 1, OPCR 1,
//!                      splice 1, private 1, extension 1 | PCR base 33, 6, extension 9 | .. | stuffing
//! ```

use crate::{PACKET_BYTES, SYNC_BYTE};

/// Bytes behind the header of a packet.
const BODY_BYTES: usize = PACKET_BYTES - 4;

/// The PID of packets without content.
pub(crate) const NULL_PID: u16 = 0x1fff;

/// A packet that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) pid: u16,
    /// A PES packet or a section begins in it.
    pub(crate) starts: bool,
    pub(crate) counter: u8,
    /// The counter may begin anywhere.
    pub(crate) discontinuity: bool,
    pub(crate) random_access: bool,
    /// Empty without payload.
    pub(crate) payload: &'a [u8],
    pub(crate) has_payload: bool,
    pub(crate) has_pcr: bool,
}

/// Why a packet is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketError {
    /// The sender knows that it is damaged, or its adaptation field is longer than it.
    Damaged,
    /// It is scrambled.
    Scrambled,
}

impl<'a> Packet<'a> {
    /// Reads a packet, whose first byte is the sync byte.
    pub(crate) fn read(bytes: &'a [u8; PACKET_BYTES]) -> Result<Self, PacketError> {
        let (second, flags) = (bytes[1], bytes[3]);
        if second & 0x80 != 0 {
            return Err(PacketError::Damaged);
        }
        if flags & 0xc0 != 0 {
            return Err(PacketError::Scrambled);
        }
        let mut packet = Self {
            pid: u16::from_be_bytes([second & 0x1f, bytes[2]]),
            starts: second & 0x40 != 0,
            counter: flags & 0x0f,
            discontinuity: false,
            random_access: false,
            payload: &bytes[4..],
            has_payload: flags & 0x10 != 0,
            has_pcr: false,
        };
        if flags & 0x20 != 0 {
            let length = usize::from(bytes[4]);
            let field = packet.payload.get(1..1 + length).ok_or(PacketError::Damaged)?;
            if let Some(&flags) = field.first() {
                packet.discontinuity = flags & 0x80 != 0;
                packet.random_access = flags & 0x40 != 0;
                packet.has_pcr = flags & 0x10 != 0 && field.len() >= 7;
            }
            packet.payload = &packet.payload[1 + length..];
        }
        if !packet.has_payload {
            packet.payload = &[];
        }
        Ok(packet)
    }
}

/// What an adaptation field that is written says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Adaptation {
    pub(crate) discontinuity: bool,
    pub(crate) random_access: bool,
    /// Ticks of 27 MHz.
    pub(crate) pcr: Option<u64>,
}

impl Adaptation {
    /// Bytes of the field with its length, 0 if it says nothing.
    fn bytes(self) -> usize {
        match self {
            Self { pcr: Some(_), .. } => 8,
            Self { discontinuity: false, random_access: false, .. } => 0,
            _ => 2,
        }
    }
}

/// Writes packets of one PID.
#[derive(Debug)]
pub(crate) struct PacketWriter<'a> {
    pub(crate) pid: u16,
    /// The counter that the next packet with payload has.
    pub(crate) counter: &'a mut u8,
}

impl PacketWriter<'_> {
    /// Writes a PES packet or the payload that holds a section, in as many packets as it takes; the
    /// last is stuffed in its adaptation field.
    pub(crate) fn write(self, out: &mut Vec<u8>, adaptation: Adaptation, mut payload: &[u8]) {
        let mut adaptation = adaptation;
        let mut starts = 0x40;
        while !payload.is_empty() {
            let room = BODY_BYTES - adaptation.bytes();
            let (now, rest) = payload.split_at(room.min(payload.len()));
            let counter = *self.counter;
            *self.counter = (counter + 1) & 0x0f;
            let field = BODY_BYTES - now.len();
            self.write_head(out, starts, 0x10 | u8::from(field > 0) << 5 | counter);
            write_adaptation(out, adaptation, field);
            out.extend_from_slice(now);
            (adaptation, starts, payload) = (Adaptation::default(), 0, rest);
        }
    }

    /// Writes a packet without payload, whose counter is that of the packet before it.
    pub(crate) fn write_adaptation_only(self, out: &mut Vec<u8>, adaptation: Adaptation) {
        self.write_head(out, 0, 0x20 | self.counter.wrapping_sub(1) & 0x0f);
        write_adaptation(out, adaptation, BODY_BYTES);
    }

    fn write_head(&self, out: &mut Vec<u8>, starts: u8, flags: u8) {
        let [high, low] = self.pid.to_be_bytes();
        out.extend_from_slice(&[SYNC_BYTE, starts | high, low, flags]);
    }
}

/// Writes an adaptation field of so many bytes, its length among them.
fn write_adaptation(out: &mut Vec<u8>, adaptation: Adaptation, bytes: usize) {
    let end = out.len() + bytes;
    if bytes > 0 {
        out.push(bytes as u8 - 1);
    }
    if bytes > 1 {
        let Adaptation { discontinuity, random_access, pcr } = adaptation;
        out.push(u8::from(discontinuity) << 7 | u8::from(random_access) << 6 | u8::from(pcr.is_some()) << 4);
        if let Some(pcr) = pcr {
            let (base, extension) = ((pcr / 300) & ((1 << 33) - 1), pcr % 300);
            let field = base << 15 | 0x3f << 9 | extension;
            out.extend_from_slice(&field.to_be_bytes()[2..]);
        }
    }
    out.resize(end, 0xff);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_every_length_come_back() {
        let mut counter = 14;
        for adaptation in [
            Adaptation::default(),
            Adaptation { random_access: true, ..Adaptation::default() },
            Adaptation { pcr: Some(1), discontinuity: true, random_access: true },
        ] {
            for length in 1..600 {
                let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
                let (mut out, before) = (Vec::new(), counter);
                let writer = PacketWriter { pid: 0x1abc, counter: &mut counter };
                writer.write(&mut out, adaptation, &payload);
                let (packets, rest) = out.as_chunks::<PACKET_BYTES>();
                assert!(rest.is_empty());
                let mut back = Vec::new();
                for (at, bytes) in packets.iter().enumerate() {
                    let packet = Packet::read(bytes).expect("a packet");
                    assert_eq!((bytes[0], packet.pid, packet.starts), (SYNC_BYTE, 0x1abc, at == 0));
                    assert_eq!(packet.counter, (before + at as u8) & 0x0f);
                    assert_eq!(packet.has_pcr, at == 0 && adaptation.pcr.is_some());
                    assert_eq!(packet.random_access, at == 0 && adaptation.random_access);
                    back.extend_from_slice(packet.payload);
                }
                assert_eq!(back, payload, "{length}");
            }
        }
    }

    #[test]
    fn a_pcr_is_written_as_the_standard_has_it() {
        let mut out = Vec::new();
        let writer = PacketWriter { pid: 0x100, counter: &mut 0 };
        let pcr = ((1 << 33) - 2) * 300 + 299;
        writer.write_adaptation_only(&mut out, Adaptation { pcr: Some(pcr), ..Adaptation::default() });
        assert_eq!(out[..12], [0x47, 0x01, 0x00, 0x2f, 183, 0x10, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x2b]);
        let packet = Packet::read(out[..].try_into().expect("one packet")).expect("a packet");
        assert_eq!((packet.has_payload, packet.payload, packet.has_pcr), (false, &[][..], true));
    }

    #[test]
    fn a_field_longer_than_its_packet_is_damage() {
        let mut bytes = [0xff; PACKET_BYTES];
        for length in 0..=255 {
            bytes[..5].copy_from_slice(&[0x47, 0x01, 0x00, 0x30, length]);
            assert_eq!(Packet::read(&bytes).is_ok(), length <= 183, "{length}");
        }
        bytes[3] = 0x90;
        assert_eq!(Packet::read(&bytes), Err(PacketError::Scrambled));
        bytes[1] = 0x80;
        assert_eq!(Packet::read(&bytes), Err(PacketError::Damaged));
    }
}
