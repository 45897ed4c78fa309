//! Cuts live streams into segments for HLS and DASH, each once, on a thread of its own.
//!
//! ```text
//! worker (home) ── frames ──▶ cut.rs: cmaf::Segmenter ─▶ hls::Window ── views ──▶ workers, control
//! ```
//!
//! A worker that is asked for a stream, and the control side for HTTP/2, say so (`SegmentsWanted`); the first
//! has the stream cut. What can be requested goes to all that want it, as one shared value, whenever a part
//! has been added. Workers only answer requests, and a stream costs the same for one of them and for ten.
//!
//! Of a window of hours, `store.rs` keeps on disk what is not among the newest, and reads it for those who go
//! back so far.

mod cut;
mod store;
mod thread;

pub use store::StoreStatus;
pub use thread::{OnCut, Segments, SegmentsInput, SegmentsThread};
