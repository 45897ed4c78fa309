//! An encoder that crashed comes back: its name is free again once the old session has been silent
//! for some seconds, long before the server gives that session up; one that is still there keeps
//! its name.

#![expect(clippy::disallowed_methods, reason = "silence is a matter of the real clock")]

use std::time::{Duration, Instant};

use crate::common::rtc::{Client, Options, exchange, start_flow};
use crate::common::server::Server;
use rtc::sdp::Direction;

/// Asks for the name until it is given.
fn publish_in_the_end(server: &Server, stream: &str, mut meanwhile: impl FnMut()) -> (Client, usize) {
    let path = format!("/whip/{stream}");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut refusals = 0;
    loop {
        match Client::try_open(server, &path, Direction::Send, &Options::default()) {
            Ok(client) => return (client, refusals),
            Err(response) => assert_eq!(response.status, 409, "{}", response.text()),
        }
        refusals += 1;
        assert!(Instant::now() < deadline, "the name was never free");
        meanwhile();
    }
}

fn comes_back(workers: u32) {
    let mut server = Server::start_workers(workers, "");
    let mut publisher = Client::publish(&server, "live/crash");
    let mut viewer = Client::play(&server, "live/crash");
    let next = start_flow(&mut publisher, &mut viewer, 0);
    // It never says another word. The viewer's own traffic paces the questions.
    let (mut again, refusals) = publish_in_the_end(&server, "live/crash", || {
        viewer.until_within(Duration::from_millis(500), |_| false);
    });
    assert!(refusals > 0, "a name in use is not given away at once");
    again.connect();
    start_flow(&mut again, &mut viewer, next);
    server.assert_healthy();
}

#[test]
fn a_crashed_publisher_can_come_back() {
    comes_back(1);
}

#[test]
fn also_on_another_worker() {
    comes_back(2);
}

#[test]
fn a_publisher_that_is_there_keeps_its_name() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/kept");
    let mut viewer = Client::play(&server, "live/kept");
    let mut next = start_flow(&mut publisher, &mut viewer, 0);
    for _ in 0..20 {
        let refused = Client::try_open(&server, "/whip/live/kept", Direction::Send, &Options::default());
        assert_eq!(refused.err().map(|response| response.status), Some(409));
        exchange(&mut publisher, &mut viewer, next..next + 5);
        next += 5;
    }
}
