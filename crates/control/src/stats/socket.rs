//! One reader of the stream.
//!
//! The newest message is written whenever the last one has left, so that what a slow reader costs
//! is one message of memory and never a queue. It is asked for a sign of life by pings. It has
//! nothing to say itself: whatever it sends but control frames ends it.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use super::collect::{Newest, SubscriberSlot};
use ::stats::message::{SUBPROTOCOL, TOKEN_SUBPROTOCOL_PREFIX};

/// Time a reader has to take one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the close frames of both sides.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(3);
/// Distance of pings.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Silence after which a reader is given up: two pings without an answer.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// Control frames of a reader between two messages to it. More than a few are no signs of life but
/// answers to be kept for it.
const SIGNS_MAX: u32 = 16;
/// Bytes of a message from the reader; control frames have 125 at most (RFC 6455 section 5.5).
const INPUT_BYTES_MAX: usize = 1024;

/// Why a stream ends.
#[derive(Clone, Copy)]
enum End {
    /// It is broken, or the reader takes nothing: nothing more can be said.
    Gone,
    /// The reader closed it.
    Closed,
    /// The reader is told why.
    Close(u16, &'static str),
}

/// Limits of what is taken from readers, and memory for it.
pub(super) fn limited(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(INPUT_BYTES_MAX)
        .max_message_size(INPUT_BYTES_MAX)
        .max_frame_size(INPUT_BYTES_MAX)
}

/// Serves one reader until it goes, is too slow, may read no more, or the server stops. `slot` is held as
/// long.
pub(super) async fn run(
    mut socket: WebSocket,
    slot: SubscriberSlot,
    newest: Newest,
    may_read: impl FnMut() -> bool + Send,
) {
    let end = serve(&mut socket, newest, may_read).await;
    let farewell = async {
        if let End::Close(code, reason) = end {
            let frame = CloseFrame { code, reason: reason.into() };
            let _ = socket.send(Message::Close(Some(frame))).await;
        }
        // One close frame answers the other (RFC 6455 section 5.5.1); then there is nothing left to be read.
        while let Some(Ok(_)) = socket.recv().await {}
    };
    if !matches!(end, End::Gone) {
        let _ = timeout(FAREWELL_TIMEOUT, farewell).await;
    }
    drop(slot);
}

async fn serve(socket: &mut WebSocket, mut newest: Newest, mut may_read: impl FnMut() -> bool + Send) -> End {
    newest.mark_changed();
    let mut pings = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let mut signs = 0;
    loop {
        let message = tokio::select! {
            changed = newest.changed() => {
                if changed.is_err() {
                    return End::Close(close_code::AWAY, "the server is shutting down");
                }
                let report = newest.borrow_and_update().clone();
                let Some(report) = report else { continue };
                // The token may be gone since a reload.
                if !may_read() {
                    return End::Close(close_code::POLICY, "not allowed any more");
                }
                Message::Binary(report.messagepack())
            }
            input = socket.recv() => match input {
                None | Some(Err(_)) => return End::Gone,
                Some(Ok(Message::Close(_))) => return End::Closed,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    heard = Instant::now();
                    signs += 1;
                    if signs > SIGNS_MAX {
                        return End::Close(close_code::POLICY, "too many pings");
                    }
                    continue;
                }
                Some(Ok(Message::Text(_) | Message::Binary(_))) => {
                    return End::Close(close_code::UNSUPPORTED, "this stream takes no messages");
                }
            },
            _ = pings.tick() => {
                if heard.elapsed() > SILENCE_MAX {
                    return End::Gone;
                }
                Message::Ping(Default::default())
            }
        };
        match timeout(SEND_TIMEOUT, socket.send(message)).await {
            Ok(Ok(())) => signs = 0,
            Ok(Err(_)) | Err(_) => return End::Gone,
        }
    }
}

/// Whether a reader that offers subprotocols offers the one there is. One that offers none (but a
/// token) takes what comes.
pub(super) fn takes_version(headers: &HeaderMap) -> bool {
    let mut versions =
        protocols(headers).filter(|name| !name.starts_with(TOKEN_SUBPROTOCOL_PREFIX)).peekable();
    versions.peek().is_none() || versions.any(|name| name == SUBPROTOCOL)
}

/// The token among the subprotocols of a request, if there is one.
pub(crate) fn token_of_protocols(headers: &HeaderMap) -> Option<String> {
    let encoded = protocols(headers).find_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL_PREFIX))?;
    // What cannot be read is present all the same, and matches nothing.
    let token = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Some(token.unwrap_or_else(|| "\u{fffd}".to_owned()))
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let fields = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    fields.filter_map(|field| field.to_str().ok()).flat_map(|field| field.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, field.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn tokens_and_versions_are_found_among_subprotocols() {
        let cases: [(&[&str], bool, Option<&str>); 8] = [
            (&[], true, None),
            (&["millstream.stats.v1"], true, None),
            (&["millstream.stats.v1, bearer.c2VjcmV0"], true, Some("secret")),
            (&["bearer.w7zDvz8_", "millstream.stats.v1"], true, Some("üÿ??")),
            (&["bearer.c2VjcmV0"], true, Some("secret")),
            (&["millstream.stats.v2"], false, None),
            (&["millstream.stats.v2,millstream.stats.v1"], true, None),
            (&["bearer.***"], true, Some("\u{fffd}")),
        ];
        for (fields, version, token) in cases {
            let headers = headers(fields);
            assert_eq!(takes_version(&headers), version, "{fields:?}");
            assert_eq!(token_of_protocols(&headers).as_deref(), token, "{fields:?}");
        }
    }
}
