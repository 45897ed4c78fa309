//! Links to all other living nodes: opens them, takes them in, and keeps one for each pair.
//!
//! There is a link between any two nodes, whether a stream is on it or not: a stream begins a round trip
//! after it is asked for, and round trips to all nodes are known when a parent is chosen. Of two nodes the
//! one whose name comes first opens it; the other one does when that does not succeed, as where only one can
//! be reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{InstanceId, NodeName};
use node_link::{Event, Goodbye, HELLO_WITHIN, Link, LinkError, Node, Refusal, Role};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsStream;
use tracing::{debug, info, warn};

use crate::center::Center;
use crate::connection::{Driven, Io, NodeLink, Over};
use crate::packets;
use crate::serve;
use crate::socket::Socket;
use crate::strangers::{Stranger, Strangers};
use crate::task;
use crate::tls;

/// A node that waits for the other one to open the link opens it itself after this.
const OTHERS_TURN: Duration = Duration::from_secs(2);
/// While a node cannot be reached, a further attempt begins this often: what was sent into a cut may be
/// repeated by TCP only seconds after it has healed.
const ATTEMPT_EVERY: Duration = Duration::from_millis(400);
/// Attempts at once.
const ATTEMPTS_MAX: usize = 8;
/// Time one attempt has for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Addresses that a node's name may stand for.
const NODE_ADDRESSES_MAX: usize = 8;
/// Pause after a node said no: that changes only when somebody does something about it.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// The same warning is logged this often at most.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Two links of one pair that are no further apart were opened by both at once.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Links that are up. Further nodes are refused.
const LINKS_MAX: usize = cluster::INSTANCES_MAX;

/// All links that are up, by the other node's name.
#[derive(Debug)]
pub(crate) struct Links {
    up: Mutex<HashMap<NodeName, Arc<NodeLink>>>,
    changed: watch::Sender<()>,
    /// Since when there was no link to a node last, and why.
    over: Mutex<HashMap<NodeName, (Duration, String)>>,
    pub(crate) strangers: Strangers,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self {
            up: Mutex::default(),
            changed: watch::Sender::new(()),
            over: Mutex::default(),
            strangers: Strangers::new(Instant::now()),
        }
    }

    pub(crate) fn get(&self, node: &NodeName) -> Option<Arc<NodeLink>> {
        self.lock().get(node).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<NodeLink>> {
        self.lock().values().cloned().collect()
    }

    /// Since when there was no link to a node last, and why; nothing if there always was.
    pub(crate) fn last_over(&self, node: &NodeName) -> Option<(Duration, String)> {
        self.over().get(node).cloned()
    }

    /// The link to a node is over.
    fn note_over(&self, node: &NodeName, now: Duration, why: &Over) {
        let mut over = self.over();
        if over.len() >= LINKS_MAX && !over.contains_key(node) {
            // Nodes that came once and had names of their own.
            over.clear();
        }
        over.insert(node.clone(), (now, why.to_string()));
    }

    /// There is still no link to a node.
    fn note_attempt(&self, node: &NodeName, now: Duration, why: &Over) {
        if let Some((_, last)) = self.over().get_mut(node) {
            *last = why.to_string();
        } else {
            self.note_over(node, now, why);
        }
    }

    fn over(&self) -> MutexGuard<'_, HashMap<NodeName, (Duration, String)>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of this changes when links come and go.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, Arc<NodeLink>>> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `link` the one between both nodes, in place of one that is there already, or refuses it.
    fn add(&self, me: &NodeName, link: &Arc<NodeLink>) -> bool {
        let mut up = self.lock();
        let now = link.driven.clock.now();
        // Both ends have to decide alike: the link that the first node by name opened stays. Later than at
        // once, the older one is dead, and the other node knows.
        let is_preferred = |link: &NodeLink| link.is_dialed == (*me < link.peer);
        if let Some(before) = up.get(&link.peer) {
            let at_once = before.instance == link.instance && now.saturating_sub(before.up_since) < AT_ONCE;
            if at_once && is_preferred(before) && !is_preferred(link) {
                return false;
            }
            before.driven.with(|machine, _| machine.say_goodbye(Goodbye::Duplicate));
        }
        up.insert(link.peer.clone(), Arc::clone(link));
        self.changed.send_replace(());
        true
    }

    /// The link is over; says whether it was the one between both nodes.
    fn remove(&self, link: &Arc<NodeLink>) -> bool {
        let mut up = self.lock();
        let is_it = up.get(&link.peer).is_some_and(|known| Arc::ptr_eq(known, link));
        if is_it {
            up.remove(&link.peer);
            self.changed.send_replace(());
        }
        is_it
    }
}

