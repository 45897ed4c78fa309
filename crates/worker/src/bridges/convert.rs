//! Media through a bridge: what goes in, and what comes out of that as a value.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::bridge::clock::ClockMappings;
use ::bridge::{FramesOut, PacketsOut};
use media::{Frame, MediaKind, Timestamp};
use sfu::Packet;
use transcode::Reply;

use super::{Bridges, Machine};
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
        if let Some(error) = &reply.error {
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
