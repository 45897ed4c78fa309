//! One client: its WebTransport session, who it is, and the two directions of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use moq_net::{ALPNS, Error, Server, Session, origin};
use percent_encoding::percent_decode_str;
use rtmp::name::query_value;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use web_transport_quinn::proto::ConnectResponse;
use web_transport_quinn::quinn::Incoming;
use web_transport_quinn::{Request, Session as Transport};
use worker_api::auth::Denied;
use worker_api::moq::MoqStatus;
use worker_api::{AddressSlot, EndReason};

use crate::play::Broadcast;
use crate::publish;
use crate::shared::{Client, Shared, StreamKey, end_of};
use crate::streams::{Names, Update};
use crate::thread::origin;

/// Time that a client has for all handshakes: QUIC, HTTP/3, WebTransport and MoQ.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Streams that are announced to one client.
const ANNOUNCED_MAX: usize = 256;

/// Serves a client to its end.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    incoming: Incoming,
    handshake: AddressSlot,
    _session: AddressSlot,
) {
    let address = incoming.remote_address();
    let opened = match timeout(HANDSHAKE_WITHIN, open(&shared, incoming)).await {
        Ok(opened) => opened,
        Err(_) => Err(NotOpened::Failed("no handshake in time".to_owned())),
    };
    drop(handshake);
    match opened {
        Ok(opened) => {
            MoqStatus::count(&shared.status.accepted);
            shared.status.sessions.fetch_add(1, Ordering::Relaxed);
            // However the task ends.
            let _leaves = Leaves(Arc::clone(&shared.status));
            opened.run(shared).await;
        }
        Err(NotOpened::Refused(reason)) => {
            MoqStatus::count(&shared.status.refused);
            tracing::info!(%address, reason, "MoQ client refused");
        }
        Err(NotOpened::Failed(error)) => {
            MoqStatus::count(&shared.status.failed);
            tracing::debug!(%address, error, "no MoQ session");
        }
    }
}

