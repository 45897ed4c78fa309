//! Records live streams to files: at any kill or power cut a file opens, and lacks its last fragment at most.
//!
//! ```text
//! worker (home) -- frames --> stream.rs: cut/ (cmaf::Segmenter) -- fragments --> queue.rs -- bounded -->
//!     disk.rs, a thread per directory: writer.rs, complete.rs -- storage.rs --> files
//! ```
//!
//! A stream that is recorded is a player inside the process. Its fragments go to the thread of its directory
//! through a queue that never makes it wait: a disk that is too slow, full or gone costs the recording a gap,
//! and nothing else. Nothing has to be remembered of a file to complete it, so a recording that has ended and
//! one that was cut off are completed in the same way (`scan.rs`, `complete.rs`).

pub mod catalogue;
pub mod complete;
pub mod cut;
mod disk;
pub mod duration;
pub mod names;
mod queue;
pub mod repair;
pub mod scan;
pub mod settings;
pub mod storage;
mod stream;
mod thread;
mod writer;

pub use stream::Recording;
pub use thread::{DirectoryStatus, Needed, NotStarted, RecordingInput, RecordingThread, Recordings, Started};
pub use writer::{Change, RecordingEvent};

#[cfg(test)]
mod tests;
