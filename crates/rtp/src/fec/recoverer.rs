//! What a receiver does with repair packets, written without regard to speed: for tests and tools.

use std::collections::{BTreeMap, VecDeque};

use super::{RECOVERY_LEN, Repair, RepairError, volatile_ranges};
use crate::FIXED_HEADER_LEN;

/// Media packets that are kept, twice as many as a mask reaches over.
const PACKETS_KEPT: usize = 256;
/// Repair packets that wait for packets of theirs.
const REPAIRS_KEPT: usize = 64;

/// Makes lost packets of one stream again.
///
/// **To be driven like this:** [`Recoverer::handle_packet`] and [`Recoverer::handle_repair`] for
/// all that arrives, in any order; [`Recoverer::poll_recovered`] until it is empty after each.
#[derive(Debug)]
pub struct Recoverer {
    ssrc: u32,
    volatile_ids: [u8; 2],
    /// By sequence number.
    packets: BTreeMap<u16, Vec<u8>>,
    /// Their numbers in order of arrival, at most [`PACKETS_KEPT`]; the oldest go first.
    order: VecDeque<u16>,
    /// Payloads of repair packets, at most [`REPAIRS_KEPT`]; the oldest go first.
    repairs: VecDeque<Vec<u8>>,
}

impl Recoverer {
    /// For the media of this SSRC, in which these header extensions are taken as zeros
    /// ([`volatile_ids`](super::volatile_ids)).
    pub fn new(ssrc: u32, volatile_ids: [u8; 2]) -> Self {
        Self {
            ssrc,
            volatile_ids,
            packets: BTreeMap::new(),
            order: VecDeque::new(),
            repairs: VecDeque::new(),
        }
    }

    /// Takes an RTP packet; one of another stream, and one that is there, is left alone.
    pub fn handle_packet(&mut self, packet: &[u8]) {
        let Ok(parsed) = crate::Packet::parse(packet) else { return };
        if parsed.ssrc() != self.ssrc || self.find(parsed.sequence_number()).is_some() {
            return;
        }
        let mut kept = packet.to_vec();
        for range in volatile_ranges(packet, self.volatile_ids) {
            kept[range].fill(0);
        }
        self.keep(parsed.sequence_number(), kept);
    }

    /// Takes the payload of a repair packet.
    ///
    /// # Errors
    ///
    /// See [`RepairError`]; [`RepairError::Unsupported`] for one of another stream.
    pub fn handle_repair(&mut self, payload: &[u8]) -> Result<(), RepairError> {
        if Repair::parse(payload)?.ssrc() != self.ssrc {
            return Err(RepairError::Unsupported);
        }
        if self.repairs.len() == REPAIRS_KEPT {
            self.repairs.pop_front();
        }
        self.repairs.push_back(payload.to_vec());
        Ok(())
    }

    /// A packet that has not arrived and could be made again.
    pub fn poll_recovered(&mut self) -> Option<Vec<u8>> {
        let mut at = 0;
        while let Some(payload) = self.repairs.get(at) {
            let repair = Repair::parse(payload).expect("it was read before it was kept");
            let mut missing = repair.sequence_numbers().filter(|number| self.find(*number).is_none());
            match (missing.next(), missing.next()) {
                (Some(number), None) => {
                    let recovered = self.recover(&repair, number);
                    self.repairs.remove(at);
                    if let Some(recovered) = recovered {
                        self.keep(number, recovered.clone());
                        return Some(recovered);
                    }
                }
                (None, _) => drop(self.repairs.remove(at)),
                // More than one is missing; another may still come.
                _ => at += 1,
            }
        }
        None
    }

    /// The packet with this number, the only one of `repair` that is not there. `None` if what
    /// comes out is no RTP packet.
    fn recover(&self, repair: &Repair<'_>, number: u16) -> Option<Vec<u8>> {
        let mut recovery = repair.recovery;
        let mut behind = repair.parity.to_vec();
        for packet in repair.sequence_numbers().filter_map(|number| self.find(number)) {
            let of_packet = packet.get(FIXED_HEADER_LEN..)?;
            let length = u16::try_from(of_packet.len()).ok()?.to_be_bytes();
            let fields: [u8; RECOVERY_LEN] =
                [packet[0], packet[1], length[0], length[1], packet[4], packet[5], packet[6], packet[7]];
            recovery.iter_mut().zip(fields).for_each(|(sum, byte)| *sum ^= byte);
            behind.iter_mut().zip(of_packet).for_each(|(sum, byte)| *sum ^= byte);
        }
        let [first, second, high, low, timestamp @ ..] = recovery;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > behind.len() {
            return None;
        }
        let mut packet = vec![0x80 | first & 0x3f, second];
        packet.extend(number.to_be_bytes());
        packet.extend(timestamp);
        packet.extend(self.ssrc.to_be_bytes());
        packet.extend(&behind[..len]);
        crate::Packet::parse(&packet).is_ok().then_some(packet)
    }

    fn keep(&mut self, number: u16, packet: Vec<u8>) {
        if self.order.len() == PACKETS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.packets.remove(&oldest);
        }
        self.order.push_back(number);
        self.packets.insert(number, packet);
    }

    fn find(&self, number: u16) -> Option<&[u8]> {
        self.packets.get(&number).map(Vec::as_slice)
    }
}
