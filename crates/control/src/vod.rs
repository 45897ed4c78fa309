//! Recordings and files below `/vod/`: by ranges, HLS and DASH.
//!
//! Workers hand these requests over: files are read on threads that may wait, which workers have none of.
//! What there is to play and how it is cut is in the crate `vod`; here are who may have it, and HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use rtmp::name::query_value;
use serde::Serialize;
use tokio::time::Instant;
use vod::names::{FileObject, Source, Target};
use vod::query::VodQuery;
use vod::{Answer, Item, ItemKind, Library, Listed, Listing, MediaBody, VodError};
use worker_api::auth::Permit;
use worker_api::segments::{Ranged, accepts_gzip};
use worker_api::snapshot::Role;
use worker_api::time::since_1970;
use worker_api::viewers::Viewer;
use worker_api::{EndReason, Refused, time};

use crate::context::{Context, Peer};
use crate::ranged::{self, put};
use crate::server::Endless;
use crate::{access, error_response};

/// Files of a page of the list, if the request does not say how many, and at most.
const LIMIT: (usize, usize) = (1_000, 10_000);
/// Playlists below this are not worth compressing.
const GZIP_FROM_BYTES: usize = 1_000;

/// What there is to play.
#[derive(Debug, Serialize)]
struct List {
    items: Vec<Listable>,
    /// `after` of the next page; `null` on the last.
    next: Option<String>,
    /// Whether files were left out because there are too many in `vod.root`.
    incomplete: bool,
}

/// A file that can be played. URLs are paths on this server.
#[derive(Debug, Serialize)]
struct Listable {
    /// `recording` or `file`.
    kind: &'static str,
    url: String,
    hls: String,
    dash: String,
    bytes: u64,
    /// `null` until somebody has played it, or recorded it in this run of the server.
    duration_ms: Option<u64>,
    /// Empty until the file was played or looked into: so many files per request for the list.
    codecs: Vec<String>,
    /// Why it is not played by HLS and DASH, if that is known.
    unplayable: Option<String>,
    /// Of a recording: stream, begin (RFC 3339), and `in_progress`, `unfinished` or `complete`.
    app: Option<String>,
    name: Option<String>,
    start: Option<String>,
    state: Option<&'static str>,
}

/// For how long who has asked for something may come back although there is too much to do, as target
/// durations: ten minutes.
const LASTS: Option<u32> = Some(200);

/// Answers a request for a path below `/vod/`.
pub(crate) async fn answer(context: Arc<Context>, peer: Peer, request: Request) -> Response {
    let checked = check(&context, peer, &request);
    let headers = request.headers().clone();
    let is_head = request.method() == Method::HEAD;
    // It cannot be kept: its body is for one thread only.
    drop(request);
    let checked = match checked {
        Ok(Some((library, asked))) => {
            let may = match &asked.viewed {
                Some((key, token)) => {
                    crate::hooks::may_view(&context, peer, &headers, key, token.as_deref()).await
                }
                None => Ok(()),
            };
            may.map(|()| Some((library, asked)))
        }
        other => other,
    };
    let mut response = match checked {
        Ok(Some((library, asked))) => {
            respond(&library, asked, &headers, is_head).await.unwrap_or_else(|error| failed(&error))
        }
        Ok(None) => preflight(),
        Err(refused) => error_response::refused(refused),
    };
    crate::rtc::allow_origin(&context, &mut response);
    response
}

fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A request that its sender may make.
struct Asked {
    target: Target,
    query: VodQuery,
    listing: Listing,
    /// When the answer is to end, since 1970, if it is to end with its token.
    until: Option<Duration>,
    /// What is viewed, and the token that is shown for it; not a list.
    viewed: Option<(String, Option<String>)>,
}

