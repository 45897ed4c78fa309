//! The directory as one node sees it: a machine without NATS, socket or clock.
//!
//! **Driving it:** every call takes `now`, the time since any fixed moment, which never runs backwards. After
//! each call carry out [`Machine::take_actions`]; call [`Machine::tick`] at [`Machine::next_timeout`] at the
//! latest. What NATS answers and delivers comes back as [`Input`].
//!
//! Two things are kept per name: what this node wants (`own`, `own_feeds`), and what the directory was last
//! heard to say (`streams`, `feeds`, `nodes`). [`Machine::look_at`] compares both and makes one write, with
//! the revision it knows, of what differs. Claims, renewals after a restart of NATS, splits and cleaning all
//! are that one comparison, so whatever order things come in, they end in the same state. What readers get
//! (`shown`) is computed from both after each change.
//!
//! A node lives as long as it sends heartbeats. They are kept beside what it says of itself, and
//! are not watched: who looks gets all of them in one answer, so that their cost does not grow with
//! the nodes. Silence counts only while this node itself hears the directory, so nobody is
//! forgotten because NATS is away.

mod keys;
mod nodes;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use self::keys::{Bucket, Key};
use crate::names::{NodeName, StreamName};
use crate::record::{
    AT_REST_PERMILLE, BUSY_PERMILLE, Description, EPOCH_MAX, Epoch, FeedRecord, How, InstanceId, Load, Node,
    Nonsense, StreamRecord,
};

/// A node sends a heartbeat this often, and looks whose there are: three messages.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_millis(750);
/// The directory keeps a heartbeat this long.
pub(crate) const HEARTBEAT_MAX_AGE: Duration = Duration::from_millis(1500);
/// An announcement goes to all nodes. Each node makes one every 90 ms times the number of nodes, so each
/// receives eleven a second.
const ANNOUNCE_PER_NODE: Duration = Duration::from_millis(90);
/// Lower bound: load is not measured more often.
pub(crate) const ANNOUNCE_EVERY_MIN: Duration = Duration::from_millis(3000);
/// Upper bound: a third of the age at which the directory drops it.
pub(crate) const ANNOUNCE_EVERY_MAX: Duration = Duration::from_millis(20_000);
/// A node's own announcement has to come back within this, and so has the answer to a heartbeat; else
/// the directory is not heard.
pub(crate) const ECHO_WITHIN: Duration = Duration::from_millis(1200);
/// Nodes without a heartbeat are not asked earlier after the directory came back: they had time to
/// connect again.
const SUSPECT_AFTER_RETURN: Duration = Duration::from_millis(1000);
/// A node whose heartbeat was last seen so long ago is dead, if it answers no question. The
/// heartbeat was at most [`HEARTBEAT_MAX_AGE`] and a quarter of a second old then, so the fifth
/// second since it is not over.
const DEAD_AFTER: Duration = Duration::from_millis(3000);
/// The same after the directory came back.
const DEAD_AFTER_RETURN: Duration = Duration::from_millis(4750);
/// A node that nobody listens for is asked again after this, and is dead after [`UNREACHED_MAX`] of these.
const ASK_AGAIN: Duration = Duration::from_millis(250);
const UNREACHED_MAX: u8 = 3;
/// Looks in a row that do not find this node's own heartbeat, before it says so.
const UNSTORED_MAX: u32 = 3;
/// Nodes may still be connecting for so long after the directory came back.
const RETURN_GRACE: Duration = Duration::from_millis(1500);
/// A claim that the directory does not answer within this is decided without it.
const ALONE_AFTER: Duration = Duration::from_millis(750);
/// A claim waits this long for word of a node that may be dead.
const VERDICT_WITHIN: Duration = Duration::from_millis(5000);
/// So long a node counts as later than all others of its name: an earlier one may not have been heard since the
/// directory lost what it had.
const NEWCOMER_FOR: Duration = Duration::from_secs(60);
/// What the directory lost is remembered this long after its return, for its owners to write it again; and
/// what was granted without it may be contested this long.
const SETTLE: Duration = Duration::from_millis(2000);
/// A write that the server refused, as when a bucket is full, is tried again after this.
const RETRY_REFUSED: Duration = Duration::from_millis(1000);
/// Marks of deleted keys are removed after this.
const TIDY_AFTER: Duration = Duration::from_secs(60);
/// After it left out what was too much, a node looks this often whether there is room, and reads the directory
/// again.
const ROOM_AGAIN: Duration = Duration::from_secs(10);
/// A machine that nobody called for this long past its time was not running: others may have forgotten it.
const AWAY_AFTER: Duration = Duration::from_millis(1500);

