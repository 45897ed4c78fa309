//! Bounded concurrency and bandwidth.

use std::time::{Duration, Instant};

use crate::common::{Folder, content, settings, start, until_confirmed};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn no_more_files_are_sent_at_a_time_than_allowed() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Put, usize::MAX, Fault::Slow);
    let files: Vec<_> = (0..12).map(|index| folder.write(&format!("{index}.mp4"), b"content")).collect();
    let mut settings = settings(&store);
    settings.concurrency = 3;
    let thread = start(&folder, settings);
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    assert!(store.at_once_max() <= 3, "{}", store.at_once_max());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the bandwidth of a real socket")]
fn all_files_together_keep_within_the_bandwidth_and_waiting_for_it_is_no_stall() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let files: Vec<_> =
        (0..4).map(|index| folder.write(&format!("{index}.mp4"), &content(100_000, index))).collect();
    let mut settings = settings(&store);
    settings.bytes_per_second = Some(400_000);
    settings.stall_timeout = Duration::from_millis(400);
    let begun = Instant::now();
    let thread = start(&folder, settings);
    files.iter().for_each(|file| until_confirmed(&thread.uploads(), file));
    // 400 kB take a second, but for the last chunk; a lower bound that no slow machine breaks.
    assert!(begun.elapsed() >= Duration::from_millis(850), "{:?}", begun.elapsed());
    assert_eq!(thread.uploads().totals().failures, [0; 9]);
}
