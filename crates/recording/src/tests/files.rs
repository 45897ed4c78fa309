//! Where files begin and end, and what is in them.

use std::sync::atomic::{AtomicBool, Ordering};

use media::{Codec, FrameRole, Timestamp, TrackId};

use super::memory::Memory;
use super::*;
use crate::catalogue::State;
use crate::scan::{Check, scan};

/// Names and frames of video of all files.
fn files(memory: &Memory) -> Vec<(String, usize)> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    memory.files().into_iter().map(|(path, bytes)| (name(&path), feed::read(bytes).0[0].len())).collect()
}

#[test]
fn files_follow_each_other_by_time_without_a_frame_lost() {
    let memory = Memory::default();
    let mut rotating = settings(Format::Mp4);
    rotating.rules[0].files.as_mut().unwrap().rotation.after = Duration::from_secs(4);
    let mut rig = Rig::new(Box::new(memory.clone()), rotating);
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 12, 700);
    rig.publish(&frames);
    rig.finish();
    assert_eq!(files(&memory).iter().map(|(_, frames)| *frames).collect::<Vec<_>>(), [100, 100, 100]);
    let mut all = [Vec::new(), Vec::new()];
    for bytes in memory.files().into_values() {
        let (found, error) = feed::read(bytes);
        assert_eq!(error, None);
        all.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
    }
    assert_eq!(all, feed::published(&frames));
    // Names say when each begins.
    let starts: Vec<_> = rig.shared.catalogue().keys().map(|name| (name.start - BEGIN).as_millis()).collect();
    assert!(
        starts[1].abs_diff(starts[0] + 4_000) < 150 && starts[2].abs_diff(starts[1] + 4_000) < 5,
        "{starts:?}"
    );
    assert!(rig.shared.catalogue().values().all(|entry| entry.state == State::Complete));
}

#[test]
fn files_follow_each_other_by_bytes() {
    let memory = Memory::default();
    let mut rotating = settings(Format::Mp4);
    rotating.rules[0].files.as_mut().unwrap().rotation.bytes = 50_000;
    let mut rig = Rig::new(Box::new(memory.clone()), rotating);
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 12, 700));
    rig.finish();
    let found = files(&memory);
    assert!(found.len() >= 3, "{found:?}");
    assert_eq!(found.iter().map(|(_, frames)| frames).sum::<usize>(), 300);
}

#[test]
fn a_recording_that_something_else_needs_stays_although_it_is_old() {
    let memory = Memory::default();
    let mut kept = settings(Format::Mp4);
    kept.rules[0].files.as_mut().unwrap().retention.age = Some(Duration::from_secs(60));
    let is_needed = Arc::new(AtomicBool::new(true));
    let of_rig = Arc::clone(&is_needed);
    let needed = Needed(Arc::new(move |path| {
        assert!(
            path.starts_with("/r/live/a") && path.extension().is_some_and(|name| name == "mp4"),
            "{path:?}"
        );
        of_rig.load(Ordering::Relaxed)
    }));
    let mut rig = Rig::needing(Box::new(memory.clone()), kept, needed);
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 4, 700));
    rig.finish();
    rig.pass(Duration::from_secs(600));
    assert_eq!(files(&memory).len(), 1, "needed");
    is_needed.store(false, Ordering::Relaxed);
    rig.pass(Duration::from_secs(600));
    assert_eq!(files(&memory).len(), 0, "old, and not needed any more");
}

#[test]
fn every_fragment_has_the_wall_clock_and_a_checksum() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 8, 700));
    rig.finish();
    let (path, bytes) = memory.files().into_iter().next().unwrap();
    let count = |what: &[u8]| bytes.windows(what.len()).filter(|window| *window == what).count();
    let fragments = count(b"moof");
    assert!(fragments >= 16, "a second each, of two tracks: {fragments}");
    assert_eq!((count(b"prft"), count(b"\0\0\0\x10freecrc ")), (fragments, fragments));
    let mut file = memory.clone().open(&path, false).unwrap();
    let found = scan(&mut *file, Format::Mp4, Check::Everything).unwrap();
    assert!(
        found.is_complete && found.is_sound,
        "{} of {} {}",
        found.whole_bytes,
        found.bytes,
        found.is_complete
    );
    assert_eq!(found.fragments, fragments as u64);
    let (first, last) = found.wall_clock.unwrap();
    assert!(first >= BEGIN && first < BEGIN + Duration::from_millis(200), "{first:?}");
    assert!(last >= BEGIN + Duration::from_secs(6) && last < BEGIN + Duration::from_secs(8), "{last:?}");
    // A byte that is not what was written is found, wherever it is.
    for at in [500, bytes.len() / 2, bytes.len() * 3 / 4] {
        memory.state().files.get_mut(&path).unwrap()[at] ^= 0x10;
        let found = scan(&mut *file, Format::Mp4, Check::Everything);
        assert!(!found.unwrap().is_sound || at == 500, "{at}");
        memory.state().files.get_mut(&path).unwrap()[at] ^= 0x10;
    }
}

