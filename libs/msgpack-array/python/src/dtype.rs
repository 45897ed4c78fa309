//! From a NumPy dtype to an element type.
//!
//! NumPy has several numbers for one type (`long` and `long long` are both of 8 bytes here), so
//! kind and size decide.

use msgpack_array::Isa;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The element types of the crate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Dtype {
    /// The one of `dtype`, whatever its byte order. `TypeError` for those that arrays of numbers
    /// are not made of.
    pub(crate) fn of(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        Ok(match (dtype.kind(), dtype.itemsize()) {
            (b'b', 1) => Self::Bool,
            (b'i', 1) => Self::I8,
            (b'i', 2) => Self::I16,
            (b'i', 4) => Self::I32,
            (b'i', 8) => Self::I64,
            (b'u', 1) => Self::U8,
            (b'u', 2) => Self::U16,
            (b'u', 4) => Self::U32,
            (b'u', 8) => Self::U64,
            (b'f', 4) => Self::F32,
            (b'f', 8) => Self::F64,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "dtype {dtype} is none of bool, int8 to int64, uint8 to uint64, float32 and float64"
                )));
            }
        })
    }
}

/// Runs `$body` with the name `$T` for the Rust type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_element!(@ $dtype, $T => $body, Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            F32 f32, F64 f64)
    };
    (@ $dtype:expr, $T:ident => $body:expr, $($variant:ident $type:ty),*) => {
        match $dtype {
            $($crate::dtype::Dtype::$variant => {
                type $T = $type;
                $body
            })*
        }
    };
}
pub(crate) use with_element;

/// The instruction set of that name, or the machine's best one.
pub(crate) fn isa(name: Option<&str>) -> PyResult<Isa> {
    let Some(name) = name else { return Ok(Isa::detect()) };
    match Isa::from_name(name) {
        Some(isa) if isa.is_available() => Ok(isa),
        Some(_) => Err(PyValueError::new_err(format!("this machine does not have {name:?}"))),
        None => Err(PyValueError::new_err(format!("there is no instruction set {name:?}"))),
    }
}
