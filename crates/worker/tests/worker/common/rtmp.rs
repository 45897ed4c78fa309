//! An RTMP client that does not block the test's other tasks.

use std::net::SocketAddr;
use std::sync::Arc;

use media::Frame;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::flv::read_frames;
use rtmp::{MediaKind, RtmpUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::TIMEOUT;

/// A connection that publishes or plays.
pub(crate) struct RtmpClient {
    session: ClientSession,
    socket: TcpStream,
    buffer: Vec<u8>,
    /// What was read last.
    last_words: Vec<u8>,
}

impl RtmpClient {
    /// Publishes, or the error says why not.
    pub(crate) async fn publish(server: SocketAddr, stream: &str) -> Result<Self, String> {
        Self::begin(server, stream, ClientSession::publish).await
    }

    /// Plays, or the error says why not.
    pub(crate) async fn play(server: SocketAddr, stream: &str) -> Result<Self, String> {
        Self::begin(server, stream, ClientSession::play).await
    }

    async fn begin(
        server: SocketAddr,
        stream: &str,
        session: fn(&RtmpUrl, &ClientConfig, u64) -> ClientSession,
    ) -> Result<Self, String> {
        let url = format!("rtmp://{server}/{stream}").parse().expect("a URL");
        let socket = TcpStream::connect(server).await.expect("a connection");
        let session = session(&url, &ClientConfig::default(), 1);
        let mut client = Self { session, socket, buffer: vec![0; 64 << 10], last_words: Vec::new() };
        loop {
            match client.next_event().await {
                Some(ClientEvent::Started) => return Ok(client),
                Some(ClientEvent::Rejected { description, .. }) => return Err(description),
                Some(_) => {}
                None => return Err("closed".to_owned()),
            }
        }
    }

    /// Sends a frame as it came.
    pub(crate) async fn send(&mut self, frame: &Frame) {
        let body = rtmp::flv::TagBody::of(frame).expect("a body").parts().concat();
        self.session.send_media(frame.track.kind, frame.dts.millis() as u32, &body);
        self.flush().await;
    }

    /// The next frame of audio or video.
    pub(crate) async fn next_frame(&mut self) -> Arc<Frame> {
        loop {
            match self.next_event().await.expect("the stream goes on") {
                ClientEvent::Media(message) if message.kind != MediaKind::Data => {
                    let (frame, _) = read_frames(message).expect("a frame");
                    return Arc::new(frame);
                }
                _ => {}
            }
        }
    }

    /// What a server that ends the session has sent last, as text.
    pub(crate) async fn end(&mut self) -> String {
        while self.next_event().await.is_some() {}
        String::from_utf8_lossy(&self.last_words).into_owned()
    }

    async fn next_event(&mut self) -> Option<ClientEvent> {
        loop {
            if let Some(event) = self.session.poll_event() {
                return Some(event);
            }
            self.flush().await;
            let read = timeout(TIMEOUT, self.socket.read(&mut self.buffer)).await.expect("something comes");
            match read {
                Ok(0) | Err(_) => return None,
                Ok(got) => {
                    self.last_words = self.buffer[..got].to_vec();
                    self.session.handle_input(&self.last_words).expect("it speaks RTMP");
                }
            }
        }
    }

    async fn flush(&mut self) {
        let output = self.session.output();
        // A server that has ended the session says why before it closes.
        let _ = self.socket.write_all(output).await;
        output.clear();
    }
}
