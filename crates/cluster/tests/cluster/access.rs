//! How a node and NATS prove to each other who they are: credentials of each kind, rights, certificates.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cluster::{Credentials, Directory, Policy, Settings};
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa};

use crate::server::{Server, described, home, node, stream, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_used_and_never_shown() {
    let Some(server) = Server::start_with(&["--user", "mill", "--pass", "s3cret"]).await else { return };
    let mut settings = server.settings("a");
    settings.credentials =
        Credentials::UserPassword { user: "mill".to_owned(), password: "s3cret".to_owned() };
    assert!(!format!("{settings:?}").contains("s3cret"));
    let a = Directory::connect(settings.clone()).await.unwrap();
    assert!(a.health().named);

    settings.name = node("b");
    settings.credentials =
        Credentials::UserPassword { user: "mill".to_owned(), password: "wrong".to_owned() };
    let b = Directory::connect(settings.clone()).await.unwrap();
    assert!(!b.health().heard, "it goes on without");
    let problem = b.health().last_problem.unwrap_or_default();
    assert!(problem.to_lowercase().contains("authorization"), "{problem}");

    settings.credentials = Credentials::File("/nowhere/at/all".into());
    let error = Directory::connect(settings).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lets_in_and_another_does_not() {
    let Some(server) = Server::start_with(&["--auth", "s3cret"]).await else { return };
    let with = |token: &str| Credentials::Token(token.to_owned());
    lets_in(&server, with("s3cret"), with("wrong"), "authorization").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_nkey_lets_in_and_another_does_not() {
    let key = KeyPair::new_user();
    let public = key.public_key();
    let configuration = |_: &Path| format!("authorization {{ users = [ {{ nkey: {public} }} ] }}");
    let Some(server) = Server::start_configured(configuration).await else { return };
    let with = |key: &KeyPair| Credentials::NkeySeed(key.seed().unwrap());
    lets_in(&server, with(&key), with(&KeyPair::new_user()), "authorization").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_credentials_lets_in_and_that_of_another_account_does_not() {
    let operator = KeyPair::new_operator();
    let [account, other, system] = [(); 3].map(|()| KeyPair::new_account());
    // JetStream, which is kept from the system's account.
    let storage = r#""mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1,"#;
    let operators = token(&operator, &operator, r#""type":"operator","version":2"#);
    let resolved = |account: &KeyPair, limits: &str| {
        let all = r#""subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"conn":-1,"leaf":-1"#;
        let about = format!(r#""limits":{{{limits}{all}}},"type":"account","version":2"#);
        let token = token(account, &operator, &about);
        format!("{}: {token}", account.public_key())
    };
    let configuration = |folder: &Path| {
        for (file, account) in [("right.creds", &account), ("wrong.creds", &other)] {
            let user = KeyPair::new_user();
            let rights = r#""pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2"#;
            let (token, seed) = (token(&user, account, rights), user.seed().unwrap());
            let text = format!(
                "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            );
            std::fs::write(folder.join(file), text).unwrap();
        }
        let accounts = format!("{}\n{}", resolved(&account, storage), resolved(&system, ""));
        let system = system.public_key();
        format!(
            "operator: {operators}\nsystem_account: {system}\nresolver: MEMORY\n\
             resolver_preload: {{\n{accounts}\n}}"
        )
    };
    let Some(server) = Server::start_configured(configuration).await else { return };
    let with = |file: &str| Credentials::File(server.file(file));
    lets_in(&server, with("right.creds"), with("wrong.creds"), "authorization").await;
}

/// A token about `subject`, signed by `issuer`: JSON Web Tokens of NATS, with what they say about `nats`.
fn token(subject: &KeyPair, issuer: &KeyPair, nats: &str) -> String {
    let (sub, iss) = (subject.public_key(), issuer.public_key());
    let claims =
        format!(r#"{{"jti":"{sub}","iat":1,"iss":"{iss}","name":"{sub}","sub":"{sub}","nats":{{{nats}}}}}"#);
    let [head, claims] =
        [r#"{"typ":"JWT","alg":"ed25519-nkey"}"#, &claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{head}.{claims}");
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// What docs/cluster-directory.md names is all that a node needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_that_the_page_names_are_enough() {
    let page = include_str!("../../../../docs/cluster-directory.md");
    let rights = page.split("rights for").nth(1).unwrap().split(':').next().unwrap();
    let rights: Vec<_> = rights.split('`').skip(1).step_by(2).map(|right| format!("\"{right}\"")).collect();
    assert!(rights.len() >= 4, "{rights:?}");
    let rights = rights.join(", ");
    let configuration = |_: &Path| {
        format!(
            "authorization {{ users = [ {{ user: mill, password: pass, \
             permissions: {{ publish: [{rights}], subscribe: [{rights}] }} }} ] }}"
        )
    };
    let Some(server) = Server::start_configured(configuration).await else { return };
    let [a, b] = ["a", "b"].map(|name| Settings {
        credentials: Credentials::UserPassword { user: "mill".to_owned(), password: "pass".to_owned() },
        ..server.settings(name)
    });
    let (a, b) = (Directory::connect(a).await.unwrap(), Directory::connect(b).await.unwrap());
    assert!(!a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap().provisional);
    until("it is found", || home(&b, "live/a").is_some()).await;
    b.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap_err();
    a.leave().await;
    until("it has left", || home(&b, "live/a").is_none()).await;
    assert_eq!(b.health().last_problem, None);
}

/// One node with the right credentials is in, one with others goes on without NATS and knows why.
async fn lets_in(server: &Server, right: Credentials, wrong: Credentials, problem: &str) {
    let a = Directory::connect(Settings { credentials: right, ..server.settings("a") }).await.unwrap();
    assert!(a.health().named, "{:?}", a.health().last_problem);
    let b = Directory::connect(Settings { credentials: wrong, ..server.settings("b") }).await.unwrap();
    refused(&b, problem);
}

fn refused(node: &Directory, problem: &str) {
    assert!(!node.health().heard, "it goes on without");
    let why = node.health().last_problem.unwrap_or_default();
    assert!(why.to_lowercase().contains(problem), "{why}");
}

/// An authority, and what it certifies.
struct Authority(CertifiedIssuer<'static, rcgen::KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its certificate to `NAME.ca.pem`.
    fn write(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.ca.pem")), self.0.pem()).unwrap();
    }

    /// Writes `NAME.pem` and `NAME.key` for a host.
    fn certify(&self, folder: &Path, name: &str, host: &str) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Of a server with this certificate; `more` about clients.
fn tls(folder: &Path, name: &str, more: &str) -> String {
    let folder = folder.display();
    format!("tls {{\n cert_file: \"{folder}/{name}.pem\"\n key_file: \"{folder}/{name}.key\"\n {more}\n}}")
}

fn trusting(server: &Server, node: &str, authority: &str) -> Settings {
    let mut settings = server.settings(node);
    settings.tls.required = true;
    settings.tls.ca_file = Some(server.file(&format!("{authority}.ca.pem")));
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_certificate_of_a_known_authority_is_trusted_and_no_other() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let configuration = |folder: &Path| {
        known.write(folder, "known");
        unknown.write(folder, "unknown");
        known.certify(folder, "server", "127.0.0.1");
        tls(folder, "server", "")
    };
    let Some(server) = Server::start_configured(configuration).await else { return };
    let a = Directory::connect(trusting(&server, "a", "known")).await.unwrap();
    assert!(a.health().named, "{:?}", a.health().last_problem);
    a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();

    let by_scheme =
        Settings { servers: vec![format!("tls://127.0.0.1:{}", server.port)], ..server.settings("b") };
    let b = Directory::connect(by_scheme).await.unwrap();
    refused(&b, "certificate");
    refused(&Directory::connect(trusting(&server, "c", "unknown")).await.unwrap(), "certificate");
    let nowhere = trusting(&server, "d", "nowhere");
    let error = Directory::connect(nowhere).await.unwrap_err();
    assert!(error.to_string().contains("nowhere.ca.pem"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_certificate_of_another_host_is_not_trusted() {
    let authority = Authority::new();
    let configuration = |folder: &Path| {
        authority.write(folder, "known");
        authority.certify(folder, "server", "elsewhere.example");
        tls(folder, "server", "")
    };
    let Some(server) = Server::start_configured(configuration).await else { return };
    refused(&Directory::connect(trusting(&server, "a", "known")).await.unwrap(), "certificate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_certificates_gets_the_node_s() {
    let authority = Authority::new();
    let configuration = |folder: &Path| {
        authority.write(folder, "known");
        authority.certify(folder, "server", "127.0.0.1");
        authority.certify(folder, "node", "node.example");
        tls(folder, "server", &format!("ca_file: \"{}/known.ca.pem\"\n verify: true", folder.display()))
    };
    let Some(server) = Server::start_configured(configuration).await else { return };
    let mut settings = trusting(&server, "a", "known");
    settings.tls.certificate = Some((server.file("node.pem"), server.file("node.key")));
    let a = Directory::connect(settings).await.unwrap();
    assert!(a.health().named, "{:?}", a.health().last_problem);
    let without = Directory::connect(trusting(&server, "b", "known")).await.unwrap();
    assert!(!without.health().heard, "it goes on without");
    assert!(without.health().last_problem.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let Some(server) = Server::start().await else { return };
    let mut settings = server.settings("a");
    settings.tls.required = true;
    // It answers the hello of TLS with what is none.
    refused(&Directory::connect(settings).await.unwrap(), "corrupt message");
}
