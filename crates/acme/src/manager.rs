//! What is ordered when: one task, one order at a time.
//!
//! The clock may jump, and the machine sleep: nothing is waited for longer than an hour at once.

use std::sync::Arc;
use std::time::Duration;

use worker_api::certificates::{Certificate, CertificateStore};

use crate::authority::{Authority, Suggestion};
use crate::failure::{Cause, Failure};
use crate::schedule::{SPACING, random, renewal, retry};
use crate::settings::AcmeSettings;
use crate::status::{AcmeStatus, OrderStatus};
use crate::storage::{Storage, certificate};

/// Longest time without a look at the clock.
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
/// How often an authority is asked when it would like a certificate to be renewed, at least and at
/// most.
const ASK_INTERVAL: (Duration, Duration) = (Duration::from_secs(3_600), Duration::from_secs(86_400));

/// The time since 1970.
pub(crate) type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// How old a certificate must be to be renewed because the authority suggests it.
const SUGGESTED_AGE_MIN: Duration = Duration::from_secs(86_400);

/// Orders what is missing or due.
pub(crate) struct Manager<A> {
    authority: A,
    storage: Arc<Storage>,
    store: Arc<CertificateStore>,
    status: Arc<AcmeStatus>,
    clock: Clock,
    renew_before: Option<Duration>,
    entries: Vec<Entry>,
}

/// One certificate that is wanted.
struct Entry {
    names: Vec<String>,
    certificate: Option<Certificate>,
    /// Key and chain that the disk has not taken.
    unsaved: Option<String>,
    /// When it is ordered next, since 1970.
    due: Duration,
    /// When the authority is asked again when that should be.
    ask_at: Duration,
    failures: u32,
    last_error: Option<String>,
}

