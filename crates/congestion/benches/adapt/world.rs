//! Viewers, and perhaps a TCP flow, behind one bottleneck, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use congestion::{Ecn, Kind, PacketReport};
use netsim::{Clock, Random};

use crate::path::{Fate, MS, Path, PathConfig, SECOND, Us};
use crate::sender::{Epoch, Sender};
use crate::tcp::{self, Tcp};

/// Bits per second of the layers of a simulcast.
pub(crate) const LAYERS: [f64; 3] = [150e3, 500e3, 1700e3];
/// A layer is gone up to when the estimate has this much of its rate.
const UP: f64 = 1.06;
/// Largest payload of a packet, and what comes on top of it.
const PAYLOAD: usize = 1160;
const HEADERS: usize = 40;

/// What a viewer is sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    /// Its rate follows the target.
    Elastic,
    /// One of [`LAYERS`].
    Layered,
}

#[derive(Clone)]
pub(crate) struct ViewerConfig {
    pub(crate) contender: &'static str,
    pub(crate) source: Source,
    pub(crate) begins: Us,
    pub(crate) feedback_interval: Us,
    /// No feedback arrives in these.
    pub(crate) silences: Vec<(Us, Us)>,
}

impl ViewerConfig {
    /// One that is there from the beginning, with an elastic source, and reports all the time.
    pub(crate) fn ours(feedback_interval: Us) -> Self {
        Self {
            contender: "ours",
            source: Source::Elastic,
            begins: 0,
            feedback_interval,
            silences: Vec::new(),
        }
    }
}

#[derive(Clone, Copy)]
struct Packet {
    bytes: usize,
    /// Number of the video stream, for repeats; padding has none.
    video: Option<u64>,
    frame: u64,
    frame_end: bool,
    repeat: bool,
}

/// What was measured of one viewer.
#[derive(Default)]
pub(crate) struct Measured {
    /// Bits of video that arrived for the first time, in each 100 ms.
    pub(crate) arrived: Vec<f64>,
    /// Bits that were given to the path.
    pub(crate) sent: Vec<f64>,
    pub(crate) waits: Vec<Us>,
    pub(crate) packets: u64,
    pub(crate) overflowed: u64,
    pub(crate) lost: u64,
    pub(crate) marked: u64,
    pub(crate) padding_bytes: u64,
    /// When frames were complete, in order, and their layer.
    pub(crate) shown: Vec<(Us, usize)>,
    /// Longest that video waited for the pacer, of each frame.
    pub(crate) paced: Vec<Us>,
    /// Estimate and target each 100 ms.
    pub(crate) rates: Vec<(f64, f64)>,
    pub(crate) layers: Vec<usize>,
}

impl Measured {
    fn add(bins: &mut Vec<f64>, at: Us, bits: f64) {
        let bin = (at / (100 * MS)) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0.0);
        }
        bins[bin] += bits;
    }
}

struct Viewer {
    config: ViewerConfig,
    sender: Sender,
    random: Random,
    // Source.
    layer: usize,
    /// When the key frame of a layer that was asked for comes.
    switch: Option<(Us, usize)>,
    up_since: Option<Us>,
    down_at: Option<Us>,
    key_due: bool,
    next_video: u64,
    next_frame: u64,
    debt: f64,
    // Pacer.
    queue: VecDeque<(Us, Packet)>,
    wake: Us,
    next_number: u64,
    kept: BTreeMap<u64, Packet>,
    /// Until when a packet is not sent again: it waits, or was sent a moment ago.
    repeated: BTreeMap<u64, Us>,
    // Receiver.
    last_reported: Option<u64>,
    arrived: BTreeMap<u64, (i64, bool)>,
    highest: Option<u64>,
    highest_video: Option<u64>,
    missing: BTreeMap<u64, (Us, u32)>,
    frames: BTreeMap<u64, FrameState>,
    next_shown: u64,
    measured: Measured,
}

struct FrameState {
    packets: usize,
    arrived: usize,
    layer: usize,
    sent: Us,
}

