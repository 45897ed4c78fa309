//! The TLS side of the configuration: certificate and key from files, or self-signed for trials.
//!
//! One provider, aws-lc-rs. Errors name the key and the remedy.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Config;
use super::error::ConfigError;

/// TLS for RTMPS and HTTPS, or `None` when it is not configured.
pub fn server_config(config: &Config) -> Result<Option<Arc<rustls::ServerConfig>>, ConfigError> {
    let tls = &config.tls;
    let at = |key: &str, message: String| ConfigError::new(&config.origin(key), message);
    let (chain, key) = match (tls.certificate.as_str(), tls.key.as_str()) {
        ("", "") if tls.self_signed => self_signed::certificate(tls.self_signed_names.as_slice())
            .map_err(|error| at("tls.self_signed_names", format!("`tls.self_signed_names`: {error}")))?,
        ("", "") => return Ok(None),
        ("", _) => return Err(at("tls.key", "`tls.key` needs `tls.certificate`".to_owned())),
        (_, "") => return Err(at("tls.certificate", "`tls.certificate` needs `tls.key`".to_owned())),
        (certificate, key) => (
            read_chain(certificate).map_err(|error| {
                at("tls.certificate", format!("`tls.certificate` {certificate}: {error}"))
            })?,
            PrivateKeyDer::from_pem_file(key).map_err(|error| {
                at("tls.key", format!("`tls.key` {key}: no PEM private key could be read ({error})"))
            })?,
        ),
    };
    build(chain, key).map(Some).map_err(|error| {
        at("tls.key", format!("`tls.certificate` and `tls.key` do not work together: {error}"))
    })
}

/// The same for HTTPS, where HTTP/2 is offered as well (RFC 7301, RFC 9113 section 3.2).
pub(super) fn with_http2(config: &rustls::ServerConfig) -> Arc<rustls::ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols.insert(0, b"h2".to_vec());
    Arc::new(config)
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_chain(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("no PEM certificate could be read ({error})"))?;
    if chain.is_empty() { Err("holds no PEM certificate".to_owned()) } else { Ok(chain) }
}
