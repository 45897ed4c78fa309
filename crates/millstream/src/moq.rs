//! Media over QUIC, where the server is built with it (cargo feature `moq`): otherwise nothing here
//! does anything, and the configuration refuses to switch it on.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::Receiver;
use worker::Workers;
use worker_api::live::{Current, Live};
use worker_api::moq::MoqStatus;
use worker_api::publications::StreamNews;
use worker_api::settings::{MoqSettings, WorkerSettings};

/// What sessions need to know.
#[cfg_attr(not(feature = "moq"), expect(dead_code, reason = "nobody needs it"))]
pub(crate) struct MoqParts<'a> {
    pub(crate) workers: &'a Workers,
    pub(crate) settings: &'a WorkerSettings,
    pub(crate) current: &'a Arc<Live<Current>>,
    pub(crate) news: Receiver<StreamNews>,
}

/// The thread of MoQ, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Moq {
    #[cfg(feature = "moq")]
    thread: Option<::moq::MoqThread>,
}

#[cfg(feature = "moq")]
impl Moq {
    /// Starts it if it is wanted.
    pub(crate) fn start(moq: Option<MoqSettings>, parts: MoqParts<'_>) -> Result<Self, String> {
        let MoqParts { workers, settings, current, news } = parts;
        let start = |moq| {
            ::moq::MoqThread::start(::moq::MoqInput {
                settings: moq,
                names: settings.names.clone(),
                current: Arc::clone(current),
                workers: worker_api::WorkerHandles::new(workers.handles().to_vec()),
                home: Box::new(workers.home()),
                news,
            })
        };
        Ok(Self { thread: moq.map(start).transpose()? })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.thread.as_ref().map_or(Vec::new(), |thread| thread.addresses().to_vec())
    }

    /// How it is doing.
    pub(crate) fn status(&self) -> Option<Arc<MoqStatus>> {
        self.thread.as_ref().map(::moq::MoqThread::status)
    }

    /// Ends all sessions.
    pub(crate) async fn stop(self) {
        if let Some(thread) = self.thread {
            thread.stop().await;
        }
    }
}

#[cfg(not(feature = "moq"))]
impl Moq {
    pub(crate) fn start(_: Option<MoqSettings>, _: MoqParts<'_>) -> Result<Self, String> {
        Ok(Self {})
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    pub(crate) fn status(&self) -> Option<Arc<MoqStatus>> {
        None
    }

    pub(crate) async fn stop(self) {}
}
