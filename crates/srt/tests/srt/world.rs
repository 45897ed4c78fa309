//! A caller and a listener, joined by a network that loses, delays, reorders and doubles.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use srt::{
    Accept, Call, CallError, Caller, Connection, CookieSecret, DATAGRAM_BYTES_MAX, Incoming, Limits, Reject,
    SequenceNumber, SocketId,
};

/// What the network does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// Share of packets that are lost, in both directions.
    pub(crate) loss_percent: u64,
    /// Time from one end to the other.
    pub(crate) delay: Duration,
    /// The most that is added to it, which reorders.
    pub(crate) jitter: Duration,
    /// Share of packets that come twice.
    pub(crate) doubled_percent: u64,
}

impl Network {
    pub(crate) const GOOD: Self = Self {
        loss_percent: 0,
        delay: Duration::from_millis(25),
        jitter: Duration::ZERO,
        doubled_percent: 0,
    };
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Caller,
    Listener,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Listener,
            Self::Listener => Self::Caller,
        }
    }
}

/// Numbers that are the same in each run (xorshift).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// Whether a packet to this end is lost.
type Loses = Box<dyn FnMut(Side, &[u8]) -> bool>;

/// Packets on their way, by when they arrive.
type OnTheWay = BinaryHeap<Reverse<(Instant, u64, Side, Vec<u8>)>>;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) network: Network,
    pub(crate) random: Random,
    on_the_way: OnTheWay,
    count: u64,
    /// Says which packets are lost besides.
    pub(crate) loses: Option<Loses>,
    /// Handshakes to this end say that they are of this version of SRT.
    pub(crate) rewrites: Option<(Side, [u8; 3])>,
    /// What is sent is kept in `kept` as well.
    pub(crate) keeps: bool,
    pub(crate) kept: Vec<(Side, Vec<u8>)>,
}

/// What both ends have.
#[derive(Debug, Clone)]
pub(crate) struct Both {
    pub(crate) call: Call,
    pub(crate) accept: Accept,
}

impl Default for Both {
    fn default() -> Self {
        let latency = Duration::from_millis(400);
        let latency_max = Duration::from_secs(8);
        Self {
            call: Call {
                socket: SocketId(11),
                initial: SequenceNumber::new(1000),
                stream_id: "publish:live/a".to_owned(),
                receive_latency: latency,
                send_latency: latency,
                latency_max,
                encryption: None,
                timeout: Duration::from_secs(3),
                limits: Limits::default(),
            },
            accept: Accept {
                socket: SocketId(22),
                latency,
                latency_max,
                passphrase: None,
                limits: Limits::default(),
            },
        }
    }
}

pub(crate) const PEER: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);

