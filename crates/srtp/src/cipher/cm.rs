//! Session keys of AES in counter mode with HMAC-SHA1 (RFC 3711 sections 4.1.1 and 4.2.1, RFC
//! 6188), and batches of packets under such keys.
//!
//! SHA-1 of one packet is a chain of instructions that wait for each other, but packets can be
//! hashed side by side. Here is decided which way a batch takes; how the work is done is in
//! `avx512.rs` (counter mode, sixteen hashes), `chain.rs` (one or two hashes), `sha_ni.rs` (CPUs
//! without AVX-512) and `library.rs`. What the counter block and the authenticated suffix of a
//! packet are is decided by the caller.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "without vector code there is nothing to choose from")
)]

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod chain;
mod library;
#[cfg(test)]
mod oracle;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;
use zeroize::Zeroize;

use crate::Backend;

/// Longest packet in bytes. Its 4096 cipher blocks cannot carry the 16-bit block counter, which
/// starts at 0 in every packet (RFC 3711 section 4.1.1), into the packet index above it.
pub(crate) const PACKET_BYTES_MAX: usize = 1 << 16;

/// Bytes of HMAC-SHA1 before it is truncated to the tag of the profile.
pub(crate) const MAC_BYTES: usize = 20;

/// One session key: AES-128 or AES-256, and HMAC-SHA1. Its memory is cleared when it is dropped.
pub struct CmKey(Inner);

/// Not boxed: with many keys in rotation each pointer is one more cache miss.
enum Inner {
    #[cfg(target_arch = "x86_64")]
    Aes128(avx512::Key128),
    #[cfg(target_arch = "x86_64")]
    Aes256(avx512::Key256),
    #[cfg(target_arch = "x86_64")]
    ShaNi(Box<sha_ni::Key>),
    Library(Box<library::Key>),
}

impl CmKey {
    /// Prepares an encryption key of 16 or 32 bytes and an authentication key.
    ///
    /// # Panics
    /// When the encryption key has another length, or this CPU cannot run `backend`.
    pub fn new(encryption_key: &[u8], auth_key: &[u8; 20], backend: Backend) -> Self {
        assert!(backend.is_supported(), "the caller chose a backend of this CPU");
        Self(match (backend, encryption_key.len()) {
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx512, 16) => Inner::Aes128(avx512::Key128::new(encryption_key, auth_key)),
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx512, _) => Inner::Aes256(avx512::Key256::new(encryption_key, auth_key)),
            #[cfg(target_arch = "x86_64")]
            (Backend::ShaNi, _) => Inner::ShaNi(Box::new(sha_ni::Key::new(encryption_key, auth_key))),
            _ => Inner::Library(Box::new(library::Key::new(encryption_key, auth_key))),
        })
    }

    /// The key of HMAC-SHA1 and the code that takes it; none of a library's key, whose messages are hashed
    /// one by one.
    #[inline]
    pub(crate) fn mac(&self) -> Option<(&Midstates, Kernel)> {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Inner::Aes128(key) => Some((&key.mac, Kernel::Wide(key.supported))),
            #[cfg(target_arch = "x86_64")]
            Inner::Aes256(key) => Some((&key.mac, Kernel::Wide(key.supported))),
            #[cfg(target_arch = "x86_64")]
            Inner::ShaNi(key) => Some((&key.mac, Kernel::Narrow)),
            Inner::Library(_) => None,
        }
    }
}

/// One packet to be sealed, authenticated or decrypted.
pub struct CmJob<'a> {
    /// Its session key.
    pub key: &'a CmKey,
    /// First counter block (RFC 3711 section 4.1.1). Its low 16 bits count blocks and are zero.
    pub iv: [u8; 16],
    /// Authenticated after the packet: the ROC of SRTP, or the E flag and index of SRTCP.
    pub suffix: [u8; 4],
    /// Header, then payload: the authenticated portion without the suffix. At most 64 KiB.
    pub packet: &'a mut [u8],
    /// Where the encrypted portion begins.
    pub payload_offset: usize,
    /// Plaintext to encrypt into `packet[payload_offset..]`, as long as that; none to encrypt in place.
    pub source: Option<&'a [u8]>,
    /// Output: HMAC-SHA1 of packet and suffix.
    pub tag: [u8; MAC_BYTES],
}

impl CmJob<'_> {
    #[inline]
    fn check(&self) {
        assert!(self.packet.len() <= PACKET_BYTES_MAX, "a datagram is shorter than 64 KiB");
        assert!(self.payload_offset <= self.packet.len(), "the payload begins within the packet");
        let payload_len = self.packet.len() - self.payload_offset;
        assert!(
            self.source.is_none_or(|source| source.len() == payload_len),
            "source and payload are equally long"
        );
        debug_assert_eq!(self.iv[14..], [0, 0], "the block counter starts at 0");
    }
}

