//! One link of a receiver: which numbers came, which are missing, and what is to be said about it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::InStream;
use crate::authenticator::Authenticator;
use crate::control::{ControlOpener, ControlSealer, Message, Report};
use crate::keys::ReceiverKeys;
use crate::limits::{HANDLES_MAX, KEY_FRAMES_WAITING_MAX, LEFT_OUT_SAID, REPORT_INTERVAL};
use crate::missing::Missing;
use crate::round_trip::RoundTrip;
use crate::table::Id;

/// Counts of one link, since its beginning, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InLinkStats {
    /// Numbers that arrived, each once.
    pub received: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Numbers that were given up.
    pub lost: u64,
    /// Of those received: arrived after they had been asked for.
    pub repaired: u64,
    /// Requests for numbers.
    pub asked: u64,
    /// Dropped because their number had arrived before, or was given up.
    pub replayed: u64,
    /// When the last authentic datagram came.
    pub heard_at: Option<Instant>,
    /// Smoothed round trip, once known.
    pub round_trip: Option<Duration>,
}

pub(super) struct InLink {
    pub(super) authenticator: Authenticator,
    sealer: ControlSealer,
    pub(super) opener: ControlOpener,
    /// The number after the highest that came or was announced.
    pub(super) next: u64,
    missing: Missing,
    pub(super) handles: Handles,
    pub(super) round_trip: RoundTrip,
    /// Key frames to be asked for.
    key_frames: Vec<(u16, u32)>,
    key_frames_due: Option<Instant>,
    /// What streams leave out.
    left_out: Vec<LeftOut>,
    report_at: Instant,
    pub(super) stats: InLinkStats,
}

/// What a stream leaves out, and when that is said next.
struct LeftOut {
    handle: u16,
    number: u16,
    ssrcs: Vec<[u8; 4]>,
    due: Instant,
    /// How often it is said soon again.
    times_left: u8,
}

impl InLink {
    pub(super) fn new(now: Instant, keys: ReceiverKeys) -> Self {
        let (authenticator, sealer, opener) = keys.build();
        Self {
            authenticator,
            sealer,
            opener,
            next: 0,
            missing: Missing::default(),
            handles: Handles::default(),
            round_trip: RoundTrip::default(),
            key_frames: Vec::new(),
            key_frames_due: None,
            left_out: Vec::new(),
            // The round trip is to be known before something is missing.
            report_at: now,
            stats: InLinkStats::default(),
        }
    }

    /// Whether a number has not come yet, and is not given up. One that no sender reaches in the life
    /// of a link never comes: who believed it would refuse all that follow.
    #[inline]
    pub(super) fn expects(&self, number: u64) -> bool {
        match number.checked_sub(self.next) {
            Some(skipped) => skipped <= SKIP_MAX,
            None => self.missing.contains(number),
        }
    }

    /// An expected number has come. Returns whether it had been asked for.
    #[inline]
    pub(super) fn arrived(&mut self, now: Instant, number: u64, bytes: usize) -> bool {
        self.stats.received += 1;
        self.stats.bytes += bytes as u64;
        self.stats.heard_at = Some(now);
        if number < self.next {
            let was_asked = self.missing.arrived(now, number, self.round_trip.least());
            self.stats.repaired += u64::from(was_asked);
            return was_asked;
        }
        self.missing.count(now, number + 1 - self.next);
        self.skip_to(now, number);
        self.next = number + 1;
        false
    }

    /// An expected number has come, and its stream does not have the key yet.
    pub(super) fn park(&mut self, now: Instant, number: u64, stream: Id<InStream>) {
        self.stats.heard_at = Some(now);
        if number >= self.next {
            // A gap, and the number itself.
            self.stats.lost += self.missing.skipped(now, self.next, number + 1);
            self.next = number + 1;
        }
        self.stats.lost += u64::from(!self.missing.park(number, stream.index()));
    }

    /// A stream has another key.
    pub(super) fn release(&mut self, now: Instant, stream: Id<InStream>) {
        self.missing.release(now, stream.index());
    }

    /// Numbers before `number` have been sent. One that no sender reaches in the life of a link is
    /// a mistake of its own, and changes nothing.
    pub(super) fn skip_to(&mut self, now: Instant, number: u64) {
        if number > self.next && number - self.next <= SKIP_MAX {
            self.stats.lost += self.missing.skipped(now, self.next, number);
            self.next = number;
        }
    }

    /// Numbers before `oldest` are not repaired any more.
    pub(super) fn give_up_before(&mut self, oldest: u64) {
        self.stats.lost += self.missing.give_up_before(oldest);
    }

    /// Asks for a key frame. `false` if that waits to be written already, or too many do.
    pub(super) fn ask_key_frame(&mut self, now: Instant, handle: u16, ssrc: u32) -> bool {
        let ask = (handle, ssrc);
        if self.key_frames.len() >= KEY_FRAMES_WAITING_MAX || self.key_frames.contains(&ask) {
            return false;
        }
        self.key_frames.push(ask);
        self.key_frames_due = Some(now);
        true
    }

    /// Says what the stream under this handle leaves out.
    pub(super) fn leave_out(&mut self, now: Instant, handle: u16, number: u16, ssrcs: &[[u8; 4]]) {
        self.left_out.retain(|known| known.handle != handle);
        let ssrcs = ssrcs.to_vec();
        self.left_out.push(LeftOut { handle, number, ssrcs, due: now, times_left: LEFT_OUT_SAID });
    }

