//! What a directory is connected with.

use std::fmt;
use std::path::PathBuf;

use crate::names::NodeName;
use crate::record::{Addresses, TEXT_BYTES_MAX};

/// How this node reaches NATS, and what it says of itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// URLs of NATS servers, `nats://host:port` or `tls://host:port`; the client learns of others from them.
    pub servers: Vec<String>,
    /// How it proves who it is.
    pub credentials: Credentials,
    /// Encryption between this node and NATS.
    pub tls: Tls,
    /// First part of the buckets' names: clusters with different ones share NATS and nothing else. Letters,
    /// digits, `-` and `_`.
    pub prefix: String,
    /// Copies that NATS keeps of each bucket, 1 to 5. By default three in a cluster of NATS servers, else
    /// one.
    pub replicas: Option<usize>,
    /// Name of this node, its own in the cluster.
    pub name: NodeName,
    /// Where it is; nodes of one region prefer each other. At most 255 bytes.
    pub region: String,
    /// Version of the software.
    pub software: String,
    /// How other nodes and players reach it.
    pub addresses: Addresses,
}

/// How a node proves to NATS who it is.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// By user and password.
    UserPassword {
        /// User.
        user: String,
        /// Password.
        password: String,
    },
    /// By a token.
    Token(String),
    /// By the seed of an nkey.
    NkeySeed(String),
    /// By a file of credentials: a JWT and its seed.
    File(PathBuf),
}

/// Encryption between a node and NATS.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Refuse servers without it. URLs with `tls://` do so, too.
    pub required: bool,
    /// Certificates of authorities to trust besides the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// Certificate and key of this node, as PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Settings {
    /// `servers` without credentials or encryption, and a node with nothing but a name.
    pub fn new(servers: Vec<String>, name: NodeName) -> Self {
        Self {
            servers,
            credentials: Credentials::None,
            tls: Tls::default(),
            prefix: "millstream".to_owned(),
            replicas: None,
            name,
            region: String::new(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            addresses: Addresses::default(),
        }
    }

    /// What is wrong with them, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let prefix_is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if self.prefix.is_empty() || self.prefix.len() > 64 || !self.prefix.bytes().all(prefix_is_plain) {
            return Err("the prefix takes 1 to 64 letters, digits, - and _".to_owned());
        }
        if self.servers.is_empty() {
            return Err("no NATS server is named".to_owned());
        }
        if self.replicas.is_some_and(|replicas| !(1..=5).contains(&replicas)) {
            return Err("NATS keeps 1 to 5 copies".to_owned());
        }
        let Addresses { relay_tcp, relay_udp, http } = &self.addresses;
        for text in [&self.region, &self.software, relay_tcp, relay_udp, http] {
            if text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
                return Err(format!("region, version and addresses take {TEXT_BYTES_MAX} bytes of text"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::UserPassword { .. } => "UserPassword",
            Self::Token(_) => "Token",
            Self::NkeySeed(_) => "NkeySeed",
            Self::File(_) => "File",
        })
    }
}