/// Takes in what other nodes open, until the task is ended.
pub(crate) async fn listen(center: Arc<Center>, listener: TcpListener) {
    loop {
        let Ok((socket, address)) = listener.accept().await else {
            // Descriptors ran out: that passes.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let stranger = match center.links.strangers.admit(Instant::now(), address.ip()) {
            Ok(stranger) => stranger,
            Err(too_much) => {
                debug!(%address, ?too_much, "connection of a stranger closed");
                continue;
            }
        };
        let center = Arc::clone(&center);
        task::spawn(async move { take_in(&center, socket, address, stranger).await });
    }
}

/// A connection on which both nodes have introduced themselves.
struct Introduced {
    io: Io,
    driven: Driven,
    node: Node,
    relay_secret: [u8; 32],
}

async fn take_in(center: &Arc<Center>, socket: TcpStream, address: SocketAddr, stranger: Stranger) {
    let introduced = timeout(HELLO_WITHIN, async {
        let socket = Socket::new(socket).map_err(|error| Over::Connection(error.to_string()))?;
        let stream = center.tls.accept(socket).await.map_err(Over::Connection)?;
        introduce(center, stream, Role::Listener).await
    });
    let introduced = introduced.await.unwrap_or(Err(Over::Link(LinkError::NoHello)));
    if let Err(over) = &introduced {
        center.links.strangers.count(|refused| {
            *match over {
                Over::Link(LinkError::NoHello) => &mut refused.late,
                Over::Link(LinkError::WrongSecret) => &mut refused.wrong_secret,
                Over::Link(LinkError::OtherVersion { .. }) => &mut refused.other_version,
                Over::Link(LinkError::Refused(_)) => &mut refused.not_taken,
                _ => &mut refused.nonsense,
            } += 1;
        });
    }
    match introduced {
        Ok(introduced) => {
            drop(stranger);
            center.links.strangers.note_node(Instant::now(), address.ip());
            run(center, introduced, address, false).await;
        }
        // What strangers do is not worth a line of the log each; a node of another cluster is.
        Err(over) if is_worth_a_warning(&over) && center.warnings.may_log(address.ip()) => {
            warn!(%address, "a node was refused: {over}");
        }
        Err(over) => debug!(%address, %over, "not a node"),
    }
}

fn is_worth_a_warning(over: &Over) -> bool {
    matches!(
        over,
        Over::Link(LinkError::WrongSecret | LinkError::OtherVersion { .. } | LinkError::Refused(_))
    )
}

