//! The loop that everything is measured against, and the library's back ends.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, UdpSocket};

use group_send::{BackendKind, Config, Sender, Slot};
use socket2::{SockRef, Socket};

use crate::traffic::{Group, Member};

/// All contenders in the order of a table.
pub(crate) const NAMES: [&str; 6] = ["loop", "sendmmsg", "gso", "io_uring", "af_xdp", "tc_clone"];

/// One that sends groups.
pub(crate) trait Contender {
    fn name(&self) -> &'static str;

    /// Sends each payload to each member.
    fn send(&mut self, group: &Group<'_>) -> Result<(), String>;
}

/// The contender of this name, its socket open; or why it cannot run here.
pub(crate) fn build(name: &'static str, interface: &str) -> Result<Box<dyn Contender>, String> {
    let kind = match name {
        "loop" => return Ok(Box::new(Loop { socket: socket().map_err(|error| error.to_string())?.into() })),
        "sendmmsg" => BackendKind::Sendmmsg,
        "gso" => BackendKind::Gso,
        "io_uring" => BackendKind::IoUring,
        "af_xdp" => BackendKind::AfXdp,
        "tc_clone" => BackendKind::TcClone,
        _ => return Err("unknown".into()),
    };
    let _ = interface;
    let config = Config { backends: vec![kind] };
    let socket = socket().map_err(|error| error.to_string())?;
    let sender = Sender::new(&socket, &config).map_err(|error| error.to_string())?;
    Ok(Box::new(Library { name, sender, slots: Vec::new() }))
}

/// Where a server's socket is: on all addresses, with room for a burst.
fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES)?;
    Ok(socket)
}

const SEND_BUFFER_BYTES: usize = 4 << 20;

/// One `sendmsg` a datagram: two slices, three with private bytes after the payload.
struct Loop {
    socket: Socket,
}

impl Contender for Loop {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn send(&mut self, group: &Group<'_>) -> Result<(), String> {
        for member in group.members {
            for (index, payload) in group.payloads.iter().enumerate() {
                self.send_one(member, index, payload).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl Loop {
    fn send_one(&self, member: &Member<'_>, index: usize, payload: &[u8]) -> io::Result<()> {
        let payload = IoSlice::new(payload);
        let sent = match (member.before.get(index), member.after.get(index)) {
            (None, None) => self.socket.send_to_vectored(&[payload], &member.address)?,
            (Some(before), None) => {
                self.socket.send_to_vectored(&[IoSlice::new(before), payload], &member.address)?
            }
            (None, Some(after)) => {
                self.socket.send_to_vectored(&[payload, IoSlice::new(after)], &member.address)?
            }
            (Some(before), Some(after)) => {
                let slices = [IoSlice::new(before), payload, IoSlice::new(after)];
                self.socket.send_to_vectored(&slices, &member.address)?
            }
        };
        debug_assert!(sent >= payload.len());
        Ok(())
    }
}

/// The library with one of its back ends.
struct Library {
    name: &'static str,
    sender: Sender,
    slots: Vec<Slot>,
}

impl Contender for Library {
    fn name(&self) -> &'static str {
        self.name
    }

    fn send(&mut self, group: &Group<'_>) -> Result<(), String> {
        self.slots.clear();
        self.slots.resize(group.recipients.len(), Slot::default());
        let wanted = group.payloads.len() * group.recipients.len();
        let mut sent = 0;
        for _ in 0..CALLS_MAX {
            let progress = self.sender.send_group(group.payloads, &group.recipients, &mut self.slots);
            sent += progress.sent;
            if progress.failed > 0 {
                let error = self.slots.iter().find_map(|slot| slot.error);
                return Err(format!("{} datagrams failed: {error:?}", progress.failed));
            }
            if sent == wanted {
                return Ok(());
            }
        }
        Err(format!("only {sent} of {wanted} datagrams sent in {CALLS_MAX} calls"))
    }
}

/// A call goes on where the last one stopped for want of room; so many are enough for any group when there is any.
const CALLS_MAX: usize = 100_000;
