//! One connection to another node: moves bytes between TLS and the protocol's machine.
//!
//! A connection is driven by one task ([`Io::turn`]). Other tasks of this thread call the machine directly
//! and wake that one; they wait for nothing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cluster::{InstanceId, NodeName};
use media::Frame;
use node_link::{
    Event, FetchId, Goodbye, Link, LinkError, LinkStats, PART_BYTES_LEAST, Position, Publication, ServeId,
    StreamEnd, StreamKey, StreamRefusal,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsStream;
use tracing::trace;

use crate::clock::Clock;
use crate::packets::RelayEnd;
use crate::socket::Socket;
use crate::status::Rates;

/// Bytes read at once, and handed to TLS at once: a record of it.
const READ_BYTES: usize = 16 * 1024;
const WRITE_BYTES: usize = 16 * 1024;
/// The same on a slow link. What was taken from the machine cannot be left out any more, however late it is;
/// and the other node hears nothing while a record is on its way.
const WRITE_BYTES_LEAST: usize = 2 * 1024;
/// A link is slow if what is taken at once needs longer than this: half as much is taken then.
const WRITE_WITHIN: Duration = Duration::from_millis(50);
/// So many bytes more are taken when all that may be was, and needed no longer.
const WRITE_BYTES_STEP: usize = 1024;
/// Time to send what is left on a link that ends.
const CLOSE_WITHIN: Duration = Duration::from_millis(500);

/// For the log.
const CLOSED: &str = "closed without a word";

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// The protocol says so.
    Link(LinkError),
    /// The other node said so.
    Goodbye(Goodbye),
    /// This node said so.
    Closed,
    /// The connection failed, or was closed without a word.
    Connection(String),
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::Goodbye(why) => write!(f, "closed by the other node: {why}"),
            Self::Closed => f.write_str("closed by this node"),
            Self::Connection(error) => f.write_str(error),
        }
    }
}

/// What other tasks of a link's machine use.
#[derive(Debug)]
pub(crate) struct Driven {
    machine: Mutex<Link>,
    /// The machine may have something to send, or another time to come back.
    wake: Notify,
    pub(crate) clock: Clock,
}

impl Driven {
    pub(crate) fn new(machine: Link, clock: Clock) -> Self {
        Self { machine: Mutex::new(machine), wake: Notify::new(), clock }
    }

    /// Calls the machine, whose task then sends what there is.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut Link, Duration) -> T) -> T {
        let mut machine = self.lock();
        let result = call(&mut machine, self.clock.now());
        if machine.has_output() || machine.is_over() {
            self.wake.notify_one();
        }
        result
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Link> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a connection.
pub(crate) struct Io {
    reader: ReadHalf<TlsStream<Socket>>,
    writer: WriteHalf<TlsStream<Socket>>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes that are taken from the machine at once.
    write_bytes: usize,
    /// When they were taken last, and how many.
    taken: (Duration, usize),
    /// Bytes of the output that TLS has.
    written: usize,
    /// TLS has no bytes that the socket does not have.
    is_flushed: bool,
    /// The last thing that was done.
    has_read: bool,
}

impl Io {
    pub(crate) fn new(stream: TlsStream<Socket>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (input, output) = (vec![0; READ_BYTES], Vec::with_capacity(WRITE_BYTES * 2));
        Self {
            reader,
            writer,
            input,
            output,
            write_bytes: WRITE_BYTES,
            taken: (Duration::ZERO, 0),
            written: 0,
            is_flushed: true,
            has_read: false,
        }
    }

