//! Types a setting can have, and how each is read from TOML, an environment variable or a flag.
//!
//! All three sources become a `Raw` first, so that a type is checked in one place only. Text from
//! the environment and from flags has no type of its own: each `Setting` says how to read it
//! (`from_text`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

use worker_api::time::{parse_rfc3339, rfc3339};

/// A value as its source has it, before it is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Bool(bool),
    /// A TOML string.
    Text(String),
    /// A TOML date with time and offset, as written.
    Moment(String),
    /// A TOML array.
    List(Vec<Raw>),
    /// From the environment or a flag: text whose type is that of the key.
    Untyped(String),
    /// A TOML type no setting uses, by its name.
    Unsupported(&'static str),
}

impl Raw {
    /// How the value is quoted in an error message.
    pub fn describe(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Text(text) => toml_string(text),
            Self::Moment(text) => text.clone(),
            Self::Untyped(text) => format!("`{text}`"),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::describe).collect::<Vec<_>>().join(", "))
            }
            Self::Unsupported(kind) => format!("a {kind}"),
        }
    }
}

/// The value is not what the key accepts; `Key::accepts` says what would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAccepted;

/// A type that settings may have.
pub trait Setting: Sized {
    /// What values look like, such as `integer`.
    const KIND: &'static str;
    /// Reads a value.
    fn read(raw: &Raw) -> Result<Self, NotAccepted>;
    /// The value as TOML.
    fn to_toml(&self) -> String;
    /// The value when it is an integer, for the range check.
    fn integer(&self) -> Option<i64> {
        None
    }
}

/// Reads `raw` into `target` when it has the right type and is within `range`.
pub fn assign<T: Setting>(target: &mut T, raw: &Raw, range: Option<(i64, i64)>) -> Result<(), NotAccepted> {
    let value = T::read(raw)?;
    if let (Some((low, high)), Some(integer)) = (range, value.integer())
        && !(low..=high).contains(&integer)
    {
        return Err(NotAccepted);
    }
    *target = value;
    Ok(())
}

impl Setting for i64 {
    const KIND: &'static str = "an integer";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        match raw {
            Raw::Integer(value) => Ok(*value),
            Raw::Untyped(text) => text.trim().replace('_', "").parse().map_err(|_| NotAccepted),
            _ => Err(NotAccepted),
        }
    }

    fn to_toml(&self) -> String {
        self.to_string()
    }

    fn integer(&self) -> Option<i64> {
        Some(*self)
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        match raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Untyped(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(true),
                "false" | "no" | "off" | "0" => Ok(false),
                _ => Err(NotAccepted),
            },
            _ => Err(NotAccepted),
        }
    }

    fn to_toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    const KIND: &'static str = "text";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        match raw {
            Raw::Text(text) | Raw::Untyped(text) => Ok(text.clone()),
            _ => Err(NotAccepted),
        }
    }

    fn to_toml(&self) -> String {
        toml_string(self)
    }
}

/// A moment, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment(pub Option<SystemTime>);

impl Setting for Moment {
    const KIND: &'static str =
        "a date with time and offset (RFC 3339) such as \"2026-11-22T20:15:00Z\", or \"\"";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        match raw {
            Raw::Text(text) | Raw::Untyped(text) if text.is_empty() => Ok(Self(None)),
            Raw::Text(text) | Raw::Untyped(text) | Raw::Moment(text) => {
                parse_rfc3339(text).map(|moment| Self(Some(moment))).ok_or(NotAccepted)
            }
            _ => Err(NotAccepted),
        }
    }

    fn to_toml(&self) -> String {
        toml_string(&self.0.map(rfc3339).unwrap_or_default())
    }
}

impl Setting for Vec<String> {
    const KIND: &'static str = "a list of text";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        items(raw).iter().map(String::read).collect()
    }

    fn to_toml(&self) -> String {
        toml_list(self)
    }
}

impl Setting for Vec<i64> {
    const KIND: &'static str = "a list of integers";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        let values: Vec<i64> = items(raw).iter().map(i64::read).collect::<Result<_, _>>()?;
        if values.iter().any(|value| *value < 0) { Err(NotAccepted) } else { Ok(values) }
    }

    fn to_toml(&self) -> String {
        toml_list(self)
    }
}

