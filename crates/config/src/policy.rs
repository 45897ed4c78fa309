//! The authorisation side of the configuration: rules and tokens become a policy.
//!
//! The server does not start with anything unclear: a rule without a token, a token that nothing
//! requires, an unreadable token file, an empty token. The decisions of the policy are in `auth`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::sources::key_set::{KeySource, Place};
use ::sources::settings::SourceSettings;
use jwt::{KeySet, Verifier};
use range_reader::http::address::AddressPolicy;
use url::Url;

use super::error::Origin;
use super::keys::AuthRule;
use super::resolve::Errors;
use super::value::{AllowChoice, ManageChoice, MetricsChoice};
use super::{Config, RuleEntry};
use worker_api::auth::manage::Manage;
use worker_api::auth::{Access, Policy, Rule, Rules, Signed, Tokens};
use worker_api::pattern::Pattern;

/// The policy that `config` describes; `variable` reads the environment.
pub(super) fn policy(
    config: &Config,
    signed: Option<&SignedTokens>,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Policy {
    let auth = &config.auth;
    let publish_token =
        token(config, "auth.publish_token", &auth.publish_token, &auth.publish_token_file, errors);
    let play_token = token(config, "auth.play_token", &auth.play_token, &auth.play_token_file, errors);
    let manage_token =
        token(config, "auth.manage_token", &auth.manage_token, &auth.manage_token_file, errors);
    let metrics_token =
        token(config, "auth.metrics_token", &auth.metrics_token, &auth.metrics_token_file, errors);
    let (manage_loopback, manage_by_token) = match auth.manage {
        ManageChoice::Auto => (manage_token.is_empty(), true),
        ManageChoice::Token => (false, true),
        ManageChoice::Loopback => (true, false),
        ManageChoice::TokenOrLoopback => (true, true),
        ManageChoice::Nobody => (false, false),
    };
    let needs_token = matches!(auth.manage, ManageChoice::Token | ManageChoice::TokenOrLoopback);
    if needs_token && manage_token.is_empty() && signed.is_none() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` asks for a token: set `auth.manage_token` or `auth.manage_token_file`, or keys of \
             signed tokens",
        );
    }
    if matches!(auth.manage, ManageChoice::Loopback | ManageChoice::Nobody) && !manage_token.is_empty() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` leaves no use for `auth.manage_token`: remove one of them",
        );
    }
    let signed = signed.map(|signed| signed.signed.clone());
    let is_signed = signed.is_some();
    Policy {
        publish: rules(
            (&config.publish_rules, "auth.publish"),
            publish_token,
            is_signed,
            Access::loopback(),
            variable,
            errors,
        ),
        play: rules(
            (&config.play_rules, "auth.play"),
            play_token,
            is_signed,
            Access::anyone(),
            variable,
            errors,
        ),
        manage: Manage {
            loopback: manage_loopback,
            tokens: if manage_by_token { manage_token } else { Tokens::default() },
            signed: signed.clone().filter(|_| manage_by_token),
            public_hosts: config.http.public_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            metrics_anyone: auth.metrics == MetricsChoice::Anyone,
            metrics_tokens: metrics_token,
        },
        signed,
        // They are put in where they start.
        hooks: None,
    }
}

