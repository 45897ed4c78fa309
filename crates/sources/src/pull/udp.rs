//! MPEG-TS in datagrams, bare or in RTP (RFC 2250 section 2): what is sent to a port of this host,
//! or to a multicast group.
//!
//! The socket is this server's own, so that nothing is to be connected to: the pull waits for the
//! first datagram as long as it takes. From then on only its sender is heard, until that has been
//! silent for [`SENDER_SILENCE`]: two senders at once would make one broken stream.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::failure::Failure;
use super::ts::TsInput;
use super::ts_datagrams::TsDatagrams;
use crate::settings::SourceSettings;

/// Time without a datagram after which another sender is taken.
const SENDER_SILENCE: Duration = Duration::from_secs(1);
/// Bytes that the kernel keeps of what has not been read, as far as it lets us: a quarter of a second
/// at 64 Mbit/s.
const RECEIVE_BUFFER_BYTES: usize = 2 << 20;
/// Datagrams read at a time.
const BATCH: usize = 64;
/// Largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Where to listen, and to what: `udp://host:port?program=..&source=..&interface=..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpUrl {
    /// The address of this host, or the multicast group.
    pub address: SocketAddr,
    /// The number of the program. `None`: the first one with a track that is carried.
    pub program: Option<u16>,
    /// The only sender that is heard; of a multicast group, the one that is joined (RFC 4607).
    pub source: Option<IpAddr>,
    /// The address of the interface that joins the group.
    pub interface: Option<Ipv4Addr>,
}

impl UdpUrl {
    /// Reads a URL that begins with `udp://`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.get("udp://".len()..).unwrap_or_default();
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Some write `udp://@239.0.0.1:5000` for what is received.
        let authority = authority.strip_prefix('@').unwrap_or(authority).trim_end_matches('/');
        let address: SocketAddr = authority.parse().map_err(|_| {
            "cannot use its URL: `udp://` takes an address and a port, such as \"udp://239.0.0.1:5000\""
                .to_owned()
        })?;
        let mut url = Self { address, program: None, source: None, interface: None };
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let is_taken = match name {
                "program" => {
                    url.program = value.parse().ok().filter(|number| *number != 0);
                    url.program.is_some()
                }
                "source" => {
                    url.source =
                        value.parse().ok().filter(|source: &IpAddr| source.is_ipv4() == address.is_ipv4());
                    url.source.is_some()
                }
                "interface" => {
                    url.interface = value.parse().ok().filter(|_| address.is_ipv4());
                    url.interface.is_some()
                }
                _ => {
                    return Err(format!(
                        "cannot use its URL: `udp://` has no option `{}`",
                        name.escape_debug()
                    ));
                }
            };
            if !is_taken {
                return Err(format!("cannot use its URL: `{name}` cannot be `{}`", value.escape_debug()));
            }
        }
        if url.address.port() == 0 {
            return Err("cannot use its URL: `udp://` needs a port".to_owned());
        }
        Ok(url)
    }

    fn open(&self) -> io::Result<UdpSocket> {
        let domain = if self.address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // What the kernel does not give is no reason not to receive.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        let group = self.address.ip();
        if group.is_multicast() {
            // Others on this host may listen to the same group.
            socket.set_reuse_address(true)?;
        }
        // Bound to the group, the socket does not get what others of the same port are sent.
        socket.bind(&self.address.into())?;
        let interface = self.interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
        match (group, self.source) {
            (IpAddr::V4(group), Some(IpAddr::V4(source))) if group.is_multicast() => {
                socket.join_ssm_v4(&source, &group, &interface)?;
            }
            (IpAddr::V4(group), _) if group.is_multicast() => socket.join_multicast_v4(&group, &interface)?,
            (IpAddr::V6(group), _) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
            _ => {}
        }
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket.into())
    }
}

impl fmt::Display for UdpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            self.program.map(|program| format!("program={program}")),
            self.source.map(|source| format!("source={source}")),
            self.interface.map(|interface| format!("interface={interface}")),
        ];
        let fields: Vec<String> = fields.into_iter().flatten().collect();
        let mark = if fields.is_empty() { "" } else { "?" };
        write!(f, "udp://{}{mark}{}", self.address, fields.join("&"))
    }
}

