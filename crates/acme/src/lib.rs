//! Certificates from an authority: ordered, kept on disk, renewed (ACME, RFC 8555).
//!
//! ```text
//! Manager: what is due ─▶ Authority: an order with its challenges ─▶ CertificateStore, Storage
//! ```
//!
//! A server begins with what is on disk, or with what `config` has given it, and orders in the
//! background, on the runtime of the control side. The last certificate stays in use through all
//! failures. The authority is trusted to issue certificates and no further: each request has a
//! deadline and a limit of its size, and a certificate is used only if it fits the key, has the
//! names and is valid.
//!
//! Challenges are answered by `worker_api::challenges`, over the ports that are there for clients.

mod authority;
mod client;
mod failure;
mod manager;
mod schedule;
pub mod settings;
pub mod status;
mod storage;
#[cfg(test)]
mod test_server;

use std::sync::Arc;

use tokio::task::JoinHandle;
use worker_api::certificates::{Certificate, CertificateStore};
use worker_api::time::since_1970;

use authority::AcmeAuthority;
use manager::Manager;
use settings::AcmeSettings;
use status::AcmeStatus;
use storage::Storage;

/// Orders certificates until it is stopped.
#[derive(Debug)]
pub struct Acme {
    status: Arc<AcmeStatus>,
    task: JoinHandle<()>,
}

impl Acme {
    /// Uses what is on disk at once, in `store`, and orders what is missing or due; in a tokio
    /// runtime.
    ///
    /// # Errors
    /// The authority cannot be talked to with these settings: a sentence.
    pub fn start(settings: AcmeSettings, store: Arc<CertificateStore>) -> Result<Self, String> {
        let settings = Arc::new(settings);
        let storage = Arc::new(Storage::new(&settings));
        let authority = AcmeAuthority::new(Arc::clone(&settings), Arc::clone(&storage), Arc::clone(&store))?;
        let status = Arc::<AcmeStatus>::default();
        let manager =
            Manager::new(&settings, authority, storage, store, Arc::clone(&status), Box::new(since_1970));
        Ok(Self { status, task: tokio::spawn(manager.run()) })
    }

    /// How it goes.
    pub fn status(&self) -> Arc<AcmeStatus> {
        Arc::clone(&self.status)
    }

    /// Orders nothing any more. An open order is given up.
    pub fn stop(&self) {
        self.task.abort();
    }
}

/// The certificates of earlier orders that are on disk. One that cannot be read is left out and
/// logged: it is ordered again.
pub fn stored(settings: &AcmeSettings) -> Vec<Certificate> {
    let storage = Storage::new(settings);
    let read = |names: &Vec<String>| match storage.load_certificate(names) {
        Ok(certificate) => certificate,
        Err(reason) => {
            tracing::error!(
                name = names[0],
                reason,
                "the stored certificate cannot be used: it is ordered again"
            );
            None
        }
    };
    settings.orders.iter().filter_map(read).collect()
}
