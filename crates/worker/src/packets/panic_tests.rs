//! A defect in the server that one session meets, played by a panic: that session ends, and nothing else.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rtc::dtls::{Certificate, Config, DtlsRole};
use rtc::sdp::IceCredentials;
use rtc::{PeerConfig, Side, Timeouts};
use sfu::WallClock;
use tokio::sync::{mpsc, oneshot};

use crate::packets::session::Subscription;
use crate::packets::{Action, Packets};

use crate::bridges::{Bridges, Transcoding};
use crate::context::{Context, OfAddress, Slots};
use crate::event_loop::{ControlQueues, Datagrams, Worker};
use crate::ids::{PacketStreamId, TableId, WorkerIndex};
use crate::mailbox;
use crate::net::listen::Listeners;
use crate::net::shared_sockets::SharedSockets;
use crate::net::{Clock, EventQueue, udp_bind};
use crate::proto::internal::ReadyPublishers;
use crate::registry::{Published, StreamId};
use crate::rtsp::Rtsp;
use crate::srt::{Srt, SrtShared};
use crate::stats::columns::Outbox;
use worker_api::AddressSlots;
use worker_api::EndReason;
use worker_api::handoff::ReturnQueue;
use worker_api::live::{Current, Live};
use worker_api::rtc::{RtcNotice, RtcOpen, RtcRefusal, RtcRole};
use worker_api::settings::{AddressLimits, WorkerSettings};
use worker_api::snapshot::SessionId;

/// What a worker reports.
type Noted = mpsc::UnboundedReceiver<RtcNotice>;

/// A worker with one UDP port, and what it reports.
pub(crate) fn worker() -> (Worker, Noted) {
    let settings = WorkerSettings { workers: 1, ..WorkerSettings::default() };
    workers(settings, vec![Vec::new()]).remove(0)
}

/// A worker for each of `listeners`, with one UDP port unless the settings have others, and what they report.
pub(crate) fn workers(settings: WorkerSettings, listeners: Vec<Listeners>) -> Vec<(Worker, Noted)> {
    let mut settings = WorkerSettings { workers: listeners.len(), ..settings };
    if settings.rtc.udp.is_empty() {
        settings.rtc.udp = vec!["127.0.0.1:0".parse().expect("an address")];
    }
    let settings = Arc::new(settings);
    let current = Current { settings: Arc::clone(&settings), policy: Arc::default() };
    let live = Arc::new(Live::new(current));
    let (_, bound) =
        udp_bind::bind(&settings.rtc, settings.workers, &mut SharedSockets::default()).expect("a port");
    let queues: Vec<_> = listeners.iter().map(|_| EventQueue::new().expect("an event queue")).collect();
    let wakers: Vec<_> = queues.iter().map(|queue| queue.waker().expect("a waker")).collect();
    let mailboxes = mailbox::connect(&wakers, 1);
    let directory = Arc::default();
    let own = queues.into_iter().zip(wakers).zip(mailboxes).zip(listeners).zip(bound);
    own.enumerate()
        .map(|(index, ((((events, waker), mailboxes), listeners), sockets))| {
            let worker = WorkerIndex::at(index);
            let (notices, noted) = mpsc::unbounded_channel();
            let clock = WallClock { at: Clock::now(), ntp: rtp::rtcp::NtpTime(0) };
            let packets = Packets::new(worker, settings.workers, sockets, &settings.rtc, clock, notices)
                .expect("a worker's part");
            let ctx = Context::new(
                worker,
                Arc::clone(&live),
                Slots {
                    kept_connections: AddressSlots::new(1, 1),
                    rtsp_pending: AddressSlots::new(1, 1),
                    of_address: OfAddress::new(AddressLimits::default()),
                },
                Arc::clone(&directory),
                mailboxes,
                events,
            );
            let control = ControlQueues {
                handoffs: mpsc::channel(1).0,
                home: ReturnQueue::new(mpsc::channel(1).0, waker.clone()),
                returned: mpsc::channel(1).1,
                commands: sync_channel(1).1,
                outbox: Outbox::new(mpsc::channel(1).0, sync_channel(1).1),
                internal: ReadyPublishers::new(waker.clone()),
                segments: None,
                news: mpsc::channel(1).0,
                hooks: None,
            };
            let pool = transcode::Pool::new(
                transcode::PoolSettings { threads: 1, streams_max: 1 },
                worker_api::thread::spawn,
            );
            let bridges = Bridges::new(Transcoding::new(pool, || ()));
            let shared = Arc::new(SrtShared::new(Clock::now(), &settings.srt));
            let srt = Srt::new(Vec::new(), &settings.srt, shared).expect("no sockets");
            let rtsp = Rtsp::new(Vec::new(), &settings.rtsp).expect("no sockets");
            let datagrams = Datagrams { srt, rtsp };
            let worker = Worker::new(ctx, control, packets, bridges, None, datagrams, listeners);
            (worker.expect("a worker"), noted)
        })
        .collect()
}

