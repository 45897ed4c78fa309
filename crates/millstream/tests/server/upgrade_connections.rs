//! TCP connections in clear text over an upgrade: players miss no frame and get none twice, and publishers
//! go on, whichever process has them in the end.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtmp::MediaKind;
use serde_json::{Value, json};

use crate::bridge_publisher_back::receive;
use crate::common::eventually;
use crate::common::flv::{TagReader, is_frame, sample_tags};
use crate::common::hook::{HookServer, Reply};
use crate::common::http;
use crate::common::rtc::Client;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::websocket::{Messages, connect};
use crate::upgrade::{StandIn, Successor, ask, assert_not_taken_over, serving, upgrade};

/// A publisher whose pictures have numbers. Only the first is a key frame: who misses one gets none again.
struct Publisher {
    client: RtmpClient,
    next: u32,
}

impl Publisher {
    fn begin(server: &Server) -> Self {
        let mut client = RtmpClient::publish(server.rtmp, "live/mill");
        client.send_tags(sample_tags().iter().filter(|tag| !is_frame(tag)));
        let mut publisher = Self { client, next: 0 };
        publisher.send();
        publisher
    }

    fn body(number: u32, bytes: usize) -> Vec<u8> {
        let first = if number == 0 { 0x17 } else { 0x27 };
        let nal = if number == 0 { 0x65 } else { 0x41 };
        let mut body = vec![first, 1, 0, 0, 0];
        body.extend((bytes as u32 + 5).to_be_bytes());
        body.push(nal);
        body.extend(number.to_be_bytes());
        body.resize(body.len() + bytes, 0x55);
        body
    }

    /// The time of a picture.
    fn time(number: u32) -> u32 {
        1_000 + number * 10
    }

    fn send(&mut self) {
        self.client.send(MediaKind::Video, Self::time(self.next), &Self::body(self.next, 2_000));
        self.next += 1;
    }

    /// Sends half of the next picture; the rest of it is for [`RtmpClient::send_raw`].
    fn send_half(&mut self) -> Vec<u8> {
        let (time, body) = (Self::time(self.next), Self::body(self.next, 20_000));
        self.next += 1;
        self.client.send_half(MediaKind::Video, time, &body)
    }
}

/// Pictures as a player gets them: their times and numbers.
trait Player: Send {
    /// The next one; `None` at the end.
    fn next(&mut self) -> Option<(u32, u32)>;
}

fn picture(kind: MediaKind, timestamp: u32, body: &[u8]) -> Option<(u32, u32)> {
    let is_picture = kind == MediaKind::Video && body.get(1) == Some(&1);
    is_picture.then(|| (timestamp, u32::from_be_bytes(body[10..14].try_into().expect("four bytes"))))
}

impl<R: Read + Send> Player for TagReader<R> {
    fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let tag = TagReader::next(self)?;
            if let Some(picture) = picture(tag.kind, tag.timestamp, &tag.body) {
                return Some(picture);
            }
        }
    }
}

impl Player for RtmpClient {
    fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let message = self.next_media()?;
            if let Some(picture) = picture(message.kind, message.timestamp, &message.payload) {
                return Some(picture);
            }
        }
    }
}

fn flv_player(server: SocketAddr) -> Box<dyn Player> {
    Box::new(TagReader::new(http::open(server, "GET", "/live/mill.flv", &[]).expect("play")))
}

/// A player, and all that it has got.
struct Viewer {
    player: Box<dyn Player>,
    got: Vec<(u32, u32)>,
}

impl Viewer {
    /// By each of the protocols in turn, so many.
    fn begin(server: &Server, count: usize) -> Vec<Self> {
        let player = |at: usize| -> Box<dyn Player> {
            match at % 3 {
                0 => flv_player(server.http),
                1 => Box::new(RtmpClient::play(server.rtmp, "live/mill")),
                _ => Box::new(TagReader::new(Messages::new(connect(server, "live/mill")))),
            }
        };
        let viewers = (0..count).map(|at| Self { player: player(at), got: Vec::new() }).collect();
        server.wait_for_players("live/mill", count);
        viewers
    }

    /// Takes pictures up to `last`, which is set when it is known.
    fn take(&mut self, last: &AtomicU32) {
        while self.got.last().is_none_or(|(_, number)| *number != last.load(Ordering::Relaxed)) {
            let Some(next) = self.player.next() else { return };
            self.got.push(next);
        }
    }

    /// It has got each picture once, and at its time, up to `last`.
    fn assert_whole(&self, last: u32) {
        assert_eq!(self.got.last().map(|(_, number)| *number), Some(last), "the connection was lost");
        let zero = self.got[0].0 - Publisher::time(self.got[0].1);
        let times: Vec<_> = self.got.iter().map(|(time, number)| (*number, time - zero)).collect();
        let whole: Vec<_> = (self.got[0].1..=last).map(|number| (number, Publisher::time(number))).collect();
        let odd = times.iter().zip(&whole).position(|(got, sent)| got != sent);
        assert!(times == whole, "from picture {odd:?} on: {:?}", odd.map(|at| &times[at..]));
    }
}

/// Sends pictures while `meanwhile` runs, and some more, of which the players get each.
fn play_on<T: Send>(
    publisher: &mut Publisher,
    viewers: &mut [Viewer],
    meanwhile: impl FnOnce() -> T + Send,
) -> T {
    let last = AtomicU32::new(u32::MAX);
    let result = std::thread::scope(|scope| {
        for viewer in viewers.iter_mut() {
            scope.spawn(|| viewer.take(&last));
        }
        let meanwhile = scope.spawn(meanwhile);
        while !meanwhile.is_finished() {
            publisher.send();
            std::thread::sleep(Duration::from_millis(5));
        }
        (0..20).for_each(|_| publisher.send());
        last.store(publisher.next, Ordering::Relaxed);
        publisher.send();
        meanwhile.join().expect("no panic")
    });
    viewers.iter().for_each(|viewer| viewer.assert_whole(publisher.next - 1));
    result
}

