//! Streams of packets: their media goes by UDP, between the workers' relays; this is how it is arranged.
//!
//! The first worker has the relay (`worker_api::relay`). Each link gives it a secret of its own and the
//! other node's address. A stream that is served is offered with its tracks and keys, which go to the other
//! node; that one chooses a handle, and is served from then on. Keys change when a node has let a stream go,
//! and every few hours.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{NodeName, StreamName};
use node_link::{Position, Publication, ServeId, StreamEnd, StreamKey, StreamRefusal};
use relay::{LinkSecret, OpenKey, Role};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};
use worker_api::relay::{Fetched, LinkId, RelayCommand, RelayNotice, RelayRefusal, Reply};
use worker_api::streams::Epoch;
use worker_api::{EndReason, WorkerHandles};

use crate::center::Center;
use crate::connection::{Attachment, NodeLink};
use crate::describe;
use crate::stream::Slot;
use crate::task;

/// How long a link may take until datagrams can be sent: the other node says where.
const RELAY_WITHIN: Duration = Duration::from_millis(1_500);
/// A key is used for this long at most.
const KEY_VALID: Duration = Duration::from_secs(2 * 3_600);
/// Keys are changed no more often than this, however many nodes come and go.
const KEY_CHANGE_MIN: Duration = Duration::from_secs(30);
/// Time in which all nodes of the tree have a new key: links that take longer are over.
const KEY_SPREADS: Duration = Duration::from_secs(3);
/// A worker that did not answer is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// A parent is left when none of its datagrams has come for so many looks at the relay's counts, which are
/// a second apart (`status.rs`). The relay sends a ping a second, which the other node answers.
const UNHEARD_LOOKS: u32 = 4;
/// The same as a time, for a parent that is new.
pub(crate) const UNHEARD_FOR: Duration = Duration::from_secs(4);
/// Nodes that have had a key.
const HOLDERS_MAX: usize = 2 * cluster::INSTANCES_MAX;
/// News of a stream that its tasks have not read; one that is further behind starts over.
const NEWS_MAX: usize = 16;

/// What the tasks of a stream of packets have to know.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// Its next key.
    Key(OpenKey),
    /// It is not served by the relay any more.
    ServedEnded(Epoch),
    /// It is not fetched any more.
    FetchEnded(Epoch, EndReason),
    /// Its key has to be changed.
    KeyWorn,
}

pub(crate) fn news() -> broadcast::Sender<News> {
    broadcast::Sender::new(NEWS_MAX)
}

/// The relay's end of a link.
pub(crate) struct RelayEnd {
    /// Until it is used.
    secret: Mutex<Option<LinkSecret>>,
    role: Role,
    state: watch::Sender<RelayState>,
    /// When the relay had a datagram of the other node last, by its own clock, and how often it has said so
    /// since.
    heard: Mutex<(Option<std::time::Instant>, u32)>,
}

/// Whether datagrams can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayState {
    /// The other node has not said where they go, or it is not known yet what that means.
    NotYet,
    /// The relay has the link.
    Up(LinkId, SocketAddr),
    /// The link is over.
    Over,
}

impl RelayEnd {
    pub(crate) fn new(secret: [u8; 32], is_dialed: bool) -> Self {
        let role = if is_dialed { Role::Dialer } else { Role::Listener };
        let secret = Mutex::new(Some(LinkSecret::new(secret)));
        Self { secret, role, state: watch::Sender::new(RelayState::NotYet), heard: Mutex::default() }
    }

    /// The relay's number of the link, if there is one now.
    pub(crate) fn id(&self) -> Option<LinkId> {
        self.up().map(|(id, _)| id)
    }

