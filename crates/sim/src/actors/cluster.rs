//! What makes a cluster of servers: a stand-in for its directory, and for what nodes say to each other about
//! streams of packets.
//!
//! Workers report what is published and wanted, and are asked to offer, fetch and serve as `nodes` asks them,
//! by the same commands. Media goes by the relays of workers, and nothing of it passes here. What one node
//! says to another takes time and stays in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue};
use relay::{LinkSecret, OpenKey, Role};
use tokio::sync::{mpsc, oneshot};
use worker_api::cluster::{Elsewhere, Publication};
use worker_api::command::Command;
use worker_api::relay::{
    Attached, Fetched, LinkId, Offered, RelayCommand, RelayNotice, RelayRefusal, RelayStats, RelayStreamStats,
};
use worker_api::streams::{Epoch, Published};
use worker_api::{EndReason, RELAY_WORKER};

use super::{Actor, Next, ms};
use crate::ledger::{Ledger, StreamKey};

/// Streams from this number on are one on all servers; the others are a server's own, whatever their names.
pub const SHARED_FROM: usize = 200;
/// Longest time for an answer of a worker, what is said between nodes included.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Most that something said by one node takes to another, or to the directory.
const DELAY_MAX: Duration = Duration::from_millis(50);
/// A parent that does not have the stream is not asked for this long.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// A stream that nobody wants any more is fetched for so long.
const LINGER: Duration = Duration::from_secs(2);
/// Time in which all nodes have a new key.
const KEY_SPREADS: Duration = Duration::from_secs(3);
/// A link whose other end is silent is over after this at the earliest.
const NOTICED_AFTER: Duration = Duration::from_millis(650);
/// How often a node is called that cannot be reached.
const LINK_AGAIN: Duration = Duration::from_millis(400);
/// Least time between two keys: before, a node may hold as many as it can.
const KEY_CHANGE_MIN: Duration = Duration::from_secs(8);

/// Where the relay of a server is.
pub fn relay_ip(server: usize) -> IpAddr {
    Ipv4Addr::new(10, 2, 0, 1 + server as u8).into()
}

/// A stream that all servers have, published on this one at first.
pub fn shared(home: usize, stream: usize) -> StreamKey {
    StreamKey { server: home, stream: SHARED_FROM + 10 * home + stream }
}

/// Which streams are published on which node.
#[derive(Debug, Default)]
pub struct Directory(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    homes: BTreeMap<String, Home>,
    /// What nodes have reported, in order.
    reports: VecDeque<(usize, Report)>,
}

/// A publication in the cluster.
#[derive(Debug, Clone)]
struct Home {
    node: usize,
    worker: usize,
    epoch: Epoch,
    published: Published,
}

#[derive(Debug)]
enum Report {
    Wanted(String, bool),
    Started { key: String, home: Home, takes_over: bool },
    Changed { key: String, epoch: Epoch, published: Published },
    Ended { key: String, epoch: Epoch },
}