/// Both nodes introduce themselves.
async fn introduce(center: &Center, stream: TlsStream<Socket>, role: Role) -> Result<Introduced, Over> {
    let (binding, relay_secret) = tls::exported(&stream).map_err(Over::Connection)?;
    let (me, secret, now) = (center.me.clone(), center.settings.secret.clone(), center.clock.now());
    let machine = match role {
        Role::Dialer => Link::dial(now, me, secret, binding),
        Role::Listener => Link::listen(now, me, secret, binding),
    };
    let driven = Driven::new(machine, center.clock);
    let mut io = Io::new(stream);
    loop {
        let event = driven.lock().poll_event();
        match event {
            Some(Event::Hello(node)) => {
                if role == Role::Dialer {
                    return Ok(Introduced { io, driven, node, relay_secret });
                }
                match center.judge(&node) {
                    Ok(()) => {
                        driven.with(|machine, now| machine.accept(now));
                        return Ok(Introduced { io, driven, node, relay_secret });
                    }
                    Err(refusal) => {
                        driven.with(|machine, _| machine.refuse(refusal));
                        io.close(&driven).await;
                        return Err(Over::Link(LinkError::Refused(refusal)));
                    }
                }
            }
            Some(_) => return Err(Over::Link(LinkError::Malformed("a message before an introduction"))),
            None => {}
        }
        if let Err(over) = io.turn(&driven).await {
            io.close(&driven).await;
            return Err(over);
        }
    }
}

