//! A file is read forward, what is read was announced, and what waits is bounded.

use std::io::{Cursor, Read, Result, Seek, SeekFrom};
use std::ops::Range;

use crate::muxer::{Layout, Track, audio, frames, pictures, video, write};
use mp4::{Limits, Mp4};

/// A reader that notes what is read of it.
struct Noted {
    bytes: Cursor<Vec<u8>>,
    reads: Vec<Range<u64>>,
    /// Every so many reads one fails; 0: none.
    fails_every: usize,
    asked: usize,
}

impl Noted {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Cursor::new(bytes), reads: Vec::new(), fails_every: 0, asked: 0 }
    }

    /// Steps back between reads, and their bytes.
    fn steps_back(&self) -> (usize, u64) {
        let steps = self.reads.windows(2).filter(|pair| pair[1].start < pair[0].end);
        steps.fold((0, 0), |(steps, bytes), pair| (steps + 1, bytes + pair[0].end - pair[1].start))
    }
}

impl Read for Noted {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.asked += 1;
        if self.fails_every > 0 && self.asked.is_multiple_of(self.fails_every) {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let start = self.bytes.position();
        let read = self.bytes.read(buffer)?;
        if read > 0 {
            self.reads.push(start..start + read as u64);
        }
        Ok(read)
    }
}

impl Seek for Noted {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.bytes.seek(to)
    }
}

/// Half a minute: 25 pictures and 47 frames of audio per second, 300 kB.
fn tracks() -> [Track; 2] {
    [video(pictures(750, 25, 350)), audio(frames(1406, 20))]
}

fn read_to_end(file: &mut Mp4<Noted>) -> usize {
    std::iter::from_fn(|| file.next_sample().unwrap()).count()
}

#[test]
fn interleaved_files_are_read_forward_only() {
    for (layout, remark) in [
        (Layout { chunk: 12, ..Layout::default() }, "half a second of pictures, a quarter of audio"),
        (Layout { chunk: 1, gap: 50, ..Layout::default() }, "sample by sample, others between"),
        (Layout { fragment: 25, ..Layout::default() }, "fragments"),
        (Layout { fragment: 25, separate: true, ..Layout::default() }, "a fragment per track"),
        (Layout { fragment: 25, hybrid: true, ..Layout::default() }, "the first in the index"),
    ] {
        // Two tracks of the same length in samples, so that their chunks stay together.
        let tracks = [video(pictures(750, 25, 350)), audio(frames(750, 20))].map(|mut track| {
            track.timescale = 12_800;
            track.units.iter_mut().for_each(|unit| unit.duration = 512);
            track
        });
        let (bytes, _) = write(&tracks, &layout);
        let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
        assert_eq!(read_to_end(&mut file), 1500, "{remark}");
        assert_eq!(file.get_ref().steps_back(), (0, 0), "{remark}");
    }
}

#[test]
fn an_index_at_the_end_costs_one_step_back() {
    let (bytes, _) = write(&tracks(), &Layout { moov_first: false, chunk: 12, ..Layout::default() });
    let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
    // The headers of ftyp, mdat and moov, and the index: of the media not a byte.
    let read: u64 = file.get_ref().reads.iter().map(|read| read.end - read.start).sum();
    assert!(read < 30_000, "{read} bytes");
    read_to_end(&mut file);
    assert_eq!(file.get_ref().steps_back().0, 1);
}

#[test]
fn tracks_one_behind_the_other_are_read_in_long_runs() {
    let (bytes, _) = write(&tracks(), &Layout { interleaved: false, ..Layout::default() });
    let limits = Limits { reorder_bytes: 64 << 10, ..Limits::default() };
    let mut file = Mp4::open(Noted::new(bytes), limits).unwrap();
    assert_eq!(read_to_end(&mut file), 2156);
    let (steps, _) = file.get_ref().steps_back();
    // 300 kB in runs of at most 16 KiB, each of which has audio to go to.
    assert!((5..60).contains(&steps), "{steps} steps back");
}

