//! What happens to the stream of a player, as server-sent events (draft-ietf-wish-whep, "Server Sent Events
//! extension"; HTML section 9.2).
//!
//! The URL of the events is read directly, or a POST with a list of them answers with the URL to be read.
//! The list is in that URL: nothing is kept for those who never come. Once a second at most, whatever the
//! number of readers, the workers are asked how things are; each reader is sent what has changed. An event
//! is made when the connection has room for it, so that a slow reader holds up nothing and costs no queue;
//! one that takes nothing at all is ended by the connection's time limit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::hash::Hash;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame};
use rtmp::name::query_value;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::control::{Played, VideoTrack};
use super::headers::{self, JSON};
use super::listeners::{Listeners, NAMES, Seen, SeenStream};
use super::refusal::Refusal;
use super::session::find;
use super::{SESSION_PATH, text};

use crate::BODY_BYTES_MAX;
use crate::merged::merged;
use crate::server::Endless;
use crate::{Context, Peer};
use worker_api::NoAnswer;
use worker_api::command::Listed;
use worker_api::network;
use worker_api::snapshot::{RtcLayer, RtcLayerSnapshot, SessionId, TrackKind};

/// Readers of one session: an `EventSource` that comes back may be there twice for a moment.
const LISTENERS_PER_SESSION_MAX: usize = 4;
/// Readers of one address (IPv6: /64), and of all. Each holds a connection, of which `server` serves 128 of
/// an address and 1,024 in all: the others are for requests.
const LISTENERS_PER_ADDRESS_MAX: usize = 32;
const LISTENERS_MAX: usize = 256;
/// Least time between two messages to a reader, and between two questions to the workers.
const INTERVAL: Duration = Duration::from_secs(1);
/// A reader that nothing happens for gets an empty line so often. It shows who has gone, and is less than the
/// time limit of the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A bit rate that differs by less than this from what was sent last is no news, percent.
const NEWS_PERCENT: u64 = 20;

/// Answers POST with the URL at which the events of its list are.
pub(super) async fn create(
    context: &Context,
    peer: Peer,
    token: &str,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, session) = find(context, peer, token)?;
    context.rtc.admit(peer.address.ip())?;
    if session.played.is_none() {
        return Err(Refusal::NotPlaying);
    }
    let is_json = headers::is_of_type(request.headers(), JSON);
    let body = text(request.into_body(), BODY_BYTES_MAX).await?;
    let names: Vec<String> = match body.trim() {
        "" => Vec::new(),
        _ if !is_json => return Err(Refusal::MediaType(JSON)),
        body => serde_json::from_str(body)
            .map_err(|error| Refusal::Request(format!("not a list of events: {error}")))?,
    };
    let wanted = wanted(names.iter().map(String::as_str))?;
    let mut response = StatusCode::CREATED.into_response();
    let names: Vec<_> =
        NAMES.iter().zip(wanted).filter_map(|(name, wanted)| wanted.then_some(*name)).collect();
    let location = format!("{SESSION_PATH}{token}/sse?events={}", names.join(","));
    let location = HeaderValue::from_str(&location).map_err(|_| Refusal::Internal("the URL of events"))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// Answers GET with events, until the session ends.
pub(super) fn listen(
    context: &Arc<Context>,
    peer: Peer,
    token: &str,
    uri: &Uri,
) -> Result<Response, Refusal> {
    let (id, session) = find(context, peer, token)?;
    context.rtc.admit(peer.address.ip())?;
    super::not_stopping(context)?;
    let played = session.played.clone().ok_or(Refusal::NotPlaying)?;
    let names = uri.query().and_then(|query| query_value(query, "events")).unwrap_or_default();
    let wanted = wanted(names.split(',').filter(|name| !name.is_empty()))?;
    let slot = Slot::take(context, id, network(peer.address.ip())).ok_or(Refusal::Listeners)?;
    let listener = Listener {
        slot,
        played,
        wanted,
        // The session itself is not held: its end is seen by that.
        ended: session.ended.subscribe(),
        draining: context.draining.subscribe(),
        sent: LastSent::default(),
        sent_at: None,
        due: None,
    };
    let mut response = Response::new(Body::new(Events { next: Some(Box::pin(listener.next())) }));
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that would wait for more.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// Which of [`NAMES`] are wanted; all, if none is named.
fn wanted<'a>(names: impl Iterator<Item = &'a str>) -> Result<[bool; NAMES.len()], Refusal> {
    let mut wanted = [false; NAMES.len()];
    for name in names {
        let at = NAMES.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| Refusal::Request(format!("events are {}", NAMES.join(", "))))?;
        wanted[at] = true;
    }
    Ok(if wanted.contains(&true) { wanted } else { [true; NAMES.len()] })
}