enum Event {
    Frame(usize),
    Wake(usize),
    Arrive(usize, u64, Packet, bool),
    Report(usize),
    Feedback(usize, Vec<PacketReport>),
    Nack(usize, Vec<u64>),
    Tick,
    TcpArrive(u64),
    TcpAck(u64),
}

pub(crate) struct World {
    epoch: Epoch,
    now: Us,
    path: Path,
    viewers: Vec<Viewer>,
    tcp: Option<(Us, Tcp)>,
    /// The TCP flow sends nothing new from then on.
    pub(crate) tcp_ends: Us,
    events: BinaryHeap<Reverse<(Us, u64)>>,
    bodies: BTreeMap<u64, Event>,
    counter: u64,
    random: Random,
}

const FRAME: Us = 40 * MS;

impl World {
    pub(crate) fn new(path: PathConfig, viewers: Vec<ViewerConfig>, tcp: Option<Us>, seed: u64) -> Self {
        let epoch = Epoch(Clock::new().now());
        let mut random = Random::new(seed);
        let viewers: Vec<_> = viewers
            .into_iter()
            .map(|config| Viewer {
                sender: Sender::new(config.contender, epoch, config.begins),
                random: Random::new(random.next_u64()),
                layer: if config.contender == "fixed" { 2 } else { 0 },
                switch: None,
                up_since: None,
                down_at: None,
                key_due: true,
                next_video: 0,
                next_frame: 0,
                debt: 0.0,
                queue: VecDeque::new(),
                wake: 0,
                next_number: 60_000,
                kept: BTreeMap::new(),
                repeated: BTreeMap::new(),
                last_reported: None,
                arrived: BTreeMap::new(),
                highest: None,
                highest_video: None,
                missing: BTreeMap::new(),
                frames: BTreeMap::new(),
                next_shown: 0,
                measured: Measured::default(),
                config,
            })
            .collect();
        let mut world = Self {
            epoch,
            now: 0,
            path: Path::new(path, random.next_u64()),
            viewers,
            tcp: tcp.map(|from| (from, Tcp::new())),
            tcp_ends: Us::MAX,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            counter: 0,
            random,
        };
        for at in 0..world.viewers.len() {
            let begins = world.viewers[at].config.begins;
            world.after(begins, Event::Frame(at));
            world.after(begins + 30 * MS, Event::Report(at));
        }
        world.after(0, Event::Tick);
        world
    }

    fn after(&mut self, delay: Us, event: Event) {
        self.counter += 1;
        self.events.push(Reverse((self.now + delay, self.counter)));
        self.bodies.insert(self.counter, event);
    }

    /// Runs until `end`. What was measured of each viewer, and bytes of the TCP flow that arrived.
    pub(crate) fn run(mut self, end: Us) -> (Vec<Measured>, u64) {
        while let Some(Reverse((at, id))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            match self.bodies.remove(&id).expect("each event has a body") {
                Event::Frame(viewer) => self.frame(viewer),
                Event::Wake(viewer) => {
                    if self.viewers[viewer].wake == self.now {
                        self.send(viewer);
                    }
                }
                Event::Arrive(viewer, number, packet, marked) => self.arrive(viewer, number, packet, marked),
                Event::Report(viewer) => self.report(viewer),
                Event::Feedback(viewer, reports) => {
                    let silent = self.viewers[viewer]
                        .config
                        .silences
                        .iter()
                        .any(|(from, to)| (*from..*to).contains(&self.now));
                    if !silent {
                        self.viewers[viewer].sender.feedback(&reports, self.now, self.epoch);
                        self.send(viewer);
                    }
                }
                Event::Nack(viewer, numbers) => self.repeat(viewer, &numbers),
                Event::Tick => self.tick(),
                Event::TcpArrive(number) => {
                    let delay = self.path.config.delay;
                    self.after(delay, Event::TcpAck(number));
                }
                Event::TcpAck(number) => {
                    let now = self.now;
                    if let Some((_, tcp)) = &mut self.tcp {
                        tcp.acknowledged(number, now);
                    }
                    self.send_tcp();
                }
            }
        }
        let tcp = self.tcp.map_or(0, |(_, tcp)| tcp.acked_bytes);
        (self.viewers.into_iter().map(|viewer| viewer.measured).collect(), tcp)
    }

