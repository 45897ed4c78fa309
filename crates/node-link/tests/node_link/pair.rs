//! Two links that are joined by connections of a certain rate and delay, in virtual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use node_link::{Binding, Event, FetchId, Lane, Link, LinkError, Node, Publication, Secret, ServeId};

pub(crate) const CLUSTER_SECRET: &[u8] = b"the secret of the cluster";

/// A node's end of a connection.
pub(crate) struct End {
    pub(crate) link: Link,
    pub(crate) events: Vec<Event>,
    pub(crate) error: Option<LinkError>,
    /// What this node sent, with the time of its arrival.
    under_way: VecDeque<(Duration, Vec<u8>)>,
    /// When the connection takes more of this node.
    free_at: Duration,
}

pub(crate) struct Pair {
    pub(crate) now: Duration,
    pub(crate) dialer: End,
    pub(crate) listener: End,
    pub(crate) delay: Duration,
    /// Bytes a second that the connection takes of the listener; of the dialer it takes any number.
    pub(crate) rate: u64,
    /// Nothing arrives.
    pub(crate) is_cut: bool,
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn node(name: &str) -> Node {
    Node { name: name.to_owned(), instance: 7, software: "0.1.0".to_owned() }
}

pub(crate) fn secret() -> Secret {
    Secret::new(CLUSTER_SECRET).unwrap()
}

pub(crate) fn publication() -> Publication {
    Publication { lane: Lane::Frames, instance: 7, epoch: 1, tracks: Vec::new() }
}

pub(crate) fn frame(track: TrackId, role: FrameRole, ms: i64, bytes: usize) -> Arc<Frame> {
    let time = Timestamp::from_millis(ms);
    let data = (0..bytes).map(|at| (at as i64 * 31 + ms) as u8).collect();
    Arc::new(Frame::new(track, role, Codec::H264, (time, time), data))
}

impl End {
    fn new(link: Link) -> Self {
        Self { link, events: Vec::new(), error: None, under_way: VecDeque::new(), free_at: Duration::ZERO }
    }

    /// Puts bytes into the connection that the link did not make.
    pub(crate) fn inject(&mut self, now: Duration, bytes: &[u8]) {
        self.under_way.push_back((now, bytes.to_vec()));
    }

    /// What this node sent and has not arrived, which it never does then.
    pub(crate) fn take_under_way(&mut self) -> Vec<u8> {
        self.under_way.drain(..).flat_map(|(_, bytes)| bytes).collect()
    }

    fn note(&mut self, result: Result<(), LinkError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
        self.events.extend(std::iter::from_fn(|| self.link.poll_event()));
    }

    /// The frames that came of a stream, which are used at once.
    pub(crate) fn take_frames(&mut self, id: FetchId) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.events.retain(|event| match event {
            Event::Frame(of, frame) if *of == id => {
                frames.push(frame.clone());
                false
            }
            _ => true,
        });
        for frame in &frames {
            self.link.used(id, node_link::cost(frame));
        }
        frames
    }
}

impl Pair {
    /// Links before a word was said.
    pub(crate) fn with_secrets(dialer: Secret, listener: Secret) -> Self {
        let (now, binding) = (ms(1_000), || Binding([5; 32]));
        Self {
            now,
            dialer: End::new(Link::dial(now, node("dialer"), dialer, binding())),
            listener: End::new(Link::listen(now, node("listener"), listener, binding())),
            delay: ms(5),
            rate: u64::MAX,
            is_cut: false,
        }
    }

    /// A link that is up.
    pub(crate) fn up() -> Self {
        let mut pair = Self::with_secrets(secret(), secret());
        pair.run(ms(50));
        assert_eq!(pair.listener.events, [Event::Hello(node("dialer"))]);
        pair.listener.link.accept(pair.now);
        pair.run(ms(50));
        assert_eq!(pair.dialer.events, [Event::Hello(node("listener"))]);
        pair.dialer.events.clear();
        pair.listener.events.clear();
        pair
    }

    /// The dialer fetches a stream of the listener.
    pub(crate) fn fetch(&mut self, stream: &str) -> (FetchId, ServeId) {
        let fetched = self.dialer.link.subscribe(stream).unwrap();
        self.run(ms(20));
        let Some(Event::Subscribe(served, name)) = self.listener.events.pop() else {
            panic!("{:?}", self.listener.events);
        };
        assert_eq!(name, stream);
        self.listener.link.accept_stream(served, publication());
        self.run(ms(20));
        assert_eq!(self.dialer.events.pop(), Some(Event::Accepted(fetched, publication())));
        (fetched, served)
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now = self.step(until);
        }
    }

    /// Does what is due, and returns when something is next.
    fn step(&mut self, until: Duration) -> Duration {
        for of_dialer in [true, false] {
            let Self { now, dialer, listener, delay, rate, is_cut } = self;
            let (from, to, rate) =
                if of_dialer { (dialer, listener, u64::MAX) } else { (listener, dialer, *rate) };
            let now = *now;
            while from.under_way.front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = from.under_way.pop_front().unwrap();
                if !*is_cut && to.error.is_none() {
                    let result = to.link.handle_input(now, &bytes);
                    to.note(result);
                }
            }
            if to.link.next_timeout().is_some_and(|at| at <= now) && to.error.is_none() {
                let result = to.link.handle_timeout(now);
                to.note(result);
            }
            if from.link.has_output() && from.free_at <= now {
                let mut out = Vec::new();
                from.link.poll_output(now, &mut out, 8_000);
                from.free_at = now + Duration::from_secs_f64(out.len() as f64 / rate as f64);
                from.under_way.push_back((from.free_at + *delay, out));
            }
        }
        let next = |end: &End| {
            let output = end.link.has_output().then_some(end.free_at);
            let arrival = end.under_way.front().map(|(at, _)| *at);
            let timeout = end.link.next_timeout().filter(|_| end.error.is_none());
            [output, arrival, timeout].into_iter().flatten().min()
        };
        let next = [next(&self.dialer), next(&self.listener)].into_iter().flatten().min();
        next.unwrap_or(until).clamp(self.now + Duration::from_micros(1), until)
    }
}
