//! Keys of links and streams, and what is done with those of streams.
//!
//! The types keep nonces from repeating: what seals is made of fresh random bytes, is consumed by its
//! one user, and is neither copied nor read from anywhere.

use aws_lc_rs::hkdf;
use srtp::Backend;
use srtp::aead::{GcmKey, TAG_BYTES};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::authenticator::Authenticator;
use crate::control::{ControlOpener, ControlSealer};
use crate::wire::{TO_RECEIVER, TO_SENDER};

/// What the two nodes of a link share: 32 secret bytes of one connection between them, by TLS
/// exporter (RFC 8446 section 7.5) for example. Never the same for two links, nor again after a
/// reconnect.
#[derive(ZeroizeOnDrop)]
pub struct LinkSecret([u8; 32]);

/// Which end of a link a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node that opened the connection.
    Dialer,
    /// The node that accepted it.
    Listener,
}

impl LinkSecret {
    /// A secret of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The keys of both halves of this node. Consumes the secret, because a second link with the same
    /// keys would count from 0 again.
    pub fn split(self, role: Role) -> (SenderKeys, ReceiverKeys) {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"millstream relay 1").extract(&self.0);
        let other = match role {
            Role::Dialer => Role::Listener,
            Role::Listener => Role::Dialer,
        };
        (
            SenderKeys(DirectionKeys::derive(&secret, role)),
            ReceiverKeys(DirectionKeys::derive(&secret, other)),
        )
    }
}

/// Keys of a link for a [`Sender`](crate::Sender).
#[derive(Debug)]
pub struct SenderKeys(DirectionKeys);

/// Keys of a link for a [`Receiver`](crate::Receiver).
#[derive(Debug)]
pub struct ReceiverKeys(DirectionKeys);

impl SenderKeys {
    pub(crate) fn build(self) -> (Authenticator, ControlSealer, ControlOpener) {
        let DirectionKeys { media, to_receiver, to_sender } = &self.0;
        (
            Authenticator::new(media),
            ControlSealer::new(TO_RECEIVER, to_receiver),
            ControlOpener::new(TO_SENDER, to_sender),
        )
    }
}

impl ReceiverKeys {
    pub(crate) fn build(self) -> (Authenticator, ControlSealer, ControlOpener) {
        let DirectionKeys { media, to_receiver, to_sender } = &self.0;
        (
            Authenticator::new(media),
            ControlSealer::new(TO_SENDER, to_sender),
            ControlOpener::new(TO_RECEIVER, to_receiver),
        )
    }
}

/// Bytes of an AES-128-GCM key and its salt.
pub(crate) const GCM_BYTES: usize = 16 + SALT_BYTES;
const SALT_BYTES: usize = 12;

/// Of the media in one direction, and of the control datagrams that go with it.
#[derive(ZeroizeOnDrop)]
struct DirectionKeys {
    media: [u8; 16],
    to_receiver: [u8; GCM_BYTES],
    to_sender: [u8; GCM_BYTES],
}

impl DirectionKeys {
    fn derive(secret: &hkdf::Prk, sender: Role) -> Self {
        let sender: &[u8] = match sender {
            Role::Dialer => b" from dialer",
            Role::Listener => b" from listener",
        };
        let fill = |label: &[u8], out: &mut [u8]| {
            let info = [label, sender];
            let okm = secret.expand(&info, Length(out.len())).expect("shorter than 255 hashes");
            okm.fill(out).expect("as long as was asked for");
        };
        let mut keys = Self { media: [0; 16], to_receiver: [0; GCM_BYTES], to_sender: [0; GCM_BYTES] };
        fill(b"media", &mut keys.media);
        fill(b"control to receiver", &mut keys.to_receiver);
        fill(b"control to sender", &mut keys.to_sender);
        keys
    }
}

impl fmt::Debug for DirectionKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DirectionKeys(..)")
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Bytes of an [`OpenKey`] in a message between nodes.
pub const OPEN_KEY_BYTES: usize = 4 + GCM_BYTES;

/// The key of a stream for one epoch, to seal with. Only the stream's source has it.
pub struct SealKey(OpenKey);

impl SealKey {
    /// A key of fresh random bytes.
    ///
    /// # Panics
    /// When the operating system gives no random bytes.
    pub fn random(epoch: u32) -> Self {
        let mut bytes = [0; OPEN_KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
        bytes[..4].copy_from_slice(&epoch.to_be_bytes());
        let key = OpenKey::from_bytes(&bytes);
        bytes.zeroize();
        Self(key)
    }

    /// What the nodes of the stream get, over TLS.
    pub fn open_key(&self) -> OpenKey {
        self.0.clone()
    }

    /// Number of the key among those of its stream, rising.
    pub fn epoch(&self) -> u32 {
        self.0.epoch
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SealKey(epoch {})", self.0.epoch)
    }
}

/// The key of a stream for one epoch, to open with.
#[derive(Clone, ZeroizeOnDrop)]
pub struct OpenKey {
    epoch: u32,
    bytes: [u8; GCM_BYTES],
}

impl OpenKey {
    /// A key as another node sent it.
    pub fn from_bytes(bytes: &[u8; OPEN_KEY_BYTES]) -> Self {
        let (epoch, rest) = bytes.split_first_chunk().expect("longer than an epoch");
        let mut key = Self { epoch: u32::from_be_bytes(*epoch), bytes: [0; GCM_BYTES] };
        key.bytes.copy_from_slice(rest);
        key
    }

