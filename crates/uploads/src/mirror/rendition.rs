//! A rendition in the store: segments that wait, that its playlist names, and that it no longer names.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hls::mirror::{CompleteSegment, ListedSegment, file_playlist};
use hls::{Object, Window};
use media::TrackId;

/// Segments that may wait, those that are left out included: what a day has.
const WAITING_MAX: usize = 50_000;

/// A rendition.
#[derive(Debug)]
pub(super) struct Rendition {
    id: TrackId,
    /// Which run the newest segments are of, and the first number that was not taken.
    tag: Arc<str>,
    next_msn: u64,
    waiting: VecDeque<Waiting>,
    listed: VecDeque<ListedSegment>,
    /// What the playlist in the store says.
    written: Option<Extent>,
    /// Init segments that were brought to the store, and are needed or will be deleted.
    inits: Vec<(Arc<str>, u64)>,
    /// No more segments of its run will come.
    is_ended: bool,
}

/// A segment that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) segment: CompleteSegment,
    pub(super) prefix: Arc<str>,
    pub(super) init: Option<Bytes>,
}

/// What a playlist is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    prefix: Arc<str>,
    first: u64,
    last: u64,
    is_ended: bool,
}

impl Waiting {
    pub(super) fn bytes(&self) -> usize {
        self.segment.content.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to send: a gap, or it was left out.
    pub(super) fn is_gap(&self) -> bool {
        self.segment.content.is_empty()
    }

    fn needs(&self) -> Option<(&Arc<str>, u64)> {
        self.segment.init.map(|init| (&self.prefix, init))
    }
}

impl Rendition {
    pub(super) fn new(id: TrackId) -> Self {
        Self {
            id,
            tag: "".into(),
            next_msn: 0,
            waiting: VecDeque::new(),
            listed: VecDeque::new(),
            written: None,
            inits: Vec::new(),
            is_ended: false,
        }
    }

    /// Takes the segments of a view that it did not have. Whether there is anything new.
    pub(super) fn take(&mut self, tag: &Arc<str>, window: &Window) -> bool {
        if self.tag != *tag {
            // The end of an earlier run stays until there is something to replace it.
            if window.complete_from(self.id, 0).next().is_none() {
                return false;
            }
            (self.tag, self.next_msn) = (Arc::clone(tag), 0);
        }
        let prefix: Arc<str> = format!("{tag}/").into();
        let before = self.waiting.len();
        for segment in window.complete_from(self.id, self.next_msn) {
            self.next_msn = segment.msn + 1;
            let init = segment.init.and_then(|number| window.init(self.id, number));
            self.waiting.push_back(Waiting { segment, prefix: Arc::clone(&prefix), init });
        }
        let is_new = self.waiting.len() > before || self.is_ended != window.is_ended();
        self.is_ended = window.is_ended();
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
        is_new
    }

    pub(super) fn tag(&self) -> &Arc<str> {
        &self.tag
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    pub(super) fn waiting_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Waiting> {
        self.waiting.iter_mut()
    }

    /// Takes out the first that waits, if it would have left the playlist by the time that it gets into it, or
    /// anyway.
    pub(super) fn take_late(&mut self, listed: Duration, is_stale: bool) -> Option<Waiting> {
        let newest = self.waiting.back()?.segment.wall_clock;
        let is_late = newest.saturating_sub(self.waiting.front()?.segment.wall_clock) > listed;
        if is_late || is_stale { self.waiting.pop_front() } else { None }
    }

    /// Whether the init segment of one is still to be sent.
    pub(super) fn lacks_init(&self, waiting: &Waiting) -> bool {
        waiting.init.is_some() && waiting.needs().is_some_and(|init| !self.has(init))
    }

    /// The init segment of one is in the store.
    pub(super) fn has_init(&mut self, waiting: &Waiting) {
        self.inits.extend(waiting.needs().map(|(prefix, number)| (Arc::clone(prefix), number)));
    }

    fn has(&self, (prefix, number): (&Arc<str>, u64)) -> bool {
        self.inits.iter().any(|(known, of)| known == prefix && *of == number)
    }

    /// The first that waits is in the store, or will never be. What the playlist no longer names.
    pub(super) fn list(&mut self, done: &Waiting, is_gap: bool, listed: Duration) -> Vec<String> {
        let is_it = |first: &Waiting| first.prefix == done.prefix && first.segment.msn == done.segment.msn;
        if !self.waiting.front().is_some_and(is_it) {
            return Vec::new();
        }
        self.waiting.pop_front();
        let mut retired = Vec::new();
        let last = self.listed.back().map(|last| (&last.prefix, last.segment.msn + 1));
        if last.is_some_and(|next| next != (&done.prefix, done.segment.msn)) {
            // Numbers in a playlist have no holes: it begins with this one.
            retired.extend(self.listed.drain(..));
        }
        let segment = CompleteSegment { content: Vec::new(), ..done.segment.clone() };
        self.listed.push_back(ListedSegment { segment, prefix: Arc::clone(&done.prefix), is_gap });
        let length = |listed: &VecDeque<ListedSegment>| -> Duration {
            listed.iter().skip(1).map(|listed| listed.segment.duration.to_duration()).sum()
        };
        while self.listed.len() > 1 && length(&self.listed) >= listed {
            retired.extend(self.listed.pop_front());
        }
        self.names_of(&retired)
    }

    /// Takes all that the playlist names out of it.
    pub(super) fn retire(&mut self) -> Vec<String> {
        let retired: Vec<_> = self.listed.drain(..).collect();
        self.names_of(&retired)
    }

    /// Names of segments that are no longer listed, and of the init segments that no other needs.
    fn names_of(&mut self, retired: &[ListedSegment]) -> Vec<String> {
        let mut names = Vec::new();
        let mut init = None;
        for ListedSegment { segment, prefix, is_gap } in retired {
            if !is_gap {
                names.push(format!("{prefix}{}", Object::Segment(self.id, segment.msn)));
            }
            let Some(number) = segment.init.filter(|number| init != Some((prefix, *number))) else {
                continue;
            };
            init = Some((prefix, number));
            let is_needed =
                self.listed.iter().any(|other| other.prefix == *prefix && other.segment.init == Some(number))
                    || self.waiting.iter().any(|other| other.needs() == Some((prefix, number)));
            // One of somebody else under the name is not ours to delete.
            if !is_needed && self.has((prefix, number)) {
                self.inits.retain(|(known, of)| known != prefix || *of != number);
                names.push(format!("{prefix}{}", Object::Init(self.id, number)));
            }
        }
        names
    }

    /// What the playlist is to be of.
    fn extent(&self) -> Option<Extent> {
        let (first, last) = (self.listed.front()?, self.listed.back()?);
        Some(Extent {
            prefix: Arc::clone(&first.prefix),
            first: first.segment.msn,
            last: last.segment.msn,
            is_ended: self.is_ended && self.waiting.is_empty(),
        })
    }

    /// The playlist, if that in the store is not as it should be.
    pub(super) fn playlist(&self, target_seconds: u32) -> Option<(Extent, Bytes)> {
        let extent = self.extent().filter(|extent| self.written.as_ref() != Some(extent))?;
        let text = file_playlist(self.id, target_seconds, &self.listed, extent.is_ended);
        Some((extent, text))
    }

    /// The playlist is in the store.
    pub(super) fn wrote(&mut self, extent: Extent) {
        self.written = Some(extent);
    }

    /// Whether there is a playlist of a run in the store.
    pub(super) fn is_written(&self, tag: &str) -> bool {
        self.written.as_ref().is_some_and(|written| written.prefix.strip_suffix('/') == Some(tag))
    }
}
