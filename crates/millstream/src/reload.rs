//! Reload of the configuration while the server runs: SIGHUP, the API, `millstream reload`.
//!
//! ```text
//! read the file ─▶ check all of it, as at the start ─▶ merge: live keys new, others as they are
//!   ─▶ prepare what can fail: certificates, keys of signed tokens, sources ─▶ switch
//! ```
//!
//! Up to the switch nothing has changed, and the switch cannot fail: all or nothing. One task does it, so
//! reloads come one after the other, and requests that wait share one. The same task looks after changed
//! files of certificates.

mod sources;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use ::sources::Ingest;
use ::sources::key_set::{self, KeySource, Place};
use ::sources::settings::LiveSettings;
use config::Config;
use config::error::{ConfigError, Origin};
use config::reload::{Changes, Contents, LiveFile};
use config::resolve::Resolved;
use control::Context;
use control::reload::{Answer, Reloaded, Request};
use jwt::Verifier;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use worker_api::auth::Policy;
use worker_api::certificates::Certificate;
use worker_api::live::Current;

use self::sources::{Plan, Report};
use crate::loader::{Loader, Stamp, is_special, stamp};
use crate::logging::LiveLogging;

/// A certificate that expires within this time is warned of.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 86_400);
/// How often that is looked at, also where files of certificates are not.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(3_600);
/// How long reading files may take: a disk that is away never answers.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What a reload changes besides what [`Context`] has.
pub(crate) struct ReloadParts {
    /// Reads the configuration; `None` where a program has passed it on.
    pub(crate) loader: Option<Loader>,
    pub(crate) context: Arc<Context>,
    pub(crate) ingest: Ingest,
    pub(crate) sources: Arc<LiveSettings>,
    pub(crate) logging: LiveLogging,
    /// Keys of signed tokens that are read again and again, and the task that does.
    pub(crate) key_set: Option<JoinHandle<()>>,
    /// How long sessions have to end when the server stops.
    pub(crate) drain_seconds: Arc<AtomicU64>,
}

/// Does reloads.
pub(crate) struct Reloader {
    parts: ReloadParts,
    /// The configuration in effect.
    running: Arc<Config>,
    contents: Contents,
    /// Files of certificates, as they were when they were looked at last.
    stamps: Vec<Option<Stamp>>,
    /// Why changed certificates were not taken up when they were looked at last.
    refused: Option<String>,
    /// Certificates that were warned of, by their expiry, and whether that was past.
    warned: Vec<(Duration, bool)>,
    /// Held by the thread that reads files.
    reading: Arc<Mutex<()>>,
}

/// What is read and checked, before anything changes.
struct Loaded {
    merged: Config,
    /// What `merged` means.
    resolved: Resolved,
    changes: Changes,
    contents: Contents,
    is_blank: bool,
    stamps: Vec<Option<Stamp>>,
}

impl Reloader {
    /// For a server that has just started with `config`.
    pub(crate) fn new(config: Config, parts: ReloadParts) -> Self {
        let contents = config.contents();
        let running = Arc::new(config);
        Self {
            parts,
            running,
            contents,
            stamps: Vec::new(),
            refused: None,
            warned: Vec::new(),
            reading: Arc::default(),
        }
    }

