//! What is asked for next, and which answers are given up.

use std::iter;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::lane::{Lane, OPEN_END, State};
use super::wanted::UPCOMING_MAX;
use super::{Engine, Length};
use crate::learn::{Learner, Misses, Want};
use crate::plan::{self, LinkEstimate, SeekPlan};
use crate::ranges::{self, ByteRange, RequestLimits};
use crate::source::{RangeRequest, Source, SourceState};

/// First request of a run of which nothing is known: it comes with the head of the answer, in the ten segments that a new
/// connection may send at once (RFC 6928), so it costs no time of its own, and a seek that follows has nothing to wait for.
const FIRST_WINDOW_BYTES: u64 = 13 << 10;
/// The first request of a run after others is as large as the last run, up to this.
const FIRST_WINDOW_BYTES_MAX: u64 = 128 << 10;
/// Before the first seek each further request is so many times larger.
const WINDOW_GROWTH: u64 = 8;
/// A window that takes longer than so many answers to a request is not bounded any more: giving it up costs no more than
/// waiting for its end.
const WINDOW_ROUND_TRIPS_MAX: f64 = 4.0;
/// After seeks, a run as long as this is believed to go on to the end of the file.
const OPEN_AFTER_BYTES: u64 = 1 << 20;
/// Requests on their way at a time at most.
const LANES_MAX: usize = 8;
/// Of these, for what is guessed or read through. One is left for what is missed then.
const GUESSING_LANES_MAX: usize = 3;
/// So many times what the link brings in a round trip is under way then. One would do, but that a connection that was idle
/// for some round trips begins with a small window again (RFC 5681, 4.1). More would have what is missed wait longer.
const UNDER_WAY_PATHS: f64 = 3.0;
/// And a request takes so much of it: the less, the later the next one is asked and the better it is guessed.
const PIECE_PATHS: f64 = 2.0;
/// Where a round trip brings less, pieces would be too small: what is guessed is asked for as if it were known.
const GUESSING_PATH_MIN: u64 = 32 << 10;
/// However near and slow the server: a request is not free on either side.
const PIECE_BYTES_MIN: u64 = 64 << 10;
const UNDER_WAY_BYTES_MIN: u64 = 96 << 10;
/// Refusals of a request while others were answered after which no more are sent at a time: servers limit connections.
const REFUSED_BESIDE_MAX: u32 = 2;
/// Gaps that come sooner are received rather than asked around: requests are not free on either side.
const GAP_WORTH_A_REQUEST: Duration = Duration::from_millis(2);
/// What a `Range` field takes at most.
const FIELD_BYTES_MAX: usize = 6000;

impl<S: Source> Engine<S> {
    /// The byte at the position is missing: sees to it that it comes. False if there is nothing to do but wait.
    pub(super) fn steer(&mut self, demand: u64) -> bool {
        if self.pause.is_some() || self.planned_for == Some(self.position) && !self.lanes.is_empty() {
            return false;
        }
        let best = self.best_lane();
        if !self.lanes.is_empty() {
            if !self.stand() && !self.is_hinted {
                self.predict();
            }
            match best.map_or(SeekPlan::AskAnew, |index| self.plan(index)) {
                SeekPlan::Skip => {
                    self.planned_for = Some(self.position);
                    self.keep_all(best);
                    // A lane that was held back because the window is full has to be polled now.
                    return true;
                }
                SeekPlan::AskAfterRest => {
                    self.planned_for = Some(self.position);
                    self.resting = true;
                    return true;
                }
                SeekPlan::AskAnew => self.make_room_for_request(self.at_once()),
            }
        }
        self.ask_for_position(demand);
        self.planned_for = Some(self.position);
        true
    }

    /// The lane that brings the missing byte first; else the one that ends first.
    fn best_lane(&self) -> Option<usize> {
        let covering = (0..self.lanes.len())
            .filter(|&index| self.lanes[index].covers(self.position))
            .min_by_key(|&index| self.lanes[index].bytes_before(self.position));
        covering.or_else(|| {
            (0..self.lanes.len()).min_by_key(|&index| self.lanes[index].bytes_left().unwrap_or(OPEN_END))
        })
    }

