//! A stream published to an RTMP server.
//!
//! The protocol is `rtmp::client`'s, the connection is `wire.rs`'s; this moves bytes between them,
//! and says what the server cannot carry: codecs of Enhanced RTMP are sent only to servers that
//! state it in their answer to `connect`.

use std::fmt;

use media::{FlvBody, Frame, FrameRole, MediaKind};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::flv::TagBody;
use sources::backoff::random;
use sources::peer::plain;
use sources::settings::SourceSettings;
use tokio::time::timeout;

use crate::failure::{Failure, NotSent};
use crate::wire::{Moved, Wire};

/// An open publication.
pub(crate) struct RtmpPush {
    wire: Wire,
    session: ClientSession,
    /// The server has accepted.
    is_accepted: bool,
    /// Time of the first frame of audio or video, in milliseconds: the stream begins with 0 at the server.
    base_ms: Option<i64>,
}

impl RtmpPush {
    /// Connects and publishes; the server has accepted when this returns.
    pub(crate) async fn open(
        url: &RtmpUrl,
        settings: &SourceSettings,
        own_ports: &[u16],
    ) -> Result<Self, Failure> {
        let wire = Wire::open(&url.host, url.port, url.tls, settings, own_ports).await?;
        let config = ClientConfig {
            max_message_bytes: settings.message_bytes_max,
            partial_memory_bytes: settings.message_bytes_max.saturating_mul(2),
            // Media that a server sends to its publisher is not wanted.
            keep_payload_bytes: Some(0),
            flash_version: concat!("FMLE/3.0 (compatible; millstream/", env!("CARGO_PKG_VERSION"), ")")
                .into(),
            ..ClientConfig::default()
        };
        let mut push = Self {
            wire,
            // The filler bytes of the handshake are no secret.
            session: ClientSession::publish(url, &config, random().into()),
            is_accepted: false,
            base_ms: None,
        };
        let accepted = timeout(settings.connect_timeout, push.wait_for_start()).await;
        accepted.map_err(|_| Failure::new("the server does not accept the stream in time"))??;
        Ok(push)
    }

    async fn wait_for_start(&mut self) -> Result<(), Failure> {
        loop {
            self.drive().await?;
            if self.is_accepted {
                return Ok(());
            }
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        let (kind, is_enhanced) = (frame.track.kind, self.session.server_is_enhanced());
        let plain;
        let mut body = TagBody::of(frame);
        if !is_enhanced && body.as_ref().is_some_and(|body| needs_enhanced(kind, body)) {
            // H.264 and AAC may have come in the form of Enhanced RTMP, and have a plain one too.
            let times = (frame.dts, frame.pts);
            plain = Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec());
            body = TagBody::of(&plain);
            if body.as_ref().is_none_or(|body| needs_enhanced(kind, body)) {
                let what = match frame.track.index {
                    0 => frame.codec.to_string(),
                    _ => "further tracks".to_owned(),
                };
                return Err(NotSent::Track(format!(
                    "the server does not announce Enhanced RTMP, without which RTMP cannot carry {what}"
                )));
            }
        }
        let Some(body) = body else {
            return match frame.flv_body() {
                // It is in the body of another frame.
                FlvBody::Sent => Ok(()),
                _ if matches!(frame.role, FrameRole::Other | FrameRole::Metadata) => Ok(()),
                _ => Err(NotSent::Track(format!("RTMP cannot carry {}", frame.codec))),
            };
        };
        let time_ms = frame.dts.millis();
        // Headers of a stream that began long ago may say its beginning, or 0.
        let base_ms = match frame.role {
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => *self.base_ms.get_or_insert(time_ms),
            _ => self.base_ms.unwrap_or(time_ms),
        };
        // Wraps as RTMP's time does. What is earlier than the begin is at the begin.
        let timestamp = (time_ms - base_ms).max(0) as u32;
        let [head, rest] = body.parts();
        if head.is_empty() {
            self.session.send_media(kind, timestamp, rest);
        } else {
            self.session.send_media(kind, timestamp, &[head, rest].concat());
        }
        // Here it counts: the next frame waits in the queue, which has limits.
        self.wire.put(self.session.output());
        Ok(())
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        self.wire.send(self.session.output())?;
        match self.wire.drive().await? {
            Moved::Wrote(bytes) => Ok(bytes),
            Moved::Read(read) => {
                let taken = self.session.handle_input(self.wire.read(read));
                taken.map_err(|error| {
                    Failure::new(format!("the server breaks the protocol: {}", error.reason()))
                })?;
                self.take_events()?;
                Ok(0)
            }
        }
    }