    /// Until nobody can ask any more.
    pub(crate) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        // The first tick is at once.
        let mut expiry = tokio::time::interval(EXPIRY_INTERVAL);
        expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = Instant::now();
        loop {
            let look = Duration::from_secs(self.running.tls.check_seconds.unsigned_abs());
            // Counted from the last look: requests may come more often.
            let look_again = async {
                match look.is_zero() {
                    true => std::future::pending().await,
                    false => tokio::time::sleep_until(looked + look).await,
                }
            };
            tokio::select! {
                request = requests.recv() => {
                    let Some(first) = request else { return };
                    let mut waiting = vec![first];
                    while let Ok(request) = requests.try_recv() {
                        waiting.push(request);
                    }
                    let answer = Arc::new(self.reload().await);
                    for request in waiting {
                        // Who has gone needs no answer.
                        let _ = request.send(Arc::clone(&answer));
                    }
                }
                () = look_again => {
                    self.check_certificates().await;
                    looked = Instant::now();
                }
                _ = expiry.tick() => self.warn_of_expiry(),
            }
        }
    }

    async fn reload(&mut self) -> Answer {
        let answer = self.try_reload().await;
        match &answer {
            Ok(reloaded) => tracing::info!(
                changed = ?reloaded.changed,
                needs_restart = ?reloaded.needs_restart,
                started = ?reloaded.started,
                restarted = ?reloaded.restarted,
                ended = ?reloaded.ended,
                failed = ?reloaded.failed,
                "configuration reloaded"
            ),
            Err(errors) => {
                for error in errors {
                    tracing::error!(error, "configuration not reloaded: nothing has changed");
                }
            }
        }
        self.parts.context.reload.count(&answer, now().as_secs());
        self.warn_of_expiry();
        answer
    }

    async fn try_reload(&mut self) -> Answer {
        let Some(loader) = self.parts.loader.clone() else {
            return Err(vec!["the configuration of this server is not in a file".to_owned()]);
        };
        let (running, contents) = (Arc::clone(&self.running), self.contents.clone());
        let load = move || load(&loader, &running, &contents);
        let loaded = read_within(READ_TIMEOUT, &self.reading, load).await;
        let loaded = loaded.map_err(|reason| vec![format!("the configuration {reason}")])?;
        let mut loaded =
            loaded.map_err(|errors| errors.iter().map(ConfigError::to_string).collect::<Vec<_>>())?;
        let key_source = self.prepare_keys(&mut loaded).await?;
        let certificates = self.prepare_certificates(&loaded)?;
        let plan = Plan::new(&self.parts.context, &loaded.merged, &loaded.resolved)?;
        Ok(self.switch(loaded, key_source, certificates, plan))
    }

    /// Signed tokens: keys that are in use stay if nothing about them has changed, and new ones must be there
    /// before they count. Returns what the new ones are, if they are new.
    async fn prepare_keys(&self, loaded: &mut Loaded) -> Result<Option<NewKeys>, Vec<String>> {
        let has_changed = loaded.changes.changed.iter().any(|key| key.starts_with("auth.jw"));
        let policy = &mut loaded.resolved.policy;
        if !has_changed {
            let used = self.parts.context.policy();
            keep_verifier(policy, &used);
            return Ok(None);
        }
        let signed = loaded.resolved.signed.take();
        if let Some((verifier, source)) = &signed {
            let read = key_set::read_once(verifier, source, &loaded.resolved.sources).await;
            read.map_err(|reason| {
                let is_url = matches!(source.place, Place::Url(_));
                let key = if is_url { "auth.jwks_url" } else { "auth.jwks_file" };
                let message = format!("`{key}`: the keys of signed tokens could not be read: {reason}");
                vec![ConfigError::new(&loaded.merged.origin(key), message).to_string()]
            })?;
        }
        Ok(Some(NewKeys(signed)))
    }

    /// Certificates that take the place of those in use, if they are to.
    fn prepare_certificates(&self, loaded: &Loaded) -> Result<Option<Arc<Vec<Certificate>>>, Vec<String>> {
        let (used, new) = (&self.parts.context.reload.certificates, &loaded.resolved.certificates);
        let Some((used, new)) = used.as_ref().zip(new.as_ref()) else { return Ok(None) };
        if !loaded.changes.changed.iter().any(|key| key.starts_with("tls.")) {
            return Ok(None);
        }
        let new = new.list();
        match used.objection(&new, now()) {
            // Placed where the file is named.
            Some(objection) => {
                let files = loaded.merged.live_files();
                let named = files.iter().find(|file| objection.contains(&format!(" {}: ", file.path)));
                let origin = named.map_or(Origin::Default, |file| file.origin.clone());
                Err(vec![ConfigError::new(&origin, objection).to_string()])
            }
            None => Ok(Some(new)),
        }
    }

    /// Applies what was prepared.
    fn switch(
        &mut self,
        loaded: Loaded,
        keys: Option<NewKeys>,
        certificates: Option<Arc<Vec<Certificate>>>,
        plan: Plan,
    ) -> Reloaded {
        let Loaded { merged, resolved, changes, contents, is_blank, stamps, .. } = loaded;
        let Resolved { worker: mut settings, policy, sources, push_limits, .. } = resolved;
        let ReloadParts { context, ingest, logging, .. } = &self.parts;
        if let Some(store) = &context.reload.certificates
            && let Some(certificates) = certificates
        {
            store.replace(certificates);
        }
        // Listeners go on with the store that they have.
        let used = context.current.settings();
        settings.rtmps_tls.clone_from(&used.rtmps_tls);
        settings.https_tls.clone_from(&used.https_tls);
        // What is used stays used.
        settings.usage.clone_from(&used.usage);
        // So do traces, but for their share.
        settings.traces.clone_from(&used.traces);
        if let Some(traces) = &settings.traces {
            traces.set_samples(u32::try_from(merged.telemetry.samples_per_million).unwrap_or(0));
        }
        let (total, per_address) = settings.keep_alive.places();
        context.keep_alive.set_limits(total, per_address);
        ingest.set_message_bytes_max(settings.message_bytes_max);
        // Who is asked by hooks changes at a restart only.
        let policy = Policy { hooks: context.policy().hooks.clone(), ..policy };
        context.current.replace(Current { settings: Arc::new(settings), policy: Arc::new(policy) });
        context.rtc.apply_settings();
        set_usize(&context.metrics_streams_max, merged.metrics.streams_max);
        self.parts.drain_seconds.store(merged.shutdown.drain_seconds.unsigned_abs(), Ordering::Relaxed);
        logging.apply(&merged.log);
        let sources = Arc::new(sources);
        self.parts.sources.replace(Arc::clone(&sources));
        context.pushes.set_settings(pushes::PushSettings { sources: Arc::clone(&sources), ..push_limits });
        let Report { started, restarted, ended, failed } = plan.apply(context);
        if let Some(NewKeys(signed)) = keys {
            let task = signed
                .map(|(verifier, source)| ingest.spawn(key_set::keep_up_to_date(verifier, source, sources)));
            if let Some(before) = std::mem::replace(&mut self.parts.key_set, task) {
                before.abort();
            }
        }
        self.running = Arc::new(merged);
        (self.contents, self.stamps) = (contents, stamps);
        if let Some(loader) = &mut self.parts.loader {
            loader.was_blank = is_blank;
        }
        let Changes { changed, needs_restart, unchanged } = changes;
        Reloaded { changed, needs_restart, unchanged, started, restarted, ended, failed }
    }

    /// Takes up certificates whose files have changed. What is not good changes nothing, and is said once.
    async fn check_certificates(&mut self) {
        let Some(store) = self.parts.context.reload.certificates.clone() else { return };
        if self.running.certificate_files().is_empty() {
            return;
        }
        let (config, before) = (Arc::clone(&self.running), self.stamps.clone());
        let read = read_within(READ_TIMEOUT, &self.reading, move || {
            // Before they are read: what changes meanwhile is read again.
            let stamps = stamps(&config);
            let read = (stamps != before).then(|| read_certificates(&config));
            (stamps, read)
        });
        let new = match read.await {
            Ok((stamps, read)) => {
                self.stamps = stamps;
                self.warn_of_expiry();
                let Some(read) = read else { return };
                read.and_then(|read| store.objection(&read.0, now()).map_or(Ok(read), Err))
            }
            Err(reason) => Err(format!("certificates: a file {reason}")),
        };
        let counters = &self.parts.context.reload.counters;
        match new {
            Ok((new, _)) if store.is_same(&new) => self.refused = None,
            Ok((new, contents)) => {
                tracing::info!(certificates = ?new, "changed certificates taken up");
                store.replace(Arc::new(new));
                counters.certificates_taken.fetch_add(1, Ordering::Relaxed);
                self.contents.take_certificates(&contents);
                self.refused = None;
            }
            Err(error) => {
                // The reason may pass while the files stay: not valid yet, no rights, no descriptor left.
                self.stamps.clear();
                if self.refused.as_ref() != Some(&error) {
                    tracing::error!(error, "changed certificates cannot be used: those in use stay");
                    counters.certificates_refused.fetch_add(1, Ordering::Relaxed);
                    self.refused = Some(error);
                }
            }
        }
    }

    /// Once for each within a week of its expiry, and once after it.
    fn warn_of_expiry(&mut self) {
        let Some(store) = &self.parts.context.reload.certificates else { return };
        let (certificates, now) = (store.list(), now());
        self.warned.retain(|(expiry, _)| certificates.iter().any(|other| other.not_after == *expiry));
        for certificate in certificates.iter() {
            let expiry = certificate.not_after;
            let warned = (expiry, now >= expiry);
            // Some are for days only.
            let soon = EXPIRES_SOON.min(expiry.saturating_sub(certificate.not_before) / 4);
            if now + soon < expiry || self.warned.contains(&warned) {
                continue;
            }
            let at = worker_api::time::rfc3339(UNIX_EPOCH + expiry);
            match warned.1 {
                false => tracing::warn!(source = certificate.source, at, "a certificate expires soon"),
                true => tracing::warn!(source = certificate.source, at, "a certificate in use has expired"),
            }
            self.warned.push(warned);
        }
    }
}

