//! Packets to and from other nodes: what the first worker does for all of them, by one socket.
//!
//! ```text
//! sfu ─▶ serve.rs: RTP, sealed once ─▶ one group for all links ─▶ port
//! port ─▶ link by address ─▶ verify, open ─▶ fetch.rs ─▶ sfu        and on to further nodes as it came
//! ```
//!
//! The protocol is `relay`'s, a machine without sockets and clock; this is what drives it. A stream that is
//! **served** is subscribed here as by a player, from whichever worker is its home. One that is
//! **fetched** is published here, with this worker as its home, and if other nodes get it from here it
//! goes on to them as it was sealed. Commands (`commands.rs`) come from the thread of `nodes`, which has
//! the links (`worker_api::relay`). What takes other subsystems as well is a method of the worker: `run.rs`,
//! `lifecycle.rs`, `commands.rs`.

#[cfg(feature = "simulated")]
mod audit;
mod commands;
mod encodings;
mod fetch;
mod lifecycle;
mod review;
mod run;
mod serve;
mod starts;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay::{Destination, DropReason, InLinkId, Limits, OutLinkId, OutStreamId, Outgoing, Repair};
use sfu::{Received, TrackIndex};

use self::fetch::{Fetched, Onward};
use self::serve::Served;
use crate::context::Context;
use crate::ids::PacketStreamId;
use crate::net::relay_port::RelayPort;
use crate::net::{EventQueue, ReceivedBatch};
use crate::registry::{Epoch, StreamId};
use worker_api::relay::{
    LinkId, OFFER_VALID, RelayCounters, RelayLinkStats, RelayNotice, RelayNotices, RelayStats,
    RelayStreamStats,
};
use worker_api::settings::{RelaySettings, WorkerSettings};

/// Packets of what is kept that a link gets in one go, and time until the next: a path that takes 300 Mbit/s
/// loses nothing of it, and a group of pictures of a megabyte takes 30 ms.
const CATCH_UP_PACKETS: usize = 32;
/// The same for all links together.
const CATCH_UP_PACKETS_ALL: usize = 512;
const CATCH_UP_EVERY: Duration = Duration::from_millis(1);

/// Packets to and from other nodes.
pub(crate) struct PacketRelay {
    port: RelayPort<Ends>,
    sender: relay::Sender,
    receiver: relay::Receiver,
    links: BTreeMap<LinkId, Link>,
    /// The outgoing direction of each link, by the index of its incoming one.
    back: Vec<Option<OutLinkId>>,
    served: HashMap<StreamId, Served>,
    fetched: HashMap<StreamId, Fetched>,
    /// The stream that each of the sender's is.
    of_out: HashMap<OutStreamId, StreamId>,
    /// The stream that each of the receiver's is, by its index.
    of_in: Vec<Option<StreamId>>,
    /// Links that get what is kept of a stream, the next one in front.
    catching_up: VecDeque<(StreamId, LinkId)>,
    catch_up_at: Instant,
    /// Streams of which other encodings may be wanted than before.
    review: Vec<StreamId>,
    notices: Option<RelayNotices>,
    counters: RelayCounters,
    /// Bytes sent at the last sample.
    sampled_bytes: u64,
    /// How long the packets since a key frame are of use to a node that joins.
    gop_duration_max: Duration,
    // Kept for their memory.
    group: Outgoing,
    repairs: Vec<Repair>,
    written: Vec<u8>,
    /// Datagrams of a batch that go on to further nodes, and whose they are.
    copies: Vec<u8>,
    onward: Vec<Onward>,
}

/// Both directions of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    out: OutLinkId,
    into: InLinkId,
}

/// A link to another node.
#[derive(Debug, Clone, Copy)]
struct Link {
    ends: Ends,
    address: SocketAddr,
}

/// A packet of another node for a stream that is fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelayedPacket<'a> {
    pub(crate) stream: PacketStreamId,
    pub(crate) epoch: Epoch,
    pub(crate) packet: &'a [u8],
    pub(crate) is_rtcp: bool,
}

impl PacketRelay {
    /// Binds the socket.
    ///
    /// # Errors
    /// Those of the socket, with its address.
    pub(crate) fn open(relay: &RelaySettings, settings: &WorkerSettings) -> io::Result<Self> {
        // All nodes have the same limits: what one keeps for resending is what the others may ask for.
        let limits = Limits::default();
        Ok(Self {
            port: RelayPort::open(relay, &settings.rtc, settings.workers)?,
            sender: relay::Sender::new(limits.clone()),
            receiver: relay::Receiver::new(limits),
            links: BTreeMap::new(),
            back: Vec::new(),
            served: HashMap::new(),
            fetched: HashMap::new(),
            of_out: HashMap::new(),
            of_in: Vec::new(),
            catching_up: VecDeque::new(),
            catch_up_at: crate::net::Clock::now(),
            review: Vec::new(),
            notices: None,
            counters: RelayCounters::default(),
            sampled_bytes: 0,
            gop_duration_max: settings.rtc.gop_cache_duration_max,
            group: Outgoing::new(),
            repairs: Vec::new(),
            written: Vec::new(),
            copies: Vec::new(),
            onward: Vec::new(),
        })
    }

