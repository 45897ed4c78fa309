//! What C passes to a call, read once and checked as far as it can be: NULL, alignment, lengths,
//! counts, families.
//!
//! An error that concerns the group refuses the call; one that concerns a recipient refuses that
//! recipient. `group-send` decides how to send.

use crate::{Failure, Member, Recipient, SENDGROUP_PACKETS_MAX, SENDGROUP_RECIPIENTS_MAX};
use group_send::{SendError, Sender, Slot};
use libc::{c_int, iovec, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::slice;

/// Longest packet or private part; more is in no UDP datagram.
pub(crate) const LEN_MAX: usize = u16::MAX as usize;

/// The arrays of a call, `recipients` in the form C has.
///
/// # Safety
/// Pointers that are not NULL point to the stated number of elements, and those of `packets` to the
/// stated number of bytes; they must not be changed while the result is used.
pub(crate) unsafe fn arguments<'a>(
    packets: *const iovec,
    packets_len: usize,
    recipients: *mut Recipient,
    recipients_len: usize,
) -> Result<(Vec<&'a [u8]>, &'a mut [Recipient]), Failure> {
    if packets_len > SENDGROUP_PACKETS_MAX || recipients_len > SENDGROUP_RECIPIENTS_MAX {
        return Err(libc::EINVAL.into());
    }
    let mut slices = Vec::with_capacity(packets_len);
    // SAFETY: the same contract as this function's.
    unsafe { gather(packets, packets_len, &mut slices) }?;
    if recipients_len == 0 {
        return Ok((slices, &mut []));
    }
    if recipients.is_null() || !recipients.is_aligned() {
        return Err(libc::EFAULT.into());
    }
    // SAFETY: not NULL, aligned, of the stated length, which was checked, and not aliased during
    // the call.
    Ok((slices, unsafe { slice::from_raw_parts_mut(recipients, recipients_len) }))
}

/// Buffers kept from call to call; between calls they hold nothing of the caller.
#[derive(Default)]
pub(crate) struct Scratch {
    slots: Vec<Slot>,
    parsed: Vec<Parsed>,
    privates: Vec<&'static [u8]>,
    recipients: Vec<group_send::Recipient<'static>>,
}

impl Scratch {
    /// Sends and returns how many recipients are fully served.
    ///
    /// # Safety
    /// What the recipients point to may be read and is not changed meanwhile.
    pub(crate) unsafe fn send(
        &mut self,
        sender: &mut Sender,
        packets: &[&[u8]],
        recipients: &mut [Recipient],
    ) -> usize {
        let mut privates = recycle(std::mem::take(&mut self.privates));
        self.slots.clear();
        self.parsed.clear();
        for recipient in &*recipients {
            // SAFETY: the same contract as this function's.
            let parsed = unsafe { parse(recipient, packets.len(), &mut privates) };
            self.slots.push(first_slot(recipient, packets.len(), parsed.as_ref().err()));
            self.parsed.push(parsed.unwrap_or(NOBODY));
        }
        self.hand_over(privates, |readable, slots| {
            let _ = sender.send_group(packets, readable, slots);
        });
        let slots = recipients.iter_mut().zip(&self.slots);
        slots.filter_map(|(recipient, slot)| report(recipient, *slot, packets.len()).then_some(())).count()
    }

