//! Pulls that are begun by the first player and ended after the last.
//!
//! Workers ask and report by the seam they have for other nodes, [`Elsewhere`]: who asks whether a
//! stream may begin gets an answer from the rules here, and what players a stream has is put down
//! for one task on the thread of sources, which starts pulls ([`OnDemand::run`]). Each of them ends
//! by itself, when nobody has watched it for `sources.on_demand_linger_ms`.
//!
//! ```text
//! workers --watched: players? published?--> OnDemand --> task: start
//! control (WHEP, segments by HTTP/2) --Demand, a guard--> OnDemand
//! workers --everything else--> OnDemand --> the cluster, if there is one
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use media::Codec;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use worker_api::cluster::{Elsewhere, Publication, Watched};
use worker_api::network;
use worker_api::streams::{Epoch, Published};

use super::spec::PullSpec;
use super::task::{self, Pull};
use crate::ingest::Ingest;
use crate::names::{Claimant, SourceKind};
use crate::settings::LiveSettings;

/// How soon a pull that cannot start is thought of again: another node publishes the stream, or
/// there are as many pulls as there may be.
const AGAIN: Duration = Duration::from_millis(500);

/// The part of `sources.on_demand_max` that one address may hold with pulls whose sources have not
/// answered. The others wait for those, and not longer than any player.
const UNANSWERED_PART: usize = 4;

/// Addresses that are known of those who wait for a stream.
const ASKERS_MAX: usize = 16;

/// The rules, and what of them is wanted and runs. In front of the rest of the cluster.
#[derive(Debug)]
pub struct OnDemand {
    cluster: Option<Arc<dyn Elsewhere>>,
    settings: Arc<LiveSettings>,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// In the order in which they were added.
    rules: Vec<Arc<Pull>>,
    /// Streams that have players, or a pull.
    streams: HashMap<String, Stream>,
    /// Streams to look at, because something has changed.
    due: HashSet<String>,
    /// Pulls that run, and whose places they take.
    running: Vec<(Arc<Pull>, Option<IpAddr>)>,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    watched: Watched,
    /// Requests on the control side that wait for it, or that it answers.
    guards: usize,
    /// Addresses, as limits count them, of those who have asked for it while it was not there.
    askers: Vec<IpAddr>,
    /// Whether somebody wants it, for the pull.
    is_wanted: watch::Sender<bool>,
    pull: Option<Arc<Pull>>,
}

/// Somebody who is no player yet wants a stream, until this is dropped.
#[derive(Debug)]
pub struct Demand {
    on_demand: Arc<OnDemand>,
    key: String,
    /// How long to wait for it.
    pub within: Duration,
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.on_demand.change(&self.key, |stream| stream.guards -= 1);
    }
}

impl OnDemand {
    /// No rules yet. Whatever is not on demand is asked of and reported to `cluster`.
    pub fn new(settings: Arc<LiveSettings>, cluster: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { cluster, settings, inner: Mutex::default(), changed: Notify::new() }
    }

    /// A rule is added. Players that wait already begin it.
    pub(super) fn add(&self, rule: Arc<Pull>) {
        let mut inner = self.lock();
        inner.rules.push(rule);
        let Inner { streams, due, .. } = &mut *inner;
        due.extend(streams.keys().cloned());
        drop(inner);
        self.changed.notify_one();
    }

    /// A rule is removed, and what runs because of it ends.
    pub(super) fn remove(&self, rule: &Arc<Pull>) {
        let mut inner = self.lock();
        inner.rules.retain(|other| !Arc::ptr_eq(other, rule));
        for stream in inner.streams.values_mut() {
            let is_of_it = |pull: &Arc<Pull>| pull.rule.as_ref().is_some_and(|of| Arc::ptr_eq(of, rule));
            if stream.pull.as_ref().is_some_and(|pull| is_of_it(pull) || Arc::ptr_eq(pull, rule)) {
                // The pull ends with the sender that it listens to.
                stream.is_wanted = watch::Sender::new(stream.is_wanted());
            }
        }
    }

    /// Ends the pull of a stream that a pattern has begun.
    pub(super) fn end_begun_by_pattern(&self, app: &str, name: &str) {
        let mut inner = self.lock();
        if let Some(stream) = inner.streams.get_mut(&format!("{app}/{name}"))
            && stream.pull.as_ref().is_some_and(|pull| pull.rule.is_some())
        {
            // The pull ends with the sender that it listens to.
            stream.is_wanted = watch::Sender::new(stream.is_wanted());
        }
    }

    /// Rules are tried in the order of `specs`, others after them.
    pub(super) fn set_order(&self, specs: &[PullSpec]) {
        let place = |rule: &Arc<Pull>| specs.iter().position(|spec| *spec == rule.spec).unwrap_or(usize::MAX);
        self.lock().rules.sort_by_cached_key(place);
    }

