//! Bridges between the lanes of the streams whose home this worker is: frames to packets, packets to frames.
//!
//! ```text
//! publisher by RTMP ─▶ frames ─▶ FrameToRtp ─▶ packets ─▶ players by WHEP, other workers
//!                                 │    ▲
//!                                 ▼    │ audio, on transcoding threads
//! players by FLV, RTMP ◀─ frames ◀─ RtpToFrame ◀─ packets ◀─ publisher by WHIP
//! ```
//!
//! A bridge begins with the first player of the other lane, wherever that is, and ends some seconds after the
//! last. What comes out of it is a publication of its own in the other lane, so that everything behind it is
//! as with a publisher.
//!
//! [`Bridges`] owns the bridges, their timers and counters, and knows no stream: what goes in is an argument,
//! what comes out is an [`Output`], which the worker puts into the streams it is for (`run.rs`). It also
//! begins and ends bridges (`begin.rs`, `hand_over.rs`). `transcoding.rs` is the way of audio,
//! `describe.rs` says what a stream of frames is as packets, `report.rs` what bridges cost. Media itself
//! is the business of the crates `bridge` and `transcode`.

mod begin;
mod describe;
mod hand_over;
mod report;
mod run;
mod transcoding;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::bridge::clock::ClockMappings;
use ::bridge::{FrameToRtp, FramesOut, PacketsOut, Refused, RtpToFrame};

use self::transcoding::Audio;
pub(crate) use self::transcoding::Transcoding;
use crate::ids::{BridgeId, FrameStreamId, PacketStreamId, Table};
use crate::net::Clock;
use crate::registry::{Epoch, StreamId};
use crate::timers::Timers;
use worker_api::hand_over::HandedBridge;
use worker_api::snapshot::BridgeCounters;

/// What a bridge does.
pub(super) enum Machine {
    /// From RTMP to WebRTC.
    FrameToRtp(Box<FrameToRtp>),
    /// From WebRTC to RTMP and FLV.
    RtpToFrame(Box<RtpToFrame>),
}

/// Why a bridge has ended, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BridgeEnd {
    /// What goes into it has ended.
    PublisherGone,
    /// Nobody has played what comes out of it for a while.
    NoPlayer,
    /// A defect in the server.
    Defect,
}

impl BridgeEnd {
    fn text(self) -> &'static str {
        match self {
            Self::PublisherGone => "the publisher has gone",
            Self::NoPlayer => "no player is left",
            Self::Defect => "defect in the server",
        }
    }
}

/// A running bridge.
pub(super) struct Bridge {
    stream: StreamId,
    /// Name of the stream, for the log.
    key: Arc<str>,
    /// Index of the stream of frames.
    frames: FrameStreamId,
    /// Index of the stream of packets.
    packets: PacketStreamId,
    /// The publication that goes in.
    publication: Epoch,
    /// What comes out.
    epoch: Epoch,
    machine: Machine,
    audio: Audio,
    /// Since when there has been no player.
    idle_since_ms: Option<u64>,
    started_ms: u64,
    /// When its timer is set to, if it is.
    due: Option<Instant>,
    cost: Cost,
    /// What the publisher sends and is not bridged, as the log has it.
    refused: Option<Refused>,
    /// Packets that a turn was taken for while it began.
    forwarded: u64,
}

/// All bridges of one worker.
pub(crate) struct Bridges {
    slab: Table<BridgeId, Bridge>,
    by_stream: HashMap<StreamId, BridgeId>,
    transcoding: Transcoding,
    counters: BridgeCounters,
    timers: Timers<Instant, BridgeId>,
    /// Streams to be described as packets again, and when; each waits as long. An entry counts only if it is
    /// the one that its stream was last set to.
    descriptions: VecDeque<(u64, FrameStreamId)>,
    /// Audio that has been transcoded is left to wait: another process is about to go on with bridges.
    pub(crate) is_held: bool,
    /// Of another process, by the keys of their streams, until their publishers are here.
    pub(crate) handed: HashMap<String, HandedBridge>,
    /// Kept for its memory.
    spare: (PacketsOut, FramesOut),
}

impl Bridges {
    /// None yet.
    pub(crate) fn new(transcoding: Transcoding) -> Self {
        Self {
            slab: Table::default(),
            by_stream: HashMap::new(),
            transcoding,
            counters: BridgeCounters::default(),
            timers: Timers::default(),
            descriptions: VecDeque::new(),
            is_held: false,
            handed: HashMap::new(),
            spare: Default::default(),
        }
    }

    /// How many run.
    #[cfg(feature = "simulated")]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}

impl std::fmt::Debug for Bridges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridges").field("running", &self.slab.len()).finish_non_exhaustive()
    }
}

/// What came out of a bridge, to be put into the streams that it is between, then given to
/// [`Bridges::finish`].
pub(super) struct Output {
    bridge: BridgeId,
    /// For the stream of packets, as if they had been received.
    packets: PacketsOut,
    /// What ties the timestamps of that stream to the clock.
    mappings: ClockMappings,
    /// For the stream of frames, as if a publisher had sent them.
    frames: FramesOut,
    /// CPU time of this thread when it began.
    begun: Duration,
    /// A video frame went in.
    is_video: bool,
}

impl Output {
    /// In memory that was used before.
    fn begin(spare: &mut (PacketsOut, FramesOut), bridge: BridgeId) -> Self {
        let (packets, frames) = std::mem::take(spare);
        Self {
            bridge,
            packets,
            frames,
            mappings: ClockMappings::default(),
            begun: Clock::thread_cpu_time(),
            is_video: false,
        }
    }
}

/// Costs of one bridge since it started.
#[derive(Debug, Default)]
struct Cost {
    /// On the worker.
    cpu: Duration,
    /// On transcoding threads.
    transcoding: Duration,
    audio_frames: u64,
    audio_dropped: u64,
    /// Audio frames that could not be decoded.
    broken: u64,
    video: Latency,
    audio: Latency,
}

/// The median latency of the last second.
#[derive(Debug, Default)]
struct Latency {
    samples_us: Vec<u32>,
    median_us: u32,
}

impl Latency {
    /// Notes one.
    fn note(&mut self, latency: Duration) {
        if self.samples_us.len() < SAMPLES_MAX {
            self.samples_us.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        }
    }

    /// Ends a second.
    fn sample(&mut self) {
        if self.samples_us.is_empty() {
            return;
        }
        let middle = self.samples_us.len() / 2;
        self.median_us = *self.samples_us.select_nth_unstable(middle).1;
        self.samples_us.clear();
    }

    /// Of the last second that had any, microseconds.
    fn median_us(&self) -> u32 {
        self.median_us
    }
}

/// Latencies kept of a second; of more frames the first are representative enough.
const SAMPLES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_second_that_had_samples() {
        let mut latency = Latency::default();
        for us in [5, 1, 9] {
            latency.note(Duration::from_micros(us));
        }
        latency.sample();
        assert_eq!(latency.median_us(), 5);
        latency.sample();
        assert_eq!(latency.median_us(), 5, "a second without frames says nothing new");
        (0..2 * SAMPLES_MAX).for_each(|_| latency.note(Duration::from_micros(7)));
        latency.sample();
        assert_eq!(latency.median_us(), 7);
    }
}
