//! A stream recorded by an RTSP server, over TCP or TLS, media interleaved in the connection.
//!
//! The protocol and the packets are `rtsp::RecordSession`'s, the connection is `wire.rs`'s.

use std::fmt;
use std::sync::Arc;

use media::Frame;
use rtp::rtcp::NtpTime;
use rtsp::{ClientError, NotWritten, Outgoing, RecordSession, RecordSettings};
use sources::pull::RtspUrl;
use sources::settings::SourceSettings;
use tokio::time::{Instant, sleep_until, timeout};
use worker_api::time::since_1970;

use crate::failure::{Failure, NotSent};
use crate::wire::{Moved, Wire};

/// An open publication.
pub(crate) struct RtspPush {
    wire: Wire,
    session: RecordSession,
}

impl RtspPush {
    /// Connects and publishes a stream that begins with `begin`; the server has accepted when this
    /// returns.
    pub(crate) async fn open(
        url: &RtspUrl,
        settings: &SourceSettings,
        own_ports: &[u16],
        begin: &[Arc<Frame>],
    ) -> Result<Self, Failure> {
        let now = Instant::now().into_std();
        let random = rtsp::random();
        let number = |at: usize| u32::from_be_bytes(random[at..at + 4].try_into().expect("four bytes"));
        let mut media = Outgoing::new([number(0), number(4)], now);
        begin.iter().for_each(|frame| media.learn(frame));
        let name = url.path().rsplit('/').next().unwrap_or_default().to_owned();
        let config = RecordSettings {
            url: url.asked().to_owned(),
            login: url.login().cloned(),
            user_agent: concat!("millstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            name,
        };
        let session = RecordSession::new(config, media, now);
        let session = session.ok_or_else(|| Failure::lasting(nothing_carried(begin)))?;
        let wire = Wire::open(&url.host, url.port, url.tls, settings, own_ports).await?;
        let mut push = Self { wire, session };
        let accepted = timeout(settings.connect_timeout, push.wait_for_start()).await;
        accepted.map_err(|_| Failure::new("the server does not accept the stream in time"))??;
        Ok(push)
    }

    async fn wait_for_start(&mut self) -> Result<(), Failure> {
        while !self.session.is_recording() {
            self.drive().await?;
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        let ntp = NtpTime::from_unix(since_1970());
        self.session.write(Instant::now().into_std(), ntp, frame).map_err(|error| match error {
            NotWritten::Track(reason) => NotSent::Track(reason),
            NotWritten::Changed(reason) => NotSent::Changed(reason),
        })?;
        // Here it counts: the next frame waits in the queue, which has limits.
        self.wire.put(self.session.output());
        Ok(())
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        self.session.poll(Instant::now().into_std());
        self.wire.send(self.session.output())?;
        let due = self.session.next_timeout().map(Instant::from_std);
        let moved = tokio::select! {
            moved = self.wire.drive() => moved?,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Ok(0),
        };
        match moved {
            Moved::Wrote(bytes) => Ok(bytes),
            Moved::Read(read) => {
                let now = Instant::now().into_std();
                self.session.handle_input(now, self.wire.read(read)).map_err(failed)?;
                Ok(0)
            }
        }
    }

    pub(crate) async fn finish(mut self) {
        self.session.tear_down();
        if self.wire.send(self.session.output()).is_ok() {
            self.wire.finish().await;
        }
    }
}

impl fmt::Debug for RtspPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtspPush").field("peer", &self.wire.peer()).finish_non_exhaustive()
    }
}

/// Why a stream that begins so has nothing to announce.
fn nothing_carried(begin: &[Arc<Frame>]) -> String {
    let of_media = begin.iter().find(|frame| frame.track.kind != media::MediaKind::Data);
    match of_media {
        Some(frame) if !Outgoing::carries(frame.codec) => format!("RTSP cannot carry {}", frame.codec),
        _ => "the stream has nothing that RTSP carries".to_owned(),
    }
}

/// Wrong credentials stay wrong; anything else may be better soon.
fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::LoginNeeded | ClientError::LoginWrong | ClientError::LoginUnknown => {
            Failure::lasting(error.reason())
        }
        _ => Failure::new(error.reason()),
    }
}
