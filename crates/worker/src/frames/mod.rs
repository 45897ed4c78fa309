//! The frames lane: coded frames from a publisher (RTMP, FLV) to its players.
//!
//! ```text
//! proto ─▶ stream.rs (bytes of a format, once) ─▶ serve.rs ─▶ socket
//! ```
//!
//! [`Frames`] has streams, players and the times at which they are served, and knows no connection:
//! [`Frames::next_due`] names the next player, and the worker calls [`Frames::serve`] with that connection's
//! session. What bridges have to do about a frame is returned as a [`FrameAction`]. Players inside
//! this process get frames at once (`tap.rs`).

pub(crate) mod hand_over;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod tap;

use std::collections::HashMap;

use delivery::{GopLimits, PlayerId, QueueLimits, Stream};
use media::Timestamp;

use self::hand_over::HandedStreams;
use self::serve::Player;
use self::stream::{Description, Format, FrameStream};
use self::tap::Tap;
use crate::context::Context;
use crate::ids::{BridgeId, FrameStreamId, Table, TapId};
use crate::publication::{Publication, Source};
use crate::registry::{Lane, StreamId};
use crate::timers::Timers;

/// The frames lane of one worker.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) streams: Table<FrameStreamId, FrameStream>,
    by_id: HashMap<StreamId, FrameStreamId>,
    pub(crate) players: Table<PlayerId, Player>,
    /// When which channel is to be looked at: stream, format.
    timers: Timers<u64, (FrameStreamId, usize)>,
    /// Players of the slot that is being served, the last first.
    due: Vec<PlayerId>,
    pub(crate) taps: Table<TapId, Tap>,
    /// Taps with something new in their queues.
    served_taps: Vec<TapId>,
    /// Those of another process, until its sessions go on.
    pub(crate) handed: HandedStreams,
    /// Players that have left since the simulation looked last, and how many messages each has not got.
    #[cfg(feature = "simulated")]
    pub(crate) left: Vec<(std::net::SocketAddr, u64)>,
}

/// What bridges have to do about a frame of a publisher.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FrameAction {
    /// Nothing.
    None,
    /// This bridge takes it, at this time of the stream.
    Bridge(BridgeId, Timestamp),
    /// It says something new about what the stream is as packets.
    Describe,
}

impl Frames {
    /// A stream, if this worker has it.
    pub(crate) fn find(&self, id: StreamId) -> Option<FrameStreamId> {
        self.by_id.get(&id).copied()
    }

    /// A stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        ctx: &Context,
        id: StreamId,
        (app, name): (&str, &str),
    ) -> FrameStreamId {
        if let Some(stream) = self.find(id) {
            return stream;
        }
        let settings = ctx.settings_for(app);
        let gop_limits = GopLimits {
            enabled: settings.gop_cache,
            bytes_max: ctx.caches.share(settings.gop_cache_bytes_max),
            duration_ms_max: settings.gop_cache_duration_max.as_millis() as u64,
        };
        let queue_limits = QueueLimits {
            bytes_max: settings.player_queue_bytes_max as u64,
            duration_ms_max: settings.player_queue_duration_max.as_millis() as u64,
            stall_ms_max: settings.player_stall_timeout.as_millis() as u64,
        };
        let stream = self.streams.insert(FrameStream {
            publication: Publication::new(Lane::Frames, id, (app, name)),
            settings,
            queue_limits,
            delivery: Stream::new(gop_limits, ctx.now_ms),
            newest: 0,
            channels: [const { None }; Format::COUNT],
            taps: Vec::new(),
            description: Description::default(),
            video: None,
            audio: None,
            sections: Default::default(),
        });
        self.by_id.insert(id, stream);
        stream
    }

    /// A source begins, here or on another worker.
    pub(crate) fn start_source(&mut self, ctx: &Context, stream: FrameStreamId, source: Source) {
        let local = &mut self.streams[stream];
        local.publication.start(source, ctx.now_ms);
        // What was known of the publisher before says nothing of this one.
        (local.video, local.audio) = (None, None);
        local.description = Description::default();
        local.newest = 0;
        local.delivery.publisher_started();
        for channel in local.channels.iter_mut().flatten() {
            channel.publisher_started();
        }
        self.start_taps(stream);
    }

    /// Ends what `source` publishes. False if the stream has a newer source already.
    pub(crate) fn end_publication(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        source: Source,
    ) -> bool {
        let Some(local) = self.streams.get_mut(stream) else { return false };
        if !local.publication.end(ctx, source) {
            return false;
        }
        self.stop_taps(stream);
        self.forget_if_unused(stream);
        true
    }

    /// The last player has left (or none came).
    pub(crate) fn unsubscribe(&mut self, ctx: &mut Context, stream: FrameStreamId) {
        if let Some(local) = self.streams.get(stream) {
            local.publication.unsubscribe(ctx);
        }
        self.forget_if_unused(stream);
    }

    /// Forgets a stream that is neither published nor played here.
    fn forget_if_unused(&mut self, stream: FrameStreamId) {
        if self.streams.get(stream).is_some_and(|local| local.publication.is_unused())
            && let Some(local) = self.streams.remove(stream)
        {
            self.by_id.remove(&local.publication.id);
        }
    }
}
