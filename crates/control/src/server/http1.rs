//! A connection of HTTP/1, for as long as it is here.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::Connection;
use super::requests::{Requests, TrackedBody};
use super::{REQUEST_TIMEOUT, SHORT_STAY, STAY, Server, is_media};
use crate::context::Peer;
use worker_api::AddressSlot;
use worker_api::handoff::Handoff;

/// Largest request head, bytes: as much as a worker takes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Buffer of a connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Time a peer has to close its side after the last answer, and what it may still send: closing a socket with
/// unread input resets the connection, and the answer may be lost (RFC 9112 section 9.6).
const LINGER: (Duration, u64) = (Duration::from_secs(1), 1 << 20);

/// How the stay of a connection ends.
enum Outcome {
    /// HTTP says it is over.
    Done,
    /// It waits for its next request.
    Idle,
    /// Its next request is for a worker, whose head this is.
    ForWorker(Vec<u8>),
    /// Its next request, whose head this is, turns it into something else.
    Upgrade(Vec<u8>),
    /// It is broken.
    Failed(hyper::Error),
    /// A request took too long.
    TooLong,
}

/// A connection as its service sees it.
struct Stay {
    server: Arc<Server>,
    peer: Peer,
    /// Requests before this stay.
    earlier: u32,
    requests: Requests,
    slot: Mutex<Option<AddressSlot>>,
    /// A head that is not served here.
    unserved: Mutex<Option<Outcome>>,
}

/// Serves a connection until it goes back to its worker, or ends.
pub(super) async fn serve(server: Arc<Server>, handoff: Handoff, peer_slot: &AddressSlot) {
    let Handoff { stream, tls, buffered, peer, requests: earlier, slot, place, home } = handoff;
    let peer = Peer { address: peer, tls: tls.is_some() };
    let connection = match Connection::new(stream, tls, buffered) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken over from its worker");
            return;
        }
    };
    let requests = Requests::new();
    let (slot, unserved) = (Mutex::new(slot), Mutex::new(None));
    let stay = Arc::new(Stay { server, peer, earlier, requests, slot, unserved });
    let (outcome, connection) = stay.serve_requests(connection, peer_slot).await;
    match outcome {
        Outcome::Done => linger(connection).await,
        Outcome::Idle | Outcome::ForWorker(_) => {
            let head = if let Outcome::ForWorker(head) = outcome { head } else { Vec::new() };
            let Ok((stream, tls, mut buffered)) = connection.into_parts() else { return };
            buffered.splice(..0, head);
            let slot = locked(&stay.slot).take();
            let requests = stay.earlier.saturating_add(stay.requests.begun() as u32);
            Handoff { stream, tls, buffered, peer: peer.address, requests, slot, place, home }
                .give_back()
                .await;
        }
        Outcome::Upgrade(head) => stay.serve_upgrade(connection.behind(head)).await,
        Outcome::Failed(error) => {
            tracing::debug!(peer = %peer.address, %error, "HTTP connection ended early");
            // What is no HTTP has been answered, 400 or 431.
            linger(connection).await;
        }
        Outcome::TooLong => tracing::debug!(peer = %peer.address, "HTTP connection closed: time limit"),
    }
}

