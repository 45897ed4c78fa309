//! What the fuzz target of `srtp-c` checks: sessions of any policies and packets of any bytes, lengths
//! and room, through the functions that C calls.
//!
//! A refused call changes neither packet nor length, what is delivered was protected, and no two packets
//! get the same index. Memory is as large as the interface asks for and not a byte more, so that
//! AddressSanitizer sees what goes beyond. The master keys depend on all of the input, so that a fuzzer
//! cannot work out a tag byte by byte. `libs/srtp-c/tests/srtp-c/fuzz_corpus.rs` includes this file and
//! replays the kept corpus.

#[path = "input.rs"]
mod input;

use input::Input;
use srtp_c::{CryptoPolicy, Policy, RawMasterKey, Session, Ssrc};
use std::collections::HashSet;
use std::ffi::{c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("srtp_c", srtp_c)];

/// Two sessions of one list of policies, then calls on either.
pub fn srtp_c(data: &[u8]) {
    let mut input = Input(data);
    let seed = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut run = Run { seed, ..Run::default() };
    for _ in 0..2 {
        let list = run.policies(&mut input);
        let mut session = null_mut();
        let status = unsafe { srtp_c::srtp_create(&raw mut session, list.first()) };
        assert!(STATUSES.contains(&status), "srtp_create: {status}");
        assert_eq!(session.is_null(), status != OK, "srtp_create: {status}");
        run.sessions.push(session);
    }
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        run.call(&mut input);
    }
    for session in run.sessions {
        let status = unsafe { srtp_c::srtp_dealloc(session) };
        assert_eq!(status, if session.is_null() { BAD_PARAM } else { OK });
    }
}

const OK: c_int = 0;
const BAD_PARAM: c_int = 2;

/// All that may be answered: not `srtp_err_status_fail`, which is a bug.
const STATUSES: [c_int; 11] = [0, 2, 3, 7, 9, 10, 13, 14, 15, 21, 25];

#[derive(Default)]
struct Run {
    seed: u64,
    sessions: Vec<*mut Session>,
    /// Packets before they were protected.
    plain: HashSet<Vec<u8>>,
    /// Packets after that, by session, as they may be received, altered and received again.
    protected: Vec<(*mut Session, Vec<u8>)>,
    /// A 4-byte tag can be guessed.
    short_tags: bool,
    /// A policy lets packets be protected again.
    repeats: bool,
}

/// A list of policies, and the memory that it points to.
struct Policies {
    list: Vec<Policy>,
    _keys: Vec<Box<[u8]>>,
    _masters: Vec<Box<[RawMasterKey]>>,
    _pointers: Vec<Box<[*const RawMasterKey]>>,
}

impl Policies {
    fn first(&self) -> *const Policy {
        self.list.first().map_or(null(), |first| &raw const *first)
    }
}

type Fill = unsafe extern "C" fn(*mut CryptoPolicy);

/// For RTP, and what RTCP needs with it.
const PROFILES: [(Fill, Fill); 6] = {
    use srtp_c::*;
    [
        (srtp_crypto_policy_set_rtp_default, srtp_crypto_policy_set_rtcp_default),
        (srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32, srtp_crypto_policy_set_rtcp_default),
        (srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80, srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80),
        (srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32, srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80),
        (srtp_crypto_policy_set_aes_gcm_128_16_auth, srtp_crypto_policy_set_aes_gcm_128_16_auth),
        (srtp_crypto_policy_set_aes_gcm_256_16_auth, srtp_crypto_policy_set_aes_gcm_256_16_auth),
    ]
};

