//! The items of a channel one after the other, the next one opened before the present one ends.
//!
//! Yields frames in order, and where items begin and end; when they leave is decided in
//! `runner.rs`. An item that cannot be opened or read further is reported and skipped. If none can
//! be played, that is reported instead of trying forever.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use media::Timestamp;
use mp4::Sample;
use tokio::time::{Instant, sleep_until};

use super::item::{Item, ItemInfo};
use super::schedule::{Length, PlaylistPosition, locate};
use super::status::{EventKind, Status};
use worker_api::time;

/// The next item is opened when the present one ends within this time.
const PREPARE_AHEAD: Duration = Duration::from_secs(20);
/// An item that ends sooner counts as broken: a playlist of nothing else would only open files.
const ITEM_MIN: Duration = Duration::from_millis(100);
/// An item that has been played for this long is a success, whatever becomes of it.
const PLAYED_MIN: Duration = Duration::from_secs(1);

/// A longer gap without any frame makes an item broken: the stream would seem to have ended.
const GAP_MAX: Timestamp = Timestamp::from_millis(20_000);

/// Opens the item with an index, to be played from a position on.
pub(super) type Opener = Box<dyn FnMut(usize, Duration) -> Item + Send + Sync>;

/// How long is waited for an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenTimeouts {
    /// For it to be open, from when that began.
    pub open: Duration,
    /// For its next frame.
    pub frame: Duration,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// An item begins.
    Begins(ItemInfo),
    /// A frame of it.
    Frame {
        /// It.
        sample: Sample,
        /// It was not there when it was asked for.
        was_awaited: bool,
    },
    /// It is over: played to its end with its length, or left before.
    Ends(Option<Duration>),
    /// Nothing plays until the next item is open.
    Waits,
    /// No item can be played now. Asked again, all are tried again.
    Nothing,
    /// The playlist is over.
    Over,
}

/// Where a playlist was joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// In an item, whose `position` was due at `moment`.
    At {
        /// How far in it.
        position: Duration,
        /// When that was so.
        moment: Instant,
    },
    /// It is over.
    Over,
    /// No item can be played now.
    Nothing,
}

/// Yields the samples of a playlist's items in order, with the next item prepared before it is due.
pub(super) struct Playlist {
    open: Opener,
    items: usize,
    looped: bool,
    timeouts: OpenTimeouts,
    status: Arc<Status>,
    playing: Option<Playing>,
    prepared: Option<Prepared>,
    /// Opened next; `None` behind the last item of a playlist that is played once.
    upcoming: Option<usize>,
    /// Where that one is joined.
    join: Duration,
    lengths: Vec<Length>,
    /// Items in a row that could not be played.
    failures: usize,
    /// Of them, those that were tried since the present item began.
    prepare_failures: usize,
    /// The item that was played last.
    last: Option<usize>,
    /// When the item before was over, while one is waited for.
    ended: Option<Instant>,
    /// [`Next::Waits`] has been returned for it.
    reported_wait: bool,
    /// What comes next was not there when it was asked for.
    was_awaited: bool,
}

/// The present item.
struct Playing {
    index: usize,
    item: Item,
    info: ItemInfo,
    /// End of the latest of its frames.
    position: Duration,
    /// Latest time at which one is decoded.
    decoded: Timestamp,
    /// Since when its next frame is waited for.
    waiting_since: Option<Instant>,
}

/// An item that is opened ahead.
struct Prepared {
    index: usize,
    item: Item,
    began: Instant,
    info: Option<ItemInfo>,
}

impl Playlist {
    /// Of `items` items, from the first one on.
    pub(super) fn new(
        open: Opener,
        items: usize,
        looped: bool,
        timeouts: OpenTimeouts,
        status: Arc<Status>,
    ) -> Self {
        Self {
            open,
            items,
            looped,
            timeouts,
            status,
            playing: None,
            prepared: None,
            upcoming: (items > 0).then_some(0),
            join: Duration::ZERO,
            lengths: vec![Length::Unknown; items],
            failures: 0,
            prepare_failures: 0,
            last: None,
            ended: None,
            reported_wait: false,
            was_awaited: false,
        }
    }

