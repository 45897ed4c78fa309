//! One message of a call: what came with the payload, and where in it each datagram begins and
//! ends.

use super::{Ecn, Head, Received};
#[cfg(target_os = "linux")]
use crate::cmsg::{self, ControlMessage};
use std::net::{IpAddr, SocketAddr};
#[cfg(target_os = "linux")]
use std::time::Duration;
use std::time::SystemTime;

/// A datagram, or a row of them of `segment_bytes` each, the last of which may be shorter.
pub(super) struct Message {
    source: SocketAddr,
    /// Of the payload, without what is dropped. `(datagrams - 1) * segment_bytes < bytes`, or one
    /// datagram with none.
    pub(super) bytes: usize,
    pub(super) segment_bytes: usize,
    pub(super) datagrams: usize,
    /// Datagrams that did not fit.
    pub(super) lost: usize,
    ecn: Option<Ecn>,
    received_at: Option<SystemTime>,
    destination: Option<IpAddr>,
}

impl Message {
    #[cfg(target_os = "linux")]
    // As a call it returns by memory what is then read in wider pieces than it was written in,
    // which makes the processor wait: receiving took twice the time outside the kernel
    // (bench/src/bin/receive.rs, perf).
    #[inline(always)]
    pub(super) fn read(source: SocketAddr, head: &Head<'_>, payload_max: usize) -> Self {
        let mut message = Self::from(source);
        cmsg::parse(head.control).for_each(|control| message.note(control));
        if head.control_cut && message.segment_bytes == 0 {
            // Where one datagram ends and the next begins may be among what is missing.
            message.lost = 1;
        } else {
            message.cut(head.bytes, payload_max);
        }
        message
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn read(source: SocketAddr, head: &Head, payload_max: usize) -> Self {
        let mut message = Self::from(source);
        message.cut(head.bytes, payload_max);
        message
    }

    fn from(source: SocketAddr) -> Self {
        Self {
            source,
            bytes: 0,
            segment_bytes: 0,
            datagrams: 0,
            lost: 0,
            ecn: None,
            received_at: None,
            destination: None,
        }
    }

    #[cfg(target_os = "linux")]
    fn note(&mut self, control: ControlMessage) {
        match control {
            ControlMessage::SegmentSize(bytes) => self.segment_bytes = bytes as usize,
            ControlMessage::TrafficClass(byte) => self.ecn = Some(Ecn::from_traffic_class(byte)),
            ControlMessage::ReceivedAt { seconds, nanoseconds } => {
                self.received_at = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds));
            }
            ControlMessage::Destination(address) => self.destination = Some(address),
            ControlMessage::Error { .. } => {}
        }
    }

    /// Divides a payload of `bytes`, of which the first `payload_max` are there, into datagrams:
    /// those that are there as a whole, and those lost.
    fn cut(&mut self, bytes: usize, payload_max: usize) {
        let is_whole = bytes <= payload_max;
        if self.segment_bytes == 0 || self.segment_bytes >= bytes {
            // By far the most frequent case, and the division below would take longer than all else
            // here.
            self.segment_bytes = bytes;
            (self.datagrams, self.lost) = if is_whole { (1, 0) } else { (0, 1) };
            self.bytes = if is_whole { bytes } else { 0 };
            return;
        }
        let sent = bytes.div_ceil(self.segment_bytes);
        self.datagrams = if is_whole { sent } else { payload_max / self.segment_bytes };
        self.bytes = if is_whole { bytes } else { self.datagrams * self.segment_bytes };
        self.lost = sent - self.datagrams;
    }

    pub(super) fn received<P>(&self, payload: P) -> Received<P> {
        Received {
            payload,
            source: self.source,
            ecn: self.ecn,
            received_at: self.received_at,
            destination: self.destination,
        }
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_as_if_one_datagram_was_taken_off_after_the_other() {
        for bytes in 0..=40_usize {
            for segment in 0..=41_usize {
                for payload_max in 1..=42 {
                    // The datagrams by the bytes at which they begin and end.
                    let step = if segment == 0 { bytes.max(1) } else { segment };
                    let starts = (0..bytes.max(1)).step_by(step);
                    let ends = starts.map(|start| (start + step).min(bytes));
                    let (there, lost): (Vec<_>, Vec<_>) = ends.partition(|&end| end <= payload_max);

                    let mut message = Message::from(SocketAddr::from(([0, 0, 0, 0], 0)));
                    message.segment_bytes = segment;
                    message.cut(bytes, payload_max);
                    let counts = (message.datagrams, message.lost, message.bytes);
                    let expected = (there.len(), lost.len(), there.last().copied().unwrap_or(0));
                    assert_eq!(counts, expected, "{bytes} bytes by {segment} in {payload_max}");
                }
            }
        }
    }

    #[test]
    fn control_messages_that_are_missing_may_be_those_that_divide() {
        let segment = [
            &20_usize.to_ne_bytes()[..],
            &17_i32.to_ne_bytes(),
            &104_i32.to_ne_bytes(),
            &10_i32.to_ne_bytes(),
        ]
        .concat();
        let source = SocketAddr::from(([127, 0, 0, 1], 9));
        for (control, control_cut, datagrams, lost, remark) in [
            (&segment[..], false, 3, 0, "a row of three"),
            (&segment, true, 3, 0, "what is missing is something else"),
            (&[], false, 1, 0, "one datagram"),
            (&[], true, 0, 1, "unknown"),
        ] {
            let head = Head { source: Some(source), bytes: 25, control, control_cut };
            let message = Message::read(source, &head, 100);
            assert_eq!((message.datagrams, message.lost), (datagrams, lost), "{remark}");
        }
    }
}
