//! The screen as text, at every size and in every state.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::{cluster, sample};

const PLAIN: Theme = Theme { colour: false, unicode: true };

#[expect(clippy::disallowed_methods, reason = "an arbitrary point in time to count from")]
fn now() -> Instant {
    Instant::now()
}

/// What is on a screen of this size.
fn buffer(app: &mut App, width: u16, height: u16, theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, app, theme, now())).expect("drawn");
    terminal.backend().buffer().clone()
}

fn lines_of(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    buffer.content().chunks(width).map(|cells| line(cells).trim_end().to_owned()).collect()
}

fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    lines_of(&buffer(app, width, height, PLAIN))
}

/// A server after `seconds`.
fn app(workers: u16, streams: u32, sessions: u32, seconds: u64) -> App {
    let mut app = App::new("http://localhost:8080".to_owned());
    let first = sample::message(workers, streams, sessions);
    (0..seconds).for_each(|second| app.receive(sample::later(&first, second)));
    app
}

fn press(app: &mut App, keys: &[KeyCode]) {
    for code in keys {
        app.handle_key(KeyEvent::from(*code));
    }
}

/// The line that holds `text`.
fn find<'a>(lines: &'a [String], text: &str) -> &'a str {
    lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text} in {lines:#?}"))
}

#[test]
fn everything_is_on_a_screen_of_usual_size() {
    let mut app = app(2, 10, 60, 3);
    app.sessions.sort_by("age");
    app.refresh();
    let lines = screen(&mut app, 120, 30);
    let expected = [
        "millstream top  http://localhost:8080  connected",
        "sessions 60  in 5.00 Mbit/s  out 150 Mbit/s  streams 10 live 8  publishers 10  players 50",
        "worker 1  [|||||||           ]  37.5 %  in 2.50 Mbit/s  out 75.0 Mbit/s",
        "─ Streams 1/10 ───",
        "─ Sessions 1/60 ───",
        "─ Session 1-59, player of live/cam009 by http-flv, 44s old, 17.7k packets, 0 lost ───",
        "rate 2.26 Mbit/s, max 2.26 Mbit/s",
        "q quit  ? help",
    ];
    for text in expected {
        find(&lines, text);
    }
    assert!(lines[0].ends_with("12:00:02 UTC"), "{}", lines[0]);
    let words = |text| find(&lines, text).split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        words("0-58"),
        [
            "0-58",
            "live/cam008",
            "player",
            "whep",
            "43s",
            "2.21M",
            "258",
            "58",
            "5.8",
            "63.0",
            "14.0",
            "1.04k",
            "560k",
            "12"
        ]
    );
    assert_eq!(words("HOME"), ["STREAM", "STATE", "HOME", "▼PLAYERS", "IN", "OUT"]);
    assert_eq!(words("live/cam004  "), ["live/cam004", "waiting", "-", "5", "0", "14.5M"]);
}

#[test]
fn every_size_is_drawn_and_shows_who_is_selected() {
    let mut app = app(40, 30, 300, 2);
    app.receive_cluster(Ok(cluster::sample::cluster(30)));
    let keys = [
        &[][..],
        &[KeyCode::End],
        &[KeyCode::Tab, KeyCode::PageDown],
        &[KeyCode::Char('n')],
        &[KeyCode::Tab, KeyCode::End],
        &[KeyCode::Char('?')],
    ];
    for keys in keys {
        press(&mut app, keys);
        for (width, height) in
            (0..=40).map(|step| (step * 4, step)).chain((0..40).map(|step| (4 + step * 7, 40 - step)))
        {
            let buffer = buffer(&mut app, width, height, PLAIN);
            let reversed = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
            let selected = buffer.content().iter().filter(reversed).count();
            if height >= 5 && app.help.is_none() {
                assert_eq!(selected, usize::from(width), "one whole line at {width}x{height}");
            }
        }
    }
}

