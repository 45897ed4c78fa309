//! A directory made of maps, and nodes on it; everything that happens follows from a seed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use crate::record::{Addresses, Lane, NEWCOMER};

pub(super) const NODE_MAX_AGE: Duration = Duration::from_secs(60);

pub(super) fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

pub(super) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(super) fn described(tracks: u8) -> Arc<Description> {
    Arc::new(Description { lane: Lane::Frames, codecs: Vec::new(), tracks: vec![tracks] })
}

/// xorshift64*.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Debug)]
enum Message {
    /// To the directory, of a node's session.
    Write {
        from: usize,
        session: u64,
        number: u64,
        key: Key,
        value: Option<Bytes>,
        expected: Option<u64>,
    },
    Purge {
        from: usize,
        session: u64,
        key: Key,
        revision: u64,
    },
    Ask {
        from: usize,
        session: u64,
        instance: InstanceId,
    },
    Heartbeat {
        from: usize,
        session: u64,
        number: u64,
    },
    Open {
        from: usize,
        session: u64,
    },
    /// To a node.
    Input {
        to: usize,
        session: u64,
        input: Input,
    },
}

#[derive(Debug, Clone)]
struct Stored {
    revision: u64,
    at: Duration,
    value: Option<Bytes>,
}

pub(super) struct SimNode {
    pub(super) machine: Machine,
    pub(super) alive: bool,
    /// Stands still, and what comes is kept.
    pub(super) frozen: bool,
    pub(super) cut: bool,
    session: u64,
    open: bool,
    pub(super) answers: HashMap<ClaimId, Result<Granted, Refusal>>,
    pub(super) events: Vec<Event>,
    /// Times it was said that heartbeats are not stored.
    pub(super) unstored: u32,
    /// Times they were again.
    pub(super) stored_again: u32,
    /// What the node's users believe to publish.
    pub(super) publishing: BTreeMap<StreamName, Epoch>,
    claims: HashMap<ClaimId, StreamName>,
    next_try: Duration,
}

