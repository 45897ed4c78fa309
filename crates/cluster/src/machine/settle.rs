//! What is wanted, compared with what the directory says: writes, claims, conflicts, and the return of NATS.

use std::time::Duration;

use bytes::Bytes;

use super::{
    ALONE_AFTER, ASK_AGAIN, Action, Bucket, Entry, Event, FEEDS_MAX, FeedEntry, Granted, Key, Link,
    LostBecause, Machine, Outcome, OwnState, Policy, RETRY_REFUSED, Refusal, SETTLE, STREAMS_MAX,
    STREAMS_PER_NODE_MAX, TIDY_AFTER, Timer, VERDICT_WITHIN, WRITES_MAX, Writing,
};
use crate::names::{NodeName, StreamName};
use crate::record::{FeedRecord, How, Nonsense, StreamRecord};

/// Marks of deleted keys that are remembered for removal.
const TOMBSTONES_MAX: usize = 100_000;
/// Marks removed at once, and the pause before more.
const TIDY_BATCH: usize = 64;
const TIDY_PAUSE: Duration = Duration::from_millis(100);

impl Machine {
    pub(super) fn seen(
        &mut self,
        now: Duration,
        bucket: Bucket,
        key: &str,
        revision: u64,
        value: Option<Bytes>,
    ) {
        match Key::parse(bucket, key) {
            Some(key) => self.key_seen(now, key, revision, value.as_deref()),
            None => self.ignore(Nonsense::Key),
        }
    }

    fn key_seen(&mut self, now: Duration, key: Key, revision: u64, value: Option<&[u8]>) {
        match key {
            Key::Node(name) => self.node_seen(now, name, revision, value),
            Key::Stream(stream) => match value.map(StreamRecord::decode).transpose() {
                Ok(record) => self.stream_seen(now, stream, revision, record),
                Err(nonsense) => {
                    self.ignore(nonsense);
                    // Whoever wrote it, a name of ours or one that is known here is free now.
                    if self.streams.contains_key(&stream) || self.own.contains_key(&stream) {
                        self.stream_seen(now, stream, revision, None);
                    }
                }
            },
            Key::Feed(stream, node) => match value.map(FeedRecord::decode).transpose() {
                Ok(record) if record.as_ref().is_none_or(|record| record.node == node) => {
                    self.feed_seen(now, stream, node, revision, record);
                }
                Ok(_) => self.ignore(Nonsense::Contents),
                Err(nonsense) => self.ignore(nonsense),
            },
        }
    }

    fn stream_seen(
        &mut self,
        now: Duration,
        stream: StreamName,
        revision: u64,
        record: Option<StreamRecord>,
    ) {
        let before = self.streams.get(&stream);
        if before.is_some_and(|entry| entry.generation == self.generation && entry.revision >= revision) {
            return;
        }
        let is_new = before.is_none();
        let old = before.and_then(|entry| entry.record.as_ref()).map(|record| record.instance);
        let foreign =
            record.as_ref().map(|record| record.instance).filter(|&other| other != self.me.instance);
        if let Some(instance) = foreign {
            let room = self.peer_entry(now, instance)
                && (old.is_some() || self.streams.len() < STREAMS_MAX)
                && (old == Some(instance) || self.nodes[&instance].streams.len() < STREAMS_PER_NODE_MAX);
            if !room {
                self.leave_out(now);
                return;
            }
        }
        let is_own = self.own.contains_key(&stream);
        if record.is_none() && is_new && !is_own && self.streams.len() >= STREAMS_MAX {
            // A mark of a deletion that is not known costs the next claim another round.
            return;
        }
        if let Some(old) = old
            && foreign != Some(old)
            && let Some(peer) = self.nodes.get_mut(&old)
        {
            peer.streams.remove(&stream);
            self.forget_if_unused(old);
        }
        if let Some(peer) = foreign.and_then(|instance| self.nodes.get_mut(&instance)) {
            peer.streams.insert(stream.clone());
            peer.wrote_at = now;
        }
        match &record {
            Some(record) => self.hear_epoch(record.epoch),
            None => self.bury(now, Key::Stream(stream.clone()), revision),
        }
        self.streams.insert(stream.clone(), Entry { revision, generation: self.generation, record });
        self.refresh(&stream);
        if self.is_live() {
            self.look_at(now, Key::Stream(stream));
        }
    }

