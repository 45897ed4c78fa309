//! Decoding an array that arrives in pieces, cut anywhere.
//!
//! Whole elements of a piece are decoded where they are; what is kept between pieces is the
//! beginning of one header or element, 8 bytes at most. Where pieces come from, and what is done
//! with elements meanwhile, is left to the caller.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::bulk::{self, Isa, Stop};
use crate::element::Element;
use crate::error::{DecodeError, ElementError};
use crate::header::decode_array_header;

/// Decodes one array from pieces of any size. **Push every piece, in order, until
/// [`is_done`](Self::is_done).**
///
/// ```
/// let mut decoder = msgpack_array::ArrayDecoder::<i16>::new();
/// let mut values = Vec::new();
/// for piece in [&[0x93, 1, 0xcd][..], &[0x01], &[0x02, 0xff, 0xc0]] {
///     let used = decoder.push(piece, &mut values)?;
///     if decoder.is_done() {
///         assert_eq!(piece[used..], [0xc0]); // what follows the array
///     }
/// }
/// assert_eq!(values, [1, 0x102, -1]);
/// # Ok::<(), msgpack_array::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ArrayDecoder<T> {
    isa: Isa,
    /// Elements of the array, once its header is there.
    count: Option<u32>,
    /// Elements decoded, `0 <= decoded <= count`.
    decoded: u32,
    /// The beginning of a header or an element, complete ones of which never stay here.
    kept: [u8; KEPT_MAX],
    kept_length: usize,
    failed: Option<DecodeError>,
    elements: PhantomData<fn() -> T>,
}

/// The longest element; one byte of it is always still to come between two calls.
const KEPT_MAX: usize = 9;

impl<T: Element> ArrayDecoder<T> {
    /// A decoder at the beginning of an array.
    pub fn new() -> Self {
        Self::started(Isa::detect())
    }

    /// The same with an instruction set of the caller's choice.
    ///
    /// # Panics
    /// When the machine does not have `isa`.
    pub fn with_isa(isa: Isa) -> Self {
        assert!(isa.is_available(), "{isa:?} is not available on this machine");
        Self::started(isa)
    }

    fn started(isa: Isa) -> Self {
        Self {
            isa,
            count: None,
            decoded: 0,
            kept: [0; KEPT_MAX],
            kept_length: 0,
            failed: None,
            elements: PhantomData,
        }
    }

    /// Takes the next piece, appends the elements it completes to `out`, and returns how much of
    /// the piece belongs to the array: all of it until [`is_done`](Self::is_done), nothing after
    /// that.
    ///
    /// Appends no more elements than there are bytes in the piece, plus one; `out` may be emptied
    /// between calls.
    ///
    /// # Errors
    /// [`DecodeError::NotAnArray`] and [`DecodeError::Element`], whose index counts from the
    /// beginning of the array. Elements before it have been appended. Every later call has the same
    /// answer.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.advance(piece, out);
        self.failed = result.err();
        result
    }

    /// Elements that the header announces; `None` until it is complete. Not checked against
    /// anything: do not allocate by it.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// Elements decoded so far.
    pub fn decoded(&self) -> u32 {
        self.decoded
    }

    /// Whether the array is complete.
    pub fn is_done(&self) -> bool {
        self.count == Some(self.decoded)
    }

    fn advance(&mut self, piece: &[u8], out: &mut Vec<T>) -> Result<usize, DecodeError> {
        let mut rest = piece;
        while self.count.is_none() {
            let Some(header) = self.keep_one(&mut rest) else { return Ok(piece.len()) };
            match decode_array_header(header) {
                Ok((count, _)) => (self.count, self.kept_length) = (Some(count), 0),
                Err(DecodeError::Truncated) => {}
                Err(error) => return Err(error),
            }
        }
        while self.kept_length > 0 {
            let Some(element) = self.keep_one(&mut rest) else { return Ok(piece.len()) };
            match T::decode_one(element) {
                Ok((value, _)) => {
                    out.push(value);
                    (self.decoded, self.kept_length) = (self.decoded + 1, 0);
                }
                Err(Stop::Truncated) => {}
                Err(Stop::Element(error)) => return Err(self.at_element(error)),
            }
        }
        self.decode_whole_elements(&mut rest, out)?;
        if !self.is_done() {
            self.kept[..rest.len()].copy_from_slice(rest);
            (self.kept_length, rest) = (rest.len(), &[]);
        }
        Ok(piece.len() - rest.len())
    }

    /// Moves a byte from `rest` to those kept, and returns these; `None` if there is none.
    fn keep_one(&mut self, rest: &mut &[u8]) -> Option<&[u8]> {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        self.kept[self.kept_length] = byte;
        self.kept_length += 1;
        Some(&self.kept[..self.kept_length])
    }

    /// As long as there are whole elements of the array in `rest`.
    #[expect(unsafe_code, reason = "the vector's spare room is filled by the kernels")]
    fn decode_whole_elements(&mut self, rest: &mut &[u8], out: &mut Vec<T>) -> Result<(), DecodeError> {
        // Room for as many elements as there are if all are of the greatest length; then, for what
        // is left, for all there can be.
        for length in [T::ENCODED_MAX, 1] {
            let possible = rest.len().div_ceil(length);
            let room = possible.min((self.count.unwrap_or(0) - self.decoded) as usize);
            out.reserve(room);
            let decoded = bulk::decode(self.isa, rest, &mut out.spare_capacity_mut()[..room]);
            // SAFETY: as many elements of the spare room were initialised.
            unsafe { out.set_len(out.len() + decoded.elements) };
            self.decoded += decoded.elements as u32;
            *rest = &rest[decoded.bytes..];
            match decoded.stop {
                None => {}
                Some(Stop::Truncated) => break,
                Some(Stop::Element(error)) => return Err(self.at_element(error)),
            }
        }
        Ok(())
    }

    fn at_element(&self, error: ElementError) -> DecodeError {
        DecodeError::Element { index: self.decoded as usize, error }
    }
}

impl<T: Element> Default for ArrayDecoder<T> {
    fn default() -> Self {
        Self::new()
    }
}
