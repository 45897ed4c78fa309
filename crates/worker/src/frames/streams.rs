//! The streams a worker knows: published here, or played here, or both.

use std::collections::HashMap;
use std::sync::Arc;

use delivery::{Frame, GopLimits, QueueLimits, Stream, Track};
use media::Codec;
use media::config::{AudioFormat, VideoFormat};
use slab::Slab;

use crate::frames::channel::{Channel, Format};
use crate::registry::{Epoch, Origin, StreamId};
use worker_api::settings::{Application, ApplicationSettings};

/// Pictures after which the order that a publisher sends them in is known: more than an encoder keeps back.
const ORDER_PICTURES: u32 = 24;

/// A stream on this worker.
#[derive(Debug)]
pub(crate) struct LocalStream {
    pub(crate) id: StreamId,
    /// `app/name`, what the directory calls it.
    pub(crate) key: Arc<str>,
    /// Length of the app in `key`.
    app_bytes: usize,
    pub(crate) settings: Arc<ApplicationSettings>,
    pub(crate) queue_limits: QueueLimits,
    pub(crate) relay: Stream,
    pub(crate) channels: [Option<Channel>; Format::COUNT],
    pub(crate) source: Option<Source>,
    /// Workers that get every frame, when the source is local; each with whether frames to it were lost.
    pub(crate) remotes: Vec<Remote>,
    pub(crate) players: u32,
    /// The bridge that its frames go to.
    pub(crate) bridge: Option<usize>,
    /// Pictures of the publisher that are sent before others which are shown earlier, as far as they are counted.
    pub(crate) out_of_order: u32,
    /// The operator has been told what of the publisher's pictures WebRTC cannot show.
    pub(crate) warned: bool,
    /// How often it has been described as packets without a pause.
    pub(crate) describes: u8,
    /// When it is to be described as packets again, because too little of it had been seen.
    pub(crate) describe_at_ms: Option<u64>,
    /// The publisher's first frame of sound, and of video, if no header came before it.
    pub(crate) first: [Option<Arc<Frame>>; 2],
    pub(crate) live_since_ms: u64,
    pub(crate) video: Option<(Codec, Option<VideoFormat>)>,
    pub(crate) audio: Option<(Codec, Option<AudioFormat>)>,
}

/// Where a stream's frames come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) epoch: Epoch,
    pub(crate) origin: Origin,
}

/// Another worker that gets the frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) worker: usize,
    pub(crate) lost: bool,
}

impl LocalStream {
    /// App part of the key.
    pub(crate) fn app(&self) -> &str {
        &self.key[..self.app_bytes]
    }

    /// Stream part of the key.
    pub(crate) fn name(&self) -> &str {
        &self.key[self.app_bytes + 1..]
    }

    /// The publishing session on this worker.
    pub(crate) fn publisher(&self) -> Option<usize> {
        self.source?.origin.session()
    }

    /// Whether frames come in on this worker, from a publisher or a bridge.
    pub(crate) fn is_home(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_local())
    }

    /// Whether the frame is the first of its track, and there was no header before it: then it is all that tells of it.
    pub(crate) fn is_undescribed(&mut self, frame: &Arc<Frame>) -> bool {
        let header = match frame.track {
            Track::Audio => &self.relay.headers().audio,
            Track::Video => &self.relay.headers().video,
            Track::Data => return false,
        };
        let first = &mut self.first[usize::from(frame.track == Track::Video)];
        let is_first = header.is_none() && first.is_none();
        if is_first {
            *first = Some(Arc::clone(frame));
        }
        is_first
    }

    /// Notes when a picture is shown, against when it is decoded; whether enough is known by now of a publisher that does
    /// not send pictures in the order they are shown.
    pub(crate) fn has_shown_order(&mut self, track: Track, composition_ms: i32) -> bool {
        let counts = track == Track::Video && composition_ms != 0 && self.out_of_order < ORDER_PICTURES;
        self.out_of_order += u32::from(counts);
        counts && (self.out_of_order == 1 || self.out_of_order == ORDER_PICTURES)
    }

    /// A track is over: what was known of it says nothing of what may come.
    pub(crate) fn track_ended(&mut self, track: Track) {
        match track {
            Track::Video => (self.video, self.out_of_order, self.first[1]) = (None, 0, None),
            Track::Audio => (self.audio, self.first[0]) = (None, None),
            Track::Data => {}
        }
    }

    /// The channel of a format, made when its first player comes.
    pub(crate) fn channel_mut(&mut self, format: Format, now_ms: u64) -> &mut Channel {
        let merge_ms = self.settings.merge_latency.as_millis() as u64;
        let relay = &self.relay;
        self.channels[format as usize].get_or_insert_with(|| Channel::new(format, merge_ms, relay, now_ms))
    }

    /// Whether nobody needs this worker to know the stream.
    pub(crate) fn is_unused(&self) -> bool {
        self.players == 0 && !self.is_home()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) slab: Slab<LocalStream>,
    by_id: HashMap<StreamId, usize>,
}

impl Streams {
    /// Index of a stream.
    pub(crate) fn find(&self, id: StreamId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Index of a stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        id: StreamId,
        (app, name): (&str, &str),
        applications: &[Application],
        now_ms: u64,
    ) -> usize {
        if let Some(index) = self.find(id) {
            return index;
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
        let index = self.slab.insert(LocalStream {
            id,
            key: format!("{app}/{name}").into(),
            app_bytes: app.len(),
            settings,
            queue_limits,
            relay: Stream::new(gop_limits, now_ms),
            channels: [const { None }; Format::COUNT],
            source: None,
            remotes: Vec::new(),
            players: 0,
            bridge: None,
            out_of_order: 0,
            warned: false,
            describes: 0,
            describe_at_ms: None,
            first: [None, None],
            live_since_ms: 0,
            video: None,
            audio: None,
        });
        self.by_id.insert(id, index);
        index
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, index: usize) -> LocalStream {
        let stream = self.slab.remove(index);
        self.by_id.remove(&stream.id);
        stream
    }
}