impl Directory {
    /// As this node sees it.
    pub fn of(self: &Arc<Self>, node: usize) -> Arc<dyn Elsewhere> {
        Arc::new(View { node, directory: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct View {
    node: usize,
    directory: Arc<Directory>,
}

impl View {
    fn report(&self, key: &str, report: impl FnOnce(String) -> Report) {
        let number = key.strip_prefix("live/s").and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number >= SHARED_FROM) {
            self.directory.lock().reports.push_back((self.node, report(key.to_owned())));
        }
    }
}

impl Elsewhere for View {
    fn published(&self, key: &str) -> Option<Published> {
        let listed = self.directory.lock();
        let home = listed.homes.get(key).filter(|home| home.node != self.node)?;
        Some(home.published.clone())
    }

    fn redirect(&self, _: &str, _: bool) -> Option<String> {
        None
    }

    fn wanted(&self, key: &str) {
        self.report(key, |key| Report::Wanted(key, true));
    }

    fn unwanted(&self, key: &str) {
        self.report(key, |key| Report::Wanted(key, false));
    }

    fn started(&self, publication: &Publication<'_>) {
        let Publication { key, epoch, worker, published, takes_over } = *publication;
        let home = Home { node: self.node, worker, epoch, published: published.clone() };
        self.report(key, |key| Report::Started { key, home, takes_over });
    }

    fn changed(&self, key: &str, epoch: Epoch, published: &Published) {
        let published = published.clone();
        self.report(key, |key| Report::Changed { key, epoch, published });
    }

    fn ended(&self, key: &str, epoch: Epoch) {
        self.report(key, |key| Report::Ended { key, epoch });
    }
}

/// What happens when its time has come.
enum Step {
    Report(usize, Report),
    /// A node asks this of its relay.
    Command(usize, RelayCommand),
    /// A child learns that its parent has no more of a stream.
    ParentEnded {
        child: usize,
        key: String,
        parent: (usize, Epoch),
    },
    Join(usize, usize),
    Break(usize, usize),
    /// No datagram comes to this node from others, or from it.
    CutOff(usize),
    Heal(usize),
    NewKey(String),
}

/// A stream of packets that a node has from another.
struct Fetch {
    /// The publication: its home, and which it is there.
    of: (usize, Epoch),
    /// From whom, over which link, and which publication it is there.
    parent: Option<(usize, LinkId, Epoch)>,
    /// Which publication it is on this node.
    local: Option<Epoch>,
    phase: Phase,
    /// Keys that came before there was anything to be opened by them.
    keys: Vec<OpenKey>,
    unwanted: Option<Instant>,
    excluded: Option<usize>,
}

enum Phase {
    /// Nobody is asked before then.
    Waits(Instant),
    Asks(Instant, Answer<Offered>),
    /// The offer is here then.
    Hears(Instant, Box<Offered>),
    Fetches(Instant, Answer<Fetched>),
    Attaches(Instant, Answer<Attached>),
    /// It comes, once that is answered.
    Gets(Instant, Option<Answer<()>>),
}

type Answer<T> = oneshot::Receiver<Result<T, RelayRefusal>>;

/// All that nodes have between them but media.
pub struct Cluster {
    directory: Arc<Directory>,
    queue: EventQueue,
    notices: Vec<mpsc::UnboundedReceiver<RelayNotice>>,
    /// Links that there are, by the smaller of the two nodes and the larger.
    links: BTreeMap<(usize, usize), LinkId>,
    last_link: u64,
    wanted: BTreeSet<(usize, String)>,
    fetches: BTreeMap<(usize, String), Fetch>,
    /// What is under way, by when it arrives, and in order.
    steps: BTreeMap<(Instant, u64), Step>,
    last_step: u64,
    /// When the last of what one node said to another arrives.
    arrives: BTreeMap<(usize, usize), Instant>,
    /// Streams whose keys change.
    changing: BTreeSet<String>,
    new_keys: Vec<(String, usize, Answer<OpenKey>)>,
    statistics: Vec<(usize, Instant, Answer<RelayStats>)>,
    /// Links break, and come back.
    breaks: bool,
    /// Nodes that are cut off.
    cut_off: BTreeSet<usize>,
    leaving: bool,
}

impl Cluster {
    /// Of all servers.
    pub fn new(ledger: &mut Ledger, directory: Arc<Directory>, breaks: bool) -> Self {
        let mut this = Self {
            directory,
            queue: EventQueue::new(),
            notices: Vec::new(),
            links: BTreeMap::new(),
            last_link: 0,
            wanted: BTreeSet::new(),
            fetches: BTreeMap::new(),
            steps: BTreeMap::new(),
            last_step: 0,
            arrives: BTreeMap::new(),
            changing: BTreeSet::new(),
            new_keys: Vec::new(),
            statistics: Vec::new(),
            breaks,
            cut_off: BTreeSet::new(),
            leaving: false,
        };
        for node in 0..ledger.servers.len() {
            let (notices, noticed) = mpsc::unbounded_channel();
            this.command(ledger, node, RelayCommand::Notify { notices });
            this.notices.push(noticed);
            for other in 0..node {
                this.later(ledger.random.up_to(ms(500)), Step::Join(other, node));
            }
            if breaks {
                this.later(ms(3_000) + ledger.random.up_to(ms(20_000)), Step::CutOff(node));
            }
        }
        this
    }

    fn later(&mut self, after: Duration, step: Step) {
        self.last_step += 1;
        self.steps.insert((kernel::now() + after, self.last_step), step);
    }

    /// One node says something to another, which does this then.
    fn say(&mut self, ledger: &mut Ledger, (from, to): (usize, usize), step: Step) {
        let now = kernel::now();
        let at = (now + ledger.random.up_to(DELAY_MAX)).max(*self.arrives.get(&(from, to)).unwrap_or(&now));
        self.arrives.insert((from, to), at);
        self.later(at - now, step);
    }

    /// A node asks something of its relay. A worker that has ended does not hear it.
    fn command(&self, ledger: &Ledger, node: usize, command: RelayCommand) {
        let worker = &ledger.servers[node].handles[RELAY_WORKER];
        let _ = worker.send(Command::Relay(Box::new(command)));
    }

    fn link(&self, one: usize, other: usize) -> Option<LinkId> {
        self.links.get(&(one.min(other), one.max(other))).copied()
    }

    fn step(&mut self, ledger: &mut Ledger, step: Step) {
        match step {
            Step::Report(node, report) => self.report(ledger, node, report),
            Step::Command(node, command) => self.command(ledger, node, command),
            Step::ParentEnded { child, key, parent: (parent, epoch) } => {
                let Some(fetch) = self.fetches.get_mut(&(child, key.clone())) else { return };
                let is_it = |(of, _, known): (usize, LinkId, Epoch)| (of, known) == (parent, epoch);
                if fetch.parent.is_none_or(|parent| !is_it(parent)) {
                    return;
                }
                // Which publication it becomes here is in the answer.
                let begins = matches!(fetch.phase, Phase::Fetches(..));
                self.let_go(ledger, child, &key);
                if !begins {
                    self.finish(ledger, child, &key);
                }
            }
            Step::Join(one, other) if [one, other].iter().any(|node| self.cut_off.contains(node)) => {
                self.later(LINK_AGAIN, Step::Join(one, other));
            }
            Step::Join(one, other) => {
                self.last_link += 1;
                let link = LinkId(self.last_link);
                let mut secret = [0; 32];
                secret.fill_with(|| ledger.random.next_u64() as u8);
                for (node, peer, role) in [(one, other, Role::Listener), (other, one, Role::Dialer)] {
                    let secret = LinkSecret::new(secret);
                    let address = ledger.servers[peer].relay.expect("servers of a cluster have relays");
                    let reply = oneshot::channel().0;
                    let command = RelayCommand::AddLink { link, secret, role, address, reply };
                    self.command(ledger, node, command);
                }
                self.links.insert((one, other), link);
                if self.breaks && !self.leaving {
                    self.later(ms(1_000) + ledger.random.up_to(ms(15_000)), Step::Break(one, other));
                }
            }
            Step::Break(one, other) => {
                let Some(link) = self.links.remove(&(one, other)) else { return };
                // One of the two may notice much later.
                for node in [one, other] {
                    let after = ledger.random.up_to(ms(1_000));
                    self.later(after, Step::Command(node, RelayCommand::RemoveLink { link }));
                }
                for fetch in self.fetches.values_mut() {
                    let is_over = fetch.parent.take_if(|(_, over, _)| *over == link).is_some();
                    if is_over && matches!(fetch.phase, Phase::Gets(..)) {
                        fetch.phase = Phase::Waits(kernel::now());
                    }
                }
                if !self.leaving {
                    self.later(ms(1_000) + ledger.random.up_to(ms(3_000)), Step::Join(one, other));
                }
            }
            Step::CutOff(node) if !self.leaving => {
                ledger.say(|| format!("node {node} is cut off"));
                kernel::cut_off(relay_ip(node), true);
                self.cut_off.insert(node);
                for other in (0..self.notices.len()).filter(|other| *other != node) {
                    // Until then, links seem to be there.
                    let after = NOTICED_AFTER + ledger.random.up_to(ms(200));
                    self.later(after, Step::Break(node.min(other), node.max(other)));
                }
                // It may be back before anybody has noticed.
                self.later(ms(200) + ledger.random.up_to(ms(4_000)), Step::Heal(node));
            }
            Step::CutOff(_) => {}
            Step::Heal(node) => {
                kernel::cut_off(relay_ip(node), false);
                self.cut_off.remove(&node);
                self.later(ms(3_000) + ledger.random.up_to(ms(20_000)), Step::CutOff(node));
            }
            Step::NewKey(key) => {
                let Some(home) = self.directory.lock().homes.get(&key).map(|home| home.node) else {
                    self.changing.remove(&key);
                    return;
                };
                let (reply, answer) = oneshot::channel();
                self.command(ledger, home, RelayCommand::NewKey { stream: key.clone(), reply });
                self.new_keys.push((key, home, answer));
            }
        }
    }

    fn report(&mut self, ledger: &mut Ledger, node: usize, report: Report) {
        ledger.say(|| format!("node {node} reports {report:?}"));
        match report {
            Report::Wanted(key, true) => {
                self.wanted.insert((node, key));
            }
            Report::Wanted(key, false) => {
                self.wanted.remove(&(node, key));
            }
            Report::Started { key, home, takes_over } => {
                let known = self.directory.lock().homes.get(&key).cloned();
                let loser = match known.filter(|known| known.node != node) {
                    None => None,
                    Some(known) if takes_over => Some(known),
                    Some(_) => Some(home.clone()),
                };
                if let Some(Home { node, worker, epoch, .. }) = &loser {
                    ledger.say(|| format!("{key} is published on two nodes: ended on {node}"));
                    let (key, epoch, reply) = (key.clone(), *epoch, oneshot::channel().0);
                    let reason = EndReason::PublishedElsewhere;
                    let command = Command::EndPublication { key, epoch, reason, reply };
                    let _ = ledger.servers[*node].handles[*worker].send(command);
                }
                if loser.is_none_or(|loser| loser.node != node) {
                    self.directory.lock().homes.insert(key.clone(), home);
                    if ledger.random.chance(0.5) && self.changing.insert(key.clone()) {
                        self.later(ledger.random.up_to(ms(20_000)), Step::NewKey(key));
                    }
                }
            }
            Report::Changed { key, epoch, published } => {
                let mut listed = self.directory.lock();
                let home = listed.homes.get_mut(&key).filter(|home| (home.node, home.epoch) == (node, epoch));
                if let Some(home) = home {
                    home.published = published;
                }
            }
            Report::Ended { key, epoch } => {
                let mut listed = self.directory.lock();
                if listed.homes.get(&key).is_some_and(|home| (home.node, home.epoch) == (node, epoch)) {
                    listed.homes.remove(&key);
                }
            }
        }
    }

    fn notice(&mut self, ledger: &mut Ledger, node: usize, notice: RelayNotice) {
        match notice {
            RelayNotice::ServedEnded { stream: key, epoch } => {
                let children = self.fetches.iter().filter(|((_, of), fetch)| {
                    *of == key && fetch.parent.is_some_and(|(from, _, at)| (from, at) == (node, epoch))
                });
                let children: Vec<usize> = children.map(|((child, _), _)| *child).collect();
                for child in children {
                    let step = Step::ParentEnded { child, key: key.clone(), parent: (node, epoch) };
                    self.say(ledger, (node, child), step);
                }
            }
            RelayNotice::FetchEnded { stream: key, epoch, reason } => {
                ledger.check(reason != EndReason::Defect, || format!("{key} of node {node} met a defect"));
                let Some(fetch) = self.fetches.get_mut(&(node, key.clone())) else { return };
                if fetch.local.take_if(|local| *local == epoch).is_some() {
                    self.let_go(ledger, node, &key);
                    self.waits(node, &key, ms(1_000));
                }
            }
            RelayNotice::KeyWorn { .. } => ledger.violation("a key is worn within minutes".to_owned()),
        }
    }

    fn waits(&mut self, node: usize, key: &str, time: Duration) {
        if let Some(fetch) = self.fetches.get_mut(&(node, key.to_owned())) {
            fetch.phase = Phase::Waits(kernel::now() + time);
        }
    }

    /// A node takes no more of a stream from its parent, which is told.
    fn let_go(&mut self, ledger: &mut Ledger, node: usize, key: &str) {
        let Some(fetch) = self.fetches.get_mut(&(node, key.to_owned())) else { return };
        let Some((parent, link, _)) = fetch.parent.take() else { return };
        fetch.excluded = Some(parent);
        self.command(ledger, node, RelayCommand::RemoveParent { link, stream: key.to_owned() });
        let stop = RelayCommand::StopServing { link, stream: key.to_owned() };
        self.say(ledger, (node, parent), Step::Command(parent, stop));
    }

    /// The publication is over on this node.
    fn finish(&mut self, ledger: &mut Ledger, node: usize, key: &str) {
        let Some(fetch) = self.fetches.get_mut(&(node, key.to_owned())) else { return };
        fetch.phase = Phase::Waits(kernel::now() + ASK_AGAIN);
        fetch.keys.clear();
        if let Some(epoch) = fetch.local.take() {
            *ledger.let_go.entry((node, key.to_owned())).or_default() += 1;
            self.command(ledger, node, RelayCommand::EndFetch { stream: key.to_owned(), epoch });
        }
    }

    /// Whom a node asks: the home of a stream, or another node that has it from there.
    fn choose(&self, ledger: &mut Ledger, node: usize, key: &str) -> Option<(usize, LinkId)> {
        let fetch = self.fetches.get(&(node, key.to_owned()))?;
        let of = |other: usize| self.fetches.get(&(other, key.to_owned()));
        // Up to the home, and not by this node.
        let reaches_home = |mut at: usize| {
            for _ in 0..self.notices.len() {
                if at == fetch.of.0 {
                    return true;
                }
                let known = of(at).filter(|known| known.of == fetch.of && known.local.is_some());
                let Some((parent, ..)) = known.and_then(|known| known.parent) else { return false };
                if parent == node {
                    return false;
                }
                at = parent;
            }
            false
        };
        let others = (0..self.notices.len()).filter(|other| *other != node && reaches_home(*other));
        let linked = others.filter_map(|other| Some((other, self.link(node, other)?)));
        let all: Vec<(usize, LinkId)> = linked.collect();
        let mut fresh = all.clone();
        fresh.retain(|(other, _)| fetch.excluded != Some(*other));
        let from = if fresh.is_empty() { all } else { fresh };
        (!from.is_empty()).then(|| from[ledger.random.below(from.len() as u64) as usize])
    }

    /// Goes on with what a node fetches, as far as it can now.
    fn advance(&mut self, ledger: &mut Ledger, node: usize, key: &str) {
        let (now, entry) = (kernel::now(), (node, key.to_owned()));
        // Nodes that have it from here want it too.
        let is_child = |(of, fetch): (&(usize, String), &Fetch)| {
            of.1 == key && fetch.parent.is_some_and(|(parent, ..)| parent == node)
        };
        let is_wanted = self.wanted.contains(&entry) || self.fetches.iter().any(is_child);
        let home = self.directory.lock().homes.get(key).map(|home| (home.node, home.epoch));
        let home = home.filter(|(home, _)| *home != node);
        let Some(fetch) = self.fetches.get_mut(&entry) else {
            if let Some(of) = home.filter(|_| is_wanted) {
                let fetch = Fetch {
                    of,
                    parent: None,
                    local: None,
                    phase: Phase::Waits(now),
                    keys: Vec::new(),
                    unwanted: None,
                    excluded: None,
                };
                self.fetches.insert(entry, fetch);
            }
            return;
        };
        fetch.unwanted = (!is_wanted).then(|| fetch.unwanted.unwrap_or(now));
        let is_over = fetch.unwanted.is_some_and(|since| now >= since + LINGER);
        // Who is asked at the moment would do it all the same: that is waited for.
        let is_settled = matches!(fetch.phase, Phase::Waits(_) | Phase::Gets(_, None));
        if (is_over || home != Some(fetch.of)) && is_settled {
            self.let_go(ledger, node, key);
            self.finish(ledger, node, key);
            self.fetches.remove(&entry);
            return;
        }
        match std::mem::replace(&mut fetch.phase, Phase::Waits(now)) {
            Phase::Waits(until) if until > now => fetch.phase = Phase::Waits(until),
            Phase::Waits(_) => {
                let Some((parent, link)) = self.choose(ledger, node, key) else {
                    return self.waits(node, key, ASK_AGAIN);
                };
                let (reply, answer) = oneshot::channel();
                let offer = RelayCommand::Offer { stream: key.to_owned(), reply };
                self.say(ledger, (node, parent), Step::Command(parent, offer));
                if let Some(fetch) = self.fetches.get_mut(&entry) {
                    // Which publication it is there is in the answer.
                    fetch.parent = Some((parent, link, Epoch(0)));
                    fetch.phase = Phase::Asks(now, answer);
                }
            }
            Phase::Asks(since, mut answer) => match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.still(ledger, &entry, since, Phase::Asks(since, answer));
                }
                Ok(Ok(offered)) => {
                    let Some((parent, ..)) = fetch.parent else { return };
                    // Of another publication than the directory has, one of the two knows first.
                    let there = match parent == fetch.of.0 {
                        true => Some(fetch.of.1),
                        false => {
                            let of = fetch.of;
                            let known = self.fetches.get(&(parent, key.to_owned()));
                            known.filter(|known| known.of == of).and_then(|known| known.local)
                        }
                    };
                    if there != Some(offered.epoch) {
                        self.let_go(ledger, node, key);
                        return self.waits(node, key, ASK_AGAIN);
                    }
                    let at = now + ledger.random.up_to(DELAY_MAX);
                    if let Some(fetch) = self.fetches.get_mut(&entry) {
                        fetch.parent = fetch.parent.map(|(parent, link, _)| (parent, link, offered.epoch));
                        fetch.phase = Phase::Hears(at, Box::new(offered));
                    }
                }
                refused => self.refused(ledger, node, key, refused, ASK_AGAIN),
            },
            Phase::Hears(at, offered) if at > now => fetch.phase = Phase::Hears(at, offered),
            Phase::Hears(_, offered) => {
                let Some((_, link, _)) = fetch.parent else { return };
                let (stream, Offered { tracks, keys, .. }) = (key.to_owned(), *offered);
                if fetch.local.is_none() {
                    let (reply, answer) = oneshot::channel();
                    fetch.phase = Phase::Fetches(now, answer);
                    let fetch = RelayCommand::Fetch { link, stream, tracks, keys, reply };
                    return self.command(ledger, node, fetch);
                }
                let (reply, answer) = oneshot::channel();
                fetch.phase = Phase::Attaches(now, answer);
                for one in keys {
                    self.add_key(ledger, node, key, one);
                }
                self.command(ledger, node, RelayCommand::AddParent { link, stream, reply });
            }
            Phase::Fetches(since, mut answer) => match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.still(ledger, &entry, since, Phase::Fetches(since, answer));
                }
                Ok(Ok(Fetched { epoch, handle })) => {
                    fetch.local = Some(epoch);
                    for late in std::mem::take(&mut fetch.keys) {
                        self.add_key(ledger, node, key, late);
                    }
                    self.ask_for_it(ledger, node, key, (handle, None));
                }
                refused => self.refused(ledger, node, key, refused, ms(1_000)),
            },
            Phase::Attaches(since, mut answer) => match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.still(ledger, &entry, since, Phase::Attaches(since, answer));
                }
                Ok(Ok(Attached { handle, position })) => {
                    self.ask_for_it(ledger, node, key, (handle, Some(position)));
                }
                refused => self.refused(ledger, node, key, refused, ASK_AGAIN),
            },
            Phase::Gets(since, Some(mut answer)) => match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.still(ledger, &entry, since, Phase::Gets(since, Some(answer)));
                }
                Ok(Ok(())) => {
                    fetch.phase = Phase::Gets(now, None);
                    fetch.excluded = None;
                }
                refused => {
                    self.refused(ledger, node, key, refused, ASK_AGAIN);
                    self.finish(ledger, node, key);
                }
            },
            // Another one may be better, as far as this node can tell.
            Phase::Gets(..) if ledger.random.chance(0.002) => self.let_go(ledger, node, key),
            Phase::Gets(since, None) => fetch.phase = Phase::Gets(since, None),
        }
    }

    /// The stream is published here, or has another parent: that one is asked to send it.
    fn ask_for_it(
        &mut self,
        ledger: &mut Ledger,
        node: usize,
        key: &str,
        (handle, from): (u16, Option<relay::Position>),
    ) {
        let Some(fetch) = self.fetches.get_mut(&(node, key.to_owned())) else { return };
        // The link may have gone meanwhile.
        let Some((parent, link, epoch)) = fetch.parent else { return };
        let ((reply, answer), stream) = (oneshot::channel(), key.to_owned());
        fetch.phase = Phase::Gets(kernel::now(), Some(answer));
        let serve = RelayCommand::Serve { link, stream, epoch, handle, from, reply };
        self.say(ledger, (node, parent), Step::Command(parent, serve));
    }

    /// An answer has not come yet.
    fn still(&mut self, ledger: &mut Ledger, entry: &(usize, String), since: Instant, phase: Phase) {
        let late = kernel::now() > since + ANSWER_MAX + ledger.slack && !ledger.is_draining;
        let (node, key) = entry;
        ledger.check(!late, || format!("no answer about {key} to node {node}"));
        if let Some(fetch) = self.fetches.get_mut(entry) {
            fetch.phase = phase;
        }
    }

    /// The answer is no, or none: another parent is asked, later.
    fn refused<T>(
        &mut self,
        ledger: &mut Ledger,
        node: usize,
        key: &str,
        answer: Result<Result<T, RelayRefusal>, oneshot::error::TryRecvError>,
        later: Duration,
    ) {
        if let Ok(Err(why)) = answer {
            ledger.say(|| format!("node {node} does not get {key}: {why:?}"));
            let may = match why {
                RelayRefusal::NoStream | RelayRefusal::Replaced | RelayRefusal::Taken => true,
                RelayRefusal::Draining => ledger.is_draining,
                RelayRefusal::NoLink => self.breaks,
                RelayRefusal::NoRelay
                | RelayRefusal::NotPackets
                | RelayRefusal::NoKey
                | RelayRefusal::Setup(_) => false,
            };
            ledger.check(may, || format!("node {node} does not get {key}: {why:?}"));
        }
        self.let_go(ledger, node, key);
        self.waits(node, key, later);
    }

    fn add_key(&self, ledger: &Ledger, node: usize, stream: &str, key: OpenKey) {
        // One that is there already is refused, and does no harm.
        let (stream, reply) = (stream.to_owned(), oneshot::channel().0);
        self.command(ledger, node, RelayCommand::AddKey { stream, key, reply });
    }

    /// Passes new keys on to all nodes that have the stream, or are about to.
    fn spread_keys(&mut self, ledger: &mut Ledger) {
        for (key, home, mut answer) in std::mem::take(&mut self.new_keys) {
            match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => self.new_keys.push((key, home, answer)),
                Ok(Ok(new)) => {
                    ledger.say(|| format!("{key} gets key {}", new.epoch()));
                    let nodes = self.fetches.iter_mut().filter(|((_, of), _)| *of == key);
                    let mut have = Vec::new();
                    for ((node, _), fetch) in nodes {
                        match fetch.local {
                            Some(_) => have.push(*node),
                            None => fetch.keys.push(new.clone()),
                        }
                    }
                    for node in have {
                        let (stream, reply) = (key.clone(), oneshot::channel().0);
                        let add = RelayCommand::AddKey { stream, key: new.clone(), reply };
                        self.say(ledger, (home, node), Step::Command(node, add));
                    }
                    let (stream, epoch, reply) = (key.clone(), new.epoch(), oneshot::channel().0);
                    let used = RelayCommand::UseNewKey { stream, epoch, reply };
                    self.later(KEY_SPREADS, Step::Command(home, used));
                    self.later(KEY_CHANGE_MIN + ledger.random.up_to(ms(15_000)), Step::NewKey(key));
                }
                // Nobody gets the stream, or it is over.
                _ => _ = self.changing.remove(&key),
            }
        }
    }

    /// Looks at what relays say about themselves.
    fn look(&mut self, ledger: &mut Ledger) {
        let now = kernel::now();
        if self.statistics.is_empty() && ledger.random.chance(0.01) {
            for node in 0..self.notices.len() {
                let (reply, answer) = oneshot::channel();
                self.command(ledger, node, RelayCommand::Statistics { reply });
                self.statistics.push((node, now, answer));
            }
        }
        for (node, asked, mut answer) in std::mem::take(&mut self.statistics) {
            match answer.try_recv() {
                Ok(Ok(stats)) => {
                    let links: BTreeSet<LinkId> = stats.links.iter().map(|link| link.link).collect();
                    let linked = |stream: &RelayStreamStats| {
                        stream.parents.iter().chain(&stream.children).all(|link| links.contains(link))
                    };
                    let is_right = stats.streams.iter().all(linked);
                    ledger.check(is_right, || format!("node {node} has streams over no link: {stats:?}"));
                    let twice = links.len() < stats.links.len();
                    ledger.check(!twice, || format!("node {node} lists a link twice"));
                }
                Err(oneshot::error::TryRecvError::Empty) => {
                    let late = now > asked + ANSWER_MAX + ledger.slack && !ledger.is_draining;
                    ledger.check(!late, || format!("no statistics of the relay of node {node}"));
                    self.statistics.push((node, asked, answer));
                }
                Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
    }
}

impl Actor for Cluster {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        let reports = std::mem::take(&mut self.directory.lock().reports);
        for (node, report) in reports {
            self.say(ledger, (node, node), Step::Report(node, report));
        }
        while let Some(due) = self.steps.first_entry().filter(|due| due.key().0 <= now) {
            let step = due.remove();
            self.step(ledger, step);
        }
        self.spread_keys(ledger);
        self.look(ledger);
        let entries: BTreeSet<(usize, String)> = self.fetches.keys().chain(&self.wanted).cloned().collect();
        for (node, key) in entries {
            self.advance(ledger, node, &key);
        }
        // A worker answers before it ends what the answer is about.
        for node in 0..self.notices.len() {
            while let Ok(notice) = self.notices[node].try_recv() {
                self.notice(ledger, node, notice);
            }
        }
        let is_over = self.wanted.is_empty() && self.fetches.is_empty() && self.statistics.is_empty();
        let is_quiet = !self.steps.values().any(|step| matches!(step, Step::Report(..) | Step::Command(..)));
        if ledger.is_draining || self.leaving && is_over && is_quiet {
            for ((one, other), link) in std::mem::take(&mut self.links) {
                self.command(ledger, one, RelayCommand::RemoveLink { link });
                self.command(ledger, other, RelayCommand::RemoveLink { link });
            }
            return Next::Done;
        }
        let next = self.steps.first_key_value().map(|((at, _), _)| *at);
        Next::At(next.unwrap_or(now + ms(20)).clamp(now + ms(1), now + ms(20)))
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("links", &self.links).finish_non_exhaustive()
    }
}
