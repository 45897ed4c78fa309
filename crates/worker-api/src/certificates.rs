//! The server's certificates: a client gets the one for the name it asks for (SNI, RFC 6066 section 3).
//!
//! All TLS listeners share one store. What is in it can be replaced while they listen: connections that exist
//! keep what they have, later ones get the new. Reading files is the business of `config`, and ordering
//! certificates that of `acme`, whose challenges are answered here as well.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use crate::challenges::{Challenges, is_tls_challenge};
use crate::live::Live;

/// One certificate with its key.
#[derive(Clone)]
pub struct Certificate {
    /// The key of the configuration and the file it is from, for people.
    pub source: String,
    /// Names in it (DNS), in lower case; one may begin with `*.`.
    pub names: Vec<String>,
    /// When it begins to be valid, since 1970.
    pub not_before: Duration,
    /// When it ends to be valid, since 1970.
    pub not_after: Duration,
    key: Arc<CertifiedKey>,
}

impl Certificate {
    /// A chain, its own certificate first, with the key of that.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence: the key is that of another certificate, or one cannot be read.
    pub fn new(
        source: String,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let own = chain.first().ok_or("holds no certificate")?;
        let (_, read) = x509_parser::parse_x509_certificate(own)
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let alternatives = read.subject_alternative_name().ok().flatten();
        let alternatives = alternatives.map(|extension| extension.value.general_names.as_slice());
        let names = alternatives.unwrap_or_default().iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let seconds = |moment: i64| Duration::from_secs(u64::try_from(moment).unwrap_or(0));
        let (names, validity) = (names.collect(), read.validity());
        let not_before = seconds(validity.not_before.timestamp());
        let not_after = seconds(validity.not_after.timestamp());
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
            other => other.to_string(),
        })?;
        Ok(Self { source, names, not_before, not_after, key: Arc::new(key) })
    }

    /// Why it proves nothing at `now` (since 1970), if so: a sentence.
    pub fn is_out_of_date(&self, now: Duration) -> Option<&'static str> {
        match now {
            now if now < self.not_before => Some("the certificate is not valid yet"),
            now if now >= self.not_after => Some("the certificate has expired"),
            _ => None,
        }
    }

    /// Its chain, its own first (DER).
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether it is for `name`, in lower case (RFC 6125 section 6.4: `*` stands for one whole first label).
    pub fn is_for(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|own| match own.strip_prefix("*.") {
            Some(rest) => parent == Some(rest),
            None => own == name,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate of {:?} from {}", self.names, self.source)
    }
}

/// All certificates, in order; the first is for clients that ask for another name, or for none.
#[derive(Debug, Default)]
pub struct CertificateStore {
    /// Those of both parts.
    used: Live<Arc<Vec<Certificate>>>,
    parts: Mutex<Parts>,
    /// What certificate authorities ask for.
    pub challenges: Challenges,
}

/// Where certificates are from.
#[derive(Debug, Default)]
struct Parts {
    configured: Arc<Vec<Certificate>>,
    /// Whether `configured` are only there until others are: they prove nothing.
    is_stand_in: bool,
    /// By an authority, while the server runs.
    issued: Vec<Certificate>,
}

impl CertificateStore {
    /// With these of the configuration, of which there is at least one.
    pub fn new(certificates: Vec<Certificate>) -> Self {
        let parts = Parts { configured: Arc::new(certificates), ..Parts::default() };
        Self { used: Live::new(parts.used()), parts: Mutex::new(parts), challenges: Challenges::default() }
    }

    /// The same, but they are not used any more once one is issued: self-signed ones.
    pub fn with_stand_in(self) -> Self {
        self.change(|parts| parts.is_stand_in = true);
        self
    }

    /// Those in use.
    pub fn list(&self) -> Arc<Vec<Certificate>> {
        self.used.load()
    }

    /// Those of the configuration.
    pub fn configured(&self) -> Arc<Vec<Certificate>> {
        Arc::clone(&self.parts.lock().unwrap_or_else(PoisonError::into_inner).configured)
    }

    /// Uses others of the configuration, for connections from now on.
    pub fn replace(&self, certificates: Arc<Vec<Certificate>>) {
        self.change(|parts| parts.configured = certificates);
    }