    fn feed_seen(
        &mut self,
        now: Duration,
        stream: StreamName,
        node: NodeName,
        revision: u64,
        record: Option<FeedRecord>,
    ) {
        let before = self.feeds.get(&stream).and_then(|feeds| feeds.get(&node));
        if before.is_some_and(|entry| entry.generation == self.generation && entry.revision >= revision) {
            return;
        }
        let old = before.map(|entry| entry.record.clone());
        if let Some(record) = &record {
            let instance = record.instance;
            let room = instance == self.me.instance
                || self.peer_entry(now, instance)
                    && self.feeds_count < FEEDS_MAX
                    && self.nodes[&instance].feeds.len() < STREAMS_PER_NODE_MAX;
            if !room {
                self.leave_out(now);
                return;
            }
        }
        self.remove_feed(&stream, &node);
        match &record {
            Some(record) => {
                if let Some(peer) = self.nodes.get_mut(&record.instance) {
                    peer.feeds.insert(stream.clone());
                }
                let entry = FeedEntry { revision, generation: self.generation, record: record.clone() };
                self.feeds.entry(stream.clone()).or_default().insert(node.clone(), entry);
                self.feeds_count += 1;
            }
            None => self.bury(now, Key::Feed(stream.clone(), node.clone()), revision),
        }
        if old != record && node != self.me.name {
            self.actions.push(Action::Tell(Event::FeedsChanged(stream.clone())));
        }
        if self.is_live() {
            self.look_at(now, Key::Feed(stream, node));
        }
    }

    fn remove_feed(&mut self, stream: &StreamName, node: &NodeName) {
        let Some(feeds) = self.feeds.get_mut(stream) else { return };
        if let Some(entry) = feeds.remove(node) {
            self.feeds_count -= 1;
            if feeds.is_empty() {
                self.feeds.remove(stream);
            }
            if let Some(peer) = self.nodes.get_mut(&entry.record.instance) {
                peer.feeds.remove(stream);
                self.forget_if_unused(entry.record.instance);
            }
        }
    }

    /// What this node still has to write, delete, answer or give up for `key`.
    pub(super) fn look_at(&mut self, now: Duration, key: Key) {
        if !self.is_live() {
            if let Key::Stream(stream) = key {
                self.decide_alone(now, &stream);
            }
            return;
        }
        if self.writing.contains_key(&key) {
            return;
        }
        if self.writing.len() >= WRITES_MAX {
            if self.queued.insert(key.clone()) {
                self.queue.push_back(key);
            }
            return;
        }
        match key {
            Key::Node(_) => {}
            Key::Stream(stream) if self.own.contains_key(&stream) => self.look_at_own(now, stream),
            Key::Stream(stream) => self.look_at_left(stream),
            Key::Feed(stream, node) => self.look_at_feed(stream, node),
        }
    }

