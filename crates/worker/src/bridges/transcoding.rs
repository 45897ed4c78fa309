//! Audio of bridges by way of the transcoding threads.
//!
//! A bridge gets a transcoder with the first piece that needs one. What the transcoder's queue has no room
//! for is left out: audio that comes too late is worth nothing, and a worker never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::bridge::{PacketsOut, Refused, TrackRefusal};
use transcode::{AacSettings, Conversion, OpusSettings, Pool, Replies, Reply, Transcoder};

use super::{Bridge, Bridges, Machine, Output};
use crate::context::Context;
use crate::ids::BridgeId;

impl Bridges {
    /// Hands audio that came out over to be transcoded. The first piece opens the transcoder.
    pub(super) fn transcode(&mut self, ctx: &Context, out: &mut Output) {
        let Self { slab, transcoding, counters, .. } = self;
        let Some(bridge) = slab.get_mut(out.bridge) else { return };
        if matches!(bridge.audio.state, State::Unused) {
            let settings = ctx.settings.transcoding;
            let conversion = match bridge.machine {
                Machine::FrameToRtp(_) => {
                    Conversion::ToOpus(OpusSettings { bits_per_second: settings.opus_bits_per_second })
                }
                Machine::RtpToFrame(_) => {
                    Conversion::ToAac(AacSettings { bits_per_second: settings.aac_bits_per_second })
                }
            };
            // The index finds the bridge of a reply; what is above it tells whether it is still the same
            // bridge.
            transcoding.last_token += 1;
            let token = transcoding.last_token << INDEX_BITS | u64::from(out.bridge.0);
            bridge.audio.state = match transcoding.pool.open(conversion, token, &transcoding.replies) {
                Ok(transcoder) => {
                    counters.transcoders_started += 1;
                    State::Runs(transcoder, token)
                }
                Err(refused) => {
                    counters.transcoders_refused += 1;
                    tracing::warn!(
                        stream = &*bridge.key,
                        reason = refused.text(),
                        "no audio through the bridge"
                    );
                    bridge.refuse_audio(refused.text(), &mut out.packets);
                    State::Without
                }
            };
        }
        for piece in out.packets.audio.drain(..).chain(out.frames.audio.drain(..)) {
            bridge.audio.note_arrival(piece.pts_us, ctx.now);
            let is_taken = match &mut bridge.audio.state {
                State::Runs(transcoder, _) => transcoder.push(piece).is_ok(),
                State::Unused | State::Without => false,
            };
            if !is_taken {
                tracing::trace!(stream = &*bridge.key, "dropped: audio that no transcoder has room for");
                bridge.cost.audio_dropped += 1;
                counters.audio_dropped += 1;
            }
        }
    }

    /// What has come back; `None` when nothing has, which costs next to nothing to find out.
    pub(super) fn next_reply(&mut self) -> Option<Reply> {
        let Transcoding { inbox, replies, .. } = &mut self.transcoding;
        if inbox.is_empty() {
            replies.take(inbox);
        }
        inbox.pop_front()
    }

    /// Adds up what a reply says; the bridge it is for, if that is still there.
    pub(super) fn note_reply(&mut self, ctx: &Context, reply: &Reply) -> Option<BridgeId> {
        self.counters.transcoding_cpu_us += reply.cpu.as_micros() as u64;
        let id = BridgeId((reply.token & ((1 << INDEX_BITS) - 1)) as u32);
        let is_current = |bridge: &&mut Bridge| matches!(bridge.audio.state, State::Runs(_, token) if token == reply.token);
        let bridge = self.slab.get_mut(id).filter(is_current)?;
        bridge.cost.transcoding += reply.cpu;
        bridge.cost.audio_frames += reply.audio.len() as u64;
        bridge.cost.broken += reply.broken;
        bridge.cost.audio_dropped += reply.dropped;
        self.counters.audio_dropped += reply.dropped;
        if reply.dropped > 0 || reply.broken > 0 {
            let (dropped, broken) = (reply.dropped, reply.broken);
            tracing::trace!(stream = &*bridge.key, dropped, broken, "audio frames dropped by the transcoder");
        }
        for piece in &reply.audio {
            if let Some(latency) = bridge.audio.latency(piece.pts_us, ctx.now) {
                bridge.cost.audio.note(latency);
            }
        }
        if reply.ended {
            bridge.audio.state = State::Without;
        }
        Some(id)
    }

    /// Audio that has been transcoded comes back.
    pub(super) fn transcoded(&mut self, ctx: &Context, id: BridgeId, reply: &Reply) -> Option<Output> {
        let bridge = self.slab.get_mut(id)?;
        let mut out = Output::begin(&mut self.spare, id);
        if let Some(error) = reply.error {
            // Until the publisher changes it; what has ended does not come back.
            tracing::warn!(stream = &*bridge.key, error, "audio of a bridge");
            bridge.refuse_audio(error, &mut out.packets);
        }
        match &mut bridge.machine {
            Machine::FrameToRtp(machine) => {
                reply.audio.iter().for_each(|audio| machine.audio(ctx.now, audio, &mut out.packets));
            }
            Machine::RtpToFrame(machine) => {
                reply.audio.iter().for_each(|audio| machine.audio(ctx.now, audio, &mut out.frames));
            }
        }
        Some(out)
    }
}

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
    /// Transcoders of `pool`, whose threads call `wake` when there is something to take.
    pub(crate) fn new(pool: Pool, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { pool, replies: Replies::new(wake), inbox: VecDeque::new(), last_token: 0 }
    }
}

impl Audio {
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
    fn refuse_audio(&mut self, reason: &'static str, out: &mut PacketsOut) {
        match &mut self.machine {
            Machine::FrameToRtp(machine) => machine.refuse_audio(reason, out),
            Machine::RtpToFrame(_) => {
                self.refused = Some(Refused { video: None, audio: Some(TrackRefusal::Transcoder(reason)) });
            }
        }
    }
}
