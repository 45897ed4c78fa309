//! The packets of one turn of the worker's loop, and their headers.
//!
//! What arrived in one receive batch leaves together: for each viewer all of its packets in a row, so that the sender
//! can make runs of them.

use std::sync::Arc;

use rtp::payload::MediaKind;

use super::history::Kept;
use super::inputs::TrackIndex;
use super::packet::Packet;
use super::shape::{Addressing, Shapes, Template};
use super::stream::PacketStream;
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

/// What a turn is made of; kept, so that its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct TurnBuffers {
    /// Track and number of what has arrived and was not in a turn yet.
    pub(crate) arrived: Vec<(TrackIndex, u64)>,
    forwards: Vec<Forward>,
    /// For each packet one for each shape.
    templates: Vec<Template>,
}

impl PacketStream {
    /// Packets that arrived since the last turn, with headers made, and the viewers. End it with
    /// [`PacketStream::end_turn`].
    pub fn turn(&mut self) -> Turn<'_> {
        self.prepare();
        let packets = TurnPackets {
            forwards: &self.turn.forwards,
            templates: &self.turn.templates,
            shapes: &self.shapes,
        };
        Turn { packets, viewers: &mut self.viewers }
    }

    fn prepare(&mut self) {
        if self.limits.equalise_runs {
            self.equalise();
        }
        for (track, number) in self.turn.arrived.drain(..) {
            let kept = self.tracks.get(track.position()).and_then(|track| track.history.get(number));
            // A burst larger than the history has already lost its beginning.
            let Some(Kept { packet, timestamp }) = kept else { continue };
            let forward = Forward { track, number, timestamp: *timestamp, packet: Arc::clone(packet) };
            let sequence_number = number as u16;
            let to = Addressing { ssrc: 0, sequence_number, timestamp: *timestamp, is_squeezed: false };
            let start = self.turn.templates.len();
            self.turn.templates.resize(start + self.shapes.len(), Template::EMPTY);
            for (shape, template) in self.shapes.iter().zip(&mut self.turn.templates[start..]) {
                let len = shape.and_then(|shape| shape.header(packet, to, &mut template.bytes));
                template.len = len.unwrap_or(0) as u16;
            }
            self.turn.forwards.push(forward);
        }
    }

    /// Pads packets that are one byte shorter than the longest of their frame. Packetisers cut frames into parts that
    /// differ by a byte, and only equal datagrams leave in one run.
    fn equalise(&mut self) {
        let mut rest = &self.turn.arrived[..];
        while let Some((index, first)) = rest.first() {
            let Some(track) = self.tracks.get_mut(index.position()) else { return };
            let timestamp = track.history.get(*first).map(|kept| kept.timestamp);
            let shown = |(of, number): &&(TrackIndex, u64)| {
                of == index && track.history.get(*number).map(|kept| kept.timestamp) == timestamp
            };
            let (frame, others) = rest.split_at(rest.iter().take_while(shown).count().max(1));
            rest = others;
            if index.kind() == MediaKind::Video {
                let len_of = |number| track.history.get(number).map_or(0, |kept| kept.packet.sent_len());
                let longest = frame.iter().map(|(_, number)| len_of(*number)).max().unwrap_or(0);
                for (_, number) in frame {
                    if track.history.get(*number).is_some_and(|kept| kept.packet.sent_len() + 1 == longest) {
                        track.history.pad(*number);
                    }
                }
            }
        }
    }

    /// Ends the turn: what it held has been sent.
    pub fn end_turn(&mut self) {
        self.turn.arrived.clear();
        self.turn.forwards.clear();
        self.turn.templates.clear();
    }

    /// Whether packets have arrived that no turn has handed out.
    pub fn has_arrivals(&self) -> bool {
        !self.turn.arrived.is_empty() || !self.turn.forwards.is_empty()
    }
}
