//! Local copies are kept until they are confirmed, and removed only where that is asked for.

use std::time::Duration;

use crate::common::{Folder, settings, start, until, until_confirmed};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn a_local_copy_is_removed_only_after_it_was_confirmed() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let file = folder.write("1.mp4", b"content");
    let mut settings = settings(&store);
    settings.delete_local_after = Some(Duration::ZERO);
    store.fail(On::Any, usize::MAX, Fault::Status(500));
    let thread = start(&folder, settings.clone());
    until("it fails", || thread.uploads().totals().failures.iter().sum::<u64>() > 3);
    assert!(file.exists() && !thread.uploads().is_confirmed(&file));
    store.recover();
    until_confirmed(&thread.uploads(), &file);
    thread.stop();
    assert!(file.exists(), "scans remove; none was due since");
    let thread = start(&folder, settings);
    until("it is removed", || !file.exists());
    assert!(store.object("1.mp4").is_some());
    until("it is counted", || thread.uploads().totals().removed == 1);
}

#[test]
fn local_copies_stay_if_nothing_else_was_said() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let file = folder.write("1.mp4", b"content");
    for _ in 0..2 {
        let thread = start(&folder, settings(&store));
        until_confirmed(&thread.uploads(), &file);
        thread.stop();
    }
    assert!(file.exists());
}
