//! Requests for playlists, segments and keys: bounded in bytes and time, over connections that are
//! kept.
//!
//! URLs come from playlists, that is from anybody. Which addresses may be reached is judged by
//! `range_reader` at each connection and redirect; here it is schemes, and that credentials of the
//! pull's URL go to its own origin only.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::cipher::{AES_128, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use hls::read::{ByteRange, PLAYLIST_BYTES_MAX, Playlist};
use http::{HeaderMap, StatusCode, header};
use range_reader::error::SourceError;
use range_reader::http::{Client, HttpResponse};
use tokio::time::timeout;
use url::Url;

use super::super::failure::Failure;
use crate::settings::{SourceSettings, explain};

/// Bytes of a segment: ten seconds of 25 Mbit/s.
pub(super) const SEGMENT_BYTES_MAX: usize = 32 << 20;
/// Bytes of what a reader needs before segments.
pub(super) const MAP_BYTES_MAX: usize = 1 << 20;
/// Bytes of a key.
const KEY_BYTES: usize = 16;
/// Playlists that are larger are read on another thread: the one of sources has frames to send.
const READ_HERE_BYTES_MAX: usize = 64 << 10;

/// Why something was not fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchError {
    /// It may come when it is asked for again, or can be passed.
    Missing(String),
    /// Nothing of the kind will come.
    Final(String),
}

impl FetchError {
    pub(super) fn reason(self) -> String {
        match self {
            Self::Missing(reason) | Self::Final(reason) => reason,
        }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::new(error.reason())
    }
}

impl From<SourceError> for FetchError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Permanent(_) => Self::Final(explain(&error)),
            _ => Self::Missing(explain(&error)),
        }
    }
}

/// Fetches for one pull.
#[derive(Debug)]
pub(super) struct Fetcher {
    client: Client,
    /// The URL of the pull, whose credentials its own origin gets.
    first: Url,
    timeout: Duration,
    received: AtomicU64,
    peer: Mutex<Option<SocketAddr>>,
}

impl Fetcher {
    pub(super) fn new(first: &Url, settings: &SourceSettings) -> Result<Self, Failure> {
        Ok(Self {
            client: Client::new(settings.http_config())?,
            first: first.clone(),
            timeout: settings.stall_timeout,
            received: AtomicU64::new(0),
            peer: Mutex::default(),
        })
    }

    /// What a playlist at `base` names.
    pub(super) fn resolve(&self, base: &Url, uri: &str) -> Result<Url, FetchError> {
        let refused = |what: &str| FetchError::Final(format!("the playlist names {what}"));
        let mut url = base.join(uri).map_err(|_| refused("what is no URL"))?;
        match (base.scheme(), url.scheme()) {
            ("https", "http") => return Err(refused("a URL of http, and is one of https itself")),
            (_, "http" | "https") => {}
            _ => return Err(refused("a URL that is not one of http or https")),
        }
        if url.origin() == self.first.origin() && url.username().is_empty() && url.password().is_none() {
            // These succeed: the URL has a host.
            let _ = url.set_username(self.first.username());
            let _ = url.set_password(self.first.password());
        }
        Ok(url)
    }

    /// A playlist, and where it was found: redirects are followed.
    pub(super) async fn playlist(&self, url: &Url) -> Result<(Url, Playlist), FetchError> {
        let (found, bytes) = self.fetch(url, None, PLAYLIST_BYTES_MAX, self.timeout, "the playlist").await?;
        let read = match bytes.len() {
            ..=READ_HERE_BYTES_MAX => Playlist::read(&bytes),
            _ => tokio::task::spawn_blocking(move || Playlist::read(&bytes))
                .await
                .map_err(|_| FetchError::Final("the playlist cannot be read".to_owned()))?,
        };
        Ok((found, read.map_err(|error| FetchError::Missing(error.to_string()))?))
    }

    /// A segment that lasts for about `duration`, or what is needed before it.
    pub(super) async fn media(
        &self,
        url: &Url,
        range: Option<ByteRange>,
        bytes_max: usize,
        duration: Duration,
    ) -> Result<Vec<u8>, FetchError> {
        // In real time at a third of the rate, or as long as anything may take.
        let time = self.timeout.max(duration.saturating_mul(3));
        Ok(self.fetch(url, range, bytes_max, time, "a segment").await?.1)
    }

    /// A key.
    pub(super) async fn key(&self, url: &Url) -> Result<[u8; KEY_BYTES], FetchError> {
        let (_, bytes) = self.fetch(url, None, KEY_BYTES, self.timeout, "a key").await?;
        bytes.try_into().map_err(|_| FetchError::Missing("a key does not have 16 bytes".to_owned()))
    }

