//! Configuration of certificates from an authority: `[acme]`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ::acme::settings::{AcmeSettings, ChallengeKind, ExternalAccount};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use url::Url;

use super::Config;
use super::resolve::Errors;
use super::sources::certificates;
use super::value::ChallengeChoice;

/// Most names of one certificate: what Let's Encrypt takes.
const NAMES_MAX: usize = 100;
/// Most certificates.
const ORDERS_MAX: usize = 100;

impl Config {
    /// Whether certificates are ordered.
    pub(super) fn has_acme(&self) -> bool {
        !self.acme.domains.is_empty()
    }

    /// All names that certificates are ordered for.
    pub(super) fn acme_names(&self) -> Vec<String> {
        self.acme.domains.iter().flat_map(|entry| names(entry)).collect()
    }
}

/// What `[acme]` means; `None`: nothing is ordered.
pub(super) fn settings(config: &Config, errors: &mut Errors) -> Option<AcmeSettings> {
    if !config.has_acme() {
        return None;
    }
    let acme = &config.acme;
    let mut refuse = |key: &str, reason: &str| {
        errors.add(&config.origin(&format!("acme.{key}")), format!("`acme.{key}` {reason}"));
    };
    if !acme.accept_terms {
        refuse("accept_terms", "must be true: read the terms of service of the authority, and agree to them");
    }
    if acme.state_dir.is_empty() {
        refuse("state_dir", "is needed: a directory such as \"/var/lib/millstream/acme\"");
    }
    if let Err(reason) = check_domains(&acme.domains) {
        refuse("domains", &reason);
    }
    let contact = acme.contact.iter().map(|contact| {
        let address = contact.strip_prefix("mailto:").unwrap_or(contact);
        let has_parts =
            address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
        let is_one =
            has_parts && address.bytes().all(|byte| byte.is_ascii_graphic() && !b",?".contains(&byte));
        if !is_one {
            refuse("contact", &format!("has `{contact}`, which is no e-mail address"));
        }
        format!("mailto:{address}")
    });
    let contact = contact.collect();
    let directory = Url::parse(&acme.directory).ok().filter(|url| {
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        url.scheme() == "https" && url.has_host() && is_plain
    });
    let directory = directory.map(String::from).filter(|url| url.parse::<http::Uri>().is_ok());
    if directory.is_none() {
        refuse("directory", "is no URL with https://");
    }
    let (challenge, listens) = match acme.challenge {
        ChallengeChoice::TlsAlpn => (ChallengeKind::Tls, ("https.listen", &config.https.listen)),
        ChallengeChoice::Http => (ChallengeKind::Http, ("http.listen", &config.http.listen)),
    };
    if listens.1.0.is_empty() {
        refuse("challenge", &format!("needs `{}`, which is empty", listens.0));
    }
    let external_account = external_account(config, &mut refuse);
    let extra_roots_pem = match acme.ca_file.as_str() {
        "" => Vec::new(),
        file => certificates(Path::new(file)).unwrap_or_else(|reason| {
            refuse("ca_file", &format!("{file}: {reason}"));
            Vec::new()
        }),
    };
    let days = acme.renew_before_days.unsigned_abs();
    Some(AcmeSettings {
        orders: acme.domains.iter().map(|entry| names(entry)).collect(),
        contact,
        directory: directory.unwrap_or_default(),
        challenge,
        state_directory: acme.state_dir.clone().into(),
        external_account,
        extra_roots_pem,
        renew_before: (days > 0).then(|| Duration::from_secs(days * 86_400)),
    })
}

/// The names of an entry. Not checked.
fn names(entry: &str) -> Vec<String> {
    entry.split_whitespace().map(str::to_ascii_lowercase).collect()
}

fn check_domains(domains: &[String]) -> Result<(), String> {
    if domains.len() > ORDERS_MAX {
        return Err(format!("has more than {ORDERS_MAX} entries: put several names into one, with spaces"));
    }
    let mut all = BTreeSet::new();
    for entry in domains {
        let names = names(entry);
        if names.is_empty() {
            return Err("has an empty entry".to_owned());
        }
        if names.len() > NAMES_MAX {
            return Err(format!("has an entry with more than {NAMES_MAX} names"));
        }
        for name in names {
            check_name(&name).map_err(|reason| format!("has `{name}`, {reason}"))?;
            if !all.insert(name.clone()) {
                return Err(format!("has `{name}` twice"));
            }
        }
    }
    Ok(())
}

/// Names of hosts alone: they are names of files as well.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.starts_with("*.") {
        return Err("but names with `*` need the challenge dns-01, which is not supported: name each host");
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err("which is an address: names alone are ordered");
    }
    let is_label = |label: &str| {
        let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && is_plain && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err("which is no name of a host (write international names as `xn--...`)");
    }
    Ok(())
}

fn external_account(config: &Config, refuse: &mut impl FnMut(&str, &str)) -> Option<ExternalAccount> {
    let acme = &config.acme;
    let (id, text, file) =
        (&acme.external_account_id, &acme.external_account_key, &acme.external_account_key_file);
    let (key, text) = match (text.is_empty(), file.is_empty()) {
        (true, true) => {
            if !id.is_empty() {
                refuse("external_account_id", "needs `acme.external_account_key`");
            }
            return None;
        }
        (false, true) => ("external_account_key", Ok(text.clone())),
        (true, false) => {
            let read = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
            ("external_account_key_file", read)
        }
        (false, false) => {
            let both = "and `acme.external_account_key_file` are both set: remove one";
            ("external_account_key", Err(both.to_owned()))
        }
    };
    if id.is_empty() {
        refuse(key, "needs `acme.external_account_id`");
    }
    let decoded = text.and_then(|text| {
        let text = text.trim().trim_end_matches('=');
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(text);
        // Some authorities show it in the other alphabet.
        let decoded = decoded.or_else(|_| BASE64_STANDARD.decode(format!("{text}{}", padding(text))));
        // The text is in no error.
        decoded.ok().filter(|key| !key.is_empty()).ok_or("is no base64url".to_owned())
    });
    match decoded {
        Ok(key) => Some(ExternalAccount { key_id: id.clone(), key }),
        Err(reason) => {
            refuse(key, &reason);
            None
        }
    }
}

fn padding(text: &str) -> &'static str {
    ["", "===", "==", "="][text.len() % 4]
}