/// Rules of one list. Without rules and token `default` applies; with rules, streams that none
/// matches are refused.
fn rules(
    (entries, list): (&[RuleEntry], &str),
    token: Tokens,
    signed: bool,
    default: Access,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Rules {
    let rules: Vec<Rule> = entries.iter().map(|entry| rule(entry, list, signed, variable, errors)).collect();
    let fallback = match (token.is_empty() && !signed, rules.is_empty()) {
        (false, _) => Access { tokens: token, signed, ..Access::default() },
        (true, false) => Access::default(),
        (true, true) => default,
    };
    Rules { rules, fallback }
}

fn rule(
    entry: &RuleEntry,
    list: &str,
    signed: bool,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Rule {
    let AuthRule { stream, allow, tokens, token_files, token_env } = &entry.rule;
    if stream.is_empty() {
        errors.add(&entry.origin, format!("[[{list}]] needs a `stream`, such as \"live/*\""));
    }
    let mut found: Vec<String> = tokens.clone();
    for path in token_files {
        match read_tokens(Path::new(path)) {
            Ok(tokens) => found.extend(tokens),
            Err(reason) => errors.add(&entry.origin, format!("[[{list}]] `token_files`: {path}: {reason}")),
        }
    }
    for name in token_env {
        match variable(name) {
            Some(token) if !token.is_empty() => found.push(token),
            _ => errors.add(&entry.origin, format!("[[{list}]] `token_env`: {name} is not set or empty")),
        }
    }
    check_tokens(&found, &entry.origin, list, errors);
    let by_token = matches!(allow, AllowChoice::Token | AllowChoice::TokenOrLoopback);
    if by_token && found.is_empty() && !signed {
        let hint = if entry.allow_given { "" } else { " or another `allow`" };
        errors.add(&entry.origin, format!("[[{list}]] needs `tokens`, `token_files` or `token_env`{hint}"));
    }
    if !by_token && !found.is_empty() {
        errors.add(&entry.origin, format!("[[{list}]] has tokens that its `allow` leaves without use"));
    }
    let access = Access {
        anyone: *allow == AllowChoice::Anyone,
        loopback: matches!(allow, AllowChoice::Loopback | AllowChoice::TokenOrLoopback),
        tokens: Tokens::new(found),
        signed: signed && by_token,
    };
    Rule { pattern: Pattern::new(stream), access }
}

/// The token of one pair of keys `key` and `key_file`.
fn token(config: &Config, key: &str, text: &str, file: &str, errors: &mut Errors) -> Tokens {
    let file_key = format!("{key}_file");
    let tokens = match (text, file) {
        ("", "") if config.origin(key) == Origin::Default => Vec::new(),
        // Empty on purpose or by an unset variable: granting access would be the wrong
        // interpretation.
        ("", "") => {
            errors.add(&config.origin(key), format!("`{key}` is empty"));
            Vec::new()
        }
        (text, "") => vec![text.to_owned()],
        ("", file) => read_tokens(Path::new(file)).unwrap_or_else(|reason| {
            errors.add(&config.origin(&file_key), format!("`{file_key}` {file}: {reason}"));
            Vec::new()
        }),
        _ => {
            errors
                .add(&config.origin(&file_key), format!("`{key}` and `{file_key}` are both set: remove one"));
            Vec::new()
        }
    };
    check_tokens(&tokens, &config.origin(key), key, errors);
    Tokens::new(tokens)
}

/// Signed tokens, as they are configured.
#[derive(Debug, Clone)]
pub(super) struct SignedTokens {
    /// What checks them, and how they count.
    pub(super) signed: Signed,
    /// Where the keys are read again; `None` where there is a secret alone.
    pub(super) keys: Option<KeySource>,
}

/// The keys of signed tokens, if there are any.
pub(super) fn signed_tokens(
    config: &Config,
    sources: &SourceSettings,
    errors: &mut Errors,
) -> Option<SignedTokens> {
    let auth = &config.auth;
    let secret = secret(config, errors);
    // Empty because a variable was not set: then nothing would be closed that was to be.
    for (key, value) in [
        ("auth.jwks_url", &auth.jwks_url),
        ("auth.jwks_file", &auth.jwks_file),
        ("auth.jwt_secret_file", &auth.jwt_secret_file),
    ] {
        if value.is_empty() && config.origin(key) != Origin::Default {
            errors.add(&config.origin(key), format!("`{key}` is empty"));
        }
    }
    let place = match (auth.jwks_url.as_str(), auth.jwks_file.as_str()) {
        ("", "") => None,
        (url, "") => key_url(config, url, sources, errors).map(Place::Url),
        ("", file) => Some(Place::File(file.into())),
        _ => {
            let text = "`auth.jwks_url` and `auth.jwks_file` are both set: remove one";
            errors.add(&config.origin("auth.jwks_file"), text);
            None
        }
    };
    if secret.is_none() && place.is_none() {
        let alone = [
            ("auth.jwt_issuer", !auth.jwt_issuer.is_empty()),
            ("auth.jwt_audience", !auth.jwt_audience.is_empty()),
            ("auth.jwt_ends_sessions", auth.jwt_ends_sessions),
        ];
        if let Some((key, _)) = alone.into_iter().find(|(_, is_set)| *is_set) {
            let text =
                format!("`{key}` is for signed tokens: set `auth.jwks_url`, `auth.jwks_file` or a secret");
            errors.add(&config.origin(key), text);
        }
        return None;
    }
    for (key, name) in [
        ("auth.jwt_stream_claim", &auth.jwt_stream_claim),
        ("auth.jwt_actions_claim", &auth.jwt_actions_claim),
    ] {
        if name.is_empty() {
            errors.add(&config.origin(key), format!("`{key}` is empty"));
        }
    }
    let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let settings = jwt::Settings {
        issuer: named(&auth.jwt_issuer),
        audience: named(&auth.jwt_audience),
        leeway: Duration::from_secs(auth.jwt_leeway_seconds.unsigned_abs()),
        stream_claim: auth.jwt_stream_claim.clone(),
        actions_claim: auth.jwt_actions_claim.clone(),
    };
    let verifier = Verifier::new(settings, secret.as_deref().map(str::as_bytes));
    let verifier = verifier
        .map_err(|error| errors.add(&config.origin("auth.jwt_secret"), format!("`auth.jwt_secret`: {error}")))
        .ok()?;
    if let Some(Place::File(file)) = &place {
        let read = std::fs::read(file).map_err(|error| error.to_string());
        match read.and_then(|json| KeySet::parse(&json).map_err(|error| error.to_string())) {
            Ok(keys) => verifier.set_keys(keys),
            Err(reason) => {
                let text = format!("`auth.jwks_file` {}: {reason}", file.display());
                errors.add(&config.origin("auth.jwks_file"), text);
            }
        }
    }
    let refresh = Duration::from_secs(auth.jwks_refresh_seconds.unsigned_abs());
    let signed = Signed { verifier: Arc::new(verifier), ends_sessions: auth.jwt_ends_sessions };
    Some(SignedTokens { signed, keys: place.map(|place| KeySource { place, refresh }) })
}

/// Keys that somebody on the path can exchange open everything: TLS, but for servers of the own network.
fn key_url(config: &Config, url: &str, sources: &SourceSettings, errors: &mut Errors) -> Option<Url> {
    let mut refuse =
        |reason: &str| errors.add(&config.origin("auth.jwks_url"), format!("`auth.jwks_url` {reason}"));
    let Ok(url) = Url::parse(url) else {
        refuse("is no URL");
        return None;
    };
    let by_tls = url.scheme() == "https";
    let may_do_without = url.scheme() == "http" && sources.addresses == AddressPolicy::Any;
    if !by_tls && !may_do_without {
        refuse("begins with https://; http:// is for `sources.allow_private_addresses`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        refuse("has a user name or a password, which are not sent");
    }
    if let Some(host) = url.host_str()
        && let Err(reason) = sources.check_host(host)
    {
        refuse(&format!("cannot be read: {reason}"));
    }
    Some(url)
}

/// The secret of HS256.
fn secret(config: &Config, errors: &mut Errors) -> Option<String> {
    let (text, file) = (&config.auth.jwt_secret, &config.auth.jwt_secret_file);
    let secret = match (text.as_str(), file.as_str()) {
        ("", "") if config.origin("auth.jwt_secret") == Origin::Default => return None,
        ("", "") => Err("is empty".to_owned()),
        (text, "") => Ok(text.to_owned()),
        ("", file) => std::fs::read_to_string(file)
            .map(|text| text.trim().to_owned())
            .map_err(|error| format!("in {file}: {error}")),
        _ => Err("and `auth.jwt_secret_file` are both set: remove one".to_owned()),
    };
    secret
        .map_err(|reason| {
            errors.add(&config.origin("auth.jwt_secret"), format!("`auth.jwt_secret` {reason}"))
        })
        .ok()
}

fn read_tokens(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let tokens: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if tokens.is_empty() { Err("holds no token".to_owned()) } else { Ok(tokens) }
}

fn check_tokens(tokens: &[String], origin: &Origin, key: &str, errors: &mut Errors) {
    let usable = |token: &String| {
        (1..=256).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !tokens.iter().all(usable) {
        errors.add(origin, format!("`{key}`: a token is 1 to 256 printable ASCII characters without spaces"));
    }
}
