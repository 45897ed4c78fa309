//! Keys come from the environment or a file, and are shown nowhere.

use std::fs;
use std::io::Write;
use std::sync::{Arc, Mutex};

use uploads::settings::{Credentials, Destination};

use crate::common::{Folder, KEY_ID, SECRET, settings, start, until_confirmed, until_failed};
use crate::fake::{FakeStore, Fault, On};

#[test]
fn a_store_that_repeats_the_keys_does_not_bring_them_into_states_journals_or_settings() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    // Its message has the header that names the key.
    store.fail(On::Put, 1, Fault::Status(403));
    let file = folder.write("1.mp4", b"content");
    let mut settings = settings(&store);
    settings.retry_min = std::time::Duration::from_millis(500);
    let printed = format!("{settings:?}");
    let thread = start(&folder, settings);
    let uploads = thread.uploads();
    let (cause, why) = until_failed(&uploads, &file);
    assert_eq!(cause, "denied");
    assert!(why.contains("***"), "the store did repeat it: {why}");
    until_confirmed(&uploads, &file);
    let journal = fs::read_to_string(folder.0.join(uploads::JOURNAL)).expect("it is there");
    let all = format!("{printed} {why} {journal} {uploads:?} {}", uploads.store());
    assert!(!all.contains(KEY_ID) && !all.contains(SECRET), "{all}");
}

#[test]
fn keys_of_a_file_may_come_and_change_while_it_runs() {
    let (folder, keys, store) = (Folder::new(), Folder::new(), FakeStore::start());
    let file = folder.write("1.mp4", b"content");
    let path = keys.0.join("credentials");
    let mut settings = settings(&store);
    let Destination::S3(s3) = &mut settings.destination else { panic!("{settings:?}") };
    s3.credentials = Credentials::File(path.clone());
    let thread = start(&folder, settings);
    let (cause, why) = until_failed(&thread.uploads(), &file);
    assert_eq!(cause, "denied");
    assert!(why.contains("credentials file"), "{why}");
    let text = format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n");
    fs::write(&path, text).expect("written");
    until_confirmed(&thread.uploads(), &file);
}

/// What a log gets.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic with it").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn logs_have_no_keys_even_where_everything_is_logged() {
    let (folder, store, lines) = (Folder::new(), FakeStore::start(), Lines::default());
    store.fail(On::Put, 1, Fault::Status(403));
    let file = folder.write("1.mp4", b"content");
    let of_log = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || of_log.clone())
        .finish();
    // With one subscriber alone, a thread of another test that comes to a line first decides that nobody
    // wants it.
    let _another = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
    tracing::subscriber::with_default(subscriber, || {
        let thread = start(&folder, settings(&store));
        until_confirmed(&thread.uploads(), &file);
        thread.stop();
    });
    let log = String::from_utf8(lines.0.lock().expect("no panic with it").clone()).expect("text");
    assert!(log.contains("not uploaded"), "it does log: {log}");
    assert!(!log.contains(SECRET) && !log.contains(KEY_ID), "{log}");
}
