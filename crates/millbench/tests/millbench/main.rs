//! The load generator's exit codes and what it sends, against stand-ins that misbehave: a module
//! for each behaviour.

mod exit_code;
mod forwarder;
mod hls;
mod live;
mod relay;
mod rtc_exit_code;
mod rtc_media_decodes;

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// An address where connections are refused as long as the socket lives, which keeps others from
/// listening there.
fn nobody_listens() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
    (socket, address)
}
