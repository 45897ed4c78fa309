//! The kernel's route socket: asking for routes, neighbours, links and queueing disciplines, and
//! hearing of changes (rtnetlink(7), RFC 3549).
//!
//! A parser of its own, because `netlink-packet-route` reads every attribute of every message into
//! vectors on the heap, of which this crate needs a dozen kinds, where one request per recipient is
//! made while datagrams wait; and because it refuses a whole message when one attribute is of a
//! length it does not know, which newer kernels send. `message.rs`, `objects.rs` and `request.rs`
//! read and write bytes; `socket.rs` is the descriptor. What the answers mean for sending is
//! `route.rs`.

pub(crate) mod message;
#[cfg(any(feature = "af-xdp", feature = "tc-clone", feature = "internals"))]
pub(crate) mod objects;
pub(crate) mod qdisc;
pub(crate) mod request;
pub(crate) mod socket;

use message::{IFLA_IFNAME, Message, RTM_GETLINK, RTM_NEWLINK, interface_index};
use request::{Request, link_fixed};
use socket::NetlinkSocket;
use std::io;

/// Longest name of an interface: `IFNAMSIZ` without the terminating zero.
const INTERFACE_NAME_MAX: usize = 15;

/// The number of the interface with this name, in the network namespace of the socket.
pub(crate) fn index_of(socket: &mut NetlinkSocket, request: &mut Request, name: &str) -> io::Result<u32> {
    let mut name = name.as_bytes().to_vec();
    if name.is_empty() || name.len() > INTERFACE_NAME_MAX || name.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    name.push(0);
    let request = request.one(RTM_GETLINK, &link_fixed(0)).attribute(IFLA_IFNAME, &name);
    ask_link(socket, request, |message| interface_index(message.body))
}

/// The interface with this number.
#[cfg(any(feature = "af-xdp", feature = "tc-clone", feature = "internals"))]
pub(crate) fn link(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    index: u32,
) -> io::Result<objects::Link> {
    let request = request.one(RTM_GETLINK, &link_fixed(index));
    ask_link(socket, request, |message| objects::Link::parse(message.body))
}

fn ask_link<T>(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    read: impl Fn(Message<'_>) -> Option<T>,
) -> io::Result<T> {
    socket.one(request, |message| (message.kind == RTM_NEWLINK).then(|| read(message)).flatten())
}
