//! Reads that are dropped anywhere: no connection leaks, and the next read is correct.

use std::future::{Future, poll_fn};
use std::io::SeekFrom;
use std::pin::pin;
use std::task::Poll;

use range_reader::http::{HttpConfig, HttpSource};
use range_reader::source::Source;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::http::scripted::{Scripted, Step, honest};
use crate::http::streams::{Streams, Turn};
use crate::http::{bytes_of, config, file, one, reader};

/// Polls at most `polls` times, each time when woken; `None` if it was not done then, and has been
/// dropped.
pub(crate) async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut count = 0;
    poll_fn(|context| {
        if count == polls {
            return Poll::Ready(None);
        }
        count += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Polls that a whole exchange takes at most, on a machine that wakes late and often.
const POLLS: usize = 40;

#[tokio::test]
async fn a_request_dropped_anywhere_closes_its_connection() {
    let file = file(500_000);
    let served = file.clone();
    let server = Scripted::start(move |asked| vec![Step::Send(honest(asked, &served, &[]))]).await;
    let mut source = HttpSource::new(&server.url("/"), config()).unwrap();
    let (mut dropped, mut completed) = (0, 0);
    for polls in 0..POLLS {
        let done = polled(
            async {
                let mut response = source.open(one(0..500_000)).await.unwrap();
                assert!(bytes_of(&mut response.body).await.unwrap() == file);
            },
            polls,
        )
        .await;
        // What was given up is closed, what was finished is kept.
        let is_done = done.is_some();
        (dropped, completed) = (dropped + u64::from(!is_done), completed + u64::from(is_done));
        assert_eq!(source.state().connections_open, u64::from(is_done), "{polls} polls");
        if is_done {
            break;
        }
    }
    assert!(dropped > 2, "{dropped} dropped, {completed} completed");
    let mut response = source.open(one(7..77)).await.unwrap();
    assert_eq!(bytes_of(&mut response.body).await.unwrap(), &file[7..77]);
}

#[tokio::test]
async fn streams_dropped_anywhere_leave_one_connection_that_ends_with_its_source() {
    let file = file(500_000);
    let served = file.clone();
    let mut server = Streams::start(move |_, _| {
        let fields = vec![("content-range", format!("bytes 0-{}/{}", served.len() - 1, served.len()))];
        vec![Turn::Head(206, fields), Turn::Send(served.clone()), Turn::End]
    })
    .await;
    let http = HttpConfig { http2_prior_knowledge: true, ..config() };
    let mut source = HttpSource::new(&server.url(), http).unwrap();
    for polls in 0..POLLS {
        let exchange = async {
            let mut response = source.open(one(0..500_000)).await.unwrap();
            assert!(bytes_of(&mut response.body).await.unwrap() == file);
        };
        let _ = polled(exchange, polls).await;
        assert!(source.state().connections_open <= 1, "{polls} polls");
    }
    let mut response = source.open(one(0..500_000)).await.unwrap();
    assert!(bytes_of(&mut response.body).await.unwrap() == file);
    let opened = source.state().connections;
    drop((source, response));
    for _ in 0..opened {
        server.ends.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_reader_whose_reads_are_dropped_goes_on_at_the_byte() {
    let file = file(2_000_000);
    let served = file.clone();
    let server =
        Scripted::start(move |asked| vec![Step::Send(honest(asked, &served, &["etag: \"a\""]))]).await;
    let mut reader = reader(&server.url("/"), config());
    let mut position = 0;
    for step in 0..400 {
        if step % 50 == 49 {
            position = (position * 7 + 123_456) % file.len();
            reader.seek(SeekFrom::Start(position as u64)).await.unwrap();
        }
        let mut bytes = [0; 4_096];
        match polled(reader.read(&mut bytes), step % 4).await {
            Some(read) => {
                let read = read.unwrap();
                assert_eq!(bytes[..read], file[position..position + read], "step {step}");
                position += read;
            }
            None => assert_eq!(reader.stream_position().await.unwrap(), position as u64),
        }
    }
    assert!(position > 0);
    assert!(reader.counters().connections < 20, "{:?}", reader.counters());
}
