//! Memory that Python will own: `bytes` objects, the end of a bytearray, arrays. It is not cleared,
//! and not visible to others before it is filled.

use core::mem::MaybeUninit;
use core::{ptr, slice};

use numpy::npyffi::PY_ARRAY_API;
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyByteArrayMethods, PyBytes};

/// A `bytes` object of `length` bytes, all of which `fill` has to initialise: it returns how many
/// it did.
pub(crate) fn bytes<'py>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = length.try_into()?;
    // SAFETY: without a source the memory is left as it is; the result is a new reference, or NULL
    // with the exception set.
    let bytes =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(ptr::null(), size))? };
    // SAFETY: it is a `bytes` object.
    let start = unsafe { ffi::PyBytes_AsString(bytes.as_ptr()) };
    // SAFETY: it has `length` bytes, and no one else knows it yet.
    let filled = fill(unsafe { slice::from_raw_parts_mut(start.cast(), length) });
    if filled != length {
        return Err(PyRuntimeError::new_err("the array was written to while it was packed"));
    }
    // SAFETY: `PyBytes_FromStringAndSize` makes nothing else.
    Ok(unsafe { bytes.cast_into_unchecked() })
}

/// Appends to `out` what `fill` initialises, at most `length_max` bytes. While it is `exported` it
/// cannot be resized, even when other threads run.
pub(crate) fn append_to_bytearray(
    out: &Bound<'_, PyByteArray>,
    length_max: usize,
    exported: bool,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> usize,
) -> PyResult<usize> {
    let before = out.len();
    out.resize(before.saturating_add(length_max))?;
    let export = exported.then(|| PyUntypedBuffer::get(out)).transpose()?;
    // SAFETY: it is at least that long, and does not move because it cannot be resized until `fill`
    // is done.
    let filled = fill(unsafe { slice::from_raw_parts_mut(out.data().add(before).cast(), length_max) });
    drop(export);
    out.resize(before + filled)?;
    Ok(filled)
}

/// An array that is not filled yet.
pub(crate) struct NewArray<'py>(Bound<'py, PyUntypedArray>);

impl<'py> NewArray<'py> {
    /// Allocates one; `dtype` is one of [`Dtype`](crate::dtype::Dtype)'s.
    pub(crate) fn new(dtype: Bound<'py, PyArrayDescr>, shape: &mut [isize]) -> PyResult<Self> {
        let py = dtype.py();
        // SAFETY: NumPy takes over the reference to the dtype, only reads the shape, and returns a
        // new reference or NULL with the exception set.
        let array = unsafe {
            let array = PY_ARRAY_API.PyArray_Empty(
                py,
                shape.len() as i32,
                shape.as_mut_ptr(),
                dtype.into_dtype_ptr(),
                0,
            );
            Bound::from_owned_ptr_or_err(py, array)?
        };
        // SAFETY: it makes nothing but arrays.
        Ok(Self(unsafe { array.cast_into_unchecked() }))
    }

    /// The elements, in C order.
    ///
    /// # Safety
    /// `T` has the size and alignment of the array's dtype.
    pub(crate) unsafe fn elements<T: numpy::Element>(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: `data` does not depend on the type of the elements.
        let data = unsafe { self.0.cast_unchecked::<PyArrayDyn<T>>() }.data();
        // SAFETY: NumPy has allocated as many elements, contiguous and aligned, and no one else
        // knows the array yet.
        unsafe { slice::from_raw_parts_mut(data.cast(), self.0.len()) }
    }

    /// The array, whose elements the caller has filled.
    pub(crate) fn into_filled(self) -> Bound<'py, PyAny> {
        self.0.into_any()
    }
}

/// Turns the bytes of every element around.
pub(crate) fn swap_bytes<T: numpy::Element>(elements: &mut [MaybeUninit<T>]) {
    let length = size_of_val(elements);
    // SAFETY: the same memory, of which bytes may have any value and none.
    let bytes: &mut [MaybeUninit<u8>] =
        unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), length) };
    bytes.chunks_exact_mut(size_of::<T>()).for_each(<[_]>::reverse);
}
