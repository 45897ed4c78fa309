//! AMF0: no input panics, and what was decoded is the same after encoding and decoding it again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::rtmp::amf0::{Decoder, Limits, Value, encode};

fuzz_target!(|data: &[u8]| {
    for limits in [Limits::COMMAND, Limits::METADATA] {
        let values = decode(data, limits);
        let mut bytes = Vec::new();
        values.iter().for_each(|value| encode(&mut bytes, value));
        // Debug form, because a NaN is not equal to itself.
        assert_eq!(format!("{values:?}"), format!("{:?}", decode(&bytes, limits)));
    }
});

/// All values up to the first error.
fn decode(data: &[u8], limits: Limits) -> Vec<Value> {
    let mut decoder = Decoder::new(data, limits);
    std::iter::from_fn(|| decoder.next_value().ok().flatten()).collect()
}
