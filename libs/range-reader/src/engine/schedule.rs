//! What is asked for next, and which responses are given up.

use std::iter;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::in_flight::{InFlightRequest, OPEN_END, State};
use super::read_list::{ListRequest, Room, UPCOMING_MAX};
use super::{Engine, Length};
use crate::learn::{Learner, Misses, PredictionLimits};
use crate::plan::{self, LinkEstimate, SeekPlan};
use crate::ranges::{self, ByteRange, RequestLimits};
use crate::source::{RangeRequest, Source, SourceState};

/// First request of a run of which nothing is known: it comes with the head of the response, in the
/// ten segments that a new connection may send at once (RFC 6928), so it costs no time of its own,
/// and a seek that follows has nothing to wait for.
const FIRST_WINDOW_BYTES: u64 = 13 << 10;
/// The first request of a run after others is as large as the last run, up to this.
const FIRST_WINDOW_BYTES_MAX: u64 = 128 << 10;
/// Factor by which each further request grows before the first seek.
const WINDOW_GROWTH: u64 = 8;
/// A window that takes longer than this many request round trips is no longer bounded: abandoning
/// it costs no more than waiting for its end.
const WINDOW_ROUND_TRIPS_MAX: f64 = 4.0;
/// After seeks, a run of this length is assumed to continue to the end of the file.
const OPEN_AFTER_BYTES: u64 = 1 << 20;
/// Requests in flight at a time at most.
const REQUESTS_MAX: usize = 8;
/// Of these, for what is guessed. One is left for what is missed then.
const GUESSING_REQUESTS_MAX: usize = 3;
/// The next guess is asked for when less than so many times what the link brings in a round trip is
/// still to come. One would do, but that a connection that was idle for some round trips begins
/// with a small window again (RFC 5681, 4.1).
const IN_FLIGHT_PATHS: f64 = 3.0;
/// Where a round trip brings less, a miss costs little: what is guessed is asked for as if it were
/// known.
const GUESSING_PATH_MIN: u64 = 32 << 10;
/// However near and slow the server: a request is not free on either side.
const IN_FLIGHT_BYTES_MIN: u64 = 96 << 10;
/// An ascending row of hints that is shorter than this is asked for with the next ones, however
/// near the server seems: what a link brings is known only once it has been asked for much.
const ROW_BYTES_MIN: u64 = 128 << 10;
/// After this many refusals of a request while others were answered, no more are sent at the same
/// time: servers limit connections.
const REFUSED_BESIDE_MAX: u32 = 2;
/// Gaps that come sooner are received rather than asked around: requests are not free on either
/// side.
const GAP_WORTH_A_REQUEST: Duration = Duration::from_millis(2);
/// What a `Range` field takes at most.
const FIELD_BYTES_MAX: usize = 6000;

impl<S: Source> Engine<S> {
    /// Makes the missing byte at the position arrive. False if there is nothing to do but wait.
    pub(super) fn schedule(&mut self, demand: u64) -> bool {
        if self.pause.is_some() || self.planned_for == Some(self.position) && !self.requests.is_empty() {
            return false;
        }
        let best = self.best_request();
        if !self.requests.is_empty() {
            if !self.locate() && !self.is_hinted {
                self.predict();
            }
            match best.map_or(SeekPlan::CancelAndRequest, |index| self.plan(index)) {
                SeekPlan::Skip => {
                    self.planned_for = Some(self.position);
                    self.keep_all(best);
                    // A request that was not polled because the window was full has to be polled
                    // now.
                    return true;
                }
                SeekPlan::FinishThenRequest => {
                    self.planned_for = Some(self.position);
                    self.finishing = true;
                    return true;
                }
                SeekPlan::CancelAndRequest => self.make_room_for_request(self.at_once()),
            }
        }
        self.request_position(demand);
        self.planned_for = Some(self.position);
        true
    }

