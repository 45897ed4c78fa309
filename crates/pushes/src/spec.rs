//! Which streams are pushed, and where to: a pattern and a URL with places for names, checked once.
//!
//! URLs come from the configuration or from whoever may use the API. What lets in is used and never
//! shown: user name, password and query, and the last part of a path too, which with RTMP is the key
//! of the stream, unless it is a name that is known anyway.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use range_reader::http::address::AddressPolicy;
use rtmp::RtmpUrl;
use sources::pull::{RtspUrl, SrtUrl};
use sources::settings::{AddedBy, SourceSettings};
use sources::template::Template;
use sources::webrtc::{Endpoint, Use};
use worker_api::pattern::Pattern;

/// Longest URL.
const URL_BYTES_MAX: usize = 2048;
/// Longest reason that is shown.
const REASON_CHARS_MAX: usize = 400;
/// Shortest text that is taken for a secret where others repeat it.
const SECRET_BYTES_MIN: usize = 4;

/// One rule: streams and their target.
#[derive(Clone, PartialEq, Eq)]
pub struct PushSpec {
    /// Streams that are pushed, as a pattern of `app/name`.
    pub stream: Pattern,
    /// The URL.
    url: String,
    /// The same, if it has `{app}` or `{stream}`.
    template: Option<Template>,
    /// The same without secrets.
    shown: String,
    /// The bearer token of WHIP.
    token: Option<String>,
}

/// Where one stream goes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum TargetUrl {
    Rtmp(RtmpUrl),
    Rtsp(RtspUrl),
    Srt(SrtUrl),
    Udp(UdpTarget),
    Whip(Endpoint),
}

/// `udp://address:port?rtp=1&ttl=..&interface=..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UdpTarget {
    pub(crate) address: SocketAddr,
    /// Each datagram is a packet of RTP (RFC 2250 section 2).
    pub(crate) is_rtp: bool,
    /// Routers that multicast datagrams may pass.
    pub(crate) ttl: u8,
    /// The address of the interface that multicast leaves by.
    pub(crate) interface: Option<Ipv4Addr>,
}

impl PushSpec {
    /// A push of the streams that match `stream` to `url`. The error is a sentence without what may be
    /// secret.
    pub fn new(stream: &str, url: &str) -> Result<Self, String> {
        if stream.is_empty() {
            return Err("needs a `stream`, such as \"live/cam\" or \"live/*\"".to_owned());
        }
        if !stream.contains(['/', '*']) {
            return Err("`stream` names no application: write it as \"live/cam\"".to_owned());
        }
        if url.len() > URL_BYTES_MAX {
            return Err(format!("takes a URL of at most {URL_BYTES_MAX} bytes"));
        }
        let template = Template::parse(url)?;
        if stream.contains('*') && !url.contains("{stream}") {
            let reason = match url.starts_with("udp://") {
                true => "goes to one address: its `stream` has to name one stream, without `*`",
                false => "needs `{stream}` in its `url`: streams of a pattern cannot share a target",
            };
            return Err(reason.to_owned());
        }
        let (url, shown) = (url.to_owned(), shown(url, stream));
        let spec = Self { stream: Pattern::new(stream), url, template, shown, token: None };
        spec.target("app", "stream")?;
        Ok(spec)
    }

    /// The same, with a bearer token, which is for WHIP. The error is a sentence without it.
    pub fn with_token(mut self, token: Option<&str>) -> Result<Self, String> {
        self.token = token.map(str::to_owned);
        self.target("app", "stream")?;
        Ok(self)
    }

    /// Whether its target may be reached, as far as that can be said now. The error is a sentence.
    pub fn check(&self, added_by: AddedBy, settings: &SourceSettings) -> Result<(), String> {
        match self.target("app", "stream")? {
            TargetUrl::Rtmp(url) => settings.check_host(&url.host),
            TargetUrl::Rtsp(url) => settings.check_host(&url.host),
            TargetUrl::Srt(url) => settings.check_host(&url.host),
            TargetUrl::Whip(endpoint) => settings.check_host(endpoint.host()),
            // No peer agrees to what it gets: whoever uses the API would send datagrams anywhere.
            TargetUrl::Udp(_) if added_by == AddedBy::Api && settings.addresses != AddressPolicy::Any => {
                Err("udp:// is for the configuration, as `sources.allow_private_addresses` is not set"
                    .to_owned())
            }
            TargetUrl::Udp(_) => Ok(()),
        }
    }