    /// Puts the socket into the event queue.
    pub(crate) fn register(&self, events: &EventQueue) -> io::Result<()> {
        self.port.register(events)
    }

    /// Where it is, with the real port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.local
    }

    /// How long the loop may sleep as far as other nodes are concerned.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        if self.port.readable || !self.review.is_empty() {
            return Duration::ZERO;
        }
        let catch_up = (!self.catching_up.is_empty()).then_some(self.catch_up_at);
        let due = [self.sender.next_timeout(), self.receiver.next_timeout(), catch_up];
        let due = due.into_iter().flatten().min();
        let due = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
        self.port.retry_after().map_or(due, |retry| due.min(retry))
    }

    /// Reads a batch of datagrams, and sends on what goes on. `take` gets each packet for a stream of this
    /// node, and says what became of it. Returns how many datagrams there were.
    fn receive_batch(
        &mut self,
        ctx: &mut Context,
        batch: &mut ReceivedBatch,
        mut take: impl FnMut(&mut Context, RelayedPacket<'_>) -> Option<Received>,
    ) -> usize {
        if let Err(error) = self.port.receive(batch) {
            if error.kind() != io::ErrorKind::WouldBlock {
                tracing::debug!(%error, "receiving from nodes failed");
            }
            return 0;
        }
        for datagram in batch.iter_mut() {
            self.datagram(ctx, datagram.source, datagram.payload, &mut take);
        }
        self.port.send_repairs(&mut self.repairs);
        self.send_onward(ctx);
        batch.len()
    }

    fn datagram(
        &mut self,
        ctx: &mut Context,
        source: SocketAddr,
        datagram: &mut [u8],
        take: &mut impl FnMut(&mut Context, RelayedPacket<'_>) -> Option<Received>,
    ) {
        let bytes = datagram.len() as u64;
        self.counters.datagrams_in += 1;
        ctx.counters.bytes_in += bytes;
        ctx.load.bytes_in += bytes;
        let Some(ends) = self.port.link_at(source) else {
            self.counters.unknown_source += 1;
            tracing::trace!(%source, "datagram dropped: no node is there");
            return;
        };
        let result = match relay::destination(datagram) {
            Some(Destination::Sender) => {
                self.sender.handle_control(ctx.now, ends.out, datagram, &mut self.repairs)
            }
            Some(Destination::Receiver) | None => self.media(ctx, ends.into, datagram, take),
        };
        if let Err(reason) = result {
            self.count_dropped(reason);
            tracing::trace!(%source, %reason, "datagram of a node dropped");
        }
    }

    fn count_dropped(&mut self, reason: DropReason) {
        let counters = &mut self.counters;
        let counter = match reason {
            DropReason::Malformed => &mut counters.malformed,
            DropReason::UnknownLink => &mut counters.unknown_source,
            DropReason::Replayed => &mut counters.replayed,
            DropReason::Forged | DropReason::BadPayload => &mut counters.forged,
            DropReason::UnknownEpoch => &mut counters.unknown_key,
            DropReason::UnknownHandle => &mut counters.unknown_handle,
            DropReason::Duplicate => &mut counters.duplicates,
            DropReason::NotRtp | DropReason::TooManyTracks => &mut counters.not_taken,
        };
        *counter += 1;
    }

    /// Sends what is due by the clock. `ask` gets each track of a stream that is served, or
    /// encoding of it, of which another node wants a key frame.
    fn run_timers(&mut self, ctx: &Context, mut ask: impl FnMut(StreamId, TrackIndex, Option<u8>)) {
        let Self { sender, receiver, port, counters, served, fetched, of_out, back, .. } = self;
        sender.poll_key_frame_requests(ctx.now, |out, ssrc| {
            counters.key_frame_requests_in += 1;
            let Some(id) = of_out.get(&out) else { return };
            if let Some(fetched) = fetched.get(id) {
                counters.key_frame_requests_out += 1;
                receiver.request_key_frame(ctx.now, fetched.into, ssrc);
            } else if let Some((track, encoding)) = TrackIndex::of_relayed_ssrc(ssrc) {
                let is_split = served.get(id).is_some_and(|served| served.encodings.has(track));
                ask(*id, track, Some(encoding).filter(|_| is_split));
            }
        });
        sender.poll_control(ctx.now, |link, datagram| port.control_to(link, datagram, ctx.now_ms));
        receiver.poll_control(ctx.now, |link, datagram| {
            if let Some(link) = back.get(link.index()).copied().flatten() {
                port.control_to(link, datagram, ctx.now_ms);
            }
        });
        self.catch_up(ctx);
        self.port.flush(ctx.now_ms);
    }

    /// Sends links that have joined a stream a part of what is kept of it.
    fn catch_up(&mut self, ctx: &Context) {
        if self.catching_up.is_empty() || self.catch_up_at > ctx.now {
            return;
        }
        self.catch_up_at = ctx.now + CATCH_UP_EVERY;
        if self.port.retry_after().is_some() {
            return;
        }
        let mut left = CATCH_UP_PACKETS_ALL;
        for _ in 0..self.catching_up.len() {
            let Some((id, link)) = self.catching_up.pop_front() else { break };
            let out = self.served.get(&id).map(|served| served.out);
            let Some((out, to)) = out.zip(self.links.get(&link)) else { continue };
            let most = CATCH_UP_PACKETS.min(left);
            let Ok(is_done) = self.sender.catch_up(ctx.now, out, to.ends.out, most, &mut self.group) else {
                continue;
            };
            left -= self.group.shared().len();
            self.port.send_group(&mut self.group, ctx.now_ms);
            if !is_done {
                self.catching_up.push_back((id, link));
            }
            if left == 0 {
                break;
            }
        }
    }

    /// Drops what is too old for nodes that join. Returns the streams that are offered and that no node has
    /// taken for a while.
    fn sweep(&mut self, now: Instant) -> Vec<StreamId> {
        let Self { sender, served, fetched, gop_duration_max, .. } = self;
        for served in served.values_mut() {
            if served.starts.expire(now, *gop_duration_max)
                && let Some(start) = served.starts.oldest().or(sender.next_position(served.out))
            {
                sender.keep_from(served.out, start);
            }
        }
        for fetched in fetched.values_mut() {
            if fetched.starts.expire(now, *gop_duration_max)
                && let Some(out) = fetched.out
                && let Some(start) = fetched.starts.oldest().or(fetched.newest)
            {
                sender.keep_from(out, start);
            }
        }
        let is_over = |served: &Served| {
            served.children.is_empty() && now.saturating_duration_since(served.idle_since) > OFFER_VALID
        };
        served.iter().filter(|(_, served)| is_over(served)).map(|(id, _)| *id).collect()
    }

    fn notify(&self, notice: RelayNotice) {
        if let Some(notices) = &self.notices {
            // Fails when its receiver has gone, which ends the process.
            let _ = notices.send(notice);
        }
    }

    /// Totals since it began.
    pub(crate) fn counters(&self) -> RelayCounters {
        let sent = self.port.counts;
        RelayCounters {
            datagrams_out: sent.datagrams,
            bytes_out: sent.bytes,
            send_failures: sent.failed,
            send_dropped: sent.dropped,
            ..self.counters
        }
    }

    fn stats(&self) -> RelayStats {
        let links = self.links.iter().map(|(&link, &Link { ends, .. })| RelayLinkStats {
            link,
            sent: self.sender.link_stats(ends.out).unwrap_or_default(),
            received: self.receiver.link_stats(ends.into).unwrap_or_default(),
        });
        let of_served = self.served.iter().map(|(id, served)| (id, Arc::clone(&served.key)));
        let of_fetched = self.fetched.iter().map(|(id, fetched)| (id, Arc::clone(&fetched.key)));
        let keys: BTreeMap<StreamId, Arc<str>> =
            of_served.chain(of_fetched).map(|(id, key)| (*id, key)).collect();
        let streams = keys.into_iter().map(|(id, key)| {
            let (served, fetched) = (self.served.get(&id), self.fetched.get(&id));
            let counts = fetched.map(|fetched| fetched.counts).or(served.map(|served| served.counts));
            let counts = counts.unwrap_or_default();
            RelayStreamStats {
                stream: key.to_string(),
                parents: fetched.map_or(Vec::new(), |fetched| fetched.parents.clone()),
                children: served.map_or(Vec::new(), |served| served.children.clone()),
                packets: counts.packets,
            }
        });
        RelayStats {
            backend: self.port.backend().name(),
            counters: self.counters(),
            links: links.collect(),
            streams: streams.collect(),
        }
    }
}

/// Packets of a stream, and their bytes as RTP.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// App and name of a stream.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

impl std::fmt::Debug for PacketRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketRelay")
            .field("port", &self.port)
            .field("links", &self.links.len())
            .field("served", &self.served.len())
            .field("fetched", &self.fetched.len())
            .finish()
    }
}