    /// Waits until something can be done, and does it. Events of the machine are the caller's to take.
    pub(crate) async fn turn(&mut self, driven: &Driven) -> Result<(), Over> {
        let timeout = {
            let mut machine = driven.lock();
            if self.output.is_empty() && self.is_flushed {
                let now = driven.clock.now();
                machine.poll_output(now, &mut self.output, self.write_bytes);
                self.taken = (now, self.output.len());
            }
            machine.next_timeout()
        };
        let connection = |error: std::io::Error| match error.kind() {
            // No close_notify of TLS; the protocol has a goodbye of its own.
            ErrorKind::UnexpectedEof => Over::Connection(CLOSED.to_owned()),
            _ => Over::Connection(error.to_string()),
        };
        let (unsent, writer) = (&self.output[self.written..], &mut self.writer);
        let has_unsent = !unsent.is_empty() || !self.is_flushed;
        let mut send = pin!(async {
            if unsent.is_empty() { writer.flush().await.map(|()| 0) } else { writer.write(unsent).await }
        });
        // What has come is read before silence is noticed; but a node that never stops sending must not keep
        // this one from doing so.
        if std::mem::take(&mut self.has_read)
            && has_unsent
            && let Some(sent) = poll_once(send.as_mut())
        {
            self.note_sent(driven.clock.now(), sent.map_err(connection)?);
            return Ok(());
        }
        tokio::select! {
            biased;
            read = self.reader.read(&mut self.input) => match read.map_err(connection)? {
                0 => return Err(Over::Connection(CLOSED.to_owned())),
                read => {
                    self.has_read = true;
                    let result = driven.lock().handle_input(driven.clock.now(), &self.input[..read]);
                    result.map_err(Over::Link)?;
                }
            },
            sent = send, if has_unsent => self.note_sent(driven.clock.now(), sent.map_err(connection)?),
            () = driven.wake.notified() => {}
            () = sleep_until(driven.clock.at(timeout.unwrap_or_default())), if timeout.is_some() => {
                driven.lock().handle_timeout(driven.clock.now()).map_err(Over::Link)?;
            }
        }
        Ok(())
    }

    fn note_sent(&mut self, now: Duration, sent: usize) {
        // Nothing was left to be written: what TLS had is in the socket now.
        self.is_flushed = sent == 0;
        self.written += sent;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        if self.is_flushed && self.output.is_empty() {
            let (taken_at, taken) = self.taken;
            let bytes = match now.saturating_sub(taken_at) > WRITE_WITHIN {
                true => self.write_bytes / 2,
                // Less than may be taken says nothing: it fits into an empty socket.
                false if taken + PART_BYTES_LEAST < self.write_bytes => self.write_bytes,
                false => self.write_bytes + WRITE_BYTES_STEP,
            };
            self.write_bytes = bytes.clamp(WRITE_BYTES_LEAST, WRITE_BYTES);
        }
    }

    /// Sends what the machine still has to say, and closes.
    pub(crate) async fn close(mut self, driven: &Driven) {
        driven.lock().poll_output(driven.clock.now(), &mut self.output, 0);
        let sent = async {
            self.writer.write_all(&self.output[self.written..]).await?;
            self.writer.shutdown().await
        };
        let _ = timeout(CLOSE_WITHIN, sent).await;
    }
}

/// The result of a future that needs not to wait. It may be waited for afterwards.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// What comes of a fetched stream. The link is gone when no more does.
#[derive(Debug)]
pub(crate) enum Fetched {
    Accepted(Publication),
    Refused(StreamRefusal, Vec<String>),
    Frame(Frame),
    /// Frames were left out.
    Gap(u32),
    /// The next key of a stream of packets.
    Key(StreamKey),
    End(StreamEnd),
}

/// Where packets of a stream are to go, and the first one that is missing there.
pub(crate) type Attachment = (u16, Option<Position>);

/// Attachments of a stream that were not looked at; a node sends one.
const ATTACHMENTS_MAX: usize = 4;

/// A task that serves a stream.
#[derive(Debug)]
struct Serving {
    stream: String,
    task: AbortHandle,
    attachments: mpsc::Sender<Attachment>,
}

/// Why a frame that came is not handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Another node had brought it before.
    Repeated,
    /// The key frame that it needs is missing.
    Undecodable,
    /// Its stream was let go.
    Unwanted,
}

