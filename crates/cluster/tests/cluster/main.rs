//! Directories on a real nats-server, which the tests start and end. Without one they print what was left out.

#[expect(dead_code, reason = "of tests to come")]
mod server;

mod claims;
