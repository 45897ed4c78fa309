//! Ways to encode and to decode an array, each behind the same trait and each used in its best way.
//!
//! All but two write into a buffer that stays from array to array and is as large as it has to be:
//! `rmp` goes element by element into a vector with room for all, and out of a slice; msgpack-cxx
//! does as `cxx.cpp` says. `rmp-serde` writes into such a vector too, but reads into a new one, as
//! it offers nothing else. `with` is the same with fields that are ours (`#[serde(with =
//! "msgpack_array::serde")]`), by the functions in which that is quick; `with-plain` by those of
//! rmp-serde in which it cannot be, into new vectors both ways. `memcpy` copies the encoded bytes:
//! what it would cost if the array were there already. Long arrays it copies with libc's function
//! and past the caches, and the quicker of the two counts.

pub(crate) mod copy;
pub(crate) mod cxx;

use msgpack_array::Isa;
use msgpack_array::serde::Array;

use crate::number::Number;
use crate::values::Pool;

/// Where results go, all contenders' the same.
pub(crate) struct Output<T> {
    bytes: Vec<u8>,
    numbers: Vec<T>,
}

impl<T: Number> Output<T> {
    /// Room for an array of `n` elements, touched, so that the kernel has no part in what is
    /// measured.
    pub(crate) fn new(n: usize) -> Self {
        let mut bytes = vec![1; msgpack_array::max_encoded_len::<T>(n) + 64];
        bytes.clear();
        let mut numbers = vec![T::default(); n];
        numbers.clear();
        Self { bytes, numbers }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Encode,
    Decode,
}

impl Op {
    pub(crate) const ALL: [Self; 2] = [Self::Encode, Self::Decode];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Decode => "decode",
        }
    }
}

/// One contender.
pub(crate) trait Contender<T: Number> {
    /// Encodes an array.
    fn encode(&mut self, values: &[T], out: &mut Vec<u8>);

    /// Decodes an array.
    fn decode(&mut self, encoded: &[u8], out: &mut Vec<T>);

    /// What [`Contender::encode`] gave last, if it is not in the common buffer.
    fn encoded(&self) -> Option<&[u8]> {
        None
    }

    /// What [`Contender::decode`] gave last, if it is not in the common buffer.
    fn decoded(&self) -> Option<&[T]> {
        None
    }
}

/// A contender and its name, of any type.
pub(crate) struct Named<T> {
    pub(crate) name: &'static str,
    pub(crate) isa: Option<Isa>,
    table: Box<dyn Run<T>>,
}

impl<T: Number> Named<T> {
    /// All contenders that can run here, for these instruction sets.
    pub(crate) fn all(isas: &[Isa], n: usize) -> Vec<Self> {
        fn named<T: Number>(name: &'static str, contender: impl Contender<T> + 'static) -> Named<T> {
            Named { name, isa: None, table: Box::new(Each(contender)) }
        }
        let ours = isas.iter().map(|&isa| Self { isa: Some(isa), ..named(isa.name(), Ours { isa }) });
        let mut all: Vec<Self> = ours.collect();
        all.push(named(RMP, Rmp));
        all.push(named(RMP_SERDE, RmpSerde { numbers: Vec::new() }));
        if n < copy::LONG {
            all.push(named(WITH, With { numbers: Array(Vec::new()) }));
            all.push(named("with-plain", WithPlain { bytes: Vec::new(), numbers: Array(Vec::new()) }));
        }
        #[cfg(msgpack_cxx)]
        all.push(named(CXX, Cxx { buffer: cxx::Buffer::new(), length: 0 }));
        let copy = |name, copy| Self { name, isa: None, table: Box::new(copy::Copy { copy }) };
        all.push(copy(MEMCPY, copy::within_caches as copy::Function));
        if n >= copy::LONG && copy::HAS_NON_TEMPORAL {
            all.push(copy(NON_TEMPORAL, copy::past_caches));
        }
        all
    }

    /// Goes over `count` arrays from number `first` on, and again from the beginning where the pool
    /// ends.
    pub(crate) fn run(&mut self, op: Op, pool: &Pool<T>, first: usize, count: usize, output: &mut Output<T>) {
        self.table.run(op, pool, first, count, output);
    }

    /// # Panics
    /// When the contender's result for array `index` is wrong.
    pub(crate) fn check(&mut self, op: Op, pool: &Pool<T>, index: usize, output: &mut Output<T>) {
        self.run(op, pool, index, 1, output);
        let (values, encoded) = (&pool.values[index], &pool.encoded[index]);
        let Output { bytes, numbers } = output;
        let right = match op {
            _ if matches!(self.name, MEMCPY | NON_TEMPORAL) => bytes == encoded,
            // It writes floats without a fraction as integers.
            Op::Encode if self.name == CXX && matches!(T::NAME, "f32" | "f64") => {
                let bytes = self.table.encoded().unwrap_or(bytes);
                numbers.clear();
                msgpack_array::decode_into(bytes, numbers) == Ok(bytes.len()) && *numbers == *values
            }
            Op::Encode => self.table.encoded().unwrap_or(bytes) == encoded,
            Op::Decode => same_bits(self.table.decoded().unwrap_or(numbers), values),
        };
        assert!(right, "{} of {} {} is wrong by {}", op.name(), pool.n, T::NAME, self.name);
    }
}

