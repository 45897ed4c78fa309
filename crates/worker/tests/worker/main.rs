//! Workers with sockets and threads of their own, asked as the rest of a server asks them: one behaviour per
//! module.

// Those of group-send's trials.
#[expect(dead_code, reason = "what is not needed here")]
#[path = "../../../../libs/group-send/tests/namespaces/host.rs"]
mod host;
#[expect(dead_code, unexpected_cfgs, reason = "what is not needed here, and features of that package")]
#[path = "../../../../libs/group-send/tests/namespaces/backends.rs"]
mod needs;

mod claims;
mod common;
mod fetches;
mod packets;
mod paths;
mod place;
mod reports;
mod taps;
mod two_nodes;
