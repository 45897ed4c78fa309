//! `millstream top` in a real terminal, beside a real server: what people see and press.

mod pty;
mod screen;

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{BINARY, Server};
use nix::sys::signal::Signal;
use pty::Terminal;

fn top(server: &Server, columns: u16, rows: u16) -> Terminal {
    Terminal::start(BINARY, &["top", "--url", &server.http.to_string()], columns, rows)
}

#[test]
fn streams_and_sessions_come_and_go_on_the_screen() {
    let server = Server::start("");
    let mut top = top(&server, 120, 30);
    top.wait_for("an empty server", |screen| screen.alternate && screen.shows("sessions 0 "));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags());
    let player = RtmpClient::play(server.rtmp, "live/mill");
    top.wait_for_text("Sessions 1/2");
    top.wait_for("rows of both", |screen| screen.shows("publisher") && screen.shows("player  "));
    top.wait_for_text("publishers 1  players 1");
    player.end();
    publisher.end();
    top.wait_for_text("Sessions 0/0");
    top.press("q");
    assert!(top.wait_for_exit().success());
}

#[test]
fn keys_filter_list_and_explain() {
    let server = Server::start("");
    let _publishers = ["live/mill", "live/wheel"].map(|stream| RtmpClient::publish(server.rtmp, stream));
    let mut top = top(&server, 110, 28);
    top.wait_for_text("Sessions 1/2");
    top.press("/wheel");
    top.wait_for("the filter", |screen| screen.shows("filter: wheel") && !screen.shows("live/mill"));
    top.press("\r\u{1b}");
    top.wait_for("everything again", |screen| screen.shows("live/mill") && screen.shows("live/wheel"));
    // Streams by name, the first of them, its sessions; escape sequences are those of xterm's arrow keys.
    top.press("\t\u{1b}[C\u{1b}[C\u{1b}[C\u{1b}[A\r");
    top.wait_for("sessions of one stream", |screen| {
        screen.shows("Sessions of live/") && screen.shows("1/1 of 2")
    });
    top.press("?");
    top.wait_for_text("lists the sessions of the selected stream");
    top.press("?\u{3}");
    assert!(top.wait_for_exit().success(), "Ctrl-C ends it");
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let server = Server::start("");
    let _publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut top = top(&server, 120, 40);
    top.wait_for("keys on the last line", |screen| {
        screen.shows("live/mill") && screen.last_line() == Some(39)
    });
    for (columns, rows) in [(60, 12), (200, 50), (30, 5), (80, 24)] {
        top.resize(columns, rows);
        let last = usize::from(rows) - 1;
        top.wait_for("keys on the new last line", |screen| {
            screen.last_line() == Some(last)
                && screen.lines()[last].starts_with("q quit")
                && screen.lines().iter().all(|line| line.chars().count() <= usize::from(columns))
                && screen.shows("live/mill")
        });
    }
    top.press("q");
    assert!(top.wait_for_exit().success());
}

#[test]
fn a_server_that_stops_is_told_and_a_signal_ends_it_cleanly() {
    let mut server = Server::spawn("[shutdown]\ndrain_seconds = 1\n");
    let mut top = top(&server, 100, 24);
    top.wait_for_text("connected");
    server.terminate();
    assert!(server.wait_for_exit(crate::common::TIMEOUT).success());
    top.wait_for("no connection, and why", |screen| {
        screen.shows("no connection, again in") && screen.shows("Connection refused")
    });
    assert!(top.screen().coloured);
    top.signal(Signal::SIGTERM);
    assert!(top.wait_for_exit().success());
}

#[test]
fn a_refusal_ends_it_and_is_left_on_the_screen() {
    let server = Server::start("[auth]\nmanage_token = 'keeper'\n");
    let mut top = top(&server, 100, 24);
    assert_eq!(top.wait_for_exit().code(), Some(1));
    top.wait_for_text("a token is needed, by MILLSTREAM_TOP_TOKEN or --token");
}

#[test]
fn without_colours_none_are_sent() {
    let server = Server::start("");
    let url = server.http.to_string();
    let mut top = Terminal::start(BINARY, &["top", "--no-color", "--url", &url], 100, 24);
    top.wait_for_text("connected");
    top.press("q");
    assert!(top.wait_for_exit().success());
    assert!(!top.screen().coloured);
}
