//! Arrays from any format: what can be an array, and decoding element by element.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use ::serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

use super::SerdeElement;
use crate::bulk::Number;

/// For `#[serde(with = "msgpack_array::serde")]` and `deserialize_with`.
///
/// # Errors
/// Those of the format; and an element of another type or that the element type cannot hold, with
/// its index.
pub fn deserialize<'de, A, D>(deserializer: D) -> Result<A, D::Error>
where
    A: DeserializeArray<'de>,
    D: Deserializer<'de>,
{
    A::deserialize_array(deserializer)
}

/// Vectors, boxed slices and arrays of elements, and `Option`s of all that.
pub trait DeserializeArray<'de>: Sized {
    /// Reads one sequence (`Option`: or nothing).
    ///
    /// # Errors
    /// As [`deserialize`].
    fn deserialize_array<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<'de, T: SerdeElement> DeserializeArray<'de> for Vec<T> {
    fn deserialize_array<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = ArrayVisitor { by: By::choose(&deserializer), element: PhantomData };
        deserializer.deserialize_seq(visitor)
    }
}

macro_rules! from_vectors {
    ($($type:ty),*) => { $(
        impl<'de, T: SerdeElement> DeserializeArray<'de> for $type {
            fn deserialize_array<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Vec::<T>::deserialize_array(deserializer).map(Self::from)
            }
        }
    )* };
}

from_vectors!(Box<[T]>, Rc<[T]>, Arc<[T]>, Cow<'_, [T]>);

impl<'de, T: SerdeElement, const N: usize> DeserializeArray<'de> for [T; N] {
    fn deserialize_array<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<T>::deserialize_array(deserializer)?;
        let length = values.len();
        values.try_into().map_err(|_| D::Error::custom(format_args!("{length} elements instead of {N}")))
    }
}

impl<'de, A: DeserializeArray<'de>> DeserializeArray<'de> for Option<A> {
    fn deserialize_array<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(OptionVisitor(PhantomData))
    }
}

struct OptionVisitor<A>(PhantomData<A>);

impl<'de, A: DeserializeArray<'de>> Visitor<'de> for OptionVisitor<A> {
    type Value = Option<A>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers, or nothing")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        A::deserialize_array(deserializer).map(Some)
    }
}

/// How the elements of a sequence are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// As arrays everywhere in this crate: values that the element type has exactly.
    ElementExactly,
    /// As serde reads the element type, rounding floats.
    ElementRounded,
    /// By the kernels, from the reader of a deserializer of `rmp-serde`.
    #[cfg(feature = "rmp-serde")]
    Kernels,
}

impl By {
    fn choose<'de, D: Deserializer<'de>>(deserializer: &D) -> Self {
        #[cfg(feature = "rmp-serde")]
        if super::rmp::is_known_deserializer::<D>() {
            return Self::Kernels;
        }
        if deserializer.is_human_readable() { Self::ElementRounded } else { Self::ElementExactly }
    }
}

struct ArrayVisitor<T> {
    by: By,
    element: PhantomData<T>,
}

/// Bytes of memory for elements that are announced and not there yet.
const ANNOUNCED_BYTES_MAX: usize = 4096;

impl<'de, T: SerdeElement> Visitor<'de> for ArrayVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {}", core::any::type_name::<T>())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        let announced = sequence.size_hint().unwrap_or(0);
        #[cfg(feature = "rmp-serde")]
        if self.by == By::Kernels && announced > 0 {
            let all = super::rmp::AllElements { count: announced, values: &mut values };
            if sequence.next_element_seed(all)?.is_some_and(|read| read) {
                // The sequence counts elements by itself, and must not believe that some are left.
                while sequence.next_element_seed(super::rmp::Counted)?.is_some() {}
                return Ok(values);
            }
        }
        values.reserve(announced.min(ANNOUNCED_BYTES_MAX / size_of::<T>()));
        while let Some(value) = sequence.next_element_seed(One::<T>::new(values.len(), self.by))? {
            values.push(value);
        }
        Ok(values)
    }
}

/// One element.
pub(super) struct One<T> {
    index: usize,
    by: By,
    element: PhantomData<T>,
}

impl<T> One<T> {
    fn new(index: usize, by: By) -> Self {
        Self { index, by, element: PhantomData }
    }

    /// The first one of a sequence, exactly.
    #[cfg(feature = "rmp-serde")]
    pub(super) fn first() -> Self {
        Self::new(0, By::ElementExactly)
    }
}

impl<'de, T: SerdeElement> DeserializeSeed<'de> for One<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        match self.by {
            By::ElementRounded => T::deserialize(deserializer),
            _ => T::ask(deserializer, self),
        }
    }
}

macro_rules! visit {
    ($($method:ident($type:ty) $number:expr, $unexpected:expr;)*) => { $(
        fn $method<E: Error>(self, value: $type) -> Result<T, E> {
            T::from_number($number(value)).ok_or_else(|| E::invalid_value($unexpected(value), &self))
        }
    )* };
}

impl<'de, T: SerdeElement> Visitor<'de> for One<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as element {}", core::any::type_name::<T>(), self.index)
    }

    visit! {
        visit_bool(bool) Number::Bool, Unexpected::Bool;
        visit_u64(u64) Number::Unsigned, Unexpected::Unsigned;
        visit_i64(i64) Number::Signed, Unexpected::Signed;
        visit_f32(f32) |value: f32| Number::Single(value.to_bits()), |value| Unexpected::Float(f64::from(value));
        visit_f64(f64) |value: f64| Number::Double(value.to_bits()), Unexpected::Float;
    }
}
