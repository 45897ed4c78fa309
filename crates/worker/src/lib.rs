//! Isolated workers: one event loop per thread, each with its own sockets, sessions and streams.
//!
//! A worker owns a connection from its first byte to its end. On the media path workers share
//! nothing but references to frames that cross a bounded ring once per worker (`mailbox.rs`); which
//! worker is home to which stream is looked up in `registry.rs` when a publisher or a first player
//! comes, never per frame. The loop itself is in `event_loop.rs`.

mod bridges;
mod caches;
mod commands;
mod context;
mod event_loop;
mod frames;
mod fullness;
mod hand_over;
mod hooks;
mod ids;
mod mailbox;
mod mirror;
mod net;
mod overload;
mod packet_relay;
mod packets;
mod placement;
mod proto;
mod publication;
mod publish;
mod registry;
mod requests;
mod resume;
mod resume_connection;
mod rtsp;
mod segments;
#[cfg(feature = "simulated")]
pub mod simulated;
mod srt;
mod stats;
mod timeouts;
mod timers;
mod traces;

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use ::rtp::rtcp::NtpTime;
use ::sfu::WallClock;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::ids::{TableId, WorkerIndex};
use worker_api::AddressSlots;
use worker_api::ListenAddresses;

use worker_api::command::{COMMANDS_MAX, WorkerHandle};
use worker_api::handoff::{Handoff, RETURNS_MAX, ReturnQueue};
use worker_api::rtc::{Notices, RtcEndpoint};

use bridges::{Bridges, Transcoding};
use context::{Context, OfAddress, Slots};
use event_loop::{ControlQueues, Datagrams, Worker};
use fullness::Gauges;
use hooks::HookQuestions;
use net::shared_sockets::SharedSockets;
use net::{Clock, EventQueue};
use packet_relay::PacketRelay;
use proto::internal::ReadyPublishers;
use registry::{Directory, Published};
use segments::SegmentQueues;
use stats::columns::Outbox;
use transcode::{Pool, PoolSettings};
use worker_api::cluster::Elsewhere;
use worker_api::columns::{SNAPSHOTS_MAX, StatsSnapshot};
use worker_api::live::{Current, Live};
use worker_api::overload::{MemoryGauge, Overload};
use worker_api::publications::{PUBLISHED_MAX, StreamNews};
use worker_api::segments::{SegmentsEnd, UPDATES_MAX, UpdateSender, WANTED_MAX};
use worker_api::snapshot::Role;
use worker_api::sockets::BoundSocket;

/// Exit code after a worker has panicked; the panic message is on standard error.
const EXIT_PANIC: i32 = 101;

/// All worker threads.
#[derive(Debug)]
pub struct Workers {
    addresses: ListenAddresses,
    rtc_endpoints: Vec<RtcEndpoint>,
    directory: Arc<Directory>,
    gauges: Gauges,
    live: Arc<Live<Current>>,
    handles: Vec<WorkerHandle>,
    used_stats: Vec<SyncSender<Box<StatsSnapshot>>>,
    segments: Option<SegmentsEnd>,
    news: Option<Receiver<StreamNews>>,
    /// Copies of the sockets of clients.
    sockets: Vec<BoundSocket>,
    threads: Vec<JoinHandle<()>>,
}

/// Workers with all their sockets that do not run yet.
#[derive(Debug)]
pub struct StartingWorkers {
    workers: Workers,
    loops: Vec<Worker>,
}

impl StartingWorkers {
    /// Leaves datagrams to wait, and sends nothing to WebRTC sessions: those of another process come first.
    #[must_use]
    pub fn before_sessions(
        mut self,
        sessions: impl Iterator<Item = worker_api::snapshot::SessionId>,
    ) -> Self {
        let mut highest = vec![0; self.loops.len()];
        for session in sessions {
            if let Some(serial) = highest.get_mut(session.worker()) {
                *serial = session.serial().max(*serial);
            }
        }
        for (worker, highest) in self.loops.iter_mut().zip(highest) {
            worker.await_sessions(highest);
        }
        self
    }

    /// Starts the threads; connections are accepted when this returns.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn serve(self) -> io::Result<Workers> {
        let Self { mut workers, loops } = self;
        for (index, worker) in loops.into_iter().enumerate() {
            let name = format!("worker-{index}");
            let body = move || {
                // Half a server is worse than none: other workers would go on telling this one about streams,
                // and readiness would stay false. A supervisor starts the whole again.
                if std::panic::catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {
                    std::process::exit(EXIT_PANIC);
                }
            };
            workers.threads.push(worker_api::thread::spawn(name, body)?);
        }
        Ok(workers)
    }
}