/// Encrypts every packet, then authenticates what came out. Lengths and keys may differ.
///
/// # Panics
/// When a packet is longer than `PACKET_BYTES_MAX`, a payload begins behind its packet's end, or
/// a source is not as long as the payload.
#[inline]
pub fn seal(jobs: &mut [CmJob<'_>]) {
    for jobs in jobs.chunks_mut(LANES) {
        run::<true>(jobs);
    }
}

/// Computes the tag of every packet as it stands.
///
/// # Panics
/// As [`seal`].
#[inline]
pub fn authenticate(jobs: &mut [CmJob<'_>]) {
    for jobs in jobs.chunks_mut(LANES) {
        run::<false>(jobs);
    }
}

/// Decrypts the payload in place. Call it after the tag was found right.
///
/// # Panics
/// As [`seal`].
#[inline]
pub fn decrypt(job: &mut CmJob<'_>) {
    job.check();
    apply_key_stream(job);
}

/// Encrypts a packet whose tag is computed later ([`hmac`]).
#[inline]
pub(crate) fn encrypt(job: &mut CmJob<'_>) {
    job.check();
    apply_key_stream(job);
}

/// Up to [`LANES`] packets, by the backends of their keys.
#[inline]
fn run<const ENCRYPT: bool>(jobs: &mut [CmJob<'_>]) {
    #[cfg(target_arch = "x86_64")]
    if let [job] = jobs
        && let Some((mac, Kernel::Wide(supported))) = job.key.mac()
    {
        job.check();
        if ENCRYPT {
            apply_key_stream(job);
        }
        let message = Message { mac, bytes: job.packet, suffix: job.suffix };
        [job.tag] = chain::hmac(supported, &[message]);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    let (mut wide, mut narrow) = (ArrayVec::<_, LANES>::new(), ArrayVec::<_, LANES>::new());
    for job in jobs {
        job.check();
        if ENCRYPT {
            apply_key_stream(job);
        }
        match &job.key.0 {
            #[cfg(target_arch = "x86_64")]
            Inner::Aes128(_) | Inner::Aes256(_) => wide.push(job),
            #[cfg(target_arch = "x86_64")]
            Inner::ShaNi(_) => narrow.push(job),
            Inner::Library(key) => job.tag = key.mac.of(job.packet, &job.suffix),
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        set_tags(&mut wide);
        set_tags(&mut narrow);
    }
}

/// Sets the tags of packets whose keys are of one kernel.
#[cfg(target_arch = "x86_64")]
#[inline]
fn set_tags(jobs: &mut [&mut CmJob<'_>]) {
    let Some((_, kernel)) = jobs.first().and_then(|job| job.key.mac()) else { return };
    let tags = {
        let messages: ArrayVec<Message<'_>, LANES> = jobs
            .iter()
            .filter_map(|job| Some(Message { mac: job.key.mac()?.0, bytes: job.packet, suffix: job.suffix }))
            .collect();
        hmac(kernel, &messages)
    };
    for (job, tag) in jobs.iter_mut().zip(tags) {
        job.tag = tag;
    }
}

/// What is hashed: the authenticated portion of a packet, and what is authenticated after it.
pub(crate) struct Message<'a> {
    pub(crate) mac: &'a Midstates,
    pub(crate) bytes: &'a [u8],
    pub(crate) suffix: [u8; 4],
}

/// The code that hashes under a key: messages of one kernel can be hashed side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    /// Two messages at a time by the SHA extensions.
    #[cfg(target_arch = "x86_64")]
    Narrow,
    /// By AVX-512.
    #[cfg(target_arch = "x86_64")]
    Wide(avx512::Supported),
}

/// HMAC-SHA1 of up to [`LANES`] messages whose keys are of this kernel. The tags beyond them mean nothing.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn hmac(kernel: Kernel, messages: &[Message<'_>]) -> [[u8; MAC_BYTES]; LANES] {
    if let Kernel::Wide(supported) = kernel {
        let blocks: ArrayVec<usize, LANES> =
            messages.iter().map(|message| hashed_blocks(message.bytes.len())).collect();
        if plan(&blocks) == Plan::Lanes {
            return avx512::hmac(supported, messages);
        }
    }
    fn chains<const N: usize>(kernel: Kernel, messages: &[Message<'_>; N]) -> [[u8; MAC_BYTES]; N] {
        match kernel {
            Kernel::Narrow => sha_ni::hmac(messages),
            Kernel::Wide(supported) => chain::hmac(supported, messages),
        }
    }
    let mut tags = [[0; MAC_BYTES]; LANES];
    let (pairs, alone) = messages.as_chunks::<2>();
    for (tags, pair) in tags.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
        *tags = chains(kernel, pair);
    }
    if let [message] = alone {
        [tags[messages.len() - 1]] = chains(kernel, std::array::from_ref(message));
    }
    tags
}

/// Without vector code no key has a kernel.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hmac(kernel: Kernel, _messages: &[Message<'_>]) -> [[u8; MAC_BYTES]; LANES] {
    match kernel {}
}

/// Counter mode over the payload of one packet; its own inverse.
#[inline]
fn apply_key_stream(job: &mut CmJob<'_>) {
    let text = &mut job.packet[job.payload_offset..];
    match &job.key.0 {
        #[cfg(target_arch = "x86_64")]
        Inner::Aes128(key) => key.encrypt(&job.iv, job.source, text),
        #[cfg(target_arch = "x86_64")]
        Inner::Aes256(key) => key.encrypt(&job.iv, job.source, text),
        #[cfg(target_arch = "x86_64")]
        Inner::ShaNi(key) => key.aes.encrypt(&job.iv, job.source, text),
        Inner::Library(key) => key.aes.encrypt(&job.iv, job.source, text),
    }
}

/// How up to [`LANES`] packets are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Two at a time by the SHA extensions, a last one alone.
    Pairs,
    /// All at once, a lane each; costs the same however many lanes are in use.
    Lanes,
}

/// Chooses by the blocks of each packet, the outer hash included.
///
/// Lanes cost [`LANES_PS`] and [`LANES_ROW_PS`] for each block of the longest packet. A pair costs
/// [`PAIR_PS`] and [`PAIR_ROW_PS`] for each block of the longer, a packet left alone [`ALONE_PS`]
/// and [`ALONE_ROW_PS`] for each of its own. For equal lengths lanes win from seven packets on; one
/// long packet among short ones takes the pairs.
fn plan(blocks: &[usize]) -> Plan {
    let pairs: usize = blocks
        .chunks(2)
        .map(|pair| match *pair {
            [first, second] => PAIR_PS + first.max(second) * PAIR_ROW_PS,
            [only] => ALONE_PS + only * ALONE_ROW_PS,
            _ => 0,
        })
        .sum();
    let longest = blocks.iter().copied().max().unwrap_or(0);
    if LANES_PS + longest * LANES_ROW_PS < pairs { Plan::Lanes } else { Plan::Pairs }
}

/// Blocks of HMAC-SHA1 of a packet and its suffix that are hashed per packet: the inner ones
/// without the key's, with the padding, and one outer.
pub(crate) fn hashed_blocks(packet_len: usize) -> usize {
    inner_blocks(packet_len) + 1
}

/// Blocks of packet, suffix, the byte 0x80 and the 8-byte length.
#[inline]
fn inner_blocks(packet_len: usize) -> usize {
    (packet_len + 4 + 9).div_ceil(BLOCK_BYTES)
}

/// HMAC-SHA1 states after the key's block (RFC 2104 section 4), in the order in which kernels load
/// them: inner A to D, outer A to D, inner E, outer E, two words of nothing.
#[derive(Clone)]
#[repr(C, align(16))]
pub(crate) struct Midstates([u32; 12]);

#[cfg(target_arch = "x86_64")]
impl Midstates {
    /// **The CPU must run [`Backend::ShaNi`](crate::Backend::ShaNi)**, which is asserted here: having them is
    /// the safety argument of hashing with them.
    fn new(auth_key: &[u8; 20]) -> Self {
        let state = |pad: u8| {
            let mut block = [pad; BLOCK_BYTES];
            block.iter_mut().zip(auth_key).for_each(|(byte, key)| *byte ^= key);
            let state = sha_ni::compress(SHA1_INITIAL, &block);
            block.zeroize();
            state
        };
        let ([a, b, c, d, e], outer) = (state(0x36), state(0x5c));
        Self([a, b, c, d, outer[0], outer[1], outer[2], outer[3], e, outer[4], 0, 0])
    }
}

impl Drop for Midstates {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Packets hashed side by side.
pub(crate) const LANES: usize = 16;
/// Bytes of a block of SHA-1.
const BLOCK_BYTES: usize = 64;
/// Initial hash value of SHA-1 (FIPS 180-4 section 5.3.1).
#[cfg(target_arch = "x86_64")]
const SHA1_INITIAL: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

// Picoseconds, measured; only their ratios matter. See docs/decisions/0009-counter-mode-and-sha1-kernels.md.
const LANES_PS: usize = 160_000;
const LANES_ROW_PS: usize = 130_000;
const PAIR_PS: usize = 45_000;
const PAIR_ROW_PS: usize = 40_000;
const ALONE_PS: usize = 30_000;
const ALONE_ROW_PS: usize = 24_000;
