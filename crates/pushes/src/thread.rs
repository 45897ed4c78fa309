//! The thread that follows streams and pushes those that a rule matches, and what others ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sources::settings::AddedBy;
use tokio::runtime::Builder;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use worker_api::live::Live;
use worker_api::publications::StreamPublished;
use worker_api::{HomeOf, WorkerHandles};

use crate::common::{Common, PushSettings};
use crate::spec::PushSpec;
use crate::task::{self, Push};

/// Names that are looked up again only when there are more of them than that.
const KNOWN_MIN: usize = 256;
/// Longest time that the end of the thread is waited for.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// What the thread needs.
pub struct PushesInput {
    /// Limits.
    pub settings: PushSettings,
    /// Where frames come from.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<HomeOf>,
    /// Streams that begin to be published.
    pub published: Receiver<StreamPublished>,
    /// Ports that this server listens on.
    pub own_ports: Vec<u16>,
}

/// Owns the thread, which ends when this is stopped or dropped.
#[derive(Debug)]
pub struct PushesThread {
    pushes: Pushes,
    /// Dropped to end it, and the thread's answer.
    running: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// Pushes, for the control side.
#[derive(Debug, Clone)]
pub struct Pushes {
    common: Arc<Common>,
    rules: Arc<SharedRules>,
}

/// Streams and their target, with what is pushed at present.
#[derive(Debug)]
pub struct Rule {
    /// Its number.
    pub id: u64,
    /// Which streams, and where to.
    pub spec: Arc<PushSpec>,
    /// Who added it.
    pub added_by: AddedBy,
    active: Mutex<BTreeMap<Arc<str>, Arc<Push>>>,
}

/// Why a rule is not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdded {
    /// There is one of the same streams and target.
    Exists,
    /// There are as many as there may be.
    Full,
    /// Its address is not allowed; a sentence.
    Forbidden(String),
}

#[derive(Debug, Default)]
struct Rules {
    last_id: u64,
    by_id: BTreeMap<u64, Arc<Rule>>,
}

/// What the control side changes and the thread follows.
#[derive(Debug, Default)]
struct SharedRules {
    rules: Mutex<Rules>,
    changed: Notify,
}

impl SharedRules {
    fn lock(&self) -> MutexGuard<'_, Rules> {
        // It is whole between any two statements.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Vec<Arc<Rule>> {
        self.lock().by_id.values().map(Arc::clone).collect()
    }
}

impl fmt::Debug for PushesInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushesInput").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl PushesThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread or event queue.
    pub fn start(input: PushesInput) -> io::Result<Self> {
        let PushesInput { settings, workers, home, published, own_ports } = input;
        let settings = Live::new(Arc::new(settings));
        let common = Arc::new(Common { settings, workers, home, own_ports });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (running, stopped) = oneshot::channel::<()>();
        let (ending, ended) = oneshot::channel::<()>();
        let of_thread = Arc::clone(&common);
        let rules = Arc::<SharedRules>::default();
        let rules_of_thread = Arc::clone(&rules);
        worker_api::thread::spawn("pushes", move || {
            runtime.block_on(run(&of_thread, &rules_of_thread, published, stopped));
            // Not by dropping it: that would wait for a name that is being resolved.
            runtime.shutdown_background();
            // Whoever stops it waits for this, or does not.
            let _ = ending.send(());
        })?;
        Ok(Self { pushes: Pushes { common, rules }, running: Some(running), ended: Some(ended) })
    }

    /// For the control side.
    pub fn pushes(&self) -> Pushes {
        self.pushes.clone()
    }

    /// Ends all pushes, with a goodbye to their targets, and waits for that.
    pub async fn stop(mut self) {
        drop(self.running.take());
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(STOP_WITHIN, ended).await;
        }
    }
}

impl Pushes {
    /// None, and none that is added ever runs.
    pub fn idle(rules_max: usize) -> Self {
        let settings = Live::new(Arc::new(PushSettings { rules_max, ..PushSettings::default() }));
        let workers = WorkerHandles::over(0, Box::new(|_, _| Ok(())));
        let home: Box<HomeOf> = Box::new(|_| None);
        let common = Common { settings, workers, home, own_ports: Vec::new() };
        Self { common: Arc::new(common), rules: Arc::default() }
    }

    /// Adds a rule, which takes effect for streams that are published already too.
    ///
    /// # Errors
    /// Why it is not added.
    pub fn add(&self, spec: PushSpec, added_by: AddedBy) -> Result<Arc<Rule>, NotAdded> {
        let settings = self.common.settings.load();
        spec.check(added_by, &settings.sources).map_err(NotAdded::Forbidden)?;
        let mut rules = self.rules.lock();
        if rules.by_id.values().any(|rule| *rule.spec == spec) {
            return Err(NotAdded::Exists);
        }
        if rules.by_id.len() >= settings.rules_max {
            return Err(NotAdded::Full);
        }
        rules.last_id += 1;
        let (id, active) = (rules.last_id, Mutex::default());
        let rule = Arc::new(Rule { id, spec: Arc::new(spec), added_by, active });
        tracing::info!(id, streams = rule.spec.stream.as_str(), url = %rule.spec, "push added");
        rules.by_id.insert(id, Arc::clone(&rule));
        drop(rules);
        self.rules.changed.notify_one();
        Ok(rule)
    }

    /// Removes a rule and ends its pushes; whether there was one.
    pub fn remove(&self, id: u64) -> bool {
        let removed = self.rules.lock().by_id.remove(&id);
        let Some(rule) = removed else { return false };
        tracing::info!(id, streams = rule.spec.stream.as_str(), url = %rule.spec, "push removed");
        self.rules.changed.notify_one();
        true
    }

