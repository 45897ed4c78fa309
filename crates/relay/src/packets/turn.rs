//! The packets of one turn of the worker's loop, and their headers.
//!
//! What arrived in one receive batch leaves together: for each viewer all of its packets in a row, so that the sender
//! can make runs of them.

use std::sync::Arc;

use super::inputs::TrackIndex;
use super::packet::Packet;
use super::shape::{Shapes, Template};
use super::viewers::Viewers;

/// A packet that goes to the viewers in this turn.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    pub(crate) track: TrackIndex,
    pub(crate) number: u64,
    pub(crate) timestamp: u32,
    pub(crate) packet: Arc<Packet>,
}

/// What goes to whom in this turn. **For every viewer: for every packet, ask [`Viewer::header_for`], then end the turn.**
///
/// [`Viewer::header_for`]: super::Viewer::header_for
#[derive(Debug)]
pub struct Turn<'a> {
    /// The packets, with headers made.
    pub packets: TurnPackets<'a>,
    /// Who may get them.
    pub viewers: &'a mut Viewers,
}

/// The packets of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnPackets<'a> {
    pub(crate) forwards: &'a [Forward],
    pub(crate) templates: &'a [Template],
    pub(crate) shapes: &'a Shapes,
}

impl<'a> TurnPackets<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.forwards.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.forwards.is_empty()
    }

    /// The packet at `index`, to be handed to other workers. `None` from [`TurnPackets::len`] on.
    pub fn packet(&self, index: usize) -> Option<&'a Arc<Packet>> {
        self.forwards.get(index).map(|forward| &forward.packet)
    }

    /// What follows the header of packet `index`; empty from [`TurnPackets::len`] on.
    #[inline]
    pub fn payload(&self, index: usize) -> &'a [u8] {
        self.forwards.get(index).map_or(&[], |forward| forward.packet.payload())
    }
}
