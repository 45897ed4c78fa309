//! One order at the authority, from its account to a chain (RFC 8555 section 7).
//!
//! ```text
//! account ─▶ new order ─▶ a challenge per name ─▶ ready ─▶ request with a new key ─▶ chain
//! ```

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error,
    ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use worker_api::certificates::{Certificate, CertificateStore};

use crate::client::{AcmeClient, ClientError};
use crate::failure::{Cause, Failure};
use crate::settings::{AcmeSettings, ChallengeKind};
use crate::storage::Storage;

/// Time for an order with all that belongs to it.
const ORDER_TIMEOUT: Duration = Duration::from_secs(300);
/// How often an order is begun again at once, for reasons that pass.
const ORDER_TRIES: u32 = 3;
/// How the authority is asked whether it has looked at the challenges, and whether it has signed.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));
/// Longest text of an authority in the log.
const MESSAGE_CHARACTERS_MAX: usize = 500;

/// Who issues certificates. The tests have one without a network.
pub(crate) trait Authority: Send + Sync + 'static {
    /// Orders a certificate for `names`, in the place of another if that is given. Returns private
    /// key and chain, PEM, neither of them checked.
    fn issue(
        &mut self,
        names: &[String],
        replaced: Option<&Certificate>,
    ) -> impl Future<Output = Result<String, Failure>> + Send;

    /// When the authority would like `certificate` to be renewed, since 1970 (RFC 9773), and how
    /// long that holds; `None`: it has no opinion, or tells nobody.
    fn renewal_window(
        &mut self,
        certificate: &Certificate,
    ) -> impl Future<Output = Option<Suggestion>> + Send;
}

/// When an authority would like a certificate to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// From when to when, since 1970.
    pub(crate) window: (Duration, Duration),
    /// When to ask again.
    pub(crate) ask_after: Duration,
}

/// An authority by ACME.
pub(crate) struct AcmeAuthority {
    settings: Arc<AcmeSettings>,
    storage: Arc<Storage>,
    store: Arc<CertificateStore>,
    client: AcmeClient,
    account: Option<Account>,
}

impl AcmeAuthority {
    pub(crate) fn new(
        settings: Arc<AcmeSettings>,
        storage: Arc<Storage>,
        store: Arc<CertificateStore>,
    ) -> Result<Self, String> {
        let client = AcmeClient::new(&settings.extra_roots_pem)?;
        Ok(Self { settings, storage, store, client, account: None })
    }

    /// The account: the one in use, that on disk, or a new one.
    async fn account(&mut self) -> Result<Account, Failure> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let stored = self.storage.run(Storage::load_account).await.unwrap_or_else(|reason| {
            tracing::error!(
                reason,
                "the account at the certificate authority cannot be read: a new one is made"
            );
            None
        });
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let account = match stored {
            Some(credentials) => {
                builder.from_credentials(credentials).await.map_err(|error| self.explain(error))?
            }
            None => {
                let contact: Vec<_> = self.settings.contact.iter().map(String::as_str).collect();
                let account = NewAccount {
                    contact: &contact,
                    // `config` lets nobody come here who has not agreed.
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let external = self.settings.external_account.as_ref();
                let external = external.map(|one| ExternalAccountKey::new(one.key_id.clone(), &one.key));
                let made = builder.create(&account, self.settings.directory.clone(), external.as_ref()).await;
                let (account, credentials) = made.map_err(|error| self.explain(error))?;
                tracing::info!(authority = self.settings.directory, "account registered");
                if let Err(reason) = self.storage.run(move |storage| storage.save_account(&credentials)).await
                {
                    tracing::error!(reason, "the account at the certificate authority is not saved");
                }
                account
            }
        };
        Ok(self.account.insert(account).clone())
    }

