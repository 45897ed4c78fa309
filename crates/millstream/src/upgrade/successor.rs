//! The server that takes over, as the running one sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use worker_api::hand_over::{HandedOver, HandedUrl, IceTcpSocket};
use worker_api::handed_connection::HandedSocket;
use worker_api::snapshot::SessionId;
use worker_api::sockets::BoundSocket;

use super::ENVIRONMENT;
use super::channel::{BYTES_MAX, Channel, is_gone};
use super::messages::{Sockets, ToNew, ToOld, VERSION, WITH_ICE_TCP, understands};

/// How long the new server may take until it is prepared: it asks hooks, key sets and name servers.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take then until it serves.
const SERVE_TIMEOUT: Duration = Duration::from_secs(7);
/// What a message takes besides what is in it, at most.
const AROUND_BYTES: usize = 64;
/// How long a message may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a process that has closed its end may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that was started to take over. It is killed when this is dropped before it was let go.
#[derive(Debug)]
pub(crate) struct Successor {
    process: Child,
    channel: Channel,
    release: String,
    /// Of the messages that it speaks.
    version: u32,
    has_taken_over: bool,
}

impl Successor {
    /// Starts it with copies of `sockets` and waits until it is prepared, for about so many sessions; blocks.
    /// The error says why it is not, and nothing is left of it then.
    pub(crate) fn start(program: &Program, sockets: &[BoundSocket], sessions: usize) -> Result<Self, String> {
        let (channel, theirs) = Channel::pair().map_err(|error| format!("no pair of sockets: {error}"))?;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).env(ENVIRONMENT, std::process::id().to_string());
        // Its output goes where ours does.
        let process = command.stdin(Stdio::from(theirs)).spawn();
        let path = program.path.display();
        let process = process.map_err(|error| format!("{path} cannot be started: {error}"))?;
        // Which holds the other end: it has to close when the process ends.
        drop(command);
        let mut new = Self { process, channel, release: String::new(), version: 0, has_taken_over: false };
        let places = sockets.iter().map(|bound| bound.place).collect();
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let message = ToNew::Sockets(Sockets { version: VERSION, release, places, sessions });
        let sockets: Vec<_> = sockets.iter().map(|bound| bound.socket.as_fd()).collect();
        let sent = new.channel.send(&message, &sockets, SEND_TIMEOUT);
        let answer = sent.and_then(|()| new.channel.receive(PREPARE_TIMEOUT));
        match answer {
            Ok((ToOld::Prepared { version, release }, _)) if understands(version) => {
                (new.release, new.version) = (release, version);
                Ok(new)
            }
            Ok((ToOld::Prepared { version, release }, _)) => {
                Err(format!("the new server, {release}, hands over by version {version} of the messages"))
            }
            Ok((ToOld::Failed { reason }, _)) => Err(format!("the new server: {reason}")),
            Ok((ToOld::Serving | ToOld::Resumed { .. }, _)) => {
                Err("the new server serves before it is asked to".to_owned())
            }
            Err(error) => Err(match new.exit_status() {
                Some(status) => {
                    format!("the new server has ended ({status}); the log says why, or its standard error")
                }
                None => format!("the new server does not say that it is prepared: {error}"),
            }),
        }
    }

    /// How it has ended, if it has or does at once.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        #[expect(clippy::disallowed_methods, reason = "this is the process, which waits for another")]
        let until = Instant::now() + EXIT_TIMEOUT;
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(status);
            }
            #[expect(clippy::disallowed_methods, reason = "as above")]
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Which release it is.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// Whether sessions by ICE-TCP go over to it, which a release of version 4 knows nothing of.
    pub(crate) fn takes_ice_tcp(&self) -> bool {
        self.version >= WITH_ICE_TCP
    }

    /// Has it serve, and take these sessions; blocks. Answers with those that it has, in ascending order: it
    /// goes on with them when it is [let go](Self::let_go). The error says why it does not serve. It ends
    /// when dropped before that, and has sent nothing to them.
    pub(crate) fn go(&mut self, sessions: &HandedOver, urls: &[HandedUrl]) -> Result<Vec<SessionId>, String> {
        let mut resumed = Vec::new();
        let sent = self.send_sessions(sessions, urls);
        let sent = sent.and_then(|()| self.channel.send(&ToNew::Go, &[], SEND_TIMEOUT));
        let mut answer = sent.and_then(|()| self.channel.receive(SERVE_TIMEOUT));
        if let Ok((ToOld::Resumed { sessions }, _)) = &mut answer {
            resumed = std::mem::take(sessions);
            resumed.sort_unstable();
            answer = self.channel.receive(SERVE_TIMEOUT);
        }
        match answer {
            Ok((ToOld::Serving, _)) => Ok(resumed),
            Ok((ToOld::Resumed { .. }, _)) => Err("the new server says twice what goes on".to_owned()),
            Ok((ToOld::Failed { reason }, _)) => Err(format!("the new server: {reason}")),
            Ok((ToOld::Prepared { .. }, _)) => Err("the new server does not say that it serves".to_owned()),
            // Nobody waits for the end of one that is just silent: packets do.
            Err(error) => Err(match is_gone(&error).then(|| self.exit_status()).flatten() {
                Some(status) => format!("the new server has ended before it took over ({status})"),
                None => format!("the new server does not say that it serves: {error}"),
            }),
        }
    }

    fn send_sessions(&mut self, handed: &HandedOver, urls: &[HandedUrl]) -> io::Result<()> {
        for session in &handed.sessions {
            self.send_one(session, ToNew::Session, &[])?;
        }
        for IceTcpSocket { connection, socket } in &handed.ice_tcp {
            self.send_one(connection, ToNew::IceTcp, &[socket.as_fd()])?;
        }
        for url in urls {
            self.send_one(url, ToNew::Url, &[])?;
        }
        for stream in &handed.streams {
            self.send_one(stream, ToNew::Stream, &[])?;
        }
        for bridge in &handed.bridges {
            self.send_one(bridge, ToNew::Bridge, &[])?;
        }
        for HandedSocket { connection, socket } in &handed.connections {
            self.send_one(connection, ToNew::Connection, &[socket.as_fd()])?;
        }
        Ok(())
    }

    /// What is too long, with what is around it, is left out, as if it could not be read.
    fn send_one<T: Serialize>(
        &mut self,
        one: &T,
        message: fn(Vec<u8>) -> ToNew,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = rmp_serde::to_vec_named(one).map_err(io::Error::other)?;
        if bytes.len() >= BYTES_MAX - AROUND_BYTES {
            return Ok(());
        }
        self.channel.send(&message(bytes), sockets, SEND_TIMEOUT)
    }

    /// It goes on from now on, whatever becomes of this process, and with the sessions that it has, but for
    /// those that have `ended` here in the meantime. The error says why it does not, and has not.
    pub(crate) fn let_go(&mut self, ended: Vec<SessionId>) -> Result<(), String> {
        let sent = self.channel.send(&ToNew::Yours { ended }, &[], SEND_TIMEOUT);
        sent.map_err(|error| format!("the new server has ended before it went on: {error}"))?;
        self.has_taken_over = true;
        Ok(())
    }

    /// Has it end, as a signal to this process would have.
    pub(crate) fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.pid() as i32);
        if let Err(error) = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM) {
            tracing::warn!(%error, "the new server cannot be ended");
        }
    }

    /// Tells it that directories are its own now.
    pub(crate) fn finished(&mut self) {
        if let Err(error) = self.channel.send(&ToNew::Finished, &[], SEND_TIMEOUT) {
            tracing::warn!(%error, "the new server does not know that recordings are closed");
        }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.has_taken_over {
            // It has ended already if it cannot be ended.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// What a successor is started as.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<std::ffi::OsString>,
}

impl Program {
    /// As this process was started. Not by the file that runs here, which an upgrade may have removed.
    pub(crate) fn own() -> Self {
        let mut arguments = std::env::args_os();
        let path = arguments.next().map(PathBuf::from).filter(|path| path != Path::new(""));
        let path = path.or_else(|| std::env::current_exe().ok()).unwrap_or_default();
        Self { path, arguments: arguments.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> Result<Successor, String> {
        let arguments = ["-c", script].map(Into::into).to_vec();
        Successor::start(&Program { path: "/bin/sh".into(), arguments }, &[], 0)
    }

    #[test]
    fn a_program_that_is_not_there_or_ends_is_an_error_that_says_so() {
        let program = Program { path: "/nowhere/millstream".into(), arguments: Vec::new() };
        let error = Successor::start(&program, &[], 0).expect_err("not there");
        assert!(error.contains("/nowhere/millstream cannot be started"), "{error}");
        let error = started("exit 3").expect_err("it ends");
        assert!(error.contains("exit status: 3"), "{error}");
        let error = started("kill -9 $$").expect_err("it is killed");
        assert!(error.contains("signal: 9"), "{error}");
    }

    /// A line of shell that sends a message as the new server does.
    fn says(message: &ToOld) -> String {
        let body = rmp_serde::to_vec_named(message).expect("written");
        let lengths = [body.len() as u32, 0].map(u32::to_le_bytes);
        let bytes = lengths.as_flattened().iter().chain(&body);
        let octal: String = bytes.map(|byte| format!("\\{byte:03o}")).collect();
        format!("printf '{octal}' >&0; ")
    }

    /// Takes the first message, and says that it is prepared. What is left unread when a process ends resets
    /// the connection, with what it has written.
    fn prepared(version: u32) -> String {
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let sockets = ToNew::Sockets(Sockets { version: VERSION, release, places: Vec::new(), sessions: 0 });
        let bytes = 8 + rmp_serde::to_vec_named(&sockets).expect("written").len();
        let prepared = says(&ToOld::Prepared { version, release: "9.0.0".to_owned() });
        format!("head -c {bytes} <&0 > /dev/null; {prepared}")
    }

    #[test]
    fn one_that_ends_after_each_step_leaves_this_one_serving() {
        let error = started("head -c 1 <&0 > /dev/null; exit 4").expect_err("it ends while it reads");
        assert!(error.contains("exit status: 4"), "{error}");
        let mut new = started(&format!("{}exit 5", prepared(VERSION - 1))).expect("prepared");
        assert_eq!(new.release(), "9.0.0");
        let error = new.go(&HandedOver::default(), &[]).expect_err("it has ended");
        assert!(error.contains("ended before it took over"), "{error}");
        let failed = says(&ToOld::Failed { reason: "no room".to_owned() });
        let mut new = started(&format!("{}{failed}exec sleep 600", prepared(VERSION - 1))).expect("prepared");
        assert_eq!(new.go(&HandedOver::default(), &[]).expect_err("it says so"), "the new server: no room");
        let pid = nix::unistd::Pid::from_raw(new.pid() as i32);
        drop(new);
        assert!(nix::sys::signal::kill(pid, None).is_err(), "it was ended");
    }

    #[test]
    fn one_of_the_version_before_takes_no_sessions_by_tcp_and_goes_on_after_this_one() {
        // What it hears next is that it is to serve.
        let go = rmp_serde::to_vec_named(&ToNew::Go).expect("written");
        let check =
            format!("head -c {} <&0 | tail -c {} | grep -qx go || exit 9; ", 8 + go.len(), go.len() - 1);
        let serving = format!(
            "{check}{}{}",
            says(&ToOld::Resumed { sessions: vec![SessionId::new(1, 2), SessionId::new(0, 1)] }),
            says(&ToOld::Serving)
        );
        let mut new =
            started(&format!("{}{serving}exec sleep 600", prepared(VERSION - 1))).expect("prepared");
        assert!(!new.takes_ice_tcp());
        assert_eq!(new.go(&HandedOver::default(), &[]), Ok(vec![SessionId::new(0, 1), SessionId::new(1, 2)]));
        new.let_go(Vec::new()).expect("said");
        new.finished();
        let pid = nix::unistd::Pid::from_raw(new.pid() as i32);
        drop(new);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    }

    #[test]
    fn one_that_ends_when_it_has_said_that_it_serves_has_not_taken_over() {
        let resumed = says(&ToOld::Resumed { sessions: vec![SessionId::new(0, 1)] });
        let go = 8 + rmp_serde::to_vec_named(&ToNew::Go).expect("written").len();
        let hears = format!("{}head -c {go} <&0 > /dev/null; ", prepared(VERSION));
        let script = format!("{hears}{resumed}{}exit 6", says(&ToOld::Serving));
        let mut new = started(&script).expect("prepared");
        assert_eq!(new.go(&HandedOver::default(), &[]), Ok(vec![SessionId::new(0, 1)]));
        assert_eq!(new.process.wait().expect("it ends").code(), Some(6));
        let error = new.let_go(Vec::new()).expect_err("it has ended");
        assert!(error.contains("ended before it went on"), "{error}");
        assert!(!new.has_taken_over);
    }

    #[test]
    fn a_later_release_speaks_as_this_one_does() {
        // It answers with the version of this one, which it understands.
        let new = started(&format!("{}exec sleep 600", prepared(VERSION))).expect("prepared");
        assert_eq!(new.release(), "9.0.0");
    }

    #[test]
    fn a_release_of_other_messages_is_refused() {
        let error = started(&format!("{}exec sleep 600", prepared(7))).expect_err("another version");
        assert!(error.contains("9.0.0, hands over by version 7"), "{error}");
    }

    #[test]
    fn one_that_answers_garbage_is_ended() {
        // The channel is its standard input, to which it may write.
        let error =
            started("printf 'a line of text, and more of it' >&0; exec sleep 600").expect_err("garbage");
        assert!(error.contains("does not say that it is prepared"), "{error}");
    }
}
