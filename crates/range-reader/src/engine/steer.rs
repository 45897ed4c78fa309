//! What is asked for next, and which answers are given up.

use std::iter;
use std::ops::Range;

use tokio::time::Instant;

use super::lane::{Lane, OPEN_END, State};
use super::{Engine, Length};
use crate::plan::{self, SeekPlan};
use crate::ranges::{self, ByteRange, RequestLimits};
use crate::source::{RangeRequest, Source};

/// First request of a run that is read without a hint.
pub(super) const FIRST_WINDOW_BYTES: u64 = 64 << 10;
/// Each further request of the same run is so many times larger.
const WINDOW_GROWTH: u64 = 4;
/// A run that has come so far is asked for to the end of the file.
const OPEN_AFTER_BYTES: u64 = 4 << 20;
/// What a `Range` field takes at most.
const FIELD_BYTES_MAX: usize = 6000;

impl<S: Source> Engine<S> {
    /// The byte at the position is missing: sees to it that it comes. False if there is nothing to do but wait.
    pub(super) fn steer(&mut self, demand: u64) -> bool {
        if self.pause.is_some() || self.planned_for == Some(self.position) && !self.lanes.is_empty() {
            return false;
        }
        let state = self.source.state();
        let best = self.best_lane();
        if !self.lanes.is_empty() {
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
                SeekPlan::AskAnew => self.make_room_for_request(state.requests_at_once.max(1)),
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
        let link = self.link.estimate(&state, lane.bytes_buffered(), lane.bytes_left());
        // Distances on the lane, not in the file: between the parts of an answer nothing is sent.
        let target = if covers { before } else { OPEN_END };
        plan::choose(0, target, link)
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

    /// Gives answers up until another request can be sent: those that nobody has said to need, then the last one.
    fn make_room_for_request(&mut self, at_once: usize) {
        let hinted = self.wanted.stand_at(self.position);
        if !hinted {
            while let Some(lane) = self.lanes.pop() {
                self.give_up(lane);
            }
        }
        while self.lanes.len() >= at_once {
            let Some(lane) = self.lanes.pop() else { break };
            self.give_up(lane);
        }
    }

    pub(super) fn give_up(&mut self, lane: Lane<S::Body>) {
        let held = lane.bytes_buffered();
        self.bytes_received += held;
        self.store.wasted += held;
    }

    fn ask_for_position(&mut self, demand: u64) {
        if self.wanted.stand_at(self.position) {
            self.wanted.ask_again();
            if self.ask_hints() {
                return;
            }
        }
        if self.position == self.run_start {
            self.run_window = FIRST_WINDOW_BYTES;
        }
        self.ask_window(self.position, demand);
    }

    /// Asks for what comes next, if there is room, before it is missed.
    pub(super) fn look_ahead(&mut self) {
        let idle = self.lanes.is_empty() && self.pause.is_none() && !self.held;
        if !idle || self.length == Length::Unknown || self.whole_only || self.store.is_full(self.position) {
            return;
        }
        if !self.wanted.is_empty() {
            self.wanted.stand_at(self.position);
            self.ask_hints();
            return;
        }
        let end = self.store.end_of_row(self.position);
        let read = self.position - self.run_start;
        if read > 0 && end - self.position <= read / 2 && end < self.end() {
            self.ask_window(end, 0);
        }
    }

    fn ask_hints(&mut self) -> bool {
        let state = self.source.state();
        let several =
            self.config.several_ranges && !self.one_range_only && state.takes_several_ranges != Some(false);
        let link = self.link.estimate(&state, 0, Some(0));
        let limits = RequestLimits {
            ranges_max: if several { self.config.ranges_per_request_max } else { 1 },
            bytes_max: OPEN_END,
            field_bytes_max: FIELD_BYTES_MAX,
            gap_bytes_max: plan::gap_worth_receiving(link, several, state.requests_at_once),
        };
        let have = self.have();
        let (asked, keep) = self.wanted.next_request(self.position, &have, self.end(), limits);
        if asked.is_empty() {
            return false;
        }
        self.ask(asked, Some(keep));
        true
    }

    /// Asks for the next piece of a run.
    fn ask_window(&mut self, from: u64, demand: u64) {
        let run = from - self.run_start.min(from);
        let size = self.run_window.max(demand);
        let total = self.end();
        let wanted_end = if run >= OPEN_AFTER_BYTES { OPEN_END } else { from.saturating_add(size) };
        // What little would be left after that comes along.
        let end = if total.saturating_sub(wanted_end) < size / 2 { total } else { wanted_end };
        let end = self.store.next_present(from).map_or(end, |present| end.min(present));
        self.run_window = size.saturating_mul(WINDOW_GROWTH).min(OPEN_AFTER_BYTES);
        self.ask(iter::once(from..end.min(total)).collect(), None);
    }

    /// What is here or on its way, ascending.
    fn have(&self) -> Vec<Range<u64>> {
        let coming = self.lanes.iter().flat_map(|lane| &lane.outstanding).cloned();
        let all: Vec<_> = self.store.ranges().chain(coming).collect();
        ranges::merge(&all, 0)
    }

    fn ask(&mut self, asked: Vec<Range<u64>>, keep: Option<Vec<Range<u64>>>) {
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
            cursor: 0,
            part_end: 0,
            has_brought: false,
            asked_at: Instant::now(),
            asked_in: self.answered,
            connections,
        });
    }
}
