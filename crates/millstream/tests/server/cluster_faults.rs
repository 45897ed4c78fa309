//! Faults of a cluster, and what publishers and players notice of them.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nix::sys::signal::Signal;
use rtc::sdp::Direction;
use rtc_test::{audio_fields, audio_payload};
use rtmp::MediaKind;
use rtmp::flv::Tag;

use crate::common::cluster::{Cluster, play, publish_when_free, wait_for_directory, wait_for_lines};
use crate::common::flv::{TagReader, is_frame, sample_tags};
use crate::common::rtc::{Client, Options, exchange, start_flow};
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use crate::common::wire::{Between, Wire};
use crate::common::{TIMEOUT, eventually, http, lasting_address};

#[test]
fn without_nats_streams_go_on_and_new_ones_are_published_and_played_where_they_are() {
    while_nats_is_away(|cluster, is_away| cluster.set_nats(!is_away));
}

#[test]
fn nats_that_stands_still_is_as_if_there_were_none() {
    while_nats_is_away(|cluster, is_away| cluster.freeze_nats(is_away));
}

fn while_nats_is_away(set_away: impl Fn(&mut Cluster, bool)) {
    let Some(mut cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let (first, rest) = tags.split_at(tags.len() / 2);
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(first);
    let mut player = play(&b);
    player.next().expect("the stream");
    let mut camera = Client::publish(&a, "live/cam");
    let mut viewer = Client::play_when_ready(&b, "live/cam", &Options::default());
    let next = start_flow(&mut camera, &mut viewer, 0);
    set_away(&mut cluster, true);
    eventually("the directory is not heard", || {
        camera.turn();
        viewer.turn();
        (a.api("/api/v1/cluster")["directory"]["heard"] == false).then_some(())
    });
    publisher.send_tags(rest);
    until_tag(&mut player, &tags[tags.len() - 1]);
    exchange(&mut camera, &mut viewer, next..next + 10);
    let mut local = RtmpClient::publish(b.rtmp, "live/local");
    local.send_tags(first);
    RtmpClient::play(b.rtmp, "live/local").take_frames(3);
    // The name that was known to be taken still is.
    let refusal = RtmpClient::begin_publish(b.rtmp, "live/mill").wait_started().expect_err("it is taken");
    assert!(refusal.contains("another node"), "{refusal}");
    set_away(&mut cluster, false);
    wait_for_directory(&a, true);
    // What began meanwhile is known everywhere.
    let mut elsewhere = RtmpClient::play(a.rtmp, "live/local");
    local.send_tags(rest);
    elsewhere.take_frames(3);
    a.wait_for_publisher("live/mill", true);
}

#[test]
fn of_two_publishers_of_a_split_one_stays_and_the_other_is_told_why() {
    let Some(mut cluster) = Cluster::start() else { return };
    let nodes = [cluster.node("a"), cluster.node("b")];
    wait_for_lines(&nodes[1], "linked to a node", 1);
    cluster.set_nats(false);
    nodes.iter().for_each(|node| wait_for_directory(node, false));
    // Nobody can be asked, so both are let in.
    let mut publishers = nodes.each_ref().map(|node| RtmpClient::publish(node.rtmp, "live/mill"));
    nodes.iter().for_each(|node| wait_for_lines(node, "published in the cluster", 1));
    cluster.set_nats(true);
    let has_publisher = |node: &Server| !node.sessions("stream=live/mill&role=publisher").is_empty();
    let stays = eventually("one publisher is left", || match nodes.each_ref().map(has_publisher) {
        [true, false] => Some(0),
        [false, true] => Some(1),
        [true, true] => None,
        [false, false] => panic!("one of them has to stay"),
    });
    let told = publishers[1 - stays].last_words();
    assert!(told.contains("published on another node"), "{told}");
    wait_for_lines(&nodes[1 - stays], "the publisher here is ended", 1);
    let tags = sample_tags();
    publishers[stays].send_tags(&tags[..200]);
    nodes.iter().for_each(|node| _ = play(node).next().expect("the stream that is left"));
    assert!(has_publisher(&nodes[stays]));
}

#[test]
fn a_node_that_was_cut_off_loses_the_name_that_another_publisher_has_by_then() {
    let Some(cluster) = Cluster::start() else { return };
    // All that the first node says and hears goes by wires.
    let nats = Wire::to(cluster.nats());
    let listens = [lasting_address(), lasting_address()];
    let relays = listens.map(Wire::to);
    let config = |at: usize, name, nats| {
        let (listen, public) = (listens[at], relays[at].address);
        let more =
            format!("relay_listen = [\"{listen}\"]\nrelay_public_address = \"{public}\"\nlinger_ms = 300");
        cluster.config_by(nats, name, &more)
    };
    let a = Server::start_workers(2, &config(0, "a", nats.address));
    let b = Server::start_workers(2, &config(1, "b", cluster.nats()));
    wait_for_lines(&b, "linked to a node", 1);
    let set_open = |is_open| [&nats, &relays[0], &relays[1]].map(|wire| wire.set_open(is_open));
    let tags = sample_tags();
    let mut first = RtmpClient::publish(a.rtmp, "live/mill");
    first.send_tags(&tags[..200]);
    let (mut here, mut there) = (play(&a), play(&b));
    for player in [&mut here, &mut there] {
        player.next().expect("the stream");
    }

    set_open(false);
    wait_for_directory(&a, false);
    // Where the publisher is everything goes on, and where it is not another one gets the name.
    first.send_tags(&tags[200..400]);
    until_tag(&mut here, &tags[399]);
    let mut second = publish_when_free(&b);
    second.send_tags(&tags[..300]);
    until_tag(&mut there, &tags[299]);
    a.wait_for_publisher("live/mill", true);

    set_open(true);
    let told = first.last_words();
    assert!(told.contains("published on another node"), "{told}");
    second.send_tags(&tags[300..]);
    for player in [&mut here, &mut there] {
        until_tag(player, &tags[tags.len() - 1]);
    }
}

#[test]
fn a_link_that_was_cut_goes_on_where_it_was_or_with_a_key_frame() {
    let Some(cluster) = Cluster::start() else { return };
    let listens = [lasting_address(), lasting_address()];
    let ways = Between::new(listens);
    let config = |at: usize, name| {
        let (listen, public) = (listens[at], ways.addresses[at]);
        let more =
            format!("relay_listen = [\"{listen}\"]\nrelay_public_address = \"{public}\"\nlinger_ms = 300");
        cluster.config_by(cluster.nats(), name, &more)
    };
    let [a, b] = [(0, "a"), (1, "b")].map(|(at, name)| Server::start_workers(2, &config(at, name)));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..200]);
    let mut camera = Client::publish(&a, "live/cam");
    wait_for_lines(&a, "published in the cluster", 2);
    let mut player = play(&b);
    let mut viewer = Client::play_when_ready(&b, "live/cam", &Options::default());
    let first = start_flow(&mut camera, &mut viewer, 0);

    // A short cut, that neither node need notice: nothing is missing.
    ways.set_open(false);
    publisher.send_tags(&tags[200..300]);
    let lost_before = ways.lost();
    let (mut next, mut got) = (first, Vec::new());
    viewer.until("packets are lost", |_| {
        camera.turn();
        camera.send_audio(next);
        next += 1;
        ways.lost() >= lost_before + 20
    });
    ways.set_open(true);
    viewer.until("the last packet", |viewer| {
        camera.turn();
        got.extend(viewer.take_audio());
        got.len() >= (next - first) as usize
    });
    got.sort_unstable();
    assert_eq!(got, (first..next).collect::<Vec<_>>(), "each once, and none is missing");
    has_no_gap(&until_tag(&mut player, &tags[299]), &tags[..300]);

    // A long one: players notice nothing but the pause.
    ways.set_open(false);
    eventually("the cut is noticed", || {
        camera.turn();
        viewer.turn();
        b.log().contains("link lost").then_some(())
    });
    publisher.send_tags(&tags[300..400]);
    ways.set_open(true);
    publisher.send_tags(&tags[400..]);
    until_tag(&mut player, &tags[tags.len() - 1]);
    viewer.take_audio();
    start_flow(&mut camera, &mut viewer, next);
}

