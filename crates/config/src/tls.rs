//! The TLS side of the configuration: certificates and keys from files, or self-signed for trials.
//!
//! One provider, aws-lc-rs. Errors name the key and the remedy.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use worker_api::certificates::{Certificate, CertificateStore};
use worker_api::challenges::TLS_PROTOCOL;

use super::Config;
use super::error::{ConfigError, Origin};

impl Config {
    /// Whether there are certificates that somebody gave.
    pub(super) fn has_certificates(&self) -> bool {
        !self.tls.certificate.is_empty() || !self.certificates.is_empty()
    }

    /// Whether there are any.
    pub(super) fn tls_is_on(&self) -> bool {
        self.has_certificates() || self.tls.self_signed || self.has_acme()
    }

    /// The files of certificates and keys.
    pub fn certificate_files(&self) -> Vec<&str> {
        let further = self.certificates.iter().flat_map(|entry| [&entry.files.certificate, &entry.files.key]);
        let files = [&self.tls.certificate, &self.tls.key].into_iter().chain(further);
        files.map(String::as_str).filter(|file| !file.is_empty()).collect()
    }

    /// Reads all certificates; none where TLS is off. On failure returns all errors.
    pub fn read_certificates(&self) -> Result<Vec<Certificate>, Vec<ConfigError>> {
        let (mut certificates, mut errors) = (Vec::new(), Vec::new());
        let tls = &self.tls;
        let pair = |key: &str| (format!("tls.{key}"), self.origin(&format!("tls.{key}")));
        let mut add = |read: Result<Certificate, ConfigError>| match read {
            Ok(certificate) => certificates.push(certificate),
            Err(error) => errors.push(error),
        };
        match (tls.certificate.as_str(), tls.key.as_str()) {
            ("", "") if self.uses_self_signed() => add(self.self_signed()),
            ("", "") => {}
            (certificate, key) => add(read([(certificate, pair("certificate")), (key, pair("key"))])),
        }
        for entry in &self.certificates {
            let key = |key: &str| (format!("tls.certificates.{key}"), entry.origin.clone());
            let files = &entry.files;
            add(read([(&files.certificate, key("certificate")), (&files.key, key("key"))]));
        }
        if errors.is_empty() { Ok(certificates) } else { Err(errors) }
    }

    /// Whether one is made at each start: wanted, or needed until the first is issued.
    pub(super) fn uses_self_signed(&self) -> bool {
        !self.has_certificates() && (self.tls.self_signed || self.has_acme())
    }

    fn self_signed(&self) -> Result<Certificate, ConfigError> {
        // Those of `[acme]` are checked where it is resolved.
        let (source, key, names) = match self.has_acme() {
            true => ("self-signed, until one is issued", "acme.domains", self.acme_names()),
            false => ("`tls.self_signed`", "tls.self_signed_names", self.tls.self_signed_names.clone()),
        };
        let at = |error: String| ConfigError::new(&self.origin(key), format!("`{key}`: {error}"));
        let made = self_signed::certificate(names);
        let (chain, private) = made.map_err(|error| at(error.to_string()))?;
        Certificate::new(source.to_owned(), chain, private).map_err(at)
    }
}

/// TLS for RTMPS and HTTPS with the certificates of `store`.
pub(super) fn server_config(store: &Arc<CertificateStore>) -> Arc<rustls::ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder
        .expect("the provider has cipher suites of these versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(store) as _);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// The same for HTTPS, where HTTP/2 is offered as well (RFC 7301, RFC 9113 section 3.2), and challenges of
/// certificate authorities are answered if there are any.
pub(super) fn for_https(config: &rustls::ServerConfig, has_challenges: bool) -> Arc<rustls::ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols.insert(0, b"h2".to_vec());
    if has_challenges {
        config.alpn_protocols.push(TLS_PROTOCOL.to_vec());
    }
    Arc::new(config)
}

/// A certificate and its key: two files, each with its key of the configuration and where that is.
fn read(files: [(&str, (String, Origin)); 2]) -> Result<Certificate, ConfigError> {
    let [(chain, (chain_key, chain_at)), (key, (key_key, key_at))] = files;
    if chain.is_empty() {
        return Err(ConfigError::new(&key_at, format!("`{key_key}` needs `{chain_key}`")));
    }
    if key.is_empty() {
        return Err(ConfigError::new(&chain_at, format!("`{chain_key}` needs `{key_key}`")));
    }
    let certificates = read_chain(chain)
        .map_err(|error| ConfigError::new(&chain_at, format!("`{chain_key}` {chain}: {error}")))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        let message = format!("`{key_key}` {key}: no PEM private key could be read ({error})");
        ConfigError::new(&key_at, message)
    })?;
    Certificate::new(format!("`{chain_key}` {chain}"), certificates, private).map_err(|error| {
        let message = format!("`{chain_key}` {chain} and `{key_key}` {key} do not work together: {error}");
        ConfigError::new(&key_at, message)
    })
}

fn read_chain(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("no PEM certificate could be read ({error})"))?;
    if chain.is_empty() { Err("holds no PEM certificate".to_owned()) } else { Ok(chain) }
}
