//! The group call: k shared packets to N recipients.

use crate::backend::{Datagram, Outcome};
use crate::error::SendError;
use std::net::SocketAddr;

/// Who gets the packets of a group, and what is private to it.
#[derive(Clone, Copy, Debug)]
pub struct Recipient<'a> {
    /// Where to send. IPv4 and IPv6 may be mixed if the socket reaches both.
    pub destination: SocketAddr,
    /// Bytes before the shared payload: no slice for none, one for the same before every packet, or as many as there
    /// are packets. Anything else is [`SendError::BadPrivate`].
    pub prepend: &'a [&'a [u8]],
    /// Bytes after the shared payload, in the same form as `prepend`.
    pub append: &'a [&'a [u8]],
}

/// What became of one recipient. Input as well: a call goes on after the first `sent` packets, and skips recipients
/// whose error is final. Start with `Slot::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// How many of the packets were handed to the network, the first ones.
    pub sent: u32,
    /// Why not all of them were.
    pub error: Option<SendError>,
}

/// Hands a group to `send` in recipient-major chunks, and returns whether it stopped for want of room.
pub(crate) fn flatten<'a>(
    packets: &[&'a [u8]],
    recipients: &'a [Recipient<'a>],
    slots: &mut [Slot],
    mut send: impl FnMut(&[Datagram<'a>], &mut [Outcome]),
) -> bool {
    let _ = (packets, recipients, slots, &mut send);
    false
}
