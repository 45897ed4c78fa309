//! DTLS-SRTP of one peer (RFC 5764): from the first ClientHello to SRTP keys, for DTLS 1.2 and 1.3,
//! in both roles.
//!
//! Two libraries do the handshake, `dimpl` for DTLS 1.3 and `rtc-dtls` for 1.2, because neither
//! does all that peers need: `dimpl` knows no RSA certificates, which GStreamer makes by default,
//! and `rtc-dtls` knows no 1.3. What both have in common is here: which of them a ClientHello goes
//! to, which SRTP profile is taken, that the certificate is the signalled one before any key is
//! exported, limits, timers, and that a panic inside stays inside.
//!
//! Left to others: that datagrams come from a validated pair of addresses (`ice`), and the cipher
//! of media (`srtp`). Left out: DTLS 1.0, PSK, renegotiation, resumption, connection ids,
//! application data: SCTP of data channels (RFC 8261) would be an event and a method of `Dtls`,
//! passed through by `Peer`.
//!
//! There is no cookie exchange of our own (RFC 6347 section 4.2.1, RFC 9147 section 5.1). It keeps
//! third parties from having flights sent to a forged address, and here that takes an ICE check
//! with the session's password first. A peer that has the password can still forge the address of
//! both, for one flight and its repetitions; media goes there only after that address has finished
//! the handshake. `rtc-dtls` always asks for a cookie, `dimpl` is configured not to, which saves a
//! round trip.

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
