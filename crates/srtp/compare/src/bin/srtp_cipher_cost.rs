//! Measures what the ciphers beneath SRTP cost for one packet, ours beside every library's.
//!
//! Run by `scripts/bench srtp-ciphers`, which says what is measured and how. Key schedules and HMAC
//! states are prepared once per key wherever a library lets one. All contenders seal the same
//! packets first, and their bytes must agree.

use std::time::{Duration, Instant};

use aes::cipher::{InnerIvInit, StreamCipher, StreamCipherCoreWrapper};
use aes::{Aes128, Aes256};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use arrayvec::ArrayVec;
use aws_lc_rs::iv::FixedLength;
use ctr::{CtrCore, flavors};
use hmac::{Hmac, KeyInit, Mac};
use openssl::cipher::{Cipher as OpensslCipher, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::hash::{Hasher, MessageDigest};
use sha1::Sha1;
use srtp::Backend;
use srtp::internals::{CmJob, CmKey, GcmKey, seal};
use srtp_compare::measure::{Cost, cpu_ns, machine, pin_to_core};
use srtp_compare::random::Random;

/// Keys in rotation.
const KEYS: usize = 1000;
/// Packets in rotation, as a send buffer has.
const PACKETS: usize = 64;
/// Bytes before the text: the header, which is only authenticated.
const HEADER: usize = 12;
const SIZES: [usize; 3] = [160, 600, 1200];
const BATCH: usize = 16;
/// Authenticated behind the packet by the counter mode profiles: the rollover counter.
const SUFFIX: [u8; 4] = [0, 0, 0, 7];

/// A cipher with its key length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Suite {
    name: &'static str,
    gcm: bool,
    key_len: usize,
}

const SUITES: [Suite; 4] = [
    Suite { name: "AES-128-GCM", gcm: true, key_len: 16 },
    Suite { name: "AES-256-GCM", gcm: true, key_len: 32 },
    Suite { name: "AES-128-CM+SHA1", gcm: false, key_len: 16 },
    Suite { name: "AES-256-CM+SHA1", gcm: false, key_len: 32 },
];

/// Encryption key, and the authentication key of counter mode.
type Keys = [(Vec<u8>, [u8; 20])];

/// All keys of one implementation.
trait Contender {
    /// Seals packet `i` (of `packets`, in turn) in place with key `i`, for every key, and stores
    /// the tags if asked.
    fn seal_all(&mut self, turn: u32, packets: &mut [Vec<u8>], tags: Option<&mut [[u8; 20]]>);
}

/// A contender, or why it cannot run.
type Made = Result<Box<dyn Contender>, String>;

struct Kind {
    name: &'static str,
    batch: usize,
    make: fn(Suite, &Keys) -> Made,
}

const KINDS: [Kind; 6] = [
    Kind { name: "ours", batch: 1, make: ours },
    Kind { name: "ours", batch: BATCH, make: ours_in_batches },
    Kind { name: "aws-lc-rs", batch: 1, make: aws_lc_rs },
    Kind { name: "ring", batch: 1, make: ring },
    Kind { name: "openssl", batch: 1, make: openssl },
    Kind { name: "rustcrypto", batch: 1, make: rustcrypto },
];

fn main() {
    let (mut core, mut case, mut only) = (1, Duration::from_millis(4000), Vec::<String>::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match (name.as_str(), value.parse()) {
            ("--core", Ok(number)) => core = number,
            ("--case-ms", Ok(number)) => case = Duration::from_millis(number as u64),
            ("--only", _) => only.push(value),
            _ => fail("usage: srtp-cipher-cost [--core N] [--case-ms N] [--only TEXT]..."),
        }
    }
    pin_to_core(core).unwrap_or_else(|why| fail(&why));
    println!("{}", machine());
    println!(
        "backend of ours: {}; core {core}; {KEYS} keys; OpenSSL is {}",
        Backend::current(),
        openssl::version::version()
    );
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for suite in SUITES.into_iter().filter(|suite| only.iter().all(|text| suite.name.contains(text.as_str())))
    {
        measure(suite, case, &mut results, &mut skipped);
    }
    for line in skipped.into_iter().chain(results) {
        println!("{line}");
    }
}