/// Answers the first request of a connection that it is too many, and ends it.
pub(super) async fn refuse(server: &Server, handoff: Handoff) {
    let Ok(connection) = Connection::new(handoff.stream, handoff.tls, handoff.buffered) else { return };
    let service = service_fn(|_: Request<Incoming>| {
        let mut response = server.refusal();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut served = Builder::new()
        .header_read_timeout(None)
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(connection), service);
    if poll_fn(|cx| served.poll_without_shutdown(cx)).await.is_ok() {
        // The answer may still wait for the socket.
        let _ = (&mut served).await;
        linger(served.into_parts().io.into_inner()).await;
    }
}

impl Stay {
    async fn serve_requests(
        self: &Arc<Self>,
        connection: Connection,
        peer_slot: &AddressSlot,
    ) -> (Outcome, Connection) {
        let unsent = connection.unsent();
        let stay = Arc::clone(self);
        type Answer = Pin<Box<dyn Future<Output = Result<Response<TrackedBody>, Infallible>> + Send>>;
        let service = service_fn(move |request: Request<Incoming>| -> Answer {
            Box::pin(Arc::clone(&stay).answer_or_leave(request))
        });
        let mut served = Builder::new()
            // Heads have the time of the stay here, and that of the handshake on the worker.
            .header_read_timeout(None)
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(connection), service);
        let mut limit = pin!(sleep_until(Instant::now() + REQUEST_TIMEOUT));
        let outcome = poll_fn(|cx| {
            match served.poll_without_shutdown(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(Outcome::Done),
                Poll::Ready(Err(error)) => return Poll::Ready(Outcome::Failed(error)),
                Poll::Pending => {}
            }
            let all_sent = !unsent.load(Ordering::Relaxed);
            if all_sent && let Some(unserved) = locked(&self.unserved).take() {
                return Poll::Ready(unserved);
            }
            let oldest = self.requests.oldest();
            let is_idle = oldest.is_none() && all_sent && self.requests.begun() > 0;
            let deadline = match oldest {
                // Not at once without room, either: where nobody has read a request's body, HTTP ends the
                // connection at its next step, and what is left of the body must not go to the worker as a
                // request.
                _ if is_idle && !self.server.has_room_to_stay(peer_slot) => {
                    self.requests.ended_at() + SHORT_STAY
                }
                _ if is_idle => self.requests.ended_at() + STAY,
                Some(begun_at) => begun_at + REQUEST_TIMEOUT,
                None => self.requests.ended_at() + REQUEST_TIMEOUT,
            };
            if limit.deadline() != deadline {
                limit.as_mut().reset(deadline);
            }
            limit.as_mut().poll(cx).map(|()| if is_idle { Outcome::Idle } else { Outcome::TooLong })
        })
        .await;
        if let Outcome::Done = outcome {
            // HTTP is over as soon as nothing more is to be read; the answer may still wait for the socket.
            let _ = timeout(REQUEST_TIMEOUT, &mut served).await;
        }
        let parts = served.into_parts();
        (outcome, parts.io.into_inner().behind(parts.read_buf))
    }

    /// Answers a request, or notes that it is not to be answered here; then its connection is taken apart.
    async fn answer_or_leave(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<TrackedBody>, Infallible> {
        let is_first = self.requests.begun() == 0;
        let upgrades = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
        // The first request was seen by the worker: whatever its path is, it is not for media.
        let unserved = if !is_first && is_media(request.uri().path()) {
            Some(Outcome::ForWorker(head(&request)))
        // Only a request without a body can be read a second time: of a body, a piece may be in the channel
        // by now.
        } else if request.method() == Method::GET
            && request.body().is_end_stream()
            && request.headers().get(header::UPGRADE).is_some_and(upgrades)
        {
            Some(Outcome::Upgrade(head(&request)))
        } else {
            None
        };
        if let Some(unserved) = unserved {
            *locked(&self.unserved) = Some(unserved);
            std::future::pending::<()>().await;
        }
        let running = self.requests.begin();
        self.count();
        let mut response = self.server.answer(self.peer, request).await;
        if !self.keeps_open() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(running.until_sent(response))
    }

    fn count(&self) {
        let counters = &self.server.context.http;
        counters.http1_requests.fetch_add(1, Ordering::Relaxed);
        if u64::from(self.earlier) + self.requests.begun() > 1 {
            counters.reused_requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the connection stays open after this answer, as far as the server decides.
    fn keeps_open(&self) -> bool {
        if self.server.is_draining() {
            return false;
        }
        let mut slot = locked(&self.slot);
        if slot.is_none() {
            *slot = self.server.context.keep_alive.take(self.peer.address.ip());
        }
        slot.is_some()
    }

    /// Serves a request that may make the connection something else, which then goes on by itself, under
    /// limits of its own. If it does not, the connection is closed after the answer.
    async fn serve_upgrade(self: Arc<Self>, connection: Connection) {
        let peer = self.peer;
        let service = service_fn(move |request: Request<Incoming>| {
            let stay = Arc::clone(&self);
            async move {
                stay.requests.begin();
                stay.count();
                let mut response = stay.server.answer(peer, request).await;
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        let served = Builder::new()
            .header_read_timeout(None)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(connection), service)
            .with_upgrades();
        match timeout(REQUEST_TIMEOUT, served).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(peer = %peer.address, %error, "HTTP connection ended early"),
            Err(_) => tracing::debug!(peer = %peer.address, "HTTP connection closed: time limit"),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a connection after its last answer, and waits for the peer to end it.
async fn linger(mut connection: Connection) {
    let (time, bytes_max) = LINGER;
    let end = async {
        connection.shutdown().await?;
        tokio::io::copy(&mut connection.take(bytes_max), &mut tokio::io::sink()).await
    };
    let _ = timeout(time, end).await;
}

/// The head of a request, written again for whoever reads it next.
fn head<B>(request: &Request<B>) -> Vec<u8> {
    let version = if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" };
    let mut head = format!("{} {} HTTP/{version}\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers() {
        let _ = write!(head, "{name}: ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