    /// Every 100 ms: deadlines, and what is drawn.
    fn tick(&mut self) {
        let (now, epoch) = (self.now, self.epoch);
        for viewer in &mut self.viewers {
            viewer.sender.handle_timeout(now, epoch);
            let rates = (viewer.sender.estimate(), viewer.sender.media_target(now, epoch));
            viewer.measured.rates.push(rates);
            viewer.measured.layers.push(viewer.layer);
        }
        if let Some((from, tcp)) = &mut self.tcp
            && now >= *from
        {
            tcp.timed_out(now);
            self.send_tcp();
        }
        self.after(100 * MS, Event::Tick);
    }

    fn send_tcp(&mut self) {
        let Some((_, tcp)) = self.tcp.as_mut().filter(|_| self.now < self.tcp_ends) else { return };
        let mut arrivals = Vec::new();
        while let Some(number) = tcp.poll(self.now) {
            if let Fate::Arrives { at, .. } = self.path.send(self.now, tcp::BYTES) {
                arrivals.push((at - self.now, number));
            }
        }
        for (delay, number) in arrivals {
            self.after(delay, Event::TcpArrive(number));
        }
    }

    /// A picture of the source.
    fn frame(&mut self, at: usize) {
        let (now, epoch) = (self.now, self.epoch);
        let key_frame_after = 100 * MS + self.random.below(100 * MS);
        let viewer = &mut self.viewers[at];
        let estimate = viewer.sender.estimate();
        let fixed = viewer.config.contender == "fixed";
        let rate = match viewer.config.source {
            Source::Elastic => viewer.sender.media_target(now, epoch),
            Source::Layered => {
                if !fixed {
                    viewer.select(now, estimate, key_frame_after);
                }
                LAYERS[viewer.layer]
            }
        };
        viewer.sender.demand(match viewer.config.source {
            Source::Elastic => 8e6,
            Source::Layered => LAYERS[2] * 1.25,
        });
        let waits = viewer.queue.front().is_some_and(|(since, _)| now - since > 250 * MS);
        // A layer that is left or cannot be sent in time is not sent; a source that follows pauses.
        let leaving = viewer.switch.is_some_and(|(_, layer)| layer < viewer.layer);
        if !(leaving || waits) || fixed {
            let noise = 0.8 + 0.4 * viewer.random.below(1000) as f64 / 1000.0;
            let mut bytes = rate / 8.0 * FRAME as f64 / 1e6 * noise;
            if viewer.key_due && viewer.config.source == Source::Layered {
                // Five times a usual picture; those that follow are smaller for a while.
                viewer.debt += 4.0 * bytes;
                bytes *= 5.0;
            } else {
                let back = viewer.debt.min(0.2 * bytes);
                viewer.debt -= back;
                bytes -= back;
            }
            viewer.key_due = false;
            let packets = (bytes / PAYLOAD as f64).ceil().max(1.0) as usize;
            let each = (bytes / packets as f64) as usize + HEADERS;
            let frame = viewer.next_frame;
            viewer.next_frame += 1;
            viewer.frames.insert(frame, FrameState { packets, arrived: 0, layer: viewer.layer, sent: now });
            for number in 0..packets {
                let frame_end = number + 1 == packets;
                let packet =
                    Packet { bytes: each, video: Some(viewer.next_video), frame, frame_end, repeat: false };
                viewer.next_video += 1;
                viewer.queue.push_back((now, packet));
            }
        }
        self.send(at);
        self.after(FRAME, Event::Frame(at));
    }

