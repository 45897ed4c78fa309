//! One element after the other: ends what the vectors begin, and tells why when decoding stops.

use core::mem::MaybeUninit;

use crate::bulk::Decoded;
use crate::element::Element;

/// Reads elements until `out` is full, or says why not.
pub(super) fn decode<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    let mut bytes = 0;
    for (elements, out) in out.iter_mut().enumerate() {
        match T::decode_one(&input[bytes..]) {
            Ok((value, length)) => {
                out.write(value);
                bytes += length;
            }
            Err(stop) => return Decoded { elements, bytes, stop: Some(stop) },
        }
    }
    Decoded { elements: out.len(), bytes, stop: None }
}
