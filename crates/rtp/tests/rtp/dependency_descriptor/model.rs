//! A plain writer of dependency descriptors (AV1 RTP specification, section A.8.2), and the structures of
//! section A.10.2.

/// A structure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structure {
    pub(crate) template_id_offset: u8,
    pub(crate) templates: Vec<Template>,
    /// Chain of each decode target.
    pub(crate) protected_by: Vec<u8>,
    pub(crate) chain_count: usize,
    pub(crate) resolutions: Option<Vec<(u16, u16)>>,
}

/// A template; `indications` has a letter of table A.1 for each decode target.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) spatial: u8,
    pub(crate) temporal: u8,
    pub(crate) indications: String,
    pub(crate) references: Vec<u16>,
    pub(crate) chains: Vec<u8>,
}

/// A descriptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptor {
    pub(crate) start: bool,
    pub(crate) end: bool,
    pub(crate) template_id: u8,
    pub(crate) frame_number: u16,
    pub(crate) has_structure: bool,
    pub(crate) active: Option<u32>,
    pub(crate) indications: Option<String>,
    pub(crate) references: Option<Vec<u16>>,
    pub(crate) chains: Option<Vec<u8>>,
}

impl Structure {
    pub(crate) fn target_count(&self) -> usize {
        self.templates[0].indications.len()
    }
}

impl Descriptor {
    /// Its bytes.
    pub(crate) fn write(&self, structure: &Structure) -> Vec<u8> {
        let mut bits = Bits::default();
        bits.f(1, self.start.into());
        bits.f(1, self.end.into());
        bits.f(6, self.template_id.into());
        bits.f(16, self.frame_number.into());
        if self.has_structure
            || self.active.is_some()
            || self.indications.is_some()
            || self.references.is_some()
            || self.chains.is_some()
        {
            bits.f(1, self.has_structure.into());
            bits.f(1, self.active.is_some().into());
            bits.f(1, self.indications.is_some().into());
            bits.f(1, self.references.is_some().into());
            bits.f(1, self.chains.is_some().into());
            if self.has_structure {
                bits.structure(structure);
            }
            if let Some(active) = self.active {
                bits.f(structure.target_count(), active);
            }
            if let Some(indications) = &self.indications {
                bits.indications(indications);
            }
            if let Some(references) = &self.references {
                for reference in references {
                    let size = if *reference <= 16 { 1 } else { 2 + usize::from(*reference > 256) };
                    bits.f(2, size as u32);
                    bits.f(4 * size, u32::from(*reference) - 1);
                }
                bits.f(2, 0);
            }
            for difference in self.chains.iter().flatten() {
                bits.f(8, (*difference).into());
            }
        }
        bits.bytes()
    }
}

/// Bits, one each.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn f(&mut self, bits: usize, value: u32) {
        self.0.extend((0..bits).rev().map(|bit| value >> bit & 1 == 1));
    }

    fn ns(&mut self, n: u32, value: u32) {
        let w = (0..).find(|bits| n >> bits == 0).unwrap();
        let m = (1 << w) - n;
        if n == 1 {
        } else if value < m {
            self.f(w - 1, value);
        } else {
            self.f(w, value + m);
        }
    }

    fn indications(&mut self, letters: &str) {
        for letter in letters.chars() {
            self.f(2, "-DSR".find(letter).expect("a letter of table A.1") as u32);
        }
    }

    fn structure(&mut self, structure: &Structure) {
        let targets = structure.target_count();
        self.f(6, structure.template_id_offset.into());
        self.f(5, targets as u32 - 1);
        for pair in structure.templates.windows(2) {
            let next = if pair[1].spatial > pair[0].spatial {
                2
            } else {
                u32::from(pair[1].temporal > pair[0].temporal)
            };
            self.f(2, next);
        }
        self.f(2, 3);
        for template in &structure.templates {
            self.indications(&template.indications);
        }
        for template in &structure.templates {
            for reference in &template.references {
                self.f(1, 1);
                self.f(4, u32::from(*reference) - 1);
            }
            self.f(1, 0);
        }
        self.ns(targets as u32 + 1, structure.chain_count as u32);
        if structure.chain_count > 0 {
            for chain in &structure.protected_by {
                self.ns(structure.chain_count as u32, (*chain).into());
            }
            for difference in structure.templates.iter().flat_map(|template| &template.chains) {
                self.f(4, (*difference).into());
            }
        }
        self.f(1, structure.resolutions.is_some().into());
        for (width, height) in structure.resolutions.iter().flatten() {
            self.f(16, (*width).into());
            self.f(16, (*height).into());
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.0
            .chunks(8)
            .map(|byte| byte.iter().zip(0..).fold(0, |sum, (bit, at)| sum | u8::from(*bit) << (7 - at)))
            .collect()
    }
}