    /// Reads the members of a published call for `send`, and returns a slot for each.
    ///
    /// # Safety
    /// What the members point to may be read and is not changed meanwhile.
    pub(crate) unsafe fn send_members(
        &mut self,
        members: &[Member],
        send: impl FnOnce(&[group_send::Recipient<'_>], &mut [Slot]),
    ) -> &[Slot] {
        let mut privates = recycle(std::mem::take(&mut self.privates));
        self.slots.clear();
        self.parsed.clear();
        for member in members {
            // SAFETY: the same contract as this function's.
            let parsed = unsafe { parse_member(member, &mut privates) };
            let refused = parsed.as_ref().err().map(|&errno| SendError::Kernel(errno));
            self.slots.push(Slot { sent: 0, failed: u32::from(refused.is_some()), error: refused });
            self.parsed.push(parsed.unwrap_or(NOBODY));
        }
        self.hand_over(privates, send);
        &self.slots
    }

    /// Calls `send` with what was read, `privates` being the private parts of all in order.
    fn hand_over(
        &mut self,
        privates: Vec<&[u8]>,
        send: impl FnOnce(&[group_send::Recipient<'_>], &mut [Slot]),
    ) {
        let mut readable = recycle(std::mem::take(&mut self.recipients));
        let mut rest = &privates[..];
        readable.extend(self.parsed.iter().map(|parsed| parsed.with_private(&mut rest)));
        send(&readable, &mut self.slots);
        self.recipients = recycle(readable);
        self.privates = recycle(privates);
    }
}

/// Empties a vector, for values of another lifetime, and keeps its memory: std collects in place
/// where sizes are equal.
fn recycle<T, U>(mut vec: Vec<T>) -> Vec<U> {
    vec.clear();
    vec.into_iter().map(|_| unreachable!("it is empty")).collect()
}

/// A recipient as it was read, but for the private bytes: of these only how many parts there are.
struct Parsed {
    destination: SocketAddr,
    prepend: usize,
    append: usize,
}

/// Stands for a recipient that cannot be read. Its slot has nothing left to do.
const NOBODY: Parsed = Parsed {
    destination: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    prepend: 0,
    append: 0,
};

impl Parsed {
    /// The recipient, its private parts being the first ones of `rest`, which becomes what is left.
    fn with_private<'a>(&self, rest: &mut &'a [&'a [u8]]) -> group_send::Recipient<'a> {
        let (prepend, others) = rest.split_at(self.prepend);
        let (append, others) = others.split_at(self.append);
        *rest = others;
        group_send::Recipient { destination: self.destination, prepend, append }
    }
}

/// Reads a recipient and appends its private parts to `privates`; none if it is refused.
///
/// # Safety
/// What it points to may be read and is not changed while `privates` is used.
unsafe fn parse(recipient: &Recipient, packets: usize, privates: &mut Vec<&[u8]>) -> Result<Parsed, c_int> {
    let Recipient { prepend, prepend_len, append, append_len, sent, failed, .. } = *recipient;
    if [prepend_len, append_len].iter().any(|&len| len > 1 && len != packets) {
        return Err(libc::EINVAL);
    }
    if sent as usize + failed as usize > packets {
        return Err(libc::EINVAL);
    }
    // SAFETY: the same contract as this function's.
    let destination = unsafe { address(recipient.destination, recipient.destination_len) }?;
    let before = privates.len();
    // SAFETY: the same contract as this function's.
    let read =
        unsafe { gather(prepend, prepend_len, privates).and_then(|()| gather(append, append_len, privates)) };
    if let Err(errno) = read {
        privates.truncate(before);
        return Err(errno);
    }
    Ok(Parsed { destination, prepend: prepend_len, append: append_len })
}

/// As [`parse`], of a member of a published call.
///
/// # Safety
/// What it points to may be read and is not changed while `privates` is used.
unsafe fn parse_member(member: &Member, privates: &mut Vec<&[u8]>) -> Result<Parsed, c_int> {
    // SAFETY: the same contract as this function's.
    let destination = unsafe { address(member.name, member.namelen) }?;
    let before = privates.len();
    let parts = [&member.prepend, &member.append].map(|part| (part, usize::from(part.iov_len > 0)));
    for (part, len) in parts {
        // SAFETY: one element, whose own pointer and length are as the contract says.
        if let Err(errno) = unsafe { gather(part, len, privates) } {
            privates.truncate(before);
            return Err(errno);
        }
    }
    Ok(Parsed { destination, prepend: parts[0].1, append: parts[1].1 })
}

/// Appends `len` pieces of memory to `slices`.
///
/// # Safety
/// `pieces` is NULL or points to the stated number of elements, each of which is NULL or points to
/// its stated number of bytes; they must not be changed while `slices` is used.
pub(crate) unsafe fn gather(pieces: *const iovec, len: usize, slices: &mut Vec<&[u8]>) -> Result<(), c_int> {
    if len == 0 {
        return Ok(());
    }
    if pieces.is_null() || !pieces.is_aligned() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not NULL, aligned, of the stated length, at most `SENDGROUP_PACKETS_MAX`.
    for piece in unsafe { slice::from_raw_parts(pieces, len) } {
        if piece.iov_len > LEN_MAX {
            return Err(libc::EMSGSIZE);
        }
        slices.push(match piece.iov_base.is_null() {
            true if piece.iov_len > 0 => return Err(libc::EFAULT),
            true => &[],
            // SAFETY: not NULL, of the stated length, at most `LEN_MAX`.
            false => unsafe { slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) },
        });
    }
    Ok(())
}

/// # Safety
/// `address` is NULL or points to `len` bytes that may be read.
unsafe fn address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, c_int> {
    let len = len as usize;
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    if len < offset_of!(sockaddr, sa_family) + size_of::<sa_family_t>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: it points to that many bytes; the read needs no alignment.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: it points to that many bytes, of which any are an address; the read needs no
            // alignment.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: it points to that many bytes, of which any are an address; the read needs no
            // alignment.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// The state of a recipient before the call: as stored, or completed and failed if it is refused.
fn first_slot(recipient: &Recipient, packets: usize, refused: Option<&c_int>) -> Slot {
    let Recipient { sent, failed, error, .. } = *recipient;
    match refused {
        Some(&errno) => {
            let failed = packets.saturating_sub(sent as usize) as u32;
            Slot { sent, failed, error: Some(SendError::Kernel(errno)) }
        }
        None if error == libc::EAGAIN => Slot { sent, failed, error: Some(SendError::WouldBlock) },
        None => Slot { sent, failed, error: (failed > 0).then_some(SendError::Kernel(error)) },
    }
}

/// Stores the result of a recipient; returns whether it is fully served.
fn report(recipient: &mut Recipient, slot: Slot, packets: usize) -> bool {
    recipient.sent = slot.sent;
    recipient.failed = slot.failed;
    recipient.error = slot.error.map_or(0, errno);
    recipient.error == 0 && slot.sent as usize == packets
}

pub(crate) fn errno(error: SendError) -> c_int {
    match error {
        SendError::WouldBlock => libc::EAGAIN,
        SendError::NoBuffers => libc::ENOBUFS,
        SendError::Refused => libc::ECONNREFUSED,
        SendError::NotPermitted => libc::EPERM,
        SendError::Unreachable => libc::ENETUNREACH,
        SendError::TooLong => libc::EMSGSIZE,
        SendError::WrongFamily => libc::EAFNOSUPPORT,
        SendError::BadPrivate | SendError::BadAddress => libc::EINVAL,
        SendError::Kernel(errno) => errno,
    }
}
