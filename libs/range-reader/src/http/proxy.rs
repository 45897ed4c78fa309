//! HTTP proxies: which one is used, and tunnels through it.
//!
//! `http` URLs are asked of the proxy by their whole (RFC 9112, 3.2.2), `https` URLs go through a
//! tunnel that `CONNECT` opens (RFC 9110, 9.3.6). With a proxy it is the proxy that resolves names,
//! so the address policy can judge only hosts that are addresses already, and `localhost`; the
//! proxy itself is the configuration's and is not judged.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use http::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Url;

use super::address::AddressPolicy;
use super::pool::Origin;
use super::redirect;
use crate::error::{Permanent, SourceError};

/// Longest head of a response to `CONNECT`, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Header fields in it.
const HEAD_FIELDS_MAX: usize = 64;

/// An HTTP proxy.
#[derive(Clone, Default)]
pub struct Proxy {
    /// Proxy for each scheme, `http` or `https`, such as `http://user:password@host:port`; `all`
    /// for the other one. The scheme of a proxy is `http`, or `https` if it is spoken to over TLS.
    pub by_scheme: HashMap<String, Url>,
    /// Hosts and domains that are reached directly: `host`, `domain` with all below it (a dot in
    /// front changes nothing), an address, a block of addresses as `10.0.0.0/8`, each with `:port`
    /// or without; `*` for all.
    pub except: Vec<String>,
}

impl Proxy {
    /// What the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` say, in capital
    /// letters too; `None` if they name no proxy.
    ///
    /// `HTTP_PROXY` in capital letters is not read: where programs run as CGI, a request can set
    /// it.
    ///
    /// # Errors
    /// [`Permanent::Setup`] if a proxy is no URL of `http` or `https`: going around it might be
    /// worse than failing.
    pub fn from_environment() -> Result<Option<Self>, SourceError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, SourceError> {
        let first = |names: &[&str]| {
            names
                .iter()
                .filter_map(|name| variable(name))
                .map(|value| value.trim().to_owned())
                .find(|value| !value.is_empty())
        };
        let names: [(&str, &[&str]); 3] = [
            ("http", &["http_proxy"]),
            ("https", &["https_proxy", "HTTPS_PROXY"]),
            ("all", &["all_proxy", "ALL_PROXY"]),
        ];
        let mut proxy = Self::default();
        for (scheme, names) in names {
            if let Some(value) = first(names) {
                proxy.by_scheme.insert(scheme.to_owned(), proxy_url(names[0], &value)?);
            }
        }
        let except = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
        proxy.except =
            except.split([',', ' ']).filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        Ok((!proxy.by_scheme.is_empty()).then_some(proxy))
    }

    /// The proxy for `origin`.
    pub(crate) fn on_the_way_to(&self, origin: &Origin) -> Option<&Url> {
        let scheme = if origin.is_tls { "https" } else { "http" };
        let proxy = self.by_scheme.get(scheme).or_else(|| self.by_scheme.get("all"))?;
        let is_excepted = self.except.iter().any(|entry| matches(entry, origin));
        (!is_excepted).then_some(proxy)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the passwords.
        let proxies = self.by_scheme.iter().map(|(scheme, proxy)| (scheme, redirect::authority(proxy)));
        f.debug_map().entries(proxies).entry(&"except", &self.except).finish()
    }
}

/// Refuses what can be reported of a host without resolving it.
pub(crate) fn check_host(host: &str, policy: AddressPolicy) -> Result<(), SourceError> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_allowed = match address_of(host) {
        Some(address) => policy.allows(address),
        None => policy == AddressPolicy::Any || (name != "localhost" && !name.ends_with(".localhost")),
    };
    if is_allowed {
        return Ok(());
    }
    Err(SourceError::Permanent(Permanent::NotPublic(host.to_owned())))
}

