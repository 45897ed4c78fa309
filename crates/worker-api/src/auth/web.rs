//! Who may publish and play by HTTP requests (WHIP, WHEP).
//!
//! The rules are those of every other protocol, with one difference: a browser on this machine carries requests of
//! other people's pages. RTMP cannot be spoken by a page, but a WHIP offer can be sent by any, and CORS lets it read the
//! answer. Trust in the own machine therefore takes what management takes (`auth/manage.rs`): not forwarded, a host name
//! of this machine, no page of another site. Rules that let anyone in, or ask for a token, are not touched by this: a
//! page cannot know the token.

use std::net::{IpAddr, Ipv4Addr};

use super::manage::WebRequest;
use super::{Bearer, Denied, Permit, Policy, is_loopback};

/// A peer that no rule trusts for its address.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Policy {
    /// Whether the sender of `request` may publish `app/stream`.
    pub fn may_publish_by_web(
        &self,
        app: &str,
        stream: &str,
        request: &WebRequest<'_>,
    ) -> Result<Permit, Denied> {
        self.web(request, |bearer| self.may_publish(app, stream, bearer))
    }

    /// Whether the sender of `request` may play `app/stream`.
    pub fn may_play_by_web(
        &self,
        app: &str,
        stream: &str,
        request: &WebRequest<'_>,
    ) -> Result<Permit, Denied> {
        self.web(request, |bearer| self.may_play(app, stream, bearer))
    }

    fn web(
        &self,
        request: &WebRequest<'_>,
        rule: impl Fn(&Bearer<'_>) -> Result<Permit, Denied>,
    ) -> Result<Permit, Denied> {
        let WebRequest { token, peer, now, .. } = *request;
        let by_address = match rule(&Bearer { token, peer: ELSEWHERE, now }) {
            Ok(permit) => return Ok(permit),
            Err(_) if is_loopback(peer) => rule(&Bearer { token, peer, now }),
            Err(denied) => Err(denied),
        };
        let permit = by_address?;
        self.manage.local(request)?;
        Ok(permit)
    }
}