/// Runs `read` on a thread of its own, since files may be on a disk that is slow, or away. The error, if it
/// takes longer than `limit`, goes on a sentence. No second thread begins while one is stuck.
async fn read_within<T: Send + 'static>(
    limit: Duration,
    reading: &Arc<Mutex<()>>,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let reading = Arc::clone(reading);
    let done = async move {
        let held = reading.lock_owned().await;
        let read = move || {
            let _held = held;
            read()
        };
        tokio::task::spawn_blocking(read).await
    };
    match tokio::time::timeout(limit, done).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(_)) => Err("could not be read".to_owned()),
        Err(_) => Err(format!("cannot be read within {} s", limit.as_secs())),
    }
}

/// Keys of signed tokens that take the place of others; none if there are no such tokens any more, or a
/// secret alone.
struct NewKeys(Option<(Arc<Verifier>, KeySource)>);

/// Reads and checks the whole configuration as at the start, and what of it takes effect now.
fn load(loader: &Loader, running: &Config, contents: &Contents) -> Result<Loaded, Vec<ConfigError>> {
    let (config, is_blank) = loader.load_again()?;
    refuse_special_files(&config)?;
    let variable = |name: &str| std::env::var(name).ok();
    // Before they are read: what changes meanwhile is read again.
    let (new_stamps, old_stamps) = (stamps(&config), stamps(running));
    let after = config.contents();
    config::resolve::resolve(&config, &variable)?;
    let (merged, changes) = running.merge(&config, contents, &after);
    let is_new = merged.certificate_files() == config.certificate_files();
    let stamps = if is_new { new_stamps } else { old_stamps };
    let resolved = config::resolve::resolve(&merged, &variable).map_err(|errors| {
        // The file by itself is right: what waits for a restart does not go with what would be live.
        let message = |error: ConfigError| {
            let message = format!("until a restart: {}", error.message);
            ConfigError { message, ..error }
        };
        errors.into_iter().map(message).collect::<Vec<_>>()
    })?;
    Ok(Loaded { merged, resolved, changes, contents: after, is_blank, stamps })
}