    /// Sends what may be sent.
    fn send(&mut self, at: usize) {
        loop {
            let (now, epoch) = (self.now, self.epoch);
            let viewer = &mut self.viewers[at];
            let allowance = viewer.sender.pacing(now, epoch);
            let mut left = allowance.bytes.min(1 << 30) as i64;
            let mut sent = false;
            while left > 0 {
                let Some((since, packet)) = viewer.queue.pop_front() else { break };
                if packet.frame_end && !packet.repeat {
                    viewer.measured.paced.push(now - since);
                }
                left -= packet.bytes as i64;
                sent = true;
                let kind = if packet.repeat { Kind::Repeat } else { Kind::Video };
                viewer.hand_over(
                    &mut self.path,
                    now,
                    epoch,
                    packet,
                    kind,
                    &mut self.events,
                    &mut self.bodies,
                    &mut self.counter,
                    at,
                );
            }
            if !sent && allowance.padding_bytes > 0 {
                sent = true;
                let packet = Packet {
                    bytes: allowance.padding_bytes,
                    video: None,
                    frame: 0,
                    frame_end: false,
                    repeat: false,
                };
                viewer.measured.padding_bytes += packet.bytes as u64;
                viewer.hand_over(
                    &mut self.path,
                    now,
                    epoch,
                    packet,
                    Kind::Padding,
                    &mut self.events,
                    &mut self.bodies,
                    &mut self.counter,
                    at,
                );
            }
            if sent && left > 0 {
                continue;
            }
            if let Some(next) = allowance.next {
                // Timers of a worker: milliseconds.
                let next = epoch.us(next).max(now + 1).next_multiple_of(MS);
                if viewer.wake <= now || next < viewer.wake {
                    viewer.wake = next;
                    self.after(next - now, Event::Wake(at));
                }
            } else if sent {
                continue;
            }
            return;
        }
    }

    fn arrive(&mut self, at: usize, number: u64, packet: Packet, marked: bool) {
        let now = self.now;
        let viewer = &mut self.viewers[at];
        let ticks = (now / 250) as i64;
        if viewer.last_reported.is_none_or(|last| number > last) {
            viewer.arrived.insert(number, (ticks * 250, marked));
        }
        viewer.highest = viewer.highest.max(Some(number));
        let Some(video) = packet.video else { return };
        // Gaps are asked for at once.
        let mut wanted = Vec::new();
        if let Some(highest) = viewer.highest_video {
            for gap in highest + 1..video {
                viewer.missing.insert(gap, (now, 1));
                wanted.push(gap);
            }
        }
        let first = viewer.highest_video.is_none_or(|highest| video > highest)
            || viewer.missing.remove(&video).is_some();
        viewer.highest_video = viewer.highest_video.max(Some(video));
        if first {
            Measured::add(&mut viewer.measured.arrived, now, packet.bytes as f64 * 8.0);
            if let Some(frame) = viewer.frames.get_mut(&packet.frame) {
                frame.arrived += 1;
            }
            viewer.show(now);
        }
        let again = 2 * self.path.config.delay + 60 * MS;
        for (number, (asked, times)) in &mut viewer.missing {
            if now - *asked > again && *times < 8 {
                *asked = now;
                *times += 1;
                wanted.push(*number);
            }
        }
        if !wanted.is_empty() {
            let delay = self.path.config.delay;
            self.after(delay, Event::Nack(at, wanted));
        }
    }

    /// What arrived goes back as feedback.
    fn report(&mut self, at: usize) {
        let lost = {
            let share = self.path.config.loss;
            self.random.chance(share)
        };
        let viewer = &mut self.viewers[at];
        if let Some(highest) = viewer.highest
            && viewer.last_reported.is_none_or(|last| highest > last)
        {
            let from = viewer.last_reported.map_or(60_000, |last| last + 1);
            let reports: Vec<_> = (from..=highest)
                .map(|number| {
                    let arrival = viewer.arrived.remove(&number);
                    let ecn = match arrival {
                        Some((_, true)) => Ecn::Marked,
                        Some(_) if self.path.config.mark_above.is_some() => Ecn::Capable,
                        _ => Ecn::None,
                    };
                    PacketReport {
                        number: number as u16,
                        arrival_us: arrival.map(|(us, _)| us + 77_777_000),
                        ecn,
                    }
                })
                .collect();
            viewer.last_reported = Some(highest);
            if !lost {
                let delay = self.path.config.delay;
                self.after(delay, Event::Feedback(at, reports));
            }
        }
        let interval = self.viewers[at].config.feedback_interval;
        self.after(interval, Event::Report(at));
    }

