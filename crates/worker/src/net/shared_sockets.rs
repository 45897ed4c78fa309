//! Sockets that outlive a process: those that another one hands over, and copies of ours for the next one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use worker_api::sockets::{BoundSocket, SocketKind, SocketPlace};

/// The sockets of clients of all workers.
#[derive(Debug, Default)]
pub(crate) struct SharedSockets {
    /// What another process had bound and nobody has taken here.
    inherited: Vec<BoundSocket>,
    /// Copies of what is bound here.
    bound: Vec<BoundSocket>,
}

impl SharedSockets {
    /// With the sockets of another process.
    pub(crate) fn new(inherited: Vec<BoundSocket>) -> Self {
        Self { inherited, bound: Vec::new() }
    }

    /// The sockets of TCP that the other process had at this address, as it was configured or bound: those of
    /// one port, where the system has chosen several.
    pub(crate) fn take_listeners(&mut self, kind: SocketKind, wanted: SocketAddr) -> Vec<OwnedFd> {
        let is_it =
            |place: &SocketPlace| place.kind == kind && (place.wanted == wanted || place.address == wanted);
        let Some(first) = self.inherited.iter().find(|bound| is_it(&bound.place)) else { return Vec::new() };
        let address = first.place.address;
        std::iter::from_fn(|| self.take(|place| is_it(place) && place.address == address)).collect()
    }

    /// The socket that the other process had for a worker at an address; `address` is what would be bound.
    pub(crate) fn take_of_worker(
        &mut self,
        kind: SocketKind,
        worker: usize,
        wanted: SocketAddr,
        address: SocketAddr,
    ) -> Option<OwnedFd> {
        self.take(|place| {
            let is_same =
                place.wanted == wanted && place.worker == worker && place.address.ip() == address.ip();
            place.kind == kind && (is_same || place.address == address)
        })
    }

    /// Another socket that was bound as `wanted` at `ip`.
    pub(crate) fn take_at(&mut self, kind: SocketKind, wanted: SocketAddr, ip: IpAddr) -> Option<OwnedFd> {
        self.take(|place| place.kind == kind && place.wanted == wanted && place.address.ip() == ip)
    }

    fn take(&mut self, is_it: impl Fn(&SocketPlace) -> bool) -> Option<OwnedFd> {
        let at = self.inherited.iter().position(|bound| is_it(&bound.place))?;
        Some(self.inherited.remove(at).socket)
    }

    /// Keeps a copy of a socket for the process that comes after this one. Without one, that has to wait
    /// until this has ended.
    pub(crate) fn keep(&mut self, place: SocketPlace, copy: io::Result<OwnedFd>) {
        match copy {
            Ok(socket) => self.bound.push(BoundSocket { place, socket }),
            Err(error) => tracing::debug!(?place, %error, "a socket cannot be handed over"),
        }
    }

    /// The copies.
    pub(crate) fn into_bound(self) -> Vec<BoundSocket> {
        self.bound
    }
}
