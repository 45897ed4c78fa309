//! Traces of sessions: what telemetry exports of their lives, as spans that are complete.
//!
//! A session that is traced carries a [`SessionTrace`], which knows its ids and when its present stage has
//! begun. Each span is handed over when it ends, whole, through one bounded queue that nobody waits for. So
//! the other end keeps nothing about sessions, and what finds no room costs its span and leaves nothing
//! behind. Whoever drives the session says what time it is: nothing here reads a clock.
//!
//! ```text
//! session ----------------------------------------------------------- EndReason
//!   request -> ICE -> DTLS -> first key frame                  (WHIP, WHEP)
//!   request -> first key frame                                 (all others)
//! ```

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::mpsc;

use crate::EndReason;
use crate::snapshot::{Protocol, Role, SessionId};

/// Spans that may wait to be exported; further ones are dropped and counted.
pub const SPANS_MAX: usize = 8_192;
/// Shares of sessions are counted in this.
pub const SAMPLES_OF: u32 = 1_000_000;

/// A step on the way from the request to the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// From when the client began to ask until it was let in.
    Request,
    /// Until there is a path to the peer.
    Ice,
    /// Until there are keys.
    Dtls,
    /// Until the first key frame has come from a publisher, or was sent to a player.
    FirstKeyFrame,
    /// Media flows: no span of its own.
    Media,
}

impl Stage {
    /// Name of its span.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Ice => "ICE",
            Self::Dtls => "DTLS",
            Self::FirstKeyFrame => "first key frame",
            Self::Media => "media",
        }
    }
}

/// What a span is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanKind {
    /// The whole session.
    Session(EndReason),
    /// A stage of it that is done, or that the session has ended in.
    Stage(Stage, Option<EndReason>),
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// Id of the trace.
    pub trace: u128,
    /// Its own id.
    pub id: u64,
    /// Id of the span it is within; zero: none.
    pub parent: u64,
    /// What it is of.
    pub kind: SpanKind,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// The session as the log names it; one that was refused may have none.
    pub session: Option<SessionId>,
    /// How it came in.
    pub protocol: Protocol,
    /// Whether it publishes.
    pub role: Role,
    /// `app/name`.
    pub stream: Arc<str>,
    /// Where its client is.
    pub address: SocketAddr,
}

/// What a request said of the trace that it belongs to (W3C Trace Context, `traceparent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Id of the trace.
    pub trace: u128,
    /// Id of the span that made the request.
    pub span: u64,
    /// Whether whoever began the trace exports it.
    pub is_sampled: bool,
}

impl Parent {
    /// Reads the value of a `traceparent` header (W3C Trace Context section 3.2): `00-`, 32 digits, `-`, 16
    /// digits, `-`, flags. Later versions may add fields. `None` for what is none: a new trace begins then.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, len: usize| {
            text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_hex(version, 2) || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, is_sampled })
    }
}

/// Makes traces and takes their spans. Clones share the queue.
#[derive(Debug, Clone)]
pub struct Traces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spans: mpsc::Sender<Span>,
    dropped: AtomicU64,
    /// How many of [`SAMPLES_OF`] sessions are traced.
    samples: AtomicU64,
    ids: RandomState,
    last_id: AtomicU64,
}

/// Who asks for what.
#[derive(Debug, Clone)]
pub struct Traced {
    /// How it came in.
    pub protocol: Protocol,
    /// Whether it publishes.
    pub role: Role,
    /// `app/name`.
    pub stream: Arc<str>,
    /// Where its client is.
    pub address: SocketAddr,
}

impl Traces {
    /// Traces `samples` of [`SAMPLES_OF`] sessions. Their spans come out of the receiver.
    pub fn new(samples: u32) -> (Self, mpsc::Receiver<Span>) {
        let (spans, received) = mpsc::channel(SPANS_MAX);
        let traces = Self(Arc::new(Inner {
            spans,
            dropped: AtomicU64::new(0),
            samples: AtomicU64::new(samples.into()),
            ids: RandomState::new(),
            last_id: AtomicU64::new(0),
        }));
        (traces, received)
    }

