//! Several workers: each has ports of its own, answers name those of the worker that has the
//! session, and packets cross.

use std::collections::BTreeSet;

use crate::common::rtc::Client;
use crate::common::server::Server;

#[test]
fn sessions_are_spread_and_answers_name_the_ports_of_their_worker() {
    let server = Server::start_workers(2, "");
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewers: Vec<Client> = (0..3).map(|_| Client::play(&server, "live/a")).collect();
    let ports: BTreeSet<u16> = viewers
        .iter()
        .chain([&publisher])
        .map(|client| client.answer.remote.candidates[0].address.port())
        .collect();
    assert_eq!(ports.len(), 2, "one for each worker: {ports:?}");
    let workers: Vec<_> = server.sessions("stream=live/a").iter().map(|it| it["worker"].as_u64()).collect();
    assert_eq!(workers.iter().filter(|worker| **worker == Some(0)).count(), 2, "{workers:?}");
    let mut number = 0;
    for viewer in &mut viewers {
        viewer.until("audio arrives", |viewer| {
            publisher.turn();
            publisher.send_audio(number);
            number += 1;
            !viewer.media.is_empty()
        });
    }
}
