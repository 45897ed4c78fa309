//! TLS between nodes: 1.3 only, with certificates that each node makes for itself at its start.
//!
//! Nobody checks them. What proves that the other end is a node of this cluster is the cluster's secret,
//! bound to the connection by 32 bytes that only its two ends have (`node_link::Binding`).

use std::sync::Arc;
use std::time::Duration;

use node_link::{BINDING_LABEL, Binding, RELAY_LABEL};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::socket::Socket;

/// Time a TLS handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(3);
/// Encrypted bytes that wait for the socket: what waits there can no longer be left out.
const UNSENT_BYTES_MAX: usize = 16 * 1024;
/// The name that a dialer asks for; listeners look at none.
const SERVER_NAME: &str = "node.millstream.internal";

/// Both ends of TLS.
pub(crate) struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// With a certificate of its own.
    pub(crate) fn new() -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("TLS between nodes cannot be used: {error}");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = &[&rustls::version::TLS13];
        let made = self_signed::certificate([SERVER_NAME.to_owned()]);
        let (certificate, key) = made.map_err(|error| fail(&error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| fail(&error))?
            .with_no_client_auth()
            .with_single_cert(certificate, key)
            .map_err(|error| fail(&error))?;
        // Links last; nothing is resumed.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| fail(&error))?;
        let mut client = self_signed::accept_any(client).with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }

    /// The dialer's end.
    pub(crate) async fn connect(&self, socket: Socket) -> Result<TlsStream<Socket>, String> {
        let name = ServerName::try_from(SERVER_NAME).expect("a name without surprises");
        let stream = timeout(HANDSHAKE_WITHIN, self.connector.connect(name, socket)).await;
        let mut stream = stream.map_err(|_| SLOW)?.map_err(|error| error.to_string())?;
        stream.get_mut().1.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(stream.into())
    }

    /// The listener's end; the caller limits the time of all that a stranger does.
    pub(crate) async fn accept(&self, socket: Socket) -> Result<TlsStream<Socket>, String> {
        let mut stream = self.acceptor.accept(socket).await.map_err(|error| error.to_string())?;
        stream.get_mut().1.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(stream.into())
    }
}

const SLOW: &str = "no TLS handshake in time";

/// What only the two ends of this connection have: for the proofs, and for the relay of packets.
pub(crate) fn exported(stream: &TlsStream<Socket>) -> Result<(Binding, [u8; 32]), String> {
    let export = |label| match stream {
        TlsStream::Client(stream) => stream.get_ref().1.export_keying_material([0; 32], label, None),
        TlsStream::Server(stream) => stream.get_ref().1.export_keying_material([0; 32], label, None),
    };
    let fail = |error: rustls::Error| error.to_string();
    Ok((Binding(export(BINDING_LABEL).map_err(fail)?), export(RELAY_LABEL).map_err(fail)?))
}
