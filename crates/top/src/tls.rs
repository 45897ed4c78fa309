//! Which TLS servers `millstream top` trusts.
//!
//! The system's certificate authorities, or those in one file instead. A server with
//! `tls.self_signed` generates its certificate at each start, so it cannot be known in advance:
//! `--insecure` is for that case, and is shown on the screen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

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
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?;
    let builder = match trust {
        Trust::System => builder.with_root_certificates(read_roots(&system_bundle()?)?),
        Trust::File(path) => builder.with_root_certificates(read_roots(path)?),
        Trust::Anybody => self_signed::accept_any(builder),
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
