//! Which TLS servers `millstream top` trusts.
//!
//! The system's certificate authorities, or those in one file instead. A server with
//! `tls.self_signed` generates its certificate at each start, so it cannot be known in advance:
//! `--insecure` is for that case, and is shown on the screen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Where distributions keep the system's authorities: Debian and Arch, Fedora and its family, Alpine.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// Names another file instead, for OpenSSL and most other programs.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Whose certificates are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those of the system's authorities.
    System,
    /// Those of the authorities in a PEM file, which may also contain a server's own certificate.
    File(PathBuf),
    /// Anybody's.
    Anybody,
}

/// The client side of TLS. Errors name the file that could not be used.
pub(crate) fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?;
    let builder = match trust {
        Trust::System => builder.with_root_certificates(read_roots(&system_bundle()?)?),
        Trust::File(path) => builder.with_root_certificates(read_roots(path)?),
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider))),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn system_bundle() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(BUNDLE_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let found = SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.exists());
    found.map(Path::to_owned).ok_or_else(|| {
        format!(
            "this system has no certificate authorities (looked for {}); name a file of them with --ca",
            SYSTEM_BUNDLES.join(", ")
        )
    })
}

fn read_roots(path: &Path) -> Result<RootCertStore, String> {
    let fail = |why: &str| format!("{}: {why}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fail(&format!("no PEM certificates could be read ({error})")))?;
    let mut roots = RootCertStore::empty();
    // The system's file may contain one that is not understood; the others are still trusted.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 { Err(fail("holds no certificate that can be used")) } else { Ok(roots) }
}

/// Accepts every certificate. The peer must still have the key of the one it presents.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        for (path, expected) in
            [("/nowhere/ca.pem", "no PEM certificates"), ("/dev/null", "holds no certificate")]
        {
            let error = client_config(&Trust::File(path.into())).expect_err(path);
            assert!(error.starts_with(path) && error.contains(expected), "{error}");
        }
    }
}
