//! `Read + Seek`.

use super::asynchronous::AsyncRangeReader;
use crate::http::HttpSource;
use crate::source::Source;

/// A remote file, read by blocking calls.
#[derive(Debug)]
pub struct RangeReader<S: Source = HttpSource> {
    #[expect(dead_code, reason = "the engine comes")]
    inner: AsyncRangeReader<S>,
}

impl<S: Source> RangeReader<S> {
    /// Says what will be read, in this order.
    pub fn will_need(&mut self, _ranges: impl IntoIterator<Item = std::ops::Range<u64>>) {}
}
