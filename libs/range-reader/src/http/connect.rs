//! Opening a TCP connection to a host: its name resolved, its addresses judged, and tried in turn.
//!
//! A trimmed "happy eyeballs" (RFC 8305): addresses of both families alternate, the next is tried
//! when one fails or has not answered within 250 ms, and the first that connects is kept. Names are
//! resolved by the system, in a thread of tokio's blocking pool: the one thread that this crate
//! uses, because `getaddrinfo` blocks.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;

use super::address::AddressPolicy;
use crate::error::{Permanent, SourceError};

/// Addresses of a name that are tried at most.
const ADDRESSES_MAX: usize = 8;
/// How long one address is waited for before the next is tried beside it (RFC 8305, 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to `host`, a name or an address (IPv6 with or without brackets), within `timeout`.
///
/// Only addresses that `policy` allows are connected to; they are judged after the name is
/// resolved, and the connection is made to the very address that was judged.
///
/// # Errors
/// [`Permanent::NotPublic`] when no address is allowed; [`SourceError::Transient`] when the name
/// cannot be resolved, nothing answers, or time is up.
pub async fn tcp(
    host: &str,
    port: u16,
    policy: AddressPolicy,
    timeout: Duration,
) -> Result<TcpStream, SourceError> {
    let connecting = async {
        let addresses = allowed(resolve(host, port).await?, policy, host)?;
        let stream = race(addresses)
            .await
            .map_err(|error| SourceError::transient(format!("{host}:{port}: {error}")))?;
        // A request is one small write, and nothing follows that it could be joined with.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    };
    tokio::time::timeout(timeout, connecting)
        .await
        .unwrap_or_else(|_| Err(SourceError::transient(format!("{host}:{port}: no connection in time"))))
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, SourceError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    match tokio::net::lookup_host((bare, port)).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) => Err(SourceError::transient(format!("{host}: {error}"))),
    }
}

/// The addresses that may be connected to, families alternating, the first family first.
fn allowed(
    addresses: Vec<SocketAddr>,
    policy: AddressPolicy,
    host: &str,
) -> Result<Vec<SocketAddr>, SourceError> {
    if addresses.is_empty() {
        return Err(SourceError::transient(format!("{host} has no address")));
    }
    let first_is_ipv6 = addresses[0].is_ipv6();
    let (mut first, mut second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .filter(|address| policy.allows(address.ip()))
        .partition(|address| address.is_ipv6() == first_is_ipv6);
    if first.is_empty() && second.is_empty() {
        return Err(SourceError::Permanent(Permanent::NotPublic(host.to_owned())));
    }
    first.reverse();
    second.reverse();
    let mut alternating = Vec::new();
    while alternating.len() < ADDRESSES_MAX && !(first.is_empty() && second.is_empty()) {
        alternating.extend(first.pop());
        alternating.extend(second.pop());
    }
    alternating.truncate(ADDRESSES_MAX);
    Ok(alternating)
}

type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to the addresses in turn; the error is that of the last one to fail.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut running: Vec<Attempt> = Vec::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => running.push(Box::pin(TcpStream::connect(address))),
            None if running.is_empty() => return Err(failure),
            None => {}
        }
        let delay = if waiting.len() > 0 { ATTEMPT_DELAY } else { Duration::MAX };
        match tokio::time::timeout(delay, first_to_end(&mut running)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_elapsed) => {}
        }
    }
}

async fn first_to_end(running: &mut Vec<Attempt>) -> io::Result<TcpStream> {
    std::future::poll_fn(|context| {
        for index in 0..running.len() {
            if let Poll::Ready(result) = running[index].as_mut().poll(context) {
                drop(running.swap_remove(index));
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect()
    }

    #[test]
    fn families_alternate_and_what_is_forbidden_is_left_out() {
        let given = addresses(&["2a00::1", "2a00::2", "::1", "2a00::3", "8.8.8.8", "10.0.0.1", "9.9.9.9"]);
        let expected = addresses(&["2a00::1", "8.8.8.8", "2a00::2", "9.9.9.9", "2a00::3"]);
        assert_eq!(allowed(given, AddressPolicy::Public, "a").unwrap(), expected);
        let many: Vec<SocketAddr> = (1..100).map(|last| SocketAddr::from(([8, 8, 8, last], 80))).collect();
        assert_eq!(allowed(many, AddressPolicy::Public, "a").unwrap().len(), ADDRESSES_MAX);
        let private = addresses(&["10.0.0.1", "::ffff:127.0.0.1"]);
        let error = allowed(private.clone(), AddressPolicy::Public, "a").unwrap_err();
        assert!(matches!(error, SourceError::Permanent(Permanent::NotPublic(_))), "{error}");
        assert_eq!(allowed(private.clone(), AddressPolicy::Any, "a").unwrap(), private);
    }

    #[tokio::test]
    async fn the_first_address_that_connects_is_kept() {
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = there.local_addr().unwrap();
        let stream = race(vec![closed, closed, address]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        assert_eq!(race(vec![closed]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