    /// Pulls that run because of a pattern.
    pub(super) fn running(&self) -> Vec<Arc<Pull>> {
        let inner = self.lock();
        let pulls = inner.streams.values().filter_map(|stream| stream.pull.as_ref());
        let pulls = pulls.filter(|pull| pull.rule.is_some());
        pulls
            .map(|pull| ((pull.spec.app.clone(), pull.spec.name.clone()), Arc::clone(pull)))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect()
    }

    /// Wants `app/name` for a client until the result is dropped; `None` if it does not begin on demand.
    pub(super) fn demand(self: &Arc<Self>, app: &str, name: &str, address: IpAddr) -> Option<Demand> {
        let key = format!("{app}/{name}");
        let within = self.begins_within(&key)?;
        self.change(&key, |stream| {
            stream.asks(address);
            stream.guards += 1;
        });
        Some(Demand { on_demand: Arc::clone(self), key, within })
    }

    /// Starts what is wanted, until the server stops.
    pub(super) async fn run(self: Arc<Self>, ingest: Ingest) {
        let mut stopping = ingest.stopping();
        let mut later = HashSet::new();
        while !*stopping.borrow() {
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep(AGAIN), if !later.is_empty() => {}
                _ = stopping.changed() => return,
            }
            let due: HashSet<String> = std::mem::take(&mut self.lock().due);
            let due: HashSet<String> = due.into_iter().chain(later.drain()).collect();
            later.extend(due.into_iter().filter(|key| !self.start(key, &ingest)));
        }
    }

    /// Starts the pull of a stream if it is wanted. False if it is, and cannot start yet.
    fn start(self: &Arc<Self>, key: &str, ingest: &Ingest) -> bool {
        let is_elsewhere = self.cluster.as_ref().is_some_and(|cluster| cluster.published(key).is_some());
        let settings = self.settings.load();
        let mut inner = self.lock();
        let Inner { rules, streams, running, .. } = &mut *inner;
        let Some(stream) = streams.get_mut(key) else { return true };
        let is_wanted = stream.is_wanted() && stream.pull.is_none() && !stream.watched.is_published;
        let Some((app, name)) = key.rsplit_once('/') else { return true };
        let Some(rule) = rule_of(rules, app, name).filter(|_| is_wanted) else { return true };
        if is_elsewhere || running.len() >= settings.on_demand_max {
            return false;
        }
        // Names that match a pattern are free: whoever makes some up has sources asked for that are not
        // there, and keeps a place for each until its players give up.
        // So whoever has room for one more begins it, whoever else waits for the same.
        let is_unanswered = |pull: &Pull| pull.status().state != super::State::Live;
        let part = (settings.on_demand_max / UNANSWERED_PART).max(1);
        let has_room = |asker: &Option<IpAddr>| {
            running.iter().filter(|(pull, by)| by == asker && is_unanswered(pull)).count() < part
        };
        let unknown = stream.askers.is_empty().then_some(None);
        let asked_by = stream.askers.iter().copied().map(Some).chain(unknown).find(has_room);
        let Some(asked_by) = asked_by else { return false };
        let is_pattern = rule.spec.is_pattern();
        let pull = if is_pattern {
            match rule.spec.of_name(app, name, &settings) {
                Ok(spec) => Arc::new(Pull::of_rule(spec, rule)),
                Err(reason) => {
                    tracing::warn!(stream = key, reason, "not pulled");
                    return true;
                }
            }
        } else {
            Arc::clone(rule)
        };
        if let Err(reason) = pull.spec.origin.check(pull.added_by, &settings) {
            tracing::warn!(stream = key, reason, "not pulled");
            return true;
        }
        // The rule has claimed its own name.
        let claim =
            is_pattern.then(|| ingest.claim(app, name, SourceKind::Pull, Claimant::Pattern)).transpose();
        let Ok(claim) = claim else { return false };
        tracing::info!(stream = key, url = %pull.spec.origin, "pull begun by a player");
        stream.pull = Some(Arc::clone(&pull));
        running.push((Arc::clone(&pull), asked_by));
        let end = End { on_demand: Arc::clone(self), key: key.to_owned(), pull: Arc::clone(&pull) };
        let wanted = stream.is_wanted.subscribe();
        let of_pull = ingest.clone();
        ingest.spawn(async move {
            // In this order: the publication ends before another may begin.
            let _end = end;
            let _claim = claim;
            let linger = settings.on_demand_linger;
            tokio::select! {
                () = task::run(Arc::clone(&pull), of_pull, settings) => {}
                () = unwanted(wanted, &pull, linger) => {
                    tracing::info!(stream = pull.stream(), "pull ended: nobody plays it");
                }
            }
        });
        true
    }

    /// Something about a stream has changed.
    fn change(&self, key: &str, change: impl FnOnce(&mut Stream)) {
        let mut inner = self.lock();
        let stream = inner.streams.entry(key.to_owned()).or_default();
        change(stream);
        let is_wanted = stream.is_wanted();
        if !is_wanted {
            stream.askers.clear();
        }
        stream.is_wanted.send_if_modified(|was| std::mem::replace(was, is_wanted) != is_wanted);
        if !is_wanted && stream.pull.is_none() {
            inner.streams.remove(key);
            return;
        }
        let is_due = is_wanted && stream.pull.is_none() && !stream.watched.is_published;
        if is_due
            && key.rsplit_once('/').is_some_and(|(app, name)| rule_of(&inner.rules, app, name).is_some())
        {
            inner.due.insert(key.to_owned());
            drop(inner);
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is kept is right between any two statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rule for a stream: its own, else the first pattern that it matches.
fn rule_of<'a>(rules: &'a [Arc<Pull>], app: &str, name: &str) -> Option<&'a Arc<Pull>> {
    let own = rules.iter().find(|rule| rule.spec.app == app && rule.spec.name == name);
    own.or_else(|| rules.iter().find(|rule| rule.spec.matches(app, name)))
}

