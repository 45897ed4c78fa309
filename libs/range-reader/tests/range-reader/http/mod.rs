//! The reader and its source against HTTP servers: real ones, and ones that lie.

mod cancellation;
mod http2;
mod live_stream;
mod lying_server;
mod nginx;
mod proxies;
mod real_nginx;
mod redirects;
mod request_counts;
mod scripted;
mod streams;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use range_reader::error::SourceError;
use range_reader::http::address::AddressPolicy;
use range_reader::http::{HttpBody, HttpConfig, HttpSource};
use range_reader::source::{Body, BodyEvent, RangeRequest, Response, Source};
use range_reader::{AsyncRangeReader, ReaderConfig};
use tokio::io::AsyncReadExt;

/// A configuration for servers on loopback.
fn config() -> HttpConfig {
    HttpConfig { addresses: AddressPolicy::Any, ..HttpConfig::default() }
}

/// A reader that does not pause for long between tries.
fn reader(url: &url::Url, http: HttpConfig) -> AsyncRangeReader {
    let config = ReaderConfig { pause: Duration::from_millis(1), tries_max: 3, ..ReaderConfig::default() };
    AsyncRangeReader::open(url, http, config).unwrap()
}

/// The whole file.
async fn read_all(reader: &mut AsyncRangeReader) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.map(|_| bytes)
}

/// A file in which bytes are not where they do not belong: no two places look alike.
fn file(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// One range.
fn one(range: std::ops::Range<u64>) -> RangeRequest {
    RangeRequest { ranges: vec![range.into()], pinned: None }
}

/// A response in flight.
type Opening = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, SourceError>> + Send>>;

/// Asks for one range without waiting for the response.
fn ask(source: &mut HttpSource, range: std::ops::Range<u64>) -> Opening {
    Box::pin(source.open(one(range)))
}

/// The bytes of a body, which has to be of one range.
async fn bytes_of(body: &mut HttpBody) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    loop {
        match std::future::poll_fn(|context| body.poll_event(context)).await? {
            BodyEvent::End => return Ok(bytes),
            BodyEvent::Part { .. } => assert!(bytes.is_empty()),
            BodyEvent::Data(data) => bytes.extend_from_slice(&data),
        }
    }
}