    async fn order(&mut self, names: &[String], replaced: Option<&Certificate>) -> Result<String, Failure> {
        let account = self.account().await?;
        let identifiers: Vec<_> = names.iter().map(|name| Identifier::Dns(name.clone())).collect();
        let replaced = replaced.and_then(identifier);
        let wanted = match &replaced {
            Some(replaced) => NewOrder::new(&identifiers).replaces(replaced.clone()),
            None => NewOrder::new(&identifiers),
        };
        let order = match account.new_order(&wanted).await {
            // Authorities that know nothing of RFC 9773.
            Err(Error::Unsupported(_)) => account.new_order(&NewOrder::new(&identifiers)).await,
            other => other,
        };
        let mut order = order.map_err(|error| self.explain(error))?;
        self.answer_challenges(&mut order, names).await?;
        let status = order.poll_ready(&POLLS).await;
        match status {
            Ok(OrderStatus::Ready) => {}
            Ok(_) => return Err(self.failed_challenge(&mut order).await),
            Err(error) => return Err(self.explain(error)),
        }
        let failed = |error: rcgen::Error| Failure::new(Cause::BadAnswer, format!("no request: {error}"));
        let key = KeyPair::generate().map_err(failed)?;
        let mut request = CertificateParams::new(names).map_err(failed)?;
        request.distinguished_name = DistinguishedName::new();
        let request = request.serialize_request(&key).map_err(failed)?;
        order.finalize_csr(request.der()).await.map_err(|error| self.explain(error))?;
        let chain = order.poll_certificate(&POLLS).await.map_err(|error| self.explain(error))?;
        Ok(format!("{}{chain}", key.serialize_pem()))
    }

    /// Puts the answers where the authority looks, and tells it to.
    async fn answer_challenges(&self, order: &mut Order, names: &[String]) -> Result<(), Failure> {
        let kind = match self.settings.challenge {
            ChallengeKind::Tls => ChallengeType::TlsAlpn01,
            ChallengeKind::Http => ChallengeType::Http01,
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.explain(error))?;
            let name = authorization.identifier().to_string();
            if !names.contains(&name) {
                let message = format!("the authority asks about `{name}`, which was not ordered");
                return Err(Failure::new(Cause::BadAnswer, shortened(&message)));
            }
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    let message = format!("the authorization of `{name}` is {status:?}");
                    return Err(Failure::new(Cause::Challenge, message));
                }
            }
            let Some(mut challenge) = authorization.challenge(kind.clone()) else {
                let message =
                    format!("the authority does not offer the challenge of `acme.challenge` for `{name}`");
                return Err(Failure::new(Cause::Challenge, message));
            };
            self.put_answer(&name, &challenge)?;
            challenge.set_ready().await.map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    fn put_answer(&self, name: &str, challenge: &ChallengeHandle<'_>) -> Result<(), Failure> {
        let challenges = &self.store.challenges;
        let answer = challenge.key_authorization();
        let has_room = match self.settings.challenge {
            ChallengeKind::Http => {
                challenges.answer_http(challenge.token.clone(), answer.as_str().to_owned())
            }
            ChallengeKind::Tls => {
                let key = challenge_certificate(name, answer.digest().as_ref());
                let key = key.map_err(|reason| Failure::new(Cause::BadAnswer, reason))?;
                challenges.answer_tls(name.to_owned(), key)
            }
        };
        match has_room {
            true => Ok(()),
            false => Err(Failure::new(Cause::BadAnswer, "the order has more challenges than names")),
        }
    }

    /// Why an order cannot be fulfilled any more.
    async fn failed_challenge(&self, order: &mut Order) -> Failure {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let Ok(mut authorization) = authorization else { break };
            let name = authorization.identifier().to_string();
            let Ok(state) = authorization.refresh().await else { break };
            if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
                let message = shortened(&format!("the challenge for `{name}` failed: {}", text(problem)));
                return Failure::new(Cause::Challenge, message);
            }
        }
        Failure::new(Cause::Challenge, "the authority has given the order up")
    }

    fn explain(&self, error: Error) -> Failure {
        let retry_after = self.client.take_retry_after();
        let (cause, message) = match &error {
            Error::Api(problem) => (cause(problem), format!("the authority refuses: {}", text(problem))),
            Error::Timeout(_) => {
                (Cause::Timeout, "the authority does not come to an end with the order".to_owned())
            }
            Error::Other(other) => match other.downcast_ref::<ClientError>() {
                Some(ClientError::Connection(_)) => (Cause::Unreachable, other.to_string()),
                Some(ClientError::Timeout) => (Cause::Timeout, other.to_string()),
                _ => (Cause::BadAnswer, other.to_string()),
            },
            other => (Cause::BadAnswer, format!("the authority's answer makes no sense: {other}")),
        };
        Failure { cause, message: shortened(&message), retry_after }
    }
}

