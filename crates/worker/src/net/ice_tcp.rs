//! ICE-TCP: connections of peers in networks without UDP (RFC 6544), datagrams framed by RFC 4571.
//!
//! A connection belongs to nobody until an authentic check has come over it. What a peer does not read is
//! dropped like a datagram that found no room, whole frames at a time; the connection and everybody else's
//! media go on.
//!
//! A connection may go on in another process, as its session does (`packets/hand_over.rs`): until
//! it is decided which of the two has it, neither reads or writes it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use rtc::Path;
use rtc::tcp_framing::{Deframer, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, frame_header};

use crate::ids::{IceTcpId, PeerId, Table};
use crate::net::TcpSocket;
use worker_api::hand_over::HandedIceTcp;

/// Bytes that the kernel takes beyond what it can send now. What waits there waits in the order it came,
/// audio behind video: 4 KiB are 33 ms of 1 Mbit/s.
pub(crate) const UNSENT_BYTES_MAX: u32 = 4 << 10;
/// Bytes that wait for a peer to read them, at most; later datagrams are dropped until there is room. Video
/// of a viewer with congestion control stops long before (`sfu::Pacer::socket`).
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Room kept for what a connection sends next.
const KEPT_BYTES: usize = 16 << 10;
/// Connections of one worker that no peer has proved to be its own yet; further ones are closed at once.
const UNCLAIMED_MAX: usize = 256;
/// Bytes of a connection before its first authentic check: some checks that do not fit, sent again and again.
const UNCLAIMED_BYTES_MAX: usize = 8 << 10;
/// Time for the first authentic check, milliseconds.
const CLAIM_MS_MAX: u64 = 10_000;

/// One connection.
pub(crate) struct TcpPeer {
    pub(crate) socket: TcpSocket,
    pub(crate) path: Path,
    /// Whose it is.
    pub(crate) session: Option<PeerId>,
    pub(crate) deframer: Deframer,
    waiting: Vec<u8>,
    /// `0 <= written <= waiting.len()`.
    written: usize,
    /// Bytes that the socket has taken since it was accepted.
    taken: u64,
    opened_ms: u64,
    /// Bytes read before it was claimed.
    unclaimed_bytes: usize,
    /// Another process has it, or it is not decided yet which one has it: it is in no event queue.
    pub(crate) is_handed_over: bool,
    /// There is something new to be written.
    pub(crate) dirty: bool,
    /// It is in the list of connections to read when input is next.
    pub(crate) reads_again: bool,
}

/// All connections of a worker.
#[derive(Default)]
pub(crate) struct TcpPeers {
    slab: Table<IceTcpId, TcpPeer>,
    /// Connections with something to be written.
    dirty: Vec<IceTcpId>,
    unclaimed: usize,
    /// Datagrams dropped because a peer reads too slowly, or its connection is closed.
    pub(crate) dropped: u64,
}

impl TcpPeers {
    /// A new connection, if there may be one more.
    pub(crate) fn insert(
        &mut self,
        socket: TcpSocket,
        local: SocketAddr,
        remote: SocketAddr,
        now_ms: u64,
    ) -> Option<IceTcpId> {
        if self.unclaimed >= UNCLAIMED_MAX {
            return None;
        }
        self.unclaimed += 1;
        Some(self.slab.insert(TcpPeer::new(socket, Path::tcp(local, remote), now_ms)))
    }

    /// A connection that another process hands over with its session: neither read nor written until
    /// it is decided that it goes on here.
    pub(crate) fn resume(
        &mut self,
        socket: TcpSocket,
        path: Path,
        session: PeerId,
        handed: HandedIceTcp,
    ) -> IceTcpId {
        let HandedIceTcp { received, unsent, .. } = handed;
        self.slab.insert(TcpPeer {
            session: Some(session),
            deframer: Deframer::resume(received),
            waiting: unsent,
            is_handed_over: true,
            ..TcpPeer::new(socket, path, 0)
        })
    }

