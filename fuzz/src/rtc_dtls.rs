//! What the fuzz target of ClientHellos checks: fragments give what the whole gives, and limits hold.
//!
//! `crates/rtc/tests/rtc/dtls/fuzz_corpus.rs` includes this file and replays the kept corpus.

use rtc::dtls::{ClientHello, ClientHelloBuffer, ClientHelloError};

/// The first byte chooses: datagrams as they are, or a ClientHello that is cut into fragments.
pub fn client_hello(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    if choice & 1 == 0 { datagrams(rest) } else { fragments(usize::from(choice >> 1) + 1, rest) }
}

/// Datagrams, each after two bytes of length.
fn datagrams(mut rest: &[u8]) {
    let mut buffer = ClientHelloBuffer::default();
    while let Some((len, after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(usize::from(u16::from_be_bytes(*len)).min(after.len()));
        rest = after;
        if let Ok(Some(hello)) = buffer.receive(datagram) {
            assert!(hello.srtp_profiles.len() <= ClientHello::PROFILES_MAX);
            assert!(buffer.into_datagrams().len() <= ClientHelloBuffer::DATAGRAMS_MAX);
            return;
        }
    }
}

/// A ClientHello, whole and in fragments of `size` bytes, the last ones first.
fn fragments(size: usize, body: &[u8]) {
    let whole = ClientHello::parse(body);
    let mut buffer = ClientHelloBuffer::default();
    let count = body.len().div_ceil(size);
    let mut result = Ok(None);
    for (i, fragment) in body.chunks(size).enumerate().rev() {
        assert!(matches!(result, Ok(None)), "before the last fragment: {result:?}");
        result = buffer.receive(&datagram(body.len(), i * size, fragment));
        if result == Err(ClientHelloError::TooLong) {
            assert!(body.len() > ClientHelloBuffer::LEN_MAX || count > ClientHelloBuffer::DATAGRAMS_MAX);
            return;
        }
    }
    if count > 0 {
        assert_eq!(result, whole.map(Some));
    }
}

/// A record of one fragment (RFC 6347 section 4.2.2).
fn datagram(total: usize, offset: usize, fragment: &[u8]) -> Vec<u8> {
    let uint24 = |number: usize| [(number >> 16) as u8, (number >> 8) as u8, number as u8];
    let mut bytes = vec![22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend((12 + fragment.len() as u16).to_be_bytes());
    bytes.push(1);
    bytes.extend(uint24(total));
    bytes.extend([0, 0]);
    bytes.extend(uint24(offset));
    bytes.extend(uint24(fragment.len()));
    bytes.extend(fragment);
    bytes
}
