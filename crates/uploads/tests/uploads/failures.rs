//! A store that fails in every way only delays.

use crate::common::{Folder, PART, content, settings, start, until, until_confirmed, until_failed};
use crate::fake::{FakeStore, Fault, On};

/// Every fault of every request of a small and of a large file: all of it arrives.
#[test]
fn files_arrive_whole_whatever_request_fails_and_however() {
    let faults = [
        (Fault::Status(500), "server"),
        (Fault::Status(503), "server"),
        (Fault::Status(403), "denied"),
        (Fault::Status(400), "refused"),
        (Fault::Hang, "timeout"),
        (Fault::Reset, "unreachable"),
    ];
    for (fault, cause) in faults {
        for on in [On::Head, On::Put, On::Begin, On::Part, On::Complete] {
            let (folder, store) = (Folder::new(), FakeStore::start());
            store.fail(on, 1, fault);
            let contents = [content(1000, 4), content(PART + 7, 5)];
            let files = ["1.mp4", "2.mp4"].map(|name| name.to_owned());
            let paths: Vec<_> =
                files.iter().zip(&contents).map(|(name, content)| folder.write(name, content)).collect();
            let thread = start(&folder, settings(&store));
            let uploads = thread.uploads();
            paths.iter().for_each(|path| until_confirmed(&uploads, path));
            for (name, content) in files.iter().zip(&contents) {
                assert_eq!(store.object(name).map(|object| object.content).as_ref(), Some(content));
            }
            let failures = uploads.totals().failures;
            let index = uploads::Cause::ALL.iter().position(|known| known.name() == cause);
            assert!(failures[index.expect("a cause")] >= 1, "{fault:?} on {on:?}: {failures:?}");
            assert_eq!(store.open_uploads(), 0, "{fault:?} on {on:?}");
        }
    }
}

#[test]
fn a_store_that_hangs_is_shown_with_the_reason_and_the_next_attempt() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Put, usize::MAX, Fault::Hang);
    let mut settings = settings(&store);
    settings.retry_min = std::time::Duration::from_secs(50);
    settings.retry_max = std::time::Duration::from_secs(100);
    let file = folder.write("1.mp4", b"content");
    let thread = start(&folder, settings);
    let (cause, why) = until_failed(&thread.uploads(), &file);
    assert_eq!((cause, why.as_str()), ("timeout", "no progress for 0.3 s"));
    let (listed, total) = thread.uploads().list(Some("failed"), 10);
    assert_eq!((total, listed[0].path.as_str(), listed[0].failures), (1, "1.mp4", 1));
    let uploads::UploadState::Failed { retry_in, .. } = listed[0].state else { panic!("{listed:?}") };
    assert!((20..=50).contains(&retry_in.as_secs()), "half of it is random: {retry_in:?}");
}

#[test]
fn a_slow_store_is_no_failure() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Any, usize::MAX, Fault::Slow);
    let file = folder.write("1.mp4", &content(PART + 7, 6));
    let thread = start(&folder, settings(&store));
    until_confirmed(&thread.uploads(), &file);
    assert_eq!(thread.uploads().totals().failures, [0; 9]);
}

#[test]
fn content_that_a_store_has_lost_or_cut_is_not_confirmed() {
    for (fault, on) in [(Fault::Forget, On::Put), (Fault::Truncate, On::Put), (Fault::Truncate, On::Part)] {
        let (folder, store) = (Folder::new(), FakeStore::start());
        store.fail(on, 1, fault);
        let content = content(if on == On::Part { PART + 7 } else { 1000 }, 7);
        let file = folder.write("1.mp4", &content);
        let thread = start(&folder, settings(&store));
        let uploads = thread.uploads();
        let (cause, why) = until_failed(&uploads, &file);
        if fault == Fault::Forget {
            assert_eq!(cause, "unconfirmed", "{why}");
        } else {
            // The store has something else under this name now: nothing is overwritten.
            until("the conflict shows", || until_failed(&uploads, &file).0 == "conflict");
            store.remove("1.mp4");
        }
        until_confirmed(&uploads, &file);
        assert_eq!(store.object("1.mp4").expect("it is there").content, content);
    }
}

#[test]
fn one_file_that_the_store_never_takes_does_not_stop_the_others() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.insert("0.mp4", b"another");
    folder.write("0.mp4", b"content");
    let files: Vec<_> = (1..20).map(|index| folder.write(&format!("{index}.mp4"), b"content")).collect();
    let thread = start(&folder, settings(&store));
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
}

#[test]
fn a_store_that_is_down_is_not_asked_for_each_file() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Any, usize::MAX, Fault::Status(503));
    let files: Vec<_> = (0..200).map(|index| folder.write(&format!("{index}.mp4"), b"content")).collect();
    let mut settings = settings(&store);
    settings.retry_min = std::time::Duration::from_secs(30);
    let thread = start(&folder, settings);
    let uploads = thread.uploads();
    until("it has failed", || uploads.totals().failures.iter().sum::<u64>() >= 2);
    assert_eq!(uploads.totals().files, [198, 0, 0, 2], "two at a time, then all wait");
    assert_eq!(files.len(), 200);
    assert_eq!(store.count(On::Any), 2);
}
