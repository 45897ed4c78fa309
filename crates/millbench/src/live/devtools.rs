//! Chromium under control: its DevTools protocol over a pair of pipes.
//!
//! Chromium reads commands from descriptor 3 and writes to descriptor 4, each message JSON with a
//! zero byte behind it. A shell puts our pipes there, which are its standard streams.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock;

/// A browser with one page.
#[derive(Debug)]
pub(super) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    profile: PathBuf,
    /// Session of the protocol with the page.
    session: String,
    commands_sent: u64,
}

/// Looks for the program that `CHROMIUM` names, else for the usual names.
///
/// # Errors
/// A text for the user.
pub(super) fn program() -> Result<PathBuf, String> {
    let named = std::env::var("CHROMIUM").ok();
    let names = named.as_ref().map_or(NAMES.to_vec(), |name| vec![name.as_str()]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // A name with a slash is a path already: joining keeps it if it is absolute.
    let mut places = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places
        .find(|place| place.is_file())
        .ok_or_else(|| format!("--watch: no browser is found ({}); CHROMIUM names one", names.join(", ")))
}

impl Browser {
    /// Starts it with the page at `url`.
    ///
    /// # Errors
    /// A text for the live view.
    pub(super) fn start(program: &Path, url: &str, headed: bool) -> Result<Browser, String> {
        let profile = std::env::temp_dir().join(format!("millbench-{}.browser", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.display()));
        if !headed {
            command.arg("--headless=new");
        }
        if nix::unistd::geteuid().is_root() {
            // Its sandbox refuses to run for root.
            command.arg("--no-sandbox");
        }
        // Of a group of its own: what ends this program from the terminal lets it close the page first.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let (Some(commands), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".to_owned());
        };
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                let value = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                message.clear();
                if value.is_ok_and(|value| sender.send(value).is_err()) {
                    break;
                }
            }
        });
        let mut browser =
            Browser { child, commands, messages, profile, session: String::new(), commands_sent: 0 };
        let page = browser.call("Target.createTarget", &json!({"url": url}))?;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(browser)
    }

    /// The value of a script in the page, once a promise is kept.
    ///
    /// # Errors
    /// What the script threw, or why it could not run.
    pub(super) fn evaluate(&mut self, script: &str) -> Result<Value, String> {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let text = thrown["exception"]["description"].as_str().unwrap_or("a script failed");
            return Err(text.lines().next().unwrap_or_default().trim_start_matches("Error: ").to_owned());
        }
        Ok(answer["result"]["value"].take())
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.commands_sent += 1;
        let mut message = json!({"id": self.commands_sent, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let gone = |_| "the browser has ended".to_owned();
        self.commands.write_all(format!("{message}\0").as_bytes()).map_err(gone)?;
        let deadline = clock::monotonic() + ANSWER_TIME;
        loop {
            let left = deadline.saturating_duration_since(clock::monotonic());
            let mut message = self.messages.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => "the browser does not answer".to_owned(),
                RecvTimeoutError::Disconnected => "the browser has ended".to_owned(),
            })?;
            if message["id"] == self.commands_sent {
                return match message["error"]["message"].as_str() {
                    Some(error) => Err(error.to_owned()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session.clear();
        // It ends by itself, all of its processes with it, or is made to.
        let _ = self.call("Browser.close", &json!({}));
        let deadline = clock::monotonic() + END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && clock::monotonic() < deadline {
            thread::sleep(LOOK_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// No questions, no traffic of its own, and media that plays at once. A page of any origin may ask
/// any server, as the load generator does.
const FLAGS: [&str; 12] = [
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-web-security",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
];
const ANSWER_TIME: Duration = Duration::from_secs(20);
const END_TIME: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
