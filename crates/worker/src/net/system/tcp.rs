//! TCP sockets and listeners.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// A connection. Never blocks.
#[derive(Debug)]
pub(crate) struct TcpSocket(mio::net::TcpStream);

impl TcpSocket {
    /// A connection of another process.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    /// The same socket once more, for another process.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Our end of it.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The first byte that waits to be read, which stays there; `None` at the peer's end.
    pub(crate) fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.0.peek(&mut byte)? > 0).then_some(byte[0]))
    }

    /// Sends what is written at once: what can be merged is merged before.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.0.set_nodelay(true)
    }

    /// Is writable only while fewer bytes than this wait to be sent for the first time.
    pub(crate) fn set_unsent_bytes_max(&self, bytes: u32) -> io::Result<()> {
        SockRef::from(&self.0).set_tcp_notsent_lowat(bytes)
    }

    /// Asks a silent peer after this time whether it is still there.
    pub(crate) fn set_keepalive(&self, after: Duration) -> io::Result<()> {
        SockRef::from(&self.0).set_tcp_keepalive(&TcpKeepalive::new().with_time(after))
    }

    /// Room for what was written and not acknowledged.
    pub(crate) fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        SockRef::from(&self.0).set_send_buffer_size(bytes)
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

impl Read for TcpSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TcpSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A non-blocking connection that comes back from control.
impl From<TcpStream> for TcpSocket {
    fn from(stream: TcpStream) -> Self {
        Self(mio::net::TcpStream::from_std(stream))
    }
}

/// A connection that goes to control.
impl From<TcpSocket> for TcpStream {
    fn from(socket: TcpSocket) -> Self {
        socket.0.into()
    }
}

/// How an address is bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BindOptions {
    /// `[::]` is for IPv4 too.
    pub(crate) dual_stack: bool,
    /// Other sockets may be bound to it, and the kernel deals the connections out (`SO_REUSEPORT`).
    pub(crate) shared: bool,
}

/// A listening socket. Never blocks.
#[derive(Debug)]
pub(crate) struct TcpListener(mio::net::TcpListener);

impl TcpListener {
    /// Binds `address` without listening yet.
    pub(crate) fn bind(address: SocketAddr, options: BindOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!options.dual_stack)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(options.shared)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self(mio::net::TcpListener::from_std(socket.into())))
    }

    /// A socket that listens already, of another process.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::net::TcpListener::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(mio::net::TcpListener::from_std(socket)))
    }

    /// The same socket once more, for another process.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Takes connections from now on; the kernel completes `backlog` of them while nobody accepts.
    pub(crate) fn listen(&self, backlog: i32) -> io::Result<()> {
        SockRef::from(&self.0).listen(backlog)
    }

    /// The next connection and where it is from.
    pub(crate) fn accept(&self) -> io::Result<(TcpSocket, SocketAddr)> {
        self.0.accept().map(|(socket, address)| (TcpSocket(socket), address))
    }

    /// The address it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
