//! Media that this server publishes itself: channels, pulls and the demo.
//!
//! Each of them is a publisher like any client: it gets a session on the least busy worker, is
//! listed, counted and ended as all are, and is refused where somebody else publishes already. Its
//! frames reach the worker by a queue (`worker_api::internal`). All of them run on a thread of
//! their own (`thread.rs`), so that media never holds the management API up.

pub mod backoff;
pub mod channels;
pub mod demo;
mod ingest;
pub mod key_set;
mod names;
mod pace;
pub mod peer;
pub mod pull;
pub mod settings;
mod srt_url;
pub mod template;
mod thread;
pub mod webrtc;

pub use ingest::{Ingest, Refused, Request};
pub use names::{Claim, SourceKind};
pub use srt_url::SrtUrl;
pub use thread::IngestThread;
