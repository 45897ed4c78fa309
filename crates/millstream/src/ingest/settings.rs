//! What sources of this server may do: which addresses they reach, how long they wait, how many there are.

use std::path::PathBuf;
use std::time::Duration;

use range_reader::http::address::AddressPolicy;

/// Settings of channels and pulls, the same for all.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Addresses that may be connected to.
    pub addresses: AddressPolicy,
    /// Certificates in PEM that are trusted besides the system's.
    pub extra_roots_pem: Vec<u8>,
    /// Directory below which files named through the API must be; `None` allows none of them.
    pub files_root: Option<PathBuf>,
    /// Pulls at a time, those of the configuration included.
    pub pulls_max: usize,
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
