//! MSG_ZEROCOPY (Linux Documentation/networking/msg_zerocopy.rst): the kernel refers to the pages and tells by the
//! socket's error queue when it has let go of them.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, send};

use super::plain::taken;
use super::{Sending, Tally};
use crate::sender::Player;
use crate::stream::Stream;

pub(crate) struct ZeroCopy;

impl Sending for ZeroCopy {
    fn send(
        &mut self,
        players: &mut [Player],
        stream: &Stream,
        end: u64,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for player in players.iter_mut().filter(|player| player.sent < end) {
            tally.copied += read_notices(player)?;
            let span = stream.span(player.sent, end);
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::from_bits_retain(nix::libc::MSG_ZEROCOPY);
            let taken = taken(send(player.socket.as_raw_fd(), span, flags))?;
            tally.note(player, span.len(), taken);
        }
        Ok(())
    }
}

/// Takes one notice, which covers a range of writes; returns how many of them were copied after all.
fn read_notices(player: &Player) -> Result<u64, String> {
    let mut control = nix::cmsg_space!(nix::libc::sock_extended_err, nix::libc::sockaddr_in);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<SockaddrIn>(player.socket.as_raw_fd(), &mut [], Some(&mut control), flags) {
        Err(Errno::EAGAIN) => return Ok(0),
        other => other.map_err(|error| error.to_string())?,
    };
    let mut copied = 0;
    for control in message.cmsgs().map_err(|error| error.to_string())? {
        if let ControlMessageOwned::Ipv4RecvErr(notice, _) = control
            && notice.ee_code == CODE_COPIED
        {
            copied += u64::from(notice.ee_data - notice.ee_info) + 1;
        }
    }
    Ok(copied)
}

/// SO_EE_CODE_ZEROCOPY_COPIED of `linux/errqueue.h`.
const CODE_COPIED: u8 = 1;
