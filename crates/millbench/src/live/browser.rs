//! One real browser that plays a stream of the run, and what it sees.
//!
//! It plays by WHEP in an empty page, or opens a page that has a video. It is asked once a second;
//! a stream that is not there yet is tried again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use super::News;
use super::devtools::{self, Browser};
use crate::clock;
use crate::report::BrowserView;

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct Watch {
    /// WHEP or a page; `{}` is the number of the stream.
    pub url: String,
    /// Streams there are.
    pub streams: usize,
    /// Token for WHEP, or empty.
    pub token: String,
    /// With a window.
    pub headed: bool,
}

/// A browser that plays until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to play.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn start(watch: &Watch, program: PathBuf, news: Sender<News>) -> Result<Watcher, String> {
        let stop = Arc::new(AtomicBool::new(false));
        // Any stream will do, but not always the same.
        let number = clock::wall_ns() / 1000 % watch.streams.max(1) as u64 + 1;
        let url = watch.url.replace("{}", &number.to_string());
        let mut job =
            Job { program, token: watch.token.clone(), headed: watch.headed, stop: Arc::clone(&stop), news };
        let mut view = BrowserView { url, ..BrowserView::default() };
        let work = move || {
            if let Err(trouble) = job.play(&mut view)
                && !job.stop.load(Ordering::Relaxed)
            {
                view.trouble = Some(trouble);
                let _ = job.news.send(News::Browser(view));
            }
        };
        let thread = thread::Builder::new().name("browser".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Watcher { stop, thread: Some(thread) })
    }
}

impl Watcher {
    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Job {
    program: PathBuf,
    token: String,
    headed: bool,
    stop: Arc<AtomicBool>,
    news: Sender<News>,
}

impl Job {
    /// Plays until it is to stop; an error is final.
    fn play(&mut self, view: &mut BrowserView) -> Result<(), String> {
        let is_whep = is_whep(&view.url);
        let page = if is_whep { "about:blank" } else { view.url.as_str() };
        let mut browser = Browser::start(&self.program, page, self.headed)?;
        let mut is_playing = !is_whep;
        while !self.stop.load(Ordering::Relaxed) {
            if !is_playing {
                let script = format!("{PLAY}({}, {})", json!(view.url), json!(self.token));
                let played = browser.evaluate(&script);
                is_playing = played.is_ok();
                view.trouble = played.err();
            }
            if is_playing {
                let seen = serde_json::from_value(browser.evaluate(LOOK)?).unwrap_or_default();
                let before = std::mem::replace(&mut view.seen, seen);
                view.frames_per_second =
                    view.seen.decoded.saturating_sub(before.decoded) as f64 / INTERVAL.as_secs_f64();
            }
            if self.news.send(News::Browser(view.clone())).is_err() {
                break;
            }
            self.pause();
        }
        if is_whep && is_playing {
            browser.evaluate("window.millbench.end().then(() => true)")?;
        }
        Ok(())
    }

    fn pause(&self) {
        let until = clock::monotonic() + INTERVAL;
        while clock::monotonic() < until && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Whether a URL is played by WHEP, or opened.
fn is_whep(url: &str) -> bool {
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    path.starts_with("whep/")
}

/// Whether a browser can be started.
///
/// # Errors
/// A text for the user.
pub(super) fn program() -> Result<PathBuf, String> {
    devtools::program()
}

const PLAY: &str = include_str!("play.js");
const LOOK: &str = include_str!("look.js");
const INTERVAL: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whep_is_told_from_pages_by_its_path() {
        for (url, expected) in [
            ("http://h:8080/whep/live/a", true),
            ("http://h/whep/live/a?eip=192.0.2.1", true),
            ("http://h/#/watch/live/a", false),
            ("http://whep/live/a", false),
            ("file:///whep.html", false),
        ] {
            assert_eq!(is_whep(url), expected, "{url}");
        }
    }
}
