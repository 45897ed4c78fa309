//! Nodes of a cluster in one process, on a real nats-server, with workers that are made for these tests. The
//! nats-server is started as in the tests of `cluster`, which freeze it by `nix`.

mod claims;
mod faults;
mod fetch;
mod node;
#[path = "../../../cluster/tests/cluster/overheard.rs"]
mod overheard;
mod packets;
#[path = "../../../cluster/tests/cluster/server.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod server;
mod status;
mod strangers;
mod tree;
mod wire;
