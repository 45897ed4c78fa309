//! Origin and edges on one clock, with a bad network between them.
//!
//! The origin's packets are numbered RTP of random lengths. An edge keeps what it is handed, and
//! `World::check` compares it, byte by byte, with what was sent. Each node's clock shows a time of its
//! own, to which it alone refers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use netsim::{Clock, Link, LinkConfig, Random, earliest};
use relay::{
    DropReason, InLinkId, InStreamId, Limits, LinkSecret, OutLinkId, OutStreamId, Outgoing, Receiver, Repair,
    Role, SealKey, Sender,
};

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sender: Sender,
    pub(crate) streams: Vec<Stream>,
    pub(crate) edges: Vec<Edge>,
    /// What publishers were asked: when, stream, SSRC.
    pub(crate) key_frames: Vec<(Duration, OutStreamId, u32)>,
    /// How far the origin's clock is ahead.
    origin_ahead: Duration,
    /// Datagrams of media sent for the first time, whatever the link.
    pub(crate) bytes_sent: u64,
    outgoing: Outgoing,
    seed: u64,
}

/// A stream of the origin, and everything it sent.
pub(crate) struct Stream {
    pub(crate) id: OutStreamId,
    pub(crate) epoch: u32,
    pub(crate) sent: Vec<Vec<u8>>,
    sequence: u16,
}

