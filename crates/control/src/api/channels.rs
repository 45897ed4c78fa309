//! Channels in the management API: playlists of files that this server publishes as streams.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Failure, StreamName};
use crate::Context;
use crate::error_response::ErrorBody;
use sources::channels::{self, ChannelRequest, ChannelSpec, EventKind, NotAdded, NotSkipped, View};
use sources::settings::AddedBy;
use worker_api::time;

/// All channels.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelList {
    channels: Vec<Channel>,
}

/// A playlist that is published as a stream.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Channel {
    app: String,
    name: String,
    source: AddedBy,
    state: channels::State,
    /// Since when it has been in this state (RFC 3339).
    since: String,
    items: Vec<ChannelItem>,
    /// Whether the first item follows the last one.
    #[serde(rename = "loop")]
    looped: bool,
    /// When the playlist began (RFC 3339), if that was set.
    start: Option<String>,
    /// Index of the item that is played; none while the next one is waited for.
    item: Option<usize>,
    /// How far.
    position_ms: Option<u64>,
    /// How long it is.
    duration_ms: Option<u64>,
    /// Index of the item that comes next, or that is waited for.
    next: Option<usize>,
    /// It is open, and its first frames are being read.
    next_ready: bool,
    /// How often the playlist has gone round.
    loops: u64,
    /// Items played to their end.
    items_played: u64,
    /// Items that were broken, each time they were tried.
    items_failed: u64,
    /// Times late frames made the pacing restart.
    pauses: u64,
    /// By how much it is later because of that; with a `start`, since it was last where its schedule says.
    behind_ms: u64,
    /// Time until something is tried again, or until the start.
    retry_in_ms: Option<u64>,
    /// What happened, newest last; the last 64.
    events: Vec<ChannelEvent>,
}

/// An item of a playlist.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelItem {
    /// A URL without user name, password and query, or a path.
    #[schema(example = "https://media.example/one.mp4")]
    location: String,
    /// How long it is, once it has been opened.
    duration_ms: Option<u64>,
    /// Why it was skipped when it was tried last.
    last_error: Option<String>,
}

/// Something that happened to a channel.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelEvent {
    /// RFC 3339.
    at: String,
    /// Index of the item it is about.
    item: Option<usize>,
    kind: EventKind,
    /// For people.
    message: String,
}

/// A channel to start. It is forgotten when the server restarts; lasting ones are in the configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewChannel {
    /// Application of the stream.
    #[schema(example = "live")]
    app: String,
    /// Its name.
    #[schema(example = "films")]
    name: String,
    /// `http` and `https` URLs of MP4 files, and paths of files below `sources.files_root`.
    #[schema(example = json!(["https://media.example/one.mp4", "two.mp4"]))]
    items: Vec<String>,
    /// Whether the first item follows the last one. True when left out.
    #[serde(rename = "loop", default = "yes")]
    looped: bool,
    /// When the playlist began (RFC 3339): the channel joins it where it would be now, and waits
    /// for a time in the future.
    #[serde(default)]
    start: Option<String>,
}

fn yes() -> bool {
    true
}

impl From<View> for Channel {
    fn from(view: View) -> Self {
        let View { spec, added_by, now } = view;
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        #[expect(clippy::disallowed_methods, reason = "how long from now, for people")]
        let left = now.retry_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        let item = |(location, item): (&_, &channels::ItemStatus)| ChannelItem {
            location: ToString::to_string(location),
            duration_ms: item.duration.map(ms),
            last_error: item.last_error.clone(),
        };
        Self {
            app: spec.app.clone(),
            name: spec.name.clone(),
            source: added_by,
            state: now.state,
            since: time::rfc3339(now.since),
            items: spec.items.iter().zip(&now.items).map(item).collect(),
            looped: spec.looped,
            start: spec.start.map(time::rfc3339),
            item: now.item,
            position_ms: now.item.map(|_| ms(now.position)),
            duration_ms: now.item.and_then(|item| now.items[item].duration).map(ms),
            next: now.next,
            next_ready: now.next_ready,
            loops: now.loops,
            items_played: now.items_played,
            items_failed: now.items_failed,
            pauses: now.pauses,
            behind_ms: ms(now.behind),
            retry_in_ms: left.map(ms),
            events: now.events.into_iter().map(ChannelEvent::from).collect(),
        }
    }
}