pub(super) struct World {
    pub(super) now: Duration,
    pub(super) nodes: Vec<SimNode>,
    stored: BTreeMap<Key, Stored>,
    heartbeats: HashMap<InstanceId, Duration>,
    /// The server stores no heartbeats, for want of a right.
    pub(super) heartbeats_refused: bool,
    /// So many looks at heartbeats fail from now on.
    pub(super) looks_fail: u32,
    revision: u64,
    pub(super) server_up: bool,
    pub(super) server_frozen: bool,
    messages: BTreeMap<(Duration, u64), Message>,
    sent: u64,
    pub(super) random: Random,
    pub(super) delay_max: u64,
    instances: u64,
    pub(super) writes: u64,
    /// Messages to and from each node, besides those that only open a session.
    pub(super) traffic: Vec<u64>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: ms(0),
            nodes: Vec::new(),
            stored: BTreeMap::new(),
            heartbeats: HashMap::new(),
            heartbeats_refused: false,
            looks_fail: 0,
            revision: 0,
            server_up: true,
            server_frozen: false,
            messages: BTreeMap::new(),
            sent: 0,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            delay_max: 3,
            instances: 0,
            writes: 0,
            traffic: Vec::new(),
        }
    }

    pub(super) fn me(&mut self, name: &str) -> Node {
        self.instances += 1;
        Node {
            name: NodeName::new(name).unwrap(),
            // Not in the order of starts.
            instance: InstanceId(self.instances.wrapping_mul(0x9E37_79B9) % 1_000_003),
            region: String::new(),
            software: String::new(),
            addresses: Addresses::default(),
            draining: false,
            load: Load::default(),
            joined: NEWCOMER,
        }
    }

    pub(super) fn start(&mut self, name: &str) -> usize {
        let me = self.me(name);
        self.traffic.push(0);
        self.nodes.push(SimNode {
            machine: Machine::new(me, self.now),
            alive: true,
            frozen: false,
            cut: false,
            session: 0,
            open: false,
            answers: HashMap::new(),
            events: Vec::new(),
            unstored: 0,
            stored_again: 0,
            publishing: BTreeMap::new(),
            claims: HashMap::new(),
            next_try: self.now,
        });
        self.nodes.len() - 1
    }

    pub(super) fn claim(&mut self, node: usize, name: &str, policy: Policy) -> ClaimId {
        let (now, name) = (self.now, stream(name));
        let claim = self.nodes[node].machine.claim(now, &name, described(node as u8), policy);
        self.nodes[node].claims.insert(claim, name);
        self.carry_out(node);
        claim
    }

    pub(super) fn release(&mut self, node: usize, name: &str) {
        let name = stream(name);
        if let Some(epoch) = self.nodes[node].publishing.remove(&name) {
            let now = self.now;
            self.nodes[node].machine.release(now, &name, epoch);
            self.carry_out(node);
        }
    }

    pub(super) fn home(&self, node: usize, name: &str) -> Option<String> {
        self.nodes[node].machine.find(&stream(name)).map(|home| home.node.to_string())
    }

    pub(super) fn kill_node(&mut self, node: usize) {
        self.nodes[node].alive = false;
        self.nodes[node].publishing.clear();
        self.close(node);
    }

    /// The directory loses all it had, and every connection.
    pub(super) fn kill_server(&mut self) {
        self.server_up = false;
        self.stored.clear();
        self.heartbeats.clear();
        self.revision = 0;
        for node in 0..self.nodes.len() {
            self.close(node);
        }
    }

    pub(super) fn cut(&mut self, node: usize, cut: bool) {
        self.nodes[node].cut = cut;
        if cut {
            // The server notices later; the client does at once, or not: its machine does by itself.
            if self.random.one_in(2) {
                self.close(node);
            } else {
                self.nodes[node].open = false;
            }
        }
    }

    fn close(&mut self, node: usize) {
        let sim = &mut self.nodes[node];
        sim.session += 1;
        sim.open = false;
        if sim.alive && !sim.frozen {
            sim.machine.handle(self.now, Input::Lost);
            self.carry_out(node);
        }
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Runs until it holds; panics if it does not within `limit`.
    pub(super) fn until(
        &mut self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Duration {
        let begun = self.now;
        while !holds(self) {
            assert!(self.now - begun <= limit, "timed out after {limit:?}: {what}");
            self.step();
        }
        self.now - begun
    }

    fn step(&mut self) {
        self.now += ms(1);
        self.stored.retain(|key, stored| !matches!(key, Key::Node(_)) || self.now < stored.at + NODE_MAX_AGE);
        for node in 0..self.nodes.len() {
            let sim = &mut self.nodes[node];
            if !sim.alive || sim.frozen {
                continue;
            }
            if !sim.open && !sim.cut && self.server_up && self.now >= sim.next_try {
                sim.session += 1;
                sim.open = true;
                let session = sim.session;
                self.send(Message::Open { from: node, session });
            }
            let sim = &mut self.nodes[node];
            if sim.machine.next_timeout().is_some_and(|due| due <= self.now) {
                sim.machine.tick(self.now);
                self.carry_out(node);
            }
        }
        if self.server_frozen {
            return;
        }
        let due = self.messages.range(..=(self.now, u64::MAX));
        let waits =
            |message: &Message| matches!(message, Message::Input { to, .. } if self.nodes[*to].frozen);
        let due: Vec<_> = due.filter(|(_, message)| !waits(message)).map(|(&at, _)| at).collect();
        for at in due {
            let message = self.messages.remove(&at).expect("it was listed");
            self.deliver(message);
        }
    }

    pub(super) fn carry_out(&mut self, node: usize) {
        loop {
            let actions = self.nodes[node].machine.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                let sim = &mut self.nodes[node];
                let session = sim.session;
                match action {
                    Action::Resync => {
                        sim.session += 1;
                        sim.open = false;
                        sim.next_try = self.now + ms(100);
                    }
                    Action::Write { number, key, value, expected } => {
                        self.writes += 1;
                        self.send(Message::Write { from: node, session, number, key, value, expected });
                        // The adapter's own patience is tested with the real server.
                    }
                    Action::Heartbeat { number } => {
                        self.send(Message::Heartbeat { from: node, session, number })
                    }
                    Action::Ask(instance) => self.send(Message::Ask { from: node, session, instance }),
                    Action::Purge { key, revision } => {
                        self.send(Message::Purge { from: node, session, key, revision });
                    }
                    Action::Unstored => sim.unstored += 1,
                    Action::StoredAgain => sim.stored_again += 1,
                    Action::Answer(claim, answer) => {
                        let name = sim.claims.remove(&claim);
                        if let (Some(name), Ok(granted)) = (name, &answer) {
                            sim.publishing.insert(name, granted.epoch);
                        }
                        sim.answers.insert(claim, answer);
                    }
                    Action::Tell(event) => {
                        match &event {
                            Event::Lost { stream, epoch, .. }
                                if sim.publishing.get(stream) == Some(epoch) =>
                            {
                                sim.publishing.remove(stream);
                            }
                            Event::NameTaken { .. } => sim.publishing.clear(),
                            _ => {}
                        }
                        sim.events.push(event);
                    }
                }
            }
        }
    }

    fn send(&mut self, message: Message) {
        self.sent += 1;
        match &message {
            Message::Input { to, .. } => self.traffic[*to] += 1,
            // The heartbeat itself, and the question whose there are.
            Message::Heartbeat { from, .. } => self.traffic[*from] += 2,
            other => self.traffic[from(other)] += 1,
        }
        // In order between two ends, as TCP is: a later message never overtakes one of the same direction.
        let at = self.now + ms(1 + self.random.below(self.delay_max));
        let last =
            self.messages.iter().rev().find(|(_, other)| same_way(other, &message)).map(|((at, _), _)| *at);
        self.messages.insert((at.max(last.unwrap_or_default()), self.sent), message);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Input { to, session, input } => {
                let sim = &mut self.nodes[to];
                if !sim.alive || sim.session != session || sim.cut {
                    return;
                }
                sim.machine.handle(self.now, input);
                self.carry_out(to);
            }
            message => self.serve(message),
        }
    }

    fn connected(&self, from: usize, session: u64) -> bool {
        let sim = &self.nodes[from];
        self.server_up && sim.alive && !sim.cut && sim.session == session
    }

    fn serve(&mut self, message: Message) {
        match message {
            Message::Open { from, session } => {
                if !self.connected(from, session) {
                    return;
                }
                let input = |input| Message::Input { to: from, session, input };
                let mut all: Vec<_> = self.stored.iter().collect();
                all.sort_by_key(|(key, stored)| (key.bucket() == Bucket::Streams, stored.revision));
                let seen: Vec<_> = all
                    .into_iter()
                    .map(|(key, stored)| Input::Seen {
                        bucket: key.bucket(),
                        key: key.text(),
                        revision: stored.revision,
                        value: stored.value.clone(),
                    })
                    .collect();
                self.send(input(Input::Began));
                for seen in seen {
                    self.send(input(seen));
                }
                self.send(input(Input::Synced));
            }
            // A write that was under way when its session ended arrives or is lost.
            Message::Write { from, session, number, key, value, expected } => {
                if !self.connected(from, session) && (!self.server_up || self.random.one_in(2)) {
                    return;
                }
                let current = self.stored.get(&key).map(|stored| (stored.revision, stored.value.clone()));
                let revision = current.as_ref().map_or(0, |(revision, _)| *revision);
                let outcome = if expected.is_some_and(|expected| expected != revision) {
                    Outcome::Conflict(current)
                } else {
                    self.revision += 1;
                    let stored = Stored { revision: self.revision, at: self.now, value: value.clone() };
                    self.stored.insert(key.clone(), stored);
                    for node in 0..self.nodes.len() {
                        let sim = &self.nodes[node];
                        if sim.alive && sim.open && !sim.cut {
                            let (session, revision) = (sim.session, self.revision);
                            let (bucket, key, value) = (key.bucket(), key.text(), value.clone());
                            let input = Input::Seen { bucket, key, revision, value };
                            self.send(Message::Input { to: node, session, input });
                        }
                    }
                    Outcome::Done(self.revision)
                };
                let input = Input::Written { number, key, outcome };
                self.send(Message::Input { to: from, session, input });
            }
            Message::Purge { from, session, key, revision } => {
                if self.connected(from, session)
                    && self.stored.get(&key).is_some_and(|stored| stored.revision <= revision)
                {
                    self.stored.remove(&key);
                }
            }
            Message::Heartbeat { from, session, number } => {
                if !self.connected(from, session) {
                    return;
                }
                if !self.heartbeats_refused {
                    self.heartbeats.insert(self.nodes[from].machine.me.instance, self.now);
                }
                self.heartbeats.retain(|_, at| self.now < *at + HEARTBEAT_MAX_AGE);
                let fails = self.looks_fail > 0;
                self.looks_fail = self.looks_fail.saturating_sub(1);
                let heartbeats = (!fails).then(|| self.heartbeats.keys().copied().collect());
                let input = Input::Heartbeats { number, heartbeats };
                self.send(Message::Input { to: from, session, input });
            }
            Message::Ask { from, session, instance } => {
                if !self.connected(from, session) {
                    return;
                }
                let asked = self.nodes.iter().find(|sim| sim.machine.me.instance == instance);
                let answer = match asked {
                    Some(sim) if sim.alive && sim.open && !sim.cut => match sim.frozen {
                        true => Answer::Silence,
                        false => Answer::Alive,
                    },
                    // The server still believes in a connection that was cut.
                    Some(sim) if sim.alive && sim.cut && self.random.one_in(2) => Answer::Silence,
                    _ => Answer::Nobody,
                };
                let input = Input::Asked(instance, answer);
                self.send(Message::Input { to: from, session, input });
            }
            Message::Input { .. } => unreachable!("delivered by the caller"),
        }
    }

    /// Somebody who is no node writes.
    pub(super) fn put(&mut self, key: &Key, value: &Bytes) {
        self.revision += 1;
        let stored = Stored { revision: self.revision, at: self.now, value: Some(value.clone()) };
        self.stored.insert(key.clone(), stored);
        for node in 0..self.nodes.len() {
            let (session, revision) = (self.nodes[node].session, self.revision);
            let input =
                Input::Seen { bucket: key.bucket(), key: key.text(), revision, value: Some(value.clone()) };
            self.send(Message::Input { to: node, session, input });
        }
    }

    pub(super) fn stored(&self) -> impl Iterator<Item = (&Key, Option<&Bytes>)> {
        self.stored.iter().map(|(key, stored)| (key, stored.value.as_ref()))
    }

    /// What holds when all is quiet: one publisher per name, and everybody knows it.
    pub(super) fn problem(&self) -> Option<String> {
        let living: Vec<_> = (0..self.nodes.len()).filter(|&node| self.nodes[node].alive).collect();
        let mut homes: BTreeMap<&StreamName, usize> = BTreeMap::new();
        for &node in &living {
            let sim = &self.nodes[node];
            if !sim.machine.is_settled() || !sim.claims.is_empty() {
                return Some(format!("{} is not settled", sim.machine.name()));
            }
            for name in sim.publishing.keys() {
                if let Some(other) = homes.insert(name, node) {
                    return Some(format!("{name} is published by nodes {other} and {node}"));
                }
            }
        }
        for &node in &living {
            let machine = &self.nodes[node].machine;
            let shown: HashSet<_> = machine.shown().map(|(name, _)| name).collect();
            let published: HashSet<_> = homes.keys().copied().collect();
            if shown != published {
                return Some(format!("{} shows {shown:?}, published are {published:?}", machine.name()));
            }
            for (name, &home) in &homes {
                let (found, sim) = (machine.find(name).expect("shown"), &self.nodes[home]);
                if found.instance != sim.machine.me.instance || found.epoch != sim.publishing[*name] {
                    return Some(format!("{} finds another {name}", machine.name()));
                }
            }
        }
        None
    }
}

fn same_way(a: &Message, b: &Message) -> bool {
    match (a, b) {
        (Message::Input { to: a, .. }, Message::Input { to: b, .. }) => a == b,
        (Message::Input { .. }, _) | (_, Message::Input { .. }) => false,
        (a, b) => from(a) == from(b),
    }
}

fn from(message: &Message) -> usize {
    match message {
        Message::Write { from, .. }
        | Message::Purge { from, .. }
        | Message::Ask { from, .. }
        | Message::Heartbeat { from, .. }
        | Message::Open { from, .. } => *from,
        Message::Input { to, .. } => *to,
    }
}
