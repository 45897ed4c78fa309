//! Video on its way to packets: what is published, when it can begin, and the timestamps.

use media::bitstream::Nals;
use media::{CodecConfig, Frame, FrameRole, Timestamp, TrackId};
use rtp::packetize::{Sender, av1, h264, h265, vp8, vp9};
use rtp::payload::{Codec, MediaKind};
use serde::{Deserialize, Serialize};

use super::{
    FrameToRtpSettings, FrameToRtpStats, PacketsOut, PublishedVideo, VIDEO_SSRC, filler_frame, payload_type,
};
use crate::b_frames::{B_FRAMES_WARNING, Dropped, PictureFilter, Verdict};
use crate::clock::VideoTimestamps;
use crate::refusal::TrackRefusal;

/// The video track of a bridge. Another process may go on with it, perhaps of a neighbouring release: a field
/// that is added needs a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Video {
    pub(super) sender: Sender,
    timestamps: VideoTimestamps,
    /// Picture number of VP8 and VP9; its low 15 bits are sent.
    picture_id: u16,
    /// Of several tracks, the first that came is sent.
    track: Option<TrackId>,
    /// Configuration of the publisher.
    source: Option<CodecConfig>,
    coding: Option<Coding>,
    published: Option<PublishedVideo>,
    #[serde(skip)]
    refused: Option<TrackRefusal>,
    /// The operator has been warned of B-frames: once a publisher.
    is_warned: bool,
    waits_for_key: bool,
    /// The publisher has ended it; its configuration stays valid if it goes on without another.
    is_over: bool,
    /// When the newest picture is shown, stream time.
    shown: Option<Timestamp>,
}

/// State of a codec from frame to frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Coding {
    /// H.264 and H.265: the filter decides which pictures are sent, with which parameter sets ahead of them,
    /// and puts the NAL units of the current one here.
    Nal(Box<PictureFilter>, #[serde(skip)] Nals),
    /// AV1: OBUs of the record, to be repeated in front of key frames that bring no sequence header. Pictures
    /// are sent in the order they are shown: what is shown later is hidden inside the unit of an earlier one,
    /// and stays there.
    Av1(Vec<u8>),
    /// VP8 and VP9. The bitstream, not the tag, says which frames are key frames: receivers go by the
    /// descriptor made of it.
    Vp,
}

impl Video {
    pub(super) fn new() -> Self {
        Self {
            sender: Sender::new(VIDEO_SSRC, 0),
            timestamps: VideoTimestamps::default(),
            picture_id: 0,
            track: None,
            source: None,
            coding: None,
            published: None,
            refused: None,
            is_warned: false,
            waits_for_key: true,
            is_over: false,
            shown: None,
        }
    }

    /// For another process. What is refused is looked at again there.
    pub(super) fn handed(&self) -> Self {
        let source = self.source.clone().filter(|_| self.refused.is_none());
        Self { source, refused: None, ..self.clone() }
    }

    /// From another process.
    pub(super) fn resumed(self, settings: &FrameToRtpSettings) -> Self {
        let coding = self.coding.map(|coding| match coding {
            Coding::Nal(filter, nals) => Coding::Nal(Box::new(filter.resumed(settings.b_frames)), nals),
            other => other,
        });
        let sender = Sender { ssrc: VIDEO_SSRC, ..self.sender };
        Self { sender, coding, timestamps: self.timestamps.resumed(), ..self }
    }

    /// Also of video that has ended: it may go on, and viewers who join until then get filler frames.
    pub(super) fn published(&self) -> Option<&PublishedVideo> {
        self.published.as_ref()
    }

    pub(super) fn refused(&self) -> Option<TrackRefusal> {
        self.refused.filter(|_| !self.is_over)
    }

    /// Takes in a frame; without `out`, no packets are written. Returns whether what is published may have
    /// changed.
    pub(super) fn frame(
        &mut self,
        settings: &FrameToRtpSettings,
        time: Timestamp,
        frame: &Frame,
        stats: &mut FrameToRtpStats,
        out: Option<&mut PacketsOut>,
    ) -> bool {
        let codec = frame.codec;
        if codec == Codec::None {
            return false;
        }
        if *self.track.get_or_insert(frame.track) != frame.track {
            tracing::trace!(track = ?frame.track, "dropped: not the first video track");
            stats.other_tracks += 1;
            return false;
        }
        let was_over = self.is_over;
        if frame.role == FrameRole::End {
            self.ended();
        }
        if codec.kind() != MediaKind::Video {
            self.source = Some(CodecConfig::new(codec, Vec::new()));
            return self.refuse(TrackRefusal::NoCodec(codec)) | (was_over != self.is_over);
        }
        let changed = match frame.role {
            FrameRole::Config => self.config(settings, frame, stats),
            FrameRole::Key | FrameRole::Inter if frame.data().is_empty() => {
                // No later picture can refer to it, so the next one needs no key frame.
                tracing::trace!("dropped: empty video frame");
                stats.broken += 1;
                false
            }
            FrameRole::Key | FrameRole::Inter => self.picture(settings, time, frame, stats, out),
            _ => false,
        };
        changed | (was_over != self.is_over)
    }

