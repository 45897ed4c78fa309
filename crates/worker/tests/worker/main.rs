//! Workers with sockets and threads of their own, asked as the rest of a server asks them: one behaviour per
//! module.

mod claims;
mod common;
mod fetches;
mod reports;
mod taps;
mod two_nodes;