    /// What comes next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            if self.playing.is_some() {
                if let Some(next) = self.play().await {
                    return next;
                }
                continue;
            }
            if self.failures >= self.items {
                self.failures = 0;
                self.upcoming = Some(0);
                self.ended = None;
                self.nothing_plays();
                return Next::Nothing;
            }
            if self.prepared.is_none() && !self.prepare() {
                return Next::Over;
            }
            let opened =
                if self.reported_wait { Some(self.opened().await) } else { self.opened_already().await };
            match opened {
                Some(Ok(())) => {
                    if let Some(info) = self.begin() {
                        return Next::Begins(info);
                    }
                }
                Some(Err(reason)) => self.prepared_failed(&reason),
                None => {
                    self.reported_wait = true;
                    self.nothing_plays();
                    return Next::Waits;
                }
            }
        }
    }

    /// Waits until no more frames of the present item can be gathered.
    pub(super) async fn filled(&mut self) {
        if let Some(playing) = &mut self.playing {
            playing.item.filled().await;
        }
    }

    /// Leaves the present item. Whether there was one.
    pub(super) fn skip(&mut self) -> bool {
        let Some(left) = self.playing.take() else {
            let left = self.prepared.take_if(|prepared| prepared.info.is_none());
            if let Some(left) = &left {
                self.tell(left.index, EventKind::Skipped, "skipped on request before it was open");
            }
            return left.is_some();
        };
        self.ended = Some(Instant::now());
        self.tell(left.index, EventKind::Skipped, "skipped on request");
        true
    }

    /// The present item cannot be used further.
    pub(super) fn give_up(&mut self, reason: &str) {
        self.present_failed(reason);
    }

    /// Goes to where the playlist is that began `elapsed()` ago; items are opened to learn how long
    /// they are. The caller may drop the future and begin again.
    pub(super) async fn join(&mut self, elapsed: impl Fn() -> Duration) -> Joined {
        self.playing = None;
        self.prepared = None;
        self.ended = None;
        self.reported_wait = false;
        self.nothing_plays();
        self.status.update(|status| (status.next, status.next_ready) = (None, false));
        for length in &mut self.lengths {
            if *length == Length::Broken {
                *length = Length::Unknown;
            }
        }
        loop {
            let moment = Instant::now();
            match locate(&self.lengths, self.looped, elapsed()) {
                PlaylistPosition::Nothing => {
                    // Each has just been tried.
                    self.failures = self.items;
                    return Joined::Nothing;
                }
                PlaylistPosition::Over => {
                    self.upcoming = None;
                    return Joined::Over;
                }
                PlaylistPosition::In { item, position, rounds } => {
                    (self.upcoming, self.join, self.last) = (Some(item), position, None);
                    self.status.update(|status| status.loops = rounds);
                    return Joined::At { position, moment };
                }
                PlaylistPosition::Needs(index) => self.learn(index).await,
            }
        }
    }

    /// Opens an item for its length only.
    async fn learn(&mut self, index: usize) {
        (self.upcoming, self.join) = (Some(index), Duration::ZERO);
        self.open_upcoming();
        match self.opened().await {
            Err(reason) => self.prepared_failed(&reason),
            Ok(()) => {
                let prepared = self.prepared.take();
                let length = prepared.and_then(|prepared| prepared.info?.duration);
                if length.is_none() {
                    self.tell(
                        index,
                        EventKind::Broken,
                        "its length is not known, so it has no place in the schedule",
                    );
                    self.lengths[index] = Length::Broken;
                }
            }
        }
        self.failures = 0;
    }

    /// Begins to open the upcoming item, which is played next. False: there is none.
    fn prepare(&mut self) -> bool {
        let index = self.open_upcoming();
        if index.is_some() {
            self.status.update(|status| (status.next, status.next_ready) = (index, false));
        }
        index.is_some()
    }

    fn open_upcoming(&mut self) -> Option<usize> {
        let index = self.upcoming?;
        let item = (self.open)(index, std::mem::take(&mut self.join));
        self.prepared = Some(Prepared { index, item, began: Instant::now(), info: None });
        self.upcoming = if index + 1 < self.items { Some(index + 1) } else { self.looped.then_some(0) };
        Some(index)
    }

    /// Waits until the prepared item is open.
    async fn opened(&mut self) -> Result<(), String> {
        let Some(prepared) = &mut self.prepared else { return Ok(()) };
        if prepared.info.is_none() {
            // Players of a stream that stands still do not wait for long.
            let timeout = match self.ended {
                Some(ended) => {
                    let since = ended.max(prepared.began);
                    (since + self.timeouts.frame - prepared.began).min(self.timeouts.open)
                }
                None => self.timeouts.open,
            };
            let info = noting(&mut self.was_awaited, prepared.opened(timeout)).await?;
            self.learned(info);
        }
        Ok(())
    }

    /// As [`Self::opened`], if that can be said without waiting.
    async fn opened_already(&mut self) -> Option<Result<(), String>> {
        let mut opened = pin!(self.opened());
        poll_fn(|context| {
            Poll::Ready(match opened.as_mut().poll(context) {
                Poll::Ready(opened) => Some(opened),
                Poll::Pending => None,
            })
        })
        .await
    }

    /// The prepared item is open.
    fn learned(&mut self, info: ItemInfo) {
        let Some(prepared) = &mut self.prepared else { return };
        if let Some(duration) = info.duration {
            self.lengths[prepared.index] = Length::Known(duration);
        }
        let index = prepared.index;
        self.status.update(|status| {
            status.next_ready = status.next == Some(index);
            status.items[index].duration = info.duration;
        });
        prepared.info = Some(info);
    }

    fn prepared_failed(&mut self, reason: &str) {
        let Some(prepared) = self.prepared.take() else { return };
        self.lengths[prepared.index] = Length::Broken;
        self.prepare_failures += 1;
        self.broken(prepared.index, reason);
    }

    /// The prepared item becomes the present one.
    fn begin(&mut self) -> Option<ItemInfo> {
        let Prepared { index, item, info, .. } = self.prepared.take()?;
        let info = info?;
        let goes_round = self.last.is_some_and(|last| index <= last);
        self.last = Some(index);
        self.prepare_failures = 0;
        self.ended = None;
        self.reported_wait = false;
        self.status.update(|status| {
            status.item = Some(index);
            status.position = info.begins;
            (status.next, status.next_ready) = (self.upcoming, false);
            status.loops += u64::from(goes_round);
            status.items[index].last_error = None;
        });
        let position = info.begins;
        let decoded = position.into();
        self.playing =
            Some(Playing { index, item, info: info.clone(), position, decoded, waiting_since: None });
        Some(info)
    }

    /// Waits for something to happen to the present item or the prepared one; `None`: to that.
    async fn play(&mut self) -> Option<Next> {
        self.prepare_if_due();
        let timeouts = self.timeouts;
        let playing = self.playing.as_mut()?;
        let since = *playing.waiting_since.get_or_insert_with(Instant::now);
        let mut unready = self.prepared.as_mut().filter(|prepared| prepared.info.is_none());
        let is_preparing = unready.is_some();
        let opened = async {
            match &mut unready {
                Some(prepared) => prepared.opened(timeouts.open).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Once an item: frames, of which there is always one, do not have to wait for it.
            opened = opened, if is_preparing => {
                match opened {
                    Ok(info) => self.learned(info),
                    Err(reason) => self.prepared_failed(&reason),
                }
                None
            }
            frame = noting(&mut self.was_awaited, playing.item.next()) => Some(self.frame(frame)),
            () = sleep_until(since + timeouts.frame) => {
                let reason = format!("nothing came for {} s", timeouts.frame.as_secs_f32());
                Some(self.present_failed(&reason))
            }
        }
    }

    fn prepare_if_due(&mut self) {
        let Some(playing) = &self.playing else { return };
        let rest = playing.info.duration.map(|length| length.saturating_sub(playing.position));
        let is_due = rest.is_none_or(|rest| rest <= PREPARE_AHEAD);
        if is_due && self.prepared.is_none() && self.prepare_failures < self.items {
            self.prepare();
        }
    }

    fn frame(&mut self, frame: Option<Result<Sample, String>>) -> Next {
        let Some(playing) = &mut self.playing else { return Next::Ends(None) };
        playing.waiting_since = None;
        match frame {
            Some(Ok(sample)) if sample.frame.dts - playing.decoded > GAP_MAX => {
                let gap = (sample.frame.dts - playing.decoded).to_duration();
                self.present_failed(&format!("it has nothing to play for {} s", gap.as_secs()))
            }
            Some(Ok(mut sample)) => {
                playing.decoded = playing.decoded.max(sample.frame.dts);
                // Of the last frame this may be anything.
                sample.duration = sample.duration.min(GAP_MAX);
                let ends = (sample.frame.pts + sample.duration).to_duration();
                playing.position = playing.position.max(ends);
                if playing.position.saturating_sub(playing.info.begins) >= PLAYED_MIN {
                    self.failures = 0;
                }
                Next::Frame { sample, was_awaited: std::mem::take(&mut self.was_awaited) }
            }
            Some(Err(reason)) => self.present_failed(&reason),
            None => self.present_ended(),
        }
    }

    /// The present item was played to its end.
    fn present_ended(&mut self) -> Next {
        let Some(played) = self.playing.take() else { return Next::Ends(None) };
        self.ended = Some(Instant::now());
        // An index that pretends that the last frame lasts for days is no reason to wait for so
        // long.
        let longest = played.position.saturating_add(PLAYED_MIN);
        let length = played.info.duration.unwrap_or_default().min(longest).max(played.position);
        if length < ITEM_MIN {
            self.broken(played.index, &format!("it is shorter than {} ms", ITEM_MIN.as_millis()));
        } else {
            self.failures = 0;
            // Now it is known to the last frame.
            self.lengths[played.index] = Length::Known(length);
            self.status.update(|status| {
                status.items_played += 1;
                status.items[played.index].duration = Some(length);
                status.items[played.index].logged_error = None;
            });
        }
        Next::Ends(Some(length))
    }

    fn present_failed(&mut self, reason: &str) -> Next {
        if let Some(playing) = self.playing.take() {
            self.ended = Some(Instant::now());
            self.broken(playing.index, reason);
        }
        Next::Ends(None)
    }

    fn broken(&mut self, index: usize, reason: &str) {
        self.failures += 1;
        self.status.update(|status| {
            status.items_failed += 1;
            status.items[index].last_error = Some(reason.to_owned());
            if status.next == Some(index) {
                (status.next, status.next_ready) = (self.upcoming, false);
            }
        });
        self.tell(index, EventKind::Broken, reason);
    }

    fn nothing_plays(&self) {
        self.status.update(|status| (status.item, status.position) = (None, Duration::ZERO));
    }

    fn tell(&self, index: usize, kind: EventKind, message: &str) {
        self.status.tell(time::now(), Some(index), kind, message);
    }
}

impl Prepared {
    async fn opened(&mut self, timeout: Duration) -> Result<ItemInfo, String> {
        tokio::select! {
            biased;
            opened = self.item.opened() => opened,
            () = sleep_until(self.began + timeout) => {
                Err(format!("it could not be opened within {} s", timeout.as_secs_f32()))
            }
        }
    }
}

/// Waits for `what`, and notes if it was not there at once.
async fn noting<T>(was_awaited: &mut bool, what: impl Future<Output = T>) -> T {
    let mut what = pin!(what);
    poll_fn(|context| {
        let polled = what.as_mut().poll(context);
        *was_awaited |= polled.is_pending();
        polled
    })
    .await
}

#[cfg(test)]
mod tests;
