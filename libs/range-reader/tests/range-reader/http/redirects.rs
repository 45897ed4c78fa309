//! Redirects: followed, bounded, judged, remembered; and what must not travel along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{self, HeaderMap, HeaderValue};
use range_reader::error::{Permanent, SourceError};
use range_reader::http::address::AddressPolicy;
use range_reader::http::{HttpConfig, HttpSource};
use range_reader::source::Source;
use url::Url;

use crate::http::nginx::Nginx;
use crate::http::scripted::{Scripted, Step, answer, honest};
use crate::http::{bytes_of, config, file, one, read_all, reader};

fn redirect(status: &str, to: &str) -> Vec<Step> {
    vec![Step::Send(answer(status, &[&format!("location: {to}")], b"elsewhere"))]
}

/// A server that has a file.
async fn target(file: &[u8]) -> Scripted {
    let file = file.to_vec();
    Scripted::start(move |asked| vec![Step::Send(honest(asked, &file, &["etag: \"a\""]))]).await
}

async fn first_error(url: &Url, http: HttpConfig) -> SourceError {
    HttpSource::new(url, http).unwrap().open(one(0..1)).await.unwrap_err()
}

#[tokio::test]
async fn every_kind_of_redirect_is_followed_and_remembered() {
    let file = file(300_000);
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let there = target(&file).await;
        let to = there.url("/there?x=1#fragment");
        let here = Scripted::start(move |_| redirect(status, to.as_str())).await;
        assert!(read_all(&mut reader(&here.url("/here"), config())).await.unwrap() == file, "{status}");
        // Asked once, whatever the number of ranges.
        assert_eq!(here.asked().len(), 1, "{status}");
        assert!(there.asked().iter().all(|asked| asked.target() == "/there?x=1"));
    }
}

#[tokio::test]
async fn a_relative_redirect_uses_the_same_connection() {
    let file = file(10);
    let server = Scripted::start(move |asked| match asked.target() {
        "/a/b?c" => redirect("302 Found", "../d/e?f"),
        "/d/e?f" => vec![Step::Send(honest(asked, &file, &[]))],
        other => panic!("{other}"),
    })
    .await;
    assert_eq!(read_all(&mut reader(&server.url("/a/b?c"), config())).await.unwrap().len(), 10);
    assert!(server.asked().iter().all(|asked| asked.connection == 0), "{:?}", server.asked());
}