/// What a request asks for, if its sender may have it; `None` for a preflight.
fn check(context: &Context, peer: Peer, request: &Request) -> Result<Option<(Library, Asked)>, Refused> {
    if request.method() == Method::OPTIONS {
        return Ok(None);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refused::new(405, "recordings and files can only be read"));
    }
    let not_found = Refused::new(404, "there is no such recording or file");
    let target = Target::read(request.uri().path()).ok_or(not_found)?;
    let query = request.uri().query().unwrap_or("");
    let token = query_value(query, "token");
    let mut sender = access::web_request(request, peer);
    let allowed = match &target {
        // A token in the query opens what players may have, and the list is more than that.
        Target::List => context.policy().manage.may_manage(&sender).map(|()| Permit::default()),
        Target::Object(source, _) => {
            sender.token = sender.token.or(token.as_deref());
            let (app, stream) = source.rule_name();
            context.policy().may_play_by_web(&app, stream, &sender)
        }
        Target::Live { app, stream, .. } => {
            sender.token = sender.token.or(token.as_deref());
            context.policy().may_play_by_web(app, stream, &sender)
        }
    };
    let Permit { until } = allowed?;
    let viewed = match &target {
        Target::List => None,
        Target::Object(source, _) => {
            let (app, stream) = source.rule_name();
            Some((format!("{app}/{stream}"), sender.token.map(str::to_owned)))
        }
        Target::Live { app, stream, .. } => {
            Some((format!("{app}/{stream}"), sender.token.map(str::to_owned)))
        }
    };
    let asked_query = VodQuery::parse(query).map_err(|reason| Refused::new(400, reason))?;
    let limit = query_value(query, "limit").map_or(Some(LIMIT.0), |limit| limit.parse().ok());
    let limit = limit.ok_or(Refused::new(400, "`limit` is no number"))?;
    let listing = Listing {
        prefix: query_value(query, "prefix").unwrap_or_default(),
        after: query_value(query, "after").unwrap_or_default(),
        limit: limit.min(LIMIT.1),
    };
    if *context.draining.borrow() {
        return Err(Refused::new(503, "the server is shutting down"));
    }
    let user_agent = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    let viewer = viewed.as_ref().map(|(key, token)| {
        (key, Viewer { address: peer.address.ip(), user_agent, token: token.as_deref() })
    });
    // What playlists list is for those who were let in.
    let may_be_first = !matches!(&target, Target::List | Target::Object(_, FileObject::Tagged(..)));
    if let Some(overload) = context.rtc.overload(Role::Player).filter(|_| may_be_first)
        && !viewer.is_some_and(|viewer| context.vod_viewers.has(&viewer, since_1970(), LASTS))
    {
        context.rtc.count_overload(Role::Player, overload);
        return Err(Refused::new(503, overload.reason()));
    }
    if let Some(viewer) = viewer {
        context.vod_viewers.note(&viewer, since_1970(), LASTS);
    }
    let nothing = Refused::new(404, "nothing is played on demand: see `record.directory` and `vod.root`");
    let library = context.vod.clone().ok_or(nothing)?;
    Ok(Some((library, Asked { target, query: asked_query, listing, until, viewed })))
}

async fn respond(
    library: &Library,
    asked: Asked,
    headers: &HeaderMap,
    is_head: bool,
) -> Result<Response, VodError> {
    let slot = library.begin()?;
    match asked.target {
        Target::List => {
            let listed = library.list(slot, asked.listing).await?;
            Ok(Json(List::from(listed)).into_response())
        }
        Target::Live { app, stream, is_dash } => {
            let Some(source) = library.live(&app, &stream) else {
                let not_recorded = Refused::new(404, "the stream is not recorded at present, or not as MP4");
                return Ok(error_response::refused(not_recorded));
            };
            // The playlist has a URL of its own, which stays when another recording begins.
            let object = if is_dash { "manifest.mpd" } else { "index.m3u8" };
            let query = match asked.query.kept.as_str() {
                "" => String::new(),
                query => format!("?{query}"),
            };
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            put(&mut response, header::LOCATION, &format!("{}/{object}{query}", source.url_path()));
            Ok(response)
        }
        Target::Object(source, object) => {
            let is_file = object == FileObject::Whole;
            let answer = library.answer(slot, &source, object, &asked.query).await?;
            Ok(match answer {
                Answer::Text { text, content_type, lifetime } => {
                    let field = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
                    let takes_gzip = text.len() >= GZIP_FROM_BYTES && field.is_some_and(accepts_gzip);
                    let gzip = if takes_gzip { in_gzip(text.clone()).await } else { None };
                    let is_gzip = gzip.is_some();
                    let text = gzip.unwrap_or(text);
                    let mut response = Response::new(Body::empty());
                    put(&mut response, header::CONTENT_TYPE, content_type);
                    put(&mut response, header::CACHE_CONTROL, &lifetime.to_string());
                    put(&mut response, header::CONTENT_LENGTH, &text.len().to_string());
                    put(&mut response, header::VARY, "Accept-Encoding");
                    if is_gzip {
                        put(&mut response, header::CONTENT_ENCODING, "gzip");
                    }
                    if !is_head {
                        *response.body_mut() = Body::from(text);
                    }
                    response
                }
                Answer::Media { body, content_type, lifetime, etag } => {
                    let mut response = media(*body, etag.as_deref(), headers, is_head, asked.until);
                    if response.status() != StatusCode::RANGE_NOT_SATISFIABLE {
                        put(&mut response, header::CONTENT_TYPE, content_type);
                        put(&mut response, header::CACHE_CONTROL, &lifetime.to_string());
                    }
                    if is_file {
                        let name = source.file_name();
                        let name =
                            name.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
                        put(
                            &mut response,
                            header::CONTENT_DISPOSITION,
                            &format!("inline; filename=\"{name}\""),
                        );
                    }
                    response
                }
            })
        }
    }
}

