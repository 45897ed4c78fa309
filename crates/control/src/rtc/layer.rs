//! Which layer of the video a player gets (draft-ietf-wish-whep, "Video Layer Selection extension").
//!
//! `encodingId` and `rid` are two words for one thing: drafts have had either. Sizes of layers are not known
//! here, so that `maxWidth` and `maxHeight` are refused. What else a request says besides is of no account:
//! clients send the layer as the event `layers` has it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::control::Played;
use super::headers::{self, JSON};
use super::refusal::Refusal;
use super::session::find;
use super::text;
use crate::BODY_BYTES_MAX;
use crate::{Context, Peer};
use worker_api::rtc::{LayerChoice, LayerRequest};

/// The highest spatial or temporal layer that can be asked for: of three bits.
const LAYER_ID_MAX: u8 = 7;

/// The members of [`Wanted`].
const MEMBERS: [&str; 9] = [
    "mediaId",
    "encodingId",
    "rid",
    "spatialLayerId",
    "temporalLayerId",
    "maxSpatialLayerId",
    "maxTemporalLayerId",
    "maxWidth",
    "maxHeight",
];

/// The body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wanted {
    media_id: Option<Value>,
    encoding_id: Option<String>,
    rid: Option<String>,
    spatial_layer_id: Option<u8>,
    temporal_layer_id: Option<u8>,
    max_spatial_layer_id: Option<u8>,
    max_temporal_layer_id: Option<u8>,
    max_width: Option<Value>,
    max_height: Option<Value>,
}

/// Gives a player the layer that it asks for; without one its path decides.
pub(super) async fn choose(
    context: &Context,
    peer: Peer,
    token: &str,
    request: Request,
) -> Result<Response, Refusal> {
    let (id, session) = find(context, peer, token)?;
    context.rtc.admit(peer.address.ip())?;
    let played = session.played.as_ref().ok_or(Refusal::NotPlaying)?;
    let has_type = request.headers().contains_key(header::CONTENT_TYPE);
    if has_type && !headers::is_of_type(request.headers(), JSON) {
        return Err(Refusal::MediaType(JSON));
    }
    let body = text(request.into_body(), BODY_BYTES_MAX).await?;
    if !has_type && !body.is_empty() {
        return Err(Refusal::MediaType(JSON));
    }
    let wanted = if body.trim().is_empty() { Wanted::default() } else { read(&body)? };
    let request = wanted.request(played)?;
    context.workers.rtc_layer(id, request.clone()).await??;
    tracing::debug!(session = %id, ?request, "layer chosen by its player");
    Ok(Response::new(Body::empty()))
}

/// Leaves the choice to the player's path again.
pub(super) async fn leave_to_server(context: &Context, peer: Peer, token: &str) -> Result<Response, Refusal> {
    let (id, session) = find(context, peer, token)?;
    context.rtc.admit(peer.address.ip())?;
    let played = session.played.as_ref().ok_or(Refusal::NotPlaying)?;
    let request = Wanted::default().request(played)?;
    context.workers.rtc_layer(id, request).await??;
    Ok(Response::new(Body::empty()))
}

fn read(body: &str) -> Result<Wanted, Refusal> {
    let wrong = |error| Refusal::Request(format!("not a request for a layer: {error}"));
    // An object first: of an array, `serde` would make the fields in their order.
    let object = serde_json::from_str(body).map_err(|error: serde_json::Error| wrong(error.to_string()))?;
    misspelt(&object).map_err(wrong)?;
    Wanted::deserialize(Value::Object(object)).map_err(|error| wrong(error.to_string()))
}

/// A layer as an event has it has more members than these, and drafts differ in which: they are skipped.
/// But a member in another case, or a request of unknown ones alone, would leave the choice to the path, and
/// say 200.
fn misspelt(object: &Map<String, Value>) -> Result<(), String> {
    let is_known = |name: &String| MEMBERS.contains(&name.as_str());
    for name in object.keys().filter(|name| !is_known(name)) {
        if let Some(meant) = MEMBERS.iter().find(|known| known.eq_ignore_ascii_case(name)) {
            return Err(format!("`{name}` is written `{meant}`"));
        }
    }
    match object.keys().next() {
        Some(name) if !object.keys().any(is_known) => {
            Err(format!("there is no `{name}`; members are {}", MEMBERS.join(", ")))
        }
        _ => Ok(()),
    }
}

impl Wanted {
    fn request(self, played: &Played) -> Result<LayerRequest, Refusal> {
        let wrong = |text: &str| Err(Refusal::Request(text.to_owned()));
        if self.max_width.is_some() || self.max_height.is_some() {
            let text =
                "maxWidth and maxHeight are not supported: choose a layer, or use max_height in the URL";
            return wrong(text);
        }
        let name = self.encoding_id.filter(|name| !name.is_empty());
        let rid = self.rid.filter(|rid| !rid.is_empty());
        if name.is_some() && rid.is_some() && name != rid {
            return wrong("encodingId and rid name two encodings");
        }
        let spatial = least(self.spatial_layer_id, self.max_spatial_layer_id);
        let temporal = least(self.temporal_layer_id, self.max_temporal_layer_id);
        if spatial.max(temporal) > Some(LAYER_ID_MAX) {
            return wrong("spatialLayerId and temporalLayerId are at most 7");
        }
        let name = name.or(rid);
        let is_chosen = name.is_some() || spatial.is_some() || temporal.is_some();
        let layer = is_chosen.then_some(LayerChoice { name, spatial, temporal });
        Ok(LayerRequest { track: track(played, self.media_id)?, layer })
    }
}

/// A layer by its number is the highest that is sent, as one by its limit is.
fn least(one: Option<u8>, other: Option<u8>) -> Option<u8> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The track that `mediaId` names: by its place in the offer, as the draft has it, or by its mid.
fn track(played: &Played, media: Option<Value>) -> Result<usize, Refusal> {
    let Some(first) = played.videos.first() else {
        return Err(Refusal::NoChoice("the session plays no video"));
    };
    let media = match media {
        None | Some(Value::Null) => return Ok(first.track),
        Some(Value::String(media)) => media,
        Some(Value::Number(media)) => media.to_string(),
        Some(_) => return Err(Refusal::Request("mediaId is neither text nor a number".to_owned())),
    };
    let by_line = played.videos.iter().find(|video| video.line.to_string() == media);
    let found = by_line.or_else(|| played.videos.iter().find(|video| video.mid == media));
    let video = found.ok_or_else(|| Refusal::Request("mediaId names no video of the session".to_owned()))?;
    Ok(video.track)
}
