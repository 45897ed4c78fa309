//! What the tests share: the naive twin of the fuzz targets, values that matter, and random ones.
//!
//! The twin is `rmp`, one element at a time. What is checked is left to the tests.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    unreachable_pub,
    reason = "some features leave parts unused"
)]

#[path = "../../../../../fuzz/src/msgpack_array.rs"]
pub mod twin;

pub use twin::{Number, bits, decodes_as_naive, naive_decode, naive_encode, there_and_back};

/// Calls a function that is generic over the element type with every one.
macro_rules! for_every_element {
    ($function:ident) => {{
        $function::<i8>();
        $function::<i16>();
        $function::<i32>();
        $function::<i64>();
        $function::<u8>();
        $function::<u16>();
        $function::<u32>();
        $function::<u64>();
        $function::<f32>();
        $function::<f64>();
        $function::<bool>();
    }};
}
pub(crate) use for_every_element;

/// How many rounds a test makes: fewer in the interpreter, which is a few hundred times slower.
pub fn rounds(normally: usize, in_miri: usize) -> usize {
    if cfg!(miri) { in_miri } else { normally }
}

/// Random numbers from a seed that a failing test prints.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| if cfg!(miri) { 1 } else { RandomState::new().hash_one(0) });
        println!("SEED={seed}");
        Self(seed)
    }

    /// 64 random bits (SplitMix64, Steele, Lea and Flood 2014).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Values of all widths, rarely two of one width in a row.
    pub fn mixed<T: Number>(&mut self, length: usize) -> Vec<T> {
        let mut one = || {
            let (bits, shift) = (self.bits(), self.below(64));
            T::from_bits((bits as i64 >> shift) as u64)
        };
        (0..length).map(|_| one()).collect()
    }

    /// Values as their memory comes.
    pub fn uniform<T: Number>(&mut self, length: usize) -> Vec<T> {
        (0..length).map(|_| T::from_bits(self.bits())).collect()
    }

    /// Values of one width, but for `others` of a hundred.
    pub fn mostly<T: Number>(&mut self, width_bits: u32, others: usize, length: usize) -> Vec<T> {
        let mut one = || {
            let width_bits = if self.below(100) < others { 1 + self.below(64) as u32 } else { width_bits };
            T::from_bits((self.bits() as i64 >> (64 - width_bits)) as u64)
        };
        (0..length).map(|_| one()).collect()
    }

    /// One of several kinds of arrays.
    pub fn any<T: Number>(&mut self, length: usize) -> Vec<T> {
        match self.below(6) {
            0 => self.uniform(length),
            1 => self.mixed(length),
            2 => self.mostly(5, 0, length),
            kind => {
                let width_bits = 1 + self.below(64) as u32;
                self.mostly(width_bits, [0, 1, 20][kind - 3], length)
            }
        }
    }
}

/// Every value at which a width ends, its neighbours, and the ends of the type; of floats the
/// special ones.
pub fn boundaries<T: Number>() -> Vec<T> {
    let mut all: Vec<T> = match T::NAME {
        "f32" => FLOATS.iter().map(|value| T::from_bits((*value as f32).to_bits().into())).collect(),
        "f64" => FLOATS.iter().map(|value| T::from_bits(value.to_bits())).collect(),
        "bool" => vec![T::from_bits(0), T::from_bits(1)],
        _ => integer_boundaries(),
    };
    let nans: &[u64] = match T::NAME {
        "f32" => &[0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffc1_2345, 0x0000_0001, 0x807f_ffff],
        "f64" => &[
            0x7ff0_0000_0000_0001,
            0x7ff0_0000_2000_0000,
            0x7ff8_0000_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0xfff0_0000_0000_0001,
            0xfff8_1234_5678_9abc,
            0x0000_0000_0000_0001,
            0x800f_ffff_ffff_ffff,
        ],
        _ => &[],
    };
    all.extend(nans.iter().map(|bits| T::from_bits(*bits)));
    all
}

const FLOATS: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN_POSITIVE,
    f32::MAX as f64,
    f32::MIN_POSITIVE as f64,
    16_777_217.0,
    -9_007_199_254_740_993.0,
];

fn integer_boundaries<T: Number>() -> Vec<T> {
    let powers = [0, 5, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64].map(|power| 1_i128 << power);
    let ends = [0].into_iter().chain(powers).flat_map(|end| [end, -end]);
    let with_neighbours = ends.flat_map(|end| [end - 1, end, end + 1]);
    let signed = T::NAME.starts_with('i');
    let width = 8 * size_of::<T>() as u32;
    let lowest = if signed { -(1_i128 << (width - 1)) } else { 0 };
    let range = lowest..lowest + (1_i128 << width);
    let mut all: Vec<i128> = with_neighbours.filter(|value| range.contains(value)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|value| T::from_bits(value as u64)).collect()
}

/// Every form in which the specification lets an integer be written.
pub fn integer_forms(value: i128) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    let mut form = |there: bool, marker: u8, bytes: usize| {
        if there {
            forms.push([&[marker][..], &value.to_be_bytes()[16 - bytes..]].concat());
        }
    };
    form((-32..=127).contains(&value), value as u8, 0);
    for (marker, bytes) in [(0xcc, 1), (0xcd, 2), (0xce, 4), (0xcf, 8)] {
        form((0..1 << (8 * bytes)).contains(&value), marker, bytes);
    }
    for (marker, bytes) in [(0xd0, 1), (0xd1, 2), (0xd2, 4), (0xd3, 8)] {
        let limit = 1_i128 << (8 * bytes - 1);
        form((-limit..limit).contains(&value), marker, bytes);
    }
    forms
}

/// Every form in which an array of this type may have the element: all widths, floats also as
/// integers and as floats of the other width where nothing is lost.
pub fn forms<T: Number>(value: T) -> Vec<Vec<u8>> {
    let bits = value.bits();
    match T::NAME {
        "bool" => vec![vec![0xc2 + bits as u8]],
        "f32" => float_forms(twin::widen(f32::from_bits(bits as u32)), Some(bits as u32)),
        "f64" => float_forms(f64::from_bits(bits), twin::narrow(f64::from_bits(bits)).map(f32::to_bits)),
        name if name.starts_with('i') => {
            let unused = 64 - 8 * size_of::<T>() as u32;
            integer_forms(((bits << unused) as i64 >> unused).into())
        }
        _ => integer_forms(bits.into()),
    }
    .into_iter()
    // Of a float's forms, those that mean this very value.
    .filter(|form| T::read(&mut &form[..]).is_ok_and(|read| read.bits() == bits))
    .collect()
}

fn float_forms(double: f64, single: Option<u32>) -> Vec<Vec<u8>> {
    let mut forms = vec![[&[0xcb][..], &double.to_bits().to_be_bytes()].concat()];
    forms.extend(single.map(|single| [&[0xca][..], &single.to_be_bytes()].concat()));
    if double.abs() < 18_446_744_073_709_551_616.0 && double.trunc() == double {
        forms.extend(integer_forms(double as i128));
    }
    forms
}

/// The shortest header of an array, and one of the longest form.
pub fn headers(count: u32) -> [Vec<u8>; 2] {
    let (header, length) = msgpack_array::array_header(count);
    [header[..length].to_vec(), [&[0xdd][..], &count.to_be_bytes()].concat()]
}
