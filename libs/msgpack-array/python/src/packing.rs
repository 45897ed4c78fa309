//! Arrays to bytes.
//!
//! An array of several dimensions becomes an array of arrays, one of none becomes its number: what
//! an encoder makes of `array.tolist()`. The common case, one dimension, writes where the bytes
//! will stay: their number is known before for floats and booleans, few integers go over a stage on
//! the stack, and many are measured first.

use core::mem::MaybeUninit;

use msgpack_array::{Isa, array_header, bin_header, encode_elements_uninit, max_encoded_len};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::dtype::{Dtype, with_element};
use crate::input::Array;
use crate::number::Number;
use crate::output;

/// From this many bytes of elements on, the interpreter is released. Fewer take less than 0.1 ms,
/// and it may take up to 5 ms to get the interpreter back.
pub(crate) const DETACH_BYTES_MIN: usize = 1 << 20;

/// Elements that cannot take more bytes than this are encoded on the stack and copied once.
const STAGE_BYTES: usize = 32 << 10;

/// See `pack` in `lib.rs`.
pub(crate) fn pack<'py>(object: &Bound<'py, PyAny>, bin: bool, isa: Isa) -> PyResult<Bound<'py, PyBytes>> {
    let array = Array::of(object)?;
    let count = check_shape(&array, bin)?;
    if bin {
        let (header, length) = bin_header(count);
        // SAFETY: `check_shape` has checked that it is u8, or i8, whose bytes they are; the caller
        // must not write meanwhile.
        let elements = unsafe { u8::elements(&array) };
        return output::bytes(array.py(), length + elements.len(), |out| {
            let (head, body) = out.split_at_mut(length);
            head.write_copy_of_slice(&header[..length]);
            body.write_copy_of_slice(&elements);
            length + elements.len()
        });
    }
    with_element!(array.dtype, T => {
        // SAFETY: of this type; the caller must not write meanwhile.
        let elements = unsafe { T::elements(&array) };
        match array.shape() {
            [_] => pack_flat(array.py(), isa, count, &elements),
            shape => {
                let mut out = Vec::new();
                detached(array.py(), detachable_bytes(&elements), || nested(isa, shape, &elements, &mut out));
                Ok(PyBytes::new(array.py(), &out))
            }
        }
    })
}

/// See `pack_to` in `lib.rs`.
pub(crate) fn pack_to(
    object: &Bound<'_, PyAny>,
    out: &Bound<'_, PyByteArray>,
    bin: bool,
    isa: Isa,
) -> PyResult<usize> {
    let array = Array::of(object)?;
    let count = check_shape(&array, bin)?;
    if bin || array.shape().len() != 1 {
        let packed = pack(object, bin, isa)?;
        let packed = packed.as_bytes();
        return output::append_to_bytearray(out, packed.len(), false, |out| {
            out.write_copy_of_slice(packed).len()
        });
    }
    with_element!(array.dtype, T => {
        // SAFETY: of this type; the caller must not write meanwhile.
        let elements = unsafe { T::elements(&array) };
        let bytes = detachable_bytes(&elements);
        let (header, length) = array_header(count);
        let length_max = max_encoded_len::<T>(elements.len());
        output::append_to_bytearray(out, length_max, bytes >= DETACH_BYTES_MIN, |out| {
            let (head, body) = out.split_at_mut(length);
            head.write_copy_of_slice(&header[..length]);
            let written = detached(array.py(), bytes, || write_all(isa, &elements, body));
            length + written.expect("there is room for all, however long they are")
        })
    })
}

