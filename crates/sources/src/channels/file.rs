//! The file of an item as `Read + Seek`, from this machine or from a server.
//!
//! Belongs to a thread that may wait. What waits for a server ends at once when the item is no
//! longer wanted; a local read cannot be interrupted, but does not wait for strangers.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use range_reader::error::SourceError;
use range_reader::{AsyncRangeReader, ReadError, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use url::Url;

use super::location::{Location, find_recording, open_local};
use crate::settings::{SourceSettings, explain};

/// Bytes fetched ahead of what is read, at most. The queue behind it holds twice as much.
const WINDOW_BYTES: usize = 2 << 20;
/// Longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Tries without a new byte, about three seconds of them, before opening a file fails. A file that
/// is being played is retried for as long as the playlist waits for its frames.
const TRIES_MAX: u32 = 4;
/// What a read says once nobody wants it.
const STOPPED: &str = "no longer wanted";

/// Becomes true, or loses its sender, when an item is no longer wanted.
pub(super) type Stop = watch::Receiver<bool>;

/// A media file that is read piece by piece: over HTTP, or from disk.
#[derive(Debug)]
pub(super) enum MediaFile {
    /// Of this machine.
    Local(Local),
    /// Of a server.
    Remote(Box<Remote>),
}

/// A file of this machine. Its position is kept here: a `BufReader` asks the kernel for it.
#[derive(Debug)]
pub(super) struct Local {
    file: BufReader<File>,
    position: u64,
}

/// A file behind a URL.
#[derive(Debug)]
pub(super) struct Remote {
    runtime: Runtime,
    reader: AsyncRangeReader,
    stop: Stop,
    /// A server that is away is waited for.
    is_patient: bool,
}

impl MediaFile {
    /// Opens `location`. Nothing is read yet; a server is not even connected to.
    pub(super) fn open(location: &Location, settings: &SourceSettings, stop: Stop) -> io::Result<Self> {
        match location {
            Location::Local { path, below, .. } => {
                let file = open_local(path, below.as_deref().map(Path::new), settings.file_bytes_max)?;
                Ok(Self::Local(Local { file: BufReader::new(file), position: 0 }))
            }
            Location::Recording { app, stream, file } => {
                let path = find_recording(&settings.recordings, app, stream, file.as_deref())?;
                let file = open_local(&path, None, settings.file_bytes_max)?;
                Ok(Self::Local(Local { file: BufReader::new(file), position: 0 }))
            }
            Location::Remote(url) => Ok(Self::Remote(Box::new(Remote::open(url, settings, stop)?))),
        }
    }

    /// Says what will be read next. Forgets what was said before.
    pub(super) fn will_need(&mut self, ranges: Vec<Range<u64>>) {
        if let Self::Remote(remote) = self {
            remote.reader.will_need(ranges);
        }
    }

    /// From now on a server that goes away is waited for until nobody wants the file any more.
    pub(super) fn wait_for_server(&mut self) {
        if let Self::Remote(remote) = self {
            remote.is_patient = true;
        }
    }

    /// Whether saying it is of use.
    pub(super) fn takes_hints(&self) -> bool {
        matches!(self, Self::Remote(_))
    }
}

impl Remote {
    fn open(url: &Url, settings: &SourceSettings, stop: Stop) -> io::Result<Self> {
        let reader_config = ReaderConfig {
            window_bytes: WINDOW_BYTES,
            tries_max: TRIES_MAX,
            pause_max: PAUSE_MAX,
            file_bytes_max: settings.file_bytes_max,
            ..ReaderConfig::default()
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let reader = AsyncRangeReader::open(url, settings.http_config(), reader_config)?;
        Ok(Self { runtime, reader, stop, is_patient: false })
    }

    /// Waits for what `wait` waits for, or until nobody wants it.
    fn wait<T>(&mut self, wait: impl AsyncFnOnce(&mut AsyncRangeReader) -> io::Result<T>) -> io::Result<T> {
        let Self { runtime, reader, stop, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Err(io::Error::other(STOPPED)),
                result = wait(reader) => result.map_err(explained),
            }
        })
    }
}

/// An error of the reader in the words of the configuration.
fn explained(error: io::Error) -> io::Error {
    let source = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
    match source {
        Some(ReadError::Source(source @ SourceError::Permanent(_))) => {
            io::Error::new(error.kind(), explain(source))
        }
        _ => error,
    }
}

impl Read for MediaFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(local) => {
                let count = local.file.read(bytes)?;
                local.position += count as u64;
                Ok(count)
            }
            Self::Remote(remote) => loop {
                match remote.wait(async |reader| reader.read(bytes).await) {
                    // The reader has paused between its tries.
                    Err(error) if remote.is_patient && error.kind() == io::ErrorKind::ConnectionAborted => {}
                    result => return result,
                }
            },
        }
    }
}

impl Seek for MediaFile {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local(local) => local.seek(target),
            Self::Remote(remote) => remote.wait(async |reader| reader.seek(target).await),
        }
    }
}

impl Seek for Local {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        self.position = match target {
            // Keeps the buffer where the target is in it.
            SeekFrom::Start(target) => {
                self.file.seek_relative(target.wrapping_sub(self.position).cast_signed())?;
                target
            }
            SeekFrom::Current(distance) => {
                self.file.seek_relative(distance)?;
                self.position.wrapping_add_signed(distance)
            }
            SeekFrom::End(_) => self.file.seek(target)?,
        };
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_is_read_from_where_it_was_sought_to() {
        let path = std::env::temp_dir().join(format!("millstream-media-file-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("a file");
        let file = File::open(&path).expect("opened");
        let mut local = MediaFile::Local(Local { file: BufReader::new(file), position: 0 });
        let targets = [
            (SeekFrom::Start(5), 5_usize),
            (SeekFrom::Current(10), 18), // three bytes were read
            (SeekFrom::Start(2), 2),
            (SeekFrom::Start(90_000), 90_000),
            (SeekFrom::Current(-3), 90_000),
            (SeekFrom::End(-7), 99_993),
            (SeekFrom::Start(99_990), 99_990),
        ];
        for (target, expected) in targets {
            assert_eq!(local.seek(target).expect("sought"), expected as u64, "{target:?}");
            let mut read = [0; 3];
            local.read_exact(&mut read).expect("read");
            assert_eq!(read[..], bytes[expected..expected + 3], "{target:?}");
        }
        assert!(local.seek(SeekFrom::Current(-200_000)).is_err(), "before the beginning");
        std::fs::remove_file(&path).expect("removed");
    }
}
