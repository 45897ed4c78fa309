//! The server that is taken over from, as the new one sees it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde::de::DeserializeOwned;
use worker_api::hand_over::{HandedOver, HandedUrl, IceTcpSocket};
use worker_api::handed_connection::HandedSocket;
use worker_api::snapshot::SessionId;
use worker_api::sockets::BoundSocket;

use super::ENVIRONMENT;
use super::channel::{Channel, is_gone};
use super::messages::{ToNew, ToOld, VERSION, understands};

/// What a session takes, on the way and on a worker.
const SESSION_BYTES: usize = 64 << 10;
/// The most that is taken beforehand.
const TOUCHED_BYTES_MAX: usize = 256 << 20;
/// How long the old server may take to send its sockets.
const SOCKETS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to stop serving, once this one is prepared.
const GO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to close its recordings.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to let go of its sessions. It does, ends this process, or ends itself: whoever gives
/// up before that may leave them to nobody.
const LET_GO_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a message may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that this one takes over from.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Channel,
    sockets: Vec<BoundSocket>,
    /// The version of the messages that both understand.
    version: u32,
    /// About how many sessions will come.
    expected: usize,
    sessions: HandedOver,
    urls: Vec<HandedUrl>,
}

/// Takes memory for so many sessions from the system and gives it back to the allocator, which keeps it for
/// a second: fresh pages take milliseconds that packets would have to wait.
fn touch_memory(sessions: usize) {
    let bytes = sessions.saturating_mul(SESSION_BYTES).min(TOUCHED_BYTES_MAX);
    drop(std::hint::black_box(vec![1_u8; bytes]));
}

/// What one message has inside. Of another release it may be what this one cannot read.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let read = rmp_serde::from_slice(bytes);
    read.inspect_err(|error| tracing::warn!(%error, "a session of the old server cannot be read")).ok()
}

impl Predecessor {
    /// The one that has started this process, if that was to take over; blocks.
    pub(crate) fn of_environment() -> Result<Option<Self>, String> {
        let Ok(pid) = std::env::var(ENVIRONMENT) else { return Ok(None) };
        let parent = nix::unistd::getppid();
        if pid != parent.to_string() {
            return Err(format!("the server that has started this one, process {pid}, has ended"));
        }
        let failed = |error: io::Error| format!("nothing to take over from process {parent}: {error}");
        let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut old = Self {
            channel: Channel::of(socket),
            sockets: Vec::new(),
            version: VERSION,
            expected: 0,
            sessions: HandedOver::default(),
            urls: Vec::new(),
        };
        let taken = old.receive_sockets();
        if let Err(reason) = &taken {
            old.failed(reason);
        }
        taken.map(|()| Some(old))
    }

    fn receive_sockets(&mut self) -> Result<(), String> {
        let received = self.channel.receive(SOCKETS_TIMEOUT);
        let (message, sockets) = received.map_err(|error| format!("no sockets came from it: {error}"))?;
        let ToNew::Sockets(message) = message else {
            return Err("it does not begin with its sockets".to_owned());
        };
        // With a server of a later version this one speaks its own, which that understands.
        if message.version < VERSION && !understands(message.version) {
            return Err(format!(
                "{} hands over by version {} of the messages, which {} does not understand",
                message.release,
                message.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        if message.places.len() != sockets.len() {
            return Err("it sends more or fewer sockets than it says".to_owned());
        }
        (self.version, self.expected) = (message.version.min(VERSION), message.sessions);
        let sockets = message.places.into_iter().zip(sockets);
        self.sockets = sockets.map(|(place, socket)| BoundSocket { place, socket }).collect();
        Ok(())
    }

    /// What it listens at.
    pub(crate) fn take_sockets(&mut self) -> Vec<BoundSocket> {
        std::mem::take(&mut self.sockets)
    }

    /// Tells it why this one cannot take over.
    pub(crate) fn failed(&mut self, reason: &str) {
        // It may have gone.
        let _ = self.channel.send(&ToOld::Failed { reason: reason.to_owned() }, &[], SEND_TIMEOUT);
    }

    /// Tells it that this one can take over, and waits until it serves no more; blocks.
    pub(crate) fn take_over(&mut self) -> Result<(), String> {
        touch_memory(self.expected);
        let prepared =
            ToOld::Prepared { version: self.version, release: env!("CARGO_PKG_VERSION").to_owned() };
        let sent = self.channel.send(&prepared, &[], SEND_TIMEOUT);
        sent.map_err(|error| format!("the old server does not listen: {error}"))?;
        loop {
            match self.channel.receive(GO_TIMEOUT) {
                Ok((ToNew::Session(bytes), _)) => {
                    self.sessions.sessions.extend(read(&bytes).map(Box::new));
                }
                Ok((ToNew::IceTcp(bytes), sockets)) => {
                    let both = read(&bytes).zip(sockets.into_iter().next());
                    let connections = both.map(|(connection, socket)| IceTcpSocket { connection, socket });
                    self.sessions.ice_tcp.extend(connections);
                }
                Ok((ToNew::Stream(bytes), _)) => self.sessions.streams.extend(read(&bytes)),
                Ok((ToNew::Bridge(bytes), _)) => self.sessions.bridges.extend(read(&bytes)),
                Ok((ToNew::Connection(bytes), sockets)) => {
                    let both = read(&bytes).zip(sockets.into_iter().next());
                    let connections = both.map(|(connection, socket)| HandedSocket { connection, socket });
                    self.sessions.connections.extend(connections);
                }
                Ok((ToNew::Url(bytes), _)) => self.urls.extend(read(&bytes)),
                Ok((ToNew::Go, _)) => return Ok(()),
                Ok(_) => return Err("the old server says something else than to go on".to_owned()),
                Err(error) => return Err(format!("the old server does not hand over: {error}")),
            }
        }
    }

    /// Ids of its sessions.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.ids()
    }

    /// Its sessions, and their URLs.
    pub(crate) fn take_sessions(&mut self) -> (HandedOver, Vec<HandedUrl>) {
        (std::mem::take(&mut self.sessions), std::mem::take(&mut self.urls))
    }

    /// Tells it that this one serves and has these sessions, and waits until it has let go of them; blocks.
    /// Answers with those that were ended there in the meantime. The error says why they stay with it.
    pub(crate) fn serving(&mut self, sessions: Vec<SessionId>) -> Result<Vec<SessionId>, String> {
        let sent = self.channel.send(&ToOld::Resumed { sessions }, &[], SEND_TIMEOUT);
        let answer = sent.and_then(|()| {
            self.channel.send(&ToOld::Serving, &[], SEND_TIMEOUT)?;
            match self.channel.receive(LET_GO_TIMEOUT)? {
                (ToNew::Yours { ended }, _) => Ok(ended),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, "another message")),
            }
        });
        match answer {
            Ok(ended) => Ok(ended),
            // One that has ended sends nothing to anybody.
            Err(error) if is_gone(&error) => {
                tracing::warn!("the old server has ended before this one served");
                Ok(Vec::new())
            }
            Err(error) => Err(format!("the old server does not let go of its sessions: {error}")),
        }
    }

    /// Waits until its recordings and uploads are closed; blocks.
    pub(crate) fn wait_until_finished(mut self) {
        match self.channel.receive(FINISH_TIMEOUT) {
            Ok((ToNew::Finished, _)) => {}
            Ok(_) => tracing::warn!("the old server says something else than that it has finished"),
            Err(error) => tracing::warn!(%error, "the old server did not say that its recordings are closed"),
        }
    }
}
