//! What is sent of each sample is, byte for byte, what a decoder was given when the samples were
//! made: it decoded without a warning, to pictures that are bit for bit those of the whole, in
//! their order.

use crate::b_frames::samples::{Sent, expected, names, sample};

/// FNV-1a of 64 bits over all units, each behind a start code.
fn digest(sent: &Sent) -> u64 {
    let bytes =
        sent.kept.iter().flat_map(|(_, units)| units).flat_map(|unit| [0, 0, 0, 1].iter().chain(unit));
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn what_is_sent_of_each_sample_is_what_a_decoder_was_given() {
    let mut checked = std::collections::BTreeSet::new();
    for line in expected().lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap();
        let from = words.next().unwrap().strip_prefix("from=").unwrap().parse().unwrap();
        let sent = sample(name).filtered_from(from);
        let found = format!(
            "{name} from={from} kept={} key={} dropped={} digest={:016x}",
            sent.kept.len(),
            sent.keys,
            sent.dropped,
            digest(&sent)
        );
        assert_eq!(found, line);
        checked.insert(name.to_owned());
    }
    assert!(checked.iter().eq(&names()), "each sample was checked");
}
