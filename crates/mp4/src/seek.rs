//! Finding a time, or the end, in a file whose samples are in fragments.
//!
//! A fragment tells its times itself. With an index (`index.rs`) the search begins near, without
//! one at the first fragment: headers and `moof` boxes are read then, and no media. What an index
//! says wrongly costs a search from the start.

use std::io::{Read, Seek};
use std::time::Duration;

use super::file::{Mp4, find_fragment, media_of};
use super::fragment::Fragment;
use super::index::{self, FragmentIndex};
use super::{Mp4Error, Track};
use media::{MediaKind, Timestamp};

/// A place from which decoding can begin.
struct Place {
    fragment_at: u64,
    /// Decoding time of the key frame.
    dts: i64,
    /// When the key frame is shown.
    shown: Timestamp,
    /// Decoding time per lane at the start of the fragment, for those that say none.
    next_dts: Vec<i64>,
}

impl<R: Read + Seek> Mp4<R> {
    /// When the last frame of the selected tracks ends, like [`Mp4::frames_duration`], but looked
    /// for in the fragments if the file does not say it: that reads an index at the end of the
    /// file, or the `moof` boxes of all fragments. Rewinds if it looks.
    pub fn find_duration(&mut self) -> Result<Option<Duration>, Mp4Error> {
        if self.frames_duration().is_some() || self.first_fragment.is_none() {
            return Ok(self.frames_duration());
        }
        self.find_indexes()?;
        let last = |index: &FragmentIndex| index.entries.last().map(|(_, at)| *at);
        let selected =
            self.indexes.iter().filter(|index| self.lanes.iter().any(|lane| lane.id == index.track_id));
        let start = selected.filter_map(last).min();
        let near = match start {
            Some(start) => unless_broken(self.find_ends(Some(start)))?,
            None => None,
        };
        let ends = match near.filter(|ends| ends.iter().all(Option::is_some)) {
            Some(ends) => ends,
            None => self.find_ends(self.first_fragment)?,
        };
        for (lane, end) in self.lanes.iter().zip(ends) {
            let track = &mut self.movie.tracks[lane.track];
            track.frames_end = Some(end.unwrap_or_default());
            track.end = track.end.or(track.frames_end);
        }
        self.rewind();
        Ok(self.frames_duration())
    }

