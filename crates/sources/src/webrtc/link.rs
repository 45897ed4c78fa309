//! The datagrams of one session: sockets, and the client between them and media.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Poll, ready};
use std::time::Duration;

use rtc::sdp::{OfferConfig, OfferMedia, RemoteAnswer, Transport, make_offer, read_answer};
use rtc_client::{Client, Identity, Outgoing, Received};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout};

use crate::settings::SourceSettings;
use crate::webrtc::Endpoint;
use crate::webrtc::signalling::{Answered, Connection, Resource, delete_later, post};

/// Addresses of a server that are tried.
const CANDIDATES_MAX: usize = 16;
/// Sockets of one session: one for each address of this host that leads to some of them.
const SOCKETS_MAX: usize = 4;
/// Errors of a socket, one behind the other, that are passed over.
const ERRORS_MAX: usize = 64;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 2_048;

/// Why there is no session: a sentence for the log and the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// The sentence.
    pub reason: String,
    /// Trying again soon would change nothing.
    pub is_lasting: bool,
}

impl OpenError {
    /// One that may be over soon.
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lasting: false }
    }
}

/// A session with a path and keys, and what was agreed for it.
#[derive(Debug)]
pub struct Opened {
    /// Its datagrams.
    pub link: Link,
    /// Who the client is.
    pub identity: Identity,
    /// What was offered.
    pub offer: OfferConfig,
    /// What the server answered.
    pub answer: RemoteAnswer,
}

