//! ICE candidates as attributes (RFC 8839 section 5.1, RFC 6544 section 4.5).
//!
//! ```text
//! candidate:<foundation> <component> <transport> <priority> <address> <port> typ <type>
//!           [raddr <address>] [rport <port>] [tcptype <type>] *(<name> <value>)
//! ```
//!
//! Names (mDNS) in place of addresses are not resolved: a server that is ICE-lite needs no
//! candidate of its peer, because it answers the checks that come.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// What an active candidate by TCP has for a port.
const DISCARD_PORT: u16 = 9;

/// What carries the datagrams of a candidate or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Transport {
    /// Datagrams as they are.
    Udp,
    /// A TCP connection with framing by RFC 4571.
    Tcp,
}

/// How an agent came by the address of a candidate (RFC 8445 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// An address of its own interface.
    Host,
    /// What a STUN server saw.
    ServerReflexive,
    /// What the peer saw.
    PeerReflexive,
    /// An address on a TURN server.
    Relayed,
}

/// Which side opens the connection of a TCP candidate (RFC 6544 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpType {
    /// The owner of the candidate opens it.
    Active,
    /// The owner waits for it.
    Passive,
    /// Both open it at once.
    SimultaneousOpen,
}

/// One transport address of an ICE agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Equal for candidates of one kind, base and server (RFC 8445 section 5.1.1.3); at most 32
    /// characters.
    pub foundation: String,
    /// 1 for RTP. With RTCP on the same port there is no other.
    pub component: u16,
    /// UDP or TCP.
    pub transport: Transport,
    /// Larger is preferred (RFC 8445 section 5.1.2).
    pub priority: u32,
    /// Where it is reached. The port of an active TCP candidate means nothing and is written as 9.
    pub address: SocketAddr,
    /// How it was found.
    pub kind: CandidateKind,
    /// For TCP only.
    pub tcp_type: Option<TcpType>,
    /// The address behind a reflexive or relayed one.
    pub related: Option<SocketAddr>,
}

impl Candidate {
    /// A host candidate on `address`; TCP ones are passive. `local_preference` (0 to 65535) ranks
    /// the addresses of one agent: larger is preferred.
    #[must_use]
    pub fn host(address: SocketAddr, transport: Transport, local_preference: u16) -> Self {
        let tcp_type = (transport == Transport::Tcp).then_some(TcpType::Passive);
        Self::new(CandidateKind::Host, address, transport, tcp_type, local_preference)
    }

    /// Any candidate, with foundation and priority computed from the rest.
    #[must_use]
    pub fn new(
        kind: CandidateKind,
        address: SocketAddr,
        transport: Transport,
        tcp_type: Option<TcpType>,
        local_preference: u16,
    ) -> Self {
        let priority = priority(kind, transport, local_preference);
        let foundation = foundation(kind, address.ip(), transport);
        Self { foundation, component: 1, transport, priority, address, kind, tcp_type, related: None }
    }

    /// Reads an attribute's value with or without the leading `candidate:`.
    ///
    /// `None` when it is malformed, or of a kind that cannot be used here: another transport, a
    /// name in place of an address, an unspecified address, port 0.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix("a=").unwrap_or(text);
        let mut words = text.strip_prefix("candidate:").unwrap_or(text).split_ascii_whitespace();
        let foundation = words.next().filter(|word| word.len() <= 32 && word.chars().all(is_ice_char))?;
        let component = words.next()?.parse().ok().filter(|component| (1..=256).contains(component))?;
        let transport = parse_transport(words.next()?)?;
        let priority = words.next()?.parse().ok()?;
        let address = SocketAddr::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        if !words.next()?.eq_ignore_ascii_case("typ") {
            return None;
        }
        let kind = parse_kind(words.next()?)?;
        let foundation = foundation.to_owned();
        let mut candidate =
            Self { foundation, component, transport, priority, address, kind, tcp_type: None, related: None };
        candidate.read_extensions(words)?;
        if candidate.tcp_type == Some(TcpType::Active) {
            // Nobody connects to it: its port says nothing (RFC 6544 section 4.5).
            candidate.address.set_port(DISCARD_PORT);
        }
        (!address.ip().is_unspecified() && candidate.is_consistent()).then_some(candidate)
    }

    /// Reads the pairs after the type. Unknown ones are skipped (RFC 8839 section 5.1).
    fn read_extensions<'a>(&mut self, mut words: impl Iterator<Item = &'a str>) -> Option<()> {
        let (mut related_ip, mut related_port) = (None, None);
        while let Some(name) = words.next() {
            let value = words.next()?;
            match name {
                "raddr" => related_ip = value.parse::<IpAddr>().ok(),
                "rport" => related_port = value.parse().ok(),
                "tcptype" => self.tcp_type = Some(parse_tcp_type(value)?),
                _ => {}
            }
        }
        if let (Some(ip), Some(port)) = (related_ip, related_port) {
            self.related = Some(SocketAddr::new(ip, port));
        }
        Some(())
    }

    /// A TCP candidate says which side connects, and only a passive one needs a port.
    fn is_consistent(&self) -> bool {
        match self.transport {
            Transport::Udp => self.tcp_type.is_none() && self.address.port() != 0,
            Transport::Tcp => {
                self.tcp_type.is_some_and(|kind| kind == TcpType::Active || self.address.port() != 0)
            }
        }
    }
}