fn measure(suite: Suite, time: Duration, results: &mut Vec<String>, skipped: &mut Vec<String>) {
    let mut random = Random::with_seed(22);
    let mut auth_key = [0; 20];
    let keys: Vec<(Vec<u8>, [u8; 20])> = (0..KEYS)
        .map(|_| {
            random.fill(&mut auth_key);
            (random.bytes(suite.key_len), auth_key)
        })
        .collect();
    let mut contenders = Vec::new();
    for kind in &KINDS {
        match (kind.make)(suite, &keys) {
            Ok(contender) => contenders.push((kind, contender)),
            Err(why) => skipped.push(format!(
                "SKIPPED srtp-ciphers {}: {} batch={}: {why}",
                kind.name, suite.name, kind.batch
            )),
        }
    }
    for bytes in SIZES {
        check(suite, bytes, &mut random, &mut contenders);
        let mut packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| random.bytes(HEADER + bytes)).collect();
        let mut turns = vec![Vec::new(); contenders.len()];
        let begun = Instant::now();
        let mut turn = 1;
        while begun.elapsed() < time || turn < 10 {
            for ((_, contender), turns) in contenders.iter_mut().zip(&mut turns) {
                let begun = cpu_ns();
                contender.seal_all(turn, &mut packets, None);
                turns.push((cpu_ns() - begun) as f64 / KEYS as f64);
            }
            turn += 1;
        }
        let costs: Vec<Cost> = turns.into_iter().map(Cost::of).collect();
        let libraries = contenders.iter().zip(&costs).filter(|((kind, _), _)| kind.name != "ours");
        let best = libraries.map(|(_, cost)| cost.median).fold(f64::NAN, f64::min);
        let mut figures = Vec::new();
        for ((kind, _), cost) in contenders.iter().zip(&costs) {
            let (name, batch, median) = (kind.name, kind.batch, cost.median);
            let label = if batch == 1 { name.into() } else { format!("{name} x{batch}") };
            figures.push(format!("{label} {cost}"));
            results.push(format!(
                "RESULT srtp-ciphers cipher={} contender={name} batch={batch} bytes={bytes} ns={median:.1} vs_best_library={:.2}",
                suite.name,
                best / median
            ));
        }
        println!("{} {bytes} bytes, ns: {}; {} samples", suite.name, figures.join(", "), costs[0].samples);
    }
}

/// Lets everybody seal the same packets and compares text and tags with those of the first.
fn check(suite: Suite, bytes: usize, random: &mut Random, contenders: &mut [(&Kind, Box<dyn Contender>)]) {
    let plain: Vec<Vec<u8>> = (0..KEYS).map(|_| random.bytes(HEADER + bytes)).collect();
    let mut first = None;
    for (kind, contender) in contenders {
        let (mut packets, mut tags) = (plain.clone(), vec![[0; 20]; KEYS]);
        contender.seal_all(0, &mut packets, Some(&mut tags));
        assert_ne!(packets, plain, "{} {}: nothing was encrypted", suite.name, kind.name);
        let first = first.get_or_insert_with(|| (packets.clone(), tags.clone()));
        assert!(*first == (packets, tags), "{} {} batch {}: other bytes", suite.name, kind.name, kind.batch);
    }
}

/// Counter block of a packet, for GCM its first twelve bytes: never the same for two packets of one key.
fn iv(turn: u32, key: usize) -> [u8; 16] {
    let mut iv = [0x51; 16];
    iv[4..8].copy_from_slice(&(key as u32).to_be_bytes());
    iv[8..12].copy_from_slice(&turn.to_be_bytes());
    iv[14..].fill(0);
    iv
}

fn nonce(turn: u32, key: usize) -> [u8; 12] {
    *iv(turn, key).first_chunk().expect("twelve of sixteen")
}

/// A contender whose keys seal one packet each: `(key, turn, number of the key, packet) -> tag`.
struct OneByOne<K, F>(Vec<K>, F);

impl<K, F: FnMut(&mut K, u32, usize, &mut [u8]) -> [u8; 20]> Contender for OneByOne<K, F> {
    fn seal_all(&mut self, turn: u32, packets: &mut [Vec<u8>], mut tags: Option<&mut [[u8; 20]]>) {
        let count = packets.len();
        for (index, key) in self.0.iter_mut().enumerate() {
            let tag = (self.1)(key, turn, index, &mut packets[index % count]);
            match &mut tags {
                Some(tags) => tags[index] = tag,
                None => {
                    std::hint::black_box(tag);
                }
            }
        }
    }
}

fn one_by_one<K: 'static>(
    keys: Vec<K>,
    seal: impl FnMut(&mut K, u32, usize, &mut [u8]) -> [u8; 20] + 'static,
) -> Made {
    Ok(Box::new(OneByOne(keys, seal)))
}

/// A tag of GCM, as long as those of HMAC-SHA1.
fn padded(tag: &[u8]) -> [u8; 20] {
    let mut padded = [0; 20];
    padded[..tag.len()].copy_from_slice(tag);
    padded
}