/// A link that is up.
#[derive(Debug)]
pub(crate) struct NodeLink {
    pub(crate) peer: NodeName,
    pub(crate) instance: InstanceId,
    pub(crate) software: String,
    pub(crate) address: SocketAddr,
    /// This node opened it.
    pub(crate) is_dialed: bool,
    pub(crate) up_since: Duration,
    pub(crate) driven: Driven,
    /// Where what comes of a stream goes. Its length is bounded by the stream's credit.
    fetches: Mutex<HashMap<FetchId, mpsc::UnboundedSender<Fetched>>>,
    /// Tasks that serve a stream.
    serves: Mutex<HashMap<ServeId, Serving>>,
    pub(crate) relay: RelayEnd,
    rates: Mutex<Rates>,
    left_out: [AtomicU64; 3],
}

impl NodeLink {
    pub(crate) fn new(
        peer: (NodeName, InstanceId, String),
        address: SocketAddr,
        is_dialed: bool,
        driven: Driven,
        relay_secret: [u8; 32],
    ) -> Self {
        let (peer, instance, software) = peer;
        Self {
            peer,
            instance,
            software,
            address,
            is_dialed,
            up_since: driven.clock.now(),
            driven,
            fetches: Mutex::default(),
            serves: Mutex::default(),
            relay: RelayEnd::new(relay_secret, is_dialed),
            rates: Mutex::default(),
            left_out: Default::default(),
        }
    }

    /// Moves bytes until the link is over; `serve` begins to serve a stream, `connect` has packets go to an
    /// address, `left` notes that a node had the keys of a stream by way of the other one. [`Self::end`] has
    /// to follow, when nobody finds the link any more.
    pub(crate) async fn run(
        self: &Arc<Self>,
        io: &mut Io,
        serve: impl Fn(&Arc<Self>, ServeId, String, mpsc::Receiver<Attachment>) -> AbortHandle,
        connect: impl Fn(&Arc<Self>, String),
        left: impl Fn(&str, String),
    ) -> Over {
        loop {
            let mut goodbye = None;
            loop {
                let Some(event) = self.driven.lock().poll_event() else { break };
                match event {
                    Event::Subscribe(id, stream) => {
                        let (attachments, attached) = mpsc::channel(ATTACHMENTS_MAX);
                        let task = serve(self, id, stream.clone(), attached);
                        self.serves().insert(id, Serving { stream, task, attachments });
                    }
                    Event::Relay(address) => connect(self, address),
                    Event::Left(id, node) => {
                        if let Some(serving) = self.serves().get(&id) {
                            left(&serving.stream, node);
                        }
                    }
                    Event::Goodbye(why) => goodbye = Some(why),
                    event => self.handle(event),
                }
            }
            if let Some(why) = goodbye {
                return Over::Goodbye(why);
            }
            if self.driven.lock().is_over() {
                return Over::Closed;
            }
            if let Err(over) = io.turn(&self.driven).await {
                return over;
            }
        }
    }

    /// Ends what is fetched and served. Those that fetch look for another node at once, and must not find
    /// this link.
    pub(crate) fn end(&self) {
        self.fetches().clear();
        self.serves().drain().for_each(|(_, serving)| serving.task.abort());
    }

