//! What sources of this server may do: which addresses they reach, how long they wait, how many
//! there are.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use rtmp::name::NameRules;
use serde::Serialize;
use utoipa::ToSchema;

use range_reader::error::{Permanent, SourceError};
use range_reader::http::HttpConfig;
use range_reader::http::address::AddressPolicy;
use worker_api::live::Live;

/// Who added a channel or a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddedBy {
    /// `[[channel]]` or `[[pull]]`. Whoever configures the server may name any file.
    Configuration,
    /// The management API, which may name files below `sources.files_root` only.
    Api,
}

/// Settings of channels and pulls, the same for all.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Names that their streams may have.
    pub names: NameRules,
    /// Addresses that may be connected to.
    pub addresses: AddressPolicy,
    /// Certificates in PEM that are trusted besides the system's.
    pub extra_roots_pem: Vec<u8>,
    /// Directory below which files named through the API must be; `None` allows none of them.
    pub files_root: Option<PathBuf>,
    /// Directories of recordings, which items of channels may be.
    pub recordings: Vec<PathBuf>,
    /// Pulls at a time, those of the configuration included.
    pub pulls_max: usize,
    /// Pulls on demand that run at a time, besides.
    pub on_demand_max: usize,
    /// How long a player waits for a pull that it has begun.
    pub on_demand_timeout: Duration,
    /// How long a pull goes on after its last player.
    pub on_demand_linger: Duration,
    /// Channels at a time, those of the configuration included.
    pub channels_max: usize,
    /// Redirects followed in a row.
    pub redirects_max: usize,
    /// Time to open a connection: name, TCP, TLS.
    pub connect_timeout: Duration,
    /// A source that sends nothing for this long is given up.
    pub stall_timeout: Duration,
    /// First pause after a failure; it doubles each time.
    pub retry_min: Duration,
    /// Longest pause.
    pub retry_max: Duration,
    /// Largest file of a channel, bytes; `None` is any.
    pub file_bytes_max: Option<u64>,
    /// Largest message, bytes: `limits.message_max_bytes`.
    pub message_bytes_max: u32,
}

/// Settings that a reload of the configuration may replace. What runs keeps those that it began with.
pub type LiveSettings = Live<Arc<SourceSettings>>;

/// User agent in requests.
const AGENT: &str = concat!("millstream/", env!("CARGO_PKG_VERSION"));

impl SourceSettings {
    /// How servers are reached that have files, no proxy between: it would connect to addresses that
    /// could not be checked here.
    pub fn http_config(&self) -> HttpConfig {
        HttpConfig {
            addresses: self.addresses,
            redirects_max: self.redirects_max,
            connect_timeout: self.connect_timeout,
            head_timeout: self.stall_timeout,
            idle_timeout: self.stall_timeout,
            headers: HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(AGENT))]),
            extra_roots_pem: self.extra_roots_pem.clone(),
            ..HttpConfig::default()
        }
    }

    /// Whether a source may be published as `app/name`.
    pub fn check_name(&self, app: &str, name: &str) -> Result<(), String> {
        let checked = self.names.check(app, name);
        checked.map_err(|error| format!("cannot publish as `{app}/{name}`: {error}"))
    }

    /// Whether the host of a URL may be connected to, as far as it can be said now: an address that
    /// is not allowed is refused at once, with a reason. Names are judged each time they are
    /// resolved.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(address) if !self.addresses.allows(address) => Err(format!(
                "{bare} is not a public address, and `sources.allow_private_addresses` is not set"
            )),
            _ => Ok(()),
        }
    }
}

/// What an error of a source says here: in the words of the configuration, where the library's are
/// those of its own.
pub fn explain(error: &SourceError) -> String {
    match error {
        SourceError::Permanent(Permanent::NotPublic(host)) => format!(
            "not allowed: {host} has no public address, and `sources.allow_private_addresses` is not set"
        ),
        other => other.to_string(),
    }
}

/// What the configuration has by default.
impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            names: NameRules::default(),
            addresses: AddressPolicy::Public,
            extra_roots_pem: Vec::new(),
            files_root: None,
            recordings: Vec::new(),
            pulls_max: 100,
            on_demand_max: 50,
            on_demand_timeout: Duration::from_secs(8),
            on_demand_linger: Duration::from_secs(10),
            channels_max: 100,
            redirects_max: 5,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
            retry_min: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
            file_bytes_max: None,
            message_bytes_max: 8 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_at_once_and_names_later() {
        let public = SourceSettings { addresses: AddressPolicy::Public, ..SourceSettings::default() };
        let any = SourceSettings { addresses: AddressPolicy::Any, ..public.clone() };
        let cases = [
            ("127.0.0.1", false),
            ("[::1]", false),
            ("::ffff:10.0.0.1", false),
            ("[::ffff:7f00:1]", false),
            ("localhost", true), // a name, whatever it resolves to
            ("8.8.8.8", true),
            ("[2a00:1450::1]", true),
        ];
        for (host, allowed) in cases {
            assert_eq!(public.check_host(host).is_ok(), allowed, "{host}");
            assert!(any.check_host(host).is_ok(), "{host}");
        }
    }
}
