//! Deadlines: what ends because nothing happened.
//!
//! All sessions are looked at a few times a second. A deadline is therefore kept to within a tenth of a
//! second, and costs nothing per packet.

use std::time::Duration;

use crate::event_loop::Worker;
use crate::frames::stream::FrameStream;
use crate::ids::ConnId;
use crate::proto::connections::LINGER_MS;
use crate::proto::session::{Media, Session, State};
use crate::rtsp::RtspLink;
use worker_api::{EndReason, Refused};

/// What a sweep finds about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeoutAction {
    Fine,
    /// It waits for a request, which takes no session.
    GoIdle,
    /// Look at its queue: the limits of a blocked player count from its last byte.
    Review,
    /// Remove it at once.
    Remove(EndReason),
    /// Tell it why, then close.
    End(EndReason),
    /// The same, and it counts as a peer's fault.
    Overdue,
}

impl Worker {
    /// Checks every deadline; ends the second when it is over.
    pub(crate) fn sweep(&mut self) {
        let samples = self.ctx.load.is_due(self.ctx.now_ms);
        let draining = self.ctx.draining_until;
        self.frames.review_taps(self.ctx.now_ms);
        for conn in self.connections.sessions.ids() {
            if !self.connections.sessions.contains(conn) {
                continue;
            }
            self.trace_packets(conn);
            match self.examine(conn, draining) {
                TimeoutAction::Fine => {}
                TimeoutAction::GoIdle => self.go_idle(conn),
                TimeoutAction::Review => self.write(conn),
                TimeoutAction::Remove(reason) => self.remove(conn, reason),
                TimeoutAction::End(reason) => {
                    if reason == EndReason::NoPublisher {
                        self.describe_nothing(conn);
                    }
                    self.end(conn, reason);
                }
                TimeoutAction::Overdue => self.overdue(conn),
            }
        }
        self.sweep_segments();
        self.sweep_hooks();
        self.sweep_rtsp();
        self.idle.sweep(&self.ctx);
        self.packets.sweep(&mut self.ctx);
        self.carry_out_actions();
        self.sweep_relay();
        self.bridge_sweep(samples);
        if samples {
            let now_ms = self.ctx.now_ms;
            self.ctx.load.bytes_out += self.packets.take_sent_bytes();
            let elapsed_ms = self.ctx.load.sample(now_ms);
            self.end_second();
            self.frames.streams.iter_mut().for_each(|(_, stream)| stream.delivery.sample_rates(now_ms));
            self.send_stats(elapsed_ms);
        }
    }

