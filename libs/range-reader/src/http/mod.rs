//! HTTP as a source: connections, TLS, redirects, proxies, and servers that lie.
//!
//! HTTP/1.1 and HTTP/2 are hyper's; the sockets are opened here, so that the kernel can be asked
//! about them.

pub mod address;
mod body;
pub mod client;
pub mod connect;
mod connection;
pub mod content_range;
mod date;
mod dial;
mod link;
pub mod multipart;
mod pool;
mod proxy;
mod redirect;
mod request;
mod response;
mod response_body;
mod shared;
mod source;
mod stall_timer;
mod tcp_info;
pub mod tls;
mod validator;

use std::fmt;
use std::time::Duration;

pub use ::http::{HeaderMap, HeaderName, HeaderValue};
use address::AddressPolicy;
pub use body::HttpBody;
pub use client::{Client, ClientCounts, HttpResponse, ResponseBody};
pub use proxy::Proxy;
pub use source::HttpSource;

use crate::error::SourceError;

/// How a server is reached.
#[derive(Clone)]
pub struct HttpConfig {
    /// Addresses that may be connected to, checked after names are resolved and at each redirect.
    /// Default: public ones.
    pub addresses: AddressPolicy,
    /// Header fields of each request, such as `authorization` or `user-agent`. Credentials are not
    /// sent to other hosts after a redirect.
    pub headers: HeaderMap,
    /// Redirects followed in a row. Default 5.
    pub redirects_max: usize,
    /// Time to open a connection: name, TCP, proxy, TLS. Default 10 s.
    pub connect_timeout: Duration,
    /// Time from a request to the head of its response. Default 20 s.
    pub head_timeout: Duration,
    /// Time without any byte of a body that is waited for. Default 20 s.
    pub idle_timeout: Duration,
    /// Least bytes a second while a body is waited for, averaged over `idle_timeout`. Default 100:
    /// slower is given up.
    pub bytes_per_second_min: u64,
    /// Maximum HTTP/1.1 connections. Default 4: while some deliver, another can fetch what comes
    /// next or was missed. One is opened only where that saves time; with hints that the server
    /// answers in one piece, one is enough.
    pub connections_max: usize,
    /// HTTP/2 over TLS when the server offers it. Default true.
    pub http2: bool,
    /// HTTP/2 without TLS and without asking (RFC 9113, 3.3), for servers that are known to speak
    /// it. Default false.
    pub http2_prior_knowledge: bool,
    /// Follow redirects from `https` to `http`. Default false.
    pub allow_downgrade: bool,
    /// Proxies. They resolve names, so that `addresses` can judge only hosts that are addresses.
    /// Default none; [`Proxy::from_environment`] reads the usual variables.
    pub proxy: Option<Proxy>,
    /// Certificates in PEM that are trusted besides the system's.
    pub extra_roots_pem: Vec<u8>,
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of the header fields their names: values may be credentials.
        f.debug_struct("HttpConfig")
            .field("addresses", &self.addresses)
            .field("headers", &self.headers.keys())
            .field("redirects_max", &self.redirects_max)
            .field("connections_max", &self.connections_max)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            addresses: AddressPolicy::Public,
            headers: HeaderMap::new(),
            redirects_max: 5,
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(20),
            bytes_per_second_min: 100,
            connections_max: 4,
            http2: true,
            http2_prior_knowledge: false,
            allow_downgrade: false,
            proxy: None,
            extra_roots_pem: Vec::new(),
        }
    }
}

impl SourceError {
    /// Worth another try.
    pub(crate) fn transient(reason: impl Into<String>) -> Self {
        Self::Transient { reason: reason.into(), retry_after: None }
    }
}
