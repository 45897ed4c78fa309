//! Account and certificates on disk, one directory per authority.
//!
//! ```text
//! STATE_DIR/HOST_PATH/account.json    the account with its key
//!                     NAME.pem        private key and chain of a certificate
//!                     NAME.failed     when an order for it last failed
//! ```
//!
//! Key and chain are in one file, so that they always belong together. Each file is written beside
//! its place, synced and renamed: whenever the machine stops, the old one or the new one is there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use instant_acme::AccountCredentials;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use worker_api::certificates::Certificate;

use crate::settings::AcmeSettings;

/// Most certificates in a chain.
const CHAIN_MAX: usize = 10;
/// Longest time that the disk may take.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where account and certificates are kept.
#[derive(Debug)]
pub(crate) struct Storage {
    directory: PathBuf,
}

impl Storage {
    pub(crate) fn new(settings: &AcmeSettings) -> Self {
        // Another authority has other accounts, and a certificate for trials must not be taken for
        // a real one.
        let (_, name) = settings.directory.split_once("://").unwrap_or(("", &settings.directory));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
        let name: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
        // A host is no `..`.
        Self { directory: settings.state_directory.join(name.trim_matches(['_', '.'])) }
    }

    /// Reads or writes on a thread of its own, since the disk may be slow, or away.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let storage = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&storage));
        match tokio::time::timeout(DISK_TIMEOUT, done).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err("the disk could not be used".to_owned()),
            Err(_) => Err(format!("the disk did not answer within {} s", DISK_TIMEOUT.as_secs())),
        }
    }

    /// The account, if there is one.
    pub(crate) fn load_account(&self) -> Result<Option<AccountCredentials>, String> {
        let path = self.account();
        let Some(text) = read(&path)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn save_account(&self, account: &AccountCredentials) -> Result<(), String> {
        let text = serde_json::to_vec(account).map_err(|error| error.to_string())?;
        self.write(&self.account(), &text)
    }

    /// There is no such account any more.
    pub(crate) fn forget_account(&self) -> Result<(), String> {
        remove(&self.account())
    }

    /// The certificate that was ordered for `names`, if there is one; whatever its time, since an
    /// expired one is no worse than none.
    pub(crate) fn load_certificate(&self, names: &[String]) -> Result<Option<Certificate>, String> {
        let path = self.file(names, "pem");
        let Some(pem) = read(&path)? else { return Ok(None) };
        certificate(format!("`acme.state_dir` {}", path.display()), &pem)
            .map(Some)
            .map_err(|reason| format!("{}: {reason}", path.display()))
    }

    pub(crate) fn save_certificate(&self, names: &[String], pem: &str) -> Result<(), String> {
        self.write(&self.file(names, "pem"), pem.as_bytes())
    }

    /// A source for a certificate of `names` that is used before it is saved.
    pub(crate) fn source(&self, names: &[String]) -> String {
        format!("`acme.state_dir` {}", self.file(names, "pem").display())
    }

    /// When an order for `names` failed, since 1970, if the last one did.
    pub(crate) fn last_failure(&self, names: &[String]) -> Option<Duration> {
        let text = read(&self.file(names, "failed")).ok().flatten()?;
        String::from_utf8(text).ok()?.trim().parse().ok().map(Duration::from_secs)
    }

    pub(crate) fn save_failure(&self, names: &[String], now: Duration) -> Result<(), String> {
        self.write(&self.file(names, "failed"), now.as_secs().to_string().as_bytes())
    }

    pub(crate) fn forget_failure(&self, names: &[String]) -> Result<(), String> {
        remove(&self.file(names, "failed"))
    }

    fn account(&self) -> PathBuf {
        self.directory.join("account.json")
    }

    /// Names are letters, digits, hyphens and dots: `config` has seen to it.
    fn file(&self, names: &[String], ending: &str) -> PathBuf {
        let name = names.first().map_or("", String::as_str);
        self.directory.join(format!("{name}.{ending}"))
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), String> {
        let written = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let temporary = path.with_extension("new");
            // What a server left that was stopped here; its mode might be another.
            let _ = std::fs::remove_file(&temporary);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(content)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)?;
            File::open(&self.directory)?.sync_all()
        };
        written().map_err(|error: io::Error| format!("{}: {error}", path.display()))
    }
}

/// A certificate with its key, from PEM with both.
///
/// # Errors
/// A sentence: a part is missing, they do not belong together, or the chain is none.
pub(crate) fn certificate(source: String, pem: &[u8]) -> Result<Certificate, String> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("no private key: {error}"))?;
    let chain = CertificateDer::pem_slice_iter(pem).take(CHAIN_MAX + 1).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("no PEM certificate: {error}"))?;
    if chain.len() > CHAIN_MAX {
        return Err(format!("more than {CHAIN_MAX} certificates"));
    }
    is_chain(&chain)?;
    Certificate::new(source, chain, key)
}