/// An epoch this far beyond all that are known was made up: a cluster has a thousand publications a second
/// for 35 years before a node that knows none meets such a one.
const EPOCH_STEP_MAX: u64 = 1 << 40;

/// Writes under way at once.
const WRITES_MAX: usize = 128;
/// Instances known at once, living or not.
pub const INSTANCES_MAX: usize = 1024;
/// Streams and feeds of one instance.
pub const STREAMS_PER_NODE_MAX: usize = 16_384;
/// Streams in all.
pub const STREAMS_MAX: usize = 200_000;
/// Feeds in all.
pub const FEEDS_MAX: usize = 400_000;

/// What to do about a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The publisher that has it keeps it.
    Refuse,
    /// The new one gets it, and the old one is told.
    TakeOver,
}

/// A publisher may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Number of the publication.
    pub epoch: Epoch,
    /// The directory could not be asked; [`Event::Lost`] follows if another turns out to have the name.
    pub provisional: bool,
    /// The node whose publication this one replaces.
    pub replaced: Option<NodeName>,
}

/// Why a publisher may not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This node publishes it.
    TakenBy(NodeName),
    /// The description or the node's number of streams is beyond its limit.
    TooMuch,
    /// This node leaves, or lost its name.
    Leaving,
}

/// Number of a claim that was not answered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClaimId(pub(crate) u64);

/// Where a stream is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The node.
    pub node: NodeName,
    /// Which start of it.
    pub instance: InstanceId,
    /// Number of the publication.
    pub epoch: Epoch,
    /// What it has.
    pub description: Arc<Description>,
}

/// Why a node is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It said so.
    Left,
    /// It was not heard.
    Silent,
    /// It was started again.
    Restarted,
}

/// Why a publication lost its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostBecause {
    /// Another publisher took over, as the policy says.
    TakenOver,
    /// This node was not heard by the others, and another publisher began meanwhile.
    NotHeard,
    /// Both were granted while the directory could not be asked, or this one was and the other had the name.
    Split,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node came.
    NodeUp(Arc<Node>),
    /// Its addresses, region or draining changed. Its load alone is no event.
    NodeChanged(Arc<Node>),
    /// A node is not there any more; its streams went by events of their own.
    NodeGone(NodeName, Gone),
    /// A stream is published: again, elsewhere than before, or with another description.
    StreamUp(StreamName, Home),
    /// A stream has no publisher any more.
    StreamGone(StreamName),
    /// Who fetches a stream from whom changed.
    FeedsChanged(StreamName),
    /// A publication of this node lost its name to one on `to`, and has to end.
    Lost {
        /// The stream.
        stream: StreamName,
        /// Number of the publication.
        epoch: Epoch,
        /// Where it is published now.
        to: NodeName,
        /// Why.
        because: LostBecause,
    },
    /// The directory is heard again, or for the first time.
    Heard,
    /// The directory is not heard; what was known stays.
    NotHeard,
    /// Another living node has this node's name: this one is out until it is started with another.
    NameTaken {
        /// The other one.
        by: InstanceId,
    },
}

/// What the machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start over with NATS: buckets, then all they hold. Not before [`Input::Began`] is anything heard.
    Resync,
    /// Write `value` (or delete, without one) if the key's last revision is the one `expected`, if any.
    Write { number: u64, key: Key, value: Option<Bytes>, expected: Option<u64> },
    /// Send a heartbeat, and look whose there are.
    Heartbeat { number: u64 },
    /// Say that the directory does not store this node's heartbeats.
    Unstored,
    /// Say it no more: it does again.
    StoredAgain,
    /// Ask whether anybody listens for this instance.
    Ask(InstanceId),
    /// Remove all of a key up to this revision.
    Purge { key: Key, revision: u64 },
    /// Answer a claim.
    Answer(ClaimId, Result<Granted, Refusal>),
    /// Tell readers.
    Tell(Event),
}