    fn take_events(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.session.poll_event() {
            match event {
                ClientEvent::Started => self.is_accepted = true,
                ClientEvent::Rejected { code, description } => {
                    return Err(Failure::new(format!("the server refuses: {}", plain(&code, &description))));
                }
                ClientEvent::Ended { code } => {
                    return Err(Failure::new(format!("the server ended the stream: {}", plain(&code, ""))));
                }
                ClientEvent::Media(_) | ClientEvent::Status { .. } => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) {
        self.session.end();
        if self.wire.send(self.session.output()).is_ok() {
            self.wire.finish().await;
        }
    }
}

impl fmt::Debug for RtmpPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtmpPush").field("peer", &self.wire.peer()).finish_non_exhaustive()
    }
}

/// Whether a body has a form of Enhanced RTMP: its first bit with video, its first four with audio.
fn needs_enhanced(kind: MediaKind, body: &TagBody<'_>) -> bool {
    let first = body.parts().into_iter().find_map(|part| part.first().copied()).unwrap_or_default();
    match kind {
        MediaKind::Video => first & 0x80 != 0,
        MediaKind::Audio => first >> 4 == 9,
        MediaKind::Data => false,
    }
}

#[cfg(test)]
mod tests {
    use media::{Codec, Timestamp, TrackId};
    use range_reader::http::address::AddressPolicy;
    use rtmp::server::{ServerConfig, ServerEvent, ServerSession};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Lets a client publish, and gives the times of its first messages.
    async fn first_times(listener: TcpListener, count: usize) -> Vec<u32> {
        let (mut socket, _) = listener.accept().await.expect("a client");
        let mut session = ServerSession::new(&ServerConfig::default(), 1);
        let (mut input, mut times) = ([0; 4096], Vec::new());
        while times.len() < count {
            let read = socket.read(&mut input).await.expect("it is connected");
            assert!(read > 0, "the client has gone: {times:?}");
            session.handle_input(&input[..read]).expect("RTMP");
            while let Some(event) = session.poll_event() {
                match event {
                    ServerEvent::Connect(_) => session.accept_connect(),
                    ServerEvent::Publish(_) => session.accept_publish(),
                    ServerEvent::Media(message) => times.push(message.timestamp),
                    _ => {}
                }
            }
            let output = std::mem::take(session.output());
            socket.write_all(&output).await.expect("it reads");
        }
        times
    }

    #[tokio::test]
    async fn times_begin_with_the_first_frame_whatever_headers_say() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("rtmp://{}/live/a", listener.local_addr().expect("its address"));
        let mut times = tokio::spawn(first_times(listener, 4));
        let settings = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
        let url: RtmpUrl = url.parse().expect("a URL");
        let mut push = RtmpPush::open(&url, &settings, &[]).await.expect("accepted");
        for (role, ms, data) in [
            (FrameRole::Config, 0, vec![0x12, 0x10]),
            (FrameRole::Audio, 36_000_000, vec![7]),
            (FrameRole::Config, 0, vec![0x11, 0x90]),
            (FrameRole::Audio, 36_000_020, vec![7]),
        ] {
            let time = Timestamp::from_millis(ms);
            let frame = Frame::new(TrackId::AUDIO, role, Codec::Aac, (time, time), data);
            push.send(&frame).expect("it is carried");
        }
        let times = loop {
            tokio::select! {
                // The server closes the connection when it has them.
                biased;
                times = &mut times => break times.expect("four messages"),
                driven = push.drive() => drop(driven.expect("it is connected")),
            }
        };
        assert_eq!(times, [0, 0, 0, 20]);
    }
}
