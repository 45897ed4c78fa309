//! Which datagrams may share one message with `UDP_SEGMENT`, and where that was refused before.

use crate::datagram::Datagram;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Segments of one message, at most (`UDP_MAX_SEGMENTS`; newer kernels take 128).
const SEGMENTS_MAX: usize = 64;

/// Bytes of one message, at most: an IPv6 packet of 65,535 bytes less its own and the UDP header.
const MESSAGE_BYTES_MAX: usize = 65_535 - 40 - 8;

/// Addresses whose refusals are remembered, at most. Then all are forgotten and tried again.
const ADDRESSES_MAX: usize = 4096;

/// After this many refusals by devices, and no accepted run ever, runs are not tried any more.
const DEVICE_REFUSALS_MAX: u32 = 16;

/// Number of datagrams at the front that can be one message: all for one recipient, all of the
/// first one's length, but the last that may be shorter, leaving at the same time and with the same mark.
/// At least 1.
pub(crate) fn run_len(datagrams: &[Datagram<'_>]) -> usize {
    let first = &datagrams[0];
    let size = first.len();
    if size == 0 || size > MESSAGE_BYTES_MAX / 2 {
        return 1;
    }
    let run_max = SEGMENTS_MAX.min(MESSAGE_BYTES_MAX / size).min(datagrams.len());
    let mut run = 1;
    while run < run_max {
        let next = &datagrams[run];
        let len = next.len();
        let leaves_alike = next.departure_ns == first.departure_ns && next.ecn == first.ecn;
        if len == 0 || len > size || !leaves_alike || !same_destination(first, next) {
            break;
        }
        run += 1;
        if len < size {
            break;
        }
    }
    run
}

/// Whether this error may mean that a message was refused for being a run: no checksum by the
/// device (`EIO`), a segment larger than the path's MTU or a kernel that does not know it (`EINVAL`
/// and others).
pub(crate) fn is_refusal(errno: i32) -> bool {
    matches!(errno, libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
}

/// Where runs were refused. A path or device is identified by the addresses behind it, because that
/// is all a socket knows; a refusal for one address does not affect others.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The smallest segment that was refused; 0 for any size.
    smallest: HashMap<IpAddr, usize>,
    by_device: u32,
    any_accepted: bool,
}

impl Refusals {
    /// Whether a run of segments of this size must not be tried.
    pub(crate) fn forbid(&self, destination: &SocketAddr, size: usize) -> bool {
        if self.smallest.is_empty() {
            return false;
        }
        let everywhere = self.by_device >= DEVICE_REFUSALS_MAX && !self.any_accepted;
        everywhere || self.smallest.get(&destination.ip()).is_some_and(|&refused| size >= refused)
    }

    /// A run was refused whose first datagram then went alone.
    pub(crate) fn note(&mut self, destination: IpAddr, size: usize, errno: i32) {
        if self.smallest.len() >= ADDRESSES_MAX {
            self.smallest.clear();
        }
        // Too large for the path, or not at all.
        let by_path = matches!(errno, libc::EINVAL | libc::EMSGSIZE);
        let refused = self.smallest.entry(destination).or_insert(size);
        *refused = if by_path { size.min(*refused) } else { 0 };
        self.by_device += u32::from(!by_path);
    }

    /// A run was accepted.
    pub(crate) fn accepted(&mut self) {
        self.any_accepted = true;
    }
}

pub(crate) fn same_destination(first: &Datagram<'_>, next: &Datagram<'_>) -> bool {
    std::ptr::eq(first.destination, next.destination) || first.destination == next.destination
}