#[test]
fn nothing_is_missing_when_the_node_between_publisher_and_viewers_is_killed() {
    without_the_node_between(Signal::SIGKILL);
}

#[test]
fn nothing_is_missing_when_the_node_between_publisher_and_viewers_leaves() {
    let Some(home) = without_the_node_between(Signal::SIGTERM) else { return };
    // What it fed, both streams, had another parent before it went.
    let (before, _) = home.split_once("the node is shutting down").expect("it says goodbye");
    assert_eq!(before.matches("served to another node").count(), 4, "{home}");
}

/// A node fetches from one that gets the signal, and then from the home, whose log this is.
fn without_the_node_between(signal: Signal) -> Option<String> {
    let cluster = Cluster::start()?;
    let config = |name| cluster.config(name, "fan_out_max = 1\nlinger_ms = 300");
    let a = Server::start_workers(2, &config("a"));
    let mut b = Server::spawn(&config("b"));
    let c = Server::start_workers(2, &config("c"));
    wait_for_lines(&c, "linked to a node", 2);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..200]);
    let mut camera = Client::publish(&a, "live/cam");
    wait_for_lines(&a, "published in the cluster", 2);
    let between = play(&b);
    let between_cam = Client::play_when_ready(&b, "live/cam", &Options::default());
    wait_for_lines(&a, "served to another node", 2);
    let mut player = play(&c);
    let mut viewer = Client::play_when_ready(&c, "live/cam", &Options::default());
    wait_for_lines(&b, "served to another node", 2);
    let first = start_flow(&mut camera, &mut viewer, 0);
    drop(between);
    assert_eq!(between_cam.delete(), 200);

    b.signal(signal);
    // Frames and packets come one by one, as in life: of a burst, only the end is kept.
    let (mut next, mut got, mut frames) = (first, Vec::new(), tags[200..].iter());
    viewer.until("the node is gone, and packets come", |viewer| {
        let is_gone = b.exit_status().is_some() && a.log().matches("served to another node").count() == 4;
        if !is_gone || next < first + 100 {
            camera.turn();
            camera.send_audio(next);
            next += 1;
            publisher.send_tags(frames.next());
        }
        got.extend(viewer.take_audio());
        is_gone && got.last() == Some(&(next - 1))
    });
    got.sort_unstable();
    assert_eq!(got, (first..next).collect::<Vec<_>>(), "each once, and none is missing");
    publisher.send_tags(frames);
    has_no_gap(&until_tag(&mut player, &tags[tags.len() - 1]), &tags);
    Some(a.log())
}

