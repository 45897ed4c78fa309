//! Real UDP sockets that compare what arrives with what must arrive: every byte, how many, in which
//! order, from whom.

use super::TIMEOUT_MS;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// The message for a lost datagram, and for no other defect.
pub(crate) const NOT_COME: &str = "did not come";

/// The message when all datagrams arrived, one of them early.
pub(crate) const OVERTAKEN: &str = "was overtaken";

/// What is wrong with datagrams of which these places of the row came.
fn verdict(order: &[Option<usize>]) -> &'static str {
    let mut places: Vec<_> = order.iter().flatten().collect();
    places.sort_unstable();
    places.dedup();
    match places.len() == order.len() {
        true if order.is_sorted() => NOT_COME,
        true => OVERTAKEN,
        false => "is not one of them, or came twice",
    }
}

/// A socket for each recipient.
pub(crate) struct Receivers {
    sockets: Vec<UdpSocket>,
    /// The senders that datagrams must come from; empty for any.
    sources: Vec<SocketAddr>,
    buffer: Vec<u8>,
}

impl Receivers {
    /// Binds `count` sockets to ports of the kernel's choice, in the network namespace of the
    /// calling thread, on these addresses in turn.
    pub(crate) fn bind(addresses: &[IpAddr], count: usize) -> Self {
        let sockets = (0..count).map(|at| Self::bind_one((addresses[at % addresses.len()], 0).into()));
        Self { sockets: sockets.collect(), sources: Vec::new(), buffer: vec![0; 1 << 16] }
    }

    fn bind_one(address: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("bind {address}: {error}"));
        socket.set_read_timeout(Some(Duration::from_millis(TIMEOUT_MS.into()))).expect("SO_RCVTIMEO");
        // The kernel grants less without a right; what is in flight at a time is chosen to fit the
        // default.
        SockRef::from(&socket).set_recv_buffer_size(16 << 20).expect("SO_RCVBUF");
        socket
    }

    /// From now on datagrams must come from one of these.
    pub(crate) fn from(mut self, sources: &[SocketAddr]) -> Self {
        self.set_sources(sources);
        self
    }

    /// The same, of receivers that are in use.
    pub(crate) fn set_sources(&mut self, sources: &[SocketAddr]) {
        self.sources = sources.to_vec();
    }

    /// Where the sockets receive.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|socket| socket.local_addr().expect("bound")).collect()
    }

    pub(crate) fn socket(&self, recipient: usize) -> &UdpSocket {
        &self.sockets[recipient]
    }

    /// Waits for these datagrams at one recipient, in this order and with nothing between them.
    pub(crate) fn expect(
        &mut self,
        recipient: usize,
        datagrams: impl Iterator<Item = Vec<u8>>,
        remark: &str,
    ) {
        let mut datagrams = datagrams.enumerate();
        while let Some((number, expected)) = datagrams.next() {
            let (length, source) =
                self.sockets[recipient].recv_from(&mut self.buffer).unwrap_or_else(|error| {
                    panic!("recipient {recipient}, datagram {number} ({remark}): {NOT_COME}: {error}")
                });
            let place = || format!("recipient {recipient}, datagram {number}, from {source} ({remark})");
            assert!(self.sources.is_empty() || self.sources.contains(&source), "{}: unknown sender", place());
            let received = &self.buffer[..length];
            if received != expected {
                let same = received.iter().zip(&expected).take_while(|(a, b)| a == b).count();
                let what = format!("{length} bytes, not {}, the same for {same} bytes", expected.len());
                let place = place();
                let due = [expected].into_iter().chain(datagrams.map(|(_, later)| later)).collect();
                let order = self.order(recipient, length, due);
                panic!("{place}: {}: {what}; of those due come {order:?}", verdict(&order));
            }
        }
    }

    /// Of the datagram in the buffer and all that come after it: which of these each one is.
    fn order(&mut self, recipient: usize, mut length: usize, due: Vec<Vec<u8>>) -> Vec<Option<usize>> {
        let socket = &self.sockets[recipient];
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("SO_RCVTIMEO");
        let mut order = Vec::new();
        loop {
            let received = &self.buffer[..length];
            order.push(due.iter().position(|expected| expected == received));
            match socket.recv(&mut self.buffer) {
                Ok(next) => length = next,
                Err(_) => return order,
            }
        }
    }

    /// Waits for several rows of datagrams at one recipient: each in its order, whatever the order
    /// between them.
    pub(crate) fn expect_rows(&mut self, recipient: usize, rows: Vec<Vec<Vec<u8>>>, remark: &str) {
        let count = rows.iter().map(Vec::len).sum::<usize>();
        let mut rows: Vec<_> = rows.into_iter().map(|row| row.into_iter().peekable()).collect();
        for number in 0..count {
            let (length, source) = self.receive(recipient).unwrap_or_else(|error| {
                panic!("recipient {recipient}, datagram {number} ({remark}): {NOT_COME}: {error}")
            });
            assert!(
                self.sources.is_empty() || self.sources.contains(&source),
                "{source}: unknown sender ({remark})"
            );
            let received = &self.buffer[..length];
            let next = rows.iter_mut().find_map(|row| row.next_if(|expected| expected == received));
            assert!(
                next.is_some(),
                "recipient {recipient}, datagram {number}: {length} bytes, not next ({remark})"
            );
        }
    }

    fn receive(&mut self, recipient: usize) -> io::Result<(usize, SocketAddr)> {
        loop {
            match self.sockets[recipient].recv_from(&mut self.buffer) {
                // A ring's work interrupts the thread's system calls.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Takes what one recipient has by now, which must be some of these datagrams in this order;
    /// returns how many.
    pub(crate) fn expect_some(
        &mut self,
        recipient: usize,
        mut datagrams: impl Iterator<Item = Vec<u8>>,
        remark: &str,
    ) -> usize {
        let socket = &self.sockets[recipient];
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        let mut arrived = 0;
        while let Ok(length) = socket.recv(&mut self.buffer) {
            let received = &self.buffer[..length];
            let found = datagrams.any(|expected| expected == received);
            assert!(found, "recipient {recipient}: {length} bytes that do not come next ({remark})");
            arrived += 1;
        }
        socket.set_nonblocking(false).expect("O_NONBLOCK");
        arrived
    }

    /// Asserts that no receiver has anything more. Call it when everything sent must have arrived.
    pub(crate) fn expect_nothing_more(&mut self, remark: &str) {
        for (recipient, socket) in self.sockets.iter().enumerate() {
            socket.set_nonblocking(true).expect("O_NONBLOCK");
            if let Ok((length, source)) = socket.recv_from(&mut self.buffer) {
                panic!("recipient {recipient} has {length} bytes from {source} too many ({remark})");
            }
            socket.set_nonblocking(false).expect("O_NONBLOCK");
        }
    }

    /// Waits for the whole group at its members, which are these recipients.
    pub(crate) fn expect_group(&mut self, group: &super::Group) {
        for member in 0..group.members.len() {
            self.expect(member, group.datagrams(member), &group.remark);
        }
        self.expect_nothing_more(&group.remark);
    }
}
