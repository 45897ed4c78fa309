//! The state of `millstream top` and how keys change it. No terminal, no socket, no clock: those
//! are in `terminal.rs`.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::client::Failure;
use super::cluster::{Cluster, LINKS, NODES};
use super::columns::{SESSIONS, STREAMS};
use super::filter::{self, Filter};
use super::history::History;
use super::table::{Key, Move, TableView};
use stats::message::StatsMessage;

/// State of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Connecting.
    Connecting,
    /// Connected.
    Connected,
    /// Lost or failed; the next attempt is at `retry_at`.
    Lost {
        /// Why.
        reason: String,
        /// When the next attempt begins.
        retry_at: Instant,
    },
}

/// The table that has the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    /// Streams.
    Streams,
    /// Sessions.
    Sessions,
    /// Nodes of the cluster.
    Nodes,
    /// Links of the node.
    Links,
}

/// What the program does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continues.
    Continue,
    /// Ends.
    Quit,
    /// Suspends, until the shell resumes it.
    Suspend,
}

/// Everything on the screen.
pub(crate) struct App {
    /// Address of the server, with remarks on the connection.
    pub server: String,
    /// State of the connection.
    pub link: Link,
    /// The message on the screen.
    pub message: StatsMessage,
    /// Whether a message has arrived at all.
    pub has_data: bool,
    /// The table of streams.
    pub streams: TableView,
    /// The table of sessions.
    pub sessions: TableView,
    /// The cluster on the screen; empty before the first answer.
    pub cluster: Cluster,
    /// Why there is no newer answer, or none.
    pub cluster_note: Option<String>,
    /// The table of nodes.
    pub nodes: TableView<Cluster>,
    /// The table of links.
    pub links: TableView<Cluster>,
    /// The table that has the focus.
    pub focus: Focus,
    /// The text of the filter.
    pub filter: String,
    /// Why no row can match the filter, if so.
    pub filter_error: Option<String>,
    /// Whether the filter is being typed.
    pub typing: bool,
    /// Only sessions of this stream are listed.
    pub only_stream: Option<String>,
    /// Whether the screen is paused. History is still recorded.
    pub paused: bool,
    /// First line of the help page while it is shown.
    pub help: Option<usize>,
    /// History of every row.
    pub history: History,
}

impl App {
    /// An empty screen for `server`.
    pub(crate) fn new(server: String) -> Self {
        Self {
            server,
            link: Link::Connecting,
            message: StatsMessage::default(),
            has_data: false,
            streams: TableView::new(&STREAMS, "PLAYERS", |m, row| Key::Stream(m.streams.name[row].clone())),
            sessions: TableView::new(&SESSIONS, "BIT/S", |m, row| {
                Key::Session(m.sessions.worker[row], m.sessions.serial[row])
            }),
            cluster: Cluster::default(),
            cluster_note: Some("Waiting for the first answer.".to_owned()),
            nodes: TableView::new(&NODES, "NODE", |c, row| Key::Node(c.nodes[row].name.clone())),
            links: TableView::new(&LINKS, "LINK", |c, row| Key::Node(c.links[row].node.clone())),
            focus: Focus::Sessions,
            filter: String::new(),
            filter_error: None,
            typing: false,
            only_stream: None,
            paused: false,
            help: None,
            history: History::default(),
        }
    }

    /// Takes a message.
    pub(crate) fn receive(&mut self, message: StatsMessage) {
        self.link = Link::Connected;
        self.history.add(&message);
        if !self.paused || !self.has_data {
            self.has_data = true;
            self.message = message;
            self.refresh();
        }
    }

    /// Takes an answer about the cluster. What was known stays when there is none.
    pub(crate) fn receive_cluster(&mut self, answer: Result<Cluster, Failure>) {
        match answer {
            Ok(cluster) => {
                self.cluster_note = None;
                if !self.paused || self.cluster.nodes.is_empty() {
                    self.cluster = cluster;
                    self.refresh();
                }
            }
            Err(Failure::Lost(reason) | Failure::Refused(reason)) => self.cluster_note = Some(reason),
        }
    }