impl World {
    #[expect(clippy::disallowed_methods, reason = "any moment does to begin with")]
    pub(crate) fn new(network: Network, seed: u64) -> Self {
        Self {
            now: Instant::now() + Duration::from_secs(1_000_000),
            network,
            random: Random::new(seed),
            on_the_way: OnTheWay::new(),
            count: 0,
            loses: None,
            rewrites: None,
            keeps: false,
            kept: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, to: Side, datagram: &[u8]) {
        if self.keeps {
            self.kept.push((to, datagram.to_vec()));
        }
        if self.loses.as_mut().is_some_and(|loses| loses(to, datagram)) {
            return;
        }
        let mut datagram = datagram.to_vec();
        if let Some((_, version)) = self.rewrites.filter(|(of, _)| *of == to)
            && datagram.len() > 80
        {
            // The version in HSREQ or HSRSP, which is the first extension.
            datagram[69..72].copy_from_slice(&version);
        }
        let copies = 1 + u64::from(self.random.below(100) < self.network.doubled_percent);
        for _ in 0..copies {
            if self.random.below(100) < self.network.loss_percent {
                continue;
            }
            let jitter = self.network.jitter.as_micros() as u64;
            let jitter = Duration::from_micros(self.random.below(jitter + 1));
            self.count += 1;
            let at = self.now + self.network.delay + jitter;
            self.on_the_way.push(Reverse((at, self.count, to, datagram.clone())));
        }
    }

    /// The next packet that has arrived.
    pub(crate) fn arrived(&mut self) -> Option<(Side, Vec<u8>)> {
        let Reverse((at, ..)) = self.on_the_way.peek()?;
        if *at > self.now {
            return None;
        }
        self.on_the_way.pop().map(|Reverse((_, _, to, datagram))| (to, datagram))
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.on_the_way.peek().map(|Reverse((at, ..))| *at)
    }

    /// Calls until both ends have a connection, or one of them has none.
    pub(crate) fn connect(&mut self, both: &Both) -> Result<(Connection, Connection), CallError> {
        self.connect_to(both, |_, _| None)
    }

    /// The same with a listener that sends from its answer on: `send` is called whenever something happens,
    /// and at the time that it says.
    pub(crate) fn connect_to(
        &mut self,
        both: &Both,
        mut send: impl FnMut(Instant, &mut Connection) -> Option<Instant>,
    ) -> Result<(Connection, Connection), CallError> {
        let secret = CookieSecret::new(&[3; 32]);
        let mut caller = Caller::new(self.now, both.call.clone());
        let mut accepted: Option<(Connection, Vec<u8>)> = None;
        let mut out = [0; DATAGRAM_BYTES_MAX];
        loop {
            if let Some(len) = caller.poll_transmit(self.now, &mut out)? {
                self.send(Side::Listener, &out[..len]);
            }
            while let Some((to, datagram)) = self.arrived() {
                if to == Side::Caller {
                    if let Some(connection) = caller.handle_packet(self.now, &datagram)? {
                        let accepted = accepted.take().expect("the listener answered");
                        return Ok((connection, accepted.0));
                    }
                    continue;
                }
                match secret.handle(Duration::ZERO, SocketAddr::from(PEER), &datagram) {
                    Ok(Incoming::Induction(answer)) => self.send(Side::Caller, &answer),
                    Ok(Incoming::Conclusion(request)) => {
                        if accepted.is_none() {
                            let opened = request.read().and_then(|asked| {
                                assert_eq!(asked.stream_id(), both.call.stream_id);
                                asked.accept(self.now, &both.accept)
                            });
                            match opened {
                                Ok(opened) => accepted = Some(opened),
                                Err(reject) => self.send(Side::Caller, &request.reject(reject)),
                            }
                        }
                        if let Some((_, answer)) = &accepted {
                            let answer = answer.clone();
                            self.send(Side::Caller, &answer);
                        }
                    }
                    Err(_) => {}
                }
            }
            let mut next_send = None;
            if let Some((connection, _)) = &mut accepted {
                next_send = send(self.now, connection);
                while let Some(len) = connection.poll_transmit(self.now, &mut out) {
                    self.send(Side::Caller, &out[..len]);
                }
            }
            let next =
                [Some(caller.next_timeout()), self.next_arrival(), next_send].into_iter().flatten().min();
            self.now = next.expect("a caller has a deadline").max(self.now);
        }
    }
}

/// An established pair.
pub(crate) struct Pair {
    pub(crate) world: World,
    /// Which end the sender is.
    pub(crate) sends: Side,
    pub(crate) sender: Connection,
    pub(crate) receiver: Connection,
    /// What came out at the receiver, and when.
    pub(crate) received: Vec<(Instant, Vec<u8>)>,
}

impl Pair {
    /// One whose caller sends.
    pub(crate) fn new(network: Network, seed: u64, both: &Both) -> Self {
        let mut world = World::new(Network::GOOD, seed);
        let (sender, receiver) = world.connect(both).expect("a connection");
        world.network = network;
        Self { world, sends: Side::Caller, sender, receiver, received: Vec::new() }
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, end: Instant) {
        let mut out = [0; DATAGRAM_BYTES_MAX];
        loop {
            let now = self.world.now;
            while let Some((to, datagram)) = self.world.arrived() {
                let connection = if to == self.sends { &mut self.sender } else { &mut self.receiver };
                let _ = connection.handle_packet(now, &datagram);
            }
            self.sender.handle_timeout(now);
            self.receiver.handle_timeout(now);
            self.receiver.deliver(now, |payload| self.received.push((now, payload.to_vec())));
            while let Some(len) = self.sender.poll_transmit(now, &mut out) {
                self.world.send(self.sends.other(), &out[..len]);
            }
            while let Some(len) = self.receiver.poll_transmit(now, &mut out) {
                self.world.send(self.sends, &out[..len]);
            }
            let deadlines =
                [self.world.next_arrival(), self.sender.next_timeout(now), self.receiver.next_timeout(now)];
            let next =
                deadlines.into_iter().flatten().min().unwrap_or(end).max(now + Duration::from_micros(100));
            if next >= end {
                self.world.now = end;
                return;
            }
            self.world.now = next;
        }
    }

    /// Sends packets of 1316 bytes, so many per second, and waits until all that comes has come.
    pub(crate) fn stream(&mut self, packets: u32, per_second: u32) {
        let start = self.world.now;
        for number in 0..packets {
            self.run_until(start + Duration::from_secs(1) * number / per_second);
            assert!(self.sender.send(self.world.now, &payload(number)));
        }
        self.run_until(self.world.now + Duration::from_secs(2));
    }

    /// Numbers of the packets that came out, which are in order and each whole.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let number = |payload: &[u8]| {
            let number = u32::from_be_bytes(payload[..4].try_into().expect("four bytes"));
            assert!(payload.len() == 1316 && payload[4..].iter().all(|byte| *byte == number as u8));
            number
        };
        let numbers: Vec<u32> = self.received.iter().map(|(_, payload)| number(payload)).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next));
        numbers
    }
}

/// 1316 bytes that begin with a number.
pub(crate) fn payload(number: u32) -> Vec<u8> {
    let mut payload = vec![number as u8; 1316];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload
}

/// What a listener that refuses says.
pub(crate) fn refused(reject: Reject) -> CallError {
    CallError::Rejected(reject.code())
}