#[test]
fn viewers_of_webrtc_get_the_publisher_that_comes_to_another_node_after_the_first_was_killed() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b, c) = (cluster.spawn("a"), cluster.node("b"), cluster.node("c"));
    wait_for_lines(&c, "linked to a node", 2);
    let mut first = Client::publish(&a, "live/cam");
    wait_for_lines(&a, "published in the cluster", 1);
    let mut viewer = Client::play_when_ready(&c, "live/cam", &Options::default());
    start_flow(&mut first, &mut viewer, 0);
    drop(a);
    let mut second = eventually("the name is free", || {
        Client::try_open(&b, "/whip/live/cam", Direction::Send, &Options::default()).ok()
    });
    second.connect();
    start_flow(&mut second, &mut viewer, 1_000);
    assert_eq!(c.sessions("stream=live/cam&role=player").len(), 1, "the viewer has not connected again");
}

#[test]
fn each_viewer_reconnects_once_when_all_nodes_are_restarted_one_after_the_other() {
    let Some(cluster) = Cluster::start() else { return };
    let names = ["a", "b", "c"];
    let mut nodes = names.map(|name| cluster.spawn(name));
    nodes.iter().for_each(|node| wait_for_lines(node, "linked to a node", 2));
    let by_flv = nodes.each_ref().map(|node| Viewer::start("FLV", node.http, watch_flv));
    let by_webrtc = nodes.each_ref().map(|node| Viewer::start("WebRTC", node.http, watch_webrtc));
    let viewers = || by_flv.iter().zip(&by_webrtc).map(|(flv, webrtc)| [flv, webrtc]);
    let mut publisher = RtmpClient::publish(nodes[0].rtmp, "live/mill");
    let (tags, mut mark) = (sample_tags(), 1);
    let mut camera = Camera::start(nodes[0].http);
    camera.set_mark(mark);
    publisher.send_tags(&tags[..200]);
    publisher.send_tags([&marked(mark)]);
    viewers().flatten().for_each(|viewer| viewer.wait_for(mark));
    for (at, name) in names.into_iter().enumerate() {
        // The node with the publisher: it moves to the next one, and the others' viewers with it.
        nodes[at].terminate();
        assert!(nodes[at].wait_for_exit(TIMEOUT).success(), "{}", nodes[at].log());
        let next = (at + 1) % nodes.len();
        publisher = publish_when_free(&nodes[next]);
        mark += 1;
        camera = Camera::start(nodes[next].http);
        camera.set_mark(mark);
        publisher.send_tags(&tags[..200]);
        publisher.send_tags([&marked(mark)]);
        let others = viewers().enumerate().filter(|(other, _)| *other != at);
        others.flat_map(|(_, both)| both).for_each(|viewer| viewer.wait_for(mark));
        nodes[at] = cluster.spawn(name);
        wait_for_lines(&nodes[at], "linked to a node", 2);
        mark += 1;
        for viewer in [&by_flv[at], &by_webrtc[at]] {
            viewer.set_node(nodes[at].http);
            eventually("the viewer is back", || {
                (viewer.connections.load(Ordering::Relaxed) == 2).then_some(())
            });
        }
        camera.set_mark(mark);
        publisher.send_tags([&marked(mark)]);
        viewers().flatten().for_each(|viewer| viewer.wait_for(mark));
    }
    for (both, name) in viewers().zip(names) {
        let connections = both.map(|viewer| viewer.connections.load(Ordering::Relaxed));
        assert_eq!(connections, [2, 2], "of the viewers of {name}: one, and one after its node's restart");
    }
}