    /// Connections that are handed over, of sessions of which `goes_on` is true.
    pub(crate) fn handed_over(&self, goes_on: impl Fn(PeerId) -> bool) -> Vec<IceTcpId> {
        let goes_on = |peer: &TcpPeer| peer.is_handed_over && peer.session.is_some_and(&goes_on);
        self.slab.iter().filter(|(_, peer)| goes_on(peer)).map(|(id, _)| id).collect()
    }

    /// The id that the next connection will get.
    pub(crate) fn vacant_id(&self) -> IceTcpId {
        self.slab.vacant_id()
    }

    /// Whether any session has a connection.
    pub(crate) fn has_sessions(&self) -> bool {
        self.slab.len() > self.unclaimed
    }

    /// A connection.
    pub(crate) fn get(&self, id: IceTcpId) -> Option<&TcpPeer> {
        self.slab.get(id)
    }

    /// A connection.
    pub(crate) fn get_mut(&mut self, id: IceTcpId) -> Option<&mut TcpPeer> {
        self.slab.get_mut(id)
    }

    /// An authentic check of `session` came over it. False if that has as many connections as it may.
    pub(crate) fn claim(&mut self, id: IceTcpId, session: PeerId) -> bool {
        let own = self.slab.iter().filter(|(_, peer)| peer.session == Some(session)).count();
        if own >= rtc::VALID_PATHS_MAX {
            return false;
        }
        if let Some(peer) = self.slab.get_mut(id)
            && peer.session.replace(session).is_none()
        {
            self.unclaimed -= 1;
        }
        true
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, id: IceTcpId) -> Option<TcpPeer> {
        let peer = self.slab.remove(id)?;
        self.unclaimed -= usize::from(peer.session.is_none());
        Some(peer)
    }

    /// Bytes that wait in connections of sessions: id of the session, bytes.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (PeerId, usize)> + '_ {
        self.slab.iter().filter_map(|(_, peer)| Some((peer.session?, peer.unsent().len())))
    }

    /// Bytes that wait for a connection's socket, and that it has taken in all.
    pub(crate) fn backlog(&self, id: IceTcpId) -> Option<(usize, u64)> {
        self.slab.get(id).map(|peer| (peer.unsent().len(), peer.taken))
    }

    /// Connections of a session.
    pub(crate) fn of_session(&self, session: PeerId) -> Vec<IceTcpId> {
        let own = self.slab.iter().filter(|(_, peer)| peer.session == Some(session));
        own.map(|(id, _)| id).collect()
    }

    /// Connections that were claimed and lead nowhere, as `is_valid` says of a session and a path.
    pub(crate) fn stale(&self, is_valid: impl Fn(PeerId, &Path) -> bool) -> Vec<IceTcpId> {
        // Of one that is handed over nothing is read: its checks wait in the socket.
        let stale = |peer: &TcpPeer| {
            !peer.is_handed_over && peer.session.is_some_and(|session| !is_valid(session, &peer.path))
        };
        self.slab.iter().filter(|(_, peer)| stale(peer)).map(|(id, _)| id).collect()
    }

    /// Connections nobody has claimed in time.
    pub(crate) fn overdue(&self, now_ms: u64) -> Vec<IceTcpId> {
        let overdue = |peer: &TcpPeer| peer.session.is_none() && peer.opened_ms + CLAIM_MS_MAX <= now_ms;
        self.slab.iter().filter(|(_, peer)| overdue(peer)).map(|(id, _)| id).collect()
    }

    /// Lets `write` make a datagram of up to `len_max` bytes for the connection with this path. `None` when
    /// it made none or there is no room.
    pub(crate) fn datagram(
        &mut self,
        id: IceTcpId,
        path: &Path,
        len_max: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        let peer = self.slab.get_mut(id).filter(|peer| peer.path == *path && !peer.is_handed_over);
        let Some(peer) = peer else {
            self.dropped += 1;
            tracing::trace!(?id, "datagram dropped: its connection is closed, or another process has it");
            return None;
        };
        if peer.unsent().len() + len_max > WAITING_BYTES_MAX {
            self.dropped += 1;
            tracing::trace!(?id, "datagram dropped: the peer does not read its connection");
            return None;
        }
        let start = peer.waiting.len();
        peer.waiting.resize(start + FRAME_HEADER_BYTES + len_max, 0);
        let len = write(&mut peer.waiting[start + FRAME_HEADER_BYTES..]);
        match len {
            Some(len) => {
                peer.waiting[start..start + FRAME_HEADER_BYTES].copy_from_slice(&frame_header(len));
                peer.waiting.truncate(start + FRAME_HEADER_BYTES + len);
            }
            None => peer.waiting.truncate(start),
        }
        if len.is_some() && !std::mem::replace(&mut peer.dirty, true) {
            self.dirty.push(id);
        }
        len
    }

    /// Writes what is new. Returns connections that broke.
    pub(crate) fn flush(&mut self) -> Vec<IceTcpId> {
        let mut broken = Vec::new();
        for id in std::mem::take(&mut self.dirty) {
            if let Some(peer) = self.slab.get_mut(id) {
                peer.dirty = false;
                if peer.write().is_err() {
                    broken.push(id);
                }
            }
        }
        broken
    }
}