pub(crate) const RMP: &str = "rmp";
pub(crate) const RMP_SERDE: &str = "rmp-serde";
pub(crate) const WITH: &str = "with";
pub(crate) const CXX: &str = "cxx";
pub(crate) const MEMCPY: &str = "memcpy";
pub(crate) const NON_TEMPORAL: &str = "nt-copy";

fn same_bits<T: Number>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.bits() == other.bits())
}

/// The loop over arrays, so that the choice among contenders is made once a sample.
trait Run<T> {
    fn run(&mut self, op: Op, pool: &Pool<T>, first: usize, count: usize, output: &mut Output<T>);
    fn encoded(&self) -> Option<&[u8]>;
    fn decoded(&self) -> Option<&[T]>;
}

/// The loop over arrays.
struct Each<C>(C);

impl<T: Number, C: Contender<T>> Run<T> for Each<C> {
    fn run(&mut self, op: Op, pool: &Pool<T>, first: usize, count: usize, output: &mut Output<T>) {
        for index in pool.indices(first, count) {
            match op {
                Op::Encode => self.0.encode(&pool.values[index], &mut output.bytes),
                Op::Decode => self.0.decode(&pool.encoded[index], &mut output.numbers),
            }
        }
    }

    fn encoded(&self) -> Option<&[u8]> {
        self.0.encoded()
    }

    fn decoded(&self) -> Option<&[T]> {
        self.0.decoded()
    }
}

struct Ours {
    isa: Isa,
}

impl<T: Number> Contender<T> for Ours {
    fn encode(&mut self, values: &[T], out: &mut Vec<u8>) {
        out.clear();
        msgpack_array::encode_with(self.isa, values, out);
    }

    fn decode(&mut self, encoded: &[u8], out: &mut Vec<T>) {
        out.clear();
        msgpack_array::decode_into_with(self.isa, encoded, out).expect("it was encoded by rmp");
    }
}

struct Rmp;

impl<T: Number> Contender<T> for Rmp {
    fn encode(&mut self, values: &[T], out: &mut Vec<u8>) {
        out.clear();
        rmp_encode(values, out);
    }

    fn decode(&mut self, encoded: &[u8], out: &mut Vec<T>) {
        let mut input = encoded;
        let count = rmp::decode::read_array_len(&mut input).expect("it was encoded by rmp");
        out.clear();
        out.extend((0..count).map(|_| T::rmp_read(&mut input)));
    }
}

fn rmp_encode<T: Number>(values: &[T], out: &mut Vec<u8>) {
    rmp::encode::write_array_len(out, values.len() as u32).expect("a vector takes all");
    for &value in values {
        value.rmp_write(out);
    }
}

/// What `rmp` makes of an array: the right bytes.
pub(crate) fn rmp_bytes<T: Number>(values: &[T]) -> Vec<u8> {
    let mut out = Vec::with_capacity(msgpack_array::max_encoded_len::<T>(values.len()));
    rmp_encode(values, &mut out);
    out.shrink_to_fit();
    out
}

struct RmpSerde<T> {
    numbers: Vec<T>,
}

impl<T: Number> Contender<T> for RmpSerde<T> {
    fn encode(&mut self, values: &[T], out: &mut Vec<u8>) {
        out.clear();
        rmp_serde::encode::write(out, values).expect("a vector takes all");
    }

    fn decode(&mut self, encoded: &[u8], _out: &mut Vec<T>) {
        self.numbers = rmp_serde::from_slice(encoded).expect("it was encoded by rmp");
    }

    fn decoded(&self) -> Option<&[T]> {
        Some(&self.numbers)
    }
}

struct With<T> {
    numbers: Array<Vec<T>>,
}

impl<T: Number> Contender<T> for With<T> {
    fn encode(&mut self, values: &[T], out: &mut Vec<u8>) {
        out.clear();
        rmp_serde::encode::write(out, &Array(values)).expect("a vector takes all");
    }

    fn decode(&mut self, encoded: &[u8], _out: &mut Vec<T>) {
        self.numbers = msgpack_array::serde::from_slice(encoded).expect("it was encoded by rmp");
    }

    fn decoded(&self) -> Option<&[T]> {
        Some(&self.numbers.0)
    }
}

struct WithPlain<T> {
    bytes: Vec<u8>,
    numbers: Array<Vec<T>>,
}

impl<T: Number> Contender<T> for WithPlain<T> {
    fn encode(&mut self, values: &[T], _out: &mut Vec<u8>) {
        self.bytes = rmp_serde::to_vec(&Array(values)).expect("a vector takes all");
    }

    fn decode(&mut self, encoded: &[u8], _out: &mut Vec<T>) {
        self.numbers = rmp_serde::from_slice(encoded).expect("it was encoded by rmp");
    }

    fn encoded(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }

    fn decoded(&self) -> Option<&[T]> {
        Some(&self.numbers.0)
    }
}

#[cfg(msgpack_cxx)]
struct Cxx {
    buffer: cxx::Buffer,
    length: usize,
}

#[cfg(msgpack_cxx)]
impl<T: Number> Contender<T> for Cxx {
    fn encode(&mut self, values: &[T], _out: &mut Vec<u8>) {
        self.length = self.buffer.encode(&T::CXX, values);
    }

    fn decode(&mut self, encoded: &[u8], out: &mut Vec<T>) {
        cxx::decode(&T::CXX, encoded, out);
    }

    fn encoded(&self) -> Option<&[u8]> {
        Some(self.buffer.bytes(self.length))
    }
}