    /// Goes to the last key frame at or before a time in the fragments; gives when it is shown.
    pub(super) fn seek_in_fragments(&mut self, at: Timestamp) -> Result<Timestamp, Mp4Error> {
        self.find_indexes()?;
        let Some(first) = self.first_fragment else { return Ok(Timestamp::ZERO) };
        let near = self.near(at).filter(|near| *near > first);
        let mut place = match near {
            Some(near) => unless_broken(self.find_place(near, at, false))?.flatten(),
            None => None,
        };
        if place.is_none() {
            place = self.find_place(first, at, true)?;
        }
        self.rewind();
        let Some(place) = place else { return Ok(Timestamp::ZERO) };
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let media = media_of(&self.movie, lane.track);
            let from =
                if lane.kind == MediaKind::Video { place.dts } else { lane.media_time(place.shown, media) };
            lane.enter_fragments(media, place.next_dts[index], from);
        }
        self.next_fragment = Some(place.fragment_at);
        Ok(place.shown)
    }

    /// Where an index would begin.
    fn near(&self, at: Timestamp) -> Option<u64> {
        let lane = self.lanes.first()?;
        let index = self.indexes.iter().find(|index| index.track_id == lane.id).or(self.indexes.first())?;
        let media = media_of(&self.movie, lane.track);
        index.before(lane.media_time(at, media), lane.timescale)
    }

    /// Searches fragments from `at` on. `is_first`: they are all that there are; else each has to
    /// tell its time.
    fn find_place(&mut self, at: u64, wanted: Timestamp, is_first: bool) -> Result<Option<Place>, Mp4Error> {
        let (mut next_dts, mut place, mut walked) = (self.ends_of_tables(), None, 0);
        let mut next = Some(at);
        while let Some(at) = next {
            let Some((fragment, behind)) = find_fragment(&mut self.input, at, &self.movie, &self.limits)?
            else {
                break;
            };
            if !is_first && fragment.runs.iter().any(|run| run.is_first && run.start.is_none()) {
                return Ok(None);
            }
            self.count(&fragment, &mut walked)?;
            let before = next_dts.clone();
            let mut is_beyond = false;
            self.walk(&fragment, &mut next_dts, |lane, is_key, dts, shown, _| {
                if lane == 0 && shown > wanted {
                    is_beyond = true;
                } else if lane == 0 && is_key {
                    place = Some(Place { fragment_at: at, dts, shown, next_dts: before.clone() });
                }
            });
            if is_beyond {
                break;
            }
            next = behind;
        }
        Ok(place)
    }

    /// When the samples of each lane end, from a fragment on; `None` for lanes without.
    fn find_ends(&mut self, mut next: Option<u64>) -> Result<Vec<Option<Timestamp>>, Mp4Error> {
        let (mut next_dts, mut walked) = (self.ends_of_tables(), 0);
        let mut ends = vec![None; self.lanes.len()];
        while let Some(at) = next {
            let Some((fragment, behind)) = find_fragment(&mut self.input, at, &self.movie, &self.limits)?
            else {
                break;
            };
            self.count(&fragment, &mut walked)?;
            self.walk(&fragment, &mut next_dts, |lane, _, _, _, end| {
                ends[lane] = ends[lane].max(Some(end));
            });
            next = behind;
        }
        Ok(ends)
    }

    /// Adds the samples of a fragment to those that a search has gone through: few bytes can
    /// declare many.
    fn count(&self, fragment: &Fragment, walked: &mut u64) -> Result<(), Mp4Error> {
        *walked += fragment.runs.iter().map(|run| u64::from(run.len())).sum::<u64>();
        Mp4Error::check("samples of all fragments", *walked, self.limits.samples.into())
    }

    /// Hands all samples of the lanes in a fragment to `visit`: lane, key frame or not, decoding
    /// time, when it is shown, and until when.
    fn walk(
        &self,
        fragment: &Fragment,
        next_dts: &mut [i64],
        mut visit: impl FnMut(usize, bool, i64, Timestamp, Timestamp),
    ) {
        for run in &fragment.runs {
            let Some(index) = self.lanes.iter().position(|lane| lane.id == run.track_id) else { continue };
            let lane = &self.lanes[index];
            let media = media_of(&self.movie, lane.track);
            let mut run = run.clone();
            let mut dts = run.start.unwrap_or(next_dts[index]);
            while let Some(entry) = run.next(dts) {
                let is_key = entry.is_key || lane.kind == MediaKind::Audio;
                let end = entry.pts.saturating_add(entry.duration.into());
                visit(index, is_key, dts, lane.shown_at(entry.pts, media), lane.shown_at(end, media));
                dts = dts.saturating_add(entry.duration.into());
            }
            next_dts[index] = dts;
        }
    }

    /// Decoding time behind the samples of the tables, per lane.
    fn ends_of_tables(&self) -> Vec<i64> {
        self.lanes.iter().map(|lane| media_of(&self.movie, lane.track).tables.duration()).collect()
    }

    /// Looks for an index at the end of the file, once, if there was none in front.
    fn find_indexes(&mut self) -> Result<(), Mp4Error> {
        if self.indexes.is_empty() && !std::mem::replace(&mut self.is_mfra_read, true) {
            self.indexes = index::find_mfra(&mut self.input, &self.limits)?;
        }
        Ok(())
    }
}

/// What was found by an index; `None` if the file is not as the index says.
fn unless_broken<T>(found: Result<T, Mp4Error>) -> Result<Option<T>, Mp4Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Mp4Error::Io(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// What `sidx` says about the end of its track, and, if it is the only one, about all tracks.
pub(super) fn set_ends(tracks: &mut [Track], indexes: &[FragmentIndex]) {
    for track in tracks.iter_mut().filter(|track| track.end.is_none()) {
        let own = indexes.iter().find(|index| index.track_id == track.id);
        let index = own.or(if indexes.len() == 1 { indexes.first() } else { None });
        track.end = index.and_then(|index| Some(Timestamp::from_ticks(index.end?, index.timescale?)));
        track.frames_end = track.end;
    }
}
