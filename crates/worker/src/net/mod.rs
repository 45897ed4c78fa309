//! Sockets and the clock: the only place of the worker that asks the operating system for either.
//!
//! `system/` is the operating system as a worker sees it: [`EventQueue`], [`TcpListener`], [`TcpSocket`],
//! [`UdpSocket`] and [`Clock`]. The other files here are built on these types: TLS connections, accepting,
//! UDP ports, the socket for other nodes and ICE over TCP. They carry bytes in and out and know nothing of
//! what they mean; `proto`, `packets` and `nodes` read them.
//!
//! In a simulation of whole servers in virtual time, `simulated/` takes its place (docs/simulation.md): the
//! same types over the kernel of `netsim`. What both keep to, because the worker relies on it:
//!
//! - **[`EventQueue`]** is edge-triggered. A socket is reported when it becomes ready and then not again
//!   before a call on it has returned `WouldBlock`, read less than there was room for or written less than
//!   it was given; [`add`](EventQueue::add) and [`change`](EventQueue::change) report whatever is ready
//!   already. A report may be wrong: every call may
//!   return `WouldBlock`. A socket that was dropped or removed is not reported by later waits. `wait` returns
//!   at once when a waker was used since the last one; wake-ups merge, none is lost, and wakers work from any
//!   thread.
//! - **[`TcpSocket`]** never blocks. Reads and writes may be partial, of one byte too. 0 bytes read is the
//!   peer's end, after which it can still be written to (half-close); a reset is an error of the next call,
//!   and both are reported as [`Readiness::closed`]. While it is in no event queue it may go to another
//!   worker, on another thread. A full send buffer is `WouldBlock`, and the socket is
//!   reported writable once there is room.
//! - **[`UdpSocket`]** loses, duplicates and reorders. A [`ReceivedBatch`] holds datagrams of any senders,
//!   each on its own whether or not they came coalesced (GRO). It is full by messages, of which each may
//!   hold up to 64 of them; one that is not full has left nothing, and what has no room in the socket is
//!   lost by the message. [`UdpSender::flush`] sends a batch, and [`UdpSender::send_group`] a group,
//!   recipient by recipient, each one's in order, as runs of segments (GSO) where it can; a run that is
//!   refused is sent in datagrams. Without room (`EAGAIN`) it leaves the rest, from the beginning of a run
//!   on, and says `blocked`; nothing reports when there is room again. A datagram refused for good is counted, and so is one without memory
//!   (`ENOBUFS`).
//! - **[`Clock::now`]** never runs backwards. `Instant` and `SocketAddr` are values and are used everywhere.
//!
//! Simulated types find their kernel by themselves, as that of the thread: nothing above passes it on.

pub(crate) mod accept;
pub(crate) mod connection;
#[cfg(any(test, feature = "simulated"))]
pub(crate) mod contract;
pub(crate) mod datagram_port;
pub(crate) mod ice_tcp;
pub(crate) mod listen;
pub(crate) mod passed;
mod readiness;
pub(crate) mod relay_port;
mod shared_port;
pub(crate) mod shared_sockets;
pub(crate) mod steer;
#[cfg(not(feature = "simulated"))]
mod system;
/// The kernel of a simulation in place of the operating system: `sim-worker` is compiled with it.
#[cfg(feature = "simulated")]
#[path = "simulated/mod.rs"]
mod system;
mod udp_backend;
pub(crate) mod udp_bind;
pub(crate) mod udp_port;

/// Whether more may wait in a socket, by what came of receiving from it.
fn has_more(received: &std::io::Result<usize>, batch: &ReceivedBatch) -> bool {
    match received {
        Ok(_) => batch.is_full(),
        // Something may wait behind the error.
        Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
    }
}

pub(crate) use readiness::{Interest, Readiness, Token};
pub(crate) use system::clock::Clock;
pub(crate) use system::event_queue::EventQueue;
pub(crate) use system::tcp::{BindOptions, TcpListener, TcpSocket};
pub(crate) use system::udp::{ReceivedBatch, UdpSender, UdpSocket, interface_of, local_addresses};

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::path::{Path, PathBuf};

    /// What reaches the operating system's sockets, event queue or clock.
    const OURS_ALONE: [&str; 9] = [
        "mio::",
        "socket2::",
        "rustls::",
        "TcpStream",
        "std::net::TcpListener",
        "std::net::UdpSocket",
        "Instant::now",
        "SystemTime::now",
        "clock_gettime",
    ];

    /// A connection over loopback: our side, which does not block, and the peer's.
    pub(crate) fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (server, _) = listener.accept().expect("a connection");
        server.set_nonblocking(true).expect("a socket");
        (server, client)
    }

    fn files(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { files(&path, out) } else { out.push(path) }
        }
    }

    #[test]
    fn nothing_else_has_sockets_or_a_clock() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut all, mut found) = (Vec::new(), Vec::new());
        files(&root, &mut all);
        assert!(all.len() > 50, "{} files", all.len());
        for file in all.iter().filter(|file| !file.starts_with(root.join("net"))) {
            let text = std::fs::read_to_string(file).expect("a source file");
            for (line, text) in text.lines().enumerate() {
                // `use std::net::{IpAddr, UdpSocket};` hides the path of a name.
                let is_import = text.starts_with("use std::net::")
                    && ["TcpListener", "UdpSocket"].iter().any(|name| text.contains(name));
                if is_import || OURS_ALONE.iter().any(|name| text.contains(name)) {
                    found.push(format!("{}:{}: {}", file.display(), line + 1, text.trim()));
                }
            }
        }
        assert!(found.is_empty(), "take these from `net`:\n{}", found.join("\n"));
    }
}
