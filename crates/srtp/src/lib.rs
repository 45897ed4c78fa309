//! SRTP and SRTCP for servers (RFC 3711, RFC 7714, RFC 6188).

mod backend;

pub use backend::{Backend, Unsupported};