    fn examine(&self, conn: ConnId, draining: Option<u64>) -> TimeoutAction {
        let session = &self.connections.sessions[conn];
        if session.is_handed_over {
            return TimeoutAction::Fine;
        }
        let settings = &self.ctx.settings;
        let now_ms = self.ctx.now_ms;
        let passed =
            |since_ms: u64, limit: Duration| u128::from(now_ms.saturating_sub(since_ms)) > limit.as_millis();
        if let Some(at_ms) = session.closing_at_ms {
            return if now_ms >= at_ms {
                TimeoutAction::Remove(EndReason::Closed)
            } else {
                TimeoutAction::Fine
            };
        }
        if let State::Rtsp(link) = &session.state
            && let Some(action) = self.examine_rtsp(session, link)
        {
            return action;
        }
        if let (State::Srt(link), Media::Publish(_)) = (&session.state, &session.media)
            && let (since_ms, Some(unreadable)) = link.unreadable()
            && passed(since_ms, settings.publisher_idle_timeout)
            // The end of what it sent before it fell silent may be part of a frame.
            && !passed(session.received_ms, settings.publisher_idle_timeout / 2)
        {
            return TimeoutAction::End(EndReason::NothingCarried(unreadable.reason()));
        }
        let has_ended = session.ends_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
        if has_ended && matches!(session.media, Media::Publish(_) | Media::PublishPackets(_) | Media::Play(_))
        {
            return TimeoutAction::End(EndReason::TokenExpired);
        }
        let by_hook = session.hook.as_ref().and_then(|hook| hook.ends_at_ms);
        if by_hook.is_some_and(|at_ms| now_ms >= at_ms) && !matches!(session.media, Media::None) {
            return TimeoutAction::End(EndReason::TimeOver);
        }
        match &session.media {
            Media::None if draining.is_some() => TimeoutAction::End(EndReason::Draining),
            Media::None if session.awaits_request() && session.has_sent_all() && !session.reads_again => {
                TimeoutAction::GoIdle
            }
            Media::None if !session.body.is_empty() => {
                // A slow reader may take its time, as long as it takes something.
                match session.blocked && passed(session.written_ms, settings.handshake_timeout) {
                    true => TimeoutAction::Remove(EndReason::Stalled),
                    false => TimeoutAction::Fine,
                }
            }
            // How long a request may wait for a part is for `segments.rs`.
            Media::None if matches!(&session.state, State::HttpHead(head) if head.waits) => {
                TimeoutAction::Fine
            }
            Media::None if passed(session.unused_since_ms, settings.handshake_timeout) => {
                TimeoutAction::Overdue
            }
            Media::None => TimeoutAction::Fine,
            Media::Publish(_) | Media::PublishPackets(_) if draining.is_some() => {
                TimeoutAction::End(EndReason::Draining)
            }
            Media::Publish(_) | Media::PublishPackets(_)
                if passed(session.received_ms, settings.publisher_idle_timeout) =>
            {
                TimeoutAction::End(EndReason::SilentPublisher)
            }
            Media::Publish(_) | Media::PublishPackets(_) => TimeoutAction::Fine,
            &Media::Tap(tap) => {
                let tap = &self.frames.taps[tap];
                let FrameStream { publication, settings, .. } = &self.frames.streams[tap.stream];
                if draining.is_some() {
                    TimeoutAction::Remove(EndReason::Draining)
                } else if tap.frames.is_abandoned() {
                    TimeoutAction::Remove(EndReason::ClosedByPeer)
                } else if publication.is_overdue(tap.joined_ms, settings.wait_for_publisher, now_ms) {
                    TimeoutAction::Remove(EndReason::NoPublisher)
                } else if passed(tap.read_ms, settings.player_stall_timeout) {
                    TimeoutAction::Remove(EndReason::Stalled)
                } else {
                    TimeoutAction::Fine
                }
            }
            &Media::Play(player) => {
                let player = &self.frames.players[player];
                let stream = &self.frames.streams[player.stream];
                let lag = self.frames.lag_bytes(player);
                // A draining player first gets what it is owed, while there is time to tell it why.
                if draining.is_some_and(|until| lag == 0 || now_ms + LINGER_MS / 2 >= until) {
                    return TimeoutAction::End(EndReason::Draining);
                }
                let wait = stream.settings.wait_for_publisher;
                if lag == 0 && stream.publication.is_overdue(player.joined_ms, wait, now_ms) {
                    return TimeoutAction::End(EndReason::NoPublisher);
                }
                let stalled = session.pending.len() > 0
                    && passed(session.written_ms, stream.settings.player_stall_timeout);
                match session.blocked {
                    true if stalled => TimeoutAction::Remove(EndReason::Stalled),
                    true => TimeoutAction::Review,
                    false => TimeoutAction::Fine,
                }
            }
        }
    }

    /// What is due of a session by RTSP alone.
    fn examine_rtsp(&self, session: &Session, link: &RtspLink) -> Option<TimeoutAction> {
        let (now_ms, settings) = (self.ctx.now_ms, &self.ctx.settings);
        let passed = |since_ms: Option<u64>, limit: Duration| {
            since_ms.is_some_and(|since_ms| u128::from(now_ms.saturating_sub(since_ms)) > limit.as_millis())
        };
        if passed(link.partial_since_ms(), settings.handshake_timeout) {
            return Some(TimeoutAction::Overdue);
        }
        match session.media {
            Media::None => None,
            _ if passed(link.begun_since_ms(), settings.handshake_timeout) => Some(TimeoutAction::Overdue),
            Media::Publish(_) | Media::PublishPackets(_)
                if passed(Some(link.media_ms()), settings.publisher_idle_timeout) =>
            {
                Some(TimeoutAction::End(EndReason::SilentPublisher))
            }
            // Of publishers media says more.
            Media::Play(_) if passed(link.silent_since_ms(), settings.rtsp.silence_max) => {
                Some(TimeoutAction::Remove(EndReason::SilentPeer))
            }
            _ => None,
        }
    }

    fn overdue(&mut self, conn: ConnId) {
        self.ctx.counters.protocol_errors += 1;
        match &mut self.connections.sessions[conn].state {
            State::Rtsp(link) => {
                link.machine.time_out();
                self.connections.sessions[conn].collect_output();
                self.end(conn, EndReason::NoRequest);
            }
            State::HttpHead(head) if !head.bytes.is_empty() => {
                self.answer(conn, Refused::new(408, "the request took too long"))
            }
            _ => self.remove(conn, EndReason::NoRequest),
        }
    }
}