/// Addresses to listen on. `*:PORT` stands for every IPv4 and IPv6 address of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen(pub Vec<ListenAddress>);

/// One address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` stands for every address, of both families.
    pub ip: Option<IpAddr>,
    /// TCP port; 0 lets the kernel choose.
    pub port: u16,
}

impl Listen {
    /// Every address of the machine at `port`.
    pub fn everywhere(port: u16) -> Self {
        Self(vec![ListenAddress { ip: None, port }])
    }

    /// Socket addresses to bind.
    ///
    /// `*` becomes `[::]`, **which must be bound with `IPV6_V6ONLY` off** so that it takes IPv4 as
    /// well (peers then appear as `::ffff:a.b.c.d`); where the kernel has no IPv6 it becomes
    /// `0.0.0.0`. A written `[::]` is the same as `*` with IPv6; other addresses are passed on as
    /// they are.
    pub fn addresses(&self, ipv6: bool) -> Vec<SocketAddr> {
        let any =
            if ipv6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { IpAddr::from(Ipv4Addr::UNSPECIFIED) };
        self.0.iter().map(|address| SocketAddr::new(address.ip.unwrap_or(any), address.port)).collect()
    }
}

impl std::str::FromStr for ListenAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        if let Some(port) = text.strip_prefix("*:").or_else(|| text.strip_prefix(':')) {
            return Ok(Self { ip: None, port: port.parse().map_err(|_| ())? });
        }
        let address: SocketAddr = text.parse().map_err(|_| ())?;
        Ok(Self { ip: Some(address.ip()), port: address.port() })
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ip {
            None => write!(f, "*:{}", self.port),
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
        }
    }
}

impl Setting for Listen {
    const KIND: &'static str = "a list of addresses such as \"*:1935\", \"127.0.0.1:1935\" or \"[::1]:1935\"";

    fn read(raw: &Raw) -> Result<Self, NotAccepted> {
        let texts = Vec::<String>::read(raw)?;
        texts.iter().map(|text| text.parse().map_err(|()| NotAccepted)).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        toml_list(&self.0.iter().map(ListenAddress::to_string).collect::<Vec<_>>())
    }
}

