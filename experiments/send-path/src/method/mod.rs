//! The ways to hand bytes to sockets.

mod plain;
mod sendfile;
mod uring;
mod zero_copy;

use crate::sender::Player;
use crate::stream::Stream;

/// How a turn's bytes reach the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// One `send` per player: the floor.
    Send,
    /// One `writev` per player of the same bytes in two slices.
    Writev,
    /// Two `send`s per player, the first half with MSG_MORE if `more`.
    TwoSends { more: bool },
    /// TCP_CORK, `send`, uncork.
    Cork,
    /// A turn's sends in one `io_uring_enter`.
    Uring { fixed_files: bool, zero_copy: Option<Buffers> },
    /// `send` with MSG_ZEROCOPY; the notices are read at the player's next turn.
    ZeroCopy,
    /// `sendfile` from a memfd that holds the stream.
    Sendfile,
    /// A batch's pages are put into a pipe once; per player `tee` to a second pipe and `splice` to the socket.
    Tee,
}

/// Memory of IORING_OP_SEND_ZC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffers {
    Plain,
    Registered,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) writes: u64,
    /// Writes that were taken partly or not at all.
    pub(crate) short: u64,
    pub(crate) bytes: u64,
    /// Zero-copy writes of which the kernel says that it has copied.
    pub(crate) copied: u64,
    /// CPU time inside [`Sending::send`], nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl Tally {
    /// Counts a write and moves the player on.
    fn note(&mut self, player: &mut Player, offered: usize, taken: usize) {
        self.writes += 1;
        self.short += u64::from(taken < offered);
        self.bytes += taken as u64;
        player.sent += taken as u64;
    }
}

/// A method with what it has set up for a run.
pub(crate) trait Sending {
    /// Offers every player what it has not got yet of the bytes before `end`.
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String>;

    /// Waits until the kernel has let go of all memory.
    fn finish(&mut self, _tally: &mut Tally) -> Result<(), String> {
        Ok(())
    }
}

impl Method {
    /// `stream` and `players` stay where they are until [`Sending::finish`] has returned.
    pub(crate) fn prepare(self, stream: &Stream, players: &[Player]) -> Result<Box<dyn Sending>, String> {
        Ok(match self {
            Method::Send => Box::new(plain::Send),
            Method::Writev => Box::new(plain::Writev),
            Method::TwoSends { more } => Box::new(plain::TwoSends { more }),
            Method::Cork => Box::new(plain::Cork),
            Method::Uring { fixed_files, zero_copy } => {
                Box::new(uring::Uring::new(stream, players, fixed_files, zero_copy)?)
            }
            Method::ZeroCopy => Box::new(zero_copy::ZeroCopy),
            Method::Sendfile => Box::new(sendfile::Sendfile::new(stream)?),
            Method::Tee => Box::new(sendfile::Tee::new(stream)?),
        })
    }
}
