//! Requests to the kernel, written into a buffer that is used again.

use super::message::{
    AF_INET, AF_INET6, ATTRIBUTE_HEADER, LINK_FIXED, MESSAGE_HEADER, NLM_F_DUMP, NLM_F_REQUEST, ROUTE_FIXED,
    align,
};
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

/// `struct rtmsg` of a question for the way to one address, from `source` if given.
pub(crate) fn route_fixed(destination: IpAddr, source: Option<IpAddr>) -> [u8; ROUTE_FIXED] {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let mut fixed = [0; ROUTE_FIXED];
    fixed[0] = if destination.is_ipv4() { AF_INET } else { AF_INET6 };
    fixed[1] = bits(destination);
    fixed[2] = source.map_or(0, bits);
    fixed
}

/// `struct ifinfomsg` of a question for one interface; index 0 if it is named by an attribute.
pub(crate) fn link_fixed(index: u32) -> [u8; LINK_FIXED] {
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed
}
