//! Bridges to packets that go on in another process: said here by the old one, gone on with by the new one
//! when their publishers are there (`resume_connection.rs`).
//!
//! Viewers see numbers, times and pictures go on: the next frame of the publisher becomes the next packets.

use std::time::{Duration, Instant};

use ::bridge::FrameToRtp;
use rtp::rtcp::NtpTime;
use sfu::WallClock;

use super::Machine;
use super::begin::frame_to_rtp_settings;
use crate::event_loop::Worker;
use crate::ids::{FrameStreamId, TableId};
use crate::net::Clock;
use worker_api::hand_over::HandedBridge;

/// A bridge that was said longer ago than this was said by another clock.
const AGE_MAX: Duration = Duration::from_secs(60);

impl Worker {
    /// What another process needs of the bridge from a stream's frames to packets, if there is one.
    /// Everything that has come from it is to have been forwarded.
    pub(crate) fn handed_bridge(&self, stream: FrameStreamId) -> Option<HandedBridge> {
        let publication = &self.frames.streams.get(stream)?.publication;
        let bridge = self.bridges.slab.get(publication.bridge?)?;
        let Machine::FrameToRtp(machine) = &bridge.machine else { return None };
        let now = self.ctx.now;
        let packets = self.packets.streams.get(bridge.packets)?;
        Some(HandedBridge {
            worker: self.ctx.worker.index(),
            app: publication.app().to_owned(),
            stream: publication.name().to_owned(),
            at: wall_clock(now).ntp(now).0,
            machine: machine.state(now),
            publisher: packets.sfu.publisher_position(now),
        })
    }

    /// Goes on with the bridge of a stream whose publisher goes on here, if it came with one.
    pub(crate) fn resume_bridge(&mut self, stream: FrameStreamId) {
        let publication = &self.frames.streams[stream].publication;
        let Some(handed) = self.bridges.handed.remove(&*publication.key) else { return };
        self.begin_bridge_to_packets(publication.id, Some(handed));
    }

    /// The machine of a bridge of another process.
    pub(super) fn resumed_machine(&self, stream: FrameStreamId, handed: &HandedBridge) -> FrameToRtp {
        let settings = frame_to_rtp_settings(self.frames.streams[stream].settings.bridge);
        let said = wall_clock(self.ctx.now).instant(NtpTime(handed.at));
        let is_likely = |at: &Instant| *at <= self.ctx.now && self.ctx.now - *at <= AGE_MAX;
        let at = said.filter(is_likely).unwrap_or(self.ctx.now);
        FrameToRtp::resumed(settings, at, handed.machine.clone())
    }
}

/// The time of day as it is now in both processes. Those of their reports are of when each was started.
fn wall_clock(now: Instant) -> WallClock {
    WallClock { at: now, ntp: NtpTime::from_unix(Clock::since_1970()) }
}
