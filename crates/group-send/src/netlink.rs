//! The kernel's route socket: asking for routes, neighbours, links and queueing disciplines, and hearing of changes
//! (rtnetlink(7), RFC 3549).
//!
//! A parser of its own, because `netlink-packet-route` reads every attribute of every message into vectors on the
//! heap, of which this crate wants a dozen kinds, at a place where one question a recipient is asked while datagrams
//! wait; and because it refuses a whole message when one attribute is of a length it does not know, which newer
//! kernels send. `message.rs` reads and writes bytes and knows nothing else; `socket.rs` is the descriptor. What the
//! answers mean for sending is `route.rs`.

pub(crate) mod message;
pub(crate) mod request;
pub(crate) mod socket;
