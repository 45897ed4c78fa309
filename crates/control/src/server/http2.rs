//! A connection of HTTP/2, until it ends.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::requests::Requests;
use super::{REQUEST_TIMEOUT, SHUTDOWN_TIMEOUT, Server, is_media};
use crate::context::Peer;
use worker_api::handoff::Handoff;

/// Requests a peer may have open at once on a connection.
const STREAMS_MAX: u32 = 64;
/// Header fields of a request, bytes; as many as a worker takes in a request head of HTTP/1.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// What a peer may send of one request body, and of all on a connection, before it is read: an offer fits.
const WINDOWS: (u32, u32) = (128 << 10, 512 << 10);
/// Bytes of answers kept per request for a peer that does not read them.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Least time a connection may be idle, where keep-alive is off: a browser has its requests in one go.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// Requests that are refused at once on a connection.
const REFUSED_STREAMS_MAX: u32 = 4;

/// Serves a connection until it ends.
pub(super) async fn serve(server: &Arc<Server>, handoff: Handoff) {
    let Handoff { stream, tls, buffered, peer, .. } = handoff;
    let peer = Peer { address: peer, tls: tls.is_some() };
    let connection = match Connection::new(stream, tls, buffered) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken over from its worker");
            return;
        }
    };
    let _open = Open::count(server);
    let requests = Requests::new();
    let (router, tracked) = (Arc::clone(server), requests.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, running) = (Arc::clone(&router), tracked.begin());
        async move {
            server.context.http.http2_requests.fetch_add(1, Ordering::Relaxed);
            // A second path for media, interleaved with requests and off the workers, would be slower for
            // everybody: the client is told to ask again by HTTP/1.1 (RFC 9113 section 7), as browsers and
            // curl then do.
            if is_media(request.uri().path()) {
                return Err(h2::Error::from(h2::Reason::HTTP_1_1_REQUIRED));
            }
            Ok(running.until_sent(server.answer(peer, request).await))
        }
    });
    let mut draining = server.context.draining.subscribe();
    let mut drains = pin!(async move { draining.wait_for(|draining| *draining).await.is_ok() });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX);
    let mut served = pin!(builder.serve_connection(TokioIo::new(connection), service));
    let mut limit = pin!(sleep_until(Instant::now() + REQUEST_TIMEOUT));
    let idle_max = server.context.current.settings().keep_alive.timeout.max(IDLE_MIN);
    let mut goes_away_at = None;
    let end = poll_fn(|cx| {
        if let Poll::Ready(result) = served.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        if goes_away_at.is_none() && drains.as_mut().poll(cx).is_ready() {
            goes_away_at = Some(Instant::now());
            served.as_mut().graceful_shutdown();
            cx.waker().wake_by_ref();
        }
        let deadline = match (requests.oldest(), goes_away_at) {
            (Some(begun_at), _) => begun_at + REQUEST_TIMEOUT,
            (None, Some(since)) => requests.ended_at().max(since) + SHUTDOWN_TIMEOUT,
            (None, None) => requests.ended_at() + idle_max,
        };
        if limit.deadline() != deadline {
            limit.as_mut().reset(deadline);
        }
        if limit.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if goes_away_at.is_some() || requests.oldest().is_some() {
            return Poll::Ready(None);
        }
        // Idle for long enough: the peer is told, and has a moment for what it has just sent.
        goes_away_at = Some(Instant::now());
        served.as_mut().graceful_shutdown();
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    match end {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(peer = %peer.address, %error, "HTTP/2 connection ended early"),
        None => tracing::debug!(peer = %peer.address, "HTTP/2 connection closed: time limit"),
    }
}

/// Answers the requests of a connection that it is too many, until its time is over.
pub(super) async fn refuse(server: &Server, handoff: Handoff) {
    let Ok(connection) = Connection::new(handoff.stream, handoff.tls, handoff.buffered) else { return };
    let service =
        service_fn(|_: Request<Incoming>| std::future::ready(Ok::<_, Infallible>(server.refusal())));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(REFUSED_STREAMS_MAX).max_header_list_size(HEADERS_BYTES_MAX);
    let _ = builder.serve_connection(TokioIo::new(connection), service).await;
}

/// Counts a connection while it is open.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn count(server: &'a Server) -> Self {
        let connections = &server.context.http.http2_connections;
        connections.fetch_add(1, Ordering::Relaxed);
        Self(connections)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
