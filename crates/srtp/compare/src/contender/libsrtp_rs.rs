//! The crate libsrtp (pure Rust, on RustCrypto; no relation to the C library but its interface). It
//! takes a vector with the packet and gives it back changed; one vector is used over and over for
//! protecting.

use ::libsrtp::{MasterKey, ProtectionProfile, RecvSession, SendSession, StreamConfig};
use srtp::Profile;

use super::{CONTEXTS, Check, Contender, Made, Round, done};
use crate::libsrtp::Key;

pub(super) fn make(profile: Profile, keys: &[Key]) -> Made {
    let (rtp, rtcp) = match profile {
        Profile::AeadAes128Gcm => (ProtectionProfile::AeadAes128Gcm, ProtectionProfile::AeadAes128Gcm),
        Profile::AeadAes256Gcm => (ProtectionProfile::AeadAes256Gcm, ProtectionProfile::AeadAes256Gcm),
        Profile::AesCm128HmacSha1_80 => {
            (ProtectionProfile::Aes128CmHmacSha180, ProtectionProfile::Aes128CmHmacSha180)
        }
        Profile::AesCm128HmacSha1_32 => {
            (ProtectionProfile::Aes128CmHmacSha132, ProtectionProfile::Aes128CmHmacSha180)
        }
        Profile::AesCm256HmacSha1_80 => {
            (ProtectionProfile::Aes256CmHmacSha180, ProtectionProfile::Aes256CmHmacSha180)
        }
        Profile::AesCm256HmacSha1_32 => {
            (ProtectionProfile::Aes256CmHmacSha132, ProtectionProfile::Aes256CmHmacSha180)
        }
    };
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for key in keys {
        let config = StreamConfig::new(vec![MasterKey::new(&key.key, &key.salt, &None)], &rtp, &rtcp);
        let (mut sender, mut receiver) = (SendSession::new(), RecvSession::new());
        sender.add_stream(None, &config).map_err(|why| why.to_string())?;
        receiver.add_stream(None, &config).map_err(|why| why.to_string())?;
        senders.push(sender);
        receivers.push(receiver);
    }
    Ok(Box::new(LibsrtpRs { senders, receivers, packet: Vec::with_capacity(2048), packets: Vec::new() }))
}

struct LibsrtpRs {
    senders: Vec<SendSession>,
    receivers: Vec<RecvSession>,
    packet: Vec<u8>,
    packets: Vec<Vec<u8>>,
}

impl Contender for LibsrtpRs {
    fn protect(&mut self, round: &Round<'_>, mut check: Check<'_>) {
        for (index, header) in round.headers.iter().enumerate() {
            let mut packet = std::mem::take(&mut self.packet);
            packet.clear();
            packet.extend_from_slice(header);
            packet.extend_from_slice(round.payload);
            let sender = &mut self.senders[(round.first_context + index) % CONTEXTS];
            self.packet = sender.rtp_protect(packet).expect("protected");
            done(&mut check, index, &self.packet);
        }
    }

    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>) {
        let mut loaded = std::mem::take(&mut self.packets).into_iter();
        let refill = |packet: &[u8]| {
            let mut buffer = loaded.next().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(packet);
            buffer
        };
        self.packets = packets.map(refill).collect();
    }

    fn unprotect(&mut self, first_context: usize, _batch: usize, mut check: Check<'_>) {
        for (index, packet) in self.packets.iter_mut().enumerate() {
            let receiver = &mut self.receivers[(first_context + index) % CONTEXTS];
            *packet = receiver.rtp_unprotect(std::mem::take(packet)).expect("authentic");
            done(&mut check, index, packet);
        }
    }
}