#[test]
fn a_publisher_and_a_player_go_on() {
    let mut server = Server::spawn_workers(1, "");
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 1);
    play_on(&mut publisher, &mut viewers, || ());
    let new = play_on(&mut publisher, &mut viewers, || upgrade(&mut server));
    new.end();
}

#[test]
fn players_of_all_protocols_go_on_over_two_upgrades() {
    let mut server = Server::spawn_workers(2, "");
    let mut publisher = Publisher::begin(&server);
    // More than one of each on each worker.
    let mut viewers = Viewer::begin(&server, 12);
    let workers: BTreeSet<_> =
        server.sessions("role=player").iter().map(|one| one["worker"].to_string()).collect();
    assert_eq!(workers.len(), 2);
    play_on(&mut publisher, &mut viewers, || ());
    let first = play_on(&mut publisher, &mut viewers, || upgrade(&mut server));
    let second = play_on(&mut publisher, &mut viewers, || {
        kill(first.pid(), Signal::SIGUSR2).expect("it runs");
        eventually("another serves, and the first has ended", || {
            let second = serving(&server).filter(|pid| *pid != i64::from(first.pid().as_raw()))?;
            kill(first.pid(), None).is_err().then_some(second)
        })
    });
    let new = Successor(Pid::from_raw(second as i32));
    assert_eq!(server.sessions("").len(), 13);
    new.end();
}

#[test]
fn a_picture_goes_on_that_was_half_sent() {
    let mut server = Server::spawn_workers(1, "");
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 3);
    play_on(&mut publisher, &mut viewers, || ());
    let rest = publisher.send_half();
    let new = upgrade(&mut server);
    publisher.client.send_raw(&rest);
    play_on(&mut publisher, &mut viewers, || ());
    new.end();
}

#[test]
fn connections_go_on_when_no_process_takes_over() {
    let server = Server::spawn_workers(2, "");
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 6);
    std::fs::write(server.dir.path().join("millstream.toml"), "[no_such_section]\n").expect("written");
    let status = play_on(&mut publisher, &mut viewers, || ask(&server).status);
    assert_eq!(status, 409);
    play_on(&mut publisher, &mut viewers, || ());
}

/// The other process hears all of this one's connections, and ends; the second one does so when it has said
/// that it has them.
#[test]
fn connections_go_on_when_the_other_process_ends_in_the_middle() {
    let (program, server) = StandIn::serve(4, 2);
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 6);
    play_on(&mut publisher, &mut viewers, || assert_not_taken_over(&server));
    let sessions = server.sessions("");
    assert_eq!(sessions.len(), 7);
    program.says_that_it_has(&sessions);
    play_on(&mut publisher, &mut viewers, || assert_not_taken_over(&server));
    play_on(&mut publisher, &mut viewers, || ());
}

#[test]
fn players_without_a_publisher_go_over_and_wait_for_it() {
    let mut server = Server::spawn_workers(2, "");
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 6);
    play_on(&mut publisher, &mut viewers, || ());
    drop(publisher);
    server.wait_for_publisher("live/mill", false);
    let new = upgrade(&mut server);
    eventually("the new one answers", || http::get(server.http, "/healthz").ok());
    server.wait_for_players("live/mill", 6);
    let mut publisher = Publisher::begin(&server);
    (0..10).for_each(|_| publisher.send());
    for viewer in &mut viewers {
        let before = *viewer.got.last().expect("a picture");
        for number in 0..10 {
            let (time, got) = viewer.player.next().expect("the connection stays");
            assert_eq!(got, number);
            assert!(time > before.0, "time goes on: {time} after {}", before.0);
        }
    }
    new.end();
}

#[test]
fn a_player_by_rtmp_of_a_publisher_by_whip_goes_on() {
    let mut server = Server::spawn_workers(1, "");
    let mut publisher = Client::publish(&server, "live/cam");
    let mut player = RtmpClient::play(server.rtmp, "live/cam");
    let (mut times, mut next) = (Vec::new(), 0);
    receive((&mut publisher, &mut next), &mut player, &mut times);
    let new = upgrade(&mut server);
    receive((&mut publisher, &mut next), &mut player, &mut times);
    assert!(times.is_sorted(), "times of audio in both processes: {times:?}");
    assert!(!publisher.closed);
    new.end();
}

#[test]
fn the_end_of_a_publisher_that_goes_over_is_reported_once() {
    let hook = HookServer::start(|_| Reply::Json(json!({ "allow": true })));
    let mut server = Server::spawn_workers(1, &hook.config(&["on_publish", "on_publish_end"], ""));
    let mut publisher = Publisher::begin(&server);
    let mut viewers = Viewer::begin(&server, 1);
    play_on(&mut publisher, &mut viewers, || ());
    let new = play_on(&mut publisher, &mut viewers, || upgrade(&mut server));
    assert_eq!(hook.events("on_publish_end"), Vec::<Value>::new());
    drop(publisher);
    let ended = hook.wait_for("on_publish_end", 1);
    new.end();
    assert_eq!(hook.events("on_publish_end"), ended);
    assert_eq!(
        (&ended[0]["started"], &ended[0]["asked"]),
        (&json!(true), &hook.events("on_publish")[0]["id"])
    );
}
