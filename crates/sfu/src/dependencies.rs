//! Which frames of an encoding are of which decode target, by its dependency descriptors (AV1 RTP
//! specification, appendix A).
//!
//! A rendition that leaves out layers has all frames of one decode target, and no others: that is the same
//! for all of its viewers, whenever a packet comes. Whether a viewer can change to another decode target at
//! a frame depends on what it has got: each frame that this one refers to. So it is remembered of which
//! decode targets the last frames are, and with which frames a viewer's decode targets began.

use std::collections::VecDeque;
use std::num::NonZeroU8;

use rtp::extension::{
    DESCRIPTOR_LEN_MAX, DecodeTarget, DependencyDescriptor, DependencyReader, Extension, FrameDependencies,
    Indication, Layer as FrameLayer, write_active_decode_targets,
};

use super::layers::Layer;
use super::packet::Packet;

/// The structure of one encoding, and its last frames.
#[derive(Debug)]
pub(crate) struct Dependencies {
    reader: DependencyReader,
    frames: [Frame; FRAMES_KEPT],
}

/// A frame that has come.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    number: u16,
    /// The decode targets that it is of; 0: there is none here.
    targets: u32,
}

/// Which frames of an encoding an output has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All, where no decode target has all: spatial layers of K-SVC do without those below.
    All,
    /// Those of a decode target.
    Target(DecodeTarget),
}

/// From which frame on a viewer has got a part.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u16,
    part: Part,
}

/// What a viewer has had of one encoding, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PartsHad(VecDeque<Span>);

impl Dependencies {
    pub(crate) fn new() -> Self {
        Self { reader: DependencyReader::new(), frames: [Frame::default(); FRAMES_KEPT] }
    }

    /// Takes the descriptor of a packet, in the order of arrival. `None` if it cannot be read: its
    /// structure was lost.
    pub(crate) fn read(&mut self, data: &[u8]) -> Option<FrameDependencies> {
        let frame = self.reader.read(data).ok()?;
        let all = self.reader.structure().decode_targets();
        let targets = all.filter(|target| frame.indication(*target) != Indication::NotPresent);
        let targets = targets.fold(0, |mask, target| mask | target.bit());
        let number = frame.head.frame_number;
        self.frames[place(number)] = Frame { number, targets };
        Some(frame)
    }

    /// What the descriptor among these extensions says.
    pub(crate) fn frame_of<'a>(
        &self,
        mut extensions: impl Iterator<Item = (Extension, &'a [u8])>,
    ) -> Option<FrameDependencies> {
        let (_, data) = extensions.find(|(extension, _)| *extension == Extension::DependencyDescriptor)?;
        self.reader.peek(data).ok()
    }

    /// Whether there is more than one decode target, as far as is known.
    pub(crate) fn has_choice(&self) -> bool {
        self.reader.structure().decode_targets().len() > 1
    }

    /// Whether its structure has come.
    pub(crate) fn is_known(&self) -> bool {
        self.reader.structure().decode_targets().len() > 0
    }

