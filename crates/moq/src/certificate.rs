//! Certificates for trials, as browsers accept them without an authority: by their SHA-256 hash
//! (`serverCertificateHashes` of WebTransport), with an elliptic curve, and for two weeks at most.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::ServerConfig;
use rustls::version::TLS13;
use sha2::{Digest, Sha256};

use crate::catalog::to_hex;

/// How long one is used before another takes its place.
pub(crate) const USED_FOR: Duration = Duration::from_secs(10 * 86_400);
/// How long one is valid: less than the two weeks that browsers permit at most.
const VALID_FOR: Duration = Duration::from_secs(13 * 86_400);
/// Clocks of clients that are behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);

/// A new certificate, as the configuration of a server, and its hash.
pub(crate) fn for_trials(names: &[String], now: Duration) -> Result<(Arc<ServerConfig>, String), String> {
    let since_1970 = |at: Duration| std::time::UNIX_EPOCH + at;
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params.not_before = since_1970(now.saturating_sub(CLOCK_SKEW)).into();
    params.not_after = since_1970(now.saturating_sub(CLOCK_SKEW) + VALID_FOR).into();
    // ECDSA with P-256, which browsers ask for.
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let made = params.self_signed(&key).map_err(|error| error.to_string())?;
    let certificate: CertificateDer<'static> = made.der().clone();
    let hash = to_hex(&Sha256::digest(&certificate));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .map_err(|error| error.to_string())?;
    Ok((Arc::new(config), hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_certificate_is_another_and_a_name_must_be_one() {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let hash = || for_trials(&names, Duration::from_secs(1_800_000_000)).expect("a certificate").1;
        let (first, second) = (hash(), hash());
        assert!(first.len() == 64 && first != second, "{first}");
        assert!(for_trials(&["not\u{fc}".to_owned()], Duration::ZERO).is_err());
    }
}
