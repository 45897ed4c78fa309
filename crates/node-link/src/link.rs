//! One link: the state of both nodes' streams on it, and whether the other node is there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use tracing::{debug, trace};

use crate::error::{Goodbye, LinkError, Refusal, StreamEnd, StreamRefusal};
use crate::fetch::{Fetch, State};
use crate::frame;
use crate::hello::{self, Binding, Node, Role, Said, Secret};
use crate::limits::{
    AWAY_AFTER, CONTROL_BYTES_MAX, HELLO_WITHIN, PART_BYTES_LEAST, PING_BUSY, PING_IDLE, ROUND_TRIP_MAX,
    ROUND_TRIPS_KEPT, SILENT_BUSY, SILENT_IDLE, SLOW_FOR, STREAMS_MAX, TURN_BYTES,
};
use crate::message::{Message, Position, Publication, StreamKey};
use crate::serve::Serve;

/// A stream that this node fetches, on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FetchId(u32);

/// A stream that this node serves, on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServeId(u32);

/// The link has [`STREAMS_MAX`] streams already, or is not up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// What the other node did.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It introduced itself and has the secret. To a listener: answer by [`Link::accept`] or
    /// [`Link::refuse`]. To a dialer: the link is up.
    Hello(Node),
    /// It asks for a stream: answer by [`Link::accept_stream`] or [`Link::refuse_stream`].
    Subscribe(ServeId, String),
    /// It does not want a stream any more; the number is free.
    Unsubscribe(ServeId),
    /// It serves a stream.
    Accepted(FetchId, Publication),
    /// It does not, for this reason; these nodes may. The number is free.
    Refused(FetchId, StreamRefusal, Vec<String>),
    /// A frame. Say when it is used: [`Link::used`].
    Frame(FetchId, Frame),
    /// It left out so many frames before the next one: the link is slower than the stream.
    Gap(FetchId, u32),
    /// The stream is over; the number is free.
    End(FetchId, StreamEnd),
    /// Where datagrams for it go (packets).
    Relay(String),
    /// The next key of a stream (packets).
    Key(FetchId, StreamKey),
    /// Where datagrams of a stream go, and the first one that is missing there (packets).
    Attach(ServeId, u16, Option<Position>),
    /// A node of this name had the keys of a stream of packets by way of the other node, which feeds it no
    /// more.
    Left(ServeId, String),
    /// It closes the link.
    Goodbye(Goodbye),
}

/// Counts of one link, since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Bytes received, without those of TLS.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Frames received.
    pub frames_in: u64,
    /// Frames queued to be sent.
    pub frames_out: u64,
    /// Frames of these that were left out.
    pub left_out: u64,
    /// Frames that the other node left out.
    pub missed: u64,
    /// Frames that came of a stream that this node had let go.
    pub unwanted: u64,
    /// The shortest of the last round trips.
    pub round_trip: Option<Duration>,
}

/// One connection between two nodes; see the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Link {
    role: Role,
    me: Node,
    secret: Secret,
    binding: Binding,
    state: LinkState,
    input: Vec<u8>,
    events: VecDeque<Event>,
    /// Messages other than frames that are to be sent.
    control: Vec<u8>,
    fetches: HashMap<u32, Fetch>,
    last_fetch: u32,
    serves: HashMap<u32, Served>,
    /// Streams with something to send, in turn.
    ready: VecDeque<u32>,
    failed: Option<LinkError>,
    /// When the other node has to have introduced itself; later, when to ping.
    due: Duration,
    /// When the first ping was sent since anything was heard.
    unheard_since: Option<Duration>,
    /// When the other node said last that it left frames out.
    gap_at: Option<Duration>,
    pinged: Option<(u32, Duration)>,
    last_ping: u32,
    round_trips: VecDeque<Duration>,
    stats: LinkStats,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// The other node has not introduced itself.
    Waiting,
    /// It has, and is to be accepted or refused.
    Introduced,
    Up,
    /// Nothing is read any more.
    Over,
}

#[derive(Debug)]
struct Served {
    /// Absent until it is accepted, and for packets.
    frames: Option<Serve>,
    window: u32,
    /// It is in the list of those with something to send.
    is_ready: bool,
    /// Bytes that it may send before it is the next one's turn.
    allowance: i64,
    /// To be said once all frames are sent.
    end: Option<StreamEnd>,
}