    /// Layers of the decode targets that the encoder produces.
    pub(crate) fn active_layers(&self) -> impl Iterator<Item = (DecodeTarget, FrameLayer)> + '_ {
        let (structure, active) = (self.reader.structure(), self.reader.active_decode_targets());
        let is_active = move |target: &DecodeTarget| target.bit() & active != 0;
        let layered = move |target| Some((target, structure.layer_of(target)?));
        structure.decode_targets().filter(is_active).filter_map(layered)
    }

    /// The decode target for viewers of these layers: the best within them, or else the least there is.
    pub(crate) fn target_of(&self, layer: Layer) -> Option<DecodeTarget> {
        let max = FrameLayer { spatial: layer.spatial, temporal: layer.temporal };
        let best = self.reader.structure().best_within(max, self.reader.active_decode_targets());
        let least = || self.active_layers().min_by_key(|(_, layer)| (layer.spatial, layer.temporal));
        best.or_else(|| least().map(|(target, _)| target))
    }

    /// What an output with these layers has; `None`: that is not known.
    pub(crate) fn part_of(&self, layer: Layer) -> Option<Part> {
        let target = self.target_of(layer)?;
        let is_all = (layer.spatial, layer.temporal) == (Layer::ALL, Layer::ALL);
        Some(if is_all && !self.is_nested() { Part::All } else { Part::Target(target) })
    }

    /// Whether the best decode target has all frames.
    pub(crate) fn is_nested(&self) -> bool {
        let structure = self.reader.structure();
        let best = self.target_of(Layer::BEST);
        best.is_none_or(|best| structure.contained_in(best) == structure.all_decode_targets())
    }

    /// Whether the frame is the last of its picture for who gets this decode target, if it is the end of one.
    pub(crate) fn is_highest(&self, frame: &FrameDependencies, target: DecodeTarget) -> bool {
        self.reader.structure().layer_of(target).is_some_and(|layer| layer.spatial == frame.layer.spatial)
    }

    /// Whether one has all frames of the other.
    pub(crate) fn contains(&self, one: Part, other: Part) -> bool {
        match (one, other) {
            (Part::All, _) => true,
            (Part::Target(_), Part::All) => false,
            (Part::Target(one), Part::Target(other)) => {
                self.reader.structure().contained_in(one) & other.bit() != 0
            }
        }
    }

    /// Whether who gets `one` can go on with `other` at some frame that is no key frame: both have the same
    /// spatial layers, or that has fewer, and higher ones do not do without them.
    pub(crate) fn is_reachable(&self, one: Part, other: Part) -> bool {
        let (Part::Target(from), Part::Target(to)) = (one, other) else { return self.contains(one, other) };
        let spatial = |target| self.reader.structure().layer_of(target).map(|layer| layer.spatial);
        let (from, to) = (spatial(from), spatial(to));
        from == to || to < from && self.is_nested() || self.contains(one, other)
    }

    /// The decode targets that are active for who gets this one.
    fn active_within(&self, target: DecodeTarget) -> u32 {
        self.reader.structure().contained_in(target) & self.reader.active_decode_targets()
    }

    /// How many decode targets there are, if the encoder produces all of them.
    pub(crate) fn all_active(&self) -> Option<NonZeroU8> {
        let structure = self.reader.structure();
        let is_all = self.reader.active_decode_targets() == structure.all_decode_targets();
        NonZeroU8::new(structure.decode_targets().len() as u8).filter(|_| is_all)
    }

    /// What is to be said to receivers of this decode target.
    pub(crate) fn active_of(&self, target: DecodeTarget) -> ActiveTargets {
        let count = self.reader.structure().decode_targets().len() as u8;
        ActiveTargets { count, mask: self.active_within(target) }
    }

    /// Whether a decoder that has had these, and gets `current` now, can go on with those frames of `wanted`
    /// that begin with this one.
    pub(crate) fn may_change(
        &self,
        had: &PartsHad,
        current: Part,
        wanted: Part,
        frame: &FrameDependencies,
    ) -> bool {
        if self.contains(current, wanted) {
            return true;
        }
        let Part::Target(wanted) = wanted else { return false };
        let has = |number: u16| {
            let kept = self.frames[place(number)];
            let is_of = match had.at(number).unwrap_or(current) {
                Part::All => kept.targets != 0,
                Part::Target(target) => kept.targets & target.bit() != 0,
            };
            kept.number == number && is_of
        };
        frame.indication(wanted) == Indication::Switch && frame.referred_frames().all(has)
    }
}

impl PartsHad {
    /// From this frame on the viewer gets `part`, and `before` until then.
    pub(crate) fn changed(&mut self, first: u16, before: Part, part: Part) {
        if self.0.is_empty() {
            self.0.push_back(Span { first: first.wrapping_sub(FRAMES_KEPT as u16 - 1), part: before });
        }
        if self.0.len() >= SPANS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Span { first, part });
    }

    /// Another encoding begins, with a key frame.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What it got of this frame; `None`: what it gets now.
    fn at(&self, number: u16) -> Option<Part> {
        // No frame that is asked for is further back than those that are kept: numbers have wrapped.
        let is_from = |span: &&Span| {
            !(-(FRAMES_KEPT as i16)..0).contains(&number.wrapping_sub(span.first).cast_signed())
        };
        self.0.iter().rev().find(is_from).or(self.0.front()).map(|span| span.part)
    }
}

/// The decode targets that a receiver is to take for active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActiveTargets {
    /// Of the structure; 0: nothing is said to it.
    count: u8,
    mask: u32,
}

impl ActiveTargets {
    /// All of so many.
    pub(crate) fn all(count: NonZeroU8) -> Self {
        Self { count: count.get(), mask: u32::MAX }
    }

    /// The descriptor with this said in it, in `room`; as it is if that does not fit.
    pub(crate) fn write<'a>(self, data: &'a [u8], room: &'a mut [u8; DESCRIPTOR_LEN_MAX]) -> &'a [u8] {
        if self.count == 0 {
            return data;
        }
        match write_active_decode_targets(data, self.count, self.mask, room) {
            Ok(len) => &room[..len],
            Err(_) => data,
        }
    }
}

/// Number of the frame that a packet is of.
pub(crate) fn frame_number(packet: &Packet) -> Option<u16> {
    head_of(packet).map(|head| head.frame_number)
}

/// The same of a packet that is the first of its frame.
pub(crate) fn frame_begun(packet: &Packet) -> Option<u16> {
    head_of(packet).filter(|head| head.starts_frame).map(|head| head.frame_number)
}

fn head_of(packet: &Packet) -> Option<DependencyDescriptor> {
    let mut extensions = packet.extensions();
    let (_, data) = extensions.find(|(extension, _)| *extension == Extension::DependencyDescriptor)?;
    DependencyDescriptor::parse(data)
}

fn place(number: u16) -> usize {
    usize::from(number) % FRAMES_KEPT
}

/// Frames of which it is remembered what they are of: ten seconds and more, and as far as chains reach back.
const FRAMES_KEPT: usize = 256;
/// Decode targets that a viewer has had which are remembered.
const SPANS_MAX: usize = 8;
