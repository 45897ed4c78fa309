//! The vectors of RFC 3711: appendix B.2 (AES-CM key stream) and B.3 (key derivation).

use crate::common::naive::{self, Session};
use crate::common::{Rtp, assert_key_stream, hex, protect_rtp};
use srtp::internals;
use srtp::{Config, Profile};

const SESSION_KEY: &str = "2B7E151628AED2A6ABF7158809CF4F3C";
const SESSION_SALT: &str = "F0F1F2F3F4F5F6F7F8F9FAFBFCFD";
const KEY_STREAM: &str = "E03EAD0935C95E80E166B16DD92B4EB4 D23513162B02D0F72A43A2FE4A5F97AB
                          41E95B3BB0A2E8DD477901E4FCA894C0";

/// Appendix B.2: SSRC, rollover counter and sequence number are 0, so the counter begins at the
/// salt. Encrypted zeros are the key stream.
#[test]
fn section_b_2_a_packet_of_zeros_shows_the_key_stream() {
    let profiles = [Profile::AesCm128HmacSha1_80, Profile::AesCm128HmacSha1_32];
    assert_key_stream(profiles, SESSION_KEY, SESSION_SALT, KEY_STREAM);
}

/// Appendix B.2 to its end, which lies beyond the longest packet: the twin has all of it.
#[test]
fn section_b_2_the_twin_has_the_whole_key_stream() {
    let iv = hex(&format!("{SESSION_SALT}0000")).try_into().unwrap();
    let stream = naive::key_stream_xor(&hex(SESSION_KEY), iv, &vec![0; 16 * 0xff02]);
    assert_eq!(stream[..48], hex(KEY_STREAM));
    let end = "EC8CDF7398607CB0F2D21675EA9EA1E4 362B7C3C6773516318A077D7FC5073AE
               6A2CC3787889374FBEB4C81B17BA6C44";
    assert_eq!(stream[16 * 0xfeff..], hex(end));
}

const MASTER_KEY: &str = "E1F97A0D3E018BE0D64FA32C06DE4139";
const MASTER_SALT: &str = "0EC675AD498AFEEBB6960B3AABE6";

#[test]
fn section_b_3_session_keys_are_derived() {
    let keys = internals::derive(Profile::AesCm128HmacSha1_80, &hex(MASTER_KEY), &hex(MASTER_SALT));
    assert_eq!(keys.rtp_encryption, hex("C61E7A93744F39EE10734AFE3FF7A087"));
    assert_eq!(keys.rtp_salt, hex("30CBBC08863D8C85D49DB34A9AE1"));
    // The appendix has 94 bytes; HMAC-SHA1 takes the first 20 (section 5.2).
    assert_eq!(keys.rtp_authentication[..], hex("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4"));
}

/// The appendix has SRTP keys only; those of SRTCP come from the same function with labels 3 to 5
/// (section 4.3.2), and the twin's function is checked against all 94 bytes.
#[test]
fn section_b_3_the_twin_derives_the_same() {
    let long = "CEBE321F6FF7716B6FD4AB49AF256A15 6D38BAA48F0A0ACF3C34E2359E6CDBCE E049646C43D9327AD175578EF7227098
                6371C10C9A369AC2F94A8C5FBCDDDC25 6D6E919A48B610EF17C2041E47403576 6B68642C59BBFC2F34DB60DBDFB2";
    assert_eq!(naive::derive(&hex(MASTER_KEY), &hex(MASTER_SALT), 1, 94), hex(long));
    for profile in Profile::ALL {
        let keys = crate::common::Keys::new(profile, 3);
        let (ours, twin) = (internals::derive(profile, &keys.key, &keys.salt), keys.naive());
        let compare = |encryption: &[u8], authentication: &[u8], salt: &[u8], twin: &Session| {
            assert_eq!((encryption, salt), (&twin.key[..], &twin.salt[..]), "{profile}");
            if profile.salt_len() == 14 {
                assert_eq!(authentication, twin.authentication, "{profile}");
            }
        };
        compare(&ours.rtp_encryption, &ours.rtp_authentication, &ours.rtp_salt, &twin.rtp);
        compare(&ours.rtcp_encryption, &ours.rtcp_authentication, &ours.rtcp_salt, &twin.rtcp);
    }
}

/// Contexts use the derived keys: a packet under the master key of appendix B.3 is that of its session keys.
#[test]
fn section_b_3_a_context_protects_with_the_derived_keys() {
    let profile = Profile::AesCm128HmacSha1_80;
    let master = srtp::MasterKey::new(profile, &hex(MASTER_KEY), &hex(MASTER_SALT)).unwrap();
    let mut context = srtp::OutboundContext::new(&Config::default(), &[master]).unwrap();
    let protected = protect_rtp(&mut context, &Rtp::new(0, 0, &[0; 16]).bytes()).unwrap();
    let iv = hex("30CBBC08863D8C85D49DB34A9AE10000").try_into().unwrap();
    let stream = naive::key_stream_xor(&hex("C61E7A93744F39EE10734AFE3FF7A087"), iv, &[0; 16]);
    assert_eq!(protected[12..28], stream);
}
