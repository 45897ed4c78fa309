//! HLS, low-latency HLS and DASH over a window of segments in memory, without socket, thread or clock.
//!
//! A [`Window`] takes what a [`cmaf::Segmenter`] makes and answers requests ([`Window::respond`]) for
//! what [`Object`] names: playlists by RFC 8216bis (draft-pantos-hls-rfc8216bis), MPDs by ISO/IEC
//! 23009-1, and the bytes themselves. What has to wait is a decision ([`Answer::Wait`]) that the server
//! asks for again; a [`Query`] is read and checked here. What does not fit into memory can go to disk:
//! [`Window::to_store`] and [`Answer::Recall`] say when and what, the server moves the bytes.
//!
//! [`on_demand`] has playlists of files that are cut when somebody plays them, [`mirror`] those of live
//! streams whose segments are files elsewhere. [`read`] reads playlists of other servers.
//!
//! `window.rs` keeps, `playlist.rs`, `master.rs` and `mpd.rs` write, as `on_demand.rs` does, what
//! `variant.rs` has in common; `respond.rs` decides.

mod master;
pub mod mirror;
mod mpd;
mod names;
pub mod on_demand;
mod playlist;
mod query;
mod range;
pub mod read;
mod respond;
mod sequence;
mod settings;
mod text;
mod variant;
mod window;

pub use names::Object;
pub use query::{BadRequest, QUERY_BYTES_MAX, Query};
pub use range::Range;
pub use respond::{Accepts, Answer, Body, Cache};
pub use settings::Settings;
pub use window::{SegmentId, Window};

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
