//! The loop that everything is measured against, the library's back ends, and two of them in plain
//! C.

mod naive;

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};

use group_send::{AfXdpConfig, BackendKind, Config, Sender, Slot};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use self::naive::NaiveMember;
use crate::traffic::{Group, Member};
use naive::Naive;

/// All contenders in the order of a table.
pub(crate) const NAMES: [&str; 8] =
    ["loop", "c_sendmmsg", "sendmmsg", "c_gso", "gso", "io_uring", "af_xdp", "tc_clone"];

/// One that sends groups.
pub(crate) trait Contender {
    /// Sends each payload to each member.
    fn send(&mut self, group: &Group<'_>) -> Result<(), String>;
}

/// The contender of this name, its socket open; or why it cannot run here.
pub(crate) fn build(name: &'static str, interface: &str) -> Result<Box<dyn Contender>, String> {
    let socket = socket().map_err(|error| error.to_string())?;
    let kind = match name {
        "loop" => return Ok(Box::new(Loop { socket })),
        "c_sendmmsg" => return Ok(Box::new(Naive { socket, segments: false })),
        "c_gso" => return Ok(Box::new(Naive { socket, segments: true })),
        "sendmmsg" => BackendKind::Sendmmsg,
        "gso" => BackendKind::Gso,
        "io_uring" => BackendKind::IoUring,
        "af_xdp" => BackendKind::AfXdp,
        "tc_clone" => BackendKind::TcClone,
        _ => return Err("unknown".into()),
    };
    let config = Config {
        backends: vec![kind],
        af_xdp: Some(AfXdpConfig::new(interface)),
        #[cfg(feature = "tc-clone")]
        tc_clone: Some(group_send::TcCloneConfig::new(interface)),
        ..Config::default()
    };
    let sender = Sender::new(&socket, &config).map_err(|error| error.to_string())?;
    Ok(Box::new(Library { sender, slots: Vec::new() }))
}

/// Where a server's socket is: on all addresses, with room for a burst. One contender shares the
/// port.
fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
    Ok(socket)
}

const SEND_BUFFER_BYTES: usize = 4 << 20;

/// One `sendmsg` a datagram: two slices, three with private bytes after the payload.
struct Loop {
    socket: Socket,
}

impl Contender for Loop {
    fn send(&mut self, group: &Group<'_>) -> Result<(), String> {
        for member in group.members {
            for (index, &payload) in group.payload_parts.iter().enumerate() {
                self.send_one(member, index, payload).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl Loop {
    fn send_one(&self, member: &Member<'_>, index: usize, payload: IoSlice<'_>) -> io::Result<usize> {
        let slices = match (member.before_parts.get(index), member.after_parts.get(index)) {
            (None, None) => &[payload][..],
            (Some(&before), None) => &[before, payload],
            (None, Some(&after)) => &[payload, after],
            (Some(&before), Some(&after)) => &[before, payload, after],
        };
        self.socket.send_to_vectored(slices, &member.address)
    }
}

/// The library with one of its back ends.
struct Library {
    sender: Sender,
    slots: Vec<Slot>,
}

impl Contender for Library {
    fn send(&mut self, group: &Group<'_>) -> Result<(), String> {
        self.slots.clear();
        self.slots.resize(group.recipients.len(), Slot::default());
        let expected = group.payloads.len() * group.recipients.len();
        let mut sent = 0;
        for _ in 0..CALLS_MAX {
            let progress = self.sender.send_group(group.payloads, &group.recipients, &mut self.slots);
            sent += progress.sent;
            if progress.failed > 0 {
                let error = self.slots.iter().find_map(|slot| slot.error);
                return Err(format!("{} datagrams failed: {error:?}", progress.failed));
            }
            if sent == expected {
                return Ok(());
            }
        }
        Err(format!("only {sent} of {expected} datagrams sent in {CALLS_MAX} calls"))
    }
}

/// A call continues where the last one stopped for lack of room; this many suffice for any group.
const CALLS_MAX: usize = 100_000;
