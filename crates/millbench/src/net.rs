//! Target addresses and non-blocking connections.
//!
//! One source address has about 28,000 ephemeral ports towards one destination (`ip_local_port_range`).
//! On loopback every address of 127.0.0.0/8 is ours, so sessions are spread over several of them: address
//! `127.0.0.1 + k` for session numbers from `k * 20,000`. Towards other hosts one source address has to do.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use mio::net::TcpStream;
use nix::sys::socket::{setsockopt, sockopt};
use rtmp::RtmpUrl;
use socket2::{Domain, Protocol, Socket, Type};

use crate::srt_url::SrtUrl;

/// Where sessions connect and which stream each asks for.
///
/// `{}` or `{n}` in the URL stands for the number of the stream, counted from 1.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    /// Its server, resolved once.
    pub address: SocketAddr,
    /// How the media is fetched or sent.
    pub protocol: Protocols,
}

/// The protocols a URL may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// `rtmp://host[:1935]/app/stream`
    Rtmp,
    /// `http://host[:80]/app/stream.flv`
    HttpFlv,
    /// `http://host[:80]/app/stream.ts`
    HttpTs,
    /// `srt://host:port?streamid=...`
    Srt,
    /// `rtsp://host[:554]/app/stream`, packets in the connection.
    RtspTcp,
    /// The same, packets by UDP.
    RtspUdp,
}

impl Protocols {
    /// How a URL is published to: by SRT if it says so, else by RTMP.
    pub fn of_publisher(url: &str) -> Protocols {
        if url.starts_with("srt://") { Protocols::Srt } else { Protocols::Rtmp }
    }

    /// As the command line names them.
    pub fn name(self) -> &'static str {
        match self {
            Protocols::Rtmp => "rtmp",
            Protocols::HttpFlv => "flv",
            Protocols::HttpTs => "ts",
            Protocols::Srt => "srt",
            Protocols::RtspTcp | Protocols::RtspUdp => "rtsp",
        }
    }

    /// Sockets of a session.
    pub fn sockets(self) -> usize {
        if self == Protocols::RtspUdp { 1 + 2 * rtsp::TRACKS_MAX } else { 1 }
    }
}

impl Target {
    /// Checks a URL and resolves its host name (blocking).
    ///
    /// # Errors
    /// A text for the user.
    pub fn resolve(url: &str, protocol: Protocols) -> Result<Target, String> {
        let example = Target::substitute(url, 1);
        let (host, port) = match protocol {
            Protocols::Rtmp => {
                let parsed = RtmpUrl::from_str(&example).map_err(|error| format!("{url}: {error}"))?;
                if parsed.tls {
                    return Err(format!("{url}: RTMPS is not supported by the load generator"));
                }
                (parsed.host, parsed.port)
            }
            Protocols::HttpFlv | Protocols::HttpTs => {
                let parsed = HttpUrl::from_str(&example).map_err(|error| format!("{url}: {error}"))?;
                (parsed.host, parsed.port)
            }
            Protocols::Srt => {
                let parsed = SrtUrl::from_str(&example).map_err(|error| format!("{url}: {error}"))?;
                (parsed.host, parsed.port)
            }
            Protocols::RtspTcp | Protocols::RtspUdp => {
                let http = example.replacen("rtsp://", "http://", 1);
                let parsed = HttpUrl::from_str(&http).ok().filter(|_| http != example);
                let parsed =
                    parsed.ok_or_else(|| format!("{url}: expected rtsp://host[:port]/app/stream"))?;
                let named = parsed.authority.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(':');
                (parsed.host, if named { parsed.port } else { RTSP_PORT })
            }
        };
        let address = resolve(&host, port)?;
        Ok(Target { url: url.to_owned(), address, protocol })
    }

    /// Whether sessions use streams of their own.
    pub fn has_placeholder(&self) -> bool {
        self.url.contains("{}") || self.url.contains("{n}")
    }

    /// The URL of one stream.
    pub fn url_of(&self, stream_number: usize) -> String {
        Target::substitute(&self.url, stream_number)
    }

    fn substitute(url: &str, stream_number: usize) -> String {
        let number = stream_number.to_string();
        url.replace("{}", &number).replace("{n}", &number)
    }
}

/// An address of a host.
pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    { addresses }.next().ok_or_else(|| format!("{host}: no address"))
}

/// Reads once; `None` when there is nothing now.
pub(crate) fn read(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<Option<usize>, String> {
    loop {
        match socket.read(buffer) {
            Ok(0) => return Err(CLOSED.to_owned()),
            Ok(length) => return Ok(Some(length)),
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_reason("read", &error)),
        }
    }
}

/// Writes as much of `output` as the socket takes, and takes it off; `wrote` gets the bytes of each call.
pub(crate) fn write(
    socket: &mut TcpStream,
    output: &mut Vec<u8>,
    mut wrote: impl FnMut(usize),
) -> Result<(), String> {
    while !output.is_empty() {
        match socket.write(output) {
            Ok(0) => return Err(CLOSED.to_owned()),
            Ok(written) => {
                wrote(written);
                output.drain(..written);
            }
            Err(error) if is_for_later(&error) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_reason("write", &error)),
        }
    }
    Ok(())
}

