//! The frame dependency structure, which comes with a key frame: what kinds of frames there are
//! (templates), and what subsets of them can be decoded (decode targets).
//!
//! ```text
//! | offset (6) | targets - 1 (5) | per template: | next layer (2) |, the last 3
//! | per template and target: DTI (2) | per template: |1| difference - 1 (4)|... |0|
//! | chains ns(targets + 1) |, if any: | per target: ns(chains) | per template and chain: difference (4) |
//! | R |, if R: | per spatial layer: width - 1 (16) | height - 1 (16) |       AV1 RTP specification, section A.8.2
//! ```

use media::bitstream::BitReader;

use super::{
    CHAINS_MAX, DECODE_TARGETS_MAX, DependencyError, Indication, LAYERS_MAX, REFERENCES_MAX, TEMPLATES_MAX,
};

/// The frame dependency structure of an encoding.
///
/// It has its limits' full size, 5 kB, so that reading one allocates nothing: keep it in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyStructure {
    /// Template id of the first template.
    template_id_offset: u8,
    templates: [Template; TEMPLATES_MAX],
    /// `0 <= template_count <= TEMPLATES_MAX`, and so on; all are 0 until there is a structure.
    template_count: usize,
    target_count: usize,
    chain_count: usize,
    /// Layers of each decode target.
    targets: [Layer; DECODE_TARGETS_MAX],
    /// Chain of each decode target, if there are chains.
    protected_by: [u8; DECODE_TARGETS_MAX],
    /// Maximum width and height, each minus one, of each spatial layer.
    resolutions: [(u16, u16); LAYERS_MAX],
    resolution_count: usize,
}

/// A spatial and a temporal layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Spatial layer, 0 being the base.
    pub spatial: u8,
    /// Temporal layer, 0 being the base.
    pub temporal: u8,
}

/// Index of a decode target in its structure; less than [`DECODE_TARGETS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecodeTarget(pub u8);

impl DecodeTarget {
    /// Its bit in a mask of decode targets.
    pub fn bit(self) -> u32 {
        1u32.checked_shl(self.0.into()).unwrap_or(0)
    }
}

impl DependencyStructure {
    /// No templates: every frame's template is unknown.
    pub const NONE: Self = Self {
        template_id_offset: 0,
        templates: [Template::NONE; TEMPLATES_MAX],
        template_count: 0,
        target_count: 0,
        chain_count: 0,
        targets: [Layer { spatial: 0, temporal: 0 }; DECODE_TARGETS_MAX],
        protected_by: [0; DECODE_TARGETS_MAX],
        resolutions: [(0, 0); LAYERS_MAX],
        resolution_count: 0,
    };

    /// Reads `template_dependency_structure()`, which is behind the flags of a descriptor.
    pub(super) fn read(bits: &mut BitReader<'_>) -> Result<Self, DependencyError> {
        let mut structure = Self {
            template_id_offset: bits.u(6)? as u8,
            target_count: bits.u(5)? as usize + 1,
            ..Self::NONE
        };
        let spatial_max = structure.template_layers(bits)?;
        let target_count = structure.target_count;
        for template in &mut structure.templates[..structure.template_count] {
            template.indications = Indications::read(bits, target_count)?;
        }
        for template in &mut structure.templates[..structure.template_count] {
            while bits.bit()? {
                template.references.push(bits.u(4)? as u16 + 1)?;
            }
        }
        structure.template_chains(bits)?;
        structure.decode_target_layers();
        if bits.bit()? {
            structure.resolution_count = usize::from(spatial_max) + 1;
            for resolution in &mut structure.resolutions[..structure.resolution_count] {
                *resolution = (bits.u(16)? as u16, bits.u(16)? as u16);
            }
        }
        Ok(structure)
    }

