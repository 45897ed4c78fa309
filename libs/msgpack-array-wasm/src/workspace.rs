//! The workspace: a part of an array in, what became of it out, and a report.
//!
//! Types have numbers here as in `package/msgpack-array.js`. Headers of arrays, and elements that
//! are cut by the end of a part, are left to the JavaScript, which gives their bytes once more.

use core::mem::MaybeUninit;

use msgpack_array::{DecodeError, Element, ElementError, Isa};

/// Bytes of a part. Long enough that a call costs little, short enough that both sides of it stay
/// in a core's own cache.
pub(crate) const INPUT_BYTES: usize = 64 << 10;
/// The longest result of a part: single bytes that become pairs.
pub(crate) const OUTPUT_BYTES: usize = 2 * INPUT_BYTES;

/// Input, output and report. Nothing but JavaScript uses the 16 bytes before the output.
#[repr(C, align(16))]
pub struct Workspace {
    input: [u8; INPUT_BYTES],
    /// Room for a header directly before the output, so that both are copied out at once.
    head: [u8; 16],
    output: [u8; OUTPUT_BYTES],
    report: Report,
}

/// What a call did, in words that JavaScript reads.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Elements read or written.
    pub elements: u32,
    /// Bytes they take in MessagePack.
    pub bytes: u32,
    /// After [`Status::WrongType`]: the byte that the element behind these begins with.
    pub marker: u32,
}

/// How a call ended.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// As many elements as there were in the input, or as there is room for.
    Done = 0,
    /// The element behind those reported is of another type.
    WrongType = 1,
    /// The element type cannot hold the value of the element behind those reported.
    OutOfRange = 2,
    /// No such type, or a count or an offset beyond the workspace: nothing was done.
    BadArgument = 3,
}

/// The element types by their numbers.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the types")]
pub enum Kind {
    I8 = 0,
    I16 = 1,
    I32 = 2,
    I64 = 3,
    U8 = 4,
    U16 = 5,
    U32 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
    /// A byte each: 0, or anything else for true.
    Bool = 10,
}

impl Kind {
    /// All of them, by their numbers.
    pub const ALL: [Self; 11] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::Bool,
    ];
}

/// Calls `$call` with `$type` as the type of a kind.
macro_rules! with_element {
    ($kind:expr, $type:ident, $call:expr) => {
        match $kind {
            Kind::I8 => with_element!(@ i8, $type, $call),
            Kind::I16 => with_element!(@ i16, $type, $call),
            Kind::I32 => with_element!(@ i32, $type, $call),
            Kind::I64 => with_element!(@ i64, $type, $call),
            Kind::U8 => with_element!(@ u8, $type, $call),
            Kind::U16 => with_element!(@ u16, $type, $call),
            Kind::U32 => with_element!(@ u32, $type, $call),
            Kind::U64 => with_element!(@ u64, $type, $call),
            Kind::F32 => with_element!(@ f32, $type, $call),
            Kind::F64 => with_element!(@ f64, $type, $call),
            Kind::Bool => with_element!(@ bool, $type, $call),
        }
    };
    (@ $element:ty, $type:ident, $call:expr) => {{
        type $type = $element;
        $call
    }};
}

impl Workspace {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            input: [0; INPUT_BYTES],
            head: [0; 16],
            output: [0; OUTPUT_BYTES],
            report: Report { elements: 0, bytes: 0, marker: 0 },
        }
    }

    /// Where the next part goes.
    pub fn input_mut(&mut self) -> &mut [u8] {
        &mut self.input
    }

    /// Where the last result is.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Where a header may be written that belongs before the result.
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }

    /// What the last call did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Encodes the first `count` elements of the input, which are in the machine's byte order, to
    /// the beginning of the output, without a header.
    pub fn encode(&mut self, kind: u32, count: u32) -> Status {
        self.report = Report { elements: 0, bytes: 0, marker: 0 };
        let Some(&kind) = Kind::ALL.get(kind as usize) else { return Status::BadArgument };
        let count = count as usize;
        if kind == Kind::Bool {
            // A `bool` that is neither 0 nor 1 is undefined behaviour.
            for byte in &mut self.input[..count.min(INPUT_BYTES)] {
                *byte = u8::from(*byte != 0);
            }
        }
        let Self { input, output, .. } = self;
        let written = with_element!(kind, T, {
            elements::<T>(input, count).and_then(|values| {
                msgpack_array::encode_elements_uninit(Isa::detect(), values, as_uninit(output))
            })
        });
        let Some(bytes) = written else { return Status::BadArgument };
        self.report = Report { elements: count as u32, bytes: bytes as u32, marker: 0 };
        Status::Done
    }

    /// Decodes elements from `input[from..to]` to the beginning of the output, in the machine's
    /// byte order: at most `wanted`, no more than fit, and none that ends behind `to`.
    pub fn decode(&mut self, kind: u32, from: u32, to: u32, wanted: u32) -> Status {
        self.report = Report { elements: 0, bytes: 0, marker: 0 };
        let Some(&kind) = Kind::ALL.get(kind as usize) else { return Status::BadArgument };
        let Some(bytes) = self.input.get(from as usize..to as usize) else { return Status::BadArgument };
        let decoded = with_element!(kind, T, {
            let out = room_for::<T>(&mut self.output);
            let room = out.len().min(wanted as usize);
            msgpack_array::decode_whole_elements_uninit(Isa::detect(), bytes, &mut out[..room])
        });
        let (status, report) = match decoded {
            Ok(whole) => (
                Status::Done,
                Report { elements: whole.elements as u32, bytes: whole.bytes as u32, marker: 0 },
            ),
            Err(DecodeError::Element { index, error: ElementError::WrongType { marker } }) => {
                (Status::WrongType, Report { elements: index as u32, bytes: 0, marker: marker.into() })
            }
            Err(DecodeError::Element { index, error: ElementError::OutOfRange }) => {
                (Status::OutOfRange, Report { elements: index as u32, bytes: 0, marker: 0 })
            }
            Err(_) => unreachable!("elements without a header have no other errors"),
        };
        self.report = report;
        status
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

/// The first `count` elements of the input, `None` if it is not as long.
fn elements<T: Element>(input: &[u8; INPUT_BYTES], count: usize) -> Option<&[T]> {
    if count > INPUT_BYTES / size_of::<T>() {
        return None;
    }
    // SAFETY: within the input, which begins at a multiple of 16; the types are plain numbers, of
    // which any bytes are valid, but for `bool`, which `encode` has made 0 or 1.
    Some(unsafe { core::slice::from_raw_parts(input.as_ptr().cast(), count) })
}

/// The output as room for elements.
fn room_for<T: Element>(output: &mut [u8; OUTPUT_BYTES]) -> &mut [MaybeUninit<T>] {
    let room = OUTPUT_BYTES / size_of::<T>();
    // SAFETY: within the output, which begins at a multiple of 16 as what is before it is as long
    // as one; what is written are numbers, of which all bytes are initialised.
    unsafe { core::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), room) }
}

