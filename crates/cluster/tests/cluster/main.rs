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

/// Here, because tests of other crates have `server.rs` too, and no client of NATS.
impl server::Server {
    pub(crate) async fn client(&self) -> async_nats::Client {
        async_nats::connect(format!("127.0.0.1:{}", self.port)).await.unwrap()
    }
}
