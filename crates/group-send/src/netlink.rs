//! The kernel's route socket: asking for routes, neighbours, links and queueing disciplines, and hearing of changes
//! (rtnetlink(7), RFC 3549).
//!
//! A parser of its own, because `netlink-packet-route` reads every attribute of every message into vectors on the
//! heap, of which this crate wants a dozen kinds, at a place where one question a recipient is asked while datagrams
//! wait; and because it refuses a whole message when one attribute is of a length it does not know, which newer
//! kernels send. `message.rs` reads and writes bytes and knows nothing else; `socket.rs` is the descriptor. What the
//! answers mean for sending is `route.rs`.

pub(crate) mod message;
pub(crate) mod qdisc;
pub(crate) mod request;
pub(crate) mod socket;

use message::{IFLA_IFNAME, Link, RTM_GETLINK, RTM_NEWLINK};
use request::{Request, link_fixed};
use socket::NetlinkSocket;
use std::io;

/// Longest name of an interface: `IFNAMSIZ` without the zero behind it.
const INTERFACE_NAME_MAX: usize = 15;

/// Asks for an interface by its name.
pub(crate) fn link_by_name(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    name: &str,
) -> io::Result<Link> {
    let mut name = name.as_bytes().to_vec();
    if name.is_empty() || name.len() > INTERFACE_NAME_MAX || name.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    name.push(0);
    ask_link(socket, request.one(RTM_GETLINK, &link_fixed(0)).attribute(IFLA_IFNAME, &name))
}

/// Asks for an interface by its number.
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
pub(crate) fn link_by_index(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    index: u32,
) -> io::Result<Link> {
    ask_link(socket, request.one(RTM_GETLINK, &link_fixed(index)))
}

fn ask_link(socket: &mut NetlinkSocket, request: &mut Request) -> io::Result<Link> {
    socket.one(request, |message| (message.kind == RTM_NEWLINK).then(|| Link::parse(message.body)).flatten())
}
