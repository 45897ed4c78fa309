//! A node: workers with their sockets, WHIP and WHEP without HTTP, and the relay's commands.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay::{LinkSecret, Position, Role};
use rtc::Timeouts;
use rtc::sdp::{Direction, OfferConfig};
use rtc_test::{Answered, OfferOptions, UdpClient, credentials, offer, random};
use tokio::sync::{mpsc, oneshot};
use worker::Workers;
use worker_api::AddressSlots;
use worker_api::auth::{Access, Rules};
use worker_api::command::{Command, Listed};
use worker_api::handoff::Handoff;
use worker_api::live::{Current, Live};
use worker_api::relay::{
    Attached, Fetched, LinkId, Offered, RelayCommand, RelayCounters, RelayNotice, RelayRefusal, RelayStats,
    Reply,
};
use worker_api::rtc::{LayerChoice, LayerRefusal, LayerRequest, RtcNotice, RtcOpen, RtcRole};
use worker_api::settings::{RelaySettings, RtcSettings, UdpBackend, WorkerSettings};
use worker_api::snapshot::SessionId;
use worker_api::streams::Published;

use super::{eventually, until};

/// Longer than a machine stands still.
const FOREVER: Duration = Duration::from_secs(3_600);

/// Workers of one node.
pub(crate) struct Node {
    workers: Option<Workers>,
    published: Box<dyn Fn(&str) -> Published + Send + Sync>,
    pub(crate) notices: mpsc::UnboundedReceiver<RelayNotice>,
    // What workers report to is there as long as they are.
    _handoffs: mpsc::Receiver<Handoff>,
    _sessions: mpsc::UnboundedReceiver<RtcNotice>,
}

