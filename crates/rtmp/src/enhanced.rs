//! Capabilities of Enhanced RTMP v2 in the `connect` command and its reply.
//!
//! Section "Enhancing NetConnection connect Command": the client names codecs by FourCC, with what it can
//! do with each, and extended features as bits; the server states its own in the reply. A server that
//! relays can forward any codec without knowing it, and says so with the wildcard.

use super::amf0::{RawValue, Value};
use super::command::object;

/// Whether a client speaks of Enhanced RTMP in the object of `connect`.
pub(super) fn is_announced(object: RawValue<'_>) -> bool {
    let names = ["fourCcList", "videoFourCcInfoMap", "audioFourCcInfoMap", "capsEx"];
    names.iter().any(|name| object.get(name).is_some())
}

/// What a relaying server or a client that takes anything states.
pub(super) fn forward_anything() -> Vec<(&'static str, Value)> {
    let any = object(&[("*", f64::from(CAN_FORWARD).into())]);
    vec![
        ("fourCcList", Value::StrictArray(vec!["*".into()])),
        ("videoFourCcInfoMap", any.clone()),
        ("audioFourCcInfoMap", any),
        ("capsEx", f64::from(CAPS_MULTITRACK | CAPS_MODEX | CAPS_TIMESTAMP_NANO_OFFSET).into()),
    ]
}

const CAN_FORWARD: u32 = 4;
const CAPS_MULTITRACK: u32 = 2;
const CAPS_MODEX: u32 = 4;
const CAPS_TIMESTAMP_NANO_OFFSET: u32 = 8;
