//! What a server needs from a ClientHello before it can choose a library: versions and SRTP
//! profiles offered.
//!
//! A ClientHello comes in fragments when it carries a post-quantum key share (1200 bytes and more),
//! so fragments are put together first. The datagrams are kept and given to the library chosen,
//! which reads all of it again.

use srtp::Profile;

use super::DtlsVersion;
use super::record::{CLIENT_HELLO, HANDSHAKE_HEADER_LEN, records, uint24};

/// The offers of a client (RFC 8446 section 4.1.2, RFC 5764 section 4.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// Whether DTLS 1.2 is offered.
    pub offers_1_2: bool,
    /// Whether DTLS 1.3 is offered.
    pub offers_1_3: bool,
    /// SRTP profiles that are known here, in the client's order. At most
    /// [`ClientHello::PROFILES_MAX`].
    pub srtp_profiles: Vec<Profile>,
}

/// Why there is no [`ClientHello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHelloError {
    /// A length points past the end, or something has to be there and is not.
    Malformed,
    /// Longer than [`ClientHelloBuffer::LEN_MAX`], or in more than
    /// [`ClientHelloBuffer::DATAGRAMS_MAX`] datagrams.
    TooLong,
}

/// Puts together the first ClientHello, and keeps the datagrams it came in.
#[derive(Default)]
pub struct ClientHelloBuffer {
    datagrams: Vec<Vec<u8>>,
    message: Vec<u8>,
    /// Bytes of `message` that are there, as ranges without overlap.
    present: Vec<(usize, usize)>,
}

impl ClientHello {
    /// Profiles looked at; there are four with a number.
    pub const PROFILES_MAX: usize = 16;

    /// Reads the body of a ClientHello, without the handshake header.
    ///
    /// ```text
    /// version(2) random(32) session_id<1> cookie<1> cipher_suites<2> compression_methods<1> extensions<2>
    /// ```
    /// where `<n>` is a length of n bytes and then as many bytes.
    ///
    /// # Errors
    /// [`ClientHelloError::Malformed`].
    pub fn parse(body: &[u8]) -> Result<Self, ClientHelloError> {
        let mut reader = Reader(body);
        let version = reader.u16()?;
        reader.take(32)?;
        reader.vector8()?;
        reader.vector8()?;
        reader.vector16()?;
        reader.vector8()?;
        // Versions count downwards: 0xfefd is 1.2. Without the extension below, this field is the
        // highest offered.
        let mut hello = Self { offers_1_2: version == 0xfefd, offers_1_3: false, srtp_profiles: Vec::new() };
        if reader.0.is_empty() {
            return Ok(hello);
        }
        let mut extensions = Reader(reader.vector16()?);
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let data = extensions.vector16()?;
            match kind {
                USE_SRTP => hello.srtp_profiles = srtp_profiles(data)?,
                SUPPORTED_VERSIONS => (hello.offers_1_2, hello.offers_1_3) = versions(data)?,
                _ => {}
            }
        }
        Ok(hello)
    }

    /// The first of `allowed` that the client offers.
    pub fn choose_profile(&self, allowed: &[Profile]) -> Option<Profile> {
        allowed.iter().copied().find(|profile| self.srtp_profiles.contains(profile))
    }

    /// Whether `version` is offered.
    pub fn offers(&self, version: DtlsVersion) -> bool {
        match version {
            DtlsVersion::V1_2 => self.offers_1_2,
            DtlsVersion::V1_3 => self.offers_1_3,
        }
    }
}

impl ClientHelloBuffer {
    /// Longest ClientHello taken, in bytes. One with a post-quantum key share has about 1500.
    pub const LEN_MAX: usize = 8192;
    /// Datagrams kept until the ClientHello is whole.
    pub const DATAGRAMS_MAX: usize = 16;