impl Center {
    /// Whether a node that has the secret may have a link.
    fn judge(&self, node: &Node) -> Result<(), Refusal> {
        let name = NodeName::new(&node.name).ok_or(Refusal::NameTaken)?;
        if name == self.name {
            return Err(Refusal::NameTaken);
        }
        if self.is_leaving() {
            return Err(Refusal::Leaving);
        }
        // Of two nodes of one name the directory knows which has it.
        let nodes = self.directory.nodes();
        let other = nodes.iter().find(|known| known.name == name);
        if other.is_some_and(|known| known.instance != InstanceId(node.instance))
            && self.links.get(&name).is_some_and(|link| link.instance != InstanceId(node.instance))
        {
            return Err(Refusal::NameTaken);
        }
        if self.links.lock().len() >= LINKS_MAX {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }
}

/// Runs a link from its introduction to its end.
async fn run(center: &Arc<Center>, introduced: Introduced, address: SocketAddr, is_dialed: bool) {
    let Introduced { mut io, driven, node, relay_secret } = introduced;
    // Names were checked: by the listener as `judge` does, by the dialer against the one it meant.
    let Some(name) = NodeName::new(&node.name) else { return };
    let peer = (name, InstanceId(node.instance), node.software);
    let link = Arc::new(NodeLink::new(peer, address, is_dialed, driven, relay_secret));
    let goodbye = if center.is_leaving() {
        Some(Goodbye::Leaving)
    } else {
        (!center.links.add(&center.name, &link)).then_some(Goodbye::Duplicate)
    };
    if let Some(why) = goodbye {
        link.driven.with(|machine, _| machine.say_goodbye(why));
        io.close(&link.driven).await;
        return;
    }
    center.directory.set_reachable(&link.peer, true);
    info!(node = %link.peer, %address, software = link.software, "linked to a node");
    let serving = Arc::clone(center);
    if let Some(address) = &center.relay_address {
        link.driven.with(|machine, _| machine.announce_relay(address));
    }
    let begin =
        |link: &Arc<NodeLink>, id, stream, attached| serve::spawn(&serving, link, (id, stream), attached);
    let connect = |link: &Arc<NodeLink>, address| {
        task::spawn(packets::connect(Arc::clone(&serving), Arc::clone(link), address));
    };
    let left = |stream: &str, node: String| packets::note_left(center, stream, &node);
    let over = link.run(&mut io, begin, connect, left).await;
    packets::disconnect(center, &link);
    if center.links.remove(&link) {
        center.links.note_over(&link.peer, center.clock.now(), &over);
        let is_leaving = matches!(over, Over::Goodbye(Goodbye::Leaving));
        center.directory.set_reachable(&link.peer, is_leaving);
        match over {
            Over::Goodbye(_) | Over::Closed => info!(node = %link.peer, "link closed: {over}"),
            over => warn!(node = %link.peer, "link lost: {over}"),
        }
    }
    link.end();
    io.close(&link.driven).await;
}

/// Opens a link to a node whenever there is none, until the task is ended or this node leaves.
pub(crate) async fn keep(center: Arc<Center>, node: Arc<cluster::Node>) {
    tokio::join!(note_addresses(&center, &node), keep_link(&center, &node));
}

/// A node is known by its addresses before it comes from them; a name may have none yet.
async fn note_addresses(center: &Center, node: &cluster::Node) {
    while !center.is_leaving() {
        let found = timeout(CONNECT_WITHIN, tokio::net::lookup_host(&node.addresses.relay_tcp)).await;
        if let Ok(Ok(addresses)) = found {
            for address in addresses.take(NODE_ADDRESSES_MAX) {
                center.links.strangers.note_node(Instant::now(), address.ip());
            }
            break;
        }
        sleep(AFTER_REFUSAL).await;
    }
}

async fn keep_link(center: &Arc<Center>, node: &cluster::Node) {
    while !center.is_leaving() {
        let mut changes = center.links.changes();
        if center.links.get(&node.name).is_some() {
            // It never fails: the sender is in `center`.
            let _ = changes.changed().await;
            continue;
        }
        if node.name < center.name && has_link(center, &node.name, OTHERS_TURN).await {
            continue;
        }
        match dial(center, node).await {
            Ok((introduced, address)) => {
                center.links.strangers.note_node(Instant::now(), address.ip());
                // A task of its own: the link outlives this one, which ends when the directory forgets the
                // node.
                let serving = Arc::clone(center);
                task::spawn(async move { run(&serving, introduced, address, true).await });
                has_link(center, &node.name, ATTEMPT_EVERY).await;
            }
            Err(over) => {
                center.links.note_attempt(&node.name, center.clock.now(), &over);
                if center.warnings.may_log(&node.name) {
                    warn!(node = %node.name, address = node.addresses.relay_tcp, "no link: {over}");
                }
                let pause = if is_worth_a_warning(&over) { AFTER_REFUSAL } else { ATTEMPT_EVERY };
                has_link(center, &node.name, pause).await;
            }
        }
    }
}

/// Whether there is a link to a node, or comes to be one within `wait`.
async fn has_link(center: &Center, node: &NodeName, wait: Duration) -> bool {
    let mut changes = center.links.changes();
    let comes = async {
        while center.links.get(node).is_none() {
            let _ = changes.changed().await;
        }
    };
    timeout(wait, comes).await.is_ok()
}

/// Opens a connection to a node: several attempts, each a little after the one before. Only the first that
/// succeeds is used, so that the other node sees one link.
async fn dial(center: &Arc<Center>, node: &cluster::Node) -> Result<(Introduced, SocketAddr), Over> {
    let address = &node.addresses.relay_tcp;
    if address.is_empty() {
        return Err(Over::Connection("it announces no address (`cluster.relay_public_address`)".to_owned()));
    }
    let mut attempts = JoinSet::new();
    let mut begun = 0;
    let (stream, address) = loop {
        if begun < ATTEMPTS_MAX {
            begun += 1;
            let (center, address) = (Arc::clone(center), address.clone());
            attempts.spawn(async move { connect(&center, &address).await });
        }
        match timeout(ATTEMPT_EVERY, attempts.join_next()).await {
            Ok(Some(Ok(Ok(connected)))) => break connected,
            // The others may still succeed; the last one says what is wrong.
            Ok(Some(Ok(Err(error)))) if attempts.is_empty() => return Err(Over::Connection(error)),
            Ok(None) => return Err(Over::Connection("no connection in time".to_owned())),
            _ => {}
        }
    };
    drop(attempts);
    let introduced = introduce(center, stream, Role::Dialer).await?;
    if introduced.node.name != node.name.as_str() {
        introduced.driven.with(|machine, _| machine.say_goodbye(Goodbye::WrongNode));
        introduced.io.close(&introduced.driven).await;
        return Err(Over::Connection(format!("the node at {address} is {}", introduced.node.name)));
    }
    Ok((introduced, address))
}

async fn connect(center: &Center, address: &str) -> Result<(TlsStream<Socket>, SocketAddr), String> {
    let socket = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
    let socket = socket.map_err(|_| "no connection in time")?.map_err(|error| error.to_string())?;
    let fail = |error: std::io::Error| error.to_string();
    let address = socket.peer_addr().map_err(fail)?;
    let socket = Socket::new(socket).map_err(fail)?;
    Ok((center.tls.connect(socket).await?, address))
}

/// Warnings in the log, and when each was written last.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<HashMap<String, Instant>>);

impl Warnings {
    /// Warnings that are remembered; when there are more, all may be logged again.
    const MAX: usize = 256;

