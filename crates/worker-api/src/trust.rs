//! Whom the server trusts as a client by TLS.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Trusts the system's authorities and those in `extra_roots_pem`.
///
/// # Errors
/// If one of those in `extra_roots_pem` cannot be read: a sentence.
pub fn client_config(extra_roots_pem: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is not trusted; without any, connections say so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(extra_roots_pem) {
        let certificate = certificate.map_err(|error| format!("not a PEM certificate: {error}"))?;
        roots.add(certificate).map_err(|error| format!("not a certificate of an authority: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