/// A file or a segment, or the range of it that is asked for; it is broken off at `until`, since 1970.
fn media(
    mut body: MediaBody,
    etag: Option<&str>,
    headers: &HeaderMap,
    is_head: bool,
    until: Option<Duration>,
) -> Response {
    // A range is one of a GET only (RFC 9110 section 14.2).
    let ranged = if is_head { Ranged::Whole } else { ranged::asked(headers, etag, body.len()) };
    let mut response = ranged::head(ranged);
    match ranged {
        Ranged::Unsatisfiable { .. } => return response,
        Ranged::Part { first, last, .. } => body.cut(first, last),
        Ranged::Whole => put(&mut response, header::ACCEPT_RANGES, "bytes"),
    }
    if let Some(etag) = etag {
        put(&mut response, header::ETAG, etag);
    }
    put(&mut response, header::CONTENT_LENGTH, &body.len().to_string());
    if !is_head {
        // Who takes nothing for as long as a request may take is disconnected; who goes on may take hours.
        response.extensions_mut().insert(Endless);
        let expired = until.map(|until| Instant::now() + until.saturating_sub(since_1970()));
        let pieces = futures_util::stream::unfold(body, |mut body| async move {
            let piece = body.next().await?;
            Some((piece, body))
        });
        *response.body_mut() = match expired {
            Some(expired) => Body::from_stream(pieces.map(move |piece| match Instant::now() < expired {
                true => piece,
                false => Err(io::Error::other(EndReason::TokenExpired.text())),
            })),
            None => Body::from_stream(pieces),
        };
    }
    response
}

fn failed(error: &VodError) -> Response {
    let (status, code) = match error {
        VodError::NotFound => {
            return error_response::refused(Refused::new(404, "there is no such file, or it has changed"));
        }
        VodError::Busy => {
            return error_response::refused(Refused::new(503, "too many files are played at once"));
        }
        VodError::Unplayable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "not_playable"),
        VodError::Remote(_) => (StatusCode::BAD_GATEWAY, "remote"),
        VodError::Disk(reason) => {
            tracing::warn!(reason, "a file to play cannot be read");
            let text = "the file cannot be read at present";
            return error_response::error(StatusCode::INTERNAL_SERVER_ERROR, "disk", text);
        }
    };
    error_response::error(status, code, error.to_string())
}

/// A text in gzip. That of a long film takes milliseconds, for which other requests do not wait.
async fn in_gzip(text: Bytes) -> Option<Bytes> {
    tokio::task::spawn_blocking(move || hls::on_demand::in_gzip(&text)).await.ok()
}

impl From<Listed> for List {
    fn from(listed: Listed) -> Self {
        let next = listed.items.last().filter(|_| listed.has_more).map(|item| item.path.clone());
        let items = listed.items.into_iter().map(Listable::from).collect();
        Self { items, next, incomplete: listed.is_cut }
    }
}

impl From<Item> for Listable {
    fn from(item: Item) -> Self {
        let Item { path, source, kind, bytes, duration, codecs, unplayable, start } = item;
        let (app, name) = match source {
            Source::Recording { app, stream, .. } => (Some(app), Some(stream)),
            _ => (None, None),
        };
        let (kind, state) = match kind {
            ItemKind::File => ("file", None),
            ItemKind::Recording(state) => ("recording", Some(state.name())),
        };
        Self {
            kind,
            hls: format!("{path}/index.m3u8"),
            dash: format!("{path}/manifest.mpd"),
            url: path,
            bytes,
            duration_ms: duration.map(|duration| duration.as_millis() as u64),
            codecs,
            unplayable,
            app,
            name,
            start: start.map(|start| time::rfc3339(std::time::UNIX_EPOCH + start)),
            state,
        }
    }
}
