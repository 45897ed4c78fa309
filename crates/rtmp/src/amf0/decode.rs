//! Bytes to values, within limits.

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
    /// For metadata: recorders write lists of key frame times and positions into it.
    pub const METADATA: Self = Self { depth: 8, values: 100_000, string_bytes: 64 * 1024 };
}

/// Reads values one after the other from the bytes of a message.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    input: &'a [u8],
    limits: Limits,
    values_left: u32,
}

impl<'a> Decoder<'a> {
    /// A decoder at the beginning of `input`.
    pub fn new(input: &'a [u8], limits: Limits) -> Self {
        Self { input, limits, values_left: limits.values }
    }

    /// The next value, or `None` at the end of the input.
    pub fn next_value(&mut self) -> Result<Option<Value>, RtmpError> {
        if self.input.is_empty() { Ok(None) } else { self.value(0).map(Some) }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.input
    }

    fn value(&mut self, depth: u8) -> Result<Value, RtmpError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(RtmpError::AmfTooManyValues)?;
        match self.u8()? {
            marker::NUMBER => Ok(Value::Number(self.f64()?)),
            marker::BOOLEAN => Ok(Value::Boolean(self.u8()? != 0)),
            marker::STRING => Ok(Value::String(self.short_string()?)),
            marker::OBJECT => Ok(Value::Object(self.properties(depth)?)),
            marker::NULL => Ok(Value::Null),
            marker::UNDEFINED | marker::UNSUPPORTED => Ok(Value::Undefined),
            marker::ECMA_ARRAY => {
                // The count is approximate by definition (section 2.10); the end marker decides.
                self.u32()?;
                Ok(Value::EcmaArray(self.properties(depth)?))
            }
            marker::STRICT_ARRAY => Ok(Value::StrictArray(self.elements(depth)?)),
            marker::DATE => {
                let unix_ms = self.f64()?;
                Ok(Value::Date { unix_ms, zone: self.u16()? as i16 })
            }
            marker::LONG_STRING | marker::XML_DOCUMENT => {
                let length = self.u32()?;
                Ok(Value::String(self.string(length)?))
            }
            marker::TYPED_OBJECT => {
                let class = self.short_string()?;
                Ok(Value::TypedObject { class, properties: self.properties(depth)? })
            }
            marker::AVMPLUS_OBJECT => self.amf3_value(),
            4 | 7 | 14 => Err(RtmpError::AmfUnsupported),
            _ => Err(RtmpError::AmfMalformed),
        }
    }

    /// Properties up to the end marker.
    ///
    /// The end of the message in place of the end marker is accepted: some encoders write ECMA arrays
    /// without one. Inside another value the missing rest is noticed there.
    fn properties(&mut self, depth: u8) -> Result<Vec<(String, Value)>, RtmpError> {
        let depth = self.deeper(depth)?;
        let mut properties = Vec::new();
        while !self.input.is_empty() {
            let name = self.short_string()?;
            if name.is_empty() && self.input.first() == Some(&marker::OBJECT_END) {
                self.input = &self.input[1..];
                break;
            }
            properties.push((name, self.value(depth)?));
        }
        Ok(properties)
    }

    fn elements(&mut self, depth: u8) -> Result<Vec<Value>, RtmpError> {
        let depth = self.deeper(depth)?;
        let count = self.u32()?;
        if count > self.values_left {
            return Err(RtmpError::AmfTooManyValues);
        }
        // Not `with_capacity(count)`: the elements may not be there.
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(self.value(depth)?);
        }
        Ok(elements)
    }

    fn deeper(&self, depth: u8) -> Result<u8, RtmpError> {
        if depth < self.limits.depth { Ok(depth + 1) } else { Err(RtmpError::AmfTooDeep) }
    }

    /// The simple types of AMF3 ("Action Message Format -- AMF 3", sections 3.2 to 3.8).
    fn amf3_value(&mut self) -> Result<Value, RtmpError> {
        match self.u8()? {
            0 => Ok(Value::Undefined),
            1 => Ok(Value::Null),
            2 => Ok(Value::Boolean(false)),
            3 => Ok(Value::Boolean(true)),
            4 => {
                let integer = self.amf3_u29()? << 3;
                Ok(Value::Number(f64::from(integer as i32 >> 3)))
            }
            5 => Ok(Value::Number(self.f64()?)),
            6 => match self.amf3_u29()? {
                // The low bit says that the string is here and not in the table of references.
                length if length & 1 == 1 => Ok(Value::String(self.string(length >> 1)?)),
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

    fn short_string(&mut self) -> Result<String, RtmpError> {
        let length = self.u16()?;
        self.string(u32::from(length))
    }

    fn string(&mut self, length: u32) -> Result<String, RtmpError> {
        if length > self.limits.string_bytes {
            return Err(RtmpError::AmfStringTooLong);
        }
        let (text, rest) = self.input.split_at_checked(length as usize).ok_or(RtmpError::AmfMalformed)?;
        self.input = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
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
