//! What one packet's descriptor says of its frame, with the structure of its encoding.
//!
//! ```text
//! | mandatory fields (24) |, and if there are more than three bytes: |T|A|D|F|C|
//! | T: structure | A: active decode targets (one bit each) |
//! | D: per target: DTI (2) | F: | size (2) | difference - 1 (4 * size) |... size 0 | C: per chain: difference (8) |
//! ```
//! What is not there is the template's (section A.8.2).

use media::bitstream::BitReader;

use super::structure::{Indications, References};
use super::{
    CHAINS_MAX, DecodeTarget, DependencyDescriptor, DependencyError, DependencyStructure, Indication, Layer,
};

/// Reads the descriptors of one encoding: keeps its structure and which decode targets are active.
///
/// **[`read`](Self::read) each descriptor, in the order of the packets.** It holds a
/// [`DependencyStructure`]: keep it in a box.
#[derive(Clone, Debug)]
pub struct DependencyReader {
    structure: DependencyStructure,
    active: u32,
}

impl Default for DependencyReader {
    fn default() -> Self {
        Self::new()
    }
}

impl DependencyReader {
    /// Without a structure: every template is unknown until one arrives.
    pub fn new() -> Self {
        Self { structure: DependencyStructure::NONE, active: 0 }
    }

    /// Reads one packet's descriptor.
    ///
    /// # Errors
    /// [`DependencyError`]; nothing is kept of a structure that came with it.
    pub fn read(&mut self, data: &[u8]) -> Result<FrameDependencies, DependencyError> {
        let head = DependencyDescriptor::parse(data).ok_or(DependencyError::CutOff)?;
        let mut bits = BitReader::new(&data[3..]);
        let flags = Flags::read(&mut bits)?;
        if flags.structure {
            let structure = DependencyStructure::read(&mut bits)?;
            let active = structure.all_decode_targets();
            let frame = FrameDependencies::read(head, flags, &mut bits, &structure)?;
            self.active = frame.active_decode_targets.unwrap_or(active);
            self.structure = structure;
            return Ok(frame);
        }
        let frame = FrameDependencies::read(head, flags, &mut bits, &self.structure)?;
        self.active = frame.active_decode_targets.unwrap_or(self.active);
        Ok(frame)
    }

    /// What a packet's descriptor says, which is not the next one of the encoding: nothing is kept of it.
    ///
    /// # Errors
    /// [`DependencyError`].
    pub fn peek(&self, data: &[u8]) -> Result<FrameDependencies, DependencyError> {
        let head = DependencyDescriptor::parse(data).ok_or(DependencyError::CutOff)?;
        let mut bits = BitReader::new(&data[3..]);
        let flags = Flags::read(&mut bits)?;
        if flags.structure {
            let structure = DependencyStructure::read(&mut bits)?;
            return FrameDependencies::read(head, flags, &mut bits, &structure);
        }
        FrameDependencies::read(head, flags, &mut bits, &self.structure)
    }

    /// The structure that came last, [`DependencyStructure::NONE`] until one did.
    pub fn structure(&self) -> &DependencyStructure {
        &self.structure
    }

    /// The decode targets that the sender produces, as a mask.
    pub fn active_decode_targets(&self) -> u32 {
        self.active
    }
}

/// The flags behind the mandatory fields; none is set if there are no more than these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) structure: bool,
    pub(super) active_decode_targets: bool,
    pub(super) indications: bool,
    pub(super) references: bool,
    pub(super) chains: bool,
}

impl Flags {
    /// Reads them behind the mandatory fields.
    pub(super) fn read(bits: &mut BitReader<'_>) -> Result<Self, DependencyError> {
        if bits.bits_left() == 0 {
            return Ok(Self::default());
        }
        Ok(Self {
            structure: bits.bit()?,
            active_decode_targets: bits.bit()?,
            indications: bits.bit()?,
            references: bits.bit()?,
            chains: bits.bit()?,
        })
    }
}

/// What a frame depends on, and what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDependencies {
    /// The mandatory fields.
    pub head: DependencyDescriptor,
    /// Layers of the frame.
    pub layer: Layer,
    /// The decode targets that are active from this packet on, if it says so, as a mask.
    pub active_decode_targets: Option<u32>,
    /// How many decode targets the structure has, `1..=32`.
    pub decode_target_count: u8,
    indications: Indications,
    references: References,
    chains: [u8; CHAINS_MAX],
    chain_count: u8,
}

impl FrameDependencies {
    /// Reads it behind the flags and the structure, if there is one in the packet.
    fn read(
        head: DependencyDescriptor,
        flags: Flags,
        bits: &mut BitReader<'_>,
        structure: &DependencyStructure,
    ) -> Result<Self, DependencyError> {
        let template = structure.template(head.template_id).ok_or(DependencyError::UnknownTemplate)?;
        let target_count = structure.decode_targets().len();
        let chain_count = structure.chain_count();
        let mut frame = Self {
            head,
            layer: template.layer,
            active_decode_targets: None,
            decode_target_count: target_count as u8,
            indications: template.indications,
            references: template.references,
            chains: template.chains,
            chain_count: chain_count as u8,
        };
        if flags.active_decode_targets {
            frame.active_decode_targets = Some(bits.u(target_count as u32)?);
        }
        if flags.indications {
            frame.indications = Indications::read(bits, target_count)?;
        }
        if flags.references {
            frame.references = References::NONE;
            loop {
                let size = bits.u(2)?;
                if size == 0 {
                    break;
                }
                frame.references.push(bits.u(4 * size)? as u16 + 1)?;
            }
        }
        if flags.chains {
            for difference in &mut frame.chains[..chain_count] {
                *difference = bits.u(8)? as u8;
            }
        }
        Ok(frame)
    }

    /// How the frame relates to a decode target; [`Indication::NotPresent`] if there is no such
    /// one.
    pub fn indication(&self, target: DecodeTarget) -> Indication {
        self.indications.get(target)
    }

    /// Numbers of the frames that it refers to; without them it cannot be decoded.
    pub fn referred_frames(&self) -> impl ExactSizeIterator<Item = u16> + '_ {
        self.references.as_slice().iter().map(|difference| self.head.frame_number.wrapping_sub(*difference))
    }

    /// Number of the frame before it in each chain; `None` if it needs none of that chain's.
    pub fn previous_in_chains(&self) -> impl ExactSizeIterator<Item = Option<u16>> + '_ {
        let number = self.head.frame_number;
        self.chains[..usize::from(self.chain_count)]
            .iter()
            .map(move |difference| (*difference > 0).then(|| number.wrapping_sub(u16::from(*difference))))
    }
}
