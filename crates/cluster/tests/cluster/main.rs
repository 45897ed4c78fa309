//! Directories on a real nats-server, which the tests start and end. Without one they print what was left
//! out.

mod server;

mod access;
mod claims;
mod faults;
mod hostile;
mod nodes;
mod quiet;
mod three;
