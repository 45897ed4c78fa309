//! Serves the connections that workers hand over: HTTP/1.1 with keep-alive, and HTTP/2.
//!
//! A connection of HTTP/1 stays here for the requests that follow at once, then goes back to its
//! worker, which keeps it for less; so does one whose next request is for media, which only workers
//! serve. HTTP/2 stays: its requests are interleaved, and a request for media on it is refused, to
//! be repeated by HTTP/1.1. Every request has to be answered within [`REQUEST_TIMEOUT`], or its
//! connection is closed.

mod connection;
mod http1;
mod http2;
mod requests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

pub(crate) use self::requests::Endless;
use crate::context::{Context, Peer};
use worker_api::handoff::Handoff;
use worker_api::segments::is_on_demand;
use worker_api::{AddressSlot, AddressSlots};

/// Connections of HTTP/1 served at the same time; with more, workers answer 503 once their queue to us is
/// full.
const CONNECTIONS_MAX: usize = 1024;
/// The same of one address (IPv6: /64), so that slow readers there do not take every slot.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// Connections of HTTP/2, which stay here while they are idle; further ones are closed.
const HTTP2_CONNECTIONS_MAX: usize = 1024;
/// The same of one address.
const HTTP2_CONNECTIONS_PER_ADDRESS_MAX: usize = 64;
/// Time that requests in progress get when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for one request, from its head to the last byte of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time a connection of HTTP/1 stays here after an answer, for a request that follows at once.
const STAY: Duration = Duration::from_millis(250);
/// The same where there is no room to stay.
const SHORT_STAY: Duration = Duration::from_millis(5);
/// Connections, and connections of one address, from which on none stays: their slots are for requests.
const STAYS_BELOW: (usize, usize) = (CONNECTIONS_MAX / 4, CONNECTIONS_PER_ADDRESS_MAX / 4);

/// What all connections share.
struct Server {
    context: Arc<Context>,
    router: Router,
    slots: Arc<Semaphore>,
}

/// Serves connections until the workers have gone and the queue is empty.
pub(crate) async fn serve(context: Arc<Context>, router: Router, mut handoffs: mpsc::Receiver<Handoff>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let http2_slots = Arc::new(Semaphore::new(HTTP2_CONNECTIONS_MAX));
    let server = Arc::new(Server { context: Arc::clone(&context), router, slots: Arc::clone(&slots) });
    let peers = AddressSlots::new(usize::MAX, CONNECTIONS_PER_ADDRESS_MAX);
    let http2_peers = AddressSlots::new(usize::MAX, HTTP2_CONNECTIONS_PER_ADDRESS_MAX);
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Some(handoff) = handoffs.recv().await else { break };
        let server = Arc::clone(&server);
        let refused = &context.http.refused;
        if handoff.buffered.starts_with(b"PRI * HTTP/2.0\r\n") {
            let place = (Arc::clone(&http2_slots).try_acquire_owned(), http2_peers.take(handoff.peer.ip()));
            let (Ok(slot), Some(peer_slot)) = place else {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            tokio::spawn(async move {
                http2::serve(&server, handoff).await;
                drop((slot, peer_slot));
            });
        } else {
            // Too many from one address: closed, so that somebody else gets an answer.
            let Some(peer_slot) = peers.take(handoff.peer.ip()) else {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            tokio::spawn(async move {
                http1::serve(server, handoff, &peer_slot).await;
                drop((slot, peer_slot));
            });
        }
    }
    // Requests under way are answered before the process ends.
    context.draining.send_replace(true);
    let all = async {
        let _ = slots.acquire_many(CONNECTIONS_MAX as u32).await;
        let _ = http2_slots.acquire_many(HTTP2_CONNECTIONS_MAX as u32).await;
        context.stats.all_closed().await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, all).await;
}

/// Whether a path is one that only workers serve. Recordings in the API may end in `.flv` as well.
fn is_media(path: &str) -> bool {
    (path.ends_with(".flv") || path.ends_with(".ts")) && !path.starts_with("/api/") && !is_on_demand(path)
}

impl Server {
    fn is_draining(&self) -> bool {
        *self.context.draining.borrow()
    }

    /// Whether connections of an address may wait here for their next request.
    fn has_room_to_stay(&self, peer_slot: &AddressSlot) -> bool {
        let (connections, of_one_address) = STAYS_BELOW;
        let taken = CONNECTIONS_MAX - self.slots.available_permits();
        taken < connections && peer_slot.of_same_address() < of_one_address
    }

    async fn answer(&self, peer: Peer, mut request: Request<Incoming>) -> Response {
        request.extensions_mut().insert(peer);
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests;
