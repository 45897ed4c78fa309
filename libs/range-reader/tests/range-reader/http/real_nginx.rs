//! Ranges of a file that nginx serves.

use std::future::poll_fn;
use std::io::SeekFrom;
use std::ops::Range;
use std::sync::Arc;

use range_reader::ReadError;
use range_reader::error::SourceError;
use range_reader::http::{HttpConfig, HttpSource};
use range_reader::ranges::ByteRange;
use range_reader::source::{Body, BodyEvent, RangeRequest, Source};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::http::nginx::Nginx;
use crate::http::{bytes_of, config, file, one, read_all, reader};

#[tokio::test]
async fn parts_of_a_file_come_over_one_connection() {
    let file = file(300_000);
    let nginx = Nginx::start("", &[("file.bin", &file)]);
    let mut source = HttpSource::new(&nginx.url("/file.bin"), config()).unwrap();
    let mut pinned = None;
    let asked: [&[Range<u64>]; 3] = [
        &[5..100, 7_000..7_001, 250_000..299_999],
        std::slice::from_ref(&(0..1)),
        std::slice::from_ref(&(100..300_000)),
    ];
    for ranges in asked {
        let request = RangeRequest {
            ranges: ranges.iter().cloned().map(ByteRange::from).collect(),
            pinned: pinned.clone(),
        };
        let mut response = source.open(request).await.unwrap();
        assert_eq!(response.pinned.total_bytes, Some(300_000));
        assert!(response.pinned.validator.etag.is_some());
        assert!(!response.is_whole_file);
        let mut parts = Vec::new();
        let mut at = 0;
        loop {
            match poll_fn(|context| response.body.poll_event(context)).await.unwrap() {
                BodyEvent::End => break,
                BodyEvent::Part { range } => {
                    at = range.start as usize;
                    parts.push(range.start..range.end.unwrap());
                }
                BodyEvent::Data(data) => {
                    assert!(data == file[at..at + data.len()]);
                    at += data.len();
                }
            }
        }
        assert_eq!(parts, ranges);
        pinned = Some(Arc::new(response.pinned));
    }
    let state = source.state();
    assert_eq!((state.requests, state.connections, state.connections_open), (3, 1, 1));
    assert_eq!(state.takes_several_ranges, Some(true));
}

#[tokio::test]
async fn an_origin_killed_in_the_middle_and_back_is_read_on_at_the_byte() {
    // More than all buffers in between hold, so that the rest has not left nginx when it is killed.
    let file = file(40 << 20);
    let mut nginx = Nginx::start("", &[("file.bin", &file)]);
    let mut reader = reader(&nginx.url("/file.bin"), config());
    let mut bytes = vec![0; 5 << 20];
    reader.read_exact(&mut bytes).await.unwrap();
    // The requests for these may have ended with them. The next one is open-ended.
    let mut more = vec![0; 1 << 20];
    reader.read_exact(&mut more).await.unwrap();
    bytes.extend(more);
    nginx.kill();
    nginx.restart();
    bytes.extend(read_all(&mut reader).await.unwrap());
    assert!(bytes == file);
    let counters = reader.counters();
    assert!(counters.connections >= 2 && counters.retries >= 1, "{counters:?}");
}

#[tokio::test]
async fn a_file_replaced_in_the_middle_is_an_error() {
    let file = file(40 << 20);
    let nginx = Nginx::start("", &[("file.bin", &file)]);
    let mut reader = reader(&nginx.url("/file.bin"), config());
    let mut bytes = vec![0; 1 << 20];
    reader.read_exact(&mut bytes).await.unwrap();
    // Another file of the same length at the same path, as after an upload; nginx detects it by its
    // date.
    nginx.replace("file.bin", &bytes.repeat(40));
    reader.seek(SeekFrom::Start(39 << 20)).await.unwrap();
    let error = reader.read_exact(&mut bytes).await.unwrap_err();
    let error = error.get_ref().unwrap().downcast_ref::<ReadError>().unwrap();
    assert_eq!(*error, ReadError::Source(SourceError::Changed));
}

/// nginx says so after `keepalive_requests`, while responses are still in flight (GOAWAY, RFC 9113
/// section 6.8).
#[tokio::test]
async fn a_connection_that_takes_no_more_requests_makes_room_for_another() {
    let file = file(5 << 20);
    let nginx = Nginx::start_http2("keepalive_requests 1;", &[("file.bin", &file)]);
    let http = HttpConfig { http2_prior_knowledge: true, connections_max: 1, ..config() };
    let mut source = HttpSource::new(&nginx.url("/file.bin"), http).unwrap();
    let mut first = source.open(one(0..file.len() as u64)).await.unwrap();
    // The farewell comes with the first bytes.
    while !matches!(poll_fn(|context| first.body.poll_event(context)).await.unwrap(), BodyEvent::Data(_)) {}
    let mut second = source.open(one(7..1000)).await.unwrap();
    assert!(bytes_of(&mut second.body).await.unwrap() == file[7..1000]);
    drop((first, second));
    assert_eq!(source.state().connections, 2);
    assert!(source.state().connections_open <= 1, "the first one has gone with its answer");
}
