//! WHIP by HTTPS, as browsers need it for a camera: the worker's TLS session goes on where the offer is
//! answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::rtc::{OfferOptions, offer};
use crate::common::tls;
use rtc::sdp::{Direction, make_offer, read_answer};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

#[test]
fn an_offer_by_https_is_answered_like_one_by_http() {
    let (server, certificate, _files) = tls::server(1, "");
    let https = server.https.expect("an HTTPS address");

    let offer =
        offer(Direction::Send, "127.0.0.1:50000".parse().expect("an address"), &OfferOptions::default());
    let text = make_offer(&offer);
    let head = format!(
        "POST /whip/live/a HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    let answer = exchange(https, &certificate, &[head.as_bytes(), text.as_bytes()]);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 201 Created\r\n"), "{head}");
    assert!(read_answer(body, &offer).expect("an answer to the offer").ice_lite);

    let request = b"GET /api/v1/server HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n";
    let answer = exchange(https, &certificate, &[request]);
    assert!(answer.contains("\"whip\":[\"https://localhost/whip\","), "{answer}");
}

/// Sends `pieces`, each in records of its own, and reads until the server has closed.
fn exchange(address: SocketAddr, trusted: &CertificateDer<'static>, pieces: &[&[u8]]) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a root");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("a socket option");
    let mut stream = StreamOwned::new(connection, socket);
    for piece in pieces {
        stream.write_all(piece).expect("sent");
        stream.flush().expect("sent");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and a proper end");
    answer
}