/// What comes from NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Everything the buckets hold follows, then `Synced`.
    Began,
    /// A key was seen with this value, or deleted.
    Seen { bucket: Bucket, key: String, revision: u64, value: Option<Bytes> },
    /// All that was there has been seen.
    Synced,
    /// The connection is lost or stands still.
    Lost,
    /// What became of a write.
    Written { number: u64, key: Key, outcome: Outcome },
    /// Whose heartbeats there are; nothing if that could not be found out.
    Heartbeats { number: u64, heartbeats: Option<HashSet<InstanceId>> },
    /// What became of a question.
    Asked(InstanceId, Answer),
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, with this revision.
    Done(u64),
    /// The last revision is another; this is what the key has now.
    Conflict(Option<(u64, Option<Bytes>)>),
    /// The server said no.
    Refused,
    /// Nothing was heard.
    Failed,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is there.
    Alive,
    /// Nobody listens.
    Nobody,
    /// No answer.
    Silence,
}

/// Nonsense seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NonsenseCount {
    /// All of it.
    pub total: u64,
    /// The last kind.
    pub last: Option<Nonsense>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    Syncing,
    Live { since: Duration },
}

#[derive(Debug)]
struct Peer {
    /// Absent as long as only streams of it were seen.
    record: Option<Arc<Node>>,
    /// Of the record.
    revision: u64,
    /// When it was last known to be there.
    seen_at: Duration,
    /// Looks since then that did not find its heartbeat.
    missed: u32,
    /// When a stream of it was last seen to be written.
    wrote_at: Duration,
    gone: bool,
    asking: bool,
    /// Times in a row that nobody listened.
    unreached: u8,
    streams: HashSet<StreamName>,
    feeds: HashSet<StreamName>,
}

/// What the directory says of a stream.
#[derive(Debug)]
struct Entry {
    /// 0 if the directory may not have it any more.
    revision: u64,
    generation: u64,
    /// Absent after a deletion.
    record: Option<StreamRecord>,
}

#[derive(Debug)]
struct FeedEntry {
    revision: u64,
    generation: u64,
    record: FeedRecord,
}

