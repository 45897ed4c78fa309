//! Players inside this process ("taps"): they get the frames themselves, by reference, through a queue.
//!
//! What a tap gets is what this worker would send a worker that mirrors the stream: frames that no player of
//! this worker can use are left out, and who serves players from the rest comes to the same.

use std::sync::Arc;

use delivery::Received;
use media::{Frame, FrameRole};

use super::Frames;
use super::stream::FrameStream;
use crate::context::Context;
use crate::ids::{ConnId, FrameStreamId, TapId};
use worker_api::tap::FrameSender;

/// A player inside this process.
#[derive(Debug)]
pub(crate) struct Tap {
    /// The session that it is.
    pub(crate) conn: ConnId,
    pub(crate) stream: FrameStreamId,
    pub(crate) frames: FrameSender,
    pub(crate) joined_ms: u64,
    /// What was put into its queue since it was counted last.
    passed: Passed,
    is_listed: bool,
    /// Items that it had read at the last look at it.
    read_items: u64,
    /// When it last read one, or had read all.
    pub(crate) read_ms: u64,
}

/// What went to a tap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passed {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Frames {
    /// A tap joins a stream, which counts it as a player already, with what a player begins with.
    pub(crate) fn join_tap(
        &mut self,
        ctx: &Context,
        stream: FrameStreamId,
        conn: ConnId,
        frames: FrameSender,
    ) -> TapId {
        let id = self.taps.insert(Tap {
            conn,
            stream,
            frames,
            joined_ms: ctx.now_ms,
            passed: Passed::default(),
            is_listed: false,
            read_items: 0,
            read_ms: ctx.now_ms,
        });
        self.streams[stream].taps.push(id);
        self.start_tap(id);
        id
    }

    /// A source has begun on a stream: its taps learn of it.
    pub(super) fn start_taps(&mut self, stream: FrameStreamId) {
        for at in 0..self.streams[stream].taps.len() {
            self.start_tap(self.streams[stream].taps[at]);
        }
    }

    fn start_tap(&mut self, id: TapId) {
        let tap = &mut self.taps[id];
        let stream = &self.streams[tap.stream];
        let Some(source) = stream.publication.source else { return };
        let sent = tap.frames.start(source.epoch, stream.beginning());
        tap.note(id, sent, &mut self.served_taps);
    }

    /// The source of a stream has ended: its taps learn of it.
    pub(super) fn stop_taps(&mut self, stream: FrameStreamId) {
        let Some(stream) = self.streams.get(stream) else { return };
        for &id in &stream.taps {
            let tap = &mut self.taps[id];
            tap.frames.stop();
            tap.note(id, (0, 0), &mut self.served_taps);
        }
    }

    /// The next tap that has something new in its queue, of which its reader learns by this, and what.
    pub(crate) fn next_served_tap(&mut self) -> Option<(ConnId, Passed, u64)> {
        while let Some(id) = self.served_taps.pop() {
            if let Some(tap) = self.taps.get_mut(id) {
                tap.is_listed = false;
                tap.frames.flush();
                return Some((tap.conn, std::mem::take(&mut tap.passed), tap.frames.dropped()));
            }
        }
        None
    }

    /// Looks at the queues of all taps, a few times a second.
    pub(crate) fn review_taps(&mut self, now_ms: u64) {
        for (_, tap) in self.taps.iter_mut() {
            tap.frames.settle();
            tap.frames.flush();
            let read_items = tap.frames.read_items();
            if read_items != tap.read_items || tap.frames.queued_items() == 0 {
                (tap.read_items, tap.read_ms) = (read_items, now_ms);
            }
        }
    }

    /// A tap leaves its stream, which may have no player left then.
    pub(crate) fn leave_tap(&mut self, ctx: &mut Context, id: TapId) -> Option<Tap> {
        let tap = self.taps.remove(id)?;
        ctx.counters.queue_drops += tap.frames.dropped();
        let stream = &mut self.streams[tap.stream];
        stream.publication.players -= 1;
        stream.taps.retain(|&other| other != id);
        Some(tap)
    }
}

impl Tap {
    /// Puts a frame into the queue, of which its stream made this.
    pub(super) fn send(
        &mut self,
        id: TapId,
        frame: &Arc<Frame>,
        received: Option<Received>,
        headers: impl FnOnce() -> Vec<Arc<Frame>>,
        served: &mut Vec<TapId>,
    ) {
        // The end of all video or audio is nothing for players, but decides what other nodes say of the
        // stream.
        if received.is_none() && frame.role != FrameRole::End {
            return;
        }
        let is_entry = received.is_some_and(|received| received.entry);
        let sent = self.frames.send(frame, is_entry, headers);
        self.note(id, sent, served);
    }

    fn note(&mut self, id: TapId, (frames, bytes): (u64, u64), served: &mut Vec<TapId>) {
        self.passed.frames += frames;
        self.passed.bytes += bytes;
        if !std::mem::replace(&mut self.is_listed, true) {
            served.push(id);
        }
    }
}

impl FrameStream {
    /// What a new player begins with: headers, then the frames since the last key frame if they are kept.
    pub(crate) fn beginning(&self) -> Vec<Arc<Frame>> {
        let gop = self.relay.gop().frames().map(|(_, frame)| frame);
        let headers = if gop.len() > 0 { self.relay.entry_headers() } else { self.relay.headers() };
        headers.iter().chain(gop).map(Arc::clone).collect()
    }
}
