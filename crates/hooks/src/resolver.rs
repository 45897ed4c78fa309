//! Addresses of hooks: one look-up at a time per name, kept for a moment.
//!
//! The system's resolver blocks a thread until it answers, which without DNS takes many seconds, however long
//! the question may wait. So that questions do not take all threads of the runtime, which others need, the
//! look-ups are as few as the names in the configuration.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;
use tower::Service;

/// Addresses are kept for this long.
const KEPT: Duration = Duration::from_secs(5);
/// That there are none is kept for this long.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

type LookUp = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What is known of a name. Who holds it looks it up.
type Known = Turn<Option<Found>>;

/// Finds addresses. Clones share what they have found.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<Inner>);

struct Inner {
    /// As many as the configuration names: redirects are not followed.
    names: Mutex<HashMap<Box<str>, Arc<Known>>>,
    look_up: Box<LookUp>,
}

#[derive(Clone)]
struct Found {
    /// None: the look-up has failed.
    addresses: Vec<SocketAddr>,
    at: Instant,
}

impl Found {
    fn counts(&self) -> bool {
        self.at.elapsed() < if self.addresses.is_empty() { FAILURE_KEPT } else { KEPT }
    }
}

impl Resolver {
    /// Asks the system.
    pub(crate) fn of_system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    fn new(look_up: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { names: Mutex::default(), look_up: Box::new(look_up) }))
    }

    async fn find(self, name: Box<str>) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        let turn = {
            // It is whole between any two statements.
            let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(names.entry(name.clone()).or_default())
        };
        let mut known = turn.lock_owned().await;
        if let Some(found) = known.as_ref().filter(|found| found.counts()) {
            return found.addresses();
        }
        let inner = Arc::clone(&self.0);
        // The turn ends with the look-up, not with the question, which may have given up by then.
        let found = tokio::task::spawn_blocking(move || {
            let addresses = (inner.look_up)(&name).unwrap_or_default();
            known.insert(Found { addresses, at: Instant::now() }).clone()
        });
        found.await.map_err(io::Error::other)?.addresses()
    }
}

impl Found {
    fn addresses(&self) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        if self.addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
        }
        Ok(self.addresses.clone().into_iter())
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().find(name.as_str().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn dead_dns_takes_one_thread_and_no_other_name() {
        let (answer, answered) = mpsc::channel();
        let (answered, count) = (Mutex::new(answered), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&count);
        let resolver = Resolver::new(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            if name == "dead" {
                let _ = answered.lock().expect("whole").recv();
            }
            Ok(vec![([127, 0, 0, 1], 0).into()])
        });
        for _ in 0..100 {
            let asked = tokio::spawn(resolver.clone().find("dead".into()));
            tokio::task::yield_now().await;
            // It has waited for long enough.
            asked.abort();
        }
        for _ in 0..3 {
            let found = resolver.clone().find("alive".into()).await.expect("found");
            assert_eq!(found.len(), 1);
        }
        assert!(count.load(Ordering::SeqCst) <= 2, "one look-up for each name");
        answer.send(()).expect("it waits");
        resolver.find("dead".into()).await.expect("found at last");
        assert_eq!(count.load(Ordering::SeqCst), 2, "what was found is kept");
    }
}