    /// Traces another share from now on.
    pub fn set_samples(&self, samples: u32) {
        self.0.samples.store(samples.into(), Ordering::Relaxed);
    }

    /// Spans for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Begins the trace of a session whose request began at `began`, if it is one of those that are traced.
    /// Whoever sent a `traceparent` has decided that.
    pub fn begin(&self, began: Instant, parent: Option<Parent>, of: Traced) -> Option<Box<SessionTrace>> {
        let trace = match parent {
            Some(parent) => parent.is_sampled.then_some(parent.trace)?,
            None => {
                let trace = u128::from(self.id()) << 64 | u128::from(self.id());
                let samples = self.0.samples.load(Ordering::Relaxed);
                // Of an id that is random.
                let is_sampled = (trace >> 64) as u64 % u64::from(SAMPLES_OF) < samples;
                is_sampled.then_some(trace)?
            }
        };
        Some(Box::new(SessionTrace {
            traces: self.clone(),
            trace,
            root: self.id(),
            parent: parent.map_or(0, |parent| parent.span),
            began,
            stage: Stage::Request,
            stage_began: began,
            session: None,
            of,
        }))
    }

    /// An id that nobody can guess and that is not used again.
    fn id(&self) -> u64 {
        let number = self.0.last_id.fetch_add(1, Ordering::Relaxed);
        self.0.ids.hash_one(number).max(1)
    }

