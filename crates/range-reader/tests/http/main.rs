//! The reader and its source against HTTP servers: real ones, and ones that lie.

mod lying_server;
mod nginx;
mod real_nginx;
mod scripted;

use std::time::Duration;

use range_reader::http::HttpConfig;
use range_reader::http::address::AddressPolicy;
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
