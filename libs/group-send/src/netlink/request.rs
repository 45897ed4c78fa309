//! Requests to the kernel, written into a buffer that is used again.

use super::message::{ATTRIBUTE_HEADER, LINK_FIXED, MESSAGE_HEADER, NLM_F_DUMP, NLM_F_REQUEST, align};
#[cfg(any(feature = "af-xdp", feature = "tc-clone", feature = "internals"))]
use std::net::IpAddr;

/// A request under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Begins a question about one object: its type and the structure that goes first.
    pub(crate) fn one(&mut self, kind: u16, fixed: &[u8]) -> &mut Self {
        self.begin(kind, NLM_F_REQUEST, fixed)
    }

    /// Begins a question about all objects.
    pub(crate) fn all(&mut self, kind: u16, fixed: &[u8]) -> &mut Self {
        self.begin(kind, NLM_F_REQUEST | NLM_F_DUMP, fixed)
    }

    fn begin(&mut self, kind: u16, flags: u16, fixed: &[u8]) -> &mut Self {
        self.bytes.clear();
        self.bytes.resize(MESSAGE_HEADER, 0);
        self.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.append(fixed)
    }

    /// Appends an attribute. Its payload is an address or a number, so that the length fits.
    pub(crate) fn attribute(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        let length = (ATTRIBUTE_HEADER + payload.len()) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.append(payload)
    }

    /// Appends an attribute that is an address.
    #[cfg(any(feature = "af-xdp", feature = "tc-clone", feature = "internals"))]
    pub(crate) fn address(&mut self, kind: u16, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// The message, with the number that its answers will carry.
    pub(crate) fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }

    fn append(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(align(self.bytes.len()), 0);
        self
    }
}

/// `struct ifinfomsg` of a question for one interface; index 0 if it is named by an attribute.
pub(crate) fn link_fixed(index: u32) -> [u8; LINK_FIXED] {
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed
}