/// What has come.
#[derive(Debug)]
pub enum Arrived<'a> {
    /// RTP in plaintext.
    Rtp(&'a [u8]),
    /// RTCP in plaintext.
    Rtcp(&'a [u8]),
    /// Something that is no media, or time has passed.
    Nothing,
}

/// One session.
pub struct Link {
    client: Client,
    sockets: Vec<(SocketAddr, UdpSocket)>,
    settings: SourceSettings,
    resource: Option<Resource>,
    peer: Option<SocketAddr>,
    input: Box<[u8]>,
    datagram: Vec<u8>,
    /// The datagram found no room: from where and where to.
    held: Option<(SocketAddr, SocketAddr)>,
}

impl Link {
    /// Offers media, and connects to what the server answers. `is_refused` says why an address of
    /// the server, and that of this end, is not to be used; its last argument is whether a redirect led
    /// there.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn open(
        endpoint: &Endpoint,
        settings: &SourceSettings,
        media: impl FnOnce(&Identity) -> Vec<OfferMedia>,
        is_refused: impl Fn(IpAddr, SocketAddr, bool) -> Option<OpenError>,
    ) -> Result<Opened, OpenError> {
        let identity =
            Identity::generate().map_err(|_| OpenError::new("the system gives no random bytes"))?;
        let connection = Connection::open(endpoint.url(), settings).await?;
        let is_refused = |connection: &Connection, is_redirected| {
            let (local, peer) = connection.local().zip(connection.peer())?;
            is_refused(local, peer, is_redirected)
        };
        if let Some(refusal) = is_refused(&connection, false) {
            return Err(refusal);
        }
        let mut sockets = Vec::new();
        if let Some(local) = connection.local() {
            add_socket(&mut sockets, local).await;
        }
        let addresses: Vec<SocketAddr> = sockets.iter().map(|(address, _)| *address).collect();
        let offer = identity.offer(&addresses, media(&identity));
        let text = make_offer(&offer);
        let is_redirect_refused = |connection: &Connection| is_refused(connection, true);
        let posting = post(endpoint, connection, &text, settings, is_redirect_refused);
        let answered = timeout(settings.connect_timeout, posting).await;
        let answered = answered.map_err(|_| OpenError::new("the server does not answer in time"))??;
        let Answered { sdp, peer, resource: guard } = answered;
        let mut answer = read_answer(&sdp, &offer)
            .map_err(|error| OpenError::new(format!("the server's answer cannot be used: {error}")))?;
        let candidates = &mut answer.remote.candidates;
        candidates.retain(|candidate| {
            let is_udp = candidate.transport == Transport::Udp && candidate.component == 1;
            is_udp && candidate.address.port() != 0 && settings.addresses.allows(candidate.address.ip())
        });
        candidates.truncate(CANDIDATES_MAX);
        if candidates.is_empty() {
            return Err(OpenError::new("the server names no address for media that may be reached"));
        }
        for candidate in candidates.iter() {
            if let Some(local) = way_to(candidate.address).await {
                add_socket(&mut sockets, local).await;
            }
        }
        let addresses: Vec<SocketAddr> = sockets.iter().map(|(address, _)| *address).collect();
        let (now, patience) = (Instant::now().into_std(), settings.connect_timeout);
        let client = Client::new(now, &addresses, &identity, &offer, &answer, patience)
            .map_err(|error| OpenError::new(format!("the server's answer cannot be used: {error}")))?;
        let mut link = Self {
            client,
            sockets,
            settings: settings.clone(),
            resource: guard.release(),
            peer,
            input: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
            datagram: Vec::new(),
            held: None,
        };
        while link.client.path().is_none() {
            link.fill().await.map_err(OpenError::new)?;
        }
        Ok(Opened { link, identity, offer, answer })
    }

    /// Packets of this SSRC may have to be sent again as they were.
    pub fn remember_packets(&mut self, ssrc: u32) {
        self.client.remember_packets(ssrc);
    }

    /// Waits for what comes, or for the client's timers. Nothing is lost when it is dropped while
    /// it waits.
    ///
    /// # Errors
    /// Why the session is over.
    pub async fn fill(&mut self) -> Result<Arrived<'_>, String> {
        self.send_signals();
        if let Some(ended) = self.client.ended() {
            return Err(ended.reason().to_owned());
        }
        let due = self.client.next_timeout().map_or_else(far, Instant::from_std);
        let Self { sockets, input, client, settings, .. } = self;
        let (at, len, from) = tokio::select! {
            arrived = receive(sockets, input) => {
                arrived.map_err(|error| format!("its datagrams cannot be received: {error}"))?
            }
            () = sleep_until(due) => {
                client.handle_timeout(Instant::now().into_std());
                return Ok(Arrived::Nothing);
            }
        };
        // Nor do others get an answer than those that may be connected to.
        if !settings.addresses.allows(from.ip()) {
            return Ok(Arrived::Nothing);
        }
        let now = Instant::now().into_std();
        let received = client.handle_datagram(now, sockets[at].0, from, &mut input[..len]);
        self.send_signals();
        Ok(match received {
            Received::Rtp(len) => Arrived::Rtp(&self.input[..len]),
            Received::Rtcp(len) => Arrived::Rtcp(&self.input[..len]),
            Received::Nothing => Arrived::Nothing,
        })
    }

    /// Sends a packet: its bytes on the network, or `None` if there is no room at present: it is to
    /// be sent later.
    pub fn send(&mut self, packet: &Outgoing) -> Option<usize> {
        if let Some((local, remote)) = self.held.take()
            && !self.transmit(local, remote)
        {
            self.held = Some((local, remote));
            return None;
        }
        let Some(path) = self.client.path() else { return Some(0) };
        if !self.client.protect(packet, &mut self.datagram) {
            return Some(0);
        }
        // A packet is protected once, so what finds no room is held.
        if !self.transmit(path.local, path.remote) {
            self.held = Some((path.local, path.remote));
        }
        Some(self.datagram.len())
    }

    /// Sends the datagram at hand; `false` if there is no room for it. What cannot be sent
    /// otherwise is lost, as on the way: whoever is silent is dropped.
    fn transmit(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let socket = self.sockets.iter().find(|(address, _)| *address == local);
        let sent = socket.map(|(_, socket)| socket.try_send_to(&self.datagram, remote));
        !matches!(sent, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The server of the HTTP side.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Ends the session at the server.
    pub async fn close(mut self) {
        self.client.close(Instant::now().into_std());
        self.send_signals();
        if let Some(resource) = self.resource.take() {
            resource.delete(&self.settings).await;
        }
    }

    fn send_signals(&mut self) {
        while let Some(transmit) = self.client.poll_transmit() {
            let socket = self.sockets.iter().find(|(local, _)| *local == transmit.path.local);
            if let Some((_, socket)) = socket {
                // What is lost is repeated.
                let _ = socket.try_send_to(&transmit.bytes, transmit.path.remote);
            }
        }
    }
}

/// A session that is dropped is ended at the server as well, in the background.
impl Drop for Link {
    fn drop(&mut self) {
        self.client.close(Instant::now().into_std());
        self.send_signals();
        delete_later(self.resource.take(), &self.settings);
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A time that does not come.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// The address of this host that datagrams to `remote` leave from.
async fn way_to(remote: SocketAddr) -> Option<IpAddr> {
    let any = match remote {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    // Nothing is sent by this: the system looks up its route.
    socket.connect(remote).await.ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

async fn add_socket(sockets: &mut Vec<(SocketAddr, UdpSocket)>, local: IpAddr) {
    let is_known = sockets.iter().any(|(address, _)| address.ip() == local);
    if is_known || sockets.len() >= SOCKETS_MAX {
        return;
    }
    if let Ok(socket) = UdpSocket::bind((local, 0)).await
        && let Ok(address) = socket.local_addr()
    {
        sockets.push((address, socket));
    }
}

/// The next datagram of any socket: which, how long, and from where.
async fn receive(
    sockets: &[(SocketAddr, UdpSocket)],
    input: &mut [u8],
) -> io::Result<(usize, usize, SocketAddr)> {
    poll_fn(|context| {
        poll_any(sockets.len(), |at| {
            let mut buffer = ReadBuf::new(input);
            let from = ready!(sockets[at].1.poll_recv_from(context, &mut buffer));
            Poll::Ready(from.map(|from| (buffer.filled().len(), from)))
        })
    })
    .await
}

/// The first of these sockets that has a datagram.
///
/// A few errors are the system's word that nobody listens somewhere: whoever is silent is dropped.
/// Of a socket that is broken no word ends, and nothing else would run meanwhile.
fn poll_any<T>(
    sockets: usize,
    mut poll: impl FnMut(usize) -> Poll<io::Result<(usize, T)>>,
) -> Poll<io::Result<(usize, usize, T)>> {
    for at in 0..sockets {
        let mut errors = 0;
        loop {
            match poll(at) {
                Poll::Ready(Ok((len, from))) => return Poll::Ready(Ok((at, len, from))),
                Poll::Ready(Err(error)) if errors == ERRORS_MAX => return Poll::Ready(Err(error)),
                Poll::Ready(Err(_)) => errors += 1,
                Poll::Pending => break,
            }
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_end_are_an_error_and_a_few_are_passed_over() {
        let refused = || Poll::Ready(Err::<(usize, ()), _>(io::ErrorKind::ConnectionRefused.into()));
        let mut polled = 0;
        let broken = poll_any(2, |at| {
            polled += 1;
            if at == 0 { Poll::Pending } else { refused() }
        });
        assert!(matches!(broken, Poll::Ready(Err(_))) && polled == 1 + ERRORS_MAX + 1, "{polled}");
        let mut errors = ERRORS_MAX;
        let found = poll_any(2, |at| match (at, errors) {
            (0, _) => Poll::Pending,
            (_, 0) => Poll::Ready(Ok((7, ()))),
            _ => {
                errors -= 1;
                refused()
            }
        });
        assert!(matches!(found, Poll::Ready(Ok((1, 7, ())))));
        assert!(poll_any(2, |_| Poll::<io::Result<(usize, ())>>::Pending).is_pending());
    }
}
