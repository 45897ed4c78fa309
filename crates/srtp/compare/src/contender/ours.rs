//! This project's crate: from the shared payload into the destination in one pass, alone or in batches.

use srtp::{
    Config, InboundContext, Incoming, OutboundContext, Outgoing, Plaintext, Profile, ProtectError,
    UnprotectError, protect_rtp_batch, unprotect_rtp_batch,
};

use super::{CONTEXTS, Check, Contender, Made, Packets, Round, SLOT, SLOTS, done};
use crate::libsrtp::Key;
use crate::peer::master_keys;

pub(super) fn make(profile: Profile, keys: &[Key]) -> Made {
    let config = Config::default();
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for key in keys {
        let master = master_keys(profile, std::slice::from_ref(key));
        senders.push(OutboundContext::new(&config, &master).map_err(|why| why.to_string())?);
        receivers.push(InboundContext::new(&config, &master).map_err(|why| why.to_string())?);
    }
    Ok(Box::new(Ours { senders, receivers, slots: vec![0; SLOTS * SLOT], packets: Packets::default() }))
}

struct Ours {
    senders: Vec<OutboundContext>,
    receivers: Vec<InboundContext>,
    slots: Vec<u8>,
    packets: Packets,
}

/// Most packets of one call.
const BATCH_MAX: usize = 16;

impl Contender for Ours {
    fn protect(&mut self, round: &Round<'_>, mut check: Check<'_>) {
        let mut context = round.first_context;
        if round.batch == 1 {
            let mut slots = self.slots.chunks_exact_mut(SLOT);
            for (index, header) in round.headers.iter().enumerate() {
                if slots.len() == 0 {
                    slots = self.slots.chunks_exact_mut(SLOT);
                }
                let out = slots.next().expect("there is a slot");
                let len =
                    self.senders[context].protect_rtp_from(header, round.payload, out).expect("protected");
                done(&mut check, index, &out[..len]);
                context = if context + 1 == CONTEXTS { 0 } else { context + 1 };
            }
            return;
        }
        let mut slots = self.slots.chunks_exact_mut(SLOT * round.batch);
        for (number, headers) in round.headers.chunks_exact(round.batch).enumerate() {
            if slots.len() == 0 {
                slots = self.slots.chunks_exact_mut(SLOT * round.batch);
            }
            let outs = slots.next().expect("there are slots").chunks_exact_mut(SLOT);
            let mut batch: arrayvec::ArrayVec<Outgoing<'_>, BATCH_MAX> = arrayvec::ArrayVec::new();
            for (header, out) in headers.iter().zip(outs) {
                let plaintext = Plaintext::From { header, payload: round.payload };
                batch.push(Outgoing { context, plaintext, out, result: Err(ProtectError::TooShort) });
                context = if context + 1 == CONTEXTS { 0 } else { context + 1 };
            }
            protect_rtp_batch(&mut self.senders[..], &mut batch);
            for (index, packet) in batch.iter().enumerate() {
                let len = packet.result.expect("protected");
                done(&mut check, number * round.batch + index, &packet.out[..len]);
            }
        }
    }

    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>) {
        self.packets.load(packets);
    }

    fn unprotect(&mut self, first_context: usize, batch: usize, mut check: Check<'_>) {
        let mut context = first_context;
        if batch == 1 {
            for (index, packet) in self.packets.iter_mut().enumerate() {
                let len = self.receivers[context].unprotect_rtp(packet).expect("authentic");
                done(&mut check, index, &packet[..len]);
                context = if context + 1 == CONTEXTS { 0 } else { context + 1 };
            }
            return;
        }
        let mut packets = self.packets.iter_mut();
        let mut number = 0;
        loop {
            let mut incoming: arrayvec::ArrayVec<Incoming<'_>, BATCH_MAX> = arrayvec::ArrayVec::new();
            for packet in packets.by_ref().take(batch) {
                incoming.push(Incoming { context, packet, result: Err(UnprotectError::TooShort) });
                context = if context + 1 == CONTEXTS { 0 } else { context + 1 };
            }
            if incoming.is_empty() {
                return;
            }
            unprotect_rtp_batch(&mut self.receivers[..], &mut incoming);
            for packet in &incoming {
                let len = packet.result.expect("authentic");
                done(&mut check, number, &packet.packet[..len]);
                number += 1;
            }
        }
    }
}
