//! The directory as the rest of a node uses it.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_nats::Event as NatsEvent;
use async_nats::connection::State;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::machine::{Action, ClaimId, Event, Granted, Home, Input, Machine, NonsenseCount, Policy, Refusal};
use crate::names::{NodeName, StreamName};
use crate::nats::{self, Nats};
use crate::record::{Description, Epoch, InstanceId, Load, NEWCOMER, Node};
use crate::settings::Settings;

/// Events kept for a reader that is slow; a slower one is told that it missed some.
const EVENTS_MAX: usize = 16_384;
/// How long [`Directory::connect`] waits for NATS before it goes on without.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// And for its name, if another instance had it, to become free by expiry.
const NAME_WITHIN: Duration = Duration::from_secs(7);
/// How long [`Directory::leave`] waits for NATS.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// The same complaint is made this often at most.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// A server that cannot be reached is asked this often why.
const ASK_WHY_EVERY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// One node's part of the directory. Answers come from its own copy and never wait; calls may be made from
/// any thread. Ends, without leaving, when it is dropped.
#[derive(Debug)]
pub struct Directory {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// Why a directory was not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// The settings cannot work.
    Settings(String),
    /// A living node has the name.
    NameTaken {
        /// The name.
        name: NodeName,
        /// What the other one says of itself.
        by: Option<Box<Node>>,
    },
}

/// How the directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// NATS answers, and all it has was read.
    pub heard: bool,
    /// This node has its name.
    pub named: bool,
    /// All that this node wants is written.
    pub settled: bool,
    /// Version of the NATS server, empty before the first connection.
    pub server_version: String,
    /// What last went wrong with NATS.
    pub last_problem: Option<String>,
    /// Keys and values that were ignored.
    pub nonsense: NonsenseCount,
    /// Messages received from NATS and sent to it.
    pub messages: (u64, u64),
}

/// A claim that waits for its answer. Dropped before, it is given up.
#[derive(Debug)]
pub struct Claiming {
    shared: Arc<Shared>,
    stream: StreamName,
    claim: ClaimId,
    answer: oneshot::Receiver<Result<Granted, Refusal>>,
    done: bool,
}

/// Changes, in order.
#[derive(Debug)]
pub struct Events(broadcast::Receiver<Event>);

#[derive(Debug)]
pub(crate) struct Shared {
    me: Weak<Self>,
    pub(crate) instance: InstanceId,
    inner: Mutex<Inner>,
    /// The machine's next timeout may have changed.
    wake: Notify,
    /// Sessions that were asked for so far.
    resync: watch::Sender<u64>,
    events: broadcast::Sender<Event>,
    runtime: Handle,
    nats: Nats,
    begun: Instant,
}

/// What the client says of its connection.
#[derive(Debug, Default)]
struct Connection {
    changes: u64,
    problem: Option<String>,
}

#[derive(Debug)]
struct Inner {
    machine: Machine,
    claims: HashMap<ClaimId, (StreamName, oneshot::Sender<Result<Granted, Refusal>>)>,
    name_taken: Option<InstanceId>,
    last_problem: Option<String>,
    complained_at: Option<Duration>,
    nonsense_told: u64,
    nonsense_told_at: Option<Duration>,
}

impl Directory {
    /// Connects and waits until this node has its name. If NATS cannot be reached within two seconds, the
    /// directory goes on without it and keeps trying; `health` says so. Must be called within a Tokio
    /// runtime, on which its tasks run.
    pub async fn connect(settings: Settings) -> Result<Self, ConnectError> {
        settings.check().map_err(ConnectError::Settings)?;
        let directory = Self::start(settings).await?;
        let (mut events, begun) = (directory.events(), directory.shared.now());
        loop {
            let (heard, named, other) = {
                let inner = directory.shared.lock();
                (inner.machine.is_live(), inner.machine.is_named(), inner.name_taken)
            };
            if let Some(instance) = other {
                let name = directory.shared.lock().machine.name().clone();
                let by = directory.nodes().into_iter().find(|node| node.instance == instance).map(Box::new);
                return Err(ConnectError::NameTaken { name, by });
            }
            let waited = directory.shared.now().saturating_sub(begun);
            if named || waited >= NAME_WITHIN || !heard && waited >= CONNECT_WITHIN {
                return Ok(directory);
            }
            // Being named is no event; it follows one by milliseconds.
            let _ = tokio::time::timeout(PAUSE / 10, events.next()).await;
        }
    }

