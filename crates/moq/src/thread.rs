//! The thread of MoQ: its UDP ports, and a task for each session.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use moq_net::origin;
use rtmp::name::NameRules;
use tokio::runtime::Builder;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{
    Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use worker_api::live::{Current, Live};
use worker_api::moq::MoqStatus;
use worker_api::publications::StreamNews;
use worker_api::settings::MoqSettings;
use worker_api::{AddressSlots, HomeOf, WorkerHandles, time};

use crate::certificate;
use crate::session;
use crate::shared::Shared;
use crate::streams::Streams;

/// Longest time that the end of the thread is waited for.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// Handshakes at a time; beyond half of them, a client has to show that it receives what is sent to
/// its address (RFC 9000 section 8.1).
const HANDSHAKES_MAX: usize = 256;
/// How often it is looked whether permissions have changed, for all sessions together.
const LOOK: Duration = Duration::from_secs(1);
/// The same whether streams have ended of which no news came, and whether tokens are worth something else
/// than before: some become valid later, and keys come and go.
const REVIEW: Duration = Duration::from_secs(30);
/// The part of all handshakes, and of all sessions, that one address may have.
const ADDRESS_PART: usize = 4;
/// What may be in flight to or from one client, and so in memory.
const WINDOW_BYTES: u32 = 8 << 20;
/// What may be in flight of one frame.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// Groups that a publisher may have begun at a time: each frame of audio is one.
const STREAMS_MAX: u32 = 512;
/// Requests that a client may have open at a time.
const REQUESTS_MAX: u32 = 128;

/// What the thread needs.
pub struct MoqInput {
    /// Addresses, certificate and limits.
    pub settings: MoqSettings,
    /// Which names streams may have.
    pub names: NameRules,
    /// Who may publish and play.
    pub current: Arc<Live<Current>>,
    /// Where frames come from and go to.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<HomeOf>,
    /// Streams that begin and cease to be published.
    pub news: Receiver<StreamNews>,
}

impl fmt::Debug for MoqInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoqInput").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Owns the thread, which ends when this is stopped or dropped.
#[derive(Debug)]
pub struct MoqThread {
    addresses: Vec<SocketAddr>,
    status: Arc<MoqStatus>,
    /// Dropped to end it, and the thread's answer.
    running: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl MoqThread {
    /// Takes the ports and starts the thread.
    ///
    /// # Errors
    /// A sentence: a port is in use, or the certificate does not serve.
    pub fn start(input: MoqInput) -> Result<Self, String> {
        let MoqInput { settings, names, current, workers, home, news } = input;
        let (tls, hash) = match &settings.tls {
            Some(tls) => (Arc::clone(tls), None),
            None => {
                let made = certificate::for_trials(&settings.certificate_names, time::since_1970());
                let (tls, hash) =
                    made.map_err(|error| format!("no certificate for MoQ can be made: {error}"))?;
                (tls, Some(hash))
            }
        };
        let config = quic(&tls, &settings)?;
        let sockets = settings.listen.iter().map(|address| bind(*address)).collect::<Result<Vec<_>, _>>()?;
        let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let no_thread = |error: io::Error| format!("the thread of MoQ could not start: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let endpoints = {
            // Sockets belong to the runtime in which they are made.
            let _inside = runtime.enter();
            let endpoint = |socket| {
                let runtime = Arc::new(TokioRuntime);
                Endpoint::new(EndpointConfig::default(), Some(config.clone()), socket, runtime)
            };
            sockets.into_iter().map(endpoint).collect::<Result<Vec<_>, _>>().map_err(no_thread)?
        };
        let status = Arc::<MoqStatus>::default();
        if let Some(hash) = hash {
            tracing::info!(sha256 = hash, "MoQ has a certificate for trials");
            status.set_certificate_hash(hash);
        }
        let of_thread = Arc::clone(&status);
        let streams = Streams::new();
        let shared = Shared { settings, names, current, workers, home, streams, status: of_thread };
        let (running, stopped) = oneshot::channel::<()>();
        let (ending, ended) = oneshot::channel::<()>();
        worker_api::thread::spawn("moq", move || {
            runtime.block_on(run(Arc::new(shared), endpoints, news, stopped));
            runtime.shutdown_background();
            // Whoever stops it waits for this, or does not.
            let _ = ending.send(());
        })
        .map_err(no_thread)?;
        Ok(Self { addresses, status, running: Some(running), ended: Some(ended) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How it is doing, for the control side.
    pub fn status(&self) -> Arc<MoqStatus> {
        Arc::clone(&self.status)
    }

    /// Ends all sessions, and waits a moment for clients to learn of it.
    pub async fn stop(mut self) {
        drop(self.running.take());
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(STOP_WITHIN, ended).await;
        }
    }
}

/// The error begins with the address, so that whoever reads it finds the key that has it.
fn bind(address: SocketAddr) -> Result<UdpSocket, String> {
    UdpSocket::bind(address).map_err(|error| format!("`moq.listen` cannot listen on {address}: {error}"))
}

fn quic(tls: &rustls::ServerConfig, settings: &MoqSettings) -> Result<ServerConfig, String> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![web_transport_quinn::ALPN.as_bytes().to_vec()];
    let crypto = QuicServerConfig::try_from(tls);
    let crypto = crypto.map_err(|error| format!("QUIC cannot use the certificate: {error}"))?;
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(IdleTimeout::try_from(settings.silence_max).ok());
    // Twice within the timeout, since one may be lost.
    transport.keep_alive_interval(Some(settings.silence_max / 3));
    transport.receive_window(VarInt::from_u32(WINDOW_BYTES));
    transport.stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES));
    transport.send_window(u64::from(WINDOW_BYTES));
    transport.max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(REQUESTS_MAX));
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn run(
    shared: Arc<Shared>,
    endpoints: Vec<Endpoint>,
    mut news: Receiver<StreamNews>,
    mut stopped: oneshot::Receiver<()>,
) {
    let places = |max: usize| AddressSlots::new(max, max.div_ceil(ADDRESS_PART));
    let (handshakes, sessions) = (places(HANDSHAKES_MAX), places(shared.settings.sessions_max));
    let mut listeners = JoinSet::new();
    for endpoint in &endpoints {
        let (shared, endpoint) = (Arc::clone(&shared), endpoint.clone());
        listeners.spawn(listen(shared, endpoint, handshakes.clone(), sessions.clone()));
    }
    listeners.spawn(renew(Arc::clone(&shared), endpoints.clone()));
    let mut feed_is_open = true;
    let mut permissions = shared.current.version();
    let (mut look, mut review) = (interval(LOOK), interval(REVIEW));
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            news = news.recv(), if feed_is_open => match news {
                Some(StreamNews::Published(stream)) => shared.streams.published(stream.key, &*shared.home),
                Some(StreamNews::Ended(key)) => shared.streams.ended(&key, &*shared.home),
                // The workers have ended.
                None => feed_is_open = false,
            },
            _ = look.tick() => {
                let version = shared.current.version();
                if std::mem::replace(&mut permissions, version) != version {
                    shared.streams.permissions_changed();
                }
            }
            _ = review.tick() => {
                shared.streams.review(&*shared.home);
                shared.streams.permissions_changed();
            }
        }
    }
    listeners.abort_all();
    for endpoint in &endpoints {
        endpoint.close(VarInt::from_u32(0), b"the server is shutting down");
    }
    for endpoint in &endpoints {
        let _ = tokio::time::timeout(STOP_WITHIN / 2, endpoint.wait_idle()).await;
    }
}

