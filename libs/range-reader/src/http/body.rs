//! The body of a response as parts of the file: enforces announced lengths, splits multiple ranges.

use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::client::ResponseBody;
use super::multipart::{Item, Multipart};
use super::response::{self, Layout, Reading};
use crate::error::SourceError;
use crate::ranges::ByteRange;
use crate::source::{Body, BodyEvent};

/// Bytes of the file from an HTTP answer.
#[derive(Debug)]
pub struct HttpBody {
    answer: ResponseBody,
    state: State,
    /// What has been read while the response was opened.
    first: Option<BodyEvent>,
}

#[derive(Debug)]
enum State {
    /// One range whose bytes up to `position` have been handed on.
    One { range: ByteRange, position: u64, is_announced: bool },
    /// Several.
    Several(Several),
    /// No more comes.
    Ended,
}

#[derive(Debug)]
struct Several {
    multipart: Multipart,
    /// Received and not parsed yet.
    input: Bytes,
    asked: Vec<ByteRange>,
    total_bytes: Option<u64>,
    /// Parts that may still follow: no more than ranges were requested.
    parts_left: usize,
}

impl HttpBody {
    pub(crate) fn new(answer: ResponseBody, reading: &Reading, asked: Vec<ByteRange>) -> Self {
        let state = match &reading.layout {
            Layout::One(range) => State::One { range: *range, position: range.start, is_announced: false },
            Layout::Several(boundary) => State::Several(Several {
                multipart: Multipart::new(boundary),
                input: Bytes::new(),
                total_bytes: reading.pinned.total_bytes,
                parts_left: asked.len(),
                asked,
            }),
        };
        Self { answer, state, first: None }
    }

    /// For several ranges, waits for the head of the first part, and returns the total length in
    /// it.
    pub(crate) async fn total_bytes(&mut self) -> Result<Option<u64>, SourceError> {
        if self.first.is_none() {
            self.first = Some(std::future::poll_fn(|context| self.poll_event(context)).await?);
        }
        match &self.state {
            State::Several(several) => Ok(several.total_bytes),
            _ => Ok(None),
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<BodyEvent, SourceError>> {
        loop {
            match &mut self.state {
                State::Ended => return Poll::Ready(Ok(BodyEvent::End)),
                State::One { range, is_announced: announced @ false, .. } => {
                    *announced = true;
                    return Poll::Ready(Ok(BodyEvent::Part { range: *range }));
                }
                State::One { range, position, .. } => {
                    let data = ready!(self.answer.poll_data(context)).transpose()?;
                    return Poll::Ready(next_of_one(*range, position, data));
                }
                State::Several(several) => {
                    if let Some(event) = several.next()? {
                        return Poll::Ready(Ok(event));
                    }
                    match ready!(self.answer.poll_data(context)).transpose()? {
                        Some(data) => several.input = data,
                        None => return Poll::Ready(several.finish()),
                    }
                }
            }
        }
    }
}

impl Body for HttpBody {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<BodyEvent, SourceError>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Ok(first));
        }
        let event = ready!(self.poll_step(context));
        if !matches!(event, Ok(BodyEvent::Part { .. } | BodyEvent::Data(_))) {
            self.state = State::Ended;
        }
        Poll::Ready(event)
    }

    fn bytes_buffered(&self) -> u64 {
        let here = match &self.state {
            State::Several(several) => several.input.len() as u64,
            _ => 0,
        };
        here + self.answer.bytes_buffered()
    }
}

/// Bytes of a single range, or its end.
fn next_of_one(range: ByteRange, position: &mut u64, data: Option<Bytes>) -> Result<BodyEvent, SourceError> {
    let Some(data) = data else {
        return match range.end {
            Some(end) if *position < end => {
                Err(SourceError::transient(format!("the answer ends {} bytes too early", end - *position)))
            }
            _ => Ok(BodyEvent::End),
        };
    };
    *position = position.saturating_add(data.len() as u64);
    if range.end.is_some_and(|end| *position > end) {
        return response::lying("the body is longer than its range");
    }
    Ok(BodyEvent::Data(data))
}

impl Several {
    /// The next event from received bytes.
    fn next(&mut self) -> Result<Option<BodyEvent>, SourceError> {
        match self.multipart.next(&mut self.input) {
            Ok(None) => Ok(None),
            Ok(Some(Item::Data(data))) => Ok(Some(BodyEvent::Data(data))),
            Ok(Some(Item::Part(part))) => {
                let range = part.range.unwrap_or_default();
                self.accept(&range, part.total_bytes)?;
                Ok(Some(BodyEvent::Part { range: range.into() }))
            }
            Err(error) => response::lying(error.reason()),
        }
    }

    /// Checks a part against what was asked and what is known.
    fn accept(&mut self, range: &Range<u64>, total_bytes: Option<u64>) -> Result<(), SourceError> {
        if let (Some(known), Some(total)) = (self.total_bytes, total_bytes)
            && known != total
        {
            return Err(SourceError::Changed);
        }
        self.total_bytes = self.total_bytes.or(total_bytes);
        if self.parts_left == 0 {
            return response::lying("it has more parts than ranges were asked for");
        }
        self.parts_left -= 1;
        response::check_range(&self.asked, range, self.total_bytes)
    }

    fn finish(&mut self) -> Result<BodyEvent, SourceError> {
        match self.multipart.finish() {
            Ok(()) => Ok(BodyEvent::End),
            Err(error) => Err(SourceError::transient(error.reason().to_owned())),
        }
    }
}