impl Listeners {
    /// How things are now, or were a moment ago.
    async fn look(&self, context: &Context, session: SessionId) -> Result<Arc<Seen>, NoAnswer> {
        let mut seen = self.seen.lock().await;
        if let Some((at, seen)) = &*seen
            && at.elapsed() < INTERVAL
            && seen.sessions.contains_key(&session)
        {
            return Ok(Arc::clone(seen));
        }
        let mut ids: Vec<SessionId> = self.lock().of_sessions.keys().copied().collect();
        ids.sort_unstable();
        let new = Arc::new(Seen::ask(context, ids).await?);
        *seen = Some((Instant::now(), Arc::clone(&new)));
        Ok(new)
    }
}

impl Seen {
    async fn ask(context: &Context, ids: Vec<SessionId>) -> Result<Self, NoAnswer> {
        let snapshots = context.workers.snapshots_with_sessions(&Listed::Only(ids.into())).await?;
        let sessions = snapshots.iter().flat_map(|worker| &worker.sessions);
        let layer = |session: &worker_api::snapshot::SessionSnapshot| {
            Some(session.rtc.as_ref()?.path.as_ref()?.layer.as_ref()?.clone())
        };
        let mut seen = Self {
            sessions: sessions.clone().map(|session| (session.id, layer(session))).collect(),
            streams: HashMap::new(),
        };
        let mut streams: HashMap<String, _> = merged(&snapshots)
            .into_iter()
            .map(|stream| (format!("{}/{}", stream.primary.app, stream.primary.name), stream))
            .collect();
        for key in sessions.filter_map(|session| session.stream.as_ref()) {
            let Some((key, stream)) = streams.remove_entry(key) else { continue };
            let videos = stream.primary.tracks.iter().filter(|track| track.kind == TrackKind::Video);
            let layers = videos.map(|track| track.layers.clone()).collect();
            let (is_live, players) = (stream.primary.live, stream.players);
            seen.streams.insert(key, SeenStream { is_live, players, layers });
        }
        Ok(seen)
    }
}

/// A reader is counted as long as this is there.
struct Slot {
    context: Arc<Context>,
    session: SessionId,
    network: IpAddr,
}

impl Slot {
    fn take(context: &Arc<Context>, session: SessionId, network: IpAddr) -> Option<Self> {
        let mut counts = context.rtc.listeners.lock();
        let of_session = counts.of_sessions.get(&session).copied().unwrap_or(0);
        let of_address = counts.of_addresses.get(&network).copied().unwrap_or(0);
        if counts.all >= LISTENERS_MAX
            || of_session >= LISTENERS_PER_SESSION_MAX
            || of_address >= LISTENERS_PER_ADDRESS_MAX
        {
            return None;
        }
        counts.all += 1;
        counts.of_sessions.insert(session, of_session + 1);
        counts.of_addresses.insert(network, of_address + 1);
        Some(Self { context: Arc::clone(context), session, network })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.context.rtc.listeners.lock();
        counts.all -= 1;
        one_less(&mut counts.of_sessions, self.session);
        one_less(&mut counts.of_addresses, self.network);
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

/// One reader.
struct Listener {
    slot: Slot,
    played: Played,
    wanted: [bool; NAMES.len()],
    ended: watch::Receiver<()>,
    draining: watch::Receiver<bool>,
    sent: LastSent,
    /// When anything was sent last.
    sent_at: Option<Instant>,
    /// When it may be sent something again.
    due: Option<Instant>,
}

/// What a reader was sent last.
#[derive(Debug, Default)]
struct LastSent {
    is_live: Option<bool>,
    players: Option<u64>,
    layers: Option<Vec<MediaLayers>>,
}

/// The layers of one video track, and which of them the reader gets.
#[derive(Debug, Clone, PartialEq)]
struct MediaLayers {
    line: usize,
    layers: Vec<RtcLayerSnapshot>,
    gets: Option<(RtcLayer, RtcLayer, bool)>,
}

impl Listener {
    /// The next message; `None` when the session ends, or the server stops.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(due) = self.due {
                tokio::select! {
                    biased;
                    _ = self.ended.changed() => return None,
                    _ = self.draining.wait_for(|draining| *draining) => return None,
                    () = sleep_until(due) => {}
                }
            }
            let now = Instant::now();
            self.due = Some(now + INTERVAL);
            let context = Arc::clone(&self.slot.context);
            // A worker that does not answer in time has nothing to say this time.
            let seen = context.rtc.listeners.look(&context, self.slot.session).await.ok();
            let mut text = seen.map(|seen| self.news(&seen)).unwrap_or_default();
            if self.sent_at.is_some_and(|at| now.duration_since(at) < KEEP_ALIVE) && text.is_empty() {
                continue;
            }
            if text.is_empty() {
                // A comment (HTML section 9.2.6).
                text.push_str(":\n\n");
            }
            self.sent_at = Some(now);
            return Some((text.into(), self));
        }
    }

    /// What has changed.
    fn news(&mut self, seen: &Seen) -> String {
        let mut text = String::new();
        let mut send = |name: &str, data: Value| {
            let at = NAMES.iter().position(|known| *known == name);
            if at.is_some_and(|at| self.wanted[at]) {
                text.push_str(&format!("event: {name}\ndata: {data}\n\n"));
            }
        };
        let stream = seen.streams.get(&self.played.key);
        let is_live = stream.is_some_and(|stream| stream.is_live);
        // A stream that is not there at first is no news.
        if self.sent.is_live.unwrap_or(false) != is_live {
            send(if is_live { "active" } else { "inactive" }, json!({}));
        }
        self.sent.is_live = Some(is_live);
        let Some(stream) = stream else { return text };
        let gets = seen.sessions.get(&self.slot.session).and_then(Option::as_ref);
        let media = |(nth, video): (usize, &VideoTrack)| MediaLayers {
            line: video.line,
            layers: stream.layers.get(video.published).cloned().unwrap_or_default(),
            gets: gets
                .filter(|_| nth == 0)
                .map(|gets| (gets.current.clone(), gets.wanted.clone(), gets.is_fixed)),
        };
        let layers: Vec<_> = self.played.videos.iter().enumerate().map(media).collect();
        if !layers.is_empty() && self.sent.layers.as_ref().is_none_or(|before| is_news(before, &layers)) {
            let data: Map<_, _> = layers.iter().map(|media| (media.line.to_string(), media.json())).collect();
            send("layers", Value::Object(data));
            self.sent.layers = Some(layers);
        }
        if self.sent.players.replace(stream.players) != Some(stream.players) {
            send("viewercount", json!({ "viewercount": stream.players }));
        }
        text
    }
}