#[test]
fn the_cluster_has_a_screen_of_its_own() {
    let mut app = app(2, 10, 60, 2);
    press(&mut app, &[KeyCode::Char('n')]);
    find(&screen(&mut app, 120, 30), "Waiting for the first answer.");
    app.receive_cluster(Ok(cluster::sample::cluster(12)));
    let lines = screen(&mut app, 120, 30);
    let expected = [
        "millstream top  http://localhost:8080  connected",
        "node node-00  nodes 12  links up 9 of 11  streams here 1 fetched 2 elsewhere 1,200  NATS 2.10.22",
        "─ Nodes 1/12 ───",
        "─ Links of node-00 1/11 ───",
        "─ Node node-00 ───",
        "other nodes reach it at 10.0.0.0:8290",
    ];
    for text in expected {
        find(&lines, text);
    }
    assert!(!lines.iter().any(|line| line.starts_with("worker")), "{lines:#?}");
    let words = |text| find(&lines, text).split_whitespace().collect::<Vec<_>>();
    assert_eq!(words("REPAIRED")[..4], ["LINK▲", "STATE", "FOR", "RTT"]);
    assert_eq!(words("node-04  ")[1..4], ["fra", "unreachable", "4,000"]);
    press(&mut app, &[KeyCode::Tab, KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    find(&screen(&mut app, 120, 30), "down for 4m04s: connection refused");
    app.receive_cluster(Err(crate::client::Failure::Refused(
        "this server is not part of a cluster".to_owned(),
    )));
    let lines = screen(&mut app, 120, 30);
    assert_eq!(lines[1], "this server is not part of a cluster");
    find(&lines, "node-05");
    let mut away = cluster::sample::cluster(2);
    away.directory = cluster::Directory { last_problem: Some("timed out".to_owned()), ..Default::default() };
    app.receive_cluster(Ok(away));
    find(&screen(&mut app, 120, 30), "NATS not heard: timed out");
}

#[test]
fn small_screens_keep_what_matters_most() {
    let mut app = app(2, 10, 60, 2);
    let lines = screen(&mut app, 40, 8);
    assert!(lines[0].starts_with("http://localhost:8080  connected"), "{lines:#?}");
    assert_eq!(lines[1], "sessions 60  in 5.00 Mbit/s");
    assert!(lines[2].starts_with("─ Sessions 1/60"), "{lines:#?}");
    assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["ID", "STREAM", "▼BIT/S", "LOSS%"]);
    press(&mut app, &[KeyCode::Tab]);
    let lines = screen(&mut app, 40, 8);
    assert!(lines[2].starts_with("─ Streams 1/10"), "keys go to the table that is there: {lines:#?}");
    assert_eq!(screen(&mut app, 30, 2).len(), 2);
}

#[test]
fn ten_thousand_sessions_are_scrolled_to_their_end() {
    let mut app = app(2, 10, 10_000, 1);
    press(&mut app, &[KeyCode::End]);
    let lines = screen(&mut app, 100, 30);
    find(&lines, "─ Sessions 10,000/10,000 ");
    find(&lines, "0-0 ");
    press(&mut app, &[KeyCode::PageUp, KeyCode::Up, KeyCode::Up]);
    let above = screen(&mut app, 100, 30);
    assert!(!above.iter().any(|line| line.starts_with("0-0 ")), "{above:#?}");
}

#[test]
fn many_workers_share_lines_and_none_is_forgotten() {
    let lines = screen(&mut app(20, 1, 40, 1), 100, 40);
    assert!(lines[2].starts_with("  0[|       ]  12%"), "{}", lines[2]);
    assert!(lines[5].contains(" 19["), "{}", lines[5]);
    let lines = screen(&mut app(200, 1, 400, 1), 80, 24);
    find(&lines, "185 more, max 4988%");
}

#[test]
fn a_lost_connection_is_told_with_its_reason_and_the_last_figures_stay() {
    let mut app = app(1, 2, 6, 1);
    let now = now();
    app.lose("Connection refused (os error 111)".to_owned(), Duration::from_millis(2500), now);
    let mut terminal = Terminal::new(TestBackend::new(80, 20)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, &mut app, PLAIN, now)).expect("drawn");
    let lines = lines_of(terminal.backend().buffer());
    assert!(lines[0].contains("no connection, again in 3 s"), "{}", lines[0]);
    assert_eq!(lines[1], "Connection refused (os error 111)");
    find(&lines, "live/cam001");
    let mut nothing = App::new("http://localhost:8080".to_owned());
    find(&screen(&mut nothing, 80, 20), "connecting");
    find(&screen(&mut nothing, 80, 20), "Waiting for the first message.");
    nothing.lose("no route to host".to_owned(), Duration::ZERO, now);
    find(&screen(&mut nothing, 80, 20), "no route to host");
}

