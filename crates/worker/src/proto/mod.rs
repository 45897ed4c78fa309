//! What a connection speaks: RTMP, HTTP, WebSocket, or FLV from a source inside this process.
//!
//! Requests are answered here; media goes on to `frames`.

pub(crate) mod connections;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod internal;
pub(crate) mod session;
pub(crate) mod unwatched;
pub(crate) mod websocket;