/// A publication of this node.
#[derive(Debug)]
struct Own {
    record: StreamRecord,
    state: OwnState,
    replaced: Option<NodeName>,
    /// When a provisional one is no longer contested.
    upgrade_at: Option<Duration>,
    /// The server takes no more.
    refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnState {
    Asking { claim: ClaimId, policy: Policy, since: Duration },
    Granted,
}

#[derive(Debug)]
struct Writing {
    number: u64,
    value: Option<Bytes>,
    expected: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Timer {
    Announce,
    Heartbeat,
    Echo,
    Settle,
    Tidy,
    Room,
    Silent(InstanceId),
    Ask(InstanceId),
    Own(StreamName),
    Retry(Key),
}

/// One node's view of the directory.
#[derive(Debug)]
pub(crate) struct Machine {
    me: Node,
    link: Link,
    /// When the directory was last heard, while it is not.
    unheard_since: Duration,
    /// This node's name is not known to be its own until it was seen to be free.
    named: bool,
    /// When its name was first its own.
    named_at: Option<Duration>,
    /// Its CPU was busy, and has not been at rest since.
    hot: bool,
    /// It leaves, or another has its name.
    out: bool,
    generation: u64,
    lamport: u64,
    nodes: HashMap<InstanceId, Peer>,
    by_name: HashMap<NodeName, InstanceId>,
    streams: HashMap<StreamName, Entry>,
    feeds: HashMap<StreamName, BTreeMap<NodeName, FeedEntry>>,
    feeds_count: usize,
    own: HashMap<StreamName, Own>,
    own_feeds: HashMap<StreamName, NodeName>,
    shown: HashMap<StreamName, Home>,
    unreachable: HashSet<NodeName>,
    /// Claims that wait for word of an instance.
    waiting: HashMap<InstanceId, Vec<StreamName>>,
    /// Keys with a write under way, and its number.
    writing: HashMap<Key, Writing>,
    /// Keys to look at when there is room for a write.
    queue: VecDeque<Key>,
    queued: HashSet<Key>,
    tombstones: VecDeque<(Duration, Key, u64)>,
    timers: BTreeSet<(Duration, Timer)>,
    timer_at: HashMap<Timer, Duration>,
    echo_due: Option<Duration>,
    /// There was more to announce while an announcement was under way.
    announce_again: bool,
    /// Number of the heartbeat that was not answered yet, and when it was sent.
    beat: Option<(u64, Duration)>,
    /// The look before failed.
    beat_failed: bool,
    /// Looks in a row that did not find this node's own heartbeat.
    unstored: u32,
    last_number: u64,
    last_claim: u64,
    nonsense: NonsenseCount,
    actions: Vec<Action>,
}

impl Machine {
    /// A node that has heard nothing yet.
    pub(crate) fn new(me: Node, now: Duration) -> Self {
        Self {
            me,
            link: Link::Down,
            unheard_since: now,
            named: false,
            named_at: None,
            hot: false,
            out: false,
            generation: 0,
            lamport: 0,
            nodes: HashMap::new(),
            by_name: HashMap::new(),
            streams: HashMap::new(),
            feeds: HashMap::new(),
            feeds_count: 0,
            own: HashMap::new(),
            own_feeds: HashMap::new(),
            shown: HashMap::new(),
            unreachable: HashSet::new(),
            waiting: HashMap::new(),
            writing: HashMap::new(),
            queue: VecDeque::new(),
            queued: HashSet::new(),
            tombstones: VecDeque::new(),
            timers: BTreeSet::new(),
            timer_at: HashMap::new(),
            echo_due: None,
            announce_again: false,
            beat: None,
            beat_failed: false,
            unstored: 0,
            last_number: 0,
            last_claim: 0,
            nonsense: NonsenseCount::default(),
            actions: Vec::new(),
        }
    }