    /// A stream that this node publishes or wants to.
    fn look_at_own(&mut self, now: Duration, stream: StreamName) {
        let own = self.own.get_mut(&stream).expect("the caller has looked");
        let entry = self.streams.get(&stream);
        let revision = entry.map_or(0, |entry| entry.revision);
        let Some(theirs) = entry.and_then(|entry| entry.record.as_ref()) else {
            return self.write_own(stream, revision);
        };
        if theirs.instance == self.me.instance {
            return match theirs == &own.record && revision > 0 {
                true => self.own_is_written(now, &stream),
                false => self.write_own(stream, revision),
            };
        }
        let gone = self.nodes.get(&theirs.instance).is_none_or(|peer| peer.gone);
        match own.state {
            OwnState::Asking { policy, .. } if gone || policy == Policy::TakeOver => {
                own.record.how = if gone { How::AfterSilence } else { How::TookOver };
                own.replaced = Some(theirs.node.clone());
                let theirs = theirs.epoch;
                if own.record.epoch <= theirs {
                    let epoch = self.epoch_after(theirs);
                    self.own.get_mut(&stream).expect("it was there").record.epoch = epoch;
                }
                self.write_own(stream, revision);
            }
            OwnState::Asking { .. } => {
                let instance = theirs.instance;
                self.waiting.entry(instance).or_default().push(stream);
                self.ask(instance);
            }
            OwnState::Granted if gone || own.record.rank() > theirs.rank() => {
                self.write_own(stream, revision)
            }
            OwnState::Granted => {
                let because = match (own.record.how, theirs.how) {
                    (_, How::TookOver) => LostBecause::TakenOver,
                    (How::Provisional, _) => LostBecause::Split,
                    // What the directory has granted it grants again only when its node is not heard.
                    _ => LostBecause::NotHeard,
                };
                let (epoch, to) = (own.record.epoch, theirs.node.clone());
                self.own.remove(&stream);
                self.stop_timer(&Timer::Own(stream.clone()));
                self.actions.push(Action::Tell(Event::Lost { stream: stream.clone(), epoch, to, because }));
                self.refresh(&stream);
            }
        }
    }

    fn own_is_written(&mut self, now: Duration, stream: &StreamName) {
        let own = self.own.get_mut(stream).expect("the caller has looked");
        own.refused = false;
        let asking = own.state;
        own.state = OwnState::Granted;
        let contested = own.record.how == How::Provisional && own.upgrade_at.is_none();
        if contested {
            own.upgrade_at = Some(now + SETTLE);
        }
        if let OwnState::Asking { claim, .. } = asking {
            let granted =
                Granted { epoch: own.record.epoch, provisional: false, replaced: own.replaced.clone() };
            self.actions.push(Action::Answer(claim, Ok(granted)));
            self.stop_timer(&Timer::Own(stream.clone()));
            self.refresh(stream);
        }
        if contested {
            self.set_timer(now + SETTLE, Timer::Own(stream.clone()));
        }
    }

    /// A stream that this node does not want: what it wrote is removed, and what the dead left.
    fn look_at_left(&mut self, stream: StreamName) {
        let Some(entry) = self.streams.get_mut(&stream) else { return };
        let Some(instance) = entry.record.as_ref().map(|record| record.instance) else { return };
        let mine = instance == self.me.instance;
        if mine && entry.revision == 0 {
            entry.record = None;
            return;
        }
        let revision = entry.revision;
        let dead = self.nodes.get(&instance).is_some_and(|peer| peer.gone);
        if revision > 0 && (mine || dead && self.is_cleaner()) {
            self.write(Key::Stream(stream), None, Some(revision));
        }
    }

    fn look_at_feed(&mut self, stream: StreamName, node: NodeName) {
        let entry = self.feeds.get(&stream).and_then(|feeds| feeds.get(&node));
        let key = Key::Feed(stream.clone(), node.clone());
        if node != self.me.name {
            if let Some(entry) = entry
                && entry.revision > 0
                && self.nodes.get(&entry.record.instance).is_some_and(|peer| peer.gone)
                && self.is_cleaner()
            {
                let revision = entry.revision;
                self.write(key, None, Some(revision));
            }
            return;
        }
        match (self.own_feeds.get(&stream), entry) {
            (Some(parent), entry) => {
                let record =
                    FeedRecord { instance: self.me.instance, node: node.clone(), parent: parent.clone() };
                if entry.is_none_or(|entry| entry.record != record || entry.revision == 0) {
                    // Only this node writes its keys.
                    self.write(key, Some(Bytes::from(record.encode())), None);
                }
            }
            (None, Some(entry)) if entry.revision > 0 => self.write(key, None, None),
            (None, Some(_)) => self.remove_feed(&stream, &node),
            (None, None) => {}
        }
    }

    fn write_own(&mut self, stream: StreamName, revision: u64) {
        let value = Bytes::from(self.own[&stream].record.encode());
        self.write(Key::Stream(stream), Some(value), Some(revision));
    }

