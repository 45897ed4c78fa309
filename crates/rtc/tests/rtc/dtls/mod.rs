//! DTLS sessions against each other, in virtual time, and against OpenSSL: one behaviour per file.

mod close;
mod cost;
mod fingerprint;
mod fuzz_corpus;
mod handshake;
mod last_flight;
mod link;
mod loss;
mod memory;
mod openssl;
mod rubbish;
