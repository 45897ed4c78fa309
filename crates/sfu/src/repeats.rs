//! Packets to be sent again that wait for the pace of their viewer.
//!
//! A path that was gone for 300 ms has lost as much of a stream. All of it at once, as soon as it is asked
//! for, would wait in front of the bottleneck for as long again, and audio behind it. So what there is no room
//! for waits here and leaves at the viewer's pace, ahead of video that it has not had. Audio does not wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use congestion::Kind;
use rtp::payload::MediaKind;

use super::outlet::{self, Outlet};
use super::pacer::Pacer;
use super::resend::Resend;
use super::stream::PacketStream;
use super::viewer::Viewer;
use super::viewers::ViewerId;

/// What waits, the oldest first, and when it was asked for.
pub(crate) type WaitingRepeats = VecDeque<(Instant, Resend)>;

impl PacketStream {
    /// Leaves in `resend`, from `first` on, what may leave now; the rest waits. How many that were asked for
    /// have found no place to wait.
    pub(crate) fn hold_repeats(
        &mut self,
        now: Instant,
        id: ViewerId,
        pacer: &mut Pacer,
        (resend, first): (&mut Vec<Resend>, usize),
    ) -> u64 {
        let Some(viewer) = self.viewers.get_mut(id) else { return 0 };
        let mut waiting = viewer.cold.repeats.take().unwrap_or_default();
        let mut room = if waiting.is_empty() { pacer.room(now) } else { 0 };
        let mut refused = 0;
        let waits = resend.extract_if(first.., |packet| {
            let leaves = packet.kind() == MediaKind::Audio || room > 0;
            room = room.saturating_sub(packet.packet_len());
            !leaves
        });
        for packet in waits {
            if waiting.len() >= WAITING_MAX {
                refused += 1;
                continue;
            }
            // Asked for again while it waits, it would be sent twice.
            viewer.note_resent(packet.entry(), now + WAITS_MAX);
            waiting.push_back((now, packet));
        }
        viewer.cold.stats.resent_packets -= refused;
        viewer.cold.stats.not_resent += refused;
        if !waiting.is_empty() {
            viewer.cold.repeats = Some(waiting);
            (viewer.cold.is_paced, viewer.cold.backlog_due) = (true, now);
            self.queue_viewer(id);
        }
        refused
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
        while *left > 0
            && self.cold.backlog_credit > 0.0
            && let Some((asked, mut packet)) = waiting.pop_front()
        {
            // It is asked for again if it is still of use.
            if now.saturating_duration_since(asked) > WAITS_MAX {
                self.cold.stats.resent_packets -= 1;
                self.cold.stats.not_resent += 1;
                continue;
            }
            self.note_resent(packet.entry(), now);
            let sent = outlet::send_again(outlet, now, &mut packet, Kind::Repeat);
            self.cold.backlog_credit -= sent as f64;
            *left -= 1;
            repeats += u64::from(sent > 0);
        }
        self.cold.repeats = Some(waiting).filter(|waiting| !waiting.is_empty());
        repeats
    }

    fn note_resent(&mut self, entry: u8, at: Instant) {
        if let Some(memory) = &mut self.cold.memory {
            memory.note_sent(entry, at);
        }
    }
}

/// How long a packet waits at most: a picture that comes later is left out.
pub(crate) const WAITS_MAX: Duration = Duration::from_millis(500);
/// How many wait at most: as many as there are in 300 ms of 10 Mbit/s.
const WAITING_MAX: usize = 384;