/// A publisher of `live/cam`, on a thread of its own: its packets have the mark in place of their number.
struct Camera {
    mark: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Camera {
    fn start(node: SocketAddr) -> Self {
        let camera = Self { mark: Arc::default(), is_over: Arc::default() };
        let (mark, is_over) = (Arc::clone(&camera.mark), Arc::clone(&camera.is_over));
        let mut publisher = eventually("the name is free", || {
            let options = Options::default();
            Client::try_open_at(node, "/whip/live/cam", Direction::Send, &options).ok()?.ok()
        });
        std::thread::spawn(move || {
            publisher.connect();
            for number in 0.. {
                if publisher.closed || is_over.load(Ordering::Relaxed) {
                    return;
                }
                let mark = mark.load(Ordering::Relaxed);
                publisher.send_rtp(audio_fields(number), &audio_payload(mark));
                publisher.until_within(Duration::from_millis(20), |_| false);
            }
        });
        camera
    }

    fn set_mark(&self, mark: u8) {
        self.mark.store(mark.into(), Ordering::Relaxed);
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A stream as a viewer gets it: its marks, until it is disconnected or the test is over.
type Marks = Box<dyn Iterator<Item = u8>>;

fn watch_flv(node: SocketAddr, _: &Arc<AtomicBool>) -> Option<Marks> {
    let response = http::open(node, "GET", "/live/mill.flv", &[]).ok()?;
    let mut tags = TagReader::new((response.status == 200).then_some(response)?);
    Some(Box::new(std::iter::from_fn(move || tags.next()).filter_map(|tag| mark_of(&tag))))
}

fn watch_webrtc(node: SocketAddr, is_over: &Arc<AtomicBool>) -> Option<Marks> {
    let options = Options::default();
    let opened = Client::try_open_at(node, "/whep/live/cam", Direction::Receive, &options);
    let mut client = opened.ok()?.ok()?;
    client.connect();
    let is_over = Arc::clone(is_over);
    Some(Box::new(std::iter::from_fn(move || {
        loop {
            if let Some(mark) = client.take_audio().last() {
                return Some(*mark as u8);
            }
            if client.closed || client.failed.is_some() || is_over.load(Ordering::Relaxed) {
                return None;
            }
            client.until_within(Duration::from_millis(20), |client| !client.media.is_empty());
        }
    })))
}

/// A viewer that connects again whenever it is disconnected.
struct Viewer {
    name: String,
    node: Arc<Mutex<SocketAddr>>,
    connections: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    marks: mpsc::Receiver<u8>,
}

impl Viewer {
    fn start(
        protocol: &str,
        node: SocketAddr,
        watch: fn(SocketAddr, &Arc<AtomicBool>) -> Option<Marks>,
    ) -> Self {
        let name = format!("the viewer by {protocol} that began at {node}");
        let (seen, marks) = mpsc::channel();
        let node = Arc::new(Mutex::new(node));
        let (connections, is_over) = <(Arc<AtomicUsize>, Arc<AtomicBool>)>::default();
        let viewer = Self {
            name,
            node: Arc::clone(&node),
            connections: connections.clone(),
            is_over: is_over.clone(),
            marks,
        };
        std::thread::spawn(move || {
            loop {
                let stream = eventually("a connection", || {
                    if is_over.load(Ordering::Relaxed) {
                        return Some(None);
                    }
                    let address = *node.lock().expect("no panic");
                    watch(address, &is_over).map(Some)
                });
                let Some(stream) = stream else { return };
                connections.fetch_add(1, Ordering::Relaxed);
                for mark in stream {
                    // The test may be over.
                    let _ = seen.send(mark);
                }
            }
        });
        viewer
    }

    fn set_node(&self, node: SocketAddr) {
        *self.node.lock().expect("no panic") = node;
    }

    fn wait_for(&self, mark: u8) {
        let mut seen = Vec::new();
        while seen.last() != Some(&mark) {
            let next = self.marks.recv_timeout(TIMEOUT);
            seen.push(next.unwrap_or_else(|_| panic!("{} waits for {mark} and got {seen:?}", self.name)));
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A frame of audio that is known by its number. Its time does not matter: a stream's time never runs
/// backwards.
fn marked(number: u8) -> Tag {
    let timestamp = sample_tags()[199].timestamp + 20 + u32::from(number);
    Tag { kind: MediaKind::Audio, timestamp, body: [&[0xaf, 1][..], &[0x5a; 40], &[number]].concat() }
}

fn mark_of(tag: &Tag) -> Option<u8> {
    match tag.body.split_last() {
        Some((number, body)) if body == &marked(0).body[..42] => Some(*number),
        _ => None,
    }
}

#[test]
fn a_node_whose_clock_is_wrong_by_an_hour_gives_and_gets_streams_as_any() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = ScratchDir::new();
    let (source, library) = (dir.path().join("clock.c"), dir.path().join("clock.so"));
    std::fs::write(&source, WRONG_CLOCK).expect("write the library");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    let compiled = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.expect("a C compiler, which the build needs too").success());
    let preload = format!("LD_PRELOAD={}", library.display());
    let wrong = Server::spawn_under(&["env", &preload], 2, &cluster.config("a", "linger_ms = 300"));
    let right = cluster.spawn("b");
    wait_for_lines(&right, "linked to a node", 1);
    let hour = |node: &Server| node.log()[..13].to_owned();
    assert_ne!(hour(&wrong), hour(&right), "the day and hour of the first line");

    let tags = sample_tags();
    for (home, edge, stream) in [(&wrong, &right, "one"), (&right, &wrong, "other")] {
        let mut publisher = RtmpClient::publish(home.rtmp, &format!("live/{stream}"));
        publisher.send_tags(&tags[..200]);
        let mut player = RtmpClient::play(edge.rtmp, &format!("live/{stream}"));
        player.take_frames(3);
        publisher.send_tags(&tags[200..]);
        player.take_frames(tags.len() - 210);

        let stream = format!("live/{stream}-cam");
        let mut publisher = Client::publish(home, &stream);
        wait_for_lines(home, "published in the cluster", 2);
        let mut viewer = Client::play_when_ready(edge, &stream, &Options::default());
        start_flow(&mut publisher, &mut viewer, 0);
    }
    // And names are settled as ever.
    let refusal = eventually("the name is known to be taken", || {
        let _first = RtmpClient::publish(wrong.rtmp, "live/mill");
        wait_for_lines(&wrong, "published in the cluster", 3);
        RtmpClient::begin_publish(right.rtmp, "live/mill").wait_started().err()
    });
    assert!(refusal.contains("another node"), "{refusal}");
}

/// Puts the time of day an hour forward for the process that it is loaded into.
const WRONG_CLOCK: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += 3600;
    return result;
}
";

/// What the player gets, up to this tag.
fn until_tag(player: &mut TagReader<http::Streaming>, last: &Tag) -> Vec<Tag> {
    let mut got = Vec::new();
    while got.last().is_none_or(|tag: &Tag| tag.body != last.body) {
        got.push(player.next().expect("the player is not disconnected"));
    }
    got
}

/// A player has got all frames from the one on that it began with, each once.
fn has_no_gap(got: &[Tag], sent: &[Tag]) {
    let sent: Vec<&Tag> = sent.iter().filter(is_frame).collect();
    let mut got = got.iter().filter(is_frame).peekable();
    let first = got.peek().expect("a frame");
    let begins = sent.iter().position(|tag| tag.body == first.body).expect("a frame that was sent");
    let mut got = got.zip(begins..).inspect(|(got, at)| {
        assert!(
            sent.get(*at).is_some_and(|sent| sent.body == got.body),
            "frame {at}, the first was {begins}"
        );
    });
    assert_eq!(got.by_ref().last().map(|(_, at)| at + 1), Some(sent.len()));
}