fn ours(suite: Suite, keys: &Keys) -> Made {
    if suite.gcm {
        let keys = keys.iter().map(|(key, _)| GcmKey::new(key, Backend::current())).collect();
        return one_by_one(keys, |key: &mut GcmKey, turn, index, packet| {
            let (header, text) = packet.split_at_mut(HEADER);
            padded(&key.seal(&nonce(turn, index), header, None, text))
        });
    }
    let keys = keys.iter().map(|(key, auth)| CmKey::new(key, auth, Backend::current())).collect();
    one_by_one(keys, |key: &mut CmKey, turn, index, packet| {
        let mut job = job(key, turn, index, packet);
        seal(std::slice::from_mut(&mut job));
        job.tag
    })
}

fn job<'a>(key: &'a CmKey, turn: u32, index: usize, packet: &'a mut [u8]) -> CmJob<'a> {
    CmJob {
        key,
        iv: iv(turn, index),
        suffix: SUFFIX,
        packet,
        payload_offset: HEADER,
        source: None,
        tag: [0; 20],
    }
}

fn ours_in_batches(suite: Suite, keys: &Keys) -> Made {
    if suite.gcm {
        return Err("GCM has no batches: packets of one call are sealed one after the other".into());
    }
    Ok(Box::new(Batches(keys.iter().map(|(key, auth)| CmKey::new(key, auth, Backend::current())).collect())))
}

struct Batches(Vec<CmKey>);

impl Contender for Batches {
    fn seal_all(&mut self, turn: u32, packets: &mut [Vec<u8>], mut tags: Option<&mut [[u8; 20]]>) {
        // 1000 = 62 * 16 + 8: the last call seals eight, at the price of sixteen.
        let buffers = packets.len() / BATCH;
        for (number, keys) in self.0.chunks(BATCH).enumerate() {
            let (at, first) = (number % buffers.max(1) * BATCH, number * BATCH);
            let packets = if packets.len() >= KEYS { &mut packets[first..] } else { &mut packets[at..] };
            let mut jobs: ArrayVec<CmJob<'_>, BATCH> = ArrayVec::new();
            for (lane, (key, packet)) in keys.iter().zip(packets).enumerate() {
                jobs.push(job(key, turn, first + lane, packet));
            }
            seal(&mut jobs);
            match &mut tags {
                Some(tags) => jobs.iter().enumerate().for_each(|(lane, job)| tags[first + lane] = job.tag),
                None => jobs.iter().for_each(|job| {
                    std::hint::black_box(job.tag);
                }),
            }
        }
    }
}

fn aws_lc_rs(suite: Suite, keys: &Keys) -> Made {
    use aws_lc_rs::{aead, cipher, hmac};
    if suite.gcm {
        let algorithm = if suite.key_len == 16 { &aead::AES_128_GCM } else { &aead::AES_256_GCM };
        let key =
            |(key, _): &(Vec<u8>, _)| aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).unwrap());
        return one_by_one(
            keys.iter().map(key).collect(),
            |key: &mut aead::LessSafeKey, turn, index, packet| {
                let (header, text) = packet.split_at_mut(HEADER);
                let nonce = aead::Nonce::assume_unique_for_key(nonce(turn, index));
                padded(
                    key.seal_in_place_separate_tag(nonce, aead::Aad::from(&*header), text).unwrap().as_ref(),
                )
            },
        );
    }
    let algorithm = if suite.key_len == 16 { &cipher::AES_128 } else { &cipher::AES_256 };
    let key = |(key, auth): &(Vec<u8>, [u8; 20])| {
        let key = cipher::EncryptingKey::ctr(cipher::UnboundCipherKey::new(algorithm, key).unwrap()).unwrap();
        (key, hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, auth)))
    };
    let keys: Vec<(cipher::EncryptingKey, hmac::Context)> = keys.iter().map(key).collect();
    one_by_one(keys, |(key, mac): &mut (cipher::EncryptingKey, hmac::Context), turn, index, packet| {
        let context = cipher::EncryptionContext::Iv128(FixedLength::from(iv(turn, index)));
        key.less_safe_encrypt(&mut packet[HEADER..], context).unwrap();
        let mut mac = mac.clone();
        mac.update(packet);
        mac.update(&SUFFIX);
        padded(mac.sign().as_ref())
    })
}

fn ring(suite: Suite, keys: &Keys) -> Made {
    use ring::aead;
    if !suite.gcm {
        return Err("ring has no AES in counter mode".into());
    }
    let algorithm = if suite.key_len == 16 { &aead::AES_128_GCM } else { &aead::AES_256_GCM };
    let key =
        |(key, _): &(Vec<u8>, _)| aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).unwrap());
    one_by_one(keys.iter().map(key).collect(), |key: &mut aead::LessSafeKey, turn, index, packet| {
        let (header, text) = packet.split_at_mut(HEADER);
        let nonce = aead::Nonce::assume_unique_for_key(nonce(turn, index));
        padded(key.seal_in_place_separate_tag(nonce, aead::Aad::from(&*header), text).unwrap().as_ref())
    })
}

