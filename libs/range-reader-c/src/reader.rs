//! A reader that C holds: the asynchronous one, a runtime that is polled during calls, and what other
//! threads may ask meanwhile.
//!
//! Not `RangeReader`, because a blocked call has to end when another thread asks for it.

use crate::error::Failure;
use crate::{Range, Statistics};
use range_reader::http::HttpConfig;
use range_reader::{AsyncRangeReader, ReaderConfig, Url};
use std::ffi::c_int;
use std::future::{Future, poll_fn};
use std::io::SeekFrom;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncSeekExt, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Most bytes of one read: memory of the caller is cleared before it is read into.
const READ_BYTES_MAX: usize = 1 << 20;

/// A remote file and a position in it.
pub struct Reader {
    file: Mutex<File>,
    interrupted: watch::Sender<bool>,
    statistics: Mutex<Statistics>,
    error_text: Mutex<String>,
}

/// Fields are dropped in this order: connections before the runtime that watches their sockets.
struct File {
    reader: AsyncRangeReader,
    runtime: Background,
}

/// A runtime that is dropped without waiting for a thread that resolves a name.
struct Background(Option<Runtime>);

impl Reader {
    pub(crate) fn open(url: &str, http: HttpConfig, config: ReaderConfig) -> Result<Self, Failure> {
        let url = Url::parse(url).map_err(|error| Failure::argument(format!("url: {error}")))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let reader = AsyncRangeReader::open(&url, http, config)?;
        Ok(Self {
            file: Mutex::new(File { reader, runtime: Background(Some(runtime)) }),
            interrupted: watch::Sender::new(false),
            statistics: Mutex::default(),
            error_text: Mutex::default(),
        })
    }

    pub(crate) fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Result<usize, Failure> {
        let room = buffer.len().min(READ_BYTES_MAX);
        let mut buffer = ReadBuf::uninit(&mut buffer[..room]);
        self.call(async |reader| {
            Ok(poll_fn(|context| Pin::new(&mut *reader).poll_read(context, &mut buffer)).await?)
        })?;
        Ok(buffer.filled().len())
    }

    pub(crate) fn seek(&self, offset: i64, whence: c_int) -> Result<i64, Failure> {
        self.call(async |reader| {
            let before_start = || Failure::argument("a seek to before the start or past 2^63");
            let to = match whence {
                0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| before_start())?),
                1 => SeekFrom::Current(offset),
                2 => {
                    // Not `SeekFrom::End`: a seek that is interrupted leaves the position as it is.
                    let size = reader.len().await?.ok_or_else(Failure::unknown_size)?;
                    SeekFrom::Start(size.checked_add_signed(offset).ok_or_else(before_start)?)
                }
                _ => return Err(Failure::argument("whence is none of 0, 1 and 2")),
            };
            let position_before = reader.seek(SeekFrom::Current(0)).await?;
            let position = reader.seek(to).await?;
            match i64::try_from(position) {
                Ok(position) => Ok(position),
                Err(_) => {
                    reader.seek(SeekFrom::Start(position_before)).await?;
                    Err(before_start())
                }
            }
        })
    }

    pub(crate) fn size(&self) -> Result<Option<u64>, Failure> {
        self.call(async |reader| Ok(reader.len().await?))
    }

    pub(crate) fn hint(&self, ranges: &[Range]) -> Result<(), Failure> {
        let mut file = self.file.lock().map_err(|_| Failure::bug())?;
        file.reader.will_need(ranges.iter().map(|range| range.start..range.end));
        Ok(())
    }

    pub(crate) fn interrupt(&self, interrupted: bool) {
        self.interrupted.send_replace(interrupted);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        *lock(&self.statistics)
    }

    pub(crate) fn keep_error(&self, text: String) {
        *lock(&self.error_text) = text;
    }

    pub(crate) fn error_text(&self) -> String {
        lock(&self.error_text).clone()
    }

    /// Runs `work` on the reader until it is done or interrupted.
    fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut AsyncRangeReader) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Poisoned by a panic: the reader may be in any state.
        let mut file = self.file.lock().map_err(|_| Failure::bug())?;
        let File { reader, runtime } = &mut *file;
        let runtime = runtime.0.as_ref().expect("taken out by drop only");
        let result = runtime.block_on(self.until_interrupted(work(reader)));
        let counters = reader.counters();
        *lock(&self.statistics) = Statistics {
            requests: counters.requests,
            connections: counters.connections,
            retries: counters.retries,
            bytes_received: counters.bytes_received,
            bytes_used: counters.bytes_used,
            bytes_skipped: counters.bytes_skipped,
            bytes_wasted: counters.bytes_wasted,
            bytes_buffered: counters.bytes_buffered,
            seeks: counters.seeks,
        };
        result
    }

    async fn until_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut interrupted = self.interrupted.subscribe();
        tokio::select! {
            biased;
            // Its other result is that the sender is gone, which is in `self`.
            _ = interrupted.wait_for(|interrupted| *interrupted) => Err(Failure::interrupted()),
            result = work => result,
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("statistics", &self.statistics).finish_non_exhaustive()
    }
}

/// Values that no panic leaves half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
