//! MessagePack arrays of numbers at memory speed.
//!
//! Encodes and decodes arrays of `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool` as the MessagePack
//! specification's `array` family, every integer in its shortest form: the bytes are those of a
//! conforming encoder that goes element by element. The instruction set is chosen once per call
//! ([`Isa::detect`]); the scalar code is always there and is the oracle. What is around the arrays
//! of a document is left to other crates.
//!
//! Where to begin:
//! - the array is in memory as a whole: [`encode`] and [`decode_into`], or one function per type,
//!   as below;
//! - the memory is the caller's: [`encode_into`] with [`max_encoded_len`], [`decode_array_header`]
//!   with [`decode_elements`];
//! - the bytes come in pieces, from a socket or a pipe: [`ArrayDecoder`];
//! - the array is a field of a document: the module [`serde`], of the feature with that name;
//! - the bytes are data and no numbers: [`encode_bin`] and [`decode_bin`], for `i8`
//!   [`encode_bin_i8s`] and [`decode_bin_i8s`].
//!
#![cfg_attr(feature = "serde", doc = "[`serde`]: mod@serde")]
#![cfg_attr(not(feature = "serde"), doc = "[`serde`]: https://serde.rs")]
//!
//! ```
//! let mut document = Vec::new();
//! msgpack_array::encode_i32s(&[1, -200, 70_000], &mut document);
//! assert_eq!(document, [0x93, 0x01, 0xd1, 0xff, 0x38, 0xce, 0x00, 0x01, 0x11, 0x70]);
//!
//! let mut values: Vec<i64> = Vec::new();
//! let used = msgpack_array::decode_into(&document, &mut values)?;
//! assert_eq!((used, values), (10, vec![1, -200, 70_000]));
//! # Ok::<(), msgpack_array::DecodeError>(())
//! ```
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod bin;
mod bulk;
mod decode;
mod element;
mod encode;
mod error;
mod header;
#[cfg(feature = "serde")]
pub mod serde;
mod stream;
mod typed;

pub use bin::{decode_bin, decode_bin_i8s, encode_bin, encode_bin_i8s};
pub use bulk::Isa;
pub use decode::{
    WholeElements, decode_elements, decode_elements_uninit, decode_into, decode_into_with,
    decode_whole_elements_uninit,
};
pub use element::Element;
pub use encode::{
    encode, encode_array_header, encode_elements, encode_elements_uninit, encode_into, encode_into_uninit,
    encode_with, max_encoded_len,
};
pub use error::{DecodeError, ElementError};
pub use header::{array_header, bin_header, decode_array_header, decode_bin_header};
pub use stream::ArrayDecoder;
pub use typed::*;

/// The first example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
