//! Room in the ring: kicks, devices that drop frames, and rings that are abandoned.
//!
//! The rules are in `af_xdp.rs`; this file handles frames that are already written.

use super::{AfXdp, Kernel, Ring};

impl<K: Kernel> AfXdp<K> {
    /// At the beginning of a call: takes back frames, sends what an earlier kick left, and uses or
    /// reopens the ring when it is time.
    pub(super) fn maintain_ring(&mut self) {
        self.ring = match self.ring {
            Ring::Open | Ring::Resting(0) => Ring::Open,
            Ring::Resting(calls) => Ring::Resting(calls - 1),
            Ring::Closed(0) if self.kernel.reopen() => Ring::Open,
            Ring::Closed(calls) => Ring::Closed(calls.checked_sub(1).unwrap_or(REOPEN_CALLS)),
        };
        let in_flight = self.kernel.reclaim();
        if self.has_backlog && self.ring == Ring::Open {
            self.flush(in_flight);
        }
    }

    /// Sends everything written so far to make room; false if the ring has failed.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self) -> bool {
        self.flush_all();
        self.kernel.reclaim();
        self.ring == Ring::Open
    }

    /// Makes the kernel send all frames, including those an earlier kick left.
    pub(super) fn flush_all(&mut self) {
        let in_flight = self.kernel.reclaim();
        self.flush(in_flight);
    }

    /// Kicks until `frames` frames are sent: once if the kernel allows. Kernels before Linux 6.17
    /// send 32 frames a kick and return `EAGAIN` in between, as they do when out of room.
    pub(super) fn flush(&mut self, frames: usize) {
        let mut again = frames / FRAMES_PER_KICK + 1;
        let mut dropped = 0;
        loop {
            match self.kernel.kick() {
                Ok(()) => break self.has_backlog = false,
                Err(libc::EBUSY) if dropped < frames => dropped += 1,
                Err(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) if again > 0 => {
                    again -= 1
                }
                Err(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => {
                    break self.has_backlog = true;
                }
                Err(_) => return self.abandon_ring(),
            }
        }
        self.written = 0;
        self.lost += dropped as u64;
        if dropped * 2 > frames {
            self.ring = Ring::Resting(RESTING_CALLS);
        }
    }

    /// The end of a call that could not continue: the ring is full, or a recipient is blocked on
    /// it.
    pub(super) fn note_stall(&mut self) {
        self.stalls += 1;
        if self.stalls >= STALLS_MAX {
            self.abandon_ring();
        }
    }

    pub(super) fn abandon_ring(&mut self) {
        self.lost += self.kernel.close() as u64;
        self.ring = Ring::Closed(REOPEN_CALLS);
        (self.has_backlog, self.written, self.stalls) = (false, 0, 0);
    }
}

/// Frames that any kernel sends by one kick.
const FRAMES_PER_KICK: usize = 32;

/// Calls that use the socket after one in which the device dropped most frames.
pub(super) const RESTING_CALLS: u32 = 32;

/// Calls that use the socket before another ring is tried. Trying costs about a millisecond if the
/// interface is up.
pub(super) const REOPEN_CALLS: u32 = 256;

/// Consecutive calls that may end without a datagram sent before the ring is abandoned. Callers
/// that retry at once take at least ten milliseconds for ten thousand calls, in which a link of 1
/// Gbit/s sends 800 frames of 1500 bytes.
pub(super) const STALLS_MAX: u32 = 10_000;
