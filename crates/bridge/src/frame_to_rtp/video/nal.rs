//! H.264 and H.265 of FLV: a record with parameter sets, then access units of NAL units.
//!
//! Which pictures are sent, and with which parameter sets ahead of them, `pictures` decides; here they are written.

use rtp::packetize::{FrameWriter, h264, h265};
use rtp::payload::Codec;

use super::{FrameToRtpSettings, Verdict};
use crate::b_frames::{self, B_FRAMES_WARNING, Dropped, Nals, PictureFilter};

/// A stream of NAL units.
#[derive(Debug)]
pub(super) struct Nal {
    codec: Codec,
    filter: PictureFilter,
    /// Units of the picture under way.
    units: Nals,
    warning: Option<&'static str>,
}

impl Nal {
    /// Reads a record. `None` if it is broken.
    pub(super) fn new(settings: &FrameToRtpSettings, codec: Codec, record: &[u8]) -> Option<Self> {
        let filter = PictureFilter::new(codec, record, settings.b_frames).ok()?;
        Some(Self { codec, filter, units: Nals::default(), warning: None })
    }

    /// `a=fmtp` value as of the newest key frame.
    pub(super) fn fmtp(&self) -> String {
        self.filter.fmtp()
    }

    /// Takes an access unit in; [`Nal::write`] writes it if it is to be sent. `is_key`: its tag says so.
    pub(super) fn take(&mut self, data: &[u8], is_key: bool) -> Verdict {
        match self.filter.frame(data, is_key, &mut self.units) {
            b_frames::Verdict::Keep { key } => Verdict::Sent { is_key: key },
            b_frames::Verdict::Drop(Dropped::BFrame) => {
                self.warning = Some(B_FRAMES_WARNING);
                Verdict::Dropped
            }
            b_frames::Verdict::Drop(Dropped::Broken) => Verdict::Broken,
            b_frames::Verdict::Drop(Dropped::NoKeyFrame | Dropped::Empty) => Verdict::Nothing,
            b_frames::Verdict::Refuse(reason) => Verdict::Refused(format!("video: {}", reason.text()).into()),
        }
    }

    /// What the operator should know.
    pub(super) fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// Writes what was taken in.
    pub(super) fn write(&self, payload_bytes_max: usize, writer: &mut FrameWriter<'_>) {
        match self.codec {
            Codec::H265 => h265::packetize(self.units.iter(), payload_bytes_max, writer),
            _ => h264::packetize(self.units.iter(), payload_bytes_max, writer),
        }
    }
}
