//! The loop: the terminal, its keys, the connection and signals meet in one bounded queue.
//!
//! Four threads fill the queue (keys, messages, the cluster, signals) and wait while it is full; this one
//! takes all events that are queued, then draws once. The terminal is restored also when the program is
//! stopped by a signal or panics.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::layout::{Position, Rect};

use super::app::{App, Flow, Link};
use super::client::{self, Connector, Failure, FeedEvent};
use super::cluster::Cluster;
use super::draw;
use super::theme::Theme;

/// Events that may wait. Keys come faster than this only from a paste.
const QUEUE_EVENTS: usize = 64;
/// How often the screen is drawn without an event, for the countdown to the next attempt.
const TICK: Duration = Duration::from_secs(1);

enum Event {
    Input(Input),
    Feed(FeedEvent),
    Cluster(Result<Cluster, Failure>),
    /// A signal, or the terminal is gone.
    End,
}

/// Runs until the user or a signal ends it, or the server refuses.
pub(crate) fn run(connector: &Connector, mut app: App, theme: Theme) -> Result<(), String> {
    let (events, asks) =
        start_threads(connector).map_err(|error| format!("threads cannot be started: {error}"))?;
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}"))?;
    let result = turn(&mut terminal, &events, &asks, &mut app, theme);
    let restored = ratatui::try_restore().map_err(|error| error.to_string());
    result.and(restored)
}

fn turn(
    terminal: &mut DefaultTerminal,
    events: &Receiver<Event>,
    asks: &SyncSender<()>,
    app: &mut App,
    theme: Theme,
) -> Result<(), String> {
    let fail = |error: io::Error| format!("the terminal cannot be used: {error}");
    let mut asked: Option<Instant> = None;
    loop {
        let now = now();
        if app.shows_cluster() && asked.is_none_or(|at| now.duration_since(at) >= TICK) {
            // One that waits already will do.
            let _ = asks.try_send(());
            asked = Some(now);
        }
        terminal.draw(|frame| draw::draw(frame, app, theme, now)).map_err(fail)?;
        let mut event = match events.recv_timeout(TICK) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        while let Some(next) = event {
            match handle(app, next)? {
                Flow::Continue => {}
                Flow::Quit => return Ok(()),
                Flow::Suspend => suspend(terminal).map_err(fail)?,
            }
            event = events.try_recv().ok();
        }
    }
}

fn handle(app: &mut App, event: Event) -> Result<Flow, String> {
    match event {
        Event::End => return Ok(Flow::Quit),
        Event::Input(Input::Key(key)) => return Ok(app.handle_key(key)),
        // A new size is found when the screen is drawn.
        Event::Input(_) => {}
        Event::Cluster(answer) => app.receive_cluster(answer),
        Event::Feed(FeedEvent::Connecting) => app.link = Link::Connecting,
        Event::Feed(FeedEvent::Message(message)) => app.receive(*message),
        Event::Feed(FeedEvent::Lost { reason, retry }) => app.lose(reason, retry, now()),
        Event::Feed(FeedEvent::Refused(reason)) => return Err(format!("{}: {reason}", app.server)),
    }
    Ok(Flow::Continue)
}

/// Suspends the program, as at Ctrl-Z, and takes the terminal again when it is resumed.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::try_restore()?;
    raise(Signal::SIGTSTP)?;
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    // Redraws everything. `Terminal::clear` would ask the terminal where its cursor is, and the
    // answer would go to the thread that reads keys.
    let size = terminal.size()?;
    terminal.resize(Rect::from((Position::ORIGIN, size)))
}

/// Starts the threads; the cluster is asked for when something is sent.
fn start_threads(connector: &Connector) -> io::Result<(Receiver<Event>, SyncSender<()>)> {
    let (sender, events) = sync_channel(QUEUE_EVENTS);
    // Before any other thread exists that could receive them.
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    signals.thread_block()?;
    start("signals", &sender, move |sender| {
        let _ = signals.wait();
        let _ = sender.send(Event::End);
    })?;
    start("keys", &sender, |sender| {
        let read = || event::read().map_or(Event::End, Event::Input);
        while sender.send(read()).is_ok() {}
    })?;
    let (asks, asked) = sync_channel(1);
    let of_cluster = connector.clone();
    start("cluster", &sender, move |sender| {
        while asked.recv().is_ok() && sender.send(Event::Cluster(of_cluster.cluster())).is_ok() {}
    })?;
    let connector = connector.clone();
    start("statistics", &sender, move |sender| {
        client::run(&connector, |event| sender.send(Event::Feed(event)).is_ok());
    })?;
    Ok((events, asks))
}

fn start(
    name: &str,
    sender: &SyncSender<Event>,
    run: impl FnOnce(SyncSender<Event>) + Send + 'static,
) -> io::Result<()> {
    let sender = sender.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || run(sender)).map(|_| ())
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the loop of a program: it counts seconds down")]
    Instant::now()
}
