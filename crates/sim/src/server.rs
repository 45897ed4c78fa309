//! A server of the simulation: its workers, and a stand-in for the control side.
//!
//! The seam is at the queues of `worker_api`: what control does over them (answer HTTP connections and give
//! them back, read statistics, take notices) is done here in a few lines, and what it asks for with commands
//! is asked for by the actors. Why it is not control itself: docs/decisions.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use netsim::kernel::{self, TcpSocket};
use sim_worker::Workers;
use sim_worker::simulated::SimulatedWorker;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver};
use worker_api::AddressSlots;
use worker_api::auth::{Access, Policy, Rules, Tokens};
use worker_api::cluster::Elsewhere;
use worker_api::columns::StatsSnapshot;
use worker_api::handoff::{HANDOFFS_MAX, Handoff};
use worker_api::live::{Current, Live};
use worker_api::rtc::RtcNotice;
use worker_api::settings::WorkerSettings;
use worker_api::snapshot::SessionId;

use crate::ledger::{Ledger, ServerView};

/// A server.
pub struct Server {
    index: usize,
    /// Its address.
    pub ip: IpAddr,
    /// Its workers.
    pub workers: Vec<SimulatedWorker>,
    _server: Workers,
    /// Places of connections that stay open.
    pub kept: AddressSlots,
    handoffs: Receiver<Handoff>,
    /// Requests that are being answered, and when the answer is ready.
    answering: VecDeque<(Instant, Handoff)>,
    notices: UnboundedReceiver<RtcNotice>,
    stats: Receiver<Box<StatsSnapshot>>,
    used_stats: Vec<SyncSender<Box<StatsSnapshot>>>,
    connected_sessions: BTreeSet<SessionId>,
    /// WebRTC sessions that have ended.
    pub ended_sessions: BTreeSet<SessionId>,
    /// Sockets that it has without any client.
    pub own_descriptors: usize,
}

impl Server {
    /// Starts one at `ip` and enters it into the ledger; as a node of a cluster if there is one elsewhere.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(
        ledger: &mut Ledger,
        ip: IpAddr,
        mut settings: WorkerSettings,
        token: Option<String>,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> Self {
        kernel::set_local_addresses(vec![ip]);
        settings.rtmp = vec![SocketAddr::new(ip, 1935)];
        settings.http = vec![SocketAddr::new(ip, 8080)];
        settings.rtc.udp.iter_mut().for_each(|address| address.set_ip(ip));
        let access = || match &token {
            Some(token) => Access { tokens: Tokens::new([token.clone()]), ..Access::default() },
            None => Access::anyone(),
        };
        let rules = || Rules { rules: Vec::new(), fallback: access() };
        let policy = Policy { publish: rules(), play: rules(), ..Policy::default() };
        let keep = settings.keep_alive;
        let kept = AddressSlots::new(keep.connections_max, keep.per_address_max);
        let (give_handoff, handoffs) = mpsc::channel(HANDOFFS_MAX);
        let (give_notice, notices) = mpsc::unbounded_channel();
        let (give_stats, stats) = mpsc::channel(2);
        let view_of = settings.clone();
        let started = Workers::simulated(
            Arc::new(Live::new(Current { settings: Arc::new(settings), policy: Arc::new(policy) })),
            &kept,
            give_handoff,
            give_notice,
            give_stats,
            elsewhere,
        );
        let (server, workers) = started.expect("its addresses are free");
        let index = ledger.servers.len();
        let application = worker_api::settings::settings_for(&view_of.applications, "live");
        ledger.servers.push(ServerView {
            ip,
            rtmp: server.addresses().rtmp[0],
            http: server.addresses().http[0],
            relay: server.addresses().relay,
            rtc: server.rtc_endpoints().to_vec(),
            handles: server.handles().to_vec(),
            published: Box::new(server.published()),
            token,
            handshake_timeout: view_of.handshake_timeout,
            publisher_idle_timeout: view_of.publisher_idle_timeout,
            merge_latency: application.merge_latency,
            gop_cache: application.gop_cache,
            wait_for_publisher: application.wait_for_publisher,
            bridges: application.bridge.enabled,
        });
        ledger.missed_by_server.push(0);
        ledger.is_cut.push(false);
        Self {
            index,
            ip,
            workers,
            used_stats: server.used_stats(),
            _server: server,
            kept,
            handoffs,
            answering: VecDeque::new(),
            notices,
            stats,
            connected_sessions: BTreeSet::new(),
            ended_sessions: BTreeSet::new(),
            own_descriptors: kernel::descriptors(ip),
        }
    }

    /// The control side's turn: notices, statistics, HTTP requests. Says when it has something to do next.
    pub fn control(&mut self, ledger: &mut Ledger) -> Option<Instant> {
        let now = kernel::now();
        while let Ok(notice) = self.notices.try_recv() {
            match notice {
                RtcNotice::Connected(id) => {
                    let is_new = self.connected_sessions.insert(id) && !self.ended_sessions.contains(&id);
                    ledger.check(is_new, || format!("session {id} connects twice, or after its end"));
                }
                RtcNotice::Ended(id) => {
                    let is_new = self.ended_sessions.insert(id);
                    ledger.ended_sessions.insert((self.index, id));
                    ledger.check(is_new, || format!("session {id} ends twice"));
                }
            }
        }
        while let Ok(mut snapshot) = self.stats.try_recv() {
            ledger.checks += 1;
            if let Some(back) = self.used_stats.get(snapshot.worker) {
                snapshot.sessions.clear();
                let _ = back.try_send(snapshot);
            }
        }
        while let Ok(handoff) = self.handoffs.try_recv() {
            let takes = ledger.random.up_to(std::time::Duration::from_millis(50));
            self.answering.push_back((now + takes, handoff));
        }
        while let Some((at, _)) = self.answering.front()
            && *at <= now
        {
            if let Some((_, handoff)) = self.answering.pop_front() {
                answer(ledger, &self.kept, handoff);
            }
        }
        self.answering.front().map(|(at, _)| *at)
    }
}

/// Answers the request of a connection, and gives it back to its worker.
fn answer(ledger: &mut Ledger, kept: &AddressSlots, mut handoff: Handoff) {
    let descriptor = handoff.stream.as_raw_fd();
    let mut socket = TcpSocket::taken_over(descriptor).expect("a simulated connection");
    let Some(end) = handoff.buffered.windows(4).position(|four| four == b"\r\n\r\n") else {
        return ledger.violation("a connection was handed over without a whole request".to_owned());
    };
    handoff.buffered.drain(..end + 4);
    if handoff.slot.is_none() {
        handoff.slot = kept.take(handoff.peer.ip());
    }
    let stays = handoff.slot.is_some() && ledger.random.chance(0.9);
    let fields = if stays { "" } else { "Connection: close\r\n" };
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
    let written = loop {
        match socket.write(text.as_bytes()) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    let mut rest = &text.as_bytes()[written.unwrap_or(text.len())..];
    while !rest.is_empty() {
        match socket.write(rest) {
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if !stays || !rest.is_empty() {
        let _ = socket.shutdown_write();
        // What it still sends is read and forgotten, as control does for a moment.
        let _ = socket.read(&mut [0; 4096]);
        return;
    }
    handoff.requests += 1;
    socket.hand_over(descriptor);
    let mut giving = pin!(handoff.give_back());
    if giving.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
        ledger.violation("a worker's queue of connections is full".to_owned());
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("ip", &self.ip).finish_non_exhaustive()
    }
}