#[tokio::test]
async fn a_loop_of_redirects_ends() {
    let server = Scripted::start(|asked| redirect("302 Found", &format!("{}a", asked.target()))).await;
    let http = HttpConfig { redirects_max: 3, ..config() };
    let error = first_error(&server.url("/"), http).await;
    assert!(matches!(error, SourceError::Permanent(Permanent::Limit(_))), "{error}");
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn a_redirect_to_what_must_not_be_asked_is_refused() {
    for to in ["ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1:25/", "data:,x", "javascript:1"]
    {
        let server = Scripted::start(move |_| redirect("302 Found", to)).await;
        let error = first_error(&server.url("/"), config()).await;
        assert!(matches!(error, SourceError::Permanent(Permanent::Forbidden(_))), "{to}: {error}");
    }
    for to in ["http://", "http://[::1", "//", &"a".repeat(10_000)] {
        let to = to.to_owned();
        let server = Scripted::start(move |_| redirect("302 Found", &to)).await;
        let error = first_error(&server.url("/"), config()).await;
        assert!(matches!(error, SourceError::Permanent(_)), "{error}");
    }
    let server = Scripted::start(|_| vec![Step::Send(answer("302 Found", &[], b""))]).await;
    let error = first_error(&server.url("/"), config()).await;
    assert!(matches!(error, SourceError::Permanent(Permanent::Lying(_))), "{error}");
}

#[tokio::test]
async fn from_https_a_redirect_goes_to_http_only_if_allowed() {
    let file = file(100);
    let plain = target(&file).await;
    let (nginx, certificate) = Nginx::start_tls_with(&format!("return 302 {};", plain.url("/there")));
    let refusing = HttpConfig { extra_roots_pem: certificate.pem().into_bytes(), ..config() };
    let error = first_error(&nginx.url("/"), refusing.clone()).await;
    assert!(matches!(error, SourceError::Permanent(Permanent::Forbidden(_))), "{error}");
    assert_eq!(plain.asked().len(), 0);
    let allowing = HttpConfig { allow_downgrade: true, ..refusing };
    assert_eq!(read_all(&mut reader(&nginx.url("/"), allowing)).await.unwrap(), file);
}

#[tokio::test]
async fn credentials_stay_with_the_origin_they_are_for() {
    let file = file(300_000);
    let there = target(&file).await;
    let to = there.url("/there");
    let here = Scripted::start(move |asked| match asked.target() {
        "/first" => redirect("302 Found", "/second"),
        _ => redirect("302 Found", to.as_str()),
    })
    .await;
    let mut headers = HeaderMap::new();
    headers.insert(header::COOKIE, HeaderValue::from_static("secret"));
    headers.insert("x-api-key", HeaderValue::from_static("secret"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("player/1"));
    let mut url = here.url("/first");
    url.set_username("Aladdin").unwrap();
    url.set_password(Some("open%20sesame")).unwrap();
    assert!(read_all(&mut reader(&url, HttpConfig { headers, ..config() })).await.unwrap() == file);
    assert_eq!(here.asked().len(), 2);
    for asked in here.asked() {
        assert_eq!(asked.field("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")); // RFC 7617, 2
        assert_eq!(asked.field("cookie"), Some("secret"));
        assert_eq!(asked.field("x-api-key"), Some("secret"));
        assert!(!asked.line.contains("sesame"), "{}", asked.line);
    }
    assert!(there.asked().len() > 1);
    for asked in there.asked() {
        for secret in ["authorization", "cookie", "x-api-key", "referer"] {
            assert_eq!(asked.field(secret), None, "{secret}");
        }
        assert_eq!(asked.field("user-agent"), Some("player/1"));
        assert!(asked.field("range").is_some());
    }
}

#[tokio::test]
async fn a_redirect_back_does_not_get_credentials_again() {
    let file = file(100);
    let served = file.clone();
    // A port of its own, which both servers have to know beforehand.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = Scripted::start(move |_| redirect("302 Found", &format!("http://{free}/back"))).await;
    let to = other.url("/other");
    let first = Scripted::on(free, move |asked| match asked.target() {
        "/back" => vec![Step::Send(honest(asked, &served, &[]))],
        _ => redirect("302 Found", to.as_str()),
    })
    .await;
    let mut url = first.url("/");
    url.set_username("user").unwrap();
    assert_eq!(read_all(&mut reader(&url, config())).await.unwrap(), file);
    assert!(first.asked()[0].field("authorization").is_some());
    assert!(first.asked()[1..].iter().all(|asked| asked.field("authorization").is_none()));
}

#[tokio::test]
async fn a_place_that_fails_later_is_looked_for_again() {
    let file = file(300_000);
    // As with signed links that expire: the second time, the first target is no longer valid.
    let (old, new) = (Arc::new(AtomicBool::new(true)), target(&file).await);
    let (valid, served) = (Arc::clone(&old), file.clone());
    let expiring = Scripted::start(move |asked| {
        let bytes = if valid.swap(false, Ordering::SeqCst) {
            honest(asked, &served, &["etag: \"a\""])
        } else {
            answer("403 Forbidden", &[], b"expired")
        };
        vec![Step::Send(bytes)]
    })
    .await;
    let (first, second) = (expiring.url("/old"), new.url("/new"));
    let is_first = AtomicBool::new(true);
    let here = Scripted::start(move |_| {
        let to = if is_first.swap(false, Ordering::SeqCst) { &first } else { &second };
        redirect("302 Found", to.as_str())
    })
    .await;
    assert!(read_all(&mut reader(&here.url("/"), config())).await.unwrap() == file);
    assert_eq!((here.asked().len(), expiring.asked().len()), (2, 2));
}

#[tokio::test]
async fn forbidden_addresses_are_refused_in_every_form() {
    let server = Scripted::start(|_| panic!("nobody may connect")).await;
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "10.0.0.1",
        "169.254.169.254",
    ] {
        let url: Url = format!("http://{host}:{port}/").parse().unwrap();
        let error = first_error(&url, HttpConfig::default()).await;
        assert!(matches!(error, SourceError::Permanent(Permanent::NotPublic(_))), "{host}: {error}");
        assert!(error.to_string().contains("`HttpConfig::addresses`"), "says what allows it: {error}");
    }
    for url in ["ftp://example.com/", "file:///etc/passwd", "rtmp://example.com/"] {
        let error = HttpSource::new(&url.parse().unwrap(), config()).unwrap_err();
        assert!(matches!(error, SourceError::Permanent(Permanent::Forbidden(_))), "{url}: {error}");
    }
    assert_eq!(HttpConfig::default().addresses, AddressPolicy::Public);
}

#[tokio::test]
async fn a_redirect_to_a_forbidden_address_is_refused() {
    // Over a proxy, so that a public host can be asked on loopback.
    let proxy = Scripted::start(|asked| {
        assert_eq!(asked.target(), "http://example.com/");
        redirect("302 Found", "http://127.0.0.1:1/")
    })
    .await;
    let mut by_scheme = std::collections::HashMap::new();
    by_scheme.insert("http".to_owned(), proxy.url("/"));
    let proxies = range_reader::http::Proxy { by_scheme, except: vec!["127.0.0.1".to_owned()] };
    let http = HttpConfig { proxy: Some(proxies), ..HttpConfig::default() };
    let error = first_error(&"http://example.com/".parse().unwrap(), http).await;
    assert!(matches!(error, SourceError::Permanent(Permanent::NotPublic(_))), "{error}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn header_fields_that_belong_to_the_reader_cannot_be_set() {
    for name in ["host", "range", "if-range", "accept-encoding", "connection", "transfer-encoding"] {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static("x"));
        let error =
            HttpSource::new(&"http://a/".parse().unwrap(), HttpConfig { headers, ..config() }).unwrap_err();
        assert!(matches!(error, SourceError::Permanent(Permanent::Setup(_))), "{name}: {error}");
    }
}

#[tokio::test]
async fn bytes_come_where_a_redirect_has_a_long_body() {
    let file = file(100);
    let there = target(&file).await;
    let to = there.url("/there");
    let here = Scripted::start(move |_| {
        let field = format!("location: {to}");
        vec![Step::Send(answer("302 Found", &[&field], &[b' '; 100_000]))]
    })
    .await;
    let mut source = HttpSource::new(&here.url("/"), config()).unwrap();
    let mut response = source.open(one(0..100)).await.unwrap();
    assert_eq!(bytes_of(&mut response.body).await.unwrap(), file);
    // The connection with the long body was not worth keeping.
    assert_eq!(source.state().connections_open, 1);
}