    /// Other limits, for what begins from now on.
    pub fn set_settings(&self, settings: PushSettings) {
        self.common.settings.replace(Arc::new(settings));
    }

    /// All rules, by number.
    pub fn list(&self) -> Vec<Arc<Rule>> {
        self.rules.list()
    }

    /// One.
    pub fn find(&self, id: u64) -> Option<Arc<Rule>> {
        self.rules.lock().by_id.get(&id).map(Arc::clone)
    }
}

impl Rule {
    /// Streams that are pushed at present, by name.
    pub fn active(&self) -> Vec<Arc<Push>> {
        self.locked().values().map(Arc::clone).collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Push>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule and a stream.
type Key = (u64, Arc<str>);

/// A push, to the thread itself.
#[derive(Debug)]
struct Running {
    stop: Option<oneshot::Sender<()>>,
    rule: Arc<Rule>,
    /// Another publisher has begun meanwhile.
    again: bool,
}

struct Thread<'a> {
    common: &'a Arc<Common>,
    rules: &'a SharedRules,
    /// The last rule that has taken effect for what was published before it.
    last_id: u64,
    running: BTreeMap<Key, Running>,
    tasks: JoinSet<Key>,
    /// Streams that were published; some may not be any more.
    known: BTreeSet<(Arc<str>, usize)>,
    prune_at: usize,
}

async fn run(
    common: &Arc<Common>,
    rules: &SharedRules,
    mut published: Receiver<StreamPublished>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (running, known) = (BTreeMap::new(), BTreeSet::new());
    let (last_id, tasks, prune_at) = (0, JoinSet::new(), KNOWN_MIN);
    let mut thread = Thread { common, rules, last_id, running, tasks, known, prune_at };
    let mut feed_is_open = true;
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            stream = published.recv(), if feed_is_open => match stream {
                // The workers have ended.
                None => feed_is_open = false,
                // The node that publishes it pushes it.
                Some(stream) if stream.is_fetched => {}
                Some(StreamPublished { key, app_bytes, .. }) => thread.published(&key, app_bytes),
            },
            () = rules.changed.notified() => thread.rules_changed(),
            Some(ended) = thread.tasks.join_next() => {
                if let Ok(key) = ended {
                    thread.ended(&key);
                }
            }
        }
    }
    for entry in thread.running.values_mut() {
        drop(entry.stop.take());
    }
    while thread.tasks.join_next().await.is_some() {}
}

impl Thread<'_> {
    fn published(&mut self, key: &Arc<str>, app_bytes: usize) {
        if self.known.len() >= self.prune_at {
            self.known.retain(|(key, _)| (self.common.home)(key).is_some());
            self.prune_at = (2 * self.known.len()).max(KNOWN_MIN);
        }
        self.known.insert((Arc::clone(key), app_bytes));
        for rule in self.rules.list().iter().filter(|rule| rule.spec.stream.matches(key)) {
            self.begin(rule, key, app_bytes);
        }
    }

    /// Ends what belongs to rules that are no more, and begins what new ones want.
    fn rules_changed(&mut self) {
        let rules = self.rules.list();
        let ids: BTreeSet<u64> = rules.iter().map(|rule| rule.id).collect();
        for (_, entry) in self.running.iter_mut().filter(|((id, _), _)| !ids.contains(id)) {
            entry.again = false;
            drop(entry.stop.take());
        }
        let last_id = self.last_id;
        for rule in rules.iter().filter(|rule| rule.id > last_id) {
            self.added(rule);
        }
        self.last_id = ids.last().copied().unwrap_or_default().max(self.last_id);
    }

    fn added(&mut self, rule: &Arc<Rule>) {
        let matches = self.known.iter().filter(|(key, _)| rule.spec.stream.matches(key));
        let streams: Vec<_> = matches.cloned().collect();
        for (key, app_bytes) in streams {
            if (self.common.home)(&key).is_some() {
                self.begin(rule, &key, app_bytes);
            }
        }
    }

    fn ended(&mut self, key: &Key) {
        let Some(Running { rule, again, .. }) = self.running.remove(key) else { return };
        rule.locked().remove(&key.1);
        // It may have been removed meanwhile.
        let is_wanted = again && self.rules.lock().by_id.contains_key(&rule.id);
        if is_wanted && let Some((app, _)) = key.1.rsplit_once('/') {
            self.begin(&rule, &key.1, app.len());
        }
    }

    fn begin(&mut self, rule: &Arc<Rule>, stream: &Arc<str>, app_bytes: usize) {
        let key = (rule.id, Arc::clone(stream));
        if let Some(entry) = self.running.get_mut(&key) {
            entry.again = true;
            return;
        }
        if self.running.len() >= self.common.settings.load().active_max {
            tracing::warn!(stream = %stream, url = %rule.spec, "not pushed: `pushes.active_max` is reached");
            return;
        }
        let push = Arc::new(Push::new(&rule.spec, &stream[..app_bytes], &stream[app_bytes + 1..]));
        let (stop, stopped) = oneshot::channel();
        rule.locked().insert(Arc::clone(stream), Arc::clone(&push));
        self.running.insert(key.clone(), Running { stop: Some(stop), rule: Arc::clone(rule), again: false });
        let (common, spec) = (Arc::clone(self.common), Arc::clone(&rule.spec));
        self.tasks.spawn(async move {
            task::run(common, spec, push, stopped).await;
            key
        });
    }
}