    /// Returns the highest spatial layer.
    fn template_layers(&mut self, bits: &mut BitReader<'_>) -> Result<u8, DependencyError> {
        let mut layer = Layer::default();
        loop {
            let template = self.templates.get_mut(self.template_count).ok_or(DependencyError::TooMany)?;
            template.layer = layer;
            self.template_count += 1;
            match bits.u(2)? {
                0 => {}
                1 => layer.temporal += 1,
                2 => layer = Layer { spatial: layer.spatial + 1, temporal: 0 },
                _ => return Ok(layer.spatial),
            }
            if usize::from(layer.spatial.max(layer.temporal)) >= LAYERS_MAX {
                return Err(DependencyError::TooMany);
            }
        }
    }

    fn template_chains(&mut self, bits: &mut BitReader<'_>) -> Result<(), DependencyError> {
        self.chain_count = ns(bits, self.target_count as u32 + 1)? as usize;
        if self.chain_count == 0 {
            return Ok(());
        }
        for chain in &mut self.protected_by[..self.target_count] {
            *chain = ns(bits, self.chain_count as u32)? as u8;
        }
        for template in &mut self.templates[..self.template_count] {
            for difference in &mut template.chains[..self.chain_count] {
                *difference = bits.u(4)? as u8;
            }
        }
        Ok(())
    }

    /// A decode target has the highest layers of the templates that are present in it.
    fn decode_target_layers(&mut self) {
        for (index, layer) in (0..).zip(&mut self.targets[..self.target_count]) {
            for template in &self.templates[..self.template_count] {
                if template.indications.get(DecodeTarget(index)) != Indication::NotPresent {
                    layer.spatial = layer.spatial.max(template.layer.spatial);
                    layer.temporal = layer.temporal.max(template.layer.temporal);
                }
            }
        }
    }

    /// The template of that id.
    pub(super) fn template(&self, id: u8) -> Option<&Template> {
        let index = id.wrapping_sub(self.template_id_offset) & 0x3f;
        self.templates[..self.template_count].get(usize::from(index))
    }

    /// Decode targets, in the order of the structure.
    pub fn decode_targets(
        &self,
    ) -> impl DoubleEndedIterator<Item = DecodeTarget> + ExactSizeIterator + use<> {
        (0..self.target_count as u8).map(DecodeTarget)
    }

    /// How many chains there are, `0..=32`.
    pub fn chain_count(&self) -> usize {
        self.chain_count
    }

    /// The highest layers of a decode target; `None` if the structure has no such target.
    pub fn layer_of(&self, target: DecodeTarget) -> Option<Layer> {
        self.targets[..self.target_count].get(usize::from(target.0)).copied()
    }

    /// Index of the chain that protects a decode target; `None` without chains or such a target.
    pub fn chain_of(&self, target: DecodeTarget) -> Option<usize> {
        let chain = *self.protected_by[..self.target_count].get(usize::from(target.0))?;
        (self.chain_count > 0).then_some(chain.into())
    }

    /// Maximum width and height of a spatial layer in pixels, if the structure has them.
    pub fn resolution_of(&self, spatial: u8) -> Option<(u32, u32)> {
        let (width, height) = *self.resolutions[..self.resolution_count].get(usize::from(spatial))?;
        Some((u32::from(width) + 1, u32::from(height) + 1))
    }

    /// The best decode target within both layers of `max`, among those of the mask `active`: the
    /// highest spatial layer, in that the highest temporal one. `None` if there is none.
    pub fn best_within(&self, max: Layer, active: u32) -> Option<DecodeTarget> {
        let layer = |target: &DecodeTarget| self.targets[usize::from(target.0)];
        self.decode_targets()
            .filter(|target| target.bit() & active != 0)
            .filter(|target| layer(target).spatial <= max.spatial && layer(target).temporal <= max.temporal)
            // Of equal ones the first.
            .rev()
            .max_by_key(|target| (layer(target).spatial, layer(target).temporal))
    }