    fn plan(&self, index: usize) -> SeekPlan {
        let lane = &self.lanes[index];
        let covers = lane.covers(self.position);
        let before = lane.bytes_before(self.position);
        if covers && (before == 0 || self.whole_only) {
            return SeekPlan::Skip;
        }
        if matches!(lane.state, State::Opening(_)) && !covers {
            return SeekPlan::AskAnew;
        }
        let state = self.source.state();
        let mut link = self.link.estimate(&state, lane.bytes_buffered(), lane.bytes_left());
        // Beside an answer that goes on being wanted there is no answer to give up.
        let is_free = state.connections_open > self.lanes.len() as u64
            || self.asks_pieces() && self.at_once() > self.lanes.len();
        let goes_on = self.asks_pieces() || lane.brings_any(self.wanted.upcoming(UPCOMING_MAX));
        link.gives_up_cheaply |= is_free && goes_on;
        // Distances on the lane, not in the file: between the parts of an answer nothing is sent.
        let target =
            if covers { before.saturating_add(self.gaps_brought_by(lane, &state, link)) } else { OPEN_END };
        plan::choose(0, target, link)
    }

    /// Bytes of gaps that `lane` will bring between what is wanted from the position on: skipping to the position over it
    /// means skipping those too, where requests for what is wanted would leave them out, at the cost of a part's head or
    /// of a round trip each.
    fn gaps_brought_by(&self, lane: &Lane<S::Body>, state: &SourceState, link: LinkEstimate) -> u64 {
        let cost = plan::gap_worth_receiving(link, self.takes_several(state), self.at_once());
        let upcoming = self.wanted.upcoming(UPCOMING_MAX);
        let gaps = upcoming.windows(2).filter(|pair| lane.covers(pair[0].end) && lane.covers(pair[1].start));
        gaps.map(|pair| pair[1].start.saturating_sub(pair[0].end).saturating_sub(cost)).sum()
    }

    /// The lane may have been told to leave out what is wanted now.
    fn keep_all(&mut self, index: Option<usize>) {
        let Some(lane) = index.and_then(|index| self.lanes.get_mut(index)) else { return };
        let position = self.position;
        let left_out = |keep: &Vec<Range<u64>>| !keep.iter().any(|range| range.contains(&position));
        if lane.keep.as_ref().is_some_and(left_out) {
            lane.keep = None;
        }
    }

    /// Gives answers up until another request can be sent: those that bring nothing of what is wanted, then the last ones.
    fn make_room_for_request(&mut self, at_once: usize) {
        let wanted = self.wanted.upcoming(UPCOMING_MAX);
        // What is asked in pieces is short, most of it will be read, and its connection is of use.
        let (asks_pieces, short) = (self.asks_pieces(), self.under_way_max());
        let is_piece =
            |lane: &Lane<S::Body>| asks_pieces && lane.bytes_left().is_some_and(|left| left <= short);
        let (kept, useless): (Vec<_>, Vec<_>) =
            self.lanes.drain(..).partition(|lane| lane.brings_any(wanted) || is_piece(lane));
        self.lanes = kept;
        let too_many = self.lanes.len().saturating_sub(at_once - 1);
        let last = self.lanes.split_off(self.lanes.len() - too_many);
        useless.into_iter().chain(last).for_each(|lane| self.give_up(lane));
    }

    /// Looks up the position in the list of what is wanted. False if it is not there.
    fn stand(&mut self) -> bool {
        self.wanted.stand_at(self.position, |range| self.store.pass(range))
    }

    /// Has the learner say what is wanted from the position on. False if it knows nothing.
    fn predict(&mut self) -> bool {
        let file_end = self.end();
        let misses = self.misses();
        let Some(learner) = &mut self.learner else { return false };
        let want = Want { ranges_max: self.config.ranges_per_request_max, bytes_max: OPEN_END, file_end };
        learner.note_link(self.link.path_bytes(), misses);
        let predicted = learner.predict(self.position, want);
        self.is_guessing = learner.is_guess() && misses == Misses::Hidden;
        self.wanted.replace(predicted);
        self.store.hope_for(self.wanted.ascending());
        !self.wanted.is_empty()
    }

    pub(super) fn give_up(&mut self, lane: Lane<S::Body>) {
        let held = lane.bytes_buffered();
        self.bytes_received += held;
        self.store.wasted += held;
    }

    fn ask_for_position(&mut self, demand: u64) {
        if self.stand() || !self.is_hinted && self.predict() {
            self.wanted.ask_again();
            // What others bring follows without a second request for what comes after it. After a try that brought nothing
            // new, the byte that is missing is asked for without what might come before it in the answer.
            let is_alone = self.lanes.is_empty() && self.tries == 0;
            let ranges_max = if is_alone { usize::MAX } else { 1 };
            // A list that leaves the position out is no reason to.
            if self.ask_wanted(ranges_max) && self.lanes.last().is_some_and(|lane| lane.covers(self.position))
            {
                return;
            }
        }
        self.ask_window(self.position, demand);
    }