impl<A: Authority> Manager<A> {
    /// Uses what is on disk.
    pub(crate) fn new(
        settings: &AcmeSettings,
        authority: A,
        storage: Arc<Storage>,
        store: Arc<CertificateStore>,
        status: Arc<AcmeStatus>,
        clock: Clock,
    ) -> Self {
        let now = clock();
        let entry = |names: &Vec<String>| {
            // What cannot be read was said where it was read first.
            let certificate = storage.load_certificate(names).ok().flatten();
            let due = match &certificate {
                Some(certificate) if has_names(certificate, names) => {
                    renewal(valid(certificate), settings.renew_before, None, random())
                }
                _ => now,
            };
            // A server that is started again and again must not ask as often.
            let failed = storage.last_failure(names).filter(|failed| *failed <= now);
            let due = failed.map_or(due, |failed| due.max(failed + SPACING));
            Entry {
                names: names.clone(),
                certificate,
                unsaved: None,
                due,
                ask_at: now,
                failures: 0,
                last_error: None,
            }
        };
        let entries = settings.orders.iter().map(entry).collect();
        let renew_before = settings.renew_before;
        let manager = Self { authority, storage, store, status, clock, renew_before, entries };
        manager.publish();
        manager.report(None);
        manager
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            for index in 0..self.entries.len() {
                self.save_again(index).await;
                if self.entries[index].due > (self.clock)() {
                    self.ask(index).await;
                }
                if self.entries[index].due <= (self.clock)() {
                    self.order(index).await;
                }
            }
            self.report(None);
            let now = (self.clock)();
            let next = self.entries.iter().map(|entry| match entry.certificate {
                Some(_) => entry.due.min(entry.ask_at),
                None => entry.due,
            });
            let wait = next.min().map_or(LOOK_INTERVAL, |next| next.saturating_sub(now)).min(LOOK_INTERVAL);
            // A clock that is read in whole milliseconds is never quite there.
            tokio::time::sleep(wait + Duration::from_millis(10)).await;
        }
    }

    /// Orders a certificate, and uses it if it is what was ordered.
    async fn order(&mut self, index: usize) {
        self.report(Some(index));
        let Entry { names, certificate, failures, .. } = &self.entries[index];
        let names = names.clone();
        tracing::info!(?names, "ordering a certificate");
        // An authority may refuse it that the old one is named, if it has been replaced already.
        let replaced = certificate.as_ref().filter(|_| *failures == 0);
        let issued = self.authority.issue(&names, replaced).await;
        let now = (self.clock)();
        let checked = issued.and_then(|pem| match self.check(&names, &pem, now) {
            Ok(certificate) => Ok((pem, certificate)),
            Err(reason) => {
                let message = format!("the certificate that was issued cannot be used: {reason}");
                Err(Failure::new(Cause::BadAnswer, message))
            }
        });
        match checked {
            Ok((pem, certificate)) => self.take(index, pem, certificate, now).await,
            Err(failure) => self.fail(index, failure, now).await,
        }
    }

    fn check(&self, names: &[String], pem: &str, now: Duration) -> Result<Certificate, String> {
        let certificate = certificate(self.storage.source(names), pem.as_bytes())?;
        if let Some(missing) = names.iter().find(|name| !certificate.is_for(name)) {
            return Err(format!("it is not for `{missing}`"));
        }
        certificate.is_out_of_date(now).map_or(Ok(certificate), |reason| Err(reason.to_owned()))
    }

    async fn take(&mut self, index: usize, pem: String, certificate: Certificate, now: Duration) {
        let entry = &mut self.entries[index];
        let expires = certificate.not_after;
        let due = renewal(valid(&certificate), self.renew_before, None, random());
        entry.certificate = Some(certificate);
        // However short its life is.
        entry.due = due.max(now + SPACING);
        entry.ask_at = now + ASK_INTERVAL.0;
        entry.failures = 0;
        entry.last_error = None;
        entry.unsaved = Some(pem);
        let names = entry.names.clone();
        self.status.count_issued();
        self.publish();
        let at = |moment| worker_api::time::rfc3339(std::time::UNIX_EPOCH + moment);
        tracing::info!(
            ?names,
            expires = at(expires),
            renewed = at(self.entries[index].due),
            "certificate issued"
        );
        self.save_again(index).await;
        let failed = self.storage.run(move |storage| storage.forget_failure(&names)).await;
        self.note_disk(failed);
    }

    async fn fail(&mut self, index: usize, failure: Failure, now: Duration) {
        let Failure { cause, message, retry_after } = failure;
        self.status.count_failed(cause);
        let entry = &mut self.entries[index];
        entry.failures = entry.failures.saturating_add(1);
        let wait = retry(entry.failures, retry_after, random());
        entry.due = now + wait;
        let stays = match &entry.certificate {
            Some(_) => "the certificate in use stays",
            None => "there is none yet",
        };
        tracing::error!(
            names = ?entry.names,
            cause = cause.name(),
            reason = message,
            again_seconds = wait.as_secs(),
            "a certificate was not issued: {stays}"
        );
        entry.last_error = Some(message);
        let names = entry.names.clone();
        let failed = self.storage.run(move |storage| storage.save_failure(&names, now)).await;
        self.note_disk(failed);
    }

    /// Asks the authority when the certificate should be renewed, if it is time to.
    async fn ask(&mut self, index: usize) {
        let now = (self.clock)();
        let entry = &self.entries[index];
        let Some(certificate) = entry.certificate.as_ref().filter(|_| entry.ask_at <= now) else { return };
        // After a failure the time is that of the next try.
        let suggestion = match entry.failures {
            0 => self.authority.renewal_window(certificate).await,
            _ => None,
        };
        let valid = valid(certificate);
        let entry = &mut self.entries[index];
        let (least, most) = ASK_INTERVAL;
        let ask_after = suggestion.map_or(most, |suggestion| suggestion.ask_after.clamp(least, most));
        entry.ask_at = now + ask_after;
        if let Some(Suggestion { window: (begin, end), .. }) = suggestion {
            let at = begin + end.saturating_sub(begin).mul_f64(random());
            // One that always wants another certificate gets one a day.
            let at = at.max(valid.0 + SUGGESTED_AGE_MIN);
            let due = renewal(valid, self.renew_before, Some(at), random());
            if due < entry.due {
                tracing::info!(names = ?entry.names, "the certificate authority suggests an earlier renewal");
                entry.due = due;
            }
        }
    }

    /// Writes what the disk has not taken yet.
    async fn save_again(&mut self, index: usize) {
        let entry = &self.entries[index];
        let Some(pem) = entry.unsaved.clone() else { return };
        let names = entry.names.clone();
        let saved = self.storage.run(move |storage| storage.save_certificate(&names, &pem)).await;
        if saved.is_ok() {
            self.entries[index].unsaved = None;
        }
        self.note_disk(saved);
    }

    fn note_disk(&self, written: Result<(), String>) {
        if let Err(reason) = written {
            self.status.count_storage_error();
            tracing::error!(
                reason,
                "`acme.state_dir` cannot be written to: certificates are used all the same"
            );
        }
    }

    /// Hands all certificates to the listeners.
    fn publish(&self) {
        let certificates = self.entries.iter().filter_map(|entry| entry.certificate.clone());
        self.store.set_issued(certificates.collect());
    }

    /// Says how it stands; `ordering` is the one that is being ordered.
    fn report(&self, ordering: Option<usize>) {
        let status = |(index, entry): (usize, &Entry)| OrderStatus {
            names: entry.names.clone(),
            not_after: entry.certificate.as_ref().map(|certificate| certificate.not_after),
            is_ordering: ordering == Some(index),
            next_attempt: entry.due,
            failures: entry.failures,
            last_error: entry.last_error.clone(),
        };
        self.status.set_orders(self.entries.iter().enumerate().map(status).collect());
    }
}

fn has_names(certificate: &Certificate, names: &[String]) -> bool {
    names.iter().all(|name| certificate.is_for(name))
}

fn valid(certificate: &Certificate) -> (Duration, Duration) {
    (certificate.not_before, certificate.not_after)
}

#[cfg(test)]
mod tests;
