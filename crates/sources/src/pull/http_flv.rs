//! FLV as the endless answer to a GET request.
//!
//! Connections, TLS, redirects and which addresses may be reached are `range_reader::http`'s. There
//! is no proxy: the addresses behind one could not be checked.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use range_reader::http::{Client, HttpConfig, ResponseBody};
use rtmp::MediaMessage;
use rtmp::flv::FlvReader;
use url::Url;

use super::failure::Failure;
use crate::settings::SourceSettings;

/// The time without a message is watched by the caller, which finds all stalls, those of RTMP and
/// drips too: its verdict comes first.
const STALL_MARGIN: Duration = Duration::from_secs(5);
/// Least bytes a second, for the same reason.
const BYTES_PER_SECOND_MIN: u64 = 1;

/// An open stream.
#[derive(Debug)]
pub(super) struct HttpFlv {
    body: ResponseBody,
    peer: Option<SocketAddr>,
    reader: FlvReader,
}

impl HttpFlv {
    /// Asks for the stream, and waits for the head of the answer.
    pub(super) async fn open(url: &Url, settings: &SourceSettings) -> Result<Self, Failure> {
        let client = Client::new(config(settings))?;
        let answer = client.get(url, &HeaderMap::new()).await?;
        if answer.status != StatusCode::OK {
            return Err(Failure::new(format!("the server answers {}", answer.status.as_u16())));
        }
        Ok(Self { body: answer.body, peer: answer.peer, reader: FlvReader::new(settings.message_bytes_max) })
    }

    /// Waits for bytes, and says how many came.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        let Some(data) = self.body.data().await else {
            return Err(Failure::new("the server ended the stream".to_owned()));
        };
        let data = data?;
        self.reader.push(&data);
        Ok(data.len())
    }

    /// The next message that has come as a whole.
    pub(super) fn next_message(&mut self) -> Result<Option<MediaMessage>, Failure> {
        let tag = self.reader.next_tag().map_err(|error| Failure::new(error.reason().to_owned()))?;
        Ok(tag.map(MediaMessage::from))
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

fn config(settings: &SourceSettings) -> HttpConfig {
    let mut headers = HeaderMap::new();
    let agent = concat!("millstream/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    HttpConfig {
        addresses: settings.addresses,
        headers,
        redirects_max: settings.redirects_max,
        connect_timeout: settings.connect_timeout,
        head_timeout: settings.connect_timeout,
        idle_timeout: settings.stall_timeout + STALL_MARGIN,
        bytes_per_second_min: BYTES_PER_SECOND_MIN,
        connections_max: 1,
        // One answer that does not end: a connection of its own serves it best.
        http2: false,
        extra_roots_pem: settings.extra_roots_pem.clone(),
        ..HttpConfig::default()
    }
}
