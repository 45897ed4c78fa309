//! The way of audio to the transcoding threads and back.
//!
//! A bridge gets a transcoder with the first piece that needs one. What the transcoder's queue has no room for is left
//! out: audio that comes too late is worth nothing, and a worker never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::bridge::CodedAudio;

use super::{Bridge, Machine};
use crate::event_loop::Worker;
use crate::ids::BridgeId;
use crate::transcoding::{Conversion, Pool, Replies, Reply, Transcoder};

/// Pieces whose arrival is remembered, to tell how long they took.
const ARRIVALS_MAX: usize = 64;

/// Bits of a transcoder's token that are the index of its bridge.
const INDEX_BITS: u32 = 24;

/// What a bridge has of transcoding.
#[derive(Default)]
pub(super) struct Audio {
    state: State,
    /// When pieces were handed over: their time in the stream, and ours.
    arrivals: VecDeque<(i64, Instant)>,
}

#[derive(Default)]
enum State {
    /// Nothing has needed it yet.
    #[default]
    Unused,
    Runs(Transcoder, u64),
    /// There was no room for it, or it has failed: audio is left out.
    Without,
}

/// What a worker has of transcoding.
pub(crate) struct Transcoding {
    pool: Pool,
    replies: Arc<Replies>,
    /// Taken and not handled yet.
    inbox: VecDeque<Reply>,
    last_token: u64,
}

impl Transcoding {
    /// Transcoders of `pool`, which answer to this worker by `replies`.
    pub(crate) fn new(pool: Pool, replies: Arc<Replies>) -> Self {
        Self { pool, replies, inbox: VecDeque::new(), last_token: 0 }
    }

    /// What has come back; `None` when nothing has, which costs next to nothing to find out.
    pub(super) fn next_reply(&mut self) -> Option<Reply> {
        if self.inbox.is_empty() {
            self.replies.take(&mut self.inbox);
        }
        self.inbox.pop_front()
    }
}

impl Audio {
    /// Whether replies under this token are for it.
    fn is_token(&self, token: u64) -> bool {
        matches!(self.state, State::Runs(_, own) if own == token)
    }

    fn note_arrival(&mut self, pts_us: i64, now: Instant) {
        if self.arrivals.len() == ARRIVALS_MAX {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back((pts_us, now));
    }

    /// How long ago the piece arrived that `pts_us` is in: of two pieces that one was made of, the later.
    fn latency(&mut self, pts_us: i64, now: Instant) -> Option<Duration> {
        let mut arrival = None;
        while let Some((_, at)) = self.arrivals.pop_front_if(|(begin_us, _)| *begin_us <= pts_us) {
            arrival = Some(at);
        }
        arrival.map(|at| now.saturating_duration_since(at))
    }
}

impl Bridge {
    /// Audio cannot be transcoded.
    fn refuse_audio(&mut self, reason: &str) {
        self.note = Some(reason.into());
        if let Machine::FrameToRtp(machine) = &mut self.machine {
            machine.refuse_audio(reason);
        }
    }
}

impl Worker {
    /// Hands audio over to be transcoded.
    pub(super) fn bridge_transcode(&mut self, index: BridgeId, audio: &mut Vec<CodedAudio>) {
        if audio.is_empty() {
            return;
        }
        self.bridge_open_transcoder(index);
        let now = self.ctx.now;
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        for piece in audio.drain(..) {
            bridge.audio.note_arrival(piece.pts_us, now);
            let taken = match &mut bridge.audio.state {
                State::Runs(transcoder, _) => transcoder.push(piece).is_ok(),
                State::Unused | State::Without => false,
            };
            bridge.cost.audio_dropped += u64::from(!taken);
            self.bridges.counters.audio_dropped += u64::from(!taken);
        }
    }

    fn bridge_open_transcoder(&mut self, index: BridgeId) {
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        if !matches!(bridge.audio.state, State::Unused) {
            return;
        }
        let conversion = match bridge.machine {
            Machine::FrameToRtp(_) => Conversion::ToOpus,
            Machine::RtpToFrame(_) => Conversion::ToAac,
        };
        let transcoding = &mut self.bridges.transcoding;
        // The index finds the bridge of a reply; what is above it tells whether it is still the same bridge.
        transcoding.last_token += 1;
        let token = transcoding.last_token << INDEX_BITS | u64::from(index.0);
        let key = self.streams.slab.get(bridge.frames).map_or("", |stream| &*stream.publication.key);
        bridge.audio.state = match transcoding.pool.open(conversion, token, &transcoding.replies) {
            Ok(transcoder) => {
                self.bridges.counters.transcoders_started += 1;
                State::Runs(transcoder, token)
            }
            Err(refused) => {
                self.bridges.counters.transcoders_refused += 1;
                tracing::warn!(stream = key, reason = %refused, "no audio through the bridge");
                bridge.refuse_audio(&refused.to_string());
                State::Without
            }
        };
    }

    /// Adds up what a reply says; the bridge it is for, if that is still there.
    pub(super) fn bridge_note_reply(&mut self, reply: &Reply) -> Option<BridgeId> {
        self.bridges.counters.transcoding_cpu_us += reply.cpu.as_micros() as u64;
        let index = BridgeId((reply.bridge & ((1 << INDEX_BITS) - 1)) as u32);
        let bridge = self.bridges.slab.get_mut(index).filter(|bridge| bridge.audio.is_token(reply.bridge))?;
        bridge.cost.transcoding += reply.cpu;
        bridge.cost.audio_frames += reply.audio.len() as u64;
        bridge.cost.broken += reply.broken;
        bridge.cost.audio_dropped += reply.dropped;
        self.bridges.counters.audio_dropped += reply.dropped;
        for piece in &reply.audio {
            if let Some(latency) = bridge.audio.latency(piece.pts_us, self.ctx.now) {
                bridge.cost.audio.note(latency);
            }
        }
        if let Some(error) = &reply.error {
            let key = self.streams.slab.get(bridge.frames).map_or("", |stream| &*stream.publication.key);
            tracing::warn!(stream = key, error, "audio of a bridge");
            // Until the publisher changes it; what has ended does not come back.
            bridge.refuse_audio(error);
            if reply.ended {
                bridge.audio.state = State::Without;
            }
        }
        Some(index)
    }
}
