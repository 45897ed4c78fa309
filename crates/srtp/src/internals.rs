//! The parts beneath the contexts, for benchmarks and for test vectors that begin with session keys.
//!
//! Behind the feature `internals`. No promise is kept about anything here.

pub use crate::aead::GcmKey;
pub use crate::cipher::cm::{CmJob, CmKey, authenticate, decrypt, seal};

use crate::key_derivation::{Derivation, Label};
use crate::session_key::KeyGroup;
use crate::{Config, InboundContext, OutboundContext, Profile};

/// Session keys of one master key, by their names in RFC 3711 section 4.3. The authentication keys
/// are not used by GCM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKeys {
    /// k_e of SRTP.
    pub rtp_encryption: Vec<u8>,
    /// k_a of SRTP.
    pub rtp_authentication: [u8; 20],
    /// k_s of SRTP.
    pub rtp_salt: Vec<u8>,
    /// k_e of SRTCP.
    pub rtcp_encryption: Vec<u8>,
    /// k_a of SRTCP.
    pub rtcp_authentication: [u8; 20],
    /// k_s of SRTCP.
    pub rtcp_salt: Vec<u8>,
}

/// Derives the session keys of a master key whose lengths match `profile`.
pub fn derive(profile: Profile, master_key: &[u8], master_salt: &[u8]) -> SessionKeys {
    let derivation = Derivation::new(master_key, master_salt);
    let encryption = |label| derivation.derive::<32>(label)[..profile.key_len()].to_vec();
    let salt = |label| derivation.derive::<14>(label)[..profile.salt_len()].to_vec();
    SessionKeys {
        rtp_encryption: encryption(Label::RtpEncryption),
        rtp_authentication: *derivation.derive(Label::RtpAuthentication),
        rtp_salt: salt(Label::RtpSalt),
        rtcp_encryption: encryption(Label::RtcpEncryption),
        rtcp_authentication: *derivation.derive(Label::RtcpAuthentication),
        rtcp_salt: salt(Label::RtcpSalt),
    }
}

/// An outbound context whose template keys are these session keys.
///
/// # Panics
/// When lengths do not match the profile, or the configuration is refused.
pub fn outbound_from_session_keys(config: &Config, profile: Profile, keys: &SessionKeys) -> OutboundContext {
    let mut context = OutboundContext::new(config, &[]).expect("the configuration is valid");
    context.template = Some(KeyGroup::from_session_keys(profile, keys, config.backend));
    context.has_cm_keys = !profile.is_aead();
    context
}

/// An inbound context whose template keys are these session keys.
///
/// # Panics
/// When lengths do not match the profile, or the configuration is refused.
pub fn inbound_from_session_keys(config: &Config, profile: Profile, keys: &SessionKeys) -> InboundContext {
    let mut context = InboundContext::new(config, &[]).expect("the configuration is valid");
    context.template = Some(KeyGroup::from_session_keys(profile, keys, config.backend));
    context.has_cm_keys = !profile.is_aead();
    context
}

/// Sets the remaining packets of a context's template keys, as if all others had been used.
pub fn limit_outbound(context: &mut OutboundContext, rtp_packets: u64, rtcp_packets: u64) {
    if let Some(keys) = &mut context.template {
        keys.limit(rtp_packets, rtcp_packets);
    }
}

/// The same for the receiving side.
pub fn limit_inbound(context: &mut InboundContext, rtp_packets: u64, rtcp_packets: u64) {
    if let Some(keys) = &mut context.template {
        keys.limit(rtp_packets, rtcp_packets);
    }
}
