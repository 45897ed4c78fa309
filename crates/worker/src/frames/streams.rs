//! The streams a worker knows: published here, or played here, or both.

use std::collections::HashMap;
use std::sync::Arc;

use delivery::{GopLimits, QueueLimits, Stream};
use media::config::{AudioFormat, VideoFormat};
use media::{Codec, Frame, MediaKind};

use crate::frames::channel::{Channel, Format};
use crate::ids::{FrameStreamId, Table};
use crate::publication::Publication;
use crate::registry::{Lane, StreamId};
use worker_api::settings::{Application, ApplicationSettings};

/// Pictures after which the order that a publisher sends them in is known: more than an encoder keeps back.
const ORDER_PICTURES: u32 = 24;

/// A stream on this worker.
#[derive(Debug)]
pub(crate) struct LocalStream {
    pub(crate) publication: Publication,
    pub(crate) settings: Arc<ApplicationSettings>,
    pub(crate) queue_limits: QueueLimits,
    pub(crate) relay: Stream,
    pub(crate) channels: [Option<Channel>; Format::COUNT],
    /// Pictures of the publisher that are sent before others which are shown earlier, as far as they are
    /// counted.
    pub(crate) out_of_order: u32,
    /// The operator has been told what of the publisher's pictures WebRTC cannot show.
    pub(crate) warned: bool,
    /// How often it has been described as packets without a pause.
    pub(crate) describes: u8,
    /// When it is to be described as packets again, because too little of it had been seen.
    pub(crate) describe_at_ms: Option<u64>,
    /// The publisher's first frame of audio, and of video, if no header came before it.
    pub(crate) first: [Option<Arc<Frame>>; 2],
    pub(crate) video: Option<(Codec, Option<VideoFormat>)>,
    pub(crate) audio: Option<(Codec, Option<AudioFormat>)>,
}

impl LocalStream {
    /// A publisher begins, here or on another worker: what was known of the one before says nothing of it.
    pub(crate) fn publisher_started(&mut self) {
        (self.video, self.audio) = (None, None);
        (self.out_of_order, self.first) = (0, [None, None]);
        (self.describes, self.describe_at_ms, self.warned) = (0, None, false);
        self.relay.publisher_started();
        for channel in self.channels.iter_mut().flatten() {
            channel.log.forget_entry();
        }
    }

    /// Whether the frame is the first of its track, and there was no header before it: then it is all that
    /// tells of it.
    pub(crate) fn is_undescribed(&mut self, frame: &Arc<Frame>) -> bool {
        let kind = frame.track.kind;
        if kind == MediaKind::Data {
            return false;
        }
        let first = &mut self.first[usize::from(kind == MediaKind::Video)];
        let is_first = first.is_none() && self.relay.headers().first_config(kind).is_none();
        if is_first {
            *first = Some(Arc::clone(frame));
        }
        is_first
    }

    /// Notes when a picture is shown, against when it is decoded; whether enough is known by now of a
    /// publisher that does not send pictures in the order they are shown.
    pub(crate) fn has_shown_order(&mut self, frame: &Frame) -> bool {
        let counts = frame.track.kind == MediaKind::Video
            && self.out_of_order < ORDER_PICTURES
            && frame.pts != frame.dts
            && frame.pts.millis() != frame.dts.millis();
        self.out_of_order += u32::from(counts);
        counts && (self.out_of_order == 1 || self.out_of_order == ORDER_PICTURES)
    }

    /// Audio or video is over: what was known of it says nothing of what may come.
    pub(crate) fn track_ended(&mut self, kind: MediaKind) {
        match kind {
            MediaKind::Video => (self.video, self.out_of_order, self.first[1]) = (None, 0, None),
            MediaKind::Audio => (self.audio, self.first[0]) = (None, None),
            MediaKind::Data => {}
        }
    }

    /// The channel of a format, made when its first player comes.
    pub(crate) fn channel_mut(&mut self, format: Format, now_ms: u64) -> &mut Channel {
        let merge_ms = self.settings.merge_latency.as_millis() as u64;
        let relay = &self.relay;
        self.channels[format as usize].get_or_insert_with(|| Channel::new(format, merge_ms, relay, now_ms))
    }
}

/// The table of streams of frames.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) slab: Table<FrameStreamId, LocalStream>,
    by_id: HashMap<StreamId, FrameStreamId>,
}

impl Streams {
    /// Id of a stream.
    pub(crate) fn find(&self, id: StreamId) -> Option<FrameStreamId> {
        self.by_id.get(&id).copied()
    }

    /// Id of a stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        id: StreamId,
        (app, name): (&str, &str),
        applications: &[Application],
        now_ms: u64,
    ) -> FrameStreamId {
        if let Some(stream) = self.find(id) {
            return stream;
        }
        let settings = worker_api::settings::settings_for(applications, app);
        let gop_limits = GopLimits {
            enabled: settings.gop_cache,
            bytes_max: settings.gop_cache_bytes_max,
            duration_ms_max: settings.gop_cache_duration_max.as_millis() as u64,
        };
        let queue_limits = QueueLimits {
            bytes_max: settings.player_queue_bytes_max as u64,
            duration_ms_max: settings.player_queue_duration_max.as_millis() as u64,
            stall_ms_max: settings.player_stall_timeout.as_millis() as u64,
        };
        let stream = self.slab.insert(LocalStream {
            publication: Publication::new(Lane::Frames, id, (app, name)),
            settings,
            queue_limits,
            relay: Stream::new(gop_limits, now_ms),
            channels: [const { None }; Format::COUNT],
            out_of_order: 0,
            warned: false,
            describes: 0,
            describe_at_ms: None,
            first: [None, None],
            video: None,
            audio: None,
        });
        self.by_id.insert(id, stream);
        stream
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, stream: FrameStreamId) {
        if let Some(stream) = self.slab.remove(stream) {
            self.by_id.remove(&stream.publication.id);
        }
    }
}
