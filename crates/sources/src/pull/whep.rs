//! A stream played from a WHEP endpoint.
//!
//! The session is `webrtc::Link`'s, order, loss and frames are `rtc_client::Receiver`'s.

use std::fmt;
use std::net::SocketAddr;

use media::Frame;
use rtc_client::{Outgoing, Receiver, received};
use rtp::rtcp::NtpTime;
use sfu::WallClock;
use tokio::time::{Instant, sleep_until};
use worker_api::time::since_1970;

use super::failure::Failure;
use crate::peer::cut;
use crate::settings::SourceSettings;
use crate::webrtc::{Arrived, Endpoint, Link};

/// An open stream.
pub(super) struct WhepPlay {
    link: Link,
    receiver: Receiver,
    packets: Vec<Outgoing>,
}

impl WhepPlay {
    /// Offers to play, and connects. Frames come with [`fill`](Self::fill).
    pub(super) async fn open(endpoint: &Endpoint, settings: &SourceSettings) -> Result<Self, Failure> {
        let opened = Link::open(endpoint, settings, |_| received(), |_, _, _| None).await;
        let opened = opened.map_err(|error| Failure::new(cut(&error.reason)))?;
        if opened.answer.tracks.iter().all(Option::is_none) {
            return Err(Failure::new("the server sends neither audio nor video that is known".to_owned()));
        }
        let now = Instant::now().into_std();
        let clock = WallClock { at: now, ntp: NtpTime::from_unix(since_1970()) };
        let receiver = Receiver::new(now, clock, opened.identity.ssrc(4), &opened.answer.tracks);
        Ok(Self { link: opened.link, receiver, packets: Vec::new() })
    }

    /// Waits for bytes, and says how many came. Nothing is lost when it is dropped while it waits.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        let Self { link, receiver, packets } = self;
        receiver.poll(Instant::now().into_std(), packets);
        for packet in packets.drain(..) {
            // What has no room is lost, as on the way.
            let _ = link.send(&packet);
        }
        let due = receiver.next_timeout().map(Instant::from_std);
        let arrived = tokio::select! {
            arrived = link.fill() => arrived.map_err(Failure::new)?,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Ok(0),
        };
        let now = Instant::now().into_std();
        match arrived {
            Arrived::Rtp(packet) => {
                receiver.rtp(now, packet);
                Ok(packet.len())
            }
            Arrived::Rtcp(compound) => match receiver.rtcp(now, compound) {
                true => Err(Failure::new("the server ended the stream".to_owned())),
                false => Ok(compound.len()),
            },
            Arrived::Nothing => Ok(0),
        }
    }

    /// The next frame that has come as a whole.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        self.receiver.next_frame().map(std::sync::Arc::unwrap_or_clone)
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.link.peer()
    }
}

impl fmt::Debug for WhepPlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhepPlay").field("link", &self.link).finish_non_exhaustive()
    }
}
