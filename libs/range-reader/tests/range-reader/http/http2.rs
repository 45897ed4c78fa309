//! HTTP/2: many streams on one connection, given up one by one; resets, farewells and broken
//! connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Reason, RecvStream};
use http::Request;
use range_reader::error::SourceError;
use range_reader::http::{HttpConfig, HttpSource};
use range_reader::source::{Body, Source};

use crate::http::streams::{Streams, Turn};
use crate::http::{ask, bytes_of, config, file, one, read_all, reader};

const FILE_BYTES: usize = 3_000_000;

fn http2() -> HttpConfig {
    HttpConfig { http2_prior_knowledge: true, ..config() }
}

/// The range a request asks for.
fn range(request: &Request<RecvStream>) -> std::ops::Range<usize> {
    let field = request.headers()["range"].to_str().unwrap();
    let (first, last) = field.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let end = last.parse::<usize>().map_or(FILE_BYTES, |last| (last + 1).min(FILE_BYTES));
    first.parse().unwrap()..end
}

/// 206 for `range`, its head only.
fn head(range: &std::ops::Range<usize>) -> Turn {
    let value = format!("bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1);
    Turn::Head(206, vec![("content-range", value), ("etag", "\"a\"".to_owned())])
}

fn honest(request: &Request<RecvStream>, file: &[u8]) -> Vec<Turn> {
    let range = range(request);
    vec![head(&range), Turn::Send(file[range].to_vec()), Turn::End]
}

#[tokio::test]
async fn several_answers_come_at_once_over_one_connection() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let server = Streams::start(move |request, _| honest(request, &theirs)).await;
    let mut source = HttpSource::new(&server.url(), http2()).unwrap();
    // The first opens the connection; the others use it.
    let first = source.open(one(0..10)).await.unwrap();
    let opening: Vec<_> =
        (0..4).map(|index| ask(&mut source, index * 700_000..(index + 1) * 700_000)).collect();
    let mut responses = Vec::new();
    for open in opening {
        responses.push(open.await.unwrap());
    }
    assert!(source.state().can_reset && source.state().requests_at_once > 4);
    // Read in another order than requested; a body that is not read does not delay the others.
    for (index, mut response) in responses.into_iter().enumerate().rev() {
        assert!(bytes_of(&mut response.body).await.unwrap() == file[index * 700_000..(index + 1) * 700_000]);
    }
    drop(first);
    assert_eq!((source.state().requests, source.state().connections), (5, 1));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_given_up_resets_its_stream_and_leaves_the_connection() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let mut server = Streams::start(move |request, _| {
        let range = range(request);
        if range.len() == 10 {
            return honest(request, &theirs);
        }
        vec![head(&range), Turn::Send(theirs[range.start..range.start + 1_000].to_vec()), Turn::AwaitReset]
    })
    .await;
    let mut source = HttpSource::new(&server.url(), http2()).unwrap();
    let given_up = source.open(one(0..2_000_000)).await.unwrap();
    drop(given_up);
    // The reset leaves at once, without anybody polling.
    assert_eq!(server.resets.recv().await, Some(Reason::CANCEL));
    let mut response = source.open(one(5..15)).await.unwrap();
    assert_eq!(bytes_of(&mut response.body).await.unwrap(), &file[5..15]);
    assert_eq!(source.state().connections, 1);
}

#[tokio::test]
async fn a_connection_ends_when_nobody_holds_it() {
    let file = file(FILE_BYTES);
    let mut server = Streams::start(move |request, _| honest(request, &file)).await;
    let mut source = HttpSource::new(&server.url(), http2()).unwrap();
    let response = source.open(one(0..2_000_000)).await.unwrap();
    assert_eq!(source.state().connections_open, 1);
    drop(source);
    drop(response);
    server.ends.recv().await.unwrap();
}

