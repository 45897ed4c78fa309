//! Publishers inside this process: channels, pulls and the demo.
//!
//! Each is a session like any other, which is counted, listed and ended the same way, but for its
//! connection: it has a queue of frames (`worker_api::internal`). There is nothing to negotiate and
//! nobody to authorise.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;

use media::FlvBody;

use super::connections::Connections;
use super::session::State;
use crate::context::Context;
use crate::ids::ConnId;
use worker_api::internal::Next;
use worker_api::snapshot::SessionId;

/// Frames taken from one publisher before the others have their turn.
pub(crate) const FRAMES_PER_TURN: usize = 64;

/// Publishers that have woken the worker. Each is in it once at most, until its queue has been
/// found empty.
#[derive(Debug)]
pub(crate) struct ReadyPublishers {
    /// With the session, because another one may have the id by now.
    ready: Receiver<(ConnId, SessionId)>,
    sender: Sender<(ConnId, SessionId)>,
    waker: Waker,
}

impl ReadyPublishers {
    /// None yet; they wake the worker by `waker`.
    pub(crate) fn new(waker: Waker) -> Self {
        let (sender, ready) = channel();
        Self { ready, sender, waker }
    }

    /// The next one that has woken the worker.
    pub(crate) fn next(&self) -> Option<(ConnId, SessionId)> {
        self.ready.try_recv().ok()
    }

    /// What a publisher is to call when it has frames.
    pub(crate) fn notifier(&self, conn: ConnId, id: SessionId) -> impl Fn() + Send + Sync + 'static {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        move || {
            // A worker that has ended takes nothing.
            if sender.send((conn, id)).is_ok() {
                waker.wake_by_ref();
            }
        }
    }
}

impl Connections {
    /// The next frame of a publisher inside this process.
    pub(crate) fn next_frame(&mut self, ctx: &mut Context, conn: ConnId) -> Next {
        let Some(session) = self.sessions.get_mut(conn) else { return Next::Empty };
        let State::Internal(frames) = &mut session.state else { return Next::Empty };
        let next = frames.receive();
        if let Next::Frame(frame) = &next {
            session.received_ms = ctx.now_ms;
            let (bytes, invalid) = (frame.bytes() as u64, frames.take_invalid());
            // Several tracks in one FLV body are one message.
            let messages = u64::from(frame.flv_body() != FlvBody::Sent) + invalid;
            self.columns.received(conn, bytes);
            self.columns.passed(conn, messages);
            ctx.counters.bytes_in += bytes;
            ctx.counters.frames_in += messages;
            ctx.counters.frames_invalid += invalid;
            ctx.load.bytes_in += bytes;
        }
        next
    }
}
