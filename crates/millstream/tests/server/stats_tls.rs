//! The stream of statistics over TLS: the connection is taken over from the worker in the middle of its
//! session.

use std::net::TcpStream;
use std::sync::Arc;

use crate::common::server::Server;
use crate::common::stats;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

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
    let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
    let name = ServerName::try_from("localhost").expect("a name");
    let connection =
        ClientConnection::new(Arc::new(config.with_no_client_auth()), name).expect("a TLS session");
    let socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("set a timeout");
    let url = format!("wss://{address}{}", stats::PATH);
    let headers = [("Sec-WebSocket-Protocol", stats::SUBPROTOCOL)];
    match stats::open_over(StreamOwned::new(connection, socket), &url, &headers) {
        Ok(reader) => reader,
        Err((status, body)) => panic!("{status}: {body}"),
    }
}

/// Takes any certificate: the server made its own.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
