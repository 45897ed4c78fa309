//! Video on its way to packets: what is published, when it can begin, and the timestamps. What is particular to a codec
//! is in the files below this one.

mod av1;
mod filler_frame;
mod nal;
mod vp;

use std::sync::Arc;

use rtmp::flv::{Body, BodyKind, Codec as FlvCodec, video_body};
use rtp::packetize::Sender;
use rtp::payload::Codec;

use super::{FrameToRtpSettings, FrameToRtpStats, PacketsOut, PublishedVideo};
use crate::clock::VideoTimestamps;
use crate::numbers::{VIDEO_SSRC, payload_type};
use av1::Av1;
use nal::Nal;
use vp::Vp;

/// The video track of a bridge.
#[derive(Debug)]
pub(super) struct Video {
    pub(super) sender: Sender,
    timestamps: VideoTimestamps,
    /// Of pictures whose format numbers them; its low 15 bits are sent.
    picture_id: u16,
    /// The one that is sent of several: the first that came.
    track_id: Option<u8>,
    /// What the publisher sends, and the record it has told it by.
    source: Option<(FlvCodec, Vec<u8>)>,
    coding: Option<Coding>,
    published: Option<PublishedVideo>,
    refused: Option<Arc<str>>,
    warning: Option<&'static str>,
    is_warned: bool,
    waits_for_key: bool,
    /// The publisher has ended it; what was known of it holds again if it goes on without another configuration.
    is_over: bool,
    /// When the newest picture is shown, stream time.
    shown_ms: Option<i64>,
}

/// What a codec needs to know from frame to frame.
#[derive(Debug)]
enum Coding {
    Nal(Box<Nal>),
    Av1(Av1),
    Vp(Vp),
}

/// What becomes of a picture.
#[derive(Debug)]
enum Verdict {
    /// It is written.
    Sent {
        /// A decoder can start with it.
        is_key: bool,
    },
    /// Left out because of the order.
    Dropped,
    /// Nothing to send: no picture, or none a decoder can make use of yet.
    Nothing,
    /// It makes no sense.
    Broken,
    /// The stream cannot be sent, for this reason.
    Refused(Arc<str>),
}