    /// Whether a warning may be logged now. `about` tells it from others.
    pub(crate) fn may_log(&self, about: impl std::fmt::Display) -> bool {
        let (about, now) = (about.to_string(), Instant::now());
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(&about).is_some_and(|at| now.duration_since(*at) < WARN_EVERY) {
            return false;
        }
        if logged.len() >= Self::MAX {
            logged.clear();
        }
        logged.insert(about, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use node_link::{Binding, Secret};

    use super::*;
    use crate::clock::Clock;

    /// Both ends of a connection that `dialer` opened to `listener`.
    fn ends(clock: Clock, dialer: &str, listener: &str) -> (Arc<NodeLink>, Arc<NodeLink>) {
        let end = |peer: &str, is_dialed| {
            let me = Node { name: "me".to_owned(), instance: 1, software: "0".to_owned() };
            let secret = Secret::new(&[1; 16]).expect("long enough");
            let driven = Driven::new(Link::listen(clock.now(), me, secret, Binding([0; 32])), clock);
            let peer = (NodeName::new(peer).expect("a name"), InstanceId(7), String::new());
            Arc::new(NodeLink::new(peer, ([127, 0, 0, 1], 1).into(), is_dialed, driven, [0; 32]))
        };
        (end(listener, true), end(dialer, false))
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_links_that_were_opened_at_once_both_ends_keep_the_same_one() {
        let clock = Clock::start();
        let [a, b] = ["a", "b"].map(|name| NodeName::new(name).expect("a name"));
        // In whatever order each of them sees both.
        for orders in [(true, true), (true, false), (false, true), (false, false)] {
            let (at_a, at_b) = (Links::new(), Links::new());
            let (first_at_a, first_at_b) = ends(clock, "a", "b");
            let (second_at_b, second_at_a) = ends(clock, "b", "a");
            let add = |links: &Links, me: &NodeName, [first, second]: [&Arc<NodeLink>; 2], in_order| {
                let in_order = if in_order { [first, second] } else { [second, first] };
                in_order.into_iter().for_each(|link| _ = links.add(me, link));
            };
            add(&at_a, &a, [&first_at_a, &second_at_a], orders.0);
            add(&at_b, &b, [&first_at_b, &second_at_b], orders.1);
            let kept = (at_a.get(&b).expect("a link"), at_b.get(&a).expect("a link"));
            assert!(Arc::ptr_eq(&kept.0, &first_at_a) && Arc::ptr_eq(&kept.1, &first_at_b), "{orders:?}");
        }
        // Later, whoever opens one has lost the other.
        let links = Links::new();
        assert!(links.add(&a, &ends(clock, "a", "b").0));
        tokio::time::advance(AT_ONCE).await;
        let (_, newer) = ends(clock, "b", "a");
        assert!(links.add(&a, &newer));
        assert!(Arc::ptr_eq(&links.get(&b).expect("a link"), &newer));
        assert!(links.remove(&newer) && links.get(&b).is_none() && !links.remove(&newer));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_warning_is_logged_once_a_minute() {
        let warnings = Warnings::default();
        assert!(warnings.may_log("a") && !warnings.may_log("a") && warnings.may_log("b"));
        tokio::time::advance(WARN_EVERY).await;
        assert!(warnings.may_log("a"));
        (0..=Warnings::MAX).for_each(|number| assert!(warnings.may_log(number)));
        assert!(warnings.may_log("a"), "the memory is bounded");
    }
}
