//! The native half of the Python package `msgpack_array`: NumPy arrays to MessagePack arrays and
//! back.
//!
//! `packing.rs` and `unpacking.rs` hold what the functions below do; here are their signatures and
//! what Python's `help` says. Whole documents are made in Python
//! (`package/msgpack_array/_documents.py`), the kernels belong to the crate `msgpack-array`.
//! `unsafe` is where memory of Python's is handed to them: `input.rs`, `number.rs`, `output.rs`,
//! `packing.rs`.

mod dtype;
mod input;
mod number;
mod output;
mod packing;
mod unpacking;

use msgpack_array::Isa;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

create_exception!(
    msgpack_array,
    DecodeError,
    PyValueError,
    "Bytes that are not an array of the wanted numbers. `index` is that of the element at fault, or None."
);

/// Numbers, in an array or something like one, as the bytes of a MessagePack array.
#[pyfunction]
#[pyo3(signature = (array, *, bin = false, isa = None))]
fn pack<'py>(array: &Bound<'py, PyAny>, bin: bool, isa: Option<&str>) -> PyResult<Bound<'py, PyBytes>> {
    packing::pack(array, bin, dtype::isa(isa)?)
}

/// Appends to a bytearray what `pack` returns, and returns how many bytes that is.
#[pyfunction]
#[pyo3(signature = (array, out, *, bin = false, isa = None))]
fn pack_to(
    array: &Bound<'_, PyAny>,
    out: &Bound<'_, PyByteArray>,
    bin: bool,
    isa: Option<&str>,
) -> PyResult<usize> {
    packing::pack_to(array, out, bin, dtype::isa(isa)?)
}

/// The numbers of a MessagePack array, which takes up all of `data`, as a NumPy array.
#[pyfunction]
#[pyo3(signature = (data, dtype, *, ndim = 1, bin = false, isa = None))]
fn unpack<'py>(
    data: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    ndim: usize,
    bin: bool,
    isa: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let wanted = unpacking::Wanted::new(dtype, ndim, bin, isa)?;
    let data = input::Bytes::of(data)?;
    let (array, end) = wanted.read(data.as_slice(), data.may_be_read_detached())?;
    match data.as_slice().len() - end {
        0 => Ok(array),
        1 => Err(DecodeError::new_err("1 byte follows the array")),
        more => Err(DecodeError::new_err(format!("{more} bytes follow the array"))),
    }
}

/// The numbers of the MessagePack array that begins at `offset`, and where it ends.
#[pyfunction]
#[pyo3(signature = (data, offset, dtype, *, ndim = 1, bin = false, isa = None))]
fn unpack_from<'py>(
    data: &Bound<'py, PyAny>,
    offset: usize,
    dtype: &Bound<'py, PyAny>,
    ndim: usize,
    bin: bool,
    isa: Option<&str>,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let wanted = unpacking::Wanted::new(dtype, ndim, bin, isa)?;
    let data = input::Bytes::of(data)?;
    let rest = data.as_slice().get(offset..).ok_or_else(|| {
        PyValueError::new_err(format!("offset {offset} is behind the end, {}", data.as_slice().len()))
    })?;
    let (array, length) = wanted.read(rest, data.may_be_read_detached())?;
    Ok((array, offset + length))
}

/// Names of the instruction sets this machine has code for, the best one first.
#[pyfunction]
fn instruction_sets() -> Vec<&'static str> {
    Isa::available().map(Isa::name).rev().collect()
}

/// The exception for an element at fault.
fn element_error(py: Python<'_>, index: usize, message: String) -> PyErr {
    let error = DecodeError::new_err(message);
    match error.value(py).setattr("index", index) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{DecodeError, instruction_sets, pack, pack_to, unpack, unpack_from};
    use pyo3::prelude::*;

    /// Errors that no element is to blame for have no index.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().get_type::<DecodeError>().setattr("index", module.py().None())
    }
}