    /// Takes a datagram of the client; gives the ClientHello when it is whole.
    ///
    /// What is not a fragment of it is ignored, and not kept.
    ///
    /// # Errors
    /// Any [`ClientHelloError`]; what was collected is then discarded, so that a valid one may
    /// follow.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Option<ClientHello>, ClientHelloError> {
        let result = self.add(datagram);
        if result.is_err() {
            *self = Self::default();
        }
        result
    }

    fn add(&mut self, datagram: &[u8]) -> Result<Option<ClientHello>, ClientHelloError> {
        let mut has_fragment = false;
        for record in records(datagram).filter(|record| record.handshake_type() == Some(CLIENT_HELLO)) {
            let Some((header, fragment)) = record.body.split_first_chunk::<HANDSHAKE_HEADER_LEN>() else {
                continue;
            };
            if header[4..6] != [0, 0] {
                continue;
            }
            has_fragment = true;
            self.add_fragment(
                uint24(&header[1..4]),
                uint24(&header[6..9]),
                uint24(&header[9..12]),
                fragment,
            )?;
        }
        if !has_fragment {
            return Ok(None);
        }
        if self.datagrams.len() == Self::DATAGRAMS_MAX {
            return Err(ClientHelloError::TooLong);
        }
        self.datagrams.push(datagram.to_vec());
        if self.present == [(0, self.message.len())] {
            ClientHello::parse(&self.message).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The header has been checked: `offset + length <= total`, and the fragment is `length` bytes
    /// long at least.
    fn add_fragment(
        &mut self,
        total: usize,
        offset: usize,
        length: usize,
        fragment: &[u8],
    ) -> Result<(), ClientHelloError> {
        if total > Self::LEN_MAX {
            return Err(ClientHelloError::TooLong);
        }
        if self.present.is_empty() {
            self.message = vec![0; total];
        }
        if total != self.message.len() || total == 0 || length == 0 {
            return Err(ClientHelloError::Malformed);
        }
        let (start, end) = (offset, offset + length);
        self.message[start..end].copy_from_slice(&fragment[..length]);
        self.present.push((start, end));
        self.present.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(self.present.len());
        for &(start, end) in &self.present {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        self.present = merged;
        Ok(())
    }

    /// The datagrams of the ClientHello, in the order they came.
    pub fn into_datagrams(self) -> Vec<Vec<u8>> {
        self.datagrams
    }
}

/// `profiles<2> mki<1>`.
fn srtp_profiles(data: &[u8]) -> Result<Vec<Profile>, ClientHelloError> {
    let mut list = Reader(Reader(data).vector16()?);
    let mut profiles = Vec::new();
    for _ in 0..ClientHello::PROFILES_MAX {
        if list.0.is_empty() {
            break;
        }
        profiles.extend(Profile::from_dtls_id(list.u16()?));
    }
    Ok(profiles)
}

/// `versions<1>`: whether 1.2 and 1.3 are among them.
fn versions(data: &[u8]) -> Result<(bool, bool), ClientHelloError> {
    let list = Reader(data).vector8()?;
    if list.len() % 2 != 0 {
        return Err(ClientHelloError::Malformed);
    }
    let has = |version: [u8; 2]| list.chunks_exact(2).any(|offered| offered == version);
    Ok((has([0xfe, 0xfd]), has([0xfe, 0xfc])))
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ClientHelloError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ClientHelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, ClientHelloError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, ClientHelloError> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector8(&mut self) -> Result<&'a [u8], ClientHelloError> {
        let len = self.u8()?;
        self.take(len.into())
    }

    fn vector16(&mut self) -> Result<&'a [u8], ClientHelloError> {
        let len = self.u16()?;
        self.take(len.into())
    }
}

