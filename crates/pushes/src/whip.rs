//! A stream published to a WHIP endpoint.
//!
//! The session is `sources::webrtc`'s, packets, reports and retransmissions are
//! `rtc_client::Sender`'s; AAC and MP3 become Opus (`opus.rs`). A large picture is not sent at
//! once: a network loses what comes in bursts.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::{Frame, MediaKind};
use rtc_client::{NotSent as Refused, Outgoing, Sender, carried, formats, sent};
use rtp::rtcp::NtpTime;
use sfu::WallClock;
use sources::settings::SourceSettings;
use sources::webrtc::{Arrived, Endpoint, Link, OpenError, Opened};
use tokio::time::{Instant, sleep_until};
use worker_api::time::since_1970;

use crate::failure::{Failure, LOOP, NotSent};
use crate::opus::{Transcoded, Transcoder};
use crate::spec::is_this_server;

/// Packets that wait before no more frames are taken: those of one large picture.
const WAITING_MAX: usize = 512;
/// Packets sent at once.
const BURST: usize = 16;
/// Time between two bursts.
const BURST_INTERVAL: Duration = Duration::from_millis(1);

/// Receivers report every few seconds (RFC 3550 section 6.2, RFC 8834 section 4.1). One that is not
/// heard of for this long takes nothing.
const REPORTED_WITHIN: Duration = Duration::from_secs(60);

/// A longer time without media is a pause.
const PAUSE: Duration = Duration::from_secs(1);

/// An open publication.
pub(crate) struct WhipPush {
    link: Link,
    sender: Sender,
    transcoder: Option<Transcoder>,
    /// A packet that found no room.
    held: Option<Outgoing>,
    next_at: Instant,
    /// Key frames that the server had asked for when that was last looked at.
    key_frames_asked: u64,
    reports: Reports,
}

/// What the server says of what it gets.
#[derive(Debug)]
struct Reports {
    /// For how long media was sent since it last said something.
    unheard: Duration,
    /// When media was sent last.
    sent_at: Instant,
}

impl Reports {
    fn new(now: Instant) -> Self {
        Self { unheard: Duration::ZERO, sent_at: now }
    }

    /// Media is sent. A publisher that pauses is no server that is silent.
    fn sent(&mut self, now: Instant) {
        self.unheard += now.duration_since(self.sent_at).min(PAUSE);
        self.sent_at = now;
    }

    /// It has said something.
    fn came(&mut self) {
        self.unheard = Duration::ZERO;
    }

    fn are_missing(&self) -> bool {
        self.unheard > REPORTED_WITHIN
    }
}

/// Ports of this server to which a push does not go: by its own URL, and by a redirect.
#[derive(Clone, Copy)]
pub(crate) struct OwnPorts<'a> {
    pub(crate) first: &'a [u16],
    pub(crate) redirected: &'a [u16],
}

