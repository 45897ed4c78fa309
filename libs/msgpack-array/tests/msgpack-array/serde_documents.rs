//! In documents of rmp-serde, arrays have the same bytes as vectors without this crate, and are
//! decoded from them, by every function of rmp-serde.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use crate::common::{Number, Random, bits, for_every_element, naive_encode};
use msgpack_array::serde::{Array, SerdeElement, from_slice, to_vec, to_vec_named};
use rmp_serde::Serializer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The same type twice, with arrays through this crate and without.
macro_rules! twins {
    ($($(#[$outer:meta])* struct $name:ident, $plain:ident { $($(#[$attribute:meta])* $field:ident: $type:ty $(= $with:literal)?),* $(,)? })*) => { $(
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        struct $name { $( $(#[$attribute])* $(#[serde(with = $with)])? $field: $type ),* }

        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        struct $plain { $( $(#[$attribute])* $field: $type ),* }

        impl From<$name> for $plain {
            fn from(value: $name) -> Self {
                Self { $($field: value.$field),* }
            }
        }
    )* };
}

twins! {
    struct Document, PlainDocument {
        name: String,
        numbers: Vec<i32> = "msgpack_array::serde",
        floats: Box<[f64]> = "msgpack_array::serde",
        few: Option<Vec<u16>> = "msgpack_array::serde",
        none: Option<Vec<u64>> = "msgpack_array::serde",
        bytes: [u8; 5] = "msgpack_array::serde",
        flags: Vec<bool> = "msgpack_array::serde",
        empty: Vec<i8> = "msgpack_array::serde",
        after: String,
    }
    struct Flat, PlainFlat {
        first: u8,
        values: Vec<i16> = "msgpack_array::serde",
        #[serde(flatten)]
        rest: BTreeMap<String, Vec<u32>>,
    }
}

fn document() -> Document {
    Document {
        name: "a".repeat(40),
        numbers: (0..1000).map(|n| n * n * 37 - 5000).collect(),
        floats: (0..300).map(|n| f64::from(n) / 7.0).collect(),
        few: Some((0..100).map(|n| n * 600).collect()),
        none: None,
        bytes: [0, 1, 127, 128, 255],
        flags: (0..70).map(|n| n % 3 == 0).collect(),
        empty: vec![],
        after: "behind".into(),
    }
}

/// Every way to write a document.
fn written<T: Serialize>(value: &T) -> [Vec<Vec<u8>>; 2] {
    let (mut into, mut named_into) = (vec![], vec![]);
    rmp_serde::encode::write(&mut into, value).unwrap();
    rmp_serde::encode::write_named(&mut named_into, value).unwrap();
    let (mut borrowed, mut named_borrowed) = (vec![], vec![]);
    value.serialize(&mut Serializer::new(&mut borrowed)).unwrap();
    value.serialize(&mut Serializer::new(&mut named_borrowed).with_struct_map()).unwrap();
    let mut owned = Serializer::new(Vec::new()).with_struct_map();
    value.serialize(&mut owned).unwrap();
    let mut tuples = Serializer::new(Vec::new()).with_struct_tuple();
    value.serialize(&mut tuples).unwrap();
    let plain =
        [to_vec(value).unwrap(), rmp_serde::to_vec(value).unwrap(), into, borrowed, tuples.into_inner()];
    let named = [
        to_vec_named(value).unwrap(),
        rmp_serde::to_vec_named(value).unwrap(),
        named_into,
        named_borrowed,
        owned.into_inner(),
    ];
    [plain.into(), named.into()]
}

/// Bytes as a stream, without access to the slice.
struct Stream<'a>(&'a [u8]);

impl Read for Stream<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(out)
    }
}

/// Every way to read a document; all end where it ends.
fn read<T: DeserializeOwned>(document: &[u8]) -> Vec<T> {
    let more = [document, &[0x93, 1, 2, 3]].concat();
    let (mut slice, mut cursor) = (&more[..], Cursor::new(&more[..]));
    let all = vec![
        from_slice(document).unwrap(),
        rmp_serde::from_slice(document).unwrap(),
        rmp_serde::from_read(document).unwrap(),
        rmp_serde::from_read(&mut slice).unwrap(),
        rmp_serde::from_read(Cursor::new(document)).unwrap(),
        rmp_serde::from_read(&mut cursor).unwrap(),
        rmp_serde::from_read(Cursor::new(&more)).unwrap(),
        rmp_serde::from_read(&mut Cursor::new(&more)).unwrap(),
        rmp_serde::from_read(Cursor::new(more.clone())).unwrap(),
        rmp_serde::from_read(&mut Cursor::new(more.clone())).unwrap(),
        rmp_serde::from_read(Stream(&more)).unwrap(),
        T::deserialize(&mut rmp_serde::Deserializer::new(document).with_human_readable()).unwrap(),
    ];
    assert_eq!(slice, [0x93, 1, 2, 3]);
    assert_eq!(cursor.position() as usize, document.len());
    all
}

#[test]
fn documents_are_those_of_plain_vectors() {
    let document = document();
    let plain = PlainDocument::from(document.clone());
    let expected = [rmp_serde::to_vec(&plain).unwrap(), rmp_serde::to_vec_named(&plain).unwrap()];
    for (written, expected) in written(&document).into_iter().zip(expected) {
        for (way, written) in written.into_iter().enumerate() {
            assert_eq!(written, expected, "way {way}");
        }
        for (way, read) in read::<Document>(&expected).into_iter().enumerate() {
            assert_eq!(read, document, "way {way}");
        }
        assert_eq!(rmp_serde::from_slice::<PlainDocument>(&expected).unwrap(), plain);
    }
}

#[test]
fn every_type_and_length() {
    for_every_element!(lengths);
}

fn lengths<T: Number + SerdeElement>() {
    let mut random = Random::new();
    for length in (0..=300).step_by(13).chain([15, 16, 65_535, 65_536]) {
        let values: Vec<T> = random.any(length);
        let expected = naive_encode(&values);
        assert_eq!(to_vec(&Array(&values)).unwrap(), expected, "{}", T::NAME);
        assert_eq!(rmp_serde::to_vec(&Array(&values[..])).unwrap(), expected, "{}", T::NAME);
        for read in [from_slice::<Array<Vec<T>>>(&expected), rmp_serde::from_slice(&expected)] {
            assert_eq!(bits(&read.unwrap().0), bits(&values), "{}", T::NAME);
        }
    }
}

/// Results do not show it: what is reserved does, and the words for the end of the input.
#[test]
fn the_kernels_run_where_it_is_said() {
    let values = Array(vec![1_u64; 1000]);
    let [plain, named] = written(&values);
    for (way, document) in plain.iter().chain(&named).enumerate() {
        let by_kernels = document.capacity() >= 9000;
        assert_eq!(by_kernels, way % 5 != 1, "way {way}: {}", document.capacity());
    }
    let document = to_vec(&values).unwrap();
    let message = |error: rmp_serde::decode::Error| error.to_string();
    let cut = &document[..500];
    let kernel = "the bytes end before the array does";
    assert_eq!(message(from_slice::<Array<Vec<i8>>>(cut).unwrap_err()), kernel);
    assert_eq!(message(rmp_serde::from_read::<_, Array<Vec<i8>>>(Cursor::new(cut)).unwrap_err()), kernel);
    assert_ne!(message(rmp_serde::from_slice::<Array<Vec<i8>>>(cut).unwrap_err()), kernel);
    assert_ne!(message(rmp_serde::from_read::<_, Array<Vec<i8>>>(Stream(cut)).unwrap_err()), kernel);
}

#[test]
fn errors_name_type_and_index() {
    // And the value with and without the kernels, if the type cannot hold it.
    let refused: [(&[u8], &str); 5] = [
        (&[0xcd, 1, 44], "invalid value: integer `300`, expected u8 as element INDEX"),
        (&[0xff], "invalid value: integer `-1`, expected u8 as element INDEX"),
        (&[0xa1, b'x'], "element INDEX: byte 0xa1 begins a value of another type than u8"),
        (&[0xca, 0x3f, 0x80, 0, 0], "element INDEX: byte 0xca begins a value of another type than u8"),
        (&[0xc1], "element INDEX: byte 0xc1 begins a value of another type than u8"),
    ];
    for (element, words) in refused {
        for index in [0, 1, 15, 64, 497, 999] {
            let header: &[u8] = &[0xdc, 1000_u16.to_be_bytes()[0], 1000_u16.to_be_bytes()[1]];
            let document = [header, &vec![1; index], element, &vec![1; 999 - index]].concat();
            let ways: [Result<Array<Vec<u8>>, rmp_serde::decode::Error>; 4] = [
                from_slice(&document),
                rmp_serde::from_read(Cursor::new(&document)),
                rmp_serde::from_slice(&document),
                rmp_serde::from_read(Stream(&document)),
            ];
            let alike = if words.starts_with("invalid value") { 4 } else { 2 };
            for error in ways.map(Result::unwrap_err).into_iter().take(alike) {
                assert_eq!(error.to_string(), words.replace("INDEX", &index.to_string()));
            }
        }
    }
    let error = from_slice::<Array<Vec<f32>>>(&rmp_serde::to_vec(&[0.5, 0.1]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "invalid value: floating point `0.1`, expected f32 as element 1");
}

#[test]
fn fields_behind_flatten() {
    let flat = Flat {
        first: 1,
        values: (-200..200).collect(),
        rest: BTreeMap::from([("x".into(), vec![1, 2, 3]), ("y".into(), vec![])]),
    };
    let expected = rmp_serde::to_vec_named(&PlainFlat::from(flat.clone())).unwrap();
    for written in written(&flat).concat() {
        assert_eq!(written, expected);
    }
    for read in read::<Flat>(&expected) {
        assert_eq!(read, flat);
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Inner {
    #[serde(with = "msgpack_array::serde")]
    values: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OuterFlat {
    #[serde(flatten)]
    inner: Inner,
    more: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum External {
    Unit,
    Numbers(#[serde(with = "msgpack_array::serde")] Vec<i64>),
    Two(u8, #[serde(with = "msgpack_array::serde")] Vec<u8>),
    Struct {
        #[serde(with = "msgpack_array::serde")]
        values: Option<Vec<f64>>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    Rates(Inner),
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Text(String),
    Bools(#[serde(with = "msgpack_array::serde")] Vec<bool>),
    Numbers(#[serde(with = "msgpack_array::serde")] Vec<i16>),
    Floats(#[serde(with = "msgpack_array::serde")] Vec<f64>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Everything {
    flat: OuterFlat,
    external: Vec<External>,
    internal: Vec<Internal>,
    untagged: Vec<Untagged>,
    map: BTreeMap<String, Array<Vec<u32>>>,
    matrix: Vec<Array<Vec<f64>>>,
    options: Vec<Option<Array<Box<[i8]>>>>,
    pair: (u8, Array<[u64; 3]>, String),
    recursive: Option<Box<Everything>>,
}

fn everything(recursive: Option<Box<Everything>>) -> Everything {
    Everything {
        flat: OuterFlat { inner: Inner { values: vec![0.5; 20] }, more: 7 },
        external: vec![
            External::Numbers(vec![i64::MIN, 0, i64::MAX]),
            External::Unit,
            External::Two(9, vec![1; 300]),
            External::Struct { values: Some(vec![0.1; 17]) },
            External::Struct { values: None },
        ],
        internal: vec![Internal::Rates(Inner { values: vec![1.5, -2.25] }), Internal::Nothing],
        untagged: vec![
            Untagged::Text("numbers".into()),
            Untagged::Numbers((-100..100).collect()),
            Untagged::Bools(vec![true, false]),
            Untagged::Floats(vec![0.1, 1e300]),
        ],
        map: BTreeMap::from([("a".into(), Array(vec![1, 70_000])), ("b".into(), Array(vec![]))]),
        matrix: (0..20).map(|row| Array(vec![f64::from(row); row as usize])).collect(),
        options: vec![None, Some(Array([1, -1, 100, -100].into())), Some(Array([].into())), None],
        pair: (1, Array([1, 2, u64::MAX]), "end".into()),
        recursive,
    }
}

#[test]
fn arrays_at_every_place_of_a_document() {
    let everything = everything(Some(Box::new(everything(None))));
    for written in written(&everything).concat() {
        for (way, read) in read::<Everything>(&written).into_iter().enumerate() {
            assert_eq!(read, everything, "way {way}");
        }
    }
}

#[test]
fn bin_and_other_types_are_read_as_rmp_serde_reads_them() {
    let mut document = Vec::new();
    msgpack_array::encode_bin(&[1, 200, 3], &mut document);
    for read in read::<Array<Vec<u8>>>(&document) {
        assert_eq!(read.0, [1, 200, 3]);
    }
    for read in read::<Array<Vec<f64>>>(&document) {
        assert_eq!(read.0, [1.0, 200.0, 3.0]);
    }
    for wrong in [&[0x81, 1, 1][..], &[0xa1, b'x'], &[0x05], &[0xc0], &[0xc1], &[]] {
        assert!(from_slice::<Array<Vec<u8>>>(wrong).is_err(), "{wrong:x?}");
        assert!(rmp_serde::from_slice::<Array<Vec<u8>>>(wrong).is_err(), "{wrong:x?}");
    }
}

#[test]
fn u8_is_an_array_whatever_the_serializer_does_with_bytes() {
    let values = vec![1_u8, 200, 255];
    for mode in [rmp_serde::config::BytesMode::ForceAll, rmp_serde::config::BytesMode::ForceIterables] {
        let mut kernels = Vec::new();
        Array(&values).serialize(&mut Serializer::new(&mut kernels).with_bytes(mode)).unwrap();
        let mut by_element = Serializer::new(Vec::new()).with_human_readable().with_bytes(mode);
        Array(&values).serialize(&mut by_element).unwrap();
        assert_eq!(kernels, naive_encode(&values));
        assert_eq!(by_element.into_inner(), naive_encode(&values));
    }
}

#[test]
fn cut_off_anywhere_is_an_error_everywhere() {
    let document = document();
    for document in [to_vec(&document).unwrap(), to_vec_named(&document).unwrap()] {
        for cut in 0..document.len() {
            let cut = &document[..cut];
            assert!(from_slice::<Document>(cut).is_err());
            assert!(rmp_serde::from_slice::<Document>(cut).is_err());
        }
    }
}

#[test]
fn values_that_the_type_does_not_have_exactly_are_refused_both_ways() {
    fn refused<T: SerdeElement + std::fmt::Debug>(values: &impl Serialize) {
        let document = rmp_serde::to_vec(values).unwrap();
        let errors = [
            from_slice::<Array<Vec<T>>>(&document).unwrap_err(),
            rmp_serde::from_slice::<Array<Vec<T>>>(&document).unwrap_err(),
        ];
        for error in errors {
            // Text is refused by rmp-serde itself where the kernels do not run.
            let error = error.to_string();
            assert!(error.contains("element 1") || error.contains("marker FixStr"), "{error}");
        }
    }
    refused::<f32>(&[0.5, 0.1]);
    refused::<f32>(&[1, (1 << 24) + 1]);
    refused::<f64>(&[1, (1_i64 << 53) + 1]);
    refused::<i32>(&(1, 0.5));
    refused::<u8>(&[1, -1]);
    refused::<bool>(&(true, 1));
    refused::<i8>(&(1, true));
    refused::<u64>(&(1, "text"));
}

#[test]
fn limits_of_rmp_serde_on_depth_stay() {
    /// Each level has an array before the next one.
    #[derive(Debug, Serialize, Deserialize)]
    struct Level {
        #[serde(with = "msgpack_array::serde")]
        values: Vec<u8>,
        next: Option<Box<Level>>,
    }
    // [[1], [[1], ... ]]
    let mut document = [0x92, 0x91, 1].repeat(100_000);
    document.push(0xc0);
    let run = move || {
        let error = from_slice::<Level>(&document).unwrap_err();
        assert!(matches!(error, rmp_serde::decode::Error::DepthLimitExceeded), "{error}");
    };
    // A thousand levels of a debug build need more than the stack of a test.
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap();
}
