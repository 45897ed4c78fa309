//! The functions with the type in their name are the generic ones; elements may be appended in
//! parts; `bin` is for bytes.

use msgpack_array::*;

macro_rules! check {
    ($($encode:ident $decode:ident [$($value:expr),*] $bytes:expr;)*) => { $( {
        let mut encoded = vec![0xc1];
        $encode(&[$($value),*], &mut encoded);
        assert_eq!(encoded, [&[0xc1_u8][..], &$bytes].concat(), stringify!($encode));
        let mut decoded = vec![$($value),*];
        assert_eq!($decode(&encoded[1..], &mut decoded), Ok(encoded.len() - 1));
        assert_eq!(decoded, [$($value),*, $($value),*], stringify!($decode));
    } )* };
}

/// The bytes are written out from the table of formats in the MessagePack specification.
#[test]
fn each_type_has_its_bytes() {
    check! {
        encode_i8s decode_i8s [-1, -128, 127] [0x93, 0xff, 0xd0, 0x80, 0x7f];
        encode_i16s decode_i16s [-32, -33, 256] [0x93, 0xe0, 0xd0, 0xdf, 0xcd, 1, 0];
        encode_i32s decode_i32s [-32769, 65536] [0x92, 0xd2, 0xff, 0xff, 0x7f, 0xff, 0xce, 0, 1, 0, 0];
        encode_i64s decode_i64s [i64::MIN, 1 << 32] [0x92, 0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0];
        encode_u8s decode_u8s [0, 128] [0x92, 0, 0xcc, 0x80];
        encode_u16s decode_u16s [255, 65535] [0x92, 0xcc, 0xff, 0xcd, 0xff, 0xff];
        encode_u32s decode_u32s [u32::MAX] [0x91, 0xce, 0xff, 0xff, 0xff, 0xff];
        encode_u64s decode_u64s [u64::MAX] [0x91, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        encode_f32s decode_f32s [1.5] [0x91, 0xca, 0x3f, 0xc0, 0, 0];
        encode_f64s decode_f64s [-2.0] [0x91, 0xcb, 0xc0, 0, 0, 0, 0, 0, 0, 0];
        encode_bools decode_bools [true, false] [0x92, 0xc3, 0xc2];
    }
}

#[test]
fn an_array_may_be_appended_in_parts() {
    let values: Vec<i32> = (0..1000).map(|n| n * n - 3000).collect();
    let mut whole = Vec::new();
    encode(&values, &mut whole);
    let mut parts = Vec::new();
    encode_array_header(1000, &mut parts);
    values.chunks(77).for_each(|part| encode_elements(part, &mut parts));
    assert_eq!(parts, whole);
}

#[test]
fn bin_has_the_shortest_header_and_its_bytes() {
    // (length, its header)
    let cases: [(usize, &[u8]); 7] = [
        (0, &[0xc4, 0]),
        (1, &[0xc4, 1]),
        (255, &[0xc4, 255]),
        (256, &[0xc5, 1, 0]),
        (65_535, &[0xc5, 0xff, 0xff]),
        (65_536, &[0xc6, 0, 1, 0, 0]),
        (200_000, &[0xc6, 0, 3, 0x0d, 0x40]),
    ];
    for (length, header) in cases {
        let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let mut encoded = Vec::new();
        encode_bin(&bytes, &mut encoded);
        assert_eq!(encoded[..header.len()], *header);
        let mut by_rmp = Vec::new();
        rmp::encode::write_bin(&mut by_rmp, &bytes).unwrap();
        assert_eq!(encoded, by_rmp);
        encoded.push(0xc1);
        assert_eq!(decode_bin(&encoded), Ok((&bytes[..], by_rmp.len())));
        for cut in (0..by_rmp.len()).step_by(1 + length / 300) {
            assert_eq!(decode_bin(&encoded[..cut]), Err(DecodeError::Truncated));
        }
    }
    assert_eq!(decode_bin(&[0x91, 1]), Err(DecodeError::NotBin { marker: 0x91 }));
    assert_eq!(decode_bin(&[0xa1, b'x']), Err(DecodeError::NotBin { marker: 0xa1 }));
    // Longer headers than necessary are legal.
    assert_eq!(decode_bin(&[0xc6, 0, 0, 0, 1, 7]), Ok((&[7][..], 6)));
}

#[test]
fn i8s_are_a_bin_of_their_bytes() {
    let values: Vec<i8> = (i8::MIN..=i8::MAX).collect();
    let bytes: Vec<u8> = values.iter().map(|value| value.to_le_bytes()[0]).collect();
    let (mut encoded, mut by_rmp) = (Vec::new(), Vec::new());
    encode_bin_i8s(&values, &mut encoded);
    rmp::encode::write_bin(&mut by_rmp, &bytes).unwrap();
    assert_eq!(encoded, by_rmp);
    assert_eq!(decode_bin_i8s(&encoded), Ok((&values[..], encoded.len())));
    assert_eq!(decode_bin_i8s(&encoded[..200]), Err(DecodeError::Truncated));
    assert_eq!(decode_bin_i8s(&[0x91, 1]), Err(DecodeError::NotBin { marker: 0x91 }));
}
