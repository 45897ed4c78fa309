//! The loop that carries all sessions of a run: sockets, timers, starts, in one thread.
//!
//! A turn: wait, receive, take the answers of servers, send what is due, start sessions, run
//! timers. `run.rs` calls it repeatedly and decides what is measured when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use mio::{Events, Poll, Token, Waker};
use rtc::dtls::Certificate;
use rtc::sdp::OfferConfig;
use rtc::{LocalAddress, PeerConfig, Side, Timeouts, Transport};
use srtp::Profile;

use super::counters::Counters;
use super::describe::{self, Agreed, Repair, Wanted};
use super::flv::FlvMedia;
use super::impair::Faults;
use super::link::Link;
use super::media::Media;
use super::publisher::{Plain, Publisher};
use super::rtmp::RtmpPublisher;
use super::session::{Lent, Phase, Role, Session};
use super::signalling::{Answer, Ask, Job, Signalled, Signalling};
use super::target::{Scheme, Target};
use super::viewer::{Viewer, ViewerConfig};
use crate::clock;
use crate::worker::Population;

/// What does not change during a run.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where publishers go.
    pub publish: Option<Target>,
    /// Where viewers go.
    pub play: Option<Target>,
    /// Streams that `{}` counts through.
    pub streams: usize,
    /// Sessions started per second.
    pub ramp: f64,
    /// Time a session has to come up.
    pub start_timeout: Duration,
    /// Time between two looks at the sockets; zero looks as soon as something comes.
    pub turn: Duration,
    /// How viewers behave.
    pub viewer: ViewerConfig,
    /// Whether viewers report arrivals.
    pub transport_feedback: bool,
    /// Network faults.
    pub faults: Faults,
    /// How lost packets are repaired.
    pub repair: Repair,
    /// Audio and video tracks of each publisher, in pairs.
    pub pairs: usize,
    /// Kinds of offers that viewers make.
    pub shapes: usize,
    /// SRTP profiles, best first.
    pub profiles: Vec<Profile>,
    /// Whether the kernel notes arrival times.
    pub timestamps: bool,
    /// Threads that ask over HTTP.
    pub signal_threads: usize,
    /// Token for the server.
    pub token: Option<String>,
    /// Whether the first viewer notes lengths and times of what it gets.
    pub trace: bool,
}

/// What all sessions share.
pub struct Shared {
    /// What they count together.
    pub counters: Counters,
    /// What publishers send.
    pub media: Media,
    scratch: Vec<u8>,
}

impl Shared {
    fn lend(&mut self, now: Instant, wall_ns: u64) -> Lent<'_> {
        Lent { now, wall_ns, counters: &mut self.counters, media: &self.media, scratch: &mut self.scratch }
    }
}

/// All sessions of a run.
pub struct Engine {
    config: EngineConfig,
    poll: Poll,
    events: Events,
    batch: RecvBatch,
    /// Every session that was ever started.
    pub sessions: Vec<Session>,
    /// What they share.
    pub shared: Shared,
    /// What RTMP publishers send.
    flv_media: Option<Arc<FlvMedia>>,
    certificate: Arc<Certificate>,
    /// For publishers and for viewers.
    signalling: [Option<Signalling>; 2],
    /// Offers that are not answered yet.
    offers: HashMap<usize, OfferConfig>,
    unanswered: usize,
    /// When which publisher has to send.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    ramps: [Ramp; 2],
    /// Which of this host's addresses reaches a server.
    sources: HashMap<IpAddr, IpAddr>,
    run: u64,
    turn_at: Instant,
    tick_at: Instant,
    publishing: bool,
}

/// How many sessions of one role to hold, and how fast to get there.
#[derive(Debug, Default)]
struct Ramp {
    target: usize,
    started: usize,
    since: Option<(Instant, usize)>,
}

impl Ramp {
    fn raise(&mut self, target: usize, now: Instant) {
        self.target = target.max(self.target);
        self.since = Some((now, self.started));
    }

    /// The next session to start now, if any.
    fn next(&mut self, ramp: f64, now: Instant) -> Option<usize> {
        let (since, first) = self.since?;
        let reached = first as f64 + (now - since).as_secs_f64() * ramp;
        if self.started >= self.target || self.started as f64 > reached {
            return None;
        }
        self.started += 1;
        Some(self.started - 1)
    }
}

