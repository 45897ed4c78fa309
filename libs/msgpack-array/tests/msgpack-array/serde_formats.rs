//! In formats other than MessagePack an array is what a vector is.

use msgpack_array::serde::Array;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Rates {
    #[serde(with = "msgpack_array::serde")]
    signed: Vec<i64>,
    #[serde(with = "msgpack_array::serde")]
    singles: Box<[f32]>,
    #[serde(with = "msgpack_array::serde")]
    doubles: [f64; 2],
    #[serde(with = "msgpack_array::serde")]
    flags: Vec<bool>,
    #[serde(with = "msgpack_array::serde", default)]
    maybe: Option<Vec<u8>>,
}

#[test]
fn json() {
    let rates = Rates {
        signed: vec![i64::MIN, -1, i64::MAX],
        singles: [0.1, 1e30].into(),
        doubles: [0.1, -1.0],
        flags: vec![true, false],
        maybe: Some(vec![0, 255]),
    };
    let text = r#"{"signed":[-9223372036854775808,-1,9223372036854775807],"singles":[0.1,1e+30],"doubles":[0.1,-1.0],"flags":[true,false],"maybe":[0,255]}"#;
    assert_eq!(serde_json::to_string(&rates).unwrap(), text);
    assert_eq!(serde_json::from_str::<Rates>(text).unwrap(), rates);
    let value = serde_json::to_value(&rates).unwrap();
    assert_eq!(serde_json::from_value::<Rates>(value).unwrap(), rates);
}

#[test]
fn an_option_may_be_null_or_missing() {
    let missing = r#"{"signed":[],"singles":[],"doubles":[1,2],"flags":[]}"#;
    let rates: Rates = serde_json::from_str(missing).unwrap();
    assert_eq!((rates.maybe.as_ref(), rates.doubles), (None, [1.0, 2.0]));
    let null = serde_json::to_string(&rates).unwrap();
    assert!(null.ends_with(r#""maybe":null}"#), "{null}");
    assert_eq!(serde_json::from_str::<Rates>(&null).unwrap(), rates);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (numbers, ok) in [
        ("[1,127]", true),
        ("[1,128]", false),
        ("[1.5]", false),
        ("[true]", false),
        ("{}", false),
        ("3", false),
    ] {
        assert_eq!(serde_json::from_str::<Array<Vec<i8>>>(numbers).is_ok(), ok, "{numbers}");
    }
    assert!(serde_json::from_str::<Array<[u8; 2]>>("[1,2]").is_ok());
    for numbers in ["[1]", "[1,2,3]"] {
        let error = serde_json::from_str::<Array<[u8; 2]>>(numbers).unwrap_err().to_string();
        assert!(error.contains("elements instead of 2"), "{error}");
    }
}

#[test]
fn a_million_numbers_are_not_believed_before_they_are_there() {
    use serde::de::value::{Error, SeqAccessDeserializer};
    use serde::de::{DeserializeSeed, IntoDeserializer, SeqAccess};

    /// Announces more than there could ever be.
    struct Liar(u8);

    impl<'de> SeqAccess<'de> for Liar {
        type Error = Error;

        fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
            self.0 += 1;
            if self.0 > 3 { Ok(None) } else { seed.deserialize(self.0.into_deserializer()).map(Some) }
        }

        fn size_hint(&self) -> Option<usize> {
            Some(usize::MAX)
        }
    }

    let read = Array::<Vec<u8>>::deserialize(SeqAccessDeserializer::new(Liar(0))).unwrap();
    assert_eq!(read.0, [1, 2, 3]);
    assert!(read.0.capacity() <= 4096);
}