#[test]
fn without_colours_there_are_none_and_without_unicode_only_ascii() {
    let mut app = app(1, 5, 300, 20);
    press(&mut app, &[KeyCode::Down]);
    for help in [false, true] {
        if help {
            press(&mut app, &[KeyCode::Char('?')]);
        }
        let plain = buffer(&mut app, 140, 40, Theme { colour: false, unicode: false });
        for cell in plain.content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
            assert!(cell.symbol().is_ascii(), "{}", cell.symbol());
        }
    }
    press(&mut app, &[KeyCode::Esc]);
    let coloured = buffer(&mut app, 140, 40, Theme { colour: true, unicode: true });
    for colour in [Color::Red, Color::Yellow, Color::Green, Color::Cyan] {
        assert!(coloured.content().iter().any(|cell| cell.fg == colour), "{colour}");
    }
}

#[test]
fn the_filter_is_on_the_last_line_while_it_is_typed() {
    let mut app = app(1, 5, 30, 1);
    press(&mut app, &"/whep".chars().map(KeyCode::Char).collect::<Vec<_>>());
    let mut terminal = Terminal::new(TestBackend::new(80, 20)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, &mut app, PLAIN, now())).expect("drawn");
    let lines = lines_of(terminal.backend().buffer());
    assert!(lines[19].starts_with("filter: whep "), "{}", lines[19]);
    terminal.backend_mut().assert_cursor_position((12, 19));
    find(&lines, "─ Sessions 1/10 of 30, filter \"whep\" ─");
    press(&mut app, &" mood:".chars().map(KeyCode::Char).collect::<Vec<_>>());
    let lines = screen(&mut app, 120, 20);
    assert!(lines[19].starts_with("filter: whep mood:  there is no `mood:`, only worker:"), "{}", lines[19]);
    press(&mut app, &[KeyCode::Enter]);
    find(
        &screen(&mut app, 160, 20),
        "─ Sessions 0/0 of 30, filter \"whep mood:\": there is no `mood:`, only",
    );
    press(&mut app, &"/".chars().map(KeyCode::Char).collect::<Vec<_>>());
    press(&mut app, &"x".repeat(80).chars().map(KeyCode::Char).collect::<Vec<_>>());
    press(&mut app, &[KeyCode::Char('y')]);
    let lines = screen(&mut app, 40, 20);
    assert!(lines[19].ends_with("xxy"), "the end is seen: {}", lines[19]);
}

#[test]
fn a_load_that_is_no_number_is_no_load() {
    for workers in [2, 40] {
        let mut app = App::new("http://localhost:8080".to_owned());
        let mut message = sample::message(workers, 3, 9);
        message.workers.load_percent.fill(f32::INFINITY);
        message.workers.load_percent[0] = f32::NAN;
        app.receive(message);
        let lines = screen(&mut app, 80, 24).join("\n").to_lowercase();
        assert!(!lines.contains("inf%") && !lines.contains("nan") && !lines.contains("inf %"), "{lines}");
        assert!(lines.contains("[        ") && !lines.contains("[|"), "{lines}");
    }
}

#[test]
fn wide_characters_keep_the_columns_in_line() {
    let mut app = App::new("http://localhost:8080".to_owned());
    let mut message = sample::message(1, 3, 9);
    message.streams.name[1] = "live/東京駅前広場のカメラ".to_owned();
    message.streams.name[2] = "live/cafe\u{301}".to_owned();
    app.receive(message);
    for width in 60..90 {
        let buffer = buffer(&mut app, width, 30, PLAIN);
        let column = |text: &str| {
            let found = (0..buffer.area.height).find_map(|y| {
                let line: Vec<&str> = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
                line.concat()
                    .starts_with(text)
                    .then(|| line.windows(6).position(|cells| cells.concat() == "player").expect("a role"))
            });
            found.expect(text)
        };
        assert_eq!(column("0-4 "), column("0-6 "), "at {width}");
    }
}

#[test]
fn help_lists_every_key_and_column_and_scrolls() {
    let mut app = app(1, 2, 3, 1);
    press(&mut app, &[KeyCode::Char('?')]);
    let mut seen = screen(&mut app, 80, 24).join("\n");
    for _ in 0..6 {
        press(&mut app, &[KeyCode::PageDown]);
        seen += &screen(&mut app, 80, 24).join("\n");
    }
    for [title, meaning] in all_columns().into_iter().flat_map(|(_, columns)| columns) {
        assert!(seen.contains(meaning), "{title} in {seen}");
    }
    assert!(!seen.contains('…'), "nothing is cut: {seen}");
    press(&mut app, &[KeyCode::Home]);
    assert!(screen(&mut app, 80, 24)[3].starts_with("q "));
}
