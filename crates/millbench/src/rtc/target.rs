//! Where sessions go: the URLs `millbench rtc` takes.

use std::net::SocketAddr;
use std::str::FromStr;

use crate::net::{self, HTTPS_UNSUPPORTED, HttpUrl};

/// How media is asked for or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http://host:port/whip/app/stream`, `.../whep/...`
    Http,
    /// `janus://host:port/MOUNTPOINT`
    Janus {
        /// Number of the mountpoint.
        mountpoint: u64,
    },
    /// `rtp://host:port`
    Rtp,
    /// `rtmp://host:port/app/stream`
    Rtmp,
    /// `floor://host:port`
    Floor,
}

/// A server and what is wanted of it; `{}` stands for the number of the stream, from 1.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    /// How.
    pub scheme: Scheme,
    /// The server, resolved once.
    pub address: SocketAddr,
    /// Host and port as the URL has them.
    pub authority: String,
}

impl Target {
    /// Checks a URL and resolves its host name (blocking).
    ///
    /// # Errors
    /// A text for the user.
    pub fn resolve(url: &str) -> Result<Target, String> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("{url}: {EXPECTED}"))?;
        if scheme == "rtmp" {
            return Target::rtmp(url);
        }
        let http = format!("http://{}", rest.replace("{}", "1"));
        let parsed = HttpUrl::from_str(&http).map_err(|_| format!("{url}: {EXPECTED}"))?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "rtp" => Scheme::Rtp,
            "floor" => Scheme::Floor,
            "janus" => {
                let mountpoint = parsed.path.trim_start_matches('/').parse();
                Scheme::Janus {
                    mountpoint: mountpoint.map_err(|_| format!("{url}: no number of a mountpoint"))?,
                }
            }
            "https" => return Err(format!("{url}: {HTTPS_UNSUPPORTED}")),
            _ => return Err(format!("{url}: {EXPECTED}")),
        };
        let address = net::resolve(&parsed.host, parsed.port)?;
        Ok(Target { url: url.to_owned(), scheme, address, authority: parsed.authority })
    }

    fn rtmp(url: &str) -> Result<Target, String> {
        let target = net::Target::resolve(url, net::Protocols::Rtmp)?;
        let authority = target.address.to_string();
        Ok(Target { url: url.to_owned(), scheme: Scheme::Rtmp, address: target.address, authority })
    }

    /// Whether sessions use streams of their own.
    pub fn has_placeholder(&self) -> bool {
        self.url.contains("{}")
    }

    /// The URL of one stream.
    ///
    /// # Panics
    /// For a scheme other than [`Scheme::Http`].
    pub fn http_url(&self, stream_number: usize) -> HttpUrl {
        let url = self.url.replace("{}", &stream_number.to_string());
        HttpUrl::from_str(&url).expect("it was checked with another number")
    }

    /// The RTMP URL of one stream.
    pub fn rtmp_url(&self, stream_number: usize) -> String {
        self.url.replace("{}", &stream_number.to_string())
    }

    /// The WHIP URL for this WHEP URL.
    ///
    /// # Errors
    /// A text for the user.
    pub fn to_publish(&self) -> Result<Target, String> {
        match (self.scheme, self.url.contains("/whep/")) {
            (Scheme::Http, true) => Target::resolve(&self.url.replacen("/whep/", "/whip/", 1)),
            _ => Err("--publish needs a URL here: --publish=http://... or --publish=rtp://...".to_owned()),
        }
    }
}

const EXPECTED: &str = "expected http://host:port/whip/app/stream, janus://host:port/MOUNTPOINT, rtp://host:port, \
                        rtmp://host:port/app/stream or floor://host:port";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_all_kinds_are_read() {
        let cases = [
            ("http://127.0.0.1:8080/whep/live/a{}", Scheme::Http, "127.0.0.1:8080"),
            ("janus://127.0.0.1:8088/7", Scheme::Janus { mountpoint: 7 }, "127.0.0.1:8088"),
            ("rtp://[::1]:5002", Scheme::Rtp, "[::1]:5002"),
            ("floor://127.0.0.1:5002", Scheme::Floor, "127.0.0.1:5002"),
            ("rtmp://127.0.0.1/live/a{}", Scheme::Rtmp, "127.0.0.1:1935"),
        ];
        for (url, scheme, address) in cases {
            let target = Target::resolve(url).expect(url);
            assert_eq!((target.scheme, target.address.to_string()), (scheme, address.to_owned()));
        }
        let error = Target::resolve("https://127.0.0.1/whep/a/b").map(|_| ());
        assert_eq!(error, Err("https://127.0.0.1/whep/a/b: HTTPS is not supported".to_owned()));
        for wrong in
            ["127.0.0.1", "https://127.0.0.1/whep/a/b", "janus://127.0.0.1/x", "rtp://127.0.0.1:99999"]
        {
            assert!(Target::resolve(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn streams_are_numbered_and_published_where_they_are_played() {
        let target = Target::resolve("http://127.0.0.1:1/whep/live/a{}").expect("a URL");
        assert_eq!(target.http_url(12).path, "/whep/live/a12");
        assert_eq!(target.to_publish().expect("a URL").http_url(3).path, "/whip/live/a3");
        assert!(Target::resolve("janus://127.0.0.1/1").expect("a URL").to_publish().is_err());
    }
}
