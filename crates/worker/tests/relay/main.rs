//! Packets between nodes: workers of several nodes in one process, linked by commands as by whoever has the
//! connections between them, with WebRTC clients over real sockets. A module for each behaviour.

mod common;

// Those of group-send's trials.
#[expect(dead_code, reason = "what is not needed here")]
#[path = "../../../../libs/group-send/tests/namespaces/host.rs"]
mod host;
#[expect(dead_code, unexpected_cfgs, reason = "what is not needed here, and features of that package")]
#[path = "../../../../libs/group-send/tests/namespaces/backends.rs"]
mod needs;

mod back_ends;
mod bridges;
mod ends;
mod figures;
mod keys;
mod losses;
mod one_hop;
mod reports;
mod simulcast;
mod strangers;
mod trees;
