//! Players of HLS, low-latency HLS and DASH, and the floor that they are compared with.
//!
//! ```text
//! response.rs -> playlist.rs, copies.rs -> player.rs -> run.rs -> report.rs
//! ```
//!
//! One thread holds thousands of players, each with a connection that is kept. The first player that gets an
//! object keeps it, and all others compare what they get with that copy, byte by byte; the stamps in it say
//! which frames it has and when they were sent.

pub mod cli;
mod copies;
pub mod floor;
mod player;
mod playlist;
pub mod report;
mod response;
pub mod run;