/// The attribute's value, beginning with `candidate:`.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        let port = match self.tcp_type {
            Some(TcpType::Active) => DISCARD_PORT,
            _ => self.address.port(),
        };
        write!(f, "candidate:{} {} {transport}", self.foundation, self.component)?;
        write!(f, " {} {} {port} typ {}", self.priority, self.address.ip(), kind_name(self.kind))?;
        if let Some(related) = self.related {
            write!(f, " raddr {} rport {}", related.ip(), related.port())?;
        }
        match self.tcp_type {
            Some(TcpType::Active) => f.write_str(" tcptype active"),
            Some(TcpType::Passive) => f.write_str(" tcptype passive"),
            Some(TcpType::SimultaneousOpen) => f.write_str(" tcptype so"),
            None => Ok(()),
        }
    }
}

/// Characters of foundations, user fragments and passwords (RFC 8839 section 5.1: `ice-char`).
pub(super) fn is_ice_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '+' | '/')
}

fn parse_transport(word: &str) -> Option<Transport> {
    if word.eq_ignore_ascii_case("udp") {
        Some(Transport::Udp)
    } else if word.eq_ignore_ascii_case("tcp") {
        Some(Transport::Tcp)
    } else {
        None
    }
}

fn parse_kind(word: &str) -> Option<CandidateKind> {
    Some(match word {
        "host" => CandidateKind::Host,
        "srflx" => CandidateKind::ServerReflexive,
        "prflx" => CandidateKind::PeerReflexive,
        "relay" => CandidateKind::Relayed,
        _ => return None,
    })
}

fn kind_name(kind: CandidateKind) -> &'static str {
    match kind {
        CandidateKind::Host => "host",
        CandidateKind::ServerReflexive => "srflx",
        CandidateKind::PeerReflexive => "prflx",
        CandidateKind::Relayed => "relay",
    }
}

fn parse_tcp_type(word: &str) -> Option<TcpType> {
    Some(match word {
        "active" => TcpType::Active,
        "passive" => TcpType::Passive,
        "so" => TcpType::SimultaneousOpen,
        _ => return None,
    })
}

/// RFC 8445 section 5.1.2.1: `2^24 * type + 2^8 * local + (256 - component)`. TCP loses half of the
/// local preference, so that any UDP address of the same kind comes first (RFC 6544 section 4.2 has
/// it in the same field).
fn priority(kind: CandidateKind, transport: Transport, local_preference: u16) -> u32 {
    let kind: u32 = match kind {
        CandidateKind::Host => 126,
        CandidateKind::PeerReflexive => 110,
        CandidateKind::ServerReflexive => 100,
        CandidateKind::Relayed => 0,
    };
    let local = match transport {
        Transport::Udp => 0x8000 | local_preference >> 1,
        Transport::Tcp => local_preference >> 1,
    };
    kind << 24 | u32::from(local) << 8 | 255
}

/// The same for candidates that behave the same: one kind, transport and base address (RFC 8445
/// section 5.1.1.3).
fn foundation(kind: CandidateKind, ip: IpAddr, transport: Transport) -> String {
    // FNV-1a: any fixed function will do, collisions only join two groups of checks.
    let mut hash = 0x811c_9dc5_u32;
    let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    add(kind as u8);
    add(transport as u8);
    match ip {
        IpAddr::V4(ip) => ip.octets().into_iter().for_each(&mut add),
        IpAddr::V6(ip) => ip.octets().into_iter().for_each(&mut add),
    }
    hash.to_string()
}
