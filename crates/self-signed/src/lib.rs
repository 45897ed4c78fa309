//! TLS with certificates that prove nothing: made at each start, and accepted whatever they are.
//!
//! Nodes of a cluster prove what they are inside the connection (`node-link`), a server with
//! `tls.self_signed` proves nothing, and `millstream top --insecure` asks for nothing.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, SignatureScheme, WantsVerifier};

/// A new certificate for these names, and its key.
///
/// # Errors
/// One of them is no name that a certificate can have.
pub fn certificate(
    names: impl Into<Vec<String>>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

/// A client that accepts every certificate. The server must still have the key of the one it presents.
pub fn accept_any(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let provider = Arc::clone(builder.crypto_provider());
    builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