    /// The key as it is sent to another node, over TLS only. Clear the bytes after use.
    pub fn to_bytes(&self) -> [u8; OPEN_KEY_BYTES] {
        let mut bytes = [0; OPEN_KEY_BYTES];
        bytes[..4].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[4..].copy_from_slice(&self.bytes);
        bytes
    }

    /// Number of the key among those of its stream, rising.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

impl fmt::Debug for OpenKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenKey(epoch {})", self.epoch)
    }
}

/// An AES-128-GCM key and the salt of its nonces.
pub(crate) struct Cipher {
    key: GcmKey,
    salt: [u8; SALT_BYTES],
}

impl Cipher {
    pub(crate) fn new(bytes: &[u8; GCM_BYTES]) -> Self {
        let (key, salt) = bytes.split_first_chunk::<16>().expect("key and salt");
        Self {
            key: GcmKey::new(key, Backend::current()),
            salt: salt.try_into().expect("the rest is the salt"),
        }
    }

    /// Seals in place. **Each number once.**
    #[inline]
    pub(crate) fn seal(&self, number: u64, aad: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES] {
        self.key.seal(&self.nonce(number), aad, None, text)
    }

    /// Opens in place; `false`, and the text as it was, if it was not sealed like this.
    #[inline]
    pub(crate) fn open(&self, number: u64, aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.key.open(&self.nonce(number), aad, text, tag)
    }

    #[inline]
    fn nonce(&self, number: u64) -> [u8; SALT_BYTES] {
        let mut nonce = self.salt;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        nonce
    }
}

/// Seals the packets of a stream in one epoch.
pub(crate) struct Sealer {
    cipher: Cipher,
    epoch: u32,
    /// The next index. Above `INDEX_MAX`, there is none.
    next: u64,
}

impl Sealer {
    pub(crate) fn new(key: SealKey) -> Self {
        Self { cipher: Cipher::new(&key.0.bytes), epoch: key.0.epoch, next: 0 }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Of the packet that is sealed next; the last one again if there is none.
    pub(crate) fn next_index(&self) -> u32 {
        u32::try_from(self.next).unwrap_or(u32::MAX)
    }

    /// Whether so many packets can still be sealed.
    pub(crate) fn has_room(&self, packets: usize) -> bool {
        self.next + packets as u64 <= u64::from(u32::MAX)
    }

    /// Seals a text in place, and returns its index and tag.
    ///
    /// # Panics
    /// Without room.
    #[inline]
    pub(crate) fn seal(&mut self, text: &mut [u8]) -> (u32, [u8; TAG_BYTES]) {
        let index = u32::try_from(self.next).expect("the caller asks for room first");
        self.next += 1;
        (index, self.cipher.seal(index.into(), &[], text))
    }

    /// Goes on from an index, for tests of its end.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, index: u32) {
        self.next = self.next.max(index.into());
    }
}

/// Opens packets of a stream in one epoch.
pub(crate) struct Opener {
    cipher: Cipher,
    epoch: u32,
}

impl Opener {
    pub(crate) fn new(key: &OpenKey) -> Self {
        Self { cipher: Cipher::new(&key.bytes), epoch: key.epoch }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    #[inline]
    pub(crate) fn open(&self, index: u32, text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.cipher.open(index.into(), &[], text, tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_keys_and_each_purpose_has_its_own() {
        let (dialer, dialer_receives) = LinkSecret::new([7; 32]).split(Role::Dialer);
        let (listener, listener_receives) = LinkSecret::new([7; 32]).split(Role::Listener);
        let all =
            |keys: &DirectionKeys| [keys.media.to_vec(), keys.to_receiver.to_vec(), keys.to_sender.to_vec()];
        assert_eq!(all(&dialer.0), all(&listener_receives.0));
        assert_eq!(all(&listener.0), all(&dialer_receives.0));
        let mut prefixes: Vec<Vec<u8>> =
            all(&dialer.0).into_iter().chain(all(&listener.0)).map(|key| key[..16].to_vec()).collect();
        prefixes.sort();
        prefixes.dedup();
        assert_eq!(prefixes.len(), 6);
    }

    #[test]
    fn a_key_seals_its_last_index_and_no_more() {
        let key = SealKey::random(3);
        let opener = Opener::new(&key.open_key());
        let mut sealer = Sealer::new(key);
        sealer.skip_to(u32::MAX - 1);
        assert!(sealer.has_room(1) && !sealer.has_room(2));
        let mut text = *b"the last one";
        let (index, tag) = sealer.seal(&mut text);
        assert_eq!(index, u32::MAX - 1);
        assert!(!sealer.has_room(1));
        assert!(opener.open(index, &mut text, &tag));
        assert_eq!(&text, b"the last one");
    }

    #[test]
    fn keys_survive_the_way_to_another_node_and_do_not_show() {
        let key = SealKey::random(0x0102_0304);
        let open = key.open_key();
        assert_eq!(OpenKey::from_bytes(&open.to_bytes()).to_bytes(), open.to_bytes());
        assert_eq!(format!("{key:?} {open:?}"), "SealKey(epoch 16909060) OpenKey(epoch 16909060)");
    }
}