    /// Whether the cluster is on the screen, and not streams and sessions.
    pub(crate) fn shows_cluster(&self) -> bool {
        matches!(self.focus, Focus::Nodes | Focus::Links)
    }

    /// Records that the connection is lost; the next attempt is in `retry`.
    pub(crate) fn lose(&mut self, reason: String, retry: Duration, now: Instant) {
        self.link = Link::Lost { reason, retry_at: now + retry };
    }

    /// Filters and sorts again.
    pub(crate) fn refresh(&mut self) {
        let filter = Filter::new(&self.filter);
        self.filter_error = filter.check(self.has_data.then_some(&self.message)).err();
        let fitting = filter.apply(&self.message, self.only_stream.as_deref());
        self.streams.show(&self.message, fitting.streams);
        self.sessions.show(&self.message, fitting.sessions);
        self.nodes.show(&self.cluster, (0..self.cluster.nodes.len() as u32).collect());
        self.links.show(&self.cluster, (0..self.cluster.links.len() as u32).collect());
    }

    /// Handles a key; the list of keys is in `draw/help.rs`.
    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> Flow {
        if key.kind == KeyEventKind::Release {
            return Flow::Continue;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.handle_control(key.code);
        }
        if self.typing {
            self.type_key(key.code);
            return Flow::Continue;
        }
        match key.code {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = self.help.is_none().then_some(0),
            KeyCode::Esc => self.go_back(),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    Focus::Streams => Focus::Sessions,
                    Focus::Sessions => Focus::Streams,
                    Focus::Nodes => Focus::Links,
                    Focus::Links => Focus::Nodes,
                };
            }
            KeyCode::Char('n') => {
                self.focus = if self.shows_cluster() { Focus::Sessions } else { Focus::Nodes };
            }
            // Nodes are few enough to be read without a filter.
            KeyCode::Char('/') => self.typing = !self.shows_cluster(),
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Enter => self.list_sessions_of_stream(),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_neighbour(-1),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_neighbour(1),
            code => return self.move_by(code),
        }
        self.refresh();
        Flow::Continue
    }

    fn handle_control(&mut self, code: KeyCode) -> Flow {
        match code {
            KeyCode::Char('c') => Flow::Quit,
            KeyCode::Char('z') => Flow::Suspend,
            KeyCode::Char('u') if self.typing => {
                self.filter.clear();
                self.refresh();
                Flow::Continue
            }
            _ => Flow::Continue,
        }
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.len() + c.len_utf8() <= filter::TEXT_MAX => self.filter.push(c),
            _ => return,
        }
        self.refresh();
    }

    fn move_by(&mut self, code: KeyCode) -> Flow {
        let to = match code {
            KeyCode::Up | KeyCode::Char('k') => Move::Up,
            KeyCode::Down | KeyCode::Char('j') => Move::Down,
            KeyCode::PageUp => Move::PageUp,
            KeyCode::PageDown => Move::PageDown,
            KeyCode::Home | KeyCode::Char('g') => Move::First,
            KeyCode::End | KeyCode::Char('G') => Move::Last,
            _ => return Flow::Continue,
        };
        match (&mut self.help, self.focus) {
            (Some(first), _) => *first = scrolled(*first, to),
            (None, Focus::Streams) => self.streams.go(&self.message, to),
            (None, Focus::Sessions) => self.sessions.go(&self.message, to),
            (None, Focus::Nodes) => self.nodes.go(&self.cluster, to),
            (None, Focus::Links) => self.links.go(&self.cluster, to),
        }
        Flow::Continue
    }

    /// Leaves the innermost mode: help, the cluster, the sessions of one stream, the filter.
    fn go_back(&mut self) {
        if self.help.take().is_some() {
            return;
        }
        if self.shows_cluster() {
            self.focus = Focus::Sessions;
        } else if self.only_stream.take().is_some() {
            self.focus = Focus::Streams;
        } else {
            self.filter.clear();
        }
    }

    fn list_sessions_of_stream(&mut self) {
        if self.focus == Focus::Streams
            && let Some(row) = self.streams.selected_row()
        {
            self.only_stream = Some(self.message.streams.name[row].clone());
            self.focus = Focus::Sessions;
        }
    }

    fn sort_by_neighbour(&mut self, step: isize) {
        match self.focus {
            Focus::Streams => self.streams.sort_by_neighbour(step),
            Focus::Sessions => self.sessions.sort_by_neighbour(step),
            Focus::Nodes => self.nodes.sort_by_neighbour(step),
            Focus::Links => self.links.sort_by_neighbour(step),
        }
    }

    fn reverse(&mut self) {
        match self.focus {
            Focus::Streams => self.streams.reversed ^= true,
            Focus::Sessions => self.sessions.reversed ^= true,
            Focus::Nodes => self.nodes.reversed ^= true,
            Focus::Links => self.links.reversed ^= true,
        }
    }
}

