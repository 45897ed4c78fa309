//! A node without a control side, whose cluster is what the test says.

pub(crate) mod cluster;
pub(crate) mod rtc;
pub(crate) mod rtmp;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use tokio::sync::mpsc;
use tokio::time::Instant;
use worker::Workers;
use worker_api::auth::{Access, Policy, Rules};
use worker_api::columns::SNAPSHOTS_MAX;
use worker_api::command::Listed;
use worker_api::handoff::HANDOFFS_MAX;
use worker_api::internal::{PublishRequest, Publisher, Refusal};
use worker_api::live::{Current, Live};
use worker_api::pattern::Pattern;
use worker_api::rtc::RtcEndpoint;
use worker_api::settings::{Application, ApplicationSettings, RtcSettings, WorkerSettings};
use worker_api::snapshot::{Protocol, SessionSnapshot};
use worker_api::streams::Published;
use worker_api::tap::{Tap, TapItem, TapRefusal, TapRequest};
use worker_api::{AddressSlots, ListenAddresses, WorkerHandles};

use cluster::Cluster;

/// What every wait in a test may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longest frame that a source here may send.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Where what is inside the process says that it comes from.
const ADDRESS: &str = "192.0.2.1:4000";

/// Two workers and the cluster that they are a part of.
pub(crate) struct Node {
    pub(crate) handles: WorkerHandles,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) addresses: ListenAddresses,
    pub(crate) rtc: Vec<RtcEndpoint>,
    pub(crate) published: Box<dyn Fn(&str) -> Published + Send + Sync>,
    pub(crate) wanted: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    workers: Option<Workers>,
}

impl Node {
    /// With these settings for all applications.
    pub(crate) fn start(settings: ApplicationSettings) -> Self {
        let at = |text: &str| vec![text.parse().expect("an address")];
        let settings = WorkerSettings {
            workers: 2,
            rtmp: at("127.0.0.1:0"),
            http: at("127.0.0.1:0"),
            applications: vec![Application { pattern: Pattern::new("*"), settings: Arc::new(settings) }],
            rtc: RtcSettings { udp: at("127.0.0.1:0"), ..RtcSettings::default() },
            ..WorkerSettings::default()
        };
        let rules = || Rules { rules: Vec::new(), fallback: Access::anyone() };
        let policy = Policy { publish: rules(), play: rules(), ..Policy::default() };
        let cluster = Arc::<Cluster>::default();
        let workers = Workers::start(
            Arc::new(Live::new(Current { settings: Arc::new(settings), policy: Arc::new(policy) })),
            &AddressSlots::new(0, 0),
            mpsc::channel(HANDOFFS_MAX).0,
            mpsc::unbounded_channel().0,
            mpsc::channel(SNAPSHOTS_MAX).0,
            Some(Arc::clone(&cluster) as _),
        );
        let workers = workers.expect("free addresses");
        Self {
            handles: WorkerHandles::new(workers.handles().to_vec()),
            cluster,
            addresses: workers.addresses().clone(),
            rtc: workers.rtc_endpoints().to_vec(),
            published: Box::new(workers.published()),
            wanted: Box::new(workers.wanted()),
            workers: Some(workers),
        }
    }

    /// The same with the defaults.
    pub(crate) fn start_usual() -> Self {
        Self::start(ApplicationSettings::default())
    }

    /// Publishes `live/{name}` on a worker, as a source of the server or as what fetches from other nodes.
    pub(crate) async fn publish(
        &self,
        worker: usize,
        name: &str,
        protocol: Protocol,
    ) -> Result<Publisher, Refusal> {
        let request = PublishRequest {
            app: "live".to_owned(),
            name: name.to_owned(),
            protocol,
            address: ADDRESS.parse().expect("an address"),
            detail: String::new(),
        };
        self.handles.publish(worker, request, FRAME_BYTES_MAX).await.expect("an answer")
    }

    /// Plays `live/{name}` on a worker, inside the process.
    pub(crate) async fn tap(&self, worker: usize, name: &str) -> Result<Tap, TapRefusal> {
        let request = TapRequest {
            app: "live".to_owned(),
            name: name.to_owned(),
            protocol: Protocol::Node,
            address: ADDRESS.parse().expect("an address"),
            detail: "to node b".to_owned(),
        };
        self.handles.tap(worker, request).await.expect("an answer")
    }

    /// Sessions that a condition holds for.
    pub(crate) async fn sessions(&self, which: impl Fn(&SessionSnapshot) -> bool) -> Vec<SessionSnapshot> {
        let workers = self.handles.snapshots_with_sessions(&Listed::All).await.expect("answers");
        let sessions = workers.into_iter().flat_map(|worker| worker.sessions);
        sessions.filter(|session| session.stream.is_some() && which(session)).collect()
    }

    /// Sessions that have ended for a cause, of all workers.
    pub(crate) async fn ended(&self, cause: &str) -> u64 {
        let workers = self.handles.snapshots().await.expect("answers");
        let counts = workers.iter().flat_map(|worker| worker.counters.ended.iter());
        counts.filter(|(other, _)| *other == cause).map(|(_, count)| count).sum()
    }

    /// Address for RTMP.
    pub(crate) fn rtmp(&self) -> SocketAddr {
        self.addresses.rtmp[0]
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.handles.drain(Duration::ZERO);
        if let Some(workers) = self.workers.take() {
            workers.join();
        }
    }
}

/// Waits until `check` gives something.
pub(crate) async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The frames of the sample: H.264 and AAC, the headers first.
pub(crate) fn sample() -> Vec<Arc<Frame>> {
    let file = include_bytes!("../../../../../media/demo.flv");
    let mut reader = ::rtmp::flv::FlvReader::new(16 << 20);
    reader.push(file);
    let mut frames = Vec::new();
    while let Some(tag) = reader.next_tag().expect("a whole file") {
        let (first, others) = ::rtmp::flv::read_frames(tag.into()).expect("frames");
        frames.extend([first].into_iter().chain(others).map(Arc::new));
    }
    // The file ends by saying that the video is over.
    frames.retain(|frame| frame.role != media::FrameRole::End);
    frames
}

/// Sends frames and has the worker take them.
pub(crate) async fn send(publisher: &mut Publisher, frames: &[Arc<Frame>]) {
    for frame in frames {
        publisher.send(Arc::clone(frame)).await.expect("room");
    }
    publisher.flush();
}

/// What a tap gets next.
pub(crate) async fn next(tap: &mut Tap) -> TapItem {
    let item = tokio::time::timeout(TIMEOUT, tap.next()).await.expect("something comes");
    item.expect("the session goes on")
}

/// The frames that a tap gets, of one publication: so many.
pub(crate) async fn take(tap: &mut Tap, count: usize) -> Vec<Arc<Frame>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        match next(tap).await {
            TapItem::Start { frames, .. } => taken.extend(frames),
            TapItem::Frame(frame) => taken.push(frame),
            item => panic!("{item:?}"),
        }
    }
    taken
}

/// Streams by name, for comparison.
pub(crate) fn names(sessions: &[SessionSnapshot]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for session in sessions {
        *names.entry(session.protocol.name().to_owned()).or_default() += 1;
    }
    names
}
