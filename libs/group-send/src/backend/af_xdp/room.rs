//! Room in the ring: kicks, devices that drop, and rings that are given up.
//!
//! The rules are in `af_xdp.rs`; here is what becomes of frames that are written.

use super::{AfXdp, Kernel, Ring};

impl<K: Kernel> AfXdp<K> {
    /// At the beginning of a call: takes back frames, sends what an earlier kick left, and uses or tries for a ring
    /// again when it is time.
    pub(super) fn look_after_ring(&mut self) {
        self.ring = match self.ring {
            Ring::Open | Ring::Resting(0) => Ring::Open,
            Ring::Resting(calls) => Ring::Resting(calls - 1),
            Ring::Closed(0) if self.kernel.reopen() => Ring::Open,
            Ring::Closed(calls) => Ring::Closed(calls.checked_sub(1).unwrap_or(REOPEN_CALLS)),
        };
        let under_way = self.kernel.reclaim();
        if self.behind && self.ring == Ring::Open {
            self.flush(under_way);
        }
    }

    /// Room after all has been sent that is written; false when there is no ring any more.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self) -> bool {
        self.flush_all();
        self.kernel.reclaim();
        self.ring == Ring::Open
    }

    /// Has the kernel send all frames, of this call and those that an earlier kick left.
    pub(super) fn flush_all(&mut self) {
        let under_way = self.kernel.reclaim();
        self.flush(under_way);
    }

    /// Kicks as often as `frames` frames can take, which is once if the kernel allows; kernels before Linux 6.17 send
    /// 32 frames a kick and answer `EAGAIN` in between, as they do without room.
    pub(super) fn flush(&mut self, frames: usize) {
        let mut again = frames / FRAMES_PER_KICK + 1;
        let mut dropped = 0;
        loop {
            match self.kernel.kick() {
                Ok(()) => break self.behind = false,
                Err(libc::EBUSY) if dropped < frames => dropped += 1,
                Err(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) if again > 0 => {
                    again -= 1
                }
                Err(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => {
                    break self.behind = true;
                }
                Err(_) => return self.give_up(),
            }
        }
        self.written = 0;
        self.lost += dropped as u64;
        if dropped * 2 > frames {
            self.ring = Ring::Resting(REST_CALLS);
        }
    }

    /// The end of a call that could not go on: without room, or with a recipient that waits to leave the ring.
    pub(super) fn wait(&mut self) {
        self.waits += 1;
        if self.waits >= WAITS_MAX {
            self.give_up();
        }
    }

    pub(super) fn give_up(&mut self) {
        self.lost += self.kernel.close() as u64;
        self.ring = Ring::Closed(REOPEN_CALLS);
        (self.behind, self.written, self.waits) = (false, 0, 0);
    }
}

/// Frames that any kernel sends by one kick.
const FRAMES_PER_KICK: usize = 32;

/// Calls that go by the socket after one in which the device dropped most frames.
pub(super) const REST_CALLS: u32 = 32;

/// Calls that go by the socket before another ring is tried. Trying costs about a millisecond if the interface is up.
pub(super) const REOPEN_CALLS: u32 = 256;

/// Calls in a row that may end without a datagram sent before the ring is given up. Callers that try again at once
/// make ten thousand in ten milliseconds or more, in which a link of 1 Gbit/s sends 800 frames of 1500 bytes.
pub(super) const WAITS_MAX: u32 = 10_000;
