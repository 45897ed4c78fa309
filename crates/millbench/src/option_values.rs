//! Options that several commands take, and parsers of their values.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Options of every run, whatever the protocol.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Server and stream; `{}` is replaced by the number of the session's stream, from 1.
    pub url: String,

    /// Sessions to hold. A list such as `300,1000,2000` is climbed step by step, each step measured.
    #[arg(short = 'n', long, value_name = "N[,N...]", default_value = "1", value_delimiter = ',')]
    pub sessions: Vec<usize>,

    /// Streams that `{}` counts through; by default as many as sessions.
    #[arg(long, value_name = "K")]
    pub streams: Option<usize>,

    /// Measured time of each step, seconds.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub duration: Duration,

    /// Time between "all sessions are up" and the begin of measuring, seconds.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub settle: Duration,

    /// Time a session has to come up: connected, accepted, first (key) frame. Seconds.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub start_timeout: Duration,

    /// Look at the sockets at most every MS milliseconds. 0 looks as soon as anything arrives.
    ///
    /// A sleeping generator on the server's own machine makes the server pay for waking it, write
    /// by write, which a client elsewhere would not. Adds MS to the largest latency and half of it
    /// to the mean.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub turn_ms: u32,

    /// Pin thread i to core CORE + i (cores count from 0).
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,

    /// Report CPU time and memory of this process, the server under test.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,

    /// Time between two points of the charts and of the live view, seconds.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: Duration,

    /// Write a report with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Interface whose packets and bits are shown; by default the one that leads to the server.
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,

    /// Show the functions in which the server spends its time, by sampling it with `perf`.
    ///
    /// Without --server-pid, the process of this machine that listens at the port of the URL. Costs
    /// the machine about as much as one core for a second in five.
    #[arg(long)]
    pub perf: bool,

    /// Have one real browser (Chromium) play a random stream, and show what it sees.
    ///
    /// By WHEP at the URL of the run; or at the URL given after `=`, in which `{}` is the number of
    /// the stream: by WHEP if its path begins with `/whep/`, else the page with a video that is there.
    /// CHROMIUM names the program.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub watch: Option<String>,

    /// Show the window of --watch instead of hiding it.
    #[arg(long, requires = "watch")]
    pub headed: bool,

    /// Print the result as JSON on standard output instead of the table.
    #[arg(long)]
    pub json: bool,

    /// No live view or progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

impl RunArgs {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// A text for the user.
    pub fn validate(&self) -> Result<(), String> {
        if self.sessions.first().is_none_or(|&first| first == 0) || !self.sessions.is_sorted_by(|a, b| a < b)
        {
            return Err("-n: give one number above 0 or a rising list".to_owned());
        }
        if self.interval < Duration::from_millis(100) {
            return Err("--interval: at least 0.1 s".to_owned());
        }
        if self.streams == Some(0) {
            return Err("--streams: at least 1".to_owned());
        }
        Ok(())
    }

    /// Sessions of the last step.
    pub fn sessions_max(&self) -> usize {
        self.sessions.last().copied().unwrap_or(1)
    }
}

/// Seconds from 0 to a day, fractions allowed.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=86_400.0).contains(&value) {
        return Err("from 0 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(value))
}

/// A number above 0, up to a million.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (value > 0.0 && value <= 1e6).then_some(value).ok_or_else(|| "above 0, up to 1000000".to_owned())
}
