//! A file behind a URL, as the engine asks for it.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::{self, HeaderValue};
use url::Url;

use super::body::HttpBody;
use super::client::{Client, HttpResponse};
use super::response::{self, Asked, Layout, Reading, Verdict};
use super::{HttpConfig, redirect, validator};
use crate::error::{Permanent, SourceError};
use crate::ranges::ByteRange;
use crate::source::{RangeRequest, Response, Source, SourceState};

/// Requests for one [`Source::open`] at most: as asked, from the first address again, for one
/// range, for the whole.
const ASKS_MAX: usize = 4;
/// Streams of an HTTP/2 connection that are used at a time.
const STREAMS_MAX: usize = 16;

/// A file behind a URL.
pub struct HttpSource {
    client: Client,
    url: Url,
    learned: Arc<Mutex<Learned>>,
}

/// What responses have reported, shared by requests in flight.
#[derive(Debug, Default)]
struct Learned {
    /// Where redirects have led; asked directly until it fails.
    found: Option<Url>,
    /// The date of the first response may go into `If-Range`.
    date_is_strong: bool,
    takes_ranges: bool,
    takes_several_ranges: Option<bool>,
}

impl HttpSource {
    /// The file at `url`, whose scheme is `http` or `https`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Permanent::Forbidden`] for another scheme, [`Permanent::Setup`] for header fields that
    /// cannot be set.
    pub fn new(url: &Url, config: HttpConfig) -> Result<Self, SourceError> {
        Ok(Self { client: Client::new(config)?, url: redirect::checked(url)?, learned: Arc::default() })
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        lock(&self.learned)
    }
}

impl Source for HttpSource {
    type Body = HttpBody;

    fn open(
        &mut self,
        request: RangeRequest,
    ) -> impl Future<Output = Result<Response<HttpBody>, SourceError>> + Send + 'static {
        let opening = Opening {
            client: self.client.clone(),
            url: self.url.clone(),
            learned: Arc::clone(&self.learned),
        };
        opening.run(request)
    }

    fn state(&self) -> SourceState {
        let counts = self.client.counts();
        let newest = self.client.newest();
        let Learned { takes_ranges, takes_several_ranges, .. } = *self.learned();
        let requests_at_once = match newest.streams_max {
            Some(streams) => streams.clamp(1, STREAMS_MAX),
            None => self.client.config().connections_max,
        };
        SourceState {
            round_trip: newest.round_trip,
            time_to_connect: newest.time_to_connect,
            requests_at_once,
            can_reset: newest.streams_max.is_some(),
            takes_ranges,
            takes_several_ranges,
            requests: counts.requests,
            connections: counts.connections,
            connections_open: counts.connections_open,
            bytes_received: counts.bytes_received,
        }
    }
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // User, path and query may hold secrets.
        f.debug_struct("HttpSource").field("host", &redirect::authority(&self.url)).finish_non_exhaustive()
    }
}

/// One [`Source::open`].
struct Opening {
    client: Client,
    url: Url,
    learned: Arc<Mutex<Learned>>,
}

impl Opening {
    async fn run(self, request: RangeRequest) -> Result<Response<HttpBody>, SourceError> {
        let known = request.pinned.as_deref();
        let mut ranges = Some(request.ranges);
        for _ in 0..ASKS_MAX {
            let date_is_strong = lock(&self.learned).date_is_strong;
            let condition = known.and_then(|known| validator::if_range(&known.validator, date_is_strong));
            let Some(mut answer) = self.ask(ranges.as_deref(), condition).await? else { continue };
            let has_condition = condition.is_some() && ranges.is_some();
            let asked = Asked { ranges: ranges.as_deref(), pinned: known, has_condition };
            match response::judge(asked, answer.status.as_u16(), &answer.headers) {
                Verdict::Read(reading) => {
                    self.learn(&answer, &reading, known.is_none());
                    return response(answer, reading, ranges.unwrap_or_default(), &self.client).await;
                }
                Verdict::AskFirst => {
                    lock(&self.learned).takes_several_ranges = Some(false);
                    ranges.as_mut().expect("several were asked for").truncate(1);
                }
                Verdict::AskWhole => ranges = None,
                Verdict::Fail(error) => {
                    answer.body.drain(&answer.headers).await;
                    return Err(error);
                }
            }
            answer.body.drain(&answer.headers).await;
        }
        response::lying("it changes its mind with each answer")
    }

    /// Asks where redirects have led; `None` if that has failed and the first place is to be asked
    /// again.
    async fn ask(
        &self,
        ranges: Option<&[ByteRange]>,
        condition: Option<&str>,
    ) -> Result<Option<HttpResponse>, SourceError> {
        let mut always = HeaderMap::new();
        if let Some(ranges) = ranges {
            always.insert(header::RANGE, range_field(ranges)?);
            if let Some(value) = condition.and_then(|value| HeaderValue::from_str(value).ok()) {
                always.insert(header::IF_RANGE, value);
            }
        }
        let found = lock(&self.learned).found.clone();
        let outcome = self.client.fetch(&self.url, found.as_ref(), &always).await;
        let has_failed = match &outcome {
            Ok(answer) => answer.status.is_client_error() && answer.status.as_u16() != 416,
            Err(_) => true,
        };
        if has_failed && found.is_some() {
            lock(&self.learned).found = None;
            return Ok(None);
        }
        outcome.map(Some)
    }

    fn learn(&self, answer: &HttpResponse, reading: &Reading, is_first: bool) {
        let mut learned = lock(&self.learned);
        learned.found = (answer.url != redirect::split_credentials(&self.url, &HeaderMap::new()).0)
            .then(|| answer.url.clone());
        if is_first {
            learned.date_is_strong = validator::date_is_strong(&answer.headers);
        }
        learned.takes_ranges |=
            !reading.is_whole_file || response::takes_ranges(answer.status.as_u16(), &answer.headers);
        learned.takes_several_ranges = reading.takes_several_ranges.or(learned.takes_several_ranges);
    }
}

/// The response as the engine has it. For several ranges, the total length is in the head of the
/// first part.
async fn response(
    answer: HttpResponse,
    reading: Reading,
    asked: Vec<ByteRange>,
    client: &Client,
) -> Result<Response<HttpBody>, SourceError> {
    let mut body = HttpBody::new(answer.body, &reading, asked);
    let (mut pinned, is_whole_file) = (reading.pinned, reading.is_whole_file);
    if pinned.total_bytes.is_none() && matches!(reading.layout, Layout::Several(_)) {
        let waiting = tokio::time::timeout(client.config().head_timeout, body.total_bytes());
        pinned.total_bytes =
            waiting.await.unwrap_or_else(|_| Err(SourceError::transient("no part of the answer in time")))?;
    }
    Ok(Response { pinned, is_whole_file, body })
}

/// The value of `Range` (RFC 9110, 14.2).
fn range_field(ranges: &[ByteRange]) -> Result<HeaderValue, SourceError> {
    let mut text = String::from("bytes=");
    for (index, range) in ranges.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match range.end {
            None => text.push_str(&format!("{}-", range.start)),
            Some(end) if end > range.start => text.push_str(&format!("{}-{}", range.start, end - 1)),
            Some(_) => return Err(setup("an empty range cannot be asked for")),
        }
    }
    HeaderValue::from_str(&text).map_err(|_| setup("no range to ask for"))
}

fn setup(reason: &str) -> SourceError {
    SourceError::Permanent(Permanent::Setup(reason.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
