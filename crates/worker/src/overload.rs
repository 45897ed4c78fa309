//! Whether one more is let in, by what this worker has measured (`fullness.rs`).

use std::time::Duration;

use crate::event_loop::Worker;
use crate::fullness::Second;
use crate::ids::{ConnId, TableId};
use crate::net::Clock;
use worker_api::auth::Denied;
use worker_api::overload::Overload;
use worker_api::snapshot::Role;

impl Worker {
    /// Caches give way before anybody is refused: groups of pictures for new players become smaller, so that
    /// these wait for a key frame, and connections without a request are closed.
    fn shrink_caches(&mut self) {
        let memory = self.ctx.mailboxes.gauges().memory().bytes();
        let is_short = self.ctx.settings.overload.is_short_of_memory(memory);
        let Some(divisor) = self.ctx.caches.second(is_short) else { return };
        if is_short {
            // Once each time that caches shrink: players by HLS would have to connect for each segment.
            self.idle.clear();
        }
        tracing::warn!(worker = self.ctx.worker.index(), divisor, memory, "caches have another size");
        for (_, stream) in self.frames.streams.iter_mut() {
            stream.delivery.limit_gop(self.ctx.caches.share(stream.settings.gop_cache_bytes_max));
        }
        self.packets.streams.limit_gop(self.ctx.caches.share(self.ctx.settings.rtc.gop_cache_bytes_max));
    }

    /// Whether a session's token and address have room for it, which holds its place from then on.
    pub(crate) fn take_uses(&mut self, conn: ConnId, token: Option<&str>) -> Result<(), Denied> {
        let session = &mut self.connections.sessions[conn];
        // By RTSP, and where a stream was taken, a client is asked about more than once.
        if session.uses.as_ref().is_some_and(|uses| uses.is_of(token)) {
            return Ok(());
        }
        session.uses = None;
        let settings = &self.ctx.settings;
        let (of, second) = ((token, session.address.ip()), Clock::since_1970().as_secs());
        let uses = settings.usage.take(&settings.usage_limits, of, self.ctx.now, second);
        session.uses = Some(Box::new(uses.map_err(Denied::Exceeded)?));
        Ok(())
    }

    /// Says what sessions have passed, where that is limited.
    fn report_usage(&mut self) {
        if !self.ctx.settings.usage_limits.counts_bytes() {
            return;
        }
        let second = Clock::since_1970().as_secs();
        let columns = &self.connections.columns;
        for (conn, session) in self.connections.sessions.iter_mut() {
            if let Some(uses) = &mut session.uses {
                uses.report(second, columns.bytes_in(conn) + columns.bytes_out(conn));
            }
        }
        let columns = &self.packets.columns;
        for (peer, session) in self.packets.sessions.iter_mut() {
            if let Some(uses) = &mut session.uses {
                uses.report(second, columns.bytes_in(peer) + columns.bytes_out(peer));
            }
        }
    }

    /// Why one more in this role is refused, if it is. Who refuses it counts it.
    pub(crate) fn overload(&self, role: Role) -> Option<Overload> {
        let gauges = self.ctx.mailboxes.gauges();
        gauges.overload(&self.ctx.settings.overload, role, self.ctx.worker.index())
    }

    /// Says how many there are now.
    pub(crate) fn update_fullness(&self) {
        if self.ctx.draining_until.is_none() {
            let (connections, others) = (self.connections.sessions.len(), self.packets.sessions.len());
            self.ctx.mailboxes.fullness().update(connections, others);
        }
    }

    /// At the beginning of a turn: notes how late the media is that was due before it.
    pub(crate) fn note_send_delay(&mut self) {
        let frames_ms = self.ctx.now_ms.saturating_sub(self.frames.next_due_ms());
        let late = self.packets.send_delay(self.ctx.now).max(Duration::from_millis(frames_ms));
        self.ctx.load.media_waited(late);
    }

    /// Says what the second was like that has just ended, and logs where players begin or cease to be
    /// refused.
    pub(crate) fn end_second(&mut self) {
        let last = self.ctx.load.last;
        let (publishers, players) = self.connections.columns.publishers_and_players();
        let members = (publishers + players) as usize + self.packets.sessions.len();
        let sessions = self.connections.sessions.len() + self.packets.sessions.len();
        self.ctx.mailboxes.fullness().sample(Second {
            load_percent: last.load_percent,
            sessions: u32::try_from(sessions).unwrap_or(u32::MAX),
            members: u32::try_from(members).unwrap_or(u32::MAX),
            joined: 0,
            loop_time: Duration::from_micros(last.loop_time_us_p99.into()),
            send_delay: last.send_delay,
            bytes_out: last.bytes_out,
        });
        self.report_usage();
        self.shrink_caches();
        let overload = self.overload(Role::Player);
        match (std::mem::replace(&mut self.overloaded, overload), overload) {
            (None, Some(overload)) => {
                let (load, reason) = (last.load_percent, overload.label());
                tracing::warn!(
                    worker = self.ctx.worker.index(),
                    reason,
                    load,
                    "players are refused from now on"
                );
            }
            (Some(_), None) => {
                tracing::info!(worker = self.ctx.worker.index(), "players are taken again");
            }
            _ => {}
        }
    }
}
