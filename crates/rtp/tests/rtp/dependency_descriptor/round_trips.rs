//! Random structures and frames, from the plain writer through the reader, and through the writer
//! of another mask.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rtp::extension::{DESCRIPTOR_LEN_MAX, DependencyReader, Layer, write_active_decode_targets};

use super::{Descriptor, Structure, Template, letters};

fn letters_of(count: usize) -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('-'), Just('D'), Just('S'), Just('R')], count)
        .prop_map(|all| all.into_iter().collect())
}

prop_compose! {
    fn structure()(targets in 1..=32usize, steps in vec(0..8u8, 0..24), offset in 0..64u8)(
        layers in Just(layers(&steps)),
        indications in vec(letters_of(targets), steps.len() + 1),
        references in vec(vec(1..=16u16, 0..4), steps.len() + 1),
        chain_count in 0..=targets,
        differences in vec(vec(0..16u8, 32), steps.len() + 1),
        protected_by in vec(0..32u8, targets),
        resolutions in option::of(vec(any::<(u16, u16)>(), 8)),
        offset in Just(offset),
    ) -> Structure {
        let spatial_layers = usize::from(layers.last().unwrap().spatial) + 1;
        Structure {
            template_id_offset: offset,
            templates: layers.iter().zip(indications).zip(references).zip(differences).map(
                |(((layer, indications), references), mut chains)| {
                    chains.truncate(chain_count);
                    let Layer { spatial, temporal } = *layer;
                    Template { spatial, temporal, indications, references, chains }
                },
            ).collect(),
            protected_by: protected_by.iter().map(|chain| chain % chain_count.max(1) as u8).collect(),
            chain_count,
            resolutions: resolutions.map(|mut all| { all.truncate(spatial_layers); all }),
        }
    }
}

/// Layers that go up by one step at a time.
fn layers(steps: &[u8]) -> Vec<Layer> {
    let mut layer = Layer::default();
    let mut layers = vec![layer];
    for step in steps {
        match step {
            0..=1 if layer.temporal < 7 => layer.temporal += 1,
            2 if layer.spatial < 7 => layer = Layer { spatial: layer.spatial + 1, temporal: 0 },
            _ => {}
        }
        layers.push(layer);
    }
    layers
}

/// A frame of any template, with any fields of its own.
fn descriptor(structure: &Structure) -> impl Strategy<Value = Descriptor> + use<> {
    let (targets, chains, offset) =
        (structure.target_count(), structure.chain_count, structure.template_id_offset);
    let mask = u32::MAX >> (32 - targets);
    (
        (any::<bool>(), any::<bool>(), 0..structure.templates.len() as u8, any::<u16>(), any::<bool>()),
        option::of(any::<u32>()),
        option::of(letters_of(targets)),
        option::of(vec(1..=4096u16, 0..=16)),
        option::of(vec(any::<u8>(), chains)),
    )
        .prop_map(move |(head, active, indications, references, chains)| Descriptor {
            start: head.0,
            end: head.1,
            template_id: (head.2 + offset) % 64,
            frame_number: head.3,
            has_structure: head.4,
            active: active.map(|active| active & mask),
            indications,
            references,
            chains,
        })
}

fn structure_and_frames() -> impl Strategy<Value = (Structure, Vec<Descriptor>)> {
    structure().prop_flat_map(|structure| {
        let frames = vec(descriptor(&structure), 1..8);
        (Just(structure), frames)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read((structure, mut frames) in structure_and_frames(), active: u32) {
        frames[0].has_structure = true;
        let mut reader = DependencyReader::new();
        let mut rewriting_reader = DependencyReader::new();
        for descriptor in &frames {
            let bytes = descriptor.write(&structure);
            let frame = reader.read(&bytes).unwrap();
            let index = (descriptor.template_id + 64 - structure.template_id_offset) % 64;
            let template = &structure.templates[usize::from(index)];
            let head = frame.head;
            prop_assert_eq!((head.starts_frame, head.ends_frame), (descriptor.start, descriptor.end));
            prop_assert_eq!(head.template_id, descriptor.template_id);
            prop_assert_eq!(head.frame_number, descriptor.frame_number);
            prop_assert_eq!(head.has_structure, descriptor.has_structure);
            let layer = Layer { spatial: template.spatial, temporal: template.temporal };
            prop_assert_eq!(frame.layer, layer);
            prop_assert_eq!(frame.active_decode_targets, descriptor.active);
            let indications = descriptor.indications.as_ref().unwrap_or(&template.indications);
            prop_assert_eq!(&letters(&frame), indications);
            let references = descriptor.references.as_ref().unwrap_or(&template.references);
            let number = |difference: u16| descriptor.frame_number.wrapping_sub(difference);
            prop_assert!(frame.referred_frames().eq(references.iter().map(|back| number(*back))));
            let chains = descriptor.chains.as_ref().unwrap_or(&template.chains);
            let previous = chains.iter().map(|back| (*back > 0).then(|| number((*back).into())));
            prop_assert!(frame.previous_in_chains().eq(previous));

            // The same with another mask.
            let mask = active & (u32::MAX >> (32 - structure.target_count()));
            let mut out = vec![0xee; 3 * DESCRIPTOR_LEN_MAX];
            let written =
                write_active_decode_targets(&bytes, structure.target_count() as u8, mask, &mut out);
            let Ok(len) = written else {
                prop_assert!(bytes.len() + 5 > DESCRIPTOR_LEN_MAX);
                rewriting_reader.read(&bytes).unwrap();
                continue;
            };
            prop_assert!(len <= bytes.len() + 5 && out[len..].iter().all(|byte| *byte == 0xee));
            let again = rewriting_reader.read(&out[..len]).unwrap();
            let mut expected = frame;
            expected.active_decode_targets = Some(mask);
            prop_assert_eq!(again, expected);
            prop_assert_eq!(rewriting_reader.structure(), reader.structure());
        }

        let read = reader.structure();
        prop_assert_eq!(read.chain_count(), structure.chain_count);
        prop_assert_eq!(read.decode_targets().len(), structure.target_count());
        for target in read.decode_targets() {
            let at = usize::from(target.0);
            let present: Vec<&Template> =
                structure.templates.iter().filter(|template| &template.indications[at..=at] != "-").collect();
            let highest = Layer {
                spatial: present.iter().map(|template| template.spatial).max().unwrap_or(0),
                temporal: present.iter().map(|template| template.temporal).max().unwrap_or(0),
            };
            prop_assert_eq!(read.layer_of(target), Some(highest));
            let chain = (structure.chain_count > 0).then(|| usize::from(structure.protected_by[at]));
            prop_assert_eq!(read.chain_of(target), chain);
        }
        for spatial in 0..8 {
            let resolution = structure.resolutions.as_ref().and_then(|all| all.get(usize::from(spatial)));
            let expected = resolution.map(|(width, height)| (u32::from(*width) + 1, u32::from(*height) + 1));
            prop_assert_eq!(read.resolution_of(spatial), expected);
        }
    }
}
