//! Nothing is read or written beyond the slices: they end, and begin, at pages that may not be
//! touched.
#![cfg(all(unix, not(miri)))]
#![expect(unsafe_code, reason = "pages that may not be touched")]

use std::mem::MaybeUninit;

use crate::common::{Number, Random, bits, for_every_element, naive_encode};
use msgpack_array::{Isa, array_header, decode_elements_uninit, encode_elements_uninit};

/// Memory between two pages that may not be touched.
struct Guarded {
    start: *mut libc::c_void,
}

/// More than any page size in use.
const PAGE: usize = 65_536;

impl Guarded {
    fn new() -> Self {
        let (access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the middle third of that mapping.
        let result =
            unsafe { libc::mprotect(start.byte_add(PAGE), PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(result, 0);
        Self { start }
    }

    /// `length` elements, the last one at the very end of what may be touched, or the first one at
    /// its very beginning.
    fn slice<T>(&mut self, length: usize, at_end: bool) -> &mut [MaybeUninit<T>] {
        assert!(length * size_of::<T>() <= PAGE);
        let offset = if at_end { PAGE - length * size_of::<T>() } else { 0 };
        // SAFETY: within the middle third, which is readable and writable as long as `self` is
        // there, aligned as multiples of the element size before a page are; no other reference to
        // it exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.byte_add(PAGE + offset).cast(), length) }
    }

    fn filled<T: Copy>(&mut self, values: &[T], at_end: bool) -> &[T] {
        self.slice(values.len(), at_end).write_copy_of_slice(values)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, of which no reference is left.
        let result = unsafe { libc::munmap(self.start, 3 * PAGE) };
        assert_eq!(result, 0);
    }
}

#[test]
fn both_ways_at_both_ends() {
    for_every_element!(both_ways);
}

fn both_ways<T: Number>() {
    let mut random = Random::new();
    let [mut values_memory, mut bytes_memory] = [Guarded::new(), Guarded::new()];
    for isa in Isa::available() {
        for length in (0..=200).chain([1000, 5000]) {
            for at_end in [false, true] {
                let values: Vec<T> = random.any(length);
                let expected = &naive_encode(&values)[array_header(length as u32).1..];
                let source = values_memory.filled(&values, at_end);
                let out = bytes_memory.slice(length * T::ENCODED_MAX, at_end);
                let written = encode_elements_uninit(isa, source, out).unwrap();
                assert_eq!(written, expected.len(), "{isa:?} {} of {length}", T::NAME);

                let input = bytes_memory.filled(expected, at_end);
                let out = values_memory.slice(length, at_end);
                let used = decode_elements_uninit::<T>(isa, input, out);
                assert_eq!(used, Ok(expected.len()), "{isa:?} {} of {length}", T::NAME);
                // SAFETY: `decode_elements_uninit` has initialised all of it.
                let decoded: Vec<T> = out.iter().map(|value| unsafe { value.assume_init() }).collect();
                assert_eq!(bits(&decoded), bits(&values), "{isa:?} {} of {length}", T::NAME);

                // Cut within the last element, and with less room than there are elements.
                if length > 0 {
                    let input = bytes_memory.filled(&expected[..expected.len() - 1], at_end);
                    assert!(
                        decode_elements_uninit::<T>(isa, input, values_memory.slice(length, at_end)).is_err()
                    );
                    let input = bytes_memory.filled(expected, at_end);
                    assert!(
                        decode_elements_uninit::<T>(isa, input, values_memory.slice(length - 1, at_end))
                            .is_ok()
                    );
                }
            }
        }
    }
}
