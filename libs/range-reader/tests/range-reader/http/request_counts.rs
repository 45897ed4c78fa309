//! The number of requests that a reader says it has made is the number that its server has seen.

use std::io::SeekFrom;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use range_reader::http::{Client, HttpConfig};
use range_reader::{AsyncRangeReader, Counters};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::http::cancellation::polled;
use crate::http::scripted::{Asked, Scripted, Step, answer, head, honest};
use crate::http::streams::{Streams, Turn};
use crate::http::{config, file, reader};

const FILE_BYTES: usize = 3_000_000;

/// A server that answers as it should.
fn right(asked: &Asked, file: &[u8]) -> Vec<u8> {
    honest(asked, file, &["etag: \"a\""])
}

/// Reads of several kinds, by name.
fn kinds() -> Vec<(&'static str, Vec<Range<usize>>)> {
    let mut number = 7_u64;
    let mut random = move |limit: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((number >> 33) % limit) as usize
    };
    let all = |start: usize, length: usize| start..start + length;
    vec![
        ("through", vec![all(0, FILE_BYTES)]),
        ("end first", vec![all(FILE_BYTES - 22, 22), all(FILE_BYTES - 60_000, 50_000), all(0, 90_000)]),
        ("regular", (0..40).map(|at| all(at * 70_000, 20_000)).collect()),
        ("jitter", (0..40).map(|at| all(at * 70_000 + random(4000), 20_000)).collect()),
        ("backwards", (0..40).rev().map(|at| all(at * 70_000, 9000)).collect()),
        ("random", (0..60).map(|_| all(random(2_900_000), 30_000)).collect()),
        (
            "back and forth",
            (0..30).flat_map(|at| [all(900_000 + at * 60_000, 8000), all(at * 60_000, 900)]).collect(),
        ),
    ]
}

async fn read(reader: &mut AsyncRangeReader, reads: &[Range<usize>], file: &[u8]) {
    for range in reads {
        let mut piece = vec![0; range.len()];
        reader.seek(SeekFrom::Start(range.start as u64)).await.unwrap();
        reader.read_exact(&mut piece).await.unwrap();
        assert!(piece == file[range.clone()], "{range:?}");
    }
}

/// Closes the reader; what it has counted, and what the server has seen.
async fn counts(reader: AsyncRangeReader, server: &Scripted) -> (u64, u64) {
    let Counters { requests, .. } = reader.counters();
    drop(reader);
    (requests, server.asked_in_the_end().await.len() as u64)
}

/// Reads all kinds from a server whose `number`-th answer, from 1, is `script`'s.
async fn check(
    name: &str,
    script: impl Fn(&Asked, usize, &[u8]) -> Vec<Step> + Send + Sync + Copy + 'static,
) {
    let file: Arc<[u8]> = file(FILE_BYTES).into();
    for (kind, reads) in kinds() {
        for has_hints in [false, true] {
            let (theirs, number) = (Arc::clone(&file), AtomicUsize::new(0));
            let server = Scripted::start(move |asked| {
                script(asked, number.fetch_add(1, Ordering::Relaxed) + 1, &theirs)
            })
            .await;
            let mut reader = reader(&server.url("/"), config());
            if has_hints {
                reader.will_need(reads.iter().map(|range| range.start as u64..range.end as u64));
            }
            read(&mut reader, &reads, &file).await;
            let (counted, seen) = counts(reader, &server).await;
            assert_eq!(counted, seen, "{name}, {kind}, hints: {has_hints}");
        }
    }
}

#[tokio::test]
async fn of_all_kinds_of_reads() {
    check("honest", |asked, _, file| vec![Step::Send(right(asked, file))]).await;
}

#[tokio::test]
async fn of_failed_ones_and_of_those_that_follow() {
    check("closes", |asked, number, file| match number % 3 {
        0 => vec![Step::Close],
        _ => vec![Step::Send(right(asked, file))],
    })
    .await;
    check("resets", |asked, number, file| match number % 3 {
        0 => vec![Step::Reset],
        _ => vec![Step::Send(right(asked, file))],
    })
    .await;
    check("is busy", |asked, number, file| match number % 3 {
        0 => vec![Step::Send(answer("503 Busy", &["retry-after: 0"], b""))],
        _ => vec![Step::Send(right(asked, file))],
    })
    .await;
    check("breaks off", |asked, number, file| match number % 3 {
        0 => {
            let whole = right(asked, file);
            vec![Step::Send(whole[..whole.len() / 2].to_vec()), Step::Close]
        }
        _ => vec![Step::Send(right(asked, file))],
    })
    .await;
    check("closes behind each answer", |asked, _, file| {
        vec![Step::Send(honest(asked, file, &["etag: \"a\"", "connection: close"])), Step::Close]
    })
    .await;
    check("redirects", |asked, _, file| match asked.target() {
        "/" => vec![Step::Send(answer("302 Found", &["location: /there"], b""))],
        _ => vec![Step::Send(right(asked, file))],
    })
    .await;
    check("sends one range", |asked, _, file| {
        let several = asked.field("range").is_some_and(|ranges| ranges.contains(','));
        match several {
            true => vec![Step::Send(answer("200 OK", &["etag: \"a\""], file))],
            false => vec![Step::Send(right(asked, file))],
        }
    })
    .await;
}