    async fn start(settings: Settings) -> Result<Self, ConnectError> {
        let (connection, _) = watch::channel(Connection::default());
        let changed = connection.clone();
        let options = nats::options(&settings).await.map_err(ConnectError::Settings)?;
        let options = options.event_callback(move |event| {
            debug!(%event, "NATS");
            match event {
                NatsEvent::Connected | NatsEvent::Disconnected | NatsEvent::Closed => {
                    changed.send_modify(|connection| connection.changes += 1);
                }
                NatsEvent::ServerError(error) => {
                    changed.send_modify(|connection| connection.problem = Some(error.to_string()));
                }
                NatsEvent::ClientError(error) => {
                    changed.send_modify(|connection| connection.problem = Some(error.to_string()));
                }
                _ => {}
            }
            std::future::ready(())
        });
        let client = options.retry_on_initial_connect().connect(settings.servers.clone()).await;
        let client = client.map_err(|error| ConnectError::Settings(error.to_string()))?;
        let mut random = [0; 8];
        aws_lc_rs::rand::fill(&mut random).expect("the system gives random numbers");
        let instance = InstanceId(u64::from_be_bytes(random));
        let me = Node {
            name: settings.name.clone(),
            instance,
            region: settings.region.clone(),
            software: settings.software.clone(),
            addresses: settings.addresses.clone(),
            draining: false,
            load: Load::default(),
            joined: NEWCOMER,
        };
        let inner = Inner {
            machine: Machine::new(me, Duration::ZERO),
            claims: HashMap::new(),
            name_taken: None,
            last_problem: None,
            complained_at: None,
            nonsense_told: 0,
            nonsense_told_at: None,
        };
        #[expect(clippy::disallowed_methods, reason = "the machine's time begins here")]
        let begun = Instant::now();
        let shared = Arc::new_cyclic(|me| Shared {
            me: me.clone(),
            instance,
            inner: Mutex::new(inner),
            wake: Notify::new(),
            resync: watch::channel(0).0,
            events: broadcast::channel(EVENTS_MAX).0,
            runtime: Handle::current(),
            nats: Nats::new(client, &settings.prefix),
            begun,
        });
        let nats = shared.nats.clone();
        let answers = tokio::spawn(async move {
            if let Err(problem) = nats.answer_questions(instance.0).await {
                warn!(problem, "directory: this node does not say any more that it is there");
            }
        });
        let sessions = tokio::spawn(sessions(shared.clone(), settings, connection));
        let timers = tokio::spawn(timers(shared.clone()));
        Ok(Self { shared, tasks: vec![answers, sessions, timers] })
    }

    /// Asks for `stream` to be published on this node. Answered within milliseconds if the directory is
    /// heard, within a second if it is not. A granted one is the node's until `release`, [`Event::Lost`] or
    /// [`Event::NameTaken`].
    pub fn claim(&self, stream: &StreamName, description: Arc<Description>, policy: Policy) -> Claiming {
        let (sender, answer) = oneshot::channel();
        let mut inner = self.shared.lock();
        let claim = inner.machine.claim(self.shared.now(), stream, description, policy);
        inner.claims.insert(claim, (stream.clone(), sender));
        self.shared.carry_out(&mut inner);
        drop(inner);
        Claiming { shared: self.shared.clone(), stream: stream.clone(), claim, answer, done: false }
    }

    /// The publication has ended. One that is not the present one of its stream is left alone.
    pub fn release(&self, stream: &StreamName, epoch: Epoch) {
        self.shared.with(|machine, now| machine.release(now, stream, epoch));
    }

    /// The publication has other codecs or tracks. Says whether it is the present one and they are within the
    /// limits.
    pub fn update(&self, stream: &StreamName, epoch: Epoch, description: Arc<Description>) -> bool {
        self.shared.with(|machine, now| machine.update(now, stream, epoch, description))
    }

    /// Where `stream` is published, as far as is known here.
    pub fn find(&self, stream: &StreamName) -> Option<Home> {
        self.shared.lock().machine.find(stream).cloned()
    }

    /// All streams of all nodes: for lists and after [`Events`] were missed, not for single ones.
    pub fn streams(&self) -> Vec<(StreamName, Home)> {
        let inner = self.shared.lock();
        inner.machine.shown().map(|(stream, home)| (stream.clone(), home.clone())).collect()
    }

    /// This node and all others that live.
    pub fn nodes(&self) -> Vec<Node> {
        self.shared.lock().machine.living().collect()
    }

    /// Which nodes fetch `stream` from whom: child, parent.
    pub fn feeds(&self, stream: &StreamName) -> Vec<(NodeName, NodeName)> {
        self.shared.lock().machine.feeds(stream)
    }

    /// This node fetches `stream` from `parent` now, or from nobody. False if it fetches too many.
    pub fn set_feed(&self, stream: &StreamName, parent: Option<NodeName>) -> bool {
        self.shared.with(|machine, now| machine.set_feed(now, stream, parent))
    }

