//! `send` and `writev`.

use std::io::IoSlice;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::sys::uio::writev;

use super::{Sending, Tally};
use crate::sender::Player;
use crate::stream::Stream;

pub(crate) struct Send;
pub(crate) struct Writev;
pub(crate) struct Cork;
pub(crate) struct TwoSends {
    pub(crate) more: bool,
}

impl Sending for Send {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let span = stream.span(player.sent, end);
            let taken = taken(send(player.socket.as_raw_fd(), span, MsgFlags::MSG_NOSIGNAL))?;
            tally.note(player, span.len(), taken);
        }
        Ok(())
    }
}

impl Sending for Writev {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let (a, b) = halves(stream.span(player.sent, end));
            let taken = taken(writev(&player.socket, &[IoSlice::new(a), IoSlice::new(b)]))?;
            tally.note(player, a.len() + b.len(), taken);
        }
        Ok(())
    }
}

impl Sending for TwoSends {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let first_flags =
            if self.more { MsgFlags::from_bits_retain(nix::libc::MSG_MORE) } else { MsgFlags::empty() };
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let (a, b) = halves(stream.span(player.sent, end));
            let fd = player.socket.as_raw_fd();
            let mut both = taken(send(fd, a, first_flags | MsgFlags::MSG_NOSIGNAL))?;
            if both == a.len() {
                both += taken(send(fd, b, MsgFlags::MSG_NOSIGNAL))?;
            }
            tally.note(player, a.len() + b.len(), both);
        }
        Ok(())
    }
}

impl Sending for Cork {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let span = stream.span(player.sent, end);
            player.socket.set_tcp_cork(true).map_err(|error| error.to_string())?;
            let taken = taken(send(player.socket.as_raw_fd(), span, MsgFlags::MSG_NOSIGNAL))?;
            player.socket.set_tcp_cork(false).map_err(|error| error.to_string())?;
            tally.note(player, span.len(), taken);
        }
        Ok(())
    }
}

/// A full socket has taken nothing.
pub(crate) fn taken(result: nix::Result<usize>) -> Result<usize, String> {
    match result {
        Err(Errno::EAGAIN) => Ok(0),
        other => other.map_err(|error| error.to_string()),
    }
}

fn halves(span: &[u8]) -> (&[u8], &[u8]) {
    span.split_at(span.len() / 2)
}
