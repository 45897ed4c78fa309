//! What a sender hands to the network: shared payloads and private bytes.

use std::sync::Arc;

use super::OutLinkId;
use crate::history::SealedPacket;
use crate::wire::PRIVATE_BYTES;

/// Packets of one [`Sender::send`](crate::Sender::send), for `group_send::Sender::send_group`: one
/// payload for each packet, and for each link as many private parts, which go before them.
///
/// Made once and used again, so that nothing is allocated per call. What the network has no room for
/// may be dropped: it is repaired like anything else that is lost.
#[derive(Debug, Default)]
pub struct Outgoing {
    pub(super) packets: Vec<Arc<SealedPacket>>,
    pub(super) links: Vec<OutLinkId>,
    /// Link by link, packet by packet.
    pub(super) private: Vec<[u8; PRIVATE_BYTES]>,
}

impl Outgoing {
    /// Nothing, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shared payloads.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.packets.iter().map(|packet| packet.bytes())
    }

    /// Each link that gets them, and its private bytes: one part for each payload.
    pub fn links(&self) -> impl Iterator<Item = (OutLinkId, &[[u8; PRIVATE_BYTES]])> {
        // Without packets there are no private parts, and no links either.
        self.links.iter().copied().zip(self.private.chunks(self.packets.len().max(1)))
    }

    /// Nothing to send.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Lets go of the packets, so that their memory is used again.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.links.clear();
        self.private.clear();
    }
}

/// A datagram to be sent again.
#[derive(Clone, Debug)]
pub struct Repair {
    pub(super) link: OutLinkId,
    pub(super) private: [u8; PRIVATE_BYTES],
    pub(super) packet: Arc<SealedPacket>,
}

impl Repair {
    /// Where it goes.
    pub fn link(&self) -> OutLinkId {
        self.link
    }

    /// What comes first.
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// What follows.
    pub fn shared(&self) -> &[u8] {
        self.packet.bytes()
    }
}
