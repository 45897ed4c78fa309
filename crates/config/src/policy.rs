//! The authorisation side of the configuration: rules and tokens become a policy.
//!
//! The server does not start with anything unclear: a rule without a token, a token that nothing
//! requires, an unreadable token file, an empty token. The decisions of the policy are in `auth`.

use std::path::Path;

use super::error::Origin;
use super::keys::AuthRule;
use super::resolve::Errors;
use super::value::{AllowChoice, ManageChoice, MetricsChoice};
use super::{Config, RuleEntry};
use worker_api::auth::manage::Manage;
use worker_api::auth::{Access, Policy, Rule, Rules, Tokens};
use worker_api::pattern::Pattern;

/// The policy that `config` describes; `variable` reads the environment.
pub(super) fn policy(
    config: &Config,
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
    if needs_token && manage_token.is_empty() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` asks for a token: set `auth.manage_token` or `auth.manage_token_file`",
        );
    }
    if matches!(auth.manage, ManageChoice::Loopback | ManageChoice::Nobody) && !manage_token.is_empty() {
        errors.add(
            &config.origin("auth.manage"),
            "`auth.manage` leaves no use for `auth.manage_token`: remove one of them",
        );
    }
    Policy {
        publish: rules(
            &config.publish_rules,
            "auth.publish",
            publish_token,
            Access::loopback(),
            variable,
            errors,
        ),
        play: rules(&config.play_rules, "auth.play", play_token, Access::anyone(), variable, errors),
        manage: Manage {
            loopback: manage_loopback,
            tokens: if manage_by_token { manage_token } else { Tokens::default() },
            public_hosts: config.http.public_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            metrics_anyone: auth.metrics == MetricsChoice::Anyone,
            metrics_tokens: metrics_token,
        },
    }
}

/// Rules of one list. Without rules and token `default` applies; with rules, streams that none
/// matches are refused.
fn rules(
    entries: &[RuleEntry],
    list: &str,
    token: Tokens,
    default: Access,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Rules {
    let rules: Vec<Rule> = entries.iter().map(|entry| rule(entry, list, variable, errors)).collect();
    let fallback = match (token.is_empty(), rules.is_empty()) {
        (false, _) => Access { tokens: token, ..Access::default() },
        (true, false) => Access::default(),
        (true, true) => default,
    };
    Rules { rules, fallback }
}

fn rule(
    entry: &RuleEntry,
    list: &str,
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
    if by_token && found.is_empty() {
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