fn open(worker: &mut Worker, role: RtcRole) -> Result<SessionId, RtcRefusal> {
    open_as(worker, role, "a")
}

/// Opens a session of this stream, which is not connected.
pub(crate) fn open_as(worker: &mut Worker, role: RtcRole, stream: &str) -> Result<SessionId, RtcRefusal> {
    static CERTIFICATE: LazyLock<Arc<Certificate>> =
        LazyLock::new(|| Arc::new(Certificate::generate().expect("a certificate")));
    let certificate = Arc::clone(&CERTIFICATE);
    let fingerprint = certificate.fingerprint();
    let ice = |ufrag: &str| IceCredentials::new(ufrag, "0123456789012345678901234567").expect("credentials");
    let peer = PeerConfig {
        side: Side::Lite,
        local_ice: ice(if role == RtcRole::Publish { "publisher" } else { "player" }),
        remote_ice: ice("remote"),
        local_addresses: Vec::new(),
        remote_candidates: Vec::new(),
        dtls: Config::new(certificate, vec![fingerprint]),
        dtls_role: DtlsRole::Server,
        timeouts: Timeouts::default(),
    };
    let (reply, mut answer) = oneshot::channel();
    worker.open_session(RtcOpen {
        role,
        app: "live".to_owned(),
        stream: stream.to_owned(),
        address: "192.0.2.1:9".parse().expect("an address"),
        user_agent: None,
        peer,
        tracks: Vec::new(),
        published: Vec::new(),
        bits_per_second_max: None,
        height_max: None,
        until: None,
        admission: None,
        time_over: None,
        uses: None,
        trace: None,
        reply,
    });
    answer.try_recv().expect("an answer")
}

#[test]
fn a_panic_ends_the_session_that_met_it_and_no_other() {
    let (mut worker, mut noted) = worker();
    let publisher = open(&mut worker, RtcRole::Publish).expect("a publisher");
    let player = open(&mut worker, RtcRole::Play).expect("a player");
    let index = worker.packets.find(publisher).expect("its index");
    worker.packets.guard(&mut worker.ctx, index, |_, _| panic!("a defect"));
    assert_eq!(worker.ctx.counters.panics, 1);
    assert_eq!((worker.packets.find(publisher), worker.packets.find(player).is_some()), (None, true));
    assert_eq!(noted.try_recv(), Ok(RtcNotice::Ended(publisher)));
    assert_eq!(worker.ctx.directory.published("live/a"), Published::Nobody, "the name is free again");
    open(&mut worker, RtcRole::Publish).expect("another publisher");
}

#[test]
fn a_subscription_whose_stream_is_gone_keeps_no_other_from_ending() {
    let (mut worker, _noted) = worker();
    let player = open(&mut worker, RtcRole::Play).expect("a player");
    let peer = worker.packets.find(player).expect("its index");
    let gone = Subscription {
        stream: PacketStreamId(77),
        viewer: None,
        tracks: Arc::from([]),
        published: Box::default(),
    };
    worker.packets.sessions[peer].subscriptions.push(gone);
    worker.packets.close(&mut worker.ctx, player, EndReason::Kicked);
    assert_eq!(worker.packets.streams.iter().count(), 0, "the stream that is there was left");
}

#[test]
fn actions_that_are_left_keep_the_loop_from_sleeping() {
    let (mut worker, _noted) = worker();
    assert!(worker.packets.timeout(worker.ctx.now) > Duration::ZERO);
    worker.packets.actions.queue.push_back(Action::StreamFailed(StreamId(1)));
    assert_eq!(worker.packets.timeout(worker.ctx.now), Duration::ZERO);
}

#[test]
fn a_panic_of_a_stream_ends_its_sessions_and_frees_its_name() {
    let (mut worker, _noted) = worker();
    let publisher = open(&mut worker, RtcRole::Publish).expect("a publisher");
    let player = open(&mut worker, RtcRole::Play).expect("a player");
    let stream =
        worker.packets.sessions[worker.packets.find(player).expect("its index")].subscriptions[0].stream;
    worker.packets.stream_panicked(&mut worker.ctx, stream);
    assert_eq!((worker.packets.find(publisher), worker.packets.find(player)), (None, None));
    assert!(worker.packets.streams.iter().next().is_none());
    open(&mut worker, RtcRole::Publish).expect("another publisher");
}