    /// The request that delivers the missing byte first; else the one that ends first.
    fn best_request(&self) -> Option<usize> {
        let covering = (0..self.requests.len())
            .filter(|&index| self.requests[index].covers(self.position))
            .min_by_key(|&index| self.requests[index].bytes_before(self.position));
        covering.or_else(|| {
            (0..self.requests.len())
                .min_by_key(|&index| self.requests[index].bytes_left().unwrap_or(OPEN_END))
        })
    }

    fn plan(&self, index: usize) -> SeekPlan {
        let request = &self.requests[index];
        let covers = request.covers(self.position);
        let before = request.bytes_before(self.position);
        if covers && (before == 0 || self.whole_only || request.is_sorted) {
            return SeekPlan::Skip;
        }
        if matches!(request.state, State::Opening(_)) && !covers {
            return SeekPlan::CancelAndRequest;
        }
        let state = self.source.state();
        let mut link = self.link.estimate(&state, request.bytes_buffered(), request.bytes_left());
        // A response that is still needed is not cancelled.
        let is_free = state.connections_open > self.requests.len() as u64
            || self.is_guessing && self.at_once() > self.requests.len();
        let goes_on = self.is_guessing || request.brings_any(self.read_list.upcoming(UPCOMING_MAX));
        link.cancels_cheaply |= is_free && goes_on;
        // Distances in the response, not in the file: between its parts nothing is sent.
        let target = if covers {
            before.saturating_add(self.gaps_brought_by(request, &state, link))
        } else {
            OPEN_END
        };
        plan::choose(0, target, link)
    }

    /// Bytes of gaps that `request` will bring between what is wanted from the position on:
    /// skipping to the position over it means skipping those too, where requests for what is wanted
    /// would leave them out, at the cost of a part's head or of a round trip each.
    fn gaps_brought_by(
        &self,
        request: &InFlightRequest<S::Body>,
        state: &SourceState,
        link: LinkEstimate,
    ) -> u64 {
        let cost = plan::gap_worth_receiving(link, self.takes_several(state), self.at_once());
        let upcoming = self.read_list.upcoming(UPCOMING_MAX);
        let gaps =
            upcoming.windows(2).filter(|pair| request.covers(pair[0].end) && request.covers(pair[1].start));
        gaps.map(|pair| pair[1].start.saturating_sub(pair[0].end).saturating_sub(cost)).sum()
    }

    /// The request may have been set to drop what is needed now.
    fn keep_all(&mut self, index: Option<usize>) {
        let Some(request) = index.and_then(|index| self.requests.get_mut(index)) else { return };
        let position = self.position;
        let left_out = |keep: &Vec<Range<u64>>| !keep.iter().any(|range| range.contains(&position));
        if request.keep.as_ref().is_some_and(left_out) {
            request.keep = None;
        }
    }

    /// Cancels responses until another request can be sent: those that bring nothing from the read
    /// list, then the last ones.
    fn make_room_for_request(&mut self, at_once: usize) {
        let wanted = self.read_list.upcoming(UPCOMING_MAX);
        // Most of what is guessed will be read. Short responses are on their way whatever is done,
        // and their connections, which would be lost with them, are of use.
        let short = if self.is_guessing {
            self.in_flight_max()
        } else if self.source.state().can_reset {
            0
        } else {
            self.paths(1.0)
        };
        let is_short =
            |request: &InFlightRequest<S::Body>| request.bytes_left().is_some_and(|left| left <= short);
        let (kept, others): (Vec<_>, Vec<_>) =
            self.requests.drain(..).partition(|request| request.brings_any(wanted));
        let (on_their_way, useless): (Vec<_>, Vec<_>) = others.into_iter().partition(is_short);
        self.requests = kept;
        self.requests.extend(on_their_way);
        let too_many = self.requests.len().saturating_sub(at_once - 1);
        let last = self.requests.split_off(self.requests.len() - too_many);
        useless.into_iter().chain(last).for_each(|request| self.cancel(request));
    }

