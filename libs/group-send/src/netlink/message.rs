//! rtnetlink messages as they lie in a buffer: header, body, attributes.
//!
//! ```text
//!  0               2               4               6               8
//! +---------------+---------------+---------------+---------------+
//! | length, with header           | type          | flags         |   linux/netlink.h: nlmsghdr
//! | sequence number               | port          |
//! +-------------------------------+-------------------------------+
//! | body: a fixed structure (rtmsg, ndmsg, ifinfomsg ...), then attributes: u16 length, u16 type, payload, each
//! | aligned to 4 bytes
//! ```
//! Numbers are in host order, addresses in network order. Any bytes may be read: an invalid length
//! ends the iteration, an attribute of unexpected size counts as absent. Newer kernels' attributes
//! are skipped.

/// A message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The messages of one datagram, until the first that is cut short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = u32_at(self.0, 0)? as usize;
        let body = self.0.get(MESSAGE_HEADER..length)?;
        let message = Message {
            kind: u16_at(self.0, 4)?,
            flags: u16_at(self.0, 6)?,
            sequence: u32_at(self.0, 8)?,
            body,
        };
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some(message)
    }
}

impl Message<'_> {
    /// The kernel's error number of an `NLMSG_ERROR`; 0 acknowledges.
    pub(crate) fn error(&self) -> Option<i32> {
        (self.kind == NLMSG_ERROR).then(|| i32_at(self.body, 0).map(i32::saturating_neg)).flatten()
    }
}

/// The attributes behind a fixed structure, or within another attribute, until the first that is
/// cut short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes of `body`, which begins with a structure of `fixed` bytes.
    pub(crate) fn after(body: &'a [u8], fixed: usize) -> Self {
        Self(body.get(align(fixed)..).unwrap_or_default())
    }
}

impl<'a> Iterator for Attributes<'a> {
    /// Type without the flags for nesting and byte order, and payload.
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & ATTRIBUTE_TYPE_MASK;
        let payload = self.0.get(ATTRIBUTE_HEADER..length)?;
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// The number of the interface in the body of an `RTM_NEWLINK` or `RTM_NEWADDR`, which have it at
/// the same offset.
pub(crate) fn interface_index(body: &[u8]) -> Option<u32> {
    u32_at(body, 4)
}

/// The name of the interface in the body of an `RTM_NEWLINK`.
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
pub(crate) fn interface_name(body: &[u8]) -> Option<String> {
    let (_, name) = Attributes::after(body, LINK_FIXED).find(|(kind, _)| *kind == IFLA_IFNAME)?;
    String::from_utf8(name.strip_suffix(&[0]).unwrap_or(name).to_vec()).ok()
}

/// A queueing discipline of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qdisc<'a> {
    pub(crate) interface: u32,
    /// `TC_H_ROOT` for the one that others hang from.
    pub(crate) parent: u32,
    /// `fq`, `etf`, `noqueue` ...
    pub(crate) kind: &'a str,
}

impl<'a> Qdisc<'a> {
    /// The body of an `RTM_NEWQDISC` (`struct tcmsg`).
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let (interface, parent) = (u32_at(body, 4)?, u32_at(body, 12)?);
        let (_, kind) = Attributes::after(body, QDISC_FIXED).find(|(kind, _)| *kind == TCA_KIND)?;
        let kind = std::str::from_utf8(kind).ok()?.trim_end_matches('\0');
        Some(Self { interface, parent, kind })
    }
}

/// The next multiple of 4, where a message or an attribute begins.
pub(crate) const fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    bytes.get(offset..)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
}

// Sizes and numbers of linux/netlink.h, rtnetlink.h, if_link.h, pkt_sched.h. `libc` has some, for
// some targets.
pub(crate) const MESSAGE_HEADER: usize = 16;
pub(crate) const ATTRIBUTE_HEADER: usize = 4;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
pub(crate) const LINK_FIXED: usize = 16;
pub(crate) const QDISC_FIXED: usize = 20;
pub(crate) const NLMSG_ERROR: u16 = 2;
#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone", feature = "internals"))]
pub(crate) const NLMSG_NOOP: u16 = 1;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_GETQDISC: u16 = 38;
pub(crate) const IFLA_IFNAME: u16 = 3;
const TCA_KIND: u16 = 1;
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;
