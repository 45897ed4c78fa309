//! A stream recorded by an RTSP server, over TCP or TLS; media interleaved in the connection, or by UDP.
//!
//! The protocol and the packets are `rtsp::RecordSession`'s, the connection is `wire.rs`'s. Datagrams go to
//! the address that the connection leads to only. Those of a large picture leave in steps of [`BURST`] a
//! millisecond, which receivers with ordinary buffers keep up with.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use rtp::rtcp::NtpTime;
use rtsp::{ClientError, NotWritten, Outgoing, RecordSession, RecordSettings, TRACKS};
use sources::peer::rtp_sockets;
use sources::pull::RtspUrl;
use sources::settings::SourceSettings;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout};
use worker_api::time::since_1970;

use crate::failure::{Failure, NotSent};
use crate::wire::{Moved, Wire};

/// Datagrams sent at a time: 150 Mbit/s.
const BURST: usize = 16;
const BURST_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes that wait to go by UDP before no more frames are taken.
const PENDING_MAX: usize = 64 << 10;

/// An open publication.
pub(crate) struct RtspPush {
    wire: Wire,
    session: RecordSession,
    /// RTP and RTCP of video and audio, by UDP.
    sockets: Vec<[UdpSocket; 2]>,
    /// When the next datagrams leave.
    next_at: Instant,
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
        if media.tracks().next().is_none() {
            return Err(Failure::lasting(nothing_carried(begin)));
        }
        // Ahead of the session, as the sockets have its address family.
        let wire = Wire::open(&url.host, url.port, url.tls, settings, own_ports).await?;
        let (mut sockets, mut ports) = (Vec::new(), [[0; 2]; TRACKS]);
        if url.udp {
            for of_track in &mut ports {
                let pair = rtp_sockets(wire.peer()).await.map_err(Failure::new)?;
                *of_track = [pair[0].local_addr()?.port(), pair[1].local_addr()?.port()];
                sockets.push(pair);
            }
        }
        let config = RecordSettings {
            url: url.asked().to_owned(),
            login: url.login().cloned(),
            user_agent: concat!("millstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            name,
            udp: url.udp.then_some(ports),
        };
        let session = RecordSession::new(config, media, now);
        let session = session.ok_or_else(|| Failure::lasting(nothing_carried(begin)))?;
        let mut push = Self { wire, session, sockets, next_at: Instant::now() };
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

    pub(crate) fn has_room(&self) -> bool {
        self.wire.has_room() && self.session.waiting_bytes() < PENDING_MAX
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        self.session.poll(Instant::now().into_std());
        self.wire.send(self.session.output())?;
        let due = self.session.next_timeout().map(Instant::from_std);
        let has_datagrams = self.session.waiting_bytes() > 0;
        let moved = tokio::select! {
            moved = self.wire.drive() => moved?,
            () = sleep_until(self.next_at), if has_datagrams => return self.send_datagrams(),
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

    fn send_datagrams(&mut self) -> Result<u64, Failure> {
        let Some(peer) = self.wire.peer() else { return Err(Failure::new("the server is gone")) };
        let mut bytes = 0;
        for _ in 0..BURST {
            let Some(datagram) = self.session.next_datagram() else { break };
            let to = SocketAddr::new(peer.ip(), datagram.port);
            let socket = &self.sockets[datagram.track][usize::from(datagram.is_rtcp)];
            match socket.try_send_to(datagram.packet, to) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // Nobody listens there at present, which the connection tells better.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
            bytes += datagram.packet.len() as u64;
            self.session.datagram_sent();
        }
        self.next_at = Instant::now() + BURST_INTERVAL;
        Ok(bytes)
    }

    pub(crate) async fn finish(mut self) {
        while self.session.waiting_bytes() > 0 && self.send_datagrams().is_ok() {
            sleep_until(self.next_at).await;
        }
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