    /// A publisher for `stream` is here. The answer follows as [`Action::Answer`], maybe at once.
    pub(crate) fn claim(
        &mut self,
        now: Duration,
        stream: &StreamName,
        description: Arc<Description>,
        policy: Policy,
    ) -> ClaimId {
        self.last_claim += 1;
        let claim = ClaimId(self.last_claim);
        let refusal = match self.own.get(stream) {
            _ if self.out => Some(Refusal::Leaving),
            _ if !description.fits() => Some(Refusal::TooMuch),
            None if self.own.len() >= STREAMS_PER_NODE_MAX => Some(Refusal::TooMuch),
            Some(own) if policy == Policy::Refuse || own.state != OwnState::Granted => {
                Some(Refusal::TakenBy(self.me.name.clone()))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.actions.push(Action::Answer(claim, Err(refusal)));
            return claim;
        }
        let replaced = self.own.get(stream).map(|_| self.me.name.clone());
        let how = match self.own.get(stream) {
            // It has the name already, by the right it had before.
            Some(own) => own.record.how,
            None => How::Free,
        };
        let record = self.record(how, description);
        let state = OwnState::Asking { claim, policy, since: now };
        self.own.insert(stream.clone(), Own { record, state, replaced, upgrade_at: None, refused: false });
        self.set_timer(now + ALONE_AFTER, Timer::Own(stream.clone()));
        self.look_at(now, Key::Stream(stream.clone()));
        claim
    }

    /// The publication ended. Nothing happens if it is not the present one.
    pub(crate) fn release(&mut self, now: Duration, stream: &StreamName, epoch: Epoch) {
        if self.own.get(stream).is_some_and(|own| own.record.epoch == epoch) {
            self.drop_own(now, stream);
        }
    }

    /// Nobody waits for the answer of a claim any more: it ends, or its publication does.
    pub(crate) fn abandon(&mut self, now: Duration, stream: &StreamName, claim: ClaimId) {
        let is_it =
            |own: &Own| matches!(own.state, OwnState::Asking { claim: asking, .. } if asking == claim);
        if self.own.get(stream).is_some_and(is_it) {
            self.drop_own(now, stream);
        }
    }

    /// The publication has other codecs or tracks. Says whether it is the present one and the description
    /// fits.
    pub(crate) fn update(
        &mut self,
        now: Duration,
        stream: &StreamName,
        epoch: Epoch,
        description: Arc<Description>,
    ) -> bool {
        let Some(own) = self.own.get_mut(stream).filter(|own| own.record.epoch == epoch) else {
            return false;
        };
        if !description.fits() {
            return false;
        }
        own.record.description = description;
        self.look_at(now, Key::Stream(stream.clone()));
        self.refresh(stream);
        true
    }

    /// This node fetches `stream` from `parent`, or from nobody. Says whether there was room.
    pub(crate) fn set_feed(&mut self, now: Duration, stream: &StreamName, parent: Option<NodeName>) -> bool {
        match parent {
            _ if self.out => return false,
            Some(parent) => {
                if self.own_feeds.len() >= STREAMS_PER_NODE_MAX && !self.own_feeds.contains_key(stream) {
                    return false;
                }
                self.own_feeds.insert(stream.clone(), parent);
            }
            None => {
                self.own_feeds.remove(stream);
            }
        }
        self.look_at(now, Key::Feed(stream.clone(), self.me.name.clone()));
        self.actions.push(Action::Tell(Event::FeedsChanged(stream.clone())));
        true
    }

    /// What the next announcement says of this node's load; that it is busy, or is not any more, is said at
    /// once.
    pub(crate) fn set_load(&mut self, now: Duration, load: Load) {
        let was_busy = self.me.load.is_busy();
        self.hot = load.cpu_permille >= if self.hot { AT_REST_PERMILLE } else { BUSY_PERMILLE };
        self.me.load = Load { full: load.full || self.hot, ..load };
        if was_busy != self.me.load.is_busy() {
            self.announce(now);
        }
    }

    /// This node takes nobody any more; said at once.
    pub(crate) fn set_draining(&mut self, now: Duration, draining: bool) {
        self.me.draining = draining;
        self.announce(now);
    }

    /// This node leaves: it and its streams are forgotten by the others at once.
    pub(crate) fn leave(&mut self, now: Duration) {
        if self.out {
            return;
        }
        self.out = true;
        if matches!(self.link, Link::Live { .. }) && self.named {
            self.write(Key::Node(self.me.name.clone()), None, None);
        }
        self.drop_all_own(now);
    }

    /// What the caller's own link to a node says: of one that cannot be reached, names can be had while the
    /// directory cannot be asked, and it is asked for when it can.
    pub(crate) fn set_reachable(&mut self, node: &NodeName, reachable: bool) {
        if reachable {
            self.unreachable.remove(node);
        } else if let Some(&instance) = self.by_name.get(node) {
            self.unreachable.insert(node.clone());
            self.ask(instance);
        }
    }

    /// What NATS says.
    pub(crate) fn handle(&mut self, now: Duration, input: Input) {
        match input {
            Input::Began => {
                self.lose_link(now);
                self.generation += 1;
                self.tombstones.clear();
                self.stop_timer(&Timer::Room);
                self.link = Link::Syncing;
            }
            Input::Seen { bucket, key, revision, value } => self.seen(now, bucket, &key, revision, value),
            Input::Synced => self.synced(now),
            Input::Lost => self.lose_link(now),
            Input::Written { number, key, outcome } => self.written(now, number, key, outcome),
            Input::Heartbeats { number, heartbeats } => self.heartbeats_seen(now, number, heartbeats),
            Input::Asked(instance, answer) => self.asked(now, instance, answer),
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Duration) {
        if let (Link::Live { .. }, Some((due, _))) = (self.link, self.timers.first())
            && now.saturating_sub(*due) > AWAY_AFTER
        {
            // The process or its machine stood still: it cannot know what it missed.
            self.restart_link(now);
        }
        while let Some((due, _)) = self.timers.first()
            && *due <= now
        {
            let (_, timer) = self.timers.pop_first().expect("there is a first one");
            self.timer_at.remove(&timer);
            match timer {
                Timer::Announce => self.announce(now),
                Timer::Heartbeat => self.beat(now),
                Timer::Echo => {
                    if self.is_live() && self.echo_due.is_some_and(|due| due <= now) {
                        self.restart_link(now);
                    }
                }
                Timer::Settle => self.forget_remembered(now),
                Timer::Tidy => self.tidy(now),
                Timer::Room if self.has_room() => self.restart_link(now),
                Timer::Room => self.set_timer(now + ROOM_AGAIN, Timer::Room),
                Timer::Silent(instance) => self.check_silent(now, instance),
                Timer::Ask(instance) => self.ask(instance),
                Timer::Own(stream) => self.own_due(now, &stream),
                Timer::Retry(key) => self.look_at(now, key),
            }
        }
    }

    /// What to do, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Machine::tick`] at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Where `stream` is published.
    pub(crate) fn find(&self, stream: &StreamName) -> Option<&Home> {
        self.shown.get(stream)
    }

    /// All that is published.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&StreamName, &Home)> {
        self.shown.iter()
    }

    /// Who fetches `stream` from whom: child, then parent.
    pub(crate) fn feeds(&self, stream: &StreamName) -> Vec<(NodeName, NodeName)> {
        let mut feeds: BTreeMap<NodeName, NodeName> = BTreeMap::new();
        for entry in self.feeds.get(stream).into_iter().flat_map(BTreeMap::values) {
            let lives = self.nodes.get(&entry.record.instance).is_some_and(|peer| !peer.gone);
            if lives && entry.record.instance != self.me.instance {
                feeds.insert(entry.record.node.clone(), entry.record.parent.clone());
            }
        }
        if let Some(parent) = self.own_feeds.get(stream) {
            feeds.insert(self.me.name.clone(), parent.clone());
        }
        feeds.into_iter().collect()
    }

    /// All nodes that live, this one first.
    pub(crate) fn living(&self) -> impl Iterator<Item = Node> + '_ {
        let others = self.nodes.values().filter(|peer| !peer.gone).filter_map(|peer| peer.record.as_deref());
        (!self.out).then(|| self.me.clone()).into_iter().chain(others.cloned())
    }