    /// Where a stream goes.
    pub(crate) fn target(&self, app: &str, name: &str) -> Result<TargetUrl, String> {
        match (TargetUrl::parse(&self.url_for(app, name))?, &self.token) {
            (TargetUrl::Whip(endpoint), token) => endpoint.with_token(token.as_deref()).map(TargetUrl::Whip),
            (_, Some(_)) => Err("cannot use its `token`: that is for whip:// and whips://".to_owned()),
            (TargetUrl::Srt(url), None) if self.template.is_some() => {
                url.check_names(app, name)?;
                Ok(TargetUrl::Srt(url))
            }
            (other, None) => Ok(other),
        }
    }

    fn url_for(&self, app: &str, name: &str) -> String {
        self.template.as_ref().map_or_else(|| self.url.clone(), |template| template.fill(app, name))
    }

    /// Where a stream goes, for people.
    pub(crate) fn shown_for(&self, app: &str, name: &str) -> String {
        self.shown.replace("{app}", app).replace("{stream}", name)
    }

    /// What others said, without the secrets of the URL in it, and cut: not before those are gone, or a
    /// part of one may stay.
    pub(crate) fn hide(&self, app: &str, name: &str, text: &str) -> String {
        let url = self.url_for(app, name);
        let Split { user, path, query, .. } = split(&url);
        let last = path.rsplit('/').next().unwrap_or_default();
        let known = self.shown_for(app, name);
        let values = query.split('&').map(|field| field.split_once('=').map_or(field, |(_, value)| value));
        let token = self.token.as_deref();
        let parts = user.split(':').chain([user, query, last]).chain(values).chain(token);
        let mut secrets: Vec<&str> =
            parts.filter(|part| part.len() >= SECRET_BYTES_MIN && !known.contains(part)).collect();
        // A secret that contains another goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let hidden = secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "..."));
        hidden.chars().take(REASON_CHARS_MAX).collect()
    }
}

impl TargetUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        match scheme.as_str() {
            "rtmp" | "rtmps" if !split(text).user.is_empty() => Err(
                "cannot use its URL: RTMP has no user name and password; a token belongs behind the name of the \
                 stream, such as `?token=...`"
                    .to_owned(),
            ),
            "rtmp" | "rtmps" => {
                text.parse().map(Self::Rtmp).map_err(|error| format!("cannot use its URL: {error}"))
            }
            "rtsp" | "rtsps" => RtspUrl::parse(text).map(Self::Rtsp),
            "srt" => {
                let url = SrtUrl::parse(text)?;
                match url.program {
                    Some(_) => Err("cannot use its URL: `program` is for pulls".to_owned()),
                    None => Ok(Self::Srt(url)),
                }
            }
            "udp" => UdpTarget::parse(text).map(Self::Udp),
            "whip" | "whips" => Endpoint::parse(text, Use::Publish).map(Self::Whip),
            "http" | "https" => Err(
                "cannot use its URL: for WHIP, write whip:// in place of http://, and whips:// in place of \
                 https://"
                    .to_owned(),
            ),
            "" if text.is_empty() => {
                Err("needs a `url`, such as \"rtmp://backup.example/{app}/{stream}\"".to_owned())
            }
            "" => Err("cannot use its URL: it has no scheme, such as \"rtmp://\" or \"srt://\"".to_owned()),
            other => Err(format!(
                "cannot use a URL of scheme `{other}`: it takes rtmp, rtmps, rtsp, rtsps, srt, whip, \
                 whips and udp"
            )),
        }
    }

    /// `app/name` at the target, where the URL says it.
    pub(crate) fn stream(&self) -> Option<String> {
        match self {
            Self::Rtmp(url) => {
                let name = url.stream.split('?').next().unwrap_or_default();
                Some(format!("{}/{name}", url.app))
            }
            Self::Rtsp(url) => Some(url.path()),
            Self::Srt(url) => srt::StreamId::parse(&url.stream_id).ok().map(|id| id.resource.to_owned()),
            Self::Udp(_) => None,
            Self::Whip(endpoint) => endpoint.stream(),
        }
    }

    /// Whether the target needs to know the tracks of a stream before it takes the first frame.
    pub(crate) fn needs_tracks(&self) -> bool {
        matches!(self, Self::Rtsp(_) | Self::Whip(_))
    }
}