impl TcpPeer {
    /// A connection that no session has claimed.
    fn new(socket: TcpSocket, path: Path, opened_ms: u64) -> Self {
        Self {
            socket,
            path,
            session: None,
            deframer: Deframer::default(),
            waiting: Vec::new(),
            written: 0,
            taken: 0,
            opened_ms,
            unclaimed_bytes: 0,
            is_handed_over: false,
            dirty: false,
            reads_again: false,
        }
    }

    /// What waits for the socket: it may begin in the middle of a frame.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.waiting[self.written..]
    }

    /// Writes as much as the socket takes.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.is_handed_over {
            return Ok(());
        }
        while self.written < self.waiting.len() {
            match self.socket.write(&self.waiting[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    self.taken += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
            // Room for a few packets is used again and again; that of a burst is given back.
            self.waiting.shrink_to(KEPT_BYTES);
        } else if self.written > WAITING_BYTES_MAX / 2 {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Reads once; says how many bytes came, 0 at the end. One that nobody has claimed is an error once it
    /// has sent more than checks take.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_handed_over {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = if self.session.is_some() { 16 * FRAME_BYTES_MAX } else { FRAME_BYTES_MAX };
        let most = buffer.len().min(most);
        let count = self.socket.read(&mut buffer[..most])?;
        if self.session.is_none() {
            self.unclaimed_bytes += count;
            if self.unclaimed_bytes > UNCLAIMED_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        self.deframer.push(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::connected;

    fn pair() -> (TcpSocket, std::net::TcpStream, Path) {
        let (server, client) = connected();
        let path = Path::tcp(server.local_addr().unwrap(), server.peer_addr().unwrap());
        (server.into(), client, path)
    }

    fn put(peers: &mut TcpPeers, id: IceTcpId, path: &Path, bytes: &[u8]) -> bool {
        let write = |out: &mut [u8]| {
            out[..bytes.len()].copy_from_slice(bytes);
            Some(bytes.len())
        };
        peers.datagram(id, path, bytes.len(), write).is_some()
    }

    #[test]
    fn datagrams_leave_framed_and_in_order() {
        let (server, mut client, path) = pair();
        let mut peers = TcpPeers::default();
        let id = peers.insert(server, path.local, path.remote, 0).unwrap();
        assert!(put(&mut peers, id, &path, b"one") && put(&mut peers, id, &path, b"three"));
        assert!(peers.flush().is_empty());
        let mut bytes = [0; 12];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\x03one\0\x05three");
    }

    #[test]
    fn a_peer_that_does_not_read_loses_datagrams_and_nothing_else() {
        let (server, mut client, path) = pair();
        let mut peers = TcpPeers::default();
        let id = peers.insert(server, path.local, path.remote, 0).unwrap();
        let datagram = [7; 1200];
        let mut taken = 0_usize;
        while put(&mut peers, id, &path, &datagram) {
            taken += 1;
            assert!(peers.flush().is_empty() && taken < 100_000);
        }
        assert_eq!(peers.dropped, 1);
        assert_eq!(peers.waiting().next(), None, "it is of no session");
        assert!(peers.claim(id, PeerId(4)));
        let waiting: Vec<_> = peers.waiting().collect();
        assert!(
            matches!(waiting[..], [(PeerId(4), bytes)] if bytes + 1202 > WAITING_BYTES_MAX),
            "{waiting:?}"
        );
        let mut bytes = vec![0; taken * (datagram.len() + 2)];
        std::thread::scope(|scope| {
            scope.spawn(|| client.read_exact(&mut bytes).unwrap());
            while !peers.get(id).unwrap().unsent().is_empty() {
                peers.get_mut(id).unwrap().write().unwrap();
            }
        });
        assert_eq!(peers.waiting().next(), Some((PeerId(4), 0)));
        assert!(bytes.chunks(1202).all(|frame| frame[..2] == frame_header(1200) && frame[2..] == datagram));
    }

    #[test]
    fn what_waits_and_what_was_taken_is_all_that_was_sent() {
        let (server, mut client, path) = pair();
        server.set_unsent_bytes_max(UNSENT_BYTES_MAX).unwrap();
        let mut peers = TcpPeers::default();
        let id = peers.insert(server, path.local, path.remote, 0).unwrap();
        assert_eq!(peers.backlog(id), Some((0, 0)));
        let mut sent = 0;
        while peers.backlog(id).is_some_and(|(waiting, _)| waiting < 10_000) {
            assert!(put(&mut peers, id, &path, &[7; 1200]) && peers.flush().is_empty());
            sent += 1202;
            assert_eq!(peers.backlog(id).map(|(waiting, taken)| waiting as u64 + taken), Some(sent));
        }
        client.read_exact(&mut vec![0; 1202]).unwrap();
        peers.remove(id);
        assert_eq!(peers.backlog(id), None);
    }

    #[test]
    fn another_connection_at_the_same_index_gets_nothing() {
        let (server, _client, path) = pair();
        let mut peers = TcpPeers::default();
        let id = peers.insert(server, path.local, path.remote, 0).unwrap();
        let other = Path::tcp(path.local, "192.0.2.1:9".parse().unwrap());
        assert!(!put(&mut peers, id, &other, b"secret"));
    }

    #[test]
    fn a_session_has_few_connections() {
        let mut peers = TcpPeers::default();
        let mut held = Vec::new();
        for count in 0..rtc::VALID_PATHS_MAX + 2 {
            let (server, client, path) = pair();
            held.push(client);
            let id = peers.insert(server, path.local, path.remote, 0).unwrap();
            assert_eq!(peers.claim(id, PeerId(3)), count < rtc::VALID_PATHS_MAX);
        }
        assert_eq!((peers.of_session(PeerId(3)).len(), peers.unclaimed), (rtc::VALID_PATHS_MAX, 2));
    }

    #[test]
    fn a_connection_that_only_sends_rubbish_ends() {
        let (server, mut client, path) = pair();
        let mut peers = TcpPeers::default();
        let id = peers.insert(server, path.local, path.remote, 0).unwrap();
        client.write_all(&vec![0; UNCLAIMED_BYTES_MAX + 1]).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let error = loop {
            match peers.get_mut(id).unwrap().read(&mut buffer) {
                Ok(count) => assert!(count > 0 && count <= FRAME_BYTES_MAX),
                // The rest is still on its way.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn unclaimed_connections_are_few_and_end() {
        let mut peers = TcpPeers::default();
        let (server, _client, path) = pair();
        let id = peers.insert(server, path.local, path.remote, 5).unwrap();
        assert!(peers.overdue(5 + CLAIM_MS_MAX - 1).is_empty());
        assert_eq!(peers.overdue(5 + CLAIM_MS_MAX), [id]);
        assert!(peers.claim(id, PeerId(3)));
        assert!(peers.overdue(u64::MAX - CLAIM_MS_MAX).is_empty());
        assert_eq!((peers.unclaimed, peers.of_session(PeerId(3))), (0, vec![id]));
    }
}