    pub(super) fn write(&mut self, key: Key, value: Option<Bytes>, expected: Option<u64>) {
        self.last_number += 1;
        let number = self.last_number;
        self.writing.insert(key.clone(), Writing { number, value: value.clone(), expected });
        self.actions.push(Action::Write { number, key, value, expected });
    }

    pub(super) fn written(&mut self, now: Duration, number: u64, key: Key, outcome: Outcome) {
        if self.writing.get(&key).is_none_or(|writing| writing.number != number) {
            return;
        }
        let writing = self.writing.remove(&key).expect("it was just seen");
        let is_node = matches!(key, Key::Node(_));
        match outcome {
            Outcome::Done(_) if is_node => {
                if self.announce_again && key == Key::Node(self.me.name.clone()) {
                    self.announce(now);
                }
            }
            Outcome::Done(revision) => self.key_seen(now, key.clone(), revision, writing.value.as_deref()),
            Outcome::Conflict(current) => {
                match (current, &key) {
                    (Some((revision, value)), _) => {
                        self.key_seen(now, key.clone(), revision, value.as_deref());
                        if let Key::Stream(stream) = &key
                            && !self.streams.contains_key(stream)
                        {
                            // Somebody has it of whom there is no room to know.
                            self.refuse_unknown(now, stream, value.as_deref());
                            self.set_timer(now + RETRY_REFUSED, Timer::Retry(key));
                            return self.write_queued(now);
                        }
                        if writing.expected == Some(revision) {
                            // An answer from before the write that won: the next one will be newer.
                            self.set_timer(now + ASK_AGAIN, Timer::Retry(key));
                            return self.write_queued(now);
                        }
                    }
                    (None, Key::Stream(stream)) => self.forget_entry(stream),
                    (None, Key::Feed(stream, node)) => self.remove_feed(stream, node),
                    (None, Key::Node(_)) => {}
                }
            }
            Outcome::Refused => {
                if let Key::Stream(stream) = &key
                    && let Some(own) = self.own.get_mut(stream)
                {
                    own.refused = true;
                }
                if !is_node {
                    self.set_timer(now + RETRY_REFUSED, Timer::Retry(key));
                }
                return self.write_queued(now);
            }
            Outcome::Failed => return self.restart_link(now),
        }
        self.look_at(now, key);
        self.write_queued(now);
    }

    /// A claim of a name that a node has of which nothing is kept ends when it had its time.
    fn refuse_unknown(&mut self, now: Duration, stream: &StreamName, value: Option<&[u8]>) {
        if let Some(OwnState::Asking { claim, since, .. }) = self.own.get(stream).map(|own| own.state)
            && now >= since + VERDICT_WITHIN
            && let Some(Ok(record)) = value.map(StreamRecord::decode)
        {
            self.own.remove(stream);
            self.stop_timer(&Timer::Own(stream.clone()));
            self.actions.push(Action::Answer(claim, Err(Refusal::TakenBy(record.node))));
        }
    }

    fn write_queued(&mut self, now: Duration) {
        while self.writing.len() < WRITES_MAX
            && let Some(key) = self.queue.pop_front()
        {
            self.queued.remove(&key);
            self.look_at(now, key);
        }
    }

    /// A claim's time is up, or a provisional publication is no longer contested.
    pub(super) fn own_due(&mut self, now: Duration, stream: &StreamName) {
        let live = self.is_live();
        let Some(own) = self.own.get_mut(stream) else { return };
        match own.state {
            OwnState::Asking { .. } if !live || own.refused => self.decide_alone(now, stream),
            OwnState::Asking { claim, since, .. } => {
                let holder = self.streams.get(stream).and_then(|entry| entry.record.as_ref());
                let holder = holder.filter(|record| record.instance != self.me.instance);
                if now >= since + VERDICT_WITHIN
                    && let Some(node) = holder.map(|record| record.node.clone())
                {
                    self.own.remove(stream);
                    self.actions.push(Action::Answer(claim, Err(Refusal::TakenBy(node))));
                } else {
                    self.set_timer(now + ASK_AGAIN, Timer::Own(stream.clone()));
                }
            }
            OwnState::Granted if live && own.upgrade_at.is_some_and(|at| at <= now) => {
                (own.record.how, own.upgrade_at) = (How::Free, None);
                self.look_at(now, Key::Stream(stream.clone()));
            }
            OwnState::Granted => {}
        }
    }

