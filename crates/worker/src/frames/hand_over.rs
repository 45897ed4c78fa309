//! Streams and players that go on in another process.

use std::collections::{BTreeSet, HashMap};

use delivery::{Cursor, PlayerId};

use super::Frames;
use super::stream::Format;
use crate::context::Context;
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::proto::session::Pending;
use worker_api::handed_connection::{HandedMedia, HandedStream};

/// Most bytes of whole messages that a player takes along. One that is further behind goes on at a key frame,
/// as slow players do.
const BEHIND_BYTES_MAX: u64 = 256 << 10;
/// Most bytes of the message that it is in.
const MESSAGE_BYTES_MAX: u64 = 4 << 20;

/// Streams of another process.
#[derive(Debug, Default)]
pub(crate) struct HandedStreams {
    /// By their keys, until a publisher or the first player is here.
    pub(crate) waiting: HashMap<String, HandedStream>,
    /// Those that go on as they were, with the next frame of their publisher.
    pub(crate) resumed: BTreeSet<FrameStreamId>,
}

impl Frames {
    /// What another process needs of a player that has these private bytes, and what it has to write first:
    /// so many bytes of its stream at most. `None`: it cannot go over.
    pub(crate) fn hand_over_player(
        &self,
        id: PlayerId,
        pending: &Pending,
        room: u64,
    ) -> Option<(HandedMedia, Vec<u8>)> {
        let player = self.players.get(id)?;
        if !player.format.is_flv() {
            // Other formats count packets.
            return None;
        }
        let log = &self.streams.get(player.stream)?.channels[player.format as usize].as_ref()?.log;
        let mut bytes = Vec::new();
        let mut has_all = false;
        match player.cursor.position() {
            None => bytes.extend_from_slice(&pending.rest()),
            Some(position) => {
                let message_end = log.message_end(position);
                if message_end - position > MESSAGE_BYTES_MAX.min(room) {
                    return None;
                }
                // In the order in which it would have got them: private bytes go between two messages.
                if pending.is_partly_sent() {
                    bytes.extend_from_slice(&pending.rest());
                    log.copy(position, message_end, &mut bytes);
                } else {
                    log.copy(position, message_end, &mut bytes);
                    bytes.extend_from_slice(&pending.rest());
                }
                has_all = player.cursor.takes_all() && log.head() - message_end <= BEHIND_BYTES_MAX.min(room);
                if has_all {
                    log.copy(message_end, log.head(), &mut bytes);
                }
            }
        }
        Some((HandedMedia::Play { has_all, begun: player.begun, paused: player.paused }, bytes))
    }

    /// What another process needs of a stream.
    pub(crate) fn hand_over_stream(&self, ctx: &Context, stream: FrameStreamId) -> HandedStream {
        let local = &self.streams[stream];
        HandedStream {
            worker: ctx.worker.index(),
            app: local.publication.app().to_owned(),
            stream: local.publication.name().to_owned(),
            newest: local.newest,
            delivery: local.delivery.state(ctx.now_ms),
            is_published: false,
        }
    }

    /// A source that has begun here goes on from where it was in another process. False if it cannot.
    pub(crate) fn resume_stream(
        &mut self,
        ctx: &Context,
        stream: FrameStreamId,
        handed: HandedStream,
    ) -> bool {
        let local = &mut self.streams[stream];
        if local.delivery.resume(ctx.now_ms, handed.delivery).is_err() {
            return false;
        }
        local.newest = handed.newest;
        local.note_headers();
        self.handed.resumed.insert(stream);
        true
    }

    /// That a player took nothing was not its doing.
    pub(crate) fn go_on_with_player(&mut self, id: PlayerId, now_ms: u64) {
        if let Some(player) = self.players.get_mut(id) {
            player.cursor.note_progress(now_ms);
        }
    }

    /// A player of another process plays on; its stream counts it already.
    pub(crate) fn resume_player(
        &mut self,
        ctx: &Context,
        (stream, conn): (FrameStreamId, ConnId),
        format: Format,
        media: HandedMedia,
    ) -> PlayerId {
        let id = self.join(ctx, stream, conn, format);
        let HandedMedia::Play { has_all, begun, paused } = media else { return id };
        let Some(channel) = &self.streams[stream].channels[format as usize] else { return id };
        let log = &channel.log;
        // Of a stream without a publisher it gets all of the next one.
        let is_whole =
            self.handed.resumed.contains(&stream) || self.streams[stream].publication.source.is_none();
        let player = &mut self.players[id];
        player.begun = begun;
        player.cursor = match has_all && is_whole {
            true => Cursor::join_at_head(log, ctx.now_ms),
            false => Cursor::join(log, false, ctx.now_ms),
        };
        if paused {
            player.paused = true;
            player.cursor.pause(log);
        }
        id
    }
}