/// A node that gets streams, and what arrived.
pub(crate) struct Edge {
    pub(crate) receiver: Receiver,
    pub(crate) link: InLinkId,
    pub(crate) out_link: OutLinkId,
    down: Link,
    up: Link,
    ahead: Duration,
    /// By the origin's number of the stream.
    pub(crate) streams: HashMap<usize, InStreamId>,
    pub(crate) got: HashMap<InStreamId, Vec<Vec<u8>>>,
    pub(crate) repaired: usize,
    pub(crate) dropped: HashMap<DropReason, usize>,
    /// The last datagrams that came, as they came.
    pub(crate) captured: Vec<Vec<u8>>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, Limits::default(), Duration::ZERO)
    }

    pub(crate) fn with(seed: u64, limits: Limits, origin_ahead: Duration) -> Self {
        Self {
            clock: Clock::new(),
            random: Random::new(seed),
            sender: Sender::new(limits),
            streams: Vec::new(),
            edges: Vec::new(),
            key_frames: Vec::new(),
            origin_ahead,
            bytes_sent: 0,
            outgoing: Outgoing::new(),
            seed,
        }
    }

    /// The origin's time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now() + self.origin_ahead
    }

    pub(crate) fn add_stream(&mut self) -> usize {
        let key = SealKey::random(0);
        let id = self.sender.add_stream(key).expect("room for a stream");
        self.streams.push(Stream { id, epoch: 0, sent: Vec::new(), sequence: 0 });
        self.streams.len() - 1
    }

    /// A node, over links like these, whose clock is `ahead`.
    pub(crate) fn add_edge(&mut self, down: &LinkConfig, up: &LinkConfig, ahead: Duration) -> usize {
        let mut secret = [0; 32];
        secret.fill_with(|| self.random.next_u64() as u8);
        let (keys, _) = LinkSecret::new(secret).split(Role::Listener);
        let (_, edge_keys) = LinkSecret::new(secret).split(Role::Dialer);
        let mut receiver = Receiver::new(Limits::default());
        let link = receiver.add_link(self.clock.now() + ahead, edge_keys).expect("room for a link");
        let out_link = self.sender.add_link(self.now(), keys).expect("room for a link");
        self.seed += 2;
        self.edges.push(Edge {
            receiver,
            link,
            out_link,
            down: Link::new(down.clone(), self.seed),
            up: Link::new(up.clone(), self.seed + 1),
            ahead,
            streams: HashMap::new(),
            got: HashMap::new(),
            repaired: 0,
            dropped: HashMap::new(),
            captured: Vec::new(),
        });
        self.edges.len() - 1
    }

    /// An edge gets a stream; what `rotate` hands out later is in its epoch.
    pub(crate) fn subscribe(&mut self, stream: usize, edge: usize, key: &relay::OpenKey) {
        let to = &mut self.edges[edge];
        let id = to.receiver.add_stream(key).expect("room for a stream");
        let handle = to.receiver.attach(self.clock.now() + to.ahead, id, to.link).expect("a free handle");
        to.streams.insert(stream, id);
        to.got.insert(id, Vec::new());
        self.sender.subscribe(self.streams[stream].id, to.out_link, handle).expect("a free handle");
    }

    /// One stream to edges like these; the usual case.
    pub(crate) fn fan_out(seed: u64, edges: usize, down: &LinkConfig, up: &LinkConfig) -> Self {
        let mut world = Self::new(seed);
        world.add_edges(edges, down, up);
        world
    }

    /// A new stream to new edges.
    pub(crate) fn add_edges(&mut self, edges: usize, down: &LinkConfig, up: &LinkConfig) -> usize {
        let key = SealKey::random(0);
        let open = key.open_key();
        let id = self.sender.add_stream(key).expect("room for a stream");
        self.streams.push(Stream { id, epoch: 0, sent: Vec::new(), sequence: 0 });
        let stream = self.streams.len() - 1;
        for _ in 0..edges {
            let edge = self.add_edge(down, up, Duration::ZERO);
            self.subscribe(stream, edge, &open);
        }
        stream
    }

    /// The next key of a stream, handed to all its edges; used from `World::use_key` on.
    pub(crate) fn hand_out_key(&mut self, stream: usize) -> SealKey {
        self.streams[stream].epoch += 1;
        let key = SealKey::random(self.streams[stream].epoch);
        for edge in &mut self.edges {
            if let Some(id) = edge.streams.get(&stream) {
                let now = self.clock.now() + edge.ahead;
                edge.receiver.add_key(now, *id, &key.open_key()).expect("a later epoch");
            }
        }
        key
    }

    /// Sends one frame: `packets` of a track, nearly equally long.
    pub(crate) fn send_frame(&mut self, stream: usize, ssrc: u32, packets: usize) {
        let len = 12 + self.random.below(1_180) as usize;
        let now = self.now();
        let of = &mut self.streams[stream];
        let mut frame = Vec::new();
        for at in 0..packets {
            let len = if at + 1 == packets { len / 2 + 12 } else { len + at % 2 };
            frame.push(rtp(&mut self.random, of.sequence, ssrc, len));
            of.sequence = of.sequence.wrapping_add(1);
        }
        let slices: Vec<&[u8]> = frame.iter().map(|packet| &packet[..]).collect();
        self.sender.send(now, of.id, &slices, &mut self.outgoing).expect("sent");
        of.sent.extend(frame);
        let shared: Vec<&[u8]> = self.outgoing.shared().collect();
        for (link, private) in self.outgoing.links() {
            let edge = self.edges.iter_mut().find(|edge| edge.out_link == link).expect("a link of an edge");
            for (private, shared) in private.iter().zip(&shared) {
                let datagram = [&private[..], shared].concat();
                self.bytes_sent += datagram.len() as u64;
                edge.down.send(self.clock.now(), datagram);
            }
        }
    }

    /// Lets everything happen that happens within `duration`.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.clock.now() + duration;
        loop {
            self.step();
            let Some(at) = self.next_timeout().filter(|at| *at <= end) else { break };
            assert!(at >= self.clock.now());
            self.clock.advance_to(at);
        }
        self.clock.advance_to(end);
        self.step();
    }

    /// A live stream: a frame of 1 to 4 packets each 40 ms, for `duration`.
    pub(crate) fn play(&mut self, stream: usize, duration: Duration) {
        let end = self.clock.now() + duration;
        while self.clock.now() < end {
            let packets = 1 + self.random.below(4) as usize;
            self.send_frame(stream, 0x1000 + stream as u32, packets);
            self.run(Duration::from_millis(40));
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let local = |ahead: Duration, at: Option<Instant>| at.map(|at| at - ahead);
        let edges = self.edges.iter().flat_map(|edge| {
            [
                edge.down.next_timeout(),
                edge.up.next_timeout(),
                local(edge.ahead, edge.receiver.next_timeout()),
            ]
        });
        earliest(edges.chain([local(self.origin_ahead, self.sender.next_timeout())]))
    }

    fn step(&mut self) {
        let true_now = self.clock.now();
        for edge in &mut self.edges {
            let now = true_now + edge.ahead;
            while let Some(datagram) = edge.down.poll(true_now) {
                edge.receive(now, datagram);
            }
            let Edge { receiver, up, .. } = edge;
            receiver.poll_control(now, |_, datagram| up.send(true_now, datagram.to_vec()));
            assert!(receiver.next_timeout().is_none_or(|due| due > now), "due, and still is");
        }
        let now = self.now();
        let Self { sender, edges, key_frames, clock, .. } = self;
        let mut repairs: Vec<Repair> = Vec::new();
        for edge in &mut *edges {
            while let Some(mut datagram) = edge.up.poll(true_now) {
                let _ = sender.handle_control(now, edge.out_link, &mut datagram, &mut repairs);
            }
        }
        for repair in repairs {
            let edge = edges.iter_mut().find(|edge| edge.out_link == repair.link()).expect("an edge's link");
            edge.down.send(true_now, [repair.private(), repair.shared()].concat());
        }
        sender.poll_control(now, |link, datagram| {
            let edge = edges.iter_mut().find(|edge| edge.out_link == link).expect("an edge's link");
            edge.down.send(true_now, datagram.to_vec());
        });
        sender.poll_key_frame_requests(now, |stream, ssrc| key_frames.push((clock.elapsed(), stream, ssrc)));
        assert!(sender.next_timeout().is_none_or(|due| due > now), "due, and still is");
    }

    /// Every edge got nothing but what was sent, each packet once. Returns how many packets each lacks.
    pub(crate) fn check(&self) -> Vec<usize> {
        let lacks = self.edges.iter().flat_map(|edge| {
            edge.streams.iter().map(|(stream, id)| {
                let sent = &self.streams[*stream].sent;
                // Contents are random, so that equal packets are the same packet.
                let mut left: HashMap<&[u8], usize> = sent.iter().map(|packet| (&packet[..], 1)).collect();
                for packet in &edge.got[id] {
                    let count = left.get_mut(&packet[..]).expect("handed on, and never sent");
                    *count = count.checked_sub(1).expect("handed on twice");
                }
                left.values().filter(|count| **count > 0).count()
            })
        });
        lacks.collect()
    }
}

