//! AES-GCM for datagrams that are not SRTP: the keys beneath the contexts, with the same kernels.
//!
//! **The caller answers for nonces.** A [`GcmKey`] seals whatever nonce it is given; two texts under
//! one nonce of one key give both away, and the means to forge others. The contexts of this crate see
//! to that themselves; whoever uses a key directly needs a counter that never goes back, and a key
//! that nobody else seals with.

pub use crate::cipher::gcm::{GcmKey, TAG_BYTES, TEXT_BYTES_MAX};