#[test]
fn what_is_read_was_announced_in_that_order() {
    for (layout, remark) in [
        (Layout { chunk: 12, gap: 200, ..Layout::default() }, "interleaved, others between"),
        (Layout { moov_first: false, chunk: 3, ..Layout::default() }, "index last"),
        (Layout { interleaved: false, ..Layout::default() }, "one behind the other"),
    ] {
        let (bytes, _) = write(&tracks(), &layout);
        let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
        let mut announced: Vec<Range<u64>> = Vec::new();
        file.get_mut().reads.clear();
        loop {
            // What is new of it: the rest was announced before.
            announced.extend(file.upcoming(1_000).unwrap());
            if file.next_sample().unwrap().is_none() {
                break;
            }
        }
        announced.dedup();
        for read in &file.get_ref().reads {
            let covers = |range: &&Range<u64>| range.start <= read.start && read.end <= range.end;
            assert!(announced.iter().any(|range| covers(&range)), "{remark}: {read:?} was not announced");
        }
    }
}

#[test]
fn hints_have_about_the_size_that_was_asked_for_and_read_nothing() {
    let tracks = tracks();
    let all_bytes: u64 = tracks.iter().flat_map(|track| &track.units).map(|unit| u64::from(unit.size)).sum();
    let (bytes, _) = write(&tracks, &Layout { chunk: 12, ..Layout::default() });
    let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
    let before = file.get_ref().reads.len();
    let sum = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
    let first = file.upcoming(20_000).unwrap();
    assert!((20_000..40_000).contains(&sum(&first)), "{first:?}");
    let all = file.upcoming(u64::MAX).unwrap();
    assert_eq!(sum(&all), all_bytes);
    assert_eq!(all.len(), 1, "neighbours are joined");
    assert_eq!(file.get_ref().reads.len(), before);
}

#[test]
fn hints_of_fragments_go_on_behind_what_is_known() {
    let (bytes, _) = write(&tracks(), &Layout { fragment: 25, ..Layout::default() });
    let length = bytes.len() as u64;
    let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
    let ranges = file.upcoming(50_000).unwrap();
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0].end - ranges[0].start, 50_000);
    // With one of the tracks only the head of the next fragment is sure to be needed.
    file.select(Some(1), None).unwrap();
    file.next_sample().unwrap();
    let ranges = file.upcoming(50_000).unwrap();
    let last = ranges.last().unwrap();
    assert!(last.end - last.start <= 16 << 10, "{ranges:?} of {length}");
}

#[test]
fn what_waits_for_its_turn_is_bounded() {
    // Audio is 30 s behind its pictures: more than may wait.
    let (bytes, _) = write(&tracks(), &Layout { interleaved: false, ..Layout::default() });
    for window in [1_000, 10_000, 100_000] {
        let limits = Limits { reorder_bytes: window, ..Limits::default() };
        let mut file = Mp4::open(Noted::new(bytes.clone()), limits).unwrap();
        file.get_mut().reads.clear();
        let mut given = 0;
        while let Some(sample) = file.next_sample().unwrap() {
            given += sample.frame.data().len() as u64;
            let read: u64 = file.get_ref().reads.iter().map(|read| read.end - read.start).sum();
            assert!(read - given <= window + 400, "{} bytes wait, {window} may", read - given);
        }
    }
}

#[test]
fn after_an_error_of_the_reader_the_same_sample_can_be_asked_for_again() {
    for layout in [Layout { chunk: 12, ..Layout::default() }, Layout { fragment: 25, ..Layout::default() }] {
        let (bytes, _) = write(&tracks(), &layout);
        let wanted = crate::muxer::read_all(&bytes);
        let mut file = Mp4::open(Noted::new(bytes), Limits::default()).unwrap();
        file.get_mut().fails_every = 7;
        let (mut read, mut errors) = (Vec::new(), 0);
        loop {
            match file.next_sample() {
                Ok(Some(sample)) => read.push(sample),
                Ok(None) => break,
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 100, "{errors} errors");
        assert_eq!(read, wanted);
    }
}
