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
use crate::peer::{Connected, Stream, connect, cut, plain, without_secrets};
use crate::settings::SourceSettings;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// An open stream.
pub(super) struct RtmpPlay {
    stream: Box<dyn Stream>,
    session: ClientSession,
    input: Box<[u8]>,
    peer: Option<SocketAddr>,
    /// Of the URL: what lets in.
    query: String,
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
        let query = url.stream.split_once('?').map_or("", |(_, query)| query).to_owned();
        Ok(Self { stream, session, input: vec![0; READ_BYTES].into_boxed_slice(), peer, query })
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
                    let said = self.said(&code, &description);
                    return Err(Failure::new(format!("the server refuses: {said}")));
                }
                ClientEvent::Ended { code } => {
                    let said = self.said(&code, "");
                    return Err(Failure::new(format!("the server ended the stream: {said}")));
                }
                ClientEvent::Status { code, .. } if code == UNPUBLISHED => {
                    return Err(Failure::new("its publisher has left".to_owned()));
                }
                ClientEvent::Started | ClientEvent::Status { .. } => {}
            }
        }
        Ok(None)
    }

    /// What the server said, as far as others may see it: some repeat the name with its query.
    fn said(&self, code: &str, description: &str) -> String {
        cut(&without_secrets(plain(code, description), None, &self.query))
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

#[cfg(test)]
mod tests {
    use range_reader::http::address::AddressPolicy;
    use rtmp::server::{PlayReject, ServerConfig, ServerEvent, ServerSession};
    use tokio::net::TcpListener;

    use super::*;

    /// Why a server that refuses to play with this description is left.
    async fn refused(query: &str, description: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("rtmp://{}/live/cam?{query}", listener.local_addr().expect("its address"));
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let mut session = ServerSession::new(&ServerConfig::default(), 1);
            let mut input = [0; 4096];
            loop {
                let read = socket.read(&mut input).await.unwrap_or(0);
                if read == 0 || session.handle_input(&input[..read]).is_err() {
                    return;
                }
                while let Some(event) = session.poll_event() {
                    match event {
                        ServerEvent::Connect(_) => session.accept_connect(),
                        ServerEvent::Play(_) => {
                            session.reject_play(PlayReject::StreamNotFound, description);
                        }
                        _ => {}
                    }
                }
                let output = std::mem::take(session.output());
                if socket.write_all(&output).await.is_err() {
                    return;
                }
            }
        });
        let settings = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
        let url: RtmpUrl = url.parse().expect("a URL");
        let mut play = RtmpPlay::open(&url, &settings).await.expect("a connection");
        let failure = loop {
            play.fill().await.expect("an answer");
            if let Err(failure) = play.next_message() {
                break failure.to_string();
            }
        };
        server.abort();
        failure
    }

    #[tokio::test]
    async fn what_a_server_repeats_of_the_query_is_not_said() {
        let said = refused("token=s3cret&v=1", "no stream cam?token=s3cret&v=1, s3cret is wrong").await;
        assert!(!said.contains("s3cret") && said.contains("no stream cam?"), "{said}");
        // Nor a part of it, where what is too long is cut.
        const LONG: &str = concat!(
            "................................................................................",
            "....................................................................",
            "..... cam?token=0123456789abcdef",
        );
        let said = refused("token=0123456789abcdef", LONG).await;
        assert!(!said.contains("0123"), "{said}");
    }
}
