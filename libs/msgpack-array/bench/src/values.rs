//! What the arrays contain: four distributions, for every type in the same words.
//!
//! `random`: every value of the type equally likely (floats: every finite bit pattern). `small`:
//! only what fits the one byte of a fixint. `one_width`: only what needs the type's longest form.
//! `mixed`: each of the type's forms equally likely, then every value of that form. Floats and
//! `bool` have one form, so for them there is `random` only.
//!
//! All arrays of a pool are different and together 65536 elements long, if one is not longer. A
//! branch predictor learns a repeated array by heart and shows a scalar encoder faster than it is
//! on numbers it has not seen. `rmp`, mixed `i32`, arrays of 1024: 3.6 ns per element of one array,
//! 5.7 of four in rotation, 9.5 of 16, 9.7 of 64, 9.8 of 1024 (Xeon of model 167; `--pool` tries
//! it). With 64 of them all still fit a second-level cache, where a program has its numbers.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::number::Number;

/// Elements of all arrays of a pool together, at least.
pub(crate) const POOL_ELEMENTS: usize = 1 << 16;

/// A distribution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Random,
    Small,
    OneWidth,
    Mixed,
}

impl Values {
    pub(crate) const ALL: [Self; 4] = [Self::Random, Self::Small, Self::OneWidth, Self::Mixed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Small => "small",
            Self::OneWidth => "one_width",
            Self::Mixed => "mixed",
        }
    }
}

/// Arrays in rotation, and the bytes that `rmp` makes of them.
pub(crate) struct Pool<T> {
    pub(crate) values: Vec<Vec<T>>,
    pub(crate) encoded: Vec<Vec<u8>>,
    /// Elements of one array.
    pub(crate) n: usize,
}

impl<T: Number> Pool<T> {
    pub(crate) fn new(values: Values, n: usize, pool_elements: usize, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let arrays = pool_elements.div_ceil(n).max(1);
        let values: Vec<Vec<T>> =
            (0..arrays).map(|_| (0..n).map(|_| T::draw(values, &mut random)).collect()).collect();
        let encoded = values.iter().map(|values| crate::contender::rmp_bytes(values)).collect();
        Self { values, encoded, n }
    }

    /// `count` arrays from number `first` on, and again from the beginning where they end.
    pub(crate) fn indices(&self, first: usize, count: usize) -> impl Iterator<Item = usize> {
        let arrays = self.values.len();
        let mut next = first % arrays;
        std::iter::repeat_with(move || {
            let index = next;
            next = if index + 1 == arrays { 0 } else { index + 1 };
            index
        })
        .take(count)
    }

    /// Bytes of an encoded array, header included, on average.
    pub(crate) fn bytes(&self) -> f64 {
        self.encoded.iter().map(Vec::len).sum::<usize>() as f64 / self.encoded.len() as f64
    }
}

/// A signed integer of `bits` bits.
pub(crate) fn draw_signed(values: Values, bits: u32, random: &mut SmallRng) -> i64 {
    let whole = |random: &mut SmallRng| random.random::<i64>() >> (64 - bits);
    match values {
        Values::Random => whole(random),
        Values::Small => random.random_range(-32..=127),
        Values::OneWidth => signed_of_form(bits, bits, random),
        Values::Mixed => {
            let form = random.random_range(0..=bits.trailing_zeros() - 2);
            if form == 0 { random.random_range(-32..=127) } else { signed_of_form(4 << form, bits, random) }
        }
    }
}

/// A signed integer whose shortest form has a payload of `form` bits, among those of `bits` bits.
fn signed_of_form(form: u32, bits: u32, random: &mut SmallRng) -> i64 {
    // Positive ones take the unsigned forms, which reach twice as far, unless the type ends before.
    let (negative_max, negative_min) =
        (if form == 8 { -33 } else { (-1 << (form / 2 - 1)) - 1 }, -1 << (form - 1));
    let positive_min = if form == 8 { 128 } else { 1 << (form / 2) };
    let type_max = i64::MAX >> (64 - bits);
    let positive_max = if form == 64 { i64::MAX } else { ((1 << form) - 1).min(type_max) };
    if positive_min <= positive_max && random.random() {
        random.random_range(positive_min..=positive_max)
    } else {
        random.random_range(negative_min..=negative_max)
    }
}

/// An unsigned integer of `bits` bits.
pub(crate) fn draw_unsigned(values: Values, bits: u32, random: &mut SmallRng) -> u64 {
    match values {
        Values::Random => random.random::<u64>() >> (64 - bits),
        Values::Small => random.random_range(0..=127),
        Values::OneWidth => unsigned_of_form(bits, random),
        Values::Mixed => {
            let form = random.random_range(0..=bits.trailing_zeros() - 2);
            if form == 0 { random.random_range(0..=127) } else { unsigned_of_form(4 << form, random) }
        }
    }
}

/// An unsigned integer whose shortest form has a payload of `form` bits.
fn unsigned_of_form(form: u32, random: &mut SmallRng) -> u64 {
    let min = if form == 8 { 128 } else { 1 << (form / 2) };
    random.random_range(min..=u64::MAX >> (64 - form))
}