    /// Answers a claim by what is known, once the directory had its time to answer.
    fn decide_alone(&mut self, now: Duration, stream: &StreamName) {
        let Some(own) = self.own.get_mut(stream) else { return };
        let OwnState::Asking { claim, policy, since } = own.state else { return };
        if now < since + ALONE_AFTER && (now < self.unheard_since + ALONE_AFTER || own.refused) {
            return;
        }
        let holder = self.streams.get(stream).and_then(|entry| entry.record.as_ref());
        let lives = |record: &&StreamRecord| {
            self.nodes.get(&record.instance).is_some_and(|peer| !peer.gone)
                && !self.unreachable.contains(&record.node)
        };
        match holder {
            // This node had it before, by a better right than a provisional one.
            Some(record) if record.instance == self.me.instance => {}
            holder => match (holder.filter(lives), policy) {
                (Some(record), Policy::Refuse) => {
                    let node = record.node.clone();
                    self.own.remove(stream);
                    self.stop_timer(&Timer::Own(stream.clone()));
                    self.actions.push(Action::Answer(claim, Err(Refusal::TakenBy(node))));
                    return;
                }
                (Some(record), Policy::TakeOver) => {
                    own.record.how = How::TookOver;
                    own.replaced = Some(record.node.clone());
                    let theirs = record.epoch;
                    if own.record.epoch <= theirs {
                        let epoch = self.epoch_after(theirs);
                        self.own.get_mut(stream).expect("it was there").record.epoch = epoch;
                    }
                }
                (None, _) => own.record.how = How::Provisional,
            },
        }
        let own = self.own.get_mut(stream).expect("it was there");
        own.state = OwnState::Granted;
        let granted = Granted { epoch: own.record.epoch, provisional: true, replaced: own.replaced.clone() };
        self.actions.push(Action::Answer(claim, Ok(granted)));
        self.stop_timer(&Timer::Own(stream.clone()));
        self.refresh(stream);
    }

    /// The directory can no longer be heard, and has to be read from the start.
    pub(super) fn restart_link(&mut self, now: Duration) {
        self.lose_link(now);
        self.actions.push(Action::Resync);
    }

    pub(super) fn lose_link(&mut self, now: Duration) {
        if self.is_live() {
            self.unheard_since = now;
            self.actions.push(Action::Tell(Event::NotHeard));
        }
        self.link = Link::Down;
        (self.echo_due, self.beat, self.beat_failed) = (None, None, false);
        self.writing.clear();
        self.queue.clear();
        self.queued.clear();
        self.waiting.clear();
        for peer in self.nodes.values_mut() {
            (peer.asking, peer.unreached) = (false, 0);
        }
        let mut asking = Vec::new();
        for (stream, own) in &mut self.own {
            own.upgrade_at = None;
            if let OwnState::Asking { since, .. } = own.state {
                asking.push((since.max(now.saturating_sub(ALONE_AFTER)) + ALONE_AFTER, stream.clone()));
            }
        }
        for (at, stream) in asking {
            self.set_timer(at, Timer::Own(stream));
        }
    }

