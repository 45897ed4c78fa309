//! Addresses of the server as the client that asks can use them.
//!
//! The server does not know under which name it is reached, the client does: the host is taken from
//! the request. For the protocol the request came by, the port is too, because it may have been
//! mapped on the way.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::types::{Endpoints, StreamUrls};
use crate::rtc::PlaybackOptions;
use crate::{Context, Peer};
use worker_api::ListenAddresses;

/// What must be encoded in a path segment (RFC 3986 §3.3), and `%` itself.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// What the server does besides serving streams as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serves {
    /// Streams are cut for HLS and DASH.
    pub segments: bool,
    /// Recordings or files are played on demand.
    pub on_demand: bool,
}

impl Serves {
    pub(super) fn of(context: &Context) -> Self {
        Self { segments: context.segments.is_some(), on_demand: context.vod.is_some() }
    }
}

/// Builds URLs for the sender of one request.
pub(super) struct Urls<'a> {
    addresses: &'a ListenAddresses,
    serves: Serves,
    /// As in `Host`, with its port.
    authority: String,
    /// Without port, IPv6 in brackets.
    host: String,
    tls: bool,
}

impl<'a> Urls<'a> {
    /// For a request to `host` from `peer`. A host that could not be part of a URL is not repeated.
    pub(super) fn new(
        addresses: &'a ListenAddresses,
        serves: Serves,
        host: Option<&str>,
        peer: Peer,
    ) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let usable = host.filter(|host| !host.is_empty() && host.bytes().all(plain));
        let authority = usable.unwrap_or("localhost").to_owned();
        let name = match authority.rfind(']') {
            Some(end) => &authority[..=end],
            None => authority.split(':').next().unwrap_or(&authority),
        };
        Self { addresses, serves, host: name.to_owned(), authority, tls: peer.tls }
    }

    /// Base URLs of all protocols.
    pub(super) fn endpoints(&self) -> Endpoints {
        Endpoints {
            rtmp: self.bases("rtmp"),
            rtmps: self.bases("rtmps"),
            http: self.bases("http"),
            https: self.bases("https"),
            whip: self.rtc_bases("whip"),
            whep: self.rtc_bases("whep"),
            vod: match self.serves.on_demand {
                true => self.web_bases().map(|base| format!("{base}/vod/")).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Bases of HTTP; those of the scheme the request came by are first.
    fn web_bases(&self) -> impl Iterator<Item = String> {
        let schemes = if self.tls { ["https", "http"] } else { ["http", "https"] };
        schemes.into_iter().flat_map(|scheme| self.bases(scheme))
    }

    /// Bases of WHIP or WHEP; none when WebRTC is off.
    fn rtc_bases(&self, protocol: &str) -> Vec<String> {
        if self.addresses.rtc_udp.is_empty() {
            return Vec::new();
        }
        self.web_bases().map(|base| format!("{base}/{protocol}")).collect()
    }

    /// Where to watch `app/name`, which can be played in these options.
    pub(super) fn stream(&self, app: &str, name: &str, options: &PlaybackOptions) -> StreamUrls {
        let segments = |text: &str| {
            text.split('/')
                .map(|part| utf8_percent_encode(part, SEGMENT).to_string())
                .collect::<Vec<_>>()
                .join("/")
        };
        let path = format!("{}/{}", segments(app), segments(name));
        let mut urls = StreamUrls::default();
        if options.packets {
            let whep = self.rtc_bases("whep").into_iter().next();
            urls.whep = whep.map(|base| format!("{base}/{path}")).unwrap_or_default();
        }
        if options.frames {
            // RTMP clients do not decode: the names go as they are, and `?` cannot be in them.
            let rtmp = ["rtmp", "rtmps"].into_iter().find_map(|scheme| self.bases(scheme).into_iter().next());
            let rtmp = rtmp.map(|base| format!("{base}/{app}/{name}"));
            urls.rtmp = rtmp.unwrap_or_default();
            let web = self.web_bases().next();
            let of =
                |ending: &str| web.as_ref().map(|base| format!("{base}/{path}.{ending}")).unwrap_or_default();
            (urls.flv, urls.ts) = (of("flv"), of("ts"));
            urls.ws_flv = urls.flv.replacen("http", "ws", 1);
            if self.serves.segments {
                (urls.hls, urls.dash) = (of("m3u8"), of("mpd"));
            }
        }
        urls
    }

    fn bases(&self, scheme: &str) -> Vec<String> {
        let listening = match scheme {
            "rtmp" => &self.addresses.rtmp,
            "rtmps" => &self.addresses.rtmps,
            "http" => &self.addresses.http,
            _ => &self.addresses.https,
        };
        let came_by_it = scheme == if self.tls { "https" } else { "http" };
        let mut bases: Vec<String> = Vec::new();
        if came_by_it && !listening.is_empty() {
            bases.push(format!("{scheme}://{}", self.authority));
        }
        for address in listening {
            let base = format!("{scheme}://{}:{}", self.host, address.port());
            // With the port of the request mapped or implied, the one above is the one that works.
            let replaced = came_by_it && listening.len() == 1;
            if !replaced && !bases.contains(&base) {
                bases.push(base);
            }
        }
        bases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> ListenAddresses {
        let at = |text: &str| vec![text.parse().expect("an address")];
        ListenAddresses {
            rtmp: at("[::]:1935"),
            http: at("[::]:8080"),
            https: at("[::]:8443"),
            rtc_udp: at("192.0.2.1:8189"),
            ..ListenAddresses::default()
        }
    }

    #[test]
    fn hosts_are_those_of_the_request() {
        let addresses = addresses();
        let cases = [
            (Some("localhost:8080"), false, "rtmp://localhost:1935", "http://localhost:8080"),
            (Some("media.example"), false, "rtmp://media.example:1935", "http://media.example"), // port mapped to 80
            (Some("[::1]:8080"), false, "rtmp://[::1]:1935", "http://[::1]:8080"),
            (Some("media.example:8443"), true, "rtmp://media.example:1935", "http://media.example:8080"),
            (Some("a<script>"), false, "rtmp://localhost:1935", "http://localhost"),
            (None, false, "rtmp://localhost:1935", "http://localhost"),
        ];
        for (host, tls, rtmp, http) in cases {
            let peer = Peer { address: "127.0.0.1:1".parse().expect("an address"), tls };
            let endpoints = Urls::new(&addresses, Serves::default(), host, peer).endpoints();
            assert_eq!((endpoints.rtmp[0].as_str(), endpoints.http[0].as_str()), (rtmp, http), "{host:?}");
            assert!(endpoints.rtmps.is_empty());
        }
    }

    #[test]
    fn names_are_encoded_in_http_urls() {
        let addresses = addresses();
        let peer = Peer { address: "127.0.0.1:1".parse().expect("an address"), tls: true };
        let of = |frames, packets| {
            let options = PlaybackOptions { frames, packets, note: None };
            let serves = Serves { segments: true, ..Serves::default() };
            Urls::new(&addresses, serves, Some("h:8443"), peer).stream("a/b c", "ü%?#", &options)
        };
        let urls = of(true, false);
        assert_eq!(urls.flv, "https://h:8443/a/b%20c/%C3%BC%25%3F%23.flv");
        assert_eq!(urls.ws_flv, "wss://h:8443/a/b%20c/%C3%BC%25%3F%23.flv");
        assert_eq!(urls.ts, "https://h:8443/a/b%20c/%C3%BC%25%3F%23.ts");
        assert_eq!(urls.hls, "https://h:8443/a/b%20c/%C3%BC%25%3F%23.m3u8");
        assert_eq!(urls.dash, "https://h:8443/a/b%20c/%C3%BC%25%3F%23.mpd");
        assert_eq!(urls.rtmp, "rtmp://h:1935/a/b c/ü%?#");
        assert_eq!(urls.whep, "");
        let urls = of(false, true);
        assert_eq!(urls.whep, "https://h:8443/whep/a/b%20c/%C3%BC%25%3F%23");
        assert_eq!((urls.flv, urls.ws_flv, urls.rtmp), (String::new(), String::new(), String::new()));
        let urls = of(true, true);
        assert!([urls.rtmp, urls.flv, urls.ws_flv, urls.whep].iter().all(|url| url.contains("h:")));
    }

    #[test]
    fn webrtc_is_at_the_web_addresses() {
        let mut addresses = addresses();
        let peer = Peer { address: "127.0.0.1:1".parse().expect("an address"), tls: false };
        let serves = Serves { on_demand: true, ..Serves::default() };
        let endpoints = Urls::new(&addresses, serves, Some("h:8080"), peer).endpoints();
        assert_eq!(endpoints.vod, ["http://h:8080/vod/", "https://h:8443/vod/"]);
        assert_eq!(endpoints.whip, ["http://h:8080/whip", "https://h:8443/whip"]);
        assert_eq!(endpoints.whep, ["http://h:8080/whep", "https://h:8443/whep"]);
        addresses.rtc_udp.clear();
        let off = Urls::new(&addresses, Serves::default(), Some("h:8080"), peer).endpoints();
        assert!(off.whip.is_empty() && off.whep.is_empty() && off.vod.is_empty(), "all of that is off");
    }
}
