//! `AsyncRead + AsyncSeek`.

use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

use super::Engine;
use crate::config::ReaderConfig;
use crate::counters::{Counters, Progress};
use crate::http::{HttpConfig, HttpSource};
use crate::source::Source;

/// A remote file, read by tokio.
///
/// **Everything happens while it is polled:** it has no tasks and no threads (except that names are
/// resolved on tokio's). A read future may be dropped at any moment; the next read continues at the
/// same position. Dropping the reader closes its connections.
#[derive(Debug)]
pub struct AsyncRangeReader<S: Source = HttpSource> {
    engine: Engine<S>,
    seek: Option<SeekFrom>,
}

impl AsyncRangeReader<HttpSource> {
    /// The file at `url`. Nothing is sent before the first read.
    ///
    /// Errors: a URL that is not `http` or `https`, or a configuration that cannot be used.
    pub fn open(url: &url::Url, http: HttpConfig, config: ReaderConfig) -> io::Result<Self> {
        let source =
            HttpSource::new(url, http).map_err(|error| io::Error::from(crate::ReadError::Source(error)))?;
        Ok(Self::with_source(source, config))
    }
}

impl<S: Source> AsyncRangeReader<S> {
    /// A file that another source has.
    pub fn with_source(source: S, config: ReaderConfig) -> Self {
        Self { engine: Engine::new(source, config), seek: None }
    }

    /// Announces what will be read, in this order; replaces earlier hints.
    ///
    /// Data in flight or in memory is kept. May be called at any time, and hints may be wrong: that
    /// wastes bytes, up to the size of the window. 131,072 ranges are used, the rest is ignored.
    pub fn will_need(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.engine.will_need(ranges);
    }

    /// Length of the file in bytes, requested from the server if there was no response yet; `None`
    /// if the server does not report it.
    pub async fn len(&mut self) -> io::Result<Option<u64>> {
        poll_fn(|context| self.engine.poll_length(context)).await
    }

    /// What reading has cost so far.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// Has `callback` called after each read that gave bytes, from within it.
    pub fn on_progress(&mut self, callback: impl FnMut(Progress) + Send + 'static) {
        self.engine.on_progress(Box::new(callback));
    }

    fn poll_seek(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(to) = self.seek else { return Poll::Ready(Ok(())) };
        if matches!(to, SeekFrom::End(_)) && self.engine.needs_length() {
            ready!(self.engine.poll_length(context)).inspect_err(|_| self.seek = None)?;
        }
        self.seek = None;
        Poll::Ready(self.engine.seek(to).map(drop))
    }
}

impl<S: Source> AsyncRead for AsyncRangeReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_seek(context))?;
        let count = ready!(self.engine.poll_read(context, buffer.initialize_unfilled()))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: Source> AsyncSeek for AsyncRangeReader<S> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.seek = Some(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        ready!(self.poll_seek(context))?;
        Poll::Ready(Ok(self.engine.position()))
    }
}
