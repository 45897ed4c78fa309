//! The eleven element types as the contenders see them: one trait over what `rmp` and msgpack-cxx
//! have a function each for.

use std::fmt::Debug;

use rand::Rng;
use rand::rngs::SmallRng;

#[cfg(msgpack_cxx)]
use crate::contender::cxx;
use crate::values::{Values, draw_signed, draw_unsigned};

/// An element type under measurement.
pub(crate) trait Number: msgpack_array::serde::SerdeElement + Debug + Default + PartialEq {
    /// Name in the tables.
    const NAME: &'static str;

    /// Whether the distribution makes sense for the type.
    fn has(values: Values) -> bool;

    /// A value of the distribution.
    fn draw(values: Values, random: &mut SmallRng) -> Self;

    /// The same value as bits, by which results are compared.
    fn bits(self) -> u64;

    /// Appends the shortest form.
    fn rmp_write(self, out: &mut Vec<u8>);

    /// Reads from the beginning of `input` and moves it on.
    fn rmp_read(input: &mut &[u8]) -> Self;

    /// See `cxx.cpp`.
    #[cfg(msgpack_cxx)]
    const CXX: cxx::Functions<Self>;
}

macro_rules! number {
    ($type:ident, $has:expr, $draw:expr, $bits:expr, $write:expr, $read:expr, $encode:ident, $decode:ident) => {
        impl Number for $type {
            const NAME: &'static str = stringify!($type);

            fn has(values: Values) -> bool {
                $has(values)
            }

            fn draw(values: Values, random: &mut SmallRng) -> Self {
                $draw(values, random)
            }

            fn bits(self) -> u64 {
                $bits(self)
            }

            #[inline(always)]
            fn rmp_write(self, out: &mut Vec<u8>) {
                $write(out, self).expect("a vector takes all");
            }

            #[inline(always)]
            fn rmp_read(input: &mut &[u8]) -> Self {
                $read(input).expect("it was encoded by rmp")
            }

            #[cfg(msgpack_cxx)]
            const CXX: cxx::Functions<Self> = cxx::Functions { encode: cxx::$encode, decode: cxx::$decode };
        }
    };
}

macro_rules! integers {
    ($($type:ident $draw:ident $write:ident $wide:ident $encode:ident $decode:ident;)*) => { $(
        number!(
            $type,
            |_| true,
            |values, random: &mut SmallRng| $draw(values, $type::BITS, random) as $type,
            |value| value as u64,
            |out: &mut Vec<u8>, value| rmp::encode::$write(out, $wide::from(value)),
            |input: &mut &[u8]| rmp::decode::read_int::<$type, _>(input),
            $encode,
            $decode
        );
    )* };
}

integers! {
    i8 draw_signed write_sint i64 cxx_encode_i8 cxx_decode_i8;
    i16 draw_signed write_sint i64 cxx_encode_i16 cxx_decode_i16;
    i32 draw_signed write_sint i64 cxx_encode_i32 cxx_decode_i32;
    i64 draw_signed write_sint i64 cxx_encode_i64 cxx_decode_i64;
    u8 draw_unsigned write_uint u64 cxx_encode_u8 cxx_decode_u8;
    u16 draw_unsigned write_uint u64 cxx_encode_u16 cxx_decode_u16;
    u32 draw_unsigned write_uint u64 cxx_encode_u32 cxx_decode_u32;
    u64 draw_unsigned write_uint u64 cxx_encode_u64 cxx_decode_u64;
}

fn random_only(values: Values) -> bool {
    values == Values::Random
}

number!(
    f32,
    random_only,
    |_, random: &mut SmallRng| loop {
        let value = f32::from_bits(random.random());
        if value.is_finite() {
            break value;
        }
    },
    |value: f32| value.to_bits().into(),
    |out: &mut Vec<u8>, value| rmp::encode::write_f32(out, value),
    |input: &mut &[u8]| rmp::decode::read_f32(input),
    cxx_encode_f32,
    cxx_decode_f32
);

number!(
    f64,
    random_only,
    |_, random: &mut SmallRng| loop {
        let value = f64::from_bits(random.random());
        if value.is_finite() {
            break value;
        }
    },
    f64::to_bits,
    |out: &mut Vec<u8>, value| rmp::encode::write_f64(out, value),
    |input: &mut &[u8]| rmp::decode::read_f64(input),
    cxx_encode_f64,
    cxx_decode_f64
);

number!(
    bool,
    random_only,
    |_, random: &mut SmallRng| random.random(),
    u64::from,
    |out: &mut Vec<u8>, value| rmp::encode::write_bool(out, value),
    |input: &mut &[u8]| rmp::decode::read_bool(input),
    cxx_encode_bool,
    cxx_decode_bool
);
