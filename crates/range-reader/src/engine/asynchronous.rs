//! `AsyncRead + AsyncSeek`.

use crate::http::HttpSource;
use crate::source::Source;

/// A remote file, read by tokio.
#[derive(Debug)]
pub struct AsyncRangeReader<S: Source = HttpSource> {
    #[expect(dead_code, reason = "the engine comes")]
    source: S,
}
