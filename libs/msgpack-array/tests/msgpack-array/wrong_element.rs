//! An element of another type or out of range is refused, and named by its index, wherever it
//! stands.

use crate::common::{Number, Random, bits, for_every_element, naive_decode, naive_encode, rounds};
use msgpack_array::{DecodeError, ElementError, Isa};

/// What is refused in an array of this type: text, maps, arrays, nil, extensions; numbers of
/// another kind; too large ones.
fn intruders<T: Number>() -> Vec<Vec<u8>> {
    let mut all = vec![
        vec![0xc0],
        vec![0xc1],
        vec![0xa1, b'x'],
        vec![0xd9, 1, b'x'],
        vec![0x91, 1],
        vec![0xdc, 0, 1, 1],
        vec![0x81, 1, 1],
        vec![0xdf, 0, 0, 0, 0],
        vec![0xc4, 1, 1],
        vec![0xc7, 1, 1, 1],
        vec![0xd4, 1, 1],
        vec![0xd8, 1],
    ];
    match T::NAME {
        "bool" => all.extend([vec![0], vec![1], vec![0xcc, 1], vec![0xca, 0, 0, 0, 0], vec![0xff]]),
        _ => all.extend([vec![0xc2], vec![0xc3]]),
    }
    if T::NAME.starts_with(['i', 'u']) {
        all.extend([vec![0xca, 0, 0, 0, 0], vec![0xcb, 0, 0, 0, 0, 0, 0, 0, 0]]);
    }
    let integer = |value: i128| crate::common::integer_forms(value).pop().unwrap();
    all.extend(match T::NAME {
        "i8" => vec![integer(128), integer(-129), integer(255)],
        "u8" => vec![integer(256), integer(-1), vec![0xff], vec![0xd0, 0xff]],
        "i16" => vec![integer(1 << 15), integer(-(1 << 15) - 1)],
        "u16" => vec![integer(1 << 16), vec![0xe0]],
        "i32" => vec![integer(1 << 31), integer(-(1 << 31) - 1), vec![0xce, 0x80, 0, 0, 0]],
        "u32" => vec![integer(1 << 32), integer(-1), vec![0xd2, 0x80, 0, 0, 0]],
        "i64" => vec![integer(1 << 63)],
        "u64" => vec![integer(-1), vec![0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]],
        "f32" => vec![
            integer((1 << 24) + 1),
            integer(-(1 << 53) - 1),
            [&[0xcb][..], &0.1_f64.to_be_bytes()].concat(),
            [&[0xcb][..], &1e300_f64.to_be_bytes()].concat(),
            [&[0xcb][..], &0x7ff0_0000_0000_0001_u64.to_be_bytes()].concat(),
        ],
        "f64" => vec![integer((1 << 53) + 1), integer(u64::MAX.into())],
        _ => vec![],
    });
    all
}

#[test]
fn at_every_index() {
    for_every_element!(every_index);
}

fn every_index<T: Number>() {
    let mut random = Random::new();
    for values in [
        random.mixed::<T>(rounds(140, 12)),
        vec![T::from_bits(1); rounds(140, 12)],
        random.uniform(rounds(140, 12)),
    ] {
        for intruder in intruders::<T>() {
            for index in (0..values.len()).step_by(rounds(1, 3)) {
                let (before, after) = (naive_encode(&values[..index]), naive_encode(&values[index + 1..]));
                let [before, after] = [before, after].map(|array| body(&array));
                let (header, length) = msgpack_array::array_header(values.len() as u32);
                let input = [&header[..length], &before, &intruder, &after].concat();
                refused::<T>(&input, index, &intruder);
            }
        }
    }
}

/// An array without its header.
fn body(array: &[u8]) -> Vec<u8> {
    let (_, header) = msgpack_array::decode_array_header(array).unwrap();
    array[header..].to_vec()
}

fn refused<T: Number>(input: &[u8], index: usize, intruder: &[u8]) {
    let expected = naive_decode::<T>(input).0;
    let Err(DecodeError::Element { index: found, error }) = expected else {
        panic!("{}: {intruder:02x?} is no intruder", T::NAME)
    };
    assert_eq!(found, index);
    if let ElementError::WrongType { marker } = error {
        assert_eq!(marker, intruder[0]);
    }
    for isa in Isa::available() {
        let mut decoded = vec![T::from_bits(1)];
        let result = msgpack_array::decode_into_with(isa, input, &mut decoded);
        assert_eq!(result, expected, "{isa:?} {} {intruder:02x?} at {index}", T::NAME);
        assert_eq!(bits(&decoded), [T::from_bits(1).bits()], "the vector is as before");
    }
}

#[test]
fn every_first_byte_of_an_element() {
    for_every_element!(every_marker);
}

/// All 256 of them, alone and behind enough good ones for every vector: the same answer as from the
/// naive reader.
fn every_marker<T: Number>() {
    let values = [T::from_bits(1); 100];
    for before in [0, 1, 100] {
        for marker in (0..=255_u8).step_by(rounds(1, 11)) {
            let mut input = vec![0xdc, 0, before + 2];
            input.extend(body(&naive_encode(&values[..before.into()])));
            input.push(marker);
            input.extend([0; 9]);
            crate::common::decodes_as_naive::<T>(&input, 7);
        }
    }
}

#[test]
fn nested_garbage() {
    let mut random = Random::new();
    for _ in 0..rounds(3000, 20) {
        // Markers of everything there is, more often than at random, behind a header that promises
        // something.
        let mut input = vec![0xdc, 0, random.below(90) as u8];
        for _ in 0..random.below(120) {
            let marker = [
                0x91, 0x9f, 0x81, 0xa3, 0xc4, 0xc7, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2,
                0xd3, 0xd9, 0xdc, 0xdd, 0xde,
            ];
            let byte =
                if random.below(3) == 0 { marker[random.below(marker.len())] } else { random.bits() as u8 };
            input.push(byte);
        }
        let cut = 1 + random.below(40);
        for_every_type(&input, cut);
    }
}

fn for_every_type(input: &[u8], cut: usize) {
    crate::common::decodes_as_naive::<i8>(input, cut);
    crate::common::decodes_as_naive::<u16>(input, cut);
    crate::common::decodes_as_naive::<i32>(input, cut);
    crate::common::decodes_as_naive::<u64>(input, cut);
    crate::common::decodes_as_naive::<f32>(input, cut);
    crate::common::decodes_as_naive::<f64>(input, cut);
    crate::common::decodes_as_naive::<bool>(input, cut);
}

#[test]
fn what_is_no_array() {
    for marker in 0..=u8::MAX {
        let result = msgpack_array::decode_i32s(&[marker, 0, 0, 0, 0, 0], &mut Vec::new());
        match marker {
            0x90..=0x9f | 0xdc | 0xdd => assert_ne!(result, Err(DecodeError::NotAnArray { marker })),
            _ => assert_eq!(result, Err(DecodeError::NotAnArray { marker })),
        }
    }
}

#[test]
fn errors_say_what_and_where() {
    let error = msgpack_array::decode_i8s(&[0x92, 1, 0xcc, 0xff], &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "element 1: the wanted type cannot hold the value exactly");
    let error = msgpack_array::decode_i8s(&[0x92, 1, 0xa0], &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "element 1: byte 0xa0 begins a value of another type");
    let error = msgpack_array::decode_i8s(&[0x80], &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "byte 0x80 does not begin an array");
}
