//! A bad path between real WebRTC clients and a server: a relay of UDP in user space.
//!
//! ```text
//! client ─▶ relay (socket, a flow per client) ─▶ line up   ─▶ server
//! client ◀─ relay                             ◀─ line down ◀─ server
//! ```
//! A client learns the relay's address in place of the server's. One of the two lines is the
//! bottleneck, the model of [`netsim::bottleneck`], and all flows share it; the other has the delay
//! only. Everything that is measured here is measured at the bottleneck: what waited how long, what
//! was dropped, what passed. Time counts from the first packet of media in its direction.

pub mod cli;
mod ledger;
mod line;
mod relay;

pub use relay::run;