/// First line of the help page after a move. Drawing limits it to the page.
fn scrolled(first: usize, to: Move) -> usize {
    match to {
        Move::Up => first.saturating_sub(1),
        Move::Down => first + 1,
        Move::PageUp => first.saturating_sub(10),
        Move::PageDown => first + 10,
        Move::First => 0,
        Move::Last => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster, sample};

    pub(super) fn press(app: &mut App, keys: &[KeyCode]) {
        for code in keys {
            assert_eq!(app.handle_key(KeyEvent::from(*code)), Flow::Continue, "{code:?}");
        }
    }

    fn app(sessions: u32) -> App {
        let mut app = App::new("http://localhost:8080".to_owned());
        app.receive(sample::message(2, 10, sessions));
        app
    }

    fn type_text(app: &mut App, text: &str) {
        press(app, &text.chars().map(KeyCode::Char).collect::<Vec<_>>());
    }

    #[test]
    fn keys_sort_and_reverse_the_table_in_focus() {
        let mut app = app(30);
        assert_eq!(app.sessions.rows()[0], 29, "the largest bit rate first");
        press(&mut app, &[KeyCode::Char('r')]);
        assert_eq!(app.sessions.rows()[0], 0);
        press(&mut app, &[KeyCode::Left]); // AGE, its own order
        assert_eq!((app.sessions.columns[app.sessions.sort].title, app.sessions.rows()[0]), ("AGE", 29));
        press(&mut app, &[KeyCode::Tab, KeyCode::Right, KeyCode::Char('r')]);
        assert_eq!(app.streams.columns[app.streams.sort].title, "IN");
        assert_eq!(app.streams.rows()[..2], [4, 9], "those without a publisher");
        for _ in 0..SESSIONS.len() {
            press(&mut app, &[KeyCode::Tab, KeyCode::Char('<'), KeyCode::Tab]);
        }
        assert_eq!(app.sessions.columns[app.sessions.sort].title, "AGE", "once around");
    }

    #[test]
    fn typed_text_filters_at_once_and_escape_takes_it_back() {
        let mut app = app(30);
        press(&mut app, &[KeyCode::Char('/')]);
        type_text(&mut app, "whepq?");
        assert!(
            app.typing && app.sessions.rows().is_empty(),
            "letters that are keys otherwise are text here"
        );
        press(&mut app, &[KeyCode::Backspace, KeyCode::Backspace, KeyCode::Enter]);
        assert!(!app.typing && app.filter == "whep" && app.sessions.rows().len() == 10);
        press(&mut app, &[KeyCode::Esc]);
        assert_eq!((app.filter.as_str(), app.sessions.rows().len()), ("", 30));
        press(&mut app, &[KeyCode::Char('/')]);
        type_text(&mut app, &"ü".repeat(filter::TEXT_MAX));
        assert_eq!(app.filter.len(), filter::TEXT_MAX);
        assert_eq!(app.handle_key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)), Flow::Continue);
        assert_eq!(app.sessions.rows().len(), 30);
    }

    #[test]
    fn enter_lists_the_sessions_of_a_stream_and_escape_leads_back() {
        let mut app = app(30);
        press(&mut app, &[KeyCode::Tab, KeyCode::Down, KeyCode::Enter]);
        assert_eq!(app.only_stream.as_deref(), Some("live/cam001"));
        assert_eq!((app.focus, app.sessions.rows().len()), (Focus::Sessions, 3));
        let gone = sample::message(2, 1, 5);
        app.receive(gone);
        assert!(app.sessions.rows().is_empty(), "the stream ended");
        press(&mut app, &[KeyCode::Esc]);
        assert_eq!((app.focus, app.sessions.rows().len()), (Focus::Streams, 5));
    }

    #[test]
    fn a_paused_screen_stands_still_while_curves_go_on() {
        let mut app = app(3);
        press(&mut app, &[KeyCode::Char(' ')]);
        let first = app.message.clone();
        app.receive(sample::later(&first, 1));
        assert_eq!(app.message.sequence, 1);
        assert_eq!(app.history.session(0, 0).expect("known").last(0, 9).len(), 2);
        press(&mut app, &[KeyCode::Char(' ')]);
        app.receive(sample::later(&first, 2));
        assert_eq!(app.message.sequence, 3);
    }

    #[test]
    fn the_cluster_has_two_tables_of_its_own() {
        let mut app = app(30);
        app.receive_cluster(Ok(cluster::sample::cluster(12)));
        press(&mut app, &[KeyCode::Char('n')]);
        assert!(app.shows_cluster() && app.focus == Focus::Nodes);
        assert_eq!(app.nodes.rows(), (0..12).collect::<Vec<u32>>(), "by name");
        press(&mut app, &[KeyCode::Right, KeyCode::Right, KeyCode::Right, KeyCode::Down]);
        assert_eq!(
            (app.nodes.columns[app.nodes.sort].title, app.nodes.rows()[..2].to_vec()),
            ("PLAYERS", vec![11, 10])
        );
        press(&mut app, &[KeyCode::Tab, KeyCode::Char('r'), KeyCode::Char('/')]);
        assert_eq!((app.focus, app.links.selected_row(), app.typing), (Focus::Links, Some(10), false));
        // What was known stays, with the reason why there is nothing newer.
        app.receive_cluster(Err(Failure::Lost("no answer".to_owned())));
        assert_eq!((app.cluster_note.as_deref(), app.links.rows().len()), (Some("no answer"), 11));
        press(&mut app, &[KeyCode::Char(' ')]);
        app.receive_cluster(Ok(cluster::sample::cluster(3)));
        assert_eq!((app.cluster_note.as_deref(), app.links.rows().len()), (None, 11), "paused");
        press(&mut app, &[KeyCode::Esc]);
        assert_eq!((app.focus, app.sessions.rows().len()), (Focus::Sessions, 30));
    }

    #[test]
    fn every_key_works_before_the_first_message() {
        let mut app = App::new(String::new());
        let keys = [
            KeyCode::Tab,
            KeyCode::Enter,
            KeyCode::Char('r'),
            KeyCode::Left,
            KeyCode::Char('?'),
            KeyCode::Esc,
        ];
        press(&mut app, &keys);
        let moves =
            [KeyCode::Up, KeyCode::Down, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home, KeyCode::End];
        press(&mut app, &moves);
        assert_eq!(app.handle_key(KeyEvent::from(KeyCode::Char('q'))), Flow::Quit);
        assert_eq!(app.handle_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Flow::Quit);
        assert_eq!(app.handle_key(KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL)), Flow::Suspend);
    }
}