/// Waits until nobody has wanted a pull for `linger`; one that never was live is not kept.
async fn unwanted(mut wanted: watch::Receiver<bool>, pull: &Pull, linger: Duration) {
    loop {
        // An error: nothing is left that could want it.
        if wanted.wait_for(|wanted| !*wanted).await.is_err() {
            return;
        }
        let linger = if pull.status().state == super::State::Live { linger } else { Duration::ZERO };
        tokio::select! {
            again = wanted.wait_for(|wanted| *wanted) => if again.is_err() {
                return;
            },
            () = sleep(linger) => return,
        }
    }
}

/// Puts down that a pull has ended, however it does.
struct End {
    on_demand: Arc<OnDemand>,
    key: String,
    pull: Arc<Pull>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.pull.idle();
        let mut inner = self.on_demand.lock();
        inner.running.retain(|(pull, _)| !Arc::ptr_eq(pull, &self.pull));
        if let Some(stream) = inner.streams.get_mut(&self.key) {
            stream.pull = None;
        }
        drop(inner);
        // Somebody may have come since.
        self.on_demand.change(&self.key, |_| {});
    }
}

impl Stream {
    fn is_wanted(&self) -> bool {
        self.watched.has_players || self.guards > 0
    }

    /// Somebody wants it.
    fn asks(&mut self, address: IpAddr) {
        let address = network(address);
        if !self.askers.contains(&address) && self.askers.len() < ASKERS_MAX {
            self.askers.push(address);
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            watched: Watched::default(),
            guards: 0,
            askers: Vec::new(),
            is_wanted: watch::Sender::new(false),
            pull: None,
        }
    }
}

impl Elsewhere for OnDemand {
    fn published(&self, key: &str) -> Option<Published> {
        self.cluster.as_ref()?.published(key)
    }

    fn redirect(&self, key: &str, is_full: bool) -> Option<String> {
        self.cluster.as_ref()?.redirect(key, is_full)
    }

    fn has_nodes(&self) -> bool {
        self.cluster.is_some()
    }

    fn wanted(&self, key: &str) {
        self.cluster.iter().for_each(|cluster| cluster.wanted(key));
    }

    fn unwanted(&self, key: &str) {
        self.cluster.iter().for_each(|cluster| cluster.unwanted(key));
    }

    fn begins_within(&self, key: &str) -> Option<Duration> {
        let inner = self.lock();
        if inner.rules.is_empty() {
            return None;
        }
        let (app, name) = key.rsplit_once('/')?;
        let settings = self.settings.load();
        settings.check_name(app, name).ok()?;
        rule_of(&inner.rules, app, name)?;
        let runs = inner.streams.get(key).is_some_and(|stream| stream.pull.is_some());
        (runs || inner.running.len() < settings.on_demand_max).then_some(settings.on_demand_timeout)
    }

    fn watched(&self, key: &str, watched: Watched) {
        self.change(key, |stream| {
            stream.watched = watched;
            if let Some(address) = watched.asked_by.filter(|_| watched.has_players) {
                stream.asks(address);
            }
        });
    }

    fn started(&self, publication: &Publication<'_>) {
        self.cluster.iter().for_each(|cluster| cluster.started(publication));
    }

    fn changed(&self, key: &str, epoch: Epoch, published: &Published) {
        self.cluster.iter().for_each(|cluster| cluster.changed(key, epoch, published));
    }

    fn codecs(&self, key: &str, epoch: Epoch, codecs: &[Codec]) {
        self.cluster.iter().for_each(|cluster| cluster.codecs(key, epoch, codecs));
    }

    fn ended(&self, key: &str, epoch: Epoch) {
        self.cluster.iter().for_each(|cluster| cluster.ended(key, epoch));
    }
}
