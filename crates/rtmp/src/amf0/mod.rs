//! AMF0: the values in commands and metadata ("Action Message Format -- AMF 0", Adobe 2007).
//!
//! ```text
//!  value:   marker 8 | content
//!  0 number: f64     1 boolean: u8     2 string: u16 length | bytes     3 object: properties | 0 0 9
//!  5 null   6 undefined   8 ECMA array: u32 count | properties | 0 0 9   10 strict array: u32 count | values
//!  11 date: f64 ms | i16 zone   12 long string: u32 length | bytes      15 XML: as 12
//!  16 typed object: u16 length | class name | properties | 0 0 9        17 AMF3 value follows
//!  property: u16 length | name | value
//! ```
//!
//! Decoding is bounded by [`Limits`], in depth, in values and in bytes of a string, and by the input: no
//! count in it is believed before the values are there. References (7), movie clips (4) and record sets
//! (14) are refused: no RTMP peer sends them, and references would allow a small input to stand for a
//! large value. After the AMF3 marker (17) only AMF3's simple types are read, for the same reason.

mod decode;
mod encode;

pub use decode::{Decoder, Limits, RawValue};
pub use encode::encode;

/// One AMF0 value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Marker 0, and AMF3 integers and doubles.
    Number(f64),
    /// Marker 1.
    Boolean(bool),
    /// Markers 2, 12 and 15. What is not UTF-8 becomes U+FFFD.
    String(String),
    /// Marker 3.
    Object(Vec<(String, Value)>),
    /// Marker 5.
    Null,
    /// Marker 6, and marker 13 (unsupported).
    Undefined,
    /// Marker 8.
    EcmaArray(Vec<(String, Value)>),
    /// Marker 10.
    StrictArray(Vec<Value>),
    /// Marker 11.
    Date {
        /// Milliseconds since 1970-01-01 UTC.
        unix_ms: f64,
        /// Minutes; reserved, should be 0 (section 2.13).
        zone: i16,
    },
    /// Marker 16.
    TypedObject {
        /// Name of its class.
        class: String,
        /// Its properties.
        properties: Vec<(String, Value)>,
    },
}

impl Value {
    /// Properties of an object, a typed object or an ECMA array, in their order; else none.
    pub fn properties(&self) -> &[(String, Value)] {
        match self {
            Self::Object(properties) | Self::EcmaArray(properties) | Self::TypedObject { properties, .. } => {
                properties
            }
            _ => &[],
        }
    }

    /// The first property of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

mod marker {
    pub(super) const NUMBER: u8 = 0;
    pub(super) const BOOLEAN: u8 = 1;
    pub(super) const STRING: u8 = 2;
    pub(super) const OBJECT: u8 = 3;
    pub(super) const NULL: u8 = 5;
    pub(super) const UNDEFINED: u8 = 6;
    pub(super) const ECMA_ARRAY: u8 = 8;
    pub(super) const OBJECT_END: u8 = 9;
    pub(super) const STRICT_ARRAY: u8 = 10;
    pub(super) const DATE: u8 = 11;
    pub(super) const LONG_STRING: u8 = 12;
    pub(super) const UNSUPPORTED: u8 = 13;
    pub(super) const XML_DOCUMENT: u8 = 15;
    pub(super) const TYPED_OBJECT: u8 = 16;
    pub(super) const AVMPLUS_OBJECT: u8 = 17;
}
