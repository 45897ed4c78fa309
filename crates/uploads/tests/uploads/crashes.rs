//! Restarts at every point.

use std::fs;

use crate::common::{Folder, PART, content, settings, start, until, until_confirmed};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn an_upload_in_parts_goes_on_with_the_next_part_after_a_restart() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let content = content(4 * PART + 11, 8);
    let file = folder.write("1.mp4", &content);
    // At this pace it takes a second, and the server ends in between.
    let mut slow = settings(&store);
    slow.stall_timeout = std::time::Duration::from_secs(600);
    slow.bytes_per_second = Some(1_000_000);
    let thread = start(&folder, slow);
    until("two parts are there", || thread.uploads().totals().sent_bytes >= 2 * PART as u64);
    thread.stop();
    let before = store.count(On::Part);
    assert_eq!(store.open_uploads(), 1);
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    assert_eq!(store.object("1.mp4").expect("it is there").content, content);
    let totals = thread.uploads().totals();
    assert_eq!(totals.resumed, 1);
    assert!(totals.sent_bytes < 3 * PART as u64, "{}", totals.sent_bytes);
    // The store may count the part that was cut off after `before` was read.
    assert!(store.count(On::Part) <= before + 4, "only what was missing");
    assert_eq!((store.count(On::Begin), store.open_uploads()), (1, 0));
}

#[test]
fn an_upload_that_the_store_has_forgotten_begins_from_its_first_part() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let content = content(2 * PART + 11, 9);
    let file = folder.write("1.mp4", &content);
    store.fail(On::Complete, usize::MAX, Fault::Hang);
    let mut slow = settings(&store);
    slow.stall_timeout = std::time::Duration::from_secs(600);
    let thread = start(&folder, slow);
    until("it is about to be completed", || store.count(On::Complete) == 1);
    thread.stop();
    store.expire_uploads();
    store.recover();
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    assert_eq!(store.object("1.mp4").expect("it is there").content, content);
    assert_eq!(store.count(On::Begin), 2);
}

#[test]
fn a_journal_torn_at_every_byte_loses_nothing_and_sends_nothing_twice() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let files: Vec<_> = (0..3).map(|index| folder.write(&format!("{index}.mp4"), b"content")).collect();
    let thread = start(&folder, settings(&store));
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    thread.stop();
    let journal = folder.0.join(uploads::JOURNAL);
    let whole = fs::read(&journal).expect("it is there");
    assert!(whole.len() > 300, "{}", whole.len());
    for length in (0..whole.len()).step_by(7) {
        fs::write(&journal, &whole[..length]).expect("written");
        let thread = start(&folder, settings(&store));
        files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
        thread.stop();
    }
    assert_eq!(store.count(On::Put), 3);
}

#[test]
fn a_file_that_has_another_content_after_a_restart_is_not_taken_for_the_old_one() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let file = folder.write("1.mp4", &content(2 * PART, 10));
    store.fail(On::Part, usize::MAX, Fault::Hang);
    let mut slow = settings(&store);
    slow.stall_timeout = std::time::Duration::from_secs(600);
    let thread = start(&folder, slow);
    until("it is being sent", || store.count(On::Part) == 1);
    thread.stop();
    store.recover();
    let other = content(2 * PART + 5, 11);
    folder.write("1.mp4", &other);
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    assert_eq!(store.object("1.mp4").expect("it is there").content, other);
    assert_eq!(store.open_uploads(), 0, "the first upload was aborted");
}

#[test]
fn the_journal_of_another_store_counts_for_nothing() {
    let (folder, first, second) = (Folder::new(), FakeStore::start(), FakeStore::start());
    let file = folder.write("1.mp4", b"content");
    for store in [&first, &second] {
        let thread = start(&folder, settings(store));
        until_confirmed(&thread.uploads(), &file);
        thread.stop();
        assert!(store.object("1.mp4").is_some());
    }
}
