//! The console: files of `web/dist`, embedded at build time.
//!
//! Files whose names contain a hash of their content may be kept for ever; the others are requested
//! again each time, with an ETag. The console's own pages are named in the fragment; who types one
//! as a path is sent there. A build without the console answers `/` with a page that says how to
//! make it.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use super::{error_response, rtc};

/// Files of the console; empty when it was not built.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// What a page of the console may load. The player makes `blob:` media and workers.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; \
     connect-src 'self' ws: wss:; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'";

const NOT_BUILT: &str = "<!doctype html><meta charset=utf-8><title>Millstream</title>\
<body><h1>Millstream</h1><p>The server runs; this build has no console. \
Build it with <code>make console</code> (or <code>npm ci && npm run build</code> in <code>web/</code>) \
and then build the server again.</p>\
<p><a href=/api/v1/streams>Streams</a> · <a href=/api/v1/openapi.json>API</a> · <a href=/metrics>Metrics</a></p>";

/// Answers every path no other route has.
pub(super) async fn asset(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path == "api" || path.starts_with("api/") {
        return error_response::error(StatusCode::NOT_FOUND, "not_found", "the API has no such path");
    }
    if rtc::is_misplaced(uri.path()) {
        return rtc::misplaced();
    }
    if method != Method::GET && method != Method::HEAD {
        return error_response::error(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path does not take this method",
        );
    }
    if let Some(address) = page_address(path, uri.query()) {
        return (StatusCode::FOUND, [(header::LOCATION, address)]).into_response();
    }
    let path = if path.is_empty() { "index.html" } else { path };
    match Files::get(path) {
        Some(file) => serve(path, file, &headers),
        None if path == "index.html" => page(NOT_BUILT.into_response(), "text/html; charset=utf-8"),
        None => page((StatusCode::NOT_FOUND, "not found\n").into_response(), "text/plain; charset=utf-8"),
    }
}

/// Where the page is that somebody typed as a path: `/watch/live/show?token=t` is
/// `/#/watch/live/show?token=t`.
fn page_address(path: &str, query: Option<&str>) -> Option<HeaderValue> {
    let path = path.trim_end_matches('/');
    let (page, stream) = path.split_once('/').unwrap_or((path, ""));
    let is_page = match page {
        "publish" => stream.is_empty(),
        "watch" => stream.split('/').count() >= 2 && stream.split('/').all(|part| !part.is_empty()),
        _ => false,
    };
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    is_page.then(|| HeaderValue::from_str(&format!("/#/{path}{query}")).ok()).flatten()
}

fn serve(path: &str, file: rust_embed::EmbeddedFile, headers: &HeaderMap) -> Response {
    let hash: String = file.metadata.sha256_hash()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| matches_etag(known, &etag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        page(body(file.data).into_response(), content_type(path))
    };
    let kept = if is_hashed(path) { "public, max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Embedded bytes are static: however many clients read slowly, there is one copy.
fn body(data: Cow<'static, [u8]>) -> Body {
    match data {
        Cow::Borrowed(bytes) => Body::from(bytes),
        Cow::Owned(bytes) => Body::from(bytes),
    }
}

fn page(mut response: Response, content_type: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    response
}

/// `If-None-Match` (RFC 9110 §13.1.2): a list of tags, compared weakly, or `*`.
fn matches_etag(known: &str, etag: &str) -> bool {
    known.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|tag| tag == etag || tag == "*")
}

/// Whether the name carries a hash of the content, as in `assets/index-D1yc9QmS.js`.
fn is_hashed(path: &str) -> bool {
    let stem =
        path.strip_prefix("assets/").and_then(|name| name.rsplit_once('.')).map_or("", |(stem, _)| stem);
    stem.len() > 9 && stem.as_bytes()[stem.len() - 9] == b'-'
}

/// Media type by the end of the name; what a browser must not guess.
fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or("") {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" | "webmanifest" => "application/json",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_match_in_lists_and_weakly() {
        for (known, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("", false),
        ] {
            assert_eq!(matches_etag(known, "\"a\""), expected, "{known}");
        }
    }

    #[tokio::test]
    async fn typed_paths_of_pages_lead_to_them() {
        let cases = [
            ("/publish", Some("/#/publish")),
            ("/publish/", Some("/#/publish")),
            ("/watch/live/show", Some("/#/watch/live/show")),
            ("/watch/a/b/show", Some("/#/watch/a/b/show")),
            ("/watch/live/a%20b?token=t%26", Some("/#/watch/live/a%20b?token=t%26")),
            ("//watch/live/show", Some("/#/watch/live/show")),
            ("/watch/live", None),
            ("/watch//show", None),
            ("/publish/live", None),
            ("/publisher", None),
        ];
        for (path, expected) in cases {
            let uri = path.parse::<Uri>().expect("a path");
            let response = asset(Method::GET, uri, HeaderMap::new()).await;
            let location =
                response.headers().get(header::LOCATION).map(|value| value.to_str().expect("text"));
            assert_eq!(location, expected, "{path}");
            let status = if expected.is_some() { StatusCode::FOUND } else { StatusCode::NOT_FOUND };
            assert_eq!(response.status(), status, "{path}");
        }
        let post = asset(Method::POST, Uri::from_static("/publish"), HeaderMap::new()).await;
        assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        let cases = [
            ("assets/index-D1yc9QmS.js", true),
            ("assets/icon-5rHNA-Vn.svg", true),
            ("assets/licences.md", false),
            ("index-D1yc9QmS.js", false),
            ("assets/-D1yc9QmS.js", false),
        ];
        for (path, expected) in cases {
            assert_eq!(is_hashed(path), expected, "{path}");
        }
    }

    #[test]
    fn an_embedded_console_is_complete() {
        let Some(index) = Files::get("index.html") else { return };
        let text = String::from_utf8_lossy(&index.data).into_owned();
        let named = text.split('"').filter(|part| part.starts_with("/assets/"));
        for path in named {
            assert!(Files::get(&path[1..]).is_some(), "{path} is named by index.html and not embedded");
            assert_ne!(content_type(path), "application/octet-stream", "{path}");
        }
    }
}