#[test]
fn a_publisher_that_comes_back_or_jumps_begins_a_new_file() {
    for format in Format::ALL {
        let memory = Memory::default();
        let mut rig = Rig::new(Box::new(memory.clone()), settings(format));
        rig.publish(&feed::configurations());
        rig.publish(&feed::frames(0, 4, 700));
        rig.feeder.take(TapItem::Stop, rig.wall);
        rig.publish(&feed::configurations());
        rig.publish(&feed::frames(0, 4, 700));
        // Its clock is an hour later.
        rig.publish(&feed::frames(3600, 4, 700));
        rig.finish();
        assert_eq!(memory.files().len(), 3, "{format:?}");
    }
}

#[test]
fn a_track_that_comes_late_begins_a_new_file_that_has_it() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    let configurations = feed::configurations();
    let frames = feed::frames(0, 16, 700);
    let is_video = |frame: &&Arc<Frame>| frame.track == TrackId::VIDEO;
    let early = frames.iter().take_while(|frame| frame.dts < Timestamp::from_millis(6_000));
    rig.publish(&configurations[..1]);
    rig.publish(&early.clone().filter(is_video).cloned().collect::<Vec<_>>());
    rig.publish(&configurations[1..]);
    rig.publish(&frames[early.count()..]);
    rig.finish();
    let found: Vec<_> = memory.files().into_values().map(|bytes| feed::read(bytes).0).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0][0].len() + found[1][0].len(), 400, "no picture is lost");
    assert!(found[0][1].is_empty() && found[1][1].len() > 300, "{} frames", found[1][1].len());
}

#[test]
fn a_new_format_begins_a_new_file() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 12, 700);
    let (before, after) = frames.split_at(frames.iter().position(|f| f.dts.millis() >= 6_000).unwrap());
    rig.publish(before);
    let mut record = feed::configurations()[0].data().to_vec();
    record[3] = 0x1f;
    let time = (Timestamp::from_millis(6_000), Timestamp::from_millis(6_000));
    let config = Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, time, record);
    rig.publish(&[Arc::new(config)]);
    rig.publish(after);
    rig.finish();
    assert_eq!(files(&memory).iter().map(|(_, frames)| *frames).collect::<Vec<_>>(), [150, 150]);
}

#[test]
fn old_recordings_are_removed_while_new_ones_are_made() {
    let memory = Memory::default();
    let mut keeping = settings(Format::Mp4);
    let files = keeping.rules[0].files.as_mut().unwrap();
    files.rotation.after = Duration::from_secs(2);
    files.retention.files = Some(2);
    let mut rig = Rig::new(Box::new(memory.clone()), keeping);
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 12, 700));
    rig.finish();
    rig.pass(Duration::from_secs(61));
    assert_eq!(memory.files().len(), 2);
    let events = rig.events();
    assert_eq!(events.iter().filter(|event| event.starts_with("Removed")).count(), 4, "{events:?}");
    assert_eq!(rig.settings.rules.len(), 1);
}

#[test]
fn sound_alone_is_recorded() {
    for format in Format::ALL {
        let memory = Memory::default();
        let mut rig = Rig::new(Box::new(memory.clone()), settings(format));
        rig.publish(&feed::configurations()[1..]);
        let frames = feed::frames(0, 6, 700);
        let sound: Vec<_> = frames.iter().filter(|frame| frame.track == TrackId::AUDIO).cloned().collect();
        rig.publish(&sound);
        rig.finish();
        let files = memory.files();
        assert_eq!(files.len(), 1, "{format:?}");
        if format == Format::Mp4 {
            let (found, error) = feed::read(files.into_values().next().unwrap());
            assert_eq!((found[1].clone(), error), (feed::published(&sound)[1].clone(), None));
        }
    }
}

#[test]
fn durations_of_an_earlier_run_are_read_while_nothing_else_is_to_be_done() {
    for format in Format::ALL {
        let memory = Memory::default();
        let mut rotating = settings(format);
        rotating.rules[0].files.as_mut().unwrap().rotation.after = Duration::from_secs(4);
        let mut rig = Rig::new(Box::new(memory.clone()), rotating.clone());
        rig.publish(&feed::configurations());
        rig.publish(&feed::frames(0, 12, 700));
        rig.finish();
        let durations =
            |rig: &Rig| -> Vec<_> { rig.shared.catalogue().values().map(|entry| entry.duration).collect() };
        let known = durations(&rig);
        assert!(known.len() == 3 && known.iter().all(Option::is_some), "{format:?} {known:?}");
        // One of them is damaged by now: the others are read all the same.
        let damaged = memory.files().into_keys().next_back().unwrap();
        memory.state().files.get_mut(&damaged).unwrap().truncate(5);
        let mut rig = Rig::new(Box::new(memory.clone()), rotating);
        assert_eq!(durations(&rig), [None; 3], "{format:?}");
        rig.shared.queue.close();
        rig.writer.tend(false, rig.now());
        assert_eq!(durations(&rig), [None; 3], "there is something else to do");
        let due = rig.writer.tend(true, rig.now());
        assert!(due.is_some_and(|due| due <= rig.at), "the next one at once");
        for _ in 0..10 {
            rig.writer.tend(true, rig.now());
        }
        let read = durations(&rig);
        assert_eq!(read[2], None, "{format:?}");
        for (read, known) in read.iter().zip(&known).take(2) {
            let (read, known) = (read.unwrap(), known.unwrap());
            assert!(read.abs_diff(known) < Duration::from_millis(2), "{format:?}: {read:?}, not {known:?}");
        }
        let due = rig.writer.tend(true, rig.now());
        assert!(due.is_some_and(|due| due > rig.at), "and then there is nothing to do");
    }
}
