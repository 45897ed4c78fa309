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
    /// Several of them, which the first bytes tell apart.
    Shared(Doors),
}

/// What is spoken at an address that several lists name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Doors {
    rtmp: bool,
    rtmps: bool,
    http: bool,
    https: bool,
}

impl Doors {
    /// Those at an address.
    fn at(address: SocketAddr, settings: &WorkerSettings) -> Self {
        // Free ports are never the same.
        let is_in = |addresses: &[SocketAddr]| address.port() != 0 && addresses.contains(&address);
        Self {
            rtmp: is_in(&settings.rtmp),
            rtmps: is_in(&settings.rtmps),
            http: is_in(&settings.http),
            https: is_in(&settings.https),
        }
    }

    fn all(self) -> impl Iterator<Item = Entry> {
        let entry = |is_there: bool, door, tls| is_there.then_some(Entry { door, tls });
        let all = [
            entry(self.rtmp, Door::Rtmp, false),
            entry(self.rtmps, Door::Rtmp, true),
            entry(self.http, Door::Http, false),
            entry(self.https, Door::Http, true),
        ];
        all.into_iter().flatten()
    }

    /// The certificate of connections that begin as TLS, if some may. Whether RTMP or HTTP is inside is seen
    /// later: that of HTTP serves for both, since a client of RTMP does not choose among protocols.
    pub(crate) fn tls_config(self, settings: &WorkerSettings) -> Option<&Arc<rustls::ServerConfig>> {
        let door = if self.https { Door::Http } else { Door::Rtmp };
        Entry { door, tls: self.https || self.rtmps }.tls_config(settings)
    }

    /// What a connection speaks whose first byte this is, if that may come in here. RTMP begins with its
    /// version, HTTP with a letter.
    pub(crate) fn spoken(self, first: u8, tls: bool) -> Option<Door> {
        let door = if first == RTMP_VERSION { Door::Rtmp } else { Door::Http };
        self.all().any(|entry| entry == Entry { door, tls }).then_some(door)
    }
}

/// First byte of a client by RTMP (Adobe RTMP 1.0 section 5.2.2).
const RTMP_VERSION: u8 = 3;

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
            // The first of them stands for all.
            (Door::Shared(doors), _) => doors.all().next().map_or(SocketKind::Http, Self::kind),
        }
    }

    /// What they may have been for in another process: one of several at the address then.
    fn kinds(self) -> Vec<SocketKind> {
        match self.door {
            Door::Shared(doors) => doors.all().map(Self::kind).collect(),
            _ => vec![self.kind()],
        }
    }

    /// The certificate of connections that come in here, if there is one.
    pub(crate) fn tls_config(self, settings: &WorkerSettings) -> Option<&Arc<rustls::ServerConfig>> {
        match self.door {
            Door::Http => settings.https_tls.as_ref(),
            // Neither offers protocols of HTTP.
            Door::Rtmp | Door::Rtsp => settings.rtmps_tls.as_ref(),
            // The first byte says whether it is TLS.
            Door::Shared(_) => None,
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
            let doors = Doors::at(address, settings);
            let is_shared = entry.door != Door::Rtsp && doors.all().count() > 1;
            if is_shared && doors.all().next() != Some(entry) {
                // The first of them has bound it.
                bound.push(address);
                continue;
            }
            let entry = if is_shared { Entry { door: Door::Shared(doors), tls: false } } else { entry };
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
    let kinds = entry.kinds().into_iter();
    let inherited = kinds.map(|kind| shared.take_listeners(kind, wanted)).find(|sockets| !sockets.is_empty());
    let mut inherited = inherited.unwrap_or_default().into_iter().map(TcpListener::adopt);
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
    fn an_address_that_several_lists_name_is_bound_once_for_all_of_them() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
        let mut settings = settings(free.port(), 2);
        settings.http = settings.rtmp.clone();
        let (addresses, workers) = bind(&settings, &mut SharedSockets::default()).unwrap();
        assert_eq!((addresses.rtmp, addresses.http), (vec![free], vec![free]));
        let doors = |listeners: &Listeners| listeners.iter().map(|(entry, _)| entry.door).collect::<Vec<_>>();
        let both = Doors { rtmp: true, http: true, ..Doors::default() };
        assert!(workers.iter().all(|listeners| doors(listeners) == [Door::Shared(both)]));
        let cases = [
            (3, false, Some(Door::Rtmp)),
            (b'G', false, Some(Door::Http)),
            (0, false, Some(Door::Http)), // which refuses it
            (3, true, None),
            (b'G', true, None),
        ];
        for (first, tls, expected) in cases {
            assert_eq!(both.spoken(first, tls), expected, "{first} {tls}");
        }
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
