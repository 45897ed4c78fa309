//! Status of a channel: written by its task, read by the API.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use utoipa::ToSchema;

use super::location::Location;

/// Events kept of a channel, the newest ones.
pub(super) const EVENTS_MAX: usize = 64;
/// Longest message of an event, in bytes.
const MESSAGE_BYTES_MAX: usize = 400;

/// What a channel does: it waits for its start or its stream, opens its first item or its next one while
/// nothing plays, plays, waits because no item can be played, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChannelState)]
pub enum State {
    /// Its start is in the future, or its stream has another publisher.
    Waiting,
    /// Nothing is played until the next item, or the one to begin with, is open.
    Opening,
    /// Frames leave.
    Playing,
    /// No item can be played; after a pause they are tried again.
    Retrying,
    /// A playlist that is played once has been.
    Ended,
}

impl State {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Opening, Self::Playing, Self::Retrying, Self::Ended];

    /// Its name in metrics and in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Opening => "opening",
            Self::Playing => "playing",
            Self::Retrying => "retrying",
            Self::Ended => "ended",
        }
    }
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// Which item it is about.
    pub item: Option<usize>,
    /// What kind of thing happened.
    pub kind: EventKind,
    /// For people.
    pub message: String,
}

/// What kind of thing happened: an item could not be played, or was left on request; frames came late; the
/// stream was refused or taken away; no item could be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChannelEventKind)]
pub enum EventKind {
    /// An item could not be opened or read on; the playlist goes on with the next one.
    Broken,
    /// An item was left on request.
    Skipped,
    /// Frames came later than they were due, and pacing restarted.
    Late,
    /// The stream was refused or taken away.
    Interrupted,
    /// No item can be played.
    NothingToPlay,
}

impl EventKind {
    /// What the log says.
    fn sentence(self) -> &'static str {
        match self {
            Self::Broken => "channel: an item cannot be played",
            Self::Skipped => "channel: an item was skipped",
            Self::Late => "channel: frames are late",
            Self::Interrupted => "channel: the stream was refused or interrupted",
            Self::NothingToPlay => "channel: no item can be played",
        }
    }
}

/// What is known of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemStatus {
    /// Its length, once it has been opened.
    pub duration: Option<Duration>,
    /// Why it was skipped when it was last tried.
    pub last_error: Option<String>,
    /// The error that the log has of it, until it has been played to its end.
    pub(super) logged_error: Option<String>,
}

/// A channel at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// What it does.
    pub state: State,
    /// Since when.
    pub since: SystemTime,
    /// Its items, as many as its playlist has.
    pub items: Vec<ItemStatus>,
    /// The item that is played.
    pub item: Option<usize>,
    /// How far.
    pub position: Duration,
    /// The item that is opened ahead.
    pub next: Option<usize>,
    /// It is open, and its first frames are being read.
    pub next_ready: bool,
    /// How often the playlist has gone round.
    pub loops: u64,
    /// Items played to their end.
    pub items_played: u64,
    /// Items that were broken, each time they were.
    pub items_failed: u64,
    /// Times late frames made the pacing restart.
    pub pauses: u64,
    /// By how much it is later because of that; with a start, since it was last where its schedule
    /// says.
    pub behind: Duration,
    /// When something is tried again.
    pub retry_at: Option<SystemTime>,
    /// Newest last.
    pub events: VecDeque<Event>,
}

/// Shared by a channel's task and the API. Locked for the time of a copy.
#[derive(Debug)]
pub(super) struct Status {
    /// `app/name`, for the log.
    channel: String,
    /// Of its items, for the log.
    locations: Vec<Location>,
    now: Mutex<Snapshot>,
}

impl Status {
    /// Of a playlist of items at these places, at `now`.
    pub(super) fn new(channel: String, locations: Vec<Location>, now: SystemTime) -> Self {
        let now = Mutex::new(Snapshot {
            state: State::Opening,
            since: now,
            items: vec![ItemStatus::default(); locations.len()],
            item: None,
            position: Duration::ZERO,
            next: None,
            next_ready: false,
            loops: 0,
            items_played: 0,
            items_failed: 0,
            pauses: 0,
            behind: Duration::ZERO,
            retry_at: None,
            events: VecDeque::new(),
        });
        Self { channel, locations, now }
    }

