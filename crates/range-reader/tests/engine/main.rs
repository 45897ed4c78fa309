//! The reader over a server in virtual time: one behaviour a file.

mod like_a_local_file;
mod slow_reader;
mod world;
