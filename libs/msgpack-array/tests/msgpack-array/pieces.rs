//! An array in pieces, cut anywhere, gives what the whole gives; what follows it is left alone.

use std::mem::MaybeUninit;

use crate::common::{Number, Random, bits, for_every_element, headers, naive_encode, rounds};
use msgpack_array::{
    ArrayDecoder, DecodeError, ElementError, Isa, WholeElements, decode_whole_elements_uninit,
    encode_elements,
};

#[test]
fn pieces_of_every_size() {
    for_every_element!(every_size);
}

fn every_size<T: Number>() {
    let mut random = Random::new();
    let values: Vec<T> = random.mixed(rounds(150, 5));
    let body = &naive_encode(&values)[msgpack_array::array_header(values.len() as u32).1..];
    for header in headers(values.len() as u32) {
        let array = [&header, body].concat();
        let with_more = [&array[..], &[0x93, 1, 2, 3]].concat();
        for isa in Isa::available() {
            for size in (1..=with_more.len()).step_by(rounds(1, 6)) {
                in_pieces(isa, with_more.chunks(size), array.len(), &values);
            }
        }
    }
}

#[test]
fn pieces_cut_at_random() {
    for_every_element!(at_random);
}

fn at_random<T: Number>() {
    let mut random = Random::new();
    for _ in 0..rounds(60, 1) {
        let length = random.below(rounds(2000, 20));
        let values: Vec<T> = random.any(length);
        let array = naive_encode(&values);
        let mut cuts: Vec<usize> = (0..random.below(40)).map(|_| random.below(array.len() + 1)).collect();
        cuts.extend([0, array.len()]);
        cuts.sort_unstable();
        for isa in Isa::available() {
            in_pieces(isa, cuts.windows(2).map(|cut| &array[cut[0]..cut[1]]), array.len(), &values);
        }
    }
}

fn in_pieces<'a, T: Number>(isa: Isa, pieces: impl Iterator<Item = &'a [u8]>, array: usize, values: &[T]) {
    let mut decoder = ArrayDecoder::<T>::with_isa(isa);
    let (mut decoded, mut used) = (Vec::new(), 0);
    for piece in pieces {
        // A block of memory of its own, so that tools notice if more is read.
        let taken = decoder.push(&Box::<[u8]>::from(piece), &mut decoded).unwrap();
        assert!(taken == piece.len() || decoder.is_done());
        used += taken;
        assert_eq!(decoder.decoded() as usize, decoded.len());
        assert_eq!(decoder.is_done(), used == array, "{isa:?} {}", T::NAME);
    }
    assert_eq!(decoder.count(), Some(values.len() as u32));
    assert_eq!(bits(&decoded), bits(values), "{isa:?} {}", T::NAME);
}

#[test]
fn the_vector_may_be_emptied_between_pieces() {
    let values: Vec<u64> = (0..rounds(10_000, 500) as u64).map(|n| n * n * n).collect();
    let array = naive_encode(&values);
    let mut decoder = ArrayDecoder::new();
    let (mut sum, mut part) = (0, Vec::new());
    for piece in array.chunks(1000) {
        part.clear();
        decoder.push(piece, &mut part).unwrap();
        assert!(part.len() <= 1001);
        sum += part.iter().sum::<u64>();
    }
    assert!(decoder.is_done());
    assert_eq!(sum, values.iter().sum::<u64>());
}

#[test]
fn an_error_stays_and_names_the_element_of_the_whole_array() {
    let error = Err(DecodeError::Element { index: 5, error: ElementError::OutOfRange });
    let mut decoder = ArrayDecoder::<i8>::new();
    let mut decoded = Vec::new();
    for piece in [&[0xdc, 0][..], &[9, 1, 2], &[3], &[4, 0xcc], &[5, 0xd1]] {
        assert_eq!(decoder.push(piece, &mut decoded), Ok(piece.len()));
    }
    assert_eq!(decoder.push(&[1], &mut decoded), Ok(1), "the element is not complete");
    assert_eq!(decoder.push(&[0, 7], &mut decoded), error);
    assert_eq!(decoder.push(&[7], &mut decoded), error);
    assert_eq!(decoded, [1, 2, 3, 4, 5]);
    assert!(!decoder.is_done());
}

#[test]
fn no_array_is_told_by_the_first_byte() {
    let mut decoder = ArrayDecoder::<i8>::default();
    assert_eq!(decoder.push(&[], &mut Vec::new()), Ok(0));
    assert_eq!(decoder.push(&[0x80], &mut Vec::new()), Err(DecodeError::NotAnArray { marker: 0x80 }));
    assert_eq!(decoder.count(), None);
}

#[test]
fn an_empty_array_is_done_with_its_header() {
    for header in [&[0x90][..], &[0xdc, 0, 0], &[0xdd, 0, 0, 0, 0]] {
        let mut decoder = ArrayDecoder::<f64>::new();
        assert_eq!(decoder.push(&[header, &[0xcb; 20]].concat(), &mut Vec::new()), Ok(header.len()));
        assert!(decoder.is_done());
        assert_eq!(decoder.push(&[1, 2, 3], &mut Vec::new()), Ok(0));
    }
}

#[test]
fn whole_elements_of_a_piece_are_read_and_the_rest_is_left() {
    // (bytes, room, elements read, bytes they took)
    let cases: [(&[u8], usize, usize, usize); 6] = [
        (&[], 4, 0, 0),
        (&[1, 0xcd, 1, 2, 3], 4, 3, 5),
        (&[1, 0xcd, 1], 4, 1, 1), // cut in its number
        (&[1, 0xcd], 4, 1, 1),    // cut behind its marker
        (&[1, 2, 3], 2, 2, 2),    // no more room
        (&[1, 2, 3], 0, 0, 0),
    ];
    for isa in Isa::available() {
        for (bytes, room, elements, used) in cases {
            let mut out = [MaybeUninit::<u16>::uninit(); 4];
            let whole = decode_whole_elements_uninit(isa, bytes, &mut out[..room]);
            assert_eq!(whole, Ok(WholeElements { elements, bytes: used }), "{isa:?} {bytes:x?}");
        }
        let mut out = [MaybeUninit::<u16>::uninit(); 4];
        let error = ElementError::WrongType { marker: 0xa1 };
        assert_eq!(
            decode_whole_elements_uninit(isa, &[1, 2, 0xa1, b'x'], &mut out),
            Err(DecodeError::Element { index: 2, error }),
        );
        let mut long = Vec::new();
        let values: Vec<u64> = (0..5_000).map(|number| number * number * number).collect();
        encode_elements(&values, &mut long);
        let (mut taken, mut read) = (0, 0);
        while taken < long.len() {
            let piece = &long[taken..long.len().min(taken + 333)];
            let mut out = [MaybeUninit::<u64>::uninit(); 40];
            let whole = decode_whole_elements_uninit(isa, piece, &mut out).unwrap();
            assert!(whole.elements > 0 && whole.elements <= out.len());
            (taken, read) = (taken + whole.bytes, read + whole.elements);
        }
        assert_eq!((taken, read), (long.len(), values.len()));
    }
}
