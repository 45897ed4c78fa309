//! Who lives: announcements, silence, questions, and this node's own name.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    ANNOUNCE_EVERY_MAX, ANNOUNCE_EVERY_MIN, ANNOUNCE_PER_NODE, ASK_AGAIN, Action, Answer, DEAD_AFTER,
    DEAD_AFTER_RETURN, ECHO_WITHIN, Event, Gone, HEARTBEAT_EVERY, INSTANCES_MAX, Key, Link, Machine,
    NEWCOMER_FOR, OwnState, Peer, RETURN_GRACE, Refusal, SUSPECT_AFTER_RETURN, Timer, UNREACHED_MAX,
    UNSTORED_MAX, WRITES_MAX,
};
use crate::names::{NodeName, StreamName};
use crate::record::{InstanceId, NEWCOMER, Node, Nonsense};

impl Machine {
    /// A node's key has this value, or was deleted.
    pub(super) fn node_seen(&mut self, now: Duration, name: NodeName, revision: u64, value: Option<&[u8]>) {
        let Some(value) = value else {
            match self.by_name.get(&name) {
                Some(&instance) => self.peer_gone(now, instance, Gone::Left),
                // Somebody else deleted it.
                None if name == self.me.name && self.named => self.announce(now),
                None => {}
            }
            return;
        };
        let node = match Node::decode(value) {
            Ok(node) if node.name == name => node,
            Ok(_) => return self.ignore(Nonsense::Contents),
            Err(nonsense) => return self.ignore(nonsense),
        };
        if node.instance == self.me.instance {
            self.echo_due = None;
            self.named = !self.out;
            self.named_at.get_or_insert(now);
            return;
        }
        if name == self.me.name && self.is_live() && !self.out {
            // Both decide alike, whether they have seen their own records or not: else both could leave.
            let mine = (self.me.joined, self.me.instance);
            if mine < (node.joined, node.instance) {
                self.announce(now);
            } else {
                return self.lose_name(now, node.instance);
            }
        }
        if let Some(&before) = self.by_name.get(&name)
            && before != node.instance
        {
            self.peer_gone(now, before, Gone::Restarted);
        }
        if !self.peer_entry(now, node.instance) {
            return;
        }
        self.by_name.insert(name, node.instance);
        self.hear_epoch(node.joined);
        let peer = self.nodes.get_mut(&node.instance).expect("it is there or was made");
        let was_there = !peer.gone && peer.record.is_some();
        let alike = peer.record.as_ref().is_some_and(|before| {
            (&before.region, &before.addresses, before.draining)
                == (&node.region, &node.addresses, node.draining)
        });
        (peer.revision, peer.gone) = (revision, false);
        peer.is_there(now);
        let (instance, node) = (node.instance, Arc::new(node));
        peer.record = Some(node.clone());
        if !was_there {
            self.actions.push(Action::Tell(Event::NodeUp(node)));
            self.refresh_all_of(instance);
        } else if !alike {
            self.actions.push(Action::Tell(Event::NodeChanged(node)));
        }
        self.stop_timer(&Timer::Ask(instance));
        self.look_at_waiting(now, instance);
    }

    /// Makes sure that the instance is in the table. Says whether there was room.
    pub(super) fn peer_entry(&mut self, now: Duration, instance: InstanceId) -> bool {
        if self.nodes.contains_key(&instance) {
            return true;
        }
        if self.nodes.len() >= INSTANCES_MAX {
            self.leave_out(now);
            return false;
        }
        let peer = Peer {
            record: None,
            revision: 0,
            seen_at: now,
            missed: 0,
            wrote_at: now,
            gone: false,
            asking: false,
            unreached: 0,
            streams: HashSet::new(),
            feeds: HashSet::new(),
        };
        self.nodes.insert(instance, peer);
        true
    }

    /// Sends a heartbeat, and looks whose there are; a look that is not answered is the end of the session.
    pub(super) fn beat(&mut self, now: Duration) {
        if !self.is_live() || self.out {
            return;
        }
        if self.beat.is_some() {
            return self.restart_link(now);
        }
        self.last_number += 1;
        self.beat = Some((self.last_number, now));
        self.actions.push(Action::Heartbeat { number: self.last_number });
        self.set_timer(now + ECHO_WITHIN, Timer::Heartbeat);
    }