    /// Looks up the position in the read list. False if it is not there.
    fn locate(&mut self) -> bool {
        self.read_list.locate(self.position, |range| self.store.pass(range))
    }

    /// Fills the read list with the learner's prediction from the position on. False if it has
    /// none.
    fn predict(&mut self) -> bool {
        let file_end = self.end();
        let misses = self.misses();
        let Some(learner) = &mut self.learner else { return false };
        let limits = PredictionLimits {
            ranges_max: self.config.ranges_per_request_max,
            bytes_max: OPEN_END,
            file_end,
        };
        learner.note_link(self.link.path_bytes(), misses);
        let predicted = learner.predict(self.position, limits);
        self.is_guessing = learner.is_guess() && misses == Misses::Hidden;
        self.read_list.replace(predicted);
        self.store.set_listed(self.read_list.ascending());
        !self.read_list.is_empty()
    }

    pub(super) fn cancel(&mut self, request: InFlightRequest<S::Body>) {
        let prefetch_failed = request.bytes_buffered();
        self.bytes_received += prefetch_failed;
        self.store.wasted += prefetch_failed;
    }

    fn request_position(&mut self, demand: u64) {
        if self.locate() || !self.is_hinted && self.predict() {
            self.read_list.request_again();
            // What other responses deliver follows without a second request. After an attempt that
            // delivered nothing new, the missing byte is requested without anything that might
            // precede it in the response.
            let is_alone = self.requests.is_empty() && self.tries == 0;
            let ranges_max = if is_alone { usize::MAX } else { 1 };
            // A list that leaves the position out is no reason to.
            if self.request_listed(ranges_max)
                && self.requests.last().is_some_and(|request| request.covers(self.position))
            {
                return;
            }
        }
        self.request_window(self.position, demand);
    }

    /// Requests what comes next, if there is room, before it is needed. True if something was
    /// requested.
    pub(super) fn look_ahead(&mut self) -> bool {
        let before = self.requests.len();
        while self.may_look_ahead() {
            // Guess again with all that is known by now.
            let is_known = !self.read_list.is_empty() && !self.is_guessing;
            if is_known || !self.is_hinted && self.predict() {
                self.locate();
                if !self.request_listed(usize::MAX) {
                    break;
                }
                continue;
            }
            let end = self.store.end_of_row(self.position);
            let read = self.position - self.run_start;
            // Where the last run ended, this one may: what is asked beyond that before it is read
            // is mostly given up.
            let may_end = self.run_start.saturating_add(self.last_run);
            let is_within = self.seeks == 0 || end < may_end || self.position > may_end;
            let goes_on = read > 0 && is_within && end - self.position <= read / 2 && end < self.end();
            if self.is_hinted || !goes_on || !self.requests.is_empty() {
                break;
            }
            self.request_window(end, 0);
        }
        self.requests.len() > before
    }

    /// Whether a request can go out now for what is not missing yet.
    fn may_look_ahead(&self) -> bool {
        if self.pause.is_some() || self.prefetch_failed || self.length == Length::Unknown || self.whole_only {
            return false;
        }
        if self.store.is_full(self.position) {
            return false;
        }
        if self.requests.is_empty() {
            return true;
        }
        let state = self.source.state();
        let left = self
            .requests
            .iter()
            .map(|request| request.bytes_left().unwrap_or(OPEN_END))
            .fold(0, u64::saturating_add);
        if self.is_guessing {
            return self.requests.len() < GUESSING_REQUESTS_MAX && left < self.in_flight_max();
        }
        if self.requests.len() >= self.at_once().min(REQUESTS_MAX) {
            return false;
        }
        // A second HTTP/1.1 connection is opened only where each range costs a request: what a
        // connection that is at speed would lose by a round trip, a new one loses by its slow
        // start.
        let must_connect = !state.can_reset && state.connections_open <= self.requests.len() as u64;
        if must_connect && self.takes_several(&state) {
            return false;
        }
        left < plan::request_ahead_bytes(self.link.estimate(&state, 0, Some(left)), must_connect)
    }