    /// The publisher has ended it. It goes on with a key picture; a configuration that is sent again, or a
    /// picture that comes late, changes nothing.
    pub(super) fn ended(&mut self) {
        (self.is_over, self.waits_for_key) = (true, true);
    }

    /// The stream goes on with audio at this time: video that has ended gets a filler frame once a second.
    pub(super) fn fill(
        &mut self,
        settings: &FrameToRtpSettings,
        time: Timestamp,
        stats: &mut FrameToRtpStats,
        out: &mut PacketsOut,
    ) {
        let is_due = self.shown.is_none_or(|shown| time >= shown + FILLER_FRAME_INTERVAL);
        if !self.is_over || self.published.is_none() || !is_due {
            return;
        }
        self.shown = Some(time);
        let timestamp = self.timestamps.next(time.micros());
        let mut writer = self.sender.frame(payload_type(Codec::H264), timestamp, &mut out.packets);
        filler_frame::write(settings.payload_bytes_max, &mut writer);
        writer.end_frame(true);
        out.key_frames.push(timestamp);
        stats.video_frames += 1;
    }

    fn refuse(&mut self, reason: TrackRefusal) -> bool {
        let is_news = self.refused != Some(reason) || self.published.is_some();
        (self.published, self.coding, self.refused) = (None, None, Some(reason));
        // Refused video has not ended: no filler frames, and the reason is given.
        self.is_over = false;
        is_news
    }

    fn config(&mut self, settings: &FrameToRtpSettings, frame: &Frame, stats: &mut FrameToRtpStats) -> bool {
        let (codec, record) = (frame.codec, frame.data());
        // Some encoders repeat it with each key frame.
        if self.source.as_ref().is_some_and(|known| known.codec == codec && known.record == record) {
            return false;
        }
        if record.len() > RECORD_BYTES_MAX {
            stats.broken += 1;
            self.source = Some(CodecConfig::new(codec, Vec::new()));
            return self.refuse(TrackRefusal::HeaderTooLong(codec));
        }
        let source = self.source.insert(CodecConfig::new(codec, record.to_vec()));
        let coding = match codec {
            Codec::H264 | Codec::H265 => {
                let filter = PictureFilter::new(codec, record, settings.b_frames).ok();
                filter.map(|filter| Coding::Nal(Box::new(filter), Nals::default()))
            }
            // av1C ("AV1 Codec ISO Media File Format Binding", section 2.3): 1, version 1 | profile 3, level
            // 5
            // | tier 1, .. | .. | OBUs: the sequence header.
            Codec::Av1 => match record {
                [0x81, _, _, _, obus @ ..]
                    if obus.len() <= CONFIG_OBUS_BYTES_MAX
                        && (obus.is_empty() || av1::has_sequence_header(obus)) =>
                {
                    Some(Coding::Av1(obus.to_vec()))
                }
                _ => None,
            },
            // Their key frames carry all of it.
            _ => return false,
        };
        let Some((coding, fmtp)) = coding.zip(source.fmtp()) else {
            stats.broken += 1;
            return self.refuse(TrackRefusal::HeaderBroken(codec));
        };
        self.publish(coding, codec, fmtp);
        true
    }

    fn publish(&mut self, coding: Coding, codec: Codec, fmtp: String) {
        self.coding = Some(coding);
        self.published = Some(PublishedVideo { codec, fmtp });
        self.refused = None;
        self.waits_for_key = true;
    }