impl Workers {
    /// Binds all addresses and starts the threads: [`Workers::prepare`] and [`StartingWorkers::serve`].
    ///
    /// # Errors
    /// An address cannot be bound (the error names it), or the system gives no event queue or thread.
    pub fn start(
        live: Arc<Live<Current>>,
        kept_connections: &AddressSlots,
        handoffs: Sender<Handoff>,
        notices: Notices,
        stats: Sender<Box<StatsSnapshot>>,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> io::Result<Self> {
        Self::prepare(live, kept_connections, handoffs, notices, stats, elsewhere, Vec::new())?.serve()
    }

    /// Binds all addresses, but for those that another process hands over, and makes the workers. What is
    /// replaced in `live` later, workers take up at their next turn, as far as it can change. With the rest
    /// of the cluster, if this node is part of one.
    ///
    /// # Errors
    /// An address cannot be bound (the error names it), or the system gives no event queue.
    pub fn prepare(
        live: Arc<Live<Current>>,
        kept_connections: &AddressSlots,
        handoffs: Sender<Handoff>,
        notices: Notices,
        stats: Sender<Box<StatsSnapshot>>,
        elsewhere: Option<Arc<dyn Elsewhere>>,
        inherited: Vec<BoundSocket>,
    ) -> io::Result<StartingWorkers> {
        let settings = live.settings();
        let mut shared = SharedSockets::new(inherited);
        let (mut addresses, listeners) = net::listen::bind(&settings, &mut shared)?;
        let (rtc_endpoints, rtc_sockets) = net::udp_bind::bind(&settings.rtc, settings.workers, &mut shared)?;
        // Where all workers share a port, each names the same.
        let named = if settings.rtc.single_port { &rtc_endpoints[..1] } else { &rtc_endpoints[..] };
        addresses.rtc_udp = named.iter().flat_map(|endpoint| endpoint.udp.iter().copied()).collect();
        addresses.rtc_tcp = named.iter().flat_map(|endpoint| endpoint.tcp.iter().copied()).collect();
        let (srt_addresses, srt_sockets) =
            net::datagram_port::bind_shared(&settings.srt, settings.workers, &mut shared)?;
        addresses.srt = srt_addresses;
        let (rtsp_addresses, rtsp_sockets) =
            net::datagram_port::bind_pairs(&settings.rtsp, settings.workers, &mut shared)?;
        addresses.rtsp_udp = rtsp_addresses;
        let srt_shared = Arc::new(srt::SrtShared::new(Clock::now(), &settings.srt));
        let mut relay =
            settings.relay.as_ref().map(|relay| PacketRelay::open(relay, &settings)).transpose()?;
        addresses.relay = relay.as_ref().map(PacketRelay::address);
        // The time of day, as of now: the same for all workers, so that reports about one stream agree.
        let clock = WallClock { at: Clock::now(), ntp: NtpTime::from_unix(Clock::since_1970()) };
        let pool_settings = PoolSettings {
            threads: settings.transcoding.threads,
            streams_max: settings.transcoding.streams_max,
        };
        let pool = Pool::new(pool_settings, worker_api::thread::spawn);
        let slots = Slots {
            kept_connections: kept_connections.clone(),
            rtsp_pending: AddressSlots::new(usize::MAX, settings.rtsp.pending_per_address_max),
            of_address: OfAddress::new(settings.of_address),
        };
        let (news, news_of_workers) = mpsc::channel(PUBLISHED_MAX);
        let directory = Arc::new(Directory::new(elsewhere).with_news(news.downgrade()));
        let queues = (0..settings.workers).map(|_| EventQueue::new()).collect::<io::Result<Vec<_>>>()?;
        let wakers = queues.iter().map(EventQueue::waker).collect::<io::Result<Vec<_>>>()?;
        let mailboxes = mailbox::connect(&wakers, settings.ring_frames);
        let gauges = mailboxes.first().expect("there is a worker").gauges().clone();
        let mut workers = Self {
            addresses,
            rtc_endpoints,
            directory: Arc::clone(&directory),
            gauges,
            live: Arc::clone(&live),
            handles: Vec::new(),
            used_stats: Vec::new(),
            segments: None,
            news: Some(news_of_workers),
            sockets: shared.into_bound(),
            threads: Vec::new(),
        };
        let (wanted, wanted_of_thread) = mpsc::channel(WANTED_MAX);
        let mut segment_updates = Vec::new();
        let mut loops = Vec::with_capacity(settings.workers);
        let own = queues.into_iter().zip(listeners).zip(mailboxes).zip(rtc_sockets);
        let own = own.zip(srt_sockets.into_iter().zip(rtsp_sockets));
        for (index, ((((events, listeners), mailboxes), sockets), others)) in own.enumerate() {
            let (srt_sockets, rtsp_sockets) = others;
            let (commands, received) = sync_channel(COMMANDS_MAX);
            let (returns, returned) = mpsc::channel(RETURNS_MAX);
            let (give_back, used) = sync_channel(SNAPSHOTS_MAX);
            workers.handles.push(WorkerHandle::new(commands, wakers[index].clone()));
            workers.used_stats.push(give_back);
            let worker = WorkerIndex::at(index);
            let ctx = Context::new(
                worker,
                Arc::clone(&live),
                slots.clone(),
                Arc::clone(&directory),
                mailboxes,
                events,
            );
            let outbox = Outbox::new(stats.clone(), used);
            let home = ReturnQueue::new(returns, wakers[index].clone());
            let handoffs = handoffs.clone();
            let internal = ReadyPublishers::new(wakers[index].clone());
            let segments = settings.segments.is_some().then(|| {
                let (updates, received) = sync_channel(UPDATES_MAX);
                segment_updates.push(UpdateSender::new(updates, wakers[index].clone()));
                SegmentQueues { wanted: wanted.clone(), updates: received }
            });
            // Those of the start: a reload leaves them alone.
            let hooks = live.policy().hooks.clone();
            let control = ControlQueues {
                handoffs,
                home,
                returned,
                commands: received,
                outbox,
                internal,
                segments,
                news: news.clone(),
                hooks: hooks.map(|hooks| HookQuestions::new(hooks, wakers[index].clone())),
            };
            let packets = packets::Packets::new(
                worker,
                settings.workers,
                sockets,
                &settings.rtc,
                clock,
                notices.clone(),
            )?;
            let waker = wakers[index].clone();
            let bridges = Bridges::new(Transcoding::new(pool.clone(), move || waker.wake_by_ref()));
            let relay = relay.take().map(Box::new);
            let srt = srt::Srt::new(srt_sockets, &settings.srt, Arc::clone(&srt_shared))?;
            let rtsp = rtsp::Rtsp::new(rtsp_sockets, &settings.rtsp)?;
            let datagrams = Datagrams { srt, rtsp };
            loops.push(Worker::new(ctx, control, packets, bridges, relay, datagrams, listeners)?);
        }
        let updates = segment_updates;
        let end = SegmentsEnd { wanted: wanted_of_thread, sender: wanted, updates };
        workers.segments = settings.segments.as_ref().map(|_| end);
        Ok(StartingWorkers { workers, loops })
    }

    /// The sockets of clients, for another process.
    pub fn sockets(&self) -> &[BoundSocket] {
        &self.sockets
    }

    /// Drops the copies of the sockets: nobody may connect any more when the workers close theirs.
    pub fn forget_sockets(&mut self) {
        self.sockets.clear();
    }

    /// Addresses in use.
    pub fn addresses(&self) -> &ListenAddresses {
        &self.addresses
    }

    /// Where each worker takes WebRTC.
    pub fn rtc_endpoints(&self) -> &[RtcEndpoint] {
        &self.rtc_endpoints
    }

    /// Looks up what is published as `app/stream`, here or on another node, from any thread.
    pub fn published(&self) -> impl Fn(&str) -> Published + Send + Sync + 'static {
        let directory = Arc::clone(&self.directory);
        move |key| directory.published(key)
    }

