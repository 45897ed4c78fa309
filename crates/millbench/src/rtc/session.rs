//! One publisher or viewer from its first request to its end.
//!
//! ```text
//! Asking ─answer─▶ Connecting ─keys─▶ (viewer: Starting ─first key frame─▶) Up
//!    └────────────────┴──────────────────────────┴────▶ Failed(why)
//! ```

use std::time::Instant;

use group_send::RecvBatch;

use super::counters::Counters;
use super::link::{Link, MediaDatagram, News};
use super::media::Media;
use super::publisher::{Encrypted, Plain, Publisher};
use super::rtmp::RtmpPublisher;
use super::viewer::Viewer;

/// State of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The server has not answered yet.
    Asking,
    /// ICE and DTLS.
    Connecting,
    /// A viewer that has no frame yet.
    Starting,
    /// It works.
    Up,
    /// It does not; the text is the same for all that fail alike.
    Failed(String),
}

/// What a session does.
pub enum Role {
    /// Sends by WHIP; the state is there once it is connected.
    Publisher(Option<Box<Publisher>>),
    /// Sends plain RTP.
    Feed(Box<(Publisher, Plain)>),
    /// Sends by RTMP; the state is there once there is a socket.
    Rtmp(Option<Box<RtmpPublisher>>),
    /// Receives; the state is there once there is a connection to receive by.
    Viewer(Option<Box<Viewer>>),
}

/// A session.
pub struct Session {
    /// Number among those of its role.
    pub number: usize,
    /// Its state.
    pub phase: Phase,
    /// What it does.
    pub role: Role,
    /// When it began.
    pub begun: Instant,
    /// Path of the session at the server, once there is one.
    pub location: Option<String>,
    /// The connection, from the answer on.
    pub link: Option<Link>,
}

/// What the loop lends to a session.
pub struct Lent<'a> {
    /// The time.
    pub now: Instant,
    /// Wall clock, nanoseconds.
    pub wall_ns: u64,
    /// What all count together.
    pub counters: &'a mut Counters,
    /// What publishers send.
    pub media: &'a Media,
    /// For RTCP.
    pub scratch: &'a mut Vec<u8>,
}

impl Session {
    /// A session that has just been asked for.
    pub fn new(number: usize, role: Role, now: Instant) -> Session {
        let phase = if matches!(role, Role::Feed(_)) { Phase::Up } else { Phase::Asking };
        Session { number, phase, role, begun: now, location: None, link: None }
    }

    /// An RTMP publisher whose connection has begun, or why it has not.
    pub fn rtmp(number: usize, publisher: Result<RtmpPublisher, String>, now: Instant) -> Session {
        let (publisher, failure) = match publisher {
            Ok(publisher) => (Some(Box::new(publisher)), None),
            Err(why) => (None, Some(why)),
        };
        let mut session = Session::new(number, Role::Rtmp(publisher), now);
        session.phase = failure.map_or(Phase::Connecting, Phase::Failed);
        session
    }

    /// Whether it sends.
    pub fn is_publisher(&self) -> bool {
        !matches!(self.role, Role::Viewer(_))
    }