impl Video {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(VIDEO_SSRC, 0),
            timestamps: VideoTimestamps::default(),
            picture_id: 0,
            track_id: None,
            source: None,
            coding: None,
            published: None,
            refused: None,
            warning: None,
            is_warned: false,
            waits_for_key: true,
            is_over: false,
            shown_ms: None,
        }
    }

    /// Another publisher begins. Numbers and timestamps go on.
    pub(super) fn restart(&mut self) {
        let timestamps = std::mem::take(&mut self.timestamps);
        *self = Self { sender: self.sender, timestamps, picture_id: self.picture_id, ..Self::new() };
    }

    /// Also of video that is over: it may go on, and viewers who come until then get a stand-in.
    pub(super) fn published(&self) -> Option<&PublishedVideo> {
        self.published.as_ref()
    }

    pub(super) fn refused(&self) -> Option<&Arc<str>> {
        self.refused.as_ref().filter(|_| !self.is_over)
    }

    pub(super) fn take_warning(&mut self) -> Option<&'static str> {
        self.warning.take()
    }

    /// Takes in a tag body. Returns whether what is published may have changed.
    pub(super) fn frame(
        &mut self,
        settings: &FrameToRtpSettings,
        time_ms: i64,
        body: &[u8],
        stats: &mut FrameToRtpStats,
        out: &mut PacketsOut,
    ) -> bool {
        let Ok(body) = video_body(body) else {
            stats.broken += 1;
            return false;
        };
        if body.codec == FlvCodec::None || *self.track_id.get_or_insert(body.track_id) != body.track_id {
            return false;
        }
        let was_over = self.is_over;
        if body.kind == BodyKind::End {
            self.ended();
        }
        let Some(codec) = rtp_codec(body.codec) else {
            return self.cannot(body.codec) | (was_over != self.is_over);
        };
        let changed = match body.kind {
            BodyKind::Config => self.config(settings, codec, &body, stats),
            BodyKind::Frames if body.data.is_empty() => {
                // Nothing that a later picture could need.
                stats.broken += 1;
                false
            }
            BodyKind::Frames => {
                let begins = self.begins_without_config(codec, &body);
                self.picture(settings, codec, time_ms, &body, stats, out) | begins
            }
            BodyKind::End | BodyKind::Other => false,
        };
        changed | (was_over != self.is_over)
    }

    /// The publisher has ended it. It goes on with a key picture; a configuration that is sent again, or a picture that comes late,
    /// changes nothing.
    pub(super) fn ended(&mut self) {
        (self.is_over, self.waits_for_key) = (true, true);
    }

    /// The stream goes on, with audio, at this time: once a second, video that is over gets a picture that stands in for it.
    pub(super) fn goes_on(
        &mut self,
        settings: &FrameToRtpSettings,
        time_ms: i64,
        stats: &mut FrameToRtpStats,
        out: &mut PacketsOut,
    ) {
        let is_due = self.shown_ms.is_none_or(|shown_ms| time_ms >= shown_ms + FILLER_FRAME_MS);
        if !self.is_over || self.published.is_none() || !is_due {
            return;
        }
        self.shown_ms = Some(time_ms);
        let timestamp = self.timestamps.next(time_ms * 1_000);
        let mut writer = self.sender.frame(payload_type(Codec::H264), timestamp, &mut out.packets);
        filler_frame::write(settings.payload_bytes_max, &mut writer);
        writer.end_frame(true);
        stats.video_frames += 1;
    }

    /// A codec WebRTC has no format for.
    fn cannot(&mut self, codec: FlvCodec) -> bool {
        self.source = Some((codec, Vec::new()));
        self.refuse(format!("video: WebRTC has no {codec}").into())
    }

    fn refuse(&mut self, reason: Arc<str>) -> bool {
        let is_news = self.refused.as_ref() != Some(&reason) || self.published.is_some();
        (self.published, self.coding, self.refused) = (None, None, Some(reason));
        // What cannot be sent is no reason to wait for the next picture of before.
        self.is_over = false;
        is_news
    }

    fn config(
        &mut self,
        settings: &FrameToRtpSettings,
        codec: Codec,
        body: &Body<'_>,
        stats: &mut FrameToRtpStats,
    ) -> bool {
        // Some encoders repeat it with each key frame.
        if self
            .source
            .as_ref()
            .is_some_and(|(known, record)| (*known, &record[..]) == (body.codec, body.data))
        {
            return false;
        }
        if body.data.len() > RECORD_BYTES_MAX {
            stats.broken += 1;
            self.source = Some((body.codec, Vec::new()));
            return self.refuse(format!("video: the sequence header of {} is too long", body.codec).into());
        }
        self.source = Some((body.codec, body.data.to_vec()));
        let read = match codec {
            Codec::H264 | Codec::H265 => Nal::new(settings, codec, body.data).map(|nal| {
                let fmtp = nal.fmtp();
                (Coding::Nal(Box::new(nal)), fmtp)
            }),
            Codec::Av1 => Av1::new(body.data).map(|(av1, fmtp)| (Coding::Av1(av1), fmtp)),
            // Their frames say all of it.
            _ => return false,
        };
        let Some((coding, fmtp)) = read else {
            stats.broken += 1;
            return self.refuse(format!("video: the sequence header of {} is broken", body.codec).into());
        };
        self.publish(coding, codec, fmtp)
    }

    /// VP8 and VP9 need no sequence header: a key frame says all of it.
    fn begins_without_config(&mut self, codec: Codec, body: &Body<'_>) -> bool {
        let Some((vp, fmtp)) = Vp::of_key_frame(codec, body.data) else { return false };
        let is_known =
            self.published.as_ref().is_some_and(|known| (known.codec, &known.fmtp) == (codec, &fmtp));
        if is_known {
            return false;
        }
        self.source = Some((body.codec, Vec::new()));
        self.publish(Coding::Vp(vp), codec, fmtp)
    }

    fn publish(&mut self, coding: Coding, codec: Codec, fmtp: String) -> bool {
        self.coding = Some(coding);
        self.published = Some(PublishedVideo { codec, fmtp });
        self.refused = None;
        self.waits_for_key = true;
        true
    }

    /// Takes in coded data. Returns whether what is published has changed.
    fn picture(
        &mut self,
        settings: &FrameToRtpSettings,
        codec: Codec,
        time_ms: i64,
        body: &Body<'_>,
        stats: &mut FrameToRtpStats,
        out: &mut PacketsOut,
    ) -> bool {
        if self.published.as_ref().is_none_or(|published| published.codec != codec) {
            return false;
        }
        let verdict = match self.review(body) {
            Verdict::Sent { is_key: false } if self.is_over => Verdict::Nothing,
            Verdict::Sent { is_key } => self.write(settings, codec, time_ms, is_key, body, out),
            other => other,
        };
        match verdict {
            Verdict::Sent { is_key } => {
                stats.video_frames += 1;
                return is_key && self.learn_fmtp();
            }
            Verdict::Dropped => {
                stats.b_frames_dropped += 1;
                self.warn();
            }
            Verdict::Nothing => {}
            Verdict::Broken => {
                // What comes behind it may need it, up to the next key frame.
                self.waits_for_key = true;
                stats.broken += 1;
            }
            Verdict::Refused(reason) => return self.refuse(reason),
        }
        false
    }

    /// Decides about a picture.
    fn review(&mut self, body: &Body<'_>) -> Verdict {
        let is_key = match &mut self.coding {
            None => return Verdict::Nothing,
            // It waits for a key frame by itself.
            Some(Coding::Nal(nal)) => return nal.take(body.data, body.is_key),
            Some(Coding::Av1(_)) => Some(body.is_key),
            Some(Coding::Vp(vp)) => vp.is_key(body.data),
        };
        match is_key {
            None => Verdict::Broken,
            Some(false) if self.waits_for_key => Verdict::Nothing,
            Some(is_key) => Verdict::Sent { is_key },
        }
    }

    fn write(
        &mut self,
        settings: &FrameToRtpSettings,
        codec: Codec,
        time_ms: i64,
        is_key: bool,
        body: &Body<'_>,
        out: &mut PacketsOut,
    ) -> Verdict {
        let limit = settings.payload_bytes_max;
        let shown_ms = time_ms + i64::from(composition_ms(body));
        // A copy, because a picture that turns out to be broken takes no timestamp.
        let mut timestamps = self.timestamps.clone();
        let timestamp = timestamps.next(shown_ms * 1_000 + offset_us(body));
        let mut writer = self.sender.frame(payload_type(codec), timestamp, &mut out.packets);
        match &self.coding {
            None => {}
            Some(Coding::Nal(nal)) => nal.write(limit, &mut writer),
            Some(Coding::Av1(av1)) => av1.write(body.data, is_key, limit, &mut writer),
            Some(Coding::Vp(vp)) => vp.write(body.data, self.picture_id, is_key, limit, &mut writer),
        }
        if writer.end_frame(true) == 0 {
            return Verdict::Broken;
        }
        self.timestamps = timestamps;
        self.shown_ms = Some(shown_ms);
        self.picture_id = self.picture_id.wrapping_add(1);
        (self.waits_for_key, self.is_over) = (false, false);
        Verdict::Sent { is_key }
    }

    /// Parameter sets may have changed within the stream.
    fn learn_fmtp(&mut self) -> bool {
        let (Some(Coding::Nal(nal)), Some(published)) = (&self.coding, &mut self.published) else {
            return false;
        };
        let fmtp = nal.fmtp();
        let is_news = published.fmtp != fmtp;
        published.fmtp = fmtp;
        is_news
    }

    fn warn(&mut self) {
        if let Some(Coding::Nal(nal)) = &self.coding
            && !self.is_warned
        {
            self.warning = nal.warning();
            self.is_warned = self.warning.is_some();
        }
    }
}

