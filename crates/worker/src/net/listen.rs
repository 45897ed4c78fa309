//! Listening sockets: one set per worker on the same addresses, the kernel deals the connections out.
//!
//! `SO_REUSEPORT` gives each worker a queue of its own, so accepting needs no lock. Which worker gets a
//! connection is a matter of a hash; `placement.rs` hands those of full workers to others. All
//! sockets are bound before any worker starts: an address that is taken is an error at start, not in a log
//! later.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::net::shared_sockets::SharedSockets;
use crate::net::{BindOptions, TcpListener, TcpSocket};
use worker_api::ListenAddresses;
use worker_api::settings::WorkerSettings;
use worker_api::sockets::{SocketKind, SocketPlace};

/// Connections the kernel completes while the worker is busy.
const BACKLOG: i32 = 4096;

/// What a listening socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) door: Door,
    /// TLS first.
    pub(crate) tls: bool,
}

/// What is spoken at a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Rtmp,
    Http,
    Rtsp,
}

/// A connection that was accepted, and nothing read from it.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Where it came in.
    pub(crate) entry: Entry,
    pub(crate) socket: TcpSocket,
    /// Where it is from.
    pub(crate) address: SocketAddr,
}

impl Entry {
    /// What its sockets are for.
    fn kind(self) -> SocketKind {
        match (self.door, self.tls) {
            (Door::Rtmp, false) => SocketKind::Rtmp,
            (Door::Rtmp, true) => SocketKind::Rtmps,
            (Door::Http, false) => SocketKind::Http,
            (Door::Http, true) => SocketKind::Https,
            (Door::Rtsp, false) => SocketKind::Rtsp,
            (Door::Rtsp, true) => SocketKind::Rtsps,
        }
    }

    /// The certificate of connections that come in here, if there is one.
    pub(crate) fn tls_config(self, settings: &WorkerSettings) -> Option<&Arc<rustls::ServerConfig>> {
        match self.door {
            Door::Http => settings.https_tls.as_ref(),
            // Neither offers protocols of HTTP.
            Door::Rtmp | Door::Rtsp => settings.rtmps_tls.as_ref(),
        }
        .filter(|_| self.tls)
    }
}

/// The listening sockets of one worker.
pub(crate) type Listeners = Vec<(Entry, TcpListener)>;

/// Binds every address once per worker, but for those that come from another process.
pub(crate) fn bind(
    settings: &WorkerSettings,
    shared: &mut SharedSockets,
) -> io::Result<(ListenAddresses, Vec<Listeners>)> {
    let mut addresses = ListenAddresses::default();
    let mut workers: Vec<Listeners> = (0..settings.workers).map(|_| Vec::new()).collect();
    let kinds = [
        (&settings.rtmp, &mut addresses.rtmp, Entry { door: Door::Rtmp, tls: false }),
        (&settings.rtmps, &mut addresses.rtmps, Entry { door: Door::Rtmp, tls: true }),
        (&settings.http, &mut addresses.http, Entry { door: Door::Http, tls: false }),
        (&settings.https, &mut addresses.https, Entry { door: Door::Http, tls: true }),
        (&settings.rtsp.listen, &mut addresses.rtsp, Entry { door: Door::Rtsp, tls: false }),
        (&settings.rtsp.tls_listen, &mut addresses.rtsps, Entry { door: Door::Rtsp, tls: true }),
    ];
    for (wanted, bound, entry) in kinds {
        let tls = entry.tls_config(settings);
        if entry.tls && !wanted.is_empty() && tls.is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a TLS address needs a certificate"));
        }
        for &address in wanted {
            bound.push(bind_for_all(address, entry, &mut workers, shared)?);
        }
    }
    Ok((addresses, workers))
}

fn bind_for_all(
    wanted: SocketAddr,
    entry: Entry,
    workers: &mut [Listeners],
    shared: &mut SharedSockets,
) -> io::Result<SocketAddr> {
    let named = |address: SocketAddr| {
        move |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"))
    };
    let bind = |address, shared| {
        TcpListener::bind(address, BindOptions { dual_stack: true, shared }).map_err(named(address))
    };
    let inherited = shared.take_listeners(entry.kind(), wanted);
    let mut inherited = inherited.into_iter().map(TcpListener::adopt);
    let mut taken = inherited.by_ref().take(workers.len()).collect::<io::Result<Vec<_>>>()?;
    // Of a process with more workers: what waits in their queues is accepted too.
    let further = inherited.collect::<io::Result<Vec<_>>>()?;
    let mut address = match taken.first() {
        Some(first) => first.local_addr()?,
        None => wanted,
    };
    // Without SO_REUSEPORT first: another server on the port must be an error, not a silent sharing of it.
    if taken.is_empty() && address.port() != 0 {
        drop(bind(address, false)?);
    }
    taken.reverse();
    for listeners in workers.iter_mut() {
        let socket = match taken.pop() {
            Some(socket) => socket,
            None => {
                let socket = bind(address, true)?;
                socket.listen(BACKLOG).map_err(named(address))?;
                address = socket.local_addr()?;
                socket
            }
        };
        listeners.push((entry, socket));
    }
    workers[0].extend(further.into_iter().map(|socket| (entry, socket)));
    for (worker, listeners) in workers.iter().enumerate() {
        for (_, socket) in listeners.iter().filter(|(other, socket)| {
            *other == entry && socket.local_addr().is_ok_and(|local| local == address)
        }) {
            let place = SocketPlace { kind: entry.kind(), worker, wanted, address };
            shared.keep(place, socket.duplicate());
        }
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(port: u16, workers: usize) -> WorkerSettings {
        let rtmp = vec![SocketAddr::from(([127, 0, 0, 1], port))];
        WorkerSettings { workers, rtmp, ..WorkerSettings::default() }
    }

    #[test]
    fn all_workers_share_one_free_port() {
        let (addresses, workers) = bind(&settings(0, 3), &mut SharedSockets::default()).unwrap();
        let ports: Vec<_> = workers.iter().map(|listeners| listeners[0].1.local_addr().unwrap()).collect();
        assert_ne!(addresses.rtmp[0].port(), 0);
        assert_eq!(ports, vec![addresses.rtmp[0]; 3]);
    }

    #[test]
    fn a_port_in_use_is_an_error_that_names_it() {
        let (addresses, _held) = bind(&settings(0, 1), &mut SharedSockets::default()).unwrap();
        let error = bind(&settings(addresses.rtmp[0].port(), 1), &mut SharedSockets::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&addresses.rtmp[0].to_string()), "{error}");
    }

    #[test]
    fn a_tls_address_needs_a_certificate() {
        let mut settings = settings(0, 1);
        settings.https = settings.rtmp.clone();
        assert_eq!(
            bind(&settings, &mut SharedSockets::default()).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
