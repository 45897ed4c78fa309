//! Another process takes over from a running server: nobody who connects is refused, and a failure changes
//! nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtp::payload::MediaKind;
use serde_json::{Value, json};

use crate::common::flv::sample_tags;
use crate::common::hook::{HookServer, Reply};
use crate::common::http;
use crate::common::rtc::Client;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{BINARY, ScratchDir, Server};
use crate::common::{TIMEOUT, eventually};

/// The process that has taken over, ended when dropped.
pub(crate) struct Successor(pub(crate) Pid);

impl Successor {
    fn of(pid: &Value) -> Self {
        Self(Pid::from_raw(pid.as_i64().expect("a process").try_into().expect("a process")))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }

    pub(crate) fn end(&self) {
        // It may have handed over itself.
        let _ = kill(self.0, Signal::SIGTERM);
        eventually("it ends", || kill(self.0, None).is_err().then_some(()));
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

pub(crate) fn ask(server: &Server) -> http::Response {
    http::request(server.http, "POST", "/api/v1/upgrade", &[]).expect("an answer")
}

/// Another process takes over, and the first one ends.
pub(crate) fn upgrade(server: &mut Server) -> Successor {
    let answer = ask(server);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let new = Successor::of(&answer.json()["pid"]);
    assert!(server.wait_for_exit(TIMEOUT).success(), "{}", server.log());
    new
}

/// The process that its ports file names.
pub(crate) fn serving(server: &Server) -> Option<i64> {
    let ports = fs::read(server.dir.path().join("ports.json")).ok()?;
    serde_json::from_slice::<Value>(&ports).ok()?["pid"].as_i64()
}

#[test]
fn another_process_serves_at_the_same_addresses() {
    let mut server = Server::spawn_workers(2, "");
    let tags = sample_tags();
    let new = upgrade(&mut server);
    assert_ne!(new.0.as_raw(), server.pid() as i32);
    eventually("it is in the ports file", || (serving(&server)? == i64::from(new.0.as_raw())).then_some(()));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    assert_eq!(player.take_frames(10).len(), 10);
    new.end();
    assert!(http::get(server.http, "/healthz").is_err(), "nobody listens any more");
}

#[test]
fn nobody_who_connects_meanwhile_is_refused() {
    let mut server = Server::spawn_workers(2, "");
    let (http, rtmp) = (server.http, server.rtmp);
    let ends = AtomicBool::new(false);
    let new = std::thread::scope(|scope| {
        let requests = scope.spawn(|| {
            let mut served = 0;
            while !ends.load(Ordering::Relaxed) {
                let answer = http::get(http, "/healthz").unwrap_or_else(|error| panic!("{served}: {error}"));
                assert_eq!(answer.status, 200);
                served += 1;
            }
            served
        });
        let players = scope.spawn(|| {
            let mut served = 0;
            while !ends.load(Ordering::Relaxed) {
                let mut player = RtmpClient::begin_play(rtmp, "live/none");
                player.wait_started().unwrap_or_else(|error| panic!("{served}: {error}"));
                served += 1;
            }
            served
        });
        server.signal(Signal::SIGUSR2);
        assert!(server.wait_for_exit(TIMEOUT).success());
        let first =
            eventually("another serves", || serving(&server).filter(|pid| *pid != i64::from(server.pid())));
        // And once more, from the one that has taken over.
        kill(Pid::from_raw(first as i32), Signal::SIGUSR2).expect("it runs");
        let second = eventually("a third serves", || {
            serving(&server).filter(|pid| ![first, i64::from(server.pid())].contains(pid))
        });
        let new = Successor(Pid::from_raw(second as i32));
        ends.store(true, Ordering::Relaxed);
        let served = (requests.join().expect("all are answered"), players.join().expect("all play"));
        assert!(served.0 > 0 && served.1 > 0, "{served:?}");
        new
    });
    new.end();
}

#[test]
fn one_that_cannot_take_over_changes_nothing() {
    let mut server = Server::spawn("# As it should be.\n");
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let path = server.dir.path().join("millstream.toml");
    for (broken, reason) in [
        ("[no_such_section]\n", "exit status: 2"),
        // Prepared up to its sockets.
        ("[rtmps]\nlisten = ['192.0.2.1:1']\n[tls]\nself_signed = true\n", "`rtmps.listen` cannot listen"),
    ] {
        fs::write(&path, broken).expect("written");
        let answer = ask(&server);
        assert_eq!(answer.status, 409, "{}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "upgrade_failed");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(reason)), "{error}");
    }
    assert_eq!(player.take_frames(tags.len().min(5)).len(), tags.len().min(5), "it plays on");
    server.assert_healthy();
    fs::write(&path, "# As it was.\n").expect("written");
    let ended = Command::new(BINARY)
        .args(["upgrade", "--url", &format!("http://{}", server.http)])
        .output()
        .expect("it runs");
    let (said, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{error}");
    let pid = said.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a process");
    let new = Successor(Pid::from_raw(pid));
    assert!(server.wait_for_exit(TIMEOUT).success());
    new.end();
}

#[test]
fn a_supervisor_hears_which_process_it_is() {
    let directory = ScratchDir::new();
    let path = directory.path().join("notify");
    let notified = UnixDatagram::bind(&path).expect("a socket");
    notified.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    let next = || {
        let mut bytes = [0; 256];
        let length = notified.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
    };
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    let mut server = Server::spawn_under(&["env", &variable], 1, "");
    assert_eq!(next(), "READY=1");
    let new = upgrade(&mut server);
    // The new one is ready before or after the old one says who it is.
    let mut both = [next(), next()];
    both.sort();
    assert_eq!(both, [format!("MAINPID={}", new.0), "READY=1".to_owned()]);
    new.end();
    assert_eq!(next(), "STOPPING=1");
}

#[test]
fn a_socket_that_a_supervisor_has_bound_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    // Inherited by the shell, which puts it where systemd does.
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty())).expect("a descriptor");
    let number = std::os::fd::AsRawFd::as_raw_fd(&listener);
    let script = format!("exec 3<&{number}; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"");
    let config = format!("[http]\nlisten = ['{address}']\n");
    let mut server = Server::spawn_under(&["bash", "-c", &script, "bash"], 1, &config);
    drop(listener);
    assert_eq!(server.http, address);
    server.assert_healthy();
    // It goes on to the next process like any other.
    let new = upgrade(&mut server);
    assert_eq!(http::get(address, "/healthz").expect("an answer").status, 200);
    new.end();
}

/// A publisher by WHIP and its viewers by WHEP, and what has been sent.
pub(crate) struct Call {
    pub(crate) publisher: Client,
    pub(crate) viewers: Vec<Client>,
    pub(crate) next: u32,
    /// Of each viewer, all that it has got of audio and of video: sequence number, and number in the payload.
    got: Vec<[Vec<(u16, u32)>; 2]>,
}

impl Call {
    fn begin(server: &Server, viewers: usize) -> Self {
        let publisher = Client::publish(server, "live/call");
        Self::of(publisher, (0..viewers).map(|_| Client::play(server, "live/call")).collect())
    }

    /// Of clients that are connected.
    pub(crate) fn of(publisher: Client, viewers: Vec<Client>) -> Self {
        let got = viewers.iter().map(|_| Default::default()).collect();
        let mut call = Self { publisher, viewers, next: 0, got };
        eventually("all viewers have both tracks", || {
            call.send(true);
            call.got.iter().flatten().all(|got| got.len() > 5).then_some(())
        });
        call
    }

    /// Sends a packet of each track, and takes what has come.
    fn send(&mut self, is_key: bool) {
        self.publisher.turn();
        self.publisher.send_audio(self.next);
        self.publisher.send_video(self.next, is_key, 200);
        self.next += 1;
        std::thread::sleep(Duration::from_millis(10));
        self.take();
    }

    fn take(&mut self) {
        for (viewer, got) in self.viewers.iter_mut().zip(&mut self.got) {
            viewer.turn();
            let [audio, video] = [MediaKind::Audio, MediaKind::Video].map(|kind| viewer.source(kind).ssrc);
            for packet in viewer.media.drain(..) {
                let packet = rtp::Packet::parse(&packet).expect("RTP");
                let (at, payload) = match packet.ssrc() {
                    ssrc if ssrc == audio => (0, &packet.payload()[4..8]),
                    ssrc if ssrc == video && packet.payload()[1] == 0x10 => (1, &packet.payload()[11..15]),
                    ssrc if ssrc == video => (1, &packet.payload()[4..8]),
                    _ => continue,
                };
                let number = u32::from_be_bytes(payload.try_into().expect("four bytes"));
                got[at].push((packet.sequence_number(), number));
            }
        }
    }

    /// Sends no key frame until `is_over`, and then some more.
    pub(crate) fn go_on_until(&mut self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            self.send(false);
        }
        (0..50).for_each(|_| self.send(false));
        let last = self.next - 1;
        eventually("the last packet has come", || {
            self.take();
            let has_last = |got: &Vec<(u16, u32)>| got.last().is_some_and(|(_, number)| *number == last);
            self.got.iter().flatten().all(has_last).then_some(())
        });
    }

    /// Every viewer has had each packet once, under numbers without a gap, since it began.
    pub(crate) fn assert_whole(&self) {
        for (viewer, got) in self.viewers.iter().zip(&self.got) {
            assert_eq!((viewer.bad, viewer.closed), (0, false));
            for got in got {
                let is_next = |pair: &[(u16, u32)]| {
                    pair[1].0 == pair[0].0.wrapping_add(1) && pair[1].1 == pair[0].1 + 1
                };
                // What it began with came from a cache, up to a newer key frame.
                let odd: Vec<_> = got[5..].windows(2).filter(|pair| !is_next(pair)).collect();
                assert!(odd.is_empty(), "{odd:?}");
            }
        }
        assert!(!self.publisher.closed);
    }
}

#[test]
fn webrtc_sessions_go_on_over_two_upgrades() {
    go_on_over_two_upgrades("");
}

#[test]
fn webrtc_sessions_go_on_at_a_port_that_workers_share() {
    go_on_over_two_upgrades("[rtc]\nsingle_port = true\n");
    go_on_over_two_upgrades("[rtc]\nsingle_port = true\nsingle_port_table = false\n");
}

fn go_on_over_two_upgrades(config: &str) {
    let server = Server::spawn_workers(2, config);
    let call = Call::begin(&server, 2);
    let homes: Vec<_> = server.sessions("role=player").iter().map(|one| one["worker"].clone()).collect();
    assert_ne!(homes[0], homes[1], "each worker has a viewer");
    call_goes_on_over_two_upgrades(server, call);
}

pub(crate) fn call_goes_on_over_two_upgrades(mut server: Server, mut call: Call) {
    let first = std::thread::scope(|scope| {
        let upgraded = scope.spawn(|| upgrade(&mut server));
        call.go_on_until(|| upgraded.is_finished());
        upgraded.join().expect("upgraded")
    });
    call.assert_whole();
    kill(first.0, Signal::SIGUSR2).expect("it runs");
    let mut second = None;
    call.go_on_until(|| {
        second = serving(&server).filter(|pid| *pid != i64::from(first.0.as_raw()));
        second.is_some() && kill(first.0, None).is_err()
    });
    let new = Successor(Pid::from_raw(second.expect("another") as i32));
    call.assert_whole();
    for client in call.viewers.iter().chain([&call.publisher]) {
        assert_eq!(client.delete(), 200);
        assert_eq!(client.delete(), 404, "it has ended");
    }
    new.end();
}

#[test]
fn the_end_of_a_session_that_goes_over_is_reported_once() {
    let hook = HookServer::start(|_| Reply::Json(json!({ "allow": true })));
    let mut server = Server::spawn_workers(1, &hook.config(&["on_publish", "on_publish_end"], ""));
    let mut call = Call::begin(&server, 1);
    let new = std::thread::scope(|scope| {
        let upgraded = scope.spawn(|| upgrade(&mut server));
        call.go_on_until(|| upgraded.is_finished());
        upgraded.join().expect("upgraded")
    });
    assert_eq!(hook.events("on_publish_end"), Vec::<Value>::new());
    assert_eq!(call.publisher.delete(), 200);
    let ended = hook.wait_for("on_publish_end", 1);
    new.end();
    assert_eq!(hook.events("on_publish_end"), ended);
    assert_eq!(
        (&ended[0]["started"], &ended[0]["asked"]),
        (&json!(true), &hook.events("on_publish")[0]["id"])
    );
}

#[test]
fn webrtc_sessions_go_on_when_no_process_takes_over() {
    let server = Server::spawn_workers(2, "");
    let call = Call::begin(&server, 2);
    call_goes_on_when_no_process_takes_over(&server, call);
}

pub(crate) fn call_goes_on_when_no_process_takes_over(server: &Server, mut call: Call) {
    fs::write(server.dir.path().join("millstream.toml"), "[no_such_section]\n").expect("written");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(server).status);
        call.go_on_until(|| asked.is_finished());
        assert_eq!(asked.join().expect("answered"), 409);
    });
    call.assert_whole();
    assert_eq!(call.publisher.delete(), 200);
}