const PUBLISH: usize = 0;
const PLAY: usize = 1;

impl Engine {
    /// Opens what a run needs to send or receive `media`; no session yet.
    ///
    /// # Errors
    /// A text for the user.
    pub fn new(config: EngineConfig, media: Media) -> Result<Engine, String> {
        let poll = Poll::new().map_err(|error| format!("epoll: {error}"))?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(|error| format!("epoll: {error}"))?;
        let waker = Arc::new(waker);
        let wake = move || {
            // A loop that is not woken looks again within its idle time.
            let _ = waker.wake();
        };
        let start = |target: &Option<Target>| match target {
            Some(target) if !matches!(target.scheme, Scheme::Rtp | Scheme::Rtmp | Scheme::Floor) => {
                let token = config.token.as_deref();
                let (threads, wake) = (config.signal_threads, wake.clone());
                Signalling::start(threads, target.address, &target.authority, token, wake).map(Some)
            }
            _ => Ok(None),
        };
        let signalling = [start(&config.publish)?, start(&config.play)?];
        let is_rtmp = config.publish.as_ref().is_some_and(|target| target.scheme == Scheme::Rtmp);
        let flv_media = is_rtmp.then(FlvMedia::new).transpose()?.map(Arc::new);
        let certificate = Certificate::generate().map_err(|error| format!("certificate: {error}"))?;
        let now = clock::monotonic();
        Ok(Engine {
            poll,
            events: Events::with_capacity(EVENTS_PER_TURN),
            batch: RecvBatch::new(RecvConfig::default()),
            sessions: Vec::new(),
            shared: Shared { counters: Counters::default(), media, scratch: Vec::new() },
            flv_media,
            certificate: Arc::new(certificate),
            signalling,
            offers: HashMap::new(),
            unanswered: 0,
            agenda: BinaryHeap::new(),
            ramps: [Ramp::default(), Ramp::default()],
            sources: HashMap::new(),
            run: clock::wall_ns() >> 10,
            turn_at: now,
            tick_at: now,
            publishing: true,
            config,
        })
    }

    /// Holds as many publishers from now on.
    pub fn raise_publishers(&mut self, target: usize) {
        self.ramps[PUBLISH].raise(target, clock::monotonic());
    }

    /// Holds as many viewers from now on.
    pub fn raise_viewers(&mut self, target: usize) {
        self.ramps[PLAY].raise(target, clock::monotonic());
    }

    /// Publishers send nothing more, and nothing is started.
    pub fn stop_publishing(&mut self) {
        self.publishing = false;
    }

    /// How far publishers or viewers have come.
    pub fn population(&self, publishers: bool) -> Population {
        let mut population = Population::default();
        for session in self.sessions.iter().filter(|session| session.is_publisher() == publishers) {
            match session.phase {
                Phase::Up => population.up += 1,
                Phase::Failed(_) => population.failed += 1,
                _ => population.starting += 1,
            }
        }
        population
    }

