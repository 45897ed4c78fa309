//! Connections to other servers, for pulls and for what is sent to others: names resolved, addresses
//! judged, TLS checked by the authorities that are configured. The errors are sentences for the log
//! and the API.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use range_reader::error::{Permanent, SourceError};
use range_reader::http::{connect, tls};
use rtmp::RtmpUrl;
use rtmp::name::query_value;
use srt::{Call, CallError, Caller, Connection, DATAGRAM_BYTES_MAX, Limits, SequenceNumber, SocketId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::settings::{SourceSettings, explain};
use crate::srt_url::SrtUrl;

/// Most delay that a listener of SRT may ask for.
const LATENCY_MAX: Duration = Duration::from_secs(8);
/// Longest text of a server that is repeated, characters.
const SAID_MAX: usize = 200;

/// What is shorter is no secret, and may stand in any text.
const SECRET_BYTES_MIN: usize = 4;

/// How often it is looked for pairs of ports.
const PORTS_TRIED_MAX: usize = 32;

/// TCP or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// An open connection.
pub struct Connected {
    /// What is read and written.
    pub stream: Box<dyn Stream>,
    /// Its other end.
    pub peer: Option<SocketAddr>,
    /// Its end here.
    pub local: Option<SocketAddr>,
}

/// Connects to the server of a URL, by TLS if it says so.
///
/// # Errors
/// Why there is no connection.
pub async fn connect(url: &RtmpUrl, settings: &SourceSettings) -> Result<Connected, String> {
    connect_to(&url.host, url.port, url.tls, settings).await
}

/// Connects to a server, by TLS if `is_tls`.
///
/// # Errors
/// Why there is no connection.
pub async fn connect_to(
    host: &str,
    port: u16,
    is_tls: bool,
    settings: &SourceSettings,
) -> Result<Connected, String> {
    let connecting = connect::tcp(host, port, settings.addresses, settings.connect_timeout);
    let socket = connecting.await.map_err(|error| explain(&error))?;
    let (peer, local) = (socket.peer_addr().ok(), socket.local_addr().ok());
    let stream: Box<dyn Stream> = if is_tls {
        let connector = tls::Connector::new(&settings.extra_roots_pem, &[]);
        let connector = connector.map_err(|error| explain(&error))?;
        let handshake = timeout(settings.connect_timeout, connector.connect(host, socket)).await;
        let handshake = handshake.map_err(|_| "no TLS handshake in time".to_owned())?;
        Box::new(handshake.map_err(|error| explain(&error))?)
    } else {
        Box::new(socket)
    };
    Ok(Connected { stream, peer, local })
}

/// Begins to call the listener of a URL, from a socket of its own that hears nobody else.
///
/// # Errors
/// Why it cannot be called.
pub async fn call(
    url: &SrtUrl,
    settings: &SourceSettings,
) -> Result<(UdpSocket, SocketAddr, Caller), String> {
    let peer = timeout(settings.connect_timeout, resolve(url, settings)).await;
    let peer = peer.map_err(|_| format!("{}: no address in time", url.host))??;
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let open = async {
        let socket = UdpSocket::bind(any).await?;
        socket.connect(peer).await?;
        Ok(socket)
    };
    let socket = open.await.map_err(|error: std::io::Error| error.to_string())?;
    let call = Call {
        socket: SocketId::random(),
        initial: SequenceNumber::random(),
        stream_id: url.stream_id.clone(),
        receive_latency: url.latency,
        send_latency: url.latency,
        latency_max: LATENCY_MAX.max(url.latency),
        encryption: url.passphrase.clone(),
        timeout: settings.connect_timeout,
        limits: Limits::default(),
    };
    Ok((socket, peer, Caller::new(Instant::now().into_std(), call)))
}

/// Sockets for RTP, on an even port, and RTCP, on the next one (RFC 3550 section 11), of the address
/// family of `peer`.
///
/// # Errors
/// Why there are none.
pub async fn rtp_sockets(peer: Option<SocketAddr>) -> Result<[UdpSocket; 2], String> {
    let any = match peer {
        Some(peer) if peer.is_ipv6() => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    let bind = async |port| UdpSocket::bind((any, port)).await;
    for _ in 0..PORTS_TRIED_MAX {
        let rtp = bind(0).await.map_err(|error| error.to_string())?;
        let port = rtp.local_addr().map_err(|error| error.to_string())?.port();
        if port % 2 == 0
            && let Ok(rtcp) = bind(port + 1).await
        {
            return Ok([rtp, rtcp]);
        }
    }
    Err("there are no two ports for RTP and RTCP".to_owned())
}

/// Tells the other end of a call that it is over.
pub fn hang_up(socket: &UdpSocket, connection: &mut Connection) {
    let (now, mut out) = (Instant::now().into_std(), [0; DATAGRAM_BYTES_MAX]);
    connection.close(now);
    while let Some(len) = connection.poll_transmit(now, &mut out) {
        let _ = socket.try_send(&out[..len]);
    }
}

/// Why a call failed.
pub fn call_failed(error: CallError) -> String {
    match error {
        CallError::Rejected(code) => format!("{} ({code})", error.reason()),
        other => other.reason().to_owned(),
    }
}

/// What a server said, made fit for logs. Where it may repeat what is secret, that goes ahead of
/// [`cut`]: else a part of it may stay.
pub fn said(code: &str, description: &str) -> String {
    cut(&plain(code, description))
}

/// The same, however long it is.
pub fn plain(code: &str, description: &str) -> String {
    let text = if description.is_empty() { code.to_owned() } else { format!("{code}: {description}") };
    text.chars().filter(|c| !c.is_control()).collect()
}

/// The beginning of a text.
pub fn cut(text: &str) -> String {
    text.chars().take(SAID_MAX).collect()
}

/// What a server says, without what it repeats of the request and nobody else is to see: the token,
/// the query of the URL, and the values in it.
pub(crate) fn without_secrets(text: String, token: Option<&str>, query: &str) -> String {
    let mut secrets: Vec<String> = token.into_iter().chain([query]).map(str::to_owned).collect();
    for field in query.split('&') {
        let value = field.split_once('=').map_or(field, |(_, value)| value);
        // As it is written, and as it is meant.
        secrets.push(value.to_owned());
        secrets.extend(query_value(&format!("v={value}"), "v"));
    }
    secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
    // One that contains another goes first.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text, |text, secret| text.replace(secret, "..."))
}

/// The first address of the listener that may be reached; judged where it is used.
async fn resolve(url: &SrtUrl, settings: &SourceSettings) -> Result<SocketAddr, String> {
    let bare = url.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&url.host);
    let found = tokio::net::lookup_host((bare, url.port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| format!("{}: {error}", url.host))?.collect();
    let allowed = found.iter().find(|address| settings.addresses.allows(address.ip())).copied();
    allowed.ok_or_else(|| explain(&SourceError::Permanent(Permanent::NotPublic(url.host.clone()))))
}