    /// Uses these that an authority has issued, for connections from now on.
    pub fn set_issued(&self, certificates: Vec<Certificate>) {
        self.change(|parts| parts.issued = certificates);
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parts);
        // With the lock held: who changes last is seen last.
        self.used.replace(parts.used());
    }

    /// Whether `others` are those of the configuration that are in use.
    pub fn is_same(&self, others: &[Certificate]) -> bool {
        let used = self.configured();
        used.len() == others.len() && used.iter().zip(others).all(|(used, other)| used.is_same(other))
    }

    /// Why `others` must not replace those in use, if so: one of them, which is not in use already, proves
    /// nothing at `now`.
    pub fn objection(&self, others: &[Certificate], now: Duration) -> Option<String> {
        let used = self.configured();
        let is_new = |other: &&Certificate| !used.iter().any(|used| used.is_same(other));
        others.iter().filter(is_new).find_map(|other| {
            let reason = other.is_out_of_date(now)?;
            Some(format!("{}: {reason}", other.source))
        })
    }

    fn choose(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.list();
        let name = name.map(str::to_ascii_lowercase);
        let is_asked_for =
            |certificate: &&Certificate| name.as_ref().is_some_and(|name| certificate.is_for(name));
        let chosen = certificates.iter().find(is_asked_for).or_else(|| certificates.first());
        chosen.map(|certificate| Arc::clone(&certificate.key))
    }
}

impl Parts {
    /// Files go before what was issued, so that a name can be taken out of the hands of an authority.
    fn used(&self) -> Arc<Vec<Certificate>> {
        match (self.issued.is_empty(), self.is_stand_in) {
            (true, _) => Arc::clone(&self.configured),
            (false, true) => Arc::new(self.issued.clone()),
            (false, false) => Arc::new(self.configured.iter().chain(&self.issued).cloned().collect()),
        }
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match hello.alpn().is_some_and(is_tls_challenge) {
            // Never another certificate: the authority would take it for a wrong answer.
            true => self.challenges.tls_answer(hello.server_name()?),
            false => self.choose(hello.server_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    fn made(names: &[&str], years: (i32, i32)) -> Certificate {
        let pair = KeyPair::generate().expect("a key");
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let certificate = params.self_signed(&pair).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(pair.serialize_der()).into();
        Certificate::new("test".to_owned(), vec![certificate.der().clone()], key).expect("a pair")
    }

    #[test]
    fn a_client_gets_the_certificate_of_its_name() {
        let names = [&["a.example"][..], &["*.b.example", "b.example"], &["c.b.example"], &["10.0.0.1"]];
        let store = CertificateStore::new(names.iter().map(|names| made(names, (2020, 2040))).collect());
        let list = store.list();
        let cases = [
            (Some("a.example"), 0),
            (Some("A.Example"), 0),
            (Some("b.example"), 1),
            (Some("x.b.example"), 1),
            (Some("c.b.example"), 1),   // the first that fits
            (Some("x.y.b.example"), 0), // `*` is one label
            (Some("other.example"), 0),
            (None, 0),
        ];
        for (name, expected) in cases {
            let chosen = store.choose(name).expect("one");
            assert!(Arc::ptr_eq(&chosen, &list[expected].key), "{name:?}");
        }
        assert!(list[3].names.is_empty(), "addresses are not asked for");
    }

    #[test]
    fn files_go_before_issued_ones_and_those_before_a_stand_in() {
        let names = |store: &CertificateStore| -> Vec<String> {
            store.list().iter().map(|certificate| certificate.names[0].clone()).collect()
        };
        let store = CertificateStore::new(vec![made(&["file"], (2020, 2040))]);
        store.set_issued(vec![made(&["a"], (2020, 2040)), made(&["b"], (2020, 2040))]);
        assert_eq!(names(&store), ["file", "a", "b"]);
        assert!(store.is_same(&store.configured()), "issued ones are not the configuration's");
        store.replace(Arc::new(vec![made(&["other"], (2020, 2040))]));
        assert_eq!(names(&store), ["other", "a", "b"]);
        let store = CertificateStore::new(vec![made(&["self"], (2020, 2040))]).with_stand_in();
        assert_eq!(names(&store), ["self"]);
        store.set_issued(vec![made(&["a"], (2020, 2040))]);
        assert_eq!(names(&store), ["a"]);
    }

    #[test]
    fn one_that_proves_nothing_replaces_none_but_stays_if_it_is_used() {
        let store = CertificateStore::new(vec![made(&["a"], (2020, 2021))]);
        let now = Duration::from_secs(1_800_000_000);
        assert_eq!(store.objection(&store.list(), now), None);
        assert_eq!(store.objection(&[made(&["a"], (2020, 2040))], now), None);
        let cases = [((2020, 2021), "has expired"), ((2039, 2040), "not valid yet")];
        for (years, expected) in cases {
            let objection = store.objection(&[made(&["a"], years)], now).expect("an objection");
            assert!(objection.contains(expected), "{objection}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let pair = KeyPair::generate().expect("a key");
        let other = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(pair.serialize_der()).into();
        let error = Certificate::new(String::new(), vec![other.cert.der().clone()], key);
        assert_eq!(error.expect_err("refused"), "the key is not that of the certificate");
    }
}
