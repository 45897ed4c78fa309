//! What is pulled, and as what: names and a URL, checked once.
//!
//! URLs come from the configuration or from whoever may use the API. The scheme is decided here;
//! which addresses may be reached is decided where they are known, after the name was resolved.

use range_reader::http::address::AddressPolicy;
use rtmp::RtmpUrl;
use url::Url;

use super::hls::HlsUrl;
use super::http_url::shown_http;
use super::rtsp_play::RtspUrl;
use super::udp::UdpUrl;
use crate::settings::{AddedBy, SourceSettings};
use crate::srt_url::SrtUrl;
use crate::template::{STAND_INS, Template};
use crate::webrtc::{Endpoint, Use};
use worker_api::pattern::matches_parts;

/// One pull.
#[derive(Clone, PartialEq, Eq)]
pub struct PullSpec {
    /// Application of the stream here.
    pub app: String,
    /// Its name.
    pub name: String,
    /// Where it comes from; of a URL with places for names, with stand-ins in them.
    pub origin: Origin,
    /// It is begun by the first player and ended after the last.
    pub on_demand: bool,
    /// The URL, if there are places for names in it.
    template: Option<Template>,
    /// The bearer token of WHEP.
    token: Option<String>,
}

/// Where a stream comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Origin {
    /// `rtmp` and `rtmps`.
    Rtmp(RtmpUrl),
    /// `rtsp` and `rtsps`.
    Rtsp(RtspUrl),
    /// FLV as an answer by `http` or `https`.
    Http(Url),
    /// An HLS playlist by `http` or `https`.
    Hls(HlsUrl),
    /// `srt`, as a caller.
    Srt(SrtUrl),
    /// MPEG-TS in datagrams that are sent here.
    Udp(UdpUrl),
    /// WHEP, over HTTP or HTTPS.
    Whep(Endpoint),
}

/// Longest URL.
const URL_BYTES_MAX: usize = 2048;

impl PullSpec {
    /// A pull of `url` as `stream`, which is `app/name`; an application may contain `/`.
    pub fn of_stream(
        stream: &str,
        url: &str,
        on_demand: bool,
        settings: &SourceSettings,
    ) -> Result<Self, String> {
        let (app, name) = stream.rsplit_once('/').ok_or_else(|| match stream {
            "" => "needs a `stream`, such as \"live/cam\"".to_owned(),
            other => format!("`stream`: `{other}` names no application: write \"live/{other}\""),
        })?;
        Self::new(app, name, url, on_demand, settings)
    }

    /// A pull of `url` as `app/name`. If it is on demand, `*` in these stands for any characters, and
    /// the URL has places for names. The error is a sentence without what may be secret.
    pub fn new(
        app: &str,
        name: &str,
        url: &str,
        on_demand: bool,
        settings: &SourceSettings,
    ) -> Result<Self, String> {
        let is_pattern = is_pattern(app, name);
        // The rules of names hold for patterns as well, `*` standing for a letter.
        let checked = |text: &str| if is_pattern { text.replace('*', "x") } else { text.to_owned() };
        if is_pattern && !on_demand {
            return Err(format!("`{app}/{name}`: a pattern needs `on_demand = true`"));
        }
        settings.check_name(&checked(app), &checked(name))?;
        let template = if on_demand { Template::parse(url)? } else { None };
        if is_pattern && template.is_none() {
            return Err(format!("`{app}/{name}`: a pattern needs `{{stream}}` in its URL"));
        }
        let origin = match &template {
            Some(template) => Origin::parse(&template.fill(STAND_INS.0, STAND_INS.1))?,
            None => Origin::parse(url)?,
        };
        let spec =
            Self { app: app.to_owned(), name: name.to_owned(), origin, on_demand, template, token: None };
        if is_pattern || spec.template.is_none() { Ok(spec) } else { spec.of_name(app, name, settings) }
    }

    /// The same, with a bearer token, which is for WHEP. The error is a sentence without it.
    pub fn with_token(mut self, token: Option<&str>) -> Result<Self, String> {
        self.origin = self.origin.with_token(token)?;
        self.token = token.map(str::to_owned);
        Ok(self)
    }