impl UdpTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let rest = text.get("udp://".len()..).unwrap_or_default();
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address: SocketAddr = authority.trim_end_matches('/').parse().map_err(|_| {
            "cannot use its URL: `udp://` takes an address and a port, such as \"udp://239.0.0.1:5000\""
                .to_owned()
        })?;
        if address.port() == 0 {
            return Err("cannot use its URL: `udp://` needs a port".to_owned());
        }
        if address.ip().is_unspecified() {
            return Err("cannot use its URL: `udp://` needs the address of a receiver".to_owned());
        }
        // One: the network of this host, as the system has it for multicast.
        let mut target = Self { address, is_rtp: false, ttl: 1, interface: None };
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let is_taken = match name {
                "rtp" => {
                    target.is_rtp = value == "1";
                    matches!(value, "0" | "1")
                }
                "ttl" => {
                    let ttl = value.parse().ok().filter(|ttl| *ttl > 0);
                    target.ttl = ttl.unwrap_or(1);
                    ttl.is_some()
                }
                "interface" => {
                    target.interface = value.parse().ok().filter(|_| address.is_ipv4());
                    target.interface.is_some()
                }
                other => {
                    return Err(format!(
                        "cannot use its URL: `udp://` has no option `{}`",
                        other.escape_debug()
                    ));
                }
            };
            if !is_taken {
                return Err(format!("cannot use its URL: `{name}` cannot be `{}`", value.escape_debug()));
            }
        }
        Ok(target)
    }
}

/// The parts of a URL, none of them decoded.
struct Split<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// User name and password.
    user: &'a str,
    path: &'a str,
    query: &'a str,
}

fn split(url: &str) -> Split<'_> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let (path, query) = match behind.find(['?', '#']) {
        Some(at) => (&behind[..at], &behind[at + 1..]),
        None => (behind, ""),
    };
    Split { scheme, authority, user, path, query }
}

fn shown(url: &str, pattern: &str) -> String {
    let Split { scheme, authority, path, query, .. } = split(url);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let udp = scheme.eq_ignore_ascii_case("udp");
    let hidden = match query {
        "" => String::new(),
        query if udp => format!("?{query}"),
        _ => "?...".to_owned(),
    };
    let path = match path.rsplit_once('/') {
        Some((before, last)) => {
            let is_known = last.is_empty()
                || last == "{stream}"
                || pattern.rsplit('/').next().is_some_and(|name| name == last);
            format!("{before}/{}", if is_known { last } else { "..." })
        }
        None => String::new(),
    };
    format!("{scheme}://{host}{path}{hidden}")
}

/// Whether `address` is one of this server: what connects to itself has one address at both ends.
pub(crate) fn is_this_server(local: IpAddr, peer: SocketAddr, ports: &[u16]) -> bool {
    local.to_canonical() == peer.ip().to_canonical() && ports.contains(&peer.port())
}

