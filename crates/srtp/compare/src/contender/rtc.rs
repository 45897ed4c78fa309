//! The crate rtc-srtp (webrtc-rs without sockets), with each of its two providers of ciphers. It
//! takes the plaintext packet with its header and returns a new buffer; the header is given parsed
//! as well, which saves it the parsing.

use rtc_crypto::RTCCrypto;
use rtc_crypto::providers::{AwsLcRsCrypto, RingCrypto};
use rtc_rtp::Header;
use rtc_srtp::context::Context;
use rtc_srtp::option::srtp_replay_protection;
use rtc_srtp::protection_profile::ProtectionProfile;
use srtp::Profile;

use super::{CONTEXTS, Check, Contender, Made, Packets, Round, done, ssrc_and_sequence};
use crate::libsrtp::Key;

/// The replay window its documentation names as the default, packets.
const WINDOW: usize = 64;

pub(super) fn make_ring(profile: Profile, keys: &[Key]) -> Made {
    make(profile, keys, &RingCrypto)
}

pub(super) fn make_aws_lc_rs(profile: Profile, keys: &[Key]) -> Made {
    make(profile, keys, &AwsLcRsCrypto)
}

fn make(profile: Profile, keys: &[Key], crypto: &dyn RTCCrypto) -> Made {
    let profile = match profile {
        Profile::AeadAes128Gcm => ProtectionProfile::AeadAes128Gcm,
        Profile::AeadAes256Gcm => ProtectionProfile::AeadAes256Gcm,
        Profile::AesCm128HmacSha1_80 => ProtectionProfile::Aes128CmHmacSha1_80,
        Profile::AesCm128HmacSha1_32 => ProtectionProfile::Aes128CmHmacSha1_32,
        Profile::AesCm256HmacSha1_80 => ProtectionProfile::Aes256CmHmacSha1_80,
        Profile::AesCm256HmacSha1_32 => ProtectionProfile::Aes256CmHmacSha1_32,
    };
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for key in keys {
        let new = |window| Context::new(&key.key, &key.salt, profile, window, None, crypto);
        senders.push(new(None).map_err(|why| why.to_string())?);
        receivers.push(new(Some(srtp_replay_protection(WINDOW))).map_err(|why| why.to_string())?);
    }
    Ok(Box::new(Rtc { senders, receivers, plain: Vec::new(), packets: Packets::default() }))
}

struct Rtc {
    senders: Vec<Context>,
    receivers: Vec<Context>,
    /// The shared packet; each recipient's header is written over the one before.
    plain: Vec<u8>,
    packets: Packets,
}

impl Contender for Rtc {
    fn protect(&mut self, round: &Round<'_>, mut check: Check<'_>) {
        self.plain.clear();
        self.plain.extend([0; 12]);
        self.plain.extend(round.payload);
        let mut parsed = Header { version: 2, payload_type: 96, ..Header::default() };
        for (index, header) in round.headers.iter().enumerate() {
            (parsed.ssrc, parsed.sequence_number) = ssrc_and_sequence(header);
            self.plain[..12].copy_from_slice(header);
            let sender = &mut self.senders[(round.first_context + index) % CONTEXTS];
            let protected = sender.encrypt_rtp_with_header(&self.plain, &parsed).expect("protected");
            done(&mut check, index, &protected);
        }
    }

    fn load(&mut self, packets: &mut dyn Iterator<Item = &[u8]>) {
        self.packets.load(packets);
    }

    fn unprotect(&mut self, first_context: usize, _batch: usize, mut check: Check<'_>) {
        for (index, packet) in self.packets.iter().enumerate() {
            let receiver = &mut self.receivers[(first_context + index) % CONTEXTS];
            let plain = receiver.decrypt_rtp(packet).expect("authentic");
            done(&mut check, index, &plain);
        }
    }
}
