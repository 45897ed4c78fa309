//! `Read + Seek`.

use std::future::poll_fn;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use tokio::runtime::{Builder, Runtime};

use super::Engine;
use crate::config::ReaderConfig;
use crate::counters::{Counters, Progress};
use crate::http::{HttpConfig, HttpSource};
use crate::source::Source;

/// A remote file, read by blocking calls.
///
/// **Not to be read from within asynchronous code:** it panics there, as tokio's `block_on` does;
/// that is what [`AsyncRangeReader`](crate::AsyncRangeReader) is for. A thread of `spawn_blocking`
/// is fine. Nothing happens between calls, but what the kernel receives meanwhile.
#[derive(Debug)]
pub struct RangeReader<S: Source = HttpSource> {
    engine: Option<Engine<S>>,
    runtime: Option<Runtime>,
}

impl RangeReader<HttpSource> {
    /// The file at `url`. Nothing is sent before the first read.
    ///
    /// Errors: a URL that is not `http` or `https`, a configuration that cannot be used, no file
    /// descriptors.
    pub fn open(url: &url::Url, http: HttpConfig, config: ReaderConfig) -> io::Result<Self> {
        let source =
            HttpSource::new(url, http).map_err(|error| io::Error::from(crate::ReadError::Source(error)))?;
        Self::with_source(source, config)
    }
}

impl<S: Source> RangeReader<S> {
    /// A file that another source has.
    pub fn with_source(source: S, config: ReaderConfig) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { engine: Some(Engine::new(source, config)), runtime: Some(runtime) })
    }

    /// Announces what will be read, in this order; replaces earlier hints.
    ///
    /// Data in flight or in memory is kept. May be called at any time, and hints may be wrong: that
    /// wastes bytes, up to the size of the window. 131,072 ranges are used, the rest is ignored.
    pub fn will_need(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.parts().0.will_need(ranges);
    }

    /// Length of the file in bytes, requested from the server if there was no response yet; `None`
    /// if the server does not report it.
    pub fn len(&mut self) -> io::Result<Option<u64>> {
        let (engine, runtime) = self.parts();
        runtime.block_on(poll_fn(|context| engine.poll_length(context)))
    }

    /// What reading has cost so far.
    pub fn counters(&self) -> Counters {
        self.engine.as_ref().expect("taken out by drop only").counters()
    }

    /// Has `callback` called after each read that gave bytes, from within it.
    pub fn on_progress(&mut self, callback: impl FnMut(Progress) + Send + 'static) {
        self.parts().0.on_progress(Box::new(callback));
    }

    fn parts(&mut self) -> (&mut Engine<S>, &Runtime) {
        let engine = self.engine.as_mut().expect("taken out by drop only");
        (engine, self.runtime.as_ref().expect("taken out by drop only"))
    }
}

impl<S: Source> Read for RangeReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (engine, runtime) = self.parts();
        runtime.block_on(poll_fn(|context| engine.poll_read(context, buffer)))
    }
}

impl<S: Source> Seek for RangeReader<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (engine, runtime) = self.parts();
        if matches!(to, SeekFrom::End(_)) && engine.needs_length() {
            runtime.block_on(poll_fn(|context| engine.poll_length(context)))?;
        }
        engine.seek(to)
    }
}

impl<S: Source> Drop for RangeReader<S> {
    fn drop(&mut self) {
        // Connections before the runtime that watches their sockets; and the runtime without
        // waiting for a thread that resolves a name, so that dropping blocks nowhere and is allowed
        // in asynchronous code too.
        self.engine = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