    /// Bytes that came since this was asked last.
    pub(super) fn take_received(&self) -> usize {
        usize::try_from(self.received.swap(0, Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Who has answered last.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(
        &self,
        url: &Url,
        range: Option<ByteRange>,
        bytes_max: usize,
        time: Duration,
        what: &str,
    ) -> Result<(Url, Vec<u8>), FetchError> {
        let fetched = timeout(time, async {
            let answer = match range {
                Some(range) => self.client.get_range(url, range.offset..range.offset + range.length).await?,
                None => self.client.get(url, &HeaderMap::new()).await?,
            };
            *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = answer.peer;
            let found = answer.url.clone();
            Ok((found, self.read(answer, range, bytes_max, what).await?))
        });
        fetched.await.unwrap_or_else(|_| Err(FetchError::Missing(format!("{what} does not come in time"))))
    }

    async fn read(
        &self,
        mut answer: HttpResponse,
        range: Option<ByteRange>,
        bytes_max: usize,
        what: &str,
    ) -> Result<Vec<u8>, FetchError> {
        let too_long = || FetchError::Final(format!("{what} has more than {bytes_max} bytes"));
        let (mut before, wanted) = match (answer.status, range) {
            (StatusCode::OK, None) => (0, usize::MAX),
            (StatusCode::PARTIAL_CONTENT, Some(range)) => {
                let begin = format!("bytes {}-", range.offset);
                let found = answer.headers.get(header::CONTENT_RANGE).map(|value| value.as_bytes());
                if !found.is_some_and(|found| found.starts_with(begin.as_bytes())) {
                    return Err(FetchError::Missing(format!("{what} comes with another range")));
                }
                (0, usize::try_from(range.length).unwrap_or(usize::MAX))
            }
            // All of it, of which the range is a part.
            (StatusCode::OK, Some(range)) if range.offset <= bytes_max as u64 => {
                (range.offset as usize, usize::try_from(range.length).unwrap_or(usize::MAX))
            }
            (StatusCode::OK, Some(_)) => {
                return Err(FetchError::Final("the server knows no ranges".to_owned()));
            }
            (status, _) => {
                let reason = format!("the server answers {} for {what}", status.as_u16());
                return Err(FetchError::Missing(reason));
            }
        };
        if range.is_some() && wanted > bytes_max {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        // With all that is wanted it is complete, whenever the server ends its answer.
        while bytes.len() < wanted {
            let Some(data) = answer.body.data().await else { break };
            let data = data?;
            self.received.fetch_add(data.len() as u64, Ordering::Relaxed);
            let passed = before.min(data.len());
            before -= passed;
            let data = &data[passed..];
            bytes.extend_from_slice(&data[..data.len().min(wanted - bytes.len())]);
            if bytes.len() > bytes_max {
                return Err(too_long());
            }
        }
        // Its end, if it is here: then the connection serves the next request as well.
        if answer.status == StatusCode::PARTIAL_CONTENT {
            let _ = timeout(END_WITHIN, answer.body.data()).await;
        }
        if wanted != usize::MAX && bytes.len() < wanted {
            return Err(FetchError::Missing(format!("{what} is cut short")));
        }
        Ok(bytes)
    }
}

/// Takes AES-128 in CBC mode with PKCS #7 padding off (RFC 8216 section 4.3.2.4).
pub(super) fn decrypt(mut bytes: Vec<u8>, key: [u8; KEY_BYTES], iv: [u8; 16]) -> Option<Vec<u8>> {
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_128, &key).ok()?).ok()?;
    let plain = key.decrypt(&mut bytes, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?.len();
    bytes.truncate(plain);
    Some(bytes)
}

/// How long the end of an answer is waited for once all of it is here.
const END_WITHIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use range_reader::http::address::AddressPolicy;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn fetcher(first: &str) -> Fetcher {
        Fetcher::new(&Url::parse(first).expect("a URL"), &SourceSettings::default()).expect("a client")
    }

    #[test]
    fn credentials_stay_with_the_origin_of_the_pull() {
        let fetcher = fetcher("https://u:p@a.example/live/x.m3u8?token=t");
        let cases = [
            ("https://a.example/live/x.m3u8", "1.ts", "https://u:p@a.example/live/1.ts"),
            ("https://a.example/live/x.m3u8", "/k?a=b", "https://u:p@a.example/k?a=b"),
            ("https://a.example/live/x.m3u8", "https://b.example/1.ts", "https://b.example/1.ts"),
            ("https://b.example/y.m3u8", "1.ts", "https://b.example/1.ts"),
            ("https://a.example/live/x.m3u8", "//a.example:444/1.ts", "https://a.example:444/1.ts"),
            ("https://a.example/live/x.m3u8", "https://v:q@a.example/1.ts", "https://v:q@a.example/1.ts"),
        ];
        for (base, uri, expected) in cases {
            let url = fetcher.resolve(&Url::parse(base).expect("a URL"), uri).expect(uri);
            assert_eq!(url.as_str(), expected);
        }
        for uri in ["file:///etc/passwd", "http://a.example/1.ts", "data:,x", "https://", "rtmp://h/a/b"] {
            let base = Url::parse("https://a.example/live/x.m3u8").expect("a URL");
            assert!(matches!(fetcher.resolve(&base, uri), Err(FetchError::Final(_))), "{uri}");
        }
    }

    #[tokio::test]
    async fn a_range_is_complete_before_the_server_ends_its_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/1.ts", listener.local_addr().expect("its address"));
        let url = Url::parse(&url).expect("a URL");
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let answer = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/100\r\n\
                Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n";
            connection.write_all(answer).await.expect("an answer");
            // The last chunk never comes.
            let _ = connection.read_to_end(&mut Vec::new()).await;
        });
        let settings = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
        let fetcher = Fetcher::new(&url, &settings).expect("a client");
        let range = ByteRange { offset: 2, length: 4 };
        let fetched = fetcher.media(&url, Some(range), SEGMENT_BYTES_MAX, Duration::ZERO).await;
        assert_eq!(fetched, Ok(b"abcd".to_vec()));
        server.abort();
    }

    #[test]
    fn segments_are_decrypted() {
        // openssl enc -aes-128-cbc -K 00112233445566778899aabbccddeeff -iv 0..01 of "millstream"
        let key = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        let iv = 1_u128.to_be_bytes();
        let sealed = SEALED.to_vec();
        assert_eq!(decrypt(sealed.clone(), key, iv).as_deref(), Some(&b"millstream"[..]));
        assert_eq!(decrypt(sealed[..15].to_vec(), key, iv), None, "no whole block");
        assert_eq!(decrypt(Vec::new(), key, iv), None);
    }

    const SEALED: [u8; 16] = 0xebf0_49bc_616f_d6a5_14da_10f2_357c_c0ba_u128.to_be_bytes();
}
