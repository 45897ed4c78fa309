//! Directories on a real nats-server, which the tests start and end. Without one they print what was left
//! out.

mod server;

mod claims;
mod faults;
mod hostile;
mod nodes;
mod quiet;