    /// Asks for what comes next, if there is room, before it is missed. True if something was asked.
    pub(super) fn look_ahead(&mut self) -> bool {
        let before = self.lanes.len();
        while self.may_look_ahead() {
            // What is guessed is guessed anew with all that is known by now.
            let is_known = !self.wanted.is_empty() && !self.is_guessing;
            if is_known || !self.is_hinted && self.predict() {
                self.stand();
                if !self.ask_wanted(usize::MAX) {
                    break;
                }
                continue;
            }
            if self.reads_through() {
                if !self.ask_piece() {
                    break;
                }
                continue;
            }
            let end = self.store.end_of_row(self.position);
            let read = self.position - self.run_start;
            let goes_on = read > 0 && end - self.position <= read / 2 && end < self.end();
            if self.is_hinted || !goes_on || !self.lanes.is_empty() {
                break;
            }
            self.ask_window(end, 0);
        }
        self.lanes.len() > before
    }

    /// Whether a request can go out now for what is not missing yet.
    fn may_look_ahead(&self) -> bool {
        if self.pause.is_some() || self.held || self.length == Length::Unknown || self.whole_only {
            return false;
        }
        if self.store.is_full(self.position) {
            return false;
        }
        if self.lanes.is_empty() {
            return true;
        }
        let state = self.source.state();
        let left =
            self.lanes.iter().map(|lane| lane.bytes_left().unwrap_or(OPEN_END)).fold(0, u64::saturating_add);
        if self.asks_pieces() {
            return self.lanes.len() < GUESSING_LANES_MAX && left < self.under_way_max();
        }
        if self.lanes.len() >= self.at_once().min(LANES_MAX) {
            return false;
        }
        // A second HTTP/1.1 connection is opened only where each range costs a request: what a connection that is at speed
        // would lose by a round trip, a new one loses by its slow start.
        let must_connect = !state.can_reset && state.connections_open <= self.lanes.len() as u64;
        if must_connect && self.takes_several(&state) {
            return false;
        }
        left < plan::ask_ahead_bytes(self.link.estimate(&state, 0, Some(left)), must_connect)
    }

    fn takes_several(&self, state: &SourceState) -> bool {
        self.config.several_ranges && !self.one_range_only && state.takes_several_ranges != Some(false)
    }

    fn ask_wanted(&mut self, ranges_max: usize) -> bool {
        let state = self.source.state();
        let several = self.takes_several(&state);
        let link = self.link.estimate(&state, 0, Some(0));
        let piece = self.paths(PIECE_PATHS).max(PIECE_BYTES_MIN);
        let limits = RequestLimits {
            ranges_max: if several { self.config.ranges_per_request_max.min(ranges_max) } else { 1 },
            bytes_max: if self.is_guessing { piece } else { OPEN_END },
            field_bytes_max: FIELD_BYTES_MAX,
            gap_bytes_max: plan::gap_worth_receiving(link, several, self.at_once()),
        };
        let have = self.have();
        let (asked, keep) = self.wanted.next_request(self.position, &have, self.end(), limits);
        if asked.is_empty() {
            return false;
        }
        if let Some(learner) = self.learner.as_mut().filter(|_| !self.is_hinted) {
            learner.note_asked(&asked);
        }
        self.ask(asked, Some(keep), !self.is_hinted);
        true
    }

    /// What is missed can be asked for beside what is guessed if there is a connection for it, and while pieces are worth
    /// requests; and gaps have to take long enough to be worth a guess.
    fn misses(&self) -> Misses {
        if self.at_once() <= GUESSING_LANES_MAX || self.paths(1.0) < GUESSING_PATH_MIN {
            Misses::Waited
        } else if self.gaps_come_at_once() {
            Misses::Avoided
        } else {
            Misses::Hidden
        }
    }

    /// Requests that the source sends at a time, and the server answers.
    fn at_once(&self) -> usize {
        let (refused, answered) = self.refused_beside;
        let most = if refused >= REFUSED_BESIDE_MAX { answered } else { usize::MAX };
        self.source.state().requests_at_once.min(most).max(1)
    }

    /// Pieces are asked ahead of each other, of what is guessed or of everything.
    fn asks_pieces(&self) -> bool {
        self.is_guessing || self.reads_through()
    }

