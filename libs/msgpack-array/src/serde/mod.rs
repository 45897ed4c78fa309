//! Arrays of numbers as fields of serde's data types: `#[serde(with = "msgpack_array::serde")]`.
//!
//! In every format the field is a sequence, element by element. In documents of `rmp-serde`
//! (feature `rmp-serde`) the bytes are the same, and the kernels write and read them; see
//! [`to_vec`] and [`from_slice`] for when. That part is in `rmp.rs`.
//!
//! ```
//! # #[cfg(feature = "rmp-serde")] {
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Rates {
//!     stream: String,
//!     #[serde(with = "msgpack_array::serde")]
//!     bits_per_second: Vec<u64>,
//!     #[serde(with = "msgpack_array::serde", default)]
//!     loss_percent: Option<Vec<f32>>,
//! }
//!
//! let rates = Rates { stream: "live/a".into(), bits_per_second: vec![600_000; 10_000], loss_percent: None };
//! let document = msgpack_array::serde::to_vec_named(&rates)?;
//! let back: Rates = msgpack_array::serde::from_slice(&document)?;
//! assert_eq!(back.bits_per_second, rates.bits_per_second);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A field of a document accepts the same as an array: any legal width, values that the element
//! type represents exactly, `bool` from `bool` only. An element that does not fit is named with its
//! value, the type wanted and its index: "invalid value: integer `300`, expected u8 as element 1".
//! Human-readable formats round floats to `f32` as serde does, because 0.1 is no `f32`. What serde
//! has buffered (`flatten`, `untagged`) counts as human-readable.

mod de;
#[cfg(feature = "rmp-serde")]
mod rmp;
mod ser;

pub use de::{DeserializeArray, deserialize};
#[cfg(feature = "rmp-serde")]
pub use rmp::{from_slice, to_vec, to_vec_named};
pub use ser::{SerializeArray, serialize};

use ::serde::de::{DeserializeOwned, Visitor};
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::element::Element;

/// An array where serde wants a type of its own instead of `with`: in `Vec<Array<Vec<f64>>>`, in
/// maps, in enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Array<A>(pub A);

impl<A: SerializeArray> Serialize for Array<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_array(serializer)
    }
}

impl<'de, A: DeserializeArray<'de>> Deserialize<'de> for Array<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        A::deserialize_array(deserializer).map(Self)
    }
}

/// An [`Element`] as serde knows it: all of them. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that arrays are made of",
    note = "there are i8, i16, i32, i64, u8, u16, u32, u64, f32, f64 and bool; instead of usize use u64, of isize i64"
)]
pub trait SerdeElement: Element + Serialize + DeserializeOwned {
    /// Requests a type from a deserializer.
    #[doc(hidden)]
    fn ask<'de, D: Deserializer<'de>, V: Visitor<'de>>(
        deserializer: D,
        visitor: V,
    ) -> Result<V::Value, D::Error>;
}

macro_rules! serde_elements {
    ($($type:ty: $method:ident),*) => { $(
        impl SerdeElement for $type {
            fn ask<'de, D: Deserializer<'de>, V: Visitor<'de>>(deserializer: D, visitor: V) -> Result<V::Value, D::Error> {
                deserializer.$method(visitor)
            }
        }
    )* };
}

serde_elements!(
    i8: deserialize_i8, i16: deserialize_i16, i32: deserialize_i32, i64: deserialize_i64,
    u8: deserialize_u8, u16: deserialize_u16, u32: deserialize_u32, u64: deserialize_u64,
    f32: deserialize_f32, f64: deserialize_f64, bool: deserialize_bool
);
