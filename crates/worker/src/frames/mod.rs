//! The frames lane: coded frames from a publisher (RTMP, FLV) to its players.
//!
//! ```text
//! proto ─▶ publish.rs ─▶ channel.rs (bytes of a format, once) ─▶ serve.rs ─▶ socket
//! ```

pub(crate) mod channel;
pub(crate) mod publish;
pub(crate) mod serve;
pub(crate) mod streams;
pub(crate) mod unwatched;
