//! Ranges of a file that nginx serves.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

use range_reader::http::HttpSource;
use range_reader::ranges::ByteRange;
use range_reader::source::{Body, BodyEvent, RangeRequest, Source};

use crate::nginx::Nginx;
use crate::{config, file};

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
