//! The behaviour of `srtp`, one module each. Apart stand `backends` and `no_allocation`.

mod batches;
mod bit_flips;
mod common;
mod dtls_keying;
mod every_length;
mod fuzz_corpus;
mod key_lifetime;
mod later_tags;
mod mki;
mod naive_twin;
mod new_keys;
mod nonce_never_repeats;
mod positions;
mod replay_window;
mod rfc3711;
mod rfc6188;
mod rfc7714;
mod roc;
mod sent_again;
mod streams_cap;
mod wycheproof;
