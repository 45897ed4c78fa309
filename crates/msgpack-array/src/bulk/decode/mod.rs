//! Decoding elements in bulk.

use core::mem::MaybeUninit;

use super::{Decoded, Isa};
use crate::element::Element;

pub(super) fn decode<T: Element>(isa: Isa, input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    let _ = isa;
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
