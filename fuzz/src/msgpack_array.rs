//! What the fuzz targets of `msgpack-array` check: with every instruction set, and in pieces, it is
//! what `rmp` is element by element.
//!
//! The naive twin is [`Number`]: one element written and read by `rmp`, and this crate's rules for
//! what goes into a float. `libs/msgpack-array/tests/msgpack-array/fuzz_corpus.rs` includes this
//! file and replays the kept corpus; the other tests use the twin.

use std::fmt::Debug;

use msgpack_array::{ArrayDecoder, DecodeError, Element, ElementError, Isa};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("msgpack_decode_any", msgpack_decode_any), ("msgpack_round_trip", msgpack_round_trip)];

/// Any bytes as an array: the first one is the element type, the second one where pieces are cut.
pub fn msgpack_decode_any(data: &[u8]) {
    let [element, cut, input @ ..] = data else { return };
    let cut = usize::from(*cut) % 67 + 1;
    match element % 11 {
        0 => decodes_as_naive::<i8>(input, cut),
        1 => decodes_as_naive::<i16>(input, cut),
        2 => decodes_as_naive::<i32>(input, cut),
        3 => decodes_as_naive::<i64>(input, cut),
        4 => decodes_as_naive::<u8>(input, cut),
        5 => decodes_as_naive::<u16>(input, cut),
        6 => decodes_as_naive::<u32>(input, cut),
        7 => decodes_as_naive::<u64>(input, cut),
        8 => decodes_as_naive::<f32>(input, cut),
        9 => decodes_as_naive::<f64>(input, cut),
        _ => decodes_as_naive::<bool>(input, cut),
    }
}

/// Any values: the first byte is the element type, the rest is their memory.
pub fn msgpack_round_trip(data: &[u8]) {
    let [element, memory @ ..] = data else { return };
    match element % 11 {
        0 => there_and_back(&from_memory::<i8>(memory)),
        1 => there_and_back(&from_memory::<i16>(memory)),
        2 => there_and_back(&from_memory::<i32>(memory)),
        3 => there_and_back(&from_memory::<i64>(memory)),
        4 => there_and_back(&from_memory::<u8>(memory)),
        5 => there_and_back(&from_memory::<u16>(memory)),
        6 => there_and_back(&from_memory::<u32>(memory)),
        7 => there_and_back(&from_memory::<u64>(memory)),
        8 => there_and_back(&from_memory::<f32>(memory)),
        9 => there_and_back(&from_memory::<f64>(memory)),
        _ => there_and_back(&from_memory::<bool>(memory)),
    }
}

/// Bytes give the same elements, length or error with every instruction set, in pieces, and element
/// by element.
pub fn decodes_as_naive<T: Number>(input: &[u8], cut: usize) {
    // A block of memory of its own, so that reading behind its end is noticed.
    let input: Box<[u8]> = input.into();
    let (expected, before_error) = naive_decode::<T>(&input);
    for isa in Isa::available() {
        let mut values = vec![T::from_bits(1); 2];
        let result = msgpack_array::decode_into_with(isa, &input, &mut values);
        assert_eq!(result, expected, "{isa:?} {}", T::NAME);
        let elements = &values[2..];
        match result {
            Ok(_) => assert_eq!(bits(elements), bits(&before_error), "{isa:?} {}", T::NAME),
            Err(_) => assert!(elements.is_empty(), "{isa:?} {}", T::NAME),
        }
        assert!(values.capacity() <= 8 + input.len(), "allocated for more than there is");

        let (mut decoder, mut values, mut used) = (ArrayDecoder::<T>::with_isa(isa), Vec::new(), Ok(0));
        for piece in input.chunks(cut) {
            let piece: Box<[u8]> = piece.into();
            let more = decoder.push(&piece, &mut values);
            used = used.and_then(|used| more.map(|more| used + more));
        }
        let truncated = expected == Err(DecodeError::Truncated);
        assert_eq!(decoder.is_done(), expected.is_ok(), "{isa:?} {}", T::NAME);
        assert_eq!(used, if truncated { Ok(input.len()) } else { expected }, "{isa:?} {}", T::NAME);
        assert_eq!(decoder.decoded() as usize, values.len());
        assert_eq!(bits(&values), bits(&before_error), "{isa:?} {} in pieces of {cut}", T::NAME);
    }
}

/// Every instruction set encodes values as the naive encoder does, and decodes them to the same
/// bits.
pub fn there_and_back<T: Number>(values: &[T]) {
    let expected = naive_encode(values);
    for isa in Isa::available() {
        let mut encoded = vec![0xc1];
        msgpack_array::encode_with(isa, values, &mut encoded);
        assert_eq!(encoded[1..], expected, "{isa:?} {}: {values:?}", T::NAME);
        let mut decoded = Vec::<T>::new();
        let used = msgpack_array::decode_into_with(isa, &expected, &mut decoded);
        assert_eq!(used, Ok(expected.len()), "{isa:?} {}: {values:?}", T::NAME);
        assert_eq!(bits(&decoded), bits(values), "{isa:?} {}", T::NAME);
    }
}

