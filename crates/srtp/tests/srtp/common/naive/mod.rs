//! SRTP and SRTCP as plainly as the RFCs put them: the naive twin that the behaviour tests compare with.
//!
//! Written from RFC 3711, RFC 7714 and RFC 6188 on RustCrypto's AES, GHASH and SHA-1, and sharing
//! nothing with the crate under test, not even its table of profiles' sizes. Rollover counters and
//! SRTCP indices are arguments; there is no replay protection, no estimate of an index, no state of
//! any kind. Packets are given well formed.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a module of several test crates, each of which uses some of it"
)]

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use srtp::Profile;

/// What distinguishes the profiles: bytes of key, salt and the two tags (RFC 3711 section 8.2, RFC
/// 6188 section 3.1, RFC 7714 sections 12 and 13).
#[derive(Clone, Copy)]
pub struct Shape {
    pub gcm: bool,
    pub key: usize,
    pub salt: usize,
    pub rtp_tag: usize,
    pub rtcp_tag: usize,
}

pub fn shape(profile: Profile) -> Shape {
    let (gcm, key, salt, rtp_tag, rtcp_tag) = match profile {
        Profile::AeadAes128Gcm => (true, 16, 12, 16, 16),
        Profile::AeadAes256Gcm => (true, 32, 12, 16, 16),
        Profile::AesCm128HmacSha1_80 => (false, 16, 14, 10, 10),
        Profile::AesCm128HmacSha1_32 => (false, 16, 14, 4, 10),
        Profile::AesCm256HmacSha1_80 => (false, 32, 14, 10, 10),
        Profile::AesCm256HmacSha1_32 => (false, 32, 14, 4, 10),
    };
    Shape { gcm, key, salt, rtp_tag, rtcp_tag }
}

/// Session keys of SRTP or of SRTCP (RFC 3711 section 4.3).
#[derive(Clone)]
pub struct Session {
    pub key: Vec<u8>,
    pub authentication: Vec<u8>,
    pub salt: Vec<u8>,
}

/// Both directions of one master key.
#[derive(Clone)]
pub struct Naive {
    shape: Shape,
    pub rtp: Session,
    pub rtcp: Session,
    mki: Vec<u8>,
}

impl Naive {
    pub fn new(profile: Profile, master_key: &[u8], master_salt: &[u8], mki: &[u8]) -> Self {
        let shape = shape(profile);
        let session = |label: u8| Session {
            key: derive(master_key, master_salt, label, shape.key),
            authentication: derive(master_key, master_salt, label + 1, 20),
            salt: derive(master_key, master_salt, label + 2, shape.salt),
        };
        Self { shape, rtp: session(0), rtcp: session(3), mki: mki.to_vec() }
    }

    pub fn protect_rtp(&self, packet: &[u8], roc: u32) -> Vec<u8> {
        let (header, payload) = packet.split_at(header_len(packet));
        let index = u64::from(roc) << 16 | u64::from(sequence(packet));
        if self.shape.gcm {
            let nonce = gcm_nonce(&self.rtp.salt, rtp_ssrc(packet), index);
            [header, &gcm_seal(&self.rtp.key, &nonce, header, payload), &self.mki].concat()
        } else {
            let iv = cm_iv(&self.rtp.salt, rtp_ssrc(packet), index);
            let protected = [header, &key_stream_xor(&self.rtp.key, iv, payload)].concat();
            let tag = self.rtp.tag(&[&protected, &roc.to_be_bytes()], self.shape.rtp_tag);
            [protected, self.mki.clone(), tag].concat()
        }
    }

    /// The RTP packet in `packet` if its MKI and tag are right.
    pub fn unprotect_rtp(&self, packet: &[u8], roc: u32) -> Option<Vec<u8>> {
        let index = u64::from(roc) << 16 | u64::from(sequence(packet));
        if self.shape.gcm {
            let packet = packet.strip_suffix(&self.mki[..])?;
            let (header, sealed) = packet.split_at(header_len(packet));
            let nonce = gcm_nonce(&self.rtp.salt, rtp_ssrc(packet), index);
            Some([header, &gcm_open(&self.rtp.key, &nonce, header, sealed)?].concat())
        } else {
            let (packet, tag) = packet.split_last_n(self.shape.rtp_tag)?;
            let packet = packet.strip_suffix(&self.mki[..])?;
            if self.rtp.tag(&[packet, &roc.to_be_bytes()], self.shape.rtp_tag) != tag {
                return None;
            }
            let (header, payload) = packet.split_at(header_len(packet));
            let iv = cm_iv(&self.rtp.salt, rtp_ssrc(packet), index);
            Some([header, &key_stream_xor(&self.rtp.key, iv, payload)].concat())
        }
    }

    pub fn protect_rtcp(&self, packet: &[u8], index: u32) -> Vec<u8> {
        let (header, rest) = packet.split_at(8);
        let word = (1 << 31 | index).to_be_bytes();
        if self.shape.gcm {
            let nonce = gcm_nonce(&self.rtcp.salt, rtcp_ssrc(packet), index.into());
            let sealed = gcm_seal(&self.rtcp.key, &nonce, &[header, &word].concat(), rest);
            [header, &sealed, &word, &self.mki].concat()
        } else {
            let iv = cm_iv(&self.rtcp.salt, rtcp_ssrc(packet), index.into());
            let protected = [header, &key_stream_xor(&self.rtcp.key, iv, rest), &word].concat();
            let tag = self.rtcp.tag(&[&protected], self.shape.rtcp_tag);
            [protected, self.mki.clone(), tag].concat()
        }
    }