/// Whether each certificate is followed by that of its issuer, by name. Whether they are trusted is
/// the business of clients.
fn is_chain(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let mut issuer: Option<Vec<u8>> = None;
    for certificate in chain {
        let (_, read) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| format!("a certificate cannot be read: {error}"))?;
        if issuer.is_some_and(|issuer| issuer != read.subject().as_raw()) {
            return Err("the certificates are no chain".to_owned());
        }
        issuer = Some(read.issuer().as_raw().to_vec());
    }
    Ok(())
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let explain = |error: io::Error| format!("{}: {error}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(explain(error)),
    };
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).map_err(explain)?;
    Ok(Some(content))
}

fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::settings::ChallengeKind;

    fn storage(root: &Path, directory: &str) -> Storage {
        Storage::new(&AcmeSettings {
            orders: Vec::new(),
            contact: Vec::new(),
            directory: directory.to_owned(),
            challenge: ChallengeKind::Tls,
            state_directory: root.join("state"),
            external_account: None,
            extra_roots_pem: Vec::new(),
            renew_before: None,
        })
    }

    fn pem(name: &str) -> String {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        format!("{}{}", made.signing_key.serialize_pem(), made.cert.pem())
    }

    #[test]
    fn files_are_the_servers_alone_and_replaced_as_a_whole() {
        let root = tempfile::tempdir().expect("a directory");
        let (storage, names) = (storage(root.path(), "https://ca.test/dir"), ["a.test".to_owned()]);
        assert!(storage.load_certificate(&names).expect("none").is_none());
        for _ in 0..2 {
            storage.save_certificate(&names, &pem("a.test")).expect("saved");
        }
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let directory = root.path().join("state/ca.test_dir");
        assert_eq!((mode(&directory), mode(&root.path().join("state"))), (0o700, 0o700));
        assert_eq!(mode(&directory.join("a.test.pem")), 0o600);
        let files = std::fs::read_dir(&directory).expect("readable").count();
        assert_eq!(files, 1, "nothing is left over");
        let certificate = storage.load_certificate(&names).expect("readable").expect("one");
        assert_eq!(certificate.names, names);
        // What a server left that was stopped while it wrote.
        std::fs::write(directory.join("a.test.new"), "half").expect("written");
        storage.save_certificate(&names, &pem("a.test")).expect("saved");
    }

    #[test]
    fn each_authority_has_a_directory_of_its_own() {
        let root = Path::new("/s");
        let of = |directory: &str| storage(root, directory).directory.display().to_string();
        assert_eq!(of("https://acme.test/directory"), "/s/state/acme.test_directory");
        assert_eq!(of("https://acme.test:14000/dir"), "/s/state/acme.test_14000_dir");
        assert_eq!(of("https://../../etc"), "/s/state/etc");
    }

    #[test]
    fn what_is_no_certificate_says_why() {
        let (mine, other) = (pem("a.test"), pem("b.test"));
        let at = mine.find("-----BEGIN CERTIFICATE").expect("a certificate");
        let cases = [
            (String::new(), "no private key"),
            (mine[..at].to_owned(), "holds no certificate"),
            (mine[at..].to_owned(), "no private key"),
            (format!("{}{other}", &mine[..at]), "not that of the certificate"),
            (format!("{mine}{}", &other[other.find("-----BEGIN CERT").expect("one")..]), ""),
            (format!("{mine}{}", mine[at..].repeat(10)), "more than 10"),
            (format!("{}-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n", &mine[..at]), "no PEM"),
        ];
        for (text, expected) in cases {
            match certificate(String::new(), text.as_bytes()) {
                // Both are called the same by the tool that made them.
                Ok(_) => assert_eq!(expected, ""),
                Err(error) => {
                    assert!(error.contains(expected) && !expected.is_empty(), "{expected}: {error}")
                }
            }
        }
    }

    #[test]
    fn an_account_of_another_time_is_an_error_not_an_end() {
        let root = tempfile::tempdir().expect("a directory");
        let storage = storage(root.path(), "https://ca.test/dir");
        assert!(storage.load_account().expect("none").is_none());
        storage.write(&storage.account(), b"{\"id\": 7}").expect("written");
        assert!(storage.load_account().is_err());
        storage.forget_account().expect("removed");
        storage.forget_account().expect("removed already");
        assert!(storage.load_account().expect("none").is_none());
    }
}
