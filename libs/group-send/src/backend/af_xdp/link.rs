//! The interface behind the back end: its ring, its routes and neighbours, and the UDP socket
//! beside it.
//!
//! Opens them, and answers for the kernel; what follows from an answer is decided in `af_xdp.rs`.

use super::{AfXdp, Kernel};
use crate::backend::mmsg;
use crate::config::{AfXdpConfig, Config, SetupError};
use crate::linux;
use crate::linux::xsk::Transmitter;
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::route::{NextHop, NextHops};
use socket2::SockRef;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

pub(crate) struct Link {
    ring: Option<Transmitter>,
    routes: NextHops,
    socket: OwnedFd,
    config: AfXdpConfig,
}

/// The back end over `socket` and the interface that the configuration names, or why that does not
/// work.
///
/// # Errors
/// The socket is unusable for any back end.
pub(crate) fn open(socket: &SockRef<'_>, config: &Config) -> Result<Result<AfXdp, String>, SetupError> {
    let Some(config) = &config.af_xdp else {
        return Ok(Err("no interface is configured for it".to_owned()));
    };
    let fallback = match mmsg::open_best(socket)? {
        Ok(fallback) => fallback,
        Err(why) => return Ok(Err(why)),
    };
    let origin = Origin::read(socket).map_err(SetupError::Socket)?;
    Ok(Link::open(socket, &origin, config).map(|link| AfXdp::new(link, Box::new(fallback), origin)))
}

impl Link {
    fn open(socket: &SockRef<'_>, origin: &Origin, config: &AfXdpConfig) -> Result<Self, String> {
        let config = config.clone();
        if !config.frames.is_power_of_two() || !AfXdpConfig::FRAMES.contains(&config.frames) {
            let (least, most) = AfXdpConfig::FRAMES.into_inner();
            return Err(format!("{} frames: a power of two from {least} to {most}", config.frames));
        }
        let routes = origin.next_hops(socket, &config.interface)?;
        let ring = open_ring(routes.interface().index, &config)?;
        let socket: OwnedFd = socket.try_clone().map_err(|error| format!("socket: {error}"))?.into();
        if !linux::same_namespace(ring.as_fd(), socket.as_fd()) {
            return Err("the socket is of another network namespace than the calling thread".to_owned());
        }
        Ok(Self { ring: Some(ring), routes, socket, config })
    }
}

/// Waits for a queue whose last socket was closed just now, which the kernel takes a few
/// milliseconds to free.
fn open_ring(interface_index: u32, config: &AfXdpConfig) -> Result<Transmitter, String> {
    let mut attempts = BUSY_ATTEMPTS;
    loop {
        match Transmitter::open(interface_index, config.queue, config.frames) {
            Err(refusal) if refusal.is_busy && attempts > 0 => attempts -= 1,
            result => return result.map_err(|refusal| refusal.why),
        }
        // Nothing announces it.
        std::thread::sleep(BUSY_PAUSE);
    }
}

impl Kernel for Link {
    fn refresh(&mut self) -> u64 {
        self.routes.refresh();
        self.routes.generation()
    }

    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop> {
        self.routes.resolve(destination).ok()
    }

    #[inline]
    fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        self.ring.as_mut().is_some_and(|ring| ring.push(len, write))
    }

    fn kick(&mut self) -> Result<(), i32> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        ring.submit();
        ring.kick()
    }

    fn reclaim(&mut self) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        ring.reclaim();
        ring.in_flight()
    }

    fn close(&mut self) -> usize {
        self.ring.take().map_or(0, |ring| ring.in_flight())
    }

    fn reopen(&mut self) -> bool {
        let interface = self.routes.interface();
        if !interface.up {
            return false;
        }
        // A sender that has moved to a thread of another network namespace would find another
        // interface there.
        self.ring = Transmitter::open(interface.index, self.config.queue, self.config.frames)
            .ok()
            .filter(|ring| linux::same_namespace(ring.as_fd(), self.socket.as_fd()));
        self.ring.is_some()
    }

    fn socket_is_idle(&self) -> bool {
        // A kernel that cannot say so is taken to hold something.
        linux::bytes_in_flight(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
    }

    fn reports_errors(&self) -> bool {
        let asked =
            |level, name| linux::option(self.socket.as_fd(), level, name).is_ok_and(|value| value != 0);
        asked(libc::IPPROTO_IP, libc::IP_RECVERR) || asked(libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        errors.drain(self.socket.as_fd())
    }

    fn invalid_descriptors(&self) -> u64 {
        self.ring.as_ref().map_or(0, Transmitter::invalid_descriptors)
    }
}

/// A tenth of a second in all, when a sender is made.
const BUSY_ATTEMPTS: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(2);