impl Run {
    /// Up to three policies, most of them right ones, whose list may be a circle.
    fn policies(&mut self, input: &mut Input<'_>) -> Policies {
        let mut made =
            Policies { list: Vec::new(), _keys: Vec::new(), _masters: Vec::new(), _pointers: Vec::new() };
        let count = input.byte();
        for _ in 0..count % 4 {
            let policy = self.policy(input, &mut made);
            made.list.push(policy);
        }
        let (first, len) = (made.list.as_mut_ptr(), made.list.len());
        for at in 1..len {
            made.list[at - 1].next = unsafe { first.add(at) };
        }
        if let Some(last) = made.list.last_mut()
            && count == 0xff
        {
            last.next = first;
        }
        made
    }

    fn policy(&mut self, input: &mut Input<'_>, made: &mut Policies) -> Policy {
        let (profile, kind, wrong, keys) = (input.byte(), input.byte(), input.byte(), input.byte());
        let (mut rtp, mut rtcp) = (CryptoPolicy::default(), CryptoPolicy::default());
        let (fill, fill_rtcp) = PROFILES[usize::from(profile % 6)];
        unsafe {
            fill(&raw mut rtp);
            fill_rtcp(&raw mut rtcp);
        }
        let key_len = rtp.cipher_key_len as usize;
        self.short_tags |= rtp.auth_tag_len == 4;
        if wrong >= 0xe0 {
            alter(if wrong & 1 == 0 { &mut rtp } else { &mut rtcp }, input);
        }
        let mut policy = Policy {
            ssrc: Ssrc { kind: c_int::from(kind & 3), value: ssrc(kind >> 2) },
            rtp,
            rtcp,
            key: null(),
            keys: null(),
            num_master_keys: 0,
            deprecated_ekt: null(),
            window_size: if wrong & 0x08 == 0 { 0 } else { c_ulong::from(input.short()) },
            allow_repeat_tx: c_int::from(wrong & 0x04 != 0),
            enc_xtn_hdr: null(),
            enc_xtn_hdr_count: c_int::from(wrong & 0xf3 == 0x53),
            next: null(),
        };
        self.repeats |= policy.allow_repeat_tx != 0;
        match keys {
            0 => {}
            1..0xa0 => policy.key = self.key(keys, key_len, made),
            _ => {
                let number = usize::from(keys % 18);
                let pointers: Box<[*const RawMasterKey]> =
                    (0..number).map(|_| self.named_key(input, key_len, made)).collect();
                policy.keys = pointers.as_ptr();
                policy.num_master_keys = if keys == 0xff { c_ulong::MAX } else { number as c_ulong };
                made._pointers.push(pointers);
            }
        }
        policy
    }

    fn named_key(&self, input: &mut Input<'_>, key_len: usize, made: &mut Policies) -> *const RawMasterKey {
        let (key, size) = (input.byte(), input.byte());
        if key == 0xff {
            return null();
        }
        let mki: Box<[u8]> = vec![key; usize::from(size)].into();
        let master: Box<[RawMasterKey]> = Box::new([RawMasterKey {
            key: if key == 0xfe { null() } else { self.key(key, key_len, made) },
            mki_id: if key == 0xfd { null() } else { mki.as_ptr() },
            mki_size: if size == 0xff { u32::MAX } else { u32::from(size) },
        }]);
        made._keys.push(mki);
        let pointer = master.as_ptr();
        made._masters.push(master);
        pointer
    }

