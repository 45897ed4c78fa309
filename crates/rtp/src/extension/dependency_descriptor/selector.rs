//! Which frames of an encoding one receiver gets, so that it never lacks one that it needs.
//!
//! A receiver gets the frames of one decode target. It may change to another one, up or down, with
//! a frame that is part of the new one, that it can decode, and that either has the switch
//! indication for it or finds its chain intact (section A.7). Going down needs that too: with
//! K-SVC, frames of the lower spatial layer refer to earlier ones that a receiver of the higher one
//! has not got.
//!
//! With an intact chain the specification allows the change at any frame. Here it waits for one
//! that is part of the chain, since frames of higher temporal layers ahead of it may refer to
//! others that were left out: a picture would lose its higher spatial layer again.

use super::{DecodeTarget, DependencyStructure, FrameDependencies, Indication};

/// Decides for one receiver which frames it gets.
///
/// **Call [`forwards`](Self::forwards) with each packet of one encoding, in the order of arrival**,
/// and forward the packet if it says so. Packets of one frame all get the same answer. The last
/// packet of a picture may be left out with its layer: the server sets the marker on the last one
/// that it sends.
#[derive(Clone, Debug, Default)]
pub struct TargetSelector {
    current: Option<DecodeTarget>,
    /// Highest frame number decided.
    highest: Option<u16>,
    decided: FrameSet,
    sent: FrameSet,
    /// Chains of which the receiver has got every frame so far.
    intact_chains: u32,
}

impl TargetSelector {
    /// A receiver that has got nothing yet: it begins with a frame that refers to no other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the receiver gets this packet's frame. `wanted` is what it should get: it gets that
    /// as soon as a frame allows the change, and until then what it had.
    ///
    /// `structure` is the one that `frame` was read with.
    pub fn forwards(
        &mut self,
        structure: &DependencyStructure,
        frame: &FrameDependencies,
        wanted: DecodeTarget,
    ) -> bool {
        let number = frame.head.frame_number;
        let ahead = self.highest.map_or(1, |highest| number.wrapping_sub(highest).cast_signed());
        let is_kept = self.is_kept(number);
        if is_kept && self.decided.contains(number) {
            return self.sent.contains(number);
        }
        // Numbers that jump back with a structure are those of an encoder that began again.
        if ahead > 0 || !is_kept && frame.head.has_structure {
            self.advance_to(number, ahead);
            if frame.head.has_structure {
                // Decode targets and chains of another structure are others.
                self.current = None;
                self.intact_chains = 0;
            }
            self.follow_chains(frame);
            if self.current != Some(wanted) && self.may_change(structure, frame, wanted) {
                self.current = Some(wanted);
            }
        } else if !is_kept {
            return false;
        }
        // One that arrives late is too late to change with, but not to be sent.
        let forwards = self.current.is_some_and(|current| {
            frame.indication(current) != Indication::NotPresent && !self.is_undecodable(frame)
        });
        self.decided.insert(number);
        if forwards {
            self.sent.insert(number);
        }
        forwards
    }

    /// The decode target that the receiver gets; `None` before its first frame.
    pub fn current(&self) -> Option<DecodeTarget> {
        self.current
    }

    /// Whether the chain of the receiver's decode target is intact: if it is not, a frame that it
    /// needs was lost, and only a retransmission or a key frame helps. True without chains.
    ///
    /// A frame that arrives behind later ones does not repair a chain here, since what was decided
    /// in between would have to be decided again. It counts as broken until a frame begins it;
    /// the switch indication works meanwhile.
    pub fn is_intact(&self, structure: &DependencyStructure) -> bool {
        let chain = self.current.and_then(|current| structure.chain_of(current));
        chain.is_none_or(|chain| self.intact_chains >> chain & 1 == 1)
    }

    fn may_change(
        &self,
        structure: &DependencyStructure,
        frame: &FrameDependencies,
        wanted: DecodeTarget,
    ) -> bool {
        if !self.is_decodable(frame) {
            return false;
        }
        match frame.indication(wanted) {
            Indication::NotPresent => false,
            Indication::Switch => true,
            Indication::Discardable | Indication::Required => {
                structure.chain_of(wanted).is_some_and(|chain| {
                    self.intact_chains >> chain & 1 == 1 && is_part_of_chain(structure, frame, chain)
                })
            }
        }
    }

    /// Each packet names the frame before it in each chain, so that a frame of a chain that was not
    /// sent shows with the next frame, whichever that is.
    fn follow_chains(&mut self, frame: &FrameDependencies) {
        for (chain, previous) in frame.previous_in_chains().enumerate() {
            let is_intact = match previous {
                Some(previous) => self.intact_chains >> chain & 1 == 1 && self.sent.contains(previous),
                None => self.is_decodable(frame),
            };
            self.intact_chains = self.intact_chains & !(1 << chain) | u32::from(is_intact) << chain;
        }
    }

    /// Whether all frames that it refers to were sent. These could be decoded themselves, if none
    /// was lost on its way here, since none is sent that could not.
    fn is_decodable(&self, frame: &FrameDependencies) -> bool {
        frame.referred_frames().all(|number| self.is_kept(number) && self.sent.contains(number))
    }

    /// Whether it refers to a frame that was left out. One that has not arrived may still arrive.
    fn is_undecodable(&self, frame: &FrameDependencies) -> bool {
        frame.referred_frames().any(|number| {
            self.is_kept(number) && self.decided.contains(number) && !self.sent.contains(number)
        })
    }

    /// Whether the number is in the window of [`FRAMES_KEPT`] that ends with the highest.
    fn is_kept(&self, number: u16) -> bool {
        self.highest.is_some_and(|highest| highest.wrapping_sub(number) < FRAMES_KEPT)
    }

    /// Moves the window so that it ends with `number`, which is `ahead` of the highest, and forgets
    /// what falls out; everything if it is behind.
    fn advance_to(&mut self, number: u16, ahead: i16) {
        self.highest = Some(number);
        let steps = u16::try_from(ahead).unwrap_or(FRAMES_KEPT).min(FRAMES_KEPT);
        for back in 0..steps {
            self.decided.remove(number.wrapping_sub(back));
            self.sent.remove(number.wrapping_sub(back));
        }
    }
}

/// Whether the frame is part of a chain: no decode target that the chain protects does without it
/// (section A.6).
fn is_part_of_chain(structure: &DependencyStructure, frame: &FrameDependencies, chain: usize) -> bool {
    structure
        .decode_targets()
        .filter(|target| structure.chain_of(*target) == Some(chain))
        .all(|target| matches!(frame.indication(target), Indication::Switch | Indication::Required))
}

/// Frames whose fate is remembered: as many as a chain can reach back. What a frame refers to
/// beyond them counts as not sent.
const FRAMES_KEPT: u16 = 256;

/// Numbers of the last [`FRAMES_KEPT`] frames, by their low bits.
#[derive(Clone, Copy, Debug, Default)]
struct FrameSet([u64; FRAMES_KEPT as usize / 64]);

impl FrameSet {
    fn place(number: u16) -> (usize, u64) {
        let index = number % FRAMES_KEPT;
        (usize::from(index / 64), 1 << (index % 64))
    }

    fn insert(&mut self, number: u16) {
        let (word, bit) = Self::place(number);
        self.0[word] |= bit;
    }

    fn remove(&mut self, number: u16) {
        let (word, bit) = Self::place(number);
        self.0[word] &= !bit;
    }

    fn contains(&self, number: u16) -> bool {
        let (word, bit) = Self::place(number);
        self.0[word] & bit != 0
    }
}
