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
//! application data.
//!
//! There is no cookie exchange of our own (RFC 6347 section 4.2.1, RFC 9147 section 5.1). It keeps
//! strangers from having flights sent to others, and here no stranger gets that far: an ICE check
//! with the session's password comes first. Who has the password can still write another's address
//! on both, for one flight and its repetitions; media goes there only once somebody there has
//! finished the handshake. `rtc-dtls` always asks for a cookie, `dimpl` is told not to, which saves
//! a round trip.

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
