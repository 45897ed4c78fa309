//! The client alone, as a pull of a live stream uses it: bytes as they come, silence and slowness
//! noticed.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::HeaderMap;
use http::header::{self, HeaderValue};
use range_reader::error::SourceError;
use range_reader::http::{Client, HttpConfig};

use crate::http::config;
use crate::http::scripted::{Asked, Scripted, Step, answer, head};

#[tokio::test]
async fn bytes_are_handed_on_as_they_come() {
    let server = Scripted::start(|asked| {
        assert_eq!(asked.field("x-token"), Some("mine"));
        let chunk = |text: &str| Step::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes());
        let fields = ["content-type: video/x-flv", "transfer-encoding: chunked"];
        vec![Step::Send(head("200 OK", &fields)), chunk("FLV"), Step::Hang]
    })
    .await;
    let client = Client::new(config()).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-token", HeaderValue::from_static("mine"));
    let mut answer = client.get(&server.url("/live.flv"), &headers).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.peer), (200, Some(server.address)));
    assert_eq!(answer.headers[header::CONTENT_TYPE], "video/x-flv");
    // The server sends nothing more until this side closes: nothing waits for the end.
    assert_eq!(answer.body.data().await.unwrap().unwrap(), "FLV");
    assert_eq!(client.counts().connections_open, 1);
    drop(answer);
    assert_eq!(client.counts().connections_open, 0);
}

#[tokio::test]
async fn a_silent_stream_is_given_up() {
    let server =
        Scripted::start(|_| vec![Step::Send(head("200 OK", &[])), Step::Send(b"FLV".to_vec()), Step::Hang])
            .await;
    let client = Client::new(HttpConfig { idle_timeout: Duration::from_millis(100), ..config() }).unwrap();
    let mut answer = client.get(&server.url("/"), &HeaderMap::new()).await.unwrap();
    assert_eq!(answer.body.data().await.unwrap().unwrap(), "FLV");
    let error = answer.body.data().await.unwrap().unwrap_err();
    assert!(matches!(error, SourceError::Transient { .. }), "{error}");
    assert!(answer.body.data().await.is_none());
    assert_eq!(client.counts().connections_open, 0);
}

#[tokio::test]
async fn every_status_but_a_redirect_is_an_answer() {
    let server = Scripted::start(|asked| match asked.target() {
        "/moved" => vec![Step::Send(answer("302 Found", &["location: /gone"], b""))],
        // Interim responses come before the one that counts (RFC 9110, 15.2).
        _ => vec![
            Step::Send(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec(),
            ),
            Step::Send(answer("410 Gone", &[], b"gone")),
        ],
    })
    .await;
    let client = Client::new(config()).unwrap();
    let mut answer = client.get(&server.url("/moved"), &HeaderMap::new()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.url.path()), (410, "/gone"));
    assert_eq!(answer.body.data().await.unwrap().unwrap(), "gone");
    assert!(answer.body.data().await.is_none());
    let counts = client.counts();
    assert_eq!((counts.requests, counts.connections, counts.bytes_received), (2, 1, 4));
}

#[tokio::test]
async fn a_name_with_two_addresses_is_reached_at_the_one_that_answers() {
    // `localhost` is ::1 and 127.0.0.1 where there is IPv6; the server has only the latter.
    let server = Scripted::start(|_| vec![Step::Send(answer("200 OK", &[], b"here"))]).await;
    let url = format!("http://localhost:{}/", server.address.port()).parse().unwrap();
    let client = Client::new(config()).unwrap();
    let answer = client.get(&url, &HeaderMap::new()).await.unwrap();
    assert_eq!(answer.peer, Some(server.address));
    assert_eq!(server.asked()[0].field("host").unwrap(), format!("localhost:{}", server.address.port()));
}

#[tokio::test]
async fn a_request_waits_for_a_connection_of_those_allowed() {
    let script = |asked: &Asked| match asked.target() {
        "/endless" => vec![Step::Send(head("200 OK", &[])), Step::Hang],
        _ => vec![Step::Send(answer("200 OK", &[], b"short"))],
    };
    let server = Scripted::start(script).await;
    let timeout = Duration::from_secs(2);
    let config = HttpConfig { connections_max: 2, ..config() };
    let client = Client::new(HttpConfig { connect_timeout: timeout, ..config.clone() }).unwrap();
    let none = HeaderMap::new();
    let first = client.get(&server.url("/endless"), &none).await.unwrap();
    let second = client.get(&server.url("/endless"), &none).await.unwrap();
    let error = client.get(&server.url("/"), &none).await.unwrap_err();
    assert!(matches!(error, SourceError::Transient { .. }), "{error}");
    drop((first, second));
    client.get(&server.url("/"), &none).await.unwrap();

    // One that is closed, and one that is given back, wake those that wait.
    let client = Client::new(config).unwrap();
    let mut holding = client.get(&server.url("/endless"), &none).await.unwrap();
    let _other = client.get(&server.url("/endless"), &none).await.unwrap();
    for _ in 0..3 {
        let url = server.url("/");
        let mut waiting = pin!(client.get(&url, &none));
        assert!(
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending()
        );
        drop(holding);
        let mut short = waiting.await.unwrap();
        let read = async {
            let body = short.body.data().await.unwrap().unwrap();
            assert!(short.body.data().await.is_none());
            body
        };
        let (body, next) = tokio::join!(read, client.get(&url, &none));
        assert_eq!(body, "short");
        holding = next.unwrap();
        assert!(client.counts().connections_open <= 2);
    }
}

#[tokio::test]
async fn nobody_there_is_worth_another_try() {
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(config()).unwrap();
    for url in [format!("http://{address}/"), "http://no-such-name.invalid/".to_owned()] {
        let error = client.get(&url.parse().unwrap(), &HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, SourceError::Transient { .. }), "{url}: {error}");
    }
    assert_eq!(client.counts().connections_open, 0);
}
