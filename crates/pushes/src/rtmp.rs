//! A stream published to an RTMP server.
//!
//! The protocol is `rtmp::client`'s, the connection is `sources::peer`'s; this moves bytes between
//! them, and says what the server cannot carry: codecs of Enhanced RTMP are sent only to servers that
//! state it in their answer to `connect`.

use std::fmt;
use std::net::SocketAddr;

use media::{FlvBody, Frame, FrameRole, MediaKind};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::flv::TagBody;
use sources::backoff::random;
use sources::peer::{Connected, Stream, connect, said};
use sources::settings::SourceSettings;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::failure::{Failure, LOOP, NotSent};
use crate::spec::is_this_server;

/// Bytes read at a time.
const READ_BYTES: usize = 16 << 10;
/// Bytes that wait to be written before no more frames are taken.
const PENDING_MAX: usize = 256 << 10;
/// Bytes of answers to what the server asks, of one that does not read them.
const ANSWERS_MAX: usize = 16 << 20;

/// An open publication.
pub(crate) struct RtmpPush {
    input: ReadHalf<Box<dyn Stream>>,
    output: WriteHalf<Box<dyn Stream>>,
    session: ClientSession,
    buffer: Box<[u8]>,
    /// Bytes on their way, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    /// Written bytes may wait in TLS.
    wants_flush: bool,
    /// The server has accepted.
    is_accepted: bool,
    peer: Option<SocketAddr>,
    /// Time of the first frame, in milliseconds: the stream begins with 0 at the server.
    base_ms: Option<i64>,
}

impl RtmpPush {
    /// Connects and publishes; the server has accepted when this returns.
    pub(crate) async fn open(
        url: &RtmpUrl,
        settings: &SourceSettings,
        own_ports: &[u16],
    ) -> Result<Self, Failure> {
        let Connected { stream, peer, local } = connect(url, settings).await.map_err(Failure::new)?;
        if let Some((local, peer)) = local.zip(peer)
            && is_this_server(local.ip(), peer, own_ports)
        {
            return Err(Failure::lasting(LOOP));
        }
        let config = ClientConfig {
            max_message_bytes: settings.message_bytes_max,
            partial_memory_bytes: settings.message_bytes_max.saturating_mul(2),
            // Media that a server sends to its publisher is not wanted.
            keep_payload_bytes: Some(0),
            flash_version: concat!("FMLE/3.0 (compatible; millstream/", env!("CARGO_PKG_VERSION"), ")")
                .into(),
            ..ClientConfig::default()
        };
        let (input, output) = tokio::io::split(stream);
        let mut push = Self {
            input,
            output,
            // The filler bytes of the handshake are no secret.
            session: ClientSession::publish(url, &config, random().into()),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
            written: 0,
            wants_flush: false,
            is_accepted: false,
            peer,
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
        let base_ms = *self.base_ms.get_or_insert(time_ms);
        // Wraps as RTMP's time does. What is earlier than the begin is at the begin.
        let timestamp = (time_ms - base_ms).max(0) as u32;
        let [head, rest] = body.parts();
        if head.is_empty() {
            self.session.send_media(kind, timestamp, rest);
        } else {
            self.session.send_media(kind, timestamp, &[head, rest].concat());
        }
        Ok(())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pending() < PENDING_MAX
    }

    /// Bytes that are not written yet, of those that were handed over to be.
    pub(crate) fn pending(&self) -> usize {
        self.out.len() - self.written
    }

    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        self.collect()?;
        let is_written = self.written == self.out.len();
        tokio::select! {
            read = self.input.read(&mut self.buffer) => {
                let read = read?;
                self.take(read)?;
                Ok(0)
            }
            moved = write_or_flush(&mut self.output, &self.out[self.written..], self.wants_flush) => {
                match moved? {
                    0 if !is_written => Err(Failure::new("the server takes no more")),
                    bytes => {
                        self.written += bytes;
                        // What was flushed had been written all.
                        self.wants_flush = bytes > 0;
                        Ok(bytes as u64)
                    }
                }
            }
        }
    }

    /// What the session has to say goes behind what is on its way.
    fn collect(&mut self) -> Result<(), Failure> {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        self.out.append(self.session.output());
        if self.pending() > ANSWERS_MAX {
            return Err(Failure::new("the server reads nothing of what it asks for"));
        }
        Ok(())
    }

    fn take(&mut self, read: usize) -> Result<(), Failure> {
        if read == 0 {
            return Err(Failure::new("the server closed the connection"));
        }
        let taken = self.session.handle_input(&self.buffer[..read]);
        taken.map_err(|error| Failure::new(format!("the server breaks the protocol: {}", error.reason())))?;
        self.take_events()
    }

    fn take_events(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.session.poll_event() {
            match event {
                ClientEvent::Started => self.is_accepted = true,
                ClientEvent::Rejected { code, description } => {
                    return Err(Failure::new(format!("the server refuses: {}", said(&code, &description))));
                }
                ClientEvent::Ended { code } => {
                    return Err(Failure::new(format!("the server ended the stream: {}", said(&code, ""))));
                }
                ClientEvent::Media(_) | ClientEvent::Status { .. } => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) {
        self.session.end();
        let _ = self.collect();
        let rest = self.out.split_off(self.written);
        if self.output.write_all(&rest).await.is_ok() {
            let _ = self.output.shutdown().await;
        }
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

impl fmt::Debug for RtmpPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtmpPush").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Writes some of `rest`, or, when there is none, what waits in TLS: 0 bytes.
async fn write_or_flush<W: AsyncWrite + Unpin>(
    output: &mut W,
    rest: &[u8],
    wants_flush: bool,
) -> std::io::Result<usize> {
    if !rest.is_empty() {
        return output.write(rest).await;
    }
    if !wants_flush {
        // Until there is a frame.
        return std::future::pending().await;
    }
    output.flush().await.map(|()| 0)
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
