//! H.264 and H.265 of FLV: a record with parameter sets, then access units of NAL units.
//!
//! `b_frames` decides which pictures are sent, and with which parameter sets ahead of them; here they are written.

use media::bitstream::Nals;
use rtp::packetize::{FrameWriter, h264, h265};
use rtp::payload::Codec;

use super::FrameToRtpSettings;
use crate::b_frames::{PictureFilter, Verdict};

/// A stream of NAL units.
#[derive(Debug)]
pub(super) struct Nal {
    codec: Codec,
    filter: PictureFilter,
    /// Units of the current picture.
    units: Nals,
}

impl Nal {
    /// Reads a record. `None` if it is broken.
    pub(super) fn new(settings: &FrameToRtpSettings, codec: Codec, record: &[u8]) -> Option<Self> {
        let filter = PictureFilter::new(codec, record, settings.b_frames).ok()?;
        Some(Self { codec, filter, units: Nals::default() })
    }

    /// `a=fmtp` value as of the newest key frame.
    pub(super) fn fmtp(&self) -> String {
        self.filter.fmtp()
    }

    /// Decides about an access unit; [`Nal::write`] writes it if it is kept. `is_key`: its tag says so.
    pub(super) fn frame(&mut self, data: &[u8], is_key: bool) -> Verdict {
        self.filter.frame(data, is_key, &mut self.units)
    }

    /// Writes the access unit decided about last.
    pub(super) fn write(&self, payload_bytes_max: usize, writer: &mut FrameWriter<'_>) {
        match self.codec {
            Codec::H265 => h265::packetize(self.units.iter(), payload_bytes_max, writer),
            _ => h264::packetize(self.units.iter(), payload_bytes_max, writer),
        }
    }
}
