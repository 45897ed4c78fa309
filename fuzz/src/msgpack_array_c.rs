//! What the fuzz target of `msgpack-array-c` checks: any bytes, sizes and pointers that are NULL, with
//! every instruction set, against what `msgpack-array` itself makes of them.
//!
//! Memory is as large as the call says and not a byte more, so that AddressSanitizer sees what goes
//! beyond. `libs/msgpack-array-c/tests/msgpack-array-c/fuzz_corpus.rs` includes this file and replays
//! the kept corpus.

#[path = "input.rs"]
#[allow(dead_code, reason = "shared with other targets")]
mod input;

use input::Input;
use msgpack_array::{DecodeError, Element, ElementError, Isa};
use msgpack_array_c::{
    Decoded, Status, msgpack_array_decode, msgpack_array_decode_bin, msgpack_array_decode_header,
    msgpack_array_encode, msgpack_array_encode_bin, msgpack_array_encode_header,
    msgpack_array_isa_is_available, msgpack_array_max_encoded_len,
};
use std::ptr::{null, null_mut};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("msgpack_array_c", msgpack_array_c)];

/// One call: which one, with which type, sizes and pointers, then its bytes.
pub fn msgpack_array_c(data: &[u8]) {
    let mut input = Input(data);
    let (call, number, isa, size) = (input.byte(), input.byte(), input.byte(), input.byte());
    let call = Call {
        isa: u32::from(isa),
        element_type: u32::from(number),
        size: usize::from(size),
        no_input: call & 0x10 != 0,
        no_output: call & 0x20 != 0,
        no_result: call & 0x40 != 0,
        what: call & 0x0f,
    };
    let rest: Box<[u8]> = input.0.into();
    match call.what {
        0..8 => match number {
            0 => call.array::<bool>(&rest),
            1 => call.array::<i8>(&rest),
            2 => call.array::<i16>(&rest),
            3 => call.array::<i32>(&rest),
            4 => call.array::<i64>(&rest),
            5 => call.array::<u8>(&rest),
            6 => call.array::<u16>(&rest),
            7 => call.array::<u32>(&rest),
            8 => call.array::<u64>(&rest),
            9 => call.array::<f32>(&rest),
            10 => call.array::<f64>(&rest),
            _ => call.no_such_type(&rest),
        },
        8..10 => call.header(&rest),
        10..13 => call.bin(&rest),
        _ => call.write_bin(&rest),
    }
}

/// What is the same for all calls.
struct Call {
    isa: u32,
    element_type: u32,
    /// Elements or bytes that there is room for.
    size: usize,
    no_input: bool,
    no_output: bool,
    no_result: bool,
    what: u8,
}

/// Values that can be made of bits.
trait Value: Element + Default + PartialEq {
    fn of(bytes: &[u8]) -> Self;
    fn bits(self) -> u64;
}

macro_rules! values {
    ($($type:ty, $bits:ty, $of:expr, $to:expr;)*) => { $(
        impl Value for $type {
            fn of(bytes: &[u8]) -> Self {
                let mut padded = [0; size_of::<$type>()];
                padded[..bytes.len()].copy_from_slice(bytes);
                ($of)(<$bits>::from_ne_bytes(padded))
            }
            fn bits(self) -> u64 {
                ($to)(self)
            }
        }
    )* };
}

values! {
    bool, u8, |byte: u8| byte & 1 == 1, u64::from;
    i8, i8, |value| value, |value| value as u64;
    i16, i16, |value| value, |value| value as u64;
    i32, i32, |value| value, |value| value as u64;
    i64, i64, |value| value, |value| value as u64;
    u8, u8, |value| value, u64::from;
    u16, u16, |value| value, u64::from;
    u32, u32, |value| value, u64::from;
    u64, u64, |value| value, |value| value;
    f32, u32, f32::from_bits, |value: f32| u64::from(value.to_bits());
    f64, u64, f64::from_bits, f64::to_bits;
}

impl Call {
    fn array<T: Value>(&self, rest: &[u8]) {
        if self.what < 5 { self.decode::<T>(rest) } else { self.encode::<T>(rest) }
    }

