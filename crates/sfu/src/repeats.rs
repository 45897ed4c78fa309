//! Packets to be sent again that wait for the pace of their viewer.
//!
//! A path that was gone for 300 ms has lost as much of a stream. All of it at once, as soon as it is asked
//! for, would wait in front of the bottleneck for as long again, and audio behind it. So what there is no
//! room for waits here and leaves at the viewer's pace, ahead of video that waits as well. Audio does not
//! wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use congestion::Kind;
use rtp::payload::MediaKind;

use super::outlet::{self, Outlet};
use super::pacer::Pacer;
use super::resend::Resend;
use super::stream::PacketStream;
use super::viewer::{ColdState, Viewer, ViewerStats};
use super::viewers::ViewerId;

/// What waits, the oldest first, and when it was asked for: at most as many as are remembered as sent.
pub(crate) type WaitingRepeats = VecDeque<(Instant, Resend)>;

impl PacketStream {
    /// Leaves in `resend`, from `first` on, what may leave now; the rest waits.
    pub(crate) fn hold_repeats(
        &mut self,
        now: Instant,
        id: ViewerId,
        pacer: &mut Pacer,
        first: usize,
        resend: &mut Vec<Resend>,
    ) {
        let Some(viewer) = self.viewers.get_mut(id) else { return };
        let cold = &mut *viewer.cold;
        let mut waiting = cold.repeats.take().unwrap_or_default();
        let mut room = if waiting.is_empty() { pacer.room(now) } else { 0 };
        let waits = resend.extract_if(first.., |packet| {
            let leaves = packet.kind() == MediaKind::Audio || room > 0;
            room = room.saturating_sub(packet.packet_len());
            !leaves
        });
        for packet in waits {
            // Asked for again while it waits, it would be sent twice.
            cold.note_resent(&packet, now + WAITS_MAX);
            waiting.push_back((now, packet));
        }
        if !waiting.is_empty() {
            cold.repeats = Some(waiting);
            (cold.is_paced, cold.backlog_due) = (true, now);
            self.queue_viewer(id);
        }
    }

    /// Packets that [`PacketStream::send_backlog`] has sent again since this was asked last.
    pub fn take_repeats_sent(&mut self) -> u64 {
        std::mem::take(&mut self.repeats_sent)
    }
}

impl Viewer {
    /// Sends what waits to be sent again, as far as pacing and `left` allow. How many packets left.
    pub(crate) fn send_repeats(&mut self, now: Instant, left: &mut usize, outlet: &mut impl Outlet) -> u64 {
        let Some(mut waiting) = self.cold.repeats.take() else { return 0 };
        let mut repeats = 0;
        // What is late is asked for again if it is still of use.
        while let Some((asked, _)) = waiting.front()
            && now.saturating_duration_since(*asked) > WAITS_MAX
            && let Some((_, packet)) = waiting.pop_front()
        {
            was_not_resent(&mut self.cold.stats, &packet);
        }
        while *left > 0
            && self.cold.backlog_credit > 0.0
            && let Some((_, mut packet)) = waiting.pop_front()
        {
            self.cold.note_resent(&packet, now);
            let sent = outlet::send_again(outlet, now, &mut packet, Kind::Repeat);
            self.cold.backlog_credit -= sent as f64;
            *left -= 1;
            repeats += u64::from(sent > 0);
        }
        self.cold.repeats = Some(waiting).filter(|waiting| !waiting.is_empty());
        repeats
    }
}

/// Nothing that waits to be sent again is of use any more: its viewer goes on with a key frame.
pub(crate) fn forget_repeats(repeats: &mut Option<Box<WaitingRepeats>>, stats: &mut ViewerStats) {
    for (_, packet) in repeats.take().into_iter().flat_map(|waiting| *waiting) {
        was_not_resent(stats, &packet);
    }
}

fn was_not_resent(stats: &mut ViewerStats, packet: &Resend) {
    stats.resent_packets -= 1;
    stats.resent_bytes -= packet.payload().len() as u64;
    stats.not_resent += 1;
}

impl ColdState {
    fn note_resent(&mut self, packet: &Resend, at: Instant) {
        if let Some(memory) = &mut self.memory {
            memory.note_sent(packet.entry(), at);
        }
    }
}

/// How long a packet waits at most: a picture that comes later is left out.
pub(crate) const WAITS_MAX: Duration = Duration::from_millis(400);
