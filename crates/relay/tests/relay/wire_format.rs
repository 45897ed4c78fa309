//! The format as the head of the crate draws it, read by hand and with other people's ciphers.

use std::hash::Hasher;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use relay::{Limits, LinkSecret, Outgoing, Role, SealKey, Sender};

use crate::world::{World, rtp};

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(secret: &[u8; 32], info: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    let prk = Salt::new(HKDF_SHA256, b"millstream relay 1").extract(secret);
    prk.expand(&[info], Bytes(N)).unwrap().fill(&mut key).unwrap();
    key
}

fn open(key: &[u8; 28], number: u64, aad: &[u8], sealed: &mut [u8]) -> Vec<u8> {
    let mut nonce: [u8; 12] = key[16..].try_into().unwrap();
    nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, other)| *byte ^= other);
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).unwrap());
    cipher.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(aad), sealed).unwrap().to_vec()
}

#[expect(deprecated, reason = "the standard library's SipHash-2-4 is an oracle by other hands")]
fn siphash(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().unwrap());
    let mut hasher = std::hash::SipHasher::new_with_keys(half(0), half(8));
    hasher.write(bytes);
    hasher.finish()
}

#[test]
fn media_datagrams_are_what_the_documentation_says() {
    let mut world = World::new(1);
    let now = world.now();
    let mut sender = Sender::new(Limits::default());
    let key = SealKey::random(0x0000_0107);
    let stream_key: [u8; 28] = key.open_key().to_bytes()[4..].try_into().unwrap();
    assert_eq!(key.open_key().to_bytes()[..4], [0, 0, 1, 7]);
    let stream = sender.add_stream(key).unwrap();
    let (keys, _) = LinkSecret::new([3; 32]).split(Role::Listener);
    let link = sender.add_link(now, keys).unwrap();
    sender.subscribe(stream, link, 0x1234).unwrap();
    let link_key: [u8; 16] = derive(&[3; 32], b"media from listener");
    let mut out = Outgoing::new();
    for call in 0..3u32 {
        let packets: Vec<Vec<u8>> =
            [300, 303].iter().map(|len| rtp(&mut world.random, call as u16, 7, *len)).collect();
        sender.send(now, stream, &[&packets[0], &packets[1]], &mut out).unwrap();
        let (_, privates) = out.links().next().unwrap();
        for (at, (private, shared)) in privates.iter().zip(out.shared()).enumerate() {
            let number = 2 * call + at as u32;
            assert_eq!(private[..8], [&[0xd1, 7, 0x12, 0x34][..], &number.to_be_bytes()].concat());
            assert_eq!(shared[..4], number.to_be_bytes(), "one link, one stream: the same count");
            // All in little endian: link number, first half of the tag, epoch, handle, index.
            let mut tag = shared[shared.len() - 16..][..8].to_vec();
            tag.reverse();
            let covered =
                [&u64::from(number).to_le_bytes()[..], &tag, &[7, 0x34, 0x12], &number.to_le_bytes()];
            assert_eq!(private[8..], siphash(&link_key, &covered.concat()).to_be_bytes());
            let mut sealed = shared[4..].to_vec();
            let text = open(&stream_key, number.into(), &[], &mut sealed);
            let padding = usize::from(*text.last().unwrap());
            assert_eq!(padding, [3, 0][at]);
            assert_eq!(text[..text.len() - 1 - padding], packets[at]);
        }
    }
}

#[test]
fn control_datagrams_are_what_the_documentation_says() {
    let now = World::new(1).now();
    let mut sender = Sender::new(Limits::default());
    let (keys, _) = LinkSecret::new([3; 32]).split(Role::Dialer);
    sender.add_link(now, keys).unwrap();
    let key: [u8; 28] = derive(&[3; 32], b"control to receiver from dialer");
    let mut counter = 0u64;
    for _ in 0..3 {
        let at = sender.next_timeout().expect("a link without packets has heartbeats too");
        sender.poll_control(at, |_, datagram| {
            let header: [u8; 8] = datagram[..8].try_into().unwrap();
            assert_eq!(u64::from_be_bytes(header), 0xd3 << 56 | counter);
            let text = open(&key, counter, &header, &mut datagram[8..].to_vec());
            let heartbeat = [[6, 0, 0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0, 0, 0]];
            assert_eq!(text, heartbeat.concat(), "nothing was sent, and nothing is kept");
            counter += 1;
        });
    }
    assert_eq!(counter, 3);
}