    /// One turn of the loop; waits no longer than some milliseconds.
    ///
    /// # Errors
    /// A text for the user: the run cannot continue.
    pub fn turn(&mut self) -> Result<(), String> {
        self.wait().map_err(|error| format!("epoll: {error}"))?;
        self.handle_events();
        self.take_answers();
        if self.publishing {
            self.send_due();
            self.start_sessions();
        }
        let now = clock::monotonic();
        if now >= self.tick_at || !self.config.faults.is_none() {
            self.tick_at = now + TICK;
            self.tick(now);
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut timeout = Duration::ZERO;
        if self.config.turn.is_zero() {
            timeout = self.agenda.peek().map_or(IDLE_TURN, |Reverse((due_ns, _))| {
                Duration::from_nanos(due_ns.saturating_sub(clock::wall_ns())).min(IDLE_TURN)
            });
            if !self.config.faults.is_none() {
                timeout = timeout.min(FAULT_TURN);
            }
        } else {
            // Sleeping in `epoll_wait` is what makes the server pay.
            std::thread::sleep(self.turn_at.saturating_duration_since(clock::monotonic()));
            self.turn_at = clock::monotonic() + self.config.turn;
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    fn handle_events(&mut self) {
        let (now, wall_ns) = (clock::monotonic(), clock::wall_ns());
        for event in &self.events {
            let Token(index) = event.token();
            // Wake-ups have a token beyond every session.
            let Some(session) = self.sessions.get_mut(index) else { continue };
            let mut lent = self.shared.lend(now, wall_ns);
            if session.handle_ready(&mut self.batch, &mut lent) {
                self.agenda.push(Reverse((wall_ns, index)));
            }
        }
    }

    fn send_due(&mut self) {
        let (now, wall_ns) = (clock::monotonic(), clock::wall_ns());
        while let Some(&Reverse((due_ns, index))) = self.agenda.peek()
            && due_ns <= wall_ns
        {
            self.agenda.pop();
            let mut lent = self.shared.lend(now, wall_ns);
            if let Some(next_ns) = self.sessions[index].send_due(&mut lent) {
                self.agenda.push(Reverse((next_ns, index)));
            }
        }
    }

    /// Timers of all sessions, and those that did not come up in time.
    fn tick(&mut self, now: Instant) {
        let wall_ns = clock::wall_ns();
        for (index, session) in self.sessions.iter_mut().enumerate() {
            let mut lent = self.shared.lend(now, wall_ns);
            if session.run(&mut lent) {
                self.agenda.push(Reverse((wall_ns, index)));
            }
            if now.saturating_duration_since(session.begun) < self.config.start_timeout {
                continue;
            }
            match session.phase {
                Phase::Asking => session.fail("the server did not answer in time".to_owned()),
                Phase::Connecting => session.fail("not connected in time".to_owned()),
                Phase::Starting => session.fail("no key frame in time".to_owned()),
                Phase::Up | Phase::Failed(_) => {}
            }
        }
    }

    fn start_sessions(&mut self) {
        let now = clock::monotonic();
        for _ in 0..STARTS_PER_TURN {
            if self.unanswered >= UNANSWERED_MAX {
                break;
            }
            if let Some(number) = self.ramps[PUBLISH].next(self.config.ramp, now) {
                self.start_publisher(number, now);
            } else if let Some(number) = self.ramps[PLAY].next(self.config.ramp, now) {
                self.start_viewer(number, now);
            } else {
                break;
            }
        }
    }

    fn start_publisher(&mut self, number: usize, now: Instant) {
        let Some(target) = &self.config.publish else { return };
        let index = self.sessions.len();
        if target.scheme == Scheme::Rtp {
            let publisher = Publisher::new(self.run + number as u64, number, &[], now, clock::wall_ns());
            let mut session = match Plain::new(target.address) {
                Ok(plain) => Session::new(number, Role::Feed(Box::new((publisher, plain))), now),
                Err(_) => Session::new(number, Role::Publisher(None), now),
            };
            if matches!(session.role, Role::Publisher(_)) {
                session.fail("no socket".to_owned());
            }
            self.agenda.push(Reverse((clock::wall_ns(), index)));
            return self.sessions.push(session);
        }
        if let Some(media) = &self.flv_media {
            let (id, url) = (self.run + number as u64, target.rtmp_url(number % self.config.streams + 1));
            let (media, registry) = (Arc::clone(media), self.poll.registry());
            let publisher = RtmpPublisher::connect(id, &url, target.address, media, registry, Token(index));
            return self.sessions.push(Session::rtmp(number, publisher, now));
        }
        let stream = number % self.config.streams + 1;
        let target = target.clone();
        let sdp = self.offer(PUBLISH, index, number);
        let ask = match target.scheme {
            Scheme::Janus { mountpoint } if !target.has_placeholder() => Ask::Join { room: mountpoint, sdp },
            Scheme::Janus { .. } => Ask::Join { room: stream as u64, sdp },
            _ => Ask::Offer { url: target.http_url(stream), sdp },
        };
        self.ask(PUBLISH, index, ask);
        self.sessions.push(Session::new(number, Role::Publisher(None), now));
    }

    fn start_viewer(&mut self, number: usize, now: Instant) {
        let Some(target) = &self.config.play else { return };
        let index = self.sessions.len();
        match target.scheme {
            Scheme::Floor => {
                let address = target.address;
                self.sessions.push(Session::new(number, Role::Viewer(None), now));
                if let Err(reason) = self.greet_floor(index, number, address) {
                    self.sessions[index].fail(reason);
                }
                return;
            }
            Scheme::Janus { mountpoint } => self.ask(PLAY, index, Ask::Watch { mountpoint }),
            _ => {
                let url = target.http_url(number % self.config.streams + 1);
                let sdp = self.offer(PLAY, index, number);
                self.ask(PLAY, index, Ask::Offer { url, sdp });
            }
        }
        self.sessions.push(Session::new(number, Role::Viewer(None), now));
    }

    /// What a session offers; it is remembered until there is an answer.
    fn offer(&mut self, role: usize, index: usize, number: usize) -> String {
        let ice = describe::credentials(self.run ^ (index as u64) << 32);
        let (pairs, shape) = match role {
            PUBLISH => (self.config.pairs, 0),
            // Every stream is played by every kind of viewer, however many streams viewers take in turn.
            _ => (1, (number + number / self.config.streams) % self.config.shapes),
        };
        let (publish, repair, video) = (role == PUBLISH, self.config.repair, &self.shared.media.video);
        let transport_cc = publish || self.config.transport_feedback;
        let wanted = Wanted { publish, number, repair, pairs, shape, video, transport_cc };
        let offer = describe::offer(&wanted, ice, &self.certificate);
        let sdp = rtc::sdp::make_offer(&offer);
        self.offers.insert(index, offer);
        sdp
    }

    fn ask(&mut self, role: usize, index: usize, ask: Ask) {
        if let Some(signalling) = &self.signalling[role] {
            self.unanswered += 1;
            signalling.ask(Job { session: index, ask });
        }
    }

    fn take_answers(&mut self) {
        for role in [PUBLISH, PLAY] {
            while let Some(signalled) = self.signalling[role].as_ref().and_then(Signalling::poll) {
                self.unanswered -= 1;
                let Signalled { session: index, result } = signalled;
                if let Err(reason) = result.and_then(|answer| self.answered(role, index, answer)) {
                    self.sessions[index].fail(reason);
                }
            }
        }
    }

    /// Connects as the answer says.
    fn answered(&mut self, role: usize, index: usize, answer: Answer) -> Result<(), String> {
        if answer.sdp.is_empty() || self.sessions[index].phase != Phase::Asking {
            // Of what was only to be done; or the session has been given up.
            return Ok(());
        }
        let number = self.sessions[index].number;
        let (agreed, ice) = match self.offers.remove(&index) {
            Some(offer) => {
                self.sessions[index].location = Some(answer.location).filter(|location| !location.is_empty());
                (describe::read_answer(&offer, &answer.sdp)?, offer.ice)
            }
            None => {
                let ice = describe::credentials(self.run ^ (index as u64) << 32);
                let (sdp, agreed) = describe::answer(&answer.sdp, number, ice.clone(), &self.certificate)?;
                self.ask(role, index, Ask::Start { location: answer.location, sdp });
                (agreed, ice)
            }
        };
        self.connect(role, index, agreed, ice)
    }

    fn connect(
        &mut self,
        role: usize,
        index: usize,
        agreed: Agreed,
        ice: rtc::IceCredentials,
    ) -> Result<(), String> {
        let (now, wall_ns) = (clock::monotonic(), clock::wall_ns());
        let target = if role == PUBLISH { &self.config.publish } else { &self.config.play };
        let host = target.as_ref().map_or(IpAddr::from([127, 0, 0, 1]), |target| target.address.ip());
        let candidate = agreed.candidate(host)?;
        let source = self.source_for(candidate.address)?;
        let bound = Link::bind(source, self.config.timestamps)
            .map_err(|error| format!("socket: {}", error.kind()))?;
        let config = PeerConfig {
            side: Side::Full,
            local_ice: ice,
            remote_ice: agreed.remote.ice.clone(),
            local_addresses: vec![LocalAddress { transport: Transport::Udp, address: bound.1 }],
            remote_candidates: vec![candidate],
            dtls: agreed.dtls(&self.certificate, &self.config.profiles),
            dtls_role: agreed.dtls_role,
            timeouts: Timeouts::default(),
        };
        let seed = self.run ^ index as u64;
        let registry = self.poll.registry();
        let link = Link::begin(bound, config, self.config.faults, seed, registry, Token(index), now)?;
        let session = &mut self.sessions[index];
        let number = session.number;
        session.link = Some(link);
        session.phase = Phase::Connecting;
        session.role = if role == PUBLISH {
            let id = self.run + number as u64;
            Role::Publisher(Some(Box::new(Publisher::new(id, number, &agreed.tracks, now, wall_ns))))
        } else {
            let mut viewer = Viewer::new(self.config.viewer, agreed.formats(), number, now);
            viewer.tracer = (self.config.trace && number == 0).then(Box::default);
            Role::Viewer(Some(Box::new(viewer)))
        };
        let mut lent = self.shared.lend(now, wall_ns);
        session.run(&mut lent);
        Ok(())
    }

    /// A receiver of the floor, which asks nobody.
    fn greet_floor(&mut self, index: usize, number: usize, floor: SocketAddr) -> Result<(), String> {
        let (now, wall_ns) = (clock::monotonic(), clock::wall_ns());
        let source = self.source_for(floor)?;
        let bound = Link::bind(source, self.config.timestamps)
            .map_err(|error| format!("socket: {}", error.kind()))?;
        let profile = *self.config.profiles.first().ok_or("no SRTP profile")?;
        let registry = self.poll.registry();
        let link = Link::to_floor(bound, (floor, profile), number as u32, registry, Token(index), now)?;
        let config = ViewerConfig { begins_anywhere: true, ..self.config.viewer };
        let viewer = Viewer::new(config, describe::usual_formats(), number, now);
        let session = &mut self.sessions[index];
        (session.link, session.phase) = (Some(link), Phase::Connecting);
        session.role = Role::Viewer(Some(Box::new(viewer)));
        session.run(&mut self.shared.lend(now, wall_ns));
        Ok(())
    }

    /// The address of this host that packets to `server` leave from, port 0.
    fn source_for(&mut self, server: SocketAddr) -> Result<SocketAddr, String> {
        if let Some(&source) = self.sources.get(&server.ip()) {
            return Ok(SocketAddr::new(source, 0));
        }
        let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let probe =
            UdpSocket::bind(any).and_then(|probe| probe.connect(server).and_then(|()| probe.local_addr()));
        let source = probe.map_err(|error| format!("no route to the server: {}", error.kind()))?.ip();
        self.sources.insert(server.ip(), source);
        Ok(SocketAddr::new(source, 0))
    }

    /// Ends all sessions at the server, and waits for its answers for at most `patience`.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub fn end(&mut self, patience: Duration) -> Result<(), String> {
        let now = clock::monotonic();
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            session.end(now, &mut self.shared.counters);
            let role = if session.is_publisher() { PUBLISH } else { PLAY };
            if let (Some(location), true) = (session.location.take(), session.phase == Phase::Up) {
                self.ask(role, index, Ask::Delete { location });
            }
        }
        while self.unanswered > 0 && now.elapsed() < patience {
            self.turn()?;
        }
        Ok(())
    }
}

const WAKE: Token = Token(usize::MAX);
const EVENTS_PER_TURN: usize = 4096;
const STARTS_PER_TURN: usize = 16;

/// Maximum pending requests to a server that does not answer.
const UNANSWERED_MAX: usize = 512;
const IDLE_TURN: Duration = Duration::from_millis(5);

/// Held datagrams move on this often.
const FAULT_TURN: Duration = Duration::from_millis(1);

/// Timers are looked at this often; ICE and DTLS repeat after 50 ms at the earliest.
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_start_at_the_ramp_and_stop_at_the_target() {
        let (mut ramp, begin) = (Ramp::default(), clock::monotonic());
        assert_eq!(ramp.next(10.0, begin), None, "nothing was asked for");
        ramp.raise(3, begin);
        assert_eq!((ramp.next(10.0, begin), ramp.next(10.0, begin)), (Some(0), None));
        let later = begin + Duration::from_secs(1);
        let started: Vec<usize> = std::iter::from_fn(|| ramp.next(10.0, later)).collect();
        assert_eq!(started, [1, 2]);
        ramp.raise(5, later);
        assert_eq!((ramp.next(10.0, later), ramp.next(10.0, later)), (Some(3), None));
    }
}
