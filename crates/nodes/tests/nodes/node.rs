//! A node with a worker that is made for tests: it keeps what it gets, and gives what it is told to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cluster::NodeName;
use control::cluster::{ClusterSnapshot, LinkState, ListedStreams};
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use node_link::Secret;
use nodes::{ClusterMembership, Redirect, Settings};
use relay::{InLinkStats, OpenKey, OutLinkStats, Position, SealKey};
use tokio::sync::mpsc;
use worker_api::cluster::{Elsewhere, Publication};
use worker_api::command::{Command, WorkerUnavailable};
use worker_api::internal::{FrameReceiver, InternalPublish, Next};
use worker_api::relay::{
    Attached, Fetched, LinkId, Offered, RelayCommand, RelayLinkStats, RelayNotice, RelayNotices,
    RelayRefusal, RelayStats,
};
use worker_api::snapshot::{Protocol, SessionId, WorkerSnapshot};
use worker_api::streams::{Epoch, Published, WebrtcAvailability};
use worker_api::tap::{FrameSender, InternalTap, TapRefusal};
use worker_api::{EndReason, WorkerHandles};

use crate::server::{Server, in_time, until};

pub(crate) const STREAM: &str = "live/a";

/// A node, and its only worker.
pub(crate) struct Node {
    pub(crate) nodes: Option<ClusterMembership>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) name: String,
}

/// What differs from node to node.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) secret: &'static [u8],
    pub(crate) fan_out_max: usize,
    pub(crate) linger: Duration,
    pub(crate) region: &'static str,
    pub(crate) redirect: Redirect,
    /// Where the others are told to connect, if not where it listens.
    pub(crate) announced: Option<SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            secret: b"the secret of the cluster",
            fan_out_max: 8,
            linger: Duration::from_millis(200),
            region: "fra",
            redirect: Redirect::Never,
            announced: None,
        }
    }
}

/// Where the relay of a node is, so that links can be told apart.
fn relay_socket(node: &str) -> SocketAddr {
    ([127, 0, 0, 1], 1_000 + u16::from(node.as_bytes()[0])).into()
}

pub(crate) struct Worker {
    inner: Mutex<Inner>,
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
    /// Streams whose queue has something.
    wakes: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct Inner {
    streams: HashMap<String, Stream>,
    last: u64,
    /// Publications that were ended by command.
    ended: Vec<(String, EndReason)>,
    relayed: Vec<String>,
    notices: Option<RelayNotices>,
    /// Of the one stream of packets.
    keys: Vec<OpenKey>,
    /// Commands to the relay that are not answered yet, and what answers those that were not.
    waits_with: Vec<&'static str>,
    answers: Vec<Box<dyn FnOnce() + Send>>,
    /// Commands to the relay for which there is no room, each once.
    no_room_for: Vec<&'static str>,
    /// Links of the relay, and where they lead.
    links: Vec<(LinkId, SocketAddr)>,
    /// From here no datagram comes, and when the last ones of the others did.
    unheard: Vec<SocketAddr>,
    heard_at: Option<std::time::Instant>,
}

#[derive(Default)]
struct Stream {
    /// What is published, by whoever.
    epoch: Option<Epoch>,
    /// It is a publisher of this node.
    is_own: bool,
    fetched: Option<FrameReceiver>,
    /// Since the last key frame.
    group: Vec<Arc<Frame>>,
    taps: Vec<FrameSender>,
    /// All frames of fetched publications.
    received: Vec<Frame>,
    /// Fetched publications that began.
    publications: usize,
    is_wanted: bool,
}

impl Node {
    pub(crate) async fn start(server: &Server, name: &str, options: Options) -> Self {
        Self::try_start(server.port, name, options).await.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) async fn try_start(nats_port: u16, name: &str, options: Options) -> Result<Self, String> {
        let url = format!("nats://127.0.0.1:{nats_port}");
        let mut directory = cluster::Settings::new(vec![url], NodeName::new(name).unwrap());
        options.region.clone_into(&mut directory.region);
        if let Some(announced) = options.announced {
            directory.addresses.relay_tcp = announced.to_string();
        }
        directory.addresses.http = format!("https://{name}.example.com");
        directory.addresses.relay_udp = "127.0.0.1:0".to_owned();
        let settings = Settings {
            directory,
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            secret: Secret::new(options.secret).unwrap(),
            exposed_secret_file: None,
            fan_out_max: options.fan_out_max,
            linger: options.linger,
            redirect: options.redirect,
            frame_bytes_max: 1 << 20,
        };
        let nodes = ClusterMembership::start(settings).await?;
        let worker = Worker::start(nodes.elsewhere());
        // Nothing is sent by it here.
        nodes.serve(worker.handles(), Some(relay_socket(name))).await;
        Ok(Self { nodes: Some(nodes), worker, name: name.to_owned() })
    }

