//! Directories: a lock, a store that is one, and files that go.

use std::fs;

use uploads::settings::Destination;

use crate::common::{
    Folder, PART, content, settings, start, try_start, until, until_confirmed, until_failed,
};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn a_second_server_on_a_directory_is_refused_with_the_reason() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let first = start(&folder, settings(&store));
    let refused = try_start(&folder, settings(&store)).expect_err("it is in use");
    assert!(refused.contains("another server"), "{refused}");
    assert!(refused.contains(&*folder.0.to_string_lossy()), "{refused}");
    first.stop();
    start(&folder, settings(&store));
}

#[test]
fn a_directory_is_a_store_too() {
    let (folder, target, store) = (Folder::new(), Folder::new(), FakeStore::start());
    let mut settings = settings(&store);
    settings.destination = Destination::Directory(target.0.join("archive"));
    let large = content(2 * PART + 9, 12);
    let files = [folder.write("live%2Fx/cam/1.mp4", b"content"), folder.write("live/cam/2.mp4", &large)];
    let thread = start(&folder, settings.clone());
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    assert_eq!(fs::read(target.0.join("archive/live%2Fx/cam/1.mp4")).expect("copied"), b"content");
    assert_eq!(fs::read(target.0.join("archive/live/cam/2.mp4")).expect("copied"), large);
    fs::write(target.0.join("archive/3.mp4"), b"another").expect("written");
    let other = folder.write("3.mp4", b"content");
    thread.uploads().completed(&other);
    assert_eq!(until_failed(&thread.uploads(), &other).0, "conflict");
    thread.stop();
    // Without the journal, what is there is read.
    fs::remove_file(folder.0.join(uploads::JOURNAL)).expect("it is there");
    let thread = start(&folder, settings);
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    assert_eq!(thread.uploads().totals().already_there, 2);
}

#[test]
fn files_that_are_gone_are_forgotten_and_their_uploads_aborted() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let file = folder.write("1.mp4", &content(2 * PART, 13));
    store.fail(On::Part, usize::MAX, Fault::Hang);
    let mut slow = settings(&store);
    slow.stall_timeout = std::time::Duration::from_secs(600);
    let thread = start(&folder, slow);
    until("it is being sent", || store.count(On::Part) == 1);
    thread.stop();
    store.recover();
    fs::remove_file(&file).expect("it is there");
    let thread = start(&folder, settings(&store));
    until("its upload is aborted", || store.open_uploads() == 0);
    assert_eq!(thread.uploads().list(None, 10), (Vec::new(), 0));
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_read_fails_alone() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let other = folder.write("2.mp4", b"content");
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &other);
    // A link is not followed, whoever says that it is complete.
    let link = folder.0.join("1.mp4");
    std::os::unix::fs::symlink("/etc/hostname", &link).expect("made");
    let next = folder.write("3.mp4", b"content");
    thread.uploads().completed(&link);
    thread.uploads().completed(&folder.0.join("none.mp4"));
    thread.uploads().completed(std::path::Path::new("/etc/hostname"));
    thread.uploads().completed(&next);
    until_confirmed(&thread.uploads(), &next);
    assert_eq!(thread.uploads().state(&link), None);
    assert_eq!(thread.uploads().list(None, 10).1, 2);
}