    /// A node without a heartbeat is asked, and is dead if that lasts.
    pub(super) fn heartbeats_seen(
        &mut self,
        now: Duration,
        number: u64,
        heartbeats: Option<HashSet<InstanceId>>,
    ) {
        let (Link::Live { since }, Some((asked, at))) = (self.link, self.beat) else { return };
        if asked != number {
            return;
        }
        self.beat = None;
        self.set_timer(now.max(at + HEARTBEAT_EVERY), Timer::Heartbeat);
        let failed_before = std::mem::replace(&mut self.beat_failed, heartbeats.is_none());
        let Some(heartbeats) = heartbeats else {
            if failed_before || now >= at + ECHO_WITHIN {
                self.restart_link(now);
            }
            return;
        };
        // Where one's own is not stored, those of others may not be either: what is left is announcements.
        let silent_after = if heartbeats.contains(&self.me.instance) {
            if std::mem::take(&mut self.unstored) >= UNSTORED_MAX {
                self.actions.push(Action::StoredAgain);
            }
            Duration::ZERO
        } else {
            self.unstored = self.unstored.saturating_add(1);
            if self.unstored == UNSTORED_MAX {
                self.actions.push(Action::Unstored);
            }
            ANNOUNCE_EVERY_MAX + ECHO_WITHIN
        };
        let mut silent = Vec::new();
        for (&instance, peer) in self.nodes.iter_mut().filter(|(_, peer)| !peer.gone) {
            if heartbeats.contains(&instance) {
                peer.is_there(now);
            } else if now >= peer.seen_at + silent_after {
                peer.missed += 1;
                silent.push(instance);
            }
        }
        for instance in silent {
            if now >= since + SUSPECT_AFTER_RETURN {
                self.ask(instance);
            }
            self.check_silent(now, instance);
        }
    }

    pub(super) fn check_silent(&mut self, now: Duration, instance: InstanceId) {
        let (Link::Live { since }, Some(peer)) = (self.link, self.nodes.get(&instance)) else { return };
        if peer.gone || peer.missed < 2 {
            return;
        }
        let due = (peer.seen_at + DEAD_AFTER).max(since + DEAD_AFTER_RETURN);
        if now >= due {
            self.peer_gone(now, instance, Gone::Silent);
        } else {
            self.set_timer(due, Timer::Silent(instance));
        }
    }

    /// Asks whether the instance is there, unless that is being done.
    pub(super) fn ask(&mut self, instance: InstanceId) {
        if self.is_live()
            && let Some(peer) = self.nodes.get_mut(&instance).filter(|peer| !peer.gone && !peer.asking)
        {
            peer.asking = true;
            self.actions.push(Action::Ask(instance));
        }
    }

    pub(super) fn asked(&mut self, now: Duration, instance: InstanceId, answer: Answer) {
        let (Link::Live { since }, Some(peer)) = (self.link, self.nodes.get_mut(&instance)) else { return };
        peer.asking = false;
        if peer.gone {
            return;
        }
        match answer {
            Answer::Alive => {
                peer.is_there(now);
                if !self.named && self.by_name.get(&self.me.name) == Some(&instance) {
                    return self.lose_name(now, instance);
                }
                self.refuse_waiting(instance);
            }
            Answer::Nobody => {
                peer.unreached = peer.unreached.saturating_add(1);
                if peer.unreached >= UNREACHED_MAX && now >= since + RETURN_GRACE {
                    self.peer_gone(now, instance, Gone::Silent);
                } else {
                    self.set_timer(now + ASK_AGAIN, Timer::Ask(instance));
                }
            }
            Answer::Silence => {
                peer.unreached = 0;
                if self.waiting.contains_key(&instance) {
                    self.set_timer(now + ASK_AGAIN, Timer::Ask(instance));
                }
            }
        }
    }

    /// The instance lives, so what it has it keeps.
    fn refuse_waiting(&mut self, instance: InstanceId) {
        for stream in self.waiting.remove(&instance).unwrap_or_default() {
            let record = self.streams.get(&stream).and_then(|entry| entry.record.as_ref());
            let Some(node) =
                record.filter(|record| record.instance == instance).map(|record| record.node.clone())
            else {
                continue;
            };
            if let Some(OwnState::Asking { claim, .. }) = self.own.get(&stream).map(|own| own.state) {
                self.own.remove(&stream);
                self.stop_timer(&Timer::Own(stream));
                self.actions.push(Action::Answer(claim, Err(Refusal::TakenBy(node))));
            }
        }
    }

    fn look_at_waiting(&mut self, now: Duration, instance: InstanceId) {
        for stream in self.waiting.remove(&instance).unwrap_or_default() {
            self.look_at(now, Key::Stream(stream));
        }
    }

