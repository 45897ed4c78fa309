//! The certificate this process shows to its peers: self-signed, ECDSA P-256, made at the start of
//! the process.
//!
//! One for all sessions, as with other servers: what a peer trusts is the fingerprint in the answer
//! it got by HTTPS.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, SerialNumber};
use rtc_dtls::crypto_provider::{RTCCryptoProvider, default_provider};
use rustls::pki_types::CertificateDer;

use super::{DtlsError, Fingerprint, FingerprintHash};

/// A certificate with its private key, in the forms that the DTLS libraries take.
pub struct Certificate {
    der: Vec<u8>,
    fingerprint: Fingerprint,
    pub(super) dimpl: dimpl::DtlsCertificate,
    pub(super) rtc_dtls: rtc_dtls::crypto::Certificate,
    pub(super) provider: Arc<dyn RTCCryptoProvider>,
}

impl Certificate {
    /// Makes a key and a certificate for it.
    ///
    /// The serial number is random, for Firefox refuses a second certificate with the same issuer
    /// and serial number.
    ///
    /// # Errors
    /// [`DtlsError::Internal`] when there is no randomness.
    pub fn generate() -> Result<Self, DtlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|_| DtlsError::Internal)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(|_| DtlsError::Internal)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "millstream");
        let mut serial = [0; 16];
        rand::fill(&mut serial).map_err(|_| DtlsError::Internal)?;
        // Positive, and 16 bytes long in DER (RFC 5280 section 4.1.2.2).
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.self_signed(&key).map_err(|_| DtlsError::Internal)?;
        Self::new(certificate.der().to_vec(), &key)
    }

    fn new(der: Vec<u8>, key: &KeyPair) -> Result<Self, DtlsError> {
        let provider = default_provider().map_err(|_| DtlsError::Internal)?;
        let private_key = rtc_dtls::crypto::CryptoPrivateKey::from_key_pair(key, provider.crypto())
            .map_err(|_| DtlsError::Internal)?;
        Ok(Self {
            fingerprint: Fingerprint::of(FingerprintHash::Sha256, &der),
            dimpl: dimpl::DtlsCertificate { certificate: der.clone(), private_key: key.serialize_der() },
            rtc_dtls: rtc_dtls::crypto::Certificate {
                certificate: vec![CertificateDer::from(der.clone())],
                private_key,
            },
            provider,
            der,
        })
    }

    /// Its SHA-256 fingerprint, for `a=fingerprint`.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_certificates_are_alike() {
        let first = Certificate::generate().unwrap();
        let second = Certificate::generate().unwrap();
        assert_ne!(first.fingerprint(), second.fingerprint());
        assert_eq!(first.fingerprint(), Fingerprint::of(FingerprintHash::Sha256, first.der()));
        // Small enough that the server's flight fits one datagram.
        assert!(first.der().len() < 400, "{} bytes", first.der().len());
        assert!(!format!("{first:?}").contains("private"));
    }
}
