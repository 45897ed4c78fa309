//! Aggregate messages: several media messages in one (Adobe RTMP 1.0 section 7.1.6).
//!
//! ```text
//!  part:  type 8 | length 24 | timestamp 24 | its top 8 bits | stream id 24 | payload | length + 11: 32
//! ```
//! That is an FLV tag with its back pointer. The first part's time stands for the aggregate's own; the
//! others keep their distance to it. Old Flash encoders and relays send them.

use std::collections::VecDeque;

use super::super::RtmpError;
use super::super::message::{DATA_AMF0, DATA_AMF3, DATA_BYTES_MAX, Message, MessageHeader};
use super::ServerEvent;

/// Pushes the media messages of an aggregate; parts that are not media are skipped.
pub(super) fn split(aggregate: &Message, events: &mut VecDeque<ServerEvent>) -> Result<(), RtmpError> {
    let mut rest = &aggregate.payload[..];
    let mut offset = None;
    while !rest.is_empty() {
        let (head, body) = rest.split_first_chunk::<11>().ok_or(RtmpError::AggregateMalformed)?;
        let [type_id, l0, l1, l2, t0, t1, t2, t3, ..] = *head;
        let length = u32::from_be_bytes([0, l0, l1, l2]);
        let (payload, tail) = body.split_at_checked(length as usize).ok_or(RtmpError::AggregateMalformed)?;
        // As of a message of its own.
        let is_too_long = matches!(type_id, DATA_AMF0 | DATA_AMF3) && length > DATA_BYTES_MAX;
        let payload = if is_too_long { &[] } else { payload };
        let time = u32::from_be_bytes([t3, t0, t1, t2]);
        let offset = *offset.get_or_insert(aggregate.header.timestamp.wrapping_sub(time));
        let header =
            MessageHeader { type_id, length, timestamp: time.wrapping_add(offset), ..aggregate.header };
        if let Ok(media) = (Message { header, payload: payload.to_vec() }).into_media() {
            events.push_back(ServerEvent::Media(media));
        }
        // The last back pointer is left out by some.
        rest = tail.get(4..).unwrap_or_default();
    }
    Ok(())
}