    /// How busy this node is; goes out with the next announcement, every 3 to 20 s by the number of
    /// nodes, or at once if it is busy now or is not any more.
    pub fn set_load(&self, load: Load) {
        self.shared.with(|machine, now| machine.set_load(now, load));
    }

    /// This node takes nobody any more (or does again); the others know at once.
    pub fn set_draining(&self, draining: bool) {
        self.shared.with(|machine, now| machine.set_draining(now, draining));
    }

    /// What this node's own link to another says. A node that cannot be reached is asked for, and names it
    /// has can be claimed while NATS is away.
    pub fn set_reachable(&self, node: &NodeName, reachable: bool) {
        self.shared.with(|machine, _| machine.set_reachable(node, reachable));
    }

    /// Changes from now on.
    pub fn events(&self) -> Events {
        Events(self.shared.events.subscribe())
    }

    /// Leaves: the others forget this node and its streams at once.
    pub async fn leave(&self) {
        self.shared.with(|machine, now| machine.leave(now));
        let begun = self.shared.now();
        while self.shared.lock().machine.is_leaving() && self.shared.now() < begun + LEAVE_WITHIN {
            tokio::time::sleep(PAUSE / 20).await;
        }
        let _ = tokio::time::timeout(LEAVE_WITHIN, self.shared.nats.client.flush()).await;
    }

    /// How the directory is.
    pub fn health(&self) -> Health {
        let statistics = self.shared.nats.client.statistics();
        let (received, sent) = (&statistics.in_messages, &statistics.out_messages);
        let inner = self.shared.lock();
        Health {
            heard: inner.machine.is_live(),
            named: inner.machine.is_named(),
            settled: inner.machine.is_settled(),
            server_version: self.shared.nats.client.server_info().version,
            last_problem: inner.last_problem.clone(),
            nonsense: inner.machine.nonsense(),
            messages: (received.load(Ordering::Relaxed), sent.load(Ordering::Relaxed)),
        }
    }

