//! Behaviour of uploads: files of a directory, a store that fails, restarts, and what is there afterwards.

mod common;
mod fake;
#[path = "../../../hls/tests/hls/playlist.rs"]
#[allow(dead_code, reason = "what only playlists with parts need")]
mod playlist;

mod bounds;
mod crashes;
mod directories;
mod failures;
mod local_copies;
mod mirror;
mod once;
mod secrets;
