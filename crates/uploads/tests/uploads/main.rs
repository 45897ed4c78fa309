//! Behaviour of uploads: files of a directory, a store that fails, restarts, and what is there afterwards.

mod common;
mod fake;

mod bounds;
mod crashes;
mod directories;
mod failures;
mod local_copies;
mod once;
mod secrets;