    /// Which start of this node this is.
    pub fn instance(&self) -> InstanceId {
        self.shared.instance
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Events {
    /// The next change; `Err` with their number if some were missed: then read everything again.
    pub async fn next(&mut self) -> Result<Event, u64> {
        match self.0.recv().await {
            Ok(event) => Ok(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Err(missed),
            // The directory is gone, and nothing comes any more.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Future for Claiming {
    type Output = Result<Granted, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|answer| {
            self.done = true;
            answer.unwrap_or(Err(Refusal::Leaving))
        })
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.answer.close();
        match self.answer.try_recv() {
            Ok(Ok(granted)) => {
                self.shared.with(|machine, now| machine.release(now, &self.stream, granted.epoch));
            }
            Ok(Err(_)) => {}
            Err(_) => self.shared.with(|machine, now| machine.abandon(now, &self.stream, self.claim)),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(problem) => f.write_str(problem),
            Self::NameTaken { name, by } => {
                write!(f, "another living node has the name {name}")?;
                match by {
                    Some(node) => write!(f, " (relay address {:?})", node.addresses.relay_tcp),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ConnectError {}

impl Shared {
    pub(crate) fn input(&self, input: Input) {
        self.with(|machine, now| machine.handle(now, input));
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, change: impl FnOnce(&mut Machine, Duration) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner.machine, self.now());
        self.carry_out(&mut inner);
        result
    }

    fn carry_out(&self, inner: &mut Inner) {
        loop {
            let actions = inner.machine.take_actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.act(inner, action);
            }
        }
        let (now, nonsense) = (self.now(), inner.machine.nonsense());
        let due = inner.nonsense_told_at.is_none_or(|told| now > told + COMPLAIN_EVERY);
        if nonsense.total > inner.nonsense_told && due {
            let (count, last) = (nonsense.total - inner.nonsense_told, nonsense.last);
            (inner.nonsense_told, inner.nonsense_told_at) = (nonsense.total, Some(now));
            warn!(count, ?last, "directory: entries that no node of this version writes were ignored");
        }
        self.wake.notify_one();
    }

    fn act(&self, inner: &mut Inner, action: Action) {
        match action {
            Action::Resync => self.resync.send_modify(|count| *count += 1),
            Action::Write { number, key, value, expected } => self.write(number, key, value, expected),
            Action::Heartbeat { number } => {
                let (nats, shared, instance) = (self.nats.clone(), self.me.clone(), self.instance);
                self.runtime.spawn(async move {
                    let heartbeats = nats.beat(instance.0).await;
                    if let Some(shared) = shared.upgrade() {
                        let heartbeats =
                            heartbeats.map(|heartbeats| heartbeats.into_iter().map(InstanceId).collect());
                        shared.input(Input::Heartbeats { number, heartbeats });
                    }
                });
            }
            Action::Unstored => {
                let subject = self.nats.heartbeat_subject(self.instance.0);
                let problem =
                    format!("nothing that is published to {subject} is stored; is the right missing?");
                warn!(problem, "directory: NATS does not store heartbeats; the dead are found late");
                inner.last_problem = Some(problem);
            }
            Action::StoredAgain => inner.last_problem = None,
            Action::Ask(instance) => {
                let (nats, shared) = (self.nats.clone(), self.me.clone());
                self.runtime.spawn(async move {
                    let answer = nats.ask(instance.0).await;
                    if let Some(shared) = shared.upgrade() {
                        shared.input(Input::Asked(instance, answer));
                    }
                });
            }
            Action::Purge { key, revision } => {
                let nats = self.nats.clone();
                self.runtime.spawn(async move { nats.purge(&key, revision).await });
            }
            Action::Answer(claim, answer) => {
                if let Some((stream, sender)) = inner.claims.remove(&claim)
                    && let Err(Ok(granted)) = sender.send(answer)
                {
                    // Nobody waits for it any more.
                    inner.machine.release(self.now(), &stream, granted.epoch);
                }
            }
            Action::Tell(event) => {
                tell(&event, inner.last_problem.as_deref());
                if let Event::NameTaken { by } = event {
                    inner.name_taken = Some(by);
                }
                // No reader is no error.
                let _ = self.events.send(event);
            }
        }
    }

    fn write(&self, number: u64, key: crate::machine::Key, value: Option<Bytes>, expected: Option<u64>) {
        let (nats, shared) = (self.nats.clone(), self.me.clone());
        self.runtime.spawn(async move {
            let outcome = nats.write(&key, value, expected).await;
            if let Some(shared) = shared.upgrade() {
                shared.input(Input::Written { number, key, outcome });
            }
        });
    }

    fn problem(&self, problem: &nats::Problem) {
        let (now, mut inner) = (self.now(), self.lock());
        if inner.complained_at.is_none_or(|at| now > at + COMPLAIN_EVERY) {
            inner.complained_at = Some(now);
            warn!(%problem, "directory: NATS cannot be used; trying again");
        }
        inner.last_problem = Some(problem.to_string());
    }
}

fn tell(event: &Event, problem: Option<&str>) {
    match event {
        Event::Heard => info!("directory: NATS is heard"),
        Event::NotHeard => warn!(problem, "directory: NATS is not heard; what was known stays"),
        Event::NodeUp(node) => info!(node = %node.name, region = node.region, "directory: a node came"),
        Event::NodeGone(node, why) => info!(%node, ?why, "directory: a node is gone"),
        // Whoever ends what this node publishes then says so.
        _ => {}
    }
}

/// One session with NATS after the other.
async fn sessions(shared: Arc<Shared>, settings: Settings, connection: watch::Sender<Connection>) {
    let mut changed = connection.subscribe();
    let mut resync = shared.resync.subscribe();
    loop {
        let mut asked_why: Option<Duration> = None;
        while shared.nats.client.connection_state() != State::Connected {
            changed.borrow_and_update();
            if let Some(problem) = take_problem(&connection)
                && asked_why.is_none_or(|asked| shared.now() > asked + ASK_WHY_EVERY)
            {
                asked_why = Some(shared.now());
                tokio::select! {
                    why = nats::why_unreachable(&settings) => shared.problem(&why.unwrap_or(problem.into())),
                    _ = changed.changed() => {}
                }
            }
            if shared.nats.client.connection_state() != State::Connected {
                let _ = tokio::time::timeout(PAUSE, changed.changed()).await;
            }
        }
        changed.borrow_and_update();
        resync.borrow_and_update();
        tokio::select! {
            problem = shared.nats.session(&shared, &settings) => shared.problem(&problem),
            _ = changes(&mut changed) => shared.problem(&"the connection was lost".into()),
            _ = resync.changed() => shared.problem(&"it does not answer".into()),
        }
        shared.input(Input::Lost);
        tokio::time::sleep(PAUSE).await;
    }
}

fn take_problem(connection: &watch::Sender<Connection>) -> Option<String> {
    let mut problem = None;
    connection.send_if_modified(|connection| {
        problem = connection.problem.take();
        false
    });
    problem
}

/// Until the connection is another one.
async fn changes(changed: &mut watch::Receiver<Connection>) {
    let before = changed.borrow_and_update().changes;
    let _ = changed.wait_for(|connection| connection.changes != before).await;
}

async fn timers(shared: Arc<Shared>) {
    loop {
        let (next, now) = (shared.lock().machine.next_timeout(), shared.now());
        match next {
            Some(next) if next <= now => {
                shared.with(Machine::tick);
                continue;
            }
            Some(next) => {
                let _ = tokio::time::timeout(next - now, shared.wake.notified()).await;
            }
            None => shared.wake.notified().await,
        }
    }
}
