//! Ciphers of SRTP: AES-GCM (RFC 7714), and AES in counter mode with HMAC-SHA1 (RFC 3711, RFC 6188).
//!
//! They know keys, nonces and bytes; what a packet is, which index it has and whether it may be
//! used is decided above.
#![allow(
    unreachable_pub,
    reason = "the feature `internals` re-exports the keys, which are private otherwise"
)]

pub mod cm;
pub mod gcm;