impl WhipPush {
    /// Offers a stream that begins with `begin`, and connects.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        settings: &SourceSettings,
        own_ports: OwnPorts<'_>,
        begin: &[Arc<Frame>],
    ) -> Result<Self, Failure> {
        let formats = formats(begin.iter().map(|frame| &**frame));
        let has_video = begin.iter().any(|frame| frame.track.kind == MediaKind::Video);
        let refused = formats.refused.as_ref();
        let refused = refused.and_then(|refused| if has_video { refused.video } else { refused.audio });
        if let Some(refused) = refused {
            return Err(Failure::lasting(refused.to_string()));
        }
        if formats.video.is_none() && formats.audio.is_none() {
            return Err(Failure::lasting("the stream has nothing that WebRTC carries"));
        }
        // Where a redirect leads, its name is another one: to this server it goes in no case.
        let is_refused = |local, peer, is_redirected| {
            let ports = if is_redirected { own_ports.redirected } else { own_ports.first };
            let is_own = is_this_server(local, peer, ports);
            is_own.then(|| OpenError { reason: LOOP.to_owned(), is_lasting: true })
        };
        let opened = Link::open(endpoint, settings, |identity| sent(&formats, identity), is_refused).await;
        let Opened { mut link, identity, offer, answer } = opened.map_err(failed)?;
        let (main, codec) = match &formats.video {
            Some(video) => (MediaKind::Video, Some(video.codec)),
            None => (MediaKind::Audio, formats.audio),
        };
        if let (None, Some(codec)) = (carried(&answer.tracks, main), codec) {
            link.close().await;
            return Err(Failure::lasting(format!("the server does not take {codec}")));
        }
        let now = Instant::now();
        let clock = WallClock { at: now.into_std(), ntp: NtpTime::from_unix(since_1970()) };
        let sender = Sender::new(now.into_std(), clock, &identity, &offer.media, &answer.tracks);
        sender.remembered().for_each(|ssrc| link.remember_packets(ssrc));
        let (transcoder, held, key_frames_asked) = (None, None, 0);
        let reports = Reports::new(now);
        Ok(Self { link, sender, transcoder, held, next_at: now, key_frames_asked, reports })
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        let taken = self.sender.frame(Instant::now().into_std(), frame);
        for piece in self.sender.take_audio() {
            if self.transcoder.is_none() {
                self.transcoder = Transcoder::start().ok();
            }
            let Some(transcoder) = &mut self.transcoder else {
                return Err(NotSent::Track("there is no thread to transcode its audio".to_owned()));
            };
            if !transcoder.push(piece) {
                return Err(NotSent::Frame);
            }
        }
        if let Some(warning) = self.sender.take_warning() {
            tracing::warn!(warning, "push by WHIP");
        }
        taken.map_err(|refused| match refused {
            Refused::Track(reason) => NotSent::Track(reason),
            Refused::Changed(reason) => NotSent::Changed(reason),
        })
    }

    pub(crate) fn has_room(&self) -> bool {
        self.sender.waiting() < WAITING_MAX
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the server has asked for a key frame since the last call.
    pub(crate) fn take_key_frame_request(&mut self) -> bool {
        let asked = self.sender.stats().key_frames_asked;
        std::mem::replace(&mut self.key_frames_asked, asked) != asked
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        let now = Instant::now();
        // ICE alone says that the server is there, not that anybody takes what is sent.
        if self.reports.are_missing() {
            return Err(Failure::new("the server does not report what it gets"));
        }
        self.sender.poll(now.into_std());
        let waits = self.held.is_some() || self.sender.waiting() > 0;
        if waits && self.next_at <= now {
            return Ok(self.burst(now));
        }
        let due = if waits { Some(self.next_at) } else { self.sender.next_timeout().map(Instant::from_std) };
        let Self { link, sender, transcoder, reports, .. } = self;
        tokio::select! {
            arrived = link.fill() => {
                if let Arrived::Rtcp(compound) = arrived.map_err(Failure::new)? {
                    reports.came();
                    sender.rtcp(Instant::now().into_std(), compound);
                }
            }
            transcoded = next_of(transcoder) => match transcoded {
                Some(Ok(audio)) => sender.audio(Instant::now().into_std(), &audio),
                Some(Err(reason)) => sender.refuse_audio(reason),
                None => {
                    *transcoder = None;
                    sender.refuse_audio("the thread that transcodes its audio has ended");
                }
            },
            () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
        }
        Ok(0)
    }

    fn burst(&mut self, now: Instant) -> u64 {
        let mut bytes = 0;
        for _ in 0..BURST {
            let Some(packet) = self.held.take().or_else(|| self.sender.poll_packet()) else { break };
            match self.link.send(&packet) {
                Some(sent) => bytes += sent as u64,
                None => {
                    self.held = Some(packet);
                    break;
                }
            }
        }
        self.reports.sent(now);
        self.next_at = now + BURST_INTERVAL;
        bytes
    }

    pub(crate) async fn finish(mut self) {
        let mut has_ended = false;
        loop {
            while self.held.is_some() || self.sender.waiting() > 0 {
                if self.drive().await.is_err() {
                    break;
                }
            }
            if std::mem::replace(&mut has_ended, true) {
                break;
            }
            self.sender.end();
        }
        self.link.close().await;
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.link.peer()
    }
}

impl fmt::Debug for WhipPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhipPush").field("link", &self.link).finish_non_exhaustive()
    }
}

async fn next_of(transcoder: &mut Option<Transcoder>) -> Option<Transcoded> {
    match transcoder {
        Some(transcoder) => transcoder.next().await,
        None => std::future::pending().await,
    }
}

fn failed(error: OpenError) -> Failure {
    Failure { reason: error.reason, is_lasting: error.is_lasting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_reports_nothing_of_a_minute_of_media_is_given_up() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut reports = Reports::new(began);
        (0..=60_000).step_by(40).for_each(|ms| reports.sent(at(ms)));
        assert!(!reports.are_missing());
        reports.sent(at(60_040));
        assert!(reports.are_missing());
        reports.came();
        assert!(!reports.are_missing());
        // An hour without media says nothing of the server.
        reports.sent(at(3_600_000));
        assert!(!reports.are_missing());
    }
}