impl Link {
    /// A link on a connection that this node opened. It introduces itself at once.
    ///
    /// # Panics
    /// If the name or the software of `me` is longer than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    pub fn dial(now: Duration, me: Node, secret: Secret, binding: Binding) -> Self {
        let mut link = Self::new(now, Role::Dialer, me, secret, binding);
        link.put_hello();
        link
    }

    /// A link on a connection that this node accepted. It says nothing until the other node is accepted.
    ///
    /// # Panics
    /// As [`Link::dial`].
    pub fn listen(now: Duration, me: Node, secret: Secret, binding: Binding) -> Self {
        Self::new(now, Role::Listener, me, secret, binding)
    }

    fn new(now: Duration, role: Role, me: Node, secret: Secret, binding: Binding) -> Self {
        for text in [&me.name, &me.software] {
            assert!((1..=crate::NAME_BYTES_MAX).contains(&text.len()), "names are checked before");
        }
        Self {
            role,
            me,
            secret,
            binding,
            state: LinkState::Waiting,
            input: Vec::new(),
            events: VecDeque::new(),
            control: Vec::new(),
            fetches: HashMap::new(),
            last_fetch: 0,
            serves: HashMap::new(),
            ready: VecDeque::new(),
            failed: None,
            due: now + HELLO_WITHIN,
            unheard_since: None,
            gap_at: None,
            pinged: None,
            last_ping: 0,
            round_trips: VecDeque::new(),
            stats: LinkStats::default(),
        }
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// The link is over.
    pub fn handle_input(&mut self, now: Duration, bytes: &[u8]) -> Result<(), LinkError> {
        self.unheard_since = None;
        self.stats.bytes_in += bytes.len() as u64;
        if self.state == LinkState::Over {
            return Ok(());
        }
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let result = self.read(now, &input);
        if let Ok(used) = result {
            input.drain(..used);
            self.input = input;
        }
        self.settle(result.map(|_| ()))
    }

    /// Does what is due.
    ///
    /// # Errors
    /// The link is over.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), LinkError> {
        let result = self.check(now);
        self.settle(result)
    }

    /// When to call [`Link::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Duration> {
        match (self.state, self.unheard_since) {
            _ if self.failed.is_some() => Some(Duration::ZERO),
            (LinkState::Over, _) => None,
            (LinkState::Up, Some(since)) => Some(self.due.min(since + self.silent_after(since))),
            _ => Some(self.due),
        }
    }

    /// The next thing that the other node did.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Appends what is to be sent now to `out`: all messages that are no frames, then frames and parts of
    /// them, as long as `bytes_max` leaves [`PART_BYTES_LEAST`] bytes of room. Their heads may exceed it.
    pub fn poll_output(&mut self, now: Duration, out: &mut Vec<u8>, bytes_max: usize) {
        let begin = out.len();
        out.append(&mut self.control);
        let has_room = |out: &Vec<u8>| out.len() + PART_BYTES_LEAST <= bytes_max;
        while has_room(out)
            && let Some(id) = self.ready.pop_front()
        {
            let Some(served) = self.serves.get_mut(&id) else { continue };
            let Some(frames) = &mut served.frames else { continue };
            // Equal shares of bytes, not of messages: else a stream of large frames gets most of the link.
            if served.allowance <= 0 {
                served.allowance += TURN_BYTES;
            }
            while served.allowance > 0 && has_room(out) && frames.has_output() {
                let before = out.len();
                let room = bytes_max - before;
                self.stats.left_out += u64::from(frames.put_next(now, id, room, out));
                served.allowance -= (out.len() - before) as i64;
            }
            served.is_ready = frames.has_output();
            match (served.is_ready, served.allowance > 0) {
                (true, true) => self.ready.push_front(id),
                (true, false) => self.ready.push_back(id),
                (false, _) => served.allowance = served.allowance.min(0),
            }
            if let (Some(why), true) = (served.end, frames.is_empty()) {
                self.serves.remove(&id);
                Message::End { id, why }.put(out);
            }
        }
        self.stats.bytes_out += (out.len() - begin) as u64;
    }

    /// Whether [`Link::poll_output`] has something.
    pub fn has_output(&self) -> bool {
        !self.control.is_empty() || !self.ready.is_empty()
    }

    /// Whether the link is over, by an error or a goodbye of either side.
    pub fn is_over(&self) -> bool {
        self.state == LinkState::Over
    }

    /// Lets the other node in, after [`Event::Hello`].
    pub fn accept(&mut self, now: Duration) {
        if self.state == LinkState::Introduced {
            self.put_hello();
            self.come_up(now);
        }
    }

    /// Refuses the other node, after [`Event::Hello`].
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.state == LinkState::Introduced {
            hello::put_refusal(&mut self.control, &self.me.software, refusal);
            self.state = LinkState::Over;
        }
    }

    /// Says why this node closes the link; nothing more is read or sent but what waits already.
    pub fn say_goodbye(&mut self, why: Goodbye) {
        if self.state == LinkState::Up {
            Message::Goodbye(why).put(&mut self.control);
            self.state = LinkState::Over;
            self.ready.clear();
        }
    }

    /// Asks for a stream. The answer is [`Event::Accepted`] or [`Event::Refused`].
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn subscribe(&mut self, stream: &str) -> Result<FetchId, TooMany> {
        if self.state != LinkState::Up || self.fetches.len() >= STREAMS_MAX {
            return Err(TooMany);
        }
        self.last_fetch = self.last_fetch.checked_add(1).ok_or(TooMany)?;
        let id = self.last_fetch;
        self.fetches.insert(id, Fetch::new());
        Message::Subscribe { id, window: crate::WINDOW_BYTES, stream }.put(&mut self.control);
        self.hurry();
        Ok(FetchId(id))
    }

    /// This node does not want the stream any more: nothing more comes of it.
    pub fn unsubscribe(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id.0)
            && fetch.state != State::LetGo
        {
            fetch.state = State::LetGo;
            let mut unwanted = u64::from(fetch.is_coming());
            self.events.retain(|event| match event {
                Event::Frame(of, _) if *of == id => {
                    unwanted += 1;
                    false
                }
                Event::Accepted(of, _) | Event::Gap(of, _) | Event::Key(of, _) => *of != id,
                _ => true,
            });
            self.note_unwanted(id.0, unwanted);
            self.put(&Message::Unsubscribe { id: id.0 });
        }
    }

    /// Frames of this [cost](crate::cost) were handed on, and as many more may come.
    pub fn used(&mut self, id: FetchId, cost: usize) {
        if let Some(fetch) = self.fetches.get_mut(&id.0)
            && let Some(bytes) = fetch.used(cost)
            && fetch.state == State::Accepted
        {
            self.put(&Message::Credit { id: id.0, bytes });
        }
    }

    /// Where datagrams of a stream of packets are to go, and the first one that is missing here.
    pub fn attach(&mut self, id: FetchId, handle: u16, from: Option<Position>) {
        if self.fetches.get(&id.0).is_some_and(|fetch| fetch.state == State::Accepted) {
            self.put(&Message::Attach { id: id.0, handle, from });
        }
    }

    /// A node that had the keys of a stream of packets by way of this one is not fed by it any more.
    pub fn left(&mut self, id: FetchId, node: &str) {
        if self.fetches.get(&id.0).is_some_and(|fetch| fetch.state == State::Accepted) {
            self.put(&Message::Left { id: id.0, node });
        }
    }

    /// This node serves the stream: its frames go by [`Link::send`], if it has such.
    ///
    /// # Panics
    /// If the tracks are longer than [`TRACKS_BYTES_MAX`](crate::TRACKS_BYTES_MAX).
    pub fn accept_stream(&mut self, id: ServeId, publication: Publication) {
        assert!(publication.tracks.len() <= crate::TRACKS_BYTES_MAX, "descriptions are checked before");
        if let Some(served) = self.serves.get_mut(&id.0) {
            let has_frames = publication.lane == crate::Lane::Frames;
            served.frames = has_frames.then(|| Serve::new(served.window));
            self.put(&Message::Accept { id: id.0, publication });
        }
    }

    /// This node does not serve the stream; of `others`, at most [`OTHERS_MAX`](crate::OTHERS_MAX) are named.
    pub fn refuse_stream(&mut self, id: ServeId, why: StreamRefusal, mut others: Vec<String>) {
        if self.serves.remove(&id.0).is_some() {
            others.truncate(crate::OTHERS_MAX);
            self.put(&Message::Refuse { id: id.0, why, others });
        }
    }

    /// Queues a frame of a stream that was accepted.
    pub fn send(&mut self, now: Duration, id: ServeId, frame: Arc<Frame>) {
        let Some(served) = self.serves.get_mut(&id.0) else { return };
        let Some(frames) = served.frames.as_mut().filter(|_| served.end.is_none()) else { return };
        self.stats.frames_out += 1;
        self.stats.left_out += u64::from(frames.push(now, frame));
        self.make_ready(id.0);
    }

    /// So many frames of a stream are missing before the next one that is sent: the other node is told.
    pub fn skip(&mut self, id: ServeId, frames: u32) {
        if let Some(frames_of) = self.serves.get_mut(&id.0).and_then(|served| served.frames.as_mut()) {
            frames_of.skip(frames);
        }
    }

    /// The stream is over, once all its frames are sent.
    pub fn end_stream(&mut self, id: ServeId, why: StreamEnd) {
        let Some(served) = self.serves.get_mut(&id.0) else { return };
        if served.frames.as_ref().is_none_or(Serve::is_empty) {
            self.serves.remove(&id.0);
            self.put(&Message::End { id: id.0, why });
        } else {
            served.end.get_or_insert(why);
        }
    }

    /// Where datagrams for this node go.
    ///
    /// # Panics
    /// If the address is longer than [`ADDRESS_BYTES_MAX`](crate::ADDRESS_BYTES_MAX).
    pub fn announce_relay(&mut self, address: &str) {
        assert!(address.len() <= crate::ADDRESS_BYTES_MAX, "addresses are checked before");
        if self.state == LinkState::Up {
            self.put(&Message::Relay { address });
        }
    }

    /// A key of a stream of packets, before anything is sealed with it.
    pub fn send_key(&mut self, id: ServeId, key: &StreamKey) {
        if self.serves.contains_key(&id.0) {
            self.put(&Message::Key { id: id.0, key: key.clone() });
        }
    }

    /// Counts so far.
    pub fn stats(&self) -> LinkStats {
        LinkStats { round_trip: self.round_trip(), ..self.stats }
    }

    /// The shortest of the last round trips.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trips.iter().min().copied()
    }

    /// Reads messages, and returns how many bytes they were.
    fn read(&mut self, now: Duration, input: &[u8]) -> Result<usize, LinkError> {
        let mut used = 0;
        if self.state == LinkState::Waiting {
            match hello::read(input, self.role, &self.secret, &self.binding)? {
                None => return Ok(0),
                Some((Said::Refusal(refusal), _)) => return Err(LinkError::Refused(refusal)),
                Some((Said::Hello(node), len)) => {
                    used = len;
                    self.state = LinkState::Introduced;
                    self.events.push_back(Event::Hello(node));
                    if self.role == Role::Dialer {
                        self.come_up(now);
                    }
                }
            }
        }
        while self.state == LinkState::Up
            && let Some((message, len)) = Message::read(&input[used..])?
        {
            used += len;
            self.handle(now, message)?;
        }
        // A node that was not let in yet has nothing to say.
        if self.state == LinkState::Introduced && input.len() > used {
            return Err(LinkError::Malformed("a message before the answer"));
        }
        Ok(if self.state == LinkState::Over { input.len() } else { used })
    }

    fn handle(&mut self, now: Duration, message: Message<'_>) -> Result<(), LinkError> {
        match message {
            Message::Subscribe { id, window, stream } => self.subscribed(id, window, stream)?,
            Message::Unsubscribe { id } => {
                // It may have ended at the same time.
                if self.serves.remove(&id).is_some() {
                    self.put(&Message::End { id, why: StreamEnd::Unsubscribed });
                    self.events.push_back(Event::Unsubscribe(ServeId(id)));
                }
            }
            Message::Credit { id, bytes } => {
                if let Some(frames) = self.serves.get_mut(&id).and_then(|served| served.frames.as_mut()) {
                    frames.add_credit(bytes);
                    self.make_ready(id);
                }
            }
            Message::Attach { id, handle, from } => {
                if self.serves.get(&id).is_some_and(|served| served.frames.is_none()) {
                    self.events.push_back(Event::Attach(ServeId(id), handle, from));
                }
            }
            Message::Left { id, node } => {
                if self.serves.get(&id).is_some_and(|served| served.frames.is_none()) {
                    self.events.push_back(Event::Left(ServeId(id), node.to_owned()));
                }
            }
            Message::Accept { id, publication } => {
                let fetch = self.fetch(id)?;
                match fetch.state {
                    State::Asked => {
                        fetch.state = State::Accepted;
                        self.events.push_back(Event::Accepted(FetchId(id), publication));
                    }
                    State::Accepted => return Err(LinkError::Malformed("a second acceptance")),
                    State::LetGo => {}
                }
            }
            Message::Refuse { id, why, others } => {
                let state = self.fetch(id)?.state;
                self.fetches.remove(&id);
                if state != State::LetGo {
                    self.events.push_back(Event::Refused(FetchId(id), why, others));
                }
            }
            Message::End { id, why } => {
                let state = self.fetch(id)?.state;
                self.fetches.remove(&id);
                if state != State::LetGo {
                    self.events.push_back(Event::End(FetchId(id), why));
                }
            }
            Message::Frame { id, head_and_bytes } => match self.accepted(id)? {
                Some(fetch) => {
                    let frame = fetch.begin(head_and_bytes)?;
                    self.received(id, frame);
                }
                None => self.note_unwanted(id, 1),
            },
            Message::More { id, bytes } => {
                let frame = self.accepted(id)?.map(|fetch| fetch.go_on(bytes)).transpose()?;
                self.received(id, frame.flatten());
            }
            Message::Gap { id, frames } => {
                self.gap_at = Some(now);
                if let Some(fetch) = self.accepted(id)? {
                    fetch.skip()?;
                    self.stats.missed += u64::from(frames);
                    self.events.push_back(Event::Gap(FetchId(id), frames));
                }
            }
            Message::Relay { address } => self.events.push_back(Event::Relay(address.to_owned())),
            Message::Key { id, key } => {
                if let Some(fetch) = self.accepted(id)? {
                    fetch.count_key(now)?;
                    self.events.push_back(Event::Key(FetchId(id), key));
                }
            }
            Message::Ping(number) => self.put(&Message::Pong(number)),
            Message::Pong(number) => {
                if let Some((_, sent)) = self.pinged.take_if(|(pinged, _)| *pinged == number) {
                    self.round_trips.truncate(ROUND_TRIPS_KEPT - 1);
                    self.round_trips.push_front(now.saturating_sub(sent));
                }
            }
            Message::Goodbye(why) => {
                debug!(%why, "the other node closes the link");
                self.state = LinkState::Over;
                self.events.push_back(Event::Goodbye(why));
            }
        }
        Ok(())
    }

    fn subscribed(&mut self, id: u32, window: u32, stream: &str) -> Result<(), LinkError> {
        if self.serves.contains_key(&id) {
            return Err(LinkError::Malformed("a second subscription of one number"));
        }
        if self.serves.len() >= STREAMS_MAX {
            self.put(&Message::Refuse { id, why: StreamRefusal::TooMany, others: Vec::new() });
            return Ok(());
        }
        self.serves.insert(id, Served { frames: None, window, is_ready: false, allowance: 0, end: None });
        self.hurry();
        self.events.push_back(Event::Subscribe(ServeId(id), stream.to_owned()));
        Ok(())
    }

    /// A stream that this node asked for and that has not ended.
    fn fetch(&mut self, id: u32) -> Result<&mut Fetch, LinkError> {
        self.fetches.get_mut(&id).ok_or(LinkError::Malformed("a message about no stream"))
    }

    /// The same if it was accepted; `None` if this node has let it go.
    fn accepted(&mut self, id: u32) -> Result<Option<&mut Fetch>, LinkError> {
        let fetch = self.fetch(id)?;
        match fetch.state {
            State::Asked => Err(LinkError::Malformed("media before the acceptance")),
            State::Accepted => Ok(Some(fetch)),
            State::LetGo => Ok(None),
        }
    }

    fn received(&mut self, id: u32, frame: Option<Frame>) {
        let Some(frame) = frame else { return };
        trace!(id, bytes = frame::bytes(&frame).len(), "frame");
        self.stats.frames_in += 1;
        self.events.push_back(Event::Frame(FetchId(id), frame));
    }

    fn note_unwanted(&mut self, id: u32, frames: u64) {
        if frames > 0 {
            trace!(id, frames, "frames dropped: their stream was let go");
            self.stats.unwanted += frames;
        }
    }

    fn make_ready(&mut self, id: u32) {
        let Some(served) = self.serves.get_mut(&id) else { return };
        if !served.is_ready && served.frames.as_ref().is_some_and(Serve::has_output) {
            served.is_ready = true;
            self.ready.push_back(id);
        }
    }

    fn put_hello(&mut self) {
        hello::put_hello(&mut self.control, self.role, &self.me, &self.secret, &self.binding);
    }

    fn put(&mut self, message: &Message<'_>) {
        if self.state == LinkState::Over {
            return;
        }
        message.put(&mut self.control);
        if self.control.len() > CONTROL_BYTES_MAX {
            self.failed = Some(LinkError::NotReading);
        }
    }

    fn come_up(&mut self, now: Duration) {
        self.state = LinkState::Up;
        self.due = now;
    }

    fn is_busy(&self) -> bool {
        !self.fetches.is_empty() || !self.serves.is_empty()
    }

    fn silent_after(&self, since: Duration) -> Duration {
        // A link that is too slow for its streams loses packets again and again, and TCP is silent for seconds
        // when it loses one twice.
        let is_slow = self.gap_at.is_some_and(|at| since < at + SLOW_FOR);
        let silent = if self.is_busy() && !is_slow { SILENT_BUSY } else { SILENT_IDLE };
        // The slowest: what waits behind frames on a link that has become slow says so before a gap does.
        let slowest = self.round_trips.iter().max().copied().unwrap_or_default();
        silent + 2 * slowest.min(ROUND_TRIP_MAX)
    }

    /// The link has a stream now: pings are due sooner, beginning with the next time that is asked.
    fn hurry(&mut self) {
        self.due = self.due.min(self.pinged.map_or(Duration::ZERO, |(_, sent)| sent + PING_BUSY));
    }

    /// Notices silence, and pings.
    fn check(&mut self, now: Duration) -> Result<(), LinkError> {
        match self.state {
            LinkState::Over => return Ok(()),
            LinkState::Waiting | LinkState::Introduced if now >= self.due => return Err(LinkError::NoHello),
            LinkState::Waiting | LinkState::Introduced => return Ok(()),
            LinkState::Up => {}
        }
        if let Some(since) = self.unheard_since {
            let silent_at = since + self.silent_after(since);
            if now >= silent_at && now < silent_at + AWAY_AFTER {
                return Err(LinkError::Silent);
            } else if now >= silent_at {
                // This process stood still, and maybe the other one did not.
                self.unheard_since = None;
            }
        }
        if now >= self.due {
            self.last_ping = self.last_ping.wrapping_add(1);
            // A round trip that takes longer than a ping is measured all the same.
            let is_answered = self.pinged.is_none_or(|(_, sent)| now.saturating_sub(sent) > SILENT_IDLE);
            if is_answered {
                self.pinged = Some((self.last_ping, now));
            }
            self.unheard_since.get_or_insert(now);
            self.due = now + if self.is_busy() { PING_BUSY } else { PING_IDLE };
            self.put(&Message::Ping(self.last_ping));
        }
        Ok(())
    }

    /// Ends the link if something went wrong, and lets the other node know what it can be told.
    fn settle(&mut self, result: Result<(), LinkError>) -> Result<(), LinkError> {
        let result = result.and(self.failed.take().map_or(Ok(()), Err));
        if let Err(error) = &result {
            debug!(%error, "the link ends");
            let listens = self.role == Role::Listener && self.state == LinkState::Waiting;
            match error {
                // The version is in all that is said first: this names it.
                LinkError::OtherVersion { .. } | LinkError::WrongSecret if listens => {
                    hello::put_refusal(&mut self.control, &self.me.software, Refusal::WrongSecret);
                }
                _ => {}
            }
            self.state = LinkState::Over;
            self.ready.clear();
        }
        result
    }
}
