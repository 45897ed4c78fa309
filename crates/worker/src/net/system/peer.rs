//! The other end of a connection, for tests of what `net/` promises.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

/// A client.
pub(crate) struct Peer(TcpStream);

/// Nothing has to begin.
pub(crate) fn begin() {}

/// It passes by itself.
pub(crate) fn pass_time() {}

impl Peer {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        Self(stream)
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it is written");
    }

    pub(crate) fn read_some(&mut self) -> usize {
        self.0.read(&mut [0; 65_536]).expect("bytes")
    }

    pub(crate) fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.0.read_to_end(&mut all).map(|_| all)
    }

    pub(crate) fn finish(&self) {
        self.0.shutdown(Shutdown::Write).expect("it is finished");
    }

    pub(crate) fn reset(self) {
        SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).expect("an option");
    }
}
