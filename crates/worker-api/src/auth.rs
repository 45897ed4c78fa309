//! Who may publish, play and manage: decides from values, reads nothing, keeps no state.
//!
//! Tokens are texts of the configuration, or signed elsewhere ([`jwt`]): those say themselves which
//! streams they are for, and open what a rule leaves to tokens.
//!
//! Fails closed. For publishing and playing, the first rule whose pattern matches `app/stream` decides; what no rule
//! matches falls to `fallback`. Tokens are compared in constant time (their length is not secret). Loopback trust is
//! trust in the address of the TCP peer: **behind a reverse proxy on this machine every client looks local**, so use
//! tokens there. Where rules come from is the business of `config`; the management side is in `auth/manage.rs`, WHIP and
//! WHEP are in `auth/web.rs`.

pub mod manage;
mod web;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use crate::denied::Denied;
pub use jwt::Action;
use jwt::Verifier;
use subtle::{Choice, ConstantTimeEq};

use crate::hooks::Hooks;
use crate::pattern::{self, Pattern};
use manage::Manage;

/// What somebody shows who asks to publish or play.
#[derive(Debug, Clone, Copy)]
pub struct Bearer<'a> {
    /// Value of `?token=`, percent-decoded, or of `Authorization: Bearer`.
    pub token: Option<&'a str>,
    /// Address of the peer.
    pub peer: IpAddr,
    /// The time, since 1970.
    pub now: Duration,
}

/// What somebody may who is let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permit {
    /// When the session is to end, since 1970, if it is to end with its token.
    pub until: Option<Duration>,
}

/// Tokens that others sign, and how they count.
#[derive(Debug, Clone)]
pub struct Signed {
    /// Checks them.
    pub verifier: Arc<Verifier>,
    /// Sessions end when their token does.
    pub ends_sessions: bool,
}

impl Signed {
    /// What `token` permits, if it is of this kind.
    fn check(
        signed: Option<&Self>,
        token: Option<&str>,
        now: Duration,
        action: Action,
        matches: impl Fn(&str) -> bool,
    ) -> Option<Result<Permit, Denied>> {
        let (signed, token) = signed.zip(token.filter(|token| Verifier::is_one(token)))?;
        let grant = signed.verifier.verify(token, now);
        let permit = grant.and_then(|grant| {
            grant.allows(action, matches)?;
            Ok(Permit { until: signed.ends_sessions.then(|| signed.verifier.end_of(&grant)) })
        });
        Some(permit.map_err(Denied::Signed))
    }
}

/// Who one rule lets in: anyone, or peers on this machine, or whoever shows a token; nobody when all are empty.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Everybody.
    pub anyone: bool,
    /// Peers on this machine, without a token.
    pub loopback: bool,
    /// Tokens that let in.
    pub tokens: Tokens,
    /// Signed tokens do.
    pub signed: bool,
}

impl Access {
    /// Everybody.
    pub fn anyone() -> Self {
        Self { anyone: true, ..Self::default() }
    }

    /// Peers on this machine only.
    pub fn loopback() -> Self {
        Self { loopback: true, ..Self::default() }
    }

    fn check(
        &self,
        bearer: &Bearer<'_>,
        signed: impl FnOnce() -> Option<Result<Permit, Denied>>,
    ) -> Result<Permit, Denied> {
        if self.anyone || (self.loopback && is_loopback(bearer.peer)) {
            return Ok(Permit::default());
        }
        let by_tokens = match self.tokens.is_empty() && !self.signed {
            true if self.loopback => Err(Denied::NotLoopback),
            true => Err(Denied::Closed),
            false => self.tokens.check(bearer.token),
        };
        match by_tokens {
            Ok(()) => Ok(Permit::default()),
            Err(Denied::TokenWrong) if self.signed => signed().unwrap_or(Err(Denied::TokenWrong)),
            Err(denied) => Err(denied),
        }
    }

    fn takes_tokens(&self) -> bool {
        self.signed || !self.tokens.is_empty()
    }
}

/// A set of tokens. Their text is not shown by `Debug`.
#[derive(Clone, Default)]
pub struct Tokens(Vec<Box<str>>);

