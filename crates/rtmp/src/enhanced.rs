//! Capabilities of Enhanced RTMP v2 in the `connect` command and its reply.
//!
//! Section "Enhancing NetConnection connect Command": the client names codecs by FourCC, with what it can
//! do with each, and extended features as bits; the server states its own in the reply. A server that
//! relays can forward any codec without knowing it, and says so with the wildcard.

use std::borrow::Cow;

use super::amf0::{RawValue, Value};
use super::command::object;

/// What a client said about Enhanced RTMP in `connect`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnhancedCapabilities {
    /// `fourCcList`: codecs by FourCC, or `*` (Enhanced RTMP v1).
    pub fourcc_list: Vec<String>,
    /// `videoFourCcInfoMap`: FourCC and flags (1 can decode, 2 can encode, 4 can forward).
    pub video: Vec<(String, u32)>,
    /// `audioFourCcInfoMap`, likewise.
    pub audio: Vec<(String, u32)>,
    /// `capsEx`: 1 reconnect, 2 multitrack, 4 ModEx, 8 timestamp nanosecond offset.
    pub caps_ex: u32,
}

impl EnhancedCapabilities {
    /// Reads them from the command object; `None` if it has none of the properties.
    pub(super) fn from_connect(object: RawValue<'_>) -> Option<Self> {
        let names = ["fourCcList", "videoFourCcInfoMap", "audioFourCcInfoMap", "capsEx"];
        let [list, video, audio, caps_ex] = names.map(|name| object.get(name));
        if [list, video, audio, caps_ex].iter().all(Option::is_none) {
            return None;
        }
        let codecs = list.into_iter().flat_map(RawValue::elements).filter_map(RawValue::as_str);
        Some(Self {
            fourcc_list: codecs.map(Cow::into_owned).collect(),
            video: info_map(video),
            audio: info_map(audio),
            caps_ex: caps_ex.and_then(RawValue::as_number).unwrap_or(0.0) as u32,
        })
    }
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

fn info_map(value: Option<RawValue<'_>>) -> Vec<(String, u32)> {
    let properties = value.into_iter().flat_map(RawValue::properties);
    properties.map(|(fourcc, flags)| (fourcc.into_owned(), flags.as_number().unwrap_or(0.0) as u32)).collect()
}

const CAN_FORWARD: u32 = 4;
const CAPS_MULTITRACK: u32 = 2;
const CAPS_MODEX: u32 = 4;
const CAPS_TIMESTAMP_NANO_OFFSET: u32 = 8;
