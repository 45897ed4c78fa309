//! What the fuzz targets of `node-link` check: whatever a stranger or another node says, nothing panics, what
//! is kept is bounded by what came, and a link that is over stays so.
//!
//! `crates/node-link/tests/node_link/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::sync::Arc;
use std::time::Duration;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use node_link::{
    Binding, CONTROL_BYTES_MAX, Event, FetchId, Goodbye, Lane, Link, MESSAGE_BYTES_MAX, Node, Publication,
    Secret, ServeId, StreamEnd, StreamRefusal,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("node_link_hello", node_link_hello), ("node_link_messages", node_link_messages)];

/// A stranger at a listener, and behind an address that a dialer opened: nobody without the secret is met.
pub fn node_link_hello(data: &[u8]) {
    let now = Duration::from_secs(1);
    for mut link in [
        Link::dial(now, node("a"), secret(), Binding([1; 32])),
        Link::listen(now, node("a"), secret(), Binding([1; 32])),
    ] {
        let (first, rest) = data.split_at(data.len() / 2);
        let result = link.handle_input(now, first).and_then(|()| link.handle_input(now, rest));
        assert!(link.poll_event().is_none(), "a stranger was met");
        let mut out = Vec::new();
        link.poll_output(now, &mut out, usize::MAX);
        assert!(out.len() <= 512, "{} bytes for a stranger", out.len());
        assert!(!data.starts_with(b"GET ") || result.is_err());
        assert!(link.handle_timeout(now + Duration::from_secs(4)).is_err() || result.is_err());
    }
}

/// A node that has the secret and says what it likes, while this one does what a server does.
pub fn node_link_messages(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new();
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() || world.is_over {
            break;
        }
        world.step(&mut input);
    }
    if world.is_over {
        assert!(world.link.handle_input(world.now, &[10, 0, 1, 1]).is_ok(), "nothing is read any more");
        assert!(world.link.poll_event().is_none());
    }
}

const STEPS_MAX: usize = 128;

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), instance: 7, software: "0.1.0".to_owned() }
}

fn secret() -> Secret {
    Secret::new(b"the secret of the cluster").expect("long enough")
}

struct World {
    now: Duration,
    link: Link,
    is_over: bool,
    fetches: Vec<FetchId>,
    serves: Vec<ServeId>,
    /// Bytes that came, and those of frames that were handed on.
    came: usize,
    frames: usize,
}

impl World {
    fn new() -> Self {
        let now = Duration::from_secs(1);
        let mut link = Link::listen(now, node("a"), secret(), Binding([1; 32]));
        let mut other = Link::dial(now, node("b"), secret(), Binding([1; 32]));
        let mut hello = Vec::new();
        other.poll_output(now, &mut hello, usize::MAX);
        link.handle_input(now, &hello).expect("a node with the secret");
        assert_eq!(link.poll_event(), Some(Event::Hello(node("b"))));
        link.accept(now);
        let (fetches, serves) = (Vec::new(), Vec::new());
        Self { now, link, is_over: false, fetches, serves, came: 0, frames: 0 }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 12 {
            0..=2 => {
                let (kind, len) = (input.byte() % 18, usize::from(input.byte()));
                let body = input.bytes(len);
                let [high, low] = (body.len() as u16).to_be_bytes();
                self.feed(&[&[kind, high, low], body].concat());
            }
            3 => {
                let len = usize::from(input.byte());
                self.feed(input.bytes(len));
            }
            4 => self.fetches.extend(self.link.subscribe("live/a")),
            5 => {
                if let Some(id) = self.chosen_fetch(input) {
                    self.link.unsubscribe(id);
                    self.fetches.retain(|fetched| *fetched != id);
                }
            }
            6 => {
                if let Some(id) = self.chosen_serve(input) {
                    let lane = if input.byte().is_multiple_of(4) { Lane::Packets } else { Lane::Frames };
                    let tracks = input.bytes(8).to_vec();
                    self.link.accept_stream(id, Publication { lane, instance: 1, epoch: 2, tracks });
                }
            }
            7 => {
                if let Some(id) = self.chosen_serve(input) {
                    let others = vec!["c".to_owned()];
                    match input.byte() % 3 {
                        0 => self.link.end_stream(id, StreamEnd::Lost),
                        1 => self.link.refuse_stream(id, StreamRefusal::Full, others),
                        _ => return self.link.announce_relay("192.0.2.1:8290"),
                    }
                    self.serves.retain(|served| *served != id);
                }
            }
            8 | 9 => {
                if let Some(id) = self.chosen_serve(input) {
                    let (role, len) = (input.byte(), usize::from(input.byte()));
                    let role = [FrameRole::Key, FrameRole::Inter, FrameRole::Config][usize::from(role % 3)];
                    let time = Timestamp::from_millis(self.now.as_millis() as i64);
                    let data = vec![role as u8; len * len];
                    let frame = Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), data);
                    self.link.send(self.now, id, Arc::new(frame));
                }
            }
            10 => {
                let mut out = Vec::new();
                let max = usize::from(input.byte()) * 64;
                self.link.poll_output(self.now, &mut out, max);
                assert!(out.len() <= max + MESSAGE_BYTES_MAX + CONTROL_BYTES_MAX);
            }
            _ => {
                self.now += Duration::from_millis(u64::from(input.byte()) * 10);
                let result = self.link.handle_timeout(self.now);
                self.note(result.is_err());
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.came += bytes.len();
        let result = self.link.handle_input(self.now, bytes);
        self.note(result.is_err());
    }

    fn note(&mut self, is_over: bool) {
        self.is_over |= is_over;
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Hello(_) => panic!("a second introduction"),
                Event::Subscribe(id, name) => {
                    assert!(!name.is_empty() && !self.serves.contains(&id));
                    self.serves.push(id);
                }
                Event::Unsubscribe(id) => self.serves.retain(|served| *served != id),
                Event::Frame(id, frame) => {
                    assert!(self.fetches.contains(&id), "a frame of a stream that was let go");
                    self.frames += frame.bytes_held().saturating_sub(64);
                    self.link.used(id, node_link::cost(&frame));
                }
                Event::Refused(id, ..) | Event::End(id, _) => {
                    assert!(self.fetches.contains(&id), "an end of a stream that was let go");
                    self.fetches.retain(|fetched| *fetched != id);
                }
                Event::Accepted(id, _) | Event::Gap(id, _) | Event::Key(id, _) => {
                    assert!(self.fetches.contains(&id), "news of a stream that was let go");
                }
                Event::Attach(..) | Event::Left(..) | Event::Relay(_) => {}
                Event::Goodbye(why) => {
                    assert!(matches!(
                        why,
                        Goodbye::Leaving | Goodbye::Duplicate | Goodbye::WrongNode | Goodbye::NameLost
                    ));
                    self.is_over = true;
                }
            }
        }
        assert!(self.frames <= self.came, "more than came");
    }

    fn chosen_fetch(&self, input: &mut Input<'_>) -> Option<FetchId> {
        let at = usize::from(input.byte());
        self.fetches.get(at % self.fetches.len().max(1)).copied()
    }

    fn chosen_serve(&self, input: &mut Input<'_>) -> Option<ServeId> {
        let at = usize::from(input.byte());
        self.serves.get(at % self.serves.len().max(1)).copied()
    }
}

/// The rest of the input; behind its end there are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// At most `len` bytes.
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
