//! Stores bytes of responses in flight, and handles responses that fail.

use std::future::Future;
use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::in_flight::{InFlightRequest, OPEN_END, State};
use super::store::Interest;
use super::{Engine, Length};
use crate::error::{Permanent, ReadError, SourceError};
use crate::source::{Body, BodyEvent, Pinned, Response, Source};

/// Doublings of the pause between tries at most.
const PAUSE_DOUBLINGS_MAX: u32 = 16;

/// A response that broke off after so many new bytes is continued without a pause: it was worth its
/// connection.
const AT_ONCE_BYTES: u64 = 64 << 10;

/// So many bytes make up for an answer that is cut short.
const CUT_WORTH_BYTES: u64 = 1 << 20;

/// A timer that is looked at so much later was not waited for.
const LATE: Duration = Duration::from_secs(1);

/// The result of polling one request.
enum Polled {
    /// More will come.
    Pending,
    /// The response is complete, or has failed and been dealt with.
    Over,
}

impl<S: Source> Engine<S> {
    /// Waits until the byte at the position is in memory, or the position is known to be at or past
    /// the end.
    ///
    /// `demand` is how many bytes the caller would take at once.
    pub(super) fn poll_bring(
        &mut self,
        context: &mut Context<'_>,
        demand: u64,
    ) -> Poll<Result<(), ReadError>> {
        self.prefetch_failed = false;
        self.seeks += u64::from(mem::take(&mut self.has_sought));
        loop {
            let result = self.drive(context);
            if self.store.contains(self.position) {
                self.silence = None;
                self.look_ahead();
                return Poll::Ready(Ok(()));
            }
            if let Err(error) = result {
                return Poll::Ready(self.give_up(error));
            }
            if self.is_at_end() {
                return Poll::Ready(Ok(()));
            }
            if !self.schedule(demand) && !self.look_ahead() {
                if self.has_waited_enough(context) {
                    return Poll::Ready(self.give_up(self.silent()));
                }
                ready!(self.poll_pause(context));
            }
        }
    }