/// An open socket and what has come of it.
#[derive(Debug)]
pub(super) struct UdpTs {
    socket: UdpSocket,
    url: UdpUrl,
    /// Who is heard, and when that was last.
    sender: Option<(SocketAddr, Instant)>,
    /// Who sends although another `source` is wanted: the first of them, until somebody is heard.
    other: Option<IpAddr>,
    input: Box<[u8]>,
    datagrams: TsDatagrams,
    pub(super) ts: TsInput,
}

impl UdpTs {
    pub(super) fn open(url: &UdpUrl, settings: &SourceSettings) -> Result<Self, Failure> {
        let socket = url.open().map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
        Ok(Self {
            socket,
            url: *url,
            sender: None,
            other: None,
            input: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
            datagrams: TsDatagrams::default(),
            ts: TsInput::new(url.program, settings),
        })
    }

    /// Waits for datagrams, and says how many bytes came.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        let mut bytes = 0;
        let first = self.socket.recv_from(&mut self.input).await?;
        let mut next = Some(first);
        let mut count = 0;
        while let Some((length, sender)) = next {
            bytes += self.datagram(length, sender);
            count += 1;
            next = match count {
                BATCH => None,
                _ => self.socket.try_recv_from(&mut self.input).ok(),
            };
        }
        Ok(bytes)
    }

    fn datagram(&mut self, length: usize, sender: SocketAddr) -> usize {
        let now = Instant::now();
        let is_other = self.url.source.is_some_and(|source| source != sender.ip());
        let is_held = |(held, at): (SocketAddr, Instant)| held != sender && now - at < SENDER_SILENCE;
        if is_other && self.sender.is_none() {
            self.other.get_or_insert(sender.ip());
        }
        if is_other || self.sender.is_some_and(is_held) {
            return 0;
        }
        if self.sender.is_none_or(|(held, _)| held != sender) {
            self.datagrams = TsDatagrams::default();
        }
        let datagram = &self.input[..length];
        let ts = &mut self.ts;
        let has_packets = self.datagrams.push(datagram, |payload| ts.push(payload));
        // Who sends something else is not listened to longer than that, whatever it sends.
        let held_at = match self.sender {
            Some((held, at)) if held == sender && !has_packets => at,
            _ => now,
        };
        self.sender = Some((sender, held_at));
        length
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.sender.map(|(sender, _)| sender)
    }

    /// A sender that is not the one that is wanted, while that one sends nothing.
    pub(super) fn unheard(&self) -> Option<String> {
        let (other, source) = self.other.zip(self.url.source).filter(|_| self.sender.is_none())?;
        Some(format!("what comes is from {other}, and `source` is {source}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_to_listen_and_to_whom() {
        for (text, shown) in [
            ("udp://239.1.2.3:5000", "udp://239.1.2.3:5000"),
            ("udp://@239.1.2.3:5000/?program=7", "udp://239.1.2.3:5000?program=7"),
            ("udp://[::1]:5000", "udp://[::1]:5000"),
            (
                "udp://239.1.2.3:5000?interface=127.0.0.1&source=10.0.0.1",
                "udp://239.1.2.3:5000?source=10.0.0.1&interface=127.0.0.1",
            ),
        ] {
            assert_eq!(UdpUrl::parse(text).map(|url| url.to_string()), Ok(shown.to_owned()));
        }
        for text in [
            "udp://",
            "udp://239.1.2.3",
            "udp://239.1.2.3:0",
            "udp://host.example:5000",
            "udp://0.0.0.0:5000?program=0",
            "udp://0.0.0.0:5000?program=65536",
            "udp://0.0.0.0:5000?source=::1",
            "udp://[::]:5000?interface=127.0.0.1",
            "udp://0.0.0.0:5000?fifo=1",
        ] {
            UdpUrl::parse(text).expect_err(text);
        }
    }
}