const USE_SRTP: u16 = 14;
const SUPPORTED_VERSIONS: u16 = 43;

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these extensions, each a type and its data.
    fn body(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0xfe, 0xfd];
        body.extend([7; 32]);
        body.extend([0, 0, 0, 2, 0xc0, 0x2b, 1, 0]);
        let block: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| {
                [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
            })
            .collect();
        body.extend((block.len() as u16).to_be_bytes());
        body.extend(block);
        body
    }

    fn datagram(message: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
        let fragment = &message[range.clone()];
        let mut bytes = vec![22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend((12 + fragment.len() as u16).to_be_bytes());
        bytes.push(1);
        for number in [message.len(), 0, range.start, fragment.len()] {
            // `message_seq` has two bytes, the others three.
            let digits = (number as u32).to_be_bytes();
            bytes.extend(if number == 0 && bytes.len() == 17 { &digits[2..] } else { &digits[1..] });
        }
        bytes.extend(fragment);
        bytes
    }

    const SRTP: &[u8] = &[0, 6, 0, 1, 0, 8, 0, 7, 0];
    const BOTH: &[u8] = &[4, 0xfe, 0xfc, 0xfe, 0xfd];

    #[test]
    fn versions_and_profiles_are_read() {
        use Profile::{AeadAes128Gcm, AeadAes256Gcm, AesCm128HmacSha1_80};
        let hello = ClientHello::parse(&body(&[(14, SRTP), (0xff01, &[0]), (43, BOTH)])).unwrap();
        assert!(hello.offers_1_2 && hello.offers_1_3);
        assert_eq!(hello.srtp_profiles, [AesCm128HmacSha1_80, AeadAes256Gcm, AeadAes128Gcm]);
        assert_eq!(hello.choose_profile(&[AeadAes128Gcm, AeadAes256Gcm]), Some(AeadAes128Gcm));
        assert_eq!(hello.choose_profile(&[Profile::AesCm128HmacSha1_32]), None);

        let hello = ClientHello::parse(&body(&[])).unwrap();
        assert!(hello.offers_1_2 && !hello.offers_1_3 && hello.srtp_profiles.is_empty());
        let hello = ClientHello::parse(&body(&[(43, &[2, 0xfe, 0xfc])])).unwrap();
        assert!(!hello.offers_1_2 && hello.offers_1_3);
    }

    #[test]
    fn every_length_that_is_cut_is_malformed_or_has_no_extensions() {
        let whole = body(&[(14, SRTP), (43, BOTH)]);
        for len in 0..whole.len() {
            let result = ClientHello::parse(&whole[..len]);
            let without_extensions = len == 42;
            assert_eq!(result.is_ok(), without_extensions, "{len} bytes: {result:?}");
        }
    }

    #[test]
    fn fragments_may_come_in_any_order_twice_and_overlapping() {
        let message = body(&[(14, SRTP), (43, BOTH), (51, &[0; 1300])]);
        let expected = ClientHello::parse(&message).unwrap();
        let end = message.len();
        for ranges in [
            vec![0..1000, 1000..end],
            vec![1000..end, 0..1000],
            vec![0..1000, 0..1000, 500..end],
            vec![700..900, 0..100, 1..800, 850..end],
        ] {
            let mut buffer = ClientHelloBuffer::default();
            let (last, first) = ranges.split_last().unwrap();
            for range in first {
                assert_eq!(buffer.receive(&datagram(&message, range.clone())), Ok(None), "{ranges:?}");
            }
            let hello = buffer.receive(&datagram(&message, last.clone()));
            assert_eq!(hello, Ok(Some(expected.clone())), "{ranges:?}");
            assert_eq!(buffer.into_datagrams().len(), ranges.len());
        }
    }

    #[test]
    fn what_is_no_client_hello_is_ignored_and_not_kept() {
        let message = body(&[(14, SRTP)]);
        let mut buffer = ClientHelloBuffer::default();
        let mut other = datagram(&message, 0..message.len());
        other[13] = 2; // a ServerHello
        let mut second = datagram(&message, 0..message.len());
        second[18] = 1; // the ClientHello after a HelloVerifyRequest
        for datagram in [&other[..], &second, b"", b"\x16", &[0; 1500]] {
            assert_eq!(buffer.receive(datagram), Ok(None));
        }
        assert!(buffer.receive(&datagram(&message, 0..message.len())).unwrap().is_some());
        assert_eq!(buffer.into_datagrams().len(), 1);
    }

    #[test]
    fn a_client_hello_is_neither_too_long_nor_in_too_many_pieces() {
        let message = body(&[(51, &[0; 9000])]);
        let mut buffer = ClientHelloBuffer::default();
        assert_eq!(buffer.receive(&datagram(&message, 0..1000)), Err(ClientHelloError::TooLong));

        let message = body(&[(51, &[0; 1000])]);
        for i in 0..ClientHelloBuffer::DATAGRAMS_MAX {
            assert_eq!(buffer.receive(&datagram(&message, i * 2..i * 2 + 1)), Ok(None));
        }
        assert_eq!(buffer.receive(&datagram(&message, 500..600)), Err(ClientHelloError::TooLong));
        // And then a good one.
        assert!(buffer.receive(&datagram(&message, 0..message.len())).unwrap().is_some());
    }
}
