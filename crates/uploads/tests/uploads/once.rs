//! Each file is sent once, by its content.

use crate::common::{Folder, PART, content, settings, start, until, until_confirmed, until_failed};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn files_that_are_there_and_files_that_come_are_sent_with_their_hash() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let early = folder.write("live%2Feu/cam/1.mp4", b"early");
    folder.write("live/cam/2.mp4.part", b"in progress");
    let mut settings = settings(&store);
    settings.prefix = "archive/2026".into();
    let thread = start(&folder, settings);
    let uploads = thread.uploads();
    until_confirmed(&uploads, &early);
    let late = folder.write("live/cam/3.flv", b"late");
    uploads.completed(&late);
    until_confirmed(&uploads, &late);
    assert_eq!(store.keys(), ["archive/2026/live%252Feu/cam/1.mp4", "archive/2026/live/cam/3.flv"]);
    let stored = store.object("archive/2026/live/cam/3.flv").expect("it is there");
    assert_eq!(stored.content, b"late");
    assert_eq!(stored.sha256.map(|hash| hash.len()), Some(64));
    let totals = uploads.totals();
    assert_eq!((totals.files, totals.sent, totals.sent_bytes), ([0, 0, 2, 0], 2, 9));
}

#[test]
fn what_was_confirmed_is_not_looked_at_by_the_next_run() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let file = folder.write("a/b/1.mp4", b"content");
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    thread.stop();
    let requests = store.count(On::Any);
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    assert_eq!(store.count(On::Any), requests, "the journal says it");
}

#[test]
fn an_object_with_the_same_content_is_not_sent_again_without_a_journal() {
    for drops_metadata in [false, true] {
        let (folder, store) = (Folder::new(), FakeStore::start());
        if drops_metadata {
            store.drop_metadata();
        }
        let file = folder.write("a/b/1.mp4", b"content");
        let large = folder.write("a/b/2.mp4", &content(PART + 1, 1));
        let thread = start(&folder, settings(&store));
        until_confirmed(&thread.uploads(), &file);
        until_confirmed(&thread.uploads(), &large);
        thread.stop();
        let (puts, parts) = (store.count(On::Put), store.count(On::Part));
        std::fs::remove_file(folder.0.join(uploads::JOURNAL)).expect("it is there");
        let thread = start(&folder, settings(&store));
        until_confirmed(&thread.uploads(), &file);
        until_confirmed(&thread.uploads(), &large);
        assert_eq!((store.count(On::Put), store.count(On::Part)), (puts, parts), "{drops_metadata}");
        assert_eq!(thread.uploads().totals().already_there, 2);
    }
}

#[test]
fn another_object_is_not_overwritten_and_the_file_is_sent_when_it_is_gone() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.insert("a/1.mp4", b"another");
    let small = folder.write("a/1.mp4", b"content");
    store.insert("a/2.mp4", b"another");
    let large = folder.write("a/2.mp4", &content(PART + 1, 2));
    let thread = start(&folder, settings(&store));
    let uploads = thread.uploads();
    for file in [&small, &large] {
        let (cause, why) = until_failed(&uploads, file);
        assert_eq!(cause, "conflict");
        assert!(why.contains("not overwritten"), "{why}");
    }
    for key in ["a/1.mp4", "a/2.mp4"] {
        assert_eq!(store.object(key).expect("it is there").content, b"another");
        store.remove(key);
    }
    until_confirmed(&uploads, &small);
    until_confirmed(&uploads, &large);
    assert_eq!(store.object("a/1.mp4").expect("it is there").content, b"content");
}

#[test]
fn an_object_that_comes_between_the_look_and_the_put_is_not_overwritten() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.insert("a/1.mp4", b"another");
    // The look says that nothing is there.
    store.fail(On::Head, 1, Fault::Status(404));
    let file = folder.write("a/1.mp4", b"content");
    let thread = start(&folder, settings(&store));
    assert_eq!(until_failed(&thread.uploads(), &file).0, "conflict");
    assert_eq!(store.object("a/1.mp4").expect("it is there").content, b"another");
}

#[test]
fn a_store_without_conditional_requests_is_used_all_the_same() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.refuse_conditions();
    let files: Vec<_> = (0..3).map(|index| folder.write(&format!("{index}.mp4"), b"content")).collect();
    let thread = start(&folder, settings(&store));
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    assert_eq!(thread.uploads().totals().failures, [0; 9]);
}

#[test]
fn a_put_whose_answer_was_lost_is_found_and_not_repeated() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Put, 1, Fault::LoseAnswer);
    store.fail(On::Complete, 1, Fault::LoseAnswer);
    let small = folder.write("1.mp4", b"content");
    let large = folder.write("2.mp4", &content(2 * PART + 9, 3));
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &small);
    until_confirmed(&thread.uploads(), &large);
    assert_eq!((store.count(On::Put), store.count(On::Part), store.count(On::Complete)), (1, 3, 1));
    until("both were there", || thread.uploads().totals().already_there == 2);
}