    /// Changes it.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        change(&mut self.lock())
    }

    /// Goes to `state`. `retry_at` is when that may end by itself.
    pub(super) fn enter(&self, state: State, now: SystemTime, retry_at: Option<SystemTime>) {
        self.update(|snapshot| {
            if snapshot.state != state {
                snapshot.state = state;
                snapshot.since = now;
            }
            snapshot.retry_at = retry_at;
        });
    }

    /// Adds an event, and writes it to the log; the oldest gives way. What is wrong with an item is a warning
    /// once, not again in every round.
    pub(super) fn tell(&self, at: SystemTime, item: Option<usize>, kind: EventKind, message: &str) {
        let message = shortened(message);
        let (channel, sentence) = (self.channel.as_str(), kind.sentence());
        // As in the errors of the configuration and the API.
        let place = item.map(|index| format!("items[{index}]"));
        let location = item.and_then(|index| self.locations.get(index)).map(tracing::field::display);
        let known = self.update(|snapshot| {
            let item =
                item.filter(|_| kind == EventKind::Broken).and_then(|index| snapshot.items.get_mut(index));
            item.and_then(|item| item.logged_error.replace(message.clone()))
        });
        match kind {
            EventKind::Skipped => {
                tracing::info!(channel, item = place, location, reason = message, "{sentence}");
            }
            _ if known.is_some_and(|known| known == message) => {
                tracing::debug!(channel, item = place, location, reason = message, "{sentence}");
            }
            _ => tracing::warn!(channel, item = place, location, reason = message, "{sentence}"),
        }
        self.update(|snapshot| {
            if snapshot.events.len() == EVENTS_MAX {
                snapshot.events.pop_front();
            }
            snapshot.events.push_back(Event { at, item, kind, message });
        });
    }

    /// How it is now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// Whether there is an item that can be left: one that plays, or one that is waited for; if
    /// not, its state.
    pub(super) fn can_skip(&self) -> Result<(), State> {
        let now = self.lock();
        match now.state {
            State::Playing => Ok(()),
            // While the place in a schedule is looked for, there is no next one yet.
            State::Opening if now.next.is_some() => Ok(()),
            state => Err(state),
        }
    }

    /// State and totals without a copy of the rest: state, items played, items broken, pauses.
    pub(super) fn totals(&self) -> (State, u64, u64, u64) {
        let now = self.lock();
        (now.state, now.items_played, now.items_failed, now.pauses)
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // Nothing panics with the lock held.
        self.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The first part of a text that may come from a server.
fn shortened(message: &str) -> String {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    message[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_are_kept_and_none_is_long() {
        let status = Status::new(String::new(), Location::some(1), SystemTime::UNIX_EPOCH);
        for index in 0..EVENTS_MAX + 10 {
            let message = format!("{index} {}", "\u{20ac}\n".repeat(1_000));
            status.tell(SystemTime::UNIX_EPOCH, Some(0), EventKind::Broken, &message);
        }
        let events = status.snapshot().events;
        assert_eq!(events.len(), EVENTS_MAX);
        assert!(events[0].message.starts_with("10 ") && events[EVENTS_MAX - 1].message.starts_with("73 "));
        assert!(events.iter().all(|event| event.message.len() <= MESSAGE_BYTES_MAX));
        assert!(events.iter().all(|event| !event.message.contains('\n')));
    }

    #[test]
    fn a_state_begins_once() {
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        let status = Status::new(String::new(), Location::some(1), SystemTime::UNIX_EPOCH);
        status.enter(State::Retrying, SystemTime::UNIX_EPOCH, Some(later));
        status.enter(State::Retrying, later, None);
        let now = status.snapshot();
        assert_eq!((now.state, now.since, now.retry_at), (State::Retrying, SystemTime::UNIX_EPOCH, None));
    }
}