    pub(crate) fn nodes(&self) -> &ClusterMembership {
        self.nodes.as_ref().expect("it runs")
    }

    /// The cluster as it sees it.
    pub(crate) async fn status(&self) -> ClusterSnapshot {
        let listed = ListedStreams { limit: usize::MAX, ..ListedStreams::default() };
        in_time("its thread has begun", async {
            loop {
                if let Some(snapshot) = self.nodes().view().snapshot(listed.clone()).await {
                    return snapshot;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }

    /// Links that are up.
    pub(crate) async fn links_up(&self) -> usize {
        self.status().await.links.iter().filter(|link| link.state == LinkState::Up).count()
    }

    /// Waits until it is linked to so many others.
    pub(crate) async fn linked(&self, count: usize) {
        let begun = tokio::time::Instant::now();
        while self.links_up().await != count {
            assert!(begun.elapsed() < crate::server::DEADLINE, "{}: not linked to {count}", self.name);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until it knows a stream of another node.
    pub(crate) async fn knows(&self, stream: &str) {
        let elsewhere = self.worker.elsewhere.get().unwrap();
        until("the stream is known", || elsewhere.published(stream).is_some()).await;
    }

    pub(crate) fn published(&self, stream: &str) -> Option<Published> {
        self.worker.elsewhere.get().unwrap().published(stream)
    }

    /// Where a player is to go.
    pub(crate) fn redirect(&self, stream: &str, is_full: bool) -> Option<String> {
        self.worker.elsewhere.get().unwrap().redirect(stream, is_full)
    }

    /// Ends it without a word to the others.
    pub(crate) fn kill(&mut self) {
        self.nodes = None;
    }

    pub(crate) async fn leave(&mut self) {
        self.nodes.take().expect("it runs").leave().await;
    }
}

impl Worker {
    fn start(elsewhere: Arc<dyn Elsewhere>) -> Arc<Self> {
        let (wakes, mut woken) = mpsc::unbounded_channel::<String>();
        let worker = Self { inner: Mutex::default(), elsewhere: OnceLock::new(), wakes };
        let worker = Arc::new(worker);
        worker.elsewhere.set(elsewhere).unwrap();
        let weak = Arc::downgrade(&worker);
        tokio::spawn(async move {
            while let Some(stream) = woken.recv().await {
                let Some(worker) = weak.upgrade() else { return };
                worker.take_frames(&stream);
            }
        });
        worker
    }

    fn handles(self: &Arc<Self>) -> WorkerHandles {
        let worker = Arc::clone(self);
        WorkerHandles::over(1, Box::new(move |_, command| worker.command(command)))
    }

    fn command(self: &Arc<Self>, command: Command) -> Result<(), WorkerUnavailable> {
        match command {
            Command::Snapshot { reply, .. } => _ = reply.send(WorkerSnapshot::default()),
            Command::Publish(publish) => self.publish_fetched(*publish),
            Command::Tap(tap) => self.tap(*tap),
            Command::EndPublication { key, epoch, reason, reply } => {
                let mut inner = self.lock();
                let is_it = inner.streams.get(&key).is_some_and(|stream| stream.epoch == Some(epoch));
                if is_it {
                    inner.ended.push((key.clone(), reason));
                }
                drop(inner);
                if is_it {
                    self.end(&key);
                }
                let _ = reply.send(is_it);
            }
            Command::Relay(command) => {
                let mut inner = self.lock();
                let lacks_room = |what: &&str| format!("{command:?}").starts_with(what);
                if let Some(at) = inner.no_room_for.iter().position(lacks_room) {
                    inner.no_room_for.remove(at);
                    return Err(WorkerUnavailable);
                }
                drop(inner);
                self.relay(*command);
            }
            other => panic!("{other:?} was not to be asked"),
        }
        Ok(())
    }

    /// Does what the relay of packets does, as far as others see it.
    fn relay(&self, command: RelayCommand) {
        // That is asked for by who looks at the node, at any time: it is no part of what a stream needs.
        if let RelayCommand::Statistics { reply } = command {
            let _ = reply.send(Ok(self.lock().relay_stats()));
            return;
        }
        let mut inner = self.lock();
        match command {
            RelayCommand::AddLink { link, address, .. } => inner.links.push((link, address)),
            RelayCommand::RemoveLink { link } => inner.links.retain(|(known, _)| *known != link),
            _ => {}
        }
        // Without the names of links, which differ from run to run.
        let called = match &command {
            RelayCommand::Serve { handle, from, .. } => {
                format!("Serve {handle} from {:?}", from.map(|from| from.index))
            }
            RelayCommand::UseNewKey { epoch, .. } => format!("UseNewKey {epoch}"),
            RelayCommand::AddKey { key, .. } => format!("AddKey {}", key.epoch()),
            RelayCommand::Fetch { keys, .. } => {
                format!("Fetch {:?}", keys.iter().map(OpenKey::epoch).collect::<Vec<_>>())
            }
            other => format!("{other:?}").split(' ').next().unwrap().to_owned(),
        };
        inner.relayed.push(called);
        inner.last += 1;
        let number = inner.last;
        match command {
            RelayCommand::Notify { notices } => inner.notices = Some(notices),
            RelayCommand::AddLink { reply, .. } if inner.waits_with.contains(&"AddLink") => {
                inner.answers.push(Box::new(|| _ = reply.send(Ok(()))));
            }
            RelayCommand::AddLink { reply, .. }
            | RelayCommand::Serve { reply, .. }
            | RelayCommand::UseNewKey { reply, .. } => {
                let _ = reply.send(Ok(()));
            }
            RelayCommand::AddKey { key, reply, .. } => {
                inner.keys.push(key);
                let _ = reply.send(Ok(()));
            }
            RelayCommand::Offer { stream, reply } => {
                let keys = inner.keys.clone();
                let epoch = inner.streams.get(&stream).and_then(|stream| stream.epoch);
                let offered = epoch.map(|epoch| Offered { epoch, tracks: [].into(), keys });
                let _ = reply.send(offered.ok_or(RelayRefusal::NoStream));
            }
            RelayCommand::Fetch { stream, keys, reply, .. } => {
                inner.keys = keys;
                let stream = inner.streams.entry(stream).or_default();
                stream.epoch = Some(Epoch(number));
                stream.publications += 1;
                let fetched = Fetched { epoch: Epoch(number), handle: 7 };
                if inner.waits_with.contains(&"Fetch") {
                    inner.answers.push(Box::new(move || _ = reply.send(Ok(fetched))));
                } else {
                    let _ = reply.send(Ok(fetched));
                }
            }
            RelayCommand::AddParent { reply, .. } => {
                let position = Position { epoch: 0, index: 42 };
                let _ = reply.send(Ok(Attached { handle: 8, position }));
            }
            RelayCommand::NewKey { reply, .. } => {
                let epoch = inner.keys.last().map_or(0, |key| key.epoch() + 1);
                let key = SealKey::random(epoch).open_key();
                inner.keys.push(key.clone());
                let _ = reply.send(Ok(key));
            }
            RelayCommand::EndFetch { stream, epoch } => {
                inner.streams.entry(stream).or_default().epoch.take_if(|known| *known == epoch);
            }
            RelayCommand::RemoveLink { .. }
            | RelayCommand::StopServing { .. }
            | RelayCommand::RemoveParent { .. } => {}
            RelayCommand::Statistics { .. } => unreachable!("it was answered above"),
        }
    }

    /// Whether datagrams of another node come.
    pub(crate) fn set_hears(&self, node: &str, hears: bool) {
        let mut inner = self.lock();
        inner.unheard.retain(|known| *known != relay_socket(node));
        inner.unheard.extend((!hears).then(|| relay_socket(node)));
    }

    /// What the relay was asked for, in order.
    pub(crate) fn relayed(&self) -> Vec<String> {
        self.lock().relayed.clone()
    }

    /// Keys of the one stream of packets that came here.
    pub(crate) fn keys(&self) -> Vec<OpenKey> {
        self.lock().keys.clone()
    }

    /// It answers these commands to the relay later.
    pub(crate) fn waits_with(&self, commands: &[&'static str]) {
        self.lock().waits_with = commands.to_vec();
    }

    /// It gives the answers that it has waited with.
    pub(crate) fn answer(&self) {
        let answers = std::mem::take(&mut self.lock().answers);
        answers.into_iter().for_each(|answer| answer());
    }

    /// There is no room in its queue for the next of each of these commands to the relay.
    pub(crate) fn has_no_room_for(&self, commands: &[&'static str]) {
        self.lock().no_room_for = commands.to_vec();
    }

    /// The relay says something of a stream.
    pub(crate) fn notice(&self, notice: RelayNotice) {
        self.lock().notices.as_ref().expect("somebody asked for notices").send(notice).unwrap();
    }

    /// A publisher of packets begins here.
    pub(crate) fn publish_packets(&self, key: &str) {
        let mut inner = self.lock();
        inner.last += 1;
        let epoch = Epoch(inner.last);
        inner.keys = vec![SealKey::random(0).open_key()];
        let stream = inner.streams.entry(key.to_owned()).or_default();
        (stream.epoch, stream.is_own) = (Some(epoch), true);
        drop(inner);
        let published = &Published::Packets([].into());
        let publication = Publication { key, epoch, worker: 0, published, takes_over: false };
        self.elsewhere.get().unwrap().started(&publication);
    }

    /// Number of what is published here under a name.
    pub(crate) fn epoch(&self, key: &str) -> Option<Epoch> {
        self.lock().streams.get(key)?.epoch
    }

    fn publish_fetched(self: &Arc<Self>, publish: InternalPublish) {
        let InternalPublish { request, frames, reply } = publish;
        assert_eq!(request.protocol, Protocol::Node);
        let key = format!("{}/{}", request.app, request.name);
        let (wakes, woken) = (self.wakes.clone(), key.clone());
        frames.on_ready(move || _ = wakes.send(woken.clone()));
        let mut inner = self.lock();
        inner.last += 1;
        let epoch = Epoch(inner.last);
        let stream = inner.streams.entry(key.clone()).or_default();
        assert!(!stream.is_own, "a fetched stream gives way to a publisher of this node");
        stream.begin(epoch);
        stream.fetched = Some(frames);
        stream.publications += 1;
        drop(inner);
        let _ = reply.send(Ok(SessionId::new(0, 1)));
        let _ = self.wakes.send(key);
    }

    fn tap(&self, tap: InternalTap) {
        let InternalTap { request, mut frames, reply } = tap;
        let mut inner = self.lock();
        let stream = inner.streams.get_mut(&format!("{}/{}", request.app, request.name));
        let Some(stream) = stream.filter(|stream| stream.epoch.is_some()) else {
            let _ = reply.send(Err(TapRefusal::NotFound));
            return;
        };
        let _ = frames.start(stream.epoch.unwrap(), stream.group.clone());
        frames.flush();
        stream.taps.push(frames);
        let _ = reply.send(Ok(SessionId::new(0, 2)));
    }

    /// A publisher begins here.
    pub(crate) fn publish(&self, key: &str, takes_over: bool) {
        let mut inner = self.lock();
        inner.last += 1;
        let epoch = Epoch(inner.last);
        let stream = inner.streams.entry(key.to_owned()).or_default();
        stream.begin(epoch);
        stream.is_own = true;
        let published = Published::Frames(WebrtcAvailability::Unknown);
        let published = &published;
        drop(inner);
        let publication = Publication { key, epoch, worker: 0, published, takes_over };
        self.elsewhere.get().unwrap().started(&publication);
    }

    /// The publisher here sends a frame.
    pub(crate) fn send(&self, key: &str, frame: Frame) {
        let mut inner = self.lock();
        let stream = inner.streams.get_mut(key).expect("a publisher");
        stream.pass_on(Arc::new(frame));
    }

    /// The publisher here ends.
    pub(crate) fn end(&self, key: &str) {
        let mut inner = self.lock();
        let stream = inner.streams.get_mut(key).expect("a publisher");
        let epoch = stream.epoch.take().expect("a publisher");
        assert!(std::mem::take(&mut stream.is_own));
        stream.stop();
        drop(inner);
        self.elsewhere.get().unwrap().ended(key, epoch);
    }

    /// A first player comes, or the last one leaves.
    pub(crate) fn want(&self, key: &str, is_wanted: bool) {
        self.lock().streams.entry(key.to_owned()).or_default().is_wanted = is_wanted;
        let elsewhere = self.elsewhere.get().unwrap();
        if is_wanted { elsewhere.wanted(key) } else { elsewhere.unwanted(key) }
    }

    /// A fetched stream is ended here, as by an operator.
    pub(crate) fn kick(&self, key: &str) {
        let mut inner = self.lock();
        let stream = inner.streams.get_mut(key).expect("a stream");
        stream.fetched.take().expect("it is fetched").end(EndReason::Kicked);
        stream.epoch = None;
        stream.stop();
    }

    fn take_frames(&self, key: &str) {
        let mut inner = self.lock();
        let Some(stream) = inner.streams.get_mut(key) else { return };
        while let Some(fetched) = &mut stream.fetched {
            match fetched.receive() {
                Next::Frame(frame) => {
                    stream.received.push((*frame).clone());
                    stream.pass_on(frame);
                }
                Next::Empty => break,
                Next::Over => {
                    fetched.end(EndReason::ClosedByPeer);
                    stream.fetched = None;
                    stream.epoch = None;
                    stream.stop();
                }
            }
        }
    }

    /// Frames of what was fetched, all publications in order.
    pub(crate) fn received(&self, key: &str) -> Vec<Frame> {
        self.lock().streams.get(key).map(|stream| stream.received.clone()).unwrap_or_default()
    }

    /// Whether it is fetched now.
    pub(crate) fn is_fetched(&self, key: &str) -> bool {
        self.lock().streams.get(key).is_some_and(|stream| stream.fetched.is_some())
    }

    /// How often a fetched publication began.
    pub(crate) fn publications(&self, key: &str) -> usize {
        self.lock().streams.get(key).map_or(0, |stream| stream.publications)
    }

    /// Taps of a stream that are open.
    pub(crate) fn taps(&self, key: &str) -> usize {
        let mut inner = self.lock();
        let Some(stream) = inner.streams.get_mut(key) else { return 0 };
        stream.taps.retain(|tap| !tap.is_abandoned());
        stream.taps.len()
    }

    /// Publications of this node that were ended by command, and why.
    pub(crate) fn ended(&self) -> Vec<(String, EndReason)> {
        self.lock().ended.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn relay_stats(&mut self) -> RelayStats {
        let now = tokio::time::Instant::now().into_std();
        self.heard_at.get_or_insert(now);
        let links = self.links.iter().map(|&(link, address)| {
            let heard_at = if self.unheard.contains(&address) { self.heard_at } else { Some(now) };
            let received = InLinkStats { heard_at, ..InLinkStats::default() };
            RelayLinkStats { link, sent: OutLinkStats::default(), received }
        });
        RelayStats { links: links.collect(), ..RelayStats::default() }
    }
}

impl Stream {
    fn begin(&mut self, epoch: Epoch) {
        if let Some(mut replaced) = self.fetched.take() {
            replaced.end(EndReason::TakenOver);
        }
        self.epoch = Some(epoch);
        self.group.clear();
        self.taps.iter_mut().for_each(|tap| _ = tap.start(epoch, Vec::new()));
        self.taps.iter().for_each(FrameSender::flush);
    }

    fn stop(&mut self) {
        self.group.clear();
        self.taps.iter_mut().for_each(FrameSender::stop);
        self.taps.drain(..).for_each(|tap| tap.end(EndReason::StreamGone));
    }

    fn pass_on(&mut self, frame: Arc<Frame>) {
        if frame.is_key() {
            self.group.clear();
        }
        self.group.push(Arc::clone(&frame));
        self.taps.retain(|tap| !tap.is_abandoned());
        for tap in &mut self.taps {
            tap.send(&frame, frame.is_key(), Vec::new);
            tap.flush();
        }
    }
}

/// The frame of a number, 40 ms after the one before; every tenth is a key frame.
pub(crate) fn frame(number: i64) -> Frame {
    let role = if number % 10 == 0 { FrameRole::Key } else { FrameRole::Inter };
    let time = Timestamp::from_millis(number * 40);
    let data = (0..1_000 + number % 7 * 300).map(|at| (at * 7 + number) as u8).collect();
    Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), data)
}

/// Numbers of frames that are as they were sent.
pub(crate) fn numbers(frames: &[Frame]) -> Vec<i64> {
    let number = |received: &Frame| {
        let number = received.dts.millis() / 40;
        assert_eq!(*received, frame(number), "not as it was sent");
        number
    };
    frames.iter().map(number).collect()
}

/// Waits until what was fetched ends with this frame.
pub(crate) async fn received_up_to(node: &Node, stream: &str, number: i64) {
    let last = || numbers(&node.worker.received(stream)).last().copied();
    until(&format!("{} gets frame {number}", node.name), || last() == Some(number)).await;
}
