//! One request and its response.
//!
//! Knows what was requested and what of it is still to come. `schedule.rs` decides which requests
//! are sent.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use tokio::time::Instant;

use crate::error::SourceError;
use crate::source::{Body, Response};

/// End of an open range, which extends to the end of the file.
pub(super) const OPEN_END: u64 = u64::MAX;

pub(super) type Opening<B> = Pin<Box<dyn Future<Output = Result<Response<B>, SourceError>> + Send>>;

pub(super) enum State<B> {
    Opening(Opening<B>),
    Streaming(B),
}

pub(super) struct InFlightRequest<B> {
    pub(super) state: State<B>,
    /// The ranges still to come, ascending. What a server leaves out stays here.
    pub(super) outstanding: Vec<Range<u64>>,
    /// What of it is wanted, ascending; `None`: all.
    pub(super) keep: Option<Vec<Range<u64>>>,
    /// Several ranges were asked.
    pub(super) several: bool,
    /// All of it is wanted, in another order than it comes in.
    pub(super) is_sorted: bool,
    /// Asked because it had been predicted.
    pub(super) is_predicted: bool,
    /// Offset in the file of the next byte of the body.
    pub(super) cursor: u64,
    /// End of the present part.
    pub(super) part_end: u64,
    /// A byte of the body was received, useful or not.
    pub(super) has_begun: bool,
    /// Bytes received that were new and are kept for reading.
    pub(super) new_bytes: u64,
    pub(super) sent_at: Instant,
    /// Reads that had been answered when this was asked.
    pub(super) sent_in: u64,
    /// Connections that had been opened when this was asked.
    pub(super) connections: u64,
}

impl<B: Body> InFlightRequest<B> {
    /// The response, as it stands, will bring the byte at `position`.
    pub(super) fn covers(&self, position: u64) -> bool {
        self.outstanding.iter().any(|range| range.contains(&position))
    }

    /// It was requested because of a list, and part of `wanted` has not arrived yet. An open range
    /// delivers everything, and is no reason for another request.
    pub(super) fn brings_any(&self, wanted: &[Range<u64>]) -> bool {
        let meets = |range: &Range<u64>| {
            self.outstanding.iter().any(|left| left.start < range.end && range.start < left.end)
        };
        self.keep.is_some() && wanted.iter().any(meets)
    }

    /// Bytes that come before the one at `position`.
    pub(super) fn bytes_before(&self, position: u64) -> u64 {
        let before = |range: &Range<u64>| range.end.min(position).saturating_sub(range.start);
        self.outstanding.iter().map(before).fold(0, u64::saturating_add)
    }

    /// Bytes still to come; `None` if the end is not known.
    pub(super) fn bytes_left(&self) -> Option<u64> {
        let open = self.outstanding.last().is_some_and(|range| range.end == OPEN_END);
        (!open).then(|| self.outstanding.iter().map(|range| range.end - range.start).sum())
    }

    /// Bytes that are in the client's or the kernel's buffers.
    pub(super) fn bytes_buffered(&self) -> u64 {
        match &self.state {
            State::Opening(_) => 0,
            State::Streaming(body) => body.bytes_buffered(),
        }
    }

    /// The bytes of `range` have arrived.
    pub(super) fn bring(&mut self, range: Range<u64>) {
        let mut index = 0;
        while let Some(left) = self.outstanding.get_mut(index) {
            let (start, end) = (left.start, left.end);
            if start >= range.end {
                break;
            }
            if end <= range.start {
                index += 1;
            } else if range.start <= start && end <= range.end {
                self.outstanding.remove(index);
            } else if range.start <= start {
                left.start = range.end;
                break;
            } else {
                left.end = range.start;
                if range.end < end {
                    self.outstanding.insert(index + 1, range.end..end);
                }
                index += 1;
            }
        }
    }

    /// The file ends at `total`.
    pub(super) fn clip(&mut self, total: u64) {
        for range in &mut self.outstanding {
            range.end = range.end.min(total);
        }
        self.outstanding.retain(|range| range.start < range.end);
    }

    /// The wanted parts of `range`.
    pub(super) fn wanted_of(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let keep = self.keep.as_deref();
        let first = keep.map_or(0, |keep| keep.partition_point(|kept| kept.end <= range.start));
        let all = keep.is_none().then(|| range.clone());
        let parts = keep.unwrap_or_default()[first..].iter().map(move |kept| {
            let (start, end) = (kept.start.max(range.start), kept.end.min(range.end));
            start..end
        });
        all.into_iter().chain(parts).take_while(|part| part.start < part.end)
    }
}
