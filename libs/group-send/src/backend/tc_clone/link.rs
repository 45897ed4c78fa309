//! The interface behind the back end: the program that makes copies for it, its routes and
//! neighbours, and the UDP socket beside it.
//!
//! Opens them, and answers for the kernel; what follows from an answer is decided in `tc_clone.rs`.

use super::replicator::{Replicator, Shape};
use super::{Kernel, TcClone};
use crate::backend::mmsg;
use crate::config::{Config, SetupError, TcCloneConfig};
use crate::linux;
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::route::{NextHop, NextHops};
use socket2::SockRef;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) struct Link {
    replicator: Replicator,
    routes: NextHops,
    socket: OwnedFd,
}

/// The back end over `socket` and the interface that the configuration names, or why that does not
/// work.
///
/// # Errors
/// The socket is unusable for any back end.
pub(crate) fn open(socket: &SockRef<'_>, config: &Config) -> Result<Result<TcClone, String>, SetupError> {
    let Some(config) = &config.tc_clone else {
        return Ok(Err("no interface is configured for it".to_owned()));
    };
    let fallback = match mmsg::open_best(socket)? {
        Ok(fallback) => fallback,
        Err(why) => return Ok(Err(why)),
    };
    let origin = Origin::read(socket).map_err(SetupError::Socket)?;
    Ok(Link::open(socket, &origin, config)
        .map(|link| TcClone::new(link, Box::new(fallback), origin, config.recipients_min)))
}

impl Link {
    fn open(socket: &SockRef<'_>, origin: &Origin, config: &TcCloneConfig) -> Result<Self, String> {
        let text = |what: &str, error| format!("{what}: {error}");
        let routes = origin.next_hops(socket, &config.interface)?;
        let mark = socket.mark().map_err(|error| text("SO_MARK", error))?;
        let priority = socket.priority().map_err(|error| text("SO_PRIORITY", error))?;
        let replicator = Replicator::open(mark, priority)?;
        let socket: OwnedFd = socket.try_clone().map_err(|error| text("socket", error))?.into();
        if !linux::same_namespace(replicator.as_fd(), socket.as_fd()) {
            return Err("the socket is of another network namespace than the calling thread".to_owned());
        }
        Ok(Self { replicator, routes, socket })
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

    fn replicate(
        &mut self,
        shape: Shape,
        records: &[u8],
        payload: &[u8],
        results: &mut [i32],
    ) -> Result<(), i32> {
        self.replicator.replicate(self.routes.interface().index, shape, records, payload, results)
    }

    fn socket_is_idle(&self) -> bool {
        // A kernel that cannot say so is taken to hold something.
        linux::bytes_in_flight(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        errors.drain(self.socket.as_fd())
    }
}