/// For people: without secrets.
impl fmt::Display for PushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.stream.as_str(), self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(stream: &str, url: &str) -> PushSpec {
        PushSpec::new(stream, url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn urls_are_shown_without_what_lets_in() {
        let cases = [
            ("rtmp://h/{app}/{stream}?key=secret", "rtmp://h/live/cam?..."),
            ("rtmps://h:443/live2/secret-key", "rtmps://h:443/live2/..."),
            ("rtmp://h/live/cam", "rtmp://h/live/cam"),
            ("rtmp://h/x/secret-{stream}", "rtmp://h/x/..."),
            ("srt://h:9000?streamid=publish:{app}/{stream}&passphrase=secret secret", "srt://h:9000?..."),
            ("srt://h:9000?streamid=#!::r=secret,m=publish", "srt://h:9000?..."),
            ("rtsp://me:secret@h/{app}/{stream}?transport=udp", "rtsp://h/live/cam?..."),
            ("udp://239.0.0.1:5000?ttl=4&rtp=1", "udp://239.0.0.1:5000?ttl=4&rtp=1"),
        ];
        for (url, shown) in cases {
            let spec = push("live/cam", url);
            assert_eq!(spec.shown_for("live", "cam"), shown);
            assert!(!format!("{spec:?} {spec}").contains("secret"), "{spec:?}");
        }
    }

    #[test]
    fn what_a_target_repeats_of_a_secret_is_hidden() {
        let spec = push("live/*", "rtmp://h/{app}/{stream}?key=hidden-one");
        let said = "live/cam?key=hidden-one is taken; hidden-one";
        assert_eq!(spec.hide("live", "cam", said), "live/cam?... is taken; ...");
        let spec = push("live/cam", "rtmp://h/live2/abcd-efgh");
        assert_eq!(spec.hide("live", "cam", "no such key abcd-efgh"), "no such key ...");
        // Where what is too long is cut, too.
        for before in REASON_CHARS_MAX - 20..REASON_CHARS_MAX {
            let said = format!("{}abcd-efgh", ".".repeat(before));
            assert!(!spec.hide("live", "cam", &said).contains("ab"), "{before}");
        }
    }

    #[test]
    fn names_of_the_stream_are_put_into_the_url() {
        let spec = push("*", "rtmp://h/copy/{app}/{stream}?key=x");
        assert_eq!(spec.target("a/b", "cam").expect("a target").stream().as_deref(), Some("copy/a/b/cam"));
        let spec = push("live/*", "srt://h:9000?streamid=publish:{app}/{stream}?token=x");
        assert_eq!(spec.target("live", "cam").expect("a target").stream().as_deref(), Some("live/cam"));
        // What a name would end or add is encoded, and decoded by the target.
        assert_eq!(
            spec.target("live", "a&passphrase=b").expect("a target").stream().as_deref(),
            Some("live/a&passphrase=b")
        );
        let spec = push("live/cam", "udp://239.0.0.1:5000?ttl=7&rtp=1&interface=10.0.0.1");
        let TargetUrl::Udp(target) = spec.target("live", "cam").expect("a target") else { panic!("UDP") };
        assert_eq!((target.ttl, target.is_rtp, target.interface), (7, true, Some([10, 0, 0, 1].into())));
    }

    #[test]
    fn what_cannot_be_pushed_is_refused_with_a_reason() {
        let cases = [
            ("", "rtmp://h/a/b", "needs a `stream`"),
            ("cam", "rtmp://h/a/b", "names no application"),
            ("live/cam", "", "needs a `url`"),
            ("live/cam", "h/a/b?secret", "no scheme"),
            ("live/cam", "https://h/whip?secret", "write whip:// in place of http://"),
            ("live/cam", "rtmp://secret:secret@h/a/b", "no user name"),
            ("live/*", "rtmp://h/a/secret", "needs `{stream}`"),
            ("live/*", "udp://239.0.0.1:5000", "without `*`"),
            ("live/*", "rtmp://{stream}.h/a/{stream}", "in its path and query only"),
            ("live/*", "rtmp://h/{name}/{stream}", "it takes `{app}` and `{stream}`"),
            ("live/cam", "rtsps://me:secret@h/a?transport=udp", "media comes in the connection"),
            ("live/cam", "udp://h:5000", "an address and a port"),
            ("live/cam", "udp://0.0.0.0:5000", "address of a receiver"),
            ("live/cam", "udp://239.0.0.1:5000?ttl=0", "`ttl` cannot be `0`"),
            ("live/cam", "udp://239.0.0.1:5000?pkt_size=1", "no option `pkt_size`"),
            ("live/cam", "srt://h:1?program=1&passphrase=secret secret", "`program` is for pulls"),
        ];
        for (stream, url, expected) in cases {
            let error = PushSpec::new(stream, url).expect_err(url);
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn addresses_are_judged_as_those_of_pulls() {
        let public = SourceSettings::default();
        let any = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
        let local = push("live/cam", "rtmp://127.0.0.1/live/cam");
        assert!(local.check(AddedBy::Configuration, &public).is_err());
        assert!(local.check(AddedBy::Api, &any).is_ok());
        let udp = push("live/cam", "udp://127.0.0.1:5000");
        assert!(udp.check(AddedBy::Configuration, &public).is_ok());
        assert!(udp.check(AddedBy::Api, &public).is_err() && udp.check(AddedBy::Api, &any).is_ok());
    }
}