struct Leaves(Arc<MoqStatus>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

enum NotOpened {
    /// A sentence.
    Refused(&'static str),
    Failed(String),
}

impl<E: std::error::Error> From<E> for NotOpened {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A session that has begun.
struct Opened {
    client: Arc<Client>,
    session: Session,
    driver: moq_net::Driver<Transport>,
    /// What the client is sent.
    play: origin::Producer,
    play_driver: origin::Driver,
    /// What it sends.
    publish: origin::Producer,
    publish_driver: origin::Driver,
}

async fn open(shared: &Arc<Shared>, incoming: Incoming) -> Result<Opened, NotOpened> {
    let connection = incoming.await?;
    let address = connection.remote_address();
    let request = Request::accept(connection).await?;
    let url = request.url.clone();
    let base = percent_decode_str(url.path().trim_matches('/')).decode_utf8().map(Into::into);
    let Ok(base) = base else {
        return Err(refuse(request, StatusCode::BAD_REQUEST, "the path is no text").await);
    };
    let token = query_value(url.query().unwrap_or_default(), "token");
    let mut client = Client { address, token, agent: String::new(), base };
    if let Err((status, reason)) = let_in(shared, &client) {
        return Err(refuse(request, status, reason).await);
    }
    // The client's preference does not count: the newest that both know.
    let protocol = ALPNS.iter().find(|known| request.protocols.iter().any(|offered| offered == *known));
    let response = match protocol {
        Some(protocol) => ConnectResponse::OK.with_protocol(*protocol),
        // Older ones are negotiated inside the session.
        None => ConnectResponse::OK,
    };
    let transport = request.respond(response).await?;
    let (play, play_driver) = origin(&shared.settings);
    let (publish, publish_driver) = origin(&shared.settings);
    let server = Server::new().with_publisher(play.consume()).with_subscriber(publish.clone());
    let (session, driver) = server.accept(Instant::now().into_std(), transport).await?;
    client.agent = session.version().as_str().to_owned();
    tracing::debug!(%address, version = client.agent, path = client.base, "MoQ session");
    let client = Arc::new(client);
    Ok(Opened { client, session, driver, play, play_driver, publish, publish_driver })
}

/// Answers the request, and waits until the client has read that, but not long.
async fn refuse(request: Request, status: StatusCode, reason: &'static str) -> NotOpened {
    let connection = request.conn().clone();
    if request.reject(status).await.is_ok() {
        // The answer is lost with a connection that is dropped at once.
        let _ = timeout(GOODBYE_WITHIN, connection.closed()).await;
    }
    NotOpened::Refused(reason)
}

/// Refuses who can do nothing here, with the status that browsers and tools show.
fn let_in(shared: &Shared, client: &Client) -> Result<(), (StatusCode, &'static str)> {
    if !client.names_a_stream() {
        return Ok(());
    }
    let key = StreamKey::new(&shared.names, &client.base);
    let key = key.map_err(|error| (StatusCode::BAD_REQUEST, error.reason()))?;
    let may = client.may_play(shared, &key).or_else(|_| client.may_publish(shared, &key));
    let status = |denied: Denied| match denied.challenge() {
        Some(_) => StatusCode::UNAUTHORIZED,
        None => StatusCode::FORBIDDEN,
    };
    may.map(drop).map_err(|denied| (status(denied), denied.reason()))
}

impl Opened {
    async fn run(self, shared: Arc<Shared>) {
        let Self { client, session, driver, play, play_driver, publish, publish_driver } = self;
        let mut drivers = JoinSet::new();
        drivers.spawn(moq_net::time::run(play_driver));
        drivers.spawn(moq_net::time::run(publish_driver));
        let mut transport = tokio::spawn(moq_net::time::run(driver));
        let end = tokio::select! {
            error = session.closed() => End::Peer(error),
            reason = announce(&shared, &client, &play) => End::Here(reason),
            reason = publish::receive(&shared, &client, &publish) => End::Here(reason),
        };
        match end {
            End::Peer(error) => {
                tracing::debug!(address = %client.address, %error, "MoQ session ended by the client")
            }
            End::Here(reason) => {
                tracing::debug!(address = %client.address, reason = reason.text(), "MoQ session ended");
                session.abort(error_of(reason));
            }
        }
        drop(session);
        // It tells the peer why, and is not waited for longer than a peer that answers takes.
        if timeout(GOODBYE_WITHIN, &mut transport).await.is_err() {
            transport.abort();
        }
    }
}

/// Time to tell a client that its session is over.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

enum End {
    Peer(Error),
    Here(EndReason),
}

fn error_of(reason: EndReason) -> Error {
    match reason {
        EndReason::Refused(_) | EndReason::TokenExpired => Error::Unauthorized,
        EndReason::Protocol(_) => Error::ProtocolViolation,
        _ => Error::Cancel,
    }
}

/// A broadcast that is announced.
struct Announced {
    task: AbortHandle,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Announces what the client may play, for as long as it is there; an end is why the session is to
/// end.
async fn announce(shared: &Arc<Shared>, client: &Arc<Client>, play: &origin::Producer) -> EndReason {
    // Of a client whose path is a stream that it may publish and not play, nothing is ever announced.
    let names = match client.names_a_stream() {
        true => Names::One(client.base.as_str().into()),
        false => Names::Below(client.base.clone()),
    };
    let mut listing = shared.streams.listing(names, ANNOUNCED_MAX);
    let mut announced: BTreeMap<Arc<str>, Announced> = BTreeMap::new();
    let mut broadcasts = JoinSet::new();
    loop {
        let updates = tokio::select! {
            Some(ended) = broadcasts.join_next() => match ended {
                Ok(reason) => return reason,
                // It was retracted.
                Err(_) => continue,
            },
            updates = listing.next(&shared.streams, |key| playable(shared, client, key)) => updates,
        };
        let Some(updates) = updates else { return EndReason::Draining };
        for update in updates {
            match update {
                Update::Retract(key) => drop(announced.remove(&key)),
                Update::Announce(name, (key, path, until)) => {
                    let (shared, client, play) = (Arc::clone(shared), Arc::clone(client), play.clone());
                    let task = broadcasts.spawn(Broadcast { shared, client, key, play, path, until }.run());
                    announced.insert(name, Announced { task });
                }
            }
        }
    }
}

/// What a stream is to a client that may play it: its name, the path of its broadcast, and until when.
fn playable(shared: &Shared, client: &Client, key: &str) -> Option<(StreamKey, String, Option<Instant>)> {
    let path = client.broadcast_of(key)?.to_owned();
    let key = StreamKey::new(&shared.names, key).ok()?;
    let permit = client.may_play(shared, &key).ok()?;
    Some((key, path, end_of(permit)))
}
