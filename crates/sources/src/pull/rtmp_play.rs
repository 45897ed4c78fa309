//! A stream played from an RTMP server.
//!
//! The protocol is `rtmp::client`'s, addresses and TLS are `peer.rs`'s; this moves bytes
//! between them.

use std::net::SocketAddr;

use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::{MediaMessage, RtmpUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::failure::Failure;
use crate::backoff::random;
use crate::peer::{Connected, Stream, connect, said};
use crate::settings::SourceSettings;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// An open stream.
pub(super) struct RtmpPlay {
    stream: Box<dyn Stream>,
    session: ClientSession,
    input: Box<[u8]>,
    peer: Option<SocketAddr>,
}

impl RtmpPlay {
    /// Connects. What RTMP says to that comes with [`fill`](Self::fill).
    pub(super) async fn open(url: &RtmpUrl, settings: &SourceSettings) -> Result<Self, Failure> {
        let Connected { stream, peer, .. } = connect(url, settings).await.map_err(Failure::new)?;
        let config = ClientConfig {
            max_message_bytes: settings.message_bytes_max,
            partial_memory_bytes: settings.message_bytes_max.saturating_mul(2),
            flash_version: concat!("millstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..ClientConfig::default()
        };
        // The filler bytes of the handshake are no secret.
        let session = ClientSession::play(url, &config, random().into());
        Ok(Self { stream, session, input: vec![0; READ_BYTES].into_boxed_slice(), peer })
    }

    /// Writes what is pending, waits for bytes, and returns how many arrived.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        let output = std::mem::take(self.session.output());
        self.stream.write_all(&output).await?;
        self.stream.flush().await?;
        let bytes = match self.stream.read(&mut self.input).await? {
            0 => return Err(Failure::new("the server closed the connection".to_owned())),
            bytes => bytes,
        };
        let taken = self.session.handle_input(&self.input[..bytes]);
        taken.map_err(|error| Failure::new(error.reason().to_owned()))?;
        Ok(bytes)
    }

    /// The next message that has come as a whole.
    pub(super) fn next_message(&mut self) -> Result<Option<MediaMessage>, Failure> {
        while let Some(event) = self.session.poll_event() {
            match event {
                ClientEvent::Media(message) => return Ok(Some(message)),
                ClientEvent::Rejected { code, description } => {
                    return Err(Failure::new(format!("the server refuses: {}", said(&code, &description))));
                }
                ClientEvent::Ended { code } => {
                    return Err(Failure::new(format!("the server ended the stream: {}", said(&code, ""))));
                }
                ClientEvent::Status { code, .. } if code == UNPUBLISHED => {
                    return Err(Failure::new("its publisher has left".to_owned()));
                }
                ClientEvent::Started | ClientEvent::Status { .. } => {}
            }
        }
        Ok(None)
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

impl std::fmt::Debug for RtmpPlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtmpPlay").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// The status by which servers tell players that a stream has no publisher any more.
const UNPUBLISHED: &str = "NetStream.Play.UnpublishNotify";
