//! A packet as the way to frames sees it, and a copy of it for those that must wait.

use std::borrow::Cow;

use rtp::payload::{Codec, MediaKind};
use sfu::Packet;

use crate::clock::Stamp;

/// One packet of a track.
#[derive(Clone, Debug)]
pub struct RtpPayload<'a> {
    /// Counts up by one; a gap is what was lost or comes late.
    pub number: u64,
    /// Which publisher: another value is another publisher.
    pub epoch: u64,
    /// Its codec.
    pub codec: Codec,
    /// The marker bit.
    pub marker: bool,
    /// Its times.
    pub stamp: Stamp,
    /// The payload without padding; empty if there is nothing but padding.
    pub media: Cow<'a, [u8]>,
}

impl<'a> RtpPayload<'a> {
    /// The packet, if it is of the first track of its kind: a tag body of FLV has no place for others.
    pub fn of(packet: &'a Packet) -> Option<Self> {
        (packet.track().position() < 2).then(|| Self {
            number: packet.number(),
            epoch: packet.epoch(),
            codec: packet.codec(),
            marker: packet.marker(),
            stamp: Stamp::from(packet),
            media: Cow::Borrowed(packet.media()),
        })
    }

    /// Audio or video.
    pub fn kind(&self) -> MediaKind {
        self.stamp.kind
    }

    /// A copy that needs the packet no longer.
    pub(super) fn to_owned(&self) -> RtpPayload<'static> {
        let Self { number, epoch, codec, marker, stamp, ref media } = *self;
        RtpPayload { number, epoch, codec, marker, stamp, media: Cow::Owned(media.to_vec()) }
    }
}
