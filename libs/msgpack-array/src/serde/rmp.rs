//! Documents of `rmp-serde`: the kernels write into its serializer's vector and read from its
//! deserializer's reader.
//!
//! serde hands out a serializer of some type `S`. Whether that is one of `rmp-serde`'s whose bytes
//! can be reached is asked by type id, which costs nothing at run time; if not, the array goes
//! element by element and has the same bytes. What `rmp-serde` does with documents around the
//! arrays, and where its limits are, is left to it.

#![expect(unsafe_code, reason = "a type known by its id is used as what it is")]

use alloc::vec::Vec;
use core::any::type_name;
use core::mem::transmute_copy;
use std::io::Cursor;

use ::serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _};
use ::serde::ser::{Error as _, Serialize, Serializer};
use rmp_serde::config::{DefaultConfig, StructMapConfig, StructTupleConfig};
use rmp_serde::decode::ReadReader;

use super::SerdeElement;
use super::de::One;
use crate::bulk::Isa;
use crate::decode::append_elements;
use crate::error::{DecodeError, ElementError};

/// `value` as a document, structs as arrays: the bytes of [`rmp_serde::to_vec`].
///
/// `rmp_serde::to_vec` itself writes into a type that no one else can name, so in it arrays go
/// element by element. The kernels run here, in [`rmp_serde::encode::write`] and `write_named` into
/// a `Vec<u8>`, and in an [`rmp_serde::Serializer`] of a `Vec<u8>` or `&mut Vec<u8>` as it is made
/// or `with_struct_map` or `with_struct_tuple`.
///
/// # Errors
/// Those of `rmp-serde`.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let mut document = Vec::new();
    rmp_serde::encode::write(&mut document, value)?;
    Ok(document)
}

/// `value` as a document, structs as maps: the bytes of [`rmp_serde::to_vec_named`]. Otherwise as
/// [`to_vec`].
///
/// # Errors
/// Those of `rmp-serde`.
pub fn to_vec_named<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let mut document = Vec::new();
    rmp_serde::encode::write_named(&mut document, value)?;
    Ok(document)
}

/// The value of a document: that of [`rmp_serde::from_slice`].
///
/// `rmp_serde::from_slice` itself keeps its position to itself, so in it arrays go element by
/// element. The kernels run here, and in [`rmp_serde::from_read`] and
/// [`rmp_serde::Deserializer::new`] on a `&[u8]`, a [`Cursor`] over a slice or vector, or a `&mut`
/// of these. Such a deserializer copies text, so `&str` fields want `rmp_serde::from_slice`. Bytes
/// behind the document are ignored, as `rmp_serde::from_slice` does; to see them, use `from_read`
/// on a `Cursor`.
///
/// # Errors
/// Those of `rmp-serde`.
pub fn from_slice<T: DeserializeOwned>(document: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    rmp_serde::from_read(document)
}

/// Writes an array, if `S` is a serializer whose vector can be reached; or gives it back.
pub(super) fn serialize<T: SerdeElement, S: Serializer>(
    values: &[T],
    serializer: S,
) -> Result<Result<S::Ok, S::Error>, S> {
    let mut serializer = serializer;
    let Some(document) = vector(&mut serializer) else { return Err(serializer) };
    if u32::try_from(values.len()).is_err() {
        return Ok(Err(S::Error::custom("a MessagePack array has at most 2^32 - 1 elements")));
    }
    crate::encode(values, document);
    // SAFETY: `S` is one of the serializers that `vector` knows, whose `Ok` is `()`.
    Ok(Ok(unsafe { transmute_copy::<(), S::Ok>(&()) }))
}

/// The vector of a serializer, if it is one of those known.
fn vector<S>(serializer: &mut S) -> Option<&mut Vec<u8>> {
    macro_rules! known {
        ($($config:ty),*) => { $(
            if typeid::of::<S>() == typeid::of::<&mut rmp_serde::Serializer<&mut Vec<u8>, $config>>() {
                let serializer: *mut S = serializer;
                // SAFETY: but for lifetimes `S` is that type, and what is reached through it lives
                // no longer than the borrow of it.
                let known = unsafe { &mut *serializer.cast::<&mut rmp_serde::Serializer<&mut Vec<u8>, $config>>() };
                return Some(known.get_mut());
            }
            if typeid::of::<S>() == typeid::of::<&mut rmp_serde::Serializer<Vec<u8>, $config>>() {
                let serializer: *mut S = serializer;
                // SAFETY: but for lifetimes `S` is that type, and what is reached through it lives
                // no longer than the borrow of it.
                let known = unsafe { &mut *serializer.cast::<&mut rmp_serde::Serializer<Vec<u8>, $config>>() };
                return Some(known.get_mut());
            }
        )* };
    }
    known!(DefaultConfig, StructMapConfig<DefaultConfig>, StructTupleConfig<DefaultConfig>);
    None
}