    /// The directory is heard, and all it has was seen. What it lost is remembered for a while.
    pub(super) fn synced(&mut self, now: Duration) {
        self.link = Link::Live { since: now };
        let mut keys = Vec::new();
        for (stream, entry) in &mut self.streams {
            if entry.generation != self.generation {
                entry.revision = 0;
            }
            let instance = entry.record.as_ref().map(|record| record.instance);
            if instance == Some(self.me.instance) && !self.own.contains_key(stream) {
                keys.push(Key::Stream(stream.clone()));
            }
        }
        let me = &self.me.name;
        for (stream, feeds) in &mut self.feeds {
            for (node, entry) in feeds {
                if entry.generation != self.generation {
                    entry.revision = 0;
                }
                if node == me && !self.own_feeds.contains_key(stream) {
                    keys.push(Key::Feed(stream.clone(), node.clone()));
                }
            }
        }
        keys.extend(self.own.keys().cloned().map(Key::Stream));
        keys.extend(self.own_feeds.keys().map(|stream| Key::Feed(stream.clone(), me.clone())));
        self.nodes.values_mut().for_each(|peer| peer.missed = 0);
        self.set_timer(now + SETTLE, Timer::Settle);
        self.actions.push(Action::Tell(Event::Heard));
        self.announce(now);
        self.beat(now);
        for key in keys {
            self.look_at(now, key);
        }
        self.clean(now);
    }

    /// What the directory lost and its owner did not write again is gone.
    pub(super) fn forget_remembered(&mut self, now: Duration) {
        let Link::Live { since } = self.link else { return };
        if now < since + SETTLE {
            return;
        }
        let generation = self.generation;
        // Who has many streams needs longer, and is seen to write.
        let writes = |entry: &Entry| {
            let instance = entry.record.as_ref().map(|record| record.instance);
            let peer = instance.and_then(|instance| self.nodes.get(&instance));
            peer.is_some_and(|peer| !peer.gone && peer.wrote_at >= since && now < peer.wrote_at + SETTLE)
        };
        let old = self.streams.iter().filter(|(_, entry)| entry.generation != generation);
        let (kept, old): (Vec<_>, Vec<_>) = old.partition(|(_, entry)| writes(entry));
        let kept = !kept.is_empty();
        let old = old.into_iter();
        for stream in old.map(|(stream, _)| stream.clone()).collect::<Vec<_>>() {
            self.forget_entry(&stream);
        }
        let feeds = self.feeds.iter().flat_map(|(stream, feeds)| {
            let old = feeds.iter().filter(|(_, entry)| entry.generation != generation);
            old.map(|(node, _)| (stream.clone(), node.clone()))
        });
        let feeds: Vec<_> = feeds.collect();
        if kept {
            self.set_timer(now + ASK_AGAIN, Timer::Settle);
        }
        for (stream, node) in feeds {
            self.remove_feed(&stream, &node);
            self.actions.push(Action::Tell(Event::FeedsChanged(stream)));
        }
    }

    fn forget_entry(&mut self, stream: &StreamName) {
        if let Some(record) = self.streams.remove(stream).and_then(|entry| entry.record)
            && let Some(peer) = self.nodes.get_mut(&record.instance)
        {
            peer.streams.remove(stream);
            self.forget_if_unused(record.instance);
        }
        self.refresh(stream);
    }

    fn bury(&mut self, now: Duration, key: Key, revision: u64) {
        if self.tombstones.len() >= TOMBSTONES_MAX {
            self.tombstones.pop_front();
        }
        if self.tombstones.is_empty() {
            self.set_timer(now + TIDY_AFTER, Timer::Tidy);
        }
        self.tombstones.push_back((now + TIDY_AFTER, key, revision));
    }

    /// Removes marks of deleted keys: here, and in the directory if it is this node's turn.
    pub(super) fn tidy(&mut self, now: Duration) {
        let cleaner = self.is_live() && self.is_cleaner();
        for _ in 0..TIDY_BATCH {
            match self.tombstones.front() {
                Some((due, ..)) if *due <= now => {}
                _ => break,
            }
            let (_, key, revision) = self.tombstones.pop_front().expect("there is a first one");
            if let Key::Stream(stream) = &key
                && self
                    .streams
                    .get(stream)
                    .is_some_and(|entry| entry.record.is_none() && entry.revision == revision)
                && !self.own.contains_key(stream)
            {
                self.streams.remove(stream);
            }
            if cleaner {
                self.actions.push(Action::Purge { key, revision });
            }
        }
        if let Some((due, ..)) = self.tombstones.front() {
            self.set_timer((*due).max(now + TIDY_PAUSE), Timer::Tidy);
        }
    }
}