    /// Whether the directory is heard.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.link, Link::Live { .. })
    }

    /// Whether this node has its name.
    pub(crate) fn is_named(&self) -> bool {
        self.named && !self.out
    }

    /// This node's name.
    pub(crate) fn name(&self) -> &NodeName {
        &self.me.name
    }

    /// Whether something of a leave is still to be done.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_live() && !(self.writing.is_empty() && self.queue.is_empty())
    }

    /// Whether nothing waits to be written or answered.
    pub(crate) fn is_settled(&self) -> bool {
        let alike = |(name, own): (&StreamName, &Own)| {
            own.state == OwnState::Granted
                && self
                    .streams
                    .get(name)
                    .is_some_and(|entry| entry.record.as_ref() == Some(&own.record) && entry.revision > 0)
        };
        let writes = self.writing.keys().any(|key| !matches!(key, Key::Node(_)));
        self.is_live() && !writes && self.queue.is_empty() && self.own.iter().all(alike)
    }

    /// What was ignored so far.
    pub(crate) fn nonsense(&self) -> NonsenseCount {
        self.nonsense
    }

    fn record(&mut self, how: How, description: Arc<Description>) -> StreamRecord {
        let epoch = self.next_epoch();
        StreamRecord { instance: self.me.instance, node: self.me.name.clone(), epoch, how, description }
    }

    fn next_epoch(&mut self) -> Epoch {
        self.lamport = (self.lamport + 1).min(EPOCH_MAX.0);
        Epoch(self.lamport)
    }

