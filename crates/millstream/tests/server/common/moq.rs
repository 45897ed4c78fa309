//! A client by MoQ, as `moq-net` makes them, over WebTransport on loopback.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use moq::moq_net::{self, ALPNS, Session, broadcast, origin, track};
use moq::web_transport_quinn::proto::ConnectRequest;
use moq::web_transport_quinn::quinn;
use moq::web_transport_quinn::{Client, Session as Transport};
use tokio::runtime::Runtime;
use url::Url;

use super::TIMEOUT;
use super::server::Server;

/// A client that has been let in.
pub(crate) struct MoqClient {
    pub(crate) session: Session,
    /// What it announces.
    pub(crate) publish: origin::Producer,
    /// What it is sent.
    pub(crate) play: origin::Consumer,
    /// Nothing is read any more.
    is_stopped: Arc<AtomicBool>,
}

/// Where clients run.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The result, which must come in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(TIMEOUT, future).await;
    result.unwrap_or_else(|_| panic!("not within {TIMEOUT:?}: {what}"))
}

impl MoqClient {
    /// Connects to this path and query; panics when the server refuses.
    pub(crate) async fn connect(server: &Server, path: &str) -> Self {
        Self::try_connect(server, path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The same, with the error if it is refused.
    pub(crate) async fn try_connect(server: &Server, path: &str) -> Result<Self, String> {
        let transport = soon("a session", Self::transport(server, path)).await?;
        let (publish, publishing) = origin::Producer::new(origin::Config::default());
        let (play, playing) = origin::Producer::new(origin::Config::default());
        tokio::spawn(moq_net::time::run(publishing));
        tokio::spawn(moq_net::time::run(playing));
        let client = moq_net::Client::new().with_publisher(publish.consume()).with_subscriber(play.clone());
        let connected = soon("MoQ", client.connect(Instant::now(), transport)).await;
        let (session, driver) = connected.map_err(|error| error.to_string())?;
        let is_stopped = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&is_stopped);
        tokio::spawn(async move {
            let mut driven = Box::pin(moq_net::time::run(driver));
            let drive = |context: &mut Context<'_>| match stopped.load(Ordering::Relaxed) {
                true => Poll::Pending,
                false => driven.as_mut().poll(context),
            };
            poll_fn(drive).await
        });
        Ok(Self { session, publish, play: play.consume(), is_stopped })
    }

    /// From now on nothing of MoQ runs, while QUIC goes on.
    pub(crate) fn stop_reading(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// A WebTransport session alone.
    pub(crate) async fn transport(server: &Server, path: &str) -> Result<Transport, String> {
        let address = server.moq.expect("MoQ is on");
        let url: Url = format!("https://{address}/{path}").parse().expect("a URL");
        let request = ConnectRequest::new(url).with_protocols(ALPNS.iter().map(|alpn| (*alpn).to_owned()));
        let connected = client().connect(request).await;
        connected.map_err(|error| error.to_string())
    }

    /// The broadcast of this name, once it is announced.
    pub(crate) async fn broadcast(&self, name: &str) -> broadcast::Consumer {
        let broadcast = soon("the broadcast is announced", self.play.routed_broadcast(name)).await;
        broadcast.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// A client that accepts every certificate.
fn client() -> Client {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3");
    let mut tls = self_signed::accept_any(builder).with_no_client_auth();
    tls.alpn_protocols = vec![moq::web_transport_quinn::ALPN.as_bytes().to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).expect("QUIC");
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a port");
    Client::new(endpoint, config)
}

/// Reads a track from its newest group on, in order.
pub(crate) struct TrackReader {
    groups: track::Ordered,
    group: Option<moq_net::group::Consumer>,
}

/// A frame of a track.
pub(crate) struct TrackFrame {
    /// Whether it begins a group.
    pub(crate) is_first: bool,
    pub(crate) payload: Vec<u8>,
}

impl TrackReader {
    /// Subscribes; groups that are late by less than `age` are waited for.
    pub(crate) async fn subscribe(broadcast: &broadcast::Consumer, name: &str, age: Duration) -> Self {
        let subscription = track::Subscription::default().with_max_age(age);
        let track = broadcast.track(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let track = soon(name, track.subscribe(subscription)).await;
        let track = track.unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { groups: track.ordered(), group: None }
    }

    /// The next frame; `None` at the end of the track.
    pub(crate) async fn next(&mut self) -> Option<TrackFrame> {
        let mut is_first = false;
        loop {
            if let Some(group) = &mut self.group {
                let frame = soon("a frame", group.read_frame()).await.expect("the group goes on");
                if let Some(frame) = frame {
                    return Some(TrackFrame { is_first, payload: frame.payload.to_vec() });
                }
            }
            is_first = true;
            self.group = Some(soon("a group", self.groups.next_group()).await.ok()??);
        }
    }
}