/// Browsers take a certificate by its hash only while it is new.
async fn renew(shared: Arc<Shared>, endpoints: Vec<Endpoint>) {
    let settings = &shared.settings;
    if settings.tls.is_some() {
        return;
    }
    loop {
        sleep(certificate::USED_FOR).await;
        let made = certificate::for_trials(&settings.certificate_names, time::since_1970());
        match made.and_then(|(tls, hash)| Ok((quic(&tls, settings)?, hash))) {
            Ok((config, hash)) => {
                for endpoint in &endpoints {
                    endpoint.set_server_config(Some(config.clone()));
                }
                tracing::info!(sha256 = hash, "MoQ has a new certificate");
                shared.status.set_certificate_hash(hash);
            }
            Err(error) => tracing::warn!(error, "MoQ keeps its certificate"),
        }
    }
}

async fn listen(shared: Arc<Shared>, endpoint: Endpoint, handshakes: AddressSlots, sessions: AddressSlots) {
    let mut tasks = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = tasks.join_next() => continue,
        };
        let Some(incoming) = incoming else { return };
        let address = incoming.remote_address().ip();
        let (Some(handshake), Some(session)) = (handshakes.take(address), sessions.take(address)) else {
            MoqStatus::count(&shared.status.refused);
            incoming.refuse();
            continue;
        };
        let is_busy = handshakes.taken() > HANDSHAKES_MAX / 2;
        if is_busy && !incoming.remote_address_validated() {
            // It was validated if this fails.
            let _ = incoming.retry();
            continue;
        }
        tasks.spawn(session::serve(Arc::clone(&shared), incoming, handshake, session));
    }
}

/// An origin for one session, and what drives it. What it holds is bounded: a group that nobody has
/// read for a while goes, and so do the oldest beyond the capacity.
pub(crate) fn origin(settings: &MoqSettings) -> (origin::Producer, origin::Driver) {
    let pool = moq_net::cache::Config::default()
        .with_capacity(2 * settings.group_bytes_max as u64)
        .with_expiry(settings.age_max);
    let mut config = origin::Config::default();
    config.pool = moq_net::cache::Pool::new(pool);
    config.cache_duration = settings.age_max;
    config.default_max_age = settings.age_max;
    origin::Producer::new(config)
}
