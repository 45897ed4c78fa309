//! Which server `millstream top` watches: the address given, and the path of the statistics there.
//!
//! Only parses text. Names are resolved and connections made in `client.rs`.

use tungstenite::http::Uri;
use tungstenite::http::uri::InvalidUri;

/// HTTP port of a server that was named without scheme and port: the server's own default.
const DEFAULT_PORT: u16 = 8080;
/// Path of the statistics, below the base URL.
const STREAM_PATH: &str = "/api/v1/stats/stream";

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// Name or address, IPv6 addresses without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// `HOST:PORT` as URLs have it, without the port if the URL had none.
    authority: String,
    /// Path of the base URL, without the slash at its end; empty unless a proxy adds one.
    prefix: String,
}

impl Target {
    /// Reads a base URL: `http://HOST[:PORT][/PATH]`, the same with `https`, or `HOST[:PORT]`
    /// alone, which means `http` and port 8080.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let complete = if text.contains("://") { text.to_owned() } else { bare(text) };
        let fail = |why: &str| format!("`{text}` is not the URL of a server: {why}");
        let uri: Uri = complete.parse().map_err(|error: InvalidUri| fail(&error.to_string()))?;
        let tls = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(fail("it begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| fail("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(fail("a token is given by --token or its environment variable"));
        }
        if uri.query().is_some() {
            return Err(fail("a query has no meaning here"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(fail("the host is missing"));
        }
        if authority.as_str() != authority.host() && authority.port_u16().is_none() {
            return Err(fail("the port is not a number below 65536"));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, authority: authority.as_str().to_owned(), prefix })
    }

    /// Value of the header `Host`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What a request for `path` of the server asks for.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// URL of the WebSocket.
    pub(crate) fn stream_url(&self) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        format!("{scheme}://{}{}{STREAM_PATH}", self.authority, self.prefix)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// The URL that `HOST[:PORT][/PATH]` stands for.
fn bare(text: &str) -> String {
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    // The colons of an IPv6 address are inside its brackets.
    let has_port = authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    let port = if has_port { String::new() } else { format!(":{DEFAULT_PORT}") };
    format!("http://{authority}{port}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_host_port_and_where_the_statistics_are() {
        let cases = [
            ("localhost", false, "localhost", 8080, "ws://localhost:8080/api/v1/stats/stream"),
            ("localhost:81", false, "localhost", 81, "ws://localhost:81/api/v1/stats/stream"),
            ("[::1]", false, "::1", 8080, "ws://[::1]:8080/api/v1/stats/stream"),
            ("[::1]:9/mill/", false, "::1", 9, "ws://[::1]:9/mill/api/v1/stats/stream"), // behind a proxy
            ("http://example.org/", false, "example.org", 80, "ws://example.org/api/v1/stats/stream"),
            ("https://example.org", true, "example.org", 443, "wss://example.org/api/v1/stats/stream"),
            (
                "wss://example.org:8443",
                true,
                "example.org",
                8443,
                "wss://example.org:8443/api/v1/stats/stream",
            ),
        ];
        for (text, tls, host, port, url) in cases {
            let target = Target::parse(text).expect(text);
            assert_eq!((target.tls, target.host.as_str(), target.port), (tls, host, port), "{text}");
            assert_eq!(target.stream_url(), url, "{text}");
        }
        let shown = Target::parse("https://example.org/a/").expect("valid").to_string();
        assert_eq!(shown, "https://example.org/a");
    }

    #[test]
    fn what_is_not_a_server_is_refused_with_the_reason() {
        let cases = [
            ("", "host"),
            ("ftp://example.org", "http://"),
            ("http://", "not the URL"),
            ("http://secret@example.org", "--token"),
            ("http://example.org/?token=x", "query"),
            ("http://example.org:70000", "port"),
            ("http://exa mple.org", "not the URL"),
        ];
        for (text, expected) in cases {
            let error = Target::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
