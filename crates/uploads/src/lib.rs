//! Sends complete files to object storage, each once, and keeps at it until the store has them.
//!
//! ```text
//! "complete" messages --> thread.rs: table.rs, whose turn it is --> send.rs: hash, HEAD, PUT or parts, HEAD
//! scans of directories ->            backoff.rs, bandwidth.rs           |-> journal.rs, beside the files
//!                                                                       '-> store.rs (object_store) --> client.rs
//! ```
//!
//! Live streams are sent as well, as segments and playlists (`mirror.rs`).
//!
//! A file is confirmed when the store has answered, after it was sent, that it has an object of this key,
//! length and hash. Until then the local copy must stay, and whatever happens only delays: the journal and
//! the directory say at the next start what is left to do. Who writes files, and when one is complete, is
//! the caller's: by its name, and by a message to be quick.

mod backoff;
mod bandwidth;
mod client;
mod journal;
mod mirror;
mod scan;
mod send;
pub mod settings;
mod status;
mod store;
mod table;
mod thread;

pub use journal::JOURNAL;
pub use mirror::MirrorTotals;
pub use status::{Cause, UploadState, UploadStatus, UploadTotals};
pub use thread::{Remove, UploadInput, Uploads, UploadsThread};