    fn decode<T: Value>(&self, bytes: &[u8]) {
        let untouched = T::of(&[1]);
        let mut out: Box<[T]> = vec![untouched; self.size].into();
        let mut decoded = Decoded { count: 77, bytes: 77, index: 77 };
        let status = unsafe {
            msgpack_array_decode(
                self.isa,
                self.element_type,
                if self.no_input { null() } else { bytes.as_ptr() },
                bytes.len(),
                if self.no_output { null_mut() } else { out.as_mut_ptr().cast() },
                out.len(),
                if self.no_result { null_mut() } else { &raw mut decoded },
            )
        };
        let mut values: Vec<T> = Vec::new();
        let expected = self.expected(bytes, &mut values);
        assert_eq!(status, expected.0, "{decoded:?}");
        if !self.no_result {
            assert_eq!(decoded, expected.1, "{status:?}");
        }
        match status {
            Status::Ok => assert!(
                out.iter().zip(&values).all(|(given, wanted)| given.bits() == wanted.bits())
                    && out[values.len()..].iter().all(|value| *value == untouched)
            ),
            // What is behind an element at fault is nobody's.
            Status::WrongType | Status::OutOfRange | Status::Truncated => {}
            _ => assert!(out.iter().all(|value| *value == untouched), "{status:?}"),
        }
    }

    /// What decoding has to answer.
    fn expected<T: Value>(&self, bytes: &[u8], values: &mut Vec<T>) -> (Status, Decoded) {
        let nothing = Decoded::default();
        let Some(isa) = isa_of(self.isa) else { return (Status::BadArgument, nothing) };
        if !isa.is_available() {
            return (Status::IsaNotAvailable, nothing);
        }
        if (self.no_input && !bytes.is_empty()) || (self.no_output && self.size > 0) {
            return (Status::BadArgument, nothing);
        }
        let (count, header) = match msgpack_array::decode_array_header(bytes) {
            Ok((count, header)) => (count as usize, header),
            Err(DecodeError::Truncated) => return (Status::Truncated, nothing),
            Err(_) => return (Status::NotAnArray, nothing),
        };
        let counted = Decoded { count, ..nothing };
        if count > bytes.len() - header {
            return (Status::Truncated, counted);
        }
        if count > self.size {
            return (Status::TooSmall, counted);
        }
        match msgpack_array::decode_into(bytes, values) {
            Ok(bytes) => (Status::Ok, Decoded { bytes, ..counted }),
            Err(DecodeError::Element { index, error: ElementError::OutOfRange }) => {
                (Status::OutOfRange, Decoded { index, ..counted })
            }
            Err(DecodeError::Element { index, .. }) => (Status::WrongType, Decoded { index, ..counted }),
            Err(_) => (Status::Truncated, counted),
        }
    }

    fn encode<T: Value>(&self, memory: &[u8]) {
        let values: Box<[T]> = memory.chunks(size_of::<T>()).map(T::of).collect();
        let mut out: Box<[u8]> = vec![0xa5; self.size * 8].into();
        let mut written = 77;
        let status = unsafe {
            msgpack_array_encode(
                self.isa,
                self.element_type,
                if self.no_input { null() } else { values.as_ptr().cast() },
                values.len(),
                if self.no_output { null_mut() } else { out.as_mut_ptr() },
                out.len(),
                if self.no_result { null_mut() } else { &raw mut written },
            )
        };
        let mut wanted = Vec::new();
        msgpack_array::encode(&values, &mut wanted);
        let expected = match isa_of(self.isa) {
            None => Status::BadArgument,
            Some(isa) if !isa.is_available() => Status::IsaNotAvailable,
            _ if self.no_input && !values.is_empty() => Status::BadArgument,
            _ if self.no_output && !out.is_empty() => Status::BadArgument,
            _ if out.len() < wanted.len() => Status::TooSmall,
            // Between the length and the most there may be, either answer will do.
            _ if out.len() < msgpack_array_max_encoded_len(self.element_type, values.len()) => status,
            _ => Status::Ok,
        };
        assert_eq!(status, expected);
        let length = if status == Status::Ok { wanted.len() } else { 0 };
        assert!(self.no_result || written == length, "{written} written, {status:?}");
        match status {
            // Behind the end there may be anything.
            Status::Ok => assert_eq!(out[..length], wanted),
            _ => assert!(out.iter().all(|byte| *byte == 0xa5), "{status:?}"),
        }
    }

    fn no_such_type(&self, bytes: &[u8]) {
        let (mut decoded, mut written, mut out) = (Decoded::default(), 77, [0xa5_u8; 64]);
        let status = unsafe {
            let input = bytes.as_ptr();
            let out = out.as_mut_ptr().cast();
            msgpack_array_decode(0, self.element_type, input, bytes.len(), out, 1, &raw mut decoded)
        };
        assert_eq!((status, decoded), (Status::BadArgument, Decoded::default()));
        let status = unsafe {
            let values = bytes.as_ptr().cast();
            msgpack_array_encode(0, self.element_type, values, 1, out.as_mut_ptr(), 64, &raw mut written)
        };
        assert_eq!((status, written, out), (Status::BadArgument, 0, [0xa5; 64]));
        assert_eq!(msgpack_array_max_encoded_len(self.element_type, self.size), 0);
        assert_eq!(msgpack_array_isa_is_available(self.isa), isa_of(self.isa).is_some_and(Isa::is_available));
    }

