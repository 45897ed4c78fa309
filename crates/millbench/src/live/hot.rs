//! The functions in which the server spends its time, as `perf` samples them.
//!
//! Two seconds in five, by the CPU clock: machines in the cloud have no other counters. `perf` is
//! the distribution's; without it there is nothing to show, and a run that asks for it says so.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::News;
use crate::report::HotFunction;

/// Samples a process until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Begins.
    ///
    /// # Errors
    /// A text for the user, when `perf` is missing.
    pub(super) fn start(pid: u32, news: Sender<News>) -> Result<Sampler, String> {
        let mut version = Command::new("perf");
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        let is_there = version.status().is_ok_and(|status| status.success());
        if !is_there {
            return Err(MISSING.to_owned());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let asked_to_stop = Arc::clone(&stop);
        let file = std::env::temp_dir().join(format!("millbench-{}.perf", std::process::id()));
        let work = move || {
            let mut job = Job { pid, file, stop: asked_to_stop };
            while !job.stop.load(Ordering::Relaxed) {
                let hot = job.sample();
                if job.stop.load(Ordering::Relaxed) || news.send(News::Hot(hot)).is_err() {
                    break;
                }
                job.pause(PAUSE);
            }
            let _ = std::fs::remove_file(&job.file);
        };
        let thread = thread::Builder::new().name("perf".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Sampler { stop, thread: Some(thread) })
    }
}

impl Sampler {
    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Job {
    pid: u32,
    file: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Job {
    /// Records for a while, and reads what was recorded.
    fn sample(&mut self) -> Result<Vec<HotFunction>, String> {
        // It would keep what is there under another name.
        let _ = std::fs::remove_file(&self.file);
        let record = Command::new("perf")
            .args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-p", &self.pid.to_string(), "-o"])
            .arg(&self.file)
            .args(["--", "sleep", "2"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        self.output(record)?;
        let report = Command::new("perf")
            .args(["report", "--stdio", "-q", "--no-children", "--no-inline", "-F", "overhead,dso,sym"])
            .args(["-g", "none", "--percent-limit", "0.5", "-i"])
            .arg(&self.file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Ok(parse(&self.output(report)?))
    }

    /// Standard output of a program that is ended when the sampler is.
    fn output(&self, child: std::io::Result<Child>) -> Result<String, String> {
        let mut child = child.map_err(|error| format!("perf: {error}"))?;
        let stop = Arc::clone(&self.stop);
        // Reading to the end is what keeps a long output from blocking.
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let reader = thread::spawn(move || (read(output), read(error)));
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if stop.load(Ordering::Relaxed) => {
                    let _ = child.kill();
                }
                Ok(None) => {}
                Err(error) => return Err(format!("perf: {error}")),
            }
            thread::sleep(LOOK_INTERVAL);
        };
        let (output, error) = reader.join().map_err(|_| "perf: unreadable".to_owned())?;
        let reason = error.lines().map(str::trim).find(|line| !line.is_empty());
        match status.success() {
            true => Ok(output),
            false => Err(format!("perf: {}", reason.unwrap_or("it failed"))),
        }
    }

    fn pause(&self, time: Duration) {
        for _ in 0..time.as_millis() / LOOK_INTERVAL.as_millis() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

fn read(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // After an error, what was read before it is used.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lines of `perf report`: percent, object, `[.]` or `[k]`, function.
fn parse(report: &str) -> Vec<HotFunction> {
    let line = |line: &str| {
        let (percent, rest) = line.trim().split_once('%')?;
        let (of, function) = ["[.] ", "[k] "].iter().find_map(|kind| rest.split_once(kind))?;
        let of = of.trim().trim_matches(['[', ']']);
        Some(HotFunction {
            percent: percent.parse().ok()?,
            function: function.trim().to_owned(),
            of: if of.starts_with("kernel") { "kernel".to_owned() } else { of.to_owned() },
        })
    };
    report.lines().filter_map(line).take(FUNCTIONS_MAX).collect()
}

const MISSING: &str =
    "--perf: the program `perf` is missing or does not run (Debian: linux-perf; Ubuntu: linux-tools-generic)";
const FUNCTIONS_MAX: usize = 12;
const PAUSE: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_perf_are_read_line_by_line() {
        let report = "\n    20.13%  millstream         [.] <sfu::Stream as core::fmt::Debug>::fmt\n\
                      \x20    6.71%  [kernel.kallsyms]  [k] __udp_sendmsg\n\
                      \x20    0.67%  libc.so.6          [.] 0x0000000000014a9e\n# not a line\n";
        let hot = |percent, function: &str, of: &str| HotFunction {
            percent,
            function: function.to_owned(),
            of: of.to_owned(),
        };
        let expected = [
            hot(20.13, "<sfu::Stream as core::fmt::Debug>::fmt", "millstream"),
            hot(6.71, "__udp_sendmsg", "kernel"),
            hot(0.67, "0x0000000000014a9e", "libc.so.6"),
        ];
        assert_eq!(parse(report), expected);
        assert_eq!(parse("Error:\nfailed to open perf.data"), []);
    }
}
