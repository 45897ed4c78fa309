//! Events of ICE-TCP: new connections, bytes to read, room to write, ends.

use std::io;
use std::net::SocketAddr;

use mio::event::Event;
use mio::{Interest, Token};

use crate::event_loop::Worker;
use crate::ids::{IceTcpId, PeerId, TableId};
use crate::packets::FIRST_CONNECTION;

/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

impl Worker {
    /// Accepts what waits at a listener.
    pub(crate) fn rtc_accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_MAX {
            match self.rtc.listeners[listener].accept() {
                Ok((socket, remote)) => self.rtc_take_tcp(socket, remote),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::debug!(%error, "ICE-TCP accept failed");
                    // Others may wait behind it, and without descriptors a pause helps.
                    return self.rtc.accept_later.push(listener);
                }
            }
        }
        self.rtc.accept_again.push(listener);
    }

    fn rtc_take_tcp(&mut self, socket: mio::net::TcpStream, remote: SocketAddr) {
        let Ok(local) = socket.local_addr() else { return };
        // Media is written in whole packets at the time they come.
        let _ = socket.set_nodelay(true);
        let Some(connection) = self.rtc.tcp.insert(socket, local, remote, self.ctx.now_ms) else {
            tracing::debug!(%remote, "ICE-TCP connection refused: too many that nobody claims");
            return;
        };
        let Some(peer) = self.rtc.tcp.get_mut(connection) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.ctx.poll.registry().register(
            &mut peer.socket,
            Token(FIRST_CONNECTION + connection.index()),
            interest,
        ) {
            tracing::warn!(%error, "ICE-TCP connection not registered");
            self.rtc.tcp.remove(connection);
        }
    }

    /// Something happened to a connection.
    pub(crate) fn rtc_tcp_event(&mut self, connection: IceTcpId, event: &Event) {
        if event.is_writable()
            && let Some(peer) = self.rtc.tcp.get_mut(connection)
            && peer.write().is_err()
        {
            return self.rtc_close_tcp(connection);
        }
        // One read per connection and turn: one that sends without pause must not come round twice as often.
        let reads_again = self.rtc.tcp.get(connection).is_some_and(|peer| peer.reads_again);
        if (event.is_readable() || event.is_read_closed() || event.is_error()) && !reads_again {
            self.rtc_read_tcp(connection);
        }
    }

    /// Reads a connection once and handles its datagrams; what may be left is for the next turn.
    pub(crate) fn rtc_read_tcp(&mut self, connection: IceTcpId) {
        let Some(peer) = self.rtc.tcp.get_mut(connection) else { return };
        peer.reads_again = false;
        let mut buffer = std::mem::take(&mut self.plain);
        let result = peer.read(&mut buffer);
        self.plain = buffer;
        let goes_on = match result {
            Ok(0) => false,
            Ok(_) => self.rtc_deframe(connection),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        };
        if !goes_on {
            self.rtc_close_tcp(connection);
        } else if let Some(peer) = self.rtc.tcp.get_mut(connection)
            && !std::mem::replace(&mut peer.reads_again, true)
        {
            self.rtc.tcp_read_again.push(connection);
        }
        self.rtc_forward();
    }

    /// Handles the whole datagrams of a connection; false when it must end.
    fn rtc_deframe(&mut self, connection: IceTcpId) -> bool {
        let Some(peer) = self.rtc.tcp.get_mut(connection) else { return true };
        let path = peer.path;
        // Taken out, because what is in a datagram may end the session and with it the connection.
        let mut deframer = std::mem::take(&mut peer.deframer);
        let whole = loop {
            match deframer.pop() {
                Ok(Some(datagram)) => self.rtc_datagram_by_tcp(connection, path, datagram),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if let Some(peer) = self.rtc.tcp.get_mut(connection).filter(|peer| peer.path == path) {
            peer.deframer = deframer;
        }
        whole
    }

    /// Ends a connection; its session may have another way.
    pub(crate) fn rtc_close_tcp(&mut self, connection: IceTcpId) {
        let Some(mut peer) = self.rtc.tcp.remove(connection) else { return };
        // Last words of a session that ended; the peer has other ways to notice.
        let _ = peer.write();
        // Fails only when it was never registered.
        let _ = self.ctx.poll.registry().deregister(&mut peer.socket);
        if let Some(session) = peer.session
            && self.rtc.sessions.contains(session)
        {
            if let Some(Some(transport)) = self.rtc.send_transports.get_mut(session.index())
                && matches!(transport.route, crate::packets::session::Route::Tcp { path, .. } if path == peer.path)
            {
                transport.paused = true;
            }
            self.rtc_guarded(session, |worker| {
                worker.rtc.sessions[session].peer.path_closed(worker.ctx.now, &peer.path);
                worker.rtc_drive(session);
            });
        }
    }

    /// A check of `session` came over a connection and was authentic.
    pub(crate) fn rtc_adopt(&mut self, connection: IceTcpId, session: PeerId) {
        let Some(peer) = self.rtc.tcp.get(connection) else { return };
        // The first one keeps it: a connection carries one peer.
        let is_new = peer.session.is_none() && self.rtc.sessions[session].peer.is_valid(&peer.path);
        let path = peer.path;
        if is_new && !self.rtc.tcp.claim(connection, session) {
            self.rtc_close_tcp(connection);
            self.rtc.sessions[session].peer.path_closed(self.ctx.now, &path);
        }
    }
}