    fn send(&self, span: Span) {
        // Full, or the server ends: nobody waits for telemetry.
        if self.0.spans.try_send(span).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The trace of one session.
#[derive(Debug, Clone)]
pub struct SessionTrace {
    traces: Traces,
    trace: u128,
    root: u64,
    parent: u64,
    began: Instant,
    stage: Stage,
    stage_began: Instant,
    session: Option<SessionId>,
    of: Traced,
}

impl SessionTrace {
    /// It has a session, with the id that the log has.
    pub fn set_session(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    /// What it is in.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Its present stage is over, and `next` begins. Nothing happens if it was there already.
    ///
    /// `now` may be before what was said earlier: a worker reads its clock once a turn, and takes in a
    /// request that began after that.
    pub fn reach(&mut self, now: Instant, next: Stage) {
        let now = now.max(self.stage_began);
        if self.stage < next {
            self.send_stage(now, None);
            (self.stage, self.stage_began) = (next, now);
        }
    }

    /// The session is over, or was refused.
    pub fn end(mut self, now: Instant, reason: EndReason) {
        let now = now.max(self.stage_began);
        if self.stage != Stage::Media {
            self.send_stage(now, Some(reason));
        }
        let (id, parent, began) = (self.root, self.parent, self.began);
        self.send(now, SpanKind::Session(reason), id, parent, began);
    }

    fn send_stage(&mut self, now: Instant, reason: Option<EndReason>) {
        let (id, parent, began) = (self.traces.id(), self.root, self.stage_began);
        self.send(now, SpanKind::Stage(self.stage, reason), id, parent, began);
    }

    fn send(&mut self, ended: Instant, kind: SpanKind, id: u64, parent: u64, began: Instant) {
        let Traced { protocol, role, ref stream, address } = self.of;
        let (trace, session) = (self.trace, self.session);
        let stream = Arc::clone(stream);
        self.traces.send(Span {
            trace,
            id,
            parent,
            kind,
            began,
            ended,
            session,
            protocol,
            role,
            stream,
            address,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn traced() -> Traced {
        let address = "192.0.2.1:5000".parse().expect("an address");
        Traced { protocol: Protocol::Whep, role: Role::Player, stream: "live/mill".into(), address }
    }

    #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn stages_are_children_of_the_session_and_follow_each_other() {
        let (traces, mut spans) = Traces::new(SAMPLES_OF);
        let start = start();
        let at = |ms| start + Duration::from_millis(ms);
        let parent = Parent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut trace = traces.begin(at(0), parent, traced()).expect("it is sampled");
        trace.set_session(SessionId::new(1, 7));
        for (ms, stage) in
            [(10, Stage::Ice), (30, Stage::Dtls), (30, Stage::Dtls), (60, Stage::FirstKeyFrame)]
        {
            trace.reach(at(ms), stage);
        }
        trace.end(at(90), EndReason::ClosedByClient);
        let spans: Vec<Span> = std::iter::from_fn(|| spans.try_recv().ok()).collect();
        let found: Vec<_> = spans.iter().map(|span| (&span.kind, span.began, span.ended)).collect();
        let ended = EndReason::ClosedByClient;
        assert_eq!(
            found,
            [
                (&SpanKind::Stage(Stage::Request, None), at(0), at(10)),
                (&SpanKind::Stage(Stage::Ice, None), at(10), at(30)),
                (&SpanKind::Stage(Stage::Dtls, None), at(30), at(60)),
                (&SpanKind::Stage(Stage::FirstKeyFrame, Some(ended)), at(60), at(90)),
                (&SpanKind::Session(ended), at(0), at(90)),
            ]
        );
        let (root, stages) = spans.split_last().expect("spans");
        assert_eq!(root.parent, 0xb7ad_6b71_6920_3331);
        assert!(stages.iter().all(|span| span.parent == root.id));
        let is_of_session = |span: &Span| span.session == Some(SessionId::new(1, 7));
        assert!(spans.iter().all(|span| is_of_session(span) && span.trace == parent.expect("read").trace));
        let ids: std::collections::HashSet<u64> = spans.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), spans.len());
    }

    #[test]
    fn a_clock_that_was_read_before_makes_no_gap() {
        let (traces, mut spans) = Traces::new(SAMPLES_OF);
        let start = start();
        let at = |ms| start + Duration::from_millis(ms);
        let mut trace = traces.begin(at(5), None, traced()).expect("it is sampled");
        trace.reach(at(2), Stage::Ice);
        trace.reach(at(9), Stage::Dtls);
        trace.end(at(8), EndReason::ClosedByClient);
        let spans: Vec<Span> = std::iter::from_fn(|| spans.try_recv().ok()).collect();
        let found: Vec<_> = spans.iter().map(|span| (span.began, span.ended)).collect();
        assert_eq!(found, [(at(5), at(5)), (at(5), at(9)), (at(9), at(9)), (at(5), at(9))]);
    }

    #[test]
    fn the_share_of_sessions_is_that_of_the_settings_unless_the_client_has_decided() {
        let (traces, _spans) = Traces::new(SAMPLES_OF / 4);
        let count = (0..4_000).filter(|_| traces.begin(start(), None, traced()).is_some()).count();
        assert!((800..1_200).contains(&count), "{count} of 4,000");
        let parent = |is_sampled| Some(Parent { trace: 1, span: 1, is_sampled });
        assert!(traces.begin(start(), parent(false), traced()).is_none());
        traces.set_samples(0);
        assert!(traces.begin(start(), None, traced()).is_none());
        assert!(traces.begin(start(), parent(true), traced()).is_some());
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let (traces, mut spans) = Traces::new(SAMPLES_OF);
        let sent = SPANS_MAX / 2 + 10;
        for _ in 0..sent {
            // Two spans each.
            traces.begin(start(), None, traced()).expect("sampled").end(start(), EndReason::Refused("no"));
        }
        assert_eq!(traces.dropped(), 20);
        let kept = std::iter::from_fn(|| spans.try_recv().ok()).count();
        assert_eq!(kept, SPANS_MAX);
    }

    #[test]
    fn a_parent_is_read_strictly() {
        let sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = Parent::parse(sampled).expect("the example of W3C Trace Context");
        assert_eq!((read.trace >> 96, read.is_sampled), (0x0af7_6519, true));
        let not = Parent::parse(&sampled.replace("-01", "-00")).expect("one that is not exported");
        assert!(!not.is_sampled);
        let later = Parent::parse(&(sampled.replacen("00", "01", 1) + "-more"));
        assert_eq!(later, Some(read), "a later version may have more");
        for wrong in [
            "",
            "00",
            &sampled.to_uppercase(),
            &format!("{sampled}-more"),
            &sampled.replacen("00", "ff", 1),
            &sampled.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &sampled.replace("b7ad6b7169203331", &"0".repeat(16)),
            &sampled.replace("b7ad", "b7a"),
            &sampled.replace("b7ad", "+7ad"),
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }
}
