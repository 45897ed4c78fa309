//! Values to bytes.

use super::{Value, marker};

/// Appends `value` to `out`. A property or class name longer than 65,535 bytes is cut at a character.
pub fn encode(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Number(number) => {
            out.push(marker::NUMBER);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Boolean(value) => out.extend_from_slice(&[marker::BOOLEAN, u8::from(*value)]),
        Value::String(text) => string(out, text),
        Value::Object(members) => {
            out.push(marker::OBJECT);
            properties(out, members);
        }
        Value::Null => out.push(marker::NULL),
        Value::Undefined => out.push(marker::UNDEFINED),
        Value::EcmaArray(members) => {
            out.push(marker::ECMA_ARRAY);
            out.extend_from_slice(&(members.len() as u32).to_be_bytes());
            properties(out, members);
        }
        Value::StrictArray(elements) => {
            out.push(marker::STRICT_ARRAY);
            out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
            elements.iter().for_each(|element| encode(out, element));
        }
        Value::Date { unix_ms, zone } => {
            out.push(marker::DATE);
            out.extend_from_slice(&unix_ms.to_be_bytes());
            out.extend_from_slice(&zone.to_be_bytes());
        }
        Value::TypedObject { class, properties: members } => {
            out.push(marker::TYPED_OBJECT);
            name(out, class);
            properties(out, members);
        }
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    if text.len() <= usize::from(u16::MAX) {
        out.push(marker::STRING);
        name(out, text);
    } else {
        out.push(marker::LONG_STRING);
        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

fn properties(out: &mut Vec<u8>, members: &[(String, Value)]) {
    for (key, value) in members {
        name(out, key);
        encode(out, value);
    }
    out.extend_from_slice(&[0, 0, marker::OBJECT_END]);
}

fn name(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
