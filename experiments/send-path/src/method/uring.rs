//! io_uring: a turn's sends enter the kernel together.
//!
//! Sends carry MSG_DONTWAIT: a full socket answers at once, as it would to `send`, and keeps no request waiting.
//! Zero-copy sends complete twice, the second time when the kernel has let go of the memory.
#![expect(unsafe_code, reason = "the ring takes addresses, and the kernel uses them later")]

use std::os::fd::AsRawFd;

use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};
use nix::errno::Errno;
use nix::libc;

use super::{Buffers, Sending, Tally};
use crate::sender::Player;
use crate::stream::Stream;

pub(crate) struct Uring {
    ring: IoUring,
    fixed_files: bool,
    zero_copy: Option<Buffers>,
    /// Descriptor of the first player: those of the others follow in the table of fixed files.
    first_index: Vec<u32>,
    /// Zero-copy sends whose memory the kernel may still use.
    lent: u64,
}

impl Uring {
    pub(crate) fn new(
        stream: &Stream,
        players: &[Player],
        fixed_files: bool,
        zero_copy: Option<Buffers>,
    ) -> Result<Uring, String> {
        let text = |error: std::io::Error| error.to_string();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(4 * ENTRIES)
            .build(ENTRIES)
            .map_err(text)?;
        let descriptors: Vec<i32> = players.iter().map(|player| player.socket.as_raw_fd()).collect();
        let mut first_index = Vec::new();
        if fixed_files {
            ring.submitter().register_files(&descriptors).map_err(text)?;
            first_index = vec![0; descriptors.iter().max().map_or(0, |&max| max as usize + 1)];
            for (index, &descriptor) in descriptors.iter().enumerate() {
                first_index[descriptor as usize] = index as u32;
            }
        }
        if zero_copy == Some(Buffers::Registered) {
            let bytes = stream.both_loops();
            let buffer = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            // SAFETY: the stream outlives the ring, and sends only read it.
            unsafe { ring.submitter().register_buffers(&[buffer]) }.map_err(text)?;
        }
        Ok(Uring { ring, fixed_files, zero_copy, first_index, lent: 0 })
    }

    fn entry(&self, player: &Player, span: &[u8], user_data: u64) -> squeue::Entry {
        let descriptor = player.socket.as_raw_fd();
        let (address, length) = (span.as_ptr(), span.len() as u32);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let index = self.first_index.get(descriptor as usize).copied().unwrap_or(0);
        let entry = match (self.zero_copy, self.fixed_files) {
            (None, false) => opcode::Send::new(Fd(descriptor), address, length).flags(flags).build(),
            (None, true) => opcode::Send::new(Fixed(index), address, length).flags(flags).build(),
            (Some(buffers), fixed) => {
                let buffer = (buffers == Buffers::Registered).then_some(0);
                let send = match fixed {
                    false => opcode::SendZc::new(Fd(descriptor), address, length),
                    true => opcode::SendZc::new(Fixed(index), address, length),
                };
                send.flags(flags).buf_index(buffer).zc_flags(REPORT_USAGE).build()
            }
        };
        entry.user_data(user_data)
    }

    /// Takes what has completed; returns how many sends that were.
    fn reap(&mut self, players: &mut [Player], end: u64, tally: &mut Tally) -> Result<usize, String> {
        let mut sends = 0;
        for completion in self.ring.completion() {
            if cqueue::notif(completion.flags()) {
                self.lent -= 1;
                tally.copied += u64::from(completion.result() as u32 & NOTICE_COPIED != 0);
                continue;
            }
            sends += 1;
            self.lent += u64::from(cqueue::more(completion.flags()));
            let taken = match completion.result() {
                result if result >= 0 => result as usize,
                result if result == -libc::EAGAIN => 0,
                result => return Err(Errno::from_raw(-result).to_string()),
            };
            let player = &mut players[completion.user_data() as usize];
            let offered = (end - player.sent) as usize;
            tally.note(player, offered, taken);
        }
        Ok(sends)
    }
}

impl Sending for Uring {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let mut next = 0;
        while next < players.len() {
            let mut waiting = 0;
            while next < players.len() && waiting < ENTRIES as usize {
                let player = &players[next];
                if player.sent < end {
                    let entry = self.entry(player, stream.span(player.sent, end), next as u64);
                    // SAFETY: the stream stays until `finish` has seen the last completion.
                    unsafe { self.ring.submission().push(&entry) }.map_err(|error| error.to_string())?;
                    waiting += 1;
                }
                next += 1;
            }
            while waiting > 0 {
                self.ring.submit_and_wait(waiting).map_err(|error| error.to_string())?;
                waiting -= self.reap(players, end, tally)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, tally: &mut Tally) -> Result<(), String> {
        while self.lent > 0 {
            self.ring.submit_and_wait(1).map_err(|error| error.to_string())?;
            self.reap(&mut [], 0, tally)?;
        }
        Ok(())
    }
}

const ENTRIES: u32 = 2048;
/// IORING_SEND_ZC_REPORT_USAGE and IORING_NOTIF_USAGE_ZC_COPIED of `linux/io_uring.h`.
const REPORT_USAGE: u16 = 1 << 3;
const NOTICE_COPIED: u32 = 1 << 31;
