//! Two ends of a connection over bad networks in virtual time, and hostile packets.

mod fuzz_corpus;
mod handshake;
mod hostile;
mod keys;
mod losses;
mod world;
mod wraps;
