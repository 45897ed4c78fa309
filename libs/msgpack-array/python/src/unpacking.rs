//! Bytes to arrays.
//!
//! The shape is read first, from the headers of the array, its first row, the first row of that and
//! so on, and nothing is allocated before there are as many bytes as elements. Then every other
//! header has to say the same.

use core::mem::MaybeUninit;

use msgpack_array::{
    DecodeError as Cause, ElementError, Isa, decode_array_header, decode_bin_header, decode_bin_i8s,
    decode_elements_uninit,
};
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::dtype::{self, Dtype, with_element};
use crate::number::Number;
use crate::output::{NewArray, swap_bytes};
use crate::packing::detached;
use crate::{DecodeError, element_error};

/// Most dimensions that are read; every NumPy has as many.
const NDIM_MAX: usize = 32;

/// What is to be read.
pub(crate) struct Wanted<'py> {
    descr: Bound<'py, PyArrayDescr>,
    dtype: Dtype,
    ndim: usize,
    bin: bool,
    isa: Isa,
}

/// What the bytes turn out not to be.
enum Failure {
    Decode(Cause),
    /// Rows of one dimension differ in length.
    Ragged,
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self::Decode(cause)
    }
}

impl<'py> Wanted<'py> {
    pub(crate) fn new(
        dtype: &Bound<'py, PyAny>,
        ndim: usize,
        bin: bool,
        isa: Option<&str>,
    ) -> PyResult<Self> {
        let isa = dtype::isa(isa)?;
        if dtype.is_none() {
            return Err(PyTypeError::new_err("a dtype is needed: the bytes do not say which one was packed"));
        }
        let descr = match dtype.cast::<PyArrayDescr>() {
            Ok(descr) => descr.clone(),
            Err(_) => PyArrayDescr::new(dtype.py(), dtype)?,
        };
        let dtype = Dtype::of(&descr)?;
        if ndim > NDIM_MAX {
            return Err(PyValueError::new_err(format!("ndim is {ndim}, more than {NDIM_MAX}")));
        }
        if bin && (!matches!(dtype, Dtype::U8 | Dtype::I8) || ndim != 1) {
            return Err(PyTypeError::new_err("bin=True gives an array of uint8 or int8 with one dimension"));
        }
        Ok(Self { descr, dtype, ndim, bin, isa })
    }

    /// The array at the beginning of `data`, and the bytes it takes. If `data` is `constant`, other
    /// threads may run meanwhile.
    pub(crate) fn read(&self, data: &[u8], constant: bool) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let failed = |failure| self.error(&failure);
        if self.bin {
            let (payload, end) = bin_payload(data).map_err(failed)?;
            if self.dtype == Dtype::I8 {
                let (payload, end) = decode_bin_i8s(data).expect("it has just been read");
                return Ok((PyArray1::from_slice(self.descr.py(), payload).into_any(), end));
            }
            return Ok((PyArray1::from_slice(self.descr.py(), payload).into_any(), end));
        }
        let mut shape = [0; NDIM_MAX];
        let shape = &mut shape[..self.ndim];
        read_shape(data, shape).map_err(failed)?;
        let mut array = NewArray::new(self.descr.clone(), shape)?;
        let swapped = self.descr.is_native_byteorder() == Some(false);
        let end = with_element!(self.dtype, T => {
            // SAFETY: `dtype` is that of the array.
            let elements = unsafe { array.elements::<T>() };
            let bytes = if constant { size_of_val(elements) } else { 0 };
            let (isa, shape) = (self.isa, &*shape);
            detached(self.descr.py(), bytes, || {
                let end = fill(isa, data, shape, elements, 0)?;
                if swapped {
                    swap_bytes(elements);
                }
                Ok(end)
            })
        });
        Ok((array.into_filled(), end.map_err(failed)?))
    }

    #[cold]
    fn error(&self, failure: &Failure) -> PyErr {
        match failure {
            Failure::Decode(Cause::Element { index, error }) => {
                element_error(self.descr.py(), *index, self.element_message(*index, error))
            }
            Failure::Decode(cause) => DecodeError::new_err(cause.to_string()),
            Failure::Ragged => DecodeError::new_err("rows differ in length"),
        }
    }

    fn element_message(&self, index: usize, error: &ElementError) -> String {
        let descr = &self.descr;
        match error {
            ElementError::OutOfRange => {
                format!("element {index}: dtype {descr} cannot hold the value exactly")
            }
            ElementError::WrongType { marker: 0x90..=0x9f | 0xdc | 0xdd } if self.ndim < NDIM_MAX => {
                let ndim = self.ndim + 1;
                format!(
                    "element {index}: {error} than dtype {descr}: rows need ndim={ndim}, or a list in dtypes"
                )
            }
            ElementError::WrongType { .. } => format!("element {index}: {error} than dtype {descr}"),
        }
    }
}

fn bin_payload(data: &[u8]) -> Result<(&[u8], usize), Failure> {
    let (length, header) = decode_bin_header(data)?;
    let end = header + length as usize;
    let payload = data.get(header..end).ok_or(Cause::Truncated)?;
    Ok((payload, end))
}

/// Follows the headers of first rows down, as many as `shape` has places. Below an array without
/// rows all lengths are 0.
fn read_shape(data: &[u8], shape: &mut [isize]) -> Result<(), Failure> {
    let mut rest = data;
    let mut elements = 1_usize;
    for length in shape {
        let (count, header) = decode_array_header(rest)?;
        rest = &rest[header..];
        // Each row and each element takes a byte at least.
        elements = elements
            .checked_mul(count as usize)
            .filter(|elements| *elements <= data.len())
            .ok_or(Cause::Truncated)?;
        *length = count as isize;
        if count == 0 {
            break;
        }
    }
    Ok(())
}

/// Fills `out` with the elements of an array of `shape` at the beginning of `data`, and returns the
/// bytes it takes. `before` elements of the whole stand before these.
fn fill<T: Number>(
    isa: Isa,
    data: &[u8],
    shape: &[isize],
    out: &mut [MaybeUninit<T>],
    before: usize,
) -> Result<usize, Failure> {
    let Some((rows, row)) = shape.split_first() else {
        return decode_elements_uninit(isa, data, out).map_err(|cause| counted_from(before, cause).into());
    };
    let (count, mut at) = decode_array_header(data)?;
    if count as isize != *rows {
        return Err(Failure::Ragged);
    }
    if row.is_empty() {
        let bytes =
            decode_elements_uninit(isa, &data[at..], out).map_err(|cause| counted_from(before, cause))?;
        return Ok(at + bytes);
    }
    let length = row.iter().product::<isize>() as usize;
    for index in 0..count as usize {
        let start = index * length;
        at += fill(isa, &data[at..], row, &mut out[start..start + length], before + start)?;
    }
    Ok(at)
}

/// The index in the whole array.
fn counted_from(before: usize, cause: Cause) -> Cause {
    match cause {
        Cause::Element { index, error } => Cause::Element { index: before + index, error },
        other => other,
    }
}
