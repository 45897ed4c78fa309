//! Bytes to values, within limits. Reading in place ([`RawValue`]) is the one walk; copies ([`Value`]) are
//! made of what it found.

use std::borrow::Cow;

use super::super::RtmpError;
use super::{Value, marker};

/// How much one decoding may produce.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Objects and arrays inside one another; a value on its own has depth 0.
    pub depth: u8,
    /// Values in all, properties and elements included.
    pub values: u32,
    /// Bytes of one string or property name.
    pub string_bytes: u32,
}

impl Limits {
    /// For commands: the largest in use, `connect` with Enhanced RTMP lists, has about 40 values.
    pub const COMMAND: Self = Self { depth: 8, values: 256, string_bytes: 16 * 1024 };
}

/// Reads values one after the other from the bytes of a message.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    input: &'a [u8],
    limits: Limits,
    values_left: u32,
}

/// A value where it stands in the message: checked against the limits, and not copied.
///
/// A command is read by these, so that what nobody asks for costs no memory.
#[derive(Debug, Clone, Copy)]
pub struct RawValue<'a>(&'a [u8]);

/// What a value begins with; the properties or elements of the last four follow.
#[derive(Debug, Clone, Copy)]
enum Token<'a> {
    Number(f64),
    Boolean(bool),
    String(&'a [u8]),
    Null,
    Undefined,
    Date { unix_ms: f64, zone: i16 },
    Object,
    EcmaArray,
    TypedObject(&'a [u8]),
    StrictArray(u32),
}

impl<'a> RawValue<'a> {
    /// The value of one that is left out.
    pub const NULL: Self = Self(&[marker::NULL]);

    /// The text of a string.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self.open() {
            (Token::String(bytes), _) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }

    /// The value of a number.
    pub fn as_number(self) -> Option<f64> {
        match self.open() {
            (Token::Number(number), _) => Some(number),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.open() {
            (Token::Boolean(value), _) => Some(value),
            _ => None,
        }
    }

    /// Properties of an object, a typed object or an ECMA array, in their order; else none.
    pub fn properties(self) -> impl Iterator<Item = (Cow<'a, str>, Self)> {
        let (token, mut inside) = self.open();
        let has = matches!(token, Token::Object | Token::EcmaArray | Token::TypedObject(_));
        std::iter::from_fn(move || {
            let name = if has { inside.name().ok()?? } else { return None };
            Some((String::from_utf8_lossy(name), inside.next_raw().ok()??))
        })
    }

    /// The first property of that name.
    pub fn get(self, name: &str) -> Option<Self> {
        self.properties().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Elements of a strict array; else none.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let (token, mut inside) = self.open();
        let count = if let Token::StrictArray(count) = token { count } else { 0 };
        (0..count).map_while(move |_| inside.next_raw().ok()?)
    }

    /// A copy of it and of all inside it.
    pub fn to_value(self) -> Value {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let properties =
            || self.properties().map(|(name, value)| (name.into_owned(), value.to_value())).collect();
        match self.open().0 {
            Token::Number(number) => Value::Number(number),
            Token::Boolean(value) => Value::Boolean(value),
            Token::String(bytes) => Value::String(text(bytes)),
            Token::Null => Value::Null,
            Token::Undefined => Value::Undefined,
            Token::Date { unix_ms, zone } => Value::Date { unix_ms, zone },
            Token::Object => Value::Object(properties()),
            Token::EcmaArray => Value::EcmaArray(properties()),
            Token::TypedObject(class) => Value::TypedObject { class: text(class), properties: properties() },
            Token::StrictArray(_) => Value::StrictArray(self.elements().map(Self::to_value).collect()),
        }
    }

    /// Its beginning, and a decoder for what is inside.
    fn open(self) -> (Token<'a>, Decoder<'a>) {
        // The limits were checked when it was found.
        let limits = Limits { depth: u8::MAX, values: u32::MAX, string_bytes: u32::MAX };
        let mut inside = Decoder::new(self.0, limits);
        let token = inside.token().expect("a raw value is well-formed");
        (token, inside)
    }
}

impl<'a> Decoder<'a> {
    /// A decoder at the beginning of `input`.
    pub fn new(input: &'a [u8], limits: Limits) -> Self {
        Self { input, limits, values_left: limits.values }
    }

    /// The next value, or `None` at the end of the input.
    pub fn next_value(&mut self) -> Result<Option<Value>, RtmpError> {
        Ok(self.next_raw()?.map(RawValue::to_value))
    }

    /// The next value, checked but not copied, or `None` at the end of the input.
    pub fn next_raw(&mut self) -> Result<Option<RawValue<'a>>, RtmpError> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let before = self.input;
        self.skip(0)?;
        Ok(Some(RawValue(&before[..before.len() - self.input.len()])))
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.input
    }

    /// Moves past a value, and past all inside it.
    fn skip(&mut self, depth: u8) -> Result<(), RtmpError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(RtmpError::AmfTooManyValues)?;
        match self.token()? {
            Token::Object | Token::EcmaArray | Token::TypedObject(_) => {
                let depth = self.deeper(depth)?;
                while self.name()?.is_some() {
                    self.skip(depth)?;
                }
            }
            Token::StrictArray(count) => {
                let depth = self.deeper(depth)?;
                if count > self.values_left {
                    return Err(RtmpError::AmfTooManyValues);
                }
                for _ in 0..count {
                    self.skip(depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token<'a>, RtmpError> {
        match self.u8()? {
            marker::NUMBER => Ok(Token::Number(self.f64()?)),
            marker::BOOLEAN => Ok(Token::Boolean(self.u8()? != 0)),
            marker::STRING => Ok(Token::String(self.short_string()?)),
            marker::OBJECT => Ok(Token::Object),
            marker::NULL => Ok(Token::Null),
            marker::UNDEFINED | marker::UNSUPPORTED => Ok(Token::Undefined),
            marker::ECMA_ARRAY => {
                // The count is approximate by definition (section 2.10); the end marker decides.
                self.u32()?;
                Ok(Token::EcmaArray)
            }
            marker::STRICT_ARRAY => Ok(Token::StrictArray(self.u32()?)),
            marker::DATE => {
                let unix_ms = self.f64()?;
                Ok(Token::Date { unix_ms, zone: self.u16()? as i16 })
            }
            marker::LONG_STRING | marker::XML_DOCUMENT => {
                let length = self.u32()?;
                Ok(Token::String(self.string(length)?))
            }
            marker::TYPED_OBJECT => Ok(Token::TypedObject(self.short_string()?)),
            marker::AVMPLUS_OBJECT => self.amf3_token(),
            4 | 7 | 14 => Err(RtmpError::AmfUnsupported),
            _ => Err(RtmpError::AmfMalformed),
        }
    }

    /// The name of the next property; `None` behind the last.
    ///
    /// The end of the message in place of the end marker is accepted: some encoders write ECMA arrays
    /// without one.
    fn name(&mut self) -> Result<Option<&'a [u8]>, RtmpError> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let name = self.short_string()?;
        if name.is_empty() && self.input.first() == Some(&marker::OBJECT_END) {
            self.input = &self.input[1..];
            return Ok(None);
        }
        Ok(Some(name))
    }

    fn deeper(&self, depth: u8) -> Result<u8, RtmpError> {
        if depth < self.limits.depth { Ok(depth + 1) } else { Err(RtmpError::AmfTooDeep) }
    }

    /// The simple types of AMF3 ("Action Message Format -- AMF 3", sections 3.2 to 3.8).
    fn amf3_token(&mut self) -> Result<Token<'a>, RtmpError> {
        match self.u8()? {
            0 => Ok(Token::Undefined),
            1 => Ok(Token::Null),
            2 => Ok(Token::Boolean(false)),
            3 => Ok(Token::Boolean(true)),
            4 => {
                let integer = self.amf3_u29()? << 3;
                Ok(Token::Number(f64::from(integer as i32 >> 3)))
            }
            5 => Ok(Token::Number(self.f64()?)),
            6 => match self.amf3_u29()? {
                // The low bit says that the string is here and not in the table of references.
                length if length & 1 == 1 => Ok(Token::String(self.string(length >> 1)?)),
                _ => Err(RtmpError::AmfUnsupported),
            },
            7..=17 => Err(RtmpError::AmfUnsupported),
            _ => Err(RtmpError::AmfMalformed),
        }
    }

    /// Variable length integer: three times 7 bits, then 8 (AMF3 section 1.3.1).
    fn amf3_u29(&mut self) -> Result<u32, RtmpError> {
        let mut value = 0;
        for _ in 0..3 {
            let byte = u32::from(self.u8()?);
            value = value << 7 | byte & 0x7f;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Ok(value << 8 | u32::from(self.u8()?))
    }

    fn short_string(&mut self) -> Result<&'a [u8], RtmpError> {
        let length = self.u16()?;
        self.string(u32::from(length))
    }

    fn string(&mut self, length: u32) -> Result<&'a [u8], RtmpError> {
        if length > self.limits.string_bytes {
            return Err(RtmpError::AmfStringTooLong);
        }
        let (text, rest) = self.input.split_at_checked(length as usize).ok_or(RtmpError::AmfMalformed)?;
        self.input = rest;
        Ok(text)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RtmpError> {
        let (bytes, rest) = self.input.split_first_chunk().ok_or(RtmpError::AmfMalformed)?;
        self.input = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, RtmpError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, RtmpError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, RtmpError> {
        self.take().map(u32::from_be_bytes)
    }

    fn f64(&mut self) -> Result<f64, RtmpError> {
        self.take().map(f64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    fn decode(input: &[u8]) -> Result<Value, RtmpError> {
        Decoder::new(input, Limits::COMMAND).next_value().map(|value| value.expect("input is not empty"))
    }

    #[test]
    fn each_type_survives_a_round_trip() {
        let property = vec![("width".to_owned(), Value::Number(1280.0)), ("".to_owned(), Value::Null)];
        for value in [
            Value::Number(-0.5),
            Value::Boolean(true),
            Value::from("onMetaData"),
            Value::String("x".repeat(10_000)),
            Value::Object(property.clone()),
            Value::Null,
            Value::Undefined,
            Value::EcmaArray(property.clone()),
            Value::StrictArray(vec![Value::Null, Value::from("av01")]),
            Value::Date { unix_ms: 1e12, zone: -60 },
            Value::TypedObject { class: "Point".to_owned(), properties: property },
        ] {
            let mut bytes = Vec::new();
            encode(&mut bytes, &value);
            assert_eq!(decode(&bytes), Ok(value));
        }
    }

    #[test]
    fn odd_values_are_read_or_refused_by_name() {
        for (bytes, expected, remark) in [
            (&[13][..], Ok(Value::Undefined), "unsupported marker"),
            (&[12, 0, 0, 0, 1, b'a'], Ok(Value::from("a")), "long string"),
            (&[15, 0, 0, 0, 1, b'a'], Ok(Value::from("a")), "XML document"),
            (&[2, 0, 1, 0xff], Ok(Value::from("\u{fffd}")), "not UTF-8"),
            (&[8, 0, 0, 0, 9], Ok(Value::EcmaArray(vec![])), "ECMA array without end marker"),
            (&[17, 1], Ok(Value::Null), "AMF3 null"),
            (&[17, 4, 0xff, 0xff, 0xff, 0xff], Ok(Value::Number(-1.0)), "AMF3 integer, 29 bits"),
            (&[17, 6, 3, b'a'], Ok(Value::from("a")), "AMF3 string"),
            (&[17, 6, 2], Err(RtmpError::AmfUnsupported), "AMF3 string reference"),
            (&[17, 10], Err(RtmpError::AmfUnsupported), "AMF3 object"),
            (&[7, 0, 0], Err(RtmpError::AmfUnsupported), "reference"),
            (&[9], Err(RtmpError::AmfMalformed), "end marker without object"),
            (&[18], Err(RtmpError::AmfMalformed), "unknown marker"),
            (&[10, 0xff, 0xff, 0xff, 0xff], Err(RtmpError::AmfTooManyValues), "strict array of 2^32-1"),
            (&[12, 0xff, 0xff, 0xff, 0xff], Err(RtmpError::AmfStringTooLong), "string of 4 GB"),
            (&[2, 0, 5, b'a'], Err(RtmpError::AmfMalformed), "string cut short"),
        ] {
            assert_eq!(decode(bytes), expected, "{remark}");
        }
    }
}
