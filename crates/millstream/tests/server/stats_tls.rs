//! The stream of statistics over TLS: the connection is taken over from the worker in the middle of its
//! session.

use std::net::TcpStream;

use crate::common::server::Server;
use crate::common::{stats, tls};
use rustls::{ClientConnection, StreamOwned};

#[test]
fn messages_come_over_tls_and_so_does_the_end() {
    let server = Server::spawn("[tls]\nself_signed = true\n");
    let address = server.https.expect("an HTTPS address");
    let mut reader = open(address);
    let first = reader.next();
    let second = reader.next();
    assert_eq!(second["sequence"].as_u64(), first["sequence"].as_u64().map(|sequence| sequence + 1));
    let mut other = open(address);
    other.next();
    reader.socket.close(None).expect("send a close frame");
    while reader.socket.read().is_ok() {}
    server.terminate();
    assert_eq!(other.close_code(), Some(1001));
}

fn open(address: std::net::SocketAddr) -> stats::Reader<StreamOwned<ClientConnection, TcpStream>> {
    let socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("set a timeout");
    let url = format!("wss://{address}{}", stats::PATH);
    let headers = [("Sec-WebSocket-Protocol", stats::SUBPROTOCOL)];
    match stats::open_over(StreamOwned::new(tls::credulous(), socket), &url, &headers) {
        Ok(reader) => reader,
        Err((status, body)) => panic!("{status}: {body}"),
    }
}