    /// Looks up on which worker `app/stream` is published, or arrives from another node, from any thread.
    pub fn home(&self) -> impl Fn(&str) -> Option<usize> + Send + Sync + 'static {
        let directory = Arc::clone(&self.directory);
        move |key| directory.home(key).map(|(_, home)| home.worker.index())
    }

    /// Looks up where a viewer of `app/stream` is to go instead, with whether this node can take it, from any
    /// thread.
    pub fn redirect(&self) -> impl Fn(&str, bool) -> Option<String> + Send + Sync + 'static {
        let directory = Arc::clone(&self.directory);
        move |key, is_full| directory.redirect(key, is_full)
    }

    /// Says why a worker takes nobody more in this role, if it does not, from any thread.
    pub fn overload(&self) -> impl Fn(usize, Role) -> Option<Overload> + Send + Sync + 'static {
        let (gauges, live) = (self.gauges.clone(), Arc::clone(&self.live));
        move |worker, role| gauges.overload(&live.settings().overload, role, worker)
    }

    /// Where the memory that the process has is to be noted from time to time.
    pub fn memory(&self) -> Arc<MemoryGauge> {
        Arc::clone(self.gauges.memory())
    }

    /// Lists the streams (`app/stream`) with players here that no client or source of this node publishes:
    /// those reported as wanted. From any thread, but not with a lock that [`Elsewhere`] takes for reports.
    pub fn wanted(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
        let directory = Arc::clone(&self.directory);
        move || directory.wanted()
    }

    /// Where statistics go back that have been read, so that their buffers are used again; one per worker, in
    /// order.
    pub fn used_stats(&self) -> Vec<SyncSender<Box<StatsSnapshot>>> {
        self.used_stats.clone()
    }

    /// The other end of what workers say of streams as segments, once; `None` where that is off.
    pub fn take_segments(&mut self) -> Option<SegmentsEnd> {
        self.segments.take()
    }

    /// Streams that begin and cease to be published, once. Who does not want to know drops it.
    pub fn take_news(&mut self) -> Option<Receiver<StreamNews>> {
        self.news.take()
    }

    /// One handle per worker, in order.
    pub fn handles(&self) -> &[WorkerHandle] {
        &self.handles
    }

    /// Waits until all workers have ended, as they do after
    /// [`Command::Drain`](worker_api::command::Command::Drain).
    pub fn join(self) {
        for thread in self.threads {
            // A worker that panicked has said so; the others still end in order.
            let _ = thread.join();
        }
    }
}