    /// Where its datagrams go, if that is known.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.up().map(|(_, address)| address)
    }

    /// The relay's number of the link, and where its datagrams go.
    fn up(&self) -> Option<(LinkId, SocketAddr)> {
        match *self.state.borrow() {
            RelayState::Up(id, address) => Some((id, address)),
            RelayState::NotYet | RelayState::Over => None,
        }
    }

    /// The relay has had a datagram of the other node at this time last. Says whether this makes it one that
    /// is not heard.
    pub(crate) fn note_heard(&self, at: Option<std::time::Instant>) -> bool {
        let mut heard = self.heard();
        // By looks and not by time: while the worker stands still, nothing is known.
        *heard = if heard.0 == at { (at, heard.1.saturating_add(1)) } else { (at, 0) };
        heard.1 == UNHEARD_LOOKS
    }

    /// Whether datagrams of the other node come, as far as is known.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard().1 < UNHEARD_LOOKS
    }

    fn heard(&self) -> MutexGuard<'_, (Option<std::time::Instant>, u32)> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The relay's number of the link, if there is one in time.
    async fn link(&self) -> Option<LinkId> {
        let mut state = self.state.subscribe();
        let is_known = |state: &RelayState| *state != RelayState::NotYet;
        let _ = timeout(RELAY_WITHIN, state.wait_for(is_known)).await;
        self.id()
    }

    /// Waits until the link is over.
    async fn over(&self) {
        // It never fails: the sender is here.
        let _ = self.state.subscribe().wait_for(|state| *state == RelayState::Over).await;
    }
}

impl fmt::Debug for RelayEnd {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayEnd({:?}, {:?})", self.role, *self.state.borrow())
    }
}

/// Gives the relay a link, now that the other node has said where its datagrams go; unless the link ends
/// before.
pub(crate) async fn connect(center: Arc<Center>, link: Arc<NodeLink>, address: String) {
    tokio::select! {
        () = add_link(&center, &link, &address) => {}
        () = link.relay.over() => {}
    }
}

async fn add_link(center: &Arc<Center>, link: &NodeLink, address: &str) {
    let Some(secret) = link.relay.secret.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return;
    };
    if center.relay_address.is_none() {
        return;
    }
    let resolved = tokio::net::lookup_host(address).await.ok();
    let Some(resolved) = resolved.and_then(|addresses| reached_from(center.relay_socket, addresses)) else {
        warn!(node = %link.peer, address, "its address for packets cannot be resolved");
        return;
    };
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let id = LinkId(NUMBER.fetch_add(1, Ordering::Relaxed));
    let role = link.relay.role;
    for other in center.links.all().iter().filter(|other| other.peer != link.peer) {
        if other.relay.up().is_some_and(|(_, known)| known == resolved) {
            warn!(node = %link.peer, other = %other.peer, address, "two nodes announce one address for packets");
        }
    }
    let end = Ends::by(center, RelayCommand::RemoveLink { link: id });
    let added = center.workers.ask_relay(|reply| RelayCommand::AddLink {
        link: id,
        secret,
        role,
        address: resolved,
        reply,
    });
    match added.await {
        Ok(Ok(())) => {
            // The link may have ended at the moment of the answer; then it is taken away again.
            let is_up = link.relay.state.send_if_modified(|state| {
                let is_waited_for = *state == RelayState::NotYet;
                if is_waited_for {
                    *state = RelayState::Up(id, resolved);
                }
                is_waited_for
            });
            if is_up {
                debug!(node = %link.peer, address, "packets can be sent");
                end.keep();
            }
        }
        Ok(Err(why)) => warn!(node = %link.peer, address, "packets cannot be sent: {why}"),
        Err(error) => warn!(node = %link.peer, worker = error.worker, "a worker does not answer"),
    }
}