fn pack_flat<'py, T: Number>(
    py: Python<'py>,
    isa: Isa,
    count: u32,
    elements: &[T],
) -> PyResult<Bound<'py, PyBytes>> {
    let (header, length) = array_header(count);
    let bytes = detachable_bytes(elements);
    if !T::CONSTANT_LENGTH && elements.len() <= STAGE_BYTES / T::ENCODED_MAX {
        let mut stage = [MaybeUninit::uninit(); header_and(STAGE_BYTES)];
        let (head, body) = stage.split_at_mut(length);
        head.write_copy_of_slice(&header[..length]);
        let written = length + write_all(isa, elements, body).expect("the stage is long enough for all");
        // SAFETY: so many have been initialised from the beginning.
        return Ok(PyBytes::new(py, unsafe { stage[..written].assume_init_ref() }));
    }
    let encoded = detached(py, bytes, || T::encoded_len(isa, elements));
    output::bytes(py, length + encoded, |out| {
        let (head, body) = out.split_at_mut(length);
        head.write_copy_of_slice(&header[..length]);
        // No bytes at all: they are not those that were measured.
        detached(py, bytes, || write_all(isa, elements, body)).map_or(0, |written| length + written)
    })
}

const fn header_and(bytes: usize) -> usize {
    5 + bytes
}

/// Writes elements to `out`, which has as many bytes as they need and perhaps no more, and returns
/// the bytes written; `None` if the elements have grown since they were measured, so that not all
/// of them fit.
fn write_all<T: Number>(isa: Isa, mut elements: &[T], out: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let mut at = 0;
    loop {
        // As many as fit, however long they are; these are all of them, or nearly all after a few
        // rounds.
        let sure = elements.len().min((out.len() - at) / T::ENCODED_MAX);
        if sure < elements.len() && sure <= STAGE_BYTES / T::ENCODED_MAX {
            break;
        }
        let (now, later) = elements.split_at(sure);
        at += encode_elements_uninit(isa, now, &mut out[at..]).expect("there is room, however long they are");
        elements = later;
        if elements.is_empty() {
            return Some(at);
        }
    }
    let mut stage = [MaybeUninit::uninit(); STAGE_BYTES];
    for chunk in elements.chunks(STAGE_BYTES / T::ENCODED_MAX) {
        let written =
            encode_elements_uninit(isa, chunk, &mut stage).expect("chunks are as long as the stage allows");
        out.get_mut(at..at + written)?.copy_from_slice(&stage[..written]);
        at += written;
    }
    Some(at)
}

/// Appends the array of `shape`, whose elements these are.
fn nested<T: Number>(isa: Isa, shape: &[usize], elements: &[T], out: &mut Vec<u8>) {
    match *shape {
        [] => {
            let mut element = [MaybeUninit::uninit(); 9];
            let written = encode_elements_uninit(isa, elements, &mut element).expect("no element is longer");
            // SAFETY: so many have been initialised.
            out.extend_from_slice(unsafe { element[..written].assume_init_ref() });
        }
        [_] => msgpack_array::encode_with(isa, elements, out),
        [rows, ref row @ ..] => {
            msgpack_array::encode_array_header(rows as u32, out);
            let length: usize = row.iter().product();
            for index in 0..rows {
                nested(isa, row, &elements[index * length..][..length], out);
            }
        }
    }
}

/// Bytes of elements that may be read while other threads run. Not of booleans: what another thread
/// wrote then would not have been looked at.
fn detachable_bytes<T: Number>(elements: &[T]) -> usize {
    if T::ANY_BITS { size_of_val(elements) } else { 0 }
}

/// Runs `work` on that many bytes, and releases the interpreter if it is worth it.
pub(crate) fn detached<R: Send>(py: Python<'_>, bytes: usize, work: impl Send + FnOnce() -> R) -> R {
    if bytes < DETACH_BYTES_MIN { work() } else { py.detach(work) }
}

/// Returns the length of the first dimension, 1 if there is none.
fn check_shape(array: &Array<'_>, bin: bool) -> PyResult<u32> {
    let shape = array.shape();
    if bin && (!matches!(array.dtype, Dtype::U8 | Dtype::I8) || shape.len() != 1) {
        return Err(PyTypeError::new_err("bin=True takes an array of uint8 or int8 with one dimension"));
    }
    match shape.iter().find(|count| u32::try_from(**count).is_err()) {
        None => Ok(shape.first().map_or(1, |count| *count as u32)),
        Some(count) => Err(PyOverflowError::new_err(format!(
            "{count} elements in one dimension; MessagePack has at most 4294967295"
        ))),
    }
}
