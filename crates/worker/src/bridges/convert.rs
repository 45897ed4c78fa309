//! Media through a bridge: what goes in, what comes out of that as a value, and audio by way of the
//! transcoding threads.
//!
//! A bridge gets a transcoder with the first piece that needs one. What the transcoder's queue has no room
//! for is left out: audio that comes too late is worth nothing, and a worker never waits.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::bridge::clock::ClockMappings;
use ::bridge::{FramesOut, PacketsOut};
use media::{Frame, MediaKind, Timestamp};
use sfu::Packet;
use transcode::{AacSettings, Conversion, OpusSettings, Pool, Replies, Reply, Transcoder};

use super::{Bridge, Bridges, Machine};
use crate::context::Context;
use crate::ids::BridgeId;
use crate::net::Clock;

/// Soonest a bridge is asked again, by a timer of its own.
const TIMER_MIN: Duration = Duration::from_millis(1);

/// What came out of a bridge, to be put into the streams that it is between, then given to
/// [`Bridges::finish`].
pub(super) struct Output {
    pub(super) bridge: BridgeId,
    /// For the stream of packets, as if they had been received.
    pub(super) packets: PacketsOut,
    /// What ties the timestamps of that stream to the clock.
    pub(super) mappings: ClockMappings,
    /// For the stream of frames, as if a publisher had sent them.
    pub(super) frames: FramesOut,
    /// CPU time of this thread when it began.
    begun: Duration,
    /// A video frame went in.
    is_video: bool,
}

impl Bridges {
    /// A frame of the publisher, at its place on the stream's timeline.
    pub(super) fn frame(
        &mut self,
        ctx: &Context,
        id: BridgeId,
        time: Timestamp,
        frame: &Frame,
    ) -> Option<Output> {
        let Machine::FrameToRtp(machine) = &mut self.slab.get_mut(id)?.machine else { return None };
        let mut out = Output::begin(&mut self.spare, id);
        machine.frame(ctx.now, time, frame, &mut out.packets);
        out.is_video = frame.track.kind == MediaKind::Video;
        self.transcode(ctx, &mut out);
        Some(out)
    }

    /// The configuration of a track that has ended, and may go on.
    pub(super) fn ended_track(
        &mut self,
        ctx: &Context,
        id: BridgeId,
        time: Timestamp,
        config: &Frame,
    ) -> Option<Output> {
        let mut out = self.frame(ctx, id, time, config)?;
        if let Machine::FrameToRtp(machine) = &mut self.slab[id].machine {
            machine.track_ended(config.track.kind, &mut out.packets);
        }
        Some(out)
    }

    /// Packets of the publisher that have just been taken in.
    pub(super) fn packets(&mut self, ctx: &Context, id: BridgeId, packets: &[Arc<Packet>]) -> Option<Output> {
        let Machine::RtpToFrame(machine) = &mut self.slab.get_mut(id)?.machine else { return None };
        let mut out = Output::begin(&mut self.spare, id);
        for packet in packets {
            machine.packet(ctx.now, packet, &mut out.frames);
        }
        self.transcode(ctx, &mut out);
        Some(out)
    }

    /// Does what is due by the clock.
    pub(super) fn poll(&mut self, ctx: &Context, id: BridgeId) -> Option<Output> {
        let bridge = self.slab.get_mut(id)?;
        let mut out = Output::begin(&mut self.spare, id);
        match &mut bridge.machine {
            Machine::FrameToRtp(machine) => out.mappings = machine.report(ctx.now),
            Machine::RtpToFrame(machine) => machine.poll(ctx.now, &mut out.frames),
        }
        self.transcode(ctx, &mut out);
        Some(out)
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
        self.transcode(ctx, &mut out);
        Some(out)
    }

    /// Adds up what a call has cost, what came of its output included, and sets the timer.
    pub(super) fn finish(&mut self, ctx: &Context, mut out: Output) {
        // CPU time of this thread, twice for a frame of a bridged stream, never per packet.
        let took = Clock::thread_cpu_time().saturating_sub(out.begun);
        self.counters.cpu_us += took.as_micros() as u64;
        if let Some(bridge) = self.slab.get_mut(out.bridge) {
            bridge.cost.cpu += took;
            let due = match &bridge.machine {
                Machine::FrameToRtp(machine) => {
                    // The frame came in within this turn.
                    if out.is_video {
                        bridge.cost.video.note(Clock::now().saturating_duration_since(ctx.now));
                    }
                    // The first report is due at once, but after everything else of the turn.
                    let has_sent = machine.stats().packets > 0;
                    has_sent.then(|| machine.next_timeout().unwrap_or(ctx.now))
                }
                Machine::RtpToFrame(machine) => {
                    if let Some(latency) = machine.stats().video_latency {
                        // As of the beginning of this turn, when the packet came in that was waited for.
                        bridge.cost.video.note(latency + Clock::now().saturating_duration_since(ctx.now));
                    }
                    machine.next_timeout()
                }
            };
            let due = due.map(|due| due.max(ctx.now + TIMER_MIN));
            if let Some(due) = due.filter(|due| bridge.due.is_none_or(|set| *due < set)) {
                bridge.due = Some(due);
                self.timers.push(Reverse((due, out.bridge)));
            }
        }
        out.packets.clear();
        out.frames.clear();
        self.spare = (out.packets, out.frames);
    }

    /// A bridge whose timer has run out; call it until there is none.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<BridgeId> {
        while let Some(&Reverse((due, id))) = self.timers.peek().filter(|entry| entry.0.0 <= now) {
            self.timers.pop();
            if let Some(bridge) = self.slab.get_mut(id).filter(|bridge| bridge.due == Some(due)) {
                bridge.due = None;
                return Some(id);
            }
        }
        None
    }

    /// How long the loop may sleep as far as bridges are concerned.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        self.timers.peek().map_or(Duration::MAX, |entry| entry.0.0.saturating_duration_since(now))
    }

    /// Hands audio that came out over to be transcoded. The first piece opens the transcoder.
    pub(super) fn transcode(&mut self, ctx: &Context, out: &mut Output) {
        if out.packets.audio.is_empty() && out.frames.audio.is_empty() {
            return;
        }
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
            Machine::RtpToFrame(_) => self.audio_refused = Some(reason),
        }
    }
}