    /// Ends it with a reason, unless it has one already.
    pub fn fail(&mut self, reason: String) {
        self.link = None;
        if let Role::Rtmp(publisher) = &mut self.role {
            *publisher = None;
        }
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Failed(reason);
        }
    }

    /// Receives until the socket is empty. Returns whether a publisher may begin.
    pub fn handle_ready(&mut self, batch: &mut RecvBatch, lent: &mut Lent<'_>) -> bool {
        let Session { link, role, .. } = self;
        if let Role::Rtmp(Some(publisher)) = role {
            let began = publisher.handle_ready(lent.wall_ns, lent.counters);
            return self.after_rtmp(began, lent);
        }
        let Some(link) = link else { return false };
        let (media, now) = (lent.media, lent.now);
        for _ in 0..BATCHES_PER_EVENT_MAX {
            let take = |link: &mut Link, datagram: MediaDatagram<'_>, counters: &mut Counters| {
                take_media(role, link, media, now, datagram, counters);
            };
            match link.receive(batch, now, lent.wall_ns, lent.counters, take) {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => {
                    self.fail(reason);
                    return false;
                }
            }
        }
        let signalled = self.link.as_ref().is_some_and(Link::is_signalled);
        self.after(signalled, lent)
    }

    /// Runs what is due: timers, reports, held datagrams. Returns whether a publisher may begin.
    pub fn run(&mut self, lent: &mut Lent<'_>) -> bool {
        let Session { link: Some(link), role, .. } = self else { return false };
        let (media, now) = (lent.media, lent.now);
        if link.is_impaired() {
            link.run_lines(now, lent.counters, |link, datagram, counters| {
                take_media(role, link, media, now, datagram, counters);
            });
        }
        if let Role::Viewer(Some(viewer)) = role {
            viewer.report(link, now, lent.scratch, lent.counters);
        }
        self.after(true, lent)
    }

    /// Handles the result of an RTMP publisher.
    fn after_rtmp(&mut self, began: Result<bool, String>, lent: &mut Lent<'_>) -> bool {
        let began = began.unwrap_or_else(|why| {
            self.fail(why);
            false
        });
        if began {
            self.phase = Phase::Up;
            lent.counters.connected.record_ns((lent.now - self.begun).as_nanos() as u64);
        }
        began
    }

    /// Runs the link and handles its news.
    fn after(&mut self, run: bool, lent: &mut Lent<'_>) -> bool {
        let Some(link) = &mut self.link else { return false };
        let news = if run { link.run(lent.now, lent.counters) } else { None };
        if let Role::Viewer(Some(viewer)) = &mut self.role {
            viewer.ask(link, lent.now, lent.scratch, lent.counters);
            if let (Phase::Starting | Phase::Connecting, Some(at)) = (&self.phase, viewer.up_at) {
                self.phase = Phase::Up;
                lent.counters.first_key.record_ns((at - self.begun).as_nanos() as u64);
            }
        }
        match news {
            None => false,
            Some(News::Over(reason)) => {
                self.fail(reason);
                false
            }
            Some(News::Connected) if self.is_publisher() => {
                self.phase = Phase::Up;
                lent.counters.connected.record_ns((lent.now - self.begun).as_nanos() as u64);
                true
            }
            Some(News::Connected) => {
                if self.phase == Phase::Connecting {
                    self.phase = Phase::Starting;
                }
                false
            }
        }
    }

    /// Closes the connection.
    pub fn end(&mut self, now: Instant, counters: &mut Counters) {
        if let Some(link) = &mut self.link {
            link.close(now, counters);
        }
        if let Role::Rtmp(Some(publisher)) = &mut self.role {
            publisher.end(counters);
        }
    }

    /// Sends what a publisher has to send by now; when it has to again, wall clock nanoseconds.
    pub fn send_due(&mut self, lent: &mut Lent<'_>) -> Option<u64> {
        let Lent { now, wall_ns, media, .. } = *lent;
        match &mut self.role {
            Role::Publisher(Some(publisher)) => {
                let mut egress = Encrypted { link: self.link.as_mut()?, now };
                Some(publisher.send_due(media, now, wall_ns, &mut egress, lent.counters))
            }
            Role::Feed(feed) => {
                let (publisher, egress) = &mut **feed;
                Some(publisher.send_due(media, now, wall_ns, egress, lent.counters))
            }
            Role::Rtmp(Some(publisher)) => publisher.send_due(wall_ns, lent.counters).unwrap_or_else(|why| {
                self.fail(why);
                None
            }),
            Role::Publisher(None) | Role::Rtmp(None) | Role::Viewer(_) => None,
        }
    }
}

fn take_media(
    role: &mut Role,
    link: &mut Link,
    media: &Media,
    now: Instant,
    datagram: MediaDatagram<'_>,
    counters: &mut Counters,
) {
    match role {
        Role::Viewer(Some(viewer)) => viewer.receive(link, now, datagram, counters),
        Role::Publisher(Some(publisher)) if !datagram.is_rtp => {
            let Some(plain) = link.unprotect(datagram, counters) else { return };
            publisher.receive_rtcp(media, plain, &mut Encrypted { link, now }, counters);
        }
        _ => counters.early += 1,
    }
}

/// A sender that is faster than this program must not occupy it with one socket.
const BATCHES_PER_EVENT_MAX: usize = 16;
