//! A server with a certificate, and TLS clients: one that trusts it, one that trusts anybody.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::TIMEOUT;
use super::server::{ScratchDir, Server};

/// A server with TLS, its certificate, and the directory of that.
pub(crate) fn server(workers: u32, config: &str) -> (Server, CertificateDer<'static>, ScratchDir) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let files = ScratchDir::new();
    let (chain, key) = (files.path().join("chain.pem"), files.path().join("key.pem"));
    fs::write(&chain, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let config = format!("{config}[tls]\ncertificate = {chain:?}\nkey = {key:?}\n");
    (Server::start_workers(workers, &config), made.cert.der().clone(), files)
}

/// A client that offers `protocols`.
pub(crate) fn connect(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a root");
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    socket.set_nodelay(true).expect("a socket option");
    StreamOwned::new(connection, socket)
}

/// A client that takes any certificate.
pub(crate) fn credulous() -> ClientConnection {
    let config = self_signed::accept_any(ClientConfig::builder()).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a session")
}