/// A line of shell that says something to the server that has started it.
fn says(message: &[u8]) -> String {
    let lengths = [message.len() as u32, 0].map(u32::to_le_bytes);
    let bytes = lengths.as_flattened().iter().chain(message);
    let octal: String = bytes.map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{octal}' >&0\n")
}

/// A program that a server starts to take over: it says that it is prepared, hears all, and ends.
pub(crate) struct StandIn {
    _dir: ScratchDir,
    program: PathBuf,
    listens: String,
}

impl StandIn {
    /// One that speaks this version of the messages, and the server.
    pub(crate) fn serve(version: u8, workers: u32) -> (Self, Server) {
        let dir = ScratchDir::new();
        let program = dir.path().join("millstream");
        let mut prepared = b"\x81\xa8prepared\x82\xa7version\x02\xa7release\xa59.0.0".to_vec();
        prepared[19] = version;
        let listens = format!("#!/bin/sh\n{}timeout 0.7 cat > /dev/null\n", says(&prepared));
        fs::write(&program, &listens).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
        // The server is started as if it were that program, which it then starts to take over.
        let name = format!("exec -a '{}' \"$0\" \"$@\"", program.display());
        let server = Server::spawn_under(&["bash", "-c", &name], workers, "");
        (Self { _dir: dir, program, listens }, server)
    }