impl Authority for AcmeAuthority {
    async fn issue(&mut self, names: &[String], replaced: Option<&Certificate>) -> Result<String, Failure> {
        // Of another order.
        let _ = self.client.take_retry_after();
        let tries = async {
            let (mut tries, mut replaced) = (1, replaced);
            loop {
                let failure = match self.order(names, replaced).await {
                    Err(failure) if tries < ORDER_TRIES => failure,
                    done => return done,
                };
                if failure.message.contains(UNKNOWN_ACCOUNT) {
                    // It was removed there, or the authority has lost its memory.
                    tracing::warn!(
                        "the certificate authority does not know the account any more: a new one is made"
                    );
                    self.account = None;
                    let forgotten = self.storage.run(Storage::forget_account).await;
                    forgotten.map_err(|reason| Failure::new(Cause::Refused, reason))?;
                } else if failure.message.contains(BAD_NONCE) {
                    // As often as `instant-acme` tries a request, bad luck can have it.
                } else if replaced.is_some() && matches!(failure.cause, Cause::Refused | Cause::BadAnswer) {
                    // Perhaps it is only what is replaced: of another account, replaced already, or
                    // forgotten.
                    tracing::debug!(reason = failure.message, "ordering again as if for the first time");
                } else {
                    return Err(failure);
                }
                replaced = None;
                self.store.challenges.clear();
                tries += 1;
            }
        };
        let issued = tokio::time::timeout(ORDER_TIMEOUT, tries).await;
        self.store.challenges.clear();
        issued.unwrap_or_else(|_| {
            let message = format!("the order took longer than {} s", ORDER_TIMEOUT.as_secs());
            Err(Failure::new(Cause::Timeout, message))
        })
    }

    async fn renewal_window(&mut self, certificate: &Certificate) -> Option<Suggestion> {
        let identifier = identifier(certificate)?;
        // Not for this alone a new one is made.
        let account = match &self.account {
            Some(account) => account.clone(),
            None if self.storage.run(Storage::load_account).await.ok()?.is_some() => {
                self.account().await.ok()?
            }
            None => return None,
        };
        let (info, ask_after) = account.renewal_info(&identifier).await.ok()?;
        let at = |moment: std::time::SystemTime| moment.duration_since(UNIX_EPOCH).ok();
        let window = (at(info.suggested_window.start.into())?, at(info.suggested_window.end.into())?);
        Some(Suggestion { window, ask_after })
    }
}

/// What shows an authority by TLS that the name is this server's (RFC 8737 section 3).
fn challenge_certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let made = || {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let certificate = params.self_signed(&key)?;
        Ok((certificate, key))
    };
    let (certificate, key) = made().map_err(|error: rcgen::Error| format!("no challenge: {error}"))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
    // Not compared with the key: rustls reads no certificate with this extension, which is
    // critical.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

/// What names a certificate to its authority (RFC 9773 section 4.1); `None`: it does not say who
/// issued it.
fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let own = certificate.chain().first()?;
    CertificateIdentifier::try_from(own).ok().map(CertificateIdentifier::into_owned)
}

fn cause(problem: &Problem) -> Cause {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    match kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or_default() {
        "rateLimited" => Cause::RateLimited,
        "connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized" | "caa" => Cause::Challenge,
        _ => Cause::Refused,
    }
}

fn text(problem: &Problem) -> String {
    let subproblems = problem.subproblems.iter().map(ToString::to_string);
    let kind = problem.r#type.as_deref().unwrap_or("no type");
    let detail = problem.detail.as_deref().unwrap_or("no reason");
    let all: Vec<String> = std::iter::once(format!("{detail} ({kind})")).chain(subproblems).collect();
    all.join("; ")
}

/// Without what could change a terminal, and of limited length.
fn shortened(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(plain).take(MESSAGE_CHARACTERS_MAX).collect()
}

const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

#[cfg(test)]
mod tests;
