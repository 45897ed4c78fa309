//! Memory that Python owns, to be read: the elements of arrays, and bytes.
//!
//! The input stays alive and in place, because a reference is held meanwhile (a NumPy array cannot
//! be resized while others refer to it; for bytes, the buffer protocol). While the interpreter is
//! released, the caller must ensure that nothing writes to it, as with NumPy's own functions; so
//! only arrays, and immutable `bytes`, are read then.

use core::slice;

use numpy::npyffi::PY_ARRAY_API;
use numpy::npyffi::flags::{NPY_ARRAY_CARRAY_RO, NPY_ARRAY_NOTSWAPPED};
use numpy::{PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::dtype::Dtype;

/// An array whose elements lie one after the other, in C order, aligned, in the machine's byte
/// order.
pub(crate) struct Array<'py> {
    array: Bound<'py, PyUntypedArray>,
    pub(crate) dtype: Dtype,
}

impl<'py> Array<'py> {
    /// `object` itself when it is such an array, else a copy of it that is. `TypeError` for what is
    /// neither an array nor has its numbers in memory.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast_exact::<PyUntypedArray>()
            && array.is_c_contiguous()
            && array.is_aligned()
            && array.dtype().is_native_byteorder() != Some(false)
        {
            return Ok(Self { array: array.clone(), dtype: Dtype::of(&array.dtype())? });
        }
        refuse_what_is_no_array(object)?;
        let (any_dtype, any_depth) = (core::ptr::null_mut(), 0);
        let flags = NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED;
        // SAFETY: `object` is an object, and the rest as NumPy's manual says; the result is a new
        // reference or NULL, with the exception set.
        let array = unsafe {
            let array = PY_ARRAY_API.PyArray_CheckFromAny(
                object.py(),
                object.as_ptr(),
                any_dtype,
                any_depth,
                any_depth,
                flags,
                core::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(object.py(), array)?
        };
        let array = array.cast_into::<PyUntypedArray>()?;
        let dtype = Dtype::of(&array.dtype())?;
        Ok(Self { array, dtype })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.array.py()
    }

    /// The elements, in C order.
    ///
    /// # Safety
    /// `T` is the type of the elements, or one of the same size for whose values they can be taken;
    /// the array must not be written to while the result is in use.
    pub(crate) unsafe fn elements_of<T: numpy::Element>(&self) -> &[T] {
        // SAFETY: `data` does not depend on the type of the elements.
        let data = unsafe { self.array.cast_unchecked::<PyArrayDyn<T>>() }.data();
        let length = self.array.len();
        if length == 0 {
            return &[];
        }
        // SAFETY: the array is contiguous and aligned, its memory lives as long as the reference to
        // it, and the caller vouches for the rest.
        unsafe { slice::from_raw_parts(data, length) }
    }
}

fn refuse_what_is_no_array(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        let what =
            "bytes are no array; give memoryview(..) for an array of uint8, or that with bin=True for bin";
        return Err(PyTypeError::new_err(what));
    }
    if object.is_instance_of::<PyUntypedArray>() {
        let masked = object.py().import("numpy.ma")?.getattr("MaskedArray")?;
        if object.is_instance(&masked)? {
            return Err(PyTypeError::new_err("a masked array has values that no array has; use .filled(..)"));
        }
        return Ok(());
    }
    // SAFETY: it is an object.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        let name = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{name} is no array; numpy.asarray(..) may make one of it"
        )));
    }
    Ok(())
}

/// Something with bytes in it, contiguous.
pub(crate) enum Bytes<'a, 'py> {
    Bytes(&'a Bound<'py, PyBytes>),
    Buffer(PyUntypedBuffer),
}

impl<'a, 'py> Bytes<'a, 'py> {
    /// Anything with the buffer protocol, whatever the items are.
    pub(crate) fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes));
        }
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        Ok(Self::Buffer(buffer))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Buffer(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: contiguous, and it stays where it is until the buffer is released, with
            // `self`. No Python code runs meanwhile that could write to it.
            Self::Buffer(buffer) => unsafe {
                slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes())
            },
        }
    }

    /// Whether it is immutable, even while other threads run.
    pub(crate) fn may_be_read_detached(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}