    /// A stream no longer comes by the link.
    pub(super) fn free(&mut self, now: Instant, handle: u16) {
        self.handles.free(now, handle);
        self.left_out.retain(|known| known.handle != handle);
    }

    /// Writes what is due, and returns how many numbers are given up.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut ControlSealer, &[Message<'_>]),
    ) -> u64 {
        let Self { sealer, left_out, stats, missing, round_trip, .. } = self;
        let mut messages = Vec::new();
        let mut ranges: Option<(u64, u16)> = None;
        let retry = round_trip.smoothed().unwrap_or(ROUND_TRIP_UNKNOWN);
        let given_up = missing.poll(now, retry, |number| {
            stats.asked += 1;
            ranges = match ranges {
                Some((first, more)) if number == first + u64::from(more) + 1 && more < u16::MAX => {
                    Some((first, more + 1))
                }
                Some((first, more)) => {
                    messages.push(Message::Nack { first: first as u32, more });
                    Some((number, 0))
                }
                None => Some((number, 0)),
            };
        });
        messages.extend(ranges.map(|(first, more)| Message::Nack { first: first as u32, more }));
        stats.lost += given_up;
        self.key_frames_due = None;
        let asks = self.key_frames.drain(..);
        // First what is left out, so that what is wanted is known when a key frame of it is asked for.
        for said in left_out.iter_mut().filter(|said| said.due <= now) {
            said.times_left = said.times_left.saturating_sub(1);
            said.due = now + if said.times_left > 0 { retry } else { REPORT_INTERVAL };
            let LeftOut { handle, number, ref ssrcs, .. } = *said;
            messages.push(Message::LeaveOut { handle, number, ssrcs });
        }
        messages.extend(asks.map(|(handle, ssrc)| Message::KeyFrame { handle, ssrc }));
        if self.report_at <= now {
            self.report_at = now + REPORT_INTERVAL;
            messages.push(Message::Ping { id: round_trip.ping(now) });
            messages.push(Message::Report(Report {
                received: stats.received,
                lost: stats.lost,
                repaired: stats.repaired,
                round_trip_us: round_trip.smoothed().map_or(0, |time| time.as_micros() as u32),
            }));
        }
        if !messages.is_empty() {
            write(sealer, &messages);
        }
        given_up
    }

    /// When there is something to write.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let left_out = self.left_out.iter().map(|said| said.due).min();
        let due = [Some(self.report_at), self.missing.next_due(), self.key_frames_due, left_out];
        due.into_iter().flatten().min()
    }

    pub(super) fn stats(&self) -> InLinkStats {
        InLinkStats { round_trip: self.round_trip.smoothed(), ..self.stats }
    }
}

/// Half of what the numbers in datagrams can tell apart, less one: what lies a whole half away may be
/// behind as well.
const SKIP_MAX: u64 = (1 << 31) - 1;

/// Time between requests until the round trip is known.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(100);

/// Which stream each handle of a link is.
#[derive(Default)]
pub(super) struct Handles {
    streams: Vec<Option<Id<InStream>>>,
    /// Free ones, the one that is free longest first: what is still under way under it is then least
    /// likely to be taken for the next stream's. If it is, it does not open.
    free: VecDeque<(Instant, u16)>,
}

impl Handles {
    #[inline]
    pub(super) fn get(&self, handle: u16) -> Option<Id<InStream>> {
        *self.streams.get(usize::from(handle))?
    }

    /// A handle for a stream, if there is one that was free for as long as `rest`, or never used.
    pub(super) fn take(&mut self, now: Instant, rest: Duration, stream: Id<InStream>) -> Option<u16> {
        let has_rested = |at: Instant| now.saturating_duration_since(at) >= rest;
        let is_full = self.streams.len() == HANDLES_MAX;
        if (self.free.len() > FREE_MIN || is_full)
            && let Some((_, handle)) = self.free.pop_front_if(|(at, _)| has_rested(*at))
        {
            self.streams[usize::from(handle)] = Some(stream);
            return Some(handle);
        }
        if is_full {
            return None;
        }
        self.streams.push(Some(stream));
        Some((self.streams.len() - 1) as u16)
    }

    pub(super) fn free(&mut self, now: Instant, handle: u16) {
        if self.streams.get_mut(usize::from(handle)).and_then(Option::take).is_some() {
            self.free.push_back((now, handle));
        }
    }
}

/// Handles that rest before one of them is used again.
const FREE_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{LinkSecret, Role};
    use crate::wire::extend;

    #[test]
    fn numbers_that_lie_too_far_ahead_are_not_expected() {
        let now = netsim::Clock::new().now();
        let (_, keys) = LinkSecret::new([1; 32]).split(Role::Dialer);
        let mut link = InLink::new(now, keys);
        for (low, expected) in [
            (0, true),
            (0x7fff_ffff, true),
            (0x8000_0000, false),
            (0xffff_ffff, false), // behind the first one, where there is nothing
        ] {
            assert_eq!(link.expects(extend(low, link.next)), expected, "{low:x}");
        }
        link.arrived(now, 0x7fff_ffff, 100);
        link.skip_to(now, u64::MAX);
        assert_eq!(link.next, 0x8000_0000);
        assert!(link.expects(extend(0xffff_fffe, link.next)));
    }
}
