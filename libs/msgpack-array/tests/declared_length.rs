//! What a header announces costs nothing: memory is only taken for elements whose bytes are there.
//!
//! Measured by an allocator that counts for each thread alone: the test harness allocates beside
//! the test. A binary of its own for that global allocator.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use msgpack_array::{ArrayDecoder, DecodeError, Element, ElementError};

struct Counting;

thread_local! {
    /// The largest single allocation of this thread since it was set to zero. Needs no allocation
    /// itself.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator as they are; resizing goes through these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The answer of `run`, which never allocates more than `limit` bytes at once.
#[track_caller]
fn bounded<R>(limit: usize, run: impl FnOnce() -> R) -> R {
    LARGEST.set(0);
    let answer = run();
    let largest = LARGEST.get();
    assert!(largest <= limit, "{largest} bytes were allocated at once, allowed are {limit}");
    answer
}

#[test]
fn no_memory_for_what_is_only_announced() {
    every_type();
    bin_allocates_nothing();
    #[cfg(feature = "rmp-serde")]
    documents();
}

fn every_type() {
    slices_and_streams::<i8>();
    slices_and_streams::<u16>();
    slices_and_streams::<i32>();
    slices_and_streams::<u64>();
    slices_and_streams::<f32>();
    slices_and_streams::<f64>();
    slices_and_streams::<bool>();
}

fn slices_and_streams<T: Element + std::fmt::Debug>() {
    let truncated = Err(DecodeError::Truncated);
    for announced in [1000, 0xffff, 0x1_0000, 0x7fff_ffff, u32::MAX] {
        let header = [&[0xdd][..], &announced.to_be_bytes()].concat();
        assert_eq!(bounded(0, || msgpack_array::decode_into::<T>(&header, &mut Vec::new())), truncated);

        // `false` or zero, as often as the element type has room for in one byte.
        let element = if size_of::<T>() == 1 && T::ENCODED_MAX == 1 { 0xc2 } else { 0 };
        let input = [&header[..], &[element; 500]].concat();
        // A vector of small elements begins with room for 8 of them.
        let limit = (input.len() * size_of::<T>()).max(64);
        let result = bounded(limit, || msgpack_array::decode_into::<T>(&input, &mut Vec::new()));
        assert_eq!(result, truncated, "{announced}");

        let mut decoder = ArrayDecoder::<T>::new();
        let mut values = Vec::new();
        for piece in input.chunks(100) {
            // A vector that grows doubles its room.
            let pushed = bounded(2 * limit, || decoder.push(piece, &mut values));
            assert_eq!(pushed, Ok(piece.len()));
        }
        assert_eq!((decoder.count(), decoder.decoded()), (Some(announced), 500));

        let wrong = [&header[..], &[element, element, 0xc1]].concat();
        let error = DecodeError::Element { index: 2, error: ElementError::WrongType { marker: 0xc1 } };
        let result = bounded(64, || msgpack_array::decode_into::<T>(&wrong, &mut Vec::new()));
        assert_eq!(result, Err(error), "an element that is refused is named though others are missing");
    }
}

fn bin_allocates_nothing() {
    let announced = [&[0xc6][..], &u32::MAX.to_be_bytes(), b"abc"].concat();
    assert_eq!(bounded(0, || msgpack_array::decode_bin(&announced)), Err(DecodeError::Truncated));
}

#[cfg(feature = "rmp-serde")]
fn documents() {
    use msgpack_array::serde::{Array, from_slice};

    let document = [&[0xdd][..], &u32::MAX.to_be_bytes(), &[1; 1000]].concat();
    // Error texts and the buffer of the deserializer are small.
    let limit = 16_384;
    assert!(bounded(limit, || from_slice::<Array<Vec<f64>>>(&document)).is_err());
    assert!(bounded(limit, || rmp_serde::from_slice::<Array<Vec<f64>>>(&document)).is_err());
    assert!(bounded(limit, || rmp_serde::from_read::<_, Array<Vec<i32>>>(&mut &document[..])).is_err());
    let document = [&[0xc6][..], &u32::MAX.to_be_bytes(), &[1; 1000]].concat();
    assert!(bounded(limit, || from_slice::<Array<Vec<u8>>>(&document)).is_err());
}
