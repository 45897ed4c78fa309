//! TLS for clients: the system's roots and more, HTTP/2 offered by ALPN (RFC 7301).
//!
//! One provider, aws-lc-rs, named here and not taken from the process's default, so that the crate
//! works whatever the program around it has installed.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;

use crate::error::{Permanent, SourceError};

/// Opens TLS over connections. Cheap to clone; sessions are resumed among clones.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl Connector {
    /// Trusts the system's roots and the certificates in `extra_roots_pem`, and offers `protocols`
    /// by ALPN, best first.
    ///
    /// # Errors
    /// [`Permanent::Setup`] if `extra_roots_pem` cannot be read, or nothing is trusted at all.
    pub fn new(extra_roots_pem: &[u8], protocols: &[&[u8]]) -> Result<Self, SourceError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| setup(format!("TLS: {error}")))?
            .with_root_certificates(roots(extra_roots_pem)?)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Self { config: Arc::new(config) })
    }

    /// The handshake with `host`, a name or an address (IPv6 with or without brackets). It has no
    /// timeout of its own.
    ///
    /// # Errors
    /// [`Permanent::Setup`] if the certificate is not valid for `host`, or the two sides have no
    /// version in common; [`SourceError::Transient`] if the connection breaks.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<TlsStream<S>, SourceError> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| setup(format!("{host} is no name that a certificate could have")))?;
        tokio_rustls::TlsConnector::from(Arc::clone(&self.config))
            .connect(name, stream)
            .await
            .map_err(|error| explain(host, &error))
    }
}

/// What the system trusts, read once; files that cannot be read are left out.
fn system_roots() -> &'static [CertificateDer<'static>] {
    static ROOTS: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}

fn roots(extra_pem: &[u8]) -> Result<RootCertStore, SourceError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system_roots().iter().cloned());
    for certificate in CertificateDer::pem_slice_iter(extra_pem) {
        let certificate = certificate.map_err(|error| setup(format!("extra certificates: {error}")))?;
        roots.add(certificate).map_err(|error| setup(format!("extra certificates: {error}")))?;
    }
    if roots.is_empty() {
        return Err(setup("no root certificates: the system has none, and none are given".to_owned()));
    }
    Ok(roots)
}

/// A broken connection is worth another try, a certificate that is not valid is not.
fn explain(host: &str, error: &io::Error) -> SourceError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => setup(format!("TLS with {host}: {inner}")),
        None => SourceError::transient(format!("TLS with {host}: {error}")),
    }
}

fn setup(reason: String) -> SourceError {
    SourceError::Permanent(Permanent::Setup(reason))
}
