//! A directory, a store and the uploads between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use uploads::settings::{Credentials, Destination, Keys, S3Settings, UploadSettings};
use uploads::{UploadInput, UploadState, Uploads, UploadsThread};

use crate::fake::FakeStore;

pub(crate) const SECRET: &str = "s3cr3t-never-shown";
pub(crate) const KEY_ID: &str = "KEYID-never-shown";
pub(crate) const PART: usize = 256 * 1024;

/// A directory of its own, removed with this.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("uploads-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("it can be made");
        Self(path.canonicalize().expect("it is there"))
    }

    /// Writes a file as recordings are: complete when it has its name.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("it can be made");
        let part = path.with_extension("part");
        fs::write(&part, content).expect("written");
        fs::rename(&part, &path).expect("renamed");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn settings(store: &FakeStore) -> UploadSettings {
    UploadSettings {
        destination: Destination::S3(S3Settings {
            bucket: "bucket".into(),
            region: "eu-west-1".into(),
            endpoint: Some(format!("http://{}", store.address)),
            path_style: true,
            credentials: Credentials::Keys(Keys { id: KEY_ID.into(), secret: SECRET.into(), token: None }),
            extra_roots_pem: Vec::new(),
        }),
        prefix: String::new(),
        concurrency: 2,
        part_bytes: PART,
        bytes_per_second: None,
        stall_timeout: Duration::from_millis(300),
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_millis(100),
        delete_local_after: None,
        suffixes: vec![".mp4".into(), ".flv".into()],
        mirror: None,
    }
}

pub(crate) fn start(folder: &Folder, settings: UploadSettings) -> UploadsThread {
    try_start(folder, settings).expect("it starts")
}

pub(crate) fn try_start(folder: &Folder, settings: UploadSettings) -> Result<UploadsThread, String> {
    let remove = Box::new(|path: &Path| fs::remove_file(path).expect("it is there"));
    UploadsThread::start(UploadInput { settings, directories: vec![folder.0.clone()], remove })
}

/// Waits until something holds.
#[expect(clippy::disallowed_methods, reason = "a deadline for what never comes")]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn until_confirmed(uploads: &Uploads, path: &Path) {
    until(&format!("{} is confirmed", path.display()), || uploads.is_confirmed(path));
}

/// Waits for a failure and returns its cause and what is said of it.
pub(crate) fn until_failed(uploads: &Uploads, path: &Path) -> (&'static str, String) {
    let mut failed = None;
    until(&format!("{} has failed", path.display()), || {
        if let Some(UploadState::Failed { cause, why, .. }) = uploads.state(path) {
            failed = Some((cause.name(), why));
        }
        failed.is_some()
    });
    failed.expect("it has failed")
}

/// Bytes that differ everywhere.
pub(crate) fn content(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
