//! Debian's libsrtp2. It protects in place, so the shared payload is copied behind the recipient's
//! header first.

use srtp::Profile;

use super::{CONTEXTS, Check, Contender, Made, Packets, Round, SLOT, SLOTS, done};
use crate::libsrtp::{Key, Session, Ssrc};

/// The replay window libsrtp has by default, packets.
const WINDOW: usize = 128;

pub(super) fn make(profile: Profile, keys: &[Key]) -> Made {
    let sessions = |ssrc| {
        let sessions = keys.iter().map(|key| Session::new(profile, ssrc, std::slice::from_ref(key), WINDOW));
        sessions.collect::<Result<Vec<_>, _>>().map_err(|status| format!("{status:?}"))
    };
    let (senders, receivers) = (sessions(Ssrc::AnyOutbound)?, sessions(Ssrc::AnyInbound)?);
    Ok(Box::new(Libsrtp { senders, receivers, slots: vec![0; SLOTS * SLOT], packets: Packets::default() }))
}

struct Libsrtp {
    senders: Vec<Session>,
    receivers: Vec<Session>,
    slots: Vec<u8>,
    packets: Packets,
}

impl Contender for Libsrtp {
    fn protect(&mut self, round: &Round<'_>, mut check: Check<'_>) {
        let len = 12 + round.payload.len();
        for (index, header) in round.headers.iter().enumerate() {
            let out = &mut self.slots[index % SLOTS * SLOT..][..SLOT];
            out[..12].copy_from_slice(header);
            out[12..len].copy_from_slice(round.payload);
            let sender = &mut self.senders[(round.first_context + index) % CONTEXTS];
            let len = sender.protect_rtp(out, len, 0).expect("protected");
            done(&mut check, index, &out[..len]);
        }
    }

    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>) {
        self.packets.load(packets);
    }

    fn unprotect(&mut self, first_context: usize, _batch: usize, mut check: Check<'_>) {
        for (index, packet) in self.packets.iter_mut().enumerate() {
            let receiver = &mut self.receivers[(first_context + index) % CONTEXTS];
            let len = receiver.unprotect_rtp(packet).expect("authentic");
            done(&mut check, index, &packet[..len]);
        }
    }
}
