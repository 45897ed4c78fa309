//! What the interoperation tests and the benchmarks share: libsrtp as a safe type, packets of every
//! shape, and pairs of one implementation that sends and another that receives.
//!
//! Belongs to no product: see Cargo.toml.

pub mod libsrtp;
pub mod packet;
pub mod peer;
pub mod random;

#[cfg(feature = "bench")]
pub mod contender;
#[cfg(feature = "bench")]
pub mod measure;