#[tokio::test]
async fn a_stream_reset_halfway_is_continued_at_the_byte() {
    for reason in
        [Reason::INTERNAL_ERROR, Reason::REFUSED_STREAM, Reason::ENHANCE_YOUR_CALM, Reason::NO_ERROR]
    {
        let file = file(FILE_BYTES);
        let theirs = file.clone();
        let server = Streams::start(move |request, _| {
            let range = range(request);
            let some = range.start..range.end.min(range.start + 100_000);
            let last = if some.end == range.end { Turn::End } else { Turn::Reset(reason) };
            vec![head(&range), Turn::Send(theirs[some].to_vec()), last]
        })
        .await;
        assert!(read_all(&mut reader(&server.url(), http2())).await.unwrap() == file, "{reason:?}");
    }
}

#[tokio::test]
async fn a_stream_refused_is_asked_again() {
    let file = file(FILE_BYTES);
    let (theirs, count) = (file.clone(), AtomicUsize::new(0));
    let server = Streams::start(move |request, _| {
        if count.fetch_add(1, Ordering::SeqCst) % 2 == 0 {
            return vec![Turn::Reset(Reason::REFUSED_STREAM)];
        }
        honest(request, &theirs)
    })
    .await;
    assert!(read_all(&mut reader(&server.url(), http2())).await.unwrap() == file);
}

#[tokio::test]
async fn after_goaway_another_connection_is_opened() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let server =
        Streams::start(move |request, _| [vec![Turn::GoAway], honest(request, &theirs)].concat()).await;
    assert!(read_all(&mut reader(&server.url(), http2())).await.unwrap() == file);
    assert!(server.connections.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn a_connection_that_breaks_halfway_is_made_good() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let server = Streams::start(move |request, connection| {
        if connection > 2 {
            return honest(request, &theirs);
        }
        let range = range(request);
        vec![
            head(&range),
            Turn::Send(theirs[range.start..range.start + range.len() / 2].to_vec()),
            Turn::Close,
        ]
    })
    .await;
    assert!(read_all(&mut reader(&server.url(), http2())).await.unwrap() == file);
}

#[tokio::test]
async fn a_body_that_ends_too_early_or_too_late_is_noticed() {
    let file = file(FILE_BYTES);
    for (extra, is_transient) in [(&b""[..], true), (b"more than that", false)] {
        let theirs = file.clone();
        let server = Streams::start(move |request, _| {
            let range = range(request);
            let body = if is_transient {
                theirs[range.start..range.end - 1].to_vec()
            } else {
                [&theirs[range.clone()], extra].concat()
            };
            vec![head(&range), Turn::Send(body), Turn::End]
        })
        .await;
        let mut source = HttpSource::new(&server.url(), http2()).unwrap();
        let mut response = source.open(one(0..1_000)).await.unwrap();
        let error = bytes_of(&mut response.body).await.unwrap_err();
        assert_eq!(matches!(error, SourceError::Transient { .. }), is_transient, "{error}");
        assert_eq!(response.body.bytes_buffered(), 0);
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over_until_there_are_too_many() {
    for (count, is_read) in [(20, true), (3_000, false)] {
        let file = file(FILE_BYTES);
        let theirs = file.clone();
        let server = Streams::start(move |request, _| {
            let mut turns = honest(request, &theirs);
            turns.insert(0, Turn::Hints(count));
            turns
        })
        .await;
        // Unoptimised, 3,000 heads take 9 s of CPU: the limit on their number has to come first.
        let patient = HttpConfig { head_timeout: Duration::from_secs(300), ..http2() };
        let mut source = HttpSource::new(&server.url(), patient).unwrap();
        match source.open(one(0..1_000)).await {
            Ok(mut response) => {
                assert!(is_read, "{count} of them");
                assert_eq!(bytes_of(&mut response.body).await.unwrap(), &file[..1_000]);
            }
            Err(error) => {
                assert!(!is_read && error.to_string().contains("no answer among all"), "{count}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_without_http2_is_an_error() {
    let server = crate::http::scripted::Scripted::start(|_| vec![crate::http::scripted::Step::Close]).await;
    let mut source = HttpSource::new(&server.url("/"), http2()).unwrap();
    source.open(one(0..1)).await.unwrap_err();
}
