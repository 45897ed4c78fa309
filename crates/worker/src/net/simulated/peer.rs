//! The other end of a connection, for tests of what `net/` promises.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use netsim::kernel;

/// A client.
pub(crate) struct Peer(kernel::TcpSocket);

/// A simulation without faults, in which whatever can be joined is.
pub(crate) fn begin() {
    let faults = kernel::Faults { coalesce: 1.0, ..kernel::Faults::default() };
    kernel::begin(1, kernel::Path::default(), faults);
}

/// Until the next event.
pub(crate) fn pass_time() {
    let later = kernel::now() + Duration::from_millis(1);
    kernel::advance_to(kernel::next_event().map_or(later, |next| next.min(later)));
}

impl Peer {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let socket = kernel::TcpSocket::connect("127.0.0.1".parse().expect("an address"), to);
        for _ in 0..50 {
            pass_time();
        }
        Self(socket)
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        assert_eq!(self.0.write(bytes).expect("it is written"), bytes.len());
    }

    pub(crate) fn read_some(&mut self) -> usize {
        self.0.read(&mut [0; 65_536]).unwrap_or(0)
    }

    pub(crate) fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => return Ok(all),
                Ok(len) => all.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pass_time(),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn finish(&self) {
        self.0.shutdown_write().expect("it is finished");
    }

    pub(crate) fn reset(self) {
        self.0.reset();
    }
}
