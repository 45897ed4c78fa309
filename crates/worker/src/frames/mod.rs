//! The frames lane: coded frames from a publisher (RTMP, FLV) to its players.
//!
//! ```text
//! proto ─▶ publish.rs ─▶ stream.rs (bytes of a format, once) ─▶ serve.rs ─▶ socket
//! ```

pub(crate) mod publish;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod unwatched;