fn rtp_codec(codec: FlvCodec) -> Option<Codec> {
    match codec {
        FlvCodec::H264 => Some(Codec::H264),
        FlvCodec::H265 => Some(Codec::H265),
        FlvCodec::Av1 => Some(Codec::Av1),
        FlvCodec::Vp8 => Some(Codec::Vp8),
        FlvCodec::Vp9 => Some(Codec::Vp9),
        _ => None,
    }
}

/// How much later than it is decoded a picture is shown. What no encoder says counts as nothing.
fn composition_ms(body: &Body<'_>) -> i32 {
    if body.composition_ms.abs() <= COMPOSITION_MS_MAX { body.composition_ms } else { 0 }
}

/// What is added to it, in microseconds.
pub(super) fn offset_us(body: &Body<'_>) -> i64 {
    i64::from(body.offset_ns.min(999_999) / 1_000)
}

/// Sixteen reference pictures, the most there can be, of 8 a second.
const COMPOSITION_MS_MAX: i32 = 2_000;

/// From one stand-in to the next, and from the last picture to the first of them: files that are sent in a loop end their
/// video each time.
const FILLER_FRAME_MS: i64 = 1_000;

/// A configuration record; a longer one is broken. Those of encoders have some hundred bytes, HDR metadata included.
const RECORD_BYTES_MAX: usize = 64 << 10;