    fn takes_several(&self, state: &SourceState) -> bool {
        self.config.several_ranges && !self.one_range_only && state.takes_several_ranges != Some(false)
    }

    fn request_listed(&mut self, ranges_max: usize) -> bool {
        let state = self.source.state();
        let several = self.takes_several(&state);
        let link = self.link.estimate(&state, 0, Some(0));
        let limits = RequestLimits {
            ranges_max: if several { self.config.ranges_per_request_max.min(ranges_max) } else { 1 },
            bytes_max: OPEN_END,
            field_bytes_max: FIELD_BYTES_MAX,
            gap_bytes_max: plan::gap_worth_receiving(link, several, self.at_once()),
        };
        let have = self.have();
        let window = self.config.window_bytes as u64;
        // What is missing is asked for however little room there is.
        let is_missing = !have.iter().any(|range| range.contains(&self.position));
        let room = Room {
            bytes: window.saturating_sub(self.store.ahead(self.position)),
            bytes_min: if is_missing { 0 } else { window / 2 },
            row_bytes_max: self.paths(1.0).max(ROW_BYTES_MIN),
        };
        let ListRequest { asked, keep, is_sorted } =
            self.read_list.next_request(self.position, &have, self.end(), limits, room);
        if asked.is_empty() {
            return false;
        }
        if let Some(learner) = self.learner.as_mut().filter(|_| !self.is_hinted) {
            learner.note_requested(&asked);
        }
        self.ask(asked, Some(keep), !self.is_hinted);
        self.requests.last_mut().expect("it has just been sent").is_sorted = is_sorted;
        true
    }

    /// What is missed can be asked for beside what is guessed if there is a connection for it, and
    /// while pieces are worth requests; and gaps have to take long enough to be worth a guess.
    fn misses(&self) -> Misses {
        if self.at_once() <= GUESSING_REQUESTS_MAX
            || self.paths(1.0) < GUESSING_PATH_MIN
            || self.runs_are_far_apart()
        {
            Misses::Waited
        } else if self.gaps_come_at_once() {
            Misses::Avoided
        } else {
            Misses::Hidden
        }
    }

    /// Runs are shorter than what a round trip brings, and gaps longer: none is ever received along,
    /// each that is not expected costs a round trip of its own, and nothing else comes meanwhile.
    fn runs_are_far_apart(&self) -> bool {
        let path_bytes = self.link.path_bytes();
        self.gaps.are_longer_than(path_bytes) && (self.last_run as f64) < path_bytes
    }

    /// Requests that the source sends, and the server answers, at a time.
    fn at_once(&self) -> usize {
        let (refused, answered) = self.refused_beside;
        let most = if refused >= REFUSED_BESIDE_MAX { answered } else { usize::MAX };
        self.source.state().requests_at_once.min(most).max(1)
    }

    /// Bytes of guesses in flight, below which the next is asked for.
    fn in_flight_max(&self) -> u64 {
        self.paths(IN_FLIGHT_PATHS).max(IN_FLIGHT_BYTES_MIN)
    }

    /// So many times what the link brings between a request and its response.
    fn paths(&self, times: f64) -> u64 {
        (self.link.path_bytes() * times) as u64
    }

    fn gaps_come_at_once(&self) -> bool {
        self.gaps.are_shorter_than(self.link.peak_bytes_per_second() * GAP_WORTH_A_REQUEST.as_secs_f64())
    }

    /// Gaps pass faster than a request takes, and a pattern may still emerge: they are received in
    /// one response without end, which is given up once there is a guess. Asking for pieces would
    /// spare its connection, at the cost of eleven requests where it was measured.
    fn reads_through(&self) -> bool {
        let may_guess = self.learner.as_ref().is_some_and(Learner::may_guess);
        !self.is_hinted && may_guess && self.gaps.are_shorter_than(self.link.path_bytes())
    }