/// A connection that the server has closed, while nothing on this side has looked at it, takes a
/// request that nobody will ever read; it is made again over another one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn of_one_that_goes_to_a_server_that_has_just_closed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let (close, closing) = std::sync::mpsc::channel();
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut seen = 0;
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            seen += 1;
            stream.write_all(&answer("200 OK", &[], b"short")).unwrap();
            closing.recv().unwrap();
            drop(stream);
            closed.send(()).unwrap();
        }
        seen
    });
    let client = Client::new(config()).unwrap();
    for _ in 0..3 {
        let mut response = client.get(&url, &HeaderMap::new()).await.unwrap();
        while response.body.data().await.is_some() {}
        assert_eq!(client.counts().connections_open, 1);
        // This thread, which would notice, waits until it has happened.
        close.send(()).unwrap();
        is_closed.recv().unwrap();
    }
    assert_eq!((client.counts().requests, client.counts().connections), (server.join().unwrap(), 3));
}

#[tokio::test]
async fn of_cancelled_ones() {
    let file = file(FILE_BYTES);
    for polls in 0..6 {
        let theirs = file.clone();
        let server = Scripted::start(move |asked| vec![Step::Send(right(asked, &theirs))]).await;
        let mut reader = reader(&server.url("/"), config());
        let mut position = 0;
        for step in 0..120 {
            if step % 3 == 0 {
                position = (position * 7 + 123_457) % (file.len() - 60_000);
                reader.seek(SeekFrom::Start(position as u64)).await.unwrap();
            }
            if step % 10 == 0 {
                let start = position as u64;
                reader.will_need([start..start + 9000, start + 40_000..start + 50_000]);
            }
            let mut bytes = [0; 4096];
            if let Some(read) = polled(reader.read(&mut bytes), (polls + step) % 6).await {
                let read = read.unwrap();
                assert_eq!(bytes[..read], file[position..position + read], "step {step}");
                position += read;
            }
        }
        let (counted, seen) = counts(reader, &server).await;
        assert_eq!(counted, seen, "{polls} polls");
    }
}

#[tokio::test]
async fn of_one_that_is_given_up_before_its_connection_is_free() {
    let server = Scripted::start(|asked| match asked.target() {
        "/endless" => vec![Step::Send(head("200 OK", &[])), Step::Hang],
        _ => vec![Step::Send(answer("200 OK", &[], b"short"))],
    })
    .await;
    let client = Client::new(config()).unwrap();
    let none = HeaderMap::new();
    for polls in 0..8 {
        for path in ["/endless", "/", "/"] {
            let _ = polled(client.get(&server.url(path), &none), polls).await;
        }
    }
    let counted = client.counts().requests;
    drop(client);
    assert_eq!(counted, server.asked_in_the_end().await.len() as u64);
}

#[tokio::test]
async fn of_streams_that_are_given_up() {
    let file = file(FILE_BYTES);
    let (theirs, seen) = (file.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&seen);
    let server = Streams::start(move |request, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let field = request.headers()["range"].to_str().unwrap();
        let (first, last) = field.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let end = last.parse::<usize>().map_or(FILE_BYTES, |last| (last + 1).min(FILE_BYTES));
        let range = first.parse().unwrap()..end;
        let value = format!("bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1);
        let head = Turn::Head(206, vec![("content-range", value), ("etag", "\"a\"".to_owned())]);
        vec![head, Turn::Send(theirs[range].to_vec()), Turn::End]
    })
    .await;
    let mut reader = reader(&server.url(), HttpConfig { http2_prior_knowledge: true, ..config() });
    let mut position = 0;
    for step in 0..120 {
        if step % 3 == 0 {
            position = (position * 7 + 123_457) % (file.len() - 60_000);
            reader.seek(SeekFrom::Start(position as u64)).await.unwrap();
        }
        let mut bytes = [0; 4096];
        if let Some(read) = polled(reader.read(&mut bytes), step % 7).await {
            position += read.unwrap();
        }
    }
    // The last one is answered when all before it, on the same connection, have been seen.
    reader.will_need(std::iter::empty());
    let mut byte = [0];
    reader.seek(SeekFrom::Start(FILE_BYTES as u64 - 1)).await.unwrap();
    reader.read_exact(&mut byte).await.unwrap();
    assert_eq!(reader.counters().requests, seen.load(Ordering::SeqCst) as u64, "{:?}", reader.counters());
}