    fn repeat(&mut self, at: usize, numbers: &[u64]) {
        let now = self.now;
        let viewer = &mut self.viewers[at];
        for number in numbers.iter().rev() {
            if viewer.repeated.get(number).is_some_and(|until| now < *until) {
                continue;
            }
            if let Some(packet) = viewer.kept.get(number) {
                viewer.repeated.insert(*number, Us::MAX);
                viewer.queue.push_front((now, Packet { repeat: true, ..*packet }));
            }
        }
        self.send(at);
    }
}

impl Viewer {
    #[expect(clippy::too_many_arguments, reason = "parts of the world that are borrowed apart")]
    fn hand_over(
        &mut self,
        path: &mut Path,
        now: Us,
        epoch: Epoch,
        packet: Packet,
        kind: Kind,
        events: &mut BinaryHeap<Reverse<(Us, u64)>>,
        bodies: &mut BTreeMap<u64, Event>,
        counter: &mut u64,
        at: usize,
    ) {
        let number = self.next_number;
        self.next_number += 1;
        self.sender.sent(number as u16, packet.bytes, now, kind, epoch);
        self.measured.packets += 1;
        Measured::add(&mut self.measured.sent, now, packet.bytes as f64 * 8.0);
        if let Some(video) = packet.video {
            if packet.repeat {
                self.repeated.insert(video, now + 2 * path.config.delay + 40 * MS);
            }
            self.kept.insert(video, packet);
            while self.kept.len() > 2000 {
                self.kept.pop_first();
            }
        }
        match path.send(now, packet.bytes) {
            Fate::Arrives { at: arrives, waited, marked } => {
                self.measured.waits.push(waited);
                self.measured.marked += u64::from(marked);
                *counter += 1;
                events.push(Reverse((arrives, *counter)));
                bodies.insert(*counter, Event::Arrive(at, number, packet, marked));
            }
            Fate::Overflow => self.measured.overflowed += 1,
            Fate::Lost => self.measured.lost += 1,
        }
    }

    /// Chooses a layer: down at once, up after the rate has been there for 200 ms.
    fn select(&mut self, now: Us, estimate: f64, key_frame_after: Us) {
        if let Some((comes, layer)) = self.switch {
            if now >= comes {
                self.layer = layer;
                self.key_due = true;
                self.switch = None;
            } else if layer > 0 && estimate < LAYERS[layer] && layer > self.layer {
                self.switch = None;
            } else {
                return;
            }
        }
        let fits = LAYERS.iter().rposition(|rate| *rate <= 0.98 * estimate).unwrap_or(0);
        if self.layer > 0 && estimate < 0.98 * LAYERS[self.layer] {
            self.switch = Some((now + key_frame_after, fits.min(self.layer - 1)));
            // Of the layer that is left nothing more is sent.
            self.drop_waiting();
            self.down_at = Some(now);
            self.up_since = None;
        } else if self.layer < 2
            && estimate >= UP * LAYERS[self.layer + 1]
            && self.down_at.is_none_or(|at| now - at > SECOND)
        {
            let since = *self.up_since.get_or_insert(now);
            if now - since >= 200 * MS {
                let best = LAYERS.iter().rposition(|rate| estimate >= UP * rate).unwrap_or(0);
                self.switch = Some((now + key_frame_after, best));
                self.up_since = None;
            }
        } else {
            self.up_since = None;
        }
    }

    fn drop_waiting(&mut self) {
        // Numbers go on without a gap, as a server rewrites them.
        for (_, packet) in self.queue.drain(..) {
            self.frames.remove(&packet.frame);
            if let Some(video) = packet.video
                && !packet.repeat
            {
                self.next_video = self.next_video.min(video);
            }
        }
    }

    /// Shows frames that are complete, in order; one that takes longer than 800 ms is left out.
    fn show(&mut self, now: Us) {
        while self.next_shown < self.next_frame {
            if let Some(frame) = self.frames.get(&self.next_shown) {
                if frame.arrived >= frame.packets {
                    self.measured.shown.push((now, frame.layer));
                } else if now - frame.sent < 800 * MS {
                    return;
                }
            }
            self.frames.remove(&self.next_shown);
            self.next_shown += 1;
        }
    }
}