    fn peer_gone(&mut self, now: Duration, instance: InstanceId, why: Gone) {
        let Some(peer) = self.nodes.get_mut(&instance).filter(|peer| !peer.gone) else { return };
        peer.gone = true;
        let (node, revision) = (peer.record.clone(), peer.revision);
        let feeds: Vec<_> = peer.feeds.iter().cloned().collect();
        self.refresh_all_of(instance);
        for stream in feeds {
            self.actions.push(Action::Tell(Event::FeedsChanged(stream)));
        }
        if let Some(node) = node {
            if self.by_name.get(&node.name) == Some(&instance) {
                self.by_name.remove(&node.name);
                self.unreachable.remove(&node.name);
            }
            self.actions.push(Action::Tell(Event::NodeGone(node.name.clone(), why)));
            if node.name == self.me.name {
                // It had this node's name, and now the name is free.
                self.announce(now);
            } else if why == Gone::Silent && self.is_live() && self.is_cleaner() {
                // A node that joins later need not find out that this one is dead. If the delete fails, the
                // entry expires in a minute.
                let key = Key::Node(node.name.clone());
                if !self.writing.contains_key(&key) && self.writing.len() < WRITES_MAX {
                    self.write(key, None, Some(revision));
                }
            }
        }
        self.look_at_waiting(now, instance);
        self.clean(now);
        self.forget_if_unused(instance);
    }

    /// Looks at what dead nodes left: names that this node wants, and all of it if cleaning is its turn.
    pub(super) fn clean(&mut self, now: Duration) {
        let cleaner = self.is_cleaner();
        let mut left = Vec::new();
        for peer in self.nodes.values().filter(|peer| peer.gone) {
            let wanted = |stream: &&StreamName| cleaner || self.own.contains_key(*stream);
            left.extend(peer.streams.iter().filter(wanted).cloned().map(Key::Stream));
            if let (true, Some(node)) = (cleaner, &peer.record) {
                left.extend(peer.feeds.iter().map(|stream| Key::Feed(stream.clone(), node.name.clone())));
            }
        }
        for key in left {
            self.look_at(now, key);
        }
    }

    pub(super) fn forget_if_unused(&mut self, instance: InstanceId) {
        let unused = |peer: &Peer| peer.gone && peer.streams.is_empty() && peer.feeds.is_empty();
        if self.nodes.get(&instance).is_some_and(unused) {
            self.nodes.remove(&instance);
            self.stop_timer(&Timer::Silent(instance));
            self.stop_timer(&Timer::Ask(instance));
        }
    }

    fn refresh_all_of(&mut self, instance: InstanceId) {
        let streams: Vec<_> =
            self.nodes.get(&instance).into_iter().flat_map(|peer| peer.streams.iter().cloned()).collect();
        for stream in streams {
            self.refresh(&stream);
        }
    }

    /// One node removes what dead ones left: of those that live, the first by name.
    pub(super) fn is_cleaner(&self) -> bool {
        let others = self.nodes.values().filter(|peer| !peer.gone).filter_map(|peer| peer.record.as_ref());
        self.is_named() && others.map(|node| &node.name).all(|name| self.me.name < *name)
    }

    /// Says that this node is there, if its name is its own; else finds out whose it is.
    pub(super) fn announce(&mut self, now: Duration) {
        if !self.is_live() || self.out {
            return;
        }
        if !self.named
            && let Some(&other) = self.by_name.get(&self.me.name)
        {
            self.ask(other);
            self.set_timer(now + ASK_AGAIN, Timer::Announce);
            return;
        }
        if self.me.joined == NEWCOMER && self.named_at.is_some_and(|at| now >= at + NEWCOMER_FOR) {
            self.me.joined = self.next_epoch();
        }
        let key = Key::Node(self.me.name.clone());
        self.announce_again = self.writing.contains_key(&key);
        if !self.announce_again {
            let value = Bytes::from(self.me.encode());
            self.write(key, Some(value), None);
        }
        self.echo_due = Some(self.echo_due.unwrap_or(now + ECHO_WITHIN));
        self.set_timer(now + ECHO_WITHIN, Timer::Echo);
        let living = self.nodes.values().filter(|peer| !peer.gone).count() + 1;
        let every = ANNOUNCE_PER_NODE * u32::try_from(living).expect("a thousand are known at most");
        self.set_timer(now + every.clamp(ANNOUNCE_EVERY_MIN, ANNOUNCE_EVERY_MAX), Timer::Announce);
    }

    fn lose_name(&mut self, now: Duration, by: InstanceId) {
        (self.out, self.named) = (true, false);
        self.actions.push(Action::Tell(Event::NameTaken { by }));
        self.drop_all_own(now);
    }
}

impl Peer {
    fn is_there(&mut self, now: Duration) {
        (self.seen_at, self.missed, self.unreached) = (now, 0, 0);
    }
}