/// Declares a setting that is one of a few words.
macro_rules! choice {
    ($(#[$meta:meta])* $Name:ident: $kind:literal { $($(#[$variant_meta:meta])* $Variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name { $($(#[$variant_meta])* $Variant),+ }

        impl Setting for $Name {
            const KIND: &'static str = $kind;

            fn read(raw: &Raw) -> Result<Self, NotAccepted> {
                match raw {
                    $(Raw::Text(text) | Raw::Untyped(text) if text == $word => Ok(Self::$Variant),)+
                    _ => Err(NotAccepted),
                }
            }

            fn to_toml(&self) -> String {
                match self { $(Self::$Variant => toml_string($word)),+ }
            }
        }
    };
}

choice! {
    /// What happens to the second publisher of a stream.
    SecondPublisherChoice: "\"refuse\" or \"take_over\"" {
        /// The newcomer is refused.
        Refuse = "refuse",
        /// The newcomer replaces the old one.
        TakeOver = "take_over",
    }
}

choice! {
    /// How a certificate authority sees whose names are ordered.
    ChallengeChoice: "\"tls-alpn-01\" or \"http-01\"" {
        /// By a certificate.
        TlsAlpn = "tls-alpn-01",
        /// By a text.
        Http = "http-01",
    }
}

choice! {
    /// What becomes of a question that gets no usable answer.
    OnErrorChoice: "\"allow\" or \"deny\"" {
        /// Who asks is let in.
        Allow = "allow",
        /// Who asks is refused.
        Deny = "deny",
    }
}

choice! {
    /// When streams are cut into segments.
    HlsChoice: "\"off\", \"on_demand\" or \"always\"" {
        /// Never.
        Off = "off",
        /// While somebody plays them so.
        OnDemand = "on_demand",
        /// As long as they are published.
        Always = "always",
    }
}

choice! {
    /// How recordings are written.
    RecordFormatChoice: "\"mp4\" or \"flv\"" {
        /// Fragmented, with an ordinary index once it is complete.
        Mp4 = "mp4",
        /// Tags, as players of HTTP-FLV get them.
        Flv = "flv",
    }
}

choice! {
    /// How B-frames are bridged to WebRTC.
    BFramesChoice: "\"drop\" or \"refuse\"" {
        /// They are left out.
        Drop = "drop",
        /// The stream is not played by WebRTC.
        Refuse = "refuse",
    }
}

choice! {
    /// How datagrams are sent.
    UdpBackendChoice: "\"auto\", \"sendmsg\", \"sendmmsg\", \"gso\", \"io_uring\" or \"af_xdp\"" {
        /// The best that needs no privilege.
        Auto = "auto",
        /// A call for each datagram.
        Sendmsg = "sendmsg",
        /// One call for many datagrams.
        Sendmmsg = "sendmmsg",
        /// The same with segmentation offload.
        Gso = "gso",
        /// io_uring.
        IoUring = "io_uring",
        /// AF_XDP: frames that bypass the kernel's UDP stack.
        AfXdp = "af_xdp",
    }
}

choice! {
    /// Whether players are sent to another node.
    RedirectChoice: "\"never\", \"when_full\" or \"always\"" {
        /// They are not.
        Never = "never",
        /// When this node has no room.
        WhenFull = "when_full",
        /// When another node publishes the stream.
        Always = "always",
    }
}

choice! {
    /// How datagrams are sent between nodes.
    RelayBackendChoice:
        "\"auto\", \"sendmsg\", \"sendmmsg\", \"gso\", \"io_uring\", \"af_xdp\" or \"tc_clone\""
    {
        /// The best that needs no privilege.
        Auto = "auto",
        /// A call for each datagram.
        Sendmsg = "sendmsg",
        /// One call for many datagrams.
        Sendmmsg = "sendmmsg",
        /// The same with segmentation offload.
        Gso = "gso",
        /// io_uring.
        IoUring = "io_uring",
        /// AF_XDP: frames that bypass the kernel's UDP stack.
        AfXdp = "af_xdp",
        /// One frame of a packet, which the kernel copies for all nodes.
        TcClone = "tc_clone",
    }
}

choice! {
    /// Form of log lines.
    LogFormat: "\"text\" or \"json\"" {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

choice! {
    /// Who is allowed by a publish or play rule.
    AllowChoice: "\"token\", \"loopback\", \"token_or_loopback\", \"anyone\" or \"nobody\"" {
        /// Clients with one of the rule's tokens.
        Token = "token",
        /// Peers on this machine.
        Loopback = "loopback",
        /// Either of them.
        TokenOrLoopback = "token_or_loopback",
        /// Everybody.
        Anyone = "anyone",
        /// Nobody.
        Nobody = "nobody",
    }
}

choice! {
    /// Who may use the management API.
    ManageChoice: "\"auto\", \"token\", \"loopback\", \"token_or_loopback\" or \"nobody\"" {
        /// `token` once a token is configured, `loopback` until then.
        Auto = "auto",
        /// Clients with the token.
        Token = "token",
        /// Clients on this machine.
        Loopback = "loopback",
        /// Either of them.
        TokenOrLoopback = "token_or_loopback",
        /// Nobody.
        Nobody = "nobody",
    }
}

choice! {
    /// Who may read metrics.
    MetricsChoice: "\"auto\" or \"anyone\"" {
        /// Clients that may use the management API, and clients with the metrics token.
        Auto = "auto",
        /// Everybody.
        Anyone = "anyone",
    }
}

/// Elements of a list; a single value counts as a list of one, untyped text is split at commas.
fn items(raw: &Raw) -> Vec<Raw> {
    match raw {
        Raw::List(items) => items.clone(),
        Raw::Untyped(text) if text.trim().is_empty() => Vec::new(),
        Raw::Untyped(text) => text.split(',').map(|item| Raw::Untyped(item.trim().to_owned())).collect(),
        single => vec![single.clone()],
    }
}

/// `text` as a TOML basic string.
pub fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn toml_list<T: Setting>(items: &[T]) -> String {
    format!("[{}]", items.iter().map(T::to_toml).collect::<Vec<_>>().join(", "))
}
