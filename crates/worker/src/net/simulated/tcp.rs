//! TCP of a simulation.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use netsim::kernel;

/// A connection. Never blocks.
#[derive(Debug)]
pub(crate) struct TcpSocket(kernel::TcpSocket);

impl TcpSocket {
    /// Servers of a simulation take nothing over.
    pub(crate) fn adopt(_socket: OwnedFd) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing is handed over.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Our end of it.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Ports of a simulation have one protocol each.
    pub(crate) fn first_byte(&self) -> io::Result<Option<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Written bytes leave at once anyway.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        Ok(())
    }

    /// The room of a connection is its path's.
    pub(crate) fn set_unsent_bytes_max(&self, _bytes: u32) -> io::Result<()> {
        Ok(())
    }

    /// Peers do not vanish.
    pub(crate) fn set_keepalive(&self, _after: Duration) -> io::Result<()> {
        Ok(())
    }

    /// The room of a connection is its path's.
    pub(crate) fn set_send_buffer(&self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.0.shutdown_write()
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
        self.0.write_slices(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.id() as RawFd
    }
}

/// A connection that comes back from control: the stream's descriptor stands for it.
impl From<TcpStream> for TcpSocket {
    fn from(stream: TcpStream) -> Self {
        let socket = kernel::TcpSocket::taken_over(stream.as_raw_fd());
        Self(socket.expect("the stream was made of a simulated connection"))
    }
}

/// A connection that goes to control, which wants one of the system: its descriptor is of nothing, and stands
/// for the connection in the kernel of the simulation.
impl From<TcpSocket> for TcpStream {
    fn from(socket: TcpSocket) -> Self {
        let nothing = File::open("/dev/null").expect("a descriptor");
        let stream = Self::from(OwnedFd::from(nothing));
        socket.0.hand_over(stream.as_raw_fd());
        stream
    }
}

/// How an address is bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BindOptions {
    /// `[::]` is for IPv4 too.
    pub(crate) dual_stack: bool,
    /// Other sockets may be bound to it, and the kernel deals the connections out.
    pub(crate) shared: bool,
}

/// A listening socket. Never blocks.
#[derive(Debug)]
pub(crate) struct TcpListener(kernel::TcpListener);

impl TcpListener {
    /// Binds `address` without listening yet.
    pub(crate) fn bind(address: SocketAddr, options: BindOptions) -> io::Result<Self> {
        kernel::TcpListener::bind(address, options.shared).map(Self)
    }

    /// Servers of a simulation take nothing over.
    pub(crate) fn adopt(_socket: OwnedFd) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing is handed over.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes connections from now on.
    pub(crate) fn listen(&self, backlog: i32) -> io::Result<()> {
        self.0.listen(backlog as usize);
        Ok(())
    }

    /// The next connection and where it is from.
    pub(crate) fn accept(&self) -> io::Result<(TcpSocket, SocketAddr)> {
        self.0.accept().map(|(socket, peer)| (TcpSocket(socket), peer))
    }

    /// The address it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.id() as RawFd
    }
}