impl From<channels::Event> for ChannelEvent {
    fn from(event: channels::Event) -> Self {
        Self { at: time::rfc3339(event.at), item: event.item, kind: event.kind, message: event.message }
    }
}

/// All channels, those of the configuration and those added here.
#[utoipa::path(get, path = "/api/v1/channels", tag = "channels", responses(
    (status = 200, description = "Channels, by app and name", body = ChannelList),
))]
pub(super) async fn channels(State(context): State<Arc<Context>>) -> Json<ChannelList> {
    Json(ChannelList { channels: context.channels.views().into_iter().map(Channel::from).collect() })
}

/// Starts a channel. Whether its items can be played shows in its events.
#[utoipa::path(post, path = "/api/v1/channels", tag = "channels", request_body = NewChannel, responses(
    (status = 201, description = "It has started", body = Channel),
    (status = 400, description = "The body is not valid, or a name or item cannot be used", body = ErrorBody),
    (status = 409, description = "The stream has a channel or a pull already (`exists`), or there are too many (`full`)", body = ErrorBody),
))]
pub(super) async fn add_channel(
    State(context): State<Arc<Context>>,
    body: Result<Json<NewChannel>, JsonRejection>,
) -> Result<(StatusCode, Json<Channel>), Failure> {
    let Json(new) = body?;
    let start = match new.start.as_deref() {
        None => None,
        Some(text) => Some(time::parse_rfc3339(text).ok_or_else(|| {
            let example = "2026-01-01T00:00:00Z";
            Failure::BadRequest(format!(
                "start: takes a date with time and offset (RFC 3339), such as {example}"
            ))
        })?),
    };
    let NewChannel { app, name, items, looped, .. } = &new;
    let request = ChannelRequest { app, name, items, looped: *looped, start };
    let spec =
        ChannelSpec::new(request, &context.channels.settings(), AddedBy::Api).map_err(Failure::BadRequest)?;
    match context.channels.add(spec, AddedBy::Api) {
        Ok(view) => {
            tracing::info!(channel = format_args!("{app}/{name}"), "channel added through the API");
            Ok((StatusCode::CREATED, Json(view.into())))
        }
        Err(NotAdded::Exists(kind)) => {
            Err(Failure::Conflict("exists", format!("there is a {} for `{app}/{name}`", kind.shown())))
        }
        Err(NotAdded::Full { most }) => Err(Failure::Conflict(
            "full",
            format!("there are {most} channels, as many as `sources.channels_max` allows"),
        )),
    }
}

/// One channel.
#[utoipa::path(get, path = "/api/v1/channels/{app}/{name}", tag = "channels", params(StreamName), responses(
    (status = 200, description = "The channel", body = Channel),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such channel", body = ErrorBody),
))]
pub(super) async fn channel(
    State(context): State<Arc<Context>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<Json<Channel>, Failure> {
    let Path(StreamName { app, name }) = path?;
    context.channels.view(&app, &name).map(|view| Json(view.into())).ok_or(NONE)
}

/// Ends a channel, and its publication. One of the configuration is back after a restart.
#[utoipa::path(delete, path = "/api/v1/channels/{app}/{name}", tag = "channels", params(StreamName), responses(
    (status = 204, description = "It ends"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such channel", body = ErrorBody),
))]
pub(super) async fn remove_channel(
    State(context): State<Arc<Context>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(StreamName { app, name }) = path?;
    if !context.channels.remove(&app, &name) {
        return Err(NONE);
    }
    tracing::info!(channel = format_args!("{app}/{name}"), "channel removed through the API");
    Ok(StatusCode::NO_CONTENT)
}

/// Has a channel leave the item that it plays, or waits for, and go on with the next one.
#[utoipa::path(post, path = "/api/v1/channels/{app}/{name}/skip", tag = "channels", params(StreamName), responses(
    (status = 204, description = "It goes on with its next item"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such channel", body = ErrorBody),
    (status = 409, description = "It neither plays an item nor waits for one (`not_playing`)", body = ErrorBody),
))]
pub(super) async fn skip_item(
    State(context): State<Arc<Context>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(StreamName { app, name }) = path?;
    match context.channels.skip(&app, &name) {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(NotSkipped::None) => Err(NONE),
        Err(NotSkipped::Idle(state)) => Err(Failure::Conflict(
            "not_playing",
            format!("the channel plays nothing now: its state is `{}`", state.name()),
        )),
    }
}

const NONE: Failure = Failure::NotFound("no such channel");
