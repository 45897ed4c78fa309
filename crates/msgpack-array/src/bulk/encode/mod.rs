//! Encoding elements in bulk.

use core::mem::MaybeUninit;

use super::Isa;
use crate::element::Element;

pub(super) fn encode<T: Element>(isa: Isa, values: &[T], out: &mut [MaybeUninit<u8>]) -> usize {
    let _ = isa;
    let mut at = 0;
    for value in values {
        let mut bytes = [0; 9];
        let length = value.encode_one(&mut bytes);
        out[at..at + length].iter_mut().zip(bytes).for_each(|(out, byte)| {
            out.write(byte);
        });
        at += length;
    }
    at
}
