//! Packets between nodes: workers of several nodes in one process, linked by commands as by whoever has the
//! connections between them, with WebRTC clients over real sockets. A module for each behaviour.

mod common;

mod back_ends;
mod bridges;
mod ends;
mod keys;
mod losses;
mod marks;
mod one_hop;
mod reports;
mod simulcast;
mod strangers;
mod trees;
