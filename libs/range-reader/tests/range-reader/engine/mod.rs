//! The reader over a server in virtual time: one behaviour a file.

mod changes;
mod dropped_anywhere;
mod guesses;
mod hints;
mod like_a_local_file;
mod patterns;
mod seeks;
mod server_gone;
mod slow_reader;
mod world;