fn as_uninit(output: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the same memory; encoding never makes bytes uninitialised.
    unsafe { core::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), output.len()) }
}

const _: () = assert!(INPUT_BYTES.is_multiple_of(16));

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(input: &[u8]) -> Box<Workspace> {
        let mut workspace = Box::new(Workspace::new());
        workspace.input_mut()[..input.len()].copy_from_slice(input);
        workspace
    }

    const ALL: [u8; 5] = [0, 1, 31, 127, 200];

    #[test]
    fn every_type_comes_back() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let size = with_element!(kind, T, size_of::<T>());
            // Numbers of all lengths, by the bytes of a counter at all places.
            let count = (INPUT_BYTES / size) as u32;
            let mut values: Vec<u8> = (0..INPUT_BYTES).map(|at| ((at * at / 97) >> (at % 9)) as u8).collect();
            if kind == Kind::Bool {
                values.iter_mut().for_each(|value| *value &= 1);
            }
            let mut workspace = workspace(&values);
            assert_eq!(workspace.encode(number as u32, count), Status::Done, "{kind:?}");
            let encoded = workspace.output()[..workspace.report().bytes as usize].to_vec();
            let (mut taken, mut back) = (0, Vec::new());
            while taken < encoded.len() {
                let part = &encoded[taken..encoded.len().min(taken + 1000)];
                workspace.input_mut()[7..7 + part.len()].copy_from_slice(part);
                let status = workspace.decode(number as u32, 7, 7 + part.len() as u32, u32::MAX);
                assert_eq!(status, Status::Done);
                taken += workspace.report().bytes as usize;
                back.extend_from_slice(&workspace.output()[..workspace.report().elements as usize * size]);
            }
            assert!(back == values, "{kind:?}");
        }
    }

    #[test]
    fn what_is_outside_of_the_workspace_is_refused() {
        let mut workspace = workspace(&ALL);
        let before = workspace.output().to_vec();
        let (end, u8s) = (INPUT_BYTES as u32, Kind::U8 as u32);
        for (kind, count) in [(11, 0), (u32::MAX, 1), (u8s, end + 1), (u8s, u32::MAX), (9, end / 8 + 1)] {
            assert_eq!(workspace.encode(kind, count), Status::BadArgument, "{kind} {count}");
        }
        for (kind, from, to) in
            [(11, 0, 1), (u8s, 0, end + 1), (u8s, 2, 1), (u8s, u32::MAX, u32::MAX), (u8s, end + 1, end + 1)]
        {
            assert_eq!(workspace.decode(kind, from, to, 1), Status::BadArgument, "{kind} {from} {to}");
            assert_eq!(*workspace.report(), Report { elements: 0, bytes: 0, marker: 0 });
        }
        assert!(workspace.output() == before, "nothing was written");
        assert_eq!(workspace.decode(u8s, end, end, u32::MAX), Status::Done);
        assert_eq!(workspace.encode(u8s, end), Status::Done);
    }

    #[test]
    fn a_part_ends_before_an_element_that_is_cut() {
        let mut workspace = workspace(&[1, 0xcc, 200, 0xcd, 1]);
        assert_eq!(workspace.decode(Kind::U16 as u32, 0, 5, 10), Status::Done);
        assert_eq!(*workspace.report(), Report { elements: 2, bytes: 3, marker: 0 });
        assert_eq!(workspace.decode(Kind::U16 as u32, 0, 5, 1), Status::Done);
        assert_eq!(*workspace.report(), Report { elements: 1, bytes: 1, marker: 0 });
    }

    #[test]
    fn an_element_that_is_not_acceptable_is_named() {
        let mut workspace = workspace(&[1, 2, 0xa1, b'x']);
        assert_eq!(workspace.decode(Kind::I32 as u32, 0, 4, 4), Status::WrongType);
        assert_eq!(*workspace.report(), Report { elements: 2, bytes: 0, marker: 0xa1 });
        workspace.input_mut()[..3].copy_from_slice(&[1, 0xcc, 200]);
        assert_eq!(workspace.decode(Kind::I8 as u32, 0, 3, 4), Status::OutOfRange);
        assert_eq!(workspace.report().elements, 1);
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let mut workspace = workspace(&ALL);
        assert_eq!(workspace.encode(Kind::Bool as u32, 5), Status::Done);
        assert_eq!(workspace.output()[..5], [0xc2, 0xc3, 0xc3, 0xc3, 0xc3]);
    }
}
