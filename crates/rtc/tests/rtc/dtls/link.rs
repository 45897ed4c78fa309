//! Two sessions, a link between them that delays and loses, and a clock that only the test moves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtc::dtls::{Certificate, Config, Dtls, DtlsError, DtlsEvent, DtlsVersion, SrtpKeys};
use srtp::{InboundContext, OutboundContext};

/// Client and server with the link between them.
pub(crate) struct Pair {
    pub(crate) client: End,
    pub(crate) server: End,
    pub(crate) now: Instant,
    pub(crate) delay: Duration,
    /// In percent, each way.
    pub(crate) loss: u32,
    /// Arrives twice, in percent, each way.
    pub(crate) duplicates: u32,
    /// Datagrams to lose before any other, of the server and of the client.
    pub(crate) lose_first: [u32; 2],
    random: Random,
    /// Steps since the clock moved.
    stands_still: u32,
    /// When it arrives, whether at the server, and what.
    under_way: Vec<(Instant, bool, Vec<u8>)>,
}

/// One session and what came of it.
pub(crate) struct End {
    pub(crate) dtls: Dtls,
    pub(crate) keys: Option<SrtpKeys>,
    pub(crate) error: Option<DtlsError>,
    pub(crate) closed: bool,
    pub(crate) sent: Vec<Vec<u8>>,
}

/// Numbers that look random and are the same in every run (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

/// Any moment: virtual time begins here.
#[expect(clippy::disallowed_methods, reason = "start of virtual time")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

pub(crate) fn certificate() -> Arc<Certificate> {
    Arc::new(Certificate::generate().unwrap())
}

/// Configurations of a client and a server that know each other.
pub(crate) fn configs(client: &[DtlsVersion], server: &[DtlsVersion]) -> (Config, Config) {
    let (ours, theirs) = (certificate(), certificate());
    let (our_fingerprint, their_fingerprint) = (ours.fingerprint(), theirs.fingerprint());
    let mut client_config = Config::new(ours, vec![their_fingerprint]);
    let mut server_config = Config::new(theirs, vec![our_fingerprint]);
    client_config.versions = client.to_vec();
    server_config.versions = server.to_vec();
    (client_config, server_config)
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

impl End {
    pub(crate) fn new(dtls: Dtls) -> Self {
        Self { dtls, keys: None, error: None, closed: false, sent: Vec::new() }
    }

    /// What the session has to send; notes events and errors.
    pub(crate) fn take(&mut self, result: Result<(), DtlsError>) -> Vec<Vec<u8>> {
        self.error = self.error.or(result.err());
        while let Some(event) = self.dtls.poll_event() {
            match event {
                DtlsEvent::Keys(keys) => assert!(self.keys.replace(*keys).is_none(), "keys are given once"),
                DtlsEvent::Closed => self.closed = true,
            }
        }
        let datagrams: Vec<_> = std::iter::from_fn(|| self.dtls.poll_transmit()).collect();
        self.sent.extend(datagrams.iter().cloned());
        datagrams
    }
}

impl Pair {
    pub(crate) fn new((client, server): (Config, Config)) -> Self {
        let now = start();
        let client = End::new(Dtls::client(client, now).unwrap());
        let server = End::new(Dtls::server(server));
        let mut pair = Self {
            client,
            server,
            now,
            delay: Duration::from_millis(10),
            loss: 0,
            duplicates: 0,
            lose_first: [0, 0],
            random: Random(1),
            stands_still: 0,
            under_way: Vec::new(),
        };
        pair.send(true, Ok(()));
        pair
    }

    pub(crate) fn with_loss(mut self, loss: u32, seed: u64) -> Self {
        self.loss = loss;
        self.random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The ClientHello is under way already.
        if self.random.below(100) < loss as usize {
            self.under_way.clear();
        }
        self
    }

    /// Puts on the link what an end has to send, the client if `from_client`.
    pub(crate) fn send(&mut self, from_client: bool, result: Result<(), DtlsError>) {
        let end = if from_client { &mut self.client } else { &mut self.server };
        for datagram in end.take(result) {
            if self.lose_first[usize::from(from_client)] > 0 {
                self.lose_first[usize::from(from_client)] -= 1;
                continue;
            }
            if self.random.below(100) >= self.loss as usize {
                if self.random.below(100) < self.duplicates as usize {
                    self.under_way.push((self.now + self.delay * 2, from_client, datagram.clone()));
                }
                self.under_way.push((self.now + self.delay, from_client, datagram));
            }
        }
    }

    /// Moves the clock to what happens next, and lets it happen. `false` when nothing will.
    pub(crate) fn step(&mut self) -> bool {
        let arrival = self.under_way.iter().map(|&(at, ..)| at).min();
        let timers = [self.client.dtls.next_timeout(), self.server.dtls.next_timeout()];
        let Some(next) = [arrival, timers[0], timers[1]].into_iter().flatten().min() else { return false };
        self.stands_still = if self.now < next { 0 } else { self.stands_still + 1 };
        assert!(self.stands_still < 1000, "time does not move on: a timer that is due stays due");
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let first = self.under_way.iter().position(|&(at, ..)| at == next).unwrap();
            let (_, to_server, datagram) = self.under_way.remove(first);
            let end = if to_server { &mut self.server } else { &mut self.client };
            let result = end.dtls.handle_datagram(self.now, &datagram);
            self.send(!to_server, result);
            return true;
        }
        for (from_client, timer) in [(true, timers[0]), (false, timers[1])] {
            if timer == Some(next) {
                let end = if from_client { &mut self.client } else { &mut self.server };
                let result = end.dtls.handle_timeout(self.now);
                self.send(from_client, result);
            }
        }
        true
    }

    /// Loses what is under way.
    pub(crate) fn lose_what_is_under_way(&mut self) {
        self.under_way.clear();
    }

    /// Runs until nothing happens any more, or for as long as a minute.
    pub(crate) fn run(&mut self) {
        let end = self.now + Duration::from_secs(60);
        while self.now < end && self.step() {}
        assert!(self.now < end, "the sessions never come to rest");
    }

    /// Runs until both ends have keys or one has failed; gives the time it took.
    pub(crate) fn run_until_keys(&mut self) -> Option<Duration> {
        let begin = self.now;
        loop {
            if self.client.keys.is_some() && self.server.keys.is_some() {
                return Some(self.now - begin);
            }
            if self.client.error.is_some() || self.server.error.is_some() || !self.step() {
                return None;
            }
        }
    }
}

/// Whether what one end protects the other can unprotect, both ways.
pub(crate) fn fit(one: &SrtpKeys, other: &SrtpKeys) -> bool {
    let carries = |from: &SrtpKeys, to: &SrtpKeys| {
        let config = srtp::Config::default();
        let mut sender = OutboundContext::new(&config, std::slice::from_ref(&from.outbound)).unwrap();
        let mut receiver = InboundContext::new(&config, std::slice::from_ref(&to.inbound)).unwrap();
        let header = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 42];
        let mut packet = [0; 100];
        let len = sender.protect_rtp_from(&header, b"payload", &mut packet).unwrap();
        receiver.unprotect_rtp(&mut packet[..len]).is_ok()
    };
    one.profile == other.profile && carries(one, other) && carries(other, one)
}
