//! One element at a time: the oracle of every kernel, and what runs where there is none.

use super::element::{BulkElement, Kind, Number, Stop};
use crate::error::ElementError;

/// Writes a marker and a big-endian payload.
fn write<const N: usize>(out: &mut [u8; 9], marker: u8, payload: [u8; N]) -> usize {
    out[0] = marker;
    out[1..=N].copy_from_slice(&payload);
    1 + N
}

fn encode_unsigned(value: u64, out: &mut [u8; 9]) -> usize {
    match value {
        0..=0x7f => write(out, value as u8, []),
        0x80..=0xff => write(out, 0xcc, [value as u8]),
        0x100..=0xffff => write(out, 0xcd, (value as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => write(out, 0xce, (value as u32).to_be_bytes()),
        _ => write(out, 0xcf, value.to_be_bytes()),
    }
}

fn encode_signed(value: i64, out: &mut [u8; 9]) -> usize {
    match value {
        0.. => encode_unsigned(value as u64, out),
        -0x20..=-1 => write(out, value as u8, []),
        -0x80..=-0x21 => write(out, 0xd0, [value as u8]),
        -0x8000..=-0x81 => write(out, 0xd1, (value as u16).to_be_bytes()),
        -0x8000_0000..=-0x8001 => write(out, 0xd2, (value as u32).to_be_bytes()),
        _ => write(out, 0xd3, value.to_be_bytes()),
    }
}

/// The number at the beginning of `input` and its length. Its first byte decides whether the type
/// is right, before there are more.
fn number(input: &[u8], is_right: fn(u8) -> bool) -> Result<(Number, usize), Stop> {
    let (&marker, rest) = input.split_first().ok_or(Stop::Truncated)?;
    if !is_right(marker) {
        return Err(wrong_type(marker));
    }
    let length = match marker {
        0x00..=0x7f => return Ok((Number::Unsigned(marker.into()), 1)),
        0xe0..=0xff => return Ok((Number::Signed((marker as i8).into()), 1)),
        0xcc | 0xd0 => 1,
        0xcd | 0xd1 => 2,
        0xce | 0xd2 | 0xca => 4,
        _ => 8,
    };
    let payload = rest.get(..length).ok_or(Stop::Truncated)?;
    let bits = payload.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    let unused = 64 - 8 * length as u32;
    let number = match marker {
        0xca => Number::Single(bits as u32),
        0xcb => Number::Double(bits),
        0xcc..=0xcf => Number::Unsigned(bits),
        _ => Number::Signed((bits << unused) as i64 >> unused),
    };
    Ok((number, 1 + length))
}

fn is_integer(marker: u8) -> bool {
    matches!(marker, 0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff)
}

fn is_number(marker: u8) -> bool {
    matches!(marker, 0xca | 0xcb) || is_integer(marker)
}

fn wrong_type(marker: u8) -> Stop {
    Stop::Element(ElementError::WrongType { marker })
}

const OUT_OF_RANGE: Stop = Stop::Element(ElementError::OutOfRange);

macro_rules! integer {
    ($kind:ident, $encode:ident as $wide:ty: $($type:ty)*) => { $(
        impl BulkElement for $type {
            const KIND: Kind = Kind::$kind;

            fn encode_one(self, out: &mut [u8; 9]) -> usize {
                $encode(<$wide>::from(self), out)
            }

            fn decode_one(input: &[u8]) -> Result<(Self, usize), Stop> {
                let (number, length) = number(input, is_integer)?;
                Ok((Self::from_number(number).ok_or(OUT_OF_RANGE)?, length))
            }

            fn from_number(number: Number) -> Option<Self> {
                match number {
                    Number::Unsigned(value) => value.try_into().ok(),
                    Number::Signed(value) => value.try_into().ok(),
                    Number::Single(_) | Number::Double(_) | Number::Bool(_) => None,
                }
            }
        }
    )* };
}

integer!(Signed, encode_signed as i64: i8 i16 i32 i64);
integer!(Unsigned, encode_unsigned as u64: u8 u16 u32 u64);

impl BulkElement for bool {
    const KIND: Kind = Kind::Bool;

    fn encode_one(self, out: &mut [u8; 9]) -> usize {
        write(out, 0xc2 + u8::from(self), [])
    }

    fn decode_one(input: &[u8]) -> Result<(Self, usize), Stop> {
        match *input {
            [] => Err(Stop::Truncated),
            [marker @ (0xc2 | 0xc3), ..] => Ok((marker == 0xc3, 1)),
            [marker, ..] => Err(wrong_type(marker)),
        }
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Bool(value) => Some(value),
            _ => None,
        }
    }
}

/// The `f64` whose value is that of the `f32` with these bits; a NaN keeps sign and payload, and is
/// not made quiet.
fn widen(bits: u32) -> u64 {
    let value = f32::from_bits(bits);
    if value.is_nan() {
        u64::from(bits >> 31) << 63 | 0x7ff << 52 | u64::from(bits & 0x7f_ffff) << 29
    } else {
        f64::from(value).to_bits()
    }
}

/// The `f32` with the same value, if there is one.
fn narrow(bits: u64) -> Option<u32> {
    let value = f64::from_bits(bits);
    let single = if value.is_nan() {
        ((bits >> 63) as u32) << 31 | 0x7f80_0000 | (bits >> 29) as u32 & 0x7f_ffff
    } else {
        (value as f32).to_bits()
    };
    (f32::from_bits(single).is_nan() == value.is_nan() && widen(single) == bits).then_some(single)
}

/// Bits from the highest one to the lowest one that is set: a float with a mantissa that long holds
/// the number exactly.
fn significant_bits(value: u64) -> u32 {
    match value {
        0 => 0,
        _ => 64 - value.leading_zeros() - value.trailing_zeros(),
    }
}

impl BulkElement for f32 {
    const KIND: Kind = Kind::Float;

    fn encode_one(self, out: &mut [u8; 9]) -> usize {
        write(out, 0xca, self.to_bits().to_be_bytes())
    }

    fn decode_one(input: &[u8]) -> Result<(Self, usize), Stop> {
        let (number, length) = number(input, is_number)?;
        Ok((Self::from_number(number).ok_or(OUT_OF_RANGE)?, length))
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Single(bits) => Some(f32::from_bits(bits)),
            Number::Double(bits) => narrow(bits).map(f32::from_bits),
            Number::Unsigned(value) => {
                (significant_bits(value) <= Self::MANTISSA_DIGITS).then_some(value as Self)
            }
            Number::Signed(value) => {
                (significant_bits(value.unsigned_abs()) <= Self::MANTISSA_DIGITS).then_some(value as Self)
            }
            Number::Bool(_) => None,
        }
    }
}

impl BulkElement for f64 {
    const KIND: Kind = Kind::Float;

    fn encode_one(self, out: &mut [u8; 9]) -> usize {
        write(out, 0xcb, self.to_bits().to_be_bytes())
    }

    fn decode_one(input: &[u8]) -> Result<(Self, usize), Stop> {
        let (number, length) = number(input, is_number)?;
        Ok((Self::from_number(number).ok_or(OUT_OF_RANGE)?, length))
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Double(bits) => Some(f64::from_bits(bits)),
            Number::Single(bits) => Some(f64::from_bits(widen(bits))),
            Number::Unsigned(value) => {
                (significant_bits(value) <= Self::MANTISSA_DIGITS).then_some(value as Self)
            }
            Number::Signed(value) => {
                (significant_bits(value.unsigned_abs()) <= Self::MANTISSA_DIGITS).then_some(value as Self)
            }
            Number::Bool(_) => None,
        }
    }
}
