//! Disks that are slow, full, read-only or gone, and what of it is said.

use std::sync::atomic::Ordering;

use super::memory::Memory;
use super::*;

/// All frames of all files, by track, and how many files there are.
fn recorded(memory: &Memory) -> ([Vec<Vec<u8>>; 2], usize) {
    let mut tracks = [Vec::new(), Vec::new()];
    let files = memory.files();
    let count = files.len();
    for (path, bytes) in files {
        assert_eq!(path.extension().unwrap(), "mp4", "complete");
        let (found, error) = feed::read(bytes);
        assert_eq!(error, None);
        tracks.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
    }
    (tracks, count)
}

/// Frames of one list are in the other, in order.
fn is_within(some: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut all = all.iter();
    some.iter().all(|frame| all.any(|other| other == frame))
}

fn check(memory: &Memory, frames: &[Arc<Frame>], files: usize, least: usize) {
    let published = feed::published(frames);
    let (found, count) = recorded(memory);
    assert_eq!(count, files);
    for track in 0..2 {
        assert!(is_within(&found[track], &published[track]), "nothing twice, nothing else");
    }
    assert!(found[0].len() >= least && found[0].len() < published[0].len(), "{}", found[0].len());
}

#[test]
fn a_slow_disk_costs_a_gap_and_the_recording_goes_on_by_itself() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 40, 700);
    let mut waited_most = 0;
    for frame in &frames {
        rig.come(frame);
        let seconds = frame.dts.millis() / 1000;
        // The disk does nothing for twenty seconds. Whoever publishes does not notice.
        if !(10..30).contains(&seconds) {
            rig.write(usize::MAX);
        }
        waited_most = waited_most.max(rig.shared.queue.bytes());
    }
    rig.finish();
    assert!(waited_most < 300_000, "bounded by seconds: {waited_most}");
    assert!(rig.shared.queue.counters.fragments_lost.load(Ordering::Relaxed) >= 3);
    assert!(!rig.shared.queue.is_losing(), "it is over");
    check(&memory, &frames, 2, 25 * 25);
    assert_eq!(rig.events().len(), 4, "two begun, two completed");
}

#[test]
fn a_full_disk_leaves_a_file_that_plays_and_a_new_one_when_there_is_room() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 30, 700);
    for frame in &frames {
        let seconds = frame.dts.millis() / 1000;
        if seconds == 10 {
            memory.state().room.get_or_insert(5_000);
        }
        if seconds == 20 {
            memory.state().room = None;
        }
        rig.publish(std::slice::from_ref(frame));
        if seconds == 15 {
            assert!(rig.shared.failure().as_ref().is_some_and(|failure| failure.contains("No space")));
        }
    }
    assert_eq!(*rig.shared.failure(), None, "it works again");
    rig.finish();
    rig.pass(Duration::from_secs(30));
    check(&memory, &frames, 2, 16 * 25);
}

#[test]
fn a_disk_that_is_read_only_or_gone_is_tried_again_until_it_works() {
    for is_gone in [false, true] {
        let memory = Memory::default();
        let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
        rig.publish(&feed::configurations());
        let frames = feed::frames(0, 30, 700);
        for frame in &frames {
            let fails = (10..20).contains(&(frame.dts.millis() / 1000));
            let mut state = memory.state();
            (state.is_read_only, state.is_gone) = (fails && !is_gone, fails && is_gone);
            drop(state);
            rig.publish(std::slice::from_ref(frame));
            assert!(fails || frame.dts.millis() < 22_000 || rig.shared.failure().is_none());
        }
        rig.finish();
        rig.pass(Duration::from_secs(30));
        check(&memory, &frames, 2, 16 * 25);
    }
}

#[test]
fn a_failed_sync_ends_the_file() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 20, 700);
    for frame in &frames {
        memory.state().fails_sync = (5_000..8_000).contains(&frame.dts.millis());
        rig.publish(std::slice::from_ref(frame));
    }
    rig.finish();
    rig.pass(Duration::from_secs(30));
    check(&memory, &frames, 2, 12 * 25);
}

#[test]
fn a_clock_that_is_set_back_ends_in_no_file_twice() {
    let memory = Memory::default();
    let mut rotating = settings(Format::Mp4);
    rotating.rules[0].files.as_mut().unwrap().rotation.after = Duration::from_secs(2);
    rotating.rules[0].files.as_mut().unwrap().retention.age = Some(Duration::from_secs(1000));
    let mut rig = Rig::new(Box::new(memory.clone()), rotating);
    for hour in 0..3 {
        // The same hour again.
        rig.wall = BEGIN;
        rig.feeder.take(TapItem::Stop, rig.wall);
        rig.publish(&feed::configurations());
        rig.publish(&feed::frames(0, 6, 700));
        rig.finish();
        assert_eq!(memory.files().len(), 3 * (hour + 1));
    }
    let (found, _) = recorded(&memory);
    assert_eq!(found[0].len(), 3 * 150);
}