    /// Asks for the next piece of a run.
    ///
    /// The first is small, or as large as the last run was, and no longer unless the one before it
    /// was as long. A run that continues is requested in pieces as long as it is already, so that a
    /// seek wastes at most half of what was received, but to where the last run ended at first; and
    /// larger before the first seek, and to the end of the file if the gaps so far pass faster
    /// than a request takes.
    fn request_window(&mut self, from: u64, demand: u64) {
        let run = from - self.run_start.min(from);
        let link = self.link.estimate(&self.source.state(), 0, None);
        let path_bytes = link.bytes_per_second * link.time_to_first_byte.as_secs_f64();
        let size = match run {
            _ if !self.requests.is_empty() => demand,
            0 => self
                .last_run
                .clamp(FIRST_WINDOW_BYTES, FIRST_WINDOW_BYTES_MAX)
                .max(self.last_run.min(self.run_before_last).min(OPEN_AFTER_BYTES)),
            _ if self.seeks == 0 => run.saturating_mul(WINDOW_GROWTH),
            _ if run < self.last_run => run.min(self.last_run - run).max(FIRST_WINDOW_BYTES),
            // A little longer than the last run: it may end at any time.
            _ if run < 2 * self.last_run => (run / 4).max(FIRST_WINDOW_BYTES),
            _ => run.max(FIRST_WINDOW_BYTES),
        };
        let size = size.max(demand);
        let is_long = run > 0 && size as f64 > path_bytes * WINDOW_ROUND_TRIPS_MAX;
        // Where a gap and a request take about as long, the request is better, for it spares the
        // bytes.
        let gap_max = if self.gaps_come_at_once() { path_bytes } else { path_bytes / 2.0 };
        let is_open = self.reads_through()
            || self.gaps.are_shorter_than(gap_max)
            || is_long && (self.seeks == 0 || run > OPEN_AFTER_BYTES);
        let wanted_end =
            if is_open && self.requests.is_empty() { OPEN_END } else { from.saturating_add(size) };
        let total = self.end();
        // What little would be left after that comes along.
        let end = if total.saturating_sub(wanted_end) < size / 2 { total } else { wanted_end };
        let coming = self.requests.iter().flat_map(|request| &request.outstanding).map(|range| range.start);
        let next = coming.chain(self.store.next_present(from)).filter(|&start| start > from).min();
        let end = next.map_or(end, |next| end.min(next));
        self.ask(iter::once(from..end.min(total)).collect(), None, false);
    }

    /// What is here or in flight, ascending.
    fn have(&self) -> Vec<Range<u64>> {
        let coming = self.requests.iter().flat_map(|request| {
            request.outstanding.iter().flat_map(|range| request.wanted_of(range.clone()))
        });
        let all: Vec<_> = self.store.ranges().chain(coming).collect();
        ranges::merge(&all, 0)
    }

    fn ask(&mut self, asked: Vec<Range<u64>>, keep: Option<Vec<Range<u64>>>, is_predicted: bool) {
        let request = RangeRequest {
            ranges: asked
                .iter()
                .map(|range| ByteRange {
                    start: range.start,
                    end: (range.end != OPEN_END).then_some(range.end),
                })
                .collect(),
            pinned: self.pinned.clone(),
        };
        let connections = self.source.state().connections;
        self.requests.push(InFlightRequest {
            state: State::Opening(Box::pin(self.source.open(request))),
            several: asked.len() > 1,
            is_sorted: false,
            outstanding: asked,
            keep,
            is_predicted,
            cursor: 0,
            part_end: 0,
            has_begun: false,
            new_bytes: 0,
            sent_at: Instant::now(),
            sent_in: self.answered,
            connections,
        });
    }
}
