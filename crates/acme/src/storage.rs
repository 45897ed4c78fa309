//! Account and certificates on disk, one directory per authority.
//!
//! ```text
//! STATE_DIR/acme-v02.api.letsencrypt.org_directory/account.json    the account with its key
//!                                                  NAME.pem        private key and chain of a certificate
//!                                                  NAME.failed     when an order for it last failed
//! ```
//!
//! Key and chain are in one file, so that they always belong together. Each file is written beside its place,
//! synced and renamed: whenever the machine stops, the old one or the new one is there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use instant_acme::AccountCredentials;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use worker_api::certificates::Certificate;

use crate::settings::AcmeSettings;

/// Most certificates in a chain.
const CHAIN_MAX: usize = 10;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where account and certificates are kept.
#[derive(Debug)]
pub(crate) struct Storage {
    directory: PathBuf,
}

impl Storage {
    pub(crate) fn new(settings: &AcmeSettings) -> Self {
        // Another authority has other accounts, and a certificate for trials must not be taken for a real one.
        let (_, name) = settings.directory.split_once("://").unwrap_or(("", &settings.directory));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
        let name: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
        // A host is no `..`.
        Self { directory: settings.state_directory.join(name.trim_matches(['_', '.'])) }
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

    /// The certificate that was ordered for `names`, if there is one; whatever its time, since an expired one is
    /// no worse than none.
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

/// Whether each certificate is followed by that of its issuer, by name. Whether they are trusted is the business
/// of clients.
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
