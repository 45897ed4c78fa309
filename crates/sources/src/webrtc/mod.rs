//! WebRTC sessions with other servers, for pulls by WHEP and pushes by WHIP: where they are
//! (`endpoint.rs`), offer and answer by HTTP (`signalling.rs`), and their datagrams (`link.rs`).
//!
//! The media are `rtc_client`'s. Addresses in answers are judged as those that names resolve to: a
//! server cannot have datagrams sent where this server would not connect to.

mod endpoint;
mod link;
mod signalling;

pub use endpoint::{Endpoint, Use};
pub use link::{Arrived, Link, OpenError, Opened};