/// The one of a node's addresses that this socket reaches best, as it sees it: a socket that takes both kinds
/// has IPv4 addresses as IPv6 ones.
fn reached_from(
    socket: Option<SocketAddr>,
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> Option<SocketAddr> {
    let first = addresses.next()?;
    let is_alike = |address: &SocketAddr| socket.is_some_and(|socket| socket.is_ipv4() == address.is_ipv4());
    let best = std::iter::once(first).chain(addresses).find(is_alike).unwrap_or(first);
    Some(match (socket, best) {
        (Some(SocketAddr::V6(_)), SocketAddr::V4(best)) => {
            SocketAddr::new(best.ip().to_ipv6_mapped().into(), best.port())
        }
        _ => best,
    })
}

/// The link is over.
pub(crate) fn disconnect(center: &Center, link: &NodeLink) {
    if let RelayState::Up(link, _) = link.relay.state.send_replace(RelayState::Over) {
        send_command(&center.workers, RelayCommand::RemoveLink { link });
    }
}

/// Passes on what the relay ends by itself, until the task is ended.
pub(crate) async fn follow_relay(center: Arc<Center>) {
    if center.relay_address.is_none() {
        return;
    }
    let (sender, mut notices) = mpsc::unbounded_channel();
    send_command(&center.workers, RelayCommand::Notify { notices: sender });
    while let Some(notice) = notices.recv().await {
        let (stream, news) = match notice {
            RelayNotice::ServedEnded { stream, epoch } => (stream, News::ServedEnded(epoch)),
            RelayNotice::FetchEnded { stream, epoch, reason } => (stream, News::FetchEnded(epoch, reason)),
            RelayNotice::KeyWorn { stream } => (stream, News::KeyWorn),
        };
        if let Some(slot) = StreamName::new(&stream).and_then(|stream| center.slot(&stream)) {
            // Nobody may be left to care.
            let _ = slot.news.send(news);
        }
    }
}

/// Sends the relay a command that has no answer. It is lost if the worker's queue is full, or the worker has
/// ended.
fn send_command(workers: &WorkerHandles, command: RelayCommand) {
    if let Err(error) = workers.relay(command) {
        warn!(worker = error.worker, "a worker takes no commands");
    }
}

/// Something of the relay's that ends, by this command, when it is dropped.
pub(crate) struct Ends(Arc<Center>, Option<RelayCommand>);

impl Ends {
    fn by(center: &Arc<Center>, command: RelayCommand) -> Self {
        Self(Arc::clone(center), Some(command))
    }

    /// Does not end it.
    fn keep(mut self) {
        self.1 = None;
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(command) = self.1.take() {
            send_command(&self.0.workers, command);
        }
    }
}

/// Serves a stream of packets, until it ends or the task does.
pub(crate) async fn serve(
    center: &Arc<Center>,
    link: &Arc<NodeLink>,
    slot: &Arc<Slot>,
    (id, publication, local): (ServeId, Publication, Option<Epoch>),
    attachments: &mut mpsc::Receiver<Attachment>,
) -> Result<StreamEnd, StreamRefusal> {
    let relay = link.relay.link().await.ok_or(StreamRefusal::NotHere)?;
    // Before the offer, so that no key is missed.
    let mut news = slot.news.subscribe();
    slot.key_holders.add(link.peer.clone());
    let stream = || slot.stream.to_string();
    let offer = center.workers.ask_relay(|reply| RelayCommand::Offer { stream: stream(), reply });
    let offered = match offer.await {
        Ok(Ok(offered)) => offered,
        Ok(Err(why)) => {
            debug!(stream = %slot.stream, node = %link.peer, "not offered: {why}");
            return Err(match why {
                RelayRefusal::Draining => StreamRefusal::Draining,
                _ => StreamRefusal::NotHere,
            });
        }
        Err(_) => return Err(StreamRefusal::Full),
    };
    if local.is_some_and(|local| local != offered.epoch) {
        return Err(StreamRefusal::NotHere);
    }
    let tracks = describe::tracks(&offered.tracks).ok_or(StreamRefusal::NotHere)?;
    info!(stream = %slot.stream, node = %link.peer, "served to another node");
    link.driven.with(|machine, _| {
        machine.accept_stream(id, Publication { tracks, ..publication });
        offered.keys.iter().for_each(|key| machine.send_key(id, &StreamKey(key.to_bytes())));
    });
    let _serving = Ends::by(center, RelayCommand::StopServing { link: relay, stream: stream() });
    loop {
        tokio::select! {
            attachment = attachments.recv() => {
                let Some((handle, from)) = attachment else { return Ok(StreamEnd::Lost) };
                let from = from.map(|Position { epoch, index }| relay::Position { epoch, index });
                let served = center.workers.ask_relay(|reply| {
                    let (link, stream, epoch) = (relay, stream(), offered.epoch);
                    RelayCommand::Serve { link, stream, epoch, handle, from, reply }
                });
                match served.await {
                    Ok(Ok(())) => {}
                    Ok(Err(RelayRefusal::Replaced | RelayRefusal::NoStream)) => {
                        return Ok(StreamEnd::PublisherEnded);
                    }
                    Ok(Err(why)) => {
                        warn!(stream = %slot.stream, node = %link.peer, "packets are not served: {why}");
                        return Ok(StreamEnd::Lost);
                    }
                    Err(_) => return Ok(StreamEnd::Lost),
                }
            }
            heard = news.recv() => match heard {
                Ok(News::Key(key)) => {
                    link.driven.with(|machine, _| machine.send_key(id, &StreamKey(key.to_bytes())));
                }
                Ok(News::ServedEnded(epoch)) if epoch == offered.epoch => {
                    return Ok(StreamEnd::PublisherEnded);
                }
                Ok(_) => {}
                // The other node asks again.
                Err(_) => return Ok(StreamEnd::Lost),
            },
        }
    }
}

/// A stream of packets that is published here.
pub(crate) struct Output {
    /// Which publication it is on this node.
    pub(crate) local: Epoch,
    news: broadcast::Receiver<News>,
    _end: Ends,
}

impl Output {
    /// Waits for its end, which nobody here asked for.
    pub(crate) async fn ended(&mut self) -> EndReason {
        loop {
            match self.news.recv().await {
                Ok(News::FetchEnded(epoch, reason)) if epoch == self.local => return reason,
                Err(broadcast::error::RecvError::Closed) => return EndReason::WorkerEnded,
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            }
        }
    }
}

/// Has the relay take a stream from a link: begins its publication, or continues it. Returns the handle, and
/// where the stream stands if it has come from another node until now. The stream comes over the link as long
/// as the first of what is returned is kept.
pub(crate) async fn attach(
    center: &Arc<Center>,
    link: &NodeLink,
    slot: &Arc<Slot>,
    (tracks, keys): (&[u8], Vec<OpenKey>),
    output: &mut Option<Output>,
) -> Result<(Ends, u16, Option<Position>), String> {
    let no_answer = |_| "a worker does not answer".to_owned();
    let relay = link.relay.link().await.ok_or("the other node has no address for packets")?;
    let stream = slot.stream.to_string();
    let parent = Ends::by(center, RelayCommand::RemoveParent { link: relay, stream: stream.clone() });
    if output.is_some() {
        for key in keys {
            add_key(center, slot, key).await;
        }
        let attached =
            center.workers.ask_relay(|reply| RelayCommand::AddParent { link: relay, stream, reply });
        let attached = attached.await.map_err(no_answer)?.map_err(|why| why.to_string())?;
        let relay::Position { epoch, index } = attached.position;
        return Ok((parent, attached.handle, Some(Position { epoch, index })));
    }
    let tracks = describe::read_tracks(tracks).ok_or("its tracks make no sense")?;
    let news = slot.news.subscribe();
    // In a task of its own: the publication ends also if this one does before it has the answer.
    let (answer, fetched) = oneshot::channel();
    let center = Arc::clone(center);
    task::spawn(async move {
        let fetch = |reply| {
            let stream = stream.clone();
            RelayCommand::Fetch { link: relay, stream, tracks, keys, reply }
        };
        let fetched = center.workers.ask_relay(fetch).await;
        let with_end = |fetched: Fetched| {
            (fetched, Ends::by(&center, RelayCommand::EndFetch { stream, epoch: fetched.epoch }))
        };
        let _ = answer.send(fetched.map(|fetched| fetched.map(with_end)));
    });
    let fetched = fetched.await.map_err(|_| "this node ends")?;
    let (fetched, end) = fetched.map_err(no_answer)?.map_err(|why| why.to_string())?;
    *output = Some(Output { local: fetched.epoch, news, _end: end });
    Ok((parent, fetched.handle, None))
}

/// The next key of a fetched stream, for this node and for those that get the stream from it.
pub(crate) async fn add_key(center: &Center, slot: &Slot, key: OpenKey) {
    let added = center.workers.ask_relay(|reply| {
        let (stream, key) = (slot.stream.to_string(), key.clone());
        RelayCommand::AddKey { stream, key, reply }
    });
    // One that is there already is no harm; without one that is needed, packets do not open, and the stream
    // is fetched again.
    if let Ok(Err(why)) = added.await {
        debug!(stream = %slot.stream, epoch = key.epoch(), "a key was not taken: {why}");
    }
    let _ = slot.news.send(News::Key(key));
}

/// A node that another one fed with a stream gets it no more: whoever is its source has to change the key.
/// A node that is fed itself reports it to its parent.
pub(crate) fn note_left(center: &Center, stream: &str, node: &str) {
    let slot = StreamName::new(stream).and_then(|stream| center.slot(&stream));
    if let Some((slot, node)) = slot.zip(NodeName::new(node)) {
        slot.key_holders.add(node);
        slot.wake();
    }
}

/// Changes the keys of a stream of this node, until it is dropped.
pub(crate) struct KeyChanges(AbortHandle);

impl KeyChanges {
    pub(crate) fn start(center: &Arc<Center>, slot: &Arc<Slot>) -> Self {
        Self(task::spawn(change_keys(Arc::clone(center), Arc::clone(slot))))
    }
}

impl Drop for KeyChanges {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn change_keys(center: Arc<Center>, slot: Arc<Slot>) {
    let mut news = slot.news.subscribe();
    let mut changes = slot.changes();
    let mut changed_at = Instant::now();
    slot.key_holders.reset(fed(&center, &slot));
    loop {
        let due = sleep_until(changed_at + KEY_VALID);
        tokio::select! {
            () = due => {}
            heard = news.recv() => match heard {
                Ok(News::KeyWorn) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                _ => continue,
            },
            _ = changes.changed() => {
                if !slot.key_holders.have_left(fed(&center, &slot)) {
                    continue;
                }
                // More may follow, as when a node goes that many were fed by.
                sleep_until(changed_at + KEY_CHANGE_MIN).await;
            }
        }
        change_key(&center, &slot).await;
        changed_at = Instant::now();
    }
}

/// Gives all nodes that get the stream another key, and uses it.
async fn change_key(center: &Center, slot: &Slot) {
    let stream = || slot.stream.to_string();
    // Before there is a key: whoever comes from now on gets it, and is noted.
    slot.key_holders.reset(fed(center, slot));
    let key = answered(center, slot, |reply| RelayCommand::NewKey { stream: stream(), reply }).await;
    // Nobody gets the stream: the next one that does gets a key of its own.
    let Ok(key) = key else { return };
    let epoch = key.epoch();
    let _ = slot.news.send(News::Key(key));
    sleep(KEY_SPREADS).await;
    let used =
        answered(center, slot, |reply| RelayCommand::UseNewKey { stream: stream(), epoch, reply }).await;
    match used {
        Ok(()) => debug!(stream = %slot.stream, epoch, "another key is in use"),
        Err(why) => debug!(stream = %slot.stream, epoch, "a key was not used: {why}"),
    }
}

/// Asks the relay until it answers.
async fn answered<T>(
    center: &Center,
    slot: &Slot,
    command: impl Fn(Reply<T>) -> RelayCommand,
) -> Result<T, RelayRefusal> {
    loop {
        match center.workers.ask_relay(&command).await {
            Ok(answer) => return answer,
            Err(error) => {
                warn!(stream = %slot.stream, worker = error.worker, "a worker does not answer");
                sleep(ASK_AGAIN).await;
            }
        }
    }
}

/// Nodes that have had the key of a stream since it was last changed: of a stream of this node all, of another
/// one those that were fed by way of this node, as far as it knows.
#[derive(Debug, Default)]
pub(crate) struct KeyHolders(Mutex<BTreeSet<NodeName>>);

impl KeyHolders {
    /// A node gets the key, or got it.
    fn add(&self, node: NodeName) {
        let mut holders = self.lock();
        // More have had it than there can be nodes: that some have left is known already.
        if holders.len() < HOLDERS_MAX {
            holders.insert(node);
        }
    }

    /// Those that do not get the stream any more, by a node that feeds `children` and is not its source.
    pub(crate) fn left(&self, children: &[NodeName]) -> Vec<NodeName> {
        self.lock().iter().filter(|node| !children.contains(node)).cloned().collect()
    }

    /// There is another key, which `children` get.
    pub(crate) fn renew(&self, children: Vec<NodeName>) {
        self.reset(children.into_iter().collect());
    }

    /// Whether some of them do not get the stream any more; `fed` do.
    fn have_left(&self, fed: BTreeSet<NodeName>) -> bool {
        let mut holders = self.lock();
        let have_left = !holders.is_subset(&fed);
        holders.extend(fed);
        have_left
    }

    /// The key is changed, and `fed` get the next one.
    fn reset(&self, fed: BTreeSet<NodeName>) {
        *self.lock() = fed;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes that get the stream.
fn fed(center: &Center, slot: &Slot) -> BTreeSet<NodeName> {
    all_fed(slot.child_names(), center.directory.feeds(&slot.stream), &center.name)
}

/// Those that are fed from here are known by their links: the directory may not learn that they
/// come or leave, since NATS may be away. It says which others there are: child, parent. Of
/// those that it does not know, the nodes that fed them say when they leave ([`note_left`]).
fn all_fed(children: Vec<NodeName>, feeds: Vec<(NodeName, NodeName)>, me: &NodeName) -> BTreeSet<NodeName> {
    let by_others = feeds.into_iter().filter(|(_, parent)| parent != me).map(|(child, _)| child);
    children.into_iter().chain(by_others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).expect("a name")
    }

    #[test]
    fn of_several_addresses_the_one_of_the_socket_s_own_kind_is_taken() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (socket, addresses, expected) in [
            ("0.0.0.0:1", &["[2001:db8::1]:9", "192.0.2.1:9"][..], Some("192.0.2.1:9")),
            ("[::]:1", &["192.0.2.1:9", "[2001:db8::1]:9"], Some("[2001:db8::1]:9")),
            ("[::]:1", &["192.0.2.1:9"], Some("[::ffff:192.0.2.1]:9")),
            ("0.0.0.0:1", &[], None),
        ] {
            let reached = reached_from(Some(at(socket)), addresses.iter().map(|text| at(text)));
            assert_eq!(reached, expected.map(at), "{addresses:?} from {socket}");
        }
    }

    #[test]
    fn who_is_fed_from_here_is_known_by_links_and_who_by_others_by_the_directory() {
        let fed = |children: &[&str], feeds: &[(&str, &str)]| {
            let feeds = feeds.iter().map(|(child, parent)| (name(child), name(parent))).collect();
            all_fed(children.iter().map(|child| name(child)).collect(), feeds, &name("me"))
        };
        let set = |names: &[&str]| names.iter().map(|text| name(text)).collect::<BTreeSet<_>>();
        assert_eq!(fed(&["a"], &[]), set(&["a"]), "it says nothing of itself");
        assert_eq!(fed(&[], &[("a", "me")]), set(&[]), "what it said holds no longer");
        assert_eq!(fed(&["a"], &[("a", "me"), ("b", "a"), ("c", "b")]), set(&["a", "b", "c"]));
    }

    #[test]
    fn a_node_that_was_given_the_key_and_is_not_fed_any_more_has_left() {
        let holders = KeyHolders::default();
        assert!(!holders.have_left([name("a")].into()));
        // One that comes and goes between two looks.
        holders.add(name("b"));
        assert!(holders.have_left([name("a")].into()));
        holders.reset([name("a")].into());
        assert!(!holders.have_left([name("a"), name("c")].into()));
        assert!(holders.have_left([name("a")].into()));
    }
}
