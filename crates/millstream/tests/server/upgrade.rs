//! Another process takes over from a running server: nobody who connects is refused, and a failure changes
//! nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{BINARY, Server};
use crate::common::{TIMEOUT, eventually};

/// The process that has taken over, ended when dropped.
struct Successor(Pid);

impl Successor {
    fn of(pid: &Value) -> Self {
        Self(Pid::from_raw(pid.as_i64().expect("a process").try_into().expect("a process")))
    }

    fn end(&self) {
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

fn ask(server: &Server) -> http::Response {
    http::request(server.http, "POST", "/api/v1/upgrade", &[]).expect("an answer")
}

/// Another process takes over, and the first one ends.
fn upgrade(server: &mut Server) -> Successor {
    let answer = ask(server);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let new = Successor::of(&answer.json()["pid"]);
    assert!(server.wait_for_exit(TIMEOUT).success(), "{}", server.log());
    new
}

/// The process that its ports file names.
fn serving(server: &Server) -> Option<i64> {
    let ports = fs::read(server.dir.path().join("ports.json")).ok()?;
    serde_json::from_slice::<Value>(&ports).ok()?["pid"].as_i64()
}

#[test]
fn another_process_serves_at_the_same_addresses() {
    let mut server = Server::spawn_workers(2, "");
    let tags = sample_tags();
    let mut before = RtmpClient::publish(server.rtmp, "live/mill");
    before.send_tags(&tags);
    let new = upgrade(&mut server);
    assert_ne!(new.0.as_raw(), server.pid() as i32);
    eventually("it is in the ports file", || (serving(&server)? == i64::from(new.0.as_raw())).then_some(()));
    // The publisher is disconnected, and comes back.
    eventually("the connection to the old one is closed", || before.next_event().is_none().then_some(()));
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
    let directory = crate::common::server::ScratchDir::new();
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