/// Whether more has changed than bit rates do from second to second.
fn is_news(before: &[MediaLayers], now: &[MediaLayers]) -> bool {
    let is_same_rate = |before: u64, now: u64| {
        (before == 0) == (now == 0) && { before.abs_diff(now) <= before / 100 * NEWS_PERCENT }
    };
    let is_same_layer = |(before, now): (&RtcLayerSnapshot, &RtcLayerSnapshot)| {
        before.layer == now.layer
            && (before.is_live, before.size) == (now.is_live, now.size)
            && is_same_rate(before.bits_per_second, now.bits_per_second)
    };
    let is_same = |(before, now): (&MediaLayers, &MediaLayers)| {
        before.gets == now.gets
            && before.layers.len() == now.layers.len()
            && before.layers.iter().zip(&now.layers).all(is_same_layer)
    };
    before.len() != now.len() || !before.iter().zip(now).all(is_same)
}

impl MediaLayers {
    /// `layers` is as drafts have it. Encodings as a whole are also in `active` and `inactive`, where
    /// earlier drafts have them; `current`, `wanted` and `automatic` are of this server.
    fn json(&self) -> Value {
        let is_whole = |one: &&RtcLayerSnapshot| one.layer.spatial.is_none() && one.layer.temporal.is_none();
        let whole = self.layers.iter().filter(is_whole);
        let active: Vec<_> = whole
            .clone()
            .filter(|one| one.is_live)
            .map(|one| json!({ "id": one.layer.name, "bitrate": one.bits_per_second }))
            .collect();
        let inactive: Vec<_> =
            whole.filter(|one| !one.is_live).map(|one| json!({ "id": one.layer.name })).collect();
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|one| {
                let mut layer = layer(&one.layer);
                // One that does not arrive has none.
                layer["bitrate"] = json!(if one.is_live { one.bits_per_second } else { 0 });
                if let Some((width, height)) = one.size {
                    (layer["width"], layer["height"]) = (json!(width), json!(height));
                }
                layer
            })
            .collect();
        let (current, wanted, automatic) = match &self.gets {
            Some((current, wanted, is_fixed)) => (layer(current), layer(wanted), json!(!is_fixed)),
            None => (Value::Null, Value::Null, Value::Null),
        };
        json!({
            "active": active,
            "inactive": inactive,
            "layers": layers,
            "current": current,
            "wanted": wanted,
            "automatic": automatic,
        })
    }
}

fn layer(layer: &RtcLayer) -> Value {
    let mut value = json!({ "encodingId": layer.name, "rid": layer.name });
    for (name, limit) in [("spatialLayerId", layer.spatial), ("temporalLayerId", layer.temporal)] {
        if let Some(limit) = limit {
            value[name] = json!(limit);
        }
    }
    value
}

type Next = Pin<Box<dyn Future<Output = Option<(Bytes, Listener)>> + Send>>;

/// Messages to one reader, each made when there is room for it.
struct Events {
    next: Option<Next>,
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let message = ready!(next.as_mut().poll(cx));
        self.next = None;
        Poll::Ready(message.map(|(bytes, listener)| {
            self.next = Some(Box::pin(listener.next()));
            Ok(Frame::data(bytes))
        }))
    }
}
