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
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

pub(crate) use self::requests::Endless;
use crate::context::{Context, Peer};
use crate::error_response;
use worker_api::Refused;
use worker_api::handoff::Handoff;
use worker_api::segments::is_on_demand;
use worker_api::{AddressSlot, AddressSlots};

/// Connections of HTTP/1 served at the same time; with more, workers answer 503 once their queue to us is
/// full.
const CONNECTIONS_MAX: usize = 1024;
/// The same of one address (IPv6: /64), so that slow readers there do not take every slot.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// Of those connections that are for recordings and files, by their first request here; and of one
/// address. They are counted apart: a crowd that plays films behind one address leaves room for
/// signalling from there.
const ON_DEMAND_CONNECTIONS_MAX: (usize, usize) = (768, 256);
/// Connections of HTTP/2, which stay here while they are idle; further ones are closed.
const HTTP2_CONNECTIONS_MAX: usize = 1024;
/// The same of one address.
const HTTP2_CONNECTIONS_PER_ADDRESS_MAX: usize = 256;
/// Connections that are being refused with an answer; further ones are closed without.
const REFUSALS_MAX: usize = 128;
/// Time that such an answer may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
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
    let (viewers_max, viewers_per_address_max) = ON_DEMAND_CONNECTIONS_MAX;
    let viewers = AddressSlots::new(viewers_max, viewers_per_address_max);
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let http2_peers = AddressSlots::new(usize::MAX, HTTP2_CONNECTIONS_PER_ADDRESS_MAX);
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Some(handoff) = handoffs.recv().await else { break };
        let refuse = |handoff: Handoff, is_http2: bool| {
            server.context.http.refused.fetch_add(1, Ordering::Relaxed);
            let Ok(place) = Arc::clone(&refusals).try_acquire_owned() else { return };
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let refused = async {
                    match is_http2 {
                        true => http2::refuse(&server, handoff).await,
                        false => http1::refuse(&server, handoff).await,
                    }
                };
                let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refused).await;
                drop(place);
            });
        };
        let server = Arc::clone(&server);
        if handoff.buffered.starts_with(b"PRI * HTTP/2.0\r\n") {
            let place = (Arc::clone(&http2_slots).try_acquire_owned(), http2_peers.take(handoff.peer.ip()));
            let (Ok(slot), Some(peer_slot)) = place else {
                refuse(handoff, true);
                continue;
            };
            tokio::spawn(async move {
                http2::serve(&server, handoff).await;
                drop((slot, peer_slot));
            });
        } else {
            let lot = if is_for_on_demand(&handoff.buffered) { &viewers } else { &peers };
            let Some(peer_slot) = lot.take(handoff.peer.ip()) else {
                refuse(handoff, false);
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

/// Whether the request that begins so is for a recording or a file.
fn is_for_on_demand(request: &[u8]) -> bool {
    let path = request.split(|byte| *byte == b' ').nth(1);
    path.and_then(|path| str::from_utf8(path).ok()).is_some_and(is_on_demand)
}

impl Server {
    /// The answer to a client that has too many connections here, or for whose kind there is no
    /// room.
    fn refusal(&self) -> Response {
        let text = "too many requests are being answered, or too many of this address";
        let mut response = error_response::error(StatusCode::TOO_MANY_REQUESTS, "busy", text);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(Refused::RETRY_AFTER));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        crate::rtc::allow_origin(&self.context, &mut response);
        response
    }

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
