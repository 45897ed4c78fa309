//! Links to recordings: URLs that anybody may read who has them, for one file and a while.
//!
//! A browser cannot add `Authorization` to the requests of a `<video>` or of a download, and the management
//! token must be in no URL. So whoever has the token asks for a link, which is signed with a key that only
//! this process has (HMAC-SHA-256, RFC 2104): nothing has to be kept for it, and it ends with the process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;
use axum::http::{Method, Uri};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rtmp::name::query_value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How long a link may be used. A player asks for another one then.
pub(crate) const LINK_LASTS: Duration = Duration::from_secs(3600);
/// Recordings that are read at the same time: each may take a thread that waits for a disk.
const READERS_MAX: usize = 64;
/// What links are for.
const PATHS: &str = "/api/v1/recordings/";

/// Who may read recordings by a link, and how many at once.
pub struct RecordingFiles {
    key: hmac::Key,
    started: Instant,
    readers: Arc<Semaphore>,
}

impl fmt::Debug for RecordingFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingFiles").field("readers", &self.readers).finish_non_exhaustive()
    }
}

impl Default for RecordingFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordingFiles {
    /// With a key of its own.
    ///
    /// # Panics
    /// The system has no random numbers.
    pub fn new() -> Self {
        let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new());
        let key = key.expect("the system has random numbers");
        Self { key, started: Instant::now(), readers: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// A link to a path, which is to be read as it is in the request.
    pub(crate) fn link(&self, path: &str) -> String {
        let until = (self.started.elapsed() + LINK_LASTS).as_secs();
        let signature = hmac::sign(&self.key, message(path, until).as_bytes());
        format!("{path}?until={until}&signature={}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// Whether a request looks as one by a link does, be it valid or not.
    pub(crate) fn is_link(method: &Method, uri: &Uri) -> bool {
        matches!(*method, Method::GET | Method::HEAD)
            && uri.path().starts_with(PATHS)
            && query_value(uri.query().unwrap_or(""), "signature").is_some()
    }

    /// Whether a request comes by a link of this server that is not too old.
    pub(crate) fn opens(&self, method: &Method, uri: &Uri) -> bool {
        if !Self::is_link(method, uri) {
            return false;
        }
        let query = uri.query().unwrap_or("");
        let signature = query_value(query, "signature");
        let signature = signature.and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(&*text).ok());
        let until = query_value(query, "until").and_then(|text| text.parse().ok());
        let (Some(signature), Some(until)) = (signature, until) else { return false };
        let is_ours = hmac::verify(&self.key, message(uri.path(), until).as_bytes(), &signature).is_ok();
        is_ours && self.started.elapsed().as_secs() <= until
    }

    /// A place to read from a disk; `None`: all are taken.
    pub(crate) fn reader(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.readers).try_acquire_owned().ok()
    }
}

fn message(path: &str, until: u64) -> String {
    format!("{until} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_link_opens_one_file_to_read_and_for_a_while() {
        let files = RecordingFiles::new();
        let path = "/api/v1/recordings/live/a%20b/20261127T190500.123Z.mp4";
        let link = files.link(path);
        let opens = |files: &RecordingFiles, method, uri: &str| {
            files.opens(&method, &uri.parse::<Uri>().expect("a path"))
        };
        assert!(opens(&files, Method::GET, &link));
        assert!(opens(&files, Method::HEAD, &link));
        assert!(!opens(&files, Method::DELETE, &link), "it is only read");
        assert!(!opens(&files, Method::GET, path));
        assert!(!opens(&files, Method::GET, &link.replace("190500", "190501")), "another file");
        assert!(!opens(&files, Method::GET, &link.replace("until=3600", "until=9999")));
        assert!(!opens(&files, Method::GET, &link[..link.len() - 4]), "a part of the signature");
        assert!(!opens(&files, Method::GET, &files.link("/api/v1/sessions")), "not a recording");
        assert!(!opens(&RecordingFiles::new(), Method::GET, &link), "of another process");
        tokio::time::advance(LINK_LASTS).await;
        assert!(opens(&files, Method::GET, &link));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!opens(&files, Method::GET, &link), "it is too old");
    }

    #[test]
    fn readers_have_a_limit() {
        let files = RecordingFiles::new();
        let mut places: Vec<_> = (0..READERS_MAX).map(|_| files.reader().expect("a place")).collect();
        assert!(files.reader().is_none());
        places.pop();
        assert!(files.reader().is_some());
    }
}