impl Edge {
    /// Takes a datagram, and keeps what comes of it.
    pub(crate) fn receive(&mut self, now: Instant, mut datagram: Vec<u8>) {
        if self.captured.len() < CAPTURED_MAX {
            self.captured.push(datagram.clone());
        }
        match self.receiver.handle_datagram(now, self.link, &mut datagram) {
            Ok(Some(received)) => {
                self.repaired += usize::from(received.was_repaired);
                self.got
                    .get_mut(&received.stream)
                    .expect("a stream of its own")
                    .push(received.packet.to_vec());
            }
            Ok(None) => {}
            Err(reason) => *self.dropped.entry(reason).or_default() += 1,
        }
    }

    pub(crate) fn set_links(&mut self, down: &LinkConfig, up: &LinkConfig) {
        self.down.set_config(down.clone());
        self.up.set_config(up.clone());
    }

    pub(crate) fn sent_up(&self) -> u64 {
        self.up.statistics().sent
    }
}

const CAPTURED_MAX: usize = 10_000;

/// A packet of random content: each is unlike all others.
pub(crate) fn rtp(random: &mut Random, sequence: u16, ssrc: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 96];
    packet.extend(sequence.to_be_bytes());
    packet.extend((u32::from(sequence) * 3_000).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(random.next_u64().to_be_bytes());
    packet.resize_with(len.max(packet.len()), || random.next_u64() as u8);
    packet
}

/// A link with this delay, and otherwise perfect.
pub(crate) fn delay(ms: u64) -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(ms), ..LinkConfig::default() }
}
