//! Which recipients of a group can get copies of one frame: those with datagrams of equal length.
//!
//! All copies of a frame have one length, and so have all datagrams of a class. `tc_clone.rs`
//! decides which recipients frames reach at all.

use super::replicator::Shape;
use crate::datagram::Datagram;
use crate::frame::Header;
use crate::group::{Recipient, Slot};
use std::net::SocketAddr;

/// A recipient that was reached by frames.
pub(super) struct Member {
    pub(super) destination: SocketAddr,
    pub(super) epoch: u64,
    pub(super) header: Option<Header>,
    pub(super) payload_max: usize,
    /// Which class it is in for this call.
    pub(super) class: Option<u8>,
}

/// Recipients of one family whose datagrams have equal length.
#[derive(Default)]
pub(super) struct Class {
    /// Members of the class.
    pub(super) count: usize,
    /// Of each packet of the call, once there is a member.
    pub(super) shapes: Vec<Shape>,
    /// Bytes of the longest datagram.
    longest: usize,
}

/// The arguments of a call.
pub(super) struct Group<'g> {
    pub(super) packets: &'g [&'g [u8]],
    pub(super) recipients: &'g [Recipient<'g>],
    pub(super) slots: &'g mut [Slot],
}

impl Group<'_> {
    /// Whether a recipient still lacks packets and can be sent to.
    pub(super) fn is_due(&self, index: usize) -> bool {
        let packets = self.packets.len();
        self.slots[index].done() < packets && self.recipients[index].is_well_formed(packets)
    }
}

impl Member {
    pub(super) fn vacant() -> Self {
        let destination = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { destination, epoch: 0, header: None, payload_max: 0, class: None }
    }
}

impl Class {
    /// Admits a recipient if copies can be its datagrams. The first one decides the length.
    #[inline]
    pub(super) fn admits(
        &mut self,
        recipient: &Recipient<'_>,
        packets: &[&[u8]],
        header_len: usize,
        payload_max: usize,
    ) -> bool {
        let datagrams = (0..packets.len()).map(|packet| recipient.datagram(packets, packet));
        let shape = |datagram: &Datagram<'_>| {
            let [before, _, after] = datagram.parts;
            Shape { head: header_len + before.len(), tail: after.len() }
        };
        let fits = if self.count == 0 {
            self.longest = datagrams.clone().map(|datagram| datagram.len()).max().unwrap_or(0);
            self.shapes.clear();
            self.shapes.extend(datagrams.map(|datagram| shape(&datagram)));
            self.shapes.iter().all(|shape| shape.fits())
        } else {
            datagrams.zip(&self.shapes).all(|(datagram, is)| shape(&datagram) == *is)
        };
        let fits = fits && self.longest <= payload_max;
        self.count += usize::from(fits);
        fits
    }
}
