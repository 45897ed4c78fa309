//! Who may use the management API and read metrics.
//!
//! Trusting the own machine is harder over HTTP than it looks, because a browser on it carries other people's
//! requests. Loopback trust therefore asks four things: the peer is local, no proxy says it forwarded the request,
//! the `Host` is a name of this machine (DNS rebinding), and no page of another site sent it (`Sec-Fetch-Site`,
//! W3C Fetch Metadata; `Origin`, RFC 6454). A valid token needs none of this: a page cannot make a browser add it.
//! Publishing and playing by WHIP and WHEP trust the own machine under the same conditions (`auth/web.rs`).

use std::net::IpAddr;
use std::time::Duration;

use jwt::Action;

use super::{Denied, Signed, Tokens, is_loopback};

/// What an HTTP request shows about its sender.
#[derive(Debug, Clone, Copy)]
pub struct WebRequest<'a> {
    /// Address of the TCP peer.
    pub peer: IpAddr,
    /// Token of `Authorization: Bearer`; for streams also of `?token=`.
    pub token: Option<&'a str>,
    /// `Host`.
    pub host: Option<&'a str>,
    /// `Origin`.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<&'a str>,
    /// Whether `Forwarded` or any `X-Forwarded-*`, `X-Real-IP` or `Via` header is present.
    pub forwarded: bool,
    /// The time, since 1970.
    pub now: Duration,
    /// Whether the method may change something: anything but GET, HEAD and OPTIONS.
    pub state_changing: bool,
}

/// The management rule.
#[derive(Debug, Clone, Default)]
pub struct Manage {
    /// Clients on this machine need no token.
    pub loopback: bool,
    /// Tokens that let in.
    pub tokens: Tokens,
    /// Signed tokens let in, if they say so.
    pub signed: Option<Signed>,
    /// Host names trusted besides `localhost` and loopback addresses, in lower case.
    pub public_hosts: Vec<String>,
    /// Everybody may read metrics.
    pub metrics_anyone: bool,
    /// Tokens that open metrics only.
    pub metrics_tokens: Tokens,
}

impl Manage {
    /// Whether the sender may use the API.
    pub fn may_manage(&self, request: &WebRequest<'_>) -> Result<(), Denied> {
        let by_token = !self.tokens.is_empty() || self.signed.is_some();
        if by_token && (request.token.is_some() || !self.loopback) {
            let wrong = match self.tokens.check(request.token) {
                Err(Denied::TokenWrong) => Err(Denied::TokenWrong),
                other => return other,
            };
            let signed =
                Signed::check(self.signed.as_ref(), request.token, request.now, Action::Manage, |_| true);
            return signed.map_or(wrong, |permit| permit.map(|_| ()));
        }
        if !self.loopback {
            return Err(Denied::Closed);
        }
        match self.local(request) {
            // Told to come back with a token where that would help.
            Err(Denied::NotLoopback) if by_token => Err(Denied::TokenMissing),
            other => other,
        }
    }

    /// Whether the sender may begin and end recordings of streams for whose patterns `matches` is true: as
    /// one who may use the API, or by a signed token with the action `record`.
    pub fn may_record(&self, request: &WebRequest<'_>, matches: impl Fn(&str) -> bool) -> Result<(), Denied> {
        self.may_manage(request).or_else(|denied| {
            // A token that is not valid is refused for what is wrong with it.
            let Denied::Signed(jwt::Refused::Action) = denied else { return Err(denied) };
            let signed =
                Signed::check(self.signed.as_ref(), request.token, request.now, Action::Record, matches);
            signed.map_or(Err(denied), |permit| permit.map(|_| ()))
        })
    }

    /// Whether the sender may read `/metrics`.
    pub fn may_read_metrics(&self, request: &WebRequest<'_>) -> Result<(), Denied> {
        if self.metrics_anyone || self.metrics_tokens.check(request.token).is_ok() {
            return Ok(());
        }
        match self.may_manage(request) {
            Err(Denied::NotLoopback | Denied::Closed) if !self.metrics_tokens.is_empty() => {
                Err(if request.token.is_some() { Denied::TokenWrong } else { Denied::TokenMissing })
            }
            other => other,
        }
    }

    /// Whether the sender is a program on this machine, or a page of this server in a browser there.
    pub(super) fn local(&self, request: &WebRequest<'_>) -> Result<(), Denied> {
        if !is_loopback(request.peer) {
            return Err(Denied::NotLoopback);
        }
        if request.forwarded {
            return Err(Denied::Forwarded);
        }
        let host = request.host.unwrap_or_default();
        if !self.trusts(host) {
            return Err(Denied::HostNotTrusted);
        }
        if request.fetch_site.is_some_and(|site| site.eq_ignore_ascii_case("cross-site")) {
            return Err(Denied::CrossSite);
        }
        match request.origin {
            Some(origin) if !same_authority(origin, host) => Err(Denied::CrossSite),
            None if request.state_changing
                && request.fetch_site.is_some_and(|site| site != "same-origin" && site != "none") =>
            {
                Err(Denied::CrossSite)
            }
            _ => Ok(()),
        }
    }

    fn trusts(&self, host: &str) -> bool {
        let name = host_name(host).trim_end_matches('.').to_ascii_lowercase();
        name == "localhost"
            || name.parse::<IpAddr>().is_ok_and(is_loopback)
            || self.public_hosts.contains(&name)
    }
}

/// `Host` without its port and the brackets of an IPv6 address.
pub fn host_name(host: &str) -> &str {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.split_once(']').map_or("", |(name, _)| name);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// Whether `origin` (`scheme://authority`) names the authority in `Host`.
fn same_authority(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}
