//! What an answer consists of: bytes, then ranges of a file, which are read piece by piece as they are sent.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::library::{Inner, Place, Slot};
use crate::source::MediaFile;

/// Bytes that are read at once, and wait to be sent.
const PIECE_BYTES: usize = 256 << 10;

/// The body of an answer. What is left of it when the client leaves is not read.
#[derive(Debug)]
pub struct MediaBody {
    head: Option<Bytes>,
    ranges: VecDeque<Range<u64>>,
    file: Option<MediaFile>,
    /// Where a reader of another server's file goes back to.
    pub(crate) home: Option<Arc<Place>>,
    inner: Arc<Inner>,
    _slot: Slot,
}

impl MediaBody {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        slot: Slot,
        head: Option<Bytes>,
        ranges: Vec<Range<u64>>,
        file: Option<MediaFile>,
    ) -> Self {
        inner.counters.open_files.fetch_add(u64::from(file.is_some()), Ordering::Relaxed);
        let ranges = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        Self { head, ranges, file, home: None, inner: Arc::clone(inner), _slot: slot }
    }

    /// Bytes of it.
    pub fn len(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, |head| head.len() as u64);
        head + self.ranges.iter().map(|range| range.end - range.start).sum::<u64>()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves only the bytes from `first` to `last`, which are in it.
    pub fn cut(&mut self, first: u64, last: u64) {
        let mut at = 0;
        let within = |at: &mut u64, length: u64| {
            let from = *at;
            *at += length;
            let begin = first.saturating_sub(from).min(length);
            let end = last.saturating_add(1).saturating_sub(from).min(length);
            (begin < end).then_some(begin..end)
        };
        self.head = self.head.take().and_then(|head| {
            let kept = within(&mut at, head.len() as u64)?;
            Some(head.slice(kept.start as usize..kept.end as usize))
        });
        let ranges = std::mem::take(&mut self.ranges).into_iter().filter_map(|range| {
            let kept = within(&mut at, range.end - range.start)?;
            Some(range.start + kept.start..range.start + kept.end)
        });
        self.ranges = ranges.collect();
    }

    /// The next piece; `None` at the end. An error ends it: the client sees fewer bytes than were announced.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let piece = match self.head.take() {
            Some(head) => head,
            None => {
                let mut file = self.file.take()?;
                let mut wanted = Vec::new();
                let mut bytes = 0;
                while let Some(range) = self.ranges.front_mut().filter(|_| bytes < PIECE_BYTES as u64) {
                    let taken = (range.end - range.start).min(PIECE_BYTES as u64 - bytes);
                    wanted.push(range.start..range.start + taken);
                    (bytes, range.start) = (bytes + taken, range.start + taken);
                    if range.is_empty() {
                        self.ranges.pop_front();
                    }
                }
                if wanted.is_empty() {
                    self.file = Some(file);
                    return None;
                }
                if let MediaFile::Remote(reader) = &mut file {
                    reader.will_need(wanted.iter().chain(&self.ranges).cloned());
                }
                let read = self.inner.block(matches!(file, MediaFile::Remote(_)), move || {
                    let read = read_all(&mut file, &wanted);
                    (file, read)
                });
                let (file, read) = read.await;
                match read {
                    Ok(read) => {
                        self.file = Some(file);
                        read
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a file that is played cannot be read any more");
                        self.inner.counters.open_files.fetch_sub(1, Ordering::Relaxed);
                        self.inner.counters.failed.fetch_add(1, Ordering::Relaxed);
                        return Some(Err(error));
                    }
                }
            }
        };
        self.inner.counters.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Some(Ok(piece))
    }
}

impl Drop for MediaBody {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        self.inner.counters.open_files.fetch_sub(1, Ordering::Relaxed);
        if let Some(home) = &self.home {
            home.keep_reader(file);
        }
    }
}

fn read_all(file: &mut MediaFile, wanted: &[Range<u64>]) -> io::Result<Bytes> {
    let total: u64 = wanted.iter().map(|range| range.end - range.start).sum();
    let mut out = Vec::with_capacity(total as usize);
    for range in wanted {
        file.seek(SeekFrom::Start(range.start))?;
        let length = range.end - range.start;
        if file.by_ref().take(length).read_to_end(&mut out)? as u64 != length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was"));
        }
    }
    Ok(Bytes::from(out))
}