/// Not now: the socket is empty, full, or not connected yet.
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// Without addresses, so that sessions that fail alike read alike.
pub(crate) fn io_reason(operation: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => format!("{operation}: {}", nix::errno::Errno::from_raw(code).desc()),
        None => format!("{operation}: {error}"),
    }
}

pub(crate) const CLOSED: &str = "closed by the server";

/// The error for `https://` URLs.
pub(crate) const HTTPS_UNSUPPORTED: &str = "HTTPS is not supported";

/// The parts of an `http://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port, 80 if none was given.
    pub port: u16,
    /// Host and port as the `Host` header wants them.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
}

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<HttpUrl, String> {
        if url.starts_with("https://") {
            return Err(HTTPS_UNSUPPORTED.to_owned());
        }
        let rest = url.strip_prefix("http://").ok_or("expected http://host[:port]/app/stream.flv")?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(80), str::parse).map_err(|_| "the port is not a number from 0 to 65535")?;
        if host.is_empty() || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("expected http://host[:port]/app/stream.flv".to_owned());
        }
        Ok(HttpUrl { host: host.to_owned(), port, authority: authority.to_owned(), path: path.to_owned() })
    }
}

/// Starts a connection; it is up when the socket becomes writable without an error.
///
/// # Errors
/// As the system calls report them.
pub fn connect(target: SocketAddr, session_number: usize) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source_address(target.ip(), session_number) {
        // The port is chosen by `connect`, which knows the destination, so each source address has all ports.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match socket.connect(&target.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// The loopback address to connect from, or `None` to let the system choose.
fn source_address(target: IpAddr, session_number: usize) -> Option<IpAddr> {
    let IpAddr::V4(address) = target else { return None };
    let index = u32::try_from(session_number / SESSIONS_PER_ADDRESS).ok()?;
    (address.is_loopback() && index > 0 && index < 1 << 16)
        .then(|| Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + index).into())
}

/// RFC 2326 section 3.2.
const RTSP_PORT: u16 = 554;

/// Below the 28,232 ports of the default range, so that sockets in TIME_WAIT leave room.
const SESSIONS_PER_ADDRESS: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_urls_are_taken_apart() {
        let parsed = |url: &str| HttpUrl::from_str(url).map(|u| (u.host, u.port, u.authority, u.path));
        let cases = [
            ("http://h/a/b.flv", "h", 80, "h", "/a/b.flv"),
            (
                "http://127.0.0.1:8080/a/b.flv?token=x",
                "127.0.0.1",
                8080,
                "127.0.0.1:8080",
                "/a/b.flv?token=x",
            ),
            ("http://[::1]:81/a", "::1", 81, "[::1]:81", "/a"),
            ("http://[::1]/a", "::1", 80, "[::1]", "/a"),
            ("http://h", "h", 80, "h", "/"),
        ];
        for (url, host, port, authority, path) in cases {
            assert_eq!(parsed(url), Ok((host.into(), port, authority.into(), path.into())), "{url}");
        }
        for broken in [
            "https://h/a",
            "http:///a",
            "http://h:x/",
            "http://h:70000/",
            "http://h/a b",
            "h/a",
            "http://h/\r\n",
        ] {
            assert!(parsed(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn the_stream_number_replaces_the_placeholder() {
        for (url, placeholder) in
            [("rtmp://127.0.0.1/live/a{}b", true), ("rtmp://127.0.0.1/live/a{n}b", true)]
        {
            let target = Target::resolve(url, Protocols::Rtmp).expect("a valid URL");
            assert_eq!(
                (target.has_placeholder(), target.url_of(12).as_str()),
                (placeholder, "rtmp://127.0.0.1/live/a12b")
            );
        }
        let target = Target::resolve("http://127.0.0.1/live/a.flv", Protocols::HttpFlv).expect("a valid URL");
        assert_eq!(
            (target.has_placeholder(), target.url_of(12).as_str()),
            (false, "http://127.0.0.1/live/a.flv")
        );
        for (url, port) in [("rtsp://127.0.0.1/live/a", 554), ("rtsp://127.0.0.1:8554/live/a", 8554)] {
            let target = Target::resolve(url, Protocols::RtspUdp).expect("a valid URL");
            assert_eq!(target.address.port(), port, "{url}");
        }
        assert!(Target::resolve("http://127.0.0.1/live/a", Protocols::RtspTcp).is_err());
        assert!(Target::resolve("rtmps://127.0.0.1/live/a", Protocols::Rtmp).is_err());
        assert!(Target::resolve("ftp://127.0.0.1/live/a", Protocols::Rtmp).is_err());
    }

    #[test]
    fn loopback_sessions_beyond_the_port_range_get_another_source_address() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let cases = [
            (loopback, 0, None, "the system's choice is right for the first ones"),
            (loopback, 19_999, None, "the last of the first address"),
            (loopback, 20_000, Some("127.0.0.2"), "the first of the second"),
            (loopback, 5_200_000, Some("127.0.1.5"), "carries into the third octet"),
            (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_000, None, "a real network: no invented addresses"),
            ("::1".parse().expect("an address"), 50_000, None, "IPv6 loopback is one address"),
        ];
        for (target, session, source, remark) in cases {
            let expected = source.map(|text| text.parse::<IpAddr>().expect("an address"));
            assert_eq!(source_address(target, session), expected, "{remark}");
        }
    }
}
