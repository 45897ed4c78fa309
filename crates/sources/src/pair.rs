//! Two connected TCP sockets on the loopback interface.
//!
//! A worker takes nothing but TCP connections, and so it needs to know nothing new of a publisher inside this process.
//! Other processes of this machine can connect to the listener while it is there: what they bring is not ours by its
//! address, and is dropped.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Connections of others that are dropped before the pair is given up.
const STRANGERS_MAX: usize = 64;
/// Time for all of it; a connection to this machine takes microseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connected pair of sockets: one end for the source, one for the worker.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) ours: TcpStream,
    /// Non-blocking.
    pub(super) theirs: std::net::TcpStream,
    /// The address of `ours`, which the other end sees as its peer's.
    pub(super) address: SocketAddr,
}

/// Makes a pair, over IPv4 or where there is none over IPv6.
pub(super) async fn connect() -> io::Result<Pair> {
    match timeout(CONNECT_TIMEOUT, connect_now()).await {
        Ok(pair) => pair,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn connect_now() -> io::Result<Pair> {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await?,
    };
    let ours = TcpStream::connect(listener.local_addr()?).await?;
    let address = ours.local_addr()?;
    let theirs = accept_ours(&listener, address).await?.into_std()?;
    ours.set_nodelay(true)?;
    Ok(Pair { ours, theirs, address })
}

async fn accept_ours(listener: &TcpListener, address: SocketAddr) -> io::Result<TcpStream> {
    for _ in 0..=STRANGERS_MAX {
        let (socket, peer) = listener.accept().await?;
        if peer == address {
            return Ok(socket);
        }
    }
    Err(io::Error::other("others keep connecting to the loopback interface"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_goes_in_at_one_end_comes_out_at_the_other() {
        let mut pair = connect().await.expect("a pair");
        assert!(pair.address.ip().is_loopback());
        assert_eq!(pair.theirs.peer_addr().expect("an address"), pair.address);
        let mut theirs = TcpStream::from_std(pair.theirs).expect("a socket that does not block");
        pair.ours.write_all(b"abc").await.expect("written");
        drop(pair.ours);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.expect("read");
        assert_eq!(read, b"abc");
    }

    #[tokio::test]
    async fn a_stranger_that_connects_first_is_dropped() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
        let at = listener.local_addr().expect("an address");
        let mut stranger = TcpStream::connect(at).await.expect("connected");
        let ours = TcpStream::connect(at).await.expect("connected");
        let address = ours.local_addr().expect("an address");
        let accepted = accept_ours(&listener, address).await.expect("ours");
        assert_eq!(accepted.peer_addr().expect("an address"), address);
        let closed = stranger.read(&mut [0; 1]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }

    #[tokio::test]
    async fn strangers_without_end_are_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
        let at = listener.local_addr().expect("an address");
        let mut strangers = Vec::new();
        for _ in 0..=STRANGERS_MAX {
            strangers.push(TcpStream::connect(at).await.expect("connected"));
        }
        let nobody = "127.0.0.1:1".parse().expect("an address");
        accept_ours(&listener, nobody).await.expect_err("not ours");
    }
}