/// Opens a tunnel to `origin` over a connection to a proxy.
///
/// # Errors
/// What the proxy says if it refuses; [`SourceError::Transient`] if that may pass.
pub(crate) async fn tunnel(
    proxy: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: Option<&HeaderValue>,
    origin: &Origin,
) -> Result<(), SourceError> {
    let target = format!("{}:{}", origin.host, origin.port);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(credentials) = credentials {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(credentials.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let broken = |error: std::io::Error| SourceError::transient(format!("the proxy breaks off: {error}"));
    proxy.write_all(&request).await.map_err(broken)?;
    proxy.flush().await.map_err(broken)?;
    let mut head = Vec::new();
    loop {
        if proxy.read_buf(&mut head).await.map_err(broken)? == 0 {
            return Err(SourceError::transient("the proxy closes the connection"));
        }
        match read_answer(&head)? {
            Some(status) => return judge(status),
            None if head.len() >= HEAD_BYTES_MAX => {
                return Err(setup("the proxy's answer is too long".to_owned()));
            }
            None => {}
        }
    }
}

/// The status of a whole head; `None` if more of it has to come.
fn read_answer(head: &[u8]) -> Result<Option<u16>, SourceError> {
    let mut fields = [httparse::EMPTY_HEADER; HEAD_FIELDS_MAX];
    let mut answer = httparse::Response::new(&mut fields);
    match answer.parse(head) {
        Ok(httparse::Status::Partial) => Ok(None),
        // In a tunnel the other side waits for this one to begin.
        Ok(httparse::Status::Complete(length)) if length < head.len() && answer.code == Some(200) => {
            Err(setup("something speaks in the proxy's tunnel before it was spoken to".to_owned()))
        }
        Ok(httparse::Status::Complete(_)) => Ok(answer.code),
        Err(error) => Err(setup(format!("the proxy's answer is no HTTP: {error}"))),
    }
}

fn judge(status: u16) -> Result<(), SourceError> {
    match status {
        200..=299 => Ok(()),
        407 => Err(setup("the proxy asks for credentials (407)".to_owned())),
        408 | 429 | 500..=599 => Err(SourceError::transient(format!("the proxy answers {status}"))),
        _ => Err(setup(format!("the proxy answers {status}"))),
    }
}

fn proxy_url(name: &str, value: &str) -> Result<Url, SourceError> {
    let with_scheme = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    match Url::parse(&with_scheme) {
        // Without the value: it may hold a password.
        Ok(url) => redirect::checked(&url)
            .map_err(|_| setup(format!("{name}: only http and https proxies are supported"))),
        Err(error) => Err(setup(format!("{name}: {error}"))),
    }
}

/// Whether an entry of the exceptions means `origin`.
fn matches(entry: &str, origin: &Origin) -> bool {
    if entry == "*" {
        return true;
    }
    let (entry, port) = split_port(entry);
    if port.is_some_and(|port| port != origin.port) {
        return false;
    }
    match address_of(&origin.host) {
        Some(address) => address_of(entry) == Some(address) || block_holds(entry, address),
        None => {
            let domain = entry.trim_start_matches('.').trim_end_matches('.').to_ascii_lowercase();
            let host = origin.host.trim_end_matches('.').to_ascii_lowercase();
            !domain.is_empty()
                && host.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
    }
}

/// `host:port`; an IPv6 address has a port only behind brackets.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn address_of(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn block_holds(block: &str, address: IpAddr) -> bool {
    let Some((prefix, length)) = block.split_once('/') else { return false };
    let (Some(prefix), Ok(length)) = (address_of(prefix), length.parse::<u32>()) else { return false };
    match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) if length <= 32 => {
            (prefix.to_bits() ^ address.to_bits()).leading_zeros() >= length
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) if length <= 128 => {
            (prefix.to_bits() ^ address.to_bits()).leading_zeros() >= length
        }
        _ => false,
    }
}

fn setup(reason: String) -> SourceError {
    SourceError::Permanent(Permanent::Setup(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Origin::of(&url.parse().unwrap()).unwrap()
    }

    fn from(variables: &[(&str, &str)]) -> Result<Option<Proxy>, SourceError> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Proxy::from_variables(|name| variables.get(name).map(|&value| value.to_owned()))
    }

    #[test]
    fn variables_name_a_proxy_for_each_scheme() {
        assert!(from(&[]).unwrap().is_none());
        assert!(from(&[("no_proxy", "*"), ("http_proxy", " ")]).unwrap().is_none());
        assert!(from(&[("HTTP_PROXY", "http://evil")]).unwrap().is_none());
        let both =
            from(&[("https_proxy", "http://a:1"), ("HTTPS_PROXY", "http://b:2"), ("ALL_PROXY", "c:3")]);
        let both = both.unwrap().unwrap();
        let to = |url: &str| both.on_the_way_to(&origin(url)).map(Url::as_str);
        assert_eq!(to("https://example.com/"), Some("http://a:1/"));
        assert_eq!(to("http://example.com/"), Some("http://c:3/"));
        for unsupported in ["socks5://a:1", "http://", "://"] {
            let error = from(&[("all_proxy", unsupported)]).unwrap_err();
            assert!(matches!(error, SourceError::Permanent(Permanent::Setup(_))), "{unsupported}: {error}");
        }
    }

    #[test]
    fn what_is_printed_of_a_proxy_has_no_password() {
        let proxy = from(&[("all_proxy", "http://user:secret@host:1")]).unwrap().unwrap();
        assert_eq!(format!("{proxy:?}"), r#"{"all": "host:1", "except": []}"#);
        let error = from(&[("all_proxy", "http://user:secret@host:99999")]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let cases = [
            ("*", "http://example.com/", true),
            ("example.com", "http://example.com/", true),
            ("example.com", "http://a.b.example.com/", true),
            (".example.com", "http://example.com/", true),
            ("EXAMPLE.com", "http://Example.COM./", true),
            ("example.com", "http://badexample.com/", false),
            ("a.example.com", "http://example.com/", false),
            ("example.com:8080", "http://example.com/", false),
            ("example.com:80", "http://example.com/", true),
            ("127.0.0.1", "http://127.0.0.1/", true),
            ("127.0.0.1", "http://0x7f.1/", true), // the same address
            ("0.0.1", "http://127.0.0.1/", false), // no domain of an address
            ("10.0.0.0/8", "http://10.200.0.1/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("10.0.0.0/33", "http://10.0.0.0/", false),
            ("0.0.0.0/0", "http://10.0.0.0/", true),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("fd00::/8", "http://10.0.0.1/", false),
            ("[::1]:80", "http://[::1]/", true),
            ("::1", "http://[::1]/", true),
            ("[::1]:81", "http://[::1]/", false),
            ("", "http://example.com/", false),
            (".", "http://example.com/", false),
        ];
        for (entry, url, expected) in cases {
            assert_eq!(matches(entry, &origin(url)), expected, "{entry:?} {url}");
        }
    }

    #[test]
    fn a_host_behind_a_proxy_is_judged_by_what_can_be_seen() {
        for (host, expected) in [
            ("example.com", true),
            ("localhost", false),
            ("LOCALHOST.", false),
            ("a.localhost", false),
            ("127.0.0.1", false),
            ("[::ffff:10.0.0.1]", false),
            ("[2606:4700::1111]", true),
        ] {
            assert_eq!(check_host(host, AddressPolicy::Public).is_ok(), expected, "{host}");
            assert!(check_host(host, AddressPolicy::Any).is_ok());
        }
    }
}
