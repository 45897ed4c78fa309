//! What can be wrong with bytes that should be an array of numbers.

/// Why bytes are not an array of the wanted numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the array does.
    Truncated,
    /// The first byte begins something else than an array.
    NotAnArray {
        /// That byte.
        marker: u8,
    },
    /// The first byte begins something else than a `bin`.
    NotBin {
        /// That byte.
        marker: u8,
    },
    /// An element is not what was asked for.
    Element {
        /// Its index in the array, from 0.
        index: usize,
        /// What is wrong with it.
        error: ElementError,
    },
}

/// What is wrong with one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementError {
    /// It is of another type: text in an array of numbers, a float in an array of integers.
    WrongType {
        /// The byte it begins with.
        marker: u8,
    },
    /// The element type cannot hold its value exactly: 300 in `u8`, 0.1 of an `f64` in `f32`.
    OutOfRange,
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end before the array does"),
            Self::NotAnArray { marker } => write!(f, "byte {marker:#04x} does not begin an array"),
            Self::NotBin { marker } => write!(f, "byte {marker:#04x} does not begin a bin"),
            Self::Element { index, error } => write!(f, "element {index}: {error}"),
        }
    }
}

impl core::fmt::Display for ElementError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::WrongType { marker } => write!(f, "byte {marker:#04x} begins a value of another type"),
            Self::OutOfRange => f.write_str("the wanted type cannot hold the value exactly"),
        }
    }
}

impl core::error::Error for DecodeError {}
impl core::error::Error for ElementError {}
