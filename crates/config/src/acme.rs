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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;
    use crate::resolve::{Resolved, resolve};

    const GOOD: &str = "accept_terms = true\nstate_dir = \"/s\"\n";

    fn resolved(text: &str) -> Result<Resolved, Vec<String>> {
        let file = Some(("m.toml".to_owned(), format!("[acme]\n{text}")));
        let config = crate::load(&Sources { file, ..Sources::default() });
        let resolved = config.and_then(|config| resolve(&config, &|_| None));
        resolved.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn each_entry_is_a_certificate() {
        let text = format!(
            "{GOOD}domains = [\"A.example\", \"b.example  www.b.example\"]\ncontact = \"a@b.example\""
        );
        let resolved = resolved(&text).expect("right");
        let acme = resolved.acme.expect("orders");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(acme.orders, [names(&["a.example"]), names(&["b.example", "www.b.example"])]);
        assert_eq!(acme.contact, ["mailto:a@b.example"]);
        assert_eq!((acme.challenge, acme.renew_before), (ChallengeKind::Tls, None));
        assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
        // TLS is on, with one that stands in, and challenges are answered by HTTPS alone.
        let store = resolved.certificates.expect("a certificate");
        assert_eq!(store.list()[0].names, ["a.example", "b.example", "www.b.example"]);
        let protocols =
            |tls: Option<std::sync::Arc<rustls::ServerConfig>>| tls.expect("on").alpn_protocols.clone();
        assert_eq!(protocols(resolved.worker.https_tls).last().expect("some"), b"acme-tls/1");
        assert_eq!(protocols(resolved.worker.rtmps_tls), [b"http/1.1"]);
        assert!(!resolved.worker.https.is_empty() && !resolved.worker.rtmps.is_empty());
    }

    #[test]
    fn nothing_is_ordered_without_names() {
        assert!(resolved("state_dir = \"/s\"").expect("right").acme.is_none());
    }

    #[test]
    fn keys_of_accounts_are_read_in_both_alphabets_and_not_shown() {
        for (text, expected) in
            [("-_8", vec![0xfb, 0xff]), ("+/8=", vec![0xfb, 0xff]), ("AAEC", vec![0, 1, 2])]
        {
            let more = format!("external_account_id = \"kid\"\nexternal_account_key = \"{text}\"");
            let resolved = resolved(&format!("{GOOD}domains = \"a.example\"\n{more}")).expect(text);
            let account = resolved.acme.and_then(|acme| acme.external_account).expect("an account");
            assert_eq!((account.key_id.as_str(), &account.key), ("kid", &expected));
            assert!(!format!("{account:?}").contains("251"));
        }
    }

    #[test]
    fn mistakes_name_their_key() {
        let domains = |names: &str| format!("{GOOD}domains = [{names}]");
        let more = |more: &str| format!("{GOOD}domains = \"a.example\"\n{more}");
        let long = "a".repeat(64);
        let cases = [
            ("domains = \"a.example\"\nstate_dir = \"/s\"".to_owned(), "`acme.accept_terms` must be true"),
            ("domains = \"a.example\"\naccept_terms = true".to_owned(), "`acme.state_dir` is needed"),
            (domains("\"*.a.example\""), "`acme.domains` has `*.a.example`, but names with `*` need"),
            (domains("\"192.0.2.1\""), "which is an address"),
            (domains("\"a.example\", \"b.example a.example\""), "`acme.domains` has `a.example` twice"),
            (domains("\" \""), "`acme.domains` has an empty entry"),
            (domains("\"../../etc/passwd\""), "which is no name of a host"),
            (domains("\"a..example\""), "which is no name of a host"),
            (domains("\"-a.example\""), "which is no name of a host"),
            (domains("\"bücher.example\""), "write international names"),
            (domains(&format!("\"{long}.example\"")), "which is no name of a host"),
            (more("contact = \"nobody\""), "`acme.contact` has `nobody`, which is no e-mail address"),
            (more("contact = \"a@b,c@d\""), "`acme.contact` has"),
            (more("directory = \"http://a.example/\""), "`acme.directory` is no URL with https://"),
            (more("directory = \"https://user:word@a.example/\""), "`acme.directory` is no URL"),
            (more("challenge = \"dns-01\""), "`acme.challenge` cannot be \"dns-01\""),
            (more("ca_file = \"/nowhere\""), "`acme.ca_file` /nowhere:"),
            (more("external_account_id = \"kid\""), "`acme.external_account_id` needs"),
            (
                more("external_account_key = \"AAEC\""),
                "`acme.external_account_key` needs `acme.external_account_id`",
            ),
            (more("external_account_id = \"k\"\nexternal_account_key = \"$secret$\""), "is no base64url"),
            (
                more("external_account_id = \"k\"\nexternal_account_key_file = \"/nowhere\""),
                "_file` /nowhere:",
            ),
            (more("[https]\nlisten = []"), "`acme.challenge` needs `https.listen`, which is empty"),
            (more("challenge = \"http-01\"\n[http]\nlisten = []"), "`acme.challenge` needs `http.listen`"),
        ];
        for (text, expected) in cases {
            let errors = resolved(&text).err().unwrap_or_default();
            assert!(errors.iter().any(|error| error.contains(expected)), "{expected}\nin {errors:#?}");
            assert!(!errors.iter().any(|error| error.contains("$secret$")), "{errors:#?}");
        }
    }
}
