//! DTLS-SRTP of one peer (RFC 5764): from the first ClientHello to SRTP keys, for DTLS 1.2 and 1.3, in both roles.
//!
//! Two libraries do the handshake, `dimpl` for DTLS 1.3 and `rtc-dtls` for 1.2, because neither does all that peers
//! need: `dimpl` knows no RSA certificates, which GStreamer makes by default, and `rtc-dtls` knows no 1.3. What both
//! have in common is here: which of them a ClientHello goes to, which SRTP profile is taken, that the certificate is
//! the signalled one before any key is exported, limits, timers, and that a panic inside stays inside.
//!
//! Left to others: that datagrams come from a validated pair of addresses (`ice`), and the cipher of media (`srtp`).
//! Left out: DTLS 1.0, PSK, renegotiation, resumption, connection ids, application data.
//!
//! There is no cookie exchange of our own (RFC 6347 section 4.2.1, RFC 9147 section 5.1): it proves that a client
//! receives at the address it sends from, and an ICE check with our password has proved just that before a first
//! DTLS record is looked at. `rtc-dtls` always does it nevertheless, `dimpl` is told not to, which saves a round trip.

mod certificate;
mod client_hello;
mod config;
mod dimpl_engine;
mod error;
mod fingerprint;
mod record;
mod rtc_dtls_engine;
mod session;

pub use certificate::Certificate;
pub use client_hello::{ClientHello, ClientHelloBuffer, ClientHelloError};
pub use config::{Config, DtlsRole, DtlsVersion};
pub use error::DtlsError;
pub use fingerprint::{Fingerprint, FingerprintError, FingerprintHash};
pub use session::{Dtls, DtlsEvent, SrtpKeys};