    /// What a stream that matches is pulled from. Its name comes from a player.
    pub(super) fn of_name(&self, app: &str, name: &str, settings: &SourceSettings) -> Result<Self, String> {
        settings.check_name(app, name)?;
        let url = self.template.as_ref().map(|template| template.fill(app, name));
        let of_url = |url: String| Origin::parse(&url)?.with_token(self.token.as_deref());
        let origin = url.map_or_else(|| Ok(self.origin.clone()), of_url)?;
        if let (Origin::Srt(url), Some(_)) = (&origin, &self.template) {
            url.check_names(app, name)?;
        }
        let (app, name, token) = (app.to_owned(), name.to_owned(), self.token.clone());
        Ok(Self { app, name, origin, on_demand: true, template: None, token })
    }

    /// Whether it is for many streams.
    pub fn is_pattern(&self) -> bool {
        is_pattern(&self.app, &self.name)
    }

    /// Whether it is for this stream.
    pub(super) fn matches(&self, app: &str, name: &str) -> bool {
        matches_parts(&format!("{}/{}", self.app, self.name), app, name)
    }

    /// Its URL for people: without user name and password, and without the query.
    pub fn shown_url(&self) -> String {
        let shown = self.origin.to_string();
        if self.template.is_some() { Template::shown(&shown) } else { shown }
    }
}

impl Origin {
    /// Whether it may be reached, as far as that can be said now. The error is a sentence.
    pub fn check(&self, added_by: AddedBy, settings: &SourceSettings) -> Result<(), String> {
        match self {
            Self::Rtmp(url) => settings.check_host(&url.host),
            Self::Rtsp(url) => settings.check_host(&url.host),
            Self::Http(url) => settings.check_host(url.host_str().unwrap_or_default()),
            Self::Hls(HlsUrl { url, .. }) => settings.check_host(url.host_str().unwrap_or_default()),
            Self::Srt(url) => settings.check_host(&url.host),
            Self::Whep(endpoint) => settings.check_host(endpoint.host()),
            // Nothing is connected to; but whoever uses the API would open ports of this host.
            Self::Udp(_) if added_by == AddedBy::Api && settings.addresses != AddressPolicy::Any => {
                Err("udp:// is for the configuration, as `sources.allow_private_addresses` is not set"
                    .to_owned())
            }
            Self::Udp(_) => Ok(()),
        }
    }

    fn with_token(self, token: Option<&str>) -> Result<Self, String> {
        match (self, token) {
            (Self::Whep(endpoint), token) => endpoint.with_token(token).map(Self::Whep),
            (_, Some(_)) => Err("cannot use its `token`: that is for whep:// and wheps://".to_owned()),
            (other, None) => Ok(other),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("takes a URL of at most {URL_BYTES_MAX} bytes"));
        }
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        match scheme.as_str() {
            // The parser would take the user name for the host.
            "rtmp" | "rtmps" if authority(text).contains('@') => Err(
                "cannot use its URL: RTMP has no user name and password; a token belongs behind the name of the stream, \
                 such as `?token=...`"
                    .to_owned(),
            ),
            "rtmp" | "rtmps" => {
                text.parse().map(Self::Rtmp).map_err(|error| format!("cannot use its URL: {error}"))
            }
            "http" | "https" => match Url::parse(text) {
                Ok(url) if url.host().is_some() && HlsUrl::is_playlist(&url) => {
                    HlsUrl::new(url).map(Self::Hls)
                }
                Ok(url) if url.host().is_some() => Ok(Self::Http(url)),
                _ => Err("cannot use its URL: it is not a valid one".to_owned()),
            },
            "rtsp" | "rtsps" => RtspUrl::parse(text).map(Self::Rtsp),
            "srt" => SrtUrl::parse(text).map(Self::Srt),
            "udp" => UdpUrl::parse(text).map(Self::Udp),
            "whep" | "wheps" => Endpoint::parse(text, Use::Play).map(Self::Whep),
            "" if !text.is_empty() => {
                Err("cannot use its URL: it has no scheme, such as \"rtmp://\" or \"https://\"".to_owned())
            }
            "" => Err("needs a `url`, such as \"rtmp://media.example/live/cam\"".to_owned()),
            other => {
                Err(format!(
                    "cannot use a URL of scheme `{other}`: it takes rtmp, rtmps, rtsp, rtsps, http, https, \
                     srt, whep, wheps and udp"
                ))
            }
        }
    }
}

fn is_pattern(app: &str, name: &str) -> bool {
    app.contains('*') || name.contains('*')
}

