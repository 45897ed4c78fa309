//! Arrays to any format: what can be an array, and encoding element by element.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use ::serde::ser::{Serialize, SerializeSeq, Serializer};

use super::SerdeElement;

/// For `#[serde(with = "msgpack_array::serde")]` and `serialize_with`.
///
/// # Errors
/// Those of the format; and in a document of `rmp-serde`, more than 2^32 - 1 elements.
pub fn serialize<A, S>(array: &A, serializer: S) -> Result<S::Ok, S::Error>
where
    A: SerializeArray + ?Sized,
    S: Serializer,
{
    array.serialize_array(serializer)
}

/// Slices, arrays and vectors of elements; pointers to them; and `Option`s of all that.
pub trait SerializeArray {
    /// Writes the elements as one sequence (`Option`: or nothing).
    ///
    /// # Errors
    /// As [`serialize`].
    fn serialize_array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl<T: SerdeElement> SerializeArray for [T] {
    fn serialize_array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[cfg(feature = "rmp-serde")]
        let serializer = match super::rmp::serialize(self, serializer) {
            Ok(result) => return result,
            Err(serializer) => serializer,
        };
        let mut sequence = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|value| sequence.serialize_element(value))?;
        sequence.end()
    }
}

impl<T: SerdeElement, const N: usize> SerializeArray for [T; N] {
    fn serialize_array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize_array(serializer)
    }
}

macro_rules! as_what_it_holds {
    ($({$($generics:tt)*} $type:ty),* $(,)?) => { $(
        impl<$($generics)*> SerializeArray for $type {
            fn serialize_array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                (**self).serialize_array(serializer)
            }
        }
    )* };
}

as_what_it_holds! {
    {T: SerdeElement} Vec<T>,
    {T: SerdeElement} Cow<'_, [T]>,
    {A: SerializeArray + ?Sized} Box<A>,
    {A: SerializeArray + ?Sized} Rc<A>,
    {A: SerializeArray + ?Sized} Arc<A>,
    {A: SerializeArray + ?Sized} &A,
}

impl<A: SerializeArray> SerializeArray for Option<A> {
    fn serialize_array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            None => serializer.serialize_none(),
            Some(array) => serializer.serialize_some(&Borrowed(array)),
        }
    }
}

/// An array for a serializer that wants something with `Serialize`.
struct Borrowed<'a, A>(&'a A);

impl<A: SerializeArray> Serialize for Borrowed<'_, A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_array(serializer)
    }
}
