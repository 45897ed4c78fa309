//! The vectors of RFC 7714: section 16 (SRTP) and 17 (SRTCP), AEAD_AES_128_GCM and AEAD_AES_256_GCM.
//!
//! They begin at session keys. The tagging-only ones are for packets without encryption, which
//! contexts refuse; the ciphers beneath are asked for them. (Section 17 prints another packet in
//! its introduction than its subsections use; the subsections agree with each other and are
//! followed here.)

use crate::common::{backends, config, hex, protect_rtcp, protect_rtp, unprotect_rtcp, unprotect_rtp};
use srtp::internals::{self, GcmKey, SessionKeys};
use srtp::{Profile, UnprotectError};

const KEY_128: &str = "000102030405060708090a0b0c0d0e0f";
const KEY_256: &str = "000102030405060708090a0b0c0d0e0f 101112131415161718191a1b1c1d1e1f";
const SALT: &str = "517569642070726f2071756f";

/// "Gallia est omnis divisa in partes tres", sequence number 0xf17b, rollover counter 0.
const RTP: &str = "8040f17b8041f8d35501a0b2
                   47616c6c696120657374206f6d6e69732064697669736120696e207061727465732074726573";
const RTP_NONCE: &str = "51753c6580c2726f20718414";

const RTCP: &str = "81c8000d4d617273
                    4e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeefdeadbeefdeadbeefdeadbeef";
const RTCP_INDEX: u32 = 0x5d4;
const RTCP_NONCE: &str = "517524055203726f207170bb";

fn session_keys(key: &str) -> SessionKeys {
    SessionKeys {
        rtp_encryption: hex(key),
        rtp_authentication: [0; 20],
        rtp_salt: hex(SALT),
        rtcp_encryption: hex(key),
        rtcp_authentication: [0; 20],
        rtcp_salt: hex(SALT),
    }
}

fn check_srtp(profile: Profile, key: &str, protected: &str) {
    let (plain, protected) = (hex(RTP), hex(protected));
    for backend in backends() {
        let (config, keys) = (config(backend), session_keys(key));
        let mut outbound = internals::outbound_from_session_keys(&config, profile, &keys);
        assert_eq!(protect_rtp(&mut outbound, &plain), Ok(protected.clone()), "{backend}");
        let mut inbound = internals::inbound_from_session_keys(&config, profile, &keys);
        assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(plain.clone()), "{backend}");
    }
}

#[test]
fn sections_16_1_1_and_16_1_2_srtp_aead_aes_128_gcm() {
    let protected = "8040f17b8041f8d35501a0b2
        f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833
        899d7f27beb16a9152cf765ee4390cce";
    check_srtp(Profile::AeadAes128Gcm, KEY_128, protected);
}

#[test]
fn sections_16_2_1_and_16_2_2_srtp_aead_aes_256_gcm() {
    let protected = "8040f17b8041f8d35501a0b2
        32b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a0276ffae0f1ba63799b87b
        7aa3db36dfffd6b0f9bb7878d7a76c13";
    check_srtp(Profile::AeadAes256Gcm, KEY_256, protected);
}

fn check_srtcp(profile: Profile, key: &str, protected: &str) {
    let (plain, protected) = (hex(RTCP), hex(protected));
    let ssrc = 0x4d61_7273;
    for backend in backends() {
        let (config, keys) = (config(backend), session_keys(key));
        let mut outbound = internals::outbound_from_session_keys(&config, profile, &keys);
        outbound.set_rtcp_index(ssrc, RTCP_INDEX).unwrap();
        assert_eq!(protect_rtcp(&mut outbound, &plain), Ok(protected.clone()), "{backend}");
        let mut inbound = internals::inbound_from_session_keys(&config, profile, &keys);
        assert_eq!(unprotect_rtcp(&mut inbound, &protected), Ok(plain.clone()), "{backend}");
    }
}

#[test]
fn section_17_1_srtcp_aead_aes_128_gcm() {
    let protected = "81c8000d4d617273
        63e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda4ce09b4686303ded0bb9275b
        c84aa45896cf4d2fc5abf87245d9eade 800005d4";
    check_srtcp(Profile::AeadAes128Gcm, KEY_128, protected);
}

#[test]
fn section_17_2_srtcp_aead_aes_256_gcm() {
    let protected = "81c8000d4d617273
        d50ae4d1f5ce5d304ba297e47d470c282c3ece5dbffe0a50a2eaa5c1110555be8415f658c61de0476f1b6fad
        1d1eb30c4446839f57ff6f6cb26ac3be 800005d4";
    check_srtcp(Profile::AeadAes256Gcm, KEY_256, protected);
}

fn check_tagging(key: &str, nonce: &str, authenticated: &[u8], tag: &str) {
    let (nonce, tag) = (hex(nonce).try_into().unwrap(), hex(tag).try_into().unwrap());
    for backend in backends() {
        let key = GcmKey::new(&hex(key), backend);
        assert_eq!(key.seal(&nonce, authenticated, None, &mut []), tag, "{backend}");
        assert!(key.open(&nonce, authenticated, &mut [], &tag), "{backend}");
    }
}

#[test]
fn sections_16_1_3_and_16_2_3_tags_of_a_packet_in_the_clear() {
    check_tagging(KEY_128, RTP_NONCE, &hex(RTP), "22493f82d2bce397e9d79e3b19aa4216");
    check_tagging(KEY_256, RTP_NONCE, &hex(RTP), "a866d5910f887463067ceefec45215d4");
}

/// The E flag is clear: a genuine packet of the RFC, and yet one that no profile here may deliver.
#[test]
fn sections_17_3_and_17_4_srtcp_in_the_clear_is_refused() {
    let word = "000005d4";
    for (profile, key, tag) in [
        (Profile::AeadAes128Gcm, KEY_128, "841dd9683dd78ec92ae58790125f62b3"),
        (Profile::AeadAes256Gcm, KEY_256, "91db4afbfeee5a978fab4393ed2615fe"),
    ] {
        check_tagging(key, RTCP_NONCE, &hex(&format!("{RTCP}{word}")), tag);
        let packet = hex(&format!("{RTCP}{tag}{word}"));
        for backend in backends() {
            let mut inbound =
                internals::inbound_from_session_keys(&config(backend), profile, &session_keys(key));
            assert_eq!(unprotect_rtcp(&mut inbound, &packet), Err(UnprotectError::NotEncrypted), "{backend}");
        }
    }
}
