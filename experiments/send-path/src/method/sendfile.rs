//! Pages by reference: the stream lies in a memfd and sockets refer to its page cache, so nothing is copied.
//!
//! A page must not change while any socket may still have to send (or resend) it, and nobody tells when that
//! ends. A server would write each page once and drop it; here the pages never change.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, tee};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::{pipe2, read};

use super::plain::taken;
use super::{Sending, Tally};
use crate::sender::Player;
use crate::stream::Stream;

pub(crate) struct Sendfile {
    file: File,
}

impl Sendfile {
    pub(crate) fn new(stream: &Stream) -> Result<Sendfile, String> {
        let memory = memfd_create("stream", MFdFlags::MFD_CLOEXEC).map_err(|error| error.to_string())?;
        let mut file = File::from(memory);
        file.write_all(stream.both_loops()).map_err(|error| error.to_string())?;
        Ok(Sendfile { file })
    }
}

impl Sending for Sendfile {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let offered = (end - player.sent) as usize;
            let mut offset = stream.offset(player.sent) as i64;
            let taken = taken(sendfile(&player.socket, &self.file, Some(&mut offset), offered))?;
            tally.note(player, offered, taken);
        }
        Ok(())
    }
}

pub(crate) struct Tee {
    file: File,
    batch: Pipe,
    copy: Pipe,
    /// Positions of what `batch` holds.
    held: (u64, u64),
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Tee {
    pub(crate) fn new(stream: &Stream) -> Result<Tee, String> {
        let Sendfile { file } = Sendfile::new(stream)?;
        Ok(Tee { file, batch: Pipe::new()?, copy: Pipe::new()?, held: (0, 0) })
    }

    fn hold(&mut self, stream: &Stream, from: u64, to: u64) -> Result<(), String> {
        self.batch.empty()?;
        let mut at = from;
        while at < to {
            let mut offset = stream.offset(at) as i64;
            let length = (to - at) as usize;
            let moved =
                splice(&self.file, Some(&mut offset), &self.batch.write, None, length, SpliceFFlags::empty());
            at += moved.map_err(|error| error.to_string())? as u64;
        }
        self.held = (from, to);
        Ok(())
    }
}

impl Sending for Tee {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let Some(from) = players.iter().map(|player| player.sent).max() else { return Ok(()) };
        if from < end && self.held != (from, end) {
            self.hold(stream, from, end)?;
        }
        for player in players.iter_mut().filter(|player| player.sent < end) {
            let offered = (end - player.sent) as usize;
            if player.sent != from {
                // One that has fallen behind gets the rest of what it has begun on its own.
                let span = stream.span(player.sent, end);
                let taken = taken(send(player.socket.as_raw_fd(), span, MsgFlags::MSG_NOSIGNAL))?;
                tally.note(player, offered, taken);
                continue;
            }
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK;
            let copied =
                tee(&self.batch.read, &self.copy.write, offered, flags).map_err(|error| error.to_string())?;
            let taken = taken(splice(&self.copy.read, None, &player.socket, None, copied, flags))?;
            if taken < copied {
                self.copy.empty()?;
            }
            tally.note(player, offered, taken);
        }
        Ok(())
    }
}

impl Pipe {
    fn new() -> Result<Pipe, String> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|error| error.to_string())?;
        fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)).map_err(|error| error.to_string())?;
        Ok(Pipe { read, write })
    }

    fn empty(&self) -> Result<(), String> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match read(&self.read, &mut buffer) {
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error.to_string()),
                Ok(_) => {}
            }
        }
    }
}

const PIPE_BYTES: i32 = 1 << 20;
