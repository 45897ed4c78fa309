//! `sendmmsg` and segmentation offload as a C program uses them (`naive.c`): the limit to reach on
//! this machine.

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

use socket2::{SockAddr, Socket};

use super::Contender;
use crate::traffic::Group;

pub(super) struct Naive {
    pub(super) socket: Socket,
    pub(super) segments: bool,
}

impl Contender for Naive {
    fn send(&mut self, group: &Group<'_>) -> Result<(), String> {
        let (fd, segments) = (self.socket.as_raw_fd(), c_int::from(self.segments));
        // All of a case are equally long.
        let first = group.payloads[0].len();
        let private = |parts: &[IoSlice<'_>]| parts.first().map_or(0, |part| part.len());
        let datagram_bytes = group
            .members
            .first()
            .map_or(0, |member| first + private(&member.before_parts) + private(&member.after_parts));
        let (payloads, members) = (group.payload_parts, &group.naive_members);
        // SAFETY: the kernel reads through the pointers of `payloads` and `members`, which are made
        // of references that `group` holds; each member's `before` and `after` are null or as many
        // slices as there are payloads (`NaiveMember::new`). The buffers of the C file are its own,
        // and only this thread is in it.
        let result = unsafe {
            naive_send(
                fd,
                segments,
                datagram_bytes,
                payloads.as_ptr().cast(),
                payloads.len(),
                members.as_ptr(),
                members.len(),
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().to_string()) }
    }
}

/// `struct member` of the C file. An `IoSlice` is an `iovec` (std says so), a missing reference a
/// null pointer.
#[repr(C)]
pub(crate) struct NaiveMember<'a> {
    address: *const c_void,
    address_len: u32,
    before: Option<&'a IoSlice<'a>>,
    after: Option<&'a IoSlice<'a>>,
}

impl<'a> NaiveMember<'a> {
    /// With `k` packets, `before` and `after` are empty or `k` slices.
    pub(crate) fn new(
        k: usize,
        address: &'a SockAddr,
        before: &'a [IoSlice<'a>],
        after: &'a [IoSlice<'a>],
    ) -> Self {
        assert!([before, after].iter().all(|parts| parts.is_empty() || parts.len() == k));
        Self {
            address: address.as_ptr().cast(),
            address_len: address.len(),
            before: before.first(),
            after: after.first(),
        }
    }
}

unsafe extern "C" {
    fn naive_send(
        fd: c_int,
        segments: c_int,
        datagram_bytes: usize,
        payloads: *const c_void,
        k: usize,
        members: *const NaiveMember<'_>,
        n: usize,
    ) -> c_int;
}
