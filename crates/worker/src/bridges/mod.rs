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
//! what comes out is an `Output` (`convert.rs`). The worker
//! begins and ends bridges (`begin.rs`) and puts outputs into the streams they are for (`run.rs`).
//! `describe.rs` says what a stream of frames is as packets, `report.rs` what bridges cost. Media itself is
//! the business of the crates `bridge` and `transcode`.

mod begin;
mod convert;
mod cost;
mod describe;
mod report;
mod run;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use ::bridge::{FrameToRtp, FramesOut, PacketsOut, Refused, RtpToFrame};

use self::convert::Audio;
pub(crate) use self::convert::Transcoding;
use self::cost::Cost;
use crate::ids::{BridgeId, FrameStreamId, PacketStreamId, Table};
use crate::registry::{Epoch, StreamId};
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
    /// What the publisher sends and is not bridged to WebRTC, as the log has it.
    refused: Option<Refused>,
    /// Why audio is not bridged to frames.
    audio_refused: Option<&'static str>,
    /// Packets that a turn was taken for while it began.
    forwarded: u64,
}

/// All bridges of one worker.
pub(crate) struct Bridges {
    slab: Table<BridgeId, Bridge>,
    by_stream: HashMap<StreamId, BridgeId>,
    transcoding: Transcoding,
    counters: BridgeCounters,
    /// Earliest first. An entry counts only if it is the one that its bridge was last set to.
    timers: BinaryHeap<Reverse<(Instant, BridgeId)>>,
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
            timers: BinaryHeap::new(),
            spare: Default::default(),
        }
    }
}

impl std::fmt::Debug for Bridges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridges").field("running", &self.slab.len()).finish_non_exhaustive()
    }
}