    /// From now on it says that it has all sessions of the server, and ends then.
    pub(crate) fn says_that_it_has(&self, sessions: &[Value]) {
        let mut resumed = b"\x81\xa7resumed\x81\xa8sessions\xdc".to_vec();
        resumed.extend((sessions.len() as u16).to_be_bytes());
        for session in sessions {
            let id = session["id"].as_str().expect("an id");
            let (worker, serial) = id.split_once('-').expect("of a worker");
            let [worker, serial] = [worker, serial].map(|part| part.parse::<u64>().expect("a number"));
            resumed.push(0xcf);
            resumed.extend((worker << 48 | serial).to_be_bytes());
        }
        fs::write(&self.program, format!("{}{}", self.listens, says(&resumed))).expect("written");
    }
}

/// Nobody takes over.
pub(crate) fn assert_not_taken_over(server: &Server) {
    let answer = ask(server);
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert!(answer.text().contains("ended before it took over"), "{}", answer.text());
}

/// It hears all of this one's sessions, and ends; the second one does so when it has said that it has them.
#[test]
fn webrtc_sessions_go_on_when_the_other_process_ends_in_the_middle() {
    let (program, server) = StandIn::serve(4, 2);
    let call = Call::begin(&server, 2);
    call_goes_on_when_the_other_process_ends(&program, &server, call);
}

pub(crate) fn call_goes_on_when_the_other_process_ends(program: &StandIn, server: &Server, mut call: Call) {
    let viewers = call.viewers.len();
    let mut fails = || {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| assert_not_taken_over(server));
            call.go_on_until(|| asked.is_finished());
            asked.join().expect("answered");
        });
        call.assert_whole();
    };
    fails();
    let sessions = server.sessions("");
    assert_eq!(sessions.len(), 1 + viewers);
    program.says_that_it_has(&sessions);
    fails();
    assert!(call.viewers.iter().all(|viewer| viewer.delete() == 200));
}
