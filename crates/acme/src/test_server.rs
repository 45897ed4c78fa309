//! An HTTPS server for tests, which gives the answers that a test chooses.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Starts one that gives each request line, with its own address, to `answer`. Returns its address
/// and the certificate to trust. An answer that ends in `endless` never ends.
pub(crate) async fn start(answer: impl Fn(&str, &str) -> String + Send + 'static) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")];
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("https://localhost:{}", listener.local_addr().expect("bound").port());
    let (tls, own) = (TlsAcceptor::from(Arc::new(tls)), base.clone());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut connection) = tls.accept(socket).await else { continue };
            // Head and body come together, or the rest is of no interest.
            let mut request = [0; 16_384];
            let count = connection.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let text = answer(request.lines().next().unwrap_or_default(), &own);
            let _ = connection.write_all(text.as_bytes()).await;
            if text.ends_with("endless") {
                while connection.write_all(&[b'x'; 65_536]).await.is_ok() {}
            }
            let _ = connection.shutdown().await;
        }
    });
    (base, pem)
}