    /// One of four keys, as long as the policy says.
    fn key(&self, number: u8, len: usize, made: &mut Policies) -> *const u8 {
        let mut state = self.seed ^ u64::from(number % 4) << 32 | 1;
        let key: Box<[u8]> = (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 24) as u8
            })
            .collect();
        made._keys.push(key);
        made._keys.last().expect("just pushed").as_ptr()
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let (which, what) = (input.byte(), input.byte());
        let session = self.sessions[usize::from(which & 1)];
        match what % 16 {
            0..4 => self.protect(session, input, what & 0x10 != 0, what & 0x20 != 0),
            4..8 => self.unprotect(session, input, what & 0x10 != 0, what & 0x20 != 0),
            8 => self.change(session, input, srtp_c::srtp_add_stream),
            9 => self.change(session, input, srtp_c::srtp_update),
            10 => self.change(session, input, srtp_c::srtp_update_stream),
            11 | 12 => {
                let status = unsafe { srtp_c::srtp_remove_stream(session, ssrc(input.byte())) };
                assert!([OK, BAD_PARAM, 13].contains(&status), "srtp_remove_stream: {status}");
            }
            13 => {
                let (ssrc, roc) = (ssrc(input.byte()), u32::from(input.short()) << (what >> 4));
                let status = unsafe { srtp_c::srtp_set_stream_roc(session, ssrc, roc) };
                assert!([OK, BAD_PARAM].contains(&status), "srtp_set_stream_roc: {status}");
                let mut now = 0;
                let known = unsafe { srtp_c::srtp_get_stream_roc(session, ssrc, &raw mut now) };
                assert!(status != OK || (known == OK && now == roc), "{now} after {roc} was set");
            }
            // Nothing of a policy is looked at but numbers.
            _ => {
                let mut policy = CryptoPolicy::default();
                let number = input.short() as i16;
                let profile = c_int::from(number);
                let status =
                    unsafe { srtp_c::srtp_crypto_policy_set_from_profile_for_rtp(&raw mut policy, profile) };
                let len = srtp_c::srtp_profile_get_master_key_length(profile)
                    + srtp_c::srtp_profile_get_master_salt_length(profile);
                assert_eq!(status == OK, len > 0);
                assert_eq!(policy.cipher_key_len, len as c_int);
            }
        }
    }

    fn change(
        &mut self,
        session: *mut Session,
        input: &mut Input<'_>,
        change: unsafe extern "C" fn(*mut Session, *const Policy) -> c_int,
    ) {
        let list = self.policies(input);
        let status = unsafe { change(session, list.first()) };
        assert!(STATUSES.contains(&status), "{status}");
    }

    fn protect(&mut self, session: *mut Session, input: &mut Input<'_>, rtcp: bool, mki: bool) {
        let plain = if rtcp { write_rtcp(input) } else { write_rtp(input) };
        let mut room = 0;
        let length = match rtcp {
            true => srtp_c::srtp_get_protect_rtcp_trailer_length,
            false => srtp_c::srtp_get_protect_trailer_length,
        };
        let status = unsafe { length(session, u32::from(mki), 0, &raw mut room) };
        assert_eq!(status == OK, !session.is_null());
        let (stated, key) = (stated_length(input, plain.len()), u32::from(input.byte()));
        let mut packet = Packet::new(&plain, room as usize, stated);
        let status = packet.pass(|packet, len| unsafe {
            match (rtcp, mki) {
                (false, false) => srtp_c::srtp_protect(session, packet, len),
                (false, true) => srtp_c::srtp_protect_mki(session, packet, len, 1, key % 4),
                (true, false) => srtp_c::srtp_protect_rtcp(session, packet, len),
                (true, true) => srtp_c::srtp_protect_rtcp_mki(session, packet, len, 1, key % 4),
            }
        });
        if status != OK {
            return;
        }
        let protected = packet.bytes();
        assert!(protected.len() > stated as usize && protected.len() <= stated as usize + room as usize);
        // One key stream for two packets shows as two packets that are alike, if what they carry is.
        let protected = (session, protected.to_vec());
        assert!(self.repeats || !self.protected.contains(&protected), "an index is used twice");
        self.plain.insert(plain[..stated as usize].to_vec());
        self.protected.push(protected);
    }

    fn unprotect(&mut self, session: *mut Session, input: &mut Input<'_>, rtcp: bool, mki: bool) {
        let which = usize::from(input.byte());
        let mut received = match self.protected.len() {
            0 => input.bytes(which).to_vec(),
            number if which < 0xe0 => self.protected[which % number].1.clone(),
            _ => input.bytes(which - 0xc0).to_vec(),
        };
        // Mostly as it was sent.
        let (at, with) = (usize::from(input.byte()), input.byte());
        if let Some(byte) = received.get_mut(at) {
            *byte ^= with;
        }
        let stated = stated_length(input, received.len());
        let mut packet = Packet::new(&received, 0, stated);
        let status = packet.pass(|packet, len| unsafe {
            match (rtcp, mki) {
                (false, false) => srtp_c::srtp_unprotect(session, packet, len),
                (false, true) => srtp_c::srtp_unprotect_mki(session, packet, len, 1),
                (true, false) => srtp_c::srtp_unprotect_rtcp(session, packet, len),
                (true, true) => srtp_c::srtp_unprotect_rtcp_mki(session, packet, len, 1),
            }
        });
        if status == OK && !self.short_tags {
            assert!(self.plain.contains(packet.bytes()), "a packet that was never sent is delivered");
        }
    }
}

