//! Publishers inside this process: channels, pulls and the demo.
//!
//! Each is a session like any other, which is counted, listed and ended the same way, but for its
//! connection: it has a queue of frames (`worker_api::internal`). There is nothing to negotiate and
//! nobody to authorise.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;

use media::FlvBody;

use crate::event_loop::Worker;
use crate::ids::ConnId;
use crate::proto::session::{Media, State};
use crate::publication::{Credential, PublishRefusal};
use worker_api::EndReason;
use worker_api::internal::{InternalPublish, Next, PublishRequest, Refusal};
use worker_api::snapshot::SessionId;

/// Frames taken from one publisher before the others have their turn.
const FRAMES_PER_TURN: usize = 64;

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

    /// What a publisher is to call when it has frames.
    fn notifier(&self, conn: ConnId, id: SessionId) -> impl Fn() + Send + Sync + 'static {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        move || {
            // A worker that has ended takes nothing.
            if sender.send((conn, id)).is_ok() {
                waker.wake_by_ref();
            }
        }
    }
}

impl Worker {
    /// Makes a publisher inside this process a session, or says why not.
    pub(crate) fn publish_internal(&mut self, publish: InternalPublish) {
        let InternalPublish { request, frames, reply } = publish;
        let PublishRequest { app, name, protocol, address, detail } = request;
        if self.ctx.draining_until.is_some() {
            let _ = reply.send(Err(Refusal::Draining));
            return;
        }
        if self.sessions.len() >= self.ctx.settings.sessions_max {
            self.ctx.counters.refused_full += 1;
            let _ = reply.send(Err(Refusal::Full));
            return;
        }
        let state = State::Internal(Box::new(frames));
        let conn = self.add_session(None, address, state, protocol);
        let session = &mut self.sessions[conn];
        let id = session.id;
        session.user_agent = (!detail.is_empty()).then(|| detail.chars().take(128).collect());
        if let State::Internal(frames) = &session.state {
            frames.on_ready(self.control.internal.notifier(conn, id));
        }
        let outcome = match self.publish(conn, (&app, &name), Credential::Own) {
            Ok(()) => Ok(id),
            Err(PublishRefusal::Draining) => Err(Refusal::Draining),
            Err(PublishRefusal::Taken | PublishRefusal::Denied(_)) => Err(Refusal::Taken),
        };
        let refused = outcome.is_err();
        // Who does not wait for the answer any more does not use the session either.
        if reply.send(outcome).is_err() || refused {
            self.remove(conn, EndReason::Refused("refused"));
        }
    }

    /// Takes frames of the publishers inside this process that have some.
    pub(crate) fn receive_internal(&mut self) {
        while let Ok((conn, id)) = self.control.internal.ready.try_recv() {
            // One that has more than a turn takes is in line for the next one already.
            if self.sessions.get(conn).is_some_and(|session| session.id == id && !session.reads_again) {
                self.take_frames(conn);
            }
        }
    }

