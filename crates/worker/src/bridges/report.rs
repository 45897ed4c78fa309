//! What bridges cost, for snapshots and metrics.

use super::{Bridge, Bridges, Machine};
use crate::context::Context;
use crate::ids::BridgeId;
use worker_api::snapshot::{BridgeCounters, BridgeDirection, BridgeSnapshot};

impl Machine {
    /// Which way it goes.
    pub(super) fn direction(&self) -> BridgeDirection {
        match self {
            Self::FrameToRtp(_) => BridgeDirection::FrameToRtp,
            Self::RtpToFrame(_) => BridgeDirection::RtpToFrame,
        }
    }
}

/// What a bridge has met, whichever way it goes.
#[derive(Default)]
pub(super) struct BridgeTotals {
    pub(super) video_frames: u64,
    pub(super) packets: u64,
    pub(super) b_frames_dropped: u64,
    pub(super) undecodable: u64,
    pub(super) other_tracks: u64,
    pub(super) broken: u64,
}

impl BridgeTotals {
    pub(super) fn add_to(&self, counters: &mut BridgeCounters) {
        counters.b_frames_dropped += self.b_frames_dropped;
        counters.undecodable += self.undecodable;
        counters.other_tracks += self.other_tracks;
        counters.broken += self.broken;
    }
}

impl Bridge {
    pub(super) fn totals(&self) -> BridgeTotals {
        match &self.machine {
            Machine::FrameToRtp(machine) => {
                let stats = machine.stats();
                BridgeTotals {
                    video_frames: stats.video_frames,
                    packets: stats.packets,
                    b_frames_dropped: stats.b_frames_dropped,
                    undecodable: stats.undecodable,
                    other_tracks: stats.other_tracks,
                    broken: stats.broken + self.cost.broken,
                }
            }
            Machine::RtpToFrame(machine) => {
                let stats = machine.stats();
                BridgeTotals {
                    video_frames: stats.video_frames,
                    packets: stats.packets,
                    b_frames_dropped: 0,
                    undecodable: stats.undecodable,
                    other_tracks: 0,
                    broken: stats.broken + stats.lost + stats.late + self.cost.broken,
                }
            }
        }
    }
}

impl Bridges {
    /// The bridge of a stream.
    pub(crate) fn snapshot(&self, ctx: &Context, id: Option<BridgeId>) -> Option<BridgeSnapshot> {
        let bridge = self.slab.get(id?)?;
        let Bridge { cost, .. } = bridge;
        let met = bridge.totals();
        Some(BridgeSnapshot {
            direction: bridge.machine.direction(),
            running_ms: ctx.now_ms - bridge.started_ms,
            video_frames: met.video_frames,
            packets: met.packets,
            audio_frames: cost.audio_frames,
            cpu_us: cost.cpu.as_micros() as u64,
            transcoding_cpu_us: cost.transcoding.as_micros() as u64,
            video_latency_us: cost.video.median_us(),
            audio_latency_us: cost.audio.median_us(),
            b_frames_dropped: met.b_frames_dropped,
            broken: met.broken,
            audio_dropped: cost.audio_dropped,
            refused: bridge.refused,
        })
    }

    /// Totals, with what running bridges have met so far.
    pub(crate) fn counters(&self) -> BridgeCounters {
        let mut counters = self.counters;
        for (_, bridge) in self.slab.iter() {
            bridge.totals().add_to(&mut counters);
            match bridge.machine {
                Machine::FrameToRtp(_) => counters.frame_to_rtp_running += 1,
                Machine::RtpToFrame(_) => counters.rtp_to_frame_running += 1,
            }
        }
        counters
    }
}