fn openssl(suite: Suite, keys: &Keys) -> Made {
    let cipher: &'static CipherRef = match (suite.gcm, suite.key_len) {
        (true, 16) => OpensslCipher::aes_128_gcm(),
        (true, _) => OpensslCipher::aes_256_gcm(),
        (false, 16) => OpensslCipher::aes_128_ctr(),
        (false, _) => OpensslCipher::aes_256_ctr(),
    };
    let context = |key: &[u8]| {
        let mut context = CipherCtx::new().unwrap();
        context.encrypt_init(Some(cipher), Some(key), Some(&[0; 16][..cipher.iv_length()])).unwrap();
        context
    };
    if suite.gcm {
        let keys = keys.iter().map(|(key, _)| context(key)).collect();
        return one_by_one(keys, |context: &mut CipherCtx, turn, index, packet| {
            let (header, text) = packet.split_at_mut(HEADER);
            let len = text.len();
            context.encrypt_init(None, None, Some(&nonce(turn, index))).unwrap();
            context.cipher_update(header, None).unwrap();
            context.cipher_update_inplace(text, len).unwrap();
            context.cipher_final(&mut []).unwrap();
            let mut tag = [0; 16];
            context.tag(&mut tag).unwrap();
            padded(&tag)
        });
    }
    // Its HMAC interface prepares the key again for every packet; two digests that have absorbed
    // the key's block do not.
    let digest = |auth: &[u8; 20], pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(auth).for_each(|(byte, key)| *byte ^= key);
        let mut hasher = Hasher::new(MessageDigest::sha1()).unwrap();
        hasher.update(&block).unwrap();
        hasher
    };
    let key = |(key, auth): &(Vec<u8>, [u8; 20])| (context(key), digest(auth, 0x36), digest(auth, 0x5c));
    let keys: Vec<(CipherCtx, Hasher, Hasher)> = keys.iter().map(key).collect();
    one_by_one(keys, |(context, inner, outer): &mut (CipherCtx, Hasher, Hasher), turn, index, packet| {
        let len = packet.len() - HEADER;
        context.encrypt_init(None, None, Some(&iv(turn, index))).unwrap();
        context.cipher_update_inplace(&mut packet[HEADER..], len).unwrap();
        let (mut inner, mut outer) = (inner.clone(), outer.clone());
        inner.update(packet).unwrap();
        inner.update(&SUFFIX).unwrap();
        outer.update(&inner.finish().unwrap()).unwrap();
        padded(&outer.finish().unwrap())
    })
}

fn rustcrypto(suite: Suite, keys: &Keys) -> Made {
    fn gcm<C>(keys: &Keys) -> Made
    where
        C: AeadInOut<NonceSize = aes_gcm::aead::consts::U12> + KeyInit + 'static,
    {
        let keys = keys.iter().map(|(key, _)| <C as KeyInit>::new_from_slice(key).unwrap()).collect();
        one_by_one(keys, |key: &mut C, turn, index, packet| {
            let (header, text) = packet.split_at_mut(HEADER);
            padded(&key.encrypt_inout_detached(&nonce(turn, index).into(), header, text.into()).unwrap())
        })
    }
    macro_rules! counter_mode {
        ($aes:ty) => {{
            let key = |(key, auth): &(Vec<u8>, [u8; 20])| {
                let mac = <Hmac<Sha1> as KeyInit>::new_from_slice(auth).unwrap();
                (<$aes as KeyInit>::new_from_slice(key).unwrap(), mac)
            };
            let keys: Vec<($aes, Hmac<Sha1>)> = keys.iter().map(key).collect();
            one_by_one(keys, |(key, mac): &mut ($aes, Hmac<Sha1>), turn, index, packet| {
                let core = CtrCore::<&$aes, flavors::Ctr128BE>::inner_iv_init(key, &iv(turn, index).into());
                StreamCipherCoreWrapper::from_core(core).apply_keystream(&mut packet[HEADER..]);
                let mut mac = mac.clone();
                mac.update(packet);
                mac.update(&SUFFIX);
                mac.finalize().into_bytes().into()
            })
        }};
    }
    match (suite.gcm, suite.key_len) {
        (true, 16) => gcm::<Aes128Gcm>(keys),
        (true, _) => gcm::<Aes256Gcm>(keys),
        (false, 16) => counter_mode!(Aes128),
        (false, _) => counter_mode!(Aes256),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}