    /// Index and RTCP packet in `packet` if its MKI, E flag and tag are right.
    pub fn unprotect_rtcp(&self, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
        let tag_behind = if self.shape.gcm { 0 } else { self.shape.rtcp_tag };
        let (packet, tag) = packet.split_last_n(tag_behind)?;
        let covered = packet.strip_suffix(&self.mki[..])?;
        let (packet, word) = covered.split_last_n(4)?;
        let index = u32::from_be_bytes(word.try_into().unwrap()).checked_sub(1 << 31)?;
        let (header, rest) = packet.split_at_checked(8)?;
        let plain = if self.shape.gcm {
            let nonce = gcm_nonce(&self.rtcp.salt, rtcp_ssrc(packet), index.into());
            gcm_open(&self.rtcp.key, &nonce, &[header, word].concat(), rest)?
        } else {
            if self.rtcp.tag(&[covered], self.shape.rtcp_tag) != tag {
                return None;
            }
            key_stream_xor(&self.rtcp.key, cm_iv(&self.rtcp.salt, rtcp_ssrc(packet), index.into()), rest)
        };
        Some((index, [header, &plain].concat()))
    }
}

impl Session {
    /// HMAC-SHA1 of `parts` one behind the other, cut to `len` bytes (RFC 3711 section 4.2.1).
    fn tag(&self, parts: &[&[u8]], len: usize) -> Vec<u8> {
        let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(&self.authentication).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes()[..len].to_vec()
    }
}

/// Key derivation with a rate of 0: the key stream of the master key from (label XOR master salt) *
/// 2^16 on (RFC 3711 sections 4.3.1 and 4.3.3; a salt of 12 bytes is padded with zeros).
pub fn derive(master_key: &[u8], master_salt: &[u8], label: u8, len: usize) -> Vec<u8> {
    let mut x = [0; 16];
    x[..master_salt.len()].copy_from_slice(master_salt);
    x[7] ^= label;
    key_stream_xor(master_key, x, &vec![0; len])
}

/// AES in counter mode, block by block (RFC 3711 section 4.1.1).
pub fn key_stream_xor(key: &[u8], iv: [u8; 16], text: &[u8]) -> Vec<u8> {
    let first = u128::from_be_bytes(iv);
    let blocks = text.chunks(16).zip(0u128..);
    blocks
        .flat_map(|(chunk, count)| {
            let block = aes_block(key, first.wrapping_add(count).to_be_bytes());
            chunk.iter().zip(block).map(|(text, key)| text ^ key).collect::<Vec<u8>>()
        })
        .collect()
}

fn aes_block(key: &[u8], block: [u8; 16]) -> [u8; 16] {
    let mut block = block.into();
    match key.len() {
        16 => aes::Aes128::new_from_slice(key).unwrap().encrypt_block(&mut block),
        32 => aes::Aes256::new_from_slice(key).unwrap().encrypt_block(&mut block),
        other => panic!("an AES key of {other} bytes"),
    }
    block.into()
}

/// (salt * 2^16) XOR (SSRC * 2^64) XOR (index * 2^16) (RFC 3711 section 4.1.1).
pub fn cm_iv(salt: &[u8], ssrc: u32, index: u64) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..14].copy_from_slice(salt);
    xor(&mut iv[4..8], &ssrc.to_be_bytes());
    xor(&mut iv[8..14], &index.to_be_bytes()[2..]);
    iv
}

/// (0 || SSRC || index) XOR salt (RFC 7714 sections 8.1 and 9.1).
pub fn gcm_nonce(salt: &[u8], ssrc: u32, index: u64) -> [u8; 12] {
    let mut nonce: [u8; 12] = salt.try_into().unwrap();
    xor(&mut nonce[2..6], &ssrc.to_be_bytes());
    xor(&mut nonce[6..12], &index.to_be_bytes()[2..]);
    nonce
}

fn xor(bytes: &mut [u8], with: &[u8]) {
    bytes.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}

/// Ciphertext and tag.
fn gcm_seal(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> Vec<u8> {
    let (nonce, payload) = (&(*nonce).into(), Payload { msg: text, aad });
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).unwrap().encrypt(nonce, payload).unwrap(),
        _ => Aes256Gcm::new_from_slice(key).unwrap().encrypt(nonce, payload).unwrap(),
    }
}

/// The text of ciphertext and tag.
fn gcm_open(key: &[u8], nonce: &[u8; 12], aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, payload) = (&(*nonce).into(), Payload { msg: sealed, aad });
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).unwrap().decrypt(nonce, payload).ok(),
        _ => Aes256Gcm::new_from_slice(key).unwrap().decrypt(nonce, payload).ok(),
    }
}

/// Fixed header, CSRCs and extension (RFC 3550 sections 5.1 and 5.3.1).
pub fn header_len(packet: &[u8]) -> usize {
    let csrcs = 12 + 4 * usize::from(packet[0] & 0x0f);
    match packet[0] & 0x10 {
        0 => csrcs,
        _ => csrcs + 4 + 4 * usize::from(u16::from_be_bytes([packet[csrcs + 2], packet[csrcs + 3]])),
    }
}

fn sequence(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

fn rtp_ssrc(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[8..12].try_into().unwrap())
}

fn rtcp_ssrc(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[4..8].try_into().unwrap())
}

trait SplitLast {
    fn split_last_n(&self, len: usize) -> Option<(&[u8], &[u8])>;
}

impl SplitLast for [u8] {
    fn split_last_n(&self, len: usize) -> Option<(&[u8], &[u8])> {
        self.split_at_checked(self.len().checked_sub(len)?)
    }
}
