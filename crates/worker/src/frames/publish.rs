//! Frames in: publishers on this worker, and streams whose home is another one.

use std::cmp::Reverse;
use std::sync::Arc;

use delivery::Received;
use media::config::{audio_format, audio_frame_format, video_format};
use media::{Codec, CodecConfig, FlvBody, Frame, FrameRole, MediaKind};
use rtmp::flv::TagBody;

use super::stream::{Channel, FrameStream};
use super::{FrameAction, Frames};
use crate::context::Context;
use crate::ids::FrameStreamId;
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::publication::Source;
use crate::registry::Lane;

impl Frames {
    /// A frame of the stream's publisher.
    pub(crate) fn receive(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> FrameAction {
        let is_header = matches!(frame.role, FrameRole::Config | FrameRole::Metadata);
        if is_header && frame.bytes() > HEADER_BYTES_MAX {
            ctx.counters.frames_invalid += 1;
            tracing::trace!(?stream, bytes = frame.bytes(), "header dropped: too long");
            return FrameAction::None;
        }
        let received = self.fan_out(ctx, stream, frame);
        let local = &mut self.streams[stream];
        // What players have already, or need not know, a bridge may need.
        let is_for_bridges = matches!(frame.role, FrameRole::Config | FrameRole::End);
        let repeated = is_for_bridges.then_some(local.relay.timeline_head());
        let Some(time) = received.map(|received| received.time).or(repeated) else {
            return FrameAction::None;
        };
        // Headers say what there is; without one, the first frame, or the first key frame where the header
        // says nothing; and B-frames, what can be done about them.
        let news = frame.role == FrameRole::Config && received.is_some()
            || frame.role == FrameRole::End
            || local.is_undescribed(frame)
            || frame.role == FrameRole::Key && local.describe_at_ms.is_some()
            || local.has_shown_order(frame);
        match local.publication.bridge {
            Some(bridge) => FrameAction::Bridge(bridge, time),
            None if news => FrameAction::Describe,
            None => FrameAction::None,
        }
    }

    /// Hands a frame that has come in here, from a publisher or a bridge, to other workers and the players of
    /// this one.
    pub(crate) fn fan_out(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> Option<Received> {
        let local = &mut self.streams[stream];
        note_format(local, frame);
        let Source { epoch, .. } = local.publication.source?;
        let id = local.publication.id;
        for remote in &mut local.publication.remotes {
            let body = MessageBody::Frame { frame: Arc::clone(frame), after_loss: remote.lost };
            let message = WorkerMessage { stream: id, epoch, lane: Lane::Frames, body };
            remote.lost = !ctx.mailboxes.try_send(remote.worker, message);
            if remote.lost {
                ctx.counters.ring_drops += 1;
                tracing::trace!(?stream, worker = ?remote.worker, "frame dropped: the ring is full");
            }
        }
        self.deliver(ctx, stream, frame)
    }

    /// Hands a frame to the players of this worker.
    pub(crate) fn deliver(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> Option<Received> {
        let now_ms = ctx.now_ms;
        let Self { streams, players, timers, .. } = self;
        let FrameStream { relay, channels, settings, .. } = &mut streams[stream];
        let received = relay.receive(now_ms, frame)?;
        if channels.iter().all(Option::is_none) {
            return Some(received);
        }
        // Every wire format is FLV, or carries the same bodies.
        let Some(body) = TagBody::of(frame) else {
            // What came in the body of an earlier frame has left with it.
            if frame.flv_body() == FlvBody::Missing {
                tracing::trace!(codec = %frame.codec, "dropped: FLV has no place for the frame");
                ctx.counters.flv_drops += 1;
            }
            return Some(received);
        };
        let messages_max = u64::from(settings.merge_messages);
        for channel in channels.iter_mut().flatten() {
            if channel.log.rolls(Channel::bytes_hint(&body)) {
                // Bytes stay that a player has yet to get, or that new ones begin with.
                let entry = channel.log.entry().filter(|_| relay.gop().frames().len() > 0);
                let all = channel.schedule.all_players();
                let positions = all.filter_map(|player| players.get(player)?.cursor.position());
                let needed = positions.chain(entry.map(|(_, mark)| mark.position)).min();
                channel.log.evict(needed.unwrap_or(channel.log.head()));
            }
            channel.append(frame, &body, received, now_ms);
            if let Some(due_ms) = channel.arm(now_ms, messages_max) {
                timers.push(Reverse((due_ms, stream, channel.format as usize)));
            }
        }
        Some(received)
    }
}

/// Remembers what the publisher sends, for those who ask: of several tracks of a kind, the first.
fn note_format(local: &mut FrameStream, frame: &Frame) {
    let (kind, codec, data) = (frame.track.kind, frame.codec, frame.data());
    let is_known = match kind {
        MediaKind::Video => local.video.is_some(),
        MediaKind::Audio => local.audio.is_some(),
        MediaKind::Data => true,
    };
    if is_known && !matches!(frame.role, FrameRole::Config | FrameRole::End) {
        return;
    }
    let is_other = |config: &Arc<Frame>| config.track != frame.track;
    if local.relay.headers().first_config(kind).is_some_and(is_other) {
        return;
    }
    let is_config = frame.role == FrameRole::Config;
    if frame.role == FrameRole::End {
        return local.track_ended(kind);
    }
    match kind {
        MediaKind::Video if is_config => local.video = Some((codec, video_format(codec, data))),
        MediaKind::Video if codec != Codec::None => local.video = Some((codec, None)),
        MediaKind::Audio if is_config => local.audio = Some((codec, audio_format(codec, data))),
        MediaKind::Audio if codec != Codec::None => {
            let told = CodecConfig { channels: frame.channels, ..CodecConfig::new(codec, Vec::new()) };
            let format = told.audio_format().or_else(|| audio_frame_format(codec, data));
            local.audio = Some((codec, format));
        }
        _ => {}
    }
}

/// Largest header frame, bytes. Each new player gets a copy of its own; real ones have a few hundred bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;