    /// Waits until a response has reported the length of the file.
    pub(super) fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        loop {
            if let Err(error) = self.drive(context) {
                return Poll::Ready(self.give_up(error));
            }
            if self.length != Length::Unknown {
                self.silence = None;
                return Poll::Ready(Ok(()));
            }
            if !self.requests.is_empty() || !self.schedule(1) {
                if self.has_waited_enough(context) {
                    return Poll::Ready(self.give_up(self.silent()));
                }
                ready!(self.poll_pause(context));
            }
        }
    }

    /// A read fails; the next one starts with as many attempts and as much time.
    fn give_up(&mut self, error: ReadError) -> Result<(), ReadError> {
        (self.silence, self.cut_bytes, self.tries) = (None, 0, 0);
        Err(error)
    }

    /// Whether nothing at all has come for as long as a read waits. What is in flight is given up
    /// then.
    fn has_waited_enough(&mut self, context: &mut Context<'_>) -> bool {
        let (received, silence_max) = (self.bytes_received, self.config.silence_max);
        let begin = || (received, Box::pin(sleep(silence_max)));
        let (known, enough) = self.silence.get_or_insert_with(begin);
        let now = Instant::now();
        // Much later than it was to be woken: nobody has waited meanwhile.
        if *known != received || now > enough.deadline() + LATE {
            *known = received;
            enough.as_mut().reset(now + silence_max);
        }
        if enough.as_mut().poll(context).is_pending() {
            return false;
        }
        mem::take(&mut self.requests).into_iter().for_each(|request| self.cancel(request));
        (self.finishing, self.planned_for, self.pause) = (false, None, None);
        true
    }

    fn silent(&self) -> ReadError {
        let reason = format!("nothing came for {} s", self.config.silence_max.as_secs_f64());
        ReadError::Source(SourceError::Transient { reason, retry_after: None })
    }

    /// An answer has ended before what was asked of it.
    fn note_cut(&mut self) {
        let now = Instant::now();
        // One now and then, of a file that is open for days, says nothing of the server.
        if self.cut_at.is_some_and(|at| now - at > self.config.silence_max) {
            self.cut_bytes = 0;
        }
        self.cut_at = Some(now);
        self.cut_bytes = self.cut_bytes.saturating_add(CUT_WORTH_BYTES);
    }

    fn cuts_too_much(&self) -> bool {
        self.cut_bytes > u64::from(self.config.cut_answers_max).saturating_mul(CUT_WORTH_BYTES)
    }

    /// Takes what has arrived, without waiting, and requests what comes next.
    pub(super) fn look_after(&mut self, context: &mut Context<'_>) {
        self.handed_since_look = 0;
        // What fails here is met again by the read that needs it.
        if self.drive(context).is_err() {
            self.prefetch_failed = true;
        }
        self.look_ahead();
    }

    /// Ready once the pause between attempts is over; without a pause, pending until woken by
    /// responses in flight.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
            return Poll::Ready(());
        }
        if self.requests.iter().any(|request| request.has_begun) {
            self.link.wait(Instant::now());
        }
        Poll::Pending
    }

    /// Polls all requests until they have nothing more, or the window is full.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), ReadError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let before = self.bytes_received;
        let mut failure = None;
        let mut index = 0;
        while index < self.requests.len() {
            let mut request = self.requests.remove(index);
            match self.poll_request(context, &mut request) {
                Ok(Polled::Pending) => {
                    self.requests.insert(index, request);
                    index += 1;
                }
                Ok(Polled::Over) => {}
                Err(error) => failure = Some(error),
            }
        }
        let received = self.bytes_received - before;
        self.cut_bytes = self.cut_bytes.saturating_sub(received);
        if self.cuts_too_much() {
            failure = Some(ReadError::Truncated);
        }
        self.link.resume(Instant::now(), received);
        failure.map_or(Ok(()), Err)
    }

    fn poll_request(
        &mut self,
        context: &mut Context<'_>,
        request: &mut InFlightRequest<S::Body>,
    ) -> Result<Polled, ReadError> {
        loop {
            let polled = match &mut request.state {
                State::Opening(opening) => match opening.as_mut().poll(context) {
                    Poll::Pending => return Ok(Polled::Pending),
                    Poll::Ready(Ok(response)) => self.begin(request, response),
                    Poll::Ready(Err(error)) => Err(error),
                },
                State::Streaming(body) => {
                    let missing = !self.store.contains(self.position);
                    let needed = missing
                        && (self.finishing
                            || request.outstanding.iter().any(|range| range.contains(&self.position)));
                    if !needed && self.store.is_full(self.position) {
                        return Ok(Polled::Pending);
                    }
                    match body.poll_event(context) {
                        Poll::Pending => return Ok(Polled::Pending),
                        Poll::Ready(Ok(BodyEvent::Part { range })) => {
                            request.cursor = range.start;
                            request.part_end = range.end.unwrap_or(OPEN_END);
                            Ok(false)
                        }
                        Poll::Ready(Ok(BodyEvent::Data(data))) => {
                            self.receive(request, &data).map(|()| false)
                        }
                        Poll::Ready(Ok(BodyEvent::End)) => self.finish(request).map(|()| true),
                        Poll::Ready(Err(error)) => Err(error),
                    }
                }
            };
            match polled {
                Ok(false) => {}
                Ok(true) => return Ok(Polled::Over),
                Err(error) => return self.fail(request, error).map(|()| Polled::Over),
            }
        }
    }

    /// The head of a response. True if the response is not worth having.
    fn begin(
        &mut self,
        request: &mut InFlightRequest<S::Body>,
        response: Response<S::Body>,
    ) -> Result<bool, SourceError> {
        let state = self.source.state();
        if request.sent_in == self.answered {
            self.link.head(request.sent_at.elapsed(), state.connections != request.connections);
        }
        self.learn_length(&response.pinned)?;
        self.pinned.get_or_insert_with(|| Arc::new(response.pinned));
        self.one_range_only |= response.is_whole_file && request.several;
        if response.is_whole_file && request.several && state.takes_ranges {
            (self.finishing, self.planned_for) = (false, None);
            return Ok(true);
        }
        self.whole_only = response.is_whole_file;
        if self.whole_only {
            // Whatever of it will be read comes along now, and the next time all of it would come
            // again.
            (request.keep, request.is_predicted) = (None, false);
            request.outstanding = iter::once(0..self.total().unwrap_or(OPEN_END)).collect();
        }
        if let Some(total) = self.total() {
            request.clip(total);
        }
        request.state = State::Streaming(response.body);
        Ok(false)
    }

    fn learn_length(&mut self, pinned: &Pinned) -> Result<(), SourceError> {
        match pinned.total_bytes {
            Some(total) if self.config.file_bytes_max.is_some_and(|max| total > max) => {
                Err(SourceError::Permanent(Permanent::Limit("the file is larger than allowed")))
            }
            Some(total) => {
                self.length = Length::Bytes(total);
                Ok(())
            }
            None => {
                if self.length == Length::Unknown {
                    self.length = Length::NotSaid;
                }
                Ok(())
            }
        }
    }

    /// Bytes of the present part.
    fn receive(&mut self, request: &mut InFlightRequest<S::Body>, data: &[u8]) -> Result<(), SourceError> {
        let start = request.cursor;
        let end = start + data.len() as u64;
        if self.config.file_bytes_max.is_some_and(|max| end > max) {
            return Err(SourceError::Permanent(Permanent::Limit("the file is larger than allowed")));
        }
        self.bytes_received += data.len() as u64;
        (request.has_begun, request.cursor) = (true, end);
        // Bytes so far behind the reader that looking back does not reach them are not kept even
        // for a moment.
        let floor = self.position.saturating_sub(self.config.look_back_bytes as u64).clamp(start, end);
        let more = request.part_end.min(self.end()).saturating_sub(end);
        let (mut kept, mut new_bytes, mut newest) = (0, 0, None);
        for (part, interest) in self.parts(request, start..end) {
            let from =
                if interest == Interest::Listed { part.start } else { part.start.max(floor).min(part.end) };
            let bytes = &data[(from - start) as usize..(part.end - start) as usize];
            let fresh = self.store.insert(from, bytes, more, (interest, request.is_predicted));
            let will_be_read = interest == Interest::Listed || part.end > self.position;
            if fresh > 0 && will_be_read {
                (newest, new_bytes) = (part.end.checked_sub(1), new_bytes + fresh);
            }
            kept += bytes.len();
        }
        self.store.skipped += (data.len() - kept) as u64;
        request.bring(start..end);
        self.store.trim(self.position, |piece| self.read_list.turn_of(piece));
        // Bytes that the reader has passed, has already, or has no room for are no progress: a
        // server that aborts before the missing ones could send them forever.
        if newest.is_some_and(|newest| self.store.contains(newest)) {
            self.tries = 0;
            request.new_bytes += new_bytes;
        }
        Ok(())
    }

    /// What of `range`, which `request` brings, is wanted, and why.
    fn parts(&self, request: &InFlightRequest<S::Body>, range: Range<u64>) -> Vec<(Range<u64>, Interest)> {
        if self.whole_only {
            return self.read_list.split(range, self.position);
        }
        let interest = |part: &Range<u64>| match request.keep {
            Some(_) => self.read_list.interest(part, self.position),
            None => Interest::Following,
        };
        request.wanted_of(range).map(|part| (part.clone(), interest(&part))).collect()
    }

    /// The response is complete, as the server sees it.
    fn finish(&mut self, request: &mut InFlightRequest<S::Body>) -> Result<(), SourceError> {
        // Plans that counted on this response are made again.
        (self.finishing, self.planned_for) = (false, None);
        // A whole file of unknown length ends where its response ends. A range may have been cut
        // short.
        if self.whole_only && self.length == Length::NotSaid {
            self.length = Length::Bytes(request.cursor);
            request.clip(request.cursor);
        }
        if request.outstanding.is_empty() {
            return Ok(());
        }
        self.one_range_only |= request.several;
        if request.new_bytes > 0 {
            self.note_cut();
            return Ok(());
        }
        Err(SourceError::Transient {
            reason: "the answer ends before what was asked".to_owned(),
            retry_after: None,
        })
    }

    /// A response has failed. `Ok`: the read that needs the bytes retries.
    fn fail(&mut self, request: &mut InFlightRequest<S::Body>, error: SourceError) -> Result<(), ReadError> {
        (self.finishing, self.planned_for) = (false, None);
        match error {
            SourceError::Transient { reason, retry_after } => {
                self.retries += 1;
                if request.has_begun {
                    self.note_cut();
                }
                if !request.has_begun && !self.requests.is_empty() {
                    let (count, fewest) = self.refused_beside;
                    self.refused_beside = (count + 1, fewest.min(self.requests.len()));
                }
                // What was asked ahead may fail as often as it likes: it is asked for again when it
                // is missing.
                self.tries += u32::from(request.covers(self.position));
                if self.tries > self.config.tries_max {
                    self.tries = 0;
                    return Err(ReadError::Source(SourceError::Transient { reason, retry_after }));
                }
                let at_once = request.new_bytes >= AT_ONCE_BYTES && self.tries <= 1 && retry_after.is_none();
                if !at_once {
                    self.pause = Some(Box::pin(sleep(self.pause_length(retry_after))));
                }
                Ok(())
            }
            SourceError::Unsatisfiable { total_bytes } => self.unsatisfiable(request, total_bytes),
            SourceError::Changed => {
                self.store.clear();
                self.requests.clear();
                self.failed = Some(ReadError::Source(SourceError::Changed));
                Err(ReadError::Source(SourceError::Changed))
            }
            error @ SourceError::Permanent(_) => Err(ReadError::Source(error)),
        }
    }

    /// The requested range is beyond the end of the file.
    fn unsatisfiable(
        &mut self,
        request: &InFlightRequest<S::Body>,
        total_bytes: Option<u64>,
    ) -> Result<(), ReadError> {
        let asked = request.outstanding.first().map_or(0, |range| range.start);
        match total_bytes {
            Some(total) if total > asked => {
                let lie = Permanent::Lying("416 for a range that lies within the file");
                Err(ReadError::Source(SourceError::Permanent(lie)))
            }
            Some(total) => self
                .learn_length(&Pinned { total_bytes: Some(total), ..Pinned::default() })
                .map_err(ReadError::Source),
            None => {
                self.end_at_most = self.end_at_most.min(asked);
                self.learn_length(&Pinned::default()).map_err(ReadError::Source)
            }
        }
    }

    fn pause_length(&self, retry_after: Option<Duration>) -> Duration {
        let doublings = self.tries.saturating_sub(1).min(PAUSE_DOUBLINGS_MAX);
        let pause = self.config.pause.saturating_mul(1 << doublings);
        pause.max(retry_after.unwrap_or_default()).min(self.config.pause_max)
    }
}