    /// Takes in coded data. Returns whether what is published has changed.
    fn picture(
        &mut self,
        settings: &FrameToRtpSettings,
        time: Timestamp,
        frame: &Frame,
        stats: &mut FrameToRtpStats,
        mut out: Option<&mut PacketsOut>,
    ) -> bool {
        let (codec, data) = (frame.codec, frame.data());
        let mut changed = false;
        let vp_is_key = match codec {
            Codec::Vp8 => vp8::is_key_frame(data),
            Codec::Vp9 => vp9::is_key_frame(data),
            _ => None,
        };
        // They need no sequence header: a key frame carries all of it. VP8 has no `a=fmtp` value (RFC 9628
        // section 7.1 is about VP9).
        if vp_is_key == Some(true)
            && let Some(fmtp) = match codec {
                Codec::Vp9 => vp9::profile(data).map(media::vp9_fmtp),
                _ => Some(String::new()),
            }
            && self.published.as_ref().is_none_or(|known| (known.codec, &known.fmtp) != (codec, &fmtp))
        {
            self.source = Some(CodecConfig::new(codec, Vec::new()));
            self.publish(Coding::Vp, codec, fmtp);
            changed = true;
        }
        let Some(published) = self.published.as_ref().filter(|published| published.codec == codec) else {
            tracing::trace!("dropped: video without a configuration that can be sent");
            stats.undecodable += 1;
            return changed;
        };

        let waits_for_key = |is_key| match is_key {
            None => Verdict::Drop(Dropped::Broken),
            Some(false) if self.waits_for_key => Verdict::Drop(Dropped::NoKeyFrame),
            Some(key) => Verdict::Keep { key },
        };
        let mut verdict = match &mut self.coding {
            None => Verdict::Drop(Dropped::NoKeyFrame),
            // It waits for a key frame by itself.
            Some(Coding::Nal(filter, units)) => filter.frame(data, frame.is_key(), units),
            Some(Coding::Av1(_)) => waits_for_key(Some(frame.is_key())),
            Some(Coding::Vp) => waits_for_key(vp_is_key),
        };
        if verdict == (Verdict::Keep { key: false }) && self.is_over {
            verdict = Verdict::Drop(Dropped::NoKeyFrame);
        }

        if let Verdict::Keep { key } = verdict {
            // A composition time no encoder sends counts as none.
            let composition = frame.pts - frame.dts;
            let is_usual = composition.millis().abs() <= COMPOSITION_MS_MAX;
            let shown = if is_usual { time + composition } else { time };
            // A copy, because a picture that turns out to be broken takes no timestamp.
            let mut timestamps = self.timestamps.clone();
            let timestamp = timestamps.next(shown.micros());
            let is_written = out.as_deref_mut().is_none_or(|out| {
                let limit = settings.payload_bytes_max;
                let mut writer = self.sender.frame(payload_type(codec), timestamp, &mut out.packets);
                match &self.coding {
                    None => {}
                    Some(Coding::Nal(_, units)) => match codec {
                        Codec::H265 => h265::packetize(units.iter(), limit, &mut writer),
                        _ => h264::packetize(units.iter(), limit, &mut writer),
                    },
                    Some(Coding::Av1(obus)) => {
                        let has_header = key && av1::has_sequence_header(data);
                        let ahead = if key && !has_header { &obus[..] } else { &[] };
                        let begins_sequence = has_header || !ahead.is_empty();
                        // What is broken is not begun, and counts as such.
                        let _ = av1::packetize(ahead, data, begins_sequence, limit, &mut writer);
                    }
                    Some(Coding::Vp) => match codec {
                        Codec::Vp8 => vp8::packetize(data, self.picture_id, limit, &mut writer),
                        _ => vp9::packetize(data, self.picture_id, key, limit, &mut writer),
                    },
                }
                let is_written = writer.end_frame(true) > 0;
                out.key_frames.extend((key && is_written).then_some(timestamp));
                is_written
            });
            if is_written {
                self.timestamps = timestamps;
                self.shown = Some(shown);
                self.picture_id = self.picture_id.wrapping_add(1);
                (self.waits_for_key, self.is_over) = (false, false);
                stats.video_frames += 1;
                // Parameter sets may change within the stream, with a key frame.
                if let Some(Coding::Nal(filter, _)) = self.coding.as_ref().filter(|_| key)
                    && let fmtp = filter.fmtp()
                    && fmtp != published.fmtp
                {
                    self.published = Some(PublishedVideo { codec, fmtp });
                    changed = true;
                }
                return changed;
            }
            verdict = Verdict::Drop(Dropped::Broken);
        }

        match verdict {
            Verdict::Keep { .. } => {}
            Verdict::Drop(reason) => {
                tracing::trace!(?reason, time_ms = time.millis(), "video frame dropped");
                match reason {
                    Dropped::BFrame => {
                        stats.b_frames_dropped += 1;
                        if let Some(out) = out.filter(|_| !self.is_warned) {
                            (self.is_warned, out.warning) = (true, Some(B_FRAMES_WARNING));
                        }
                    }
                    Dropped::Broken => {
                        // What comes behind it may refer to it, up to the next key frame.
                        self.waits_for_key = true;
                        stats.broken += 1;
                    }
                    Dropped::NoKeyFrame | Dropped::Empty => stats.undecodable += 1,
                }
            }
            Verdict::Refuse(reason) => {
                changed |= self.refuse(TrackRefusal::Pictures(reason));
            }
        }
        changed
    }
}

/// Sixteen reference pictures, the most there can be, of 8 a second.
const COMPOSITION_MS_MAX: i64 = 2_000;

/// From one filler frame to the next, and from the last picture to the first of them: files that are sent in
/// a loop end their video each time.
const FILLER_FRAME_INTERVAL: Timestamp = Timestamp::from_millis(1_000);

/// A configuration record; a longer one is broken. Those of encoders have some hundred bytes, HDR metadata
/// included.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// OBUs of a record of AV1: a sequence header has some dozens of bytes, HDR metadata some more.
const CONFIG_OBUS_BYTES_MAX: usize = 4_096;