impl Tokens {
    /// A set of non-empty tokens; empty ones are left out, they would let everybody in.
    pub fn new(tokens: impl IntoIterator<Item = String>) -> Self {
        Self(tokens.into_iter().filter(|token| !token.is_empty()).map(String::into_boxed_str).collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares with every token, whichever matches, so that time tells nothing about which one did.
    pub fn check(&self, token: Option<&str>) -> Result<(), Denied> {
        let Some(token) = token else { return Err(Denied::TokenMissing) };
        let equal = |known: &str| known.as_bytes().ct_eq(token.as_bytes());
        let any = self.0.iter().map(|known| equal(known)).fold(Choice::from(0), |any, one| any | one);
        if bool::from(any) { Ok(()) } else { Err(Denied::TokenWrong) }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

/// One rule: a pattern over `app/stream` and who may come in where it matches.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Which streams.
    pub pattern: Pattern,
    /// Who.
    pub access: Access,
}

/// Rules of one action, in order.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The first that matches decides.
    pub rules: Vec<Rule>,
    /// Decides when none matches.
    pub fallback: Access,
}

impl Rules {
    fn check(
        &self,
        app: &str,
        stream: &str,
        bearer: &Bearer<'_>,
        signed: impl FnOnce() -> Option<Result<Permit, Denied>>,
    ) -> Result<Permit, Denied> {
        self.access(app, stream).check(bearer, signed)
    }

    fn access(&self, app: &str, stream: &str) -> &Access {
        let rule = self.rules.iter().find(|rule| rule.pattern.matches_parts(app, stream));
        rule.map_or(&self.fallback, |rule| &rule.access)
    }

    fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.rules.iter().map(|rule| &rule.access).chain([&self.fallback])
    }
}

/// All authorisation of the server. Immutable; shared by the workers and the control side.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Publishing.
    pub publish: Rules,
    /// Playing.
    pub play: Rules,
    /// API and metrics.
    pub manage: Manage,
    /// Signed tokens of publishers and players.
    pub signed: Option<Signed>,
    /// The operator's hooks, which are asked about those whom the rules let in.
    pub hooks: Option<Hooks>,
}

impl Policy {
    /// Whether `bearer` may publish `app/stream`.
    pub fn may_publish(&self, app: &str, stream: &str, bearer: &Bearer<'_>) -> Result<Permit, Denied> {
        self.publish.check(app, stream, bearer, || self.signed(Action::Publish, app, stream, bearer))
    }

    /// Whether `bearer` may play `app/stream`.
    pub fn may_play(&self, app: &str, stream: &str, bearer: &Bearer<'_>) -> Result<Permit, Denied> {
        self.play.check(app, stream, bearer, || self.signed(Action::Play, app, stream, bearer))
    }

    fn signed(
        &self,
        action: Action,
        app: &str,
        stream: &str,
        bearer: &Bearer<'_>,
    ) -> Option<Result<Permit, Denied>> {
        let matches = |pattern: &str| pattern::matches_parts(pattern, app, stream);
        Signed::check(self.signed.as_ref(), bearer.token, bearer.now, action, matches)
    }

    /// Whether a client may show that it knows a token for `app/stream` without showing it: only the server's
    /// own tokens can be shown so, not those that others sign.
    pub fn takes_proofs(&self, action: Action, app: &str, stream: &str) -> bool {
        let access = self.rules_of(action).access(app, stream);
        !access.tokens.is_empty() && !access.signed
    }

    /// The token of the configuration for `app/stream` that `is_known` says a client knows. All are asked, so
    /// that time tells nothing about which one it is.
    pub fn proven(
        &self,
        action: Action,
        app: &str,
        stream: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let tokens = &self.rules_of(action).access(app, stream).tokens.0;
        tokens.iter().fold(None, |known, token| if is_known(token) { Some(&**token) } else { known })
    }

    fn rules_of(&self, action: Action) -> &Rules {
        if action == Action::Publish { &self.publish } else { &self.play }
    }

    /// Whether no stream can be published from another machine.
    pub fn publish_is_loopback_only(&self) -> bool {
        self.publish.accesses().all(|access| !access.anyone && !access.takes_tokens())
    }

    /// Whether some stream needs a token to be published.
    pub fn publish_needs_token(&self) -> bool {
        self.publish.accesses().any(Access::takes_tokens)
    }
}

/// Whether `address` is this machine: 127.0.0.0/8, ::1, or the former mapped into IPv6.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