impl Node {
    /// A node with so many workers.
    pub(crate) fn start(workers: usize) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), workers, |_| {})
    }

    /// A node at this address with so many workers, of which the caller changes what it likes.
    pub(crate) fn start_at(at: IpAddr, workers: usize, change: impl FnOnce(&mut WorkerSettings)) -> Self {
        let at = SocketAddr::new(at, 0);
        let mut settings = WorkerSettings {
            workers,
            http: vec![at],
            handshake_timeout: FOREVER,
            publisher_idle_timeout: FOREVER,
            rtc: RtcSettings { udp: vec![at], ..RtcSettings::default() },
            relay: Some(RelaySettings { listen: at, udp_backend: UdpBackend::Auto, interface: None }),
            ..WorkerSettings::default()
        };
        change(&mut settings);
        let anyone = Rules { rules: Vec::new(), fallback: Access::anyone() };
        let policy = worker_api::auth::Policy {
            publish: anyone.clone(),
            play: anyone,
            ..worker_api::auth::Policy::default()
        };
        let current = Current { settings: Arc::new(settings), policy: Arc::new(policy) };
        let live = Arc::new(Live::new(current));
        let (handoffs, _handoffs) = mpsc::channel(16);
        let (sessions, _sessions) = mpsc::unbounded_channel();
        // Nobody reads statistics: they are dropped.
        let (stats, _) = mpsc::channel(1);
        let slots = AddressSlots::new(100, 100);
        let workers = Workers::start(live, &slots, handoffs, sessions, stats, None).expect("free ports");
        let published = Box::new(workers.published());
        let (notify, notices) = mpsc::unbounded_channel();
        let node = Self { workers: Some(workers), published, notices, _handoffs, _sessions };
        node.tell(RelayCommand::Notify { notices: notify });
        node
    }

    fn workers(&self) -> &Workers {
        self.workers.as_ref().expect("they run")
    }

    /// Where its relay is.
    pub(crate) fn relay(&self) -> SocketAddr {
        self.workers().addresses().relay.expect("it has one")
    }

    /// Where it takes HTTP.
    pub(crate) fn http(&self) -> SocketAddr {
        self.workers().addresses().http[0]
    }

    /// What is published under this name.
    pub(crate) fn published(&self, key: &str) -> Published {
        (self.published)(key)
    }

    /// Asks the relay for something that has no answer.
    pub(crate) fn tell(&self, command: RelayCommand) {
        let worker = &self.workers().handles()[0];
        worker.send(Command::Relay(Box::new(command))).expect("room in its queue");
    }

    /// Asks the relay for something.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> RelayCommand) -> Result<T, RelayRefusal> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply));
        answer.blocking_recv().expect("a worker answers")
    }

    /// Its counts.
    pub(crate) fn stats(&self) -> RelayStats {
        self.ask(|reply| RelayCommand::Statistics { reply }).expect("it has a relay")
    }

    /// The counters of its relay as metrics have them.
    pub(crate) fn counters(&self) -> RelayCounters {
        let (reply, answer) = oneshot::channel();
        let command = Command::Snapshot { sessions: Listed::Nothing, reply };
        self.workers().handles()[0].send(command).expect("room in its queue");
        answer.blocking_recv().expect("a worker answers").counters.relay
    }

    /// Its next notice.
    pub(crate) fn notice(&mut self) -> RelayNotice {
        eventually("a notice", || self.notices.try_recv().ok())
    }

    /// The other node's stream, prepared to be served from here.
    pub(crate) fn offer(&self, key: &str) -> Result<Offered, RelayRefusal> {
        self.ask(|reply| RelayCommand::Offer { stream: key.to_owned(), reply })
    }

    /// Serves what was offered over a link.
    pub(crate) fn serve(
        &self,
        key: &str,
        link: LinkId,
        offered: &Offered,
        handle: u16,
        from: Option<Position>,
    ) -> Result<(), RelayRefusal> {
        let (stream, epoch) = (key.to_owned(), offered.epoch);
        self.ask(|reply| RelayCommand::Serve { link, stream, epoch, handle, from, reply })
    }

    /// Fetches what was offered over a link.
    pub(crate) fn fetch(&self, key: &str, link: LinkId, offered: &Offered) -> Result<Fetched, RelayRefusal> {
        let (stream, tracks, keys) = (key.to_owned(), offered.tracks.clone(), offered.keys.clone());
        self.ask(|reply| RelayCommand::Fetch { link, stream, tracks, keys, reply })
    }

    /// Fetches a stream of `parent` over a link, from its beginning to its first packet being on its way.
    pub(crate) fn fetch_from(&self, parent: &Node, key: &str, link: LinkId) -> Fetched {
        let offered = parent.offer(key).expect("it is published");
        let fetched = self.fetch(key, link, &offered).expect("nobody publishes it here");
        parent.serve(key, link, &offered, fetched.handle, None).expect("it was offered");
        fetched
    }

    /// Gets a stream that it fetches already from another node as well.
    pub(crate) fn attach_to(&self, parent: &Node, key: &str, link: LinkId) -> Attached {
        let offered = parent.offer(key).expect("it has it");
        let stream = key.to_owned();
        let attached = self.ask(|reply| RelayCommand::AddParent { link, stream, reply }).expect("it is here");
        parent.serve(key, link, &offered, attached.handle, Some(attached.position)).expect("it was offered");
        attached
    }

    /// Publishes on a worker of this node, as `POST /whip` does, and waits until it is connected.
    pub(crate) fn publish(&self, worker: usize, key: &str, options: &OfferOptions) -> UdpClient {
        self.publish_as(worker, key, |local| offer(Direction::Send, local, options))
    }

    /// The same with an offer of one's own.
    pub(crate) fn publish_as(
        &self,
        worker: usize,
        key: &str,
        offer: impl FnOnce(SocketAddr) -> OfferConfig,
    ) -> UdpClient {
        self.open((worker, Ipv4Addr::LOCALHOST.into()), RtcRole::Publish, key, offer)
    }

    /// Plays on a worker of this node, as `POST /whep` does, and waits until it is connected.
    pub(crate) fn play(&self, worker: usize, key: &str) -> UdpClient {
        self.play_as(worker, key, |local| offer(Direction::Receive, local, &OfferOptions::default()))
    }

    /// The same with an offer of one's own.
    pub(crate) fn play_as(
        &self,
        worker: usize,
        key: &str,
        offer: impl FnOnce(SocketAddr) -> OfferConfig,
    ) -> UdpClient {
        self.open((worker, Ipv4Addr::LOCALHOST.into()), RtcRole::Play, key, offer)
    }

    /// Plays on a worker, and says which session that is.
    pub(crate) fn play_session(&self, worker: usize, key: &str) -> (UdpClient, SessionId) {
        let at = (worker, Ipv4Addr::LOCALHOST.into());
        let make = |local| offer(Direction::Receive, local, &OfferOptions::default());
        self.open_session(at, RtcRole::Play, key, make)
    }

    /// Gives a player of a worker the encoding of this name.
    pub(crate) fn choose(&self, worker: usize, session: SessionId, name: &str) -> Result<(), LayerRefusal> {
        let layer = LayerChoice { name: Some(name.to_owned()), spatial: None, temporal: None };
        let request = LayerRequest { track: 1, layer: Some(layer) };
        let (reply, chosen) = oneshot::channel();
        let handle = &self.workers().handles()[worker];
        handle.send(Command::RtcLayer { session, request, reply }).expect("room in its queue");
        chosen.blocking_recv().expect("a worker answers")
    }

    /// Publishes or plays on a worker, from this address.
    pub(crate) fn open(
        &self,
        at: (usize, IpAddr),
        role: RtcRole,
        key: &str,
        make: impl FnOnce(SocketAddr) -> OfferConfig,
    ) -> UdpClient {
        self.open_session(at, role, key, make).0
    }

    fn open_session(
        &self,
        (worker, client): (usize, IpAddr),
        role: RtcRole,
        key: &str,
        make: impl FnOnce(SocketAddr) -> OfferConfig,
    ) -> (UdpClient, SessionId) {
        let socket = UdpSocket::bind((client, 0)).expect("a port");
        let address = socket.local_addr().expect("its address");
        let offer = make(address);
        let published = self.published(key);
        let viewed = match (role, &published) {
            (RtcRole::Publish, _) => None,
            (RtcRole::Play, Published::Packets(tracks)) => Some(&**tracks),
            (RtcRole::Play, other) => panic!("{key} is {other:?}"),
        };
        let candidates = &self.workers().rtc_endpoints()[worker].udp;
        let answered = rtc_test::answer(&offer, credentials(), candidates, viewed);
        let Answered { answer, remote, mut peer } = answered.expect("an answer");
        peer.dtls.handshake_timeout = FOREVER;
        peer.timeouts = Timeouts { ice: FOREVER, dtls: FOREVER, consent: FOREVER };
        let (app, stream) = key.rsplit_once('/').expect("app/name");
        let (app, stream) = (app.to_owned(), stream.to_owned());
        let (reply, opened) = oneshot::channel();
        let open = RtcOpen {
            role,
            app,
            stream,
            address,
            user_agent: None,
            peer,
            tracks: answer.tracks,
            published: answer.published,
            bits_per_second_max: None,
            height_max: None,
            until: None,
            admission: None,
            time_over: None,
            uses: None,
            trace: None,
            reply,
        };
        let handle = &self.workers().handles()[worker];
        handle.send(Command::RtcOpen(Box::new(open))).expect("room in its queue");
        let session = opened.blocking_recv().expect("a worker answers").expect("it takes it");
        let mut client = UdpClient::new(socket, offer, remote);
        until("connected", &mut [&mut client], |clients| clients[0].is_connected());
        (client, session)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let Some(workers) = self.workers.take() else { return };
        for worker in workers.handles() {
            // One that has ended has said so.
            let _ = worker.send(Command::Drain { deadline: Duration::ZERO });
        }
        workers.join();
    }
}

/// Links two nodes, which are reached at these addresses.
pub(crate) fn link_over(one: &Node, other: &Node, at: [SocketAddr; 2]) -> LinkId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let link = LinkId(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut secret = [0; 32];
    secret.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random().to_be_bytes()));
    let add = |node: &Node, role, address| {
        let secret = LinkSecret::new(secret);
        node.ask(|reply| RelayCommand::AddLink { link, secret, role, address, reply }).expect("room");
    };
    add(one, Role::Listener, at[1]);
    add(other, Role::Dialer, at[0]);
    link
}

/// Links two nodes.
pub(crate) fn link(one: &Node, other: &Node) -> LinkId {
    link_over(one, other, [one.relay(), other.relay()])
}