/// A row of the tables of section A.10.2: spatial and temporal layer, frame differences, chain
/// differences, indications.
pub(crate) type Row<'a> = (u8, u8, &'a [u16], &'a [u8], &'a str);

/// A structure from its table, and the chain of each decode target.
pub(crate) fn table(rows: &[Row<'_>], protected_by: &[u8]) -> Structure {
    Structure {
        template_id_offset: 0,
        templates: rows
            .iter()
            .map(|(spatial, temporal, references, chains, indications)| Template {
                spatial: *spatial,
                temporal: *temporal,
                indications: (*indications).to_string(),
                references: references.to_vec(),
                chains: chains.to_vec(),
            })
            .collect(),
        protected_by: protected_by.to_vec(),
        chain_count: rows[0].3.len(),
        resolutions: None,
    }
}

/// Section A.10.2.1: one spatial layer with three temporal layers.
pub(crate) fn l1t3() -> Structure {
    table(
        &[
            (0, 0, &[], &[0], "SSS"),
            (0, 0, &[4], &[4], "SSS"),
            (0, 1, &[2], &[2], "SD-"),
            (0, 2, &[1], &[1], "D--"),
            (0, 2, &[1], &[3], "D--"),
        ],
        &[0, 0, 0],
    )
}

/// Section A.10.2.2: three spatial layers with three temporal layers each, full SVC.
pub(crate) fn l3t3() -> Structure {
    table(
        &[
            (0, 0, &[], &[0, 0, 0], "SSSSSSSSS"),
            (0, 0, &[12], &[12, 11, 10], "RRRRRRSSS"),
            (0, 1, &[6], &[6, 5, 4], "RR-RR-SD-"),
            (0, 2, &[3], &[3, 2, 1], "R--R--D--"),
            (0, 2, &[3], &[9, 8, 7], "R--R--D--"),
            (1, 0, &[1], &[1, 1, 1], "SSSSSS---"),
            (1, 0, &[12, 1], &[1, 1, 1], "RRRSSS---"),
            (1, 1, &[6, 1], &[7, 6, 5], "RR-SD----"),
            (1, 2, &[3, 1], &[4, 3, 2], "R--D-----"),
            (1, 2, &[3, 1], &[10, 9, 8], "R--D-----"),
            (2, 0, &[1], &[2, 1, 1], "SSS------"),
            (2, 0, &[12, 1], &[2, 1, 1], "SSS------"),
            (2, 1, &[6, 1], &[8, 7, 6], "SD-------"),
            (2, 2, &[3, 1], &[5, 4, 3], "D--------"),
            (2, 2, &[3, 1], &[11, 10, 9], "D--------"),
        ],
        &[2, 2, 2, 1, 1, 1, 0, 0, 0],
    )
}

/// Section A.10.2.3: three spatial layers with three temporal layers each, which refer to one
/// another in key pictures only (K-SVC), shifted in time.
pub(crate) fn l3t3_key_shift() -> Structure {
    table(
        &[
            (0, 0, &[], &[0, 0, 0], "SSSSSSSSS"),
            (0, 0, &[3], &[3, 2, 1], "------SSS"),
            (0, 0, &[12], &[12, 8, 1], "------SSS"),
            (0, 1, &[6], &[6, 2, 7], "------SD-"),
            (0, 2, &[3], &[3, 5, 4], "------D--"),
            (0, 2, &[3], &[9, 5, 10], "------D--"),
            (0, 2, &[3], &[3, 11, 4], "------D--"),
            (1, 0, &[1], &[1, 1, 1], "SSSSSS---"),
            (1, 0, &[6], &[4, 6, 5], "---SSS---"),
            (1, 0, &[12], &[4, 12, 5], "---SSS---"),
            (1, 1, &[6], &[10, 6, 11], "---SD----"),
            (1, 2, &[3], &[1, 3, 2], "---D-----"),
            (1, 2, &[3], &[7, 3, 8], "---D-----"),
            (1, 2, &[3], &[1, 9, 2], "---D-----"),
            (2, 0, &[1], &[2, 1, 1], "SSS------"),
            (2, 0, &[12], &[11, 7, 12], "SSS------"),
            (2, 1, &[6], &[5, 1, 6], "SD-------"),
            (2, 2, &[3], &[2, 4, 3], "D--------"),
            (2, 2, &[3], &[8, 4, 9], "D--------"),
            (2, 2, &[3], &[2, 10, 3], "D--------"),
        ],
        &[2, 2, 2, 1, 1, 1, 0, 0, 0],
    )
}