    /// Bytes of pieces that are under way.
    fn under_way_max(&self) -> u64 {
        self.paths(UNDER_WAY_PATHS).max(UNDER_WAY_BYTES_MIN)
    }

    /// So many times what the link brings between a request and its answer.
    fn paths(&self, times: f64) -> u64 {
        (self.link.path_bytes() * times) as u64
    }

    fn gaps_come_at_once(&self) -> bool {
        self.gaps.are_shorter_than(self.link.peak_bytes_per_second() * GAP_WORTH_A_REQUEST.as_secs_f64())
    }

    /// Gaps come sooner than answers to requests, and it may yet turn out how they go on: pieces are asked ahead of each
    /// other, as much as the link needs, so that no answer has to be given up once that is known.
    fn reads_through(&self) -> bool {
        let may_guess = self.learner.as_ref().is_some_and(Learner::may_guess);
        !self.is_hinted && may_guess && self.gaps.are_shorter_than(self.link.path_bytes())
    }

    /// Asks for what follows what has been asked for, gaps and all. False at the end of the file.
    fn ask_piece(&mut self) -> bool {
        let have = self.have();
        let from =
            have.iter().find(|range| range.contains(&self.position)).map_or(self.position, |range| range.end);
        let next = have.iter().map(|range| range.start).find(|&start| start > from);
        let piece = self.paths(1.0).max(PIECE_BYTES_MIN);
        let end = from.saturating_add(piece).min(next.unwrap_or(self.end()));
        if from < end {
            self.ask(iter::once(from..end).collect(), None, false);
        }
        from < end
    }

    /// Asks for the next piece of a run.
    ///
    /// The first is small, or as large as the last run was. A run that goes on is asked for in pieces as long as it is
    /// already, so that a seek makes at most half of what was received useless; but before the first seek boldly, and to the
    /// end of the file if the gaps so far come sooner than an answer to a request.
    fn ask_window(&mut self, from: u64, demand: u64) {
        let run = from - self.run_start.min(from);
        let link = self.link.estimate(&self.source.state(), 0, None);
        let path_bytes = link.bytes_per_second * link.time_to_first_byte.as_secs_f64();
        let size = match run {
            _ if !self.lanes.is_empty() => demand,
            0 => self.last_run.clamp(FIRST_WINDOW_BYTES, FIRST_WINDOW_BYTES_MAX),
            _ if self.seeks == 0 => run.saturating_mul(WINDOW_GROWTH),
            _ => run.max(FIRST_WINDOW_BYTES),
        };
        let reads_through = self.reads_through() && self.lanes.is_empty();
        let size = if reads_through { size.max(path_bytes as u64) } else { size }.max(demand);
        let is_long = run > 0 && size as f64 > path_bytes * WINDOW_ROUND_TRIPS_MAX;
        // Where a gap and a request take about as long, the request is better, for it spares the bytes.
        let gap_max = if self.gaps_come_at_once() { path_bytes } else { path_bytes / 2.0 };
        let is_open = !reads_through && self.gaps.are_shorter_than(gap_max)
            || is_long && (self.seeks == 0 || run > OPEN_AFTER_BYTES);
        let wanted_end = if is_open && self.lanes.is_empty() { OPEN_END } else { from.saturating_add(size) };
        let total = self.end();
        // What little would be left after that comes along.
        let end = if total.saturating_sub(wanted_end) < size / 2 { total } else { wanted_end };
        let coming = self.lanes.iter().flat_map(|lane| &lane.outstanding).map(|range| range.start);
        let next = coming.chain(self.store.next_present(from)).filter(|&start| start > from).min();
        let end = next.map_or(end, |next| end.min(next));
        self.ask(iter::once(from..end.min(total)).collect(), None, false);
    }

    /// What is here or on its way, ascending.
    fn have(&self) -> Vec<Range<u64>> {
        let coming = self
            .lanes
            .iter()
            .flat_map(|lane| lane.outstanding.iter().flat_map(|range| lane.wanted_of(range.clone())));
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
        self.lanes.push(Lane {
            state: State::Opening(Box::pin(self.source.open(request))),
            several: asked.len() > 1,
            outstanding: asked,
            keep,
            is_predicted,
            cursor: 0,
            part_end: 0,
            has_begun: false,
            new_bytes: 0,
            asked_at: Instant::now(),
            asked_in: self.answered,
            connections,
        });
    }
}