/// User name, password, host and port of a URL.
fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// For people: without user name and password, and without the query, which holds tokens.
impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rtmp(url) => {
                let stream = url.stream.split('?').next().unwrap_or_default();
                let hidden = if url.stream.contains('?') { "?..." } else { "" };
                write!(f, "{}/{stream}{hidden}", url.tc_url())
            }
            Self::Rtsp(url) => url.fmt(f),
            Self::Srt(url) => url.fmt(f),
            Self::Udp(url) => url.fmt(f),
            Self::Http(url) => f.write_str(&shown_http(url)),
            Self::Hls(url) => url.fmt(f),
            Self::Whep(endpoint) => endpoint.fmt(f),
        }
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Debug for PullSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} from {}", self.app, self.name, self.shown_url())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(stream: &str, url: &str) -> Result<PullSpec, String> {
        PullSpec::of_stream(stream, url, false, &SourceSettings::default())
    }

    #[test]
    fn urls_are_shown_without_what_lets_in() {
        let cases = [
            (
                "http://user:secret@media.example/live/cam.flv?token=secret#x",
                "http://media.example/live/cam.flv?...",
            ),
            ("https://media.example:8443/cam.flv", "https://media.example:8443/cam.flv"),
            ("rtmp://media.example/live/cam?token=secret", "rtmp://media.example:1935/live/cam?..."),
            ("rtmps://[2001:db8::1]/a/b/cam", "rtmps://[2001:db8::1]:443/a/b/cam"),
            ("srt://h:9000?streamid=read:a/b?token=secret&passphrase=secret secret", "srt://h:9000?..."),
        ];
        for (url, shown) in cases {
            let spec = pull("live/cam", url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(spec.origin.to_string(), shown);
            assert!(!format!("{spec:?}").contains("secret"));
        }
    }

    #[test]
    fn what_cannot_be_pulled_is_refused_with_a_reason() {
        let cases = [
            ("", "rtmp://h/a/b", "needs a `stream`"),
            ("cam", "rtmp://h/a/b", "write \"live/cam\""),
            ("live/", "rtmp://h/a/b", "cannot publish as `live/`: the name"),
            ("live/cam%20", "rtmp://h/a/b", "other than letters"),
            ("live/cam", "", "needs a `url`"),
            ("live/cam", "media.example/a/b?secret", "no scheme"),
            ("live/cam", "file:///etc/passwd", "scheme `file`"),
            ("live/cam", "gopher://h/1", "scheme `gopher`"),
            ("live/cam", "http://", "not a valid one"),
            ("live/cam", "rtmp://h/a", "/app/stream"),
            ("live/cam", "rtmp://user:secret@h/a/b", "no user name"),
            ("live/cam", "rtmps://secret@h/a/b", "no user name"),
        ];
        for (stream, url, expected) in cases {
            let error = pull(stream, url).expect_err(url);
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
        let long = format!("http://h/{}", "x".repeat(URL_BYTES_MAX));
        pull("live/cam", &long).expect_err("too long");
    }

    #[test]
    fn a_token_may_contain_anything() {
        pull("live/cam", "rtmp://h/a/b?token=x@y").expect("no user name");
    }

    #[test]
    fn a_name_ends_no_field_of_a_stream_id() {
        let settings = SourceSettings {
            names: rtmp::name::NameRules::new(",").expect("names may be widened by that"),
            ..SourceSettings::default()
        };
        let rule = |url: &str| PullSpec::of_stream("cam/*", url, true, &settings).expect(url);
        let fields = rule("srt://h:9000?streamid=%23!::r={app}/{stream},m=request");
        fields.of_name("cam", "a,m=publish", &settings).expect_err("it would be another field");
        fields.of_name("cam", "a=m", &settings).expect_err("not widened by that");
        let Ok(PullSpec { origin: Origin::Srt(url), .. }) = fields.of_name("cam", "a", &settings) else {
            panic!("a stream by SRT")
        };
        assert_eq!(url.stream_id, "#!::r=cam/a,m=request");
        let short = rule("srt://h:9000?streamid=read:{app}/{stream}");
        let Ok(PullSpec { origin: Origin::Srt(url), .. }) = short.of_name("cam", "a,b", &settings) else {
            panic!("a stream by SRT")
        };
        assert_eq!(url.stream_id, "read:cam/a,b", "there it means nothing");
    }

    #[test]
    fn an_application_may_have_parts() {
        let spec = pull("a/b/cam", "http://h/x.flv").expect("a pull");
        assert_eq!((spec.app.as_str(), spec.name.as_str()), ("a/b", "cam"));
    }
}