    fn header(&self, bytes: &[u8]) {
        let mut decoded = Decoded { count: 77, bytes: 77, index: 77 };
        let from = if self.no_input { null() } else { bytes.as_ptr() };
        let to = if self.no_result { null_mut() } else { &raw mut decoded };
        let status = unsafe { msgpack_array_decode_header(from, bytes.len(), to) };
        let (expected, result) = match msgpack_array::decode_array_header(bytes) {
            _ if self.no_input && !bytes.is_empty() => (Status::BadArgument, Decoded::default()),
            Ok((count, bytes)) => (Status::Ok, Decoded { count: count as usize, bytes, index: 0 }),
            Err(DecodeError::Truncated) => (Status::Truncated, Decoded::default()),
            Err(_) => (Status::NotAnArray, Decoded::default()),
        };
        assert_eq!(status, expected);
        assert!(self.no_result || decoded == result, "{decoded:?} {status:?}");
        // Back again, into as many bytes as there are.
        if status == Status::Ok && !self.no_result {
            let mut out: Box<[u8]> = vec![0xa5; self.size % 8].into();
            let (count, mut written) = (decoded.count as u32, 77);
            let to = if self.no_output { null_mut() } else { out.as_mut_ptr() };
            let status = unsafe { msgpack_array_encode_header(count, to, out.len(), &raw mut written) };
            let (header, length) = msgpack_array::array_header(count);
            match status {
                Status::Ok => assert_eq!((&out[..written], written), (&header[..length], length)),
                Status::TooSmall => assert!(out.len() < length && written == 0),
                status => assert!(status == Status::BadArgument && self.no_output && written == 0),
            }
        }
    }

    fn bin(&self, bytes: &[u8]) {
        let (mut payload, mut decoded) = (bytes.as_ptr(), Decoded { count: 77, bytes: 77, index: 77 });
        let from = if self.no_input { null() } else { bytes.as_ptr() };
        let place = if self.no_output { null_mut() } else { &raw mut payload };
        let to = if self.no_result { null_mut() } else { &raw mut decoded };
        let status = unsafe { msgpack_array_decode_bin(from, bytes.len(), place, to) };
        let mut found = null();
        let (expected, result) = match msgpack_array::decode_bin(bytes) {
            _ if self.no_input && !bytes.is_empty() => (Status::BadArgument, Decoded::default()),
            Ok((bin, bytes)) => {
                found = bin.as_ptr();
                (Status::Ok, Decoded { count: bin.len(), bytes, index: 0 })
            }
            Err(DecodeError::Truncated) => (Status::Truncated, Decoded::default()),
            Err(_) => (Status::NotAnArray, Decoded::default()),
        };
        assert_eq!(status, expected);
        assert!(self.no_result || decoded == result, "{decoded:?} {status:?}");
        assert!(self.no_output || payload == found, "{status:?}");
    }

    fn write_bin(&self, bytes: &[u8]) {
        let mut out: Box<[u8]> = vec![0xa5; self.size].into();
        let mut written = 77;
        let from = if self.no_input { null() } else { bytes.as_ptr() };
        let to = if self.no_output { null_mut() } else { out.as_mut_ptr() };
        let result = if self.no_result { null_mut() } else { &raw mut written };
        let status = unsafe { msgpack_array_encode_bin(from, bytes.len(), to, out.len(), result) };
        let mut wanted = Vec::new();
        msgpack_array::encode_bin(bytes, &mut wanted);
        let expected = match () {
            () if self.no_input && !bytes.is_empty() => Status::BadArgument,
            () if self.no_output && !out.is_empty() => Status::BadArgument,
            () if out.len() < wanted.len() => Status::TooSmall,
            () => Status::Ok,
        };
        let length = if expected == Status::Ok { wanted.len() } else { 0 };
        assert_eq!(status, expected);
        assert!(self.no_result || written == length, "{written} written, {status:?}");
        assert!(out[..length] == wanted[..length] && out[length..].iter().all(|byte| *byte == 0xa5));
    }
}

fn isa_of(number: u32) -> Option<Isa> {
    [Isa::Scalar, Isa::Sse, Isa::Avx2, Isa::Avx512, Isa::Neon].get(number as usize).copied()
}