/// A packet as C hands it over.
struct Packet {
    memory: Box<[u8]>,
    before: Box<[u8]>,
    stated: c_int,
    len: c_int,
}

impl Packet {
    fn new(bytes: &[u8], room: usize, stated: c_int) -> Self {
        let end = usize::try_from(stated).unwrap_or(0);
        let mut memory = bytes[..end].to_vec();
        memory.resize(end + room, 0xa5);
        let memory: Box<[u8]> = memory.into();
        Self { before: memory.clone(), memory, stated, len: stated }
    }

    /// Calls, and checks what is true of each call.
    fn pass(&mut self, call: impl FnOnce(*mut c_void, *mut c_int) -> c_int) -> c_int {
        let status = call(self.memory.as_mut_ptr().cast(), &raw mut self.len);
        assert!(STATUSES.contains(&status), "{status}");
        if status != OK {
            assert_eq!(self.len, self.stated, "{status}");
            let end = usize::try_from(self.stated).unwrap_or(0);
            assert_eq!(self.memory[..end], self.before[..end], "{status}");
        }
        status
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[..self.len as usize]
    }
}

/// One of few, so that they meet again.
fn ssrc(byte: u8) -> u32 {
    0x5151_0000 + u32::from(byte % 3)
}

/// Mostly what there is, now and then less, or below 0.
fn stated_length(input: &mut Input<'_>, len: usize) -> c_int {
    match input.byte() {
        0xff => c_int::MIN,
        0xfe => -1,
        short @ 0xc0.. => len.min(usize::from(short - 0xc0)) as c_int,
        _ => len as c_int,
    }
}

/// Puts another number into a policy.
fn alter(policy: &mut CryptoPolicy, input: &mut Input<'_>) {
    let (field, value) = (input.byte(), i32::from(input.short() as i16));
    match field % 6 {
        0 => policy.cipher_type = value as u32,
        1 => policy.cipher_key_len = value,
        2 => policy.auth_type = value as u32,
        3 => policy.auth_key_len = value,
        4 => policy.auth_tag_len = value,
        _ => policy.sec_serv = value,
    }
}

/// A packet of one of few streams; its payload is the same for all of its length.
fn write_rtp(input: &mut Input<'_>) -> Vec<u8> {
    let (first, which, len) = (input.byte(), input.byte(), usize::from(input.byte() % 64));
    let sequence =
        if first & 0x40 == 0 { 0xfffe_u16.wrapping_add(u16::from(which >> 4)) } else { input.short() };
    let mut packet = vec![first & 0x3f | if first & 0xc0 == 0xc0 { 0x40 } else { 0x80 }, 96];
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 1]);
    packet.extend(ssrc(which).to_be_bytes());
    packet.extend(input.bytes(4 * usize::from(first & 0x0f)));
    packet.resize(packet.len() + len, 0x70);
    packet
}

fn write_rtcp(input: &mut Input<'_>) -> Vec<u8> {
    let (which, len) = (input.byte(), usize::from(input.byte() % 64));
    let mut packet = vec![0x80, 200, 0, 1];
    packet.extend(ssrc(which).to_be_bytes());
    packet.resize(packet.len() + len, 0x70);
    packet
}
