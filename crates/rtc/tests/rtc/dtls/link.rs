//! Two sessions, a link between them that delays and loses, and a clock that only the test moves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use netsim::{Link, LinkConfig, earliest};
use rtc::dtls::{Certificate, Config, Dtls, DtlsError, DtlsEvent, DtlsVersion, SrtpKeys};
use srtp::{InboundContext, OutboundContext};

/// Client and server with the link between them.
pub(crate) struct Pair {
    pub(crate) client: End,
    pub(crate) server: End,
    pub(crate) now: Instant,
    /// Datagrams to lose before any other, of the server and of the client.
    pub(crate) lose_first: [u32; 2],
    /// Steps since the clock moved.
    stands_still: u32,
    /// To the client, and to the server.
    links: [Link; 2],
}

/// What a datagram of [`Pair::new`] takes.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// One session and what came of it.
pub(crate) struct End {
    pub(crate) dtls: Dtls,
    pub(crate) keys: Option<SrtpKeys>,
    pub(crate) error: Option<DtlsError>,
    pub(crate) closed: bool,
    pub(crate) sent: Vec<Vec<u8>>,
}

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
        Self::over(LinkConfig { delay: DELAY, ..LinkConfig::default() }, 1, (client, server))
    }

    /// Over a bad link.
    pub(crate) fn over(network: LinkConfig, seed: u64, (client, server): (Config, Config)) -> Self {
        let now = start();
        let mut pair = Self {
            client: End::new(Dtls::client(client, now).unwrap()),
            server: End::new(Dtls::server(server)),
            now,
            links: [seed, !seed].map(|seed| Link::new(network.clone(), seed)),
            lose_first: [0, 0],
            stands_still: 0,
        };
        pair.send(true, Ok(()));
        pair
    }

    /// Sends what an end has to send, the client if `from_client`.
    pub(crate) fn send(&mut self, from_client: bool, result: Result<(), DtlsError>) {
        let end = if from_client { &mut self.client } else { &mut self.server };
        let way = usize::from(from_client);
        for datagram in end.take(result) {
            if self.lose_first[way] > 0 {
                self.lose_first[way] -= 1;
            } else {
                self.links[way].send(self.now, datagram);
            }
        }
    }

    /// Moves the clock to what happens next, and lets it happen. `false` when nothing will.
    pub(crate) fn step(&mut self) -> bool {
        let arrivals = [self.links[0].next_timeout(), self.links[1].next_timeout()];
        let timers = [self.server.dtls.next_timeout(), self.client.dtls.next_timeout()];
        let Some(next) = earliest(arrivals.into_iter().chain(timers)) else { return false };
        self.stands_still = if self.now < next { 0 } else { self.stands_still + 1 };
        assert!(self.stands_still < 1000, "time does not move on: a timer that is due stays due");
        self.now = self.now.max(next);
        for to_server in [true, false] {
            if let Some(datagram) = self.links[usize::from(to_server)].poll(self.now) {
                let end = if to_server { &mut self.server } else { &mut self.client };
                let result = end.dtls.handle_datagram(self.now, &datagram);
                self.send(!to_server, result);
                return true;
            }
        }
        for from_client in [true, false] {
            if timers[usize::from(from_client)] == Some(next) {
                let end = if from_client { &mut self.client } else { &mut self.server };
                let result = end.dtls.handle_timeout(self.now);
                self.send(from_client, result);
            }
        }
        true
    }

    /// Loses everything in flight.
    pub(crate) fn lose_in_flight(&mut self) {
        for link in &mut self.links {
            while link.poll(self.now + Duration::from_secs(60)).is_some() {}
        }
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
