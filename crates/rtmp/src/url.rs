//! `rtmp://host:port/app/stream?query`, as encoders and players write it.

use std::fmt;
use std::str::FromStr;

use super::name::{NAME_BYTES_MAX, is_valid_query};

/// Where to publish to or play from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtmpUrl {
    /// `rtmps`: TLS below RTMP.
    pub tls: bool,
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port; 1935 for `rtmp` and 443 for `rtmps` when the URL names none.
    pub port: u16,
    /// Application: the path up to its last `/`.
    pub app: String,
    /// Stream name with its `?query`, if any.
    pub stream: String,
}

/// Why a text is not an RTMP URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlError {
    /// It does not begin with `rtmp://` or `rtmps://`.
    Scheme,
    /// There is no host, or the port is not a number from 1 to 65535.
    Authority,
    /// The path is not `app/stream`, or has an empty part, `.`, `..` or a control character.
    Path,
}

impl FromStr for RtmpUrl {
    type Err = UrlError;

    /// The last `/` of the path divides app and stream, as in ffmpeg for one-part and OBS for any app.
    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (tls, rest) = if let Some(rest) = text.strip_prefix("rtmp://") {
            (false, rest)
        } else {
            (true, text.strip_prefix("rtmps://").ok_or(UrlError::Scheme)?)
        };
        let (authority, path) = rest.split_once('/').ok_or(UrlError::Path)?;
        let (host, port) = split_authority(authority, if tls { 443 } else { 1935 })?;
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let (app, stream) = path.rsplit_once('/').ok_or(UrlError::Path)?;
        if !is_name_elsewhere(app) || !is_name_elsewhere(stream) || !query.is_none_or(is_valid_query) {
            return Err(UrlError::Path);
        }
        let stream = query.map_or_else(|| stream.to_owned(), |query| format!("{stream}?{query}"));
        Ok(Self { tls, host: host.to_owned(), port, app: app.to_owned(), stream })
    }
}

impl RtmpUrl {
    /// The `tcUrl` of the connect command: this URL without the stream.
    pub fn tc_url(&self) -> String {
        let scheme = if self.tls { "rtmps" } else { "rtmp" };
        match self.host.contains(':') {
            true => format!("{scheme}://[{}]:{}/{}", self.host, self.port, self.app),
            false => format!("{scheme}://{}:{}/{}", self.host, self.port, self.app),
        }
    }
}

impl fmt::Display for RtmpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tc_url(), self.stream)
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the URL does not begin with rtmp:// or rtmps://",
            Self::Authority => "the URL has no host, or its port is not 1 to 65535",
            Self::Path => "the URL's path is not /app/stream",
        })
    }
}

impl std::error::Error for UrlError {}

fn split_authority(text: &str, default_port: u16) -> Result<(&str, u16), UrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, port)| (host, port.strip_prefix(':'))),
        None => Some(text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))),
    }
    .ok_or(UrlError::Authority)?;
    let port = port.map_or(Ok(default_port), |port| port.parse().map_err(|_| UrlError::Authority))?;
    if host.is_empty() || port == 0 { Err(UrlError::Authority) } else { Ok((host, port)) }
}

/// Whether another server could have such a name: it may accept more than this one
/// ([`NameRules`](super::name::NameRules)).
fn is_name_elsewhere(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || matches!(c, '\u{fffd}' | '#' | '\\');
    name.len() <= NAME_BYTES_MAX
        && !name.contains(is_bad)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_put_together() {
        for (text, tls, host, port, app, stream) in [
            ("rtmp://localhost:1935/live/clock", false, "localhost", 1935, "live", "clock"),
            ("rtmps://[::1]:8443/a/b/c?token=/x", true, "::1", 8443, "a/b", "c?token=/x"),
            ("rtmp://h:1935/a%20b/$c", false, "h", 1935, "a%20b", "$c"), // names of another server
        ] {
            let url: RtmpUrl = text.parse().unwrap();
            assert_eq!(
                (url.tls, &*url.host, url.port, &*url.app, &*url.stream),
                (tls, host, port, app, stream)
            );
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("rtmp://h/a/b".parse::<RtmpUrl>().unwrap().port, 1935);
        assert_eq!("rtmps://h/a/b".parse::<RtmpUrl>().unwrap().port, 443);
        for (text, error) in [
            ("http://h/a/b", UrlError::Scheme),
            ("rtmp://h", UrlError::Path),
            ("rtmp://h/a", UrlError::Path),
            ("rtmp://h/a/", UrlError::Path),
            ("rtmp://h/../b", UrlError::Path),
            ("rtmp:///a/b", UrlError::Authority),
            ("rtmp://h:x/a/b", UrlError::Authority),
            ("rtmp://h:0/a/b", UrlError::Authority),
            ("rtmp://[::1/a/b", UrlError::Authority),
        ] {
            assert_eq!(text.parse::<RtmpUrl>(), Err(error), "{text}");
        }
    }
}
