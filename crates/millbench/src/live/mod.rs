//! What a run looks like while it lasts: sessions, media, cores and the interface in the terminal;
//! on request the server's hot functions and what a real browser sees.
//!
//! ```text
//! conductor ─ points, stages ─▶ thread ─▶ terminal
//! perf, browser ─ news ───────────┘  └─▶ Observed, for the report
//! ```
//! The terminal may be slow, and its thread is not the one that measures. Where standard error is no
//! terminal, only the lines of [`Live::line`] are printed.

mod browser;
mod devtools;
mod hot;
mod machine_load;
mod panel;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

pub use browser::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::machine;
use crate::option_values::RunArgs;
use crate::report::{BrowserView, HotFunction, Observed, Point};
use browser::Watcher;
use hot::Sampler;
use machine_load::MachineLoad;
use panel::View;

/// What the thread gets.
#[derive(Debug)]
enum News {
    Stage(String, usize),
    Point(Box<Point>),
    Line(String),
    Hot(Result<Vec<HotFunction>, String>),
    Browser(BrowserView),
    End,
}

/// The live view of a run.
#[derive(Debug)]
pub struct Live {
    news: Sender<News>,
    thread: Option<JoinHandle<Observed>>,
    machine: MachineLoad,
    sampler: Option<Sampler>,
    watch: Option<(Watch, std::path::PathBuf)>,
    watcher: Option<Watcher>,
}

impl Live {
    /// Begins to show a run with `server`, whose process is `server_pid`. Whatever is asked for and
    /// cannot be had is an error.
    ///
    /// # Errors
    /// A text for the user.
    pub fn start(
        run: &RunArgs,
        command: &str,
        server: SocketAddr,
        server_pid: Option<u32>,
        watch: Option<Watch>,
    ) -> Result<Live, String> {
        let watch = watch.map(|watch| browser::program().map(|program| (watch, program))).transpose()?;
        let interface = run.interface.clone().or_else(|| machine::interface_to(server).map(|(name, _)| name));
        let (news, received) = mpsc::channel();
        let sampler = match server_pid.filter(|_| run.perf) {
            Some(pid) => Some(Sampler::start(pid, news.clone())?),
            None => None,
        };
        let view = View { command: command.to_owned(), interface: interface.clone(), ..View::default() };
        let is_quiet = run.quiet;
        let show = move || Screen::new(view, is_quiet).show(&received);
        let thread = thread::Builder::new().name("live".to_owned()).spawn(show);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Live {
            news,
            thread: Some(thread),
            machine: MachineLoad::new(interface),
            sampler,
            watch,
            watcher: None,
        })
    }

    /// What the run does from now on, and how many sessions it is to hold.
    pub fn stage(&self, stage: &str, goal: usize) {
        self.tell(News::Stage(stage.to_owned(), goal));
    }

    /// Adds what this machine did since the last point, and shows it.
    pub fn point(&mut self, point: &mut Point) {
        (point.cores, point.interface) = self.machine.since_last();
        self.tell(News::Point(Box::new(point.clone())));
    }

    /// A line that stays, unless the run is to be quiet.
    pub fn line(&self, line: String) {
        self.tell(News::Line(line));
    }

    /// Lets the browser begin, if there is to be one: there is something to play now.
    ///
    /// # Errors
    /// A text for the user.
    pub fn watch(&mut self) -> Result<(), String> {
        if let Some((watch, program)) = self.watch.take() {
            self.watcher = Some(Watcher::start(&watch, program, self.news.clone())?);
        }
        Ok(())
    }

    /// Asks `perf` and the browser to end, and does not wait for them: what they see from now on is
    /// the end of the run.
    pub fn stop(&self) {
        self.sampler.iter().for_each(Sampler::stop);
        self.watcher.iter().for_each(Watcher::stop);
    }

    /// Clears the terminal.
    pub fn finish(mut self) -> Observed {
        (self.sampler, self.watcher) = (None, None);
        self.tell(News::End);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn tell(&self, news: News) {
        // The thread ends after this end of its queue.
        let _ = self.news.send(news);
    }
}

/// The thread's side.
struct Screen {
    view: View,
    /// A message of several lines, which is replaced as a whole.
    bar: ProgressBar,
    is_quiet: bool,
}

impl Screen {
    fn new(view: View, is_quiet: bool) -> Screen {
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg}").expect("the template is constant and valid");
        Screen { view, bar: ProgressBar::with_draw_target(None, target).with_style(style), is_quiet }
    }

    fn show(mut self, news: &Receiver<News>) -> Observed {
        while let Ok(news) = news.recv() {
            match news {
                News::Stage(stage, goal) => (self.view.stage, self.view.goal) = (stage, goal),
                News::Point(point) => self.view.point = *point,
                News::Line(line) => self.line(&line),
                News::Hot(hot) => self.view.hot = Some(hot),
                News::Browser(browser) => self.view.browser = Some(browser),
                News::End => break,
            }
            if !self.bar.is_hidden() {
                let (height, width) = console::Term::stderr().size();
                let lines = panel::lines(&self.view, width.into(), usize::from(height).saturating_sub(1));
                self.bar.set_message(lines.join("\n"));
            }
        }
        self.bar.finish_and_clear();
        let View { hot, browser, .. } = self.view;
        let (hot_functions, perf_trouble) = match hot.transpose() {
            Ok(hot) => (hot, None),
            Err(trouble) => (None, Some(trouble)),
        };
        Observed { hot_functions, perf_trouble, browser }
    }

    fn line(&self, line: &str) {
        if self.bar.is_hidden() && !self.is_quiet {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}
