//! A client that signs its C1 gets a signed S1 and a proof in S2, in its own scheme; any other gets an echo.

use hmac::{Hmac, KeyInit, Mac};
use rtmp::handshake::{ClientHandshake, HandshakeForm, ServerHandshake};
use sha2::Sha256;

const PLAYER: &[u8] = b"Genuine Adobe Flash Player 001";
const SERVER: &[u8] = b"Genuine Adobe Flash Media Server 001";
const TAIL: [u8; 32] = *b"\xf0\xee\xc2\x4a\x80\x68\xbe\xe8\x2e\x00\xd0\xd1\x02\x9e\x7e\x57\
                          \x6e\xec\x5d\x2d\x29\x80\x6f\xab\x93\xb8\xe6\x36\xcf\xeb\x31\xae";

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// The digest of a block and whether it is right, computed apart from the crate's own code.
fn digest(block: &[u8], part: usize, key: &[u8]) -> (Vec<u8>, bool) {
    let sum: usize = (0..4).map(|index| block[part + index] as usize).sum();
    let at = part + 4 + sum % 728;
    let expected = hmac(key, &[&block[..at], &block[at + 32..]].concat());
    (block[at..at + 32].to_vec(), block[at..at + 32] == expected[..])
}

fn shake(form: HandshakeForm, piece: usize) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (mut c0c1, mut s, mut c2) = (Vec::new(), Vec::new(), Vec::new());
    let mut client = ClientHandshake::new(form, 1, &mut c0c1);
    let mut server = ServerHandshake::new(2);
    for piece in c0c1.chunks(piece) {
        assert!(!server.handle_input(&mut &piece[..], &mut s).unwrap());
        assert!(server.buffered_bytes() <= 1537);
    }
    assert_eq!(server.buffered_bytes(), 0, "C2 is not kept");
    let mut done = false;
    for piece in s.chunks(piece) {
        done = client.handle_input(&mut &piece[..], &mut c2).unwrap();
    }
    assert!(done);
    let follows = [&c2[..], b"next"].concat();
    let mut input = &follows[..];
    assert!(server.handle_input(&mut input, &mut s).unwrap());
    assert_eq!(input, b"next", "bytes behind the handshake are left");
    (c0c1, s, c2)
}

#[test]
fn both_schemes_are_answered_in_kind() {
    for (form, part) in [(HandshakeForm::DigestScheme0, 8), (HandshakeForm::DigestScheme1, 772)] {
        for piece in [1, 100, 5000] {
            let (c0c1, s, c2) = shake(form, piece);
            let (c1, s1, s2) = (&c0c1[1..], &s[1..1537], &s[1537..]);
            let (c1_digest, right) = digest(c1, part, PLAYER);
            assert!(right);
            let (s1_digest, right) = digest(s1, part, SERVER);
            assert!(right);
            let key = hmac(&[SERVER, &TAIL].concat(), &c1_digest);
            assert_eq!(s2[1504..], hmac(&key, &s2[..1504])[..]);
            let key = hmac(&[PLAYER, &TAIL].concat(), &s1_digest);
            assert_eq!(c2[1504..], hmac(&key, &c2[..1504])[..]);
        }
    }
}

#[test]
fn the_simple_form_echoes() {
    let (c0c1, s, c2) = shake(HandshakeForm::Simple, 700);
    assert_eq!(s[1537..], c0c1[1..]);
    assert_eq!(c2, s[1..1537]);
    assert_eq!(s[5..9], [0; 4]);
}

#[test]
fn a_wrong_digest_is_answered_in_the_simple_form() {
    let mut c0c1 = Vec::new();
    ClientHandshake::new(HandshakeForm::DigestScheme0, 1, &mut c0c1);
    c0c1[1500] ^= 1;
    let mut s = Vec::new();
    ServerHandshake::new(2).handle_input(&mut &c0c1[..], &mut s).unwrap();
    assert_eq!(s[1537..], c0c1[1..]);
}

#[test]
fn another_version_is_refused_at_its_first_byte() {
    for first in [0, 2, 6, 8, 0x16, b'G'] {
        assert!(ServerHandshake::new(2).handle_input(&mut &[first][..], &mut Vec::new()).is_err());
    }
}
