//! The vectors of RFC 6188, section 7: AES-256 in counter mode and the key derivation on it.
//! AES-192 is left out, as in the crate.

use crate::common::naive;
use crate::common::{assert_key_stream, hex};
use srtp::Profile;
use srtp::internals;

const SESSION_KEY: &str = "57f82fe3613fd170a85ec93c40b1f092 2ec4cb0dc025b58272147cc438944a98";
const SESSION_SALT: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfd";
const KEY_STREAM: &str = "92bdd28a93c3f52511c677d08b5515a4 9da71b2378a854f67050756ded165bac
                          63c4868b7096d88421b563b8c94c9a31";

#[test]
fn section_7_1_a_packet_of_zeros_shows_the_key_stream() {
    let profiles = [Profile::AesCm256HmacSha1_80, Profile::AesCm256HmacSha1_32];
    assert_key_stream(profiles, SESSION_KEY, SESSION_SALT, KEY_STREAM);
}

/// The end of the key stream lies beyond the longest packet: the twin has all of it.
#[test]
fn section_7_1_the_twin_has_the_whole_key_stream() {
    let iv = hex(&format!("{SESSION_SALT}0000")).try_into().unwrap();
    let stream = naive::key_stream_xor(&hex(SESSION_KEY), iv, &vec![0; 16 * 0xff02]);
    assert_eq!(stream[..48], hex(KEY_STREAM));
    let end = "cea518c90fd91ced9cbb18c078a54711 3dbc4814f4da5f00a08772b63c6a046d
               6eb246913062a16891433e97dd01a57f";
    assert_eq!(stream[16 * 0xfeff..], hex(end));
}

#[test]
fn section_7_2_session_keys_are_derived() {
    let master_key = hex("f0f04914b513f2763a1b1fa130f10e29 98f6f6e43e4309d1e622a0e332b9f1b6");
    let master_salt = hex("3b04803de51ee7c96423ab5b78d2");
    let (encryption, salt, authentication) = (
        hex("5ba1064e30ec51613cad926c5a28ef73 1ec7fb397f70a960653caf06554cd8c4"),
        hex("fa31791685ca444a9e07c6c64e93"),
        hex("fd9c32d39ed5fbb5a9dc96b30818454d1313dc05"),
    );
    let keys = internals::derive(Profile::AesCm256HmacSha1_80, &master_key, &master_salt);
    assert_eq!(keys.rtp_encryption, encryption);
    assert_eq!(keys.rtp_salt, salt);
    assert_eq!(keys.rtp_authentication[..], authentication);
    let twin = naive::Naive::new(Profile::AesCm256HmacSha1_80, &master_key, &master_salt, &[]);
    assert_eq!((twin.rtp.key, twin.rtp.salt, twin.rtp.authentication), (encryption, salt, authentication));
}