    /// Takes frames of one publisher inside this process, as many as it may bring in a turn.
    pub(crate) fn take_frames(&mut self, conn: ConnId) {
        for _ in 0..FRAMES_PER_TURN {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            let State::Internal(frames) = &mut session.state else { return };
            let frame = match frames.receive() {
                Next::Frame(frame) => frame,
                Next::Empty => return,
                Next::Over => return self.remove(conn, EndReason::ClosedByPeer),
            };
            session.received_ms = self.ctx.now_ms;
            let (bytes, invalid) = (frame.bytes() as u64, frames.take_invalid());
            // Several tracks in one FLV body are one message.
            let messages = u64::from(frame.flv_body() != FlvBody::Sent) + invalid;
            self.columns.received(conn, bytes);
            self.columns.passed(conn, messages);
            self.ctx.counters.bytes_in += bytes;
            self.ctx.counters.frames_in += messages;
            self.ctx.counters.frames_invalid += invalid;
            self.ctx.load.bytes_in += bytes;
            if let Media::Publish(publish) = self.sessions[conn].media {
                self.receive_frame(publish.stream, &frame);
            }
        }
        self.read_next_turn(conn);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use media::{Codec, Frame, FrameRole, TrackId};
    use tokio::sync::oneshot;

    use super::*;
    use crate::packets::panic_tests::worker;
    use worker_api::internal::{Publisher, queue};
    use worker_api::link::Listed;
    use worker_api::snapshot::Protocol;

    /// Has `worker` publish `live/films`.
    fn publish(worker: &mut Worker) -> Result<(Publisher, ConnId), Refusal> {
        let (publisher, frames) = queue(1 << 20);
        let (reply, mut answer) = oneshot::channel();
        let request = PublishRequest {
            app: "live".to_owned(),
            name: "films".to_owned(),
            protocol: Protocol::Channel,
            address: "192.0.2.1:80".parse().expect("an address"),
            detail: "channel live/films".to_owned(),
        };
        worker.publish_internal(InternalPublish { request, frames, reply });
        let id = answer.try_recv().expect("an answer")?;
        let (conn, _) = worker.sessions.iter().find(|(_, session)| session.id == id).expect("a session");
        Ok((publisher, conn))
    }

    async fn send(publisher: &mut Publisher, frames: usize) {
        for _ in 0..frames {
            let (track, role) = (TrackId::AUDIO, FrameRole::Audio);
            let frame = Frame::new(track, role, Codec::Aac, Default::default(), vec![0; 10]);
            publisher.send(Arc::new(frame)).await.expect("room");
        }
        publisher.flush();
    }

    #[tokio::test]
    async fn frames_are_counted_and_others_have_their_turn() {
        let (mut worker, _) = worker();
        let (mut publisher, conn) = publish(&mut worker).expect("a free stream");
        send(&mut publisher, FRAMES_PER_TURN + 3).await;
        worker.receive_internal();
        assert_eq!(worker.ctx.counters.frames_in, 0, "nobody watches: it is read in a while");
        worker.ctx.now_ms += 100;
        worker.read_unwatched();
        assert_eq!(worker.ctx.counters.frames_in, FRAMES_PER_TURN as u64);
        worker.take_frames(conn);
        let counted = (worker.ctx.counters.frames_in, worker.ctx.counters.bytes_in);
        assert_eq!(counted, (67, 670));
        let listed = worker.snapshot(&Listed::All).sessions.remove(0);
        assert_eq!((listed.protocol, listed.bytes_in), (Protocol::Channel, 670));
        // Somebody watches: each batch is taken when it comes.
        worker.set_readable(conn, true).expect("no socket is asked");
        worker.take_frames(conn);
        publisher.count_invalid();
        worker.sessions[conn].reads_again = false;
        send(&mut publisher, 2).await;
        worker.receive_internal();
        assert_eq!((worker.ctx.counters.frames_in, worker.ctx.counters.frames_invalid), (70, 1));
    }

    #[tokio::test]
    async fn an_end_is_told_and_leaves_the_stream_free() {
        let (mut worker, _) = worker();
        let (mut publisher, conn) = publish(&mut worker).expect("a free stream");
        assert_eq!(publish(&mut worker).err(), Some(Refusal::Taken));
        worker.end(conn, EndReason::Kicked);
        assert_eq!(publisher.ended().await, EndReason::Kicked);
        let (mut publisher, _) = publish(&mut worker).expect("a free stream again");
        send(&mut publisher, 1).await;
        drop(publisher);
        worker.receive_internal();
        assert_eq!(worker.ctx.counters.frames_in, 1, "what was sent is taken first");
        assert!(worker.sessions.is_empty());
        worker.ctx.draining_until = Some(u64::MAX);
        assert_eq!(publish(&mut worker).err(), Some(Refusal::Draining));
    }
}