/// Hands the list of readers that can be reached to a macro.
macro_rules! known_readers {
    ($known:ident) => {
        $known!(
            &[u8],
            &mut &[u8],
            Cursor<&[u8]>,
            &mut Cursor<&[u8]>,
            Cursor<&Vec<u8>>,
            &mut Cursor<&Vec<u8>>,
            Cursor<Vec<u8>>,
            &mut Cursor<Vec<u8>>
        )
    };
}

/// Whether [`AllElements`] can read from `D`.
pub(super) fn is_known_deserializer<D>() -> bool {
    macro_rules! known {
        ($($reader:ty),*) => { $(
            typeid::of::<D>() == typeid::of::<&mut rmp_serde::Deserializer<ReadReader<$reader>>>() ||
        )* false };
    }
    known_readers!(known)
}

/// The reader of a deserializer, if it is one of those known.
fn reader<'a, D>(deserializer: &'a mut D) -> Option<&'a mut (dyn Source + 'a)> {
    macro_rules! known {
        ($($reader:ty),*) => { $(
            if typeid::of::<D>() == typeid::of::<&mut rmp_serde::Deserializer<ReadReader<$reader>>>() {
                let deserializer: *mut D = deserializer;
                // SAFETY: but for lifetimes `D` is that type, and what is reached through it lives
                // no longer than the borrow of it.
                let known = unsafe { &mut *deserializer.cast::<&mut rmp_serde::Deserializer<ReadReader<$reader>>>() };
                return Some(known.get_mut());
            }
        )* };
    }
    known_readers!(known);
    None
}

/// Bytes in memory that are consumed from the front.
trait Source {
    fn rest(&self) -> &[u8];

    /// Consumes `bytes`, which are no more than [`rest`](Self::rest) has.
    fn advance(&mut self, bytes: usize);
}

impl Source for &[u8] {
    fn rest(&self) -> &[u8] {
        self
    }

    fn advance(&mut self, bytes: usize) {
        *self = &self[bytes..];
    }
}

impl<T: AsRef<[u8]>> Source for Cursor<T> {
    fn rest(&self) -> &[u8] {
        let position = usize::try_from(self.position()).unwrap_or(usize::MAX);
        self.get_ref().as_ref().get(position..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.set_position(self.position() + bytes as u64);
    }
}

impl<S: Source> Source for &mut S {
    fn rest(&self) -> &[u8] {
        (**self).rest()
    }

    fn advance(&mut self, bytes: usize) {
        (**self).advance(bytes);
    }
}

/// Asked for the first element of a sequence, reads all `count`; says whether it could. If not, it
/// has read the first one, and one of the others may be refused.
///
/// Only for sequences that a deserializer known to [`is_known_deserializer`] makes: in those the
/// elements follow each other in the reader, and nothing of them has been taken from it.
pub(super) struct AllElements<'a, T> {
    pub(super) count: usize,
    pub(super) values: &'a mut Vec<T>,
}

impl<'de, T: SerdeElement> DeserializeSeed<'de> for AllElements<'_, T> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let mut deserializer = deserializer;
        if let Some(source) = reader(&mut deserializer) {
            match append_elements(Isa::detect(), self.count, source.rest(), self.values) {
                Ok(bytes) => {
                    source.advance(bytes);
                    return Ok(true);
                }
                // Nothing is consumed yet: element by element the same one fails, and serde's words
                // name its value and the type.
                Err(DecodeError::Element { error: ElementError::OutOfRange, .. }) => {}
                Err(error @ DecodeError::Element { .. }) => {
                    return Err(D::Error::custom(format_args!("{error} than {}", type_name::<T>())));
                }
                Err(error) => return Err(D::Error::custom(error)),
            }
        }
        self.values.push(One::first().deserialize(deserializer)?);
        Ok(false)
    }
}

/// An element that [`AllElements`] has read: takes nothing from the deserializer.
pub(super) struct Counted;

impl<'de> DeserializeSeed<'de> for Counted {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Ok(())
    }
}