/// Whoever opens a pipe may wait for ever.
fn refuse_special_files(config: &Config) -> Result<(), Vec<ConfigError>> {
    let special = config.live_files().into_iter().filter_map(|LiveFile { key, path, origin }| {
        let reason = is_special(Path::new(path))?;
        Some(ConfigError::new(&origin, format!("`{key}` {path}: {reason}")))
    });
    let errors: Vec<_> = special.collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The certificates of `config` with what its files contain, or what is wrong with them.
fn read_certificates(config: &Config) -> Result<(Vec<Certificate>, Contents), String> {
    let read = refuse_special_files(config).and_then(|()| {
        let contents = config.contents();
        Ok((config.read_certificates()?, contents))
    });
    read.map_err(|errors| errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("; "))
}

fn stamps(config: &Config) -> Vec<Option<Stamp>> {
    config.certificate_files().into_iter().map(|file| stamp(Path::new(file))).collect()
}

/// The keys that `used` checks signed tokens with.
fn keep_verifier(policy: &mut Policy, used: &Policy) {
    let Some(used) = &used.signed else { return };
    for new in [&mut policy.signed, &mut policy.manage.signed].into_iter().flatten() {
        new.verifier = Arc::clone(&used.verifier);
    }
}

fn set_usize(to: &AtomicUsize, value: i64) {
    to.store(usize::try_from(value).unwrap_or(0), Ordering::Relaxed);
}

/// Since 1970.
fn now() -> Duration {
    worker_api::time::since_1970()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_that_is_stuck_is_given_up_and_later_ones_come_after_it() {
        let (reading, limit) = (Arc::default(), Duration::from_millis(20));
        let (release, released) = std::sync::mpsc::channel::<()>();
        let stuck = read_within(limit, &reading, move || released.recv()).await;
        assert_eq!(stuck, Err("cannot be read within 0 s".to_owned()));
        assert!(read_within(limit, &reading, || ()).await.is_err(), "no second thread is stuck");
        release.send(()).expect("it waits");
        assert_eq!(read_within(Duration::from_secs(30), &reading, || 7).await, Ok(7));
    }
}