    /// The next epoch, larger than `other` if there is a larger one.
    fn epoch_after(&mut self, other: Epoch) -> Epoch {
        self.hear_epoch(other);
        let next = self.next_epoch();
        next.max(Epoch(other.0.saturating_add(1)).min(EPOCH_MAX))
    }

    /// Later epochs of this node are larger, unless this one was made up: nothing would be left then.
    fn hear_epoch(&mut self, epoch: Epoch) {
        if epoch.0 < self.lamport.saturating_add(EPOCH_STEP_MAX) {
            self.lamport = self.lamport.max(epoch.0);
        }
    }

    /// Brings what readers see of `stream` up to date, and tells them of the difference.
    fn refresh(&mut self, stream: &StreamName) {
        // One that is claimed again on this node is shown until its successor is granted.
        let was_ours = self.streams.get(stream).and_then(|entry| entry.record.as_ref());
        let was_ours = was_ours.is_some_and(|record| record.instance == self.me.instance);
        let own = self.own.get(stream).filter(|own| own.state == OwnState::Granted || was_ours);
        let own = own.map(|own| &own.record);
        let listed = || {
            let record = self.streams.get(stream)?.record.as_ref()?;
            let peer = self.nodes.get(&record.instance)?;
            (!peer.gone && peer.record.is_some() && record.instance != self.me.instance).then_some(record)
        };
        let home = own.or_else(listed).map(|record| Home {
            node: record.node.clone(),
            instance: record.instance,
            epoch: record.epoch,
            description: record.description.clone(),
        });
        if self.shown.get(stream) == home.as_ref() {
            return;
        }
        let event = match home {
            Some(home) => {
                self.shown.insert(stream.clone(), home.clone());
                Event::StreamUp(stream.clone(), home)
            }
            None => {
                self.shown.remove(stream);
                Event::StreamGone(stream.clone())
            }
        };
        self.actions.push(Action::Tell(event));
    }

    fn drop_own(&mut self, now: Duration, stream: &StreamName) {
        if let Some(own) = self.own.remove(stream)
            && let OwnState::Asking { claim, .. } = own.state
        {
            self.actions.push(Action::Answer(claim, Err(Refusal::Leaving)));
        }
        self.refresh(stream);
        self.look_at(now, Key::Stream(stream.clone()));
    }

    fn drop_all_own(&mut self, now: Duration) {
        for stream in self.own.keys().cloned().collect::<Vec<_>>() {
            self.drop_own(now, &stream);
        }
        for stream in std::mem::take(&mut self.own_feeds).into_keys() {
            self.look_at(now, Key::Feed(stream.clone(), self.me.name.clone()));
            self.actions.push(Action::Tell(Event::FeedsChanged(stream)));
        }
    }

    /// One of each kind at a time: the last counts.
    fn set_timer(&mut self, at: Duration, timer: Timer) {
        if let Some(before) = self.timer_at.insert(timer.clone(), at) {
            self.timers.remove(&(before, timer.clone()));
        }
        self.timers.insert((at, timer));
    }

    fn stop_timer(&mut self, timer: &Timer) {
        if let Some(at) = self.timer_at.remove(timer) {
            self.timers.remove(&(at, timer.clone()));
        }
    }

    /// One more than the limit is ignored, until there is room and the directory is read again.
    fn leave_out(&mut self, now: Duration) {
        self.ignore(Nonsense::TooMany);
        if !self.timer_at.contains_key(&Timer::Room) {
            self.set_timer(now + ROOM_AGAIN, Timer::Room);
        }
    }

    /// Whether any entry could be taken.
    fn has_room(&self) -> bool {
        let of_each = |peer: &Peer| {
            peer.streams.len() < STREAMS_PER_NODE_MAX && peer.feeds.len() < STREAMS_PER_NODE_MAX
        };
        self.nodes.len() < INSTANCES_MAX
            && self.streams.len() < STREAMS_MAX
            && self.feeds_count < FEEDS_MAX
            && self.nodes.values().all(of_each)
    }

    fn ignore(&mut self, nonsense: Nonsense) {
        self.nonsense.total += 1;
        self.nonsense.last = Some(nonsense);
    }
}