/// The array that `input` begins with, as [`msgpack_array::decode_into`] answers, and the elements
/// before an error.
pub fn naive_decode<T: Number>(input: &[u8]) -> (Result<usize, DecodeError>, Vec<T>) {
    let mut values = Vec::new();
    let count = match *input {
        [marker @ 0x90..=0x9f, ..] => u32::from(marker & 15),
        [0xdc | 0xdd, ..] => match rmp::decode::read_array_len(&mut &*input) {
            Ok(count) => count,
            Err(_) => return (Err(DecodeError::Truncated), values),
        },
        [] => return (Err(DecodeError::Truncated), values),
        [marker, ..] => return (Err(DecodeError::NotAnArray { marker }), values),
    };
    let header = [1, 3, 5][usize::from(input[0] >= 0xdc) + usize::from(input[0] == 0xdd)];
    let mut rest = &input[header..];
    for index in 0..count as usize {
        match T::read(&mut rest) {
            Ok(value) => values.push(value),
            Err(None) => return (Err(DecodeError::Truncated), values),
            Err(Some(error)) => return (Err(DecodeError::Element { index, error }), values),
        }
    }
    (Ok(input.len() - rest.len()), values)
}

/// The array of `values`, element by element.
pub fn naive_encode<T: Number>(values: &[T]) -> Vec<u8> {
    let mut encoded = Vec::new();
    rmp::encode::write_array_len(&mut encoded, values.len() as u32).expect("a vector takes everything");
    values.iter().for_each(|value| value.write(&mut encoded));
    encoded
}

/// Values as bits, because a NaN is not equal to itself.
pub fn bits<T: Number>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.bits()).collect()
}

fn from_memory<T: Number>(memory: &[u8]) -> Vec<T> {
    let element =
        |bytes: &[u8]| T::from_bits(bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)));
    memory.chunks_exact(size_of::<T>()).map(element).collect()
}

/// An element type with its naive twin.
pub trait Number: Element + Debug + PartialEq {
    /// The name of the type.
    const NAME: &'static str;

    /// Its memory, and zeros above.
    fn bits(self) -> u64;

    /// The element with these bits; those that it does not have are left out.
    fn from_bits(bits: u64) -> Self;

    /// Appends the element as `rmp` writes it.
    fn write(self, out: &mut Vec<u8>);

    /// Takes an element from the beginning of `input` as `rmp` reads it; `None` if it is cut off.
    fn read(input: &mut &[u8]) -> Result<Self, Option<ElementError>>;
}

macro_rules! integers {
    ($write:ident: $($type:ty),*) => { $(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);

            fn bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as Self
            }

            fn write(self, out: &mut Vec<u8>) {
                rmp::encode::$write(out, self.into()).expect("a vector takes everything");
            }

            fn read(input: &mut &[u8]) -> Result<Self, Option<ElementError>> {
                let value = read_integer(input)?;
                value.try_into().map_err(|_| Some(ElementError::OutOfRange))
            }
        }
    )* };
}

integers!(write_sint: i8, i16, i32, i64);
integers!(write_uint: u8, u16, u32, u64);

impl Number for bool {
    const NAME: &'static str = "bool";

    fn bits(self) -> u64 {
        self.into()
    }

    fn from_bits(bits: u64) -> Self {
        bits & 1 == 1
    }

    fn write(self, out: &mut Vec<u8>) {
        rmp::encode::write_bool(out, self).expect("a vector takes everything");
    }

    fn read(input: &mut &[u8]) -> Result<Self, Option<ElementError>> {
        let marker = *input.first().ok_or(None)?;
        rmp::decode::read_bool(input).map_err(|_| Some(ElementError::WrongType { marker }))
    }
}

macro_rules! floats {
    ($($type:ty, $write:ident, $from_single:expr, $from_double:expr;)*) => { $(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn from_bits(bits: u64) -> Self {
                Self::from_bits(bits as _)
            }

            fn write(self, out: &mut Vec<u8>) {
                rmp::encode::$write(out, self).expect("a vector takes everything");
            }

            fn read(input: &mut &[u8]) -> Result<Self, Option<ElementError>> {
                let value = match input.first() {
                    Some(0xca) => $from_single(rmp::decode::read_f32(input).map_err(|_| None)?),
                    Some(0xcb) => $from_double(rmp::decode::read_f64(input).map_err(|_| None)?),
                    _ => {
                        let integer = read_integer(input)?;
                        Some(integer as Self).filter(|float| *float as i128 == integer)
                    }
                };
                value.ok_or(Some(ElementError::OutOfRange))
            }
        }
    )* };
}

floats! {
    f32, write_f32, Some, narrow;
    f64, write_f64, |single| Some(widen(single)), Some;
}

/// The same number; a NaN with the same sign and payload, of which the upper bits count, quiet or not.
pub fn widen(single: f32) -> f64 {
    if !single.is_nan() {
        return single.into();
    }
    let (sign, payload) = (single.to_bits() >> 31, single.to_bits() & 0x7f_ffff);
    f64::from_bits(u64::from(sign) << 63 | 0x7ff0_0000_0000_0000 | u64::from(payload) << 29)
}

/// The `f32` that [`widen`] makes this number of, if there is one.
pub fn narrow(double: f64) -> Option<f32> {
    let nan = f32::from_bits(
        0x7f80_0000 | (double.to_bits() >> 29) as u32 & 0x7f_ffff | ((double.to_bits() >> 63) as u32) << 31,
    );
    let single = if double.is_nan() { nan } else { double as f32 };
    (widen(single).to_bits() == double.to_bits()).then_some(single)
}

/// Any integer, by the one of rmp's functions that reads them all.
fn read_integer(input: &mut &[u8]) -> Result<i128, Option<ElementError>> {
    let marker = *input.first().ok_or(None)?;
    match rmp::decode::read_int::<i128, _>(input) {
        Ok(value) => Ok(value),
        Err(rmp::decode::NumValueReadError::TypeMismatch(_)) => Err(Some(ElementError::WrongType { marker })),
        Err(_) => Err(None),
    }
}