    fn handle(&self, event: Event) {
        let send = |id, fetched| {
            // Who fetched it may have let it go at this moment.
            if let Some(fetch) = self.fetches().get(&id) {
                let _ = fetch.send(fetched);
            }
        };
        match event {
            Event::Accepted(id, publication) => send(id, Fetched::Accepted(publication)),
            Event::Refused(id, why, others) => send(id, Fetched::Refused(why, others)),
            Event::Frame(id, frame) => send(id, Fetched::Frame(frame)),
            Event::Gap(id, frames) => send(id, Fetched::Gap(frames)),
            Event::End(id, why) => send(id, Fetched::End(why)),
            Event::Unsubscribe(id) => {
                if let Some(serving) = self.serves().remove(&id) {
                    serving.task.abort();
                }
            }
            Event::Key(id, key) => send(id, Fetched::Key(key)),
            Event::Attach(id, handle, from) => {
                if let Some(serving) = self.serves().get(&id) {
                    // More than a node has reason to send are left out.
                    let _ = serving.attachments.try_send((handle, from));
                }
            }
            // The node was met before.
            Event::Hello(_) => {}
            Event::Subscribe(..) | Event::Relay(_) | Event::Left(..) | Event::Goodbye(_) => {
                unreachable!("the caller handles these")
            }
        }
    }

    /// Asks for a stream. `None` if the link has too many, or is over.
    pub(crate) fn subscribe(self: &Arc<Self>, stream: &str) -> Option<Subscription> {
        let id = self.driven.with(|machine, _| machine.subscribe(stream)).ok()?;
        let (sender, events) = mpsc::unbounded_channel();
        self.fetches().insert(id, sender);
        Some(Subscription { link: Arc::clone(self), id, events })
    }

    /// The stream is not served by a task any more.
    pub(crate) fn forget(&self, id: ServeId) {
        self.serves().remove(&id);
    }

    pub(crate) fn stats(&self) -> LinkStats {
        self.driven.lock().stats()
    }

    /// Streams that are served on it, and fetched.
    pub(crate) fn streams(&self) -> (usize, usize) {
        (self.serves().len(), self.fetches().len())
    }

    pub(crate) fn count_left_out(&self, why: LeftOut, frames: u64) {
        self.left_out[why as usize].fetch_add(frames, Ordering::Relaxed);
    }

    /// Frames that came since the link is up and were not handed on.
    pub(crate) fn left_out(&self, why: LeftOut) -> u64 {
        self.left_out[why as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn rates(&self) -> Rates {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_rates(&self, rates: Rates) {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = rates;
    }

    fn fetches(&self) -> MutexGuard<'_, HashMap<FetchId, mpsc::UnboundedSender<Fetched>>> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serves(&self) -> MutexGuard<'_, HashMap<ServeId, Serving>> {
        self.serves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that is fetched by a link; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    link: Arc<NodeLink>,
    id: FetchId,
    events: mpsc::UnboundedReceiver<Fetched>,
}

impl Subscription {
    /// What comes next; `None` when the link is gone. The future may be dropped and asked for again.
    pub(crate) async fn next(&mut self) -> Option<Fetched> {
        self.events.recv().await
    }

    /// Whether something is there already.
    pub(crate) fn has_next(&self) -> bool {
        !self.events.is_empty()
    }

    /// Packets of the stream go to this handle, beginning with the first that is missing.
    pub(crate) fn attach(&self, handle: u16, from: Option<Position>) {
        self.link.driven.with(|machine, _| machine.attach(self.id, handle, from));
    }

    /// A node that had the stream's keys from here, by way of others or not, gets the stream no more.
    pub(crate) fn left(&self, node: &NodeName) {
        self.link.driven.with(|machine, _| machine.left(self.id, node.as_str()));
    }

    /// A frame of this cost was handed on, or left out.
    pub(crate) fn used(&self, cost: usize) {
        self.link.driven.with(|machine, _| machine.used(self.id, cost));
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.link.fetches().remove(&self.id);
        let unread = std::iter::from_fn(|| self.events.try_recv().ok());
        let frames = unread.filter(|fetched| matches!(fetched, Fetched::Frame(_))).count();
        if frames > 0 {
            trace!(node = %self.link.peer, frames, "frames dropped: their stream was let go");
            self.link.count_left_out(LeftOut::Unwanted, frames as u64);
        }
        self.link.driven.with(|machine, _| machine.unsubscribe(self.id));
    }
}