    /// The decode targets that can be decoded of the frames of `target`, itself included: each of
    /// their templates is present in `target` too. For [`write_active_decode_targets`], with the
    /// mask of those that the encoder produces.
    ///
    /// [`write_active_decode_targets`]: super::write_active_decode_targets
    pub fn contained_in(&self, target: DecodeTarget) -> u32 {
        let templates = &self.templates[..self.template_count];
        let is_contained = |other: &DecodeTarget| {
            templates.iter().all(|template| {
                template.indications.get(*other) == Indication::NotPresent
                    || template.indications.get(target) != Indication::NotPresent
            })
        };
        self.decode_targets().filter(is_contained).fold(0, |mask, other| mask | other.bit())
    }

    /// All decode targets there are, as a mask.
    pub fn all_decode_targets(&self) -> u32 {
        self.decode_targets().fold(0, |mask, target| mask | target.bit())
    }
}

/// What frames of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) layer: Layer,
    pub(super) indications: Indications,
    pub(super) references: References,
    pub(super) chains: [u8; CHAINS_MAX],
}

impl Template {
    const NONE: Self = Self {
        layer: Layer { spatial: 0, temporal: 0 },
        indications: Indications(0),
        references: References::NONE,
        chains: [0; CHAINS_MAX],
    };
}

/// Indications of all decode targets, two bits each, that of target 0 in the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indications(u64);

impl Indications {
    pub(super) fn read(bits: &mut BitReader<'_>, count: usize) -> Result<Self, DependencyError> {
        let mut all = 0;
        for target in 0..count {
            all |= u64::from(bits.u(2)?) << (2 * target);
        }
        Ok(Self(all))
    }

    pub(super) fn get(self, target: DecodeTarget) -> Indication {
        match self.0.checked_shr(2 * u32::from(target.0)).unwrap_or(0) & 3 {
            0 => Indication::NotPresent,
            1 => Indication::Discardable,
            2 => Indication::Switch,
            _ => Indication::Required,
        }
    }
}

/// How far back the frames are that a frame refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct References {
    differences: [u16; REFERENCES_MAX],
    count: u8,
}

impl References {
    pub(super) const NONE: Self = Self { differences: [0; REFERENCES_MAX], count: 0 };

    pub(super) fn push(&mut self, difference: u16) -> Result<(), DependencyError> {
        let place = self.differences.get_mut(usize::from(self.count)).ok_or(DependencyError::TooMany)?;
        *place = difference;
        self.count += 1;
        Ok(())
    }

    pub(super) fn as_slice(&self) -> &[u16] {
        &self.differences[..usize::from(self.count)]
    }
}

/// `ns(n)`: a number below `n`, in one bit less for the lower ones if `n` is no power of two.
fn ns(bits: &mut BitReader<'_>, n: u32) -> Result<u32, DependencyError> {
    let width = n.ilog2() + 1;
    let shorter = (1 << width) - n;
    let value = bits.u(width - 1)?;
    if value < shorter {
        return Ok(value);
    }
    Ok((value << 1) - shorter + u32::from(bits.bit()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of section A.8.2 for n = 5, and numbers that take no bits.
    #[test]
    fn non_symmetric_numbers_take_fewer_bits_when_they_are_low() {
        for (n, byte, expected, len) in [
            (5, 0b0000_0000, 0, 2),
            (5, 0b0100_0000, 1, 2),
            (5, 0b1000_0000, 2, 2),
            (5, 0b1100_0000, 3, 3),
            (5, 0b1110_0000, 4, 3),
            (1, 0b1111_1111, 0, 0),
            (2, 0b1000_0000, 1, 1),
            (33, 0b1111_1100, 32, 6),
        ] {
            let bytes = [byte];
            let mut bits = BitReader::new(&bytes);
            assert_eq!(ns(&mut bits, n), Ok(expected), "{byte:08b} of {n}");
            assert_eq!(8 - bits.bits_left(), len, "{byte:08b} of {n}");
        }
    }
}
