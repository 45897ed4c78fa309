//! A source inside the server, as channels and pulls are: frames through a queue of the process, no socket.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use netsim::kernel::{self, EventQueue};
use rtmp::MediaMessage;
use rtmp::flv::read_frames;
use tokio::sync::oneshot;
use worker_api::command::Command;
use worker_api::internal::{InternalPublish, PublishRequest, Publisher, Refusal, queue};
use worker_api::snapshot::{Protocol, SessionId};

use super::rtmp_publish::Plan;
use super::{Actor, Leave, Next, ms};
use crate::content::{Content, FRAME_MS, TaggedFrame};
use crate::ledger::Ledger;

/// A source.
pub struct InternalPublisher {
    plan: Plan,
    queue: EventQueue,
    publisher: Option<Publisher>,
    opening: Option<oneshot::Receiver<Result<SessionId, Refusal>>>,
    content: Option<Content>,
    number: u32,
    next_frame: Instant,
    began: Instant,
    silent: Option<Instant>,
    leaving: bool,
    /// For the time limits of the queue, which are never waited for.
    runtime: tokio::runtime::Runtime,
}

impl InternalPublisher {
    /// One that asks a worker now.
    pub fn new(ledger: &mut Ledger, plan: Plan) -> Self {
        ledger.attempt(plan.key);
        let (publisher, frames) = queue(1 << 20);
        let request = PublishRequest {
            app: "live".to_owned(),
            name: plan.key.name(),
            protocol: Protocol::Channel,
            address: SocketAddr::new(plan.from, 0),
            detail: String::new(),
        };
        let (reply, opening) = oneshot::channel();
        let handles = &ledger.servers[plan.key.server].handles;
        let worker = ledger.random.below(handles.len() as u64) as usize;
        let asked =
            handles[worker].send(Command::Publish(Box::new(InternalPublish { request, frames, reply })));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let now = kernel::now();
        Self {
            plan,
            queue: EventQueue::new(),
            publisher: Some(publisher),
            opening: asked.is_ok().then_some(opening),
            content: None,
            number: 0,
            next_frame: now,
            began: now,
            silent: None,
            leaving: false,
            runtime,
        }
    }

    fn who(&self) -> String {
        format!("source {} of {:?}", self.plan.from, self.plan.key)
    }

    /// Sends one frame; false if there is no room, or the publication is over.
    fn send(&mut self, frame: TaggedFrame) -> bool {
        let Some(publisher) = &mut self.publisher else { return false };
        let length = frame.body.len() as u32;
        let message =
            MediaMessage { kind: frame.kind, timestamp: frame.timestamp, length, payload: frame.body };
        let (frame, others) = read_frames(message).expect("a frame");
        debug_assert!(others.is_empty());
        let _entered = self.runtime.enter();
        let mut sending = pin!(publisher.send(Arc::new(frame)));
        let sent = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        matches!(sent, Poll::Ready(Ok(())))
    }

    fn is_over(&mut self, ledger: &mut Ledger) -> bool {
        let may = self.silent.is_some() || ledger.may_end_publisher(self.plan.key);
        let who = self.who();
        let Some(publisher) = &mut self.publisher else { return true };
        let mut ended = pin!(publisher.ended());
        match ended.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reason) => {
                ledger.say(|| format!("{who}: ended: {reason:?}"));
                ledger.check(may, || format!("{who}: ended: {reason:?}"));
                true
            }
            Poll::Pending => false,
        }
    }

    fn end(&mut self, ledger: &mut Ledger) -> Next {
        if let Some(content) = self.content.take() {
            ledger.ended(content.id);
        }
        self.publisher = None;
        Next::Done
    }
}

impl Actor for InternalPublisher {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        if let Some(opening) = &mut self.opening {
            match opening.try_recv() {
                Ok(Ok(_)) => {
                    self.opening = None;
                    let Plan { key, gop, video_bytes, .. } = self.plan;
                    let content = ledger.publish(key, gop, video_bytes, true);
                    let who = self.who();
                    ledger.say(|| format!("{who}: publication {} begins", content.id));
                    for config in content.configs() {
                        self.send(config);
                    }
                    self.content = Some(content);
                    (self.began, self.next_frame) = (now, now);
                }
                Ok(Err(refusal)) => {
                    let may = ledger.may_end_publisher(self.plan.key);
                    ledger.check(may, || format!("{}: refused: {refusal:?}", self.who()));
                    return Next::Done;
                }
                Err(oneshot::error::TryRecvError::Empty) => {
                    let late = now > self.began + ms(2_000) + ledger.slack && !ledger.is_draining;
                    ledger.check(!late, || format!("{}: no answer from the worker", self.who()));
                    return if late { Next::Done } else { Next::At(now + ms(10)) };
                }
                Err(oneshot::error::TryRecvError::Closed) => return Next::Done,
            }
        }
        if self.content.is_none() || self.is_over(ledger) {
            ledger.cut(self.plan.key);
            return self.end(ledger);
        }
        if let Some(since) = self.silent {
            let limit = ledger.servers[self.plan.key.server].publisher_idle_timeout + ms(5_000);
            let late = now > since + limit + ledger.slack;
            ledger.check(!late, || format!("{}: silent for {:?} and not ended", self.who(), now - since));
            return if late || self.leaving { self.end(ledger) } else { Next::At(now + ms(500)) };
        }
        if self.leaving || now >= self.began + self.plan.lasts {
            if self.plan.leave == Leave::Silently && !self.leaving {
                if let Some(content) = self.content {
                    ledger.ended(content.id);
                }
                self.silent = Some(now);
                return Next::At(now + ms(500));
            }
            return self.end(ledger);
        }
        while self.next_frame <= now
            && let Some(content) = self.content
        {
            if !self.send(content.frame(self.number)) {
                break;
            }
            ledger.sent(content.id, self.number);
            self.number += 1;
            self.next_frame += ms(u64::from(FRAME_MS));
        }
        if let Some(publisher) = &self.publisher {
            publisher.flush();
        }
        Next::At(self.next_frame.max(now + ms(1)))
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for InternalPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InternalPublisher").field("plan", &self.plan).finish_non_exhaustive()
    }
}
